//! The tools on Relax in TVMScript: each accepts it like Relay text, or says why not.
#![cfg(feature = "native")]

#[path = "common/folder.rs"]
mod folder;

use std::path::Path;
use std::process::{Command, Output};

use folder::Folder;

const SCRIPT: &str = "\
# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype=\"float32\")) -> R.Tensor((2, 3), dtype=\"float32\"):
        with R.dataflow():
            y: R.Tensor((2, 3), dtype=\"float32\") = R.exp(x)
            R.output(y)
        return y
";

fn call(dir: &Path, tool: &str, args: &[&str]) -> Output {
    let mut command = Command::new(tool);
    command.args(args).current_dir(dir).env("NO_COLOR", "1");
    command.output().expect("the tool starts")
}

fn said(o: &Output) -> String {
    let both = [&o.stdout[..], &o.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn tools_take_tvmscript() {
    let folder = Folder::new("scripts");
    let dir = folder.0.as_path();
    std::fs::write(dir.join("m.py"), SCRIPT).expect("it can be written");
    let calls: [(&str, &[&str]); 9] = [
        (env!("CARGO_BIN_EXE_relax-check"), &["m.py"]),
        (env!("CARGO_BIN_EXE_relax-opt"), &["m.py", "-o", "out.py"]),
        (
            env!("CARGO_BIN_EXE_relax-opt"),
            &["out.py", "--structural-equal", "m.py"],
        ),
        (env!("CARGO_BIN_EXE_relax-opt"), &["m.py", "-o", "m.svg"]),
        (env!("CARGO_BIN_EXE_relax-run"), &["m.py", "--random", "1"]),
        (
            env!("CARGO_BIN_EXE_relax-run"),
            &["m.py", "--random", "1", "--engine", "vm"],
        ),
        (
            env!("CARGO_BIN_EXE_relax-bisect"),
            &["m.py", "--pipeline", "O2"],
        ),
        (env!("CARGO_BIN_EXE_relaxc"), &["m.py", "-o", "m.o"]),
        (env!("CARGO_BIN_EXE_relaxc"), &["m.py", "-o", "m.vm"]),
    ];
    for (tool, args) in calls {
        let o = call(dir, tool, args);
        assert_eq!(o.status.code(), Some(0), "{args:?}: {}", said(&o));
    }
    // By the output's extension, and unchanged.
    let out = std::fs::read_to_string(dir.join("out.py")).expect("a text");
    assert_eq!(out.trim_end(), SCRIPT.trim_end());
}

#[test]
fn tools_say_why_they_do_not() {
    let folder = Folder::new("no-scripts");
    let dir = folder.0.as_path();
    std::fs::write(dir.join("m.py"), SCRIPT).expect("it can be written");
    for (tool, why) in [
        (
            env!("CARGO_BIN_EXE_relax-fmt"),
            "m.py stays as it is: it is TVMScript",
        ),
        (env!("CARGO_BIN_EXE_relax-import"), "m.py is TVMScript"),
    ] {
        let o = call(dir, tool, &["m.py"]);
        assert_eq!(o.status.code(), Some(2), "{}", said(&o));
        assert!(said(&o).contains(why), "{}", said(&o));
    }
    let after = std::fs::read_to_string(dir.join("m.py")).expect("a text");
    assert_eq!(after, SCRIPT);
}

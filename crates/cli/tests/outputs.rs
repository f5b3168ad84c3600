//! Common behaviour of all tools: outputs, exit codes, help.
#![cfg(all(feature = "native", unix))]

#[path = "common/folder.rs"]
mod folder;

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use folder::Folder;

const TOOLS: &[(&str, &str)] = &[
    ("relax-fmt", env!("CARGO_BIN_EXE_relax-fmt")),
    ("relax-check", env!("CARGO_BIN_EXE_relax-check")),
    ("relax-opt", env!("CARGO_BIN_EXE_relax-opt")),
    ("relax-bisect", env!("CARGO_BIN_EXE_relax-bisect")),
    ("relax-run", env!("CARGO_BIN_EXE_relax-run")),
    ("relaxc", env!("CARGO_BIN_EXE_relaxc")),
];

fn tool(name: &str) -> Command {
    let path = TOOLS.iter().find(|t| t.0 == name).expect("a tool").1;
    let mut command = Command::new(path);
    command.env("NO_COLOR", "1");
    command
}

fn call(dir: &Path, line: &str) -> Output {
    let mut words = line.split(' ');
    let mut command = tool(words.next().expect("a tool"));
    command.args(words).current_dir(dir).stdin(Stdio::null());
    command.output().expect("the tool starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the error output of an invalid call.
fn refused(dir: &Path, line: &str) -> String {
    let o = call(dir, line);
    assert_eq!(o.status.code(), Some(2), "{line}: {}", text(&o.stderr));
    assert_eq!(text(&o.stdout), "", "{line}");
    text(&o.stderr)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a folder").flatten();
    let mut names: Vec<_> = entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

const TEXT: &str = "def @main(%x: Tensor[(2,), float32]) { %x }\n";

#[test]
fn no_output_goes_where_something_is_read() {
    let dir = Folder::new("both");
    dir.write("m.relay", TEXT).write("w.npz", "none");
    dir.write("tree/00_input.relay", TEXT);
    std::os::unix::fs::symlink("m.relay", dir.0.join("link.relay")).expect("a link");
    std::fs::hard_link(dir.0.join("m.relay"), dir.0.join("twin.relay")).expect("a link");
    let before = names(&dir.0);
    for line in [
        "relax-opt m.relay -o m.relay",
        "relax-opt m.relay -o ./m.relay",
        "relax-opt m.relay -o link.relay",
        "relax-opt link.relay -o twin.relay",
        "relax-opt m.relay --reproducer m.relay",
        "relax-opt m.relay -o x.relay --reproducer ./x.relay",
        "relax-opt tree/00_input.relay --pipeline infer-type --print-ir-tree-dir tree -o out.relay",
        "relax-bisect m.relay -O2 -o link.relay",
        "relax-run m.relay --inputs w.npz --outputs w.npz",
        "relaxc m.relay --params w.npz --emit loops -o twin.relay",
    ] {
        let said = refused(&dir.0, line);
        assert!(
            said.contains("read") || said.contains("two outputs"),
            "{line}: {said}"
        );
        assert_eq!(dir.read("m.relay"), TEXT, "{line}");
        assert_eq!(dir.read("tree/00_input.relay"), TEXT, "{line}");
        assert_eq!(names(&dir.0), before, "{line}");
    }
    // Standard streams are files too.
    let input = std::fs::File::open(dir.0.join("m.relay")).expect("there");
    let output = std::fs::OpenOptions::new()
        .append(true)
        .open(dir.0.join("m.relay"));
    let ended = tool("relax-opt")
        .stdin(input)
        .stdout(output.expect("there"))
        .status();
    assert_eq!(ended.expect("it starts").code(), Some(2));
    assert_eq!(dir.read("m.relay"), TEXT);
}

#[test]
fn extensions_say_what_is_written_or_it_is_refused() {
    let dir = Folder::new("extensions");
    dir.write("m.relay", TEXT);
    let before = names(&dir.0);
    for (line, said) in [
        (
            "relax-opt m.relay --emit text -o m.npz",
            "a text does not go into m.npz",
        ),
        (
            "relax-opt m.relay --reproducer m.o",
            "a text does not go into m.o",
        ),
        (
            "relax-bisect m.relay -O1 -o m.json",
            "a text does not go into m.json",
        ),
        (
            "relax-run m.relay --random 1 --outputs m.so",
            ".npz, .safetensors, .txt or .json",
        ),
        (
            "relax-run m.relay --random 1 --outputs m",
            "cannot tell from its name",
        ),
        ("relaxc m.relay -o m", "`--emit exe`"),
        ("relaxc m.relay -o m.npz", "cannot tell from its name"),
        (
            "relaxc m.relay -o m.so --emit exe",
            "--emit exe does not go into m.so",
        ),
        (
            "relaxc m.relay -o m.s --emit obj",
            "its extension would be .o or .obj",
        ),
    ] {
        let found = refused(&dir.0, line);
        assert!(found.contains(said), "{line}: {found}");
        assert_eq!(names(&dir.0), before, "{line}");
    }
    for name in ["m.o", "m.a", "m.so", "m.h", "m.s"] {
        let o = call(&dir.0, &format!("relaxc m.relay -o {name}"));
        assert_eq!(o.status.code(), Some(0), "{name}: {}", text(&o.stderr));
    }
    let starts = |name: &str, with: &[u8]| {
        let bytes = std::fs::read(dir.0.join(name)).expect("written");
        assert!(bytes.starts_with(with), "{name}");
    };
    starts("m.o", b"\x7fELF");
    starts("m.a", b"!<arch>\n");
    starts("m.so", b"\x7fELF");
    starts("m.h", b"/* Entries of m");
    starts("m.s", b"");
}

#[test]
fn results_are_written_in_every_form() {
    let dir = Folder::new("results");
    dir.write(
        "m.relay",
        "def @main() { (1.5f, True) }\ndef @one() { 7 }\n",
    );
    let run = |line: &str| {
        let o = call(&dir.0, line);
        assert_eq!(o.status.code(), Some(0), "{line}: {}", text(&o.stderr));
        assert_eq!(text(&o.stdout), "", "{line}");
    };
    run("relax-run m.relay --outputs r.txt");
    assert_eq!(dir.read("r.txt"), "(1.5, True)\n");
    run("relax-run m.relay --outputs r.json");
    let json: serde_json::Value = serde_json::from_str(&dir.read("r.json")).expect("JSON");
    assert_eq!(json[0]["dtype"], "float32");
    assert_eq!(json[0]["data"], 1.5);
    assert_eq!(json[1]["data"], true);
    for name in ["r.npz", "r.safetensors"] {
        run(&format!("relax-run m.relay --outputs {name}"));
        let all = relax_cli::weights::read(&dir.0.join(name)).expect("arrays");
        let names: Vec<&str> = all.iter().map(|a| a.0.as_str()).collect();
        assert_eq!(names, ["out0", "out1"], "{name}");
        assert_eq!(all[0].1.get_f64(0), 1.5, "{name}");
    }
    let said = refused(&dir.0, "relax-run m.relay --outputs r.npy");
    assert!(
        said.contains("would hold one array, and there are 2"),
        "{said}"
    );
    run("relax-run m.relay --entry one --outputs r.npy");
    let one = relax_cli::weights::read(&dir.0.join("r.npy")).expect("an array");
    assert_eq!(one[0].1.get_i64(0), 7);
}

const DATA: &str = "type Seq[a] { Empty, Cell(a, Seq[a]) }
type Tree[a] { Leaf, Fork(Seq[Tree[a]], a) }
type Maybe[a] { Nothing, Just(a) }
def @main() {
  let %leaf: Tree[Maybe[bool]] = Leaf;
  let %few = Cell(%leaf, Cell(Fork(Empty, Just(True)), Empty));
  (Fork(%few, Nothing), Just(3))
}
def @count(%n: int32, %tail: Seq[int32]) -> Seq[int32] {
  if (%n == 0) { %tail } else { @count(%n - 1, Cell(%n, %tail)) }
}
def @long() { @count(50000, Empty) }
";

#[test]
fn lists_trees_and_options_are_printed_and_saved() {
    let dir = Folder::new("data");
    dir.write("m.relay", DATA);
    for engine in ["native", "interp"] {
        let run = |more: &str| {
            let line = format!("relax-run m.relay --engine {engine}{more}");
            let o = call(&dir.0, &line);
            assert_eq!(o.status.code(), Some(0), "{line}: {}", text(&o.stderr));
            text(&o.stdout)
        };
        assert_eq!(
            run(""),
            "(Fork(Cell(Leaf, Cell(Fork(Empty, Just(True)), Empty)), Nothing), Just(3))\n"
        );
        let long = run(" --entry long");
        assert!(long.starts_with("Cell(1, Cell(2, "), "{engine}");
        assert!(long.contains("Cell(50000, Empty)"), "{engine}");
        run(" --outputs r.npz");
        let all = relax_cli::weights::read(&dir.0.join("r.npz")).expect("arrays");
        let at = |name: &str| &all.iter().find(|a| a.0 == name).expect("an array").1;
        assert_eq!(at("out1").get_i64(0), 3);
        // Fork, Cell, Leaf, Cell, Fork, Empty, Just, Empty, Nothing, Just.
        assert_eq!(
            at("constructors").slice::<i32>(),
            [1, 1, 0, 1, 1, 0, 1, 0, 0, 1]
        );
        run(" --outputs r.json");
        let json: serde_json::Value = serde_json::from_str(&dir.read("r.json")).expect("JSON");
        assert_eq!(json[1]["constructor"], "Just");
        assert_eq!(json[1]["fields"][0]["data"], 3);
        run(" --entry long --outputs r.txt");
    }
}

const LISTS: &str = "\
def @main(%list: List[Tensor[(?,), int32]], %more: Option[Tensor[(1,), int32]]) {
  let %all = match (%more) { Some(%x) => Cons(%x, %list), None => %list };
  (@rev(%all), @length(%list), %more)
}
";

#[test]
fn lists_and_options_are_taken_and_given_as_their_tensors() {
    let dir = Folder::new("lists");
    dir.write("m.relay", LISTS);
    let vector = |v: &[i32]| relax_tensor::Tensor::from_slice(&[v.len() as i64], v);
    let part = |name: &str, v: &[i32]| (name.to_owned(), vector(v));
    let list = [part("list.0", &[1, 2]), part("list.1", &[])];
    let all = [list.to_vec(), vec![part("more", &[7])]].concat();
    for engine in ["native", "interp"] {
        let run = |given: &[(String, relax_tensor::Tensor)]| {
            relax_cli::npz::write(&dir.0.join("in.npz"), given).expect("written");
            let rest = "--inputs in.npz --outputs out.npz";
            let o = call(
                &dir.0,
                &format!("relax-run m.relay --engine {engine} {rest}"),
            );
            assert_eq!(o.status.code(), Some(0), "{}", text(&o.stderr));
            let out = relax_cli::weights::read(&dir.0.join("out.npz")).expect("arrays");
            let shown = |(name, t): (String, relax_tensor::Tensor)| {
                let elements: Vec<i64> = (0..t.len()).map(|i| t.get_i64(i)).collect();
                format!("{name} {elements:?}")
            };
            out.into_iter().map(shown).collect::<Vec<_>>()
        };
        let same = ["out0 []", "out1 [1, 2]", "out2 [7]", "out3 [2]", "out4 [7]"];
        assert_eq!(run(&all), same, "{engine}");
        // An omitted option is absent; an omitted list is empty.
        assert_eq!(run(&list[..1]), ["out0 [1, 2]", "out1 [1]"], "{engine}");
        assert_eq!(run(&[]), ["out0 [0]"], "{engine}");
    }
}

#[test]
fn standard_input_is_read_where_no_file_is_given() {
    let dir = Folder::new("stdin");
    dir.write("m.relay", TEXT);
    for (line, out) in [
        ("relax-fmt", "def @main("),
        ("relax-check --format short", ""),
        ("relax-opt --no-types", "#[version"),
        ("relax-bisect -O1", ""),
        ("relax-run --random 1", "Tensor[(2,), float32]"),
        ("relaxc -o - --emit loops", ""),
    ] {
        let mut words = line.split(' ');
        let mut command = tool(words.next().expect("a tool"));
        let file = std::fs::File::open(dir.0.join("m.relay")).expect("there");
        let o = command.args(words).stdin(file).output().expect("it starts");
        assert_eq!(o.status.code(), Some(0), "{line}: {}", text(&o.stderr));
        assert!(
            text(&o.stdout).starts_with(out),
            "{line}: {}",
            text(&o.stdout)
        );
    }
}

#[test]
fn every_tool_says_what_it_is() {
    let dir = Folder::new("about");
    for (name, _) in TOOLS {
        let print = |flags: &str| {
            let o = call(&dir.0, &format!("{name} {flags}"));
            assert_eq!(
                o.status.code(),
                Some(0),
                "{name} {flags}: {}",
                text(&o.stderr)
            );
            text(&o.stdout)
        };
        let version = print("--version");
        let start = format!("{name} {}", env!("CARGO_PKG_VERSION"));
        assert!(version.starts_with(&start), "{version}");
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = print(&format!("--completions {shell}"));
            assert!(
                script.contains(name) && script.contains("completions"),
                "{shell}"
            );
        }
        let page = print("--man");
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
        for help in [print("--help"), print("-h")] {
            assert!(help.contains("--completions <SHELL>"), "{help}");
            let long = help.lines().find(|l| l.chars().count() > 100);
            // Examples are shown as they are typed.
            assert!(long.is_none_or(|l| l.contains("relax")), "{name}: {long:?}");
        }
    }
}

/// Standard streams that were closed by their readers.
#[test]
fn closed_pipes_end_no_tool_badly() {
    let dir = Folder::new("closed");
    dir.write("m.relay", "def @main() { add(1, 2) }\n");
    dir.write("bad.relay", "def @main() { %x }\n");
    for (line, code) in [
        ("relax-fmt --diff m.relay", 1),
        ("relax-fmt bad.relay none.relay", 2),
        ("relax-check bad.relay none.relay", 2),
        ("relax-check --explain RX0301", 0),
        (
            "relax-opt m.relay -O2 --timing --stats --dump-pipeline --print-ir-after-all",
            0,
        ),
        ("relax-opt m.relay --structural-equal bad.relay", 2),
        ("relax-opt --list-passes", 0),
        ("relax-opt --nothing", 2),
        ("relax-opt --help", 0),
        ("relax-bisect m.relay -O2", 0),
        ("relax-run bad.relay", 1),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut words = line.split(' ');
        let mut command = tool(words.next().expect("a tool"));
        command.args(words).current_dir(&dir.0).stdin(Stdio::null());
        command
            .stdout(writer.try_clone().expect("a pipe"))
            .stderr(writer);
        let ended = command.status().expect("it starts");
        assert_eq!(ended.code(), Some(code), "{line}");
        dir.write("m.relay", "def @main() { add(1, 2) }\n");
    }
}

#[test]
fn an_interrupted_tool_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = Folder::new("interrupted");
    dir.write("m.relay", TEXT).write("temporary/.keep", "");
    // A C compiler that signals when it is called, and does not exit before the test.
    dir.write(
        "cc",
        "#!/bin/sh\n: > called\nwhile [ -e called ]; do sleep 0.05; done\n",
    );
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.0.join("cc"), mode).expect("ours");
    // A tool that was started with a signal ignored keeps ignoring it, like background jobs of a
    // shell.
    let mut child = Command::new("env")
        .arg("--default-signal=INT")
        .arg(tool("relaxc").get_program())
        .args(["m.relay", "-o", "m", "--emit", "exe"])
        .current_dir(&dir.0)
        .env("CC", dir.0.join("cc"))
        .env("TMPDIR", dir.0.join("temporary"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    while !dir.0.join("called").exists() {
        assert!(
            child.try_wait().expect("a child").is_none(),
            "it ended early"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(
        names(&dir.0.join("temporary")).len(),
        2,
        "the linker's folder"
    );
    let interrupt = |pid: u32| {
        Command::new("kill")
            .args(["-INT", &pid.to_string()])
            .status()
    };
    assert!(interrupt(child.id()).expect("kill").success());
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.signal(), Some(2), "{ended:?}");
    assert_eq!(names(&dir.0.join("temporary")), [".keep"]);
    assert_eq!(names(&dir.0), ["called", "cc", "m.relay", "temporary"]);
}

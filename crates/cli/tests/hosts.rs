//! The examples of host programs: compiled by relaxc, linked, run.
#![cfg(all(feature = "native", target_os = "linux"))]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn ok(out: &Output) -> String {
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn relaxc(dir: &Path, args: &[&str]) {
    let example = root().join("examples/call_packed.relay");
    let ran = Command::new(env!("CARGO_BIN_EXE_relaxc"))
        .arg(example)
        .args(args)
        .current_dir(dir)
        .output();
    ok(&ran.expect("relaxc runs"));
}

#[test]
fn a_c_program_calls_a_static_library() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let dir = room.path();
    relaxc(dir, &["-o", "libmodel.a", "--emit", "static"]);
    relaxc(dir, &["-o", "model.h", "--emit", "header"]);
    let built = Command::new("cc")
        .current_dir(dir)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", "-I"])
        .arg(root().join("crates/runtime/include"))
        .arg(root().join("examples/c/model.c"))
        .args(["libmodel.a", "-o", "program", "-lpthread", "-ldl", "-lm"])
        .output();
    ok(&built.expect("a C compiler"));
    let ran = Command::new(dir.join("program")).output();
    let text = ok(&ran.expect("just built"));
    assert_eq!(
        text,
        "error: call_packed.relay:2:1: @main: no packed function \"host.print\" is registered\n\
         host.print: (2, 3)\n\
         1 2 3 1 2 3\n4 5 6 4 5 6\nlive objects: 0\n"
    );
}

#[test]
fn a_rust_program_calls_a_shared_library() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let dir = room.path();
    relaxc(dir, &["-o", "libmodel.so", "--emit", "shared"]);
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let built = Command::new(compiler)
        .current_dir(dir)
        .args([
            "--edition",
            "2024",
            "-L",
            ".",
            "-l",
            "dylib=model",
            "-o",
            "program",
        ])
        .arg(root().join("examples/rust/model.rs"))
        .output();
    ok(&built.expect("rustc"));
    let ran = Command::new(dir.join("program"))
        .env("LD_LIBRARY_PATH", dir)
        .output();
    let text = ok(&ran.expect("just built"));
    assert_eq!(
        text,
        "host.print: (2, 3)\n[1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0]\n\
         host.print: (1, 2)\n[1.0, 2.0, 1.0, 2.0]\nhost.tile: 2 calls\n"
    );
}

#[test]
fn a_python_program_calls_a_shared_library() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let numpy = Command::new(&python).args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|o| o.status.success()) {
        println!("skipped: `{python}` has no numpy (PYTHON names another interpreter)");
        return;
    }
    let room = tempfile::tempdir().expect("a temporary folder");
    let dir = room.path();
    relaxc(dir, &["-o", "libmodel.so", "--emit", "shared"]);
    let ran = Command::new(python)
        .arg(root().join("examples/python/model.py"))
        .arg(dir.join("libmodel.so"))
        .output();
    let text = ok(&ran.expect("python runs"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "host.print: (2, 3)",
            "[[1.0, 2.0, 3.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 4.0, 5.0, 6.0]]",
            "host.print: (1, 2)",
            "[[1.0, 2.0, 1.0, 2.0]]",
            "host.print: (1, 2)",
        ]
    );
    assert_eq!(
        lines[5],
        "error: packed function \"host.tile\" failed: not today"
    );
    assert!(
        lines[6].contains("the element type is not float32"),
        "{text}"
    );
    assert!(
        lines[7].contains("the rank should be 2, but is 1"),
        "{text}"
    );
}

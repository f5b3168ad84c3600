//! Builds and runs a C program against the headers and the static and shared libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder in which Cargo put this test and the libraries.
fn libraries() -> PathBuf {
    let exe = std::env::current_exe().expect("a test has a path");
    exe.parent()
        .expect("a file lies in a directory")
        .to_path_buf()
}

fn run(library: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let room = tempfile::tempdir().expect("a temporary directory");
    let program = room.path().join("program");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let library = libraries().join(library);
    assert!(library.exists(), "{} was not built", library.display());
    let built = Command::new(&compiler)
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
        ])
        .arg("-I")
        .arg(here.join("include"))
        .arg(here.join("tests/program.c"))
        .arg(&library)
        .arg("-o")
        .arg(&program)
        .args(["-lpthread", "-ldl", "-lm"])
        .output();
    let built = match built {
        Ok(built) => built,
        Err(reason) => {
            println!("left out: no C compiler ({compiler}: {reason})");
            return;
        }
    };
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let ran = Command::new(&program)
        .env("LD_LIBRARY_PATH", libraries())
        .output()
        .expect("the program was just built");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}: {errors}", ran.status);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "ok\n");
}

#[test]
#[cfg(unix)]
fn a_c_program_runs_with_the_static_library() {
    run("librelax_runtime.a");
}

#[test]
#[cfg(target_os = "linux")]
fn a_c_program_runs_with_the_shared_library() {
    run("librelax_runtime.so");
}

#[test]
#[cfg(unix)]
fn the_headers_are_cpp_too() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = here.join("include/relax_kernels.h");
    let checked = Command::new("c++")
        .args(["-fsyntax-only", "-x", "c++"])
        .arg(header)
        .output();
    match checked {
        Ok(done) => assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        ),
        Err(reason) => println!("left out: no C++ compiler ({reason})"),
    }
}

/// The headers compile without warnings under a strict compiler of any standard.
#[test]
fn headers_are_standard_c_and_cpp() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let room = tempfile::tempdir().expect("a temporary directory");
    let languages = [
        ("CC", "cc", "h.c", &["c99", "c11", "c17"][..]),
        (
            "CXX",
            "c++",
            "h.cc",
            &["c++98", "c++11", "c++17", "c++20"][..],
        ),
    ];
    for (variable, usual, file, standards) in languages {
        let compiler = std::env::var(variable).unwrap_or_else(|_| usual.into());
        let file = room.path().join(file);
        std::fs::write(
            &file,
            "#include <relax_runtime.h>\n#include <relax_kernels.h>\nint main(void) { return 0; }\n",
        )
        .expect("writable");
        for standard in standards {
            let built = Command::new(&compiler)
                .arg(format!("-std={standard}"))
                .args([
                    "-Wall",
                    "-Wextra",
                    "-pedantic",
                    "-Werror",
                    "-fsyntax-only",
                    "-I",
                ])
                .arg(&include)
                .arg(&file)
                .output();
            match built {
                Err(reason) => println!("left out: no compiler ({compiler}: {reason})"),
                Ok(built) => {
                    let said = String::from_utf8_lossy(&built.stderr);
                    assert!(built.status.success(), "{standard}: {said}");
                }
            }
        }
    }
}

//! Follows `docs/embedding.md` like a first-time reader: in an empty folder, with nothing but
//! relaxc, every command and program must give the documented output.
#![cfg(all(feature = "native", target_os = "linux"))]

use std::path::Path;
use std::process::Command;

/// Returns the fenced blocks of a page: the info string, and the text.
fn parts(page: &str) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((info.to_owned(), String::new())),
            (Some(_), Some(_)) => parts.extend(open.take()),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    parts
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Returns the output of commands in this folder, with the tool in `bin`.
fn run(room: &Path, commands: &str) -> String {
    let old = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{old}", room.join("bin").display());
    let out = Command::new("sh")
        .args(["-e", "-c", commands])
        .current_dir(room.join("work"))
        .env("PATH", path)
        .env("RELAX_KIT", room.join("kit"))
        .env_remove("RELAX_RUNTIME")
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{commands}{said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn the_page_holds_from_an_empty_folder() {
    let room = tempfile::tempdir().expect("a temporary folder");
    for folder in ["bin", "work"] {
        std::fs::create_dir(room.path().join(folder)).expect("a folder");
    }
    // Like `cargo install`: the program alone.
    std::fs::copy(env!("CARGO_BIN_EXE_relaxc"), room.path().join("bin/relaxc")).expect("a copy");
    let page = include_str!("../../../docs/embedding.md");
    let (mut said, mut checked) = (String::new(), 0);
    for (info, text) in parts(page) {
        match info.split_once(' ') {
            Some((_, file)) => {
                std::fs::write(room.path().join("work").join(file), text).expect("written")
            }
            None if info == "sh" => {
                let needs = ["rustc", "python3", "c++"].map(|p| (p, text.contains(p)));
                match needs.iter().find(|(p, needed)| *needed && !has(p)) {
                    Some((program, _)) => {
                        println!("left out: there is no {program}");
                        said.clear();
                    }
                    None => said = run(room.path(), &text),
                }
            }
            None if info == "text" && !said.is_empty() => {
                assert_eq!(said, text);
                checked += 1;
            }
            None => {}
        }
    }
    // A C compiler is always there.
    assert!(checked >= 2, "{checked} outputs");
}

#[test]
fn cmake_gets_a_target() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let out = Command::new(env!("CARGO_BIN_EXE_relaxc"))
        .args(["--print", "cmake"])
        .env("RELAX_KIT", room.path())
        .output()
        .expect("relaxc runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.starts_with("add_library(relax_runtime STATIC IMPORTED)"),
        "{text}"
    );
    for part in text.split('"').skip(1).step_by(2).take(2) {
        assert!(Path::new(part).exists(), "{part}");
    }
}

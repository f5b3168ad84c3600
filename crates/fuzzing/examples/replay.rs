//! Runs a target on files: the findings of a long run, or inputs made by hand.
//!
//!     cargo run --release -p relax-fuzzing --example replay -- front FILES…
//!
//! Each file that is a finding is named with what the target says of it; the exit code is 1 if there
//! is one.

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some(target) = relax_fuzzing::target(&name) else {
        let names: Vec<&str> = relax_fuzzing::TARGETS.iter().map(|t| t.name).collect();
        eprintln!(
            "usage: replay TARGET FILES…, with a target of {}",
            names.join(", ")
        );
        return ExitCode::from(2);
    };
    let (mut files, mut findings) = (0, 0);
    for path in arguments {
        let data = match std::fs::read(&path) {
            Ok(data) => data,
            Err(e) => {
                eprintln!("{path}: {e}");
                return ExitCode::from(2);
            }
        };
        files += 1;
        let run = target.run;
        if catch_unwind(move || run(&data)).is_err() {
            findings += 1;
            println!("{path}: a finding");
        }
    }
    println!("{files} files, {findings} findings");
    ExitCode::from(u8::from(findings > 0))
}

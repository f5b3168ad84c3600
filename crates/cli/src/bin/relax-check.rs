//! `relax-check FILE…`: reads modules and reports what is wrong with them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use relax_base::{Diagnostics, Severity};
use relax_cli::{exit, io, render};
use relax_driver::{InferOptions, ReadOptions, Session};

/// Checks Relay and Relax texts: syntax, names, types, shapes, matches, effects.
#[derive(Parser, Debug)]
#[command(name = "relax-check", version)]
struct Args {
    /// The files; `-` reads standard input. Folders stand for all `.relay` files in them.
    #[arg(required_unless_present = "explain")]
    files: Vec<PathBuf>,
    /// Makes equalities of dimensions that cannot be decided errors.
    #[arg(long)]
    strict_shapes: bool,
    /// Counts warnings as errors.
    #[arg(long, value_enum)]
    deny: Option<Deny>,
    /// Explains a diagnostic code, such as RX0301.
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,
    /// Gives constants whose metadata section is missing placeholders of zeros.
    #[arg(long)]
    stub_constants: bool,
}

/// What counts as an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Deny {
    /// Warnings.
    Warnings,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("relax-check: {message}");
            exit::USAGE.into()
        }
    }
}

fn run(args: &Args) -> Result<ExitCode, String> {
    if let Some(code) = &args.explain {
        return explain(code);
    }
    let mut files = Vec::new();
    for path in &args.files {
        if path.is_dir() {
            let walk = ignore::WalkBuilder::new(path)
                .sort_by_file_path(Ord::cmp)
                .build();
            for entry in walk {
                let entry = entry.map_err(|e| e.to_string())?;
                if entry.path().extension().is_some_and(|e| e == "relay") {
                    files.push(entry.into_path());
                }
            }
        } else {
            files.push(path.clone());
        }
    }
    let (mut errors, mut warnings) = (0, 0);
    let options = InferOptions {
        strict_shapes: args.strict_shapes,
    };
    for file in &files {
        let bytes = io::read(file)?;
        let mut session = Session::new(ReadOptions {
            stub_constants: args.stub_constants,
        });
        let (mut module, mut diagnostics) = session.read(&io::display_name(file), bytes);
        if !diagnostics.has_errors() {
            let (_, more) = relax_driver::check(&mut module, &options);
            diagnostics.extend(more);
            diagnostics.sort();
        }
        render::to_stderr(&diagnostics, &session.sources);
        errors += diagnostics.error_count();
        warnings += count(&diagnostics, Severity::Warning);
    }
    summary(files.len(), errors, warnings);
    let denied = args.deny == Some(Deny::Warnings) && warnings > 0;
    Ok(if errors > 0 || denied {
        exit::ERRORS.into()
    } else {
        exit::OK
    })
}

fn count(diagnostics: &Diagnostics, severity: Severity) -> usize {
    diagnostics.iter().filter(|d| d.severity == severity).count()
}

/// One line at the end, on standard error.
fn summary(files: usize, errors: usize, warnings: usize) {
    let many = |n: usize, what: &str| match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    eprintln!(
        "{} checked: {}, {}",
        many(files, "file"),
        many(errors, "error"),
        many(warnings, "warning")
    );
}

fn explain(code: &str) -> Result<ExitCode, String> {
    let number = code.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let known = number.parse().ok().map(relax_base::Code);
    match known.and_then(relax_base::explain::explain) {
        Some(text) => {
            io::write("-".as_ref(), text.as_bytes())?;
            Ok(exit::OK)
        }
        None => Err(format!("there is no diagnostic `{code}`")),
    }
}

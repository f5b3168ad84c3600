//! `relax-check FILE…`: reads modules and reports what is wrong with them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use relax_base::Severity;
use relax_cli::check::{self, Checked};
use relax_cli::reading::Reading;
use relax_cli::stop::Stop;
use relax_cli::words::count;
use relax_cli::{exit, files, io, render, say, tool};

/// Checks Relay and Relax texts: syntax, names, types, shapes, matches, effects.
///
/// Exit codes: 0 no errors; 1 a text has errors; 2 the call is wrong, or a file cannot be read or
/// written.
#[derive(Parser, Debug)]
#[command(name = "relax-check")]
struct Args {
    /// The files; `-` reads standard input, as does no file at all. Folders stand for all `.relay` files in them that
    /// `.gitignore` does not exclude.
    files: Vec<PathBuf>,
    /// How diagnostics are written: `human` to standard error, the others to standard output.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Applies the suggested edits that are certain, then reports what is left.
    #[arg(long)]
    fix: bool,
    /// Makes equalities of dimensions that cannot be decided errors.
    #[arg(long)]
    strict_shapes: bool,
    /// Counts warnings as errors.
    #[arg(long, value_enum)]
    deny: Option<Deny>,
    /// Explains a diagnostic code, such as RX0301.
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,
    #[command(flatten)]
    reading: Reading,
    /// How many files are checked at once; 0 means one for each processor.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    jobs: usize,
}

/// What counts as an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Deny {
    /// Warnings.
    Warnings,
}

/// How diagnostics are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// With the source they are about.
    Human,
    /// One line each.
    Short,
    /// One JSON object.
    Json,
    /// A SARIF 2.1.0 log.
    Sarif,
    /// Workflow commands of GitHub Actions.
    Github,
}

fn main() -> ExitCode {
    tool::main(|args: &Args| Stop::unless_well(run(args)?))
}

fn run(args: &Args) -> Result<u8, String> {
    if let Some(code) = &args.explain {
        return explain(code);
    }
    let files = tool::inputs(&args.files)?;
    if args.fix && args.format != Format::Human && files.iter().any(|f| io::is_stream(f)) {
        return Err("--fix writes the mended standard input where this format would go".into());
    }
    let (paths, mut problems) = files::expand(&files);
    let options = check::Options {
        strict_shapes: args.strict_shapes,
        reading: args.reading.options(false),
    };
    let results = files::map(&paths, args.jobs, |p| {
        check::check_file(p, &options, args.fix)
    })?;
    let mut all = Vec::new();
    for result in results {
        match result {
            Ok(checked) => all.push(checked),
            Err(message) => problems.push(message),
        }
    }
    report(args.format, &all)?;
    for problem in &problems {
        say!("relax-check: {problem}\n");
    }
    let sum = |severity| {
        all.iter()
            .map(|c: &Checked| c.count(severity))
            .sum::<usize>()
    };
    let (errors, warnings) = (sum(Severity::Error), sum(Severity::Warning));
    let fixed = all.iter().map(|c| c.fixed).sum();
    summary(all.len(), errors, warnings, fixed);
    let denied = args.deny == Some(Deny::Warnings) && warnings > 0;
    Ok(match () {
        () if !problems.is_empty() => exit::USAGE,
        () if errors > 0 || denied => exit::ERRORS,
        () => 0,
    })
}

fn report(format: Format, all: &[Checked]) -> Result<(), String> {
    let mut text = String::new();
    match format {
        Format::Human => {
            for checked in all {
                render::to_stderr(&checked.diagnostics, &checked.sources);
            }
            return Ok(());
        }
        Format::Short => all.iter().for_each(|c| check::short(c, &mut text)),
        Format::Github => all.iter().for_each(|c| check::github(c, &mut text)),
        Format::Json => text = check::json(all),
        Format::Sarif => text = check::sarif(all),
    }
    io::write(Path::new("-"), text.as_bytes())
}

/// One line at the end, on standard error.
fn summary(files: usize, errors: usize, warnings: usize, fixed: usize) {
    let fixed = match fixed {
        0 => String::new(),
        n => format!(", {n} fixed"),
    };
    say!(
        "{} checked: {}, {}{fixed}\n",
        count(files, "file"),
        count(errors, "error"),
        count(warnings, "warning")
    );
}

fn explain(code: &str) -> Result<u8, String> {
    let number = code.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let known = number.parse().ok().map(relax_base::Code);
    match known.and_then(relax_base::explain::explain) {
        Some(text) => io::write(Path::new("-"), text.as_bytes()).map(|()| 0),
        None => Err(format!("there is no diagnostic `{code}`")),
    }
}

//! `relax-check FILE…`: reads modules and reports errors in them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use relax_base::Severity;
use relax_cli::check::levels::{self, Levels};
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
    /// The files; `-` reads standard input, as does no file at all. Folders stand for all `.relay`
    /// files in them that `.gitignore` does not exclude.
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
    /// Makes diagnostics of this code errors; `warnings` counts all warnings as errors.
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    deny: Vec<String>,
    /// Makes diagnostics of this code warnings.
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    warn: Vec<String>,
    /// Does not report diagnostics of this code. `// relax: allow(CODE)` does that for one line.
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    allow: Vec<String>,
    /// Takes files of any name in folders, not only `.relay` files.
    #[arg(long)]
    all_files: bool,
    /// Whether diagnostics have colours.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = render::ColorChoice::Auto)]
    color: render::ColorChoice,
    /// Explains a diagnostic code, such as RX0301.
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,
    #[command(flatten)]
    reading: Reading,
    /// How many files are checked at once; 0 means one for each processor.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    jobs: usize,
}

/// The output formats of diagnostics.
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

/// Runs the tool; returns its exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    tool::main(arguments, |args: &Args| Stop::unless_well(run(args)?))
}

fn run(args: &Args) -> Result<u8, Stop> {
    if let Some(code) = &args.explain {
        return explain(code);
    }
    let files = tool::inputs(&args.files)?;
    if args.fix && args.format != Format::Human && files.iter().any(|f| io::is_stream(f)) {
        return Err("--fix writes the mended standard input where this format would go".into());
    }
    let levels = Levels::new(&args.allow, &args.warn, &args.deny)?;
    let (paths, problems) = files::expand_to(&files, args.all_files);
    if paths.is_empty() && problems.is_empty() {
        return Err(nothing_found(&files, args.all_files).into());
    }
    let options = check::Options {
        strict_shapes: args.strict_shapes,
        reading: args.reading.options(false),
    };
    let results = files::map(&paths, args.jobs, |p| {
        check::check_file(p, &options, args.fix)
    })?;
    let mut all = Vec::new();
    for (path, result) in paths.iter().zip(results) {
        all.push(match result {
            Ok(mut checked) => {
                levels.apply(&mut checked);
                checked
            }
            Err(stop) => Checked::failed(&io::display_name(path), stop.text()),
        });
    }
    let folders = problems.into_iter().map(|p| Checked::failed("", p));
    all.extend(folders);
    report(args, &all)?;
    let problems = all.iter().filter_map(|c| c.failed.as_ref());
    for problem in problems.clone() {
        say!("relax-check: {problem}\n");
    }
    let failed = problems.count();
    let sum = |severity| {
        (all.iter().filter(|c| c.failed.is_none()))
            .map(|c: &Checked| c.count(severity))
            .sum::<usize>()
    };
    let (errors, warnings) = (sum(Severity::Error), sum(Severity::Warning));
    let fixed = all.iter().map(|c| c.fixed).sum();
    summary(all.len() - failed, errors, warnings, fixed);
    let denied = levels.deny_warnings && warnings > 0;
    Ok(match () {
        () if failed > 0 => exit::USAGE,
        () if errors > 0 || denied => exit::ERRORS,
        () => 0,
    })
}

/// Returns the reason why there is nothing to check.
fn nothing_found(files: &[PathBuf], all: bool) -> String {
    let names = Vec::from_iter(files.iter().map(|f| f.display().to_string())).join(", ");
    match all {
        true => format!("there is no file in {names}"),
        false => {
            format!("there is no `.relay` file in {names}; `--all-files` takes files of any name")
        }
    }
}

fn report(args: &Args, all: &[Checked]) -> Result<(), Stop> {
    let mut text = String::new();
    match args.format {
        Format::Human => {
            let style = render::Style::of(args.color);
            for checked in all.iter().filter(|c| c.failed.is_none()) {
                render::to_stderr_in(&checked.diagnostics, &checked.sources, style);
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

/// Prints a summary line on standard error.
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

fn explain(code: &str) -> Result<u8, Stop> {
    match levels::code(code).and_then(relax_base::explain::explain) {
        Some(text) => io::write(Path::new("-"), text.as_bytes()).map(|()| 0),
        None => Err(format!("there is no diagnostic `{code}`").into()),
    }
}

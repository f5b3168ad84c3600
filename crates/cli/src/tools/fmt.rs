//! `relax-fmt PATH…`: formats Relay and Relax texts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use relax::{Format, ReadOptions, Session};
use relax_base::{Diagnostics, SourceMap};
use relax_cli::stop::Stop;
use relax_cli::{diff, exit, files, io, render, say, tool};
use relax_syntax::{FmtOptions, LineEnds, format_source};

/// Formats Relay and Relax texts, in place unless asked otherwise. Only layout changes: every
/// comment stays, and so does every token but optional commas and semicolons.
///
/// Exit codes: 0 all is well; 1 a text has syntax errors, or `--check` or `--diff` found something
/// to change; 2 the call is wrong, or a file cannot be read or written.
#[derive(Parser, Debug)]
#[command(name = "relax-fmt")]
struct Args {
    /// The files; `-` formats standard input to standard output, as does no file at all. Folders
    /// stand for all `.relay` files in them that `.gitignore` does not exclude.
    paths: Vec<PathBuf>,
    /// Changes nothing and lists the files that are not formatted.
    #[arg(long)]
    check: bool,
    /// Changes nothing and shows what would change.
    #[arg(long)]
    diff: bool,
    /// Rewrites the spellings of the Relay documentation to the canonical ones too.
    #[arg(long)]
    upgrade: bool,
    /// What standard input is called in messages.
    #[arg(long, value_name = "NAME")]
    stdin_filename: Option<PathBuf>,
    /// The column after which lines wrap.
    #[arg(long, value_name = "COLUMNS", default_value_t = 100,
          value_parser = clap::value_parser!(u16).range(20..))]
    width: u16,
    /// How many files are formatted at once; 0 means one for each processor.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    jobs: usize,
}

/// Runs the tool; returns its exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    tool::main(arguments, |args: &Args| Stop::unless_well(run(args)?))
}

/// The outcome for one text.
enum Outcome {
    /// It cannot be read or written.
    Failed(String),
    /// It has syntax errors, which are rendered.
    Bad(String),
    /// The texts before and after formatting.
    Formatted(String, String),
}

fn run(args: &Args) -> Result<u8, Stop> {
    let (paths, problems) = files::expand(&tool::inputs(&args.paths)?);
    let mut code = 0;
    for problem in &problems {
        say!("relax-fmt: {problem}\n");
        code = exit::USAGE;
    }
    let outcomes = files::map(&paths, args.jobs, |path| {
        let outcome = format(args, path);
        // Files are written right after formatting, to do that in parallel as well.
        match outcome {
            Outcome::Formatted(before, after) if writes(args, path) && before != after => {
                match io::write(path, after.as_bytes()) {
                    Ok(()) => Outcome::Formatted(before, after),
                    Err(stop) => Outcome::Failed(stop.text()),
                }
            }
            other => other,
        }
    })?;
    for (path, outcome) in paths.iter().zip(outcomes) {
        code = code.max(show(args, path, outcome)?);
    }
    Ok(code)
}

/// Returns whether the result is written back to its file.
fn writes(args: &Args, path: &Path) -> bool {
    !args.check && !args.diff && path != Path::new("-")
}

fn name(args: &Args, path: &Path) -> String {
    match &args.stdin_filename {
        Some(name) if path == Path::new("-") => name.display().to_string(),
        _ => io::display_name(path),
    }
}

fn format(args: &Args, path: &Path) -> Outcome {
    let bytes = match io::read(path) {
        Ok(bytes) => bytes,
        Err(stop) => return Outcome::Failed(stop.text()),
    };
    let name = name(args, path);
    if let Some(reason) = other_language(Format::detect(&name, &bytes)) {
        return Outcome::Failed(format!("{name} stays as it is: {reason}"));
    }
    // The raw text: reading normalises line terminators.
    let ends = LineEnds::of(&bytes);
    let original = String::from_utf8(bytes.clone()).ok();
    let mut session = Session::new(ReadOptions::default());
    let mut diagnostics = Diagnostics::new();
    let file = session.add(&name, bytes, &mut diagnostics);
    let (Some(file), false) = (file, diagnostics.has_errors()) else {
        return Outcome::Bad(rendered(&diagnostics, &session.sources));
    };
    let options = FmtOptions {
        width: args.width.into(),
        upgrade: args.upgrade,
    };
    let upgraded = match args.upgrade {
        true => session.upgraded(&file),
        false => None,
    };
    let source = upgraded.as_ref().unwrap_or(&file);
    match format_source(source, &options) {
        Ok(text) => {
            let original = original.unwrap_or_else(|| file.text.to_string());
            Outcome::Formatted(original, ends.apply(text))
        }
        Err(diagnostics) => Outcome::Bad(rendered(&diagnostics, &session.sources)),
    }
}

/// Returns the reason why a file in another language is not formatted.
fn other_language(format: Format) -> Option<&'static str> {
    match format {
        Format::Relay => None,
        Format::TvmScript => Some(
            "it is TVMScript, whose comments and lines are Python's; \
             `relax-opt --print-style tvmscript` writes it as TVM does",
        ),
        Format::TvmJson => Some("it is a JSON graph; `relax-opt` writes it as a text"),
        Format::Onnx => Some("it is an ONNX model; `relax-import` writes it as a text"),
    }
}

fn rendered(diagnostics: &Diagnostics, sources: &SourceMap) -> String {
    render::to_string(diagnostics, sources, render::Style::for_stderr())
}

/// Reports the outcome for one text; returns its exit code.
fn show(args: &Args, path: &Path, outcome: Outcome) -> Result<u8, Stop> {
    let (before, after) = match outcome {
        Outcome::Failed(message) => {
            say!("relax-fmt: {message}\n");
            return Ok(exit::USAGE);
        }
        Outcome::Bad(text) => {
            io::say(&text);
            return Ok(exit::ERRORS);
        }
        Outcome::Formatted(before, after) => (before, after),
    };
    let stdout = Path::new("-");
    if path == stdout && !args.check && !args.diff {
        io::write(stdout, after.as_bytes())?;
        return Ok(0);
    }
    if before == after || writes(args, path) {
        return Ok(0);
    }
    let name = name(args, path);
    let mut text = String::new();
    if args.check {
        text.push_str(&format!("{name}\n"));
    }
    if args.diff {
        let color = render::colored(&std::io::stdout());
        let formatted = format!("{name} (formatted)");
        diff::unified((&name, &formatted), &before, &after, color, &mut text);
    }
    io::write(stdout, text.as_bytes())?;
    Ok(exit::ERRORS)
}

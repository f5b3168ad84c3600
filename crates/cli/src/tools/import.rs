//! `relax-import MODEL`: converts ONNX models to text and weights.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use relax_base::SourceMap;
use relax_cli::formats::Format;
use relax_cli::stop::Stop;
use relax_cli::{formats, io, places, save, tool};

/// Translates an ONNX model into a Relay text and a file of its weights.
#[derive(Parser, Debug)]
#[command(name = "relax-import", after_help = EXAMPLES)]
struct Args {
    /// The model, a `.onnx` file.
    model: PathBuf,
    /// Where the text goes; `-` is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Where the weights go: a `.npz` or `.safetensors` file. None is written where the model has
    /// no large constants.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Makes one function of layers that are equal and come one after the other, with their weights
    /// as parameters.
    #[arg(long)]
    fold_layers: bool,
}

const EXAMPLES: &str = "\
Examples:
  relax-import model.onnx -o model.relay --weights model.safetensors
  relax-run model.relay --params model.safetensors --random 1

Exit codes: 0 it was translated; 1 the model is invalid or uses what is not supported, each such node is named; 2 wrongly
called, or a file cannot be read or written.";

/// Runs the tool; returns its exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    tool::main(arguments, run)
}

fn run(args: &Args) -> Result<(), Stop> {
    places::input(&args.model)?;
    formats::text_output(&args.output)?;
    let weights = match &args.weights {
        Some(path) => {
            places::output(path)?;
            Some((
                path,
                Format::choose(path, &[Format::Npz, Format::Safetensors])?,
            ))
        }
        None => None,
    };
    let other = match io::language(&args.model) {
        relax::Format::TvmScript => Some("TVMScript"),
        relax::Format::TvmJson => Some("a JSON graph"),
        relax::Format::Relay | relax::Format::Onnx => None,
    };
    if let Some(other) = other {
        return Err(Stop::Usage(format!(
            "{} is {other}: relax-import translates ONNX models, and the other tools read this as it is",
            io::display_name(&args.model)
        )));
    }
    let how = relax::model::Options {
        fold_layers: args.fold_layers,
    };
    let imported = match relax::model::import(&args.model, &relax_cli::weights::open, how)? {
        Ok(imported) => imported,
        Err(diagnostics) => return Err(Stop::show(&diagnostics, &SourceMap::new())),
    };
    relax_cli::render::to_stderr(&imported.warnings, &SourceMap::new());
    if weights.is_none() && !imported.weights.is_empty() {
        let count = imported.weights.len();
        return Err(Stop::Usage(format!(
            "the model has {count} large constants: `--weights FILE` says where they go"
        )));
    }
    io::write(&args.output, imported.text.as_bytes())?;
    if let Some((path, format)) = weights
        && !imported.weights.is_empty()
    {
        save::arrays(path, format, &imported.weights)?;
    }
    Ok(())
}

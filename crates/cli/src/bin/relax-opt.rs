//! `relax-opt FILE`: reads a module and prints it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use relax_cli::{exit, io, render};
use relax_driver::{InferOptions, ReadOptions, Session, Style, TypeSource, TypedModule};
use relax_ir::{EqualOptions, Module};

/// Reads a Relay or Relax text, transforms it and prints it.
#[derive(Parser, Debug)]
#[command(name = "relax-opt", version)]
struct Args {
    /// The file; `-` reads standard input.
    file: PathBuf,
    /// Where the result goes; `-` is standard output.
    #[arg(short = 'o', long = "output", default_value = "-")]
    output: PathBuf,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = PrintStyle::Pretty)]
    print_style: PrintStyle,
    /// Leaves out the `/* ty=… */` comments.
    #[arg(long)]
    no_types: bool,
    /// Prints nothing and compares with this file instead, up to renaming: exit 0 when equal, 1 when
    /// different, with the first difference.
    #[arg(long, value_name = "OTHER")]
    structural_equal: Option<PathBuf>,
    /// What happens to the module before it is printed: `infer-type` finds its types.
    #[arg(long, value_name = "STEPS")]
    pipeline: Option<String>,
    /// Gives constants whose metadata section is missing placeholders of zeros.
    #[arg(long)]
    stub_constants: bool,
}

/// How modules are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum PrintStyle {
    /// As TVM's `astext()` writes them, byte for byte.
    Tvm,
    /// Wrapped at 100 columns.
    Pretty,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("relax-opt: {message}");
            exit::USAGE.into()
        }
    }
}

fn run(args: &Args) -> Result<ExitCode, String> {
    let bytes = io::read(&args.file)?;
    let mut session = Session::new(ReadOptions {
        stub_constants: args.stub_constants,
    });
    let (mut module, diagnostics) = session.read(&io::display_name(&args.file), bytes);
    render::to_stderr(&diagnostics, &session.sources);
    if diagnostics.has_errors() {
        return Ok(exit::ERRORS.into());
    }
    let mut typing = None;
    match args.pipeline.as_deref() {
        None | Some("") => {}
        Some("infer-type") => {
            let (types, diagnostics) = relax_driver::check(&mut module, &InferOptions::default());
            render::to_stderr(&diagnostics, &session.sources);
            if diagnostics.has_errors() {
                return Ok(exit::ERRORS.into());
            }
            typing = Some(types);
        }
        Some(other) => return Err(format!("there is no pipeline `{other}`")),
    }
    if let Some(other) = &args.structural_equal {
        return compare(&mut session, &module, other);
    }
    let style = match args.print_style {
        PrintStyle::Tvm => Style::Tvm,
        PrintStyle::Pretty => Style::Pretty,
    };
    let typed = (typing.as_ref().filter(|_| !args.no_types)).map(|typing| TypedModule {
        module: &module,
        typing,
    });
    let types = typed.as_ref().map(|t| t as &dyn TypeSource);
    let text = relax_driver::print(&module, style, types);
    io::write(&args.output, text.as_bytes())?;
    Ok(exit::OK)
}

fn compare(session: &mut Session, module: &Module, other: &Path) -> Result<ExitCode, String> {
    let bytes = io::read(other)?;
    let (other_module, diagnostics) = session.read(&io::display_name(other), bytes);
    render::to_stderr(&diagnostics, &session.sources);
    if diagnostics.has_errors() {
        return Ok(exit::USAGE.into());
    }
    match relax_driver::difference(module, &other_module, EqualOptions::default()) {
        None => Ok(exit::OK),
        Some(difference) => {
            eprintln!("relax-opt: the modules differ: {difference}");
            Ok(exit::ERRORS.into())
        }
    }
}

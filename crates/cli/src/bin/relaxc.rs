//! `relaxc FILE -o OUT`: compiles a module to an object file, a library or a program.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use relax_base::Symbol;
use relax_cli::load::{self, Loaded};
use relax_cli::{cc, exit, io, native, render, weights};
use relax_codegen::{Listing, Target, listing, object};
use relax_driver::ReadOptions;
use relax_ir::{GlobalId, GlobalKind, Module};

/// Compiles a Relay or Relax text to native code.
#[derive(Parser, Debug)]
#[command(name = "relaxc", version)]
struct Args {
    /// The file; `-` reads standard input.
    file: PathBuf,
    /// Where the result goes; `-` is standard output (for texts).
    #[arg(short = 'o', long = "output")]
    output: PathBuf,
    /// What is written.
    #[arg(long, value_enum, default_value_t = Emit::Obj)]
    emit: Emit,
    /// The target triple (`aarch64-unknown-linux-gnu`); this machine unless said otherwise.
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// CPU features to use, by Cranelift's names (`has_avx2`), separated by commas.
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    cpu: Vec<String>,
    #[command(flatten)]
    passes: native::Passes,
    /// A `.npz` or `.safetensors` file with values for parameters of the first entry, by name: they are
    /// constants of the program then.
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// Where the elements of large constants go: into the object, or into a file beside the output
    /// (`model.o` and `model.weights`) that the program maps when it is first called. `RELAX_WEIGHTS` names
    /// the file or its folder where it is not beside the program then.
    #[arg(long, value_enum, default_value_t = Weights::Embed)]
    weights: Weights,
    /// The functions that can be called from outside; `main` (or every function) unless said otherwise.
    #[arg(long, value_name = "NAME")]
    entry: Vec<String>,
    /// Prints the bytes of every function and constant to standard error.
    #[arg(long)]
    size_report: bool,
    /// Gives constants whose metadata section is missing placeholders of zeros.
    #[arg(long)]
    stub_constants: bool,
}

/// Where the elements of large constants go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Weights {
    /// Into the object.
    Embed,
    /// Into a file beside it.
    External,
}

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Emit {
    /// An object file.
    Obj,
    /// A static library with the runtime in it.
    Static,
    /// A shared library with the runtime in it.
    Shared,
    /// A program that takes `.npy` files and prints the result.
    Exe,
    /// The C header of the entries.
    Header,
    /// Cranelift's intermediate representation.
    Clif,
    /// The target's instructions.
    Asm,
    /// The tensor programs of the kernels, in the language's own text.
    Loops,
    /// The lowered program: control flow over registers, allocations, releases, calls of kernels.
    Lowered,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("relaxc: {message}");
            exit::USAGE.into()
        }
    }
}

fn roots(module: &Module, args: &Args) -> Result<Vec<GlobalId>, String> {
    if !args.entry.is_empty() {
        let find = |name: &String| load::entry(module, Some(name));
        return args.entry.iter().map(find).collect();
    }
    if let Some(g) = module.expression.or_else(|| module.global("main")) {
        return Ok(vec![g]);
    }
    let functions: Vec<GlobalId> = (module.globals.iter())
        .filter(|(_, g)| !g.prelude && matches!(g.kind, GlobalKind::Func(_)))
        .map(|(id, _)| id)
        .collect();
    if functions.is_empty() {
        Err("the file defines no function".into())
    } else {
        Ok(functions)
    }
}

fn run(args: &Args) -> Result<ExitCode, String> {
    let options = ReadOptions {
        stub_constants: args.stub_constants,
    };
    let Some(loaded) = load::checked(&args.file, options)? else {
        return Ok(exit::ERRORS.into());
    };
    let Loaded {
        mut session,
        mut module,
        typing,
    } = loaded;
    let mut entries = roots(&module, args)?;
    if let Some(path) = &args.params {
        let name = module.globals[entries[0]].name;
        match weights::bind(&mut module, &typing, entries[0], path, false)? {
            Ok(bound) => entries[0] = bound.entry,
            Err(problems) => {
                eprintln!("relaxc: {} does not fit @{name}:", path.display());
                problems.iter().for_each(|p| eprintln!("  {p}"));
                return Ok(exit::ERRORS.into());
            }
        }
    }
    let names: Vec<Symbol> = entries.iter().map(|&g| module.globals[g].name).collect();
    let typing = match native::optimise(&mut session, &mut module, &args.passes.text()) {
        Ok(typing) => typing,
        Err(diagnostics) => {
            render::to_stderr(&diagnostics, &session.sources);
            return Ok(exit::ERRORS.into());
        }
    };
    // Passes number definitions anew.
    let entries = (names.iter())
        .map(|n| {
            let g = module.global(n.as_str());
            g.ok_or_else(|| format!("the pipeline has removed @{n}"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let lowered = match native::lower(&module, &typing, &entries, &session.sources) {
        Ok(lowered) => lowered,
        Err(diagnostics) => {
            render::to_stderr(&diagnostics, &session.sources);
            return Ok(exit::ERRORS.into());
        }
    };
    let name = args
        .file
        .file_stem()
        .map_or_else(|| "model".into(), |s| s.to_string_lossy());
    let target = Target {
        triple: args.target.clone(),
        features: args.cpu.clone(),
        optimize: args.passes.level > 0,
    };
    match args.emit {
        Emit::Header => io::write(&args.output, cc::header(&lowered, &name).as_bytes())?,
        Emit::Lowered => io::write(&args.output, lowered.text().as_bytes())?,
        Emit::Loops => io::write(&args.output, native::loops(&lowered).as_bytes())?,
        Emit::Clif | Emit::Asm => {
            let what = match args.emit {
                Emit::Clif => Listing::Clif,
                _ => Listing::Asm,
            };
            match listing(&lowered, &target, &name, what) {
                Ok(text) => io::write(&args.output, text.as_bytes())?,
                Err(d) => {
                    let mut all = relax_base::Diagnostics::new();
                    all.push(*d);
                    render::to_stderr(&all, &session.sources);
                    return Ok(exit::ERRORS.into());
                }
            }
        }
        Emit::Obj | Emit::Static | Emit::Shared | Emit::Exe => {
            let file = args.output.with_extension("weights");
            let file_name = match args.weights {
                Weights::Embed => None,
                Weights::External if args.output == Path::new("-") => {
                    return Err("--weights external needs a file as output".into());
                }
                Weights::External => file.file_name().and_then(|n| n.to_str()),
            };
            if args.weights == Weights::External && file_name.is_none() {
                return Err(format!("{} has no name in UTF-8", args.output.display()));
            }
            let object = match object(&lowered, &target, &name, file_name) {
                Ok(object) => object,
                Err(d) => {
                    render::to_stderr(&(*d).into(), &session.sources);
                    return Ok(exit::ERRORS.into());
                }
            };
            if args.size_report {
                report(&object.sizes);
            }
            if let Some(weights) = &object.weights {
                io::write(&file, weights)?;
            }
            write_binary(args, &object.bytes, &lowered)?;
        }
    }
    Ok(exit::OK)
}

fn write_binary(
    args: &Args,
    object: &[u8],
    lowered: &relax_lower::lir::Lowered,
) -> Result<(), String> {
    if args.emit == Emit::Obj {
        return io::write(&args.output, object);
    }
    if args.output == Path::new("-") {
        return Err("libraries and programs go to a file, not to standard output".into());
    }
    if args.target.is_some() {
        return Err("linking for another target is the caller's work: use --emit obj".into());
    }
    if args.emit == Emit::Static {
        return cc::archive(object, lowered, &args.output);
    }
    cc::link(object, lowered, &args.output, args.emit == Emit::Exe)
}

fn report(sizes: &[(String, usize)]) {
    let mut sizes: Vec<_> = sizes.iter().filter(|s| s.1 > 0).collect();
    sizes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let total: usize = sizes.iter().map(|s| s.1).sum();
    for (name, bytes) in sizes {
        eprintln!("{bytes:>10}  {name}");
    }
    eprintln!("{total:>10}  in all");
}

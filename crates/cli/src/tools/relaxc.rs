//! `relaxc FILE -o OUT`: compiles a module to an object file, a library or a program.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::{Parser, ValueEnum};
use relax_cli::formats::Format;
use relax_cli::kit::{self, Print};
use relax_cli::program::Source;
use relax_cli::stop::Stop;
use relax_cli::{cc, io, load, machine, native, places, progress, tool};
use relax_codegen::{Listing, Object, Target, listing, object};
use relax_ir::{GlobalId, GlobalKind, Module};
use relax_lower::lir::Lowered;
use relax_tensor::Tensor;

/// Compiles a Relay or Relax text to native code.
#[derive(Parser, Debug)]
#[command(name = "relaxc", after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    source: Source,
    /// Where the result goes; `-` is standard output (for objects and texts).
    #[arg(
        short = 'o',
        long = "output",
        value_name = "OUT",
        required = false,
        required_unless_present = "print",
        default_value_if("print", ArgPredicate::IsPresent, "-")
    )]
    output: PathBuf,
    /// What is written; what the extension of OUT means unless said otherwise.
    #[arg(long, value_enum, value_name = "KIND")]
    emit: Option<Emit>,
    /// The functions that can be called from outside; `main` (or every function) unless said
    /// otherwise. Once for each, or separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    entry: Vec<String>,
    /// The target triple (`aarch64-unknown-linux-gnu`) or only its architecture (`riscv64`); this
    /// machine unless said otherwise. Libraries and programs can be made for this machine only.
    #[arg(long, value_name = "TRIPLE", help_heading = "Target")]
    target: Option<String>,
    /// CPU features or a processor that code may use (`avx2,fma`, `haswell`), `native` for what
    /// this machine has. Without it code runs on all that have SSE4.2 (x86-64), or on every
    /// processor (others), and is the same whichever machine makes it. The runtime's kernels choose
    /// by what they find.
    #[arg(
        long,
        value_name = "FEATURES",
        value_delimiter = ',',
        help_heading = "Target"
    )]
    cpu: Vec<String>,
    /// Where the elements of large constants go: into the object, or into a file beside the output
    /// (`model.o` and `model.weights`) that the program maps when it is first called.
    /// `RELAX_WEIGHTS` names the file or its folder where it is not beside the program then.
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Weights::Embed, help_heading = "Weights")]
    weights: Weights,
    /// Beside the file that `--emit vmbin` writes, one of its kernels as code for this machine
    /// (`model.vmbin.native`), which `relax-run --kernels cached` takes.
    #[arg(long, help_heading = "Target")]
    native_kernels: bool,
    /// What the C names of entries begin with, instead of `relax`: several models in one program
    /// have a prefix each.
    #[arg(long, value_name = "NAME", value_parser = prefix)]
    prefix: Option<String>,
    /// Prints what a program around compiled code is built with: headers and the runtime library
    /// are written where they can stay.
    #[arg(long, value_enum, value_name = "WHAT", exclusive = true)]
    print: Option<Print>,
    /// Prints the bytes of every function and constant to standard error.
    #[arg(long)]
    size_report: bool,
}

const EXAMPLES: &str = "\
Examples:
  relaxc model.relay -o model.o                                    an object for the linker
  relaxc model.relay -o model.h --emit header                      its C header
  relaxc model.relay -o libmodel.so --emit shared --params weights.safetensors
  relaxc model.relay -o model --emit exe --cpu native              a program of its own
  relaxc model.relay -o - --emit asm --target aarch64              its instructions, on another machine

Exit codes: 0 it was written; 1 the text has errors, or the weights do not fit; 2 wrongly called, or a file cannot be \
read or written.";

/// The destination of the elements of large constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Weights {
    /// Into the object.
    Embed,
    /// Into a file beside it.
    External,
}

/// The kinds of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Emit {
    /// An object file.
    Obj,
    /// A static library with the runtime in it.
    Static,
    /// A shared library with the runtime in it.
    Shared,
    /// A program that takes `.npy` and `.npz` files and prints the result; its --help says more.
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
    /// A program of the virtual machine, as text.
    Vm,
    /// The same as a file, which relax-run takes.
    Vmbin,
}

impl Emit {
    /// Returns the formats of files that it can be written to.
    fn formats(self) -> &'static [Format] {
        match self {
            Emit::Obj => &[Format::Object],
            Emit::Static => &[Format::Static],
            Emit::Shared => &[Format::Shared],
            Emit::Exe => &[],
            Emit::Header => &[Format::Header],
            Emit::Asm => &[Format::Assembly],
            Emit::Loops => &[Format::Relay, Format::Text],
            Emit::Clif | Emit::Lowered => &[Format::Text],
            Emit::Vm => &[Format::Listing],
            Emit::Vmbin => &[Format::Machine],
        }
    }

    /// Returns the kind of output: as named, or by the output's extension.
    fn of(args: &Args) -> Result<Emit, Stop> {
        if let Some(emit) = args.emit {
            let name = emit.to_possible_value();
            let what = format!("--emit {}", name.as_ref().map_or("", |n| n.get_name()));
            Format::allow(&args.output, &what, emit.formats())?;
            return Ok(emit);
        }
        const BY_NAME: &[Emit] = &[
            Emit::Obj,
            Emit::Static,
            Emit::Shared,
            Emit::Header,
            Emit::Asm,
            Emit::Vm,
            Emit::Vmbin,
        ];
        let formats: Vec<Format> = BY_NAME.iter().flat_map(|e| e.formats()).copied().collect();
        let format = Format::choose(&args.output, &formats)
            .map_err(|e| format!("{e}; --emit says what it is otherwise (`--emit exe`)"))?;
        let meant = BY_NAME.iter().find(|e| e.formats().contains(&format));
        Ok(*meant.unwrap_or(&Emit::Obj))
    }

    /// Returns whether the output is machine code.
    fn is_code(self) -> bool {
        matches!(self, Emit::Obj | Emit::Static | Emit::Shared | Emit::Exe)
    }
}

/// Runs the tool; returns its exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    tool::main(arguments, run)
}

fn roots(module: &Module, args: &Args) -> Result<Vec<GlobalId>, Stop> {
    let mut found = Vec::new();
    for name in &args.entry {
        let entry = load::entry(module, Some(name))?;
        if !matches!(module.globals[entry].kind, GlobalKind::Func(_)) {
            return Err(format!("@{name} is no function that can be called from outside").into());
        }
        if !found.contains(&entry) {
            found.push(entry);
        }
    }
    if !found.is_empty() {
        return Ok(found);
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

/// Checks for incompatible options.
fn possible(args: &Args, emit: Emit, target: &Target) -> Result<(), Stop> {
    let standard_output = io::is_stream(&args.output);
    let linked = matches!(emit, Emit::Static | Emit::Shared | Emit::Exe);
    if linked && standard_output {
        return Err("libraries and programs go to a file, not to standard output".into());
    }
    if linked && !target.is_host() {
        return Err("linking for another target is the caller's work: use --emit obj".into());
    }
    if args.size_report && !emit.is_code() {
        return Err(
            "--size-report is about machine code: use --emit obj, static, shared or exe".into(),
        );
    }
    if args.native_kernels && (standard_output || emit != Emit::Vmbin) {
        return Err("--native-kernels goes with --emit vmbin and a file as output".into());
    }
    if args.weights == Weights::External && standard_output && emit == Emit::Obj {
        return Err("--weights external needs a file as output".into());
    }
    places::output(&args.output)?;
    if args.weights == Weights::External && emit.is_code() {
        places::output(&weights_file(args))?;
    }
    Ok(())
}

/// Parses the prefix of C names.
fn prefix(text: &str) -> Result<String, String> {
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if first && name && !text.starts_with("rx_") && text != "rx" {
        return Ok(text.to_owned());
    }
    Err("expected a name of C: letters, digits and `_`, and not the runtime's own `rx`".into())
}

fn run(args: &Args) -> Result<(), Stop> {
    if let Some(what) = args.print {
        return io::print(kit::text(what)?.as_bytes());
    }
    let target = Target {
        triple: args.target.clone(),
        features: args.cpu.clone(),
        optimize: args.source.passes.level > 0,
        prefix: args.prefix.clone(),
    };
    let emit = Emit::of(args)?;
    possible(args, emit, &target)?;
    target.check()?;
    let mut program = args.source.read()?;
    let mut entries = roots(&program.module, args)?;
    args.source.bind(&mut program, &mut entries[0], false)?;
    let lowered = program.lower(&args.source.passes, &entries, native::short_place)?;
    let file = args.source.path()?;
    let name = match file.file_stem() {
        Some(stem) if !io::is_stream(file) => stem.to_string_lossy(),
        _ => "model".into(),
    };
    let _shown = progress::stage("compiling");
    let what = match emit {
        Emit::Header => {
            let header = cc::header(&lowered, &name, args.prefix.as_deref());
            return io::write(&args.output, header.as_bytes());
        }
        Emit::Lowered => return io::write(&args.output, lowered.text().as_bytes()),
        Emit::Loops => return io::write(&args.output, native::loops(&lowered).as_bytes()),
        Emit::Vm | Emit::Vmbin => {
            let made = relax::vm::program(&lowered, &program.module)
                .map_err(|d| Stop::show(&d, &program.session.sources))?;
            let bytes = match emit {
                Emit::Vm => relax_vm::print(&made).map(String::into_bytes),
                _ => relax_vm::write(&made),
            };
            let bytes = bytes.map_err(|e| {
                Stop::Failed(format!("the virtual machine does not support {}", e.0))
            })?;
            io::write(&args.output, &bytes)?;
            if args.native_kernels {
                let print = relax_vm::fingerprint(&bytes).map_err(|e| e.to_string())?;
                let path = machine::native_path(&args.output);
                machine::write_native(&made, print, &path, &program.session.sources)?;
            }
            return Ok(());
        }
        Emit::Clif => Listing::Clif,
        Emit::Asm => Listing::Asm,
        Emit::Obj | Emit::Static | Emit::Shared | Emit::Exe => {
            let packed = |t: &Tensor| {
                for file in &program.files {
                    file.give_back(t.bytes());
                }
            };
            let weights = weights_name(args)?;
            let object = object(&lowered, &target, &name, weights.as_deref(), &packed)
                .map_err(|d| Stop::show(&(*d).into(), &program.session.sources))?;
            return binary(args, emit, object, &lowered);
        }
    };
    let text = listing(&lowered, &target, &name, what)
        .map_err(|d| Stop::show(&(*d).into(), &program.session.sources))?;
    io::write(&args.output, text.as_bytes())
}

/// Returns the path of the weight file, if weights are separate from the code.
fn weights_file(args: &Args) -> PathBuf {
    args.output.with_extension("weights")
}

/// Returns the name of that file as recorded in the code; `None` if weights are in the object.
fn weights_name(args: &Args) -> Result<Option<String>, Stop> {
    if args.weights == Weights::Embed {
        return Ok(None);
    }
    let file = weights_file(args);
    match file.file_name().and_then(|n| n.to_str()) {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(format!("{} has no name in UTF-8", args.output.display()).into()),
    }
}

/// Writes code, and the weight file if weights are separate.
fn binary(args: &Args, emit: Emit, object: Object, lowered: &Lowered) -> Result<(), Stop> {
    if let Some(weights) = object.weights() {
        io::write_by(&weights_file(args), |out| weights.write(out))?;
    }
    let sizes = args.size_report.then(|| object.sizes().clone());
    let prefix = args.prefix.as_deref();
    match emit {
        Emit::Static => cc::archive(object, &cc::symbols(lowered, prefix), &args.output)?,
        Emit::Shared | Emit::Exe => {
            let executable = emit == Emit::Exe;
            cc::link(object, lowered, prefix, &args.output, executable)?;
        }
        _ => io::write_by(&args.output, |out| object.write(out))?,
    }
    if let Some(sizes) = sizes {
        report(&sizes);
    }
    Ok(())
}

fn report(sizes: &[(String, usize)]) {
    let mut sizes: Vec<_> = sizes.iter().filter(|s| s.1 > 0).collect();
    sizes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let total: usize = sizes.iter().map(|s| s.1).sum();
    let lines: String = (sizes.iter())
        .map(|(name, bytes)| format!("{bytes:>10}  {name}\n"))
        .collect();
    io::say(&format!("{lines}{total:>10}  in all\n"));
}

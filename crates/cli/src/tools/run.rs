//! `relax-run FILE`: checks, compiles and runs a module.

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use relax_cli::bench::Bench;
use relax_cli::failure::Places;
use relax_cli::formats::Format;
use relax_cli::layout::Layout;
use relax_cli::machine::{KernelsBy, Look};
use relax_cli::parts::Typed;
use relax_cli::program::{Program, Source};
use relax_cli::random::Random;
use relax_cli::show::Extent;
use relax_cli::stop::Stop;
use relax_cli::trace::Trace;
use relax_cli::words::count;
use relax_cli::{
    evaluator, inputs, io, load, machine, native, places, profile, progress, results, show, tool,
    trace, weights,
};
use relax_codegen::{Host, Value};
use relax_ir::GlobalId;
use relax_tensor::Tensor;

/// Runs a function of a Relay or Relax text and prints its result.
#[derive(Parser, Debug)]
#[command(name = "relax-run", after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    source: Source,
    /// Which function runs: `main` unless said otherwise, or the expression of an expression file,
    /// or the only function that there is.
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// What runs the program: native code unless said otherwise, or the virtual machine for its
    /// files.
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Ends with an error when a run takes more steps (calls, branches, tuples, hundreds of
    /// iterations in operators): for programs that may not end. With `--engine interp` and
    /// `--engine vm`.
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_steps: Option<u64>,
    /// Threads for parallel loops, this one included; 0 for one per processor.
    #[arg(long, value_name = "T", default_value_t = 1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: u16,
    /// Megabytes of stack that calls may take, 2048 unless the machine's memory is small. Only what
    /// is used takes memory.
    #[arg(long, value_name = "MB", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    stack: Option<u32>,
    /// The arguments: a `.npz` or `.safetensors` file with arrays by parameter name (`x`, or `p.0`
    /// for a field or an element of a parameter `%p` that is a tuple or a list; an option is its
    /// array or none), or `in0`, `in1`, … by position with tuples flattened in order; or a `.npy`
    /// file with the only one.
    #[arg(long, value_name = "FILE", help_heading = "Arguments and results")]
    inputs: Option<PathBuf>,
    /// Makes up the arguments that `--inputs` does not give; the same seed gives the same numbers.
    #[arg(
        long,
        value_name = "SEED",
        help_heading = "Arguments and results",
        allow_negative_numbers = true
    )]
    random: Option<u64>,
    /// The extent that random arguments take where neither the type nor an argument that is given
    /// says it: this one, or the next with which extents are equal where the program checks it, and
    /// nothing on the way is empty.
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Arguments and results",
          allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..))]
    extent: i64,
    /// Writes the result into a file instead of printing it, which shows large tensors by their
    /// corners: `.npz`, `.npy` or `.safetensors` as `out0`, `out1`, … (tuples and data types
    /// flattened in order, `constructors` for these unless they are lists and options), `.txt` as
    /// it is printed, `.json`.
    #[arg(long, value_name = "FILE", help_heading = "Arguments and results")]
    outputs: Option<PathBuf>,
    /// Compiles for arguments of any extents that the types allow, as relaxc does, not for those of
    /// this run.
    #[arg(long, help_heading = "Optimisation")]
    open_extents: bool,
    #[command(flatten)]
    bench: Bench,
    /// Says what was compiled: types, kernels, constants; and how long reading, compiling and
    /// running took, and where a row of numbers (the answer of a classifier) is largest.
    #[arg(long, help_heading = "Measuring")]
    summary: bool,
    /// Says what each kernel cost: calls, time, share, GFLOP/s, GB/s, the shortest call. With
    /// `--bench` over all its runs.
    #[arg(long, help_heading = "Measuring")]
    profile: bool,
    /// Draws what each kernel reached beside what this machine's arithmetic and memory allow (which
    /// is measured), into a file of the kind SVG.
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    roofline: Option<PathBuf>,
    /// Writes what happened when into a file: stages, runs and each call of a kernel, in the format
    /// of Chrome's traces, which Perfetto reads.
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    trace: Option<PathBuf>,
    /// What runs the kernels of a program of the virtual machine.
    #[arg(long, value_enum, value_name = "HOW")]
    kernels: Option<KernelsBy>,
    /// Steps through the instructions of the virtual machine, as commands on standard input say:
    /// `help` lists them.
    #[arg(long, conflicts_with = "trace_vm", help_heading = "Measuring")]
    debug: bool,
    /// Prints each instruction of the virtual machine with what its registers hold, before it is
    /// executed.
    #[arg(long, help_heading = "Measuring")]
    trace_vm: bool,
}

const EXAMPLES: &str = "\
Examples:
  relax-run model.relay --random 1                        numbers made up, the result printed
  relax-run model.relay --inputs in.npz --outputs out.npz
  relax-run model.relay --params weights.safetensors --inputs image.npy --summary
  relax-run model.relay --random 1 --bench 100 --threads 2 --profile

What is measured goes to standard error. Exit codes: 0 it ran; 1 the text has errors, the arguments do not fit, or the \
program failed; 2 wrongly called, or a file cannot be read or written.";

/// The execution engines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Engine {
    /// Code compiled by Cranelift.
    Native,
    /// The reference evaluator.
    Interp,
    /// The virtual machine.
    Vm,
}

/// Runs the tool; returns its exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    tool::main(arguments, run)
}

fn run(args: &Args) -> Result<(), Stop> {
    let begin = Instant::now();
    let cached = args.kernels == Some(KernelsBy::Cached);
    let opened = machine::open(args.source.path()?, cached)?;
    let engine = match (args.engine, &opened) {
        (engine, None) => engine.unwrap_or(Engine::Native),
        (None | Some(Engine::Vm), Some(_)) => Engine::Vm,
        (Some(_), Some(_)) => {
            return Err(Stop::Usage(
                "a program of the virtual machine runs with --engine vm".into(),
            ));
        }
    };
    possible(args, engine, opened.is_some())?;
    let outputs = match &args.outputs {
        Some(path) if io::is_stream(path) => {
            let said = "--outputs needs a file; without it results are printed";
            return Err(Stop::Usage(said.into()));
        }
        Some(path) => {
            let format = Format::choose(path, results::FORMATS)?;
            places::output(path)?;
            Some((path, format))
        }
        None => None,
    };
    if let Some(path) = &args.roofline {
        places::output(path)?;
    }
    if let Some(path) = &args.trace {
        trace::allowed(path)?;
    }
    let (machine, program) = match opened {
        Some(o) => (Some(o.file), o.shown),
        None => (None, args.source.read()?),
    };
    // The process exits soon: freeing the program would be pointless.
    let mut program = ManuallyDrop::new(program);
    let mut entry = load::sole_entry(&program.module, args.entry.as_deref())?;
    let name = program.module.globals[entry].name;
    if program.module.global_func(entry).is_none() {
        return Err(Stop::Usage(format!(
            "@{name} is no function that can be run by itself: call it from one"
        )));
    }
    let given = args.inputs.is_some() || args.random.is_some();
    args.source.bind(&mut program, &mut entry, !given)?;
    let (layout, tensors) = arguments(args, &program, entry)?;
    let result_type = match &program.module.types[program.typed.typing.globals[entry]] {
        relax_ir::Type::Func(f) => f.ret,
        _ => program.typed.typing.globals[entry],
    };
    let optimised = args.source.passes.level >= 2 && args.source.passes.pipeline.is_none();
    if engine == Engine::Native
        && optimised
        && !args.open_extents
        && let Some(extents) = inputs::extents(&program.module, &layout.slots, &tensors)
    {
        program.fix(&mut entry, &extents);
    }
    let value = match engine {
        Engine::Interp => {
            use relax_interp::{Node, Value};
            let data = |ctor, fields| Value::Node(Node::Adt(ctor, fields).into());
            let tensors = tensors.into_iter().map(Value::from);
            let arguments = layout.arguments(tensors, Value::tuple, data);
            let arguments = arguments.unwrap_or_default();
            evaluate(args, &program, entry, &arguments, begin)?
        }
        other => {
            let ctors = &program.module.ctors;
            let data = |ctor, fields| Value::Adt(ctors[ctor].tag, fields);
            let tensors = tensors.into_iter().map(Value::Tensor);
            let arguments = layout.arguments(tensors, Value::Tuple, data);
            let arguments = arguments.unwrap_or_default();
            match other {
                Engine::Vm => executed(args, &mut program, entry, machine, &arguments, begin)?,
                _ => compiled(args, &mut program, entry, &arguments, begin)?,
            }
        }
    };
    if args.summary {
        if let Some(best) = show::largest(&value) {
            io::say(&format!("largest at {best}\n"));
        }
        if let Some(kib) = native::peak_memory() {
            io::say(&format!("held at most {kib} KiB\n"));
        }
    }
    let result = Typed {
        module: &program.module,
        ty: result_type,
        value: &value,
    };
    match outputs {
        Some((path, format)) => results::write(path, format, &result)?,
        None => io::print((show::value(&result, Extent::Corners) + "\n").as_bytes())?,
    }
    Ok(())
}

/// Checks for options that an engine does not support.
fn possible(args: &Args, engine: Engine, opened: bool) -> Result<(), Stop> {
    let refused = [
        (
            args.profile && engine != Engine::Native,
            "--profile needs --engine native: kernels are native code",
        ),
        (
            args.roofline.is_some() && engine != Engine::Native,
            "--roofline needs --engine native: kernels are native code",
        ),
        (
            args.trace.is_some() && engine != Engine::Native,
            "--trace needs --engine native: kernels are native code",
        ),
        (
            args.max_steps.is_some() && engine == Engine::Native,
            "--max-steps needs --engine interp or vm: native code does not count",
        ),
        (
            args.trace_vm && engine != Engine::Vm,
            "--trace-vm needs --engine vm",
        ),
        (
            args.debug && engine != Engine::Vm,
            "--debug needs --engine vm",
        ),
        (
            args.kernels.is_some() && engine != Engine::Vm,
            "--kernels needs --engine vm",
        ),
        (
            args.debug && args.source.file.as_deref().is_none_or(io::is_stream),
            "--debug reads commands from standard input: the program needs a file",
        ),
        (
            opened && args.source.params.is_some(),
            "--params: the weights of a program of the virtual machine are in its file",
        ),
    ];
    match refused.iter().find(|r| r.0) {
        Some((_, why)) => Err(Stop::Usage((*why).to_owned())),
        None => Ok(()),
    }
}

/// Returns the tensors of the call, and how they are assembled into its arguments.
fn arguments(
    args: &Args,
    program: &Program,
    entry: GlobalId,
) -> Result<(Layout, Vec<Tensor>), Stop> {
    let module = &program.module;
    let name = module.globals[entry].name;
    let func = module
        .global_func(entry)
        .ok_or_else(|| format!("@{name} is no function"))?;
    let params = inputs::params(module, &program.typed.typing, func);
    let arrays = match &args.inputs {
        Some(path) => weights::read(path)?,
        None => Vec::new(),
    };
    let extent = args.extent;
    let typing = Some(&*program.typed.typing);
    let rest = args.random.map(|seed| Random {
        seed,
        extent,
        typing,
    });
    let made_up = rest.map(|_| usize::try_from(extent).unwrap_or(0));
    let layout = Layout::new(module, &params, &arrays, made_up);
    let bound = inputs::bind(
        module,
        &layout.slots,
        &arrays,
        args.source.taking.into(),
        rest,
    );
    let tensors = bound.map_err(|mut problems| {
        if args.inputs.is_none() && rest.is_none() {
            problems.push("`--inputs FILE` gives arguments, `--random SEED` makes them up".into());
        }
        Stop::Unfit(format!("the arguments do not fit @{name}"), problems)
    })?;
    let tensors = match args.bench.bench {
        Some(_) => weights::resident(tensors),
        None => tensors,
    };
    Ok((layout, tensors))
}

fn evaluate(
    args: &Args,
    program: &Program,
    entry: GlobalId,
    arguments: &[relax_interp::Value],
    begin: Instant,
) -> Result<Value, Stop> {
    let name = program.module.globals[entry].name;
    if args.summary {
        let ty = program
            .module
            .show_type(program.typed.typing.globals[entry]);
        io::say(&format!(
            "@{name}: {ty}\nready after {:.2?}\n",
            begin.elapsed()
        ));
    }
    let more = args.bench.runs();
    let (module, typing, most) = (&program.module, &program.typed.typing, args.max_steps);
    let (value, times) = evaluator::run_timed(module, typing, entry, arguments, more, most)
        .map_err(|d| Stop::show(&d.into(), &program.session.sources))?;
    if args.summary {
        io::say(&format!("ran in {:.2?}\n", times[0]));
    }
    io::say(&args.bench.report(name.as_str(), &times[1..]));
    Ok(value)
}

/// Runs a program on the virtual machine: from a file, or compiled from the text.
fn executed(
    args: &Args,
    program: &mut Program,
    entry: GlobalId,
    file: Option<machine::Loaded>,
    arguments: &[Value],
    begin: Instant,
) -> Result<Value, Stop> {
    let name = program.module.globals[entry].name;
    let places = Places::default();
    let (machine, fingerprint, took) = match file {
        Some(file) => (file.program, file.fingerprint, Some(file.took)),
        None => {
            let name_place = |sources: &_, span| places.name(sources, span);
            let lowered = program.lower(&args.source.passes, &[entry], name_place)?;
            let machine = relax::vm::program(&lowered, &program.module)
                .map_err(|d| Stop::show(&d, &program.session.sources))?;
            (machine, None, None)
        }
    };
    let by = args.kernels.unwrap_or(KernelsBy::Native);
    let loading = Instant::now();
    let kernels = match (by, fingerprint) {
        (KernelsBy::Cached, Some(fingerprint)) => {
            machine::cached(&machine, fingerprint, args.source.path()?, args.threads)?
        }
        (KernelsBy::Cached, None) => {
            let said = "--kernels cached needs a file that relaxc --emit vmbin wrote";
            return Err(Stop::Usage(said.into()));
        }
        _ => machine::kernels(&machine, by, args.threads)
            .map_err(|d| Stop::show(&d, &program.session.sources))?,
    };
    let loaded = loading.elapsed();
    if args.summary {
        let code: usize = machine.funcs.iter().map(|f| f.code.len()).sum();
        let (code, kernels) = (
            count(code, "instruction"),
            count(machine.kernels.len(), "kernel"),
        );
        io::say(&format!("{code}, {kernels}\n"));
        if let Some(took) = took {
            io::say(&format!("loaded in {:.2?}\n", took + loaded));
        }
        io::say(&format!("ready after {:.2?}\n", begin.elapsed()));
    }
    let how = machine::Run {
        more: args.bench.runs(),
        max_steps: args.max_steps,
        stack: args.stack.map(|megabytes| u64::from(megabytes) << 20),
        look: match (args.debug, args.trace_vm) {
            (true, _) => Look::Debug,
            (_, true) => Look::Trace,
            _ => Look::Away,
        },
    };
    let (value, times) = machine::run(&machine, kernels, name.as_str(), arguments, how)
        .map_err(|fault| machine::stop(program, &places, &fault))?;
    if args.summary {
        io::say(&format!("ran in {:.2?}\n", times[0]));
    }
    io::say(&args.bench.report(name.as_str(), &times[1..]));
    Ok(value)
}

fn compiled(
    args: &Args,
    program: &mut Program,
    entry: GlobalId,
    arguments: &[Value],
    begin: Instant,
) -> Result<Value, Stop> {
    let name = program.module.globals[entry].name;
    let places = Places::default();
    let name_place = |sources: &_, span| places.name(sources, span);
    let mut trace = Trace::new(begin);
    trace.stage("read");
    let lowered = program.lower(&args.source.passes, &[entry], name_place)?;
    let lowered = ManuallyDrop::new(lowered);
    trace.stage("optimise and lower");
    let jit = ManuallyDrop::new({
        let _shown = progress::stage("compiling");
        let measured = args.profile || args.trace.is_some() || args.roofline.is_some();
        native::jit_with(&lowered, measured, &program.files)
            .map_err(|d| Stop::show(&d, &program.session.sources))?
    });
    if args.summary {
        let summary = native::summary(&lowered);
        io::say(&format!("{summary}ready after {:.2?}\n", begin.elapsed()));
    }
    trace.stage("generate code");
    let host = Host::new(args.threads.into())?;
    if args.trace.is_some() {
        host.trace(trace::MOST);
        trace.kernels_begin();
    }
    if let Some(megabytes) = args.stack {
        host.set_stack_size(u64::from(megabytes) << 20)?;
    }
    let failed = |e: relax_codegen::Error| {
        let message = e.to_string();
        match places.diagnostic(host.status(), &message) {
            Some(d) => Stop::show(&d.into(), &program.session.sources),
            None => Stop::Failed(message),
        }
    };
    let (value, took) = {
        let _shown = progress::stage("running");
        host.call_timed(&jit, name.as_str(), arguments)
            .map_err(failed)?
    };
    trace.stage("run");
    if args.summary {
        io::say(&format!("ran in {took:.2?}\n"));
    }
    let (runs, mut times) = (args.bench.runs(), Vec::new());
    for done in 0..runs {
        if done == args.bench.warmup() {
            host.clear_profile();
        }
        progress::show("running", done, runs);
        let time = host.time(&jit, name.as_str(), arguments);
        times.push(time.map_err(failed)?);
        trace.stage("run");
    }
    if runs > 0 {
        progress::end();
    }
    io::say(&args.bench.report(name.as_str(), &times));
    if args.profile {
        let labels = jit.kernels();
        io::say(&profile::table(labels, &host.profile(labels.len())));
    }
    if let Some(file) = &args.roofline {
        let labels = jit.kernels();
        let costs = profile::costs(labels, &host.profile(labels.len()));
        let peaks = relax::roofline::Peaks::measured(args.threads.into());
        let peaks = peaks.map_err(|e| Stop::Usage(e.to_string()))?;
        io::write(file, relax::roofline::svg(&costs, peaks).as_bytes())?;
    }
    if let Some(path) = &args.trace {
        trace.write(path, jit.kernels(), &host.events())?;
    }
    Ok(value)
}

//! `relax-run FILE`: checks, compiles and runs a module.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use relax_cli::failure::Places;
use relax_cli::program::{Program, Source};
use relax_cli::stop::{self, Stop};
use relax_cli::{evaluator, inputs, io, load, native, npz, profile, progress, show, weights};
use relax_codegen::{Host, Value};
use relax_ir::GlobalId;

/// Runs a function of a Relay or Relax text and prints its result.
#[derive(Parser, Debug)]
#[command(name = "relax-run", version, after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    source: Source,
    /// Which function runs: `main` unless said otherwise, or the expression of an expression file, or the only
    /// function that there is.
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// What runs the program.
    #[arg(long, value_enum, default_value_t = Engine::Native)]
    engine: Engine,
    /// Ends with an error when a run takes more steps (calls, branches, tuples): for programs that may not end. With
    /// `--engine interp`.
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_steps: Option<u64>,
    /// Threads for parallel loops, this one included; 0 for one per processor.
    #[arg(long, value_name = "T", default_value_t = 1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: u16,
    /// Megabytes of stack that calls may take, 2048 unless the machine's memory is small. Only what is used takes
    /// memory.
    #[arg(long, value_name = "MB", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    stack: Option<u32>,
    /// The arguments: a `.npz` or `.safetensors` file with arrays by parameter name (`x`, or `p.0` for a field of a
    /// parameter `%p` that is a tuple), or `in0`, `in1`, … by position with tuples flattened in order; or a `.npy`
    /// file with the only one.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "random",
        help_heading = "Arguments and results"
    )]
    inputs: Option<PathBuf>,
    /// Takes random arguments; the same seed gives the same numbers.
    #[arg(
        long,
        value_name = "SEED",
        help_heading = "Arguments and results",
        allow_negative_numbers = true
    )]
    random: Option<u64>,
    /// The extent that random arguments take where the type leaves it open.
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Arguments and results",
          allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..))]
    extent: i64,
    /// Writes the results to a `.npz` file as `out0`, `out1`, … (tuples flattened in order) instead of
    /// printing them, which shows large tensors by their corners.
    #[arg(long, value_name = "FILE", help_heading = "Arguments and results")]
    outputs: Option<PathBuf>,
    /// Runs so many times more and says what the shortest and the median run took.
    #[arg(long, value_name = "RUNS", help_heading = "Measuring", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    bench: Option<u32>,
    /// Says what was compiled: types, kernels, constants; and how long reading, compiling and running took, and
    /// where a row of numbers (the answer of a classifier) is largest.
    #[arg(long, help_heading = "Measuring")]
    summary: bool,
    /// Says what each kernel cost: calls, time, share, GFLOP/s, GB/s, the shortest call. With `--bench` over all its runs.
    #[arg(long, help_heading = "Measuring")]
    profile: bool,
}

const EXAMPLES: &str = "\
Examples:
  relax-run model.relay --random 1                        numbers made up, the result printed
  relax-run model.relay --inputs in.npz --outputs out.npz
  relax-run model.relay --params weights.safetensors --inputs image.npy --summary
  relax-run model.relay --random 1 --bench 100 --threads 2 --profile

What is measured goes to standard error. Exit codes: 0 it ran; 1 the text has errors, the arguments do not fit, or the
program failed; 2 wrongly called, or a file cannot be read or written.";

/// What runs the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Engine {
    /// Code compiled by Cranelift.
    Native,
    /// The reference evaluator.
    Interp,
}

fn main() -> ExitCode {
    let args = Args::parse();
    stop::code("relax-run", run(&args))
}

fn run(args: &Args) -> Result<(), Stop> {
    let begin = Instant::now();
    if args.profile && args.engine == Engine::Interp {
        return Err(Stop::Usage(
            "--profile needs --engine native: the evaluator has no kernels".into(),
        ));
    }
    if args.max_steps.is_some() && args.engine == Engine::Native {
        return Err(Stop::Usage(
            "--max-steps needs --engine interp: native code does not count".into(),
        ));
    }
    if args.outputs.as_deref() == Some(Path::new("-")) {
        return Err(Stop::Usage(
            "--outputs needs a file; without it results are printed".into(),
        ));
    }
    let mut program = args.source.read()?;
    let mut entry = load::sole_entry(&program.module, args.entry.as_deref())?;
    let name = program.module.globals[entry].name;
    if program.module.global_func(entry).is_none() {
        return Err(Stop::Usage(format!(
            "@{name} is no function that can be run by itself: call it from one"
        )));
    }
    let given = args.inputs.is_some() || args.random.is_some();
    args.source.bind(&mut program, &mut entry, !given)?;
    let arguments = arguments(args, &program, entry)?;
    let result_type = match &program.module.types[program.typing.globals[entry]] {
        relax_ir::Type::Func(f) => f.ret,
        _ => program.typing.globals[entry],
    };
    let value = match args.engine {
        Engine::Interp => evaluate(args, &program, entry, &arguments, begin)?,
        Engine::Native => compiled(args, &mut program, entry, &arguments, begin)?,
    };
    if args.summary {
        if let Some(best) = show::largest(&value) {
            io::say(&format!("largest at {best}\n"));
        }
        if let Some(kib) = native::peak_memory() {
            io::say(&format!("held at most {kib} KiB\n"));
        }
    }
    let Some(path) = &args.outputs else {
        let text = show::value(&program.module, result_type, &value);
        return Ok(io::write(Path::new("-"), format!("{text}\n").as_bytes())?);
    };
    let tensors = show::flatten(&value).ok_or_else(|| {
        let ty = program.module.show_type(result_type);
        format!("@{name} returns {ty}, which is not made of tensors alone: leave out --outputs to print it")
    })?;
    let named = tensors.into_iter().enumerate();
    let named: Vec<_> = named.map(|(i, t)| (format!("out{i}"), t)).collect();
    Ok(npz::write(path, &named)?)
}

/// The arguments of the call.
fn arguments(args: &Args, program: &Program, entry: GlobalId) -> Result<Vec<Value>, Stop> {
    let module = &program.module;
    let name = module.globals[entry].name;
    let func = module
        .global_func(entry)
        .ok_or_else(|| format!("@{name} is no function"))?;
    let params = inputs::params(module, &program.typing, func);
    let slots = inputs::slots(module, &params);
    let bound = match (&args.inputs, args.random) {
        (Some(path), _) => inputs::bind(module, &slots, weights::read(path)?),
        (None, Some(seed)) => inputs::random(module, &slots, seed, args.extent),
        (None, None) => inputs::bind(module, &slots, Vec::new()).map_err(|mut problems| {
            problems.push("`--inputs FILE` gives arguments, `--random SEED` makes them up".into());
            problems
        }),
    };
    let tensors = bound
        .map_err(|problems| Stop::Unfit(format!("the arguments do not fit @{name}"), problems))?;
    let tensors = match args.bench {
        Some(_) => weights::resident(tensors),
        None => tensors,
    };
    let mut tensors = tensors.into_iter().map(Value::Tensor);
    let value = |p: &inputs::Param| inputs::assemble(module, p.ty, &mut tensors, Value::Tuple);
    Ok(params.iter().filter_map(value).collect())
}

fn evaluate(
    args: &Args,
    program: &Program,
    entry: GlobalId,
    arguments: &[Value],
    begin: Instant,
) -> Result<Value, Stop> {
    let name = program.module.globals[entry].name;
    if args.summary {
        let ty = program.module.show_type(program.typing.globals[entry]);
        io::say(&format!(
            "@{name}: {ty}\nready after {:.2?}\n",
            begin.elapsed()
        ));
    }
    let more = args.bench.unwrap_or(0) as usize;
    let (module, typing, most) = (&program.module, &program.typing, args.max_steps);
    let (value, times) = evaluator::run_timed(module, typing, entry, arguments, more, most)
        .map_err(|d| Stop::show(&d.into(), &program.session.sources))?;
    if args.summary {
        io::say(&format!("ran in {:.2?}\n", times[0]));
    }
    if args.bench.is_some() {
        report(name.as_str(), times[1..].to_vec());
    }
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
    let lowered = program.lower(&args.source.passes, &[entry], name_place)?;
    let jit = {
        let _shown = progress::stage("compiling");
        native::jit_with(&lowered, args.profile, program.file.as_ref())
            .map_err(|d| Stop::show(&d, &program.session.sources))?
    };
    if args.summary {
        let summary = native::summary(&lowered);
        io::say(&format!("{summary}ready after {:.2?}\n", begin.elapsed()));
    }
    let host = Host::new(args.threads.into())?;
    if let Some(megabytes) = args.stack {
        host.set_stack_size(u64::from(megabytes) << 20)?;
    }
    let failed = |message: String| match places.diagnostic(host.status(), &message) {
        Some(d) => Stop::show(&d.into(), &program.session.sources),
        None => Stop::Failed(message),
    };
    let (value, took) = {
        let _shown = progress::stage("running");
        host.call_timed(&jit, name.as_str(), arguments)
            .map_err(failed)?
    };
    if args.summary {
        io::say(&format!("ran in {took:.2?}\n"));
    }
    if let Some(runs) = args.bench {
        let runs = runs as usize;
        let mut times = Vec::new();
        host.clear_profile();
        for done in 0..runs {
            progress::show("running", done, runs);
            let time = host.time(&jit, name.as_str(), arguments);
            times.push(time.map_err(failed)?);
        }
        progress::end();
        report(name.as_str(), times);
    }
    if args.profile {
        let labels = jit.kernels();
        io::say(&profile::table(labels, &host.profile(labels.len())));
    }
    Ok(value)
}

/// Says how long runs took.
fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let (least, median, runs) = (times[0], times[times.len() / 2], times.len());
    io::say(&format!(
        "@{name}: least {least:.3?}, median {median:.3?} of {runs} runs\n"
    ));
}

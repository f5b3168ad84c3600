//! `relax-run FILE`: checks, compiles and runs a module.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use relax_cli::load::{self, Loaded};
use relax_cli::{
    evaluator, exit, inputs, io, native, npz, profile, progress, render, show, weights,
};
use relax_codegen::Host;
use relax_driver::ReadOptions;

/// Runs a function of a Relay or Relax text.
#[derive(Parser, Debug)]
#[command(name = "relax-run", version)]
struct Args {
    /// The file; `-` reads standard input.
    file: PathBuf,
    /// Which function runs: `main` unless said otherwise, or the expression of an expression file.
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// A `.npz` file with the arguments: by parameter name, or `in0`, `in1`, … by position.
    #[arg(long, value_name = "FILE", conflicts_with = "random")]
    inputs: Option<PathBuf>,
    /// Takes random arguments; the same seed gives the same numbers.
    #[arg(long, value_name = "SEED")]
    random: Option<u64>,
    /// The extent that random arguments take where the type leaves it open.
    #[arg(long, value_name = "N", default_value_t = 4)]
    extent: i64,
    /// Writes the results to a `.npz` file as `out0`, `out1`, … (tuples flattened in order) instead of
    /// printing them.
    #[arg(long, value_name = "FILE")]
    outputs: Option<PathBuf>,
    /// What runs the program.
    #[arg(long, value_enum, default_value_t = Engine::Native)]
    engine: Engine,
    /// Runs so many times more and prints the least and the median time.
    #[arg(long, value_name = "RUNS")]
    bench: Option<usize>,
    /// Says on standard error what was compiled: types, kernels, constants; and how long reading,
    /// compiling and running took, and where a row of numbers (the answer of a classifier) is largest.
    #[arg(long)]
    summary: bool,
    /// Prints what each kernel cost to standard error: calls, time, share, GFLOP/s, GB/s. With `--bench` over all
    /// its runs.
    #[arg(long)]
    profile: bool,
    /// Threads for parallel loops, this one included.
    #[arg(long, value_name = "T", default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    passes: native::Passes,
    /// A `.npz` or `.safetensors` file with values for parameters, by name: they are constants of the
    /// program then, and the other parameters are its arguments.
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// Gives constants whose metadata section is missing placeholders of zeros.
    #[arg(long)]
    stub_constants: bool,
}

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
    match run(&args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("relax-run: {message}");
            exit::USAGE.into()
        }
    }
}

fn run(args: &Args) -> Result<ExitCode, String> {
    let begin = std::time::Instant::now();
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
    let mut entry = load::entry(&module, args.entry.as_deref())?;
    let name = module.globals[entry].name;
    if module.global_func(entry).is_none() {
        return Err(format!("@{name} is a tensor program"));
    }
    let mut typing = std::sync::Arc::new(typing);
    let mut file = None;
    if let Some(path) = &args.params {
        let given = args.inputs.is_some() || args.random.is_some();
        match weights::bind(&mut module, &typing, entry, path, !given)? {
            Ok(bound) => {
                (entry, typing) = (bound.entry, bound.typing);
                file = Some(bound.file);
            }
            Err(problems) => {
                eprintln!("relax-run: {} does not fit @{name}:", path.display());
                problems.iter().for_each(|p| eprintln!("  {p}"));
                return Ok(exit::ERRORS.into());
            }
        }
    }
    let func = module
        .global_func(entry)
        .ok_or_else(|| format!("@{name} is a tensor program"))?;
    let params = inputs::params(&module, &typing, func);
    let bound = match (&args.inputs, args.random) {
        (Some(path), _) => inputs::bind(&module, &params, npz::mapped(path)?),
        (None, Some(seed)) => inputs::random(&module, &params, seed, args.extent),
        (None, None) => inputs::bind(&module, &params, Vec::new()),
    };
    let tensors = match bound {
        Ok(tensors) => tensors,
        Err(problems) => {
            eprintln!("relax-run: the arguments do not fit @{name}:");
            problems.iter().for_each(|p| eprintln!("  {p}"));
            return Ok(exit::ERRORS.into());
        }
    };
    let result_type = match &module.types[typing.globals[entry]] {
        relax_ir::Type::Func(f) => f.ret,
        _ => typing.globals[entry],
    };
    let value = match args.engine {
        Engine::Interp => match evaluator::run(&module, &typing, entry, &tensors) {
            Ok(value) => value,
            Err(d) => {
                render::to_stderr(&d.into(), &session.sources);
                return Ok(exit::ERRORS.into());
            }
        },
        Engine::Native => {
            let pipeline = args.passes.text();
            let typing = match native::optimise(&mut session, &mut module, &pipeline) {
                Ok(typing) => typing,
                Err(diagnostics) => {
                    render::to_stderr(&diagnostics, &session.sources);
                    return Ok(exit::ERRORS.into());
                }
            };
            // Passes number definitions anew.
            let entry = module
                .global(name.as_str())
                .ok_or_else(|| format!("the pipeline has removed @{name}"))?;
            let compiled =
                native::lower(&module, &typing, &[entry], &session.sources).and_then(|lowered| {
                    Ok((
                        native::jit_with(&lowered, args.profile, file.as_ref())?,
                        lowered,
                    ))
                });
            let (jit, lowered) = match compiled {
                Ok(compiled) => compiled,
                Err(diagnostics) => {
                    render::to_stderr(&diagnostics, &session.sources);
                    return Ok(exit::ERRORS.into());
                }
            };
            if args.summary {
                eprint!("{}", native::summary(&lowered));
                eprintln!("ready after {:?}", begin.elapsed());
            }
            let host = Host::new(args.threads).ok_or("out of memory")?;
            let value = match host.call_timed(&jit, name.as_str(), &tensors) {
                Ok((value, took)) => {
                    if args.summary {
                        eprintln!("ran in {took:?}");
                    }
                    value
                }
                Err(message) => {
                    eprintln!("relax-run: {message}");
                    return Ok(exit::ERRORS.into());
                }
            };
            if let Some(runs) = args.bench {
                let mut times = Vec::new();
                host.clear_profile();
                for done in 0..runs.max(1) {
                    progress::show("running", done, runs.max(1));
                    times.push(host.time(&jit, name.as_str(), &tensors)?);
                }
                progress::end();
                times.sort();
                eprintln!(
                    "@{name}: least {:?}, median {:?} of {} runs",
                    times[0],
                    times[times.len() / 2],
                    times.len()
                );
            }
            if args.profile {
                let labels = jit.kernels();
                eprint!("{}", profile::table(labels, &host.profile(labels.len())));
            }
            if let (true, Some(best)) = (args.summary, show::largest(&value)) {
                eprintln!("largest at {best}");
            }
            if let (true, Some(kib)) = (args.summary, native::peak_memory()) {
                eprintln!("held at most {kib} KiB");
            }
            value
        }
    };
    match &args.outputs {
        Some(path) => {
            let Some(tensors) = show::flatten(&value) else {
                return Err(format!(
                    "@{name} returns something else than tensors: print it instead"
                ));
            };
            let named: Vec<_> = tensors
                .into_iter()
                .enumerate()
                .map(|(i, t)| (format!("out{i}"), t))
                .collect();
            npz::write(path, &named)?;
        }
        None => {
            let text = show::value(&module, result_type, &value);
            io::write(&PathBuf::from("-"), format!("{text}\n").as_bytes())?;
        }
    }
    Ok(exit::OK)
}

//! `relax-bisect FILE --pipeline …`: finds the pass that breaks a program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use relax::fit::Taking;
use relax::{PassConfig, Session, Style, Typing};
use relax_base::Diagnostics;
use relax_cli::bisect::{
    Finding, Inputs, Kind, MAX_STEPS, Question, Tolerance, Verdict, reduce, search, watch_panics,
};
use relax_cli::load::{self, Loaded};
use relax_cli::opt::reproducer;
use relax_cli::reading::Reading;
use relax_cli::stop::Stop;
use relax_cli::words::count;
use relax_cli::{diff, formats, inputs, io, render, say, taking, tool, weights};
use relax_ir::{GlobalId, Module};
use relax_passes::Bound;
use relax_tensor::Tensor;

/// Finds the first pass of a pipeline whose output computes something else, does not verify, or
/// that crashes.
///
/// The reference evaluator runs the program before the pipeline and after each pass that changed
/// it. Exit codes: 0 all passes keep the meaning; 1 one does not, or the text has errors; 2 the
/// call is wrong.
#[derive(Parser, Debug)]
#[command(name = "relax-bisect")]
struct Args {
    /// The file; `-` reads standard input, as does no file at all.
    file: Option<PathBuf>,
    /// The passes, as relax-opt takes them; a reproducer names its own.
    #[arg(long, value_name = "PASSES", conflicts_with = "level")]
    pipeline: Option<String>,
    /// A named pipeline: -O0, -O1, -O2, -O3.
    #[arg(short = 'O', value_name = "LEVEL", value_parser = ["0", "1", "2", "3"])]
    level: Option<String>,
    /// Which function is evaluated: `main` unless said otherwise, or the expression of an
    /// expression file.
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Arguments by the names of parameters (`p.0` for a field of a parameter `%p` that is a
    /// tuple), from a .npz or .safetensors file. Others are random.
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
    #[command(flatten)]
    taking: taking::TakingArgs,
    /// The first seed of random arguments.
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    random: u64,
    /// How many times the program is run, each with the next seed.
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The extent that random arguments take where the type leaves it open.
    #[arg(long, value_name = "N", default_value_t = 4, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(0..))]
    extent: i64,
    /// Puts NaN, infinities and zeros of both signs among random numbers.
    #[arg(long)]
    special: bool,
    /// How far numbers may be apart, relative to the larger one.
    #[arg(long, value_name = "X", default_value_t = 1e-4, allow_negative_numbers = true, value_parser = distance)]
    rtol: f64,
    /// How far numbers may be apart.
    #[arg(long, value_name = "X", default_value_t = 1e-5, allow_negative_numbers = true, value_parser = distance)]
    atol: f64,
    /// How many steps (calls, branches, tuples, hundreds of iterations in operators) a run of the
    /// program may take.
    #[arg(long, value_name = "N", default_value_t = MAX_STEPS, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_steps: u64,
    /// Zeros differ when their signs do.
    #[arg(long)]
    signed_zeros: bool,
    /// Shrinks program and pipeline while the same pass goes wrong in the same way.
    #[arg(long)]
    reduce: bool,
    /// Where the (reduced) program goes, as a reproducer; `-` is standard output.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

/// Runs the tool; returns its exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    tool::main(arguments, run)
}

fn run(args: &Args) -> Result<(), Stop> {
    watch_panics();
    let file = tool::input(args.file.as_deref())?;
    if let Some(path) = &args.output {
        formats::text_output(path)?;
    }
    let loaded = load::checked(file, args.reading.options(false))?.ok_or(Stop::Shown)?;
    let Loaded {
        mut session,
        module,
        typed,
        ..
    } = loaded;
    let written = match (&args.pipeline, &args.level) {
        (Some(p), _) => p.clone(),
        (None, Some(level)) => format!("O{level}"),
        (None, None) => {
            // As it was read: it may have been standard input.
            let name = io::display_name(file);
            let source = session.sources.files().iter().find(|f| *f.name == *name);
            source
                .and_then(|file| reproducer::pipeline(&file.text))
                .ok_or_else(|| {
                    let expected = reproducer::EXPECTED;
                    format!("no --pipeline is given, and the file is no reproducer: {expected}")
                })?
                .to_owned()
        }
    };
    let pipeline = load::pipeline(&mut session, &written)?;
    let entry = load::entry(&module, args.entry.as_deref())?;
    let given = match &args.inputs {
        Some(path) => given(path, &module, &typed.typing, (entry, args.taking.into()))?,
        None => Vec::new(),
    };
    let question = Question {
        pipeline,
        config: PassConfig::default(),
        entry: module.globals[entry].name.to_string(),
        inputs: Inputs {
            given,
            seed: args.random,
            runs: args.runs,
            extent: args.extent,
            special: args.special,
            max_steps: args.max_steps,
        },
        tolerance: Tolerance {
            relative: args.rtol,
            absolute: args.atol,
            zeros: args.signed_zeros,
        },
    };
    match search(&module, &question) {
        Verdict::Same(passes) => {
            say!(
                "relax-bisect: {}, and the program computes the same after each\n",
                count(passes, "pass")
            );
            Ok(())
        }
        Verdict::Refused(run, errors) => {
            render::to_stderr(&errors, &session.sources);
            say!("relax-bisect: `{run}` refuses the program, and no pass before it goes wrong\n");
            Err(Stop::Shown)
        }
        Verdict::Unclear(message) => Err(Stop::Usage(message)),
        Verdict::Endless(error) => {
            render::to_stderr(&Diagnostics::from(*error), &session.sources);
            let said = "a program that does not end cannot be compared; --max-steps allows more";
            Err(Stop::Usage(said.into()))
        }
        Verdict::Wrong(finding) => {
            report(&finding, &session);
            if args.reduce {
                let less = reduce(&module, &question, &finding);
                let tried = count(less.tries, "program");
                say!("relax-bisect: reduced, with {tried} tried\n");
                report(&less.finding, &session);
                let to = args.output.clone().unwrap_or_else(|| "-".into());
                write(&to, &less.pipeline.to_string(), &less.module)?;
            } else if let Some(to) = &args.output {
                // The input of the pass, and the pass alone.
                write(to, &finding.run, &finding.before)?;
            }
            Err(Stop::Shown)
        }
    }
}

/// Reads the arguments from a file; they must be parameters of the entry.
fn given(
    path: &Path,
    module: &Module,
    typing: &Typing,
    (entry, taking): (GlobalId, Taking),
) -> Result<Vec<(String, Tensor)>, Stop> {
    let name = module.globals[entry].name;
    let func = module.global_func(entry);
    let func = func.ok_or_else(|| format!("@{name} is no function"))?;
    let params = inputs::params(module, typing, func);
    let arrays = weights::read(path)?;
    let (values, problems) = inputs::weights(module, entry, &params, arrays, (false, taking));
    if !problems.is_empty() {
        let (path, problems) = (path.display(), problems.join("\n  "));
        return Err(format!("{path} does not fit @{name}:\n  {problems}").into());
    }
    let mut tensors = Vec::new();
    let mut work: Vec<(String, Bound)> = values.into_iter().rev().collect();
    while let Some((name, value)) = work.pop() {
        match value {
            Bound::Tensor(tensor) => tensors.push((name, tensor)),
            Bound::Tuple(fields) => {
                let fields = fields.into_iter().enumerate().rev();
                work.extend(fields.map(|(i, f)| (format!("{name}.{i}"), f)));
            }
        }
    }
    Ok(tensors)
}

/// Parses a non-negative number.
fn distance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x >= 0.0 => Ok(x),
        _ => Err("it takes a number, 0 or more".into()),
    }
}

fn write(to: &Path, pipeline: &str, module: &Module) -> Result<(), Stop> {
    let text = relax::print(module, Style::Pretty, None);
    io::write(to, reproducer::write(pipeline, &text).as_bytes())
}

/// Prints the failing pass and its defect.
fn report(finding: &Finding, session: &Session) {
    let (number, run) = (finding.index + 1, &finding.run);
    match &finding.kind {
        Kind::Differs(found) => {
            let text = &found.text;
            say!(
                "relax-bisect: pass {number}, `{run}`, changes what the program computes: {text}\n"
            );
        }
        Kind::Broken(errors) => {
            say!("relax-bisect: pass {number}, `{run}`, breaks the module:\n");
            let errors: Diagnostics = errors.clone();
            render::to_stderr(&errors, &session.sources);
        }
        Kind::Crashed(crash) => {
            say!(
                "relax-bisect: pass {number}, `{run}`, crashes: {}\n",
                crash.text
            );
        }
    }
    if let Some(after) = &finding.after {
        let print = |m: &Module| relax::print(m, Style::Pretty, None);
        let mut out = String::new();
        let (before, after) = (print(&finding.before), print(after));
        let color = render::Style::for_stderr().color;
        diff::unified(("before", "after"), &before, &after, color, &mut out);
        io::say(&out);
    }
}

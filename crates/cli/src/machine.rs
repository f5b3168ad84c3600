//! The virtual machine behind `--engine vm`, and the files that hold its programs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relax::failure::Places;
use relax::{InferOptions, ReadOptions, Session, vm};
use relax_tensor::Value;
use relax_vm::{Executable, Kernels, Loops, Machine, Moment, Watch};

use crate::program::Program;
use crate::stop::Stop;
use crate::{bench, io};

mod beside;
mod debug;

pub use beside::{cached, native_path, write_native};
pub use debug::Debugger;

/// How a run goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// How many runs follow the first.
    pub more: usize,
    /// How many instructions a run may take.
    pub max_steps: Option<u64>,
    /// How many bytes of registers calls may take.
    pub stack: Option<u64>,
    /// How each run is looked on.
    pub look: Look,
}

/// How a run is looked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Look {
    /// Not at all.
    #[default]
    Away,
    /// Each instruction is printed.
    Trace,
    /// Instructions are stepped through, as commands on standard input say.
    Debug,
}

/// What runs kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum KernelsBy {
    /// Native code, which is compiled into memory.
    Native,
    /// Native code that is kept beside the file of the program: it is run as it is found there, and
    /// compiled where it is missing or another program's. Whoever can write to that file can do
    /// what you can.
    Cached,
    /// The reference execution of tensor programs: slow, and no code is made.
    Loops,
}

/// Runs an entry, and says how long each run took.
///
/// # Errors
/// The program fails.
pub fn run(
    program: &Executable,
    kernels: impl Kernels,
    entry: &str,
    arguments: &[Value],
    how: Run,
) -> Result<(Value, Vec<Duration>), relax_vm::Fault> {
    let func = program
        .entry(entry)
        .ok_or_else(|| relax_vm::Fault::no_entry(entry))?
        .func;
    let inputs: Vec<_> = arguments.iter().filter_map(vm::inner).collect();
    crate::memory::limit_to_machine();
    let mut machine = Machine::new(program, kernels).with_max_steps(how.max_steps);
    if let Some(bytes) = how.stack {
        machine = machine.with_stack(bytes);
    }
    machine = match how.look {
        Look::Away => machine,
        Look::Trace => machine.with_watch(Trace),
        Look::Debug => machine.with_watch(Debugger::new(std::io::stdin().lock())),
    };
    let (value, times) = bench::timed(how.more, || machine.call(func, inputs.clone()))?;
    Ok((vm::outer(&value), times))
}

/// Returns what runs the kernels of a program that was not read from a file of its own.
///
/// # Errors
/// A kernel asks for something that native code does not do.
pub fn kernels(
    program: &Executable,
    by: KernelsBy,
    threads: u16,
) -> Result<Box<dyn Kernels>, relax_base::Diagnostics> {
    Ok(match by {
        KernelsBy::Loops => Box::new(Loops),
        KernelsBy::Native | KernelsBy::Cached => {
            Box::new(vm::Native::new(program, threads.into())?)
        }
    })
}

/// Returns what a fault says to the user.
pub fn stop(program: &Program, places: &Places, fault: &relax_vm::Fault) -> Stop {
    match vm::diagnostic(places, fault) {
        Some(d) => Stop::show(&d.into(), &program.session.sources),
        None => {
            let calls: Vec<String> = fault
                .stack
                .iter()
                .map(|(f, at)| format!("\n  @{f}, instruction {at}"))
                .collect();
            Stop::Failed(format!("{fault}{}", calls.concat()))
        }
    }
}

/// Prints each instruction with what its registers hold.
struct Trace;

impl Watch for Trace {
    fn step(&mut self, moment: &Moment<'_>) -> bool {
        io::say(&line(moment));
        true
    }
}

/// An instruction with what its registers hold, as a line.
fn line(moment: &Moment<'_>) -> String {
    let inst = &moment.function.code[moment.at as usize];
    let held: Vec<String> = (inst.reads().iter())
        .map(|&r| format!("%{r} {}", brief(&moment.registers[r as usize])))
        .collect();
    let held = match held.is_empty() {
        true => String::new(),
        false => format!("    // {}", held.join(", ")),
    };
    let (name, at, inst) = (&moment.function.name, moment.at, moment.program.shown(inst));
    format!("@{name} {at}: {inst}{held}\n")
}

/// Returns what a register holds, in a few words.
fn brief(value: &relax_vm::Value) -> String {
    use relax_vm::{Node, Value as V};
    match value {
        V::Void => "nothing".to_owned(),
        V::Scalar(dtype, _) => match value.tensor() {
            Some(t) => format!("{} {dtype}", t.get_f64(0)),
            None => dtype.to_string(),
        },
        V::Tensor(_) | V::Placed(_) => match value.tensor() {
            Some(t) => format!("{} {:?}", t.dtype(), t.shape()),
            None => "a tensor".to_owned(),
        },
        V::Shape(dims) => format!("shape {dims:?}"),
        V::Text(text) => format!("{text:?}"),
        V::Storage(_) => "a block of memory".to_owned(),
        V::Node(node) => match &**node {
            Node::Tuple(fields) => format!("a tuple of {}", fields.len()),
            Node::Adt(tag, fields) => format!("constructor {tag} of {}", fields.len()),
            Node::Closure(..) => "a closure".to_owned(),
            Node::Ref(_) => "a reference".to_owned(),
        },
    }
}

/// A program of the machine from a file.
pub struct Opened {
    /// The program.
    pub file: Loaded,
    /// Its interface.
    pub shown: Program,
}

/// What a file holds.
pub struct Loaded {
    /// The program.
    pub program: Executable,
    /// The fingerprint of the file, where it is no listing.
    pub fingerprint: Option<[u8; 32]>,
    /// How long it took to load.
    pub took: Duration,
}

/// A program of the machine in a file, if one is in it: by its first bytes. Tensor programs whose
/// native code is `cached` beside the file are looked at only where it is not.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn open(path: &Path, cached: bool) -> Result<Option<Opened>, Stop> {
    const LISTING: &[u8] = b"#[vm = ";
    let begin = Instant::now();
    // What can be read only once is left to who reads it whole.
    if io::is_stream(path) || !path.is_file() {
        return Ok(None);
    }
    let mut start = [0u8; 4096];
    let found = std::fs::File::open(path).and_then(|mut f| std::io::Read::read(&mut f, &mut start));
    let start = &start[..found.unwrap_or(0)];
    let refused = |e: &dyn std::fmt::Display| Stop::Failed(format!("{}: {e}", path.display()));
    let mut fingerprint = None;
    let program = if start.starts_with(relax_vm::MAGIC) {
        let bytes = crate::weights::open(path)?;
        let found = relax_vm::fingerprint(bytes.bytes());
        fingerprint = Some(found.map_err(|e| refused(&e))?);
        let read = if cached {
            relax_vm::open
        } else {
            relax_vm::read
        };
        read(Arc::new(bytes)).map_err(|e| refused(&e))?
    } else if after_comments(start).starts_with(LISTING) {
        let text = String::from_utf8(io::contents(path)?.into_vec()).map_err(|e| refused(&e))?;
        relax_vm::read_listing(&text).map_err(|e| refused(&e))?
    } else {
        return Ok(None);
    };
    let mut session = Session::new(ReadOptions::default());
    let name = io::display_name(path);
    let text = program.interface.clone().into_bytes();
    let (module, typed, found) = session.check_typed(&name, text, &InferOptions::default());
    if found.has_errors() {
        let message = "the program's interface cannot be read";
        return Err(refused(&message));
    }
    let shown = Program {
        session,
        module,
        typed,
        files: Vec::new(),
    };
    let file = Loaded {
        program,
        fingerprint,
        took: begin.elapsed(),
    };
    Ok(Some(Opened { file, shown }))
}

/// Returns what follows the comments that a text begins with.
fn after_comments(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        if !text.starts_with(b"//") {
            return text;
        }
        let end = text.iter().position(|&b| b == b'\n').unwrap_or(text.len());
        text = &text[end..];
    }
}

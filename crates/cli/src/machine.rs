//! The virtual machine behind `--engine vm`, and the files with its programs.

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

/// Run options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// The number of additional runs.
    pub more: usize,
    /// The limit on instructions per run.
    pub max_steps: Option<u64>,
    /// The limit on the memory of call frames' registers, in bytes.
    pub stack: Option<u64>,
    /// How runs are observed.
    pub look: Look,
}

/// The ways in which a run can be observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Look {
    /// Not at all.
    #[default]
    Away,
    /// Every instruction is printed.
    Trace,
    /// Interactive stepping, with commands on standard input.
    Debug,
}

/// The ways to run kernels.
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

/// Runs an entry; returns the time of each run.
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

/// Returns the kernel engine for a program that was not read from a bytecode file.
///
/// # Errors
/// A kernel uses something that has no native code.
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

/// Converts a fault to the error shown to the user.
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

/// Prints each instruction with the contents of its registers.
struct Trace;

impl Watch for Trace {
    fn step(&mut self, moment: &Moment<'_>) -> bool {
        io::say(&line(moment));
        true
    }
}

/// Formats an instruction with the contents of its registers.
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

/// Summarises the content of a register.
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

/// A bytecode program from a file.
pub struct Opened {
    /// The program.
    pub file: Loaded,
    /// Its interface.
    pub shown: Program,
}

/// The content of a file.
pub struct Loaded {
    /// The program.
    pub program: Executable,
    /// The fingerprint of the file, unless it is a listing.
    pub fingerprint: Option<[u8; 32]>,
    /// The time it took to load.
    pub took: Duration,
}

/// Opens a bytecode program, if the file contains one according to its first bytes. With `cached`,
/// tensor programs with native code in the accompanying file are parsed only if that is missing.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn open(path: &Path, cached: bool) -> Result<Option<Opened>, Stop> {
    const LISTING: &[u8] = b"#[vm = ";
    let begin = Instant::now();
    // Input that can be read only once is left to the caller.
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

/// Returns the text after leading comments.
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

//! The virtual machine behind `--engine vm`, and the files that hold its programs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use relax::failure::Places;
use relax::{InferOptions, ReadOptions, Session, vm};
use relax_tensor::Value;
use relax_vm::{Executable, Function, Loops, Machine, Watch};

use crate::program::Program;
use crate::stop::Stop;
use crate::{bench, io};

/// How a run goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// How many runs follow the first.
    pub more: usize,
    /// How many instructions a run may take.
    pub max_steps: Option<u64>,
    /// How many bytes of registers calls may take.
    pub stack: Option<u64>,
    /// Whether each instruction is printed.
    pub trace: bool,
}

/// Runs an entry, and says how long each run took.
///
/// # Errors
/// The program fails.
pub fn run(
    program: &Executable,
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
    let mut machine = Machine::new(program, Loops).with_max_steps(how.max_steps);
    if let Some(bytes) = how.stack {
        machine = machine.with_stack(bytes);
    }
    if how.trace {
        machine = machine.with_watch(Trace(program));
    }
    let (value, times) = bench::timed(how.more, || machine.call(func, inputs.clone()))?;
    Ok((vm::outer(&value), times))
}

/// What a fault says to the user.
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
struct Trace<'p>(&'p Executable);

impl Watch for Trace<'_> {
    fn step(&mut self, function: &Function, at: u32, registers: &[relax_vm::Value]) {
        let inst = self.0.shown(&function.code[at as usize]);
        let read = function.code[at as usize].reads();
        let held: Vec<String> = read
            .iter()
            .map(|&r| format!("%{r} {}", brief(&registers[r as usize])))
            .collect();
        let held = if held.is_empty() {
            String::new()
        } else {
            format!("    // {}", held.join(", "))
        };
        io::say(&format!("@{} {at}: {inst}{held}\n", function.name));
    }
}

/// What a register holds, in a few words.
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

/// A program of the machine in a file, if one is in it: by its first bytes.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn open(path: &Path) -> Result<Option<(Executable, Program)>, Stop> {
    const LISTING: &[u8] = b"#[vm = ";
    // What can be read only once is left to who reads it whole.
    if io::is_stream(path) || !path.is_file() {
        return Ok(None);
    }
    let mut start = [0u8; 4096];
    let found = std::fs::File::open(path).and_then(|mut f| std::io::Read::read(&mut f, &mut start));
    let start = &start[..found.unwrap_or(0)];
    let refused = |e: &dyn std::fmt::Display| Stop::Failed(format!("{}: {e}", path.display()));
    let program = if start.starts_with(relax_vm::MAGIC) {
        let bytes = crate::weights::open(path)?;
        relax_vm::read(Arc::new(Owner(bytes))).map_err(|e| refused(&e))?
    } else if after_comments(start).starts_with(LISTING) {
        let text = String::from_utf8(io::contents(path)?.into_vec()).map_err(|e| refused(&e))?;
        relax_vm::read_listing(&text).map_err(|e| refused(&e))?
    } else {
        return Ok(None);
    };
    let mut session = Session::new(ReadOptions::default());
    let name = io::display_name(path);
    let text = program.interface.clone().into_bytes();
    let (module, typing, found) = session.check(&name, text, &InferOptions::default());
    if found.has_errors() {
        let message = "the program's interface cannot be read";
        return Err(refused(&message));
    }
    let shown = Program {
        session,
        module,
        typing: Arc::new(typing),
        files: Vec::new(),
    };
    Ok(Some((program, shown)))
}

/// What follows the comments that a text begins with.
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

/// A mapped file that tensors borrow from.
struct Owner(relax::weights::Mapped);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

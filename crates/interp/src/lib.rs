//! The reference evaluator: whole modules, by the operators' own computations.
//!
//! Functions are compiled to short instruction lists, one per closure, and run by a machine with
//! its own list of frames; operators become tensor programs for the shapes at hand, which are
//! kept and run by the reference execution of [`relax_loops`].
//!
//! Invariant: neither deep programs nor deep recursion nor deep values use the stack of the
//! evaluator; calls in tail position use no memory.
//! Invariant: whatever the module and the inputs, the outcome is a value or a diagnostic.

mod code;
pub mod codes;
mod compile;
mod machine;
mod packed;
mod plan;
mod types;
mod value;

use std::rc::Rc;

use relax_base::Diagnostic;
use relax_infer::Typing;
use relax_ir::{ConstId, FuncId, GlobalId, Module};
use rustc_hash::FxHashMap;

pub use packed::{NoPacked, Packed};
pub use value::{Closure, Node, Value};

/// An evaluator of one typed module. It keeps what it compiles, so that later runs are quicker.
pub struct Interp<'m> {
    m: &'m Module,
    typing: &'m Typing,
    packed: Box<dyn Packed + 'm>,
    codes: Vec<Rc<code::Code>>,
    funcs: FxHashMap<FuncId, usize>,
    consts: FxHashMap<ConstId, Value>,
    plans: FxHashMap<machine::PlanKey, Rc<plan::Plan>>,
    places: machine::memory::Places,
    unit: Value,
    /// How many instructions a run may take.
    max_steps: Option<u64>,
}

impl<'m> Interp<'m> {
    /// An evaluator without packed functions.
    pub fn new(m: &'m Module, typing: &'m Typing) -> Interp<'m> {
        Interp {
            m,
            typing,
            packed: Box::new(NoPacked),
            codes: Vec::new(),
            funcs: FxHashMap::default(),
            consts: FxHashMap::default(),
            plans: FxHashMap::default(),
            places: machine::memory::Places::default(),
            unit: Value::tuple(vec![]),
            max_steps: None,
        }
    }
    /// With these packed functions.
    pub fn with_packed(mut self, packed: impl Packed + 'm) -> Self {
        self.packed = Box::new(packed);
        self
    }
    /// A run that takes more than so many steps ends with an error at the call that it has come to.
    /// A step is an instruction of the evaluator: a call, a branch, a tuple. Without a limit a
    /// program that does not end runs on.
    pub fn with_max_steps(mut self, steps: Option<u64>) -> Self {
        self.max_steps = steps;
        self
    }
    /// Calls a global function. Arguments are checked against its parameters' types, where symbolic
    /// dimensions take their values from them.
    ///
    /// # Errors
    /// The program fails, or takes more steps than it may: with the place.
    pub fn run(&mut self, entry: GlobalId, inputs: Vec<Value>) -> Result<Value, Diagnostic> {
        self.start(entry, inputs).map_err(|d| *d)
    }
}

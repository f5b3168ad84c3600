//! The reference evaluator: runs whole modules with the operators' reference computations.
//!
//! Functions are compiled to short instruction lists, one per closure, and run by a machine with an
//! explicit frame stack; operators are instantiated as tensor programs for the shapes at hand,
//! which are cached and run by the reference interpreter of [`relax_loops`].
//!
//! Invariant: neither deep programs nor deep recursion nor deep values use the native stack; tail
//! calls use no memory.
//!
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

/// An evaluator of a typed module. It caches what it compiles, so that later runs are faster.
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
    /// The limit on steps per run.
    max_steps: Option<u64>,
    /// What the current run may still take, in iterations.
    left: u64,
}

impl<'m> Interp<'m> {
    /// Creates an evaluator without packed functions.
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
            left: u64::MAX,
        }
    }
    /// Sets the packed functions.
    pub fn with_packed(mut self, packed: impl Packed + 'm) -> Self {
        self.packed = Box::new(packed);
        self
    }
    /// Limits the steps of a run; exceeding it is an error at the current call. A step is an
    /// instruction of the evaluator (a call, a branch, a tuple), or a hundred iterations of loops
    /// within operators and tensor programs. Without a limit, a non-terminating program runs
    /// forever.
    pub fn with_max_steps(mut self, steps: Option<u64>) -> Self {
        self.max_steps = steps;
        self
    }
    /// Calls a global function. Arguments are checked against the types of its parameters, which
    /// bind symbolic dimensions.
    ///
    /// # Errors
    /// The program fails, or exceeds the step limit; with the location.
    pub fn run(&mut self, entry: GlobalId, inputs: Vec<Value>) -> Result<Value, Diagnostic> {
        self.start(entry, inputs).map_err(|d| *d)
    }
}

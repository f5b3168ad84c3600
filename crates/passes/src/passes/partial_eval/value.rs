//! What is known of values, and the store.

use relax_ir::{CtorId, ExprId, FuncId, TypeSubst, VarId};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use std::rc::Rc;

/// A value of the run. Later values have greater numbers, which is their age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Value(pub u32);

/// What is known of a value.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Nothing.
    Nothing,
    /// All.
    Tensor(Tensor),
    /// Its fields are values of the run.
    Tuple(Rc<[Value]>),
    /// Its constructor, and fields that are values of the run.
    Data(CtorId, Rc<[Value]>),
    /// Which cell it is.
    Cell(u32),
    /// Which function it is.
    Closure(Rc<Closure>),
}

/// A function of the program, with what it uses from outside.
#[derive(Debug)]
pub(super) struct Closure {
    pub func: FuncId,
    /// What stands for it in itself, and in the program that is left.
    pub this: Option<VarId>,
    pub captured: Vec<(VarId, Value)>,
    /// What the type parameters around it stand for.
    pub types: TypeSubst,
}

/// A value: what is known of it, and its name in the program that is left.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub known: Known,
    pub name: ExprId,
}

/// What reference cells hold, as far as it is known. Branches and bodies work on top of it and are
/// forgotten with [`Store::rewind`].
#[derive(Debug, Default)]
pub(super) struct Store {
    frames: Vec<Frame>,
}

#[derive(Debug, Default)]
struct Frame {
    cells: FxHashMap<u32, Value>,
    /// Something unknown ran: what lies below is out of date.
    fence: bool,
}

impl Store {
    /// Returns where to come back to.
    pub fn mark(&mut self) -> usize {
        self.frames.push(Frame::default());
        self.frames.len() - 1
    }
    /// Forgets what was written since.
    pub fn rewind(&mut self, mark: usize) {
        self.frames.truncate(mark);
    }
    /// Something unknown runs.
    pub fn invalidate(&mut self) {
        match self.frames.last_mut() {
            // Nothing of this frame is of use any more, but it may be one to come back to.
            Some(top) if top.fence => top.cells.clear(),
            _ => self.frames.push(Frame {
                fence: true,
                ..Frame::default()
            }),
        }
    }
    pub fn write(&mut self, cell: u32, value: Value) {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let top = self.frames.last_mut().expect("there is one");
        top.cells.insert(cell, value);
    }
    pub fn read(&self, cell: u32) -> Option<Value> {
        for frame in self.frames.iter().rev() {
            if let Some(&value) = frame.cells.get(&cell) {
                return Some(value);
            }
            if frame.fence {
                return None;
            }
        }
        None
    }
}

/// What arguments a function was last unfolded on, argument by argument: the oldest value, and the
/// smallest number.
#[derive(Clone, Debug)]
pub(super) struct Fuel(pub Vec<(Value, u64)>);

impl Fuel {
    /// Returns what is left after another round, and whether the round brings the end nearer.
    pub fn meet(&self, next: &Fuel) -> (Fuel, bool) {
        let mut progress = false;
        let both = self.0.iter().zip(&next.0);
        let met = both.map(|(&(age, number), &(a, n))| {
            progress |= a < age || n < number;
            (age.min(a), number.min(n))
        });
        (Fuel(met.collect()), progress)
    }
}

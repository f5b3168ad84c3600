//! Static values, and the store.

use relax_ir::{CtorId, ExprId, FuncId, TypeSubst, VarId};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use std::rc::Rc;

/// A value of the run. Later values have larger numbers, so that these encode their age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Value(pub u32);

/// The static part of a value.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Nothing is known.
    Nothing,
    /// The whole tensor.
    Tensor(Tensor),
    /// Its fields are values of the run.
    Tuple(Rc<[Value]>),
    /// Its constructor, and fields that are values of the run.
    Data(CtorId, Rc<[Value]>),
    /// The number of the cell.
    Cell(u32),
    /// The function.
    Closure(Rc<Closure>),
}

/// A function of the program, with its captured values.
#[derive(Debug)]
pub(super) struct Closure {
    pub func: FuncId,
    /// Its own variable, within itself and in the residual program.
    pub this: Option<VarId>,
    pub captured: Vec<(VarId, Value)>,
    /// The instantiation of the enclosing type parameters.
    pub types: TypeSubst,
}

/// A value: its static part, and its name in the residual program.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub known: Known,
    pub name: ExprId,
}

/// The contents of reference cells, as far as known. Branches and bodies work on top of it and are
/// undone with [`Store::rewind`].
#[derive(Debug, Default)]
pub(super) struct Store {
    frames: Vec<Frame>,
}

#[derive(Debug, Default)]
struct Frame {
    cells: FxHashMap<u32, Value>,
    /// Marks that something unknown ran: the frames below are out of date.
    fence: bool,
}

impl Store {
    /// Returns the state to rewind to.
    pub fn mark(&mut self) -> usize {
        self.frames.push(Frame::default());
        self.frames.len() - 1
    }
    /// Undoes the writes since a mark.
    pub fn rewind(&mut self, mark: usize) {
        self.frames.truncate(mark);
    }
    /// Records that something unknown runs.
    pub fn invalidate(&mut self) {
        match self.frames.last_mut() {
            // Nothing in this frame is valid any more, but it may be a frame to return to.
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

/// The arguments that a function was last unfolded on, argument by argument: the oldest value, and
/// the smallest number.
#[derive(Clone, Debug)]
pub(super) struct Fuel(pub Vec<(Value, u64)>);

impl Fuel {
    /// Returns the fuel after another unfolding, and whether the unfolding makes progress.
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

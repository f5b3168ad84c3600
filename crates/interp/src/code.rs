//! The machine's code: lists of instructions over numbered slots.

use relax_base::Symbol;
use relax_ir::{ConstId, CtorId, ExprId, FuncId, GlobalId, OpId, TypeId};

/// A slot of a function's frame.
pub(crate) type Slot = u32;

/// An operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Src {
    Slot(Slot),
    Const(ConstId),
    Global(GlobalId),
    Op(OpId),
    Ctor(CtorId),
    Extern(Symbol),
}

/// An instruction. Jump targets are indices in the list.
#[derive(Clone, Debug)]
pub(crate) enum Ins {
    Move(Slot, Src),
    Tuple(Slot, Box<[Src]>),
    Construct(Slot, CtorId, Box<[Src]>),
    /// Reads a field of a tuple or data type instance.
    Field(Slot, Src, u32),
    /// Creates a closure: its code, and the captured values.
    Closure(Slot, usize, Box<[Src]>),
    Call {
        dst: Slot,
        at: ExprId,
        callee: Src,
        args: Box<[Src]>,
        /// Whether it is a tail call: the current frame is popped first.
        tail: bool,
    },
    Branch(Src, usize),
    Jump(usize),
    /// Continues if the value was made by this constructor, otherwise jumps.
    IfCtor(Src, CtorId, usize),
    NoMatch(ExprId, Src),
    RefNew(Slot, Src),
    RefRead(Slot, Src),
    RefWrite(Slot, Src, Src),
    Shape(Slot, ExprId),
    /// Executes `match_shape` and `match_cast`.
    Match(ExprId, Src),
    /// Executes the run-time checks that inference left at this expression, given its value.
    Check(ExprId, Src),
    /// An expression whose error was already reported.
    Broken(ExprId),
    Ret(Src),
}

/// A compiled function.
pub(crate) struct Code {
    pub func: FuncId,
    pub params: u32,
    pub slots: u32,
    pub ins: Vec<Ins>,
    /// The slots of the captured values, in order.
    pub captures: Vec<Slot>,
    /// The slot of the closure itself, if its body refers to its own name.
    pub own: Option<Slot>,
    /// Parameters whose types bind or mention dimensions.
    pub dims: Vec<(u32, TypeId)>,
}

//! Functions in the form that the machine runs: a list of instructions over numbered slots.

use relax_base::Symbol;
use relax_ir::{ConstId, CtorId, ExprId, FuncId, GlobalId, OpId, TypeId};

/// A slot of a function's frame.
pub(crate) type Slot = u32;

/// Where an operand comes from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Src {
    Slot(Slot),
    Const(ConstId),
    Global(GlobalId),
    Op(OpId),
    Ctor(CtorId),
    Extern(Symbol),
}

/// An instruction. Jump targets are positions in the list.
#[derive(Clone, Debug)]
pub(crate) enum Ins {
    Move(Slot, Src),
    Tuple(Slot, Box<[Src]>),
    Construct(Slot, CtorId, Box<[Src]>),
    /// A field of a tuple or an ADT instance.
    Field(Slot, Src, u32),
    /// Which code, and the captured values.
    Closure(Slot, usize, Box<[Src]>),
    Call {
        dst: Slot,
        at: ExprId,
        callee: Src,
        args: Box<[Src]>,
        /// The result is this function's own: its frame goes first.
        tail: bool,
    },
    Branch(Src, usize),
    Jump(usize),
    /// Goes on when the value was made by this constructor.
    IfCtor(Src, CtorId, usize),
    NoMatch(ExprId, Src),
    RefNew(Slot, Src),
    RefRead(Slot, Src),
    RefWrite(Slot, Src, Src),
    Shape(Slot, ExprId),
    /// `match_shape` and `match_cast`.
    Match(ExprId, Src),
    /// What inference left to check at this expression, whose value is given.
    Check(ExprId, Src),
    /// An expression with an error that was reported.
    Broken(ExprId),
    Ret(Src),
}

/// A compiled function.
pub(crate) struct Code {
    pub func: FuncId,
    pub params: u32,
    pub slots: u32,
    pub ins: Vec<Ins>,
    /// The slots that captured values go to, in order.
    pub captures: Vec<Slot>,
    /// The slot for the closure itself, where its body refers to its own name.
    pub own: Option<Slot>,
    /// Parameters whose types bind or mention dimensions.
    pub dims: Vec<(u32, TypeId)>,
}

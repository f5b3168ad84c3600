//! Tensor programs.

use relax_base::{Arena, Span, Symbol};
use relax_tensor::{DType, Tensor};

use crate::{Ex, Var};

relax_base::define_id! {
    /// A buffer of one [`Program`].
    pub struct Buf("b");
}

/// The maximum length of a buffer's axis (2^48), so that arithmetic on a few extents does not
/// overflow. Execution refuses inputs beyond it, bounds proofs rely on it.
pub const MOST_EXTENT: i64 = 1 << 48;

/// The role of a buffer in its program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Read only; given by the caller.
    Input,
    /// Written; given by the caller (destination-passing), or allocated where its extents are
    /// known only after an earlier stage has run.
    Output,
    /// Lives between stages.
    Temp,
    /// Allocated by a [`Stmt::Alloc`]; its live range ends with the enclosing loop body.
    Local,
}

/// A dense row-major buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Its name in text, without sigil.
    pub name: Symbol,
    /// Its element type.
    pub dtype: DType,
    /// Its extents (`int64`): constants, dimension variables, expressions over them, or elements
    /// of buffers that earlier stages wrote.
    pub shape: Vec<Ex>,
    /// Its role in the program.
    pub role: Role,
}

/// A scalar variable.
#[derive(Clone, PartialEq, Debug)]
pub struct VarInfo {
    /// Its name in text, without sigil.
    pub name: Symbol,
    /// Its type.
    pub dtype: DType,
}

/// The facts about a tensor that are known when a computation is built.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorInfo {
    /// Its element type.
    pub dtype: DType,
    /// Its constant extents; `None` where symbolic or known only at run time.
    pub shape: Vec<Option<i64>>,
}

impl From<&Tensor> for TensorInfo {
    fn from(t: &Tensor) -> Self {
        TensorInfo {
            dtype: t.dtype(),
            shape: t.shape().iter().map(|&d| Some(d)).collect(),
        }
    }
}

/// The permitted execution of a loop's iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mark {
    /// In order.
    #[default]
    Serial,
    /// In any order, on several threads.
    Parallel,
    /// In groups of this many lanes.
    Vectorize(u32),
    /// Unrolled.
    Unroll,
}

/// A statement of a loop nest.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// A loop of `var` from 0 to `extent` (exclusive).
    For {
        /// The index, `int64`.
        var: Var,
        /// Number of iterations; negative counts as 0.
        extent: Ex,
        /// The permitted execution of the iterations.
        mark: Mark,
        /// The body.
        body: Vec<Stmt>,
    },
    /// Repeats as long as `cond` holds.
    While {
        /// A `bool`.
        cond: Ex,
        /// The body.
        body: Vec<Stmt>,
    },
    /// A branch.
    If {
        /// A `bool`.
        cond: Ex,
        /// The statements where it holds.
        then: Vec<Stmt>,
        /// The statements where it does not.
        otherwise: Vec<Stmt>,
    },
    /// Writes an element; indices are `int64`, the value has the buffer's type.
    Store {
        /// The buffer.
        buf: Buf,
        /// One index per axis.
        index: Vec<Ex>,
        /// The value written.
        value: Ex,
    },
    /// Names a scalar for the rest of the block.
    Let {
        /// The name.
        var: Var,
        /// Its value.
        value: Ex,
    },
    /// Allocates a local buffer for the rest of the block, uninitialised.
    Alloc {
        /// A buffer of [`Role::Local`].
        buf: Buf,
    },
    /// Sets the initial values of a reduction: runs in the first iteration of every enclosing loop
    /// that the body's indices do not depend on (`init { … }`).
    Init {
        /// The loops over which the reduction runs; the body runs when all are at 0.
        over: Vec<Var>,
        /// The body.
        body: Vec<Stmt>,
    },
    /// Aborts the program with a message unless `cond` holds.
    Assert {
        /// A `bool`.
        cond: Ex,
        /// The error otherwise; each `{}` is replaced by the next of `values`.
        message: String,
        /// Integers or truth values that the message shows.
        values: Vec<Ex>,
        /// The part that the check belongs to: a number among the program's [`Program::parts`].
        part: u32,
    },
}

/// The operation of a reduction; each has its identity element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combiner {
    /// Sum, from 0.
    Sum,
    /// Product, from 1.
    Prod,
    /// Maximum, from the least value.
    Max,
    /// Minimum, from the greatest value.
    Min,
    /// Logical (or bitwise) and, from all ones.
    And,
    /// Logical (or bitwise) or, from 0.
    Or,
}

impl Combiner {
    /// All operations.
    ///
    /// Invariant: an operation keeps its place, which is its number in files.
    pub const ALL: [Combiner; 6] = [
        Combiner::Sum,
        Combiner::Prod,
        Combiner::Max,
        Combiner::Min,
        Combiner::And,
        Combiner::Or,
    ];

    /// The function that combines two values.
    pub fn op(self) -> crate::BinOp {
        use crate::BinOp;
        match self {
            Combiner::Sum => BinOp::Add,
            Combiner::Prod => BinOp::Mul,
            Combiner::Max => BinOp::Max,
            Combiner::Min => BinOp::Min,
            Combiner::And => BinOp::And,
            Combiner::Or => BinOp::Or,
        }
    }
    /// Returns the identity element. The least and the greatest float are the finite ones, as in
    /// TVM: the maximum of minus infinities only is the least finite number.
    pub fn identity(self, dtype: DType) -> Ex {
        let greatest = match (dtype.code, dtype.bits) {
            (relax_tensor::TypeCode::BFloat, _) => f64::from(f32::from_bits(0x7f7f_0000)),
            (_, 16) => 65504.0,
            (_, 32) => f64::from(f32::MAX),
            _ => f64::MAX,
        };
        match self {
            Combiner::Sum | Combiner::Or => Ex::int(dtype, 0),
            Combiner::Prod => Ex::int(dtype, 1),
            Combiner::And => Ex::int(dtype, -1),
            Combiner::Max if dtype.is_float() => Ex::float(dtype, -greatest),
            Combiner::Min if dtype.is_float() => Ex::float(dtype, greatest),
            // `uint64` constants carry their bit pattern.
            Combiner::Max => Ex::int(dtype, dtype.int_range().map_or(0, |r| r.0 as i64)),
            Combiner::Min => Ex::int(dtype, dtype.int_range().map_or(0, |r| r.1 as i64)),
        }
    }
}

/// The reduction part of a computation over indices.
#[derive(Clone, PartialEq, Debug)]
pub struct Reduce {
    /// The reduction variables with their extents.
    pub axes: Vec<(Var, Ex)>,
    /// The operation that combines values.
    pub combiner: Combiner,
}

/// Defines every element of `out` by one expression: `out[axes…] = value`, or with a reduction
/// `out[axes…] = combine over reduce.axes of value`. The axes run over `out`'s extents.
#[derive(Clone, PartialEq, Debug)]
pub struct Compute {
    /// The buffer that is written, entirely.
    pub out: Buf,
    /// One variable per axis of `out`.
    pub axes: Vec<Var>,
    /// The reduction, if any.
    pub reduce: Option<Reduce>,
    /// The element (or the value to be combined).
    pub value: Ex,
}

/// A step of a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Stage {
    /// A computation over indices.
    Compute(Compute),
    /// An explicit loop nest.
    Nest(Vec<Stmt>),
}

/// A tensor program in destination-passing style (`prim_func`).
///
/// Invariant: a buffer is read only after the stage (or statement) that wrote it; a [`Compute`]
/// does not read its own `out`; extents only use dimension variables and buffers written before
/// the first use of the buffer they belong to.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Its name, without sigil.
    pub name: Symbol,
    /// Its source location.
    pub span: Span,
    /// All buffers.
    pub bufs: Arena<Buf, Buffer>,
    /// All scalar variables.
    pub vars: Arena<Var, VarInfo>,
    /// Dimension variables: each is bound by the first input extent that consists of the variable
    /// alone, and checked against every other extent in which it occurs.
    pub dims: Vec<Var>,
    /// Inputs, in order.
    pub inputs: Vec<Buf>,
    /// Outputs, in order.
    pub outputs: Vec<Buf>,
    /// The computation.
    pub stages: Vec<Stage>,
    /// The hints for the stages that write some buffers.
    pub hints: Vec<(Buf, crate::Hint)>,
    /// The stages that kernels compute together, in order; empty where the compiler chooses.
    ///
    /// Invariant: the ranges do not overlap.
    pub kernels: Vec<crate::Kernel>,
    /// The source locations of accesses, for programs that have a text.
    pub accesses: Vec<Access>,
    /// The source locations of parts of the program: the calls of operators that were fused into
    /// it, the checks of a program written by hand. Empty for an operator's program: its location
    /// is that of its call.
    pub parts: Vec<Span>,
    /// The part that reads a buffer at data-dependent indices, for failures of a fused group.
    pub readers: Vec<(Buf, u32)>,
}

/// The source location of a load or store.
#[derive(Clone, PartialEq, Debug)]
pub struct Access {
    /// The buffer.
    pub buf: Buf,
    /// The indices.
    pub index: Vec<Ex>,
    /// Its source location.
    pub span: Span,
}

impl Program {
    /// Returns the hint for the stage that writes a buffer.
    pub fn hint(&self, buf: Buf) -> Option<&crate::Hint> {
        Some(&self.hints.iter().find(|h| h.0 == buf)?.1)
    }

    /// An empty program.
    pub fn new(name: impl Into<Symbol>) -> Program {
        Program {
            name: name.into(),
            span: Span::NONE,
            bufs: Arena::new(),
            vars: Arena::new(),
            dims: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            stages: Vec::new(),
            hints: Vec::new(),
            kernels: Vec::new(),
            accesses: Vec::new(),
            parts: Vec::new(),
            readers: Vec::new(),
        }
    }
    /// Returns the computation that writes a buffer.
    pub fn stage_of(&self, buf: Buf) -> Option<&Compute> {
        self.stages.iter().find_map(|s| match s {
            Stage::Compute(c) if c.out == buf => Some(c),
            _ => None,
        })
    }
    /// Returns the number of an access among those with source locations.
    pub fn access(&self, buf: Buf, index: &[Ex]) -> Option<u32> {
        let same = |a: &Access| a.buf == buf && a.index == index;
        self.accesses.iter().position(same).map(|k| k as u32)
    }
    /// Returns a fresh scalar variable as an expression.
    pub fn fresh(&mut self, name: &str, dtype: DType) -> (Var, Ex) {
        let var = self.vars.push(VarInfo {
            name: Symbol::new(name),
            dtype,
        });
        (var, Ex::var(var, dtype))
    }
}

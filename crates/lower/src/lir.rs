//! The lowered program: control flow over registers, kernels, constants.
//!
//! A register holds a value (a pointer, see `docs/values.md`), the element of a tensor of rank 0,
//! or an `int64` dimension ([`Hold`]). Every register is written once (SSA); registers written by a
//! jump are parameters of its target block.

use std::sync::Arc;

use relax_base::{Arena, Span, Symbol};
use relax_loops::{Ex, Program};
use relax_tensor::{DType, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::described::Described;

relax_base::define_id! {
    /// A register of one function. As a dimension, it is represented in expressions by the
    /// [`relax_loops::Var`] of the same number.
    pub struct Reg("r");
    /// A basic block of one function.
    pub struct BlockId("bb");
    /// A function.
    pub struct FnId("fn");
    /// A kernel: a tensor program that is called.
    pub struct KernelId("k");
    /// A constant tensor.
    pub struct DataId("data");
}

/// The contents of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// A value; the register owns a reference to it from its definition to its last use.
    Value,
    /// A value that another owner keeps alive as long as the function runs: a parameter that is
    /// only read, or a part of one. It is not reference-counted here.
    Lent,
    /// An extent.
    Dim,
    /// The element of a tensor of rank 0, without the tensor.
    Scalar(DType),
}

#[allow(missing_docs)] // fields are the registers that the first line speaks of
/// An instruction. "Borrows" and "consumes" describe the ownership of a value's reference.
#[derive(Clone, PartialEq, Debug)]
pub enum Inst {
    /// A constant tensor; immortal.
    Const { dst: Reg, data: DataId },
    /// Runs a kernel; borrows the arguments.
    Kernel {
        /// The results.
        dsts: Vec<Reg>,
        /// The kernel.
        kernel: KernelId,
        /// Input tensors.
        args: Vec<Reg>,
        /// Extents of results that the caller knows; the kernel computes the others.
        given: Vec<Option<Alloc>>,
        /// The source location of the call, for failures without a location of their own.
        place: Symbol,
    },
    /// A tuple; consumes the fields.
    Tuple { dst: Reg, fields: Vec<Reg> },
    /// An expression over scalar registers (as [`relax_loops::Var`]s of the same numbers).
    Scalar { dst: Reg, value: Ex },
    /// The element of a tensor of rank 0; borrows it.
    Unbox { dst: Reg, src: Reg },
    /// A tensor of rank 0 of a scalar.
    Box { dst: Reg, src: Reg },
    /// A field of a tuple or ADT instance; borrows the whole value. A lent result lives as long as
    /// the whole value does.
    Field { dst: Reg, src: Reg, index: u32 },
    /// The value in a reference cell; borrows the cell.
    RefRead { dst: Reg, cell: Reg },
    /// An ADT instance; consumes the fields.
    Adt {
        dst: Reg,
        tag: u32,
        fields: Vec<Reg>,
    },
    /// A closure; consumes the captures.
    Closure {
        dst: Reg,
        func: FnId,
        captures: Vec<Reg>,
    },
    /// A captured value of the running closure; borrows the closure.
    Capture { dst: Reg, index: u32 },
    /// The running closure itself, as a value.
    This { dst: Reg },
    /// Calls a function of the module; consumes the arguments except for lent ones.
    Call {
        dst: Reg,
        func: FnId,
        args: Vec<Reg>,
        /// Whether each argument is lent; empty where none is.
        lent: Vec<bool>,
    },
    /// Calls a closure; consumes it and the arguments.
    CallClosure {
        dst: Reg,
        callee: Reg,
        args: Vec<Reg>,
    },
    /// Calls a function registered at run time by name; borrows the arguments.
    CallPacked {
        dst: Reg,
        name: Symbol,
        args: Vec<Reg>,
    },
    /// Has a function registered at run time write tensors of the given extents; borrows the
    /// arguments.
    CallDps {
        dsts: Vec<Reg>,
        name: Symbol,
        args: Vec<Reg>,
        given: Vec<Alloc>,
    },
    /// A block of memory of this size: a tensor of bytes.
    Storage { dst: Reg, bytes: Ex },
    /// A tensor in a block, at this byte offset; borrows the block. Fails where it does not fit.
    Place {
        dst: Reg,
        storage: Reg,
        offset: Ex,
        tensor: Alloc,
    },
    /// No operation: extends the live range of the value to here; borrows it.
    Kill { src: Reg },
    /// A reference cell; consumes the value.
    RefNew { dst: Reg, value: Reg },
    /// Writes a reference cell; borrows the cell, consumes the value.
    RefWrite { cell: Reg, value: Reg },
    /// A shape value.
    Shape { dst: Reg, dims: Vec<Ex> },
    /// A string, for packed functions.
    Text { dst: Reg, text: Symbol },
    /// An extent of a tensor (or of a shape value), as a dimension; borrows it. Fails when there is
    /// no such axis.
    Dim { dst: Reg, src: Reg, axis: u32 },
    /// Fails unless the value is a tensor (or shape value) of this rank and element type.
    CheckTensor {
        src: Reg,
        rank: Option<u32>,
        dtype: Option<DType>,
        place: Symbol,
    },
    /// Fails unless the value is of this kind; borrows it.
    CheckKind { src: Reg, kind: Kind, place: Symbol },
    /// Fails unless the value matches the description, part by part; borrows it.
    CheckValue {
        src: Reg,
        described: Arc<Described>,
        place: Symbol,
    },
    /// Fails unless the two dimensions are equal, or `or_one` holds and the lesser one is 1.
    CheckDims {
        a: Ex,
        b: Ex,
        or_one: bool,
        place: Symbol,
        /// The error message; the first `{}` is replaced by `a`, the second by `b`.
        message: Symbol,
    },
    /// Increments a reference count.
    Retain(Reg),
    /// Decrements a reference count.
    Release(Reg),
}

/// A tensor that is allocated for a result.
#[derive(Clone, PartialEq, Debug)]
pub struct Alloc {
    /// Its element type.
    pub dtype: DType,
    /// Its extents.
    pub dims: Vec<Ex>,
    /// An argument whose last use this is: the result reuses its memory when it has no other
    /// references and its extents are these.
    pub reuse: Option<Reg>,
    /// The result extends that argument along the first axis: it is written in place when the
    /// memory after it suffices.
    pub grows: bool,
    /// A tensor that was placed in a block: the result is written there, and is that tensor.
    pub place: Option<Reg>,
    /// The result has the elements of this argument in their order, and does not outlive its block:
    /// it may lie in the argument's memory, which it keeps alive, instead of being written.
    pub view: Option<Reg>,
}

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A tensor.
    Tensor,
    /// A tuple with this number of fields.
    Tuple(u32),
    /// An instance of a data type.
    Adt,
    /// A shape.
    Shape,
}

/// The end of a block.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// Returns the value to the caller; consumes it.
    Return(Reg),
    /// Jumps to a block, passing values to its parameters; consumes them.
    Jump(BlockId, Vec<Reg>),
    /// A branch on a `bool` scalar; borrows it.
    If {
        /// The scalar.
        cond: Reg,
        /// The target where it is true.
        then: BlockId,
        /// The target where it is false.
        otherwise: BlockId,
    },
    /// A branch by the constructor of an ADT instance; borrows it.
    Switch {
        /// The instance.
        src: Reg,
        /// The target of each tag.
        cases: Vec<(u32, BlockId)>,
        /// The target of all others.
        default: BlockId,
    },
    /// A tail call of a function; consumes the arguments except for lent ones, which this function
    /// does not own either.
    TailCall {
        /// The callee.
        func: FnId,
        /// The arguments.
        args: Vec<Reg>,
        /// Whether each argument is lent; empty where none is.
        lent: Vec<bool>,
    },
    /// A tail call of a closure; consumes it and the arguments.
    TailClosure {
        /// The closure.
        callee: Reg,
        /// The arguments.
        args: Vec<Reg>,
    },
    /// No clause of a `match` applies.
    NoMatch(Symbol),
}

/// A basic block.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// Values passed by jumps.
    pub params: Vec<Reg>,
    /// The instructions.
    pub insts: Vec<Inst>,
    /// The terminator.
    pub term: Term,
}

/// A function.
#[derive(Clone, PartialEq, Debug)]
pub struct LFunc {
    /// Its name: that of the global, or for a closure that of the enclosing global with a number.
    pub name: Symbol,
    /// Parameters: owned, lent or scalars, as in [`LFunc::regs`].
    pub params: Vec<Reg>,
    /// The element type of a result that is returned as a scalar. Then the code returns two words:
    /// the status, and the scalar.
    pub result: Option<DType>,
    /// Number of captured values; `None` for functions of the module, which are called without a
    /// closure.
    pub captures: Option<u32>,
    /// The contents of each register.
    pub regs: Vec<Hold>,
    /// The inferred types of registers and of the result that may be passed in another
    /// representation.
    pub forms: Forms,
    /// The blocks; the first is the entry.
    pub blocks: Arena<BlockId, Block>,
    /// Its source location.
    pub span: Span,
    /// Its source location as text, for run-time errors.
    pub place: Symbol,
}

/// Types that decide in which representation values are passed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Forms {
    /// Registers that hold tensors of rank 0, with their element types.
    pub scalars: FxHashMap<Reg, DType>,
    /// Parameters that hold instances of data types.
    pub data: FxHashSet<Reg>,
    /// The element type of a result that is a tensor of rank 0.
    pub result: Option<DType>,
    /// Whether this function only checks values from outside and tail-calls another one.
    pub is_entry: bool,
    /// For a closure: the requirements on each parameter from callers outside.
    pub given: Vec<Arc<Described>>,
}

/// A kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelDef {
    /// Its computation.
    pub program: Program,
    /// Its name in profiles: operator names.
    pub label: String,
    /// Whether it is a tensor program of the module: failures are located at its own lines, and it
    /// is passed the location of its call.
    pub by_hand: bool,
    /// Whether some call allocates outputs by extents other than those that the program computes
    /// from its inputs (those of `call_tir`, or of a result's type): the kernel then checks them
    /// against its own.
    pub holds_outputs: bool,
    /// The source locations of the program's parts ([`Program::parts`]), for run-time errors.
    pub parts: Vec<Symbol>,
    /// The source locations of its accesses ([`Program::accesses`]).
    pub accesses: Vec<Symbol>,
}

/// The interface of a function of the module for C callers.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The global's name.
    pub name: Symbol,
    /// Its function.
    pub func: FnId,
    /// Names of the parameters.
    pub params: Vec<Symbol>,
    /// Types of the parameters, as text.
    pub types: Vec<String>,
    /// Type of the result, as text.
    pub result: String,
    /// Its type as text, for the header.
    pub signature: String,
}

/// A whole lowered module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Lowered {
    /// Functions.
    pub funcs: Arena<FnId, LFunc>,
    /// Kernels.
    pub kernels: Arena<KernelId, KernelDef>,
    /// Constants.
    pub data: Arena<DataId, Tensor>,
    /// Functions that can be called from outside.
    pub entries: Vec<Entry>,
    /// Whether code also checks what is already proven: extents, indices, and the memory that each
    /// call of a kernel of the runtime may touch.
    pub checks: bool,
}

/// Returns the arguments that are lent, or those that are not.
fn chosen(args: &[Reg], lent: &[bool], wanted: bool) -> Vec<Reg> {
    let of = |i: usize| lent.get(i).copied().unwrap_or(false);
    (args.iter().enumerate())
        .filter(|&(i, _)| of(i) == wanted)
        .map(|(_, &r)| r)
        .collect()
}

impl LFunc {
    /// A function without parameters and code.
    pub fn new(name: Symbol, captures: Option<u32>, span: Span) -> LFunc {
        LFunc {
            name,
            params: Vec::new(),
            result: None,
            captures,
            regs: Vec::new(),
            forms: Forms::default(),
            blocks: Arena::new(),
            span,
            place: Symbol::new(""),
        }
    }

    /// A new register.
    pub fn reg(&mut self, hold: Hold) -> Reg {
        self.regs.push(hold);
        Reg(self.regs.len() as u32 - 1)
    }

    /// Returns the contents of a register.
    pub fn hold(&self, r: Reg) -> Hold {
        self.regs[r.0 as usize]
    }

    /// Returns whether references of a register are counted.
    pub fn is_counted(&self, r: Reg) -> bool {
        self.hold(r) == Hold::Value
    }
}

impl Inst {
    /// Returns whether a tensor's existing memory may be overwritten or change owners: in
    /// hand-written memory plans, and in opaque code. No read of a tensor moves across it.
    pub fn may_overwrite(&self) -> bool {
        match self {
            Inst::Kernel { given, .. } => given.iter().flatten().any(|out| out.place.is_some()),
            Inst::Place { .. }
            | Inst::Call { .. }
            | Inst::CallClosure { .. }
            | Inst::CallPacked { .. }
            | Inst::CallDps { .. } => true,
            _ => false,
        }
    }

    /// Value registers that the instruction reads without taking their reference.
    pub fn borrows(&self) -> Vec<Reg> {
        match self {
            Inst::Kernel { args, given, .. } => {
                let places = given.iter().flatten().filter_map(|a| a.place);
                args.iter().copied().chain(places).collect()
            }
            Inst::CallPacked { args, .. } | Inst::CallDps { args, .. } => args.clone(),
            Inst::Place { storage: src, .. }
            | Inst::Kill { src }
            | Inst::Unbox { src, .. }
            | Inst::RefRead { cell: src, .. }
            | Inst::Field { src, .. }
            | Inst::Dim { src, .. }
            | Inst::CheckKind { src, .. }
            | Inst::CheckValue { src, .. }
            | Inst::CheckTensor { src, .. } => vec![*src],
            Inst::RefWrite { cell, .. } => vec![*cell],
            Inst::Call { args, lent, .. } => chosen(args, lent, true),
            _ => Vec::new(),
        }
    }
    /// Value registers whose reference the instruction takes.
    pub fn consumes(&self) -> Vec<Reg> {
        match self {
            Inst::Tuple { fields, .. } | Inst::Adt { fields, .. } => fields.clone(),
            Inst::Closure { captures, .. } => captures.clone(),
            Inst::Call { args, lent, .. } => chosen(args, lent, false),
            Inst::CallClosure { callee, args, .. } => {
                let mut all = vec![*callee];
                all.extend(args);
                all
            }
            Inst::RefNew { value, .. } | Inst::RefWrite { value, .. } => vec![*value],
            _ => Vec::new(),
        }
    }
    /// Calls `see` for every register that the instruction reads a value from, to replace it.
    pub fn values_mut(&mut self, see: &mut dyn FnMut(&mut Reg)) {
        match self {
            Inst::Kernel { args, given, .. } => {
                args.iter_mut().for_each(&mut *see);
                let given = given.iter_mut().flatten();
                given
                    .flat_map(|a| (a.place.iter_mut()).chain(&mut a.reuse).chain(&mut a.view))
                    .for_each(see);
            }
            Inst::Tuple { fields: all, .. }
            | Inst::Adt { fields: all, .. }
            | Inst::Closure { captures: all, .. }
            | Inst::Call { args: all, .. }
            | Inst::CallPacked { args: all, .. }
            | Inst::CallDps { args: all, .. } => all.iter_mut().for_each(see),
            Inst::CallClosure { callee, args, .. } => {
                see(callee);
                args.iter_mut().for_each(see);
            }
            Inst::RefNew { value: one, .. }
            | Inst::Field { src: one, .. }
            | Inst::Unbox { src: one, .. }
            | Inst::RefRead { cell: one, .. }
            | Inst::Place { storage: one, .. }
            | Inst::Kill { src: one }
            | Inst::Dim { src: one, .. }
            | Inst::CheckTensor { src: one, .. }
            | Inst::CheckKind { src: one, .. }
            | Inst::CheckValue { src: one, .. }
            | Inst::Retain(one)
            | Inst::Release(one) => see(one),
            Inst::RefWrite { cell, value } => {
                see(cell);
                see(value);
            }
            Inst::Const { .. }
            | Inst::Scalar { .. }
            | Inst::Box { .. }
            | Inst::Capture { .. }
            | Inst::This { .. }
            | Inst::Storage { .. }
            | Inst::Shape { .. }
            | Inst::Text { .. }
            | Inst::CheckDims { .. } => {}
        }
    }
    /// Calls `see` for every expression over dimensions, to replace it.
    pub fn dims_mut(&mut self, see: &mut dyn FnMut(&mut Ex)) {
        match self {
            Inst::Kernel { given, .. } => {
                (given.iter_mut().flatten()).for_each(|a| a.dims.iter_mut().for_each(&mut *see));
            }
            Inst::CallDps { given, .. } => {
                given
                    .iter_mut()
                    .for_each(|a| a.dims.iter_mut().for_each(&mut *see));
            }
            Inst::Storage { bytes, .. } => see(bytes),
            Inst::Place { offset, tensor, .. } => {
                see(offset);
                tensor.dims.iter_mut().for_each(see);
            }
            Inst::Shape { dims, .. } => dims.iter_mut().for_each(see),
            Inst::CheckDims { a, b, .. } => {
                see(a);
                see(b);
            }
            _ => {}
        }
    }
    /// Value registers that the instruction writes.
    pub fn defines(&self) -> Vec<Reg> {
        match self {
            Inst::Kernel { dsts, .. } | Inst::CallDps { dsts, .. } => dsts.clone(),
            Inst::Const { dst, .. }
            | Inst::Tuple { dst, .. }
            | Inst::Box { dst, .. }
            | Inst::Field { dst, .. }
            | Inst::RefRead { dst, .. }
            | Inst::Adt { dst, .. }
            | Inst::Closure { dst, .. }
            | Inst::Capture { dst, .. }
            | Inst::This { dst }
            | Inst::Call { dst, .. }
            | Inst::CallClosure { dst, .. }
            | Inst::CallPacked { dst, .. }
            | Inst::RefNew { dst, .. }
            | Inst::Storage { dst, .. }
            | Inst::Place { dst, .. }
            | Inst::Text { dst, .. }
            | Inst::Shape { dst, .. } => vec![*dst],
            Inst::Dim { .. }
            | Inst::Scalar { .. }
            | Inst::Unbox { .. }
            | Inst::Kill { .. }
            | Inst::RefWrite { .. }
            | Inst::CheckTensor { .. }
            | Inst::CheckKind { .. }
            | Inst::CheckValue { .. }
            | Inst::CheckDims { .. }
            | Inst::Retain(_)
            | Inst::Release(_) => Vec::new(),
        }
    }
}

impl Term {
    /// Value registers whose reference the terminator takes.
    pub fn consumes(&self) -> Vec<Reg> {
        match self {
            Term::Return(r) => vec![*r],
            Term::Jump(_, args) => args.clone(),
            Term::TailCall { args, lent, .. } => chosen(args, lent, false),
            Term::TailClosure { callee, args } => {
                let mut all = vec![*callee];
                all.extend(args);
                all
            }
            Term::If { .. } | Term::Switch { .. } | Term::NoMatch(_) => Vec::new(),
        }
    }
    /// Value registers that the terminator reads.
    pub fn borrows(&self) -> Vec<Reg> {
        match self {
            Term::If { cond, .. } => vec![*cond],
            Term::Switch { src, .. } => vec![*src],
            Term::TailCall { args, lent, .. } => chosen(args, lent, true),
            _ => Vec::new(),
        }
    }
    /// Returns the successor blocks.
    pub fn successors(&self) -> Vec<BlockId> {
        match self {
            Term::Jump(to, _) => vec![*to],
            Term::If {
                then, otherwise, ..
            } => vec![*then, *otherwise],
            Term::Switch { cases, default, .. } => {
                cases.iter().map(|c| c.1).chain([*default]).collect()
            }
            _ => Vec::new(),
        }
    }
}

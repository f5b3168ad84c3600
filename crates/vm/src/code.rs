//! The machine's code: functions over registers, with four instructions.

use relax_tensor::{DType, Tensor, TypeCode};

use crate::{Builtin, Kernel};

/// A register of a function; the parameters come first.
pub type Reg = u32;

/// A bytecode program.
///
/// Invariant: it is accepted by [`crate::verify`]; all producers (lowering, listings, files) have
/// it verified.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Executable {
    /// The functions; names are unique.
    pub funcs: Vec<Function>,
    /// The tensor programs that are called; names are unique.
    pub kernels: Vec<Kernel>,
    /// The constant pool.
    pub consts: Vec<Const>,
    /// The functions that can be called from outside.
    pub entries: Vec<Entry>,
    /// The program's interface as Relay text: its data types, and its entries as functions that
    /// call themselves. It is never executed; tools use it to read arguments and print results.
    pub interface: String,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Function {
    /// The name, without sigil.
    pub name: String,
    /// The number of parameters, which are the first registers. The first parameter of a closure's
    /// code is the closure.
    pub params: u32,
    /// The number of registers.
    pub registers: u32,
    /// Whether it is the code of a closure.
    pub closure: bool,
    /// The instructions; execution starts at the first.
    pub code: Vec<Inst>,
    /// The source locations of instructions, by index, in order.
    pub places: Vec<(u32, String)>,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Inst {
    /// Calls a function, kernel or builtin and stores the result.
    Call {
        /// The callee.
        callee: Callee,
        /// The arguments.
        args: Box<[Arg]>,
        /// The destination register; without one the result is dropped.
        dst: Option<Reg>,
    },
    /// Returns a value to the caller.
    Ret(Arg),
    /// Continues with the next instruction if the register is true, otherwise jumps to the given
    /// one.
    If(Reg, u32),
    /// Jumps to an instruction.
    Goto(u32),
}

/// The callee of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Callee {
    /// A function of the program, by index.
    Func(u32),
    /// A kernel, by index. Its arguments are its inputs, then for each result its shape, a tensor
    /// allocated for it, or nothing if the kernel computes the shape.
    Kernel(u32),
    /// A builtin.
    Builtin(Builtin),
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// Nothing.
    Void,
    /// A register.
    Reg(Reg),
    /// A register that is dead afterwards: its value is moved out.
    Last(Reg),
    /// An integer, as an `int64` scalar.
    Int(i64),
    /// A constant pool entry.
    Const(u32),
    /// A function, for closures.
    Func(u32),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Const {
    /// A tensor.
    Tensor(Tensor),
    /// A scalar of a type other than `int64`, by its bits.
    Scalar(DType, u64),
    /// A shape.
    Shape(Vec<i64>),
    /// A string: a message, a name, an element type.
    Text(String),
}

/// Returns whether arithmetic is supported on elements of a type.
pub(crate) fn computes(dtype: DType) -> bool {
    let bits = dtype.bits;
    dtype.lanes == 1
        && match dtype.code {
            TypeCode::Int | TypeCode::UInt => (1..=64).contains(&bits),
            TypeCode::Float => matches!(bits, 16 | 32 | 64),
            TypeCode::BFloat => bits == 16,
            TypeCode::Handle | TypeCode::Param => false,
        }
}

/// A function that can be called from outside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// The global's name.
    pub name: String,
    /// The function's index.
    pub func: u32,
    /// The parameter names.
    pub params: Vec<String>,
    /// The types of the parameters and of the result, as text.
    pub types: Vec<String>,
}

impl Inst {
    /// Returns the registers that it reads, in order.
    pub fn reads(&self) -> Vec<Reg> {
        let of = |arg: &Arg| match arg {
            Arg::Reg(r) | Arg::Last(r) => Some(*r),
            _ => None,
        };
        match self {
            Inst::Call { args, .. } => args.iter().filter_map(of).collect(),
            Inst::Ret(value) => of(value).into_iter().collect(),
            Inst::If(r, _) => vec![*r],
            Inst::Goto(_) => Vec::new(),
        }
    }
}

impl Executable {
    /// Formats an instruction of this program as in the listing.
    pub fn shown<'p>(&'p self, inst: &'p Inst) -> impl std::fmt::Display + 'p {
        crate::listing::Shown {
            program: self,
            inst,
        }
    }

    /// Returns the entry of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }
}

impl Function {
    /// Returns the source location of an instruction, if it is known.
    pub fn place(&self, at: u32) -> &str {
        let found = self.places.binary_search_by_key(&at, |p| p.0);
        found.map_or("", |i| &self.places[i].1)
    }
}

//! What the machine runs: functions over registers, of four instructions.

use relax_tensor::{DType, Tensor, TypeCode};

use crate::{Builtin, Kernel};

/// A register of a function, counted from its parameters on.
pub type Reg = u32;

/// A program of the machine.
///
/// Invariant: [`crate::verify`] accepts it; whatever makes one (lowering, a listing, a file) has it
/// looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Executable {
    /// Functions; names are unique.
    pub funcs: Vec<Function>,
    /// Tensor programs that are called; names are unique.
    pub kernels: Vec<Kernel>,
    /// The pool of constants.
    pub consts: Vec<Const>,
    /// Functions that can be called from outside.
    pub entries: Vec<Entry>,
    /// What callers know of it, as a text of the language: data types, and the entries as functions
    /// that call themselves. Nobody runs it; tools read arguments and show results by it.
    pub interface: String,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Function {
    /// Its name, without sigil.
    pub name: String,
    /// How many of the registers are parameters, the first ones. The first parameter of a closure's
    /// code is the closure.
    pub params: u32,
    /// Number of registers.
    pub registers: u32,
    /// Whether it is the code of closures.
    pub closure: bool,
    /// Its instructions; it starts at the first.
    pub code: Vec<Inst>,
    /// Where instructions stand in the text that they come from, by their numbers, in order.
    pub places: Vec<(u32, String)>,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Inst {
    /// Calls a function, a kernel or a builtin with arguments, and keeps the result.
    Call {
        /// What is called.
        callee: Callee,
        /// With what.
        args: Box<[Arg]>,
        /// Where the result goes; it is dropped where there is none.
        dst: Option<Reg>,
    },
    /// Hands a value to the caller.
    Ret(Arg),
    /// Goes on with the next instruction where the register holds a true value, else at the given
    /// one.
    If(Reg, u32),
    /// Goes on at an instruction.
    Goto(u32),
}

/// What a call calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Callee {
    /// A function of the program, by its number.
    Func(u32),
    /// A kernel, by its number. Its arguments are its inputs, then for each result its shape, a
    /// tensor that was placed for it, or nothing where the kernel finds the shape.
    Kernel(u32),
    /// A function that every machine has.
    Builtin(Builtin),
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// Nothing.
    Void,
    /// A register.
    Reg(Reg),
    /// A register whose value is not needed afterwards: it is empty then.
    Last(Reg),
    /// A number, as a scalar of type `int64`.
    Int(i64),
    /// An entry of the pool.
    Const(u32),
    /// A function, for closures.
    Func(u32),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Const {
    /// A tensor.
    Tensor(Tensor),
    /// An element of a type other than `int64`, by its bits.
    Scalar(DType, u64),
    /// A shape.
    Shape(Vec<i64>),
    /// A text: a message, a name, an element type.
    Text(String),
}

/// Returns whether elements of a type can be computed with.
pub(crate) fn computes(dtype: DType) -> bool {
    let bits = dtype.bits;
    dtype.lanes == 1
        && match dtype.code {
            TypeCode::Int | TypeCode::UInt => (1..=64).contains(&bits),
            TypeCode::Float => matches!(bits, 16 | 32 | 64),
            TypeCode::BFloat => bits == 16,
            TypeCode::Handle => false,
        }
}

/// A function that can be called from outside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// The global's name.
    pub name: String,
    /// Its function.
    pub func: u32,
    /// Names of the parameters.
    pub params: Vec<String>,
    /// Types of the parameters and of the result, as text.
    pub types: Vec<String>,
}

impl Inst {
    /// The registers that it reads, in order.
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
    /// An instruction of this program, as it stands in the listing.
    pub fn shown<'p>(&'p self, inst: &'p Inst) -> impl std::fmt::Display + 'p {
        crate::listing::Shown {
            program: self,
            inst,
        }
    }

    /// The entry of a name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }
}

impl Function {
    /// Returns where an instruction stands in the text, as far as it is known.
    pub fn place(&self, at: u32) -> &str {
        let found = self.places.binary_search_by_key(&at, |p| p.0);
        found.map_or("", |i| &self.places[i].1)
    }
}

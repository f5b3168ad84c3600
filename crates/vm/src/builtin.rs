//! The machine's builtins, by name.

use relax_loops::{BinOp, UnOp};
use relax_tensor::DType;
use std::fmt;
use std::str::FromStr;

/// A builtin function of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// A builtin without element types in its name.
    Plain(Plain),
    /// A unary scalar function.
    Unary(UnOp, DType),
    /// A binary scalar function.
    Binary(BinOp, DType),
    /// An element type conversion.
    Cast(DType, DType),
    /// A bit cast between element types.
    Bits(DType, DType),
}

/// The number of arguments of a builtin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly this many.
    Just(usize),
    /// At least this many.
    Least(usize),
}

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident = $text:literal $arity:expr;)*) => {
        /// Builtins without element types in their names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Plain { $($(#[$doc])* $name),* }

        impl Plain {
            /// All variants.
            pub const ALL: &'static [Plain] = &[$(Plain::$name),*];

            /// The name, without the common prefix.
            pub fn name(self) -> &'static str {
                match self { $(Plain::$name => $text),* }
            }
            fn arity(self) -> Arity {
                use Arity::*;
                match self { $(Plain::$name => $arity),* }
            }
        }
    };
}

plain! {
    /// Returns its argument.
    Copy = "copy" Just(1);
    /// Returns nothing: the argument's register is given up and empty afterwards.
    Kill = "null_value" Just(1);
    /// Creates a tuple of the arguments.
    MakeTuple = "make_tuple" Least(0);
    /// Returns a field of a tuple or data type instance, or a captured value of a closure: the
    /// value, the index.
    GetItem = "tuple_getitem" Just(2);
    /// Creates a data type instance: the constructor's tag, the fields.
    MakeAdt = "make_adt" Least(1);
    /// Returns the constructor's tag of an instance.
    GetTag = "get_tag" Just(1);
    /// Creates a closure: its code, the captured values.
    MakeClosure = "make_closure" Least(1);
    /// Calls a closure with arguments.
    InvokeClosure = "invoke_closure" Least(1);
    /// Creates a reference cell.
    RefNew = "ref_create" Just(1);
    /// Returns the content of a cell.
    RefRead = "ref_read" Just(1);
    /// Stores a value in a cell.
    RefWrite = "ref_write" Just(2);
    /// Creates a shape of the given extents.
    MakeShape = "make_shape" Least(0);
    /// Returns an extent of a tensor or shape: the value, the axis.
    Extent = "extent_of" Just(2);
    /// Returns the element of a tensor of rank 0.
    Element = "element_of" Just(1);
    /// Returns the second argument if the first is true, otherwise the third.
    Select = "select" Just(3);
    /// Fails unless the value is a tensor (or shape) of this rank and element type: the value, the
    /// rank or -1, the type's name or nothing.
    CheckTensor = "check_tensor_info" Just(3);
    /// Fails unless the value is of this kind: the value, `tensor`, `tuple`, `adt` or `shape`, the
    /// number of fields or -1.
    CheckKind = "check_kind" Just(3);
    /// Fails unless two numbers are equal, or the third argument is 1 and one of them is 1; the
    /// last argument is the message.
    CheckEqual = "check_equal" Just(4);
    /// Fails, as no clause of a match applies.
    NoMatch = "no_match" Just(0);
    /// Allocates a storage block of this many bytes.
    AllocStorage = "alloc_storage" Just(1);
    /// Allocates a tensor in a block: the block, the byte offset, the shape, the element type's
    /// name.
    AllocTensor = "alloc_tensor" Just(4);
    /// Calls a packed function: its name, the arguments.
    CallPacked = "call_packed" Least(1);
    /// Calls a packed function in destination-passing style: its name, the number of results, their
    /// shapes and element types' names in turn, the arguments. Several results are returned as a
    /// tuple.
    CallDps = "call_dps_packed" Least(2);
}

/// The common prefix of builtins' names, as in TVM.
const PREFIX: &str = "vm.builtin.";

impl Builtin {
    /// Returns the number of arguments.
    pub fn arity(self) -> Arity {
        match self {
            Builtin::Plain(p) => p.arity(),
            Builtin::Unary(..) | Builtin::Cast(..) | Builtin::Bits(..) => Arity::Just(1),
            Builtin::Binary(..) => Arity::Just(2),
        }
    }
}

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        match self {
            Builtin::Plain(p) => f.write_str(p.name()),
            Builtin::Unary(op, t) => write!(f, "scalar.{}.{t}", op.name()),
            Builtin::Binary(op, t) => write!(f, "scalar.{}.{t}", op.name()),
            Builtin::Cast(from, to) => write!(f, "scalar.cast.{from}.{to}"),
            Builtin::Bits(from, to) => write!(f, "scalar.bits.{from}.{to}"),
        }
    }
}

impl FromStr for Builtin {
    type Err = ();

    fn from_str(text: &str) -> Result<Builtin, ()> {
        let name = text.strip_prefix(PREFIX).ok_or(())?;
        let Some(scalar) = name.strip_prefix("scalar.") else {
            let found = Plain::ALL.iter().find(|p| p.name() == name);
            return found.copied().map(Builtin::Plain).ok_or(());
        };
        let parts: Vec<&str> = scalar.split('.').collect();
        let dtype = |i: usize| parts.get(i).and_then(|t| t.parse::<DType>().ok()).ok_or(());
        match (parts[0], parts.len()) {
            ("cast", 3) => Ok(Builtin::Cast(dtype(1)?, dtype(2)?)),
            ("bits", 3) => Ok(Builtin::Bits(dtype(1)?, dtype(2)?)),
            (op, 2) => {
                let unary = UnOp::named(op);
                let binary = BinOp::ALL.iter().find(|b| b.name() == op);
                match (unary, binary) {
                    (Some(op), _) => Ok(Builtin::Unary(op, dtype(1)?)),
                    (None, Some(&b)) => Ok(Builtin::Binary(b, dtype(1)?)),
                    (None, None) => Err(()),
                }
            }
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        let plain = Plain::ALL.iter().map(|&p| Builtin::Plain(p));
        let unary = UnOp::ALL.iter().map(|&op| Builtin::Unary(op, DType::F32));
        let binary = BinOp::ALL.iter().map(|&b| Builtin::Binary(b, DType::I64));
        let more = [
            Builtin::Cast(DType::BOOL, DType::BF16),
            Builtin::Bits(DType::F32, DType::I32),
        ];
        for b in plain.chain(unary).chain(binary).chain(more) {
            assert_eq!(b.to_string().parse(), Ok(b));
        }
        assert_eq!("vm.builtin.scalar.add".parse::<Builtin>(), Err(()));
        assert_eq!("add".parse::<Builtin>(), Err(()));
    }
}

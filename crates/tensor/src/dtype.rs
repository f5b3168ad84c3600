//! Element types, as DLPack and TVM name them.

use std::fmt;
use std::str::FromStr;

/// The kind of an element type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TypeCode {
    /// Two's complement integers.
    Int = 0,
    /// Unsigned integers; `uint1` is `bool`.
    UInt = 1,
    /// IEEE 754 binary floats.
    Float = 2,
    /// Opaque pointers; `handle` with 0 bits is TVM's `void`, the "not given" type of attributes.
    Handle = 3,
    /// bfloat16.
    BFloat = 4,
    /// The element type that a type parameter stands for, in the computation of an `op` item until
    /// it is instantiated. No tensor has such elements, and no text names them.
    Param = 255,
}

/// An element type: kind, bits and SIMD lanes (`int8x4` has 4).
///
/// ```
/// use relax_tensor::DType;
///
/// assert_eq!("float32".parse(), Ok(DType::F32));
/// assert_eq!((DType::BF16.to_string().as_str(), DType::BF16.size()), ("bfloat16", 2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DType {
    /// The kind.
    pub code: TypeCode,
    /// Bits per lane.
    pub bits: u8,
    /// Number of lanes, 1 for all ordinary types.
    pub lanes: u16,
}

macro_rules! dtypes {
    ($($(#[$m:meta])* $name:ident = $code:ident $bits:literal;)*) => {
        impl DType { $($(#[$m])* pub const $name: DType = DType::new(TypeCode::$code, $bits);)* }
    };
}

dtypes! {
    /// `bool`, stored as one byte, 0 or 1.
    BOOL = UInt 1;
    /// `int8`.
    I8 = Int 8;
    /// `int16`.
    I16 = Int 16;
    /// `int32`.
    I32 = Int 32;
    /// `int64`.
    I64 = Int 64;
    /// `uint8`.
    U8 = UInt 8;
    /// `uint16`.
    U16 = UInt 16;
    /// `uint32`.
    U32 = UInt 32;
    /// `uint64`.
    U64 = UInt 64;
    /// `float16`.
    F16 = Float 16;
    /// `float32`.
    F32 = Float 32;
    /// `float64`.
    F64 = Float 64;
    /// `bfloat16`.
    BF16 = BFloat 16;
    /// TVM's `void`, printed as the empty string in attributes.
    VOID = Handle 0;
}

impl DType {
    /// Creates a single-lane type.
    pub const fn new(code: TypeCode, bits: u8) -> DType {
        DType {
            code,
            bits,
            lanes: 1,
        }
    }
    /// The type that parameter `index` stands for, of those of an `op` item that are element types.
    pub const fn param(index: u8) -> DType {
        DType::new(TypeCode::Param, index)
    }
    /// Returns the index of the parameter that this type stands for; `None` for a type of its own.
    pub fn as_param(self) -> Option<u8> {
        (self.code == TypeCode::Param).then_some(self.bits)
    }
    /// Returns whether this is `bool`.
    pub fn is_bool(self) -> bool {
        self == DType::BOOL
    }
    /// Returns whether this is a float or bfloat.
    pub fn is_float(self) -> bool {
        matches!(self.code, TypeCode::Float | TypeCode::BFloat)
    }
    /// Returns whether this is a signed integer.
    pub fn is_int(self) -> bool {
        self.code == TypeCode::Int
    }
    /// Returns whether this is an unsigned integer other than `bool`.
    pub fn is_uint(self) -> bool {
        self.code == TypeCode::UInt && self.bits != 1
    }
    /// Returns whether this is a signed or unsigned integer (not `bool`).
    pub fn is_integral(self) -> bool {
        self.is_int() || self.is_uint()
    }
    /// Returns whether this is `void`.
    pub fn is_void(self) -> bool {
        self.code == TypeCode::Handle && self.bits == 0
    }
    /// Returns the size of an element (all lanes) in bytes.
    pub fn size(self) -> usize {
        (self.bits as usize).div_ceil(8) * self.lanes as usize
    }
    /// Returns the range of an integer type, as the runtime's `i64` and `u64` represent it; `None`
    /// for other types.
    pub fn int_range(self) -> Option<(i128, i128)> {
        match self.code {
            TypeCode::Int => Some((-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)),
            TypeCode::UInt => Some((0, (1i128 << self.bits) - 1)),
            _ => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_void() {
            return Ok(());
        }
        match (self.code, self.bits) {
            // A vector of them is `uint1x4`, as in TVM.
            (TypeCode::UInt, 1) if self.lanes == 1 => f.write_str("bool")?,
            (TypeCode::Int, b) => write!(f, "int{b}")?,
            (TypeCode::UInt, b) => write!(f, "uint{b}")?,
            (TypeCode::Float, b) => write!(f, "float{b}")?,
            (TypeCode::BFloat, b) => write!(f, "bfloat{b}")?,
            (TypeCode::Handle, _) => f.write_str("handle")?,
            (TypeCode::Param, index) => write!(f, "parameter {index}")?,
        }
        if self.lanes != 1 {
            write!(f, "x{}", self.lanes)?;
        }
        Ok(())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_void() {
            f.write_str("void")
        } else {
            fmt::Display::fmt(self, f)
        }
    }
}

/// The error for a text that is not an element type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownDType;

impl FromStr for DType {
    type Err = UnknownDType;
    /// Parses TVM's names: `int8`, `uint16x4`, `bool`, `float32`, `bfloat16`, `handle`, `void`, and
    /// the bare `int` (int32), `uint` (uint32), `float` (float32).
    fn from_str(text: &str) -> Result<DType, UnknownDType> {
        if text.is_empty() || text == "void" {
            return Ok(DType::VOID);
        }
        if let Some(rest) = text.strip_prefix("bool") {
            return if rest.is_empty() {
                Ok(DType::BOOL)
            } else {
                Err(UnknownDType)
            };
        }
        let families = [
            ("int", TypeCode::Int, 32),
            ("uint", TypeCode::UInt, 32),
            ("float", TypeCode::Float, 32),
            ("bfloat", TypeCode::BFloat, 16),
            ("handle", TypeCode::Handle, 64),
        ];
        for (prefix, code, default) in families {
            let Some(rest) = text.strip_prefix(prefix) else {
                continue;
            };
            let (bits, lanes) = rest.split_once('x').map_or((rest, "1"), |(b, l)| (b, l));
            let digits = |t: &str| !t.starts_with('0') && t.bytes().all(|b| b.is_ascii_digit());
            if !digits(bits) || !digits(lanes) {
                return Err(UnknownDType);
            }
            let bits = if bits.is_empty() {
                default
            } else {
                bits.parse().map_err(|_| UnknownDType)?
            };
            let lanes = lanes.parse().map_err(|_| UnknownDType)?;
            let known = match code {
                TypeCode::Float => matches!(bits, 16 | 32 | 64),
                TypeCode::BFloat => bits == 16,
                TypeCode::Handle => bits == 64,
                _ => matches!(bits, 1 | 2 | 4 | 8 | 16 | 32 | 64),
            };
            return if known {
                Ok(DType { code, bits, lanes })
            } else {
                Err(UnknownDType)
            };
        }
        Err(UnknownDType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for t in [
            "bool", "int8", "int4", "uint8x4", "float16", "bfloat16", "float64",
        ] {
            assert_eq!(t.parse::<DType>().map(|d| d.to_string()).as_deref(), Ok(t));
        }
        for code in ["int", "uint", "float", "bfloat", "handle"] {
            for bits in ["", "1", "2", "4", "8", "16", "32", "64"] {
                for lanes in ["", "x2", "x16"] {
                    let text = format!("{code}{bits}{lanes}");
                    let Ok(dtype) = text.parse::<DType>() else {
                        continue;
                    };
                    assert_eq!(dtype.to_string().parse::<DType>(), Ok(dtype), "{text}");
                }
            }
        }
        for t in ["float33", "in", "int08", "intx", "Tensor", "float32x"] {
            assert!(t.parse::<DType>().is_err(), "{t}");
        }
    }
}

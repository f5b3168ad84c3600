//! The scalar functions of one number: one table, from which all users generate their parts.
//!
//! A new function is an entry at the end of the table: the virtual machine's files number functions
//! by their positions.

use crate::BinOp;

/// Passes all entries to the macro `$then`: a function's name here and in texts; its domain
/// (`real`: real numbers, to which integers are converted; `float`: floats, with a defined value
/// for integers too; `any`: all types); and the C functions that compute it on doubles and on
/// floats, for those that are neither an instruction nor composed of others.
#[macro_export]
macro_rules! unary_functions {
    ($then:path) => {
        $then! {
            /// Arithmetic negation.
            Neg "neg" any;
            /// Absolute value; of the least integer, that integer.
            Abs "abs" any;
            /// Logical not of a `bool`, bitwise complement of an integer.
            Not "not" any;
            /// As in C.
            Exp "exp" real exp expf;
            /// As in C.
            Log "log" real log logf;
            /// As in C.
            Log2 "log2" real log2 log2f;
            /// As in C.
            Log10 "log10" real log10 log10f;
            /// As in C.
            Sqrt "sqrt" real;
            /// `1 / sqrt(x)`.
            Rsqrt "rsqrt" real;
            /// As in C.
            Sin "sin" real sin sinf;
            /// As in C.
            Cos "cos" real cos cosf;
            /// As in C.
            Tan "tan" real tan tanf;
            /// As in C.
            Asin "asin" real asin asinf;
            /// As in C.
            Acos "acos" real acos acosf;
            /// As in C.
            Atan "atan" real atan atanf;
            /// As in C.
            Sinh "sinh" real sinh sinhf;
            /// As in C.
            Cosh "cosh" real cosh coshf;
            /// As in C.
            Tanh "tanh" real tanh tanhf;
            /// As in C.
            Asinh "asinh" real asinh asinhf;
            /// As in C.
            Acosh "acosh" real acosh acoshf;
            /// As in C.
            Atanh "atanh" real atanh atanhf;
            /// As in C.
            Erf "erf" real erf erff;
            /// `1 / (1 + exp(-x))`.
            Sigmoid "sigmoid" real;
            /// As in C.
            Floor "floor" float;
            /// As in C.
            Ceil "ceil" float;
            /// As in C.
            Trunc "trunc" float;
            /// Nearest, halves away from zero.
            Round "round" float round roundf;
            /// Nearest, halves to even.
            RoundEven "rint" float;
            /// Result `bool`.
            IsNan "isnan" float;
            /// Result `bool`.
            IsInf "isinf" float;
            /// Result `bool`.
            IsFinite "isfinite" float;
            /// Number of one bits.
            Popcount "popcount" any;
            /// Number of leading zero bits.
            Clz "clz" any;
        }
    };
}

/// Passes the functions of two numbers that C has to the macro `$then`, like [`unary_functions!`].
#[macro_export]
macro_rules! binary_functions {
    ($then:path) => {
        $then! {
            Pow pow powf;
            Atan2 atan2 atan2f;
            Rem fmod fmodf;
        }
    };
}

/// A C function on doubles, and its counterpart on floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Libm {
    /// Its symbol for doubles.
    pub double: &'static str,
    /// Its symbol for floats.
    pub single: &'static str,
}

#[derive(PartialEq)]
#[allow(non_camel_case_types)] // The words of the table.
enum Takes {
    real,
    float,
    any,
}

macro_rules! unary {
    ($($(#[$meta:meta])* $op:ident $text:literal $takes:ident $($double:ident $single:ident)?;)*) => {
        /// Unary scalar functions.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum UnOp {
            $($(#[$meta])* $op,)*
        }

        impl UnOp {
            /// All of them.
            pub const ALL: &'static [UnOp] = &[$(UnOp::$op),*];

            /// Returns its name in texts.
            pub fn name(self) -> &'static str {
                match self { $(UnOp::$op => $text),* }
            }

            /// Returns its name in these sources, and in the runtime's.
            pub fn source_name(self) -> &'static str {
                match self { $(UnOp::$op => stringify!($op)),* }
            }

            /// The C function that computes it; `None` where there is none, or none is needed.
            pub fn libm(self) -> Option<Libm> {
                match self {
                    $($(UnOp::$op => Some(Libm {
                        double: stringify!($double),
                        single: stringify!($single),
                    }),)?)*
                    _ => None,
                }
            }

            fn takes(self) -> Takes {
                match self { $(UnOp::$op => Takes::$takes),* }
            }
        }
    };
}
unary_functions!(unary);

macro_rules! binary {
    ($($op:ident $double:ident $single:ident;)*) => {
        impl BinOp {
            /// The C function that computes it; `None` where there is none.
            pub fn libm(self) -> Option<Libm> {
                match self {
                    $(BinOp::$op => Some(Libm {
                        double: stringify!($double),
                        single: stringify!($single),
                    }),)*
                    _ => None,
                }
            }
        }
    };
}
binary_functions!(binary);

impl UnOp {
    /// The function with a name in texts.
    pub fn named(name: &str) -> Option<UnOp> {
        UnOp::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// Returns whether it is a function of real numbers, to which integers are converted.
    pub fn is_real(self) -> bool {
        self.takes() == Takes::real
    }

    /// Returns whether an untyped number as its argument is a float.
    pub fn asks_for_float(self) -> bool {
        self.takes() != Takes::any
    }
}

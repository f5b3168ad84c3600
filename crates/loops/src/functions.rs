//! The scalar functions of one number: one table, of which everybody who knows them takes what
//! concerns them.
//!
//! A new function is an entry at the end of the table: the virtual machine's files number functions
//! by their places.

use crate::BinOp;

/// Hands all entries to the macro `$then`: a function's name here and in texts; for whom it is
/// (`real`: real numbers, which integers are converted for; `float`: floats, though integers have a
/// value too; `any`: all types); and the functions of C that compute it on doubles and on floats,
/// for those that are neither an instruction nor made of others.
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

/// Hands the functions of two numbers that C has to the macro `$then`, as [`unary_functions!`] does
/// it.
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

/// A function of C on doubles, and the same on floats.
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

            /// Returns what texts call it.
            pub fn name(self) -> &'static str {
                match self { $(UnOp::$op => $text),* }
            }

            /// Returns what these sources call it, and those of the runtime.
            pub fn source_name(self) -> &'static str {
                match self { $(UnOp::$op => stringify!($op)),* }
            }

            /// The function of C that computes it; `None` where there is none, or none is needed.
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
            /// The function of C that computes it on floats; `None` where there is none.
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
    /// The function of a text.
    pub fn named(name: &str) -> Option<UnOp> {
        UnOp::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// Returns whether it is a function of real numbers, which integers are converted for.
    pub fn is_real(self) -> bool {
        self.takes() == Takes::real
    }

    /// Returns whether a number without a type is a float as its argument.
    pub fn asks_for_float(self) -> bool {
        self.takes() != Takes::any
    }
}

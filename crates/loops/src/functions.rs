//! The scalar functions of one number and of two: a table of each, of which every user takes what
//! concerns it.
//!
//! A new function is an entry at the end of its table: the virtual machine's files number functions
//! by their places.

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

/// As [`unary_functions!`], for functions of two numbers: the name here, what a call of it is in
/// texts (for those with an infix spelling too, where that does not parse: arithmetic on truth
/// values, and `//` outside of brackets, which starts a comment), and the functions of C.
#[macro_export]
macro_rules! binary_functions {
    ($then:path) => {
        $then! {
            /// Wraps on integers.
            Add "add" call "add";
            /// Wraps on integers.
            Sub "sub" call "sub";
            /// Wraps on integers.
            Mul "mul" call "mul";
            /// IEEE on floats, truncating on integers; an integer division by zero gives 0.
            Div "div" call "div";
            /// Rounds toward minus infinity; by zero gives 0 on integers.
            FloorDiv "floor_div" call "floor_div";
            /// Remainder with the divisor's sign; by zero gives 0 on integers.
            FloorMod "floor_mod" call "mod";
            /// Remainder with the dividend's sign (C `%`, `fmod`); by zero gives 0 on integers.
            Rem "rem" call "rem" libm fmod fmodf;
            /// `a < b ? a : b`, so that a NaN on either side gives `b`.
            Min "min" call "min";
            /// `a > b ? a : b`, so that a NaN on either side gives `b`.
            Max "max" call "max";
            /// C `pow`; integers by repeated multiplication.
            Pow "pow" call "pow" libm pow powf;
            /// C `atan2`.
            Atan2 "atan2" call "atan2" libm atan2 atan2f;
            /// Bitwise (logical on `bool`).
            And "and" call "bit_and";
            /// Bitwise (logical on `bool`).
            Or "or" call "bit_or";
            /// Bitwise (logical on `bool`).
            Xor "xor" call "bit_xor";
            /// Shift left; a count outside the width gives 0.
            Shl "shl" call "shift_left";
            /// Arithmetic on signed, logical on unsigned; a count outside the width gives the sign
            /// fill.
            Shr "shr" call "shift_right";
            /// Result `bool`.
            Eq "eq";
            /// Result `bool`; true when either is NaN.
            Ne "ne";
            /// Result `bool`.
            Lt "lt";
            /// Result `bool`.
            Le "le";
            /// Result `bool`.
            Gt "gt";
            /// Result `bool`.
            Ge "ge";
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
    ($(
        $(#[$meta:meta])* $op:ident $name:literal $(call $call:literal)?
        $(libm $double:ident $single:ident)?;
    )*) => {
        /// Binary scalar functions. Both operands have the same element type.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum BinOp {
            $($(#[$meta])* $op,)*
        }

        impl BinOp {
            /// All of them.
            pub const ALL: &'static [BinOp] = &[$(BinOp::$op),*];

            /// Returns its name.
            pub fn name(self) -> &'static str {
                match self { $(BinOp::$op => $name),* }
            }

            /// Returns its name in these sources, and in the runtime's.
            pub fn source_name(self) -> &'static str {
                match self { $(BinOp::$op => stringify!($op)),* }
            }

            /// Returns what a call of it is in texts; `None` where only an infix spelling is.
            pub fn call(self) -> Option<&'static str> {
                match self {
                    $($(BinOp::$op => Some($call),)?)*
                    _ => None,
                }
            }

            /// The function of C that computes it on floats; `None` where there is none.
            pub fn libm(self) -> Option<Libm> {
                match self {
                    $($(BinOp::$op => Some(Libm {
                        double: stringify!($double),
                        single: stringify!($single),
                    }),)?)*
                    _ => None,
                }
            }
        }
    };
}
binary_functions!(binary);

impl BinOp {
    /// The function of a text.
    pub fn called(call: &str) -> Option<BinOp> {
        let mut all = BinOp::ALL.iter().copied();
        all.find(|op| op.call() == Some(call))
    }

    /// Returns whether the result is `bool` whatever the operands are.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge
        )
    }
}

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

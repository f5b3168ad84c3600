//! Element-wise functions by number, of one element.

use crate::c_enumeration;

c_enumeration! {
    /// A function of one or two numbers.
    #[allow(missing_docs)] // The names are the functions'.
    pub enum Math {
        Exp = "RX_MATH_EXP",
        Log = "RX_MATH_LOG",
        Log2 = "RX_MATH_LOG2",
        Log10 = "RX_MATH_LOG10",
        Log1p = "RX_MATH_LOG1P",
        Expm1 = "RX_MATH_EXPM1",
        Sin = "RX_MATH_SIN",
        Cos = "RX_MATH_COS",
        Tan = "RX_MATH_TAN",
        Asin = "RX_MATH_ASIN",
        Acos = "RX_MATH_ACOS",
        Atan = "RX_MATH_ATAN",
        Sinh = "RX_MATH_SINH",
        Cosh = "RX_MATH_COSH",
        Tanh = "RX_MATH_TANH",
        Asinh = "RX_MATH_ASINH",
        Acosh = "RX_MATH_ACOSH",
        Atanh = "RX_MATH_ATANH",
        Erf = "RX_MATH_ERF",
        Sigmoid = "RX_MATH_SIGMOID",
        Sqrt = "RX_MATH_SQRT",
        Rsqrt = "RX_MATH_RSQRT",
        Cbrt = "RX_MATH_CBRT",
        Round = "RX_MATH_ROUND",
        Rint = "RX_MATH_RINT",
        Pow = "RX_MATH_POW",
        Atan2 = "RX_MATH_ATAN2",
        Fmod = "RX_MATH_FMOD",
        Hypot = "RX_MATH_HYPOT",
    }
}

impl Math {
    /// Returns whether the function has a second argument.
    pub fn binary(self) -> bool {
        self as i32 >= Self::Pow as i32
    }
}

/// C's: that of crate `libm` has values below 1, too.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// The same of float32.
fn acoshf(x: f32) -> f32 {
    if x < 1.0 { f32::NAN } else { libm::acoshf(x) }
}

macro_rules! by_number {
    ($name:ident, $t:ty, $($one:ident => $unary:path),*; $($two:ident => $binary:path),*) => {
        #[doc = concat!("One function value of ", stringify!($t), ".")]
        pub fn $name(math: Math, x: $t, y: $t) -> $t {
            match math {
                $(Math::$one => $unary(x),)*
                $(Math::$two => $binary(x, y),)*
                Math::Sigmoid => {
                    let e = $name(Math::Exp, -x.abs(), 0.0);
                    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
                }
                Math::Rsqrt => 1.0 / x.sqrt(),
                Math::Fmod => x % y,
            }
        }
    };
}

by_number!(single, f32,
    Exp => libm::expf, Log => libm::logf, Log2 => libm::log2f, Log10 => libm::log10f,
    Log1p => libm::log1pf, Expm1 => libm::expm1f, Sin => libm::sinf, Cos => libm::cosf,
    Tan => libm::tanf, Asin => libm::asinf, Acos => libm::acosf, Atan => libm::atanf,
    Sinh => libm::sinhf, Cosh => libm::coshf, Tanh => libm::tanhf, Asinh => libm::asinhf,
    Acosh => acoshf, Atanh => libm::atanhf, Erf => libm::erff, Sqrt => f32::sqrt,
    Cbrt => libm::cbrtf, Round => f32::round, Rint => f32::round_ties_even;
    Pow => libm::powf, Atan2 => libm::atan2f, Hypot => libm::hypotf
);
by_number!(double, f64,
    Exp => libm::exp, Log => libm::log, Log2 => libm::log2, Log10 => libm::log10,
    Log1p => libm::log1p, Expm1 => libm::expm1, Sin => libm::sin, Cos => libm::cos,
    Tan => libm::tan, Asin => libm::asin, Acos => libm::acos, Atan => libm::atan,
    Sinh => libm::sinh, Cosh => libm::cosh, Tanh => libm::tanh, Asinh => libm::asinh,
    Acosh => acosh, Atanh => libm::atanh, Erf => libm::erf, Sqrt => f64::sqrt,
    Cbrt => libm::cbrt, Round => f64::round, Rint => f64::round_ties_even;
    Pow => libm::pow, Atan2 => libm::atan2, Hypot => libm::hypot
);

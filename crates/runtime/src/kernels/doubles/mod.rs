//! Functions of float64 over strips: range reductions and polynomials whose error is within 4 units
//! in the last place. Plain loops without branches, which become vectors; what rests on products without
//! rounding (sine, power, remainder) is left to the scalar functions where the instruction set does not
//! multiply and add in one step.

mod angles;
mod areas;
mod powers;

use std::f64::consts::{LOG2_E, LOG10_E};
use std::marker::PhantomData;

use super::double_parts as base;
use super::double_parts::{LOG10_2_HI, LOG10_2_LO, NORMAL};
#[cfg(target_arch = "x86_64")]
use super::double_tables;
use super::math::{Math, double};
use super::pieces::{OfPieces, pieces};
use super::simd::{Simd, dispatch};
use super::vmath::quarters;

/// Returns whether a function is computed here, where `fused` says that the instruction set
/// multiplies and adds in one step.
fn knows(math: Math, fused: bool) -> bool {
    match math {
        Math::Sin | Math::Cos | Math::Tan | Math::Pow | Math::Fmod => fused,
        Math::Cbrt | Math::Hypot => false,
        _ => true,
    }
}

/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn strip<S: Simd>(math: Math, n: usize, x: *const f64, y: *const f64, z: *mut f64) {
    let beside = if math.binary() { y } else { x };
    // SAFETY: all that are read have `n` elements.
    unsafe {
        if math == Math::Pow
            && let Some(quarters) = quarters(std::slice::from_raw_parts(y, n))
        {
            for i in 0..n {
                *z.add(i) = powers::root(*x.add(i), quarters);
            }
            return;
        }
        if !knows(math, S::FUSED) {
            for i in 0..n {
                *z.add(i) = double(math, *x.add(i), *beside.add(i));
            }
            return;
        }
        pieces(n, (x, beside), z, 1.0, &Doubles::<S>(math, PhantomData));
    }
}

/// A function with the instruction set that it is computed by.
struct Doubles<S>(Math, PhantomData<S>);

impl<S: Simd> OfPieces<f64> for Doubles<S> {
    #[inline(always)]
    fn piece(&self, x: &[f64], y: &[f64], z: &mut [f64]) {
        piece::<S>(self.0, x, y, z);
    }
}

/// Returns the factors of a logarithm: of the number's exponent, in two parts, and of the mantissa's
/// natural logarithm.
fn base_of(math: Math) -> (f64, f64, f64) {
    match math {
        Math::Log => (base::LN2_HI, base::LN2_LO, 1.0),
        Math::Log2 => (1.0, 0.0, LOG2_E),
        _ => (LOG10_2_HI, LOG10_2_LO, LOG10_E),
    }
}

/// Computes a function of a piece by what AVX-512 has registers for; `false` where there is none of
/// the function, or of the numbers.
///
/// # Safety
/// The processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn by_tables(math: Math, a: &[f64], b: &[f64], c: &mut [f64]) -> bool {
    let n = c.len();
    macro_rules! area {
        ($sum:path, $of:path) => {{
            let [mut whole, mut rest, mut twos] = [[0.0; super::pieces::PIECE]; 3];
            for i in 0..n {
                (whole[i], rest[i], twos[i]) = $sum(a[i]);
            }
            double_tables::sums(&whole[..n], &rest[..n], &twos[..n], c);
            for i in 0..n {
                c[i] = $of(a[i], c[i]);
            }
        }};
    }
    // SAFETY: all have as many elements, a multiple of eight, as pieces do.
    unsafe {
        match math {
            Math::Log | Math::Log2 | Math::Log10 => {
                double_tables::logarithms(base_of(math), a, c);
            }
            Math::Asinh => area!(areas::asinh_sum, areas::asinh_of),
            Math::Acosh => area!(areas::acosh_sum, areas::acosh_of),
            Math::Atanh => area!(areas::atanh_sum, areas::atanh_of),
            Math::Pow => {
                let mut usual = true;
                for i in 0..n {
                    usual &= powers::usual(a[i], b[i]);
                }
                if !usual {
                    return false;
                }
                double_tables::powers(a, b, c);
            }
            _ => return false,
        }
    }
    true
}

#[inline(always)]
fn piece<S: Simd>(math: Math, a: &[f64], b: &[f64], c: &mut [f64]) {
    let n = c.len();
    let (a, b) = (&a[..n], &b[..n]);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: there are tables with AVX-512 only.
    if S::TABLES && unsafe { by_tables(math, a, b, c) } {
        return;
    }
    macro_rules! each {
        ($x:ident => $value:expr) => {
            each!($x, _y => $value)
        };
        ($x:ident, $y:ident => $value:expr) => {
            for i in 0..n {
                let ($x, $y) = (a[i], b[i]);
                let value: f64 = $value;
                #[allow(clippy::eq_op)] // A NaN stays the NaN that it is.
                let value = if $x != $x { $x } else { value };
                c[i] = value;
            }
        };
    }
    /// Whether something holds for all elements.
    macro_rules! all {
        ($x:ident, $y:ident => $holds:expr) => {{
            let mut all = true;
            for i in 0..n {
                let ($x, $y) = (a[i], b[i]);
                all &= $holds;
            }
            all
        }};
    }
    /// A short form where it holds for all elements, else another one.
    macro_rules! usual {
        ($x:ident: $usual:expr => $short:expr, $any:expr) => {
            if all!($x, _y => $usual) {
                each!($x => $short)
            } else {
                each!($x => $any)
            }
        };
    }
    match math {
        Math::Exp => usual!(x: x.abs() < NORMAL => base::exp_near::<S>(x), base::exp::<S>(x)),
        Math::Log | Math::Log2 | Math::Log10 => {
            let of = base_of(math);
            usual!(x: base::is_plain(x) => base::log_of_base::<S, true>(x, of),
                base::log_ends(x, base::log_of_base::<S, false>(x, of)))
        }
        Math::Log1p => each!(x => areas::log1p::<S>(x)),
        Math::Expm1 => {
            usual!(x: x.abs() < 700.0 => areas::near_expm1::<S>(x), areas::any_expm1::<S>(x))
        }
        Math::Tanh => each!(x => areas::tanh::<S>(x)),
        Math::Sinh => {
            usual!(x: x.abs() < 22.0 => areas::near_sinh::<S>(x), areas::sinh::<S>(x))
        }
        Math::Cosh => {
            usual!(x: x.abs() < 22.0 => areas::near_cosh::<S>(x), areas::cosh::<S>(x))
        }
        Math::Asinh => each!(x => areas::asinh_of(x, areas::log_of::<S>(areas::asinh_sum(x)))),
        Math::Acosh => each!(x => areas::acosh_of(x, areas::log_of::<S>(areas::acosh_sum(x)))),
        Math::Atanh => each!(x => areas::atanh_of(x, areas::log_of::<S>(areas::atanh_sum(x)))),
        Math::Erf => each!(x => areas::erf::<S>(x)),
        Math::Sigmoid => each!(x => areas::sigmoid::<S>(x)),
        Math::Atan => each!(x => angles::atan::<S>(x)),
        Math::Asin => each!(x => angles::asin::<S>(x)),
        Math::Acos => each!(x => angles::acos::<S>(x)),
        Math::Atan2 => each!(y, x => angles::atan2::<S>(y, x)),
        Math::Sqrt => each!(x => x.sqrt()),
        Math::Rsqrt => each!(x => 1.0 / x.sqrt()),
        Math::Rint => each!(x => x.round_ties_even()),
        // The greatest number below a half, so that it does not round up to one.
        Math::Round => each!(x => (x.abs() + 0.499_999_999_999_999_94).trunc().copysign(x)),
        Math::Sin | Math::Cos | Math::Tan => {
            if !all!(x, _y => x.abs() < angles::FAR) {
                each!(x => double(math, x, 0.0));
            } else if math == Math::Cos {
                each!(x => angles::sine::<S>(x, 1));
            } else if math == Math::Tan {
                each!(x => if x == 0.0 { x } else { angles::tan::<S>(x) });
            } else {
                // Zero keeps its sign.
                each!(x => if x == 0.0 { x } else { angles::sine::<S>(x, 0) });
            }
        }
        Math::Fmod => {
            if all!(x, y => powers::divides(x, y)) {
                each!(x, y => powers::fmod::<S>(x, y));
            } else {
                each!(x, y => x % y);
            }
        }
        Math::Pow | Math::Cbrt | Math::Hypot => {
            if all!(x, y => powers::usual(x, y)) {
                powers::plain_pow::<S>(a, b, c);
            } else {
                // What is no number has a power, too: with the exponent 0.
                for i in 0..n {
                    c[i] = powers::pow::<S>(a[i], b[i]);
                }
            }
        }
    }
}

/// # Safety
/// `x` and `z`, and for functions of two arguments `y`, have `n` elements; `z` is one of the others
/// or overlaps none.
pub(super) unsafe fn run(math: Math, n: usize, x: *const f64, y: *const f64, z: *mut f64) {
    // SAFETY: all that are read have `n` elements.
    unsafe {
        dispatch!(strip(math: Math, n: usize, x: *const f64, y: *const f64, z: *mut f64));
    }
}

#[cfg(test)]
mod tests {
    use super::base::{LN2_HI, LN2_LO};

    #[test]
    fn parts_of_a_constant_are_the_whole() {
        assert_eq!(LN2_HI + LN2_LO, std::f64::consts::LN_2);
    }
}

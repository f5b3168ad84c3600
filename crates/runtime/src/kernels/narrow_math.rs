//! Functions of narrow floats: those of float32, between widening and narrowing in registers.

#[cfg(target_arch = "x86_64")]
use super::narrowing::dispatch_narrowing;
use super::{halves::known, math::Math};

/// Returns whether [`run`] computes a function here.
pub(super) fn knows(math: Math) -> bool {
    let listed = matches!(
        math,
        Math::Exp
            | Math::Log
            | Math::Log2
            | Math::Log10
            | Math::Tanh
            | Math::Sigmoid
            | Math::Erf
            | Math::Sin
            | Math::Cos
            | Math::Atan
            | Math::Sinh
            | Math::Cosh
            | Math::Asin
            | Math::Acos
            | Math::Asinh
            | Math::Acosh
            | Math::Atanh
    );
    listed && known()
}

/// A function of `n` elements of float16, or of bfloat16 (`brain`), rounded.
///
/// # Safety
/// The function is one of those that are [known](knows); both have `n` elements and do not overlap.
pub(super) unsafe fn run(math: Math, brain: bool, n: usize, x: *const u16, y: *mut u16) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both have `n` elements.
    unsafe {
        use strips::strip;
        dispatch_narrowing!(
            strip(math: Math, brain: bool, n: usize, x: *const u16, y: *mut u16)
        );
    }
    let _ = (math, brain, n, x, y);
}

/// Strips of elements.
#[cfg(target_arch = "x86_64")]
mod strips {
    use crate::kernels::math::Math;
    use crate::kernels::narrowing::Narrowing;
    use crate::kernels::{arcs, logs, vmath, waves};

    /// The most lanes of a vector.
    const LANES: usize = 16;

    /// See [`super::run`]. Which narrow float it is, is asked for each vector: code for each of
    /// them would be twice as much.
    #[inline(always)]
    pub unsafe fn strip<S: Narrowing>(
        math: Math,
        brain: bool,
        n: usize,
        x: *const u16,
        y: *mut u16,
    ) {
        // Fewer than two vectors are computed in lines of their own.
        let mut lines = [[0u16; 2 * LANES]; 2];
        let (mut given, mut made) = (x, y);
        let width = 2 * S::LANES;
        if n < width {
            // SAFETY: `x` has `n` elements, fewer than a line.
            unsafe { std::ptr::copy_nonoverlapping(x, lines[0].as_mut_ptr(), n) };
            (given, made) = (lines[0].as_ptr(), lines[1].as_mut_ptr());
        }
        let count = n.max(width);
        macro_rules! each {
            (|$v:ident| $value:expr) => {{
                let mut i = 0;
                while i < count {
                    // The last vectors overlap those before: operands are not overwritten.
                    let at = i.min(count - width);
                    let (from, to) = (given.add(at), made.add(at));
                    let both = match brain {
                        true => S::widened_two::<true>(from),
                        false => S::widened_two::<false>(from),
                    };
                    let $v = both[0];
                    let first = $value;
                    let $v = both[1];
                    let values = [first, $value];
                    match brain {
                        true => S::narrow_two::<true>(values, to),
                        false => S::narrow_two::<false>(values, to),
                    }
                    i += width;
                }
            }};
        }
        // SAFETY: both have `n` elements, of which a vector is whole or a line of its own.
        unsafe {
            match math {
                Math::Exp => each!(|v| vmath::exp(v)),
                Math::Log => each!(|v| logs::of_base(v, &logs::NATURAL)),
                Math::Log2 => each!(|v| logs::of_base(v, &logs::TWO)),
                Math::Log10 => each!(|v| logs::of_base(v, &logs::TEN)),
                Math::Tanh => each!(|v| vmath::tanh(v)),
                Math::Sigmoid => each!(|v| vmath::sigmoid(v)),
                Math::Erf => each!(|v| vmath::erf(v)),
                Math::Sin => each!(|v| waves::sin(v)),
                Math::Cos => each!(|v| waves::cos(v)),
                Math::Atan => each!(|v| vmath::atan(v)),
                Math::Sinh => each!(|v| vmath::hyperbolic(v, false)),
                Math::Cosh => each!(|v| vmath::hyperbolic(v, true)),
                Math::Asin => each!(|v| arcs::arc(v, false)),
                Math::Acos => each!(|v| arcs::arc(v, true)),
                Math::Asinh | Math::Acosh | Math::Atanh => each!(|v| logs::area(v, math)),
                // No other is known.
                _ => {}
            }
            if n < width {
                std::ptr::copy_nonoverlapping(lines[1].as_ptr(), y, n);
            }
        }
    }
}

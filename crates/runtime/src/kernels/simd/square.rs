//! Transposition of squares of vectors.

#[cfg(target_arch = "x86_64")]
use super::Avx2;
use super::bounds::Bounds;
use super::{Isa, Portable, Simd, isa};

/// The maximum number of lanes of the vectors here: wider ones take longer to transpose than what
/// is done with them.
pub const MOST: usize = 8;

/// Vectors of which a square can be transposed.
///
/// # Safety
/// See [`Simd`].
#[allow(clippy::missing_safety_doc)] // The trait's own section holds for every method.
pub unsafe trait Turning: Simd {
    /// Transposes the first `LANES` vectors: vector `i` becomes lane `i` of all.
    unsafe fn turned(square: [Self; MOST]) -> [Self; MOST];
}

// SAFETY: only methods of Simd are called.
unsafe impl Turning for Portable {
    #[inline(always)]
    unsafe fn turned(square: [Self; MOST]) -> [Self; MOST] {
        const { assert!(Portable::LANES == 4) };
        let [a, b, c, d, e, f, g, h] = square;
        let [a, b, c, d] = Self::weave([a, b, c, d]);
        [a, b, c, d, e, f, g, h]
    }
}

#[cfg(target_arch = "x86_64")]
// SAFETY: as the instructions that are called.
unsafe impl Turning for Avx2 {
    #[inline(always)]
    unsafe fn turned(square: [Self; MOST]) -> [Self; MOST] {
        // SAFETY: the processor has the instructions of `Self`, for which the function is compiled.
        unsafe { Self::square(square) }
    }
}

/// Lanes of the vectors that `dispatch_turning` chooses.
pub fn lanes() -> usize {
    if isa() == Isa::Portable {
        Portable::LANES
    } else {
        MOST
    }
}

/// Loads the first `part` elements of each of some lines, at most as many as there are lanes, as
/// vectors of one element of all lines each. Missing lines repeat the last one.
///
/// # Safety
/// There are lines, and the elements can be read.
#[inline(always)]
pub unsafe fn columns<S: Turning>(
    from: *const f32,
    step: isize,
    lines: usize,
    part: usize,
) -> [S; MOST] {
    // SAFETY: there are `lines` lines of as many floats as are read, `step` apart.
    unsafe {
        let mut square = [S::splat(0.0); MOST];
        for (k, line) in square.iter_mut().enumerate().take(S::LANES) {
            let at = from.offset(k.min(lines - 1) as isize * step);
            *line = if part == S::LANES {
                S::load(at)
            } else {
                S::load_part(at, part)
            };
        }
        S::turned(square)
    }
}

/// Loads `count` elements of each of some lines, `step` apart, as vectors of one element of all
/// lines each; element `i` goes to the vector at `to(i)`.
///
/// # Safety
/// The elements can be read, there are lines, and the vectors that `to` names can be written.
#[inline(always)]
pub unsafe fn gather<S: Turning>(
    from: *const f32,
    step: usize,
    lines: usize,
    count: usize,
    to: impl Fn(usize) -> Option<*mut f32>,
) {
    // SAFETY: there are `lines` lines of `count` floats, `step` apart, and the places that `to`
    // gives have room for a vector.
    unsafe {
        for i in (0..count).step_by(S::LANES) {
            let n = (count - i).min(S::LANES);
            let square = columns::<S>(from.add(i), step as isize, lines, n);
            for (k, vector) in square.iter().enumerate().take(S::LANES) {
                if k < n
                    && let Some(to) = to(i + k)
                {
                    vector.store(to);
                }
            }
        }
    }
}

/// Transposes `count` consecutive vectors to `lines` lines that are `step` apart. A residual with
/// the same layout is added before bounds are applied; without one, the caller applies the bounds.
/// With `halves`, elements are rounded to float16 then.
///
/// # Safety
/// There are as many vectors, and all elements can be written, or read of the residual.
#[inline(always)]
pub unsafe fn scatter<S: Turning>(
    from: *const f32,
    (count, lines): (usize, usize),
    to: *mut f32,
    step: usize,
    (residual, bounds, halves): (*const f32, Option<Bounds<f32>>, bool),
) {
    // SAFETY: there are `lines` lines of `count` floats, and the places that are read have a
    // vector; a residual is read before its place is written.
    unsafe {
        for i in (0..count).step_by(S::LANES) {
            let n = (count - i).min(S::LANES);
            let mut square = [S::splat(0.0); MOST];
            for (k, vector) in square.iter_mut().enumerate().take(S::LANES) {
                *vector = S::load(from.add((i + k.min(n - 1)) * S::LANES));
            }
            let square = S::turned(square);
            for (k, &line) in square.iter().enumerate().take(S::LANES) {
                if k >= lines {
                    break;
                }
                let mut x = line;
                if !residual.is_null() {
                    x = x.add(S::load_part(residual.add(k * step + i), n));
                    if let Some(bounds) = bounds {
                        x = bounds.splat().of_lanes(x);
                    }
                }
                if halves {
                    x = x.half();
                }
                x.store_part(to.add(k * step + i), n);
            }
        }
    }
}

/// Like `dispatch`, for kernels that transpose squares: `name::<S>(arg, …)` with the right `S`, of
/// at most [`MOST`] lanes.
macro_rules! dispatch_turning {
    ($name:ident($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2($($arg: $ty),*) {
                // SAFETY: the instruction set is enabled here; the arguments are those that the
                // function asks for.
                unsafe { $name::<$crate::kernels::simd::Avx2>($($arg),*) }
            }
            #[inline(never)]
            unsafe fn portable($($arg: $ty),*) {
                // SAFETY: every processor has these instructions; the arguments are those that the
                // function asks for.
                unsafe { $name::<$crate::kernels::simd::Portable>($($arg),*) }
            }
            match $crate::kernels::simd::isa() {
                $crate::kernels::simd::Isa::Portable => portable($($arg),*),
                _ => avx2($($arg),*),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            $name::<$crate::kernels::simd::Portable>($($arg),*)
        }
    }};
}
pub(crate) use dispatch_turning;

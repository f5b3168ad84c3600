//! The bounds of an epilogue, and what becomes of numbers that are none.

use super::Simd;

/// What a NaN becomes; numbers are clamped alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfNan {
    /// The lower bound: the maximum is taken first, of the element and the bound.
    Low,
    /// The upper bound: the minimum is taken first, of the element and the bound.
    High,
    /// NaN: of the bound and the element.
    Nan,
}

/// The least and the largest result. A result that equals a bound is the bound itself where the
/// element comes first (which tells zeros of different sign apart), and the element otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<T> {
    /// The least result.
    pub lo: T,
    /// The largest result.
    pub hi: T,
    /// What a NaN becomes.
    pub nan: OfNan,
}

impl Bounds<f32> {
    /// The same bounds in all lanes.
    ///
    /// # Safety
    /// The instruction set of `S` is enabled.
    #[inline(always)]
    pub unsafe fn splat<S: Simd>(self) -> Bounds<S> {
        // SAFETY: as the caller promises.
        let (lo, hi) = unsafe { (S::splat(self.lo), S::splat(self.hi)) };
        Bounds {
            lo,
            hi,
            nan: self.nan,
        }
    }
}

impl<S: Simd> Bounds<S> {
    /// Clamps every lane.
    #[inline(always)]
    pub fn of_lanes(self, x: S) -> S {
        match self.nan {
            OfNan::Low => x.max(self.lo).min(self.hi),
            OfNan::High => x.min(self.hi).max(self.lo),
            OfNan::Nan => self.hi.min(self.lo.max(x)),
        }
    }

    /// Clamps sums in registers. The question is asked once for all of them.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
    pub fn of_tile<const NV: usize, const R: usize>(self, x: &mut [[S; NV]; R]) {
        macro_rules! each {
            ($x:ident => $value:expr) => {
                for r in 0..R {
                    for v in 0..NV {
                        let $x = x[r][v];
                        x[r][v] = $value;
                    }
                }
            };
        }
        let Self { lo, hi, nan } = self;
        match nan {
            OfNan::Low => each!(x => x.max(lo).min(hi)),
            OfNan::High => each!(x => x.min(hi).max(lo)),
            OfNan::Nan => each!(x => hi.min(lo.max(x))),
        }
    }
}

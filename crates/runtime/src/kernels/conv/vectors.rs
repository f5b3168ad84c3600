//! What depthwise windows with vectors along rows share.

use super::Sizes;
use crate::kernels::gemm::epilogue::Line;
use crate::kernels::simd::Simd;

/// Returns the mask of the lanes from `column` on that are inside the image.
#[inline(always)]
pub(super) unsafe fn within<S: Simd>(s: &Sizes, column: isize) -> S::Lanes {
    let end = (s.w as isize - column).clamp(0, S::LANES as isize);
    // SAFETY: `end` is at most a vector's lanes.
    unsafe { S::lanes((-column).clamp(0, end) as usize, end as usize) }
}

/// The weights of a window of 3 by 3, each in all lanes.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the weights out of memory.
pub(super) unsafe fn spread3<S: Simd>(weight: *const f32) -> [[S; 3]; 3] {
    // SAFETY: `weight` has nine floats.
    unsafe {
        let mut w = [[S::splat(0.0); 3]; 3];
        for ky in 0..3 {
            for kx in 0..3 {
                w[ky][kx] = S::splat(*weight.add(ky * 3 + kx));
            }
        }
        w
    }
}

/// Applies the epilogue to sums of some columns, and stores them from an element on.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
pub(super) unsafe fn put<S: Simd, const NV: usize, const R: usize>(
    acc: [[S; NV]; R],
    s: &Sizes,
    (first, columns): (usize, usize),
    to: &Line<S>,
) {
    // SAFETY: the output has `R` rows of the columns that are written.
    unsafe {
        if columns == NV * S::LANES {
            return to.put_whole((first, s.ow), acc);
        }
        for r in 0..R {
            for v in 0..NV {
                // Rows of the output are contiguous.
                let (at, n) = (first + r * s.ow + v * S::LANES, columns - v * S::LANES);
                to.put(at, acc[r][v], n.min(S::LANES));
            }
        }
    }
}

//! Parts of [`fused`](super::fused), for each instruction set.

use super::fused_rows::{Row, row};
use super::fused_tile::Ends;
use super::fused_vectors::Plain;
use super::fused_walk::{Tiles, tiles};
use crate::kernels::simd::{Isa, isa};

/// A part of the work.
#[allow(clippy::large_enum_variant)] // One for each call, on the stack.
pub(super) enum Part<'t> {
    /// Tiles of pixels by channels.
    Tiles(Tiles<'t>),
    /// A row of depthwise windows.
    Row(Row<'t>),
}

#[inline(always)]
unsafe fn part<S: Ends>(p: &Part<'_>) {
    // SAFETY: parts are made for what they refer to; the caller has the instruction set.
    unsafe {
        match p {
            Part::Tiles(t) => tiles::<S>(t),
            Part::Row(r) => row::<S>(r),
        }
    }
}

/// Computes a part with the best instructions that the processor has and `RELAX_ISA` allows.
///
/// # Safety
/// What the part refers to lives and has its sizes.
pub(super) unsafe fn compute(p: &Part<'_>) {
    #[cfg(target_arch = "x86_64")]
    {
        use super::fused_vectors::x86::{Avx, Avx512, PAIRS, QUADS, QUADS_512};
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2")]
        unsafe fn avx512(t: &Tiles<'_>) {
            // SAFETY: the instruction set is enabled here.
            unsafe { tiles::<Avx512>(t) };
        }
        // Functions of their own: compilers keep fewer sums in registers in very long ones.
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2")]
        unsafe fn avx512_row(r: &Row<'_>) {
            // SAFETY: as above.
            unsafe {
                match r.wide {
                    // Half of a vector would be empty.
                    ..=32 => row::<Avx<QUADS_512>>(r),
                    _ => row::<Avx512>(r),
                }
            };
        }
        #[target_feature(enable = "avx2,avxvnni")]
        unsafe fn vnni(p: &Part<'_>) {
            // SAFETY: as above.
            unsafe { part::<Avx<QUADS>>(p) };
        }
        #[target_feature(enable = "avx2")]
        unsafe fn avx2(p: &Part<'_>) {
            // SAFETY: as above.
            unsafe { part::<Avx<PAIRS>>(p) };
        }
        // SAFETY: the processor has what is chosen.
        unsafe {
            match isa() {
                Isa::Avx512 if is_x86_feature_detected!("avx512vnni") => {
                    return match p {
                        Part::Tiles(t) => avx512(t),
                        Part::Row(r) => avx512_row(r),
                    };
                }
                Isa::Avx512 | Isa::Avx2 if is_x86_feature_detected!("avxvnni") => return vnni(p),
                Isa::Avx512 | Isa::Avx2 => return avx2(p),
                _ => {}
            }
        }
    }
    // SAFETY: nothing is enabled.
    unsafe { part::<Plain>(p) };
}

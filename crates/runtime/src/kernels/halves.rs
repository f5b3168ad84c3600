//! float16 and bfloat16 to and from float32, in vectors.

use half::f16;
use half::slice::HalfFloatSliceExt;
use std::slice::{from_raw_parts, from_raw_parts_mut};

#[cfg(target_arch = "x86_64")]
use super::simd::{Isa, isa};
use super::simd::{Simd, dispatch};

/// float16 to float32.
///
/// # Safety
/// Both have `n` elements and do not overlap.
pub(super) unsafe fn from_f16(n: usize, x: *const u16, y: *mut f32) {
    // SAFETY: the caller's promise; vectors touch whole groups of the elements.
    unsafe {
        let mut done = 0;
        #[cfg(target_arch = "x86_64")]
        if isa() >= Isa::Avx2 {
            done = n / 8 * 8;
            eights::from_f16(done, x, y);
        }
        let (x, y) = (x.add(done).cast::<f16>(), y.add(done));
        from_raw_parts(x, n - done).convert_to_f32_slice(from_raw_parts_mut(y, n - done));
    }
}

/// float32 to float16, to nearest even.
///
/// # Safety
/// As [`from_f16`].
pub(super) unsafe fn to_f16(n: usize, x: *const f32, y: *mut u16) {
    // SAFETY: as above.
    unsafe {
        let mut done = 0;
        #[cfg(target_arch = "x86_64")]
        if isa() >= Isa::Avx2 {
            done = n / 8 * 8;
            eights::to_f16(done, x, y);
        }
        let (x, y) = (x.add(done), y.add(done).cast::<f16>());
        from_raw_parts_mut(y, n - done).convert_from_f32_slice(from_raw_parts(x, n - done));
    }
}

/// bfloat16 to float32.
///
/// # Safety
/// As [`from_f16`].
pub(super) unsafe fn from_bf16(n: usize, x: *const u16, y: *mut f32) {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn all<S: Simd>(n: usize, x: *const u16, y: *mut f32) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe { *y.add(i) = f32::from_bits(u32::from(*x.add(i)) << 16) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { dispatch!(all(n: usize, x: *const u16, y: *mut f32)) };
}

/// float32 to bfloat16, to nearest even.
///
/// # Safety
/// As [`from_f16`].
pub(super) unsafe fn to_bf16(n: usize, x: *const f32, y: *mut u16) {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn all<S: Simd>(n: usize, x: *const f32, y: *mut u16) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe {
                let bits = (*x.add(i)).to_bits();
                let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
                // A NaN stays one when its lower bits are lost.
                let lost = bits >> 16 | 0x40;
                let nan = bits & 0x7fff_ffff > 0x7f80_0000;
                *y.add(i) = if nan { lost } else { rounded } as u16;
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { dispatch!(all(n: usize, x: *const f32, y: *mut u16)) };
}

/// Groups of eight.
#[cfg(target_arch = "x86_64")]
mod eights {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn from_f16(n: usize, x: *const u16, y: *mut f32) {
        for i in (0..n).step_by(8) {
            // SAFETY: the caller's promise: `n` elements, a multiple of 8.
            unsafe {
                let v = _mm256_cvtph_ps(_mm_loadu_si128(x.add(i).cast()));
                _mm256_storeu_ps(y.add(i), v);
            }
        }
    }

    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn to_f16(n: usize, x: *const f32, y: *mut u16) {
        for i in (0..n).step_by(8) {
            // SAFETY: as above.
            unsafe {
                let v = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(x.add(i)));
                _mm_storeu_si128(y.add(i).cast(), v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn all_numbers_are_what_scalar_conversions_give() {
        let halves: Vec<u16> = (0..=u16::MAX).chain([1, 2, 3]).collect();
        let mut y = vec![0.0f32; halves.len()];
        // SAFETY: both have as many elements.
        unsafe { from_f16(halves.len(), halves.as_ptr(), y.as_mut_ptr()) };
        for (x, y) in halves.iter().zip(&y) {
            let wanted = f16::from_bits(*x).to_f32();
            assert!(*y == wanted || y.is_nan() && wanted.is_nan(), "{x:x}");
        }
        // SAFETY: as above.
        unsafe { from_bf16(halves.len(), halves.as_ptr(), y.as_mut_ptr()) };
        for (x, y) in halves.iter().zip(&y) {
            let wanted = bf16::from_bits(*x).to_f32();
            assert!(*y == wanted || y.is_nan() && wanted.is_nan(), "{x:x}");
        }
        let floats: Vec<f32> = (0..1u32 << 20).map(|i| f32::from_bits(i * 4093)).collect();
        let mut z = vec![0u16; floats.len()];
        // SAFETY: as above.
        unsafe { to_f16(floats.len(), floats.as_ptr(), z.as_mut_ptr()) };
        for (x, z) in floats.iter().zip(&z) {
            let (found, wanted) = (f16::from_bits(*z), f16::from_f32(*x));
            let same = found.to_bits() == wanted.to_bits();
            assert!(same || found.is_nan() && wanted.is_nan(), "{x:e}");
        }
        // SAFETY: as above.
        unsafe { to_bf16(floats.len(), floats.as_ptr(), z.as_mut_ptr()) };
        for (x, z) in floats.iter().zip(&z) {
            let (found, wanted) = (bf16::from_bits(*z), bf16::from_f32(*x));
            let same = found.to_bits() == wanted.to_bits();
            assert!(same || found.is_nan() && wanted.is_nan(), "{x:e}");
        }
    }
}

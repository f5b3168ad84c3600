//! float16 and bfloat16 to and from float32.

use super::halves;

/// Brings float16, or with `brain` bfloat16, to float32; of arrays of different lengths, as much as
/// the shorter one has.
pub fn widen(brain: bool, x: &[u16], y: &mut [f32]) {
    let n = x.len().min(y.len());
    // SAFETY: both have `n` elements, and a slice that is written overlaps no other.
    unsafe { halves::widened(brain, n, x.as_ptr(), y.as_mut_ptr()) };
}

/// Brings float32 to float16, or with `brain` to bfloat16, to nearest even; of arrays of different
/// lengths, as much as the shorter one has.
pub fn narrow(brain: bool, x: &[f32], y: &mut [u16]) {
    let n = x.len().min(y.len());
    // SAFETY: both have `n` elements, and a slice that is written overlaps no other.
    unsafe { halves::narrowed(brain, n, x.as_ptr(), y.as_mut_ptr()) };
}

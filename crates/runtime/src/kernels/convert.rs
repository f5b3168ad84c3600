//! float16 and bfloat16 to and from float32.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::slice::{from_raw_parts, from_raw_parts_mut};

macro_rules! conversions {
    ($($half:ident $to:ident $from:ident;)*) => {$(
        /// To float32.
        ///
        /// # Safety
        /// Both have `n` elements and do not overlap.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $to(n: i64, x: *const u16, y: *mut f32) {
            if n > 0 {
                // SAFETY: the caller's promise; the half types are 16 bits in memory.
                let (x, y) = unsafe {
                    (
                        from_raw_parts(x.cast::<$half>(), n as usize),
                        from_raw_parts_mut(y, n as usize),
                    )
                };
                x.convert_to_f32_slice(y);
            }
        }

        /// From float32, to nearest even.
        ///
        /// # Safety
        /// Both have `n` elements and do not overlap.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $from(n: i64, x: *const f32, y: *mut u16) {
            if n > 0 {
                // SAFETY: as above.
                let (x, y) = unsafe {
                    (
                        from_raw_parts(x, n as usize),
                        from_raw_parts_mut(y.cast::<$half>(), n as usize),
                    )
                };
                y.convert_from_f32_slice(x);
            }
        }
    )*};
}

conversions! {
    f16 rx_vf16_to_f32 rx_vf32_to_f16;
    bf16 rx_vbf16_to_f32 rx_vf32_to_bf16;
}

//! float16 and bfloat16 to and from float32.

use super::halves;

macro_rules! conversions {
    ($($to:ident $from:ident: $brain:literal;)*) => {$(
        /// To float32.
        ///
        /// # Safety
        /// Both have `n` elements and do not overlap.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $to(n: i64, x: *const u16, y: *mut f32) {
            if n > 0 {
                // SAFETY: both have `n` elements.
                unsafe { halves::widened($brain, n as usize, x, y) };
            }
        }

        /// From float32, to nearest even.
        ///
        /// # Safety
        /// Both have `n` elements and do not overlap.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $from(n: i64, x: *const f32, y: *mut u16) {
            if n > 0 {
                // SAFETY: both have `n` elements.
                unsafe { halves::narrowed($brain, n as usize, x, y) };
            }
        }
    )*};
}

conversions! {
    rx_vf16_to_f32 rx_vf32_to_f16: false;
    rx_vbf16_to_f32 rx_vf32_to_bf16: true;
}

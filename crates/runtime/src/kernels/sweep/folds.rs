//! Lines of float32 and float64 that are folded to one number each.

use super::{MAX, MIN, PRODUCT, SUM};
use crate::kernels::combiner::Combiner;
use crate::kernels::kinds::Kind;
use crate::kernels::simd::bytes::Lanes;
use crate::kernels::simd::wide::{Vector, Wide};

/// Reduces each of `rows` lines of `len` elements of float32 or float64, beginning with a number.
#[inline(always)]
pub(super) unsafe fn folded<S: Wide>(
    combiner: Combiner,
    kind: Kind,
    start: *const u8,
    x: *const u8,
    rows: usize,
    len: usize,
    to: *mut u8,
) {
    macro_rules! of {
        ($lines:ident, $vector:ty) => {{
            let (start, x, to) = (start.cast(), x.cast(), to.cast());
            match combiner {
                Combiner::Product => $lines::<$vector, PRODUCT>(start, x, rows, len, to),
                Combiner::Max => $lines::<$vector, MAX>(start, x, rows, len, to),
                Combiner::Min => $lines::<$vector, MIN>(start, x, rows, len, to),
                _ => $lines::<$vector, SUM>(start, x, rows, len, to),
            }
        }};
    }
    // SAFETY: there are as many lines, and room for a number of each.
    unsafe {
        match kind {
            Kind::F64 => of!(doubles, S::F64),
            _ => of!(singles, S::F32),
        }
    }
}

/// The most lanes of a vector.
const LANES: usize = 16;

macro_rules! lines {
    ($($name:ident of $t:ty;)*) => {$(
        #[inline(always)]
        unsafe fn $name<V: Vector<Element = $t>, const COMBINER: i32>(
            start: *const $t,
            x: *const $t,
            rows: usize,
            len: usize,
            to: *mut $t,
        ) {
            macro_rules! onto {
                ($a:expr, $b:expr) => {{
                    let (a, b) = ($a, $b);
                    match COMBINER {
                        SUM => a + b,
                        PRODUCT => a * b,
                        MAX => if a > b { a } else { b },
                        _ => if a < b { a } else { b },
                    }
                }};
            }
            let wide = <V as Vector>::LANES;
            // SAFETY: there are as many lines, and room for a number of each.
            unsafe {
                let start = start.read_unaligned();
                for row in 0..rows {
                    let x = x.add(row * len);
                    let mut all = [V::splat(start); 4];
                    let mut i = 0;
                    while i + 4 * wide <= len {
                        for k in 0..4 {
                            all[k] = all[k].with::<COMBINER>(V::load(x.add(i + k * wide)));
                        }
                        i += 4 * wide;
                    }
                    while i + wide <= len {
                        all[0] = all[0].with::<COMBINER>(V::load(x.add(i)));
                        i += wide;
                    }
                    let halves = [
                        all[0].with::<COMBINER>(all[1]),
                        all[2].with::<COMBINER>(all[3]),
                    ];
                    let mut lanes = [start; LANES];
                    halves[0].with::<COMBINER>(halves[1]).store(lanes.as_mut_ptr());
                    for k in 0..len - i {
                        lanes[k] = onto!(lanes[k], *x.add(i + k));
                    }
                    let mut half = wide / 2;
                    while half > 0 {
                        for k in 0..half {
                            lanes[k] = onto!(lanes[k], lanes[k + half]);
                        }
                        half /= 2;
                    }
                    *to.add(row) = lanes[0];
                }
            }
        }
    )*};
}

lines! {
    singles of f32;
    doubles of f64;
}

//! Conversion of 32-bit sums to quantised numbers: fixed-point multiplication, rounding,
//! saturation.

use std::ffi::c_void;

use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::fixed_point::Channel;
use crate::kernels::integer::Element;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};

/// The minimum number of elements per thread.
const GRAIN: usize = 1 << 14;

c_structure! {
    /// As in the C header.
    pub struct RxRequantize {
        /// Elements before the axis of channels.
        pub outer: i64,
        /// Channels; every table has one number for each.
        pub channels: i64,
        /// Elements after that axis.
        pub inner: i64,
        /// The sums.
        pub x: *const i32,
        /// The number added to each sum.
        pub bias: *const i32,
        /// The number of places of the left shift after that.
        pub left: *const i64,
        /// The factor then.
        pub factor: *const i64,
        /// The number added to the product.
        pub half: *const i64,
        /// The number of places of the right shift after that.
        pub right: *const i64,
        /// The number added to the low 32 bits of the result.
        pub zero: *const i32,
        /// The least result.
        pub low: i32,
        /// The largest result.
        pub high: i32,
        /// The result's elements, a number of [`Element`]; they hold both bounds.
        pub y_type: i32,
        /// 0.
        pub reserved: i32,
        /// The result.
        pub y: *mut c_void,
    }
}

/// An element of a result.
trait Small: Copy {
    /// The low bits.
    fn of(x: i32) -> Self;
}

macro_rules! small {
    ($($t:ty),*) => {$(impl Small for $t {
        #[inline(always)]
        fn of(x: i32) -> Self {
            x as $t
        }
    })*};
}
small!(i8, u8, i16, i32);

impl RxRequantize {
    #[inline(always)]
    unsafe fn channel(&self, c: usize) -> Channel {
        // SAFETY: the tables have a number for each channel.
        unsafe {
            Channel {
                bias: *self.bias.add(c),
                left: *self.left.add(c),
                factor: *self.factor.add(c),
                half: *self.half.add(c),
                right: *self.right.add(c),
                zero: *self.zero.add(c),
            }
        }
    }

    #[inline(always)]
    fn bounded(&self, y: i32) -> i32 {
        y.min(self.high).max(self.low)
    }
}

/// Lines `begin..end`: channels of `inner` elements, or, where that is 1, all channels.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The code differs all the same.
unsafe fn lines<S: Simd, T: Small>(q: &RxRequantize, begin: usize, end: usize) {
    let (channels, inner) = (q.channels as usize, q.inner as usize);
    // SAFETY: lines are those of the arrays, whose tables have a number for each channel.
    unsafe {
        for line in begin..end {
            let length = if inner == 1 { channels } else { inner };
            let (x, y) = (q.x.add(line * length), q.y.cast::<T>().add(line * length));
            if inner == 1 {
                for c in 0..channels {
                    *y.add(c) = T::of(q.bounded(q.channel(c).bring(*x.add(c))));
                }
                continue;
            }
            let c = q.channel(line % channels);
            if c.left == 0 && i32::try_from(c.factor).is_ok() {
                // A product of 32-bit numbers is one instruction.
                let factor = c.factor as i32;
                for i in 0..length {
                    let product = i64::from((*x.add(i)).wrapping_add(c.bias)) * i64::from(factor);
                    *y.add(i) = T::of(q.bounded(c.of_product(product)));
                }
            } else {
                for i in 0..length {
                    *y.add(i) = T::of(q.bounded(c.bring(*x.add(i))));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn any<S: Simd>(q: &RxRequantize, to: Element, begin: usize, end: usize) {
    // SAFETY: lines are those of the arrays, whose tables have a number for each channel.
    unsafe {
        match to {
            Element::I8 => lines::<S, i8>(q, begin, end),
            Element::U8 => lines::<S, u8>(q, begin, end),
            Element::I16 => lines::<S, i16>(q, begin, end),
            Element::I32 => lines::<S, i32>(q, begin, end),
        }
    }
}

/// `y = bound(zero + low 32 bits of (((x + bias) << left) * factor + half >>
/// right))`; everything wraps.
///
/// # Safety
/// Arrays and tables are as large as the sizes say; the result is the sums' array, if as wide, or
/// does not overlap it.
pub unsafe fn requantize(context: &mut RxContext, q: &RxRequantize) -> i32 {
    if q.outer <= 0 || q.channels <= 0 || q.inner <= 0 {
        return 0;
    }
    let Some(to) = Element::of(q.y_type) else {
        return context.fail(Status::Argument, "rx_requantize_i32: no such type");
    };
    let (count, length) = if q.inner == 1 {
        (q.outer, q.channels)
    } else {
        (q.outer * q.channels, q.inner)
    };
    // SAFETY: lines are disjoint.
    let shared = unsafe { Share::new(*q) };
    let grain = Grain::of_work(GRAIN, length as usize);
    context.pool.each(count as usize, grain, |begin, end, _| {
        let q = shared.get();
        // SAFETY: as above.
        unsafe {
            dispatch!(any(
                q: &RxRequantize,
                to: Element,
                begin: usize,
                end: usize,
            ));
        }
    });
    0
}

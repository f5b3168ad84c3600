//! Convolutions and dense layers from bytes to bytes, bitwise, against plain loops.

mod common;

use common::{Random, everywhere};
use relax_runtime::capi::kernels::rx_conv2d_q8;
use relax_runtime::capi::packing::{rx_conv2d_q8_pack, rx_conv2d_q8_pack_size};
use relax_runtime::context::RxContext;
use relax_runtime::kernels::conv::{Layout, RxConv2dSizes};
use relax_runtime::kernels::integer::fused::RxConv2dQ8;
use std::ptr::{null, null_mut};

/// Sizes up to the window, then steps, padding, dilation, groups.
type Case = ([i64; 4], [i64; 3], [i64; 2], [i64; 2], [i64; 2], i64);

const CASES: &[Case] = &[
    // Pointwise, in place and with channels that are no quads, for every number of panels.
    ([1, 16, 5, 5], [64, 1, 1], [1, 1], [0, 0], [1, 1], 1),
    ([2, 20, 3, 4], [49, 1, 1], [1, 1], [0, 0], [1, 1], 1),
    ([1, 7, 4, 4], [33, 1, 1], [2, 2], [0, 0], [1, 1], 1),
    ([1, 130, 1, 5], [17, 1, 1], [1, 1], [0, 0], [1, 1], 1),
    ([1, 4, 1, 1], [1, 1, 1], [1, 1], [0, 0], [1, 1], 1),
    ([1, 12, 2, 9], [200, 1, 1], [1, 1], [0, 0], [1, 1], 1),
    // Windows: padded, cropped, strided, dilated.
    ([1, 3, 9, 11], [24, 3, 3], [2, 2], [1, 1], [1, 1], 1),
    ([2, 8, 7, 6], [70, 3, 2], [1, 1], [1, 0], [1, 2], 1),
    ([1, 8, 9, 9], [16, 3, 3], [1, 1], [0, 0], [1, 1], 1),
    ([1, 5, 10, 9], [8, 2, 3], [1, 2], [-1, -2], [2, 2], 1),
    // Depthwise: part of a block, whole ones, more; many taps.
    ([1, 10, 7, 8], [10, 3, 3], [1, 1], [1, 1], [1, 1], 10),
    ([1, 64, 6, 5], [64, 3, 3], [1, 1], [0, 0], [1, 1], 64),
    ([2, 100, 5, 9], [100, 5, 3], [2, 1], [2, 1], [1, 1], 100),
    ([1, 33, 8, 8], [33, 2, 2], [2, 2], [0, 1], [2, 1], 33),
    ([1, 72, 9, 10], [72, 3, 3], [2, 2], [1, 1], [1, 1], 72),
    ([1, 24, 9, 10], [24, 5, 5], [1, 1], [2, 2], [1, 1], 24),
    ([2, 40, 8, 7], [40, 5, 5], [2, 2], [2, 2], [1, 1], 40),
    ([1, 96, 6, 6], [96, 7, 4], [1, 1], [3, 1], [1, 1], 96),
    ([1, 17, 3, 21], [17, 1, 9], [1, 3], [0, 4], [1, 2], 17),
    ([1, 130, 4, 4], [130, 3, 3], [3, 5], [2, 3], [2, 2], 130),
    ([1, 8, 5, 6], [8, 3, 3], [1, 1], [-1, -1], [1, 1], 8),
    // Groups: several in a panel, each with panels of its own.
    ([1, 32, 6, 7], [32, 3, 3], [1, 1], [1, 1], [1, 1], 8),
    ([2, 40, 5, 6], [40, 3, 3], [2, 2], [1, 1], [1, 1], 5),
    ([1, 144, 4, 9], [144, 1, 1], [1, 1], [0, 0], [1, 1], 9),
    ([1, 80, 3, 3], [80, 1, 1], [1, 1], [0, 0], [1, 1], 20),
    ([1, 20, 6, 6], [20, 2, 3], [1, 2], [1, 2], [2, 1], 5),
    ([1, 48, 5, 5], [48, 3, 3], [1, 1], [1, 1], [1, 1], 2),
    ([2, 8, 7, 5], [36, 3, 3], [1, 1], [1, 1], [1, 1], 2),
    ([1, 24, 4, 4], [9, 1, 1], [1, 1], [0, 0], [1, 1], 3),
    ([1, 144, 3, 4], [146, 3, 1], [1, 1], [1, 0], [1, 1], 2),
    // Few channels, more pixels than a tile has.
    ([1, 8, 5, 13], [16, 3, 3], [1, 1], [1, 1], [1, 1], 1),
    ([1, 16, 7, 7], [13, 1, 1], [1, 1], [0, 0], [1, 1], 1),
    ([1, 4, 9, 9], [32, 3, 3], [1, 1], [1, 1], [1, 1], 1),
    ([1, 4, 9, 9], [18, 3, 3], [1, 1], [1, 1], [1, 1], 1),
    // Neighbours whose channels fill a panel together: of each divisor of a row, with steps, padded and
    // in place.
    ([1, 32, 6, 12], [3, 5, 5], [1, 1], [2, 2], [1, 1], 1),
    ([2, 3, 9, 15], [5, 3, 7], [1, 2], [1, 3], [1, 1], 1),
    ([1, 8, 5, 24], [2, 3, 3], [1, 1], [1, 1], [1, 1], 1),
    ([1, 4, 4, 18], [1, 2, 3], [2, 1], [0, 0], [1, 1], 1),
    ([1, 16, 1, 64], [7, 1, 9], [1, 1], [0, 4], [1, 1], 1),
    // Rows of windows of channels that are no quads, in place too.
    ([1, 1, 7, 16], [12, 3, 3], [1, 1], [1, 1], [1, 1], 1),
    ([1, 3, 15, 14], [40, 7, 7], [2, 2], [3, 3], [1, 1], 1),
    ([2, 6, 5, 9], [20, 3, 2], [1, 1], [0, 0], [1, 1], 1),
    ([1, 5, 6, 7], [24, 1, 4], [1, 2], [0, 0], [1, 1], 1),
    // Windows that padding is a large part of, or all of: a tile's rows differ in what they meet.
    ([1, 8, 4, 4], [64, 3, 3], [1, 1], [1, 1], [1, 1], 1),
    ([2, 12, 3, 5], [20, 5, 3], [1, 1], [4, 1], [1, 1], 1),
    ([1, 4, 2, 3], [24, 3, 3], [2, 1], [7, 2], [3, 2], 1),
    ([2, 16, 2, 2], [16, 5, 2], [1, 1], [3, 1], [2, 1], 2),
    ([1, 32, 3, 3], [32, 3, 3], [1, 2], [2, 1], [1, 1], 4),
    // No output.
    ([0, 4, 3, 3], [8, 1, 1], [1, 1], [0, 0], [1, 1], 1),
];

fn bytes(random: &mut Random, n: i64) -> Vec<u8> {
    (0..n)
        .map(|_| match random.bits() % 8 {
            0 => 0x7f,
            1 => 0x80,
            2 => 0xff,
            _ => random.bits() as u8,
        })
        .collect()
}

/// Bytes with a page behind the last one that nothing may touch.
#[cfg(unix)]
struct Fenced(*mut libc::c_void, usize);

#[cfg(unix)]
impl Fenced {
    const PAGE: usize = 1 << 16;

    fn of(bytes: &[u8]) -> Fenced {
        let whole = bytes.len().next_multiple_of(Self::PAGE) + Self::PAGE;
        // SAFETY: the mapping is new, and the bytes lie before its last page.
        unsafe {
            let (read, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
            let flags = flags | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), whole, read, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let end = at.cast::<u8>().add(whole - Self::PAGE);
            bytes.as_ptr().copy_to(end.sub(bytes.len()), bytes.len());
            assert_eq!(libc::mprotect(end.cast(), Self::PAGE, libc::PROT_NONE), 0);
            Fenced(at, whole)
        }
    }
    fn bytes(&self, n: usize) -> *const u8 {
        // SAFETY: `n` bytes lie before the last page.
        unsafe { self.0.cast::<u8>().add(self.1 - Self::PAGE - n) }
    }
}

#[cfg(unix)]
impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: it is what was mapped.
        unsafe { libc::munmap(self.0, self.1) };
    }
}

/// What is tried with every case.
#[derive(Clone, Copy, Debug)]
struct Way {
    signed: bool,
    packed: bool,
    one: bool,
    fixed: bool,
    first: bool,
    /// Whether factors are so large that products leave 32 bits.
    large: bool,
    /// Whether results are floats.
    floats: bool,
    /// Whether padding is the least number that there is.
    bare: bool,
    /// 0, or the zero point of a weight of unsigned bytes.
    weight_zero: i32,
}

/// Tables of numbers in fixed point.
struct Fixed {
    left: Vec<i64>,
    multiplier: Vec<i64>,
    half: Vec<i64>,
    right: Vec<i64>,
    zero: Vec<i32>,
}

impl Fixed {
    /// With left shifts of some channels, where `shifts`.
    fn of(factors: &[f32], zero: i32, shifts: bool) -> Fixed {
        let channels = || 0..factors.len() as i64;
        let left = |c: i64| if shifts { c % 3 } else { 0 };
        let right = |c: i64| 31 + c % 5;
        let scale = |c: i64| f64::from(factors[c as usize]) * ((right(c) - left(c)) as f64).exp2();
        Fixed {
            left: channels().map(left).collect(),
            multiplier: channels().map(|c| scale(c).round() as i64).collect(),
            half: channels().map(|c| 1 << (right(c) - 1)).collect(),
            right: channels().map(right).collect(),
            zero: channels().map(|c| zero + c as i32 % 4).collect(),
        }
    }

    fn bring(&self, sum: i32, c: usize) -> i32 {
        let product = (i64::from(sum) << self.left[c]) * self.multiplier[c];
        ((product + self.half[c]) >> self.right[c]) as i32 + self.zero[c]
    }
}

fn check(ctx: *mut RxContext, case: Case, way: Way) {
    let Way {
        signed,
        packed,
        one,
        fixed,
        first,
        large,
        floats,
        bare,
        weight_zero,
    } = way;
    let ([n, c, h, w], [o, kh, kw], step, pad, apart, groups) = case;
    let out = |size: i64, window: i64, k: usize| {
        (size + 2 * pad[k] - (window - 1) * apart[k] - 1) / step[k] + 1
    };
    let (oh, ow) = (out(h, kh, 0), out(w, kw, 1));
    let cg = c / groups;
    let mut random = Random(5);
    let (x, weight) = (
        bytes(&mut random, n * c * h * w),
        bytes(&mut random, kh * kw * cg * o),
    );
    #[cfg(unix)]
    let fenced = Fenced::of(&x);
    #[cfg(unix)]
    let given = fenced.bytes(x.len());
    #[cfg(not(unix))]
    let given = x.as_ptr();
    let bias: Vec<i32> = (0..o).map(|_| random.bits() as i32 % 5000).collect();
    let k = (kh * kw * cg) as f32;
    let factor: Vec<f32> = (0..if one { 1 } else { o })
        .map(|i| (0.3 + 0.05 * (i % 7) as f32) / (40.0 * k.sqrt()))
        .map(|f| if large { f * 3e7 } else { f })
        .collect();
    let x_zero = match (signed, bare) {
        (true, true) => -128,
        (true, false) => -7,
        (false, true) => 0,
        (false, false) => 131,
    };
    let (y_zero, low, high) = if signed {
        (3, -128, 100)
    } else {
        (17, 17, 255)
    };
    let tables = Fixed::of(&factor, y_zero, packed);
    let shift: Vec<f32> = (0..o).map(|i| (i % 9) as f32 - 4.5).collect();
    let size = if floats { 4 } else { 1 };
    let mut y = vec![0x55u8; (n * oh * ow * o * size) as usize];
    let mut v = RxConv2dQ8 {
        sizes: RxConv2dSizes {
            n,
            c,
            h,
            w,
            o,
            kh,
            kw,
            oh,
            ow,
            stride_h: step[0],
            stride_w: step[1],
            pad_t: pad[0],
            pad_l: pad[1],
            dilation_h: apart[0],
            dilation_w: apart[1],
            groups,
        },
        // The weight is (kh, kw, i, o), or without a window or with channels first (o, i, kh, kw).
        tap_step: if first { 1 } else { cg * o },
        in_step: match (first, kh * kw) {
            (true, taps) => taps,
            (false, 1) => 1,
            _ => o,
        },
        out_step: match (first, kh * kw) {
            (true, taps) => cg * taps,
            (false, 1) => cg,
            _ => 1,
        },
        x: given.cast(),
        weight: weight.as_ptr().cast(),
        packed: null(),
        bias: if one { null() } else { bias.as_ptr() },
        factor: if fixed { null() } else { factor.as_ptr() },
        left: tables.left.as_ptr(),
        multiplier: tables.multiplier.as_ptr(),
        half: tables.half.as_ptr(),
        right: tables.right.as_ptr(),
        zero: tables.zero.as_ptr(),
        y: y.as_mut_ptr().cast(),
        factors: factor.len() as i64,
        x_signed: i32::from(signed),
        x_zero,
        y_zero,
        low,
        high,
        layout: if first { Layout::Nchw } else { Layout::Nhwc } as i32,
        shift: if one { null() } else { shift.as_ptr() },
        least: -40.0,
        most: 90.0,
        floats: i32::from(floats),
        weight_zero,
    };
    // SAFETY: all arrays have the sizes that the descriptor states.
    let room = unsafe { rx_conv2d_q8_pack_size(&v) };
    let mut room = vec![0u64; (room as usize).div_ceil(8)];
    if packed {
        // SAFETY: as above, and there is as much room as was asked for.
        unsafe { rx_conv2d_q8_pack(&v, room.as_mut_ptr().cast()) };
        v.packed = room.as_ptr().cast();
        v.weight = null();
    }
    // SAFETY: as above.
    assert_eq!(unsafe { rx_conv2d_q8(ctx, &v) }, 0);
    let value = |b: u8| {
        if signed {
            i32::from(b as i8)
        } else {
            i32::from(b)
        }
    };
    for (at, found) in y.chunks_exact(size as usize).enumerate() {
        let p = at as i64;
        let (image, oy, ox, filter) = if first {
            (p / (o * oh * ow), p / ow % oh, p % ow, p / (oh * ow) % o)
        } else {
            (p / (oh * ow * o), p / (ow * o) % oh, p / o % ow, p % o)
        };
        let mut sum = 0i32;
        for (tap, channel) in (0..kh * kw).flat_map(|t| (0..cg).map(move |c| (t, c))) {
            let iy = oy * step[0] + tap / kw * apart[0] - pad[0];
            let ix = ox * step[1] + tap % kw * apart[1] - pad[1];
            if iy < 0 || ix < 0 || iy >= h || ix >= w {
                continue;
            }
            let from = filter / (o / groups) * cg + channel;
            let at = if first {
                ((image * c + from) * h + iy) * w + ix
            } else {
                ((image * h + iy) * w + ix) * c + from
            };
            let a = value(x[at as usize]) - x_zero;
            let b = weight[(tap * v.tap_step + channel * v.in_step + filter * v.out_step) as usize];
            sum += match weight_zero {
                0 => a * i32::from(b as i8),
                zero => a * (i32::from(b) - zero),
            };
        }
        let bias = if one { 0 } else { bias[filter as usize] };
        let table = if one { 0 } else { filter as usize };
        if let [_, _, _, _] = found {
            let shift = if one { 0.0 } else { shift[table] };
            let want = ((sum + bias) as f32 * factor[table] + shift).clamp(-40.0, 90.0);
            let found = f32::from_le_bytes(found.try_into().unwrap());
            assert_eq!(found, want, "{case:?} {way:?} at {at}");
            continue;
        }
        let want = if fixed {
            tables.bring(sum + bias, table).min(high).max(low)
        } else {
            let steps = ((sum + bias) as f32 * factor[table]).round_ties_even() + y_zero as f32;
            steps.max(low as f32).min(high as f32) as i32
        };
        assert_eq!(value(found[0]), want, "{case:?} {way:?} at {at}");
    }
}

#[test]
fn bytes_are_those_of_plain_loops() {
    everywhere(|ctx, _| {
        for &case in CASES {
            for bits in 0..32 {
                let bit = |k: u32| bits >> k & 1 != 0;
                let way = Way {
                    signed: bit(0),
                    packed: bit(1),
                    one: bit(2),
                    fixed: bit(3),
                    first: bit(4),
                    large: false,
                    floats: false,
                    bare: false,
                    weight_zero: [0, 120, 1, 255][bits as usize / 3 % 4],
                };
                check(ctx, case, way);
                check(ctx, case, Way { bare: true, ..way });
                if bits < 2 {
                    check(ctx, case, Way { large: true, ..way });
                }
                let ([_, c, _, _], .., groups) = case;
                if bits < 8 && (groups == 1 || groups < c) {
                    let floats = true;
                    check(ctx, case, Way { floats, ..way });
                }
            }
        }
    });
}

/// One multiplication of bytes, without the arrays.
const CONV: RxConv2dQ8 = RxConv2dQ8 {
    sizes: RxConv2dSizes::ONE,
    tap_step: 0,
    in_step: 1,
    out_step: 1,
    x: null(),
    weight: null(),
    packed: null(),
    bias: null(),
    factor: null(),
    left: null(),
    multiplier: null(),
    half: null(),
    right: null(),
    zero: null(),
    y: null_mut(),
    factors: 1,
    x_signed: 0,
    x_zero: 0,
    y_zero: 0,
    low: 0,
    high: 255,
    layout: Layout::Nhwc as i32,
    shift: null(),
    least: 0.0,
    most: 0.0,
    floats: 0,
    weight_zero: 0,
};

#[test]
fn what_is_no_such_convolution_is_refused() {
    everywhere(|ctx, _| {
        let mut v = RxConv2dQ8 {
            sizes: RxConv2dSizes {
                c: 4,
                o: 4,
                groups: 2,
                ..RxConv2dSizes::ONE
            },
            out_step: 4,
            ..CONV
        };
        // SAFETY: nothing is read from what is refused.
        unsafe {
            assert_ne!(
                rx_conv2d_q8(ctx, &v),
                0,
                "groups of channels that are no quads"
            );
            v.sizes.groups = 1;
            (v.x_zero, v.sizes.pad_t) = (256, 1);
            assert_ne!(rx_conv2d_q8(ctx, &v), 0, "padding that is no byte");
            (v.x_zero, v.sizes.pad_t) = (0, 0);
            (v.floats, v.layout) = (1, Layout::Nchw as i32);
            assert_ne!(rx_conv2d_q8(ctx, &v), 0, "floats with channels first");
            (v.floats, v.layout) = (0, Layout::Nhwc as i32);
            assert_ne!(
                rx_conv2d_q8(ctx, &v),
                0,
                "nothing that brings sums to bytes"
            );
            v.weight_zero = 256;
            assert_ne!(rx_conv2d_q8(ctx, &v), 0, "a zero point that is no byte");
            (v.weight_zero, v.layout) = (0, 7);
            assert_ne!(rx_conv2d_q8(ctx, &v), 0, "an unknown layout");
        }
    });
}

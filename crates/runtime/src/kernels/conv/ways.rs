//! Which way a convolution goes: the one that costs least.
//!
//! Costs are in multiplications of one lane in a tile of products (with AVX2 16 a cycle, with
//! AVX-512 up to 32). They are fitted to times on a processor with AVX2 (Zen 3, one thread, least
//! of many runs) of the convolutions of 93 networks, each by all ways that it can go: on average,
//! the way chosen took 1 % more time than the fastest one. Where vectors have 16 lanes more of them
//! stay empty, so that a way that costs a third more than another there is not taken.

use super::{RxConv2dF32, RxConv2dSizes, Sizes, Way, by, direct, rows, taps, winograd};
use crate::context::{RxContext, Status};
use crate::kernels::gemm::tile::COLS;

/// A multiplication of a product whose operand is unfolded.
const UNFOLDED: f64 = 1.1;
/// Unfolding up to 16 neighbouring pixels, or an end of a row that is no whole vector, for a
/// channel and a place of the window.
const RUN: f64 = 170.0;
/// Unfolding an input with channels last: a number at a time.
const NUMBER: f64 = 16.0;
/// Sorting an input by the step to the right.
const SORTED: f64 = 18.0;

/// What Winograd takes with AVX-512, where [`Way::Direct`]'s cost was measured, of its own cost.
const FILTERED: f64 = 0.8;

/// Returns whether a convolution of float32 goes by Winograd, for models of what it costs.
pub fn filters_minimally(sizes: &RxConv2dSizes, layout: i32) -> bool {
    Sizes::of(sizes, layout).is_some_and(|s| s.way() == Way::Winograd)
}

/// Returns the ways that a convolution can go, for benches and tests; the first is the one that it
/// goes.
pub fn ways_of(sizes: &RxConv2dSizes, layout: i32) -> Vec<Way> {
    let Some(s) = Sizes::of(sizes, layout) else {
        return Vec::new();
    };
    let chosen = s.way();
    let mut ways = vec![chosen];
    if matches!(chosen, Way::Depthwise | Way::Pointwise) || s.k == 0 {
        return ways;
    }
    if s.nhwc {
        ways.extend(
            [Way::Unfold, Way::Direct]
                .into_iter()
                .filter(|&w| w != chosen),
        );
        return ways;
    }
    let others = [
        (Way::Unfold, true),
        (Way::Direct, true),
        (Way::Rows, s.kh * s.kw > 1),
        (Way::Winograd, winograd::can(&s)),
        (Way::Taps, taps::can(&s)),
    ];
    let others = others.into_iter().filter(|o| o.1 && o.0 != chosen);
    ways.extend(others.map(|o| o.0));
    ways
}

/// Returns a convolution's weight, packed for a way.
///
/// # Safety
/// As [`pack_weight`](super::pack_weight), and the way is one of [`ways_of`].
pub unsafe fn packed_for(conv: &RxConv2dF32, way: Way) -> Vec<f32> {
    let Some(s) = Sizes::of(&conv.sizes, conv.layout) else {
        return Vec::new();
    };
    let mut packed = vec![0.0; s.packed(way)];
    if !packed.is_empty() {
        // SAFETY: the weight has the sizes of `conv`, and `packed` as many floats as the way packs.
        unsafe { s.pack(way, conv.weight, packed.as_mut_ptr()) };
    }
    packed
}

/// A convolution by one of its ways, for benches and tests.
///
/// # Safety
/// As [`convolve`](super::convolve), with a weight of [`packed_for`] or none that is packed, and the
/// way is one of [`ways_of`].
pub unsafe fn by_way(context: &mut RxContext, conv: &RxConv2dF32, way: Way) -> i32 {
    let s = Sizes::of(&conv.sizes, conv.layout);
    let Some(s) = s.filter(|s| s.n * s.o * s.oh * s.ow > 0) else {
        return context.fail(Status::Argument, "no convolution");
    };
    // SAFETY: `conv` has the arrays that its sizes say, none of which is empty.
    unsafe { by(context, conv, &s, way) }
}

impl Sizes {
    /// Returns the algorithm that costs least.
    pub(super) fn way(&self) -> Way {
        let multiplier_one = self.o == self.c;
        if self.cg == 1 && self.groups > 1 && (!self.nhwc || multiplier_one) {
            return Way::Depthwise;
        }
        if direct::pays_for_pixels(self) {
            return Way::Direct;
        }
        if self.groups == 1 && self.as_it_lies() {
            return Way::Pointwise;
        }
        if self.k == 0 {
            return Way::Unfold;
        }
        if self.nhwc {
            return match direct::cost(self) < unfolded_last(self) {
                true => Way::Direct,
                false => Way::Unfold,
            };
        }
        let others = |lanes| {
            [
                (Way::Unfold, unfolded(self, lanes)),
                (Way::Direct, direct::cost(self)),
                (Way::Rows, rows::cost(self, lanes)),
            ]
        };
        let (here, wide) = (others(8), others(COLS));
        let filtered = winograd::cost(self);
        if filtered < here[0].1 && FILTERED * filtered < here[1].1 {
            return Way::Winograd;
        }
        let least = wide.iter().fold(f64::INFINITY, |a, b| a.min(b.1));
        if taps::cost(self, COLS) < taps::WORTH * least {
            return Way::Taps;
        }
        (here.iter().zip(&wide))
            .filter(|(_, wide)| wide.1 <= least * 4.0 / 3.0)
            .min_by(|a, b| a.0.1.total_cmp(&b.0.1))
            .map_or(Way::Unfold, |(best, _)| best.0)
    }
}

/// The cost of an image by unfolding with channels last.
fn unfolded_last(s: &Sizes) -> f64 {
    let filters = s.og.next_multiple_of(COLS) as f64;
    (s.groups * s.k * s.oh * s.ow) as f64 * (filters + NUMBER)
}

/// The cost of an image by unfolding, with vectors of so many lanes.
fn unfolded(s: &Sizes, lanes: usize) -> f64 {
    let pixels = s.oh * s.ow;
    // Sorted columns have their padding with them, so that half a line is a whole vector there.
    let line = if s.sw > 1 { COLS / 2 } else { COLS };
    let ends = if s.ow.is_multiple_of(line) { 0 } else { s.oh };
    let runs = pixels.div_ceil(COLS) + ends;
    let products = (pixels.next_multiple_of(lanes) * s.og.next_multiple_of(4)) as f64;
    let sorted = s.sw > 1 && s.kh * s.kw > 1;
    let inputs = if sorted { s.c * s.h * s.w } else { 0 };
    (s.groups * s.k) as f64 * (UNFOLDED * products + RUN * runs as f64) + SORTED * inputs as f64
}

//! Numbers per channel of [`fused`](super::fused): what sums start with, and what brings them to
//! bytes.

use super::fused::Conv;
use super::fused_tile::MOST;
use super::fused_vectors::{Range, Wide};
use crate::kernels::requantize::Channel;

/// The numbers of a block of channels.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    /// What each channel's sums start with.
    pub start: [i32; MOST],
    factor: [f32; MOST],
    fixed: Fixed,
}

impl Default for Tables {
    fn default() -> Self {
        Tables {
            start: [0; MOST],
            factor: [0.0; MOST],
            fixed: Fixed::NONE,
        }
    }
}

/// What brings sums to another scale in fixed point.
///
/// Invariant: shifts are below 64.
#[derive(Clone, Copy)]
pub(super) struct Fixed {
    left: [i64; MOST],
    multiplier: [i64; MOST],
    half: [i64; MOST],
    right: [i64; MOST],
    zero: [i32; MOST],
    /// The same for vectors, if all channels allow that.
    pub narrow: Option<Narrow>,
}

impl Fixed {
    const NONE: Fixed = Fixed {
        left: [0; MOST],
        multiplier: [0; MOST],
        half: [0; MOST],
        right: [0; MOST],
        zero: [0; MOST],
        narrow: None,
    };

    /// Brings a sum with its bias to the scale of a channel's results.
    #[inline(always)]
    pub(super) fn bring(&self, sum: i32, at: usize) -> i32 {
        let channel = Channel {
            bias: 0,
            left: self.left[at],
            factor: self.multiplier[at],
            half: self.half[at],
            right: self.right[at],
            zero: self.zero[at],
        };
        channel.bring(sum)
    }
}

/// [`Fixed`] without left shifts, by factors of 32 bits.
///
/// The logical right shift of a product that `2^62` was added to is the arithmetic one plus
/// `2^(62 - right)`: the latter is subtracted with the zero point.
#[derive(Clone, Copy)]
pub(super) struct Narrow {
    multiplier: [i32; MOST],
    /// What is added to the products of even channels, and of odd ones.
    half: [[i64; MOST / 2]; 2],
    /// The places that these are shifted by.
    right: [[i64; MOST / 2]; 2],
    zero: [i32; MOST],
}

impl Narrow {
    fn of(fixed: &Fixed) -> Option<Narrow> {
        let mut narrow = Narrow {
            multiplier: [0; MOST],
            half: [[0; MOST / 2]; 2],
            right: [[0; MOST / 2]; 2],
            zero: [0; MOST],
        };
        for at in 0..MOST {
            let (half, right) = (fixed.half[at], fixed.right[at]);
            if fixed.left[at] != 0 || right > 62 || !(0..1 << 62).contains(&half) {
                return None;
            }
            narrow.multiplier[at] = i32::try_from(fixed.multiplier[at]).ok()?;
            narrow.half[at % 2][at / 2] = half + (1 << 62);
            narrow.right[at % 2][at / 2] = right;
            narrow.zero[at] = fixed.zero[at].wrapping_sub((1i64 << (62 - right)) as i32);
        }
        Some(narrow)
    }

    /// The numbers for a vector of channels from an even place on: multipliers, what is added to even
    /// and to odd products, the places that these are shifted by, and zero points.
    #[inline(always)]
    unsafe fn load<S: Wide>(&self, at: usize) -> [S; 6] {
        let ([even, odd], [even_right, odd_right]) = (&self.half, &self.right);
        // SAFETY: the caller has the instruction set; there are numbers for all lanes.
        unsafe {
            let words = |t: &[i32; MOST]| S::load(t.as_ptr().add(at).cast());
            let longs = |t: &[i64; MOST / 2]| S::load(t.as_ptr().add(at / 2).cast());
            [
                words(&self.multiplier),
                longs(even),
                longs(odd),
                longs(even_right),
                longs(odd_right),
                words(&self.zero),
            ]
        }
    }
}

/// What brings sums to bytes.
#[derive(Clone, Copy)]
pub(super) enum Finish<'t> {
    /// A factor per channel.
    Float(&'t [f32; MOST], Range),
    /// Fixed point, then the least and the largest result.
    Fixed(&'t Fixed, [i32; 2]),
}

impl Finish<'_> {
    /// The result of a sum with its bias, of the channel at a place of the tables.
    #[inline(always)]
    pub(super) fn one(&self, sum: i32, at: usize) -> i32 {
        match self {
            Finish::Float(factor, range) => range.bring(sum, factor[at]),
            Finish::Fixed(fixed, [low, high]) => fixed.bring(sum, at).min(*high).max(*low),
        }
    }

    /// Replaces sums with their bias, of channels from a place of the tables on, which is even, by
    /// their results.
    ///
    /// # Safety
    /// The instruction set is enabled, and the tables have a number for each lane.
    #[inline(always)]
    pub(super) unsafe fn all<'s, S: Wide + 's>(
        &self,
        sums: impl Iterator<Item = &'s mut S>,
        at: usize,
    ) {
        // SAFETY: as promised.
        unsafe {
            match *self {
                Finish::Float(factor, range) => {
                    let factor = S::load(factor.as_ptr().add(at).cast());
                    sums.for_each(|s| *s = s.finish(factor, &range));
                }
                Finish::Fixed(fixed, bounds) => match &fixed.narrow {
                    Some(narrow) => {
                        let tables = narrow.load(at);
                        sums.for_each(|s| *s = s.finish_narrow(tables, bounds));
                    }
                    None => sums.for_each(|s| *s = s.finish_fixed((fixed, at), bounds)),
                },
            }
        }
    }
}

impl Conv<'_> {
    /// The numbers of channels from `first` on, in the order `at`, whose weights have these sums.
    ///
    /// # Safety
    /// Bias, factors and sums have the convolution's sizes.
    pub(super) unsafe fn tables(
        &self,
        sums: *const i32,
        first: usize,
        at: impl Fn(usize) -> usize,
    ) -> Tables {
        let (s, v) = (&self.s, self.v);
        let mut tables = Tables::default();
        let zero = if v.x_signed != 0 {
            v.x_zero + 128
        } else {
            v.x_zero
        };
        for place in 0..MOST {
            let channel = first + at(place);
            if channel >= s.o {
                continue;
            }
            let table = if v.factors == 1 { 0 } else { channel };
            // SAFETY: the channel is one of the convolution's.
            unsafe {
                let bias = match (v.bias.is_null(), v.factor.is_null()) {
                    (true, _) => 0,
                    (_, false) => *v.bias.add(channel),
                    (_, true) => *v.bias.add(table),
                };
                let sum = *sums.add(channel);
                tables.start[place] = bias.wrapping_sub(zero.wrapping_mul(sum));
                if !v.factor.is_null() {
                    tables.factor[place] = *v.factor.add(table);
                    continue;
                }
                let fixed = &mut tables.fixed;
                fixed.left[place] = *v.left.add(table) & 63;
                fixed.multiplier[place] = *v.multiplier.add(table);
                fixed.half[place] = *v.half.add(table);
                fixed.right[place] = *v.right.add(table) & 63;
                fixed.zero[place] = *v.zero.add(table);
            }
        }
        if v.factor.is_null() {
            tables.fixed.narrow = Narrow::of(&tables.fixed);
        }
        tables
    }

    /// What brings sums to bytes, by the numbers of some channels.
    pub(super) fn finish<'t>(&self, tables: &'t Tables) -> Finish<'t> {
        let v = self.v;
        if v.factor.is_null() {
            return Finish::Fixed(&tables.fixed, [v.low, v.high]);
        }
        let bound = |b: i32| b.wrapping_sub(v.y_zero) as f32;
        let range = Range {
            low: bound(v.low),
            high: bound(v.high),
            zero: v.y_zero,
        };
        Finish::Float(&tables.factor, range)
    }

    /// Returns whether there is what brings sums to bytes.
    pub(super) fn has_tables(&self) -> bool {
        let v = self.v;
        let shifts = [v.left, v.multiplier, v.half, v.right];
        let fixed = shifts.iter().all(|t| !t.is_null()) && !v.zero.is_null();
        !v.factor.is_null() || fixed
    }
}

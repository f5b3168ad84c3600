//! Numbers per channel of [`fused`](super::fused): what sums start with, and what brings them to
//! bytes.

use crate::kernels::fixed_point::Channel;

/// The most channels of a tile, and of a block of depthwise channels.
pub(super) const MOST: usize = 64;
/// Channels of a panel of the packed weight.
pub(super) const PANEL: usize = 16;

/// Where the results lie.
#[derive(Clone, Copy)]
pub(super) struct Range {
    /// The bounds, before `zero` is added.
    pub low: f32,
    pub high: f32,
    pub zero: i32,
}

impl Range {
    /// Brings a sum there.
    #[inline(always)]
    pub(super) fn bring(&self, sum: i32, factor: f32) -> i32 {
        let y = (sum as f32 * factor).max(self.low).min(self.high);
        y.round_ties_even() as i32 + self.zero
    }
}

/// The numbers of a block of channels.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    /// What each channel's sums start with.
    pub start: [i32; MOST],
    pub factor: [f32; MOST],
    pub shift: [f32; MOST],
    pub fixed: Fixed,
}

impl Default for Tables {
    fn default() -> Self {
        Tables {
            start: [0; MOST],
            factor: [0.0; MOST],
            shift: [0.0; MOST],
            fixed: Fixed::NONE,
        }
    }
}

/// What brings sums to another scale in fixed point.
///
/// Invariant: shifts are below 64.
#[derive(Clone, Copy)]
pub(super) struct Fixed {
    pub left: [i64; MOST],
    pub multiplier: [i64; MOST],
    pub half: [i64; MOST],
    pub right: [i64; MOST],
    pub zero: [i32; MOST],
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
    pub multiplier: [i32; MOST],
    /// What is added to the products of even channels, and of odd ones.
    pub half: [[i64; MOST / 2]; 2],
    /// The places that these are shifted by.
    pub right: [[i64; MOST / 2]; 2],
    pub zero: [i32; MOST],
}

impl Narrow {
    pub(super) fn of(fixed: &Fixed) -> Option<Narrow> {
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
}

/// [`Range`] where all factors are below one half: rounded numbers fit 32 bits, become bytes with
/// saturation, and are bounded as such.
#[derive(Clone, Copy)]
pub(super) struct Quick {
    /// Added to the rounded numbers, in 16 bits.
    pub zero: i16,
    /// The bounds, as unsigned bytes.
    pub low: u8,
    pub high: u8,
    /// What makes results of these.
    pub flip: u8,
}

impl Quick {
    pub(super) fn of(factors: &[f32; MOST], [low, high]: [i32; 2], zero: i32) -> Option<Quick> {
        let offset = if low < 0 { 128 } else { 0 };
        // Zero points are so small that what saturates in 16 bits is beyond all bounds of bytes.
        let small = zero.unsigned_abs() <= 1 << 14 && factors.iter().all(|f| f.abs() < 0.5);
        let byte = |x: i32| u8::try_from(x + offset).ok();
        (small && (-128..=high).contains(&low)).then_some(())?;
        Some(Quick {
            zero: (zero + offset) as i16,
            low: byte(low)?,
            high: byte(high.min(255))?,
            flip: offset as u8,
        })
    }
}

/// What brings sums to bytes.
#[derive(Clone, Copy)]
pub(super) enum Finish<'t> {
    /// A factor per channel, and the quick way if there is one.
    Float(&'t [f32; MOST], Range, Option<Quick>),
    /// Fixed point, then the least and the largest result.
    Fixed(&'t Fixed, [i32; 2]),
    /// Floats: a factor per channel, the number added to products, the least and the largest result.
    Real(&'t [f32; MOST], &'t [f32; MOST], [f32; 2]),
}

/// A sum as a float: NaN stays NaN.
#[inline(always)]
pub(super) fn real(sum: i32, factor: f32, shift: f32, [least, most]: [f32; 2]) -> f32 {
    let y = sum as f32 * factor + shift;
    let y = if least > y { least } else { y };
    if most < y { most } else { y }
}

impl Finish<'_> {
    /// The result of a sum with its bias, of the channel at a place of the tables.
    #[inline(always)]
    pub(super) fn one(&self, sum: i32, at: usize) -> i32 {
        match self {
            Finish::Float(factor, range, _) => range.bring(sum, factor[at]),
            Finish::Fixed(fixed, [low, high]) => fixed.bring(sum, at).min(*high).max(*low),
            Finish::Real(factor, shift, bounds) => {
                real(sum, factor[at], shift[at], *bounds).to_bits() as i32
            }
        }
    }
}

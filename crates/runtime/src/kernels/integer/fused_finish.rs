//! The numbers per channel of a convolution from bytes to bytes.

use super::fused::Conv;
use super::fused_scales::{Finish, MOST, Narrow, Quick, Range, Tables};

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
        let zero = self.zero();
        for place in 0..MOST {
            let channel = first + at(place);
            if channel >= s.o {
                continue;
            }
            let own = channel % (s.o / self.beside);
            let table = if v.factors == 1 { 0 } else { own };
            // SAFETY: the channel is one of the convolution's.
            unsafe {
                let bias = match (v.bias.is_null(), v.factor.is_null()) {
                    (true, _) => 0,
                    (_, false) => *v.bias.add(own),
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

    /// Writes the numbers of `wide` channels from `first` on, in their order.
    ///
    /// # Safety
    /// As of [`Conv::tables`]; the channels are the convolution's, no more than a block.
    pub(super) unsafe fn in_order(
        &self,
        tables: &mut Tables,
        sums: *const i32,
        (first, wide): (usize, usize),
    ) {
        let (v, own) = (self.v, self.s.o / self.beside);
        if v.factor.is_null() {
            // SAFETY: as promised.
            *tables = unsafe { self.tables(sums, first, |place| place) };
            return;
        }
        // Neighbours have the same numbers: pieces of those of the channels, each with its place.
        let pieces = |first: usize| {
            std::iter::successors(Some((0, first % own)), move |&(done, at)| {
                Some((done + own - at, 0)).filter(|p| p.0 < wide)
            })
        };
        let zero = self.zero();
        // SAFETY: each array has a number for each of the channels, but for a single factor.
        unsafe {
            let sums = std::slice::from_raw_parts(sums.add(first), wide);
            for (to, sum) in tables.start.iter_mut().zip(sums) {
                *to = zero.wrapping_mul(*sum).wrapping_neg();
            }
            if !v.bias.is_null() {
                for (done, at) in pieces(first) {
                    let bias = std::slice::from_raw_parts(v.bias.add(at), own - at);
                    for (to, bias) in tables.start[done..wide].iter_mut().zip(bias) {
                        *to = to.wrapping_add(*bias);
                    }
                }
            }
            let copy = |from: *const f32, to: &mut [f32; MOST]| {
                for (done, at) in pieces(first) {
                    let some = (own - at).min(wide - done);
                    let from = std::slice::from_raw_parts(from.add(at), some);
                    to[done..done + some].copy_from_slice(from);
                }
            };
            match v.factors {
                1 => tables.factor.fill(*v.factor),
                _ => copy(v.factor, &mut tables.factor),
            }
            if !v.shift.is_null() {
                copy(v.shift, &mut tables.shift);
            }
        }
    }

    /// The data's zero point, when its bytes are unsigned.
    pub(super) fn zero(&self) -> i32 {
        let signed = self.v.x_signed != 0;
        self.v.x_zero.wrapping_add(if signed { 128 } else { 0 })
    }

    /// Returns what brings sums to bytes, by the numbers of some channels.
    pub(super) fn finish<'t>(&self, tables: &'t Tables) -> Finish<'t> {
        let v = self.v;
        if v.factor.is_null() {
            return Finish::Fixed(&tables.fixed, [v.low, v.high]);
        }
        if v.floats != 0 {
            return Finish::Real(&tables.factor, &tables.shift, [v.least, v.most]);
        }
        let bound = |b: i32| b.wrapping_sub(v.y_zero) as f32;
        let range = Range {
            low: bound(v.low),
            high: bound(v.high),
            zero: v.y_zero,
        };
        let quick = Quick::of(&tables.factor, [v.low, v.high], v.y_zero);
        Finish::Float(&tables.factor, range, quick)
    }

    /// Returns whether there is what brings sums to bytes.
    pub(super) fn has_tables(&self) -> bool {
        let v = self.v;
        let shifts = [v.left, v.multiplier, v.half, v.right];
        let fixed = shifts.iter().all(|t| !t.is_null()) && !v.zero.is_null();
        !v.factor.is_null() || fixed && v.floats == 0
    }
}

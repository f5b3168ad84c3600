//! Strips: the lanes' coordinates, and which elements an index names in each lane.

use super::memory::Lanes;

/// The lanes of a full strip: long enough to amortise dispatch, short enough for the first-level
/// cache.
pub(super) const STRIP: usize = 256;

/// A register: its number during compilation, its first word in finished code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reg {
    pub(super) at: u32,
    pub(super) wide: bool,
}

/// One axis of a strip load: `wide + uniform`, either of which may be absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisIndex {
    pub(super) wide: Option<Reg>,
    pub(super) uniform: Option<Reg>,
    pub(super) extent: i64,
    pub(super) stride: i64,
}

/// What the wide parts of an index are in the lanes of a strip.
#[derive(Default)]
pub(super) struct Span {
    /// Least and greatest wide part per axis.
    pub(super) range: Vec<(i64, i64)>,
    /// Flat offset of the wide parts, per lane.
    pub(super) flat: Vec<i64>,
    shape: Shape,
    runs: Vec<(u32, i64)>,
    /// Whether the ranges are those of all strips, and there are no offsets.
    pub(super) along: bool,
}

#[derive(Default, Clone, Copy)]
enum Shape {
    /// From the first offset on, with a non-negative step.
    Step(i64, usize),
    Runs,
    #[default]
    Any,
}

/// The coordinates of a strip's lanes: consecutive elements of a row-major domain.
#[derive(Default)]
pub(super) struct Strip {
    pub(super) regs: Vec<Reg>,
    pub(super) extents: Vec<i64>,
    /// The element of the first lane.
    pub(super) from: i64,
}

impl Strip {
    /// Writes the coordinates of the strip's lanes to their registers.
    pub(super) fn coordinates(&self, count: usize, words: &mut [u64]) {
        let mut inner = 1;
        for (r, extent) in self.regs.iter().zip(&self.extents).rev() {
            let mut i = self.from / inner % extent;
            let mut rest = inner - self.from % inner;
            let at = r.at as usize;
            let lanes = &mut words[at..at + if r.wide { count } else { 1 }];
            let mut l = 0;
            while l < lanes.len() {
                let end = lanes.len().min(l.saturating_add(rest as usize));
                if inner == 1 {
                    // A run of steps up to the end of the axis.
                    let end = lanes.len().min(l + (extent - i) as usize);
                    for (v, lane) in (i..).zip(&mut lanes[l..end]) {
                        *lane = v as u64;
                    }
                    l = end;
                    i = 0;
                    continue;
                }
                lanes[l..end].fill(i as u64);
                l = end;
                rest = inner;
                i = if i + 1 == *extent { 0 } else { i + 1 };
            }
            inner *= extent;
        }
    }
}

impl Span {
    /// Sets a span of the lanes' own coordinates, from an element on.
    pub(super) fn set_along(&mut self, greatest: &[i64], from: i64) {
        if !self.along {
            self.along = true;
            self.range.clear();
            self.range.extend(greatest.iter().map(|&hi| (0, hi)));
        }
        self.shape = Shape::Step(from, 1);
    }

    /// Computes the range of the wide parts of an index for each axis, and the flat offsets.
    pub(super) fn set(&mut self, axes: &[AxisIndex], count: usize, words: &[u64]) {
        self.along = false;
        self.range.clear();
        self.flat.clear();
        self.flat.resize(count, 0);
        for axis in axes {
            let Some(r) = axis.wide else {
                self.range.push((0, 0));
                continue;
            };
            let lanes = &words[r.at as usize..][..count];
            let (mut lo, mut hi) = (i64::MAX, i64::MIN);
            for (f, v) in self.flat.iter_mut().zip(lanes) {
                let v = *v as i64;
                lo = lo.min(v);
                hi = hi.max(v);
                *f = f.wrapping_add(v.wrapping_mul(axis.stride));
            }
            self.range.push((lo, hi));
        }
        let first = self.flat[0];
        let step = match self.flat.get(1) {
            Some(second) => second.wrapping_sub(first),
            None => 1,
        };
        let mut pairs = self.flat.windows(2);
        let steady = pairs.all(|w| w[1].wrapping_sub(w[0]) == step);
        self.shape = if steady && step >= 0 {
            Shape::Step(first, step as usize)
        } else {
            self.runs.clear();
            self.runs.push((0, first));
            for (l, w) in self.flat.windows(2).enumerate() {
                if w[1] != w[0].wrapping_add(1) {
                    self.runs.push((l as u32 + 1, w[1]));
                }
            }
            if self.runs.len() * 6 <= count {
                Shape::Runs
            } else {
                Shape::Any
            }
        };
    }

    /// Returns the flat offset of the uniform parts of an index, and whether all lanes are inside.
    pub(super) fn reach(&self, axes: &[AxisIndex], words: &[u64]) -> (i64, bool) {
        let (mut base, mut inside) = (0i64, true);
        for (axis, (lo, hi)) in axes.iter().zip(&self.range) {
            let u = axis.uniform.map_or(0, |r| words[r.at as usize] as i64);
            let within = |v: &i64| v.checked_add(u).is_some_and(|i| i >= 0 && i < axis.extent);
            inside &= within(lo) && within(hi);
            base = base.wrapping_add(u.wrapping_mul(axis.stride));
        }
        (base, inside)
    }

    /// Returns the elements that the lanes read, at an offset.
    pub(super) fn lanes(&self, base: i64) -> Lanes<'_> {
        match self.shape {
            Shape::Step(first, step) => Lanes::Step(base.wrapping_add(first) as usize, step),
            Shape::Runs => Lanes::Runs(base, &self.runs),
            Shape::Any => Lanes::At(base, &self.flat),
        }
    }
}

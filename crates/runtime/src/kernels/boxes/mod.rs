//! Reductions over boxes: along some adjacent axes each index of the result has a range of the
//! array's indices, and an element is what all elements within its ranges are combined to. Adaptive
//! pooling is that, of any rank, layout and type: ranges differ in length, and may overlap.
//!
//! What is read for an element depends on its place along these axes alone, so the same distances serve
//! all elements beside it, or all planes. Of four ways the one is taken in which lanes are filled:
//! elements behind the axes (`ways::beside`), the run that a box is along the last axis (`ways::along`), planes
//! that are turned over (`ways::across`), and for few large planes their rows (`ways::lines`).

mod ways;

use std::ffi::c_void;

use super::combiner::Combiner;
use super::halves;
use super::kinds::Kind;
use super::scratch::Scratch;
use super::sweep::{combine, register};
use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::slices::slice;
use crate::threads::{Grain, Share};

/// The maximum number of axes with ranges.
pub const AXES: usize = 4;
/// Bytes of a run onto which a longer one is folded,
const FOLDED: usize = 256;
/// and from which on it is.
const LONG: usize = 256;
/// Bytes of an element of each plane from which on these are worth turning over.
const WIDE: usize = 32;
/// Bytes of the planes that are turned over together, if they are few, and at most.
const ROOM: usize = 48 << 10;
const MOST: usize = 256 << 10;
/// Planes that are turned over together.
const PLANES: usize = 64;
/// Floats that are made of narrow ones at a time.
const PIECE: usize = 2048;
/// The bytes of the largest vectors, which are read and written behind the last element of a line.
const VECTOR: usize = 64;
/// Operations on elements below which no thread is woken.
const SMALL: usize = 1 << 15;

c_structure! {
    /// As in the C header.
    pub struct RxBoxes {
        /// Axes with ranges.
        pub axes: i32,
        /// A [`Combiner`]: sum, maximum or minimum.
        pub combiner: i32,
        /// The elements of array and result, a [`Kind`] that is no boolean.
        pub kind: i32,
        /// 0.
        pub reserved: i32,
        /// Elements of the axes before those with ranges.
        pub outer: i64,
        /// Elements of the axes behind them.
        pub inner: i64,
        /// The array's extents along the axes with ranges, then the result's.
        pub extents: *const i64,
        /// For each of these axes, one after the other, for each index of the result: the first index of
        /// the array, and the one behind the last.
        pub ranges: *const i64,
        /// The array, contiguous.
        pub x: *const c_void,
        /// The result, contiguous; it overlaps nothing.
        pub out: *mut c_void,
    }
}

/// How lanes are filled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Beside,
    Along,
    Across(usize),
    Lines,
}

/// The data that the threads share.
struct Plan<'a> {
    v: &'a RxBoxes,
    kind: Kind,
    combiner: Combiner,
    /// The bits that a reduction starts from.
    start: u64,
    /// The array's extents.
    from: &'a [i64],
    /// The result's extents.
    to: &'a [i64],
    ranges: [&'a [i64]; AXES],
    outer: usize,
    inner: usize,
    /// Elements of the array, and of the result, for an index of the axes before.
    plane: usize,
    results: usize,
    /// The longest range of the last axis.
    longest: usize,
    way: Way,
}

fn product(extents: &[i64]) -> usize {
    extents.iter().map(|&n| n.max(0) as usize).product()
}

impl Plan<'_> {
    fn wide(&self) -> Kind {
        register(self.kind)
    }

    /// The range of an index of the result along an axis.
    fn range(&self, axis: usize, index: usize) -> (usize, usize) {
        let pair = &self.ranges[axis][2 * index..][..2];
        (pair[0] as usize, pair[1] as usize)
    }

    fn choose(&self) -> Way {
        let size = self.wide().size();
        let run = self.longest * self.inner;
        if self.inner * size >= VECTOR {
            return Way::Beside;
        }
        if run * size >= LONG {
            return Way::Along;
        }
        // A number of whole vectors, if there is more than one.
        let lanes = VECTOR / size;
        let fit = (ROOM / (self.plane * size).max(1)).min(self.outer.min(PLANES));
        let fit = if fit > lanes {
            fit / lanes * lanes
        } else {
            fit
        };
        let row = self.from.last().map_or(1, |&n| n as usize) * self.inner;
        match fit {
            fit if fit >= lanes.min(self.outer) && fit * size >= WIDE => Way::Across(fit),
            _ if row * size < 2 * VECTOR
                && self.outer >= lanes
                && lanes * self.plane * size <= MOST =>
            {
                Way::Across(lanes)
            }
            _ => Way::Lines,
        }
    }

    /// Calls `f` with the offset of each place of the boxes of an index along all axes but the last
    /// `without`, in elements.
    fn places(&self, place: usize, without: usize, mut f: impl FnMut(usize)) {
        let axes = self.from.len() - without;
        let (mut first, mut end, mut at) = ([0; AXES], [0; AXES], [0; AXES]);
        let mut rest = place;
        for k in (0..axes).rev() {
            let n = self.to[k] as usize;
            (first[k], end[k]) = self.range(k, rest % n);
            at[k] = first[k];
            rest /= n;
            if first[k] >= end[k] {
                return;
            }
        }
        let behind = product(&self.from[axes..]) * self.inner;
        loop {
            let index = (0..axes).fold(0, |n, k| n * self.from[k] as usize + at[k]);
            f(index * behind);
            let Some(k) = (0..axes).rev().find(|&k| at[k] + 1 < end[k]) else {
                return;
            };
            at[k] += 1;
            at[k + 1..axes].copy_from_slice(&first[k + 1..axes]);
        }
    }

    /// Returns whether runs are folded onto the sums of [`FOLDED`] bytes as they lie.
    fn folds(&self) -> bool {
        let fits = (FOLDED / self.wide().size()).is_multiple_of(self.inner);
        fits && (self.kind == self.wide() || halves::known())
    }

    /// Folds `n` elements onto sums.
    unsafe fn fold(&self, from: *const u8, n: usize, sums: *mut u8) {
        // SAFETY: there are `n` elements, and sums of [`FOLDED`] bytes.
        unsafe {
            match self.kind {
                kind @ (Kind::F16 | Kind::BF16) => {
                    let brain = kind == Kind::BF16;
                    halves::combined(brain, true, self.combiner, n, from.cast(), sums.cast());
                }
                kind => combine::combine::<true>(self.combiner, kind, sums, from, n),
            }
        }
    }

    /// Bytes of memory that a thread needs for each way.
    fn room(&self) -> usize {
        let size = self.wide().size();
        let elements = match self.way {
            Way::Beside | Way::Along => {
                let sums = self.inner + FOLDED;
                2 * sums + PIECE.max(self.inner)
            }
            Way::Across(planes) => {
                let either = self.plane.max(self.results);
                (self.plane + either + self.results + 1) * planes
            }
            Way::Lines => {
                let row = |n: &[i64]| n.last().map_or(1, |&n| n as usize) * self.inner;
                2 * row(self.from) + 2 * row(self.to)
            }
        };
        (elements * size + 8 * VECTOR).next_multiple_of(VECTOR)
    }
}

/// Reduces boxes.
///
/// # Safety
/// The array and the result have the extents that the descriptor says, and there are ranges for all
/// indices of the result, within the array's.
pub unsafe fn boxes(context: &mut RxContext, v: &RxBoxes) -> i32 {
    let axes = v.axes.max(0) as usize;
    let known = Kind::of(v.kind).zip(Combiner::of(v.combiner));
    let suits = |(kind, how): &(Kind, Combiner)| {
        *kind != Kind::Bool && matches!(how, Combiner::Sum | Combiner::Max | Combiner::Min)
    };
    let Some((kind, combiner)) = known.filter(|k| suits(k) && (1..=AXES).contains(&axes)) else {
        return context.fail(Status::Argument, "rx_boxes: no such reduction");
    };
    // SAFETY: there are two extents for each axis, and two numbers for each index of the result.
    let (from, to) = unsafe { slice(v.extents, 2 * axes) }.split_at(axes);
    let mut ranges: [&[i64]; AXES] = [&[]; AXES];
    let (mut at, mut longest) = (v.ranges, 0);
    for (own, &n) in ranges.iter_mut().zip(to) {
        // SAFETY: as above.
        unsafe {
            *own = slice(at, 2 * n.max(0) as usize);
            at = at.add(own.len());
        }
        longest = own
            .chunks(2)
            .map(|r| (r[1] - r[0]).max(0))
            .max()
            .unwrap_or(0);
    }
    let (outer, inner) = (v.outer.max(0) as usize, v.inner.max(0) as usize);
    let mut plan = Plan {
        v,
        kind,
        combiner,
        start: 0,
        from,
        to,
        ranges,
        outer,
        inner,
        plane: product(from) * inner,
        results: product(to) * inner,
        longest: longest as usize,
        way: Way::Lines,
    };
    if outer == 0 || plan.results == 0 {
        return 0;
    }
    // SAFETY: a number has at most eight bytes.
    unsafe { combine::neutral(combiner, kind, (&raw mut plan.start).cast(), 1) };
    plan.way = plan.choose();
    let (tasks, each) = match plan.way {
        Way::Beside | Way::Along => {
            let places = plan.results / inner;
            (places * outer, plan.plane / places)
        }
        Way::Across(lanes) => (outer.div_ceil(lanes), lanes * plan.plane),
        Way::Lines => {
            let rows = product(&to[..axes - 1]);
            (rows * outer, plan.plane / rows.max(1))
        }
    };
    let room = plan.room();
    let Some(scratch) = Scratch::new(context, room * context.pool.threads()) else {
        return context.status;
    };
    let grain = Grain::of_work(SMALL, each.max(1));
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((&plan, scratch.memory.cast::<u8>())) };
    context.pool.each(tasks, grain, |begin, end, worker| {
        let &(plan, memory) = shared.get();
        let room = memory.wrapping_add(worker * room);
        // SAFETY: tasks are those of the result, and each worker has its own room.
        unsafe {
            match plan.way {
                Way::Beside => ways::beside(plan, begin, end, room),
                Way::Along => ways::along(plan, begin, end, room),
                Way::Across(lanes) => ways::across(plan, lanes, begin, end, room),
                Way::Lines => ways::lines(plan, begin, end, room),
            }
        }
    });
    0
}

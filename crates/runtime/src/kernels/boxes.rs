//! Reductions over boxes: along some adjacent axes each index of the result has a range of the
//! array's indices, and an element is what all elements within its ranges are combined to. Adaptive
//! pooling is that, of any rank, layout and type: ranges differ in length, and may overlap.
//!
//! What is read for an element depends on its place along these axes alone, so the same distances serve
//! all elements beside it, or all planes. Of four ways the one is taken in which lanes are filled:
//! elements behind the axes ([`beside`]), the run that a box is along the last axis ([`along`]), planes
//! that are turned over ([`across`]), and for few large planes their rows ([`lines`]).

use std::ffi::c_void;

use super::combiner::Combiner;
use super::halves;
use super::kinds::{Kind, Sum};
use super::scratch::Scratch;
use super::sweep::{combine, register, taps::typed};
use super::turn::turn;
use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::slices::slice;
use crate::threads::{Grain, Share};

/// The maximum number of axes with ranges.
pub const AXES: usize = 4;
/// Distances that are reduced one after the other; the results of such pieces of a sum are added.
const CHUNK: usize = 256;
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

/// What a thread sums with.
struct Sums {
    /// The results, and what pieces of them are summed in.
    sums: *mut u8,
    part: *mut u8,
    /// Whether the sums hold anything.
    begun: bool,
}

impl Sums {
    /// Reduces `n` elements at all distances, on from what there is; `spare` as for [`typed`].
    unsafe fn onto(
        &mut self,
        p: &Plan<'_>,
        from: *const u8,
        taps: &[isize],
        (n, spare): (usize, bool),
    ) {
        let (how, start) = ((p.combiner, p.wide()), Some(p.start));
        for taps in taps.chunks(CHUNK) {
            // SAFETY: the elements that taps name lie in the array; both have room for `n`, with
            // `spare` for a vector.
            unsafe {
                if !self.begun {
                    typed(how, from, taps, (n, spare), start, self.sums);
                    self.begun = true;
                    continue;
                }
                typed(how, from, taps, (n, spare), start, self.part);
                combine::combine::<false>(p.combiner, p.wide(), self.sums, self.part, n);
            }
        }
    }

    /// Makes `n` results of no elements, if there are none.
    unsafe fn begin(&mut self, p: &Plan<'_>, n: usize) {
        if !self.begun {
            // SAFETY: there is room for `n`.
            unsafe { combine::neutral(p.combiner, p.kind, self.sums, n) };
        }
        self.begun = true;
    }
}

/// Writes `n` sums to the result.
unsafe fn finish(p: &Plan<'_>, sums: *const u8, n: usize, first: usize) {
    // SAFETY: the result has as many elements from the first one on.
    unsafe {
        let to = p.v.out.cast::<u8>().add(first * p.kind.size());
        match p.kind == p.wide() {
            true => std::ptr::copy_nonoverlapping(sums, to, n * p.kind.size()),
            false => f32::narrow(p.kind, n, sums.cast(), to),
        }
    }
}

/// Elements `begin..end` of planes, `inner` of each plane one after the other: places of the result first, then
/// planes.
///
/// # Safety
/// They are those of the result, and `room` has what [`Plan::room`] says.
unsafe fn beside(p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    let (size, given) = (p.wide().size(), p.kind.size());
    let inner = p.inner;
    let (mut taps, mut known) = (Vec::new(), usize::MAX);
    let pieces: Vec<isize> = (0..PIECE.max(inner) / inner)
        .map(|k| (k * inner) as isize)
        .collect();
    // SAFETY: the ranges lie in the array, and the room is that of the plan.
    unsafe {
        let part = room.add((inner + FOLDED) * size);
        let line = part.add((inner + FOLDED) * size);
        let mut sums = Sums {
            sums: room,
            part,
            begun: false,
        };
        for task in begin..end {
            let (place, plane) = (task / p.outer, task % p.outer);
            if place != known {
                known = place;
                taps.clear();
                p.places(place, 0, |at| taps.push(at as isize));
            }
            let from = p.v.x.cast::<u8>().add(plane * p.plane * given);
            if p.kind == p.wide() {
                sums.onto(p, from, &taps, (inner, false));
            } else {
                // What lies side by side becomes floats together.
                let mut k = 0;
                while k < taps.len() {
                    let rest = taps[k..].iter().zip(&pieces);
                    let many = rest.take_while(|(t, p)| **t == taps[k] + **p).count();
                    let from = from.offset(taps[k] * given as isize);
                    f32::widen(p.kind, many * inner, from, line.cast());
                    sums.onto(p, line, &pieces[..many], (inner, false));
                    k += many;
                }
            }
            sums.begin(p, inner);
            sums.begun = false;
            finish(p, room, inner, plane * p.results + place * inner);
        }
    }
}

/// The same where a box has long runs, which are folded.
///
/// # Safety
/// As for [`beside`].
unsafe fn along(p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    let (size, given, inner) = (p.wide().size(), p.kind.size(), p.inner);
    // A power of two of places.
    let many = 1usize << (FOLDED / size / inner).max(1).ilog2();
    let block = many * inner;
    let steps: Vec<isize> = (0..CHUNK).map(|k| (k * block) as isize).collect();
    let last = p.from.len() - 1;
    let (mut rows, mut known) = (Vec::new(), usize::MAX);
    // SAFETY: the ranges lie in the array, and the room is that of the plan.
    unsafe {
        let part = room.add((inner + FOLDED) * size);
        let line = part.add((inner + FOLDED) * size);
        let mut sums = Sums {
            sums: room,
            part,
            begun: false,
        };
        for task in begin..end {
            let (place, plane) = (task / p.outer, task % p.outer);
            let (row, index) = (place / p.to[last] as usize, place % p.to[last] as usize);
            if row != known {
                known = row;
                rows.clear();
                p.places(row, 1, |at| rows.push(at));
            }
            let (first, behind) = p.range(last, index);
            let count = behind.saturating_sub(first) * inner;
            let whole = p.v.x.cast::<u8>().add(plane * p.plane * given);
            for &row in &rows {
                let from = whole.add((row + first * inner) * given);
                if p.folds() {
                    sums.begin(p, block);
                    p.fold(from, count, room);
                    continue;
                }
                let most = match p.kind == p.wide() {
                    true => count,
                    false => PIECE / block * block,
                };
                let mut done = 0;
                while done < count {
                    let n = (count - done).min(most);
                    let mut from = from.add(done * given);
                    if p.kind != p.wide() {
                        f32::widen(p.kind, n, from, line.cast());
                        from = line.cast_const();
                    }
                    let mut at = 0;
                    while at + block <= n {
                        let steps = &steps[..((n - at) / block).min(CHUNK)];
                        sums.onto(p, from.add(at * size), steps, (block, false));
                        at += steps.len() * block;
                    }
                    if at < n {
                        sums.begin(p, block);
                        let rest = from.add(at * size);
                        combine::combine::<false>(p.combiner, p.wide(), room, rest, n - at);
                    }
                    done += n;
                }
            }
            sums.begin(p, block);
            let mut left = many;
            while left > 1 {
                left /= 2;
                let half = room.add(left * inner * size).cast_const();
                combine::combine::<false>(p.combiner, p.wide(), room, half, left * inner);
            }
            sums.begun = false;
            finish(p, room, inner, plane * p.results + place * inner);
        }
    }
}

/// Turns rows over, of elements of `size` bytes.
unsafe fn turned(
    size: usize,
    shape: (usize, usize),
    (from, step_from): (*const u8, usize),
    (to, step_to): (*mut u8, usize),
) {
    let (a, b) = (step_from as isize, step_to as isize);
    // SAFETY: as for `turn`.
    unsafe {
        match size {
            1 => turn::<u8>(shape, from, a, to, b),
            2 => turn::<u16>(shape, from.cast(), a, to.cast(), b),
            4 => turn::<u32>(shape, from.cast(), a, to.cast(), b),
            _ => turn::<u64>(shape, from.cast(), a, to.cast(), b),
        }
    }
}

/// Blocks `begin..end` of planes, which lie side by side while they are reduced.
///
/// # Safety
/// As for [`beside`].
unsafe fn across(p: &Plan<'_>, lanes: usize, begin: usize, end: usize, room: *mut u8) {
    let (size, given, inner) = (p.wide().size(), p.kind.size(), p.inner);
    let narrow = p.kind != p.wide();
    let places = p.results / inner;
    // The distances of all places, and where those of each begin.
    let (mut taps, mut begins) = (Vec::new(), vec![0]);
    for place in 0..places {
        p.places(place, 0, |at| taps.push((at * lanes) as isize));
        begins.push(taps.len());
    }
    // SAFETY: planes are those of the array, and the room is that of the plan.
    unsafe {
        let other = room.add(p.plane * lanes * size + VECTOR);
        let sums = other.add(p.plane.max(p.results) * lanes * size + VECTOR);
        let part = sums.add(p.results * lanes * size + VECTOR);
        for block in begin..end {
            let first = block * lanes;
            let n = (p.outer - first).min(lanes);
            let from = p.v.x.cast::<u8>().add(first * p.plane * given);
            let to = if narrow { other } else { room };
            turned(given, (n, p.plane), (from, p.plane), (to, lanes));
            if narrow {
                f32::widen(p.kind, p.plane * lanes, other, room.cast());
            }
            for place in 0..places {
                let taps = &taps[begins[place]..begins[place + 1]];
                for i in 0..inner {
                    let at = (place * inner + i) * lanes * size;
                    let mut own = Sums {
                        sums: sums.add(at),
                        part,
                        begun: false,
                    };
                    let from = room.add(i * lanes * size).cast_const();
                    own.onto(p, from, taps, (n, true));
                    own.begin(p, n);
                }
            }
            let mut results = sums;
            if narrow {
                f32::narrow(p.kind, p.results * lanes, sums.cast_const().cast(), other);
                results = other;
            }
            let to = p.v.out.cast::<u8>().add(first * p.results * given);
            let shape = (p.results, n);
            turned(given, shape, (results, lanes), (to, p.results));
        }
    }
}

/// Rows `begin..end` of the result: the rows of the array that their boxes have are reduced to one, and
/// then the ranges of this.
///
/// # Safety
/// As for [`beside`].
unsafe fn lines(p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    let (size, given, inner) = (p.wide().size(), p.kind.size(), p.inner);
    let last = p.from.len() - 1;
    let row = p.from[last] as usize * inner;
    let (count, rows) = (p.to[last] as usize, product(&p.to[..last]));
    let steps: Vec<isize> = (0..p.longest).map(|k| (k * inner) as isize).collect();
    let mut taps = Vec::new();
    // SAFETY: rows are those of the result, and the room is that of the plan.
    unsafe {
        let other = room.add(row * size + 2 * VECTOR);
        let results = other.add(row * size + 2 * VECTOR);
        let part = results.add(count * inner * size + VECTOR);
        for task in begin..end {
            let (plane, place) = (task / rows, task % rows);
            taps.clear();
            p.places(place, 1, |at| taps.push(at as isize));
            let from = p.v.x.cast::<u8>().add(plane * p.plane * given);
            let mut line = Sums {
                sums: room,
                part: other,
                begun: false,
            };
            if p.kind == p.wide() {
                // Behind most rows there are others, of which whole vectors take a part.
                let farthest = taps.iter().max().map_or(0, |&t| t as usize);
                let many = row.next_multiple_of(2 * VECTOR / size);
                let end = plane * p.plane + farthest + many;
                let n = if end <= p.outer * p.plane { many } else { row };
                line.onto(p, from, &taps, (n, false));
            } else {
                for tap in &taps {
                    let from = from.offset(tap * given as isize);
                    if line.begun {
                        f32::widen(p.kind, row, from, other.cast());
                        combine::combine::<false>(p.combiner, p.wide(), room, other, row);
                    } else {
                        f32::widen(p.kind, row, from, room.cast());
                        line.begun = true;
                    }
                }
            }
            line.begin(p, row);
            for index in 0..count {
                let (first, behind) = p.range(last, index);
                let mut own = Sums {
                    sums: results.add(index * inner * size),
                    part,
                    begun: false,
                };
                let from = room.add(first * inner * size).cast_const();
                let steps = &steps[..behind.saturating_sub(first)];
                own.onto(p, from, steps, (inner, true));
                own.begin(p, inner);
            }
            finish(
                p,
                results,
                count * inner,
                plane * p.results + place * count * inner,
            );
        }
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
        // SAFETY: tasks are those of the result, and each worker has its own room.
        unsafe {
            let room = memory.add(worker * room);
            match plan.way {
                Way::Beside => beside(plan, begin, end, room),
                Way::Along => along(plan, begin, end, room),
                Way::Across(lanes) => across(plan, lanes, begin, end, room),
                Way::Lines => lines(plan, begin, end, room),
            }
        }
    });
    0
}

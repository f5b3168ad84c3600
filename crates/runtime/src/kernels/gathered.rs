//! Sums of a few elements at tabulated places, each times a number: interpolation between the pixels
//! around a position, of which all channels share places and numbers.
//!
//! `out[b, c, a, i] = sum over k of weights[k, (b, a)] * x[q, c, r, i]`, where the table's number for `k`
//! and `(b, a)` is `(q, r)` as one, or negative for nothing. Elements behind the places fill the lanes of
//! vectors (`beside`); else channels do, which are turned over on their way in and out (`across`).

use std::ffi::c_void;

use super::kinds::{Kind, Sum};
use super::scratch::Scratch;
use super::simd::dispatch_of;
use super::simd::wide::{Vector, Wide};
use super::turn::turn;
use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::threads::{Grain, Share};

/// Bytes of channels that are turned over together, and those where the array has many places.
const WIDE: usize = 128;
const SLIM: usize = 64;
/// Bytes of what is turned over from which on they are slim, and up to which anything is.
const LARGE: usize = 512 << 10;
const MOST: usize = 32 << 20;
/// Places of the result that are turned over together.
const PLACES: usize = 512;
/// Vectors that are summed together.
const BLOCK: usize = 4;
/// The bytes of the largest vectors.
const VECTOR: usize = 64;
/// Operations on elements below which no thread is woken.
const SMALL: usize = 1 << 15;

c_structure! {
    /// As in the C header.
    pub struct RxGathered {
        /// Numbers that are added for each element, one at least.
        pub taps: i32,
        /// The elements of the result, a [`Kind`] that is a float.
        pub kind: i32,
        /// The elements of the array, a [`Kind`] that is no wider.
        pub from_kind: i32,
        /// 0.
        pub reserved: i32,
        /// Places before the channels: of the array, and of the result.
        pub from_before: i64,
        /// See `from_before`.
        pub before: i64,
        /// Channels.
        pub channels: i64,
        /// Places behind the channels: of the array, and of the result.
        pub from_behind: i64,
        /// See `from_behind`.
        pub behind: i64,
        /// Elements of a place.
        pub inner: i64,
        /// For each tap, for each place of the result, the place of the array, negative for nothing: 0
        /// times the weight is added.
        pub places: *const i64,
        /// In the same order what is multiplied by, of float64 for float64, else of float32.
        pub weights: *const c_void,
        /// The array, contiguous.
        pub x: *const c_void,
        /// The result, contiguous; it overlaps nothing.
        pub out: *mut c_void,
    }
}

/// The data that the threads share, of sums of type `T`.
struct Plan<'a, T> {
    taps: usize,
    before: usize,
    channels: usize,
    from_before: usize,
    from_behind: usize,
    behind: usize,
    inner: usize,
    places: &'a [i64],
    weights: *const T,
    /// The array; what is no such number has become one.
    x: *const T,
    kind: Kind,
    out: *mut u8,
    /// Channels that are turned over together; 0 where lanes lie side by side.
    lanes: usize,
}

/// What sums are made in.
trait Float: Sum {
    type Of<S: Wide>: Vector<Element = Self>;
    /// What changes no sum, not even the sign of one that is zero.
    const NOTHING: Self;
    fn by(self, weight: Self) -> Self;
}
impl Float for f32 {
    type Of<S: Wide> = S::F32;
    const NOTHING: f32 = -0.0;
    #[inline(always)]
    fn by(self, weight: Self) -> Self {
        self * weight
    }
}
impl Float for f64 {
    type Of<S: Wide> = S::F64;
    const NOTHING: f64 = -0.0;
    #[inline(always)]
    fn by(self, weight: Self) -> Self {
        self * weight
    }
}

/// `NV` vectors of sums.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn block<V: Vector, const NV: usize>(
    taps: &[(*const V::Element, V::Element)],
    at: usize,
    to: *mut V::Element,
) {
    // SAFETY: every tap, and `to`, has the vectors' elements from `at` on.
    unsafe {
        // The sign of a zero that is only moved stays.
        let mut sums = [V::splat(V::NOTHING); NV];
        for &(from, weight) in taps {
            let weight = V::splat(weight);
            for v in 0..NV {
                sums[v] = V::load(from.add(at + v * V::LANES)).fma(weight, sums[v]);
            }
        }
        for v in 0..NV {
            sums[v].store(to.add(at + v * V::LANES));
        }
    }
}

/// The sums of `n` elements that lie side by side; with `spare`, taps and `to` have room for whole
/// vectors.
#[inline(always)]
unsafe fn summed<V: Vector>(
    taps: &[(*const V::Element, V::Element)],
    (n, spare): (usize, bool),
    to: *mut V::Element,
) {
    let mut i = 0;
    // SAFETY: every tap has `n` elements, with `spare` as many as whole vectors have, and so does `to`.
    unsafe {
        while i + BLOCK * V::LANES <= n {
            block::<V, BLOCK>(taps, i, to);
            i += BLOCK * V::LANES;
        }
        while i < n {
            // The last vector overlaps the one before.
            let at = if spare { i } else { i.min(n - V::LANES) };
            block::<V, 1>(taps, at, to);
            i = at + V::LANES;
        }
    }
}

impl<T: Float> Plan<'_, T> {
    /// The number of places of the result.
    fn count(&self) -> usize {
        self.before * self.behind
    }

    /// Elements of the array's row of zeros.
    fn zeros(&self) -> usize {
        (self.inner * self.lanes.max(1)).max(VECTOR)
    }

    /// Elements of memory that a thread needs.
    fn room(&self) -> usize {
        let slack = VECTOR;
        match self.lanes {
            0 => self.zeros() + self.inner + 2 * slack,
            lanes => {
                let from = self.from_before * self.from_behind * self.inner;
                let to = PLACES.min(self.behind) * self.inner;
                self.zeros() + (from + 2 * to) * lanes + 3 * slack
            }
        }
    }

    /// The taps of a place: where each element is read, and its weight.
    #[inline(always)]
    unsafe fn taps(
        &self,
        place: usize,
        zeros: *const T,
        at: impl Fn(usize) -> *const T,
        to: &mut Vec<(*const T, T)>,
    ) {
        to.clear();
        for k in 0..self.taps {
            let n = k * self.count() + place;
            // SAFETY: the tables have a number for each tap and place.
            let weight = unsafe { *self.weights.add(n) };
            let from = match self.places[n] {
                from if from < 0 => zeros,
                from => at(from as usize),
            };
            to.push((from, weight));
        }
    }

    /// Writes `n` sums to the result.
    #[inline(always)]
    unsafe fn finish(&self, sums: *const T, n: usize, first: usize) {
        // SAFETY: the result has as many elements from the first one on.
        unsafe {
            let to = self.out.add(first * self.kind.size());
            T::narrow(self.kind, n, sums, to);
        }
    }
}

/// Places `begin..end` of the result, of all channels of each.
#[inline(always)]
unsafe fn beside<S: Wide, T: Float>(p: &Plan<'_, T>, begin: usize, end: usize, room: *mut T) {
    let (inner, wide) = (p.inner, p.kind == T::KIND);
    let mut taps = Vec::with_capacity(p.taps);
    let line = room.wrapping_add(p.zeros());
    // SAFETY: the room is that of the plan.
    unsafe { std::ptr::write_bytes(room, 0, p.zeros()) };
    for place in begin..end {
        let (b, a) = (place / p.behind, place % p.behind);
        // The first channel of a place.
        let at = |q: usize| {
            let (q, r) = (q / p.from_behind, q % p.from_behind);
            (p.x).wrapping_add((q * p.channels * p.from_behind + r) * inner)
        };
        // SAFETY: places are those of the result.
        unsafe { p.taps(place, room, at, &mut taps) };
        for c in 0..p.channels {
            let first = ((b * p.channels + c) * p.behind + a) * inner;
            let to = match wide {
                true => p.out.cast::<T>().wrapping_add(first),
                false => line,
            };
            // SAFETY: tables name places of the array, and the room is that of the plan.
            unsafe {
                match inner < <T::Of<S> as Vector>::LANES {
                    true => few(&taps, inner, to),
                    false => summed::<T::Of<S>>(&taps, (inner, false), to),
                }
                if !wide {
                    p.finish(line, inner, first);
                }
            }
            // Nothing is the same for all channels.
            for (from, _) in taps.iter_mut().filter(|t| !std::ptr::eq(t.0, room)) {
                *from = from.wrapping_add(p.from_behind * inner);
            }
        }
    }
}

/// The sums of fewer elements than a vector has.
#[inline(always)]
unsafe fn few<T: Float>(taps: &[(*const T, T)], n: usize, to: *mut T) {
    for i in 0..n {
        let mut sum = T::NOTHING;
        for &(from, weight) in taps {
            // SAFETY: every tap has `n` elements.
            sum = sum.plus(unsafe { *from.add(i) }.by(weight));
        }
        // SAFETY: there is room for `n`.
        unsafe { *to.add(i) = sum };
    }
}

/// Turns rows over.
unsafe fn turned<T: Copy>(
    shape: (usize, usize),
    (from, step_from): (*const T, usize),
    (to, step_to): (*mut T, usize),
) {
    // SAFETY: as for `turn`.
    unsafe { turn::<T>(shape, from, step_from as isize, to, step_to as isize) };
}

/// Blocks `begin..end` of channels.
#[inline(always)]
unsafe fn across<S: Wide, T: Float>(p: &Plan<'_, T>, begin: usize, end: usize, room: *mut T) {
    let (lanes, inner) = (p.lanes, p.inner);
    let (row, part) = (p.from_behind * inner, PLACES.min(p.behind));
    let mut taps = Vec::with_capacity(p.taps);
    let x = room.wrapping_add(p.zeros());
    let sums = x.wrapping_add(p.from_before * row * lanes + VECTOR);
    let results = sums.wrapping_add(part * inner * lanes + VECTOR);
    // SAFETY: the room is that of the plan.
    unsafe { std::ptr::write_bytes(room, 0, p.zeros()) };
    for block in begin..end {
        let first = block * lanes;
        let n = (p.channels - first).min(lanes);
        for b in 0..p.from_before {
            let from = p.x.wrapping_add((b * p.channels + first) * row);
            let to = x.wrapping_add(b * row * lanes);
            // SAFETY: channels are those of the array.
            unsafe { turned((n, row), (from, row), (to, lanes)) };
        }
        for place in (0..p.count()).step_by(p.behind) {
            for a in (0..p.behind).step_by(part) {
                let many = (p.behind - a).min(part);
                for k in 0..many {
                    let at = |q: usize| x.wrapping_add(q * inner * lanes).cast_const();
                    let to = sums.wrapping_add(k * inner * lanes);
                    // SAFETY: tables name places of the array.
                    unsafe {
                        p.taps(place + a + k, room, at, &mut taps);
                        summed::<T::Of<S>>(&taps, (inner * lanes, true), to);
                    }
                }
                let channel = place / p.behind * p.channels + first;
                let to = (channel * p.behind + a) * inner;
                // SAFETY: so many places and channels have sums.
                unsafe { turned_back(p, (many * inner, n), (sums, results), to) };
            }
        }
    }
}

/// Writes sums of `n` channels to the result, from an element of it on.
unsafe fn turned_back<T: Float>(
    p: &Plan<'_, T>,
    (many, n): (usize, usize),
    (sums, results): (*const T, *mut T),
    to: usize,
) {
    let line = p.behind * p.inner;
    // SAFETY: sums have a row of channels for each element, and the result has room for them.
    unsafe {
        if p.kind == T::KIND {
            let to = p.out.cast::<T>().add(to);
            return turned((many, n), (sums, p.lanes), (to, line));
        }
        turned((many, n), (sums, p.lanes), (results, many));
        for c in 0..n {
            p.finish(results.add(c * many), many, to + c * line);
        }
    }
}

/// How many channels are turned over together; 0 where that is not done.
fn lanes<T>(v: &RxGathered) -> usize {
    let size = size_of::<T>();
    let [channels, inner] = [v.channels, v.inner].map(|n| n as usize);
    let elements = (v.from_before * v.from_behind) as usize * inner;
    let slim = elements * WIDE > LARGE || channels * size <= SLIM;
    let bytes = if slim { SLIM } else { WIDE };
    // Channels that fill half of the lanes at least.
    let fits = inner * size < VECTOR && channels * size >= SLIM / 2 && elements * bytes <= MOST;
    if fits { bytes / size } else { 0 }
}

/// # Safety
/// As for [`gathered`].
unsafe fn of<T: Float>(context: &mut RxContext, v: &RxGathered, kind: Kind) -> i32 {
    let count = (v.before * v.behind) as usize;
    let all = (v.from_before * v.channels * v.from_behind * v.inner) as usize;
    // SAFETY: the tables are as long as the descriptor says.
    let places = unsafe { std::slice::from_raw_parts(v.places, v.taps as usize * count) };
    let Some(from) = Kind::of(v.from_kind) else {
        return context.fail(Status::Argument, "rx_gathered: no such elements");
    };
    let narrow = from != T::KIND;
    let wide = Scratch::new(context, if narrow { all * size_of::<T>() } else { 0 });
    let Some(wide) = wide else {
        return context.status;
    };
    let mut x = v.x.cast::<T>();
    if narrow {
        // SAFETY: the array has so many elements, and the scratch as many floats.
        let done = unsafe { T::widen(from, all, v.x.cast(), wide.memory.cast()) };
        if !done {
            return context.fail(Status::Argument, "rx_gathered: no such elements");
        }
        x = wide.memory.cast::<T>().cast_const();
    }
    let plan = Plan {
        taps: v.taps as usize,
        before: v.before as usize,
        channels: v.channels as usize,
        from_before: v.from_before as usize,
        from_behind: v.from_behind as usize,
        behind: v.behind as usize,
        inner: v.inner as usize,
        places,
        weights: v.weights.cast(),
        x,
        kind,
        out: v.out.cast(),
        lanes: lanes::<T>(v),
    };
    let room = plan.room() * size_of::<T>();
    let Some(scratch) = Scratch::new(context, room * context.pool.threads()) else {
        return context.status;
    };
    let (tasks, each) = match plan.lanes {
        0 => (count, plan.channels * plan.inner * plan.taps),
        lanes => (
            plan.channels.div_ceil(lanes),
            (count * plan.taps + plan.from_before * plan.from_behind) * plan.inner * lanes,
        ),
    };
    let grain = Grain::of_work(SMALL, each.max(1));
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((&plan, scratch.memory.cast::<u8>())) };
    context.pool.each(tasks, grain, |begin, end, worker| {
        let &(plan, memory) = shared.get();
        // SAFETY: tasks are those of the result, and each worker has its own room.
        unsafe {
            let room = memory.add(worker * room).cast::<T>();
            if plan.lanes == 0 {
                by_places::<T>(plan, begin, end, room);
            } else {
                by_channels::<T>(plan, begin, end, room);
            }
        }
    });
    0
}

unsafe fn by_places<T: Float>(p: &Plan<'_, T>, begin: usize, end: usize, room: *mut T) {
    // SAFETY: as for `beside`.
    unsafe {
        dispatch_of!(beside<T: Float>(p: &Plan<'_, T>, begin: usize, end: usize, room: *mut T));
    }
}

unsafe fn by_channels<T: Float>(p: &Plan<'_, T>, begin: usize, end: usize, room: *mut T) {
    // SAFETY: as for `across`.
    unsafe {
        dispatch_of!(across<T: Float>(p: &Plan<'_, T>, begin: usize, end: usize, room: *mut T));
    }
}

/// Sums elements at tabulated places.
///
/// # Safety
/// Array, result and tables are as large as the descriptor says, and the tables name places of the array.
pub unsafe fn gathered(context: &mut RxContext, v: &RxGathered) -> i32 {
    let extents = [v.before, v.channels, v.behind, v.inner];
    if extents.iter().any(|&n| n <= 0) {
        return 0;
    }
    match Kind::of(v.kind) {
        Some(kind @ (Kind::F32 | Kind::F16 | Kind::BF16)) => {
            // SAFETY: as for this function.
            unsafe { of::<f32>(context, v, kind) }
        }
        // SAFETY: as for this function.
        Some(Kind::F64) => unsafe { of::<f64>(context, v, Kind::F64) },
        _ => context.fail(Status::Argument, "rx_gathered: no such elements"),
    }
}

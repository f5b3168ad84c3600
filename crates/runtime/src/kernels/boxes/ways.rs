//! The ways to reduce boxes, by what fills lanes.

use super::{FOLDED, PIECE, Plan, VECTOR, product};
use crate::kernels::kinds::Sum;
use crate::kernels::sweep::{combine, taps::typed};
use crate::kernels::turn::turn;

/// Distances that are reduced one after the other; the results of such pieces of a sum are added.
const CHUNK: usize = 256;

/// What a thread sums in.
struct Sums {
    /// The results, and what pieces of them are summed in.
    sums: *mut u8,
    part: *mut u8,
    /// Whether the sums hold anything.
    begun: bool,
}

impl Sums {
    fn new(sums: *mut u8, part: *mut u8) -> Self {
        Self {
            sums,
            part,
            begun: false,
        }
    }

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
            let to = if self.begun { self.part } else { self.sums };
            // SAFETY: the elements that taps name lie in the array; both have room for `n`, with
            // `spare` for a vector.
            unsafe {
                typed(how, from, taps, (n, spare), start, to);
                if self.begun {
                    combine::combine::<false>(p.combiner, p.wide(), self.sums, self.part, n);
                }
            }
            self.begun = true;
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

    /// Combines `n` elements of the sums' type with the first of them.
    unsafe fn with(&mut self, p: &Plan<'_>, from: *const u8, n: usize) {
        // SAFETY: there are `n` elements and sums.
        unsafe { combine::combine::<false>(p.combiner, p.wide(), self.sums, from, n) };
    }
}

/// Elements of a narrow type as floats, others where they lie.
unsafe fn widened(p: &Plan<'_>, from: *const u8, n: usize, room: *mut u8) -> *const u8 {
    if p.kind == p.wide() {
        return from;
    }
    // SAFETY: there are `n` elements, and room for as many.
    unsafe { f32::widen(p.kind, n, from, room.cast()) };
    room
}

/// Writes `n` sums to the result.
unsafe fn finish(p: &Plan<'_>, sums: *const u8, n: usize, first: usize) {
    let to = p.v.out.cast::<u8>().wrapping_add(first * p.kind.size());
    // SAFETY: the result has as many elements from the first one on.
    unsafe {
        match p.kind == p.wide() {
            true => std::ptr::copy_nonoverlapping(sums, to, n * p.kind.size()),
            false => f32::narrow(p.kind, n, sums.cast(), to),
        }
    }
}

/// The first element of a plane.
fn plane(p: &Plan<'_>, index: usize) -> *const u8 {
    let from = p.v.x.cast::<u8>();
    from.wrapping_add(index * p.plane * p.kind.size())
}

/// Elements `begin..end` of planes, `inner` of each plane one after the other: places of the result
/// first, then planes.
///
/// # Safety
/// They are those of the result, and `room` has what [`Plan::room`] says.
pub(super) unsafe fn beside(p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    let (size, given, inner) = (p.wide().size(), p.kind.size(), p.inner);
    let (mut taps, mut known) = (Vec::new(), usize::MAX);
    let pieces: Vec<isize> = (0..PIECE.max(inner) / inner)
        .map(|k| (k * inner) as isize)
        .collect();
    let part = room.wrapping_add((inner + FOLDED) * size);
    let line = part.wrapping_add((inner + FOLDED) * size);
    for task in begin..end {
        let (place, index) = (task / p.outer, task % p.outer);
        if place != known {
            known = place;
            taps.clear();
            p.places(place, 0, |at| taps.push(at as isize));
        }
        let (from, mut sums) = (plane(p, index), Sums::new(room, part));
        if p.kind == p.wide() {
            // SAFETY: the ranges lie in the array, and the room is that of the plan.
            unsafe { sums.onto(p, from, &taps, (inner, false)) };
        }
        // What lies side by side becomes floats together.
        let mut k = if p.kind == p.wide() { taps.len() } else { 0 };
        while k < taps.len() {
            let rest = taps[k..].iter().zip(&pieces);
            let many = rest.take_while(|(t, p)| **t == taps[k] + **p).count();
            let from = from.wrapping_offset(taps[k] * given as isize);
            // SAFETY: as above.
            unsafe {
                let from = widened(p, from, many * inner, line);
                sums.onto(p, from, &pieces[..many], (inner, false));
            }
            k += many;
        }
        // SAFETY: as above.
        unsafe {
            sums.begin(p, inner);
            finish(p, room, inner, index * p.results + place * inner);
        }
    }
}

/// The same where a box has long runs, which are folded.
///
/// # Safety
/// As for [`beside`].
pub(super) unsafe fn along(p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    let (size, given, inner) = (p.wide().size(), p.kind.size(), p.inner);
    // A power of two of places.
    let many = 1usize << (FOLDED / size / inner).max(1).ilog2();
    let block = many * inner;
    let steps: Vec<isize> = (0..CHUNK).map(|k| (k * block) as isize).collect();
    let last = p.from.len() - 1;
    let (mut rows, mut known) = (Vec::new(), usize::MAX);
    let part = room.wrapping_add((inner + FOLDED) * size);
    let line = part.wrapping_add((inner + FOLDED) * size);
    for task in begin..end {
        let (place, index) = (task / p.outer, task % p.outer);
        let (row, column) = (place / p.to[last] as usize, place % p.to[last] as usize);
        if row != known {
            known = row;
            rows.clear();
            p.places(row, 1, |at| rows.push(at));
        }
        let (first, behind) = p.range(last, column);
        let count = behind.saturating_sub(first) * inner;
        let mut sums = Sums::new(room, part);
        for &row in &rows {
            let from = plane(p, index).wrapping_add((row + first * inner) * given);
            // SAFETY: the ranges lie in the array, and the room is that of the plan.
            unsafe {
                match p.folds() {
                    true => {
                        sums.begin(p, block);
                        p.fold(from, count, room);
                    }
                    false => run(p, &mut sums, (from, count), (block, &steps), line),
                }
            }
        }
        // SAFETY: as above.
        unsafe { sums.begin(p, block) };
        let mut left = many;
        while left > 1 {
            left /= 2;
            let half = room.wrapping_add(left * inner * size);
            // SAFETY: as above.
            unsafe { sums.with(p, half, left * inner) };
        }
        // SAFETY: as above.
        unsafe { finish(p, room, inner, index * p.results + place * inner) };
    }
}

/// Reduces `count` elements of a run onto a block of sums.
unsafe fn run(
    p: &Plan<'_>,
    sums: &mut Sums,
    (from, count): (*const u8, usize),
    (block, steps): (usize, &[isize]),
    line: *mut u8,
) {
    let (size, given) = (p.wide().size(), p.kind.size());
    let most = match given == size {
        true => count,
        false => PIECE / block * block,
    };
    let mut done = 0;
    while done < count {
        let n = (count - done).min(most);
        // SAFETY: the run lies in the array, and a line has room for a piece of it.
        let from = unsafe { widened(p, from.wrapping_add(done * given), n, line) };
        let mut at = 0;
        while at + block <= n {
            let steps = &steps[..((n - at) / block).min(CHUNK)];
            // SAFETY: as above.
            unsafe { sums.onto(p, from.wrapping_add(at * size), steps, (block, false)) };
            at += steps.len() * block;
        }
        if at < n {
            // SAFETY: as above.
            unsafe {
                sums.begin(p, block);
                sums.with(p, from.wrapping_add(at * size), n - at);
            }
        }
        done += n;
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
pub(super) unsafe fn across(p: &Plan<'_>, lanes: usize, begin: usize, end: usize, room: *mut u8) {
    let (size, given, inner) = (p.wide().size(), p.kind.size(), p.inner);
    let narrow = p.kind != p.wide();
    let places = p.results / inner;
    // The distances of all places, and where those of each begin.
    let (mut taps, mut begins) = (Vec::new(), vec![0]);
    for place in 0..places {
        p.places(place, 0, |at| taps.push((at * lanes) as isize));
        begins.push(taps.len());
    }
    let other = room.wrapping_add(p.plane * lanes * size + VECTOR);
    let sums = other.wrapping_add(p.plane.max(p.results) * lanes * size + VECTOR);
    let part = sums.wrapping_add(p.results * lanes * size + VECTOR);
    for block in begin..end {
        let first = block * lanes;
        let n = (p.outer - first).min(lanes);
        let to = if narrow { other } else { room };
        // SAFETY: planes are those of the array, and the room is that of the plan.
        unsafe {
            turned(given, (n, p.plane), (plane(p, first), p.plane), (to, lanes));
            widened(p, other, p.plane * lanes, room);
        }
        for place in 0..places {
            let taps = &taps[begins[place]..begins[place + 1]];
            for i in 0..inner {
                let at = (place * inner + i) * lanes * size;
                let mut own = Sums::new(sums.wrapping_add(at), part);
                // SAFETY: as above.
                unsafe {
                    own.onto(p, room.wrapping_add(i * lanes * size), taps, (n, true));
                    own.begin(p, n);
                }
            }
        }
        let results = if narrow { other } else { sums };
        let to = p.v.out.cast::<u8>().wrapping_add(first * p.results * given);
        let shape = (p.results, n);
        // SAFETY: as above.
        unsafe {
            if narrow {
                f32::narrow(p.kind, p.results * lanes, sums.cast_const().cast(), other);
            }
            turned(given, shape, (results, lanes), (to, p.results));
        }
    }
}

/// Rows `begin..end` of the result: the rows of the array that their boxes have are reduced to one, and
/// then the ranges of this.
///
/// # Safety
/// As for [`beside`].
pub(super) unsafe fn lines(p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    let (size, given, inner) = (p.wide().size(), p.kind.size(), p.inner);
    let last = p.from.len() - 1;
    let row = p.from[last] as usize * inner;
    let (count, rows) = (p.to[last] as usize, product(&p.to[..last]));
    let steps: Vec<isize> = (0..p.longest).map(|k| (k * inner) as isize).collect();
    let mut taps = Vec::new();
    let other = room.wrapping_add(row * size + 2 * VECTOR);
    let results = other.wrapping_add(row * size + 2 * VECTOR);
    let part = results.wrapping_add(count * inner * size + VECTOR);
    for task in begin..end {
        let (index, place) = (task / rows, task % rows);
        taps.clear();
        p.places(place, 1, |at| taps.push(at as isize));
        let (from, mut line) = (plane(p, index), Sums::new(room, other));
        if p.kind == p.wide() {
            // Behind most rows there are others, of which whole vectors take a part.
            let farthest = taps.iter().max().map_or(0, |&t| t as usize);
            let many = row.next_multiple_of(2 * VECTOR / size);
            let end = index * p.plane + farthest + many;
            let n = if end <= p.outer * p.plane { many } else { row };
            // SAFETY: the ranges lie in the array, and the room is that of the plan.
            unsafe { line.onto(p, from, &taps, (n, false)) };
        } else {
            for tap in &taps {
                let from = from.wrapping_offset(tap * given as isize);
                // SAFETY: as above.
                unsafe {
                    line.begin(p, row);
                    let from = widened(p, from, row, other);
                    line.with(p, from, row);
                }
            }
        }
        // SAFETY: as above.
        unsafe { line.begin(p, row) };
        for column in 0..count {
            let (first, behind) = p.range(last, column);
            let mut own = Sums::new(results.wrapping_add(column * inner * size), part);
            let from = room.wrapping_add(first * inner * size);
            let steps = &steps[..behind.saturating_sub(first)];
            // SAFETY: as above.
            unsafe {
                own.onto(p, from, steps, (inner, true));
                own.begin(p, inner);
            }
        }
        let at = index * p.results + place * count * inner;
        // SAFETY: as above.
        unsafe { finish(p, results, count * inner, at) };
    }
}

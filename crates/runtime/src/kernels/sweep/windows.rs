//! Reductions of one input's elements at small steps around the position of the result's element:
//! windows, and whole rows onto each other. Before, they may meet those of another input ([`pairs`]).
//!
//! The elements of a row of the result are reduced in parallel lanes, in vectors that stay in
//! registers, each in the order of the expression. Rows that are read with a longer step, or that
//! hold narrow floats, are first copied to contiguous memory: sorted by the remainder of their
//! positions modulo the step.

use super::pairs::{self, Other, offsets};
use super::pitched::Pitched;
use super::read::gathered;
use super::taps::{apart_by, typed};
use super::{Op, Plan, WINDOW_STEP, combine, register};
use crate::context::RxContext;
use crate::kernels::combiner::Combiner;
use crate::kernels::halves;
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::scratch::Scratch;
use crate::threads::{Grain, Share};

/// The maximum number of positions that an element is reduced from.
const MOST: usize = 1 << 12;
/// Positions that are read together.
const CHUNK: usize = 32;
/// The same for positions in different rows: as many streams as processors prefetch.
const STREAMS: usize = 8;
/// The maximum distance of positions on one line, in elements: of a long row, and of short ones
/// that are reduced as one.
const NEAR: isize = 64;
const FAR: isize = 512;
/// The size of a piece of a row in bytes.
const PIECE: usize = 8 << 10;
/// The size in bytes of lines that are copied.
const ROOM: usize = 24 << 10;
/// Bytes that are read in the time that the beginning of a row takes.
const LITTLE: usize = 8 << 10;
/// Operations on elements below which no thread is woken.
const SMALL: usize = 1 << 15;

/// Positions that are read together.
struct Chunk {
    /// For each line that is copied, its first position and the distance of its last one from
    /// there.
    lines: Vec<(isize, usize)>,
    /// The offsets of the elements for the first element of a piece: relative to the input, or to
    /// the lines.
    taps: Vec<isize>,
}

/// A reduction in this form.
pub(super) struct Windows {
    chunks: Vec<Chunk>,
    /// The step along a row of the result.
    step: usize,
    /// Elements of a piece of a row.
    piece: usize,
    /// Whether lines are copied.
    brought: bool,
    /// Narrow floats that are met once each: they are widened in registers.
    once: bool,
    /// The elements of a line, and of those with one remainder.
    line: usize,
    part: usize,
    /// Short rows that are reduced as one.
    pitched: Option<Pitched>,
    /// Where whole vectors can be read: the last place in the input for the first element of a row.
    spare: isize,
    /// The array whose elements meet those of the input.
    other: Option<Other>,
}

/// Rows of narrow floats that are combined with the sums at once: caches are asked for few lines at a
/// time.
const TOGETHER: usize = 8;
/// The bytes of the largest vectors.
const VECTOR: usize = 64;

impl Windows {
    /// `None` where a reduction has another form.
    pub fn of(p: &Plan<'_>, threads: usize) -> Option<Windows> {
        let kind = Kind::of(*p.kinds.first()?)?;
        let plain = matches!(p.ops, [op] if op.op() == Op::Copy && op.args[0] == 0);
        let known = kind != Kind::Bool
            && kind == p.out_kind
            && match p.combiner {
                Combiner::Sum | Combiner::Max | Combiner::Min => true,
                Combiner::Product => matches!(register(kind), Kind::F32 | Kind::F64),
                Combiner::And | Combiner::Or => false,
            };
        let (count, inner) = (p.over.count(), p.out.inner());
        let step = if inner > 1 { p.out.inner_step(0) } else { 1 };
        let fits = (1..=MOST).contains(&count) && (1..=WINDOW_STEP as isize).contains(&step);
        if !known || !fits || p.v.reduced <= 0 {
            return None;
        }
        let other = match p.v.inputs {
            1 if plain => None,
            2 => Some(Other::of(p, count)?),
            _ => return None,
        };
        let step = step as usize;
        let size = register(kind).size();
        let rows = p.out.count() / inner.max(1);
        let mut piece = inner.min(PIECE / size);
        if rows < 2 * threads {
            // Threads share rows.
            piece = piece.min(inner.div_ceil(threads).next_multiple_of(64));
        }
        let mut windows = Windows {
            chunks: Vec::new(),
            step,
            piece,
            brought: step > 1 || register(kind) != kind,
            once: false,
            line: 0,
            part: 0,
            pitched: None,
            spare: -1,
            other,
        };
        let places = offsets(&p.over, 0, count);
        if let (Some(a), Some(b)) = (p.out.most(0), p.over.most(0)) {
            let farthest = places.iter().max().copied().unwrap_or(0);
            windows.spare = a + b + 1 - farthest - (VECTOR / size) as isize;
        }
        windows.pitched = windows.together(p, &places, size);
        if windows.pitched.is_none() {
            windows.divide(&places, NEAR);
        }
        windows.once = step == 1
            && register(kind) != kind
            && halves::known()
            && windows.other.is_none()
            && windows.pitched.is_none()
            && windows.piece >= halves::COLUMNS
            && windows.widest().1 == 0;
        windows.brought &= !windows.once;
        if windows.brought {
            let (_, span) = windows.widest();
            let room = windows.room_for(size);
            windows.piece = match &windows.pitched {
                Some(pitched) => pitched.longest(),
                None => windows.piece.min(room).max(1),
            };
            windows.part = windows.piece + span / step + 1;
            windows.line = (windows.part * step).next_multiple_of(16);
            windows.place();
        } else if let Some(pitched) = &windows.pitched {
            windows.piece = pitched.longest();
        }
        Some(windows)
    }

    /// The elements of a piece whose lines fit into the room for them.
    fn room_for(&self, size: usize) -> usize {
        let (lines, span) = self.widest();
        (ROOM / size / lines.max(1)).saturating_sub(span) / self.step
    }

    /// Divides the positions for short rows that are reduced as one; `None`, and nothing is
    /// divided, where there are none.
    fn together(&mut self, p: &Plan<'_>, places: &[isize], size: usize) -> Option<Pitched> {
        // Lines are known, of which those that are copied need room, once the positions are divided.
        if self.brought {
            self.divide(places, FAR);
        }
        let longest = match self.brought {
            true => self.room_for(size),
            false => PIECE / size,
        };
        let little = LITTLE / size / places.len().max(1);
        // Rows that are reduced as one meet the same elements.
        let other = self.other.as_ref();
        let alike = |axis| other.is_none_or(|o| !o.beside && p.out.axis(axis, 1).1 == 0);
        let longest = longest.min(PIECE / size);
        let pitched = Pitched::of(&p.out, self.step, longest, little, alike);
        match pitched {
            None => self.chunks.clear(),
            Some(_) if self.chunks.is_empty() => self.divide(places, FAR),
            Some(_) => {}
        }
        pitched
    }

    /// Divides the positions into chunks, and those of a chunk into lines of positions that are at
    /// most `near` apart.
    fn divide(&mut self, places: &[isize], near: isize) {
        let mut at = 0;
        while at < places.len() {
            let rest = places.len() - at;
            let mut lines: Vec<(isize, usize)> = Vec::with_capacity(rest.min(STREAMS));
            let mut taps = Vec::with_capacity(rest.min(CHUNK));
            for &place in &places[at..] {
                let here = (lines.last_mut())
                    .filter(|l| (l.0..=l.0 + near).contains(&place))
                    .map(|l| l.1 = l.1.max((place - l.0) as usize));
                if here.is_none() {
                    if lines.len() == STREAMS {
                        break;
                    }
                    lines.push((place, 0));
                }
                taps.push(place);
                if taps.len() == CHUNK {
                    break;
                }
            }
            at += taps.len();
            self.chunks.push(Chunk { lines, taps });
        }
    }

    /// The maximum number of lines of a chunk, and the maximum distance from a line's first
    /// position to its last.
    fn widest(&self) -> (usize, usize) {
        let lines = self.chunks.iter().map(|c| c.lines.len()).max();
        let spans = self.chunks.iter().flat_map(|c| &c.lines).map(|l| l.1).max();
        (lines.unwrap_or(0), spans.unwrap_or(0))
    }

    /// Maps positions in the input to those in copied lines.
    fn place(&mut self) {
        let (step, line, part) = (self.step, self.line, self.part);
        for chunk in &mut self.chunks {
            let mut k = 0;
            for tap in &mut chunk.taps {
                while !(chunk.lines[k].0..=chunk.lines[k].0 + chunk.lines[k].1 as isize)
                    .contains(tap)
                {
                    k += 1;
                }
                let far = (*tap - chunk.lines[k].0) as usize;
                *tap = (k * line + far % step * part + far / step) as isize;
            }
        }
    }

    /// The bytes that a thread needs: lines, one more in which a line is converted, and the sums of
    /// a piece, of at least a vector.
    fn room(&self, kind: Kind) -> usize {
        let size = register(kind).size();
        let lines = if self.brought { self.widest().0 + 1 } else { 0 };
        let sums = (self.piece * size).next_multiple_of(64);
        (lines * self.line * size + 64).next_multiple_of(64) + sums
    }

    /// Copies the lines of a chunk for `n` elements of a row that begins at `from`.
    unsafe fn bring(&self, chunk: &Chunk, kind: Kind, from: *const u8, n: usize, room: *mut u8) {
        let wide = register(kind);
        let (given, size) = (kind.size(), wide.size());
        for (k, &(first, span)) in chunk.lines.iter().enumerate() {
            let len = (n - 1) * self.step + span + 1;
            // SAFETY: all places of a line lie between those that are read, and the room was made
            // for them.
            unsafe {
                let to = room.add(k * self.line * size);
                let mut from = from.offset(first * given as isize);
                if self.step == 1 {
                    gathered(kind, from, 1, len, to);
                    continue;
                }
                if wide != kind {
                    let whole = room.add(chunk.lines.len() * self.line * size);
                    gathered(kind, from, 1, len, whole);
                    from = whole.cast_const();
                }
                match size {
                    1 => apart_by::<u8>(self.step, self.part, from.cast(), len, to.cast()),
                    2 => apart_by::<u16>(self.step, self.part, from.cast(), len, to.cast()),
                    4 => apart_by::<u32>(self.step, self.part, from.cast(), len, to.cast()),
                    _ => apart_by::<u64>(self.step, self.part, from.cast(), len, to.cast()),
                }
            }
        }
    }
}

impl Windows {
    /// Computes `n` sums that begin with `start`, for the elements from an offset in the input on;
    /// `own` says that the sums are in the room for them.
    unsafe fn sums(
        &self,
        p: &Plan<'_>,
        (at, other): (isize, isize),
        (n, start, own): (usize, u64, bool),
        room: *mut u8,
        sums: *mut u8,
    ) {
        let (kind, wide) = (p.out_kind, register(p.out_kind));
        // SAFETY: the row begins in the input.
        let from = unsafe { p.data[0].cast::<u8>().offset(at * kind.size() as isize) };
        if self.once {
            let start = f32::from_bits(start as u32);
            // SAFETY: as below.
            return unsafe { self.sums_of_once(p, from.cast(), (n, start), sums.cast()) };
        }
        // SAFETY: the elements that taps name lie in the input, `room` has what `Windows::room`
        // says, and `sums` room for `n`.
        unsafe {
            let mut done = 0;
            for (k, chunk) in self.chunks.iter().enumerate() {
                let mut from = from;
                if self.brought {
                    self.bring(chunk, kind, from, n, room);
                    from = room.cast_const();
                }
                let start = if k == 0 { Some(start) } else { None };
                // Behind the last line there is another one, and the sums; behind most rows of the
                // input there are others.
                let n = (n, own && (self.brought || at <= self.spare));
                let how = (p.combiner, wide);
                let Some(by) = &self.other else {
                    typed(how, from, &chunk.taps, n, start, sums);
                    continue;
                };
                let others = &by.taps[done..][..chunk.taps.len()];
                done += others.len();
                let with = (by.at(p, other), others);
                pairs::typed(how, by, (from, &chunk.taps), with, n, start, sums);
            }
        }
    }
}

impl Windows {
    /// [`Windows::sums`] of narrow floats that are met once each.
    unsafe fn sums_of_once(
        &self,
        p: &Plan<'_>,
        from: *const u16,
        (n, start): (usize, f32),
        sums: *mut f32,
    ) {
        let brain = p.out_kind == Kind::BF16;
        // SAFETY: the elements that taps name lie in the input, and there are `n` sums.
        unsafe {
            std::slice::from_raw_parts_mut(sums, n).fill(start);
            for taps in self.chunks.iter().flat_map(|c| c.taps.chunks(TOGETHER)) {
                if n >= halves::COLUMNS {
                    halves::rows_combined(brain, p.combiner, taps, n, (from, sums));
                    continue;
                }
                for &tap in taps {
                    halves::combined(brain, false, p.combiner, n, from.offset(tap), sums);
                }
            }
        }
    }
}

/// Computes pieces `begin..end` of rows.
unsafe fn pieces(w: &Windows, p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    let (inner, kind) = (p.out.inner(), p.out_kind);
    let (wide, given) = (register(kind), kind.size());
    let pieces = inner.div_ceil(w.piece);
    let mut start = [0u64; 1];
    // SAFETY: pieces are those of the result, and `room` has what `Windows::room` says; every task
    // writes its own part of the result.
    unsafe {
        combine::neutral(p.combiner, kind, start.as_mut_ptr().cast(), 1);
    }
    let start = start[0];
    let out = p.v.out.cast::<u8>();
    // SAFETY: pieces are those of the result, and `room` has what `Windows::room` says; every task
    // writes its own part of the result.
    let sums_room =
        unsafe { room.add(w.room(kind) - (w.piece * wide.size()).next_multiple_of(64)) };
    let first = match &w.pitched {
        Some(pitched) => pitched.task(begin).0,
        None => begin / pieces,
    };
    let mut row = p.out.cursor(first * inner, None);
    for task in begin..end {
        let pitched = w.pitched.as_ref().map(|p| (p, p.task(task)));
        // The first element of the result, how many there are, and where the first one is read.
        let (first, n, at, other) = match pitched {
            Some((_, (first, _, n))) => {
                if task > begin {
                    row = p.out.cursor(first * inner, None);
                }
                (first * inner, n, row.offset[0], row.offset[1])
            }
            None => {
                let (index, inside) = (task / pieces, task % pieces * w.piece);
                if task > begin && inside == 0 {
                    p.out.next_row(&mut row);
                }
                let at = row.offset[0] + (inside * w.step) as isize;
                let beside = w.other.as_ref().is_some_and(|o| o.beside);
                let other = row.offset[1] + if beside { inside as isize } else { 0 };
                let n = (inner - inside).min(w.piece);
                (index * inner + inside, n, at, other)
            }
        };
        // SAFETY: pieces are those of the result, and `room` has what `Windows::room` says; every
        // task writes its own part of the result.
        let to = unsafe { out.add(first * given) };
        // A few elements are the beginning of a vector.
        let few = n * given < VECTOR;
        let own = wide != kind || pitched.is_some() || few;
        let sums = if own { sums_room } else { to };
        // SAFETY: pieces are those of the result, and `room` has what `Windows::room` says; every
        // task writes its own part of the result.
        unsafe {
            w.sums(p, (at, other), (n, start, own), room, sums);
            // Narrow floats take less room than the sums.
            if let Some((pitched, (_, rows, _))) = pitched {
                let mut results = sums_room;
                if wide != kind {
                    f32::narrow(kind, n, sums_room.cast_const().cast(), room);
                    results = room;
                }
                pitched.taken(rows, given, results, to);
            } else if wide != kind {
                f32::narrow(kind, n, sums.cast_const().cast(), to);
            } else if few {
                std::ptr::copy_nonoverlapping(sums.cast_const(), to, n * given);
            }
        }
    }
}

/// # Safety
/// Like `rx_sweep`.
pub(super) unsafe fn run(context: &mut RxContext, plan: &Plan<'_>, w: &Windows) -> i32 {
    let threads = context.pool.threads();
    let room = w.room(plan.out_kind);
    let Some(scratch) = Scratch::new(context, room * threads) else {
        return context.status;
    };
    let rows = plan.out.count() / plan.out.inner().max(1);
    let tasks = match &w.pitched {
        Some(pitched) => pitched.tasks(rows),
        None => rows * plan.out.inner().div_ceil(w.piece),
    };
    let grain = Grain::of_work(SMALL, w.piece * plan.over.count());
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((w, plan, scratch.memory.cast::<u8>())) };
    context.pool.each(tasks, grain, |begin, end, worker| {
        let &(w, plan, memory) = shared.get();
        // SAFETY: the plan's inputs have what its axes name, and each worker has its own room.
        unsafe {
            let room = memory.add(worker * room);
            pieces(w, plan, begin, end, room);
        }
    });
    0
}

//! Elements selected axis by axis: padding, gathering, mirroring, repeating.
//!
//! `out[i, j, …] = x[t0[i] + t1[j] + …]`, where each axis has a table of offsets, or `fill` where a
//! table has a negative number. The tables of the last axes are joined into one, whose runs are
//! copied as a whole.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::scratch::Scratch;
use crate::kernels::shuffled::{Piece, Shuffle};
use crate::kernels::strided::copy_row;
use crate::threads::{Grain, Share};

/// The maximum number of axes.
pub const AXES: usize = 12;
/// The maximum size of the joined table of the last axes, unless the last one is longer.
const JOINED: usize = 4096;
/// The same where the last axis is one run, which a longer table makes longer, of which so many rows
/// are made at least.
const LONG: usize = 1 << 15;
/// Numbers of a table that are looked at together, once so many of them are alike.
const MANY: usize = 64;
const FEW: usize = 16;
/// Elements of a hole, on average, from which on it pays to fill holes alone.
const HOLE: usize = 32;
/// Elements for each hole from which on it pays, too.
const APART: usize = 32;
/// Rows from which on it pays to make a table of how sixteen bytes at a time are made, and bytes of
/// a run, on average, up to which.
const ROWS: usize = 8;
const SHORT: usize = 32;
/// The minimum number of bytes that a thread writes.
const GRAIN: usize = 64 << 10;

c_structure! {
    /// As in the C header.
    pub struct RxPick {
        /// Axes of the result.
        pub axes: i32,
        /// Bytes of an element: 1, 2, 4 or 8.
        pub size: i32,
        /// The extents of the axes.
        pub extents: *const i64,
        /// For all axes, concatenated, the offset that each index adds, in elements, or a negative
        /// number.
        pub tables: *const i64,
        /// The array.
        pub x: *const c_void,
        /// The bits of the element used where a table has a negative number.
        pub fill: u64,
        /// The result, contiguous.
        pub out: *mut c_void,
    }
}

/// Elements of a row of the result that are copied at once.
#[derive(Clone, Copy)]
struct Run {
    /// The offset of the first one; negative for fill.
    from: i64,
    /// The number of elements.
    len: usize,
    /// Whether all of them are the first one.
    same: bool,
}

/// The data that the threads share.
struct Plan<'a> {
    pick: &'a RxPick,
    /// Extents and tables of the axes before the joined ones.
    outer: &'a [(usize, &'a [i64])],
    /// The joined table, and its runs where they are long.
    table: &'a [i64],
    runs: &'a [Run],
    holes: bool,
    /// How rows are made of short runs.
    shuffle: Option<Shuffle<'a>>,
    /// Whether rows are filled before runs are copied, since holes are short.
    filled: bool,
    /// The bytes of the number that holes are.
    fill: u64,
}

/// Joins a table with the one after it.
fn join(before: &[i64], behind: &[i64], to: &mut [i64]) {
    for (line, &first) in to.chunks_exact_mut(behind.len().max(1)).zip(before) {
        for (to, &t) in line.iter_mut().zip(behind) {
            *to = if first < 0 || t < 0 { -1 } else { first + t };
        }
    }
}

/// The joined table of some axes, in memory for two of its size.
fn together<'a>(axes: &[(usize, &[i64])], words: &'a mut [i64]) -> &'a [i64] {
    let (table, spare) = words.split_at_mut(words.len() / 2);
    let (mut len, last) = axes[axes.len() - 1];
    table[..len].copy_from_slice(last);
    for (extent, before) in axes[..axes.len() - 1].iter().rev() {
        spare[..len].copy_from_slice(&table[..len]);
        let longer = len * extent;
        join(before, &spare[..len], &mut table[..longer]);
        len = longer;
    }
    table
}

/// The count of numbers that a table begins with which follow the first at a step, or are negative
/// as it is.
fn alike(table: &[i64], step: i64) -> usize {
    let from = table[0];
    let follows = |k: usize, t: i64| match from < 0 {
        true => t < 0,
        false => t == from + k as i64 * step,
    };
    let first = table.iter().take(FEW).enumerate();
    let mut count = first.take_while(|&(k, &t)| follows(k, t)).count();
    if count < FEW {
        return count;
    }
    // Many at a time, without a branch for each.
    for part in table[FEW..].chunks_exact(MANY) {
        let one = |all: bool, (k, &t): (usize, &i64)| all & follows(count + k, t);
        if !part.iter().enumerate().fold(true, one) {
            break;
        }
        count += MANY;
    }
    let rest = table[count..].iter().enumerate();
    count + rest.take_while(|&(k, &t)| follows(count + k, t)).count()
}

/// The run that a table begins with.
fn run(table: &[i64]) -> Run {
    let (len, repeated) = (alike(table, 1), alike(table, 0));
    Run {
        from: table[0],
        len: len.max(repeated),
        same: repeated > len,
    }
}

/// The runs of a table, in memory for `most` of them; empty where there are more.
unsafe fn runs<'a>(table: &[i64], to: *mut Run, most: usize) -> &'a [Run] {
    let (mut count, mut i) = (0, 0);
    while i < table.len() {
        if count == most {
            return &[];
        }
        let run = run(&table[i..]);
        // SAFETY: `to` has room for `most` runs.
        unsafe { to.add(count).write(run) };
        count += 1;
        i += run.len;
    }
    // SAFETY: so many were written.
    unsafe { std::slice::from_raw_parts(to, count) }
}

/// Computes rows `begin..end` of the result.
unsafe fn rows<T: Copy>(p: &Plan<'_>, fill: T, begin: usize, end: usize) {
    let n = p.table.len();
    let (x, out) = (p.pick.x.cast::<T>(), p.pick.out.cast::<T>());
    let mut index = [0usize; AXES];
    let mut rest = begin;
    for (k, (extent, _)) in p.outer.iter().enumerate().rev() {
        (index[k], rest) = (rest % extent, rest / extent);
    }
    for row in begin..end {
        let (mut first, mut hole) = (0, false);
        for (k, (_, table)) in p.outer.iter().enumerate() {
            hole |= table[index[k]] < 0;
            first += table[index[k]];
        }
        // SAFETY: rows are those of the result; offsets that are not negative lie in the array.
        unsafe {
            let to = out.add(row * n);
            if hole {
                filled(to, fill, n);
            } else if let Some(shuffle) = &p.shuffle {
                shuffle.row(x.offset(first as isize).cast(), to.cast(), p.fill);
            } else if !p.runs.is_empty() {
                if p.filled {
                    filled(to, fill, n);
                }
                by_runs(p, x.offset(first as isize), to, fill);
            } else if p.holes {
                for (j, &t) in p.table.iter().enumerate() {
                    *to.add(j) = if t < 0 {
                        fill
                    } else {
                        *x.offset((first + t) as isize)
                    };
                }
            } else {
                let x = x.offset(first as isize);
                for (j, &t) in p.table.iter().enumerate() {
                    *to.add(j) = *x.offset(t as isize);
                }
            }
        }
        for (k, (extent, _)) in p.outer.iter().enumerate().rev() {
            index[k] += 1;
            if index[k] < *extent {
                break;
            }
            index[k] = 0;
        }
    }
}

#[inline(always)]
unsafe fn filled<T: Copy>(to: *mut T, value: T, n: usize) {
    for j in 0..n {
        // SAFETY: `to` has room for `n` elements, and `j` is below `n`.
        unsafe { *to.add(j) = value };
    }
}

unsafe fn by_runs<T: Copy>(p: &Plan<'_>, x: *const T, to: *mut T, fill: T) {
    let mut to = to;
    for run in p.runs {
        // SAFETY: runs that do not begin below zero lie in `x`, and `to` has room for all.
        unsafe {
            match (run.from < 0, run.same) {
                (true, _) if p.filled => {}
                (true, _) => filled(to, fill, run.len),
                (false, true) => filled(to, *x.offset(run.from as isize), run.len),
                _ => copy_row(x.offset(run.from as isize), to, run.len),
            }
            to = to.add(run.len);
        }
    }
}

/// Selects elements axis by axis.
///
/// # Safety
/// Tables have as many numbers as their axes, every sum of numbers that are not negative, one of
/// each table, is the offset of an element of the array, and the result has room for all elements
/// and overlaps nothing.
pub unsafe fn pick(context: &mut RxContext, p: &RxPick) -> i32 {
    // SAFETY: tables and arrays are as long as the descriptor says.
    unsafe {
        let rank = p.axes.max(0) as usize;
        if rank == 0 || rank > AXES || !matches!(p.size, 1 | 2 | 4 | 8) {
            return context.fail(
                Status::Argument,
                "rx_pick: too many axes, or no such elements",
            );
        }
        let extents = std::slice::from_raw_parts(p.extents, rank);
        if extents.iter().any(|&n| n <= 0) {
            return 0;
        }
        let mut axes: [(usize, &[i64]); AXES] = [(0, &[]); AXES];
        let mut at = p.tables;
        for (axis, &n) in axes.iter_mut().zip(extents) {
            *axis = (n as usize, std::slice::from_raw_parts(at, n as usize));
            at = at.add(n as usize);
        }
        let (mut split, mut n) = (rank - 1, extents[rank - 1] as usize);
        let whole = n >= FEW && axes[split].1[0] >= 0 && alike(axes[split].1, 1) == n;
        let joins = |split: usize, n: usize| {
            let rows: usize = axes[..split].iter().map(|a| a.0).product();
            n <= JOINED || whole && n <= LONG && rows >= ROWS
        };
        while split > 0 && joins(split - 1, axes[split - 1].0 * n) {
            split -= 1;
            n *= axes[split].0;
        }
        // The table of a single axis is taken as it is.
        let joined = if split + 1 < rank { n } else { 0 };
        let (count, size) = (
            axes[..split].iter().map(|a| a.0).product::<usize>(),
            p.size as usize,
        );
        let pieces = if count < ROWS {
            0
        } else {
            Shuffle::most(n, size)
        };
        let room =
            2 * joined * size_of::<i64>() + n / 4 * size_of::<Run>() + pieces * size_of::<Piece>();
        let room = room.max(1);
        let Some(scratch) = Scratch::new(context, room) else {
            return context.status;
        };
        let words = std::slice::from_raw_parts_mut(scratch.memory.cast::<i64>(), 2 * joined);
        let of_runs = scratch.memory.cast::<i64>().add(2 * joined).cast::<Run>();
        let table = if joined > 0 {
            together(&axes[split..rank], words)
        } else {
            axes[rank - 1].1
        };
        let runs = runs(table, of_runs, n / 4);
        let of_pieces = of_runs.add(n / 4).cast::<MaybeUninit<Piece>>();
        let of_pieces = std::slice::from_raw_parts_mut(of_pieces, pieces);
        let short = runs.is_empty() || n * size < SHORT * runs.len();
        let (mut holes, mut within) = (0, 0);
        for hole in runs.iter().filter(|r| r.from < 0) {
            (holes, within) = (holes + 1, within + hole.len);
        }
        let plan = Plan {
            pick: p,
            outer: &axes[..split],
            table,
            runs,
            holes: runs.is_empty() && table.iter().any(|&t| t < 0),
            shuffle: (short && pieces > 0)
                .then(|| Shuffle::of(table, size, of_pieces))
                .flatten(),
            fill: (p.fill & (u64::MAX >> (64 - 8 * size))).wrapping_mul(match size {
                1 => 0x0101_0101_0101_0101,
                2 => 0x0001_0001_0001_0001,
                4 => 0x0000_0001_0000_0001,
                _ => 1,
            }),
            filled: within < HOLE * holes && table.len() < APART * holes,
        };
        let grain = Grain::of_work(GRAIN, n * size);
        let shared = Share::new(&plan);
        context.pool.each(count, grain, |begin, end, _| {
            let plan: &Plan<'_> = shared.get();
            let p = plan.pick;
            match p.size {
                1 => rows::<u8>(plan, p.fill as u8, begin, end),
                2 => rows::<u16>(plan, p.fill as u16, begin, end),
                4 => rows::<u32>(plan, p.fill as u32, begin, end),
                _ => rows::<u64>(plan, p.fill, begin, end),
            }
        });
        0
    }
}

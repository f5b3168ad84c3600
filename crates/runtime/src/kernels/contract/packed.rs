//! Contractions by products of panels, which are packed where they are read often enough: else the
//! operand is read where it lies.

use super::line::Line;
use super::plan::{Plan, count, offset, offsets};
use super::{Everywhere, Sums};
use crate::context::RxContext;
use crate::kernels::gemm::tile::CROWDED;
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{
    Simd, dispatch_of,
    wide::{Vector, Wide},
};
use crate::threads::{Grain, Share};

/// Rows of a panel of the left operand.
const ROWS: usize = 8;
/// The bytes along the longest piece of the common axes: panels of both operands stay in the
/// first-level cache together.
const DEEP: usize = 1024;
/// The number of positions of the common axes at which all panels of a block are packed before the
/// next ones: few pages at a time.
const PLACES: usize = 32;
/// Rows of a block.
const HIGH: usize = 256;
/// Bytes of a row of a block of sums.
const WIDE: usize = 1920;
/// The most rows of a result for which the right operand is read where it lies; what packing it takes,
/// in products of all its elements with [`ROWS`] rows; and what a product takes more that reads it
/// where it lies, with tiles of one vector.
const FEW_ROWS: usize = 32;
const PACKING: f64 = 1.0;
const ASTRIDE: f64 = 0.25;
/// Multiplications below which a block stays on one thread.
const SMALL: usize = 1 << 18;

/// The data that the threads share.
struct Work<'a, T> {
    plan: &'a Plan,
    a: *const T,
    b: *const T,
    c: *mut u8,
    kind: Kind,
    /// Offsets of both operands along the common axes.
    along: [*const isize; 2],
    room: *mut u8,
    /// Bytes of scratch memory for each thread.
    each: usize,
    m: usize,
    n: usize,
    k: usize,
    /// Rows and columns of a block.
    high: usize,
    wide: usize,
    /// The lines of columns, where the right operand is read where it lies.
    line: Option<Line>,
    /// Whether the left operand is read where it lies.
    rows_lie: bool,
}

/// The number of vectors of a tile for so many columns: few fill narrow ones.
fn tile_vectors(columns: usize, lanes: usize) -> usize {
    let vectors = |nv: usize| columns.div_ceil(nv * lanes) * nv;
    let nv = if vectors(2) < vectors(3) { 2 } else { 3 };
    if vectors(1) < vectors(nv) { 1 } else { nv }
}

/// The number of rows of an instruction set's tiles.
fn tile_rows<S: Simd>() -> usize {
    if S::MR >= 8 { 8 } else { 4 }
}

/// The longest piece of the common axes.
const fn deepest<T>() -> usize {
    DEEP / size_of::<T>()
}

pub(super) fn lanes<T>() -> usize {
    // The widest vectors of any instruction set: blocks are the same for all.
    64 / size_of::<T>()
}

/// # Safety
/// Like `rx_contract`, with operands of the accumulator type.
pub(super) unsafe fn run<T: Everywhere>(
    context: &mut RxContext,
    plan: &Plan,
    [a, b]: [*const T; 2],
    c: *mut u8,
    kind: Kind,
) -> i32 {
    let (m, n, k) = (count(&plan.rows), count(&plan.columns), count(&plan.summed));
    let batch = count(&plan.batch);
    let threads = context.pool.threads();
    let unit = 3 * lanes::<T>();
    let most = WIDE / size_of::<T>();
    let line = Line::of(&plan.columns, 1).filter(|line| {
        let (extent, lanes) = (line.extent(), lanes::<T>());
        let nv = tile_vectors(extent.min(most), lanes);
        let computed = (line.many * extent.next_multiple_of(nv * lanes)) as f64;
        let packed = n.next_multiple_of(lanes) as f64;
        let rows = m as f64 / ROWS as f64;
        // What is computed between the lines must take less than packing.
        let lying = rows * computed * (1.0 + ASTRIDE / nv as f64);
        m <= FEW_ROWS && extent >= nv * lanes && lying < (rows + PACKING) * packed
    });
    let across = line.map_or(n, |line| line.extent());
    let many = line.map_or(1, |line| line.many);
    let mut wide = most.min(across.next_multiple_of(lanes::<T>()));
    let mut high = HIGH.min(m.next_multiple_of(ROWS));
    // Blocks for all threads: narrower where there are few.
    let work = m.saturating_mul(n).saturating_mul(k.max(1));
    if threads > 1 && work > SMALL {
        while batch * m.div_ceil(high) * many * across.div_ceil(wide) < 2 * threads
            && (high > 4 * ROWS || wide > 2 * unit)
        {
            if wide > 2 * unit && wide >= high {
                wide = (wide / 2).next_multiple_of(unit);
            } else if high > 4 * ROWS {
                high = (high / 2).next_multiple_of(ROWS);
            } else {
                break;
            }
        }
    }
    let blocks = batch * m.div_ceil(high) * many * across.div_ceil(wide);
    let room = high.next_multiple_of(ROWS) * deepest::<T>()
        + (wide + unit) * deepest::<T>()
        + high.next_multiple_of(ROWS) * (wide + unit)
        + 2 * (wide + unit);
    let tables = 2 * (high + wide + unit + ROWS + deepest::<T>());
    let each = (room * size_of::<T>() + tables * size_of::<isize>()).next_multiple_of(64);
    let Some(tables) = Scratch::new(context, 2 * k * size_of::<isize>()) else {
        return context.status;
    };
    let Some(scratch) = Scratch::new(context, each * threads) else {
        return context.status;
    };
    // SAFETY: tables and room are as large; every block writes its own part of the result.
    unsafe {
        let along = tables.memory.cast::<isize>();
        if k > 0 {
            offsets(&plan.summed, 0, 0, std::slice::from_raw_parts_mut(along, k));
            offsets(
                &plan.summed,
                1,
                0,
                std::slice::from_raw_parts_mut(along.add(k), k),
            );
        }
        let work = Work {
            plan,
            a,
            b,
            c,
            kind,
            along: [along, along.add(k)],
            room: scratch.memory.cast(),
            each,
            m,
            n,
            k,
            high,
            wide,
            line,
            // Each row is read as often as there are panels of columns.
            rows_lie: n <= unit && m > FEW_ROWS,
        };
        let grain = Grain::of_work(SMALL, high * wide * k.max(1));
        let shared = Share::new(&work);
        context.pool.each(blocks, grain, |begin, end, worker| {
            let work: &Work<'_, T> = shared.get();
            dispatch_of!(blocks_of<T: Everywhere>(work: &Work<'_, T>, begin: usize, end: usize, worker: usize));
        });
    }
    0
}

#[inline(always)]
unsafe fn blocks_of<S: Wide, T: Sums<S> + PartialEq>(
    w: &Work<'_, T>,
    begin: usize,
    end: usize,
    worker: usize,
) {
    let lanes = <T as Sums<S>>::V::LANES;
    let across = w.line.map_or(w.n, |line| line.extent());
    let mut nv = tile_vectors(across.min(w.wide), lanes);
    while w.line.is_some() && nv * lanes > across {
        nv -= 1;
    }
    // SAFETY: blocks are those of the result, and operands have what the offsets name.
    unsafe {
        for block in begin..end {
            one::<S, T>(w, block, worker, nv);
        }
    }
}

/// One block of the result, by tiles of `nv` vectors of columns.
#[inline(always)]
unsafe fn one<S: Wide, T: Sums<S> + PartialEq>(
    w: &Work<'_, T>,
    block: usize,
    worker: usize,
    nv: usize,
) {
    let width = nv * <T as Sums<S>>::V::LANES;
    let columns_of = w.line.map_or(w.n, |line| line.extent());
    let (down, across) = (w.m.div_ceil(w.high), columns_of.div_ceil(w.wide));
    let many = w.line.map_or(1, |line| line.many);
    let (batch, rest) = (
        block / (down * many * across),
        block % (down * many * across),
    );
    let (i0, rest) = (rest / (many * across) * w.high, rest % (many * across));
    let (other, j0) = (rest / across, rest % across * w.wide);
    let (mc, nc) = ((w.m - i0).min(w.high), (columns_of - j0).min(w.wide));
    let (panels_a, panels_b) = (mc.div_ceil(ROWS), nc.div_ceil(width));
    // SAFETY: room was made for all of this; offsets are those of elements.
    unsafe {
        let room = w.room.add(worker * w.each).cast::<T>();
        let packed_a = room;
        let packed_b = packed_a.add(w.high.next_multiple_of(ROWS) * deepest::<T>());
        let sums = packed_b.add((w.wide + 3 * lanes::<T>()) * deepest::<T>());
        let line = sums.add(w.high.next_multiple_of(ROWS) * (w.wide + 3 * lanes::<T>()));
        let mut tables = line.add(2 * (w.wide + 3 * lanes::<T>())).cast::<isize>();
        let mut table = |n: usize| {
            let table = std::slice::from_raw_parts_mut(tables, n);
            tables = tables.add(n);
            table
        };
        let (rows, to_rows) = (table(mc.next_multiple_of(ROWS)), table(mc));
        offsets(&w.plan.rows, 0, i0, &mut rows[..mc]);
        offsets(&w.plan.rows, 2, i0, to_rows);
        // Where there are fewer rows, the last one takes the other places.
        let last = rows[mc - 1];
        rows[mc..].fill(last);
        let a = w.a.offset(offset(&w.plan.batch, 0, batch));
        let mut b = w.b.offset(offset(&w.plan.batch, 1, batch));
        let mut first = offset(&w.plan.batch, 2, batch);
        let (columns, to_columns) = match &w.line {
            Some(line) => {
                let others = &w.plan.columns[..line.axes];
                b = b.offset(offset(others, 1, other));
                first += offset(others, 2, other);
                (table(0), table(0))
            }
            None => (table(nc), table(nc)),
        };
        if w.line.is_none() {
            offsets(&w.plan.columns, 1, j0, columns);
            offsets(&w.plan.columns, 2, j0, to_columns);
        }
        // Whole tiles are summed where the result is, if its columns are side by side.
        let beside = w.line.is_none() && to_columns.windows(2).all(|w| w[1] == w[0] + 1);
        let in_place = beside && w.kind == T::KIND && w.k > 0;
        let whole = |rows: usize, panel: usize| {
            in_place && (rows + 1) * ROWS <= mc && (panel + 1) * width <= nc
        };
        if w.k == 0 {
            for i in 0..panels_a * ROWS * panels_b * width {
                *sums.add(i) = T::default();
            }
        }
        // The first column of a panel, from the block's first one on: the last panel ends where the
        // columns do.
        let begins = |panel: usize| match w.line {
            Some(_) => ((panel * width) as isize).min((columns_of - width) as isize - j0 as isize),
            None => (panel * width) as isize,
        };
        let most = w.k.min(deepest::<T>());
        let (steps_a, steps_b) = (table(most), table(most));
        for p in 0..most {
            (steps_a[p], steps_b[p]) = ((p * ROWS) as isize, (p * width) as isize);
        }
        const NEXT: [isize; ROWS] = [0, 1, 2, 3, 4, 5, 6, 7];
        let mut p0 = 0;
        while p0 < w.k {
            let deep = (w.k - p0).min(deepest::<T>());
            let [along_a, along_b] = w.along.map(|t| std::slice::from_raw_parts(t.add(p0), deep));
            for panel in (0..panels_a).filter(|_| !w.rows_lie) {
                pack::<T, ROWS>(
                    a,
                    &rows[panel * ROWS..mc.min((panel + 1) * ROWS)],
                    along_a,
                    packed_a.add(panel * ROWS * deep),
                );
            }
            if w.line.is_none() {
                for (places, first) in along_b.chunks(PLACES).zip((0..).step_by(PLACES)) {
                    for panel in 0..panels_b {
                        let columns = &columns[panel * width..nc.min((panel + 1) * width)];
                        let to = packed_b.add((panel * deep + first) * width);
                        pack_wide::<T>(b, columns, places, to, width);
                    }
                }
            }
            for panel in 0..panels_b {
                let right = match &w.line {
                    Some(_) => (b.add(j0).offset(begins(panel)), along_b),
                    None => (
                        packed_b.add(panel * width * deep).cast_const(),
                        &steps_b[..deep],
                    ),
                };
                for rows_at in 0..panels_a {
                    let mut to = [sums; ROWS];
                    for (i, to) in to.iter_mut().enumerate() {
                        *to = if whole(rows_at, panel) {
                            let at =
                                first + to_rows[rows_at * ROWS + i] + to_columns[panel * width];
                            w.c.cast::<T>().offset(at)
                        } else {
                            sums.add(((rows_at * panels_b + panel) * ROWS + i) * width)
                        };
                    }
                    let more = p0 > 0;
                    let mut i = 0;
                    while i < ROWS && i < mc - rows_at * ROWS {
                        let (to, rows) = (&to[i..], &rows[rows_at * ROWS + i..]);
                        let left = match w.rows_lie {
                            true => (a, rows, along_a),
                            false => {
                                let a = packed_a.add(rows_at * ROWS * deep + i);
                                (a.cast_const(), &NEXT[..], &steps_a[..deep])
                            }
                        };
                        // Few rows fill low tiles.
                        let each = match mc - rows_at * ROWS {
                            ..=4 => 4,
                            _ => tile_rows::<S>(),
                        };
                        match (each, nv) {
                            (8, 1) => tile::<S, T, 8, 1>(left, right, to, more),
                            (8, 2) => tile::<S, T, 8, 2>(left, right, to, more),
                            (8, _) => tile::<S, T, 8, 3>(left, right, to, more),
                            (_, 1) => tile::<S, T, 4, 1>(left, right, to, more),
                            (_, 2) => tile::<S, T, 4, 2>(left, right, to, more),
                            _ => tile::<S, T, 4, 3>(left, right, to, more),
                        }
                        i += each;
                    }
                }
            }
            p0 += deep;
        }
        for (i, &row) in to_rows.iter().enumerate() {
            let mut done = 0;
            for panel in 0..panels_b {
                if whole(i / ROWS, panel) {
                    done = (panel + 1) * width;
                    continue;
                }
                let from =
                    sums.add((i / ROWS * panels_b + panel) * ROWS * width + i % ROWS * width);
                // Of a panel that begins before the block, the end.
                let begin = begins(panel);
                let before = (-begin).max(0) as usize;
                let to = line.add((begin.max(0)) as usize);
                std::ptr::copy_nonoverlapping(from.add(before), to, width - before);
            }
            if let Some(lines) = &w.line {
                lines.put(line, (j0, nc), w.c, first + row, w.kind);
            } else if done < nc {
                let columns = &to_columns[done..];
                let (from, room) = (line.add(done), line.add(w.wide + 3 * lanes::<T>()));
                put((from, room), nc - done, columns, w.c, first + row, w.kind);
            }
        }
    }
}

/// Writes a line of sums to its positions in the result; there is room for a line of its elements.
#[inline(always)]
unsafe fn put<T: Sum>(
    (line, room): (*const T, *mut T),
    n: usize,
    columns: &[isize],
    c: *mut u8,
    row: isize,
    kind: Kind,
) {
    let size = kind.size();
    // SAFETY: line and room have `n` elements, and the result a place for each column.
    unsafe {
        let mut from = line.cast::<u8>();
        if kind != T::KIND {
            T::narrow(kind, n, line, room.cast());
            from = room.cast_const().cast();
        }
        let to = c.offset(row * size as isize);
        match size {
            1 => spread::<u8>(from, columns, to),
            2 => spread::<u16>(from.cast(), columns, to.cast()),
            4 => spread::<u32>(from.cast(), columns, to.cast()),
            _ => spread::<u64>(from.cast(), columns, to.cast()),
        }
    }
}

/// Copies elements to their places.
#[inline(always)]
unsafe fn spread<E: Copy>(from: *const E, columns: &[isize], to: *mut E) {
    let n = columns.len();
    let mut j = 0;
    while j < n {
        // As many as are contiguous.
        let mut end = j + 1;
        while end < n && columns[end] == columns[end - 1] + 1 {
            end += 1;
        }
        // SAFETY: there is an element for each column, and a place for it.
        unsafe { copy(from.add(j), to.offset(columns[j]), end - j) };
        j = end;
    }
}

/// Packs a panel of `W` lines: `out[p * W + i] = x[lines[i] + along[p]]`, 0 for missing lines.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Two arrays are walked across each other.
unsafe fn pack<T: Copy + Default, const W: usize>(
    x: *const T,
    lines: &[isize],
    along: &[isize],
    out: *mut T,
) {
    // SAFETY: each line has what `along` names, and `to` room for a panel.
    unsafe {
        if lines.len() == W {
            let mut at = [0isize; W];
            at.copy_from_slice(lines);
            let beside = at.windows(2).all(|w| w[1] == w[0] + 1);
            let mut p = 0;
            while p < along.len() {
                let to = out.add(p * W);
                if !beside && follow(&along[p..]) {
                    turned::<T, W>(x.offset(along[p]), &at, to, W);
                    p += SQUARE;
                    continue;
                }
                if beside {
                    std::ptr::copy_nonoverlapping(x.offset(at[0] + along[p]), to, W);
                } else {
                    for i in 0..W {
                        *to.add(i) = *x.offset(at[i] + along[p]);
                    }
                }
                p += 1;
            }
            return;
        }
        for (p, &step) in along.iter().enumerate() {
            for i in 0..W {
                let value = lines.get(i).map(|at| *x.offset(at + step));
                *out.add(p * W + i) = value.unwrap_or_default();
            }
        }
    }
}

/// Like `pack`, for panels of the right operand, where parts of the lines are often contiguous.
#[inline(always)]
unsafe fn pack_wide<T: Copy + Default>(
    x: *const T,
    lines: &[isize],
    along: &[isize],
    out: *mut T,
    width: usize,
) {
    // SAFETY: each line has what `along` names, and `to` room for a panel.
    unsafe {
        if lines.len() < width {
            for p in 0..along.len() {
                for i in lines.len()..width {
                    *out.add(p * width + i) = T::default();
                }
            }
        }
        let mut i = 0;
        while i < lines.len() {
            let mut end = i + 1;
            while end < lines.len() && lines[end] == lines[end - 1] + 1 {
                end += 1;
            }
            let at = x.offset(lines[i]);
            if end - i >= 4 {
                for (p, &step) in along.iter().enumerate() {
                    copy(at.offset(step), out.add(p * width + i), end - i);
                }
            } else if let Some(some) = lines[i..].first_chunk::<SQUARE>() {
                end = i + SQUARE;
                let mut p = 0;
                while p < along.len() {
                    let to = out.add(p * width + i);
                    if follow(&along[p..]) {
                        turned::<T, SQUARE>(x.offset(along[p]), some, to, width);
                        p += SQUARE;
                        continue;
                    }
                    for (k, line) in some.iter().enumerate() {
                        *to.add(k) = *x.offset(line + along[p]);
                    }
                    p += 1;
                }
            } else {
                end = i + 1;
                for (p, &step) in along.iter().enumerate() {
                    *out.add(p * width + i) = *at.offset(step);
                }
            }
            i = end;
        }
    }
}

/// Elements of a line that are read at once.
const SQUARE: usize = 8;

/// Returns whether the next positions are contiguous.
#[inline(always)]
fn follow(along: &[isize]) -> bool {
    let Some(next) = along.first_chunk::<SQUARE>() else {
        return false;
    };
    let mut beside = true;
    for p in 1..SQUARE {
        beside &= next[p] == next[0] + p as isize;
    }
    beside
}

/// Transposes the next elements of `W` lines: whole pieces of lines are read, so that lines a power
/// of two apart, which map to few sets of the cache, are not fetched for every element.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Two arrays are walked across each other.
unsafe fn turned<T: Copy + Default, const W: usize>(
    x: *const T,
    lines: &[isize; W],
    out: *mut T,
    width: usize,
) {
    let mut square = [[T::default(); SQUARE]; W];
    // SAFETY: each line has `SQUARE` elements at `x`, and `to` room for the square.
    unsafe {
        for (i, line) in square.iter_mut().enumerate() {
            *line = x.offset(lines[i]).cast::<[T; SQUARE]>().read_unaligned();
        }
        for p in 0..SQUARE {
            for i in 0..W {
                *out.add(p * width + i) = square[i][p];
            }
        }
    }
}

/// Copies a few elements without a function call.
#[inline(always)]
unsafe fn copy<T: Copy>(from: *const T, to: *mut T, n: usize) {
    // SAFETY: both have `n` elements.
    unsafe {
        let mut i = 0;
        while i + 8 <= n {
            to.add(i)
                .cast::<[T; 8]>()
                .write_unaligned(from.add(i).cast::<[T; 8]>().read_unaligned());
            i += 8;
        }
        // What is left, with some of the elements before.
        if i < n && n >= 8 {
            let (from, to) = (from.add(n - 8), to.add(n - 8));
            to.cast::<[T; 8]>()
                .write_unaligned(from.cast::<[T; 8]>().read_unaligned());
            return;
        }
        while i < n {
            *to.add(i) = *from.add(i);
            i += 1;
        }
    }
}

/// Sums `MR` rows by `NV` vectors, with `more` onto the sums that are there. Of the left operand the
/// rows' offsets are given, of both the offsets along the common axes.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn tile<S: Wide, T: Sums<S>, const MR: usize, const NV: usize>(
    (a, rows, along_a): (*const T, &[isize], &[isize]),
    (b, along_b): (*const T, &[isize]),
    sums: &[*mut T],
    more: bool,
) {
    // SAFETY: both operands have elements at the offsets, the right one vectors; so many rows of sums
    // have the vectors.
    unsafe {
        let mut acc = [[<T as Sums<S>>::V::splat(T::default()); NV]; MR];
        let mut apart = [0; MR];
        apart.copy_from_slice(&rows[..MR]);
        for (&p, &q) in along_a.iter().zip(along_b) {
            let (mut a, b) = (a.offset(p), b.offset(q));
            let mut row = [<T as Sums<S>>::V::splat(T::default()); NV];
            for v in 0..NV {
                row[v] = <T as Sums<S>>::V::load(b.add(v * <T as Sums<S>>::V::LANES));
            }
            for i in 0..MR {
                let x = <T as Sums<S>>::V::splat(*a.offset(apart[i]));
                for v in 0..NV {
                    acc[i][v] = x.fma(row[v], acc[i][v]);
                    if MR * NV >= CROWDED {
                        a = <T as Sums<S>>::V::pinned(a, &mut acc[i][v]);
                    }
                }
            }
        }
        for i in 0..MR {
            for v in 0..NV {
                let to = sums[i].add(v * <T as Sums<S>>::V::LANES);
                let sum = match more {
                    true => acc[i][v].add(<T as Sums<S>>::V::load(to)),
                    false => acc[i][v],
                };
                sum.store(to);
            }
        }
    }
}

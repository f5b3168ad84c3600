//! Contractions by products of panels, which are packed where they are read often enough: else the
//! operand is read where it lies.

use super::line::Line;
use super::panels::{pack, pack_wide, spread};
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
    let along = tables.memory.cast::<isize>();
    // SAFETY: tables and room are as large; every block writes its own part of the result.
    unsafe {
        if k > 0 {
            offsets(&plan.summed, 0, 0, std::slice::from_raw_parts_mut(along, k));
            offsets(
                &plan.summed,
                1,
                0,
                std::slice::from_raw_parts_mut(along.add(k), k),
            );
        }
    }
    // SAFETY: tables and room are as large; every block writes its own part of the result.
    let work = unsafe {
        Work {
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
        }
    };
    let grain = Grain::of_work(SMALL, high * wide * k.max(1));
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new(&work) };
    // SAFETY: tables and room are as large; every block writes its own part of the result.
    unsafe {
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

/// The offsets of a panel's rows from the first one on, where it is packed.
const NEXT: [isize; ROWS] = [0, 1, 2, 3, 4, 5, 6, 7];

/// A block of the result, with a thread's memory for it.
struct Block<'a, T> {
    w: &'a Work<'a, T>,
    /// The operands' first elements, and the place of the result's first row and column; where lines
    /// are read as they lie, of their first column, and the block begins so many columns after it.
    a: *const T,
    b: *const T,
    first: isize,
    j0: usize,
    /// Columns that there are, and those of the block.
    all: usize,
    nc: usize,
    /// Rows, and columns of a panel.
    mc: usize,
    width: usize,
    /// Offsets of the left operand's rows, of which the last one takes the places where others are
    /// missing, of the right one's columns, and of both in the result.
    rows: &'a [isize],
    columns: &'a [isize],
    to_rows: &'a [isize],
    to_columns: &'a [isize],
    /// Offsets along the common axes in packed panels.
    steps: [&'a [isize]; 2],
    packed: [*mut T; 2],
    sums: *mut T,
    /// Room for two lines of sums.
    line: *mut T,
    /// Whether columns of the result lie side by side, and take sums as they are.
    in_place: bool,
}

impl<'a, T: Sum> Block<'a, T> {
    /// # Safety
    /// The block is one of the work's, and the worker has its room, for panels of `width` columns.
    unsafe fn new(w: &'a Work<'a, T>, block: usize, worker: usize, width: usize) -> Self {
        let all = w.line.map_or(w.n, |line| line.extent());
        let (down, across) = (w.m.div_ceil(w.high), all.div_ceil(w.wide));
        let many = w.line.map_or(1, |line| line.many);
        let each = down * many * across;
        let (batch, rest) = (block / each, block % each);
        let (i0, rest) = (rest / (many * across) * w.high, rest % (many * across));
        let (other, j0) = (rest / across, rest % across * w.wide);
        let (mc, nc) = ((w.m - i0).min(w.high), (all - j0).min(w.wide));
        let (high, wide) = (w.high.next_multiple_of(ROWS), w.wide + 3 * lanes::<T>());
        // SAFETY: room was made for all of this; offsets are those of elements.
        let (left, right, sums, line, mut tables) = unsafe {
            let left = w.room.add(worker * w.each).cast::<T>();
            let right = left.add(high * deepest::<T>());
            let sums = right.add(wide * deepest::<T>());
            let line = sums.add(high * wide);
            let tables = line.add(2 * wide).cast::<isize>();
            (left, right, sums, line, tables)
        };
        let mut table = |n: usize| {
            // SAFETY: room was made for all of this; offsets are those of elements.
            unsafe {
                let table = std::slice::from_raw_parts_mut(tables, n);
                tables = tables.add(n);
                table
            }
        };
        let (rows, to_rows) = (table(mc.next_multiple_of(ROWS)), table(mc));
        offsets(&w.plan.rows, 0, i0, &mut rows[..mc]);
        offsets(&w.plan.rows, 2, i0, to_rows);
        let last = rows[mc - 1];
        rows[mc..].fill(last);
        let [mut b, mut first] = [1, 2].map(|k| offset(&w.plan.batch, k, batch));
        let listed = if w.line.is_some() { 0 } else { nc };
        let (columns, to_columns) = (table(listed), table(listed));
        offsets(&w.plan.columns, 1, j0, columns);
        offsets(&w.plan.columns, 2, j0, to_columns);
        if let Some(line) = &w.line {
            let others = &w.plan.columns[..line.axes];
            b += offset(others, 1, other);
            first += offset(others, 2, other);
        }
        let deep = w.k.min(deepest::<T>());
        let steps = [ROWS, width].map(|step| {
            let steps = table(deep);
            (steps.iter_mut().zip(0..)).for_each(|(at, p)| *at = p * step as isize);
            &*steps
        });
        let beside = w.line.is_none() && to_columns.windows(2).all(|w| w[1] == w[0] + 1);
        // SAFETY: room was made for all of this; offsets are those of elements.
        unsafe {
            Self {
                w,
                a: w.a.offset(offset(&w.plan.batch, 0, batch)),
                b: w.b.offset(b),
                first,
                j0,
                all,
                nc,
                mc,
                width,
                rows,
                columns,
                to_rows,
                to_columns,
                steps,
                packed: [left, right],
                sums,
                line,
                in_place: beside && w.kind == T::KIND && w.k > 0,
            }
        }
    }

    /// Panels of rows and of columns.
    fn panels(&self) -> [usize; 2] {
        [self.mc.div_ceil(ROWS), self.nc.div_ceil(self.width)]
    }

    /// Returns whether a tile is summed where the result is.
    fn whole(&self, rows: usize, panel: usize) -> bool {
        self.in_place && (rows + 1) * ROWS <= self.mc && (panel + 1) * self.width <= self.nc
    }

    /// The first column of a panel, from the block's first one on: where columns are read as they lie,
    /// the last panel ends where these do.
    fn begin(&self, panel: usize) -> isize {
        let begin = (panel * self.width) as isize;
        match self.w.line {
            Some(_) => begin.min((self.all - self.width) as isize - self.j0 as isize),
            None => begin,
        }
    }

    /// The sums of a panel's columns, in so many rows from a panel's first one on.
    unsafe fn sums_at(&self, rows: usize, panel: usize) -> *mut T {
        let [_, panels] = self.panels();
        // SAFETY: there is room for all sums.
        unsafe {
            self.sums
                .add((rows / ROWS * panels + panel) * ROWS * self.width + rows % ROWS * self.width)
        }
    }

    /// Packs the panels of the operands at some places of the common axes that are not read where they
    /// lie.
    #[inline(always)]
    unsafe fn pack(&self, [along_a, along_b]: [&[isize]; 2]) {
        let ([panels_a, panels_b], deep) = (self.panels(), along_a.len());
        // SAFETY: offsets are those of elements, and there is room for the panels.
        unsafe {
            for panel in (0..panels_a).filter(|_| !self.w.rows_lie) {
                let rows = &self.rows[panel * ROWS..self.mc.min((panel + 1) * ROWS)];
                let to = self.packed[0].add(panel * ROWS * deep);
                pack::<T, ROWS>(self.a, rows, along_a, to);
            }
            if self.w.line.is_some() {
                return;
            }
            for (places, first) in along_b.chunks(PLACES).zip((0..).step_by(PLACES)) {
                for panel in 0..panels_b {
                    let end = self.nc.min((panel + 1) * self.width);
                    let columns = &self.columns[panel * self.width..end];
                    let to = self.packed[1].add((panel * deep + first) * self.width);
                    pack_wide::<T>(self.b, columns, places, to, self.width);
                }
            }
        }
    }

    /// Writes the sums that are not where the result is.
    #[inline(always)]
    unsafe fn write(&self) {
        let (w, [_, panels]) = (self.w, self.panels());
        for (i, &row) in self.to_rows.iter().enumerate() {
            let mut done = 0;
            // SAFETY: there are sums for all columns, and room for a line of them and of elements.
            unsafe {
                for panel in 0..panels {
                    if self.whole(i / ROWS, panel) {
                        done = (panel + 1) * self.width;
                        continue;
                    }
                    // Of a panel that begins before the block, the end.
                    let begin = self.begin(panel);
                    let before = (-begin).max(0) as usize;
                    let from = self.sums_at(i, panel).add(before);
                    let to = self.line.add(begin.max(0) as usize);
                    std::ptr::copy_nonoverlapping(from, to, self.width - before);
                }
            }
            // SAFETY: there are sums for all columns, and room for a line of them and of elements.
            unsafe {
                if let Some(lines) = &w.line {
                    let columns = (self.j0, self.nc);
                    lines.put(self.line, columns, w.c, self.first + row, w.kind);
                } else if done < self.nc {
                    let room = self.line.add(w.wide + 3 * lanes::<T>());
                    let columns = &self.to_columns[done..];
                    put(
                        (self.line.add(done), room),
                        columns,
                        w.c,
                        self.first + row,
                        w.kind,
                    );
                }
            }
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
    // SAFETY: the block is one of the work's, in whose room there are sums for all of its panels, and
    // offsets are those of elements.
    unsafe {
        let block = Block::new(w, block, worker, width);
        let [panels_a, panels_b] = block.panels();
        if w.k == 0 {
            for i in 0..panels_a * ROWS * panels_b * width {
                *block.sums.add(i) = T::default();
            }
        }
        for p0 in (0..w.k).step_by(deepest::<T>()) {
            let deep = (w.k - p0).min(deepest::<T>());
            let along = w.along.map(|t| std::slice::from_raw_parts(t.add(p0), deep));
            block.pack(along);
            for (panel, rows) in (0..panels_b).flat_map(|p| (0..panels_a).map(move |r| (p, r))) {
                let right = match &w.line {
                    Some(_) => {
                        let from = block.b.add(block.j0).offset(block.begin(panel));
                        (from, along[1])
                    }
                    None => {
                        let from = block.packed[1].add(panel * width * deep);
                        (from.cast_const(), block.steps[1])
                    }
                };
                let whole = block.whole(rows, panel);
                let mut to = [block.sums; ROWS];
                for (i, to) in to.iter_mut().enumerate() {
                    *to = match whole {
                        true => {
                            let row = block.first + block.to_rows[rows * ROWS + i];
                            w.c.cast::<T>()
                                .offset(row + block.to_columns[panel * width])
                        }
                        false => block.sums_at(rows * ROWS + i, panel),
                    };
                }
                let (more, count) = (p0 > 0, block.mc - rows * ROWS);
                // Few rows fill low tiles.
                let each = if count <= 4 { 4 } else { tile_rows::<S>() };
                for i in (0..ROWS.min(count)).step_by(each) {
                    let to = &to[i..];
                    let left = match w.rows_lie {
                        true => (block.a, &block.rows[rows * ROWS + i..], along[0]),
                        false => {
                            let from = block.packed[0].add(rows * ROWS * deep + i);
                            (from.cast_const(), &NEXT[..], &block.steps[0][..deep])
                        }
                    };
                    let packed = !w.rows_lie && w.line.is_none();
                    match (each, nv) {
                        (8, 1) => either::<S, T, 8, 1>(packed, left, right, to, more),
                        (8, 2) => either::<S, T, 8, 2>(packed, left, right, to, more),
                        (8, _) => either::<S, T, 8, 3>(packed, left, right, to, more),
                        (_, 1) => either::<S, T, 4, 1>(packed, left, right, to, more),
                        (_, 2) => either::<S, T, 4, 2>(packed, left, right, to, more),
                        _ => either::<S, T, 4, 3>(packed, left, right, to, more),
                    }
                }
            }
        }
        block.write();
    }
}

/// Writes a line of sums to its positions in the result; there is room for a line of its elements.
#[inline(always)]
unsafe fn put<T: Sum>(
    (line, room): (*const T, *mut T),
    columns: &[isize],
    c: *mut u8,
    row: isize,
    kind: Kind,
) {
    let (size, n) = (kind.size(), columns.len());
    // SAFETY: line and room have as many elements as there are columns, and the result a place for
    // each.
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

/// A tile of packed panels, whose offsets need no registers, or of any.
#[inline(always)]
unsafe fn either<S: Wide, T: Sums<S>, const MR: usize, const NV: usize>(
    packed: bool,
    left: (*const T, &[isize], &[isize]),
    right: (*const T, &[isize]),
    sums: &[*mut T],
    more: bool,
) {
    // SAFETY: as for `tile`.
    unsafe {
        match packed {
            true => tile::<S, T, MR, NV, true>(left, right, sums, more),
            false => tile::<S, T, MR, NV, false>(left, right, sums, more),
        }
    }
}

/// Sums `MR` rows by `NV` vectors, with `more` onto the sums that are there. Of the left operand the
/// rows' offsets are given, of both the offsets along the common axes; they are those of panels if
/// both are `PACKED`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn tile<S: Wide, T: Sums<S>, const MR: usize, const NV: usize, const PACKED: bool>(
    (mut a, rows, along_a): (*const T, &[isize], &[isize]),
    (mut b, along_b): (*const T, &[isize]),
    sums: &[*mut T],
    more: bool,
) {
    let width = NV * <T as Sums<S>>::V::LANES;
    // SAFETY: both operands have elements at the offsets, the right one vectors; so many rows of sums
    // have the vectors.
    unsafe {
        let mut acc = [[<T as Sums<S>>::V::splat(T::default()); NV]; MR];
        let mut apart = [0; MR];
        apart.copy_from_slice(&rows[..MR]);
        for (&p, &q) in along_a.iter().zip(along_b) {
            let (mut left, right) = match PACKED {
                true => (a, b),
                false => (a.offset(p), b.offset(q)),
            };
            let mut row = [<T as Sums<S>>::V::splat(T::default()); NV];
            for v in 0..NV {
                row[v] = <T as Sums<S>>::V::load(right.add(v * <T as Sums<S>>::V::LANES));
            }
            for i in 0..MR {
                let at = if PACKED { i as isize } else { apart[i] };
                let x = <T as Sums<S>>::V::splat(*left.offset(at));
                for v in 0..NV {
                    acc[i][v] = x.fma(row[v], acc[i][v]);
                    if MR * NV >= CROWDED {
                        left = <T as Sums<S>>::V::pinned(left, &mut acc[i][v]);
                    }
                }
            }
            if PACKED {
                (a, b) = (left.add(ROWS), b.add(width));
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

//! The innermost part of matrix products and convolutions: one tile of the result, kept in
//! registers during the summation over the common axis.

use super::epilogue::Target;
use crate::kernels::simd::Simd;

/// Rows of a panel of A.
pub const ROWS: usize = 8;
/// Columns of a panel of B.
pub const COLS: usize = 16;

/// The number of sums from which on a tile leaves few of sixteen registers.
pub(crate) const CROWDED: usize = 8;

/// The layout of B's columns as the tile reads them: column group `g` (16 columns) of row `p`
/// starts at `ptr + g * group + p * row`, plus the start of each run.
#[derive(Clone, Copy)]
pub struct Columns {
    /// First element of a group.
    pub ptr: *const f32,
    /// The first column in that group.
    pub lane: usize,
    /// The distance from one group of 16 columns to the next.
    pub group: usize,
    /// The distance from one row to the next.
    pub row: usize,
    /// The start of each run of rows; the runs are consecutive along the common axis.
    pub starts: *const usize,
    /// The number of runs.
    pub runs: usize,
    /// What is read after these columns, so many floats of which are brought to the caches while
    /// these are multiplied.
    pub ahead: (*const f32, usize),
    /// How many of them with each row of a tile.
    pub pace: usize,
}

/// The start of the only run, where all rows are consecutive.
static AT_ONCE: usize = 0;

impl Columns {
    /// Columns whose rows are all consecutive.
    pub fn of(ptr: *const f32, group: usize, row: usize) -> Self {
        Self {
            ptr,
            lane: 0,
            group,
            row,
            starts: &AT_ONCE,
            runs: 1,
            ahead: (ptr, 0),
            pace: 0,
        }
    }

    /// The same from a later column on.
    ///
    /// # Safety
    /// There are at least `column` columns.
    #[inline(always)]
    pub unsafe fn from(self, column: usize) -> Self {
        let column = self.lane + column;
        // SAFETY: there is such a column in the panels.
        let ptr = unsafe { self.ptr.add(column / COLS * self.group) };
        Self {
            ptr,
            lane: column % COLS,
            ..self
        }
    }
}

/// Sums `k` steps of each run of B's rows, for `MR` rows by `NV` vectors.
///
/// `a` points into a panel of A, with `step` floats from one step to the next (8, or a row's own
/// stride). `columns` of the target's columns are stored, at most `NV * LANES`; all of the vectors
/// are read.
///
/// # Safety
/// The operands have `k` steps of the tile's size, the target its rows and columns, and the
/// instruction set of `S` is enabled.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn tile<S: Simd, const MR: usize, const NV: usize>(
    k: usize,
    (a, step): (*const f32, usize),
    b: Columns,
    columns: usize,
    target: &Target,
) {
    // SAFETY: `a` has `MR` rows and `b` the vectors' columns, each `k` long, and the target has a
    // place for each.
    unsafe {
        let mut acc = [[S::splat(0.0); NV]; MR];
        // Where the vectors lie, from the first one on.
        let place = |v: usize| {
            let column = b.lane + v * S::LANES;
            column / COLS * b.group + column % COLS
        };
        let first = b.ptr.wrapping_add(place(0));
        let mut beside = [0; NV];
        for (v, beside) in beside.iter_mut().enumerate() {
            *beside = place(v).wrapping_sub(place(0));
        }
        let (mut a, mut ahead) = (a, b.ahead.0);
        let (mut runs, mut starts) = (b.runs, b.starts);
        let (mut at, mut left);
        // One loop over the steps of all runs: the sums of loops inside of each other would go
        // through memory from one to the other.
        macro_rules! step {
            ($steps:lifetime) => {{
                let mut row = [S::splat(0.0); NV];
                for v in 0..NV {
                    row[v] = S::load(at.wrapping_add(beside[v]));
                }
                for i in 0..MR {
                    let x = S::splat(*a.add(i));
                    for v in 0..NV {
                        acc[i][v] = x.fma(row[v], acc[i][v]);
                        if MR * NV >= CROWDED {
                            a = S::pinned(a, &mut acc[i][v]);
                        }
                    }
                }
                at = at.wrapping_add(b.row);
                a = a.wrapping_add(step);
                S::prefetch(ahead);
                ahead = ahead.wrapping_add(b.pace);
                left -= 1;
                if left == 0 {
                    runs -= 1;
                    if runs == 0 {
                        break $steps;
                    }
                    starts = starts.add(1);
                    (at, left) = (first.wrapping_add(*starts), k);
                }
            }};
        }
        'steps: {
            if k == 0 || runs == 0 {
                break 'steps;
            }
            (at, left) = (first.wrapping_add(*starts), k);
            // The stores at the end would wait for their lines one after the other; asked for all
            // at once, these would keep the first rows of B waiting. A loop of its own: a question
            // and a jump in each step cost processors that decode few instructions at a time (Zen 2)
            // a sixth.
            let mut written = target.c;
            for _ in 0..MR {
                step!('steps);
                for v in 0..NV {
                    S::prefetch_to_write(written.wrapping_add(v * S::LANES));
                }
                written = written.wrapping_add(target.ld);
            }
            loop {
                step!('steps);
            }
        }
        put(acc, columns, target);
    }
}

/// Applies a target's operations to sums in registers, one after the other to all of them, and
/// stores them.
///
/// # Safety
/// As for `tile`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
pub(crate) unsafe fn put<S: Simd, const MR: usize, const NV: usize>(
    mut acc: [[S; NV]; MR],
    columns: usize,
    target: &Target,
) {
    // The columns of the last vector.
    let last = columns - (NV - 1) * S::LANES;
    macro_rules! each {
        ($op:ident, $from:expr, $ld:expr) => {
            for i in 0..MR {
                for v in 0..NV {
                    let n = if v + 1 < NV { S::LANES } else { last };
                    let from = $from.wrapping_add(i * $ld + v * S::LANES);
                    acc[i][v] = acc[i][v].$op(S::load_part(from, n));
                }
            }
        };
    }
    macro_rules! along {
        ($op:ident, $from:expr, $by_row:expr) => {
            if $by_row {
                for i in 0..MR {
                    let x = S::splat(*$from.add(i));
                    for v in 0..NV {
                        acc[i][v] = acc[i][v].$op(x);
                    }
                }
            } else {
                each!($op, $from, 0);
            }
        };
    }
    // SAFETY: the target has these rows and columns.
    unsafe {
        if target.accumulate {
            each!(add, target.c.cast_const(), target.ld);
        }
    }
    if let Some(e) = &target.epilogue {
        // SAFETY: the instruction set of `S` is enabled here.
        unsafe {
            if !e.offset.is_null() {
                along!(add, e.offset, e.by_row());
            }
            if !e.scale.is_null() {
                along!(mul, e.scale, e.by_row());
            }
            if !e.bias.is_null() {
                along!(add, e.bias, e.by_row());
            }
            if !e.residual.is_null() {
                each!(add, e.residual, e.residual_ld as usize);
            }
            if let Some(bounds) = e.bounds() {
                bounds.splat::<S>().of_tile(&mut acc);
            }
            if e.rounds() {
                for i in 0..MR {
                    for v in 0..NV {
                        acc[i][v] = acc[i][v].half();
                    }
                }
            }
        }
    }
    // SAFETY: the target has these rows and columns.
    unsafe {
        for i in 0..MR {
            let c = target.c.wrapping_add(i * target.ld);
            for v in 0..NV - 1 {
                acc[i][v].store(c.add(v * S::LANES));
            }
        }
        if last == S::LANES {
            for i in 0..MR {
                acc[i][NV - 1].store(target.c.add(i * target.ld + (NV - 1) * S::LANES));
            }
        } else {
            for i in 0..MR {
                let c = target.c.add(i * target.ld + (NV - 1) * S::LANES);
                acc[i][NV - 1].store_part(c, last);
            }
        }
    }
}

/// One tile of `rows` (at most `S::MR`) by `columns` (at most `S::NV` vectors).
///
/// # Safety
/// As for `tile`.
#[inline(always)]
pub unsafe fn run<S: Simd>(
    rows: usize,
    columns: usize,
    k: usize,
    a: *const f32,
    b: Columns,
    target: &Target,
) {
    let vectors = columns.div_ceil(S::LANES);
    macro_rules! pick {
        ($($mr:literal)*; $($nv:literal)*) => { pick!(@ [$($mr)*] [$($nv)*]) };
        (@ [$($mr:literal)*] $nvs:tt) => {
            match rows { $($mr if $mr <= S::MR => pick!(# $mr $nvs),)* _ => {} }
        };
        (# $mr:literal [$($nv:literal)*]) => {
            match vectors {
                // SAFETY: `a` has the tile's rows and `b` its columns, each `k` long, and the
                // target has a place for each.
                $($nv if $nv <= S::NV => unsafe { tile::<S, $mr, $nv>(k, (a, ROWS), b, columns, target) },)*
                _ => {}
            }
        };
    }
    pick!(1 2 3 4 5 6 7 8; 1 2 3);
}

/// A tile of a whole panel's rows by one vector.
///
/// # Safety
/// As for `tile`.
#[inline(always)]
pub unsafe fn tall<S: Simd>(columns: usize, k: usize, a: *const f32, b: Columns, target: &Target) {
    // SAFETY: `a` has a panel's rows and `b` a vector of columns, each `k` long, and the target has
    // a place for each.
    unsafe { tile::<S, ROWS, 1>(k, (a, ROWS), b, columns, target) };
}

/// A tile of one row and many columns, at most eight vectors: this is memory-bound.
///
/// # Safety
/// As for `tile`.
#[inline(always)]
pub unsafe fn row<S: Simd>(
    columns: usize,
    k: usize,
    a: (*const f32, usize),
    b: Columns,
    target: &Target,
) {
    // SAFETY: `a` has a row and `b` the columns, each `k` long, and the target has a place for
    // each.
    unsafe {
        match columns.div_ceil(S::LANES) {
            1 => tile::<S, 1, 1>(k, a, b, columns, target),
            2 => tile::<S, 1, 2>(k, a, b, columns, target),
            3 | 4 if columns > 3 * S::LANES => tile::<S, 1, 4>(k, a, b, columns, target),
            3 => tile::<S, 1, 3>(k, a, b, columns, target),
            8 => tile::<S, 1, 8>(k, a, b, columns, target),
            _ => {
                let first = 4 * S::LANES;
                tile::<S, 1, 4>(k, a, b, first, target);
                let groups = first / COLS * b.group + first % COLS;
                let rest = Columns {
                    ptr: b.ptr.add(groups),
                    ..b
                };
                row_tail::<S>(columns - first, k, a, rest, &target.shift(0, first));
            }
        }
    }
}

#[inline(always)]
unsafe fn row_tail<S: Simd>(
    columns: usize,
    k: usize,
    a: (*const f32, usize),
    b: Columns,
    target: &Target,
) {
    // SAFETY: `a` has a row and `b` the columns, each `k` long, and the target has a place for
    // each.
    unsafe {
        match columns.div_ceil(S::LANES) {
            1 => tile::<S, 1, 1>(k, a, b, columns, target),
            2 => tile::<S, 1, 2>(k, a, b, columns, target),
            3 => tile::<S, 1, 3>(k, a, b, columns, target),
            _ => tile::<S, 1, 4>(k, a, b, columns, target),
        }
    }
}

/// The last columns of one row by a B read in place, fewer than 16: nothing after them is read.
///
/// # Safety
/// As for [`row`], with a B whose rows have just `columns` columns here.
#[inline(always)]
pub unsafe fn row_rest<S: Simd>(
    columns: usize,
    k: usize,
    (a, step): (*const f32, usize),
    b: Columns,
    target: &Target,
) {
    // SAFETY: `a` has a row and `b` the columns, each `k` long, and the target has a place for
    // each.
    unsafe {
        let mut j = 0;
        while j < columns {
            let part = (columns - j).min(S::LANES);
            let mut acc = S::splat(0.0);
            for p in 0..k {
                let row = S::load_part(b.ptr.add(p * b.row + j), part);
                acc = S::splat(*a.add(p * step)).fma(row, acc);
            }
            target.shift(0, j).finish::<S>(&acc, 1, 1, part);
            j += part;
        }
    }
}

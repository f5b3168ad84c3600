//! Contractions with little reuse: strips of the result whose operands are read in place, or sums
//! of products along the summed axis.

use super::line::Line;
use super::packed::lanes;
use super::plan::{Axis, Plan, Way, count, offset, offsets};
use super::{Everywhere, Sums};
use crate::context::RxContext;
use crate::kernels::kinds::Kind;
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{
    dispatch_of,
    wide::{Vector, Wide},
};
use crate::threads::{Grain, Share};

/// Elements of a strip.
const STRIP: usize = 512;
/// Vectors that are summed at a time.
const VECTORS: usize = 4;
/// Sums of products of two rows that are made at a time, so that memory is read in several places,
/// and the vectors of each: whatever is summed beside it, the order is the same.
const DOTS: usize = 4;
const PARTS: usize = 2;
/// Numbers of products from which those of a whole strip are added at a time, [`ROWS`] of each: as
/// few columns of many rows as registers hold would be read with a long step.
const MANY: usize = 32;
const ROWS: usize = 4;
/// Short strips whose sums are made together, so that they do not wait for one another, and the
/// most elements of each.
const TOGETHER: usize = 8;
const SHORT: usize = 64;
/// The number of multiplications below which no thread is woken.
const SMALL: usize = 1 << 16;

/// The data that the threads share.
struct Work<'a, T> {
    a: *const T,
    b: *const T,
    c: *mut u8,
    kind: Kind,
    /// The axes of the result but the one that strips run along.
    outer: &'a [Axis],
    inner: Axis,
    /// The lines that a strip is made of, with what lies between them.
    lines: Option<Line>,
    /// Offsets of both operands at the indices of the summed axes; for sums along the last one, of
    /// the others.
    along: [&'a [isize]; 2],
    /// The length of the last summed axis, where sums run along it.
    run: usize,
    /// The greatest offsets that both operands are read at.
    last: [isize; 2],
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
    let dots = plan.way == Way::Dots;
    let (summed, run) = match plan.summed.split_last() {
        Some((last, before)) if dots => (before, last.extent),
        _ => (&plan.summed[..], 1),
    };
    let (mut outer, mut inner) = plan.outer();
    if dots {
        outer.push(inner);
        inner = Axis {
            extent: 1,
            steps: [0; 3],
        };
    }
    let lines = lines(&outer, inner, dots, lanes::<T>());
    if let Some(line) = &lines {
        outer.truncate(line.axes);
        inner.extent = line.extent();
        inner.steps[2] = 0;
    }
    let k = count(summed);
    let Some(tables) = Scratch::new(context, 2 * k * size_of::<isize>()) else {
        return context.status;
    };
    let table = tables.memory.cast::<isize>();
    // SAFETY: the tables are as large; every task writes its own part of the result.
    let along = unsafe { [0, 1].map(|x| std::slice::from_raw_parts_mut(table.add(x * k), k)) };
    let [of_a, of_b] = along;
    if k > 0 {
        offsets(summed, 0, 0, of_a);
        offsets(summed, 1, 0, of_b);
    }
    let work = Work {
        a,
        b,
        c,
        kind,
        outer: &outer,
        inner,
        lines,
        along: [of_a, of_b],
        run,
        last: [0, 1].map(|k| plan.reach_of(k).1),
    };
    let strips = inner.extent.div_ceil(STRIP);
    let tasks = count(&outer) * strips;
    let each = inner.extent.min(STRIP) * (k * run).max(1);
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new(&work) };
    // SAFETY: the tables are as large; every task writes its own part of the result.
    unsafe {
        context.pool.each(tasks, Grain::of_work(SMALL, each), |begin, end, _| {
            let work: &Work<'_, T> = shared.get();
            if dots {
                dispatch_of!(sums_of<T: Everywhere>(work: &Work<'_, T>, begin: usize, end: usize));
            } else {
                dispatch_of!(strips_of<T: Everywhere>(work: &Work<'_, T>, begin: usize, end: usize));
            }
        });
    }
    0
}

/// Short strips that are better computed as one, because the operand that moves along them does so
/// from one to the next, and the other one is one number for all.
fn lines(outer: &[Axis], inner: Axis, dots: bool, lanes: usize) -> Option<Line> {
    let moving = match inner.steps {
        [0, 1, 1] => 1,
        [1, 0, 1] => 0,
        _ => return None,
    };
    let before = outer.last()?;
    if dots || inner.extent > SHORT || before.steps[1 - moving] != 0 {
        return None;
    }
    let all = [outer, &[inner]].concat();
    let line = Line::of(&all, moving).filter(|line| line.lines > 1)?;
    let apart = line.lines * line.inner.next_multiple_of(lanes);
    (line.extent() <= apart + apart / 4).then_some(line)
}

/// The access pattern of an operand along a strip.
#[derive(Clone, Copy, PartialEq)]
enum Read {
    /// The same element in all lanes.
    One,
    /// Adjacent elements.
    Beside,
    /// Elements with this stride.
    Apart(isize),
}

fn read(step: isize) -> Read {
    match step {
        0 => Read::One,
        1 => Read::Beside,
        step => Read::Apart(step),
    }
}

#[inline(always)]
unsafe fn strips_of<S: Wide, T: Sums<S>>(w: &Work<'_, T>, begin: usize, end: usize) {
    let lanes = <T as Sums<S>>::V::LANES;
    let strips = w.inner.extent.div_ceil(STRIP);
    let (ra, rb) = (read(w.inner.steps[0]), read(w.inner.steps[1]));
    let mut line = [T::default(); STRIP + 64];
    let to = line.as_mut_ptr();
    // SAFETY: tasks are strips of the result, and operands have what the offsets name.
    unsafe {
        let mut begin = begin;
        if w.inner.extent < VECTORS * lanes && w.lines.is_none() {
            begin = match (ra, rb) {
                (Read::One, Read::Beside) => short::<S, T, true>(w, [0, 1], begin, end),
                (Read::Beside, Read::One) => short::<S, T, true>(w, [1, 0], begin, end),
                (Read::Beside, Read::Beside) => short::<S, T, false>(w, [0, 1], begin, end),
                _ => begin,
            };
        }
        for task in begin..end {
            let (row, first) = (task / strips, task % strips * STRIP);
            let n = (w.inner.extent - first).min(STRIP);
            let at = [0, 1, 2].map(|x| offset(w.outer, x, row) + first as isize * w.inner.steps[x]);
            let (a, b) = (w.a.offset(at[0]), w.b.offset(at[1]));
            let mut j = 0;
            if w.along[0].len() >= MANY && n >= VECTORS * lanes {
                j = n / lanes * lanes;
                match (ra, rb) {
                    (Read::One, Read::Beside) => rows::<S, T>(w.along, (a, b), j, to),
                    (Read::Beside, Read::One) => {
                        rows::<S, T>([w.along[1], w.along[0]], (b, a), j, to);
                    }
                    _ => j = 0,
                }
            }
            while j < n {
                let whole = n - j >= VECTORS * lanes;
                if n - j < lanes && n >= lanes {
                    // A whole vector, some of whose elements are there already.
                    j = n - lanes;
                }
                let part = if whole {
                    VECTORS * lanes
                } else {
                    (n - j).min(lanes)
                };
                let to = to.add(j);
                match (ra, rb) {
                    (Read::One, Read::Beside) if whole => {
                        sum::<S, T, VECTORS, true>(w, a, b.add(j), to);
                    }
                    (Read::One, Read::Beside) if part == lanes => {
                        sum::<S, T, 1, true>(w, a, b.add(j), to)
                    }
                    (Read::Beside, Read::One) if whole => {
                        sum_turned::<S, T, VECTORS>(w, a.add(j), b, to);
                    }
                    (Read::Beside, Read::One) if part == lanes => {
                        sum_turned::<S, T, 1>(w, a.add(j), b, to)
                    }
                    (Read::Beside, Read::Beside) if whole => {
                        sum::<S, T, VECTORS, false>(w, a.add(j), b.add(j), to);
                    }
                    (Read::Beside, Read::Beside) if part == lanes => {
                        sum::<S, T, 1, false>(w, a.add(j), b.add(j), to);
                    }
                    _ => gathered::<S, T>(w, (a, ra), (b, rb), j, part, to),
                }
                j += part;
            }
            if let Some(lines) = &w.lines {
                lines.put(line.as_ptr(), (first, n), w.c, at[2], w.kind);
                continue;
            }
            let to = w.c.offset(at[2] * w.kind.size() as isize);
            if w.kind == T::KIND && (w.inner.steps[2] == 1 || n == 1) {
                std::ptr::copy_nonoverlapping(line.as_ptr(), to.cast::<T>(), n);
            } else {
                T::narrow(w.kind, n, line.as_ptr(), to);
            }
        }
    }
}

/// Strips from `begin` on that are a few vectors long, [`TOGETHER`] at a time, of operands of which
/// the second lies beside the result, and so does the first unless it is `ONE` number. Returns the
/// first strip that is left: vectors of short strips may reach behind these, but not behind the
/// operands.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn short<S: Wide, T: Sums<S>, const ONE: bool>(
    w: &Work<'_, T>,
    [x, y]: [usize; 2],
    begin: usize,
    end: usize,
) -> usize {
    let (n, lanes) = (w.inner.extent, <T as Sums<S>>::V::LANES);
    let beyond = lanes.saturating_sub(n) as isize;
    let far = [0, 1].map(|k| w.along[k].iter().copied().max().unwrap_or(0));
    let mut lines = [[T::default(); SHORT]; TOGETHER];
    for task in (begin..end).step_by(TOGETHER) {
        let many = (end - task).min(TOGETHER);
        let mut at = [[0; TOGETHER]; 3];
        for (k, at) in at.iter_mut().enumerate() {
            offsets(w.outer, k, task, &mut at[..many]);
            // Where fewer are left, the last one takes the other places.
            let last = at[many - 1];
            at[many..].fill(last);
        }
        let inside = |k: usize| {
            let reach = far[k] + (n as isize - 1) + beyond;
            at[k].iter().all(|at| at + reach <= w.last[k])
        };
        if !inside(y) || !ONE && !inside(x) {
            return task;
        }
        let data = [w.a, w.b];
        let mut j = 0;
        loop {
            // SAFETY: the instruction set of `S` is enabled here.
            let mut acc = unsafe { [<T as Sums<S>>::V::splat(T::default()); TOGETHER] };
            // SAFETY: tasks are strips of the result, and operands have what the offsets name, and
            // whole vectors there.
            unsafe {
                for (p, q) in w.along[x].iter().zip(w.along[y]) {
                    let (p, q) = (data[x].offset(*p), data[y].offset(*q + j as isize));
                    for d in 0..TOGETHER {
                        let from = p.offset(at[x][d]);
                        let number = match ONE {
                            true => <T as Sums<S>>::V::splat(*from),
                            false => <T as Sums<S>>::V::load(from.add(j)),
                        };
                        let row = <T as Sums<S>>::V::load(q.offset(at[y][d]));
                        acc[d] = number.fma(row, acc[d]);
                    }
                }
                for d in 0..TOGETHER {
                    acc[d].store(lines[d].as_mut_ptr().add(j));
                }
            }
            if j + lanes >= n {
                break;
            }
            j = (j + lanes).min(n - lanes);
        }
        // SAFETY: tasks are strips of the result, and operands have what the offsets name, and
        // whole vectors there.
        unsafe {
            for d in 0..many {
                let to = w.c.offset(at[2][d] * w.kind.size() as isize);
                T::narrow(w.kind, n, lines[d].as_ptr(), to);
            }
        }
    }
    end
}

/// Adds up rows of `n` elements, whole vectors, each multiplied by a number.
#[inline(always)]
unsafe fn rows<S: Wide, T: Sums<S>>(
    along: [&[isize]; 2],
    (number, row): (*const T, *const T),
    n: usize,
    to: *mut T,
) {
    let lanes = <T as Sums<S>>::V::LANES;
    // SAFETY: both operands have what the offsets name, the second one `n` elements at each, and
    // `to` room for as many.
    unsafe {
        for i in 0..n {
            *to.add(i) = T::default();
        }
    }
    macro_rules! add {
        ($numbers:expr, $rows:expr, $many:expr) => {{
            let mut x = [<T as Sums<S>>::V::splat(T::default()); $many];
            let mut at = [row; $many];
            for k in 0..$many {
                x[k] = <T as Sums<S>>::V::splat(*number.offset($numbers[k]));
                at[k] = row.offset($rows[k]);
            }
            let mut j = 0;
            while j < n {
                let mut sum = <T as Sums<S>>::V::load(to.add(j));
                for k in 0..$many {
                    sum = x[k].fma(<T as Sums<S>>::V::load(at[k].add(j)), sum);
                }
                sum.store(to.add(j));
                j += lanes;
            }
        }};
    }
    let numbers = along[0].chunks(ROWS).zip(along[1].chunks(ROWS));
    // SAFETY: both operands have what the offsets name, the second one `n` elements at each, and
    // `to` room for as many.
    unsafe {
        for (numbers, rows) in numbers {
            if numbers.len() == ROWS {
                add!(numbers, rows, ROWS);
                continue;
            }
            for k in 0..numbers.len() {
                add!(numbers[k..], rows[k..], 1);
            }
        }
    }
}

/// Sums of `NV` vectors; with `ONE`, the left operand is broadcast.
#[inline(always)]
unsafe fn sum<S: Wide, T: Sums<S>, const NV: usize, const ONE: bool>(
    w: &Work<'_, T>,
    a: *const T,
    b: *const T,
    to: *mut T,
) {
    let lanes = <T as Sums<S>>::V::LANES;
    // SAFETY: `a` and `b` have what the offsets name, and a vector at each.
    unsafe {
        let mut acc = [<T as Sums<S>>::V::splat(T::default()); NV];
        for (p, q) in w.along[0].iter().zip(w.along[1]) {
            let (a, b) = (a.offset(*p), b.offset(*q));
            let mut x = <T as Sums<S>>::V::splat(*a);
            for (v, acc) in acc.iter_mut().enumerate() {
                if !ONE {
                    x = <T as Sums<S>>::V::load(a.add(v * lanes));
                }
                *acc = x.fma(<T as Sums<S>>::V::load(b.add(v * lanes)), *acc);
            }
        }
        for (v, acc) in acc.iter().enumerate() {
            acc.store(to.add(v * lanes));
        }
    }
}

/// Like `sum`, with the right operand broadcast.
#[inline(always)]
unsafe fn sum_turned<S: Wide, T: Sums<S>, const NV: usize>(
    w: &Work<'_, T>,
    a: *const T,
    b: *const T,
    to: *mut T,
) {
    let lanes = <T as Sums<S>>::V::LANES;
    // SAFETY: `a` and `b` have what the offsets name, and a vector at each.
    unsafe {
        let mut acc = [<T as Sums<S>>::V::splat(T::default()); NV];
        for (p, q) in w.along[0].iter().zip(w.along[1]) {
            let (a, x) = (a.offset(*p), <T as Sums<S>>::V::splat(*b.offset(*q)));
            for (v, acc) in acc.iter_mut().enumerate() {
                *acc = x.fma(<T as Sums<S>>::V::load(a.add(v * lanes)), *acc);
            }
        }
        for (v, acc) in acc.iter().enumerate() {
            acc.store(to.add(v * lanes));
        }
    }
}

/// Sums of `n` elements from `j` on, whose operands have any stride: gathered into vectors first.
#[inline(always)]
unsafe fn gathered<S: Wide, T: Sums<S>>(
    w: &Work<'_, T>,
    (a, ra): (*const T, Read),
    (b, rb): (*const T, Read),
    j: usize,
    n: usize,
    to: *mut T,
) {
    let lanes = <T as Sums<S>>::V::LANES;
    // SAFETY: `a` and `b` have what the offsets name, and the columns at each.
    unsafe {
        let mut acc = [<T as Sums<S>>::V::splat(T::default()); VECTORS];
        let (mut xs, mut ys) = ([T::default(); 64], [T::default(); 64]);
        for (p, q) in w.along[0].iter().zip(w.along[1]) {
            gather(a.offset(*p), ra, j, n, xs.as_mut_ptr());
            gather(b.offset(*q), rb, j, n, ys.as_mut_ptr());
            for (v, acc) in acc.iter_mut().enumerate() {
                if v * lanes >= n {
                    break;
                }
                let x = <T as Sums<S>>::V::load(xs.as_ptr().add(v * lanes));
                *acc = x.fma(<T as Sums<S>>::V::load(ys.as_ptr().add(v * lanes)), *acc);
            }
        }
        for (v, acc) in acc.iter().enumerate() {
            if v * lanes < n {
                acc.store(to.add(v * lanes));
            }
        }
    }
}

#[inline(always)]
unsafe fn gather<T: Copy>(from: *const T, read: Read, j: usize, n: usize, to: *mut T) {
    // SAFETY: `from` has what the columns name, and `to` room for `n`.
    unsafe {
        match read {
            Read::One => {
                let x = *from;
                for i in 0..n {
                    *to.add(i) = x;
                }
            }
            Read::Beside => {
                for i in 0..n {
                    *to.add(i) = *from.add(j + i);
                }
            }
            Read::Apart(step) => {
                for i in 0..n {
                    *to.add(i) = *from.offset((j + i) as isize * step);
                }
            }
        }
    }
}

/// Elements of the result, each a sum along the last summed axis.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn sums_of<S: Wide, T: Sums<S>>(w: &Work<'_, T>, begin: usize, end: usize) {
    let lanes = <T as Sums<S>>::V::LANES;
    for first in (begin..end).step_by(DOTS) {
        // Where fewer are left, the last one takes the other places.
        let mut at = [[0; 3]; DOTS];
        for d in 0..DOTS {
            for x in 0..3 {
                at[d][x] = offset(w.outer, x, (first + d).min(end - 1));
            }
        }
        // SAFETY: the instruction set of `S` is enabled here.
        let mut acc = unsafe { [[<T as Sums<S>>::V::splat(T::default()); PARTS]; DOTS] };
        for (p, q) in w.along[0].iter().zip(w.along[1]) {
            let mut from = [(w.a, w.b); DOTS];
            // SAFETY: elements are those of the result, and operands have what the offsets name.
            unsafe {
                for d in 0..DOTS {
                    from[d] = (w.a.offset(at[d][0] + p), w.b.offset(at[d][1] + q));
                }
            }
            let mut i = 0;
            // SAFETY: elements are those of the result, and operands have what the offsets name.
            unsafe {
                while i + PARTS * lanes <= w.run {
                    for d in 0..DOTS {
                        for v in 0..PARTS {
                            let (a, b) =
                                (from[d].0.add(i + v * lanes), from[d].1.add(i + v * lanes));
                            let x = <T as Sums<S>>::V::load(a);
                            acc[d][v] = x.fma(<T as Sums<S>>::V::load(b), acc[d][v]);
                        }
                    }
                    i += PARTS * lanes;
                }
                while i < w.run {
                    let part = (w.run - i).min(lanes);
                    for d in 0..DOTS {
                        let (mut xs, mut ys) = ([T::default(); 16], [T::default(); 16]);
                        gather(from[d].0.add(i), Read::Beside, 0, part, xs.as_mut_ptr());
                        gather(from[d].1.add(i), Read::Beside, 0, part, ys.as_mut_ptr());
                        let x = <T as Sums<S>>::V::load(xs.as_ptr());
                        acc[d][0] = x.fma(<T as Sums<S>>::V::load(ys.as_ptr()), acc[d][0]);
                    }
                    i += part;
                }
            }
        }
        // SAFETY: elements are those of the result, and operands have what the offsets name.
        unsafe {
            for d in 0..DOTS.min(end - first) {
                let mut lane = [T::default(); 16];
                acc[d][0].add(acc[d][1]).store(lane.as_mut_ptr());
                // In pairs, so that rounding errors stay small.
                let mut half = lanes / 2;
                while half > 0 {
                    for i in 0..half {
                        lane[i] = lane[i].plus(lane[i + half]);
                    }
                    half /= 2;
                }
                let to = w.c.offset(at[d][2] * w.kind.size() as isize);
                T::narrow(w.kind, 1, lane.as_ptr(), to);
            }
        }
    }
}

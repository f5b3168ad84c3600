//! Vectors of narrow floats.

use super::{Combiner, FOLDED, Operand, Pair, Running};
use crate::kernels::narrowing::Narrowing;
use std::arch::x86_64::{_CMP_EQ_OQ, _CMP_LE_OQ, _CMP_LT_OQ, _CMP_NEQ_UQ};

/// The most lanes of a vector.
const LANES: usize = 16;

/// See [`super::pairs`].
#[inline(always)]
pub unsafe fn pairs<S: Narrowing, const BRAIN: bool>(
    pair: Pair,
    n: usize,
    a: Operand,
    b: Operand,
    to: *mut u8,
) {
    macro_rules! number {
        ($operand:ident) => {
            match $operand {
                Operand::Lies(_) => S::splat(0.0),
                Operand::One(at) => S::widened_one::<BRAIN>(at),
                Operand::Number(x) => S::splat(x),
            }
        };
    }
    macro_rules! vectors {
        ($operand:ident, $number:ident, $i:expr) => {
            match $operand {
                Operand::Lies(at) => S::widened_two::<BRAIN>(at.add($i)),
                _ => [$number, $number],
            }
        };
    }
    let width = 2 * S::LANES;
    macro_rules! each {
        ($t:ty, |$x:ident, $y:ident, $to:ident| $value:expr, $put:expr) => {{
            // In registers: what lies in an array of vectors goes through memory.
            let (left, right) = (number!(a), number!(b));
            let to = to.cast::<$t>();
            if n >= width {
                // The last ones overlap those before: they are computed before any are written, as
                // the result may lie where an operand does.
                let last = n - width;
                let ($x, $y) = (vectors!(a, left, last), vectors!(b, right, last));
                let end = $value;
                let mut i = 0;
                while i < last {
                    let ($x, $y) = (vectors!(a, left, i), vectors!(b, right, i));
                    let ($to, made) = (to.add(i), $value);
                    $put(made, $to);
                    i += width;
                }
                let $to = to.add(last);
                $put(end, $to);
            } else if n > 0 {
                let (mut lines, mut made) = ([[0u16; 2 * LANES]; 2], [<$t>::default(); 2 * LANES]);
                for (line, operand) in lines.iter_mut().zip([a, b]) {
                    if let Operand::Lies(at) = operand {
                        std::ptr::copy_nonoverlapping(at, line.as_mut_ptr(), n);
                    }
                }
                let [a, b] = [(a, 0), (b, 1)].map(|(operand, k)| match operand {
                    Operand::Lies(_) => Operand::Lies(lines[k].as_ptr()),
                    other => other,
                });
                let ($x, $y) = (vectors!(a, left, 0), vectors!(b, right, 0));
                let ($to, end) = (made.as_mut_ptr(), $value);
                $put(end, $to);
                std::ptr::copy_nonoverlapping(made.as_ptr(), to, n);
            }
        }};
        ($op:ident) => {
            each!(
                u16,
                |x, y, to| [x[0].$op(y[0]), x[1].$op(y[1])],
                S::narrow_two::<BRAIN>
            )
        };
        (exact $op:ident) => {
            each!(
                u16,
                |x, y, to| [x[0].$op(y[0]), x[1].$op(y[1])],
                S::exact_two::<BRAIN>
            )
        };
        (test $predicate:ident) => {
            each!(u8, |x, y, to| (x, y), tested::<S, BRAIN, $predicate>)
        };
    }
    // What is one of two narrow floats needs no rounding.
    let exact = [a, b].iter().all(|x| !matches!(x, Operand::Number(_)));
    // SAFETY: all have `n` elements, and a vector at `i` ends at most there.
    unsafe {
        match pair {
            Pair::Add => each!(add),
            Pair::Sub => each!(sub),
            Pair::Mul => each!(mul),
            Pair::Div => each!(div),
            Pair::Min if exact => each!(exact min),
            Pair::Max if exact => each!(exact max),
            Pair::Min => each!(min),
            Pair::Max => each!(max),
            Pair::Eq => each!(test _CMP_EQ_OQ),
            Pair::Ne => each!(test _CMP_NEQ_UQ),
            Pair::Lt => each!(test _CMP_LT_OQ),
            Pair::Le => each!(test _CMP_LE_OQ),
        }
    }
}

/// See [`Narrowing::test_two`].
#[inline(always)]
unsafe fn tested<S: Narrowing, const BRAIN: bool, const PREDICATE: i32>(
    (a, b): ([S; 2], [S; 2]),
    to: *mut u8,
) {
    // SAFETY: `to` has room for two vectors.
    unsafe { S::test_two::<BRAIN, PREDICATE>(a, b, to) };
}

/// See [`super::combined`].
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
pub unsafe fn combined<S: Narrowing, const BRAIN: bool>(
    fold: bool,
    combiner: Combiner,
    n: usize,
    x: *const u16,
    sums: *mut f32,
) {
    // What is left is no longer than the sums.
    let whole = if fold { n / FOLDED * FOLDED } else { 0 };
    let sums_of = |i: usize| sums.wrapping_add(i - whole);
    macro_rules! each {
        ($op:ident) => {{
            if whole > 0 {
                let mut all = [S::splat(0.0); 8];
                let vectors = FOLDED / S::LANES;
                for k in (0..vectors).step_by(2) {
                    [all[k], all[k + 1]] = load_two::<S, BRAIN>(sums.add(k * S::LANES));
                }
                for i in (0..whole).step_by(FOLDED) {
                    for k in (0..vectors).step_by(2) {
                        let [a, b] = S::widened_two::<BRAIN>(x.add(i + k * S::LANES));
                        all[k] = all[k].$op(a);
                        all[k + 1] = all[k + 1].$op(b);
                    }
                }
                for k in (0..vectors).step_by(2) {
                    store_two::<S, BRAIN>([all[k], all[k + 1]], sums.add(k * S::LANES));
                }
            }
            if n - whole >= S::LANES {
                // The last vector overlaps the one before: its sums are read before that one's are
                // written.
                let last = n - S::LANES;
                let element = S::widened::<BRAIN>(x.add(last));
                let end = S::load(sums_of(last)).$op(element);
                let mut i = whole;
                while i < last {
                    let element = S::widened::<BRAIN>(x.add(i));
                    S::load(sums_of(i)).$op(element).store(sums_of(i));
                    i += S::LANES;
                }
                end.store(sums_of(last));
            } else if whole < n {
                let element = S::widened_part::<BRAIN>(x.add(whole), n - whole);
                let sum = S::load_part(sums_of(whole), n - whole).$op(element);
                sum.store_part(sums_of(whole), n - whole);
            }
        }};
    }
    // SAFETY: `x` has `n` elements; sums as many, or those that are folded onto.
    unsafe {
        match combiner {
            Combiner::Product => each!(mul),
            Combiner::Max => each!(max),
            Combiner::Min => each!(min),
            _ => each!(add),
        }
    }
}

/// See [`super::rows_combined`].
#[inline(always)]
pub unsafe fn rows_combined<S: Narrowing, const BRAIN: bool>(
    combiner: Combiner,
    rows: &[isize],
    n: usize,
    x: *const u16,
    sums: *mut f32,
) {
    let width = 2 * S::LANES;
    macro_rules! each {
        ($op:ident) => {{
            let mut i = 0;
            // The last ones overlap those before, whose sums are not written yet.
            let last = n - width;
            let mut end = load_two::<S, BRAIN>(sums.add(last));
            for &row in rows {
                let [a, b] = S::widened_two::<BRAIN>(x.offset(row).add(last));
                end = [end[0].$op(a), end[1].$op(b)];
            }
            while i < last {
                let mut both = load_two::<S, BRAIN>(sums.add(i));
                for &row in rows {
                    let [a, b] = S::widened_two::<BRAIN>(x.offset(row).add(i));
                    both = [both[0].$op(a), both[1].$op(b)];
                }
                store_two::<S, BRAIN>(both, sums.add(i));
                i += width;
            }
            store_two::<S, BRAIN>(end, sums.add(last));
        }};
    }
    // SAFETY: every row and the sums have `n` elements, which are two vectors at least.
    unsafe {
        match combiner {
            Combiner::Product => each!(mul),
            Combiner::Max => each!(max),
            Combiner::Min => each!(min),
            _ => each!(add),
        }
    }
}

/// See [`super::running`].
#[inline(always)]
pub unsafe fn running<S: Narrowing, const BRAIN: bool>(
    r: Running,
    n: usize,
    x: *const u16,
    sums: *mut f32,
    y: *mut u16,
) {
    // Several vectors at a time: each step waits for the one before.
    let wide = MANY * S::LANES;
    if n >= wide && !n.is_multiple_of(wide) {
        // SAFETY: all have `n` lines.
        return unsafe { overlapping::<S, BRAIN>(r, n, x, sums, y) };
    }
    let mut lines = [[0u16; LANES]; 2];
    // SAFETY: all have `n` lines; those that are left have vectors of their own.
    unsafe {
        let several = n / wide * wide;
        for i in (0..several).step_by(wide) {
            side_by_side::<S, BRAIN>(r, x.add(i), sums.add(i), y.add(i));
        }
        for i in (several..n).step_by(S::LANES) {
            let left = (n - i).min(S::LANES);
            let mut sum = S::load_part(sums.add(i), left);
            for step in 0..r.steps {
                let at = step * r.apart + i;
                let (mut from, mut to) = (x.add(at), y.add(at));
                if left < S::LANES {
                    std::ptr::copy_nonoverlapping(from, lines[0].as_mut_ptr(), left);
                    (from, to) = (lines[0].as_ptr(), lines[1].as_mut_ptr());
                }
                sum = next::<S, BRAIN>(r, sum, from, to);
                if left < S::LANES {
                    std::ptr::copy_nonoverlapping(to.cast_const(), y.add(at), left);
                }
            }
            sum.store_part(sums.add(i), left);
        }
    }
}

/// [`running`] for a number of lines that [`MANY`] vectors do not divide: the last ones overlap those
/// before, with their sums as they were.
#[inline(always)]
unsafe fn overlapping<S: Narrowing, const BRAIN: bool>(
    r: Running,
    n: usize,
    x: *const u16,
    sums: *mut f32,
    y: *mut u16,
) {
    let wide = MANY * S::LANES;
    // SAFETY: there are so many lines at least.
    unsafe {
        let (last, mut own) = (n - wide, [0.0f32; MANY * LANES]);
        std::ptr::copy_nonoverlapping(sums.add(last), own.as_mut_ptr(), wide);
        side_by_side::<S, BRAIN>(r, x.add(last), own.as_mut_ptr(), y.add(last));
        for i in (0..last).step_by(wide) {
            side_by_side::<S, BRAIN>(r, x.add(i), sums.add(i), y.add(i));
        }
        std::ptr::copy_nonoverlapping(own.as_ptr(), sums.add(last), wide);
    }
}

/// Vectors of lines that run together.
const MANY: usize = 4;

/// [`running`] for [`MANY`] vectors of lines.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn side_by_side<S: Narrowing, const BRAIN: bool>(
    r: Running,
    x: *const u16,
    sums: *mut f32,
    y: *mut u16,
) {
    // SAFETY: there are as many lines.
    unsafe {
        let mut all = [S::splat(0.0); MANY];
        for k in (0..MANY).step_by(2) {
            [all[k], all[k + 1]] = load_two::<S, BRAIN>(sums.add(k * S::LANES));
        }
        for step in 0..r.steps {
            let at = step * r.apart;
            for k in (0..MANY).step_by(2) {
                let at = at + k * S::LANES;
                let both = [all[k], all[k + 1]];
                [all[k], all[k + 1]] = next_two::<S, BRAIN>(r, both, x.add(at), y.add(at));
            }
        }
        for k in (0..MANY).step_by(2) {
            store_two::<S, BRAIN>([all[k], all[k + 1]], sums.add(k * S::LANES));
        }
    }
}

/// The sums after a vector of elements; writes the results.
#[inline(always)]
unsafe fn next<S: Narrowing, const BRAIN: bool>(
    r: Running,
    sum: S,
    x: *const u16,
    y: *mut u16,
) -> S {
    // SAFETY: both have a vector.
    unsafe {
        let element = S::widened::<BRAIN>(x);
        let after = match r.product {
            true => sum.mul(element),
            false => sum.add(element),
        };
        if r.outside {
            sum.narrow::<BRAIN>(y);
            return after.rounded::<BRAIN>();
        }
        after.put::<BRAIN>(y)
    }
}

/// [`next`] for two vectors, in the order of [`Narrowing::widened_two`].
#[inline(always)]
unsafe fn next_two<S: Narrowing, const BRAIN: bool>(
    r: Running,
    sums: [S; 2],
    x: *const u16,
    y: *mut u16,
) -> [S; 2] {
    // SAFETY: both have two vectors.
    unsafe {
        let elements = S::widened_two::<BRAIN>(x);
        let after = S::rounded_two::<BRAIN>(match r.product {
            true => [sums[0].mul(elements[0]), sums[1].mul(elements[1])],
            false => [sums[0].add(elements[0]), sums[1].add(elements[1])],
        });
        match r.outside {
            true => S::narrow_two::<BRAIN>(sums, y),
            false => S::exact_two::<BRAIN>(after, y),
        }
        after
    }
}

/// Two vectors of numbers, in the order of [`Narrowing::widened_two`].
#[inline(always)]
unsafe fn load_two<S: Narrowing, const BRAIN: bool>(from: *const f32) -> [S; 2] {
    // SAFETY: as many numbers can be read.
    unsafe {
        let both = [S::load(from), S::load(from.add(S::LANES))];
        if BRAIN { S::turned(both) } else { both }
    }
}

/// The inverse of [`load_two`].
#[inline(always)]
unsafe fn store_two<S: Narrowing, const BRAIN: bool>(both: [S; 2], to: *mut f32) {
    // SAFETY: there is room for as many numbers.
    unsafe {
        let both = if BRAIN { S::returned(both) } else { both };
        both[0].store(to);
        both[1].store(to.add(S::LANES));
    }
}

/// `$put` of `$v`, the elements of `$from` from `i` on, and of `$out`, the place of their results: two
/// vectors at a time, and what is left in lines of its own.
macro_rules! all {
    ($n:ident, $from:ident: $a:ty, $to:ident: $b:ty, |$v:ident, $out:ident| $put:expr) => {{
        let (mut i, width) = (0, 2 * S::LANES);
        while i + width <= $n {
            let ($v, $out) = ($from.add(i), $to.add(i));
            $put;
            i += width;
        }
        if i < $n && $n >= width {
            // The last vectors overlap those before: what was rounded stays what it is.
            let i = $n - width;
            let ($v, $out) = ($from.add(i), $to.add(i));
            $put;
        } else if i < $n {
            let (mut a, mut b) = ([<$a>::default(); 2 * LANES], [<$b>::default(); 2 * LANES]);
            std::ptr::copy_nonoverlapping($from.add(i), a.as_mut_ptr(), $n - i);
            let ($v, $out) = (a.as_ptr(), b.as_mut_ptr());
            $put;
            std::ptr::copy_nonoverlapping(b.as_ptr(), $to.add(i), $n - i);
        }
    }};
}

#[inline(always)]
pub unsafe fn widened<S: Narrowing, const BRAIN: bool>(n: usize, x: *const u16, y: *mut f32) {
    // SAFETY: both have `n` elements.
    unsafe {
        all!(n, x: u16, y: f32, |v, out| {
            S::widened::<BRAIN>(v).store(out);
            S::widened::<BRAIN>(v.add(S::LANES)).store(out.add(S::LANES));
        });
    }
}

#[inline(always)]
pub unsafe fn narrowed<S: Narrowing, const BRAIN: bool>(n: usize, x: *const f32, y: *mut u16) {
    // SAFETY: as above.
    unsafe {
        all!(n, x: f32, y: u16, |v, out| {
            S::put_two::<BRAIN>([S::load(v), S::load(v.add(S::LANES))], out);
        });
    }
}

#[inline(always)]
pub unsafe fn rounded<S: Narrowing, const BRAIN: bool>(n: usize, x: *const f32, y: *mut f32) {
    // SAFETY: as above.
    unsafe {
        all!(n, x: f32, y: f32, |v, out| {
            let both = S::rounded_two::<BRAIN>([S::load(v), S::load(v.add(S::LANES))]);
            both[0].store(out);
            both[1].store(out.add(S::LANES));
        });
    }
}

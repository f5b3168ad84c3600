//! Elements of lines that are packed side by side, and those that are spread to their places.

use crate::kernels::turn::turn;

/// Packs a panel of `W` lines: `out[p * W + i] = x[lines[i] + along[p]]`, 0 for missing lines.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Two arrays are walked across each other.
pub(super) unsafe fn pack<T: Copy + Default, const W: usize>(
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
            if !beside && alike(&at) == W && contiguous(along) {
                let x = x.offset(at[0] + along[0]);
                return turn((W, along.len()), x, at[1] - at[0], out, W as isize);
            }
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
pub(super) unsafe fn pack_wide<T: Copy + Default>(
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
        let read_along = contiguous(along);
        while i < lines.len() {
            let apart = if read_along { alike(&lines[i..]) } else { 0 };
            if apart >= SQUARE && lines[i + 1] != lines[i] + 1 {
                let (x, step) = (x.offset(lines[i] + along[0]), lines[i + 1] - lines[i]);
                turn((apart, along.len()), x, step, out.add(i), width as isize);
                i += apart;
                continue;
            }
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

/// Returns how many lines from the first one on are equally far apart.
fn alike(lines: &[isize]) -> usize {
    let [first, second, ..] = lines else {
        return lines.len();
    };
    let step = second - first;
    1 + lines.windows(2).take_while(|w| w[1] - w[0] == step).count()
}

/// Returns whether positions are side by side, enough of them for squares.
fn contiguous(along: &[isize]) -> bool {
    along.len() >= SQUARE && along.windows(2).all(|w| w[1] == w[0] + 1)
}

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

/// Copies elements to their places.
#[inline(always)]
pub(super) unsafe fn spread<E: Copy>(from: *const E, columns: &[isize], to: *mut E) {
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

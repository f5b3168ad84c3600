//! Copies between strided layouts, transposition and filling.

use super::turn::turn;
use crate::context::{RxContext, Status};
use crate::threads::{Grain, Share};

/// The maximum number of axes of a call.
pub const MAX_RANK: usize = 16;
/// Bytes that are surely worth a thread.
const GRAIN: usize = 128 << 10;
/// Bytes that are copied before a loop would be split.
const LITTLE: usize = 16 << 10;

/// One loop of a copy: extent, and strides of both sides in elements.
#[derive(Clone, Copy, Default)]
struct Loop {
    n: i64,
    src: i64,
    dst: i64,
}

/// The loops of a copy, outermost first, with loops merged where possible.
#[derive(Clone, Copy)]
struct Nest {
    loops: [Loop; MAX_RANK],
    rank: usize,
}

impl Nest {
    /// `None` when nothing is to be copied.
    fn new(shape: &[i64], src: &[i64], dst: &[i64]) -> Option<Self> {
        let mut nest = Self {
            loops: [Loop::default(); MAX_RANK],
            rank: 0,
        };
        for ((&n, &src), &dst) in shape.iter().zip(src).zip(dst) {
            if n <= 0 {
                return None;
            }
            if n == 1 {
                continue;
            }
            if nest.rank > 0 {
                let outer = &mut nest.loops[nest.rank - 1];
                if outer.src == src * n && outer.dst == dst * n {
                    *outer = Loop {
                        n: outer.n * n,
                        src,
                        dst,
                    };
                    continue;
                }
            }
            if nest.rank == MAX_RANK {
                return None;
            }
            nest.loops[nest.rank] = Loop { n, src, dst };
            nest.rank += 1;
        }
        Some(nest)
    }

    /// Moves the loop along the source's lines inside, so that blocks traverse both directions.
    fn turned(mut self) -> Self {
        let r = self.rank;
        if r > 2
            && self.loops[r - 1].src != 1
            && let Some(lines) = self.loops[..r].iter().position(|l| l.src == 1)
        {
            self.loops[lines..r - 1].rotate_left(1);
        }
        self
    }
}

/// Copies elements of `size` bytes between two layouts; strides count elements.
///
/// # Safety
/// All elements the shape and strides name are readable in `src` and writable in `dst`, the two
/// do not overlap, and `shape` has at most 16 extents.
pub unsafe fn copy(
    size: usize,
    shape: &[i64],
    src: *const u8,
    src_strides: &[i64],
    dst: *mut u8,
    dst_strides: &[i64],
) {
    let Some(nest) = Nest::new(shape, src_strides, dst_strides) else {
        return;
    };
    // SAFETY: every element that the nest names lies in source and destination.
    unsafe { run(size, nest, src, dst) };
}

unsafe fn run(size: usize, nest: Nest, src: *const u8, dst: *mut u8) {
    // SAFETY: every element that the nest names lies in source and destination; unaligned accesses
    // are used throughout.
    unsafe {
        match size {
            1 => walk::<u8>(nest, src.cast(), dst.cast()),
            2 => walk::<u16>(nest, src.cast(), dst.cast()),
            4 => walk::<u32>(nest, src.cast(), dst.cast()),
            8 => walk::<u64>(nest, src.cast(), dst.cast()),
            16 => walk::<u128>(nest, src.cast(), dst.cast()),
            _ => {}
        }
    }
}

/// Iterates over all but the two innermost loops with a counter.
unsafe fn walk<T: Copy>(nest: Nest, mut src: *const T, mut dst: *mut T) {
    let one = Loop {
        n: 1,
        src: 0,
        dst: 0,
    };
    let rank = nest.rank;
    let inner = if rank > 0 { nest.loops[rank - 1] } else { one };
    let middle = if rank > 1 { nest.loops[rank - 2] } else { one };
    let outer = &nest.loops[..rank.saturating_sub(2)];
    let mut index = [0i64; MAX_RANK];
    loop {
        // SAFETY: every element that the nest names lies in source and destination.
        unsafe { plane(middle, inner, src, dst) };
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            let Loop { n, src: s, dst: d } = outer[axis];
            index[axis] += 1;
            if index[axis] < n {
                src = src.wrapping_offset(s as isize);
                dst = dst.wrapping_offset(d as isize);
                break;
            }
            index[axis] = 0;
            src = src.wrapping_offset((s * (1 - n)) as isize);
            dst = dst.wrapping_offset((d * (1 - n)) as isize);
        }
    }
}

/// Bytes from which on a row is copied by a call.
const ROW: usize = 128;
/// The number of elements of a row from which on matrices are transposed in blocks.
const SIDE: i64 = 4;

/// Copies two loops: contiguous rows, transposed matrices, repeated elements, or any strides.
unsafe fn plane<T: Copy>(outer: Loop, inner: Loop, src: *const T, dst: *mut T) {
    // SAFETY: every element that both loops name lies in source and destination.
    unsafe {
        if inner.src == 1 && inner.dst == 1 {
            return rows(outer, inner.n as usize, src, dst);
        }
    }
    let sides = outer.n >= SIDE && inner.n >= SIDE;
    // SAFETY: every element that both loops name lies in source and destination.
    unsafe {
        if sides && inner.src == 1 && outer.dst == 1 {
            let extents = (outer.n as usize, inner.n as usize);
            return turn(extents, src, outer.src as isize, dst, inner.dst as isize);
        }
        if sides && inner.dst == 1 && outer.src == 1 {
            let extents = (inner.n as usize, outer.n as usize);
            return turn(extents, src, inner.src as isize, dst, outer.dst as isize);
        }
    }
    // SAFETY: every element that both loops name lies in source and destination.
    let done = unsafe {
        match inner.n {
            2 => few::<T, 2>(outer, inner, src, dst),
            3 => few::<T, 3>(outer, inner, src, dst),
            _ => false,
        }
    };
    if done {
        return;
    }
    // Writing along the rows of dst keeps its lines whole.
    let across = outer.dst == 1 && inner.dst != 1;
    let (outer, inner) = if across {
        (inner, outer)
    } else {
        (outer, inner)
    };
    // SAFETY: every element that both loops name lies in source and destination.
    unsafe {
        for i in 0..outer.n {
            let from = src.offset((i * outer.src) as isize);
            let to = dst.offset((i * outer.dst) as isize);
            line(inner, from, to);
        }
    }
}

/// Copies rows of `N` elements that lie side by side in dst and follow each other there, or in src:
/// arrays that are interleaved, taken apart or repeated. `false` for others.
#[inline(always)]
unsafe fn few<T: Copy, const N: usize>(
    outer: Loop,
    inner: Loop,
    src: *const T,
    dst: *mut T,
) -> bool {
    let (n, rows) = (outer.n as isize, N as isize);
    let (there, here) = (outer.src as isize, outer.dst as isize);
    // SAFETY: source and destination have `outer.n` rows of `N` elements at these strides.
    unsafe {
        if inner.dst == 1 && here == rows {
            for i in 0..n {
                for j in 0..rows {
                    let from = src.offset(i * there + j * inner.src as isize);
                    dst.offset(i * rows + j)
                        .write_unaligned(from.read_unaligned());
                }
            }
            return true;
        }
        if inner.src == 1 && there == rows {
            for i in 0..n {
                for j in 0..rows {
                    let to = dst.offset(i * here + j * inner.dst as isize);
                    to.write_unaligned(src.offset(i * rows + j).read_unaligned());
                }
            }
            return true;
        }
    }
    false
}

/// Copies rows whose elements are contiguous on both sides.
unsafe fn rows<T: Copy>(outer: Loop, n: usize, src: *const T, dst: *mut T) {
    // SAFETY: every element that the loop and `n` name lies in source and destination.
    unsafe {
        for i in 0..outer.n {
            let from = src.offset((i * outer.src) as isize);
            let to = dst.offset((i * outer.dst) as isize);
            copy_row(from, to, n);
        }
    }
}

/// Copies contiguous elements, few of them without a call.
///
/// # Safety
/// Both have `n` elements and do not overlap.
#[inline(always)]
pub(super) unsafe fn copy_row<T: Copy>(from: *const T, to: *mut T, n: usize) {
    let bytes = n * size_of::<T>();
    let (from, to) = (from.cast::<u8>(), to.cast::<u8>());
    // SAFETY: both have `bytes` bytes.
    unsafe {
        match bytes {
            ROW.. => std::ptr::copy_nonoverlapping(from, to, bytes),
            16.. => pieces::<16>(from, to, bytes),
            8.. => pieces::<8>(from, to, bytes),
            4.. => pieces::<4>(from, to, bytes),
            1.. => pieces::<1>(from, to, bytes),
            0 => {}
        }
    }
}

/// Copies at least `N` bytes, `N` at a time; the last ones may be copied twice.
#[inline(always)]
unsafe fn pieces<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    let mut at = 0;
    // SAFETY: both have `bytes` bytes, and `at + N` is at most that.
    unsafe {
        while at + N <= bytes {
            to.add(at)
                .cast::<[u8; N]>()
                .write(from.add(at).cast::<[u8; N]>().read());
            at += N;
        }
        let last = bytes - N;
        to.add(last)
            .cast::<[u8; N]>()
            .write(from.add(last).cast::<[u8; N]>().read());
    }
}

/// One loop.
#[inline(always)]
unsafe fn line<T: Copy>(l: Loop, src: *const T, dst: *mut T) {
    // SAFETY: every element that the loop names lies in source and destination.
    unsafe {
        if l.src == 0 && l.dst == 1 {
            let value = src.read_unaligned();
            for j in 0..l.n as usize {
                dst.add(j).write_unaligned(value);
            }
            return;
        }
        for j in 0..l.n {
            let value = src.offset((j * l.src) as isize).read_unaligned();
            dst.offset((j * l.dst) as isize).write_unaligned(value);
        }
    }
}

/// Splits the outermost loop among the context's threads.
unsafe fn spread(context: &RxContext, size: usize, nest: Nest, src: *const u8, dst: *mut u8) {
    // SAFETY: every element that the nest names lies in source and destination.
    unsafe {
        let total: i64 = nest.loops[..nest.rank].iter().map(|l| l.n).product();
        let bytes = total as usize * size;
        if nest.rank < 2 || bytes <= LITTLE {
            return run(size, nest, src, dst);
        }
        let first = nest.loops[0];
        let grain = Grain::of_work(GRAIN, bytes / first.n as usize);
        let shared = Share::new((src, dst));
        context.pool.each(first.n as usize, grain, |begin, end, _| {
            let &(src, dst) = shared.get();
            let mut part = nest;
            part.loops[0].n = (end - begin) as i64;
            let skip = |stride: i64| begin as isize * stride as isize * size as isize;
            // SAFETY: parts of the loop touch different elements of dst.
            run(
                size,
                part,
                src.offset(skip(first.src)),
                dst.offset(skip(first.dst)),
            );
        });
    }
}

/// Returns the bytes of elements that are contiguous on both sides.
fn compact(size: usize, shape: &[i64], src: &[i64], dst: &[i64]) -> Option<usize> {
    let mut step = 1;
    for ((&n, &s), &d) in shape.iter().zip(src).zip(dst).rev() {
        if n != 1 && (s != step || d != step) {
            return None;
        }
        step *= n.max(0);
    }
    usize::try_from(step).ok()?.checked_mul(size)
}

/// Copies between two strided layouts of at most [`MAX_RANK`] axes, of elements of `size` bytes.
///
/// # Safety
/// Every element that shape and strides name lies in its array; the arrays do not overlap, or are
/// the same with the same strides.
pub unsafe fn copy_strided(
    context: &RxContext,
    size: usize,
    shape: &[i64],
    (src, from): (*const u8, &[i64]),
    (dst, to): (*mut u8, &[i64]),
) {
    // A result that aliases its operand is in place already.
    if std::ptr::eq(src, dst) && from == to {
        return;
    }
    // SAFETY: every element that the lists name lies in source and destination, and contiguous ones
    // have `bytes` bytes.
    unsafe {
        if let Some(bytes) = compact(size, shape, from, to).filter(|b| *b <= GRAIN) {
            std::ptr::copy_nonoverlapping(src, dst, bytes);
        } else if let Some(nest) = Nest::new(shape, from, to) {
            spread(context, size, nest.turned(), src, dst);
        }
    }
}

/// Returns the bytes of a compact array; `None` where they are more than memory can have.
pub fn compact_bytes(size: usize, shape: &[i64]) -> Option<usize> {
    shape.iter().try_fold(size, |bytes, &n| {
        bytes.checked_mul(usize::try_from(n).unwrap_or(0))
    })
}

/// Permutes the axes of a compact array of at most [`MAX_RANK`] axes into another, of elements of
/// `size` bytes: axis `i` of `dst` is axis `axes[i]` of `src`. An error where `axes` is no
/// permutation, or an array has not as many bytes as the shape.
pub fn transpose(
    context: &mut RxContext,
    size: usize,
    from: &[i64],
    axes: &[i32],
    src: &[u8],
    dst: &mut [u8],
) -> i32 {
    let rank = from.len();
    let bytes = compact_bytes(size, from);
    let permuted = axes.len() == rank && (0..rank).all(|i| axes.contains(&(i as i32)));
    if !permuted || bytes != Some(src.len()) || bytes != Some(dst.len()) {
        let text = "rx_transpose: axes that are no permutation, or no such arrays";
        return context.fail(Status::Argument, text);
    }
    let [mut compact, mut shape, mut strides, mut to] = [[1i64; MAX_RANK]; 4];
    for i in (1..rank).rev() {
        compact[i - 1] = compact[i] * from[i];
    }
    for (i, &axis) in axes.iter().enumerate() {
        (shape[i], strides[i]) = (from[axis as usize], compact[axis as usize]);
    }
    for i in (1..rank).rev() {
        to[i - 1] = to[i] * shape[i];
    }
    if let Some(nest) = Nest::new(&shape[..rank], &strides[..rank], &to[..rank]) {
        // SAFETY: both arrays have as many elements as the shape, whose axes both loops go through.
        unsafe { spread(context, size, nest.turned(), src.as_ptr(), dst.as_mut_ptr()) };
    }
    0
}

/// Fills an array with copies of an element of 1, 2, 4, 8 or 16 bytes.
pub fn fill(element: &[u8], dst: &mut [u8]) {
    fn of<const N: usize>(element: &[u8], dst: &mut [u8]) {
        if let Ok(value) = <[u8; N]>::try_from(element) {
            dst.as_chunks_mut().0.fill(value);
        }
    }
    match element.len() {
        1 => of::<1>(element, dst),
        2 => of::<2>(element, dst),
        4 => of::<4>(element, dst),
        8 => of::<8>(element, dst),
        16 => of::<16>(element, dst),
        _ => {}
    }
}

//! Functions over strips a piece at a time: loops over a number of elements that vectors of every
//! instruction set divide, from operands into a result that is none of them, so that they become
//! vectors, and nothing but vectors, wherever the result lies.

/// The elements of a group: what is worked on at least.
const GROUP: usize = 32;
/// The elements of a piece.
pub(super) const PIECE: usize = 256;

/// A function of pieces. A trait and not a closure, since only a function is inlined for sure, and
/// only what is inlined is compiled for an instruction set.
pub(super) trait OfPieces<T> {
    /// Computes the results of as many elements, or of pairs of elements.
    fn piece(&self, x: &[T], y: &[T], z: &mut [T]);
}

/// Computes a function of `n` elements. A last group that is shorter has elements of `fill` behind
/// it, whose results are dropped.
///
/// # Safety
/// All have `n` elements; `z` is one of the others or overlaps none.
#[inline(always)]
pub(super) unsafe fn pieces<T: Copy>(
    n: usize,
    (x, y): (*const T, *const T),
    z: *mut T,
    fill: T,
    function: &impl OfPieces<T>,
) {
    let (mut a, mut b, mut c) = ([fill; GROUP], [fill; GROUP], [fill; PIECE]);
    let apart = !std::ptr::eq(x, z) && !std::ptr::eq(y, z);
    let mut at = 0;
    while at < n {
        // Whole groups are read where they are, the rest of them from copies.
        let left = (n - at).min(PIECE);
        let groups = left / GROUP;
        let part = if groups == 0 { left } else { groups * GROUP };
        // SAFETY: all have `n` elements, and `at + part` is at most that. What is read in place is
        // whole groups, which nothing writes before the function has ended; what is written in place
        // is as many elements that are none of an operand's.
        unsafe {
            let (mut from, mut beside) = (x.add(at), y.add(at));
            if groups == 0 {
                std::ptr::copy_nonoverlapping(from, a.as_mut_ptr(), part);
                std::ptr::copy_nonoverlapping(beside, b.as_mut_ptr(), part);
                (from, beside) = (a.as_ptr(), b.as_ptr());
            }
            // A multiple that compilers see.
            let whole = groups.max(1) * GROUP;
            let there = apart && groups > 0;
            let to = if there { z.add(at) } else { c.as_mut_ptr() };
            function.piece(
                std::slice::from_raw_parts(from, whole),
                std::slice::from_raw_parts(beside, whole),
                std::slice::from_raw_parts_mut(to, whole),
            );
            if !there {
                std::ptr::copy_nonoverlapping(c.as_ptr(), z.add(at), part);
            }
        }
        at += part;
    }
}

//! Elements at several distances from the elements of a row, reduced in vectors that stay in registers
//! ([`windows`](super::windows)), and rows that are read in steps, sorted before.

use super::{MAX, MIN, PRODUCT, SUM};
use crate::kernels::combiner::Combiner;
use crate::kernels::kinds::Kind;
use crate::kernels::simd::bytes::{Lanes, Row};
use crate::kernels::simd::dispatch_of;
use crate::kernels::simd::wide::Wide;

/// Sorts elements by the remainder of their positions modulo `step`: those with remainder `r` from
/// `r * part` on.
pub(super) unsafe fn apart_by<T: Copy>(
    step: usize,
    part: usize,
    from: *const T,
    n: usize,
    to: *mut T,
) {
    // SAFETY: `from` has `n` elements, and `to` room for `step` parts.
    unsafe {
        dispatch_of!(apart_by_step<T: Copy>(
            step: usize,
            part: usize,
            from: *const T,
            n: usize,
            to: *mut T,
        ));
    }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn apart_by_step<S: Wide, T: Copy>(
    step: usize,
    part: usize,
    from: *const T,
    n: usize,
    to: *mut T,
) {
    // SAFETY: `from` has `n` elements, and `to` room for `step` parts.
    unsafe {
        match step {
            2 => apart::<T, 2>(part, from, n, to),
            3 => apart::<T, 3>(part, from, n, to),
            4 => apart::<T, 4>(part, from, n, to),
            5 => apart::<T, 5>(part, from, n, to),
            6 => apart::<T, 6>(part, from, n, to),
            7 => apart::<T, 7>(part, from, n, to),
            _ => apart::<T, 8>(part, from, n, to),
        }
    }
}

#[inline(always)]
unsafe fn apart<T: Copy, const STEP: usize>(part: usize, from: *const T, n: usize, to: *mut T) {
    // SAFETY: `from` has `n` elements, and `to` room for `STEP` parts.
    unsafe {
        let whole = n / STEP;
        for i in 0..whole {
            for r in 0..STEP {
                *to.add(r * part + i) = *from.add(i * STEP + r);
            }
        }
        for i in whole * STEP..n {
            *to.add(i % STEP * part + whole) = *from.add(i);
        }
    }
}

/// Computes `NV` vectors of sums.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn block<L: Lanes, const COMBINER: i32, const NV: usize>(
    from: *const L::Element,
    taps: &[isize],
    start: Option<L::Element>,
    sums: *mut L::Element,
) {
    // SAFETY: `from` has the vectors' elements at every tap, and `sums` room for the vectors.
    unsafe {
        let mut acc = match start {
            Some(x) => [L::all(x); NV],
            None => {
                let mut acc = [L::read(sums); NV];
                for v in 1..NV {
                    acc[v] = L::read(sums.add(v * L::LANES));
                }
                acc
            }
        };
        for &tap in taps {
            let at = from.offset(tap);
            for v in 0..NV {
                acc[v] = acc[v].with::<COMBINER>(L::read(at.add(v * L::LANES)));
            }
        }
        for v in 0..NV {
            acc[v].write(sums.add(v * L::LANES));
        }
    }
}

/// Reduces `n` elements into sums, which are initialised with `start`, or continued. With `spare`,
/// there is room for a whole vector at every tap and in the sums.
#[inline(always)]
unsafe fn reduced<L: Lanes, const COMBINER: i32>(
    from: *const L::Element,
    taps: &[isize],
    (n, spare): (usize, bool),
    start: Option<L::Element>,
    sums: *mut L::Element,
) {
    let lanes = L::LANES;
    let mut i = 0;
    // SAFETY: `from` has `n` elements at every tap, and `sums` room for `n`; with `spare`, both
    // have those of a vector.
    unsafe {
        while i + 4 * lanes <= n {
            block::<L, COMBINER, 4>(from.add(i), taps, start, sums.add(i));
            i += 4 * lanes;
        }
    }
    while i < n && (n >= lanes || spare) {
        // The last vector overlaps the one before, of which nothing is added twice.
        let at = if n >= lanes { i.min(n - lanes) } else { 0 };
        let again = at < i && start.is_none();
        // SAFETY: `from` has `n` elements at every tap, and `sums` room for `n`; with `spare`, both
        // have those of a vector.
        let (mut line, mut to) = unsafe { ([*sums; 64], sums.add(at)) };
        // SAFETY: `from` has `n` elements at every tap, and `sums` room for `n`; with `spare`, both
        // have those of a vector.
        unsafe {
            if again {
                std::ptr::copy_nonoverlapping(to, line.as_mut_ptr(), lanes);
                to = line.as_mut_ptr();
            }
            block::<L, COMBINER, 1>(from.add(at), taps, start, to);
            if again {
                let new = line.as_ptr().add(i - at);
                std::ptr::copy_nonoverlapping(new, sums.add(i), n - i);
            }
        }
        i = at + lanes;
    }
    // With fewer elements than a vector's, nothing beyond is read.
    // SAFETY: `from` has `n` elements at every tap, and `sums` room for `n`; with `spare`, both
    // have those of a vector.
    unsafe {
        while i < n {
            let old = start.unwrap_or(*sums.add(i));
            let mut acc = L::all(old);
            for &tap in taps {
                acc = acc.with::<COMBINER>(L::all(*from.offset(tap).add(i)));
            }
            let mut line = [old; 64];
            acc.write(line.as_mut_ptr());
            *sums.add(i) = line[0];
            i += 1;
        }
    }
}

/// An element type of sums.
pub(super) trait Held: Copy {
    /// Its vectors.
    type Lanes<S: Wide>: Lanes<Element = Self>;
    /// Whether it has products here.
    const PRODUCTS: bool;
    /// The number with these lower bits.
    fn of(bits: u64) -> Self;
}

macro_rules! held {
    ($($t:ty: $lanes:ty, $products:literal, |$bits:ident| $value:expr;)*) => {$(
        impl Held for $t {
            type Lanes<S: Wide> = $lanes;
            const PRODUCTS: bool = $products;
            #[inline(always)]
            fn of($bits: u64) -> Self {
                $value
            }
        }
    )*};
}
held! {
    f32: S::F32, true, |x| f32::from_bits(x as u32);
    f64: S::F64, true, |x| f64::from_bits(x);
    i8: S::I8, false, |x| x as i8;
    u8: S::U8, false, |x| x as u8;
    i16: S::I16, false, |x| x as i16;
    u16: S::U16, false, |x| x as u16;
    i32: S::I32, false, |x| x as i32;
    u32: Row<u32, 8>, false, |x| x as u32;
    i64: S::I64, false, |x| x as i64;
    u64: Row<u64, 4>, false, |x| x;
}

/// Reduces elements of a type.
#[inline(always)]
unsafe fn of_type<S: Wide, T: Held>(
    combiner: Combiner,
    from: *const u8,
    taps: &[isize],
    n: (usize, bool),
    start: Option<u64>,
    sums: *mut u8,
) {
    let (from, sums) = (from.cast::<T>(), sums.cast::<T>());
    let start = start.map(T::of);
    // SAFETY: as for `reduced`.
    unsafe {
        match combiner {
            Combiner::Sum => reduced::<T::Lanes<S>, SUM>(from, taps, n, start, sums),
            Combiner::Max => reduced::<T::Lanes<S>, MAX>(from, taps, n, start, sums),
            Combiner::Product if T::PRODUCTS => {
                reduced::<T::Lanes<S>, PRODUCT>(from, taps, n, start, sums);
            }
            _ => reduced::<T::Lanes<S>, MIN>(from, taps, n, start, sums),
        }
    }
}

/// The same for a type given by its number.
pub(crate) unsafe fn typed(
    (combiner, kind): (Combiner, Kind),
    from: *const u8,
    taps: &[isize],
    n: (usize, bool),
    start: Option<u64>,
    sums: *mut u8,
) {
    // A function for each type and instruction set: in one function, compilers take much more than
    // the sum of their times.
    unsafe fn of<T: Held>(
        combiner: Combiner,
        from: *const u8,
        taps: &[isize],
        n: (usize, bool),
        start: Option<u64>,
        sums: *mut u8,
    ) {
        // SAFETY: as for `reduced`.
        unsafe {
            dispatch_of!(of_type<T: Held>(
                combiner: Combiner,
                from: *const u8,
                taps: &[isize],
                n: (usize, bool),
                start: Option<u64>,
                sums: *mut u8,
            ));
        }
    }
    let wraps = combiner == Combiner::Sum;
    let of = match kind {
        Kind::F32 => of::<f32>,
        Kind::F64 => of::<f64>,
        Kind::I8 => of::<i8>,
        Kind::I16 => of::<i16>,
        Kind::U16 => of::<u16>,
        Kind::I32 => of::<i32>,
        Kind::I64 => of::<i64>,
        Kind::U32 if wraps => of::<i32>,
        Kind::U64 if wraps => of::<i64>,
        Kind::U32 => of::<u32>,
        Kind::U64 => of::<u64>,
        _ => of::<u8>,
    };
    // SAFETY: as for `reduced`.
    unsafe { of(combiner, from, taps, n, start, sums) }
}

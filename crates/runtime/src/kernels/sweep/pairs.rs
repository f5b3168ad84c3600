//! Windows whose elements meet those of another array before they are reduced: `x[i + tap] + w[tap]`, the
//! greatest or the least of which is a result (grey-scale dilation and erosion).

use super::op::Op;
use super::space::Space;
use super::taps::Held;
use super::{MAX, MIN, PRODUCT, Plan, SUM, register};
use crate::kernels::combiner::Combiner;
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::simd::bytes::Lanes;
use crate::kernels::simd::dispatch_of;
use crate::kernels::simd::wide::Wide;

/// The most elements of narrow floats that are widened ahead.
const MOST: isize = 1 << 20;

/// The other array of windows.
pub(super) struct Other {
    /// Whether elements are multiplied; else they are added.
    product: bool,
    /// Whether its elements lie side by side, as those of a row do; else a row has one for each position.
    pub beside: bool,
    /// Its offset for each position of the windows.
    pub taps: Vec<isize>,
    /// Its elements as floats, if they are narrow.
    wide: Vec<f32>,
}

/// The offsets of an input at all positions of a space, in order.
pub(super) fn offsets(space: &Space, input: usize, count: usize) -> Vec<isize> {
    let mut all = Vec::with_capacity(count);
    let (inner, step) = (space.inner().max(1), space.inner_step(input));
    while all.len() < count {
        let first = space.offset(all.len(), input);
        let row = inner.min(count - all.len()) as isize;
        all.extend((0..row).map(|k| first + k * step));
    }
    all
}

impl Other {
    /// The second input of a sweep, if all that is computed of both is their sum or product; narrow floats
    /// are rounded once the greatest or least is found, which is then the same.
    pub fn of(p: &Plan<'_>, count: usize) -> Option<Self> {
        let [op, rest @ ..] = p.ops else {
            return None;
        };
        let product = match op.op() {
            Op::Add => false,
            Op::Mul => true,
            _ => return None,
        };
        let rounds = matches!(rest, [last] if last.op() == Op::Narrow && last.result() == Some(p.out_kind)
            && last.args[0] == p.v.inputs + p.v.constants + op.dst);
        let narrow = register(p.out_kind) != p.out_kind;
        let typed = matches!(p.out_kind, Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64)
            || p.out_kind == Kind::I32 && !product;
        let both = p.kinds.iter().all(|&k| Kind::of(k) == Some(p.out_kind));
        let fits = if narrow { rounds } else { rest.is_empty() };
        let step = if p.out.inner() > 1 {
            p.out.inner_step(1)
        } else {
            0
        };
        let extreme = matches!(p.combiner, Combiner::Max | Combiner::Min);
        if !(typed && both && fits && extreme && (0..=1).contains(&step)) || op.args[..2] != [0, 1]
        {
            return None;
        }
        let mut wide = Vec::new();
        if narrow {
            let n = p.out.most(1)? + p.over.most(1)? + 1;
            if n > MOST {
                return None;
            }
            wide.resize(n as usize, 0.0);
            // SAFETY: all elements up to the last one that is named lie in the input.
            unsafe { f32::widen(p.out_kind, n as usize, p.data[1].cast(), wide.as_mut_ptr()) };
        }
        Some(Self {
            product,
            beside: step == 1,
            taps: offsets(&p.over, 1, count),
            wide,
        })
    }

    /// Its element at an offset.
    ///
    /// # Safety
    /// It has one there.
    pub unsafe fn at(&self, p: &Plan<'_>, offset: isize) -> *const u8 {
        // SAFETY: the caller's contract.
        unsafe {
            match self.wide.is_empty() {
                true => (p.data[1].cast::<u8>()).offset(offset * p.out_kind.size() as isize),
                false => self.wide.as_ptr().offset(offset).cast(),
            }
        }
    }
}

/// Computes `NV` vectors of results.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn block<
    L: Lanes,
    const COMBINER: i32,
    const OP: i32,
    const BESIDE: bool,
    const NV: usize,
>(
    (from, taps): (*const L::Element, &[isize]),
    (other, others): (*const L::Element, &[isize]),
    start: Option<L::Element>,
    sums: *mut L::Element,
) {
    // SAFETY: both arrays have the vectors' elements at every tap, the other one only one where they do not
    // lie beside each other, and `sums` has room for the vectors.
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
        for (&tap, &place) in taps.iter().zip(others) {
            let (at, by) = (from.offset(tap), other.offset(place));
            let one = L::all(*by);
            for v in 0..NV {
                let by = match BESIDE {
                    true => L::read(by.add(v * L::LANES)),
                    false => one,
                };
                let x = L::read(at.add(v * L::LANES)).with::<OP>(by);
                acc[v] = acc[v].with::<COMBINER>(x);
            }
        }
        for v in 0..NV {
            acc[v].write(sums.add(v * L::LANES));
        }
    }
}

/// Reduces `n` elements into sums, which are initialised with `start`, or continued. With `spare`,
/// there is room for a whole vector at every tap of the first array and in the sums.
#[inline(always)]
unsafe fn reduced<L: Lanes, const COMBINER: i32, const OP: i32, const BESIDE: bool>(
    (from, taps): (*const L::Element, &[isize]),
    (other, others): (*const L::Element, &[isize]),
    (n, spare): (usize, bool),
    start: Option<L::Element>,
    sums: *mut L::Element,
) {
    let lanes = L::LANES;
    let spare = spare && !BESIDE;
    let beside = |i: usize| if BESIDE { i } else { 0 };
    let mut i = 0;
    // SAFETY: both arrays have `n` elements at every tap, and `sums` room for `n`; with `spare`, those of
    // a vector.
    unsafe {
        while i + 4 * lanes <= n {
            let other = (other.add(beside(i)), others);
            block::<L, COMBINER, OP, BESIDE, 4>((from.add(i), taps), other, start, sums.add(i));
            i += 4 * lanes;
        }
        while i < n && (n >= lanes || spare) {
            // The last vector overlaps the one before: an extremum may be taken twice.
            let at = if n >= lanes { i.min(n - lanes) } else { 0 };
            let other = (other.add(beside(at)), others);
            block::<L, COMBINER, OP, BESIDE, 1>((from.add(at), taps), other, start, sums.add(at));
            i = at + lanes;
        }
        // With fewer elements than a vector's, nothing beyond is read.
        while i < n {
            let old = start.unwrap_or(*sums.add(i));
            let mut acc = L::all(old);
            for (&tap, &place) in taps.iter().zip(others) {
                let by = L::all(*other.offset(place).add(beside(i)));
                acc = acc.with::<COMBINER>(L::all(*from.offset(tap).add(i)).with::<OP>(by));
            }
            let mut line = [old; 64];
            acc.write(line.as_mut_ptr());
            *sums.add(i) = line[0];
            i += 1;
        }
    }
}

/// How elements meet and are reduced.
#[derive(Clone, Copy)]
struct How {
    least: bool,
    product: bool,
    beside: bool,
}

#[inline(always)]
unsafe fn of_type<S: Wide, T: Held>(
    how: How,
    x: (*const u8, &[isize]),
    other: (*const u8, &[isize]),
    n: (usize, bool),
    start: Option<u64>,
    sums: *mut u8,
) {
    let (x, other) = ((x.0.cast::<T>(), x.1), (other.0.cast::<T>(), other.1));
    let (start, sums) = (start.map(T::of), sums.cast::<T>());
    macro_rules! by {
        ($combiner:ident, $op:ident) => {
            match how.beside {
                true => reduced::<T::Lanes<S>, $combiner, $op, true>(x, other, n, start, sums),
                false => reduced::<T::Lanes<S>, $combiner, $op, false>(x, other, n, start, sums),
            }
        };
    }
    // SAFETY: as for `reduced`.
    unsafe {
        match (how.least, how.product && T::PRODUCTS) {
            (false, false) => by!(MAX, SUM),
            (true, false) => by!(MIN, SUM),
            (false, true) => by!(MAX, PRODUCT),
            (true, true) => by!(MIN, PRODUCT),
        }
    }
}

/// Reduces elements of a type given by its number, with those of the other array.
///
/// # Safety
/// Both arrays have `n` elements at every tap, the other one only one where they do not lie beside each other,
/// and `sums` room for `n`; with the second of `n`, the first array and `sums` have those of a vector.
pub(super) unsafe fn typed(
    (combiner, kind): (Combiner, Kind),
    by: &Other,
    x: (*const u8, &[isize]),
    other: (*const u8, &[isize]),
    n: (usize, bool),
    start: Option<u64>,
    sums: *mut u8,
) {
    unsafe fn of<T: Held>(
        how: How,
        x: (*const u8, &[isize]),
        other: (*const u8, &[isize]),
        n: (usize, bool),
        start: Option<u64>,
        sums: *mut u8,
    ) {
        // SAFETY: as for `reduced`.
        unsafe {
            dispatch_of!(of_type<T: Held>(
                how: How,
                x: (*const u8, &[isize]),
                other: (*const u8, &[isize]),
                n: (usize, bool),
                start: Option<u64>,
                sums: *mut u8,
            ));
        }
    }
    let how = How {
        least: combiner == Combiner::Min,
        product: by.product,
        beside: by.beside,
    };
    let of = match kind {
        Kind::F64 => of::<f64>,
        Kind::I32 => of::<i32>,
        _ => of::<f32>,
    };
    // SAFETY: as for `reduced`.
    unsafe { of(how, x, other, n, start, sums) }
}

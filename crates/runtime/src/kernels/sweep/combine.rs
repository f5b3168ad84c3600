//! Reductions of strips, for every type.

use super::folds::folded;
use super::{MAX, MIN, PRODUCT, SUM};
use crate::kernels::combiner::Combiner;
use crate::kernels::kinds::Kind;
use crate::kernels::simd::dispatch;
use crate::kernels::simd::wide::{Vector, Wide};

/// Fills `n` sums of a type with the initial value of a reduction.
pub(crate) unsafe fn neutral(combiner: Combiner, kind: Kind, sums: *mut u8, n: usize) {
    macro_rules! fill {
        ($t:ty, $least:expr, $most:expr, $ones:expr) => {{
            let start: $t = match combiner {
                Combiner::Product => 1 as $t,
                Combiner::Max => $least,
                Combiner::Min => $most,
                Combiner::And => $ones,
                Combiner::Sum | Combiner::Or => 0 as $t,
            };
            for i in 0..n {
                *sums.cast::<$t>().add(i) = start;
            }
        }};
    }
    // SAFETY: `sums` has room for `n` elements of the type.
    unsafe {
        match kind {
            // The greatest finite numbers of the narrow types.
            Kind::F16 => fill!(f32, -65504.0, 65504.0, 0.0),
            Kind::BF16 => fill!(
                f32,
                -f32::from_bits(0x7f7f_0000),
                f32::from_bits(0x7f7f_0000),
                0.0
            ),
            Kind::F32 => fill!(f32, f32::MIN, f32::MAX, 0.0),
            Kind::F64 => fill!(f64, f64::MIN, f64::MAX, 0.0),
            Kind::Bool => fill!(u8, 0, 1, 1),
            kind => integers!(kind, T => fill!(T, T::MIN, T::MAX, !0)),
        }
    }
}

/// Returns whether any, or all, of `n` truth values hold, as a truth value: only as many are looked
/// at as are needed.
pub(super) unsafe fn decided(or: bool, from: *const u8, n: usize) -> u8 {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn looked_through<S: Wide>(or: bool, from: *const u8, n: usize) -> bool {
        // SAFETY: there are `n` bytes.
        let truths = unsafe { std::slice::from_raw_parts(from, n) };
        for part in truths.chunks(FOLDED) {
            // Without branches inside of a part, which vectors compare at once.
            let found = match or {
                true => part.iter().fold(0, |some, &b| some | b),
                false => part.iter().fold(0, |some, &b| some | u8::from(b == 0)),
            };
            if found != 0 {
                return or;
            }
        }
        !or
    }
    // SAFETY: there are `n` bytes.
    u8::from(unsafe { dispatch!(looked_through(or: bool, from: *const u8, n: usize) -> bool) })
}

/// Bytes of sums that a line is folded onto.
pub(super) const FOLDED: usize = 256;

/// `sums[i] = sums[i] combined with x[i]`; with `FOLD`, `x` is folded onto the first [`FOLDED`]
/// bytes of sums.
pub(crate) unsafe fn combine<const FOLD: bool>(
    combiner: Combiner,
    kind: Kind,
    sums: *mut u8,
    x: *const u8,
    n: usize,
) {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn beside<S: Wide>(
        combiner: Combiner,
        kind: Kind,
        sums: *mut u8,
        x: *const u8,
        n: usize,
    ) {
        // SAFETY: `sums` and `x` have `n` elements of the type.
        unsafe { combined::<S, false>(combiner, kind, sums, x, n) };
    }
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn onto<S: Wide>(combiner: Combiner, kind: Kind, sums: *mut u8, x: *const u8, n: usize) {
        // SAFETY: `sums` has room for what is folded, and `x` `n` elements of the type.
        unsafe { combined::<S, true>(combiner, kind, sums, x, n) };
    }
    // SAFETY: `sums` and `x` have `n` elements of the type, or `sums` what is folded.
    unsafe {
        if FOLD {
            dispatch!(onto(combiner: Combiner, kind: Kind, sums: *mut u8, x: *const u8, n: usize));
        } else {
            dispatch!(beside(combiner: Combiner, kind: Kind, sums: *mut u8, x: *const u8, n: usize));
        }
    }
}

/// Combines one line into the other, for element types with vectors: `a + b`, `a > b ? a : b`,
/// `a < b ? a : b`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn vectors<V: Vector, const COMBINER: i32, const FOLD: bool>(
    sums: *mut u8,
    x: *const u8,
    n: usize,
) {
    let (sums, x) = (sums.cast::<V::Element>(), x.cast::<V::Element>());
    let across = FOLDED / size_of::<V::Element>();
    // The remainder is no longer than the sums.
    let whole = if FOLD { n / across * across } else { 0 };
    macro_rules! onto {
        ($a:expr, $b:expr) => {
            match COMBINER {
                SUM => $a.add($b),
                PRODUCT => $a.times($b),
                MAX => $a.greater($b),
                _ => $a.lesser($b),
            }
        };
    }
    if FOLD {
        // As many vectors as [`FOLDED`] bytes are with the smallest registers.
        // SAFETY: the instruction set of `S` is enabled here.
        let mut acc = unsafe { [V::splat(V::Element::default()); 16] };
        let vectors = across / V::LANES;
        // SAFETY: `sums` and `x` have `n` elements, or `sums` what is folded.
        unsafe {
            for k in 0..vectors {
                acc[k] = V::load(sums.add(k * V::LANES));
            }
            for i in (0..whole).step_by(across) {
                for k in 0..vectors {
                    acc[k] = onto!(acc[k], V::load(x.add(i + k * V::LANES)));
                }
            }
            for k in 0..vectors {
                acc[k].store(sums.add(k * V::LANES));
            }
        }
    }
    let mut i = whole;
    // SAFETY: `sums` and `x` have `n` elements, or `sums` what is folded.
    unsafe {
        while i + V::LANES <= n {
            let to = sums.add(i - whole);
            onto!(V::load(to), V::load(x.add(i))).store(to);
            i += V::LANES;
        }
        while i < n {
            let to = sums.add(i - whole);
            let mut line = [V::Element::default(); 16];
            onto!(V::splat(*to), V::splat(*x.add(i))).store(line.as_mut_ptr());
            *to = line[0];
            i += 1;
        }
    }
}

/// Folds the lanes of folded sums onto each other, halves onto halves.
pub(super) unsafe fn together(combiner: Combiner, kind: Kind, sums: *mut u8) {
    #[inline(always)]
    unsafe fn halves<S: Wide>(combiner: Combiner, kind: Kind, sums: *mut u8) {
        if matches!(kind, Kind::F32 | Kind::F64)
            && !matches!(combiner, Combiner::And | Combiner::Or)
        {
            // As a line, beginning with what changes nothing.
            let mut start = [0u8; 8];
            // SAFETY: there is room for a number, and `sums` has [`FOLDED`] bytes.
            unsafe {
                neutral(combiner, kind, start.as_mut_ptr(), 1);
                let len = FOLDED / kind.size();
                folded::<S>(combiner, kind, start.as_ptr(), sums, 1, len, sums);
            }
            return;
        }
        let mut half = FOLDED / kind.size() / 2;
        while half > 0 {
            // SAFETY: `sums` has [`FOLDED`] bytes, of which both halves are elements.
            unsafe {
                let other = sums.add(half * kind.size()).cast_const();
                combined::<S, false>(combiner, kind, sums, other, half);
            }
            half /= 2;
        }
    }
    // SAFETY: `sums` has [`FOLDED`] bytes.
    unsafe { dispatch!(halves(combiner: Combiner, kind: Kind, sums: *mut u8)) }
}

/// Combines one line of a type into another.
macro_rules! pairs {
    ($fold:ident, $sums:ident, $x:ident, $n:ident: $t:ty, |$a:ident, $v:ident| $value:expr) => {{
        const LANES: usize = FOLDED / size_of::<$t>();
        let (sums, x) = ($sums.cast::<$t>(), $x.cast::<$t>());
        let whole = $n / LANES * LANES;
        let at = |i: usize| if $fold { sums } else { sums.add(i) }.cast::<[$t; LANES]>();
        // All lanes are stored, changed or not: compilers do not vectorise conditional stores.
        let mut lanes = [<$t>::default(); LANES];
        if $fold {
            lanes = at(0).read_unaligned();
        }
        for i in (0..whole).step_by(LANES) {
            if !$fold {
                lanes = at(i).read_unaligned();
            }
            for j in 0..LANES {
                let ($a, $v) = (lanes[j], *x.add(i + j));
                lanes[j] = $value;
            }
            if !$fold {
                at(i).write_unaligned(lanes);
            }
        }
        if $fold {
            at(0).write_unaligned(lanes);
        }
        for i in whole..$n {
            let to = sums.add(if $fold { i - whole } else { i });
            let ($a, $v) = (*to, *x.add(i));
            *to = $value;
        }
    }};
}

#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the lanes out of memory.
unsafe fn combined<S: Wide, const FOLD: bool>(
    combiner: Combiner,
    kind: Kind,
    sums: *mut u8,
    x: *const u8,
    n: usize,
) {
    // SAFETY: `sums` and `x` have `n` elements of the type, or `sums` what is folded.
    unsafe {
        match (combiner, kind) {
            (Combiner::Sum, Kind::F32) => vectors::<S::F32, SUM, FOLD>(sums, x, n),
            (Combiner::Max, Kind::F32) => vectors::<S::F32, MAX, FOLD>(sums, x, n),
            (Combiner::Min, Kind::F32) => vectors::<S::F32, MIN, FOLD>(sums, x, n),
            (Combiner::Sum, Kind::F64) => vectors::<S::F64, SUM, FOLD>(sums, x, n),
            (Combiner::Max, Kind::F64) => vectors::<S::F64, MAX, FOLD>(sums, x, n),
            (Combiner::Min, Kind::F64) => vectors::<S::F64, MIN, FOLD>(sums, x, n),
            (Combiner::Sum, Kind::I32 | Kind::U32) => vectors::<S::I32, SUM, FOLD>(sums, x, n),
            (Combiner::Max, Kind::I32) => vectors::<S::I32, MAX, FOLD>(sums, x, n),
            (Combiner::Min, Kind::I32) => vectors::<S::I32, MIN, FOLD>(sums, x, n),
            (Combiner::Sum, Kind::I64 | Kind::U64) => vectors::<S::I64, SUM, FOLD>(sums, x, n),
            (Combiner::Max, Kind::I64) => vectors::<S::I64, MAX, FOLD>(sums, x, n),
            (Combiner::Min, Kind::I64) => vectors::<S::I64, MIN, FOLD>(sums, x, n),
            (Combiner::Product, Kind::F32) => vectors::<S::F32, PRODUCT, FOLD>(sums, x, n),
            (Combiner::Product, Kind::F64) => vectors::<S::F64, PRODUCT, FOLD>(sums, x, n),
            (Combiner::Sum, _) => {
                widths!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| a.wrapping_add(v)))
            }
            (Combiner::Product, _) => {
                widths!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| a.wrapping_mul(v)))
            }
            (Combiner::Max, _) => {
                numbers!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| if a > v { a } else { v }));
            }
            (Combiner::Min, _) => {
                numbers!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| if a < v { a } else { v }));
            }
            (Combiner::And, _) => widths!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| a & v)),
            (Combiner::Or, _) => widths!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| a | v)),
        }
    }
}

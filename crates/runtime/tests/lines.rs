//! Operations along lines, against plain loops.

mod common;

use common::{Random, everywhere};
use relax_runtime::capi::kernels::rx_lines;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::lines::{RxLines, Work};
use std::ptr::null_mut;

/// Numbers with ties, and occasional NaNs where `lost`.
fn numbers(random: &mut Random, n: usize, lost: bool) -> Vec<f32> {
    let one = |r: &mut Random| match r.below(40) {
        0 if lost => f32::NAN,
        1 => -0.0,
        2 => f32::INFINITY,
        k => (k as f32 - 20.0) * [1.0, 0.5, 1e30][r.below(3)],
    };
    (0..n).map(|_| one(random)).collect()
}

/// The order as the operators define it: a bottom-up merge of indices, in which an element precedes
/// another where it is less.
fn order<T: PartialOrd>(line: &[T], ascend: bool) -> Vec<usize> {
    let before = |a: usize, b: usize| match ascend {
        true => line[a] < line[b],
        false => line[a] > line[b],
    };
    let mut order: Vec<usize> = (0..line.len()).collect();
    let mut width = 1;
    while width < line.len() {
        let mut merged = Vec::new();
        for part in order.chunks(2 * width) {
            let (mut l, mut r) = (0, width.min(part.len()));
            while l < width.min(part.len()) || r < part.len() {
                let right =
                    l >= width.min(part.len()) || r < part.len() && before(part[r], part[l]);
                merged.push(part[if right { r } else { l }]);
                if right { r += 1 } else { l += 1 }
            }
        }
        order = merged;
        width *= 2;
    }
    order
}

#[test]
fn lines_are_sorted_searched_and_summed() {
    everywhere(|ctx, _| {
        let mut random = Random(11);
        for round in 0..60 {
            let (outer, inner) = (1 + random.below(4), [1, 1, 3, 300][random.below(4)]);
            let n: usize = [1, 2, 7, 65, 700, 1500][random.below(6)];
            let keep = [n, 1, n.div_ceil(9), n + 2][random.below(4)];
            let x = numbers(&mut random, outer * n * inner, round % 3 == 0);
            let at = |o: usize, i: usize, k: usize| (o * n + k) * inner + i;
            let (mut values, mut indices) = (
                vec![9.0f32; outer * keep * inner],
                vec![9i32; outer * keep * inner],
            );
            let flag = round % 2;
            let mut lines = RxLines {
                outer: outer as i64,
                extent: n as i64,
                inner: inner as i64,
                keep: keep as i64,
                kind: Kind::F32 as i32,
                index_kind: Kind::I32 as i32,
                work: Work::Sort as i32,
                flag,
                x: x.as_ptr().cast(),
                values: values.as_mut_ptr().cast(),
                indices: indices.as_mut_ptr().cast(),
            };
            let mut places = vec![0i32; outer * inner];
            let mut sums = vec![0.0f32; x.len()];
            // SAFETY: the arrays are as large as the descriptor says.
            unsafe {
                assert_eq!(rx_lines(ctx, &lines), 0);
                lines.values = null_mut();
                lines.indices = places.as_mut_ptr().cast();
                lines.work = Work::Greatest as i32;
                assert_eq!(rx_lines(ctx, &lines), 0);
                lines.values = sums.as_mut_ptr().cast();
                lines.indices = null_mut();
                lines.work = Work::Sum as i32;
                assert_eq!(rx_lines(ctx, &lines), 0);
            }
            for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                let line: Vec<f32> = (0..n).map(|k| x[at(o, i, k)]).collect();
                let order = order(&line, flag != 0);
                for k in 0..keep {
                    let to = (o * keep + k) * inner + i;
                    let index = order.get(k).copied().unwrap_or(0);
                    let value = if k < n { line[index] } else { 0.0 };
                    assert_eq!(values[to].to_bits(), value.to_bits(), "{k} of {line:?}");
                    assert_eq!(indices[to], index as i32, "{k} of {line:?}");
                }
                let (mut best, mut place, mut sum) = (0.0, -1, 0.0f32);
                for (k, &v) in line.iter().enumerate() {
                    let kept = if flag != 0 { best > v } else { best >= v };
                    if place < 0 || !kept {
                        (best, place) = (v, k as i32);
                    }
                    let before = sum;
                    sum += v;
                    let stands = if flag != 0 { before } else { sum };
                    let found = sums[at(o, i, k)];
                    assert!(found == stands || found.is_nan() && stands.is_nan());
                }
                assert_eq!(places[o * inner + i], place, "{line:?}");
            }
        }
    });
}

/// Element types other than float32, against the stable sort of the standard library.
#[test]
fn every_type_is_sorted() {
    fn check<T: Copy + PartialOrd + std::fmt::Debug>(
        ctx: *mut relax_runtime::context::RxContext,
        kind: Kind,
        x: &[T],
        keep: usize,
        ascend: bool,
    ) {
        let (mut values, mut indices) = (x[..keep].to_vec(), vec![0i64; keep]);
        let lines = RxLines {
            outer: 1,
            extent: x.len() as i64,
            inner: 1,
            keep: keep as i64,
            kind: kind as i32,
            index_kind: Kind::I64 as i32,
            work: Work::Sort as i32,
            flag: ascend.into(),
            x: x.as_ptr().cast(),
            values: values.as_mut_ptr().cast(),
            indices: indices.as_mut_ptr().cast(),
        };
        // SAFETY: the arrays are as large as the descriptor says.
        assert_eq!(unsafe { rx_lines(ctx, &lines) }, 0);
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = if ascend { (a, b) } else { (b, a) };
            x[a].partial_cmp(&x[b]).expect("no NaN")
        });
        for k in 0..keep {
            assert_eq!(indices[k], order[k] as i64, "{k} of {kind:?}, {}", x.len());
            assert_eq!(values[k], x[order[k]]);
        }
    }
    everywhere(|ctx, _| {
        let mut random = Random(29);
        for n in [1usize, 2, 3, 40, 511, 512, 3000] {
            let bits: Vec<u64> = (0..n)
                .map(|_| random.bits() << 33 ^ random.bits())
                .collect();
            for (keep, ascend) in [(n, true), (n, false), (n.div_ceil(9), true), (1, false)] {
                let doubles: Vec<f64> = bits.iter().map(|&b| b as i64 as f64 * 0.5).collect();
                check(ctx, Kind::F64, &doubles, keep, ascend);
                let few: Vec<f64> = bits.iter().map(|&b| (b % 7) as f64 - 3.0).collect();
                check(ctx, Kind::F64, &few, keep, ascend);
                let whole: Vec<i64> = bits.iter().map(|&b| b as i64).collect();
                check(ctx, Kind::I64, &whole, keep, ascend);
                check(ctx, Kind::U64, &bits, keep, ascend);
                let bytes: Vec<i8> = bits.iter().map(|&b| b as i8).collect();
                check(ctx, Kind::I8, &bytes, keep, ascend);
                let words: Vec<u16> = bits.iter().map(|&b| b as u16).collect();
                check(ctx, Kind::U16, &words, keep, ascend);
            }
        }
    });
}

/// Elements as bytes, and their values.
struct Elements {
    kind: Kind,
    bytes: Vec<u8>,
    values: Vec<f64>,
}

/// Elements of a type, mostly of similar values, so that there are ties.
fn elements(random: &mut Random, kind: Kind, n: usize, lost: bool) -> Elements {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let small = random.below(100) as i64 - 50;
        let value = match kind {
            Kind::Bool => random.below(2) as f64,
            Kind::U8 | Kind::U16 => (small + 50) as f64,
            Kind::U32 => ((small + 50) * 40_000_000) as f64,
            Kind::U64 => (small + 50) as f64 * 2f64.powi(57),
            Kind::I64 => small as f64 * 2f64.powi(57),
            Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64 if lost && random.below(90) == 0 => {
                f64::NAN
            }
            Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64 if random.below(200) == 0 => {
                f64::INFINITY.copysign(small as f64)
            }
            Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64 if random.below(30) == 0 => -0.0,
            _ => small as f64,
        };
        match kind {
            Kind::Bool => bytes.push(value as u8),
            Kind::I8 => bytes.extend((value as i8).to_le_bytes()),
            Kind::U8 => bytes.extend((value as u8).to_le_bytes()),
            Kind::I16 => bytes.extend((value as i16).to_le_bytes()),
            Kind::U16 => bytes.extend((value as u16).to_le_bytes()),
            Kind::I32 => bytes.extend((value as i32).to_le_bytes()),
            Kind::U32 => bytes.extend((value as u32).to_le_bytes()),
            Kind::I64 => bytes.extend((value as i64).to_le_bytes()),
            Kind::U64 => bytes.extend((value as u64).to_le_bytes()),
            Kind::F16 => bytes.extend(half::f16::from_f64(value).to_le_bytes()),
            Kind::BF16 => bytes.extend(half::bf16::from_f64(value).to_le_bytes()),
            Kind::F32 => bytes.extend((value as f32).to_le_bytes()),
            Kind::F64 => bytes.extend(value.to_le_bytes()),
        }
        values.push(value);
    }
    Elements {
        kind,
        bytes,
        values,
    }
}

/// The indices of the greatest and the least elements of every type, along lines of all lengths,
/// against a plain loop.
#[test]
fn extremes_of_every_type() {
    everywhere(|ctx, _| {
        let mut random = Random(5);
        for round in 0..16 {
            for &kind in Kind::ALL {
                let inner = [1, 1, 5, 300][random.below(4)];
                let n: usize =
                    [0, 1, 3, 7, 24, 25, 31, 64, 500, 1024, 1025, 2500][random.below(12)];
                // Many lines at a time where they are short.
                let many = if inner == 1 && n < 32 { 200 } else { 3 };
                let outer = [1, 2, 3, many][random.below(4)];
                let x = elements(&mut random, kind, outer * n * inner, round % 4 == 0);
                let (greatest, last) = (round % 2 == 0, random.below(2) == 0);
                let mut places = vec![7i64; outer * inner];
                let lines = RxLines {
                    outer: outer as i64,
                    extent: n as i64,
                    inner: inner as i64,
                    keep: 1,
                    kind: x.kind as i32,
                    index_kind: Kind::I64 as i32,
                    work: if greatest {
                        Work::Greatest
                    } else {
                        Work::Least
                    } as i32,
                    flag: last.into(),
                    x: x.bytes.as_ptr().cast(),
                    values: null_mut(),
                    indices: places.as_mut_ptr().cast(),
                };
                // SAFETY: the arrays are as large as the descriptor says.
                assert_eq!(unsafe { rx_lines(ctx, &lines) }, 0);
                for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                    let (mut best, mut place) = (0.0, -1);
                    for k in 0..n {
                        let v = x.values[(o * n + k) * inner + i];
                        let kept = match (greatest, last) {
                            (true, true) => best > v,
                            (true, false) => best >= v,
                            (false, true) => best < v,
                            (false, false) => best <= v,
                        };
                        if place < 0 || !kept {
                            (best, place) = (v, k as i64);
                        }
                    }
                    let found = places[o * inner + i];
                    assert_eq!(
                        found, place,
                        "{kind:?}, {n} by {inner}, greatest {greatest}, last {last}"
                    );
                }
            }
        }
    });
}

/// Bits of many distributions: arbitrary, few distinct ones, adjacent values around one number, in
/// reverse order.
fn bits(random: &mut Random, n: usize, form: usize) -> Vec<u64> {
    let any = |r: &mut Random| r.bits() << 33 ^ r.bits() << 11 ^ r.bits();
    let mut all: Vec<u64> = match form {
        0 => (0..n).map(|_| any(random)).collect(),
        1 => (0..n)
            .map(|_| (random.below(9) as u64) << 61 | 1 << 52)
            .collect(),
        2 => (0..n)
            .map(|_| 0x3ff8_0000_0000_0000 + random.below(1000) as u64)
            .collect(),
        _ => (0..n as u64).rev().map(|k| k << 40).collect(),
    };
    // One far from the others, and zeros of both signs.
    for (k, x) in [
        (3, 0x7fe0_0000_0000_0000),
        (5, 1 << 63),
        (6, 0),
        (8, 1 << 63),
    ] {
        if k < n {
            all[k] = x;
        }
    }
    all
}

macro_rules! sorted_as_by_comparisons {
    ($name:ident, $t:ty, $kind:ident, |$b:ident| $of:expr) => {
        fn $name(ctx: *mut relax_runtime::context::RxContext, random: &mut Random) {
            for form in 0..4 {
                for n in [1usize, 5, 300, 3000, 70_000] {
                    let x: Vec<$t> = bits(random, n, form).into_iter().map(|$b| $of).collect();
                    // Without unordered numbers.
                    let x: Vec<$t> = x
                        .into_iter()
                        .filter(|x| x.partial_cmp(x).is_some())
                        .collect();
                    for (keep, with_indices) in
                        [(x.len(), false), (x.len(), true), (7, true), (7, false)]
                    {
                        let ascend = random.below(2);
                        let mut order: Vec<usize> = (0..x.len()).collect();
                        order.sort_by(|&a, &b| {
                            let order = x[a].partial_cmp(&x[b]).unwrap();
                            if ascend == 1 { order } else { order.reverse() }
                        });
                        let mut values = vec![x[0]; keep];
                        let mut indices = vec![0i64; keep];
                        let lines = RxLines {
                            outer: 1,
                            extent: x.len() as i64,
                            inner: 1,
                            keep: keep as i64,
                            kind: Kind::$kind as i32,
                            index_kind: Kind::I64 as i32,
                            work: Work::Sort as i32,
                            flag: ascend as i32,
                            x: x.as_ptr().cast(),
                            values: values.as_mut_ptr().cast(),
                            indices: if with_indices {
                                indices.as_mut_ptr().cast()
                            } else {
                                null_mut()
                            },
                        };
                        // SAFETY: the arrays are as large as the descriptor says.
                        assert_eq!(unsafe { rx_lines(ctx, &lines) }, 0);
                        for (k, &i) in order.iter().enumerate().take(keep) {
                            let same = values[k].to_ne_bytes() == x[i].to_ne_bytes();
                            assert!(same, "{} {form} {n} {keep} at {k}", stringify!($name));
                            assert!(
                                !with_indices || indices[k] == i as i64,
                                "{form} {n} {keep} at {k}"
                            );
                        }
                    }
                }
            }
        }
    };
}
sorted_as_by_comparisons!(doubles, f64, F64, |b| f64::from_bits(b));
sorted_as_by_comparisons!(floats, f32, F32, |b| f32::from_bits((b >> 32 ^ b) as u32));
sorted_as_by_comparisons!(halves, half::f16, F16, |b| half::f16::from_bits(
    (b >> 48) as u16
));
sorted_as_by_comparisons!(long, i64, I64, |b| b as i64);
sorted_as_by_comparisons!(short, i32, I32, |b| (b >> 32 ^ b) as i32);
sorted_as_by_comparisons!(bytes, u8, U8, |b| (b >> 56) as u8);

#[test]
fn elements_of_all_sizes_are_sorted_with_and_without_indices() {
    everywhere(|ctx, _| {
        let mut random = Random(29);
        for sort in [doubles, floats, halves, long, short, bytes] {
            sort(ctx, &mut random);
        }
    });
}

#[test]
fn narrow_floats_run_up_rounded_at_every_step() {
    use half::{bf16, f16};
    everywhere(|ctx, _| {
        let mut random = Random(31);
        for round in 0..24 {
            let (outer, inner) = ([1, 3, 70][random.below(3)], [1, 2, 300][random.below(3)]);
            let n: usize = [1, 7, 64, 150][random.below(4)];
            let (brain, product, outside) =
                (round % 2 == 1, round / 2 % 2 == 1, round / 4 % 2 == 1);
            let round_to = |x: f32| {
                if brain {
                    bf16::from_f32(x).to_f32()
                } else {
                    f16::from_f32(x).to_f32()
                }
            };
            let to_bits = |x: f32| {
                if brain {
                    bf16::from_f32(x).to_bits()
                } else {
                    f16::from_f32(x).to_bits()
                }
            };
            let x: Vec<f32> = (0..outer * n * inner)
                .map(|_| round_to(random.float() + 1.0))
                .collect();
            let given: Vec<u16> = x.iter().map(|&x| to_bits(x)).collect();
            let mut found = vec![9u16; x.len()];
            let lines = RxLines {
                outer: outer as i64,
                extent: n as i64,
                inner: inner as i64,
                keep: 0,
                kind: if brain { Kind::BF16 } else { Kind::F16 } as i32,
                index_kind: Kind::I32 as i32,
                work: if product { Work::Product } else { Work::Sum } as i32,
                flag: i32::from(outside),
                x: given.as_ptr().cast(),
                values: found.as_mut_ptr().cast(),
                indices: null_mut(),
            };
            // SAFETY: the arrays are as large as the descriptor says.
            assert_eq!(unsafe { rx_lines(ctx, &lines) }, 0);
            for (o, j) in (0..outer).flat_map(|o| (0..inner).map(move |j| (o, j))) {
                let mut sum = if product { 1.0f32 } else { 0.0 };
                for i in 0..n {
                    let at = (o * n + i) * inner + j;
                    let after = round_to(if product { sum * x[at] } else { sum + x[at] });
                    let wanted = to_bits(if outside { sum } else { after });
                    assert_eq!(found[at], wanted, "{outer} {n} {inner} at {o} {i} {j}");
                    sum = after;
                }
            }
        }
    });
}

/// Sorted lines of every type, along axes with others behind them, whole and the first few, with
/// indices and without, against the merge that defines them. Values are compared by their bits: of
/// equal ones, as of zeros, the first one comes first.
#[test]
fn lines_of_every_type_are_sorted() {
    everywhere(|ctx, _| {
        let mut random = Random(17);
        for round in 0..40 {
            for &kind in Kind::ALL.iter().filter(|&&k| k != Kind::Bool) {
                let inner = [1, 1, 3, 16, 33, 70][random.below(6)];
                let n: usize = [1, 5, 24, 70, 150, 400][random.below(6)];
                let outer = 1 + random.below(2);
                let keep = [n, 1, 3, n.div_ceil(5), n + 1, 16][random.below(6)];
                let x = elements(&mut random, kind, outer * n * inner, round % 4 == 0);
                let (ascend, indexed) = (random.below(2) == 0, random.below(3) > 0);
                let size = x.bytes.len() / x.values.len();
                let mut values = vec![9u8; outer * keep * inner * size];
                let mut indices = vec![9i32; outer * keep * inner];
                let lines = RxLines {
                    outer: outer as i64,
                    extent: n as i64,
                    inner: inner as i64,
                    keep: keep as i64,
                    kind: kind as i32,
                    index_kind: Kind::I32 as i32,
                    work: Work::Sort as i32,
                    flag: ascend.into(),
                    x: x.bytes.as_ptr().cast(),
                    values: values.as_mut_ptr().cast(),
                    indices: match indexed {
                        true => indices.as_mut_ptr().cast(),
                        false => null_mut(),
                    },
                };
                // SAFETY: the arrays are as large as the descriptor says.
                assert_eq!(unsafe { rx_lines(ctx, &lines) }, 0);
                for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                    let place = |k: usize| (o * n + k) * inner + i;
                    let line: Vec<f64> = (0..n).map(|k| x.values[place(k)]).collect();
                    let order = order(&line, ascend);
                    for k in 0..keep {
                        let to = (o * keep + k) * inner + i;
                        let from = order.get(k);
                        let wanted = match from {
                            Some(&k) => &x.bytes[place(k) * size..][..size],
                            None => &[0; 8][..size],
                        };
                        let what = format!("{k} of {keep}, {n} of {kind:?}, {inner}");
                        assert_eq!(&values[to * size..][..size], wanted, "{what}");
                        let index = from.map_or(0, |&k| k as i32);
                        assert!(!indexed || indices[to] == index, "{what}");
                    }
                }
            }
        }
    });
}

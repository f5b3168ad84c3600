//! Reductions over windows, of any rank, stride and element type, against plain loops: bitwise
//! equal, because each element is reduced in the order of the expression. Those over boxes, in
//! whatever order.

mod common;

use common::{Random, everywhere, sweep_of_one};
use half::{bf16, f16};
use relax_runtime::capi::kernels::{rx_boxes, rx_sweep};
use relax_runtime::kernels::boxes::RxBoxes;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::sweep::{Op, RxSweep, RxSweepOp};

/// An element type and the one that it is reduced in.
trait Number: Copy {
    type Wide: Copy;
    const KIND: Kind;
    fn of(random: &mut Random) -> Self;
    fn wide(self) -> Self::Wide;
    /// `combiner` as in the descriptor.
    fn combined(combiner: i32, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn start(combiner: i32) -> Self::Wide;
    fn bits(x: Self::Wide) -> u64;
    fn same(self, wanted: Self::Wide) -> bool;
    /// Like `same`, but for what another order of additions makes of floats.
    fn near(self, wanted: Self::Wide) -> bool;
    fn is_nan(self) -> bool;
}

macro_rules! numbers {
    ($($t:ident $wide:ident $kind:ident: |$r:ident| $of:expr, |$x:ident| $widened:expr, |$a:ident, $b:ident| $sum:expr,
        $least:expr, $most:expr, |$y:ident| $narrow:expr, |$z:ident| $bits:expr;)*) => {$(
        impl Number for $t {
            type Wide = $wide;
            const KIND: Kind = Kind::$kind;
            fn of($r: &mut Random) -> Self {
                $of
            }
            fn wide(self) -> $wide {
                let $x = self;
                $widened
            }
            fn combined(combiner: i32, $a: $wide, $b: $wide) -> $wide {
                match combiner {
                    0 => $sum,
                    2 => if $a > $b { $a } else { $b },
                    _ => if $a < $b { $a } else { $b },
                }
            }
            fn start(combiner: i32) -> $wide {
                match combiner {
                    0 => Default::default(),
                    2 => $least,
                    _ => $most,
                }
            }
            fn bits($z: $wide) -> u64 {
                $bits
            }
            fn same(self, $y: $wide) -> bool {
                #[allow(clippy::eq_op)] // Only a NaN is not itself.
                let nan = $y != $y;
                let found = self.wide();
                Self::bits(found) == Self::bits($narrow) || nan && found != found
            }
            fn near(self, wanted: $wide) -> bool {
                let float = matches!(Self::KIND, Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64);
                let (found, other) = (self.wide() as f64, wanted as f64);
                let error = (found - other).abs() <= 1e-9 * other.abs().max(1.0);
                self.same(wanted) || float && (error || found == other)
            }
            #[allow(clippy::eq_op)] // Only a NaN is not itself.
            fn is_nan(self) -> bool {
                self.wide() != self.wide()
            }
        }
    )*};
}

/// A float of few bits, or occasionally a NaN, an infinity or a signed zero.
fn float(random: &mut Random) -> f32 {
    match random.below(60) {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => -0.0,
        _ => (random.float() * 64.0).round() / 8.0,
    }
}

macro_rules! integers {
    ($($t:ident $kind:ident),*) => {
        numbers! {$(
            $t $t $kind: |r| (r.bits() ^ r.bits() << 40) as $t, |x| x, |a, b| a.wrapping_add(b), $t::MIN, $t::MAX,
                |y| y, |z| z as i64 as u64;
        )*}
    };
}
integers!(i8 I8, u8 U8, i16 I16, u16 U16, i32 I32, u32 U32, i64 I64, u64 U64);
numbers! {
    f32 f32 F32: |r| float(r), |x| x, |a, b| a + b, f32::MIN, f32::MAX, |y| y, |z| z.to_bits().into();
    f64 f64 F64: |r| f64::from(float(r)) / 3.0, |x| x, |a, b| a + b, f64::MIN, f64::MAX, |y| y, |z| z.to_bits();
    f16 f32 F16: |r| f16::from_f32(float(r)), |x| x.to_f32(), |a, b| a + b, -65504.0, 65504.0,
        |y| f16::from_f32(y).to_f32(), |z| z.to_bits().into();
    bf16 f32 BF16: |r| bf16::from_f32(float(r)), |x| x.to_f32(), |a, b| a + b, -bf16::MAX.to_f32(),
        bf16::MAX.to_f32(), |y| bf16::from_f32(y).to_f32(), |z| z.to_bits().into();
}

/// An axis of the result, and the window along it.
#[derive(Clone, Copy, Debug)]
struct Axis {
    extent: usize,
    window: usize,
    step: usize,
    apart: usize,
}

impl Axis {
    fn random(random: &mut Random, last: bool) -> Self {
        let some = |r: &mut Random, all: &[usize]| all[r.below(all.len())];
        Self {
            extent: some(
                random,
                if last {
                    &[1, 3, 7, 16, 29, 64, 150]
                } else {
                    &[1, 2, 5]
                },
            ),
            window: some(random, &[1, 1, 2, 3, 5]),
            step: some(random, &[1, 1, 2, 3, 4, 5]),
            apart: some(random, &[1, 1, 2, 3]),
        }
    }
    fn reach(&self) -> usize {
        (self.extent - 1) * self.step + (self.window - 1) * self.apart + 1
    }
}

/// Returns all indices of an index domain, in order.
fn places(extents: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..extents.iter().product::<usize>()).map(move |flat| {
        let mut rest = flat;
        let mut at = vec![0; extents.len()];
        for (to, n) in at.iter_mut().zip(extents).rev() {
            (*to, rest) = (rest % n, rest / n);
        }
        at
    })
}

fn check<T: Number + std::fmt::Debug>(
    ctx: *mut relax_runtime::context::RxContext,
    random: &mut Random,
    axes: &[Axis],
    combiner: i32,
) {
    let extents: Vec<usize> = axes.iter().map(|a| a.extent).collect();
    let windows: Vec<usize> = axes.iter().map(|a| a.window).collect();
    let mut steps = vec![1usize; axes.len()];
    for k in (1..axes.len()).rev() {
        steps[k - 1] = steps[k] * axes[k].reach();
    }
    let n = steps[0] * axes[0].reach();
    let x: Vec<T> = (0..n).map(|_| T::of(random)).collect();
    let mut y: Vec<T> = vec![x[0]; extents.iter().product()];
    let all: Vec<i64> = extents.iter().chain(&windows).map(|&n| n as i64).collect();
    let strides: Vec<i64> = (axes.iter().zip(&steps).map(|(a, s)| (a.step * s) as i64))
        .chain(axes.iter().zip(&steps).map(|(a, s)| (a.apart * s) as i64))
        .collect();
    let op = RxSweepOp {
        code: Op::Copy as i32,
        kind: T::KIND as i32,
        to: T::KIND as i32,
        dst: 0,
        args: [0, -1, -1, -1],
    };
    let (data, kinds) = ([x.as_ptr().cast()], [T::KIND as i32]);
    let sweep = RxSweep {
        combiner,
        ..sweep_of_one(
            &op,
            axes.len(),
            (&data, &kinds),
            (&all, &strides),
            (T::KIND, &mut y),
        )
    };
    // SAFETY: the arrays are as large as the descriptor says.
    assert_eq!(unsafe { rx_sweep(ctx, &sweep) }, 0);
    for (at, found) in places(&extents).zip(&y) {
        let mut wanted = T::start(combiner);
        for r in places(&windows) {
            let place: usize = (0..axes.len())
                .map(|k| (at[k] * axes[k].step + r[k] * axes[k].apart) * steps[k])
                .sum();
            wanted = T::combined(combiner, wanted, x[place].wide());
        }
        assert!(
            found.same(wanted),
            "{:?} {axes:?} combiner {combiner} at {at:?}: {found:?}",
            T::KIND
        );
    }
}

#[test]
fn windows_of_any_rank_and_type_are_reduced_in_order() {
    everywhere(|ctx, _| {
        let mut random = Random(17);
        for round in 0..160 {
            let rank = 1 + random.below(3);
            let mut axes: Vec<Axis> = (0..rank)
                .map(|k| Axis::random(&mut random, k + 1 == rank))
                .collect();
            // Windows with many elements along one row may be reduced in another order.
            if axes.iter().map(|a| a.window).product::<usize>() >= 16 {
                axes[rank - 1].window = 1;
            }
            let combiner = [0, 2, 3][round / 12 % 3];
            let r = &mut random;
            match round % 12 {
                0 => check::<i8>(ctx, r, &axes, combiner),
                1 => check::<u8>(ctx, r, &axes, combiner),
                2 => check::<i16>(ctx, r, &axes, combiner),
                3 => check::<u16>(ctx, r, &axes, combiner),
                4 => check::<i32>(ctx, r, &axes, combiner),
                5 => check::<u32>(ctx, r, &axes, combiner),
                6 => check::<i64>(ctx, r, &axes, combiner),
                7 => check::<u64>(ctx, r, &axes, combiner),
                8 => check::<f32>(ctx, r, &axes, combiner),
                9 => check::<f64>(ctx, r, &axes, combiner),
                10 => check::<f16>(ctx, r, &axes, combiner),
                _ => check::<bf16>(ctx, r, &axes, combiner),
            }
        }
    });
}

#[test]
fn long_columns_are_reduced_in_order() {
    everywhere(|ctx, _| {
        let mut random = Random(3);
        for (window, extent) in [(100, 64), (33, 200), (700, 30), (9, 2100)] {
            let along = Axis {
                extent: 1,
                window,
                step: 1,
                apart: 1,
            };
            let beside = Axis {
                extent,
                window: 1,
                step: 1,
                apart: 1,
            };
            for combiner in [0, 2, 3] {
                let r = &mut random;
                check::<f32>(ctx, r, &[along, beside], combiner);
                check::<i32>(ctx, r, &[along, beside], combiner);
                check::<f16>(ctx, r, &[along, beside], combiner);
                check::<u8>(ctx, r, &[along, beside], combiner);
            }
        }
    });
}

/// Short rows of many planes, in parts of which there is a whole number and in others.
#[test]
fn short_rows_of_planes_are_reduced_in_order() {
    everywhere(|ctx, _| {
        let mut random = Random(4);
        let axis = |extent, window, step| Axis {
            extent,
            window,
            step,
            apart: 1,
        };
        let sizes = [
            (700, 4, 2, 2),
            (61, 14, 3, 1),
            (35, 7, 3, 3),
            (300, 4, 3, 2),
        ];
        for (planes, extent, window, step) in sizes {
            let (r, row) = (&mut random, axis(extent, window, step));
            for axes in [
                vec![axis(planes, 1, 1), row, row],
                vec![
                    axis(planes / 2, 1, 1),
                    axis(2, 2, 2),
                    row,
                    axis(extent, 1, step),
                ],
                vec![row, axis(planes, 1, 1), row],
            ] {
                for combiner in [0, 2] {
                    check::<f32>(ctx, r, &axes, combiner);
                    check::<f16>(ctx, r, &axes, combiner);
                    check::<i8>(ctx, r, &axes, combiner);
                    check::<f64>(ctx, r, &axes, combiner);
                }
            }
        }
    });
}

/// Boxes with random ranges along some axes, against plain loops.
fn check_boxes<T: Number + std::fmt::Debug>(
    ctx: *mut relax_runtime::context::RxContext,
    random: &mut Random,
    (outer, inner): (usize, usize),
    axes: &[(usize, usize)],
    combiner: i32,
) {
    let (from, to): (Vec<usize>, Vec<usize>) = axes.iter().copied().unzip();
    let mut ranges: Vec<Vec<(usize, usize)>> = Vec::new();
    for &(n, m) in axes {
        // Tiles of uneven widths, and now and then any range, or none.
        let tile = |i: usize, r: &mut Random| match r.below(12) {
            0 => (n / 2, n / 2),
            1 => {
                let first = r.below(n);
                (first, first + 1 + r.below(n - first))
            }
            _ => (i * n / m, ((i + 1) * n).div_ceil(m)),
        };
        ranges.push((0..m).map(|i| tile(i, random)).collect());
    }
    let count = from.iter().product::<usize>() * inner;
    let x: Vec<T> = (0..outer * count).map(|_| T::of(random)).collect();
    let mut y = vec![x[0]; outer * to.iter().product::<usize>() * inner];
    let extents: Vec<i64> = from.iter().chain(&to).map(|&n| n as i64).collect();
    let numbers: Vec<i64> = (ranges.iter().flatten())
        .flat_map(|r| [r.0 as i64, r.1 as i64])
        .collect();
    let boxes = RxBoxes {
        axes: axes.len() as i32,
        combiner,
        kind: T::KIND as i32,
        reserved: 0,
        outer: outer as i64,
        inner: inner as i64,
        extents: extents.as_ptr(),
        ranges: numbers.as_ptr(),
        x: x.as_ptr().cast(),
        out: y.as_mut_ptr().cast(),
    };
    // SAFETY: the arrays are as large as the descriptor says.
    assert_eq!(unsafe { rx_boxes(ctx, &boxes) }, 0);
    let all: Vec<usize> = std::iter::once(outer).chain(to).chain([inner]).collect();
    for (at, found) in places(&all).zip(&y) {
        let own: Vec<(usize, usize)> = (0..axes.len()).map(|k| ranges[k][at[k + 1]]).collect();
        let widths: Vec<usize> = own.iter().map(|r| r.1 - r.0).collect();
        let (mut wanted, mut nan) = (T::start(combiner), false);
        for r in places(&widths) {
            let place = (0..axes.len()).fold(at[0], |n, k| n * from[k] + own[k].0 + r[k]);
            let x = x[place * inner + at[axes.len() + 1]];
            nan |= x.is_nan();
            wanted = T::combined(combiner, wanted, x.wide());
        }
        // An extremum with a NaN before or behind it is one of several.
        assert!(
            found.near(wanted) || nan && combiner != 0,
            "{:?} {outer} {axes:?} {inner} combiner {combiner} at {at:?}: {found:?}",
            T::KIND
        );
    }
}

#[test]
fn boxes_of_any_rank_and_type_are_reduced() {
    everywhere(|ctx, _| {
        let mut random = Random(29);
        for round in 0..120 {
            let some = |r: &mut Random, all: &[usize]| all[r.below(all.len())];
            let rank = 1 + random.below(3);
            let extents: &[usize] = match rank {
                1 => &[1, 5, 33, 300, 1000],
                2 => &[1, 4, 7, 14, 40],
                _ => &[2, 4, 7, 9],
            };
            let axis = |r: &mut Random| (some(r, extents), some(r, &[1, 2, 3, 4, 9]));
            let axes: Vec<(usize, usize)> = (0..rank).map(|_| axis(&mut random)).collect();
            let outer = some(&mut random, &[1, 2, 9, 16, 70, 130]);
            let inner = some(&mut random, &[1, 1, 2, 3, 8, 16, 33, 65]);
            let outer = if inner > 3 { outer.min(9) } else { outer };
            let (r, around) = (&mut random, (outer, inner));
            let combiner = [0, 2, 3][round / 12 % 3];
            match round % 12 {
                0 => check_boxes::<i8>(ctx, r, around, &axes, combiner),
                1 => check_boxes::<u8>(ctx, r, around, &axes, combiner),
                2 => check_boxes::<i16>(ctx, r, around, &axes, combiner),
                3 => check_boxes::<u16>(ctx, r, around, &axes, combiner),
                4 => check_boxes::<i32>(ctx, r, around, &axes, combiner),
                5 => check_boxes::<u32>(ctx, r, around, &axes, combiner),
                6 => check_boxes::<i64>(ctx, r, around, &axes, combiner),
                7 => check_boxes::<u64>(ctx, r, around, &axes, combiner),
                8 => check_boxes::<f32>(ctx, r, around, &axes, combiner),
                9 => check_boxes::<f64>(ctx, r, around, &axes, combiner),
                10 => check_boxes::<f16>(ctx, r, around, &axes, combiner),
                _ => check_boxes::<bf16>(ctx, r, around, &axes, combiner),
            }
        }
    });
}

/// Windows over rows and columns of planes whose elements meet one number of each place, or one for each element of
/// a row.
fn check_pairs<T: Number + std::fmt::Debug>(
    ctx: *mut relax_runtime::context::RxContext,
    random: &mut Random,
    axes: &[Axis; 3],
    (combiner, op, beside): (i32, Op, bool),
    meet: impl Fn(T::Wide, T::Wide) -> T::Wide,
) {
    let extents = axes.map(|a| a.extent);
    let windows = axes.map(|a| a.window);
    let [planes, rows, row] = axes.map(|a| a.reach());
    let x: Vec<T> = (0..planes * rows * row).map(|_| T::of(random)).collect();
    // A number for each plane, place and, if they lie beside each other, element of a row.
    let count: usize = windows.iter().product();
    let wide = if beside { extents[2] } else { 1 };
    let w: Vec<T> = (0..extents[0] * count * wide)
        .map(|_| T::of(random))
        .collect();
    let mut y = vec![x[0]; extents.iter().product()];
    let kind = T::KIND as i32;
    let narrow = matches!(T::KIND, Kind::F16 | Kind::BF16);
    let own = if narrow { Kind::F32 as i32 } else { kind };
    let step = |code: Op, kind, to, dst, args| RxSweepOp {
        code: code as i32,
        kind,
        to,
        dst,
        args,
    };
    let mut program = vec![step(op, own, own, 0, [0, 1, -1, -1])];
    if narrow {
        program.push(step(Op::Narrow, own, kind, 1, [2, -1, -1, -1]));
    }
    let all: Vec<i64> = extents.iter().chain(&windows).map(|&n| n as i64).collect();
    let steps = [rows * row, row, 1];
    let along = axes.iter().zip(steps).map(|(a, s)| (a.step * s) as i64);
    let over = axes.iter().zip(steps).map(|(a, s)| (a.apart * s) as i64);
    let places = [windows[1] * windows[2], windows[2], 1].map(|n| (n * wide) as i64);
    let of_other = [(count * wide) as i64, 0, i64::from(beside)];
    let strides: Vec<i64> = along.chain(over).chain(of_other).chain(places).collect();
    let (data, kinds) = ([x.as_ptr().cast(), w.as_ptr().cast()], [kind, kind]);
    let sweep = RxSweep {
        axes: 3,
        reduced: 3,
        inputs: 2,
        constants: 0,
        ops: program.len() as i32,
        temps: 2,
        combiner,
        out_type: kind,
        extents: all.as_ptr(),
        data: data.as_ptr(),
        kinds: kinds.as_ptr(),
        strides: strides.as_ptr(),
        values: std::ptr::null(),
        program: program.as_ptr(),
        out: y.as_mut_ptr().cast(),
    };
    // SAFETY: the arrays are as large as the descriptor says.
    assert_eq!(unsafe { rx_sweep(ctx, &sweep) }, 0);
    for (at, found) in self::places(&extents).zip(&y) {
        let (mut wanted, mut nan) = (T::start(combiner), false);
        for (k, r) in self::places(&windows).enumerate() {
            let place: usize = (0..3)
                .map(|k| (at[k] * axes[k].step + r[k] * axes[k].apart) * steps[k])
                .sum();
            let (x, w) = (
                x[place],
                w[(at[0] * count + k) * wide + if beside { at[2] } else { 0 }],
            );
            nan |= x.is_nan() || w.is_nan();
            wanted = T::combined(combiner, wanted, meet(x.wide(), w.wide()));
        }
        assert!(
            found.near(wanted) || nan,
            "{:?} {axes:?} combiner {combiner} {op:?} {beside} at {at:?}: {found:?}",
            T::KIND
        );
    }
}

#[test]
fn windows_that_meet_another_array_are_reduced() {
    everywhere(|ctx, _| {
        let mut random = Random(31);
        for round in 0..60 {
            let some = |r: &mut Random, all: &[usize]| all[r.below(all.len())];
            let r = &mut random;
            let axis = |extent, window, step, apart| Axis {
                extent,
                window,
                step,
                apart,
            };
            let beside = round % 3 == 0;
            let step = if beside { 1 } else { some(r, &[1, 1, 2, 3]) };
            let axes = [
                axis(some(r, &[1, 3, 20]), 1, 1, 1),
                axis(
                    some(r, &[1, 6, 14]),
                    some(r, &[1, 2, 3]),
                    some(r, &[1, 2]),
                    1,
                ),
                axis(
                    some(r, &[1, 5, 28, 80, 300]),
                    some(r, &[1, 3, 5]),
                    step,
                    some(r, &[1, 2]),
                ),
            ];
            let combiner = [2, 3][round % 2];
            match round % 5 {
                0 => check_pairs::<f32>(ctx, r, &axes, (combiner, Op::Add, beside), |x, w| x + w),
                1 => check_pairs::<f64>(ctx, r, &axes, (combiner, Op::Mul, beside), |x, w| x * w),
                2 => check_pairs::<i32>(
                    ctx,
                    r,
                    &axes,
                    (combiner, Op::Add, beside),
                    i32::wrapping_add,
                ),
                3 => check_pairs::<bf16>(ctx, r, &axes, (combiner, Op::Add, beside), |x, w| x + w),
                _ => check_pairs::<f16>(ctx, r, &axes, (combiner, Op::Mul, beside), |x, w| x * w),
            }
        }
    });
}

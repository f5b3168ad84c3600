//! Contractions of random forms against plain loops, over element types, instruction sets and
//! thread counts.

mod common;

use common::{Random, everywhere};
use relax_runtime::capi::kernels::rx_contract;
use relax_runtime::context::RxContext;
use relax_runtime::kernels::contract::RxContract;
use relax_runtime::kernels::kinds::Kind;
use std::fmt::Debug;

/// A number type; values are small, so that float sums are exact in any order.
trait Number: Copy + PartialEq + Debug + Default {
    const KIND: Kind;
    fn of(n: i64) -> Self;
    fn whole(self) -> i64;
}
macro_rules! numbers {
    ($($t:ty: $kind:ident),*) => {$(
        impl Number for $t {
            const KIND: Kind = Kind::$kind;
            fn of(n: i64) -> Self {
                n as $t
            }
            fn whole(self) -> i64 {
                self as i64
            }
        }
    )*};
}
numbers!(f32: F32, f64: F64, i8: I8, u8: U8, i16: I16, i32: I32, i64: I64);

/// An axis: its extent and the strides of both operands and the result.
type Axis = (usize, [i64; 3]);

/// Axes of random roles; the result is contiguous, in the order of its axes.
fn form(random: &mut Random, large: bool) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    let most = if large { 40 } else { 5 };
    for _ in 0..1 + random.below(5) {
        let extent = [1, 2, 3, most, 1 + random.below(most)][random.below(5)];
        // Which of the three move along it, and their strides.
        let moves = [
            [1, 0, 1],
            [0, 1, 1],
            [1, 1, 1],
            [1, 1, 0],
            [1, 0, 1],
            [0, 1, 1],
        ][random.below(6)];
        let steps = moves.map(|m| m * [1, 1, 2, 3, -1, 7][random.below(6)]);
        axes.push((extent, steps));
    }
    let mut step = 1;
    for (extent, steps) in axes.iter_mut().rev() {
        if steps[2] != 0 {
            steps[2] = step;
            step *= *extent as i64;
        }
    }
    axes
}

/// The least offset of an operand, and the number of elements that it spans.
fn span(axes: &[Axis], operand: usize) -> (i64, usize) {
    let reach = |a: &Axis| a.1[operand] * (a.0 as i64 - 1);
    let low: i64 = axes.iter().map(|a| reach(a).min(0)).sum();
    let high: i64 = axes.iter().map(|a| reach(a).max(0)).sum();
    (low, (high - low + 1) as usize)
}

fn check<A: Number, B: Number, C: Number>(ctx: *mut RxContext, axes: &[Axis], random: &mut Random) {
    let mut operand = |k: usize| -> (i64, Vec<i64>) {
        let (low, n) = span(axes, k);
        (
            -low,
            (0..n)
                .map(|_| random.below(7) as i64 - 3 * i64::from(A::KIND != Kind::U8))
                .collect(),
        )
    };
    let ((a0, a), (b0, b)) = (operand(0), operand(1));
    let a: Vec<A> = a.into_iter().map(A::of).collect();
    let b: Vec<B> = b.into_iter().map(B::of).collect();
    let (_, n) = span(axes, 2);
    let mut wanted = vec![0i64; n];
    let count: usize = axes.iter().map(|a| a.0).product();
    for place in 0..count {
        let (mut rest, mut at) = (place, [a0, b0, 0]);
        for (extent, steps) in axes.iter().rev() {
            let i = (rest % extent) as i64;
            rest /= extent;
            for (at, step) in at.iter_mut().zip(steps) {
                *at += i * step;
            }
        }
        wanted[at[2] as usize] += a[at[0] as usize].whole() * b[at[1] as usize].whole();
    }
    let mut c = vec![C::of(77); n];
    let extents: Vec<i64> = axes.iter().map(|a| a.0 as i64).collect();
    let steps: Vec<i64> = (0..3)
        .flat_map(|k| axes.iter().map(move |a| a.1[k]))
        .collect();
    let g = RxContract {
        axes: axes.len() as i32,
        a_type: A::KIND as i32,
        b_type: B::KIND as i32,
        c_type: C::KIND as i32,
        extents: extents.as_ptr(),
        steps: steps.as_ptr(),
        a: a[a0 as usize..].as_ptr().cast(),
        b: b[b0 as usize..].as_ptr().cast(),
        c: c.as_mut_ptr().cast(),
    };
    // SAFETY: the arrays span what the steps lead to.
    assert_eq!(unsafe { rx_contract(ctx, &g) }, 0);
    for (i, (&found, &sum)) in c.iter().zip(&wanted).enumerate() {
        assert_eq!(
            found,
            C::of(C::of(sum).whole()),
            "element {i} of {axes:?}, {:?}",
            C::KIND
        );
    }
}

#[test]
fn forms_of_all_kinds_are_what_loops_give() {
    everywhere(|ctx, _| {
        let mut random = Random(7);
        for round in 0..250 {
            let axes = form(&mut random, round % 4 == 0);
            let count: usize = axes.iter().map(|a| a.0).product();
            if count > 400_000 {
                continue;
            }
            match round % 7 {
                0 => check::<f32, f32, f32>(ctx, &axes, &mut random),
                1 => check::<f64, f64, f64>(ctx, &axes, &mut random),
                2 => check::<i8, i8, i32>(ctx, &axes, &mut random),
                3 => check::<u8, u8, u8>(ctx, &axes, &mut random),
                4 => check::<i64, i32, i64>(ctx, &axes, &mut random),
                5 => check::<i16, i16, f32>(ctx, &axes, &mut random),
                _ => check::<f32, f32, f64>(ctx, &axes, &mut random),
            }
        }
    });
}

/// Windows of three by three over images of each channel, whose rows are shorter than vectors, as
/// long or a few vectors long; and sums of products of rows.
#[test]
fn short_rows_are_what_loops_give() {
    everywhere(|ctx, _| {
        let mut random = Random(5);
        for w in [3, 7, 8, 14, 16, 17, 31, 40, 63, 64, 65] {
            let (c, h) = (3, 5);
            let (wide, high) = (w + 2, h + 2);
            let windows = [
                (c as usize, [wide * high, 9, h * w]),
                (h as usize, [wide, 0, w]),
                (w as usize, [1, 0, 1]),
                (3, [wide, 3, 0]),
                (3, [1, 1, 0]),
            ];
            check::<f32, f32, f32>(ctx, &windows, &mut random);
            check::<f64, f64, f64>(ctx, &windows, &mut random);
            check::<i8, i8, i32>(ctx, &windows, &mut random);
            check::<i16, i16, i16>(ctx, &windows, &mut random);
            let turned = windows.map(|(n, [a, b, c])| (n, [b, a, c]));
            check::<i64, i32, i64>(ctx, &turned, &mut random);
            let rows = [
                (7, [w * 4, w * 4, w]),
                (w as usize, [1, 1, 1]),
                (4, [w, w, 0]),
            ];
            check::<f32, f32, f32>(ctx, &rows, &mut random);
            check::<f64, f64, f64>(ctx, &rows, &mut random);
        }
    });
}

/// Convolutions over planes of volumes, with few output channels: columns are read where they lie, with
/// those between the lines of an image, or packed; and the same with channels last, where rows are.
#[test]
fn lines_of_images_are_what_loops_give() {
    everywhere(|ctx, _| {
        let mut random = Random(11);
        for (o, w, gap) in [
            (4, 14, 2),
            (5, 8, 2),
            (8, 30, 1),
            (13, 17, 5),
            (16, 50, 2),
            (33, 16, 0),
            (1, 14, 2),
            (2, 21, 9),
        ] {
            let (c, d, h) = (3, 2, 6);
            let (wide, plane) = (w + gap, (w + gap) * (h + 1));
            let taps = [(2usize, [wide, 2, 0]), (2, [1, 1, 0])];
            let mut first = vec![
                (2usize, [c * plane * d, o * c * 4, o * d * h * w]),
                (o as usize, [0, c * 4, d * h * w]),
                (d as usize, [plane, 0, h * w]),
                (h as usize, [wide, 0, w]),
                (w as usize, [1, 0, 1]),
                (c as usize, [plane * d, 4, 0]),
            ];
            first.extend(taps);
            check::<f32, f32, f32>(ctx, &first, &mut random);
            check::<i32, i32, i32>(ctx, &first, &mut random);
            check::<i8, i8, i16>(ctx, &first, &mut random);
            let turned: Vec<Axis> = first.iter().map(|&(n, [a, b, c])| (n, [b, a, c])).collect();
            check::<f64, f64, f64>(ctx, &turned, &mut random);
            // Every other pixel, channels last.
            let last = [
                ((h * (w - 1) / 2) as usize, [2 * c, 0, o]),
                (o as usize, [0, 1, 1]),
                (3, [wide * c, 2 * c * o, 0]),
                ((2 * c) as usize, [1, o, 0]),
            ];
            check::<f32, f32, f32>(ctx, &last, &mut random);
            check::<i64, i64, i64>(ctx, &last, &mut random);
        }
    });
}

/// A convolution over overlapping strides, and a product with many pieces of the common axis.
#[test]
fn convolutions_and_long_sums_are_what_loops_give() {
    everywhere(|ctx, _| {
        let mut random = Random(3);
        // Channels 8 to 20, a window of 3 by 3 over 14 by 15 with stride 2 to the right.
        let conv = |c: i64, o: i64| -> Vec<Axis> {
            let (w, h) = (31, 16);
            vec![
                (o as usize, [0, c * 9, 14 * 15]),
                (14, [w, 0, 15]),
                (15, [2, 0, 1]),
                (c as usize, [w * h, 9, 0]),
                (3, [w, 3, 0]),
                (3, [1, 1, 0]),
            ]
        };
        check::<f64, f64, f64>(ctx, &conv(8, 20), &mut random);
        check::<f32, f32, f32>(ctx, &conv(40, 130), &mut random);
        check::<i32, i32, i32>(ctx, &conv(5, 3), &mut random);
        check::<f64, f64, f64>(
            ctx,
            &[(37, [600, 0, 29]), (29, [0, 1, 1]), (600, [1, 29, 0])],
            &mut random,
        );
        check::<f64, f64, f64>(ctx, &[(50, [600, 0, 1]), (600, [1, 1, 0])], &mut random);
        // An empty sum.
        let none = [(5, [1, 0, 4]), (4, [0, 1, 1])];
        check::<i32, i32, i32>(ctx, &none, &mut random);
    });
}

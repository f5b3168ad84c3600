//! Vector strips against plain loops.

mod common;

use common::{Random, close, everywhere};
use relax_runtime::capi::kernels::rx_strips_f32;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::strips::{Op, RxStripOp, RxStrips};
use std::ptr::{null, null_mut};

/// Extents, the number of axes of the result, and two inputs' steps along every axis.
struct Case {
    extents: &'static [i64],
    axes: usize,
    steps: [&'static [i64]; 2],
    combiner: i32,
}

const CASES: &[Case] = &[
    // Contiguous, broadcast along rows, and along columns.
    Case {
        extents: &[3, 700],
        axes: 2,
        steps: [&[700, 1], &[0, 1]],
        combiner: 0,
    },
    Case {
        extents: &[5, 37],
        axes: 2,
        steps: [&[37, 1], &[1, 0]],
        combiner: 0,
    },
    // Transposed, and backwards.
    Case {
        extents: &[9, 40],
        axes: 2,
        steps: [&[1, 9], &[40, 1]],
        combiner: 0,
    },
    // Many short rows: one number for each, and columns in another order.
    Case {
        extents: &[7, 40, 4],
        axes: 3,
        steps: [&[160, 4, 1], &[40, 1, 0]],
        combiner: 0,
    },
    Case {
        extents: &[3, 90, 5],
        axes: 3,
        steps: [&[450, 1, 90], &[0, 5, 1]],
        combiner: 0,
    },
    // A scalar.
    Case {
        extents: &[],
        axes: 0,
        steps: [&[], &[]],
        combiner: 0,
    },
    // Sums, greatest and least along the last axis, and along the first.
    Case {
        extents: &[6, 1030],
        axes: 1,
        steps: [&[1030, 1], &[0, 1]],
        combiner: 0,
    },
    Case {
        extents: &[6, 50],
        axes: 1,
        steps: [&[50, 1], &[1, 0]],
        combiner: 2,
    },
    Case {
        extents: &[600, 7],
        axes: 1,
        steps: [&[1, 600], &[1, 0]],
        combiner: 3,
    },
    Case {
        extents: &[20, 3, 5],
        axes: 1,
        steps: [&[1, 100, 20], &[0, 5, 1]],
        combiner: 0,
    },
    Case {
        extents: &[33, 4],
        axes: 1,
        steps: [&[4, 1], &[1, 0]],
        combiner: 1,
    },
    // An empty result.
    Case {
        extents: &[0, 4],
        axes: 2,
        steps: [&[4, 1], &[4, 1]],
        combiner: 0,
    },
];

/// `max(a * b + 0.5, a) < b ? a : sqrt(|a - b|)`, as operations: inputs 0 and 1, the constant 2.
fn program() -> Vec<RxStripOp> {
    let op = |code: Op, dst, args| RxStripOp {
        code: code as i32,
        dst,
        args,
    };
    vec![
        op(Op::Mul, 0, [0, 1, 0, 0]),
        op(Op::Add, 0, [3, 2, 0, 0]),
        op(Op::Max, 0, [3, 0, 0, 0]),
        op(Op::Sub, 1, [0, 1, 0, 0]),
        op(Op::Abs, 1, [4, 0, 0, 0]),
        op(Op::Sqrt, 1, [4, 0, 0, 0]),
        op(Op::SelectLt, 0, [3, 1, 0, 4]),
    ]
}

fn expected(a: f32, b: f32) -> f32 {
    if (a * b + 0.5).max(a) < b {
        a
    } else {
        (a - b).abs().sqrt()
    }
}

/// One copy of one input, without the arrays.
const STRIPS: RxStrips = RxStrips {
    axes: 1,
    reduced: 0,
    inputs: 1,
    constants: 0,
    ops: 1,
    temps: 1,
    combiner: 0,
    reserved: 0,
    extents: null(),
    data: null(),
    kinds: null(),
    strides: null(),
    values: null(),
    program: null(),
    out: null_mut(),
};

#[test]
fn strips_are_the_loops_they_stand_for() {
    everywhere(|ctx, _| {
        for (k, case) in CASES.iter().enumerate() {
            let mut random = Random(k as u64 + 3);
            let (a, b) = (random.floats(8192), random.floats(8192));
            let count = |e: &[i64]| e.iter().product::<i64>() as usize;
            let (result, over) = case.extents.split_at(case.axes);
            let mut out = vec![7.0f32; count(result)];
            let data = [a.as_ptr(), b.as_ptr()];
            let strides: Vec<i64> = case.steps.concat();
            let ops = program();
            let strips = RxStrips {
                axes: case.axes as i32,
                reduced: over.len() as i32,
                inputs: 2,
                constants: 1,
                ops: ops.len() as i32,
                temps: 2,
                combiner: case.combiner,
                extents: case.extents.as_ptr(),
                data: data.as_ptr(),
                strides: strides.as_ptr(),
                values: [0.5f32].as_ptr(),
                program: ops.as_ptr(),
                out: out.as_mut_ptr(),
                ..STRIPS
            };
            // SAFETY: the steps stay within the inputs, and the result has its extents.
            assert_eq!(unsafe { rx_strips_f32(ctx, &strips) }, 0);
            let mut wanted = vec![0.0f32; out.len()];
            for (i, wanted) in wanted.iter_mut().enumerate() {
                let mut acc =
                    [0.0f64, 1.0, f64::NEG_INFINITY, f64::INFINITY][case.combiner as usize];
                for j in 0..count(over) {
                    let (mut at, mut rest) = ([0i64; 2], i * count(over) + j);
                    for axis in (0..case.extents.len()).rev() {
                        let index = (rest % case.extents[axis] as usize) as i64;
                        rest /= case.extents[axis] as usize;
                        at[0] += index * case.steps[0][axis];
                        at[1] += index * case.steps[1][axis];
                    }
                    let x = f64::from(expected(a[at[0] as usize], b[at[1] as usize]));
                    acc = match case.combiner {
                        _ if over.is_empty() => x,
                        0 => acc + x,
                        1 => acc * x,
                        2 => acc.max(x),
                        _ => acc.min(x),
                    };
                }
                *wanted = acc as f32;
            }
            close(&format!("case {k}"), &out, &wanted, 2e-6);
        }
    });
}

/// Returns an operation's result for numbers, for those that are rounded equally everywhere.
fn scalar(code: i32, [a, b, c, d]: [f32; 4]) -> f32 {
    let is = |op: Op| op as i32 == code;
    match code {
        _ if is(Op::Add) => a + b,
        _ if is(Op::Sub) => a - b,
        _ if is(Op::Mul) => a * b,
        _ if is(Op::Div) => a / b,
        _ if is(Op::Min) => {
            if a < b {
                a
            } else {
                b
            }
        }
        _ if is(Op::Max) => {
            if a > b {
                a
            } else {
                b
            }
        }
        _ if is(Op::Neg) => -0.0 - a,
        _ if is(Op::Abs) => a.abs(),
        _ if is(Op::Sqrt) => a.sqrt(),
        _ if is(Op::Floor) => a.floor(),
        _ if is(Op::RoundEven) => a.round_ties_even(),
        _ if is(Op::Copy) => a,
        _ => {
            if a < b {
                c
            } else {
                d
            }
        }
    }
}

/// Random programs over a row, a number, another row and two constants: values that are read late,
/// or twice, by operations in registers and by others. Every element is bitwise that of the loop.
#[test]
fn random_programs_are_their_loops() {
    const CODES: [Op; 13] = [
        Op::Add,
        Op::Sub,
        Op::Mul,
        Op::Div,
        Op::Min,
        Op::Max,
        Op::Neg,
        Op::Abs,
        Op::Sqrt,
        Op::RoundEven,
        Op::Floor,
        Op::Copy,
        Op::SelectLt,
    ];
    const SLOTS: usize = 4;
    // Results of many elements are written with non-temporal stores.
    let sizes = [64, 100, 509, 700, 1300, (4 << 20) + 16];
    let mut random = Random(77);
    for round in 0..241 {
        let n: usize = if round == 240 {
            sizes[5]
        } else {
            sizes[round % 5]
        };
        let mut below = |n: usize| ((random.floats(1)[0].abs() * n as f32) as usize).min(n - 1);
        let mut written = Vec::new();
        let mut ops = Vec::new();
        for _ in 0..2 + below(20) {
            let mut arg = || {
                let k = below(5 + 2 * written.len());
                if k < 5 {
                    k as i32
                } else {
                    written[(k - 5) / 2]
                }
            };
            let args = [arg(), arg(), arg(), arg()];
            // Mostly arithmetic.
            let all = below(4) == 0;
            let code = CODES[below(if all { CODES.len() } else { 6 })] as i32;
            let dst = below(SLOTS) as i32;
            ops.push(RxStripOp { code, dst, args });
            if !written.contains(&(5 + dst)) {
                written.push(5 + dst);
            }
        }
        let (a, b) = (random.floats(n), random.floats(n));
        let (number, values) = ([0.75f32], [0.5f32, -1.25]);
        let (extents, strides) = ([n as i64], [1i64, 0, 1]);
        let data = [a.as_ptr(), number.as_ptr(), b.as_ptr()];
        let mut wanted = vec![0.0f32; n];
        for (i, wanted) in wanted.iter_mut().enumerate() {
            let mut all = [
                a[i], number[0], b[i], values[0], values[1], 0.0, 0.0, 0.0, 0.0,
            ];
            for op in &ops {
                *wanted = scalar(op.code, op.args.map(|k| all[k as usize]));
                all[5 + op.dst as usize] = *wanted;
            }
        }
        everywhere(|ctx, _| {
            let mut room = vec![7.0f32; n + 16];
            let aligned = room.as_ptr().align_offset(64);
            let out = &mut room[aligned..aligned + n];
            let strips = RxStrips {
                inputs: 3,
                constants: 2,
                ops: ops.len() as i32,
                temps: SLOTS as i32,
                extents: extents.as_ptr(),
                data: data.as_ptr(),
                strides: strides.as_ptr(),
                values: values.as_ptr(),
                program: ops.as_ptr(),
                out: out.as_mut_ptr(),
                ..STRIPS
            };
            // SAFETY: the inputs have n elements or one, the operations name operands that exist.
            assert_eq!(unsafe { rx_strips_f32(ctx, &strips) }, 0);
            for i in 0..n {
                let same = out[i] == wanted[i] || (out[i].is_nan() && wanted[i].is_nan());
                assert!(
                    same,
                    "{ops:?}, element {i} of {n}: {} is not {}",
                    out[i], wanted[i]
                );
            }
            let behind = &room[aligned + n..];
            assert!(
                behind.iter().all(|&x| x == 7.0),
                "{ops:?}: written behind {n} elements"
            );
        });
    }
}

/// Numbers around integers of every magnitude, of both signs: rounded to the bit.
#[test]
fn numbers_of_every_magnitude_are_rounded() {
    let mut x = vec![0.0f32, -0.0, f32::MAX, f32::MIN, f32::INFINITY];
    for k in 0..26 {
        let whole = (1u32 << k) as f32;
        let parts = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5];
        for part in parts.map(|p| [whole + p, whole - p, p]).as_flattened() {
            x.extend([*part, -part, part.next_up(), -part.next_down()]);
        }
    }
    for (code, round) in [
        (Op::RoundEven, f32::round_ties_even as fn(f32) -> f32),
        (Op::Floor, f32::floor),
        (Op::Ceil, f32::ceil),
        (Op::Trunc, f32::trunc),
        (Op::Round, f32::round),
    ] {
        let ops = [RxStripOp {
            code: code as i32,
            dst: 0,
            args: [0; 4],
        }];
        let (extents, strides, data) = ([x.len() as i64], [1i64], [x.as_ptr()]);
        everywhere(|ctx, isa| {
            let mut out = vec![7.0f32; x.len()];
            let strips = RxStrips {
                extents: extents.as_ptr(),
                data: data.as_ptr(),
                strides: strides.as_ptr(),
                program: ops.as_ptr(),
                out: out.as_mut_ptr(),
                ..STRIPS
            };
            // SAFETY: the input and the result have as many elements as the extent says.
            assert_eq!(unsafe { rx_strips_f32(ctx, &strips) }, 0);
            for (&x, &found) in x.iter().zip(&out) {
                let wanted = round(x);
                assert_eq!(
                    found.to_bits(),
                    wanted.to_bits(),
                    "{code:?} of {x}, {isa:?}: {found}"
                );
            }
        });
    }
}

/// Rows of one input, reduced without computation: short contiguous ones, whatever is between them,
/// and longer ones.
#[test]
fn plain_reductions_are_their_loops() {
    const COPY: RxStripOp = RxStripOp {
        code: Op::Copy as i32,
        dst: 0,
        args: [0; 4],
    };
    for combiner in 0..4 {
        for (outer, rows, n) in [
            (1, 8, 1),
            (1, 9, 4),
            (3, 17, 7),
            (2, 64, 16),
            (1, 33, 49),
            (1, 10, 64),
            (2, 9, 70),
            (5, 3, 20),
        ] {
            let step = n + 3;
            let mut x = Random(11 + n as u64).floats((outer * rows * step) as usize);
            // Products that neither overflow nor underflow.
            x.iter_mut()
                .for_each(|x| *x = x.signum() * (0.9 + x.abs() / 5.0));
            let wanted: Vec<f32> = (0..outer * rows)
                .map(|row| {
                    let at = (row * step) as usize;
                    let row = x[at..at + n as usize].iter().map(|&x| f64::from(x));
                    let value = match combiner {
                        0 => row.sum(),
                        1 => row.product(),
                        2 => row.fold(f64::NEG_INFINITY, f64::max),
                        _ => row.fold(f64::INFINITY, f64::min),
                    };
                    value as f32
                })
                .collect();
            everywhere(|ctx, _| {
                let mut out = vec![7.0f32; wanted.len() + 1];
                let (extents, strides) = ([outer, rows, n], [rows * step, step, 1]);
                let data = [x.as_ptr()];
                let strips = RxStrips {
                    axes: 2,
                    reduced: 1,
                    combiner,
                    extents: extents.as_ptr(),
                    data: data.as_ptr(),
                    strides: strides.as_ptr(),
                    program: std::slice::from_ref(&COPY).as_ptr(),
                    out: out.as_mut_ptr(),
                    ..STRIPS
                };
                // SAFETY: the steps stay within the input, and the result has its extents.
                assert_eq!(unsafe { rx_strips_f32(ctx, &strips) }, 0);
                assert_eq!(out.pop(), Some(7.0), "nothing is written behind the result");
                close(
                    &format!("{combiner}, {outer} {rows} {n}"),
                    &out,
                    &wanted,
                    3e-6,
                );
            });
        }
    }
}

/// Bytes of `n` elements of a type, and their numbers.
fn elements(random: &mut Random, kind: Kind, n: usize) -> (Vec<u8>, Vec<f32>) {
    let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let bits = random.bits() as u32;
        numbers.push(match kind {
            Kind::I8 => (bits as i8).into(),
            Kind::U8 => (bits as u8).into(),
            Kind::I16 => (bits as i16).into(),
            Kind::U16 => (bits as u16).into(),
            Kind::I32 => (bits as i32) as f32,
            _ => random.float(),
        });
        match kind {
            Kind::F32 => bytes.extend(numbers[numbers.len() - 1].to_le_bytes()),
            _ => bytes.extend(&bits.to_le_bytes()[..kind.size()]),
        }
    }
    (bytes, numbers)
}

#[test]
fn integers_become_floats_and_floats_bytes() {
    let kinds = [
        Kind::I8,
        Kind::U8,
        Kind::I16,
        Kind::U16,
        Kind::I32,
        Kind::F32,
    ];
    // Extents, and the inputs' steps: long rows, then short ones, of which many are a strip, with
    // elements that are the same for all rows, for a row, and for the rows of an image.
    type Lies = (&'static [i64], [&'static [i64]; 2]);
    let cases: [Lies; 7] = [
        (&[3, 700], [&[700, 1], &[0, 1]]),
        (&[3, 700], [&[700, 1], &[1, 0]]),
        (&[3, 700], [&[1, 3], &[700, 1]]),
        (&[100, 21], [&[21, 1], &[0, 1]]),
        (&[100, 21], [&[1, 0], &[1, 100]]),
        (&[4, 25, 21], [&[525, 21, 1], &[21, 0, 1]]),
        (&[10, 3, 70], [&[70, 700, 1], &[1, 0, 10]]),
    ];
    everywhere(|ctx, _| {
        let mut random = Random(11);
        for (case, (extents, steps)) in cases.iter().enumerate() {
            let strides = steps.concat();
            for (a_kind, b_kind) in kinds.iter().flat_map(|&a| kinds.map(|b| (a, b))) {
                let to = [Kind::F32, Kind::U8, Kind::I8][random.below(3)];
                if [a_kind, b_kind, to] == [Kind::F32; 3] {
                    continue;
                }
                let (a_bytes, a) = elements(&mut random, a_kind, 3 * 700);
                let (b_bytes, b) = elements(&mut random, b_kind, 3 * 700);
                let aligned = [a_bytes, b_bytes].map(|bytes| {
                    let mut words = vec![0u32; bytes.len().div_ceil(4)];
                    for (k, b) in bytes.iter().enumerate() {
                        words[k / 4] |= u32::from(*b) << (8 * (k % 4));
                    }
                    words
                });
                let data = aligned.each_ref().map(|w| w.as_ptr().cast::<f32>());
                let (low, high) = match to {
                    Kind::U8 => (0.0, 255.0),
                    Kind::I8 => (-128.0, 127.0),
                    _ => (-1e6, 1e6),
                };
                let op = |code: Op, args: [i32; 2]| RxStripOp {
                    code: code as i32,
                    dst: 0,
                    args: [args[0], args[1], 0, 0],
                };
                // Inputs 0 and 1, the constants 2 to 4, the temporary 5.
                let ops = [
                    op(Op::Mul, [0, 2]),
                    op(Op::Add, [5, 1]),
                    op(Op::RoundEven, [5, 5]),
                    op(Op::Max, [5, 3]),
                    op(Op::Min, [5, 4]),
                ];
                let values = [0.25f32, low, high];
                let kinds = [a_kind as i32, b_kind as i32, to as i32];
                let mut out = vec![7.0f32; 3 * 700];
                let strips = RxStrips {
                    axes: extents.len() as i32,
                    inputs: 2,
                    constants: 3,
                    ops: ops.len() as i32,
                    extents: extents.as_ptr(),
                    data: data.as_ptr(),
                    kinds: kinds.as_ptr(),
                    strides: strides.as_ptr(),
                    values: values.as_ptr(),
                    program: ops.as_ptr(),
                    out: out.as_mut_ptr(),
                    ..STRIPS
                };
                // SAFETY: the steps stay within the inputs, and the result has room.
                assert_eq!(unsafe { rx_strips_f32(ctx, &strips) }, 0);
                // SAFETY: all bytes are there.
                let bytes = unsafe { std::slice::from_raw_parts(out.as_ptr().cast::<u8>(), 2100) };
                for i in 0..2100usize {
                    let at = |k: usize| {
                        let (mut rest, mut at) = (i as i64, 0);
                        for (n, step) in extents.iter().zip(steps[k]).rev() {
                            at += rest % n * step;
                            rest /= n;
                        }
                        at as usize
                    };
                    let want = (a[at(0)] * 0.25 + b[at(1)])
                        .round_ties_even()
                        .max(low)
                        .min(high);
                    let found = match to {
                        Kind::U8 => f32::from(bytes[i]),
                        Kind::I8 => f32::from(bytes[i] as i8),
                        _ => out[i],
                    };
                    assert_eq!(found, want, "case {case}, {kinds:?}, at {i}");
                }
            }
        }
    });
}

#[test]
fn types_that_strips_do_not_take_are_refused() {
    everywhere(|ctx, _| {
        for kinds in [
            [Kind::F64, Kind::F32],
            [Kind::U8, Kind::I16],
            [Kind::F16, Kind::U8],
        ] {
            let kinds = kinds.map(|k| k as i32);
            let op = RxStripOp {
                code: Op::Copy as i32,
                dst: 0,
                args: [0; 4],
            };
            let (x, mut out) = ([0.0f32; 64], [0.0f32; 64]);
            let strips = RxStrips {
                extents: [16i64].as_ptr(),
                data: [x.as_ptr()].as_ptr(),
                kinds: kinds.as_ptr(),
                strides: [1i64].as_ptr(),
                program: &op,
                out: out.as_mut_ptr(),
                ..STRIPS
            };
            // SAFETY: all arrays are there.
            assert_ne!(unsafe { rx_strips_f32(ctx, &strips) }, 0, "{kinds:?}");
        }
    });
}

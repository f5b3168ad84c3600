//! Expressions over elements of any type, element by element, against plain loops.

mod common;

use std::cell::RefCell;

use common::{Random, everywhere, sweep_of_one};
use half::{bf16, f16};
use relax_runtime::capi::kernels::rx_sweep;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::sweep::{Op, RxSweep, RxSweepOp};

/// How an operand's rows lie.
#[derive(Clone, Copy, Debug)]
enum Rows {
    /// One after the other.
    Whole,
    /// One element for each row.
    Column,
    /// One row for all.
    Row,
    /// One element for all.
    One,
}

const ROWS: [Rows; 4] = [Rows::Whole, Rows::Column, Rows::Row, Rows::One];

impl Rows {
    fn steps(self, wide: i64) -> [i64; 2] {
        match self {
            Rows::Whole => [wide, 1],
            Rows::Column => [1, 0],
            Rows::Row => [0, 1],
            Rows::One => [0, 0],
        }
    }
    fn at(self, wide: usize, (i, j): (usize, usize)) -> usize {
        let steps = self.steps(wide as i64);
        i * steps[0] as usize + j * steps[1] as usize
    }
}

/// Runs a program over matrices of `high` rows and `wide` columns: the result's bytes, all of them,
/// with every instruction set and numbers of threads. Arguments name inputs, then constants, then
/// temporaries.
fn swept<T: Copy, R: Copy + Default + PartialEq + std::fmt::Debug>(
    (ops, temps, constants): (&[RxSweepOp], i32, &[u64]),
    (held, out_kind): (Kind, Kind),
    (high, wide): (usize, usize),
    operands: &[(Rows, &[T])],
    (what, wanted): (&str, impl Fn(usize, usize) -> R),
) {
    let extents = [high as i64, wide as i64];
    let strides: Vec<i64> = (operands.iter())
        .flat_map(|o| o.0.steps(wide as i64))
        .collect();
    let data: Vec<_> = operands.iter().map(|o| o.1.as_ptr().cast()).collect();
    let kinds = vec![held as i32; operands.len()];
    everywhere(|ctx, isa| {
        let mut out = vec![R::default(); high * wide];
        let sweep = RxSweep {
            axes: 2,
            reduced: 0,
            inputs: operands.len() as i32,
            constants: constants.len() as i32,
            ops: ops.len() as i32,
            temps,
            combiner: 0,
            out_type: out_kind as i32,
            extents: extents.as_ptr(),
            data: data.as_ptr(),
            kinds: kinds.as_ptr(),
            strides: strides.as_ptr(),
            values: constants.as_ptr(),
            program: ops.as_ptr(),
            out: out.as_mut_ptr().cast(),
        };
        // SAFETY: operands have the elements that their rows name, the result all of them.
        assert_eq!(unsafe { rx_sweep(ctx, &raw const sweep) }, 0);
        for (place, &found) in out.iter().enumerate() {
            let (i, j) = (place / wide, place % wide);
            let rows: Vec<Rows> = operands.iter().map(|o| o.0).collect();
            assert_eq!(
                found,
                wanted(i, j),
                "{what} of {held:?} in {rows:?}, {high} by {wide}, at {i}, {j}, {isa:?}"
            );
        }
    });
}

/// One operation.
fn sweep<T: Copy, R: Copy + Default + PartialEq + std::fmt::Debug>(
    (code, kind, to): (Op, Kind, Kind),
    kinds: (Kind, Kind),
    extents: (usize, usize),
    operands: &[(Rows, &[T])],
    wanted: impl Fn(usize, usize) -> R,
) {
    let op = RxSweepOp {
        code: code as i32,
        kind: kind as i32,
        to: to as i32,
        dst: 0,
        args: [0, 1, if operands.len() > 2 { 2 } else { 0 }, 1],
    };
    let what = format!("{code:?}");
    swept((&[op], 1, &[]), kinds, extents, operands, (&what, wanted));
}

/// Rows that are strips of their own, several to a strip, and several strips long.
const SIZES: [(usize, usize); 5] = [(3, 7), (5, 255), (4, 256), (3, 1021), (2, 9000)];

/// Fixed-point arithmetic by factors of 32 bits and of more, with shifts of each kind.
#[test]
fn numbers_are_rescaled() {
    macro_rules! of {
        ($($t:ident $kind:ident),*) => {$({
            let kind = Kind::$kind;
            let mut random = Random(29);
            for (high, wide) in SIZES {
                let a: Vec<$t> = (0..high * wide).map(|_| random.below(1 << 40) as $t).collect();
                for [factor, half, right] in [
                    [1_395_864_371i64, 1 << 30, 31],
                    [-1_395_864_371, -7, 0],
                    [i64::from(i32::MIN), i64::MAX, 63],
                    [3 << 40, 1 << 20, 21],
                ] {
                    let program = [RxSweepOp {
                        code: Op::Rescale as i32,
                        kind: kind as i32,
                        to: Kind::I32 as i32,
                        dst: 0,
                        args: [0, 1, 2, 3],
                    }];
                    let constants = [factor, half, right].map(|x| x as u64);
                    let value = |i: usize, j: usize| {
                        let product = i64::from(a[i * wide + j]).wrapping_mul(factor);
                        (product.wrapping_add(half) >> right) as i32
                    };
                    let (program, operands) = ((&program[..], 0, &constants[..]), [(Rows::Whole, &a[..])]);
                    swept(program, (kind, Kind::I32), (high, wide), &operands, ("rescale", value));
                }
            }
        })*};
    }
    of!(i8 I8, u8 U8, i32 I32);
}

macro_rules! sums {
    ($($t:ident $kind:ident),*) => {$({
        let kind = Kind::$kind;
        let mut random = Random(11);
        for (high, wide) in SIZES {
            let mut all = |_| -> Vec<$t> { (0..high * wide).map(|_| random.bits() as $t).collect() };
            let (a, b) = (all(()), all(()));
            for rows in ROWS {
                for (left, right) in [(Rows::Whole, rows), (rows, Rows::Whole)] {
                    let operands = [(left, &a[..]), (right, &b[..])];
                    sweep((Op::Sub, kind, kind), (kind, kind), (high, wide), &operands, |i, j| {
                        a[left.at(wide, (i, j))].wrapping_sub(b[right.at(wide, (i, j))])
                    });
                }
            }
        }
    })*};
}

#[test]
fn operands_are_broadcast() {
    sums!(i8 I8, u16 U16, i32 I32, u64 U64);
}

macro_rules! quotients {
    ($($t:ident $kind:ident),*) => {$({
        let kind = Kind::$kind;
        let mut random = Random(19);
        for (high, wide) in SIZES {
            let few = |x: u64| (x as $t) >> (<$t>::BITS / 2);
            let mut all = |_| -> Vec<$t> { (0..high * wide).map(|_| few(random.bits())).collect() };
            let (a, b) = (all(()), all(()));
            for rows in [Rows::Column, Rows::One] {
                let operands = [(Rows::Whole, &a[..]), (rows, &b[..])];
                let pair = |i: usize, j: usize| (a[i * wide + j], b[rows.at(wide, (i, j))]);
                sweep((Op::Div, kind, kind), (kind, kind), (high, wide), &operands, |i, j| {
                    let (x, y) = pair(i, j);
                    if y == 0 { 0 } else { x.wrapping_div(y) }
                });
                sweep((Op::FloorMod, kind, kind), (kind, kind), (high, wide), &operands, |i, j| {
                    let (x, y) = pair(i, j);
                    let r = if y == 0 { 0 } else { x.wrapping_rem(y) };
                    #[allow(unused_comparisons)]
                    let other = r != 0 && (r < 0) != (y < 0);
                    if other { r + y } else { r }
                });
            }
        }
    })*};
}

#[test]
fn many_are_divided_by_one() {
    quotients!(i8 I8, u8 U8, i16 I16, u16 U16, i32 I32, u32 U32, i64 I64, u64 U64);
}

/// Runs one operation on four operands of a type: the result's bytes.
fn bytes_of<T: Copy>(op: &RxSweepOp, wide: usize, operands: &[(Rows, &[T]); 4]) -> Vec<Vec<u8>> {
    let strides: Vec<i64> = (operands.iter())
        .flat_map(|o| o.0.steps(wide as i64))
        .collect();
    let data = operands.map(|o| o.1.as_ptr().cast());
    let (extents, kinds) = ([2, wide as i64], [op.kind; 4]);
    let found = RefCell::new(Vec::new());
    everywhere(|ctx, _| {
        let mut out = vec![0u64; 2 * wide];
        let sweep = RxSweep {
            axes: 2,
            reduced: 0,
            inputs: 4,
            constants: 0,
            ops: 1,
            temps: 1,
            combiner: 0,
            out_type: op.to,
            extents: extents.as_ptr(),
            data: data.as_ptr(),
            kinds: kinds.as_ptr(),
            strides: strides.as_ptr(),
            values: std::ptr::null(),
            program: op,
            out: out.as_mut_ptr().cast(),
        };
        // SAFETY: operands have the elements that their rows name, the result all of them.
        assert_eq!(unsafe { rx_sweep(ctx, &raw const sweep) }, 0);
        let bytes = out.into_iter().flat_map(u64::to_ne_bytes).collect();
        found.borrow_mut().push(bytes);
    });
    found.into_inner()
}

/// Long rows of each operation that has several operands, any of which may be one number.
#[test]
fn one_number_is_what_many_of_it_are() {
    const OPS: [Op; 17] = [
        Op::Add,
        Op::Mul,
        Op::Div,
        Op::FloorDiv,
        Op::Rem,
        Op::Min,
        Op::Max,
        Op::Eq,
        Op::Ne,
        Op::Lt,
        Op::Le,
        Op::SelectLt,
        Op::SelectLe,
        Op::SelectEq,
        Op::MaxMin,
        Op::MinMax,
        Op::Copy,
    ];
    macro_rules! of {
        ($t:ident $kind:ident) => {
            let wide = 5001;
            let mut random = Random(31);
            let mut all = |_| -> Vec<$t> {
                (0..2 * wide)
                    .map(|_| (random.below(9) as i64 - 3) as $t)
                    .collect()
            };
            let values = [all(()), all(()), all(()), all(())];
            let ones = [-2i64, 3, 0, 1].map(|x| vec![x as $t; 2 * wide]);
            for code in OPS {
                let compares = matches!(code, Op::Eq | Op::Ne | Op::Lt | Op::Le);
                let to = if compares { Kind::Bool } else { Kind::$kind };
                let op = RxSweepOp {
                    code: code as i32,
                    kind: Kind::$kind as i32,
                    to: to as i32,
                    dst: 0,
                    args: [0, 1, 2, 3],
                };
                // Which operands are one number.
                for some in 1..16 {
                    let is_one = |k: usize| some >> k & 1 == 1;
                    let operands = |rows: Rows| {
                        [0, 1, 2, 3].map(|k| match is_one(k) {
                            true => (rows, &ones[k][..]),
                            false => (Rows::Whole, &values[k][..]),
                        })
                    };
                    let (one, many) = (operands(Rows::One), operands(Rows::Whole));
                    assert_eq!(
                        bytes_of(&op, wide, &one),
                        bytes_of(&op, wide, &many),
                        "{code:?} of {:?}, {some:04b}",
                        Kind::$kind
                    );
                }
            }
        };
    }
    of!(f64 F64);
    of!(f32 F32);
    of!(i16 I16);
    of!(u8 U8);
    of!(i64 I64);
}

/// Floats beyond the range of an integer become its least and its greatest number, NaN 0.
#[test]
fn floats_become_long_integers() {
    macro_rules! of {
        ($t:ident $kind:ident) => {
            let ends = [
                0.0, -0.0, 0.5, -1.5, 9.2e18, -9.2e18, 9.3e18, -9.3e18, 1e30, -1e30,
            ];
            let rest = [
                <$t>::INFINITY,
                -<$t>::INFINITY,
                <$t>::NAN,
                i64::MIN as $t,
                i64::MAX as $t,
            ];
            let all: Vec<$t> = (0..9000)
                .map(|k| match k % 20 {
                    k if k < 10 => ends[k] as $t,
                    k if k < 15 => rest[k - 10],
                    _ => (k as $t).powi(5) * 1.37 - 1e7,
                })
                .collect();
            let kinds = (Op::Cast, Kind::$kind, Kind::I64);
            let operands = [(Rows::Whole, &all[..])];
            sweep(
                kinds,
                (Kind::$kind, Kind::I64),
                (3, 3000),
                &operands,
                |i, j| all[i * 3000 + j] as i64,
            );
        };
    }
    of!(f32 F32);
    of!(f64 F64);
}

/// Booleans that come from outside may be any byte: what is not 0 holds.
#[test]
fn any_byte_is_a_truth_value() {
    let mut random = Random(12);
    for (high, wide) in SIZES {
        for bytes in [[0, 1, 1, 0], [0, 1, 2, 255]] {
            let mut all =
                || -> Vec<u8> { (0..high * wide).map(|_| bytes[random.below(4)]).collect() };
            let (a, b) = (all(), all());
            for rows in ROWS {
                let operands = [(Rows::Whole, &a[..]), (rows, &b[..])];
                let pair = |i, j| (a[i * wide + j] != 0, b[rows.at(wide, (i, j))] != 0);
                for (op, f) in [
                    (Op::Eq, (|a, b| a == b) as fn(bool, bool) -> bool),
                    (Op::Ne, |a, b| a != b),
                    (Op::And, |a, b| a && b),
                    (Op::Or, |a, b| a || b),
                    (Op::Xor, |a, b| a != b),
                    (Op::Lt, |a, b| !a && b),
                ] {
                    let kinds = (op, Kind::Bool, Kind::Bool);
                    sweep(
                        kinds,
                        (Kind::Bool, Kind::Bool),
                        (high, wide),
                        &operands,
                        |i, j| {
                            let (a, b) = pair(i, j);
                            u8::from(f(a, b))
                        },
                    );
                }
            }
        }
    }
}

macro_rules! shifted {
    ($($t:ident $kind:ident),*) => {$({
        let kind = Kind::$kind;
        let mut random = Random(14);
        let bits = <$t>::BITS as usize;
        for (high, wide) in [(3, 7), (2, 9001)] {
            let a: Vec<$t> = (0..high * wide).map(|_| random.bits() as $t).collect();
            // Some counts are outside of the width.
            let b: Vec<$t> = (0..high * wide)
                .map(|_| (random.below(2 * bits) as $t).wrapping_sub(bits as $t / 4))
                .collect();
            let operands = [(Rows::Whole, &a[..]), (Rows::Whole, &b[..])];
            let fits = |b: $t| (b as u64) < bits as u64;
            sweep((Op::Shl, kind, kind), (kind, kind), (high, wide), &operands, |i, j| {
                let (a, b) = (a[i * wide + j], b[i * wide + j]);
                if fits(b) { a << b } else { 0 }
            });
            sweep((Op::Shr, kind, kind), (kind, kind), (high, wide), &operands, |i, j| {
                let (a, b) = (a[i * wide + j], b[i * wide + j]);
                #[allow(unused_comparisons)]
                let sign = if a < 0 { !0 } else { 0 };
                if fits(b) { a >> b } else { sign }
            });
        }
    })*};
}

#[test]
fn counts_of_shifts_may_be_any_number() {
    shifted!(i8 I8, u8 U8, i16 I16, u16 U16, i32 I32, u32 U32, i64 I64, u64 U64);
}

macro_rules! chosen {
    ($($t:ident $kind:ident $numbers:expr),*) => {$({
        let kind = Kind::$kind;
        let mut random = Random(15);
        let numbers: [$t; 5] = $numbers;
        for (high, wide) in SIZES {
            let mut all = || -> Vec<$t> { (0..high * wide).map(|_| numbers[random.below(5)]).collect() };
            let (a, b, c) = (all(), all(), all());
            for rows in ROWS {
                let operands = [(Rows::Whole, &a[..]), (rows, &b[..])];
                let bounded = |op, f: fn($t, $t, $t) -> $t| {
                    let kinds = (op, kind, kind);
                    let operands = [(Rows::Whole, &a[..]), (rows, &b[..]), (Rows::Whole, &c[..])];
                    sweep(kinds, (kind, kind), (high, wide), &operands, |i, j| {
                        let k = i * wide + j;
                        f(a[k], b[rows.at(wide, (i, j))], c[k]).to_bits_or_self()
                    });
                };
                bounded(Op::MaxMin, |a, b, c| {
                    let x = if a > b { a } else { b };
                    if x < c { x } else { c }
                });
                bounded(Op::MinMax, |a, b, c| {
                    let x = if a < b { a } else { b };
                    if x > c { x } else { c }
                });
                // By two constants, in rows of each kind.
                for (op, second, third) in [(Op::MaxMin, 1, 3), (Op::MinMax, 0, 2)] {
                    let (b, c) = (numbers[second], numbers[third]);
                    let program = [RxSweepOp {
                        code: op as i32,
                        kind: kind as i32,
                        to: kind as i32,
                        dst: 0,
                        args: [0, 1, 2, -1],
                    }];
                    let constants = [b, c].map(|x| x.to_bits_or_self() as u64);
                    let value = |i: usize, j: usize| {
                        let a = a[rows.at(wide, (i, j))];
                        let (most, least) = (if a > b { a } else { b }, if a < b { a } else { b });
                        let (x, y) = (if most < c { most } else { c }, if least > c { least } else { c });
                        (if op == Op::MaxMin { x } else { y }).to_bits_or_self()
                    };
                    let program = (&program[..], 0, &constants[..]);
                    swept(program, (kind, kind), (high, wide), &[(rows, &a[..])], ("bounds", value));
                }
                for (op, f) in [
                    (Op::SelectLt, (|a, b| a < b) as fn($t, $t) -> bool),
                    (Op::SelectLe, |a, b| a <= b),
                    (Op::SelectEq, |a, b| a == b),
                ] {
                    sweep((op, kind, kind), (kind, kind), (high, wide), &operands, |i, j| {
                        let (a, b) = (a[i * wide + j], b[rows.at(wide, (i, j))]);
                        (if f(a, b) { a } else { b }).to_bits_or_self()
                    });
                }
            }
        }
    })*};
}

/// Bits, by which NaN is compared.
trait Bits {
    type Of;
    fn to_bits_or_self(self) -> Self::Of;
}
macro_rules! bits {
    ($($t:ident $of:ident $value:expr),*) => {$(
        impl Bits for $t {
            type Of = $of;
            fn to_bits_or_self(self) -> $of {
                let value: fn($t) -> $of = $value;
                value(self)
            }
        }
    )*};
}
bits!(i8 i8 |x| x, u16 u16 |x| x, i64 i64 |x| x, f32 u32 f32::to_bits, f64 u64 f64::to_bits);

#[test]
fn one_of_two_is_chosen_by_comparing() {
    chosen!(
        i8 I8 [-128, -1, 0, 1, 127], u16 U16 [0, 1, 2, 60_000, 65_535],
        i64 I64 [i64::MIN, -1, 0, 1, i64::MAX],
        f32 F32 [f32::NAN, -0.0, 0.0, 1.0, f32::INFINITY],
        f64 F64 [f64::NAN, -0.0, 0.0, 1.0, f64::NEG_INFINITY]
    );
}

#[test]
fn classes_of_narrow_floats() {
    for (high, wide) in [(256, 256), (7, 9001)] {
        let all: Vec<u16> = (0..high * wide).map(|k| k as u16).collect();
        let operands = [(Rows::Whole, &all[..])];
        for held in [Kind::F16, Kind::BF16] {
            let number = |x: u16| match held {
                Kind::F16 => f16::from_bits(x).to_f32(),
                _ => bf16::from_bits(x).to_f32(),
            };
            for (op, f) in [
                (Op::IsNan, f32::is_nan as fn(f32) -> bool),
                (Op::IsInf, f32::is_infinite),
                (Op::IsFinite, f32::is_finite),
            ] {
                let kinds = (op, Kind::F32, Kind::Bool);
                sweep(
                    kinds,
                    (held, Kind::Bool),
                    (high, wide),
                    &operands,
                    |i, j| u8::from(f(number(all[i * wide + j]))),
                );
            }
        }
    }
}

/// The sign of a narrow float is a bit.
#[test]
fn signs_of_narrow_floats() {
    for (high, wide) in [(256, 256), (7, 9001)] {
        let all: Vec<u16> = (0..high * wide).map(|k| k as u16).collect();
        for (held, is_nan) in [
            (
                Kind::F16,
                (|x| f16::from_bits(x).is_nan()) as fn(u16) -> bool,
            ),
            (Kind::BF16, |x| bf16::from_bits(x).is_nan()),
        ] {
            for (op, f) in [
                (Op::Neg, (|x| x ^ 0x8000) as fn(u16) -> u16),
                (Op::Abs, |x| x & 0x7fff),
            ] {
                // NaN may have any bits.
                let numbers: Vec<u16> =
                    all.iter().map(|&x| if is_nan(x) { 0 } else { x }).collect();
                let operands = [(Rows::Whole, &numbers[..])];
                let kinds = (op, Kind::F32, Kind::F32);
                sweep(kinds, (held, held), (high, wide), &operands, |i, j| {
                    f(numbers[i * wide + j])
                });
            }
        }
    }
}

/// Columns reduced over rows of which there may be none.
#[test]
fn columns_are_reduced_over_any_number_of_rows() {
    const COPY: RxSweepOp = RxSweepOp {
        code: Op::Copy as i32,
        kind: Kind::I32 as i32,
        to: Kind::I32 as i32,
        dst: 0,
        args: [0; 4],
    };
    // Its own square, so that no other way of reducing applies.
    const SQUARE: RxSweepOp = RxSweepOp {
        code: Op::Mul as i32,
        ..COPY
    };
    let mut random = Random(13);
    // Of few columns, several rows are read together: 51 and 3, as strips have 2048 elements.
    let several = [(2, 40), (51, 40), (500, 40), (1003, 17), (100, 600)];
    let others = [(0, 40), (1, 40), (5, 9000), (0, 9000)];
    for (high, wide) in others.into_iter().chain(several) {
        let x: Vec<i32> = (0..high * wide).map(|_| random.bits() as i32).collect();
        let extents = [wide as i64, high as i64];
        let strides = [1, wide as i64];
        let (data, kinds) = ([x.as_ptr().cast()], [Kind::I32 as i32]);
        for op in [COPY, SQUARE] {
            everywhere(|ctx, isa| {
                let mut out = vec![7i32; wide];
                let sweep = sweep_of_one(
                    &op,
                    1,
                    (&data, &kinds),
                    (&extents, &strides),
                    (Kind::I32, &mut out),
                );
                // SAFETY: the input has the rows, the result an element for each column.
                assert_eq!(unsafe { rx_sweep(ctx, &raw const sweep) }, 0);
                for (j, &found) in out.iter().enumerate() {
                    let column = (0..high).map(|i| x[i * wide + j]);
                    let value = |v: i32| {
                        if op.code == COPY.code {
                            v
                        } else {
                            v.wrapping_mul(v)
                        }
                    };
                    let wanted = column.map(value).fold(0i32, i32::wrapping_add);
                    assert_eq!(found, wanted, "{high} by {wide} at {j}, {isa:?}");
                }
            });
        }
    }
}

/// A program of several operations, with one constant and three temporaries.
fn program<T: Copy, R: Copy + Default + PartialEq + std::fmt::Debug>(
    ops: &[(Op, Kind, i32, [i32; 4])],
    (held, constant): (Kind, u64),
    extents: (usize, usize),
    operands: &[(Rows, &[T])],
    wanted: impl Fn(usize, usize) -> R,
) {
    let kind = if held == Kind::F64 {
        Kind::F64
    } else {
        Kind::F32
    };
    let ops: Vec<RxSweepOp> = (ops.iter())
        .map(|&(code, to, dst, args)| RxSweepOp {
            code: code as i32,
            kind: kind as i32,
            to: to as i32,
            dst,
            args,
        })
        .collect();
    let program = (&ops[..], 3, &[constant][..]);
    swept(
        program,
        (held, held),
        extents,
        operands,
        ("a program", wanted),
    );
}

/// Values are rounded where the program says so, in registers or over strips, and operations in
/// between may be any.
#[test]
fn programs_of_narrow_floats_round_at_each_step() {
    let mut random = Random(31);
    for held in [Kind::F16, Kind::BF16] {
        let narrow = |x: f32| match held {
            Kind::F16 => f16::from_f32(x).to_bits(),
            _ => bf16::from_f32(x).to_bits(),
        };
        let number = |x: u16| match held {
            Kind::F16 => f16::from_bits(x).to_f32(),
            _ => bf16::from_bits(x).to_f32(),
        };
        let float = Kind::F32;
        let ops = [
            (Op::Mul, float, 0, [1, 2, -1, -1]),
            (Op::Narrow, held, 1, [3, -1, -1, -1]),
            (Op::Add, float, 0, [0, 4, -1, -1]),
            (Op::Narrow, held, 2, [3, -1, -1, -1]),
            (Op::Round, float, 0, [5, -1, -1, -1]),
            (Op::SelectLt, float, 1, [0, 2, 3, 5]),
        ];
        for (high, wide) in SIZES {
            let mut all = || -> Vec<u16> {
                let floats = (0..high * wide).map(|_| random.bits() as i16 as f32 / 4096.0);
                floats.map(narrow).collect()
            };
            let (x, y) = (all(), all());
            for rows in ROWS {
                let operands = [(Rows::Whole, &x[..]), (rows, &y[..])];
                let constant = u64::from(0.3f32.to_bits());
                program(&ops, (held, constant), (high, wide), &operands, |i, j| {
                    let (x, y) = (number(x[i * wide + j]), number(y[rows.at(wide, (i, j))]));
                    let product = number(narrow(y * 0.3));
                    let sum = number(narrow(x + product));
                    narrow(if x < 0.3 { sum.round() } else { sum })
                });
            }
        }
    }
}

/// What is made of single numbers is made once for a row.
#[test]
fn numbers_of_rows_are_as_those_of_elements() {
    let mut random = Random(32);
    let kind = Kind::F64;
    let ops = [
        (Op::Add, kind, 0, [2, 3, -1, -1]),
        (Op::Rsqrt, kind, 1, [4, -1, -1, -1]),
        (Op::Sub, kind, 0, [0, 1, -1, -1]),
        (Op::Mul, kind, 2, [4, 5, -1, -1]),
    ];
    for (high, wide) in SIZES {
        let mut all = || -> Vec<f64> {
            (0..high * wide)
                .map(|_| f64::from(random.bits() as u16))
                .collect()
        };
        let (x, m, v) = (all(), all(), all());
        for rows in ROWS {
            let operands = [
                (Rows::Whole, &x[..]),
                (Rows::Column, &m[..]),
                (rows, &v[..]),
            ];
            program(
                &ops,
                (kind, 0.5f64.to_bits()),
                (high, wide),
                &operands,
                |i, j| {
                    let root = 1.0 / (v[rows.at(wide, (i, j))] + 0.5).sqrt();
                    (x[i * wide + j] - m[i]) * root
                },
            );
        }
    }
}

/// The bits of a float16, or of a bfloat16; all NaN are one.
#[derive(Clone, Copy, Default, Debug)]
#[repr(transparent)]
struct Held<const BRAIN: bool>(u16);

impl<const BRAIN: bool> Held<BRAIN> {
    fn of(x: f32) -> Self {
        Self(match BRAIN {
            true => bf16::from_f32(x).to_bits(),
            false => f16::from_f32(x).to_bits(),
        })
    }
    fn number(self) -> f32 {
        match BRAIN {
            true => bf16::from_bits(self.0).to_f32(),
            false => f16::from_bits(self.0).to_f32(),
        }
    }
}

impl<const BRAIN: bool> PartialEq for Held<BRAIN> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.number().is_nan() && other.number().is_nan()
    }
}

/// What an operation that is done in registers gives.
fn done(code: Op, [a, b, c, d]: [f32; 4]) -> f32 {
    let least = |a: f32, b: f32| if a < b { a } else { b };
    let most = |a: f32, b: f32| if a > b { a } else { b };
    match code {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div => a / b,
        Op::Min => least(a, b),
        Op::Max => most(a, b),
        Op::MaxMin => least(most(a, b), c),
        Op::MinMax => most(least(a, b), c),
        Op::Neg => -a,
        Op::Abs => a.abs(),
        Op::Sqrt => a.sqrt(),
        Op::Floor => a.floor(),
        Op::Ceil => a.ceil(),
        Op::Trunc => a.trunc(),
        Op::RoundEven => a.round_ties_even(),
        Op::SelectLt => [d, c][usize::from(a < b)],
        Op::SelectLe => [d, c][usize::from(a <= b)],
        Op::SelectEq => [d, c][usize::from(a == b)],
        _ => a,
    }
}

/// Random programs of operations that are done in registers, of which some results are rounded,
/// over any bits.
fn chains<const BRAIN: bool>() {
    let held = if BRAIN { Kind::BF16 } else { Kind::F16 };
    let codes = [
        (Op::Add, 2),
        (Op::Sub, 2),
        (Op::Mul, 2),
        (Op::Div, 2),
        (Op::Min, 2),
        (Op::Max, 2),
        (Op::MaxMin, 3),
        (Op::MinMax, 3),
        (Op::Neg, 1),
        (Op::Abs, 1),
        (Op::Sqrt, 1),
        (Op::Floor, 1),
        (Op::Ceil, 1),
        (Op::Trunc, 1),
        (Op::RoundEven, 1),
        (Op::SelectLt, 4),
        (Op::SelectLe, 4),
        (Op::SelectEq, 4),
    ];
    let mut random = Random(7);
    for round in 0..60 {
        let (high, wide) = [(3, 7), (5, 255), (4, 256), (3, 1021), (1, 70)][round % 5];
        let constants = [0.75f32, -2.0].map(|x| u64::from(x.to_bits()));
        // Two inputs, two constants, and a temporary for each operation.
        let mut ops = Vec::new();
        for _ in 0..2 + random.below(4) {
            let (code, arity) = codes[random.below(codes.len())];
            let values = 4 + ops.len();
            let mut args = [-1; 4];
            for arg in &mut args[..arity] {
                // Often what was just computed.
                let last = random.below(3) > 0;
                *arg = if last {
                    values - 1
                } else {
                    random.below(values)
                } as i32;
            }
            ops.push((code, Kind::F32, args));
            if random.below(2) == 0 {
                ops.push((Op::Narrow, held, [values as i32, -1, -1, -1]));
            }
        }
        let program: Vec<RxSweepOp> = (ops.iter().enumerate())
            .map(|(k, &(code, to, args))| RxSweepOp {
                code: code as i32,
                kind: Kind::F32 as i32,
                to: to as i32,
                dst: k as i32,
                args,
            })
            .collect();
        let mut all = || -> Vec<Held<BRAIN>> {
            (0..high * wide)
                .map(|_| Held(random.bits() as u16))
                .collect()
        };
        let (x, y) = (all(), all());
        let rows = ROWS[round % 4];
        let operands = [(Rows::Whole, &x[..]), (rows, &y[..])];
        let what = format!("{ops:?}");
        let program = (&program[..], program.len() as i32, &constants[..]);
        swept(
            program,
            (held, held),
            (high, wide),
            &operands,
            (&what, |i, j| {
                let at = [i * wide + j, rows.at(wide, (i, j))];
                let mut values = vec![x[at[0]].number(), y[at[1]].number(), 0.75, -2.0];
                for &(code, _, args) in &ops {
                    let value = args.map(|k| usize::try_from(k).map_or(0.0, |k| values[k]));
                    values.push(match code {
                        Op::Narrow => Held::<BRAIN>::of(value[0]).number(),
                        code => done(code, value),
                    });
                }
                Held::<BRAIN>::of(values[values.len() - 1])
            }),
        );
    }
}

#[test]
fn chains_of_narrow_floats() {
    chains::<false>();
    chains::<true>();
}

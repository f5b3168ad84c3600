//! Programs that a block of elements passes through at once: random ones of floats and truth values,
//! over operands of float16, bfloat16 and float32, or of float64, and truth values, whatever way these
//! lie, and what is reduced of them.

mod common;

use common::{Random, everywhere};
use half::{bf16, f16};
use relax_runtime::capi::arrays::{rx_vmath_f32, rx_vmath_f64};
use relax_runtime::capi::kernels::rx_sweep;
use relax_runtime::kernels::combiner::Combiner;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::math::Math;
use relax_runtime::kernels::sweep::{Op, RxSweep, RxSweepOp};

const FLOATS: [(Op, usize); 23] = [
    (Op::Add, 2),
    (Op::Sub, 2),
    (Op::Mul, 2),
    (Op::Div, 2),
    (Op::FloorDiv, 2),
    (Op::FloorMod, 2),
    (Op::Min, 2),
    (Op::Max, 2),
    (Op::MaxMin, 3),
    (Op::MinMax, 3),
    (Op::Neg, 1),
    (Op::Abs, 1),
    (Op::Sqrt, 1),
    (Op::Rsqrt, 1),
    (Op::Floor, 1),
    (Op::Ceil, 1),
    (Op::Trunc, 1),
    (Op::Round, 1),
    (Op::RoundEven, 1),
    (Op::SelectLt, 4),
    (Op::SelectLe, 4),
    (Op::SelectEq, 4),
    (Op::Rem, 2),
];
/// Those of floats that give truth values, and those of truth values.
const TESTS: [(Op, usize); 7] = [
    (Op::Lt, 2),
    (Op::Le, 2),
    (Op::Eq, 2),
    (Op::Ne, 2),
    (Op::IsNan, 1),
    (Op::IsInf, 1),
    (Op::IsFinite, 1),
];
const TRUTHS: [(Op, usize); 6] = [
    (Op::And, 2),
    (Op::Or, 2),
    (Op::Xor, 2),
    (Op::Not, 1),
    (Op::Eq, 2),
    (Op::Ne, 2),
];
const FUNCTIONS: [Math; 8] = [
    Math::Exp,
    Math::Sigmoid,
    Math::Erf,
    Math::Tanh,
    Math::Log,
    Math::Tan,
    Math::Expm1,
    Math::Atan2,
];

/// An operation of a program, with the types of its arguments and of its result.
#[derive(Clone, Copy, Debug)]
struct Done {
    op: Op,
    math: Option<Math>,
    from: Kind,
    to: Kind,
    args: [i32; 4],
}

/// Bytes of an element as a number.
fn number(kind: Kind, bytes: &[u8]) -> f64 {
    let bits = || u16::from_le_bytes([bytes[0], bytes[1]]);
    match kind {
        Kind::F16 => f16::from_bits(bits()).to_f64(),
        Kind::BF16 => bf16::from_bits(bits()).to_f64(),
        Kind::Bool => f64::from(u8::from(bytes[0] != 0)),
        Kind::F64 => f64::from_le_bytes(std::array::from_fn(|i| bytes[i])),
        _ => f32::from_le_bytes(std::array::from_fn(|i| bytes[i])).into(),
    }
}

/// A number as an element holds it.
fn held(kind: Kind, x: f64) -> f64 {
    match kind {
        Kind::F16 => f16::from_f32(x as f32).to_f64(),
        Kind::BF16 => bf16::from_f32(x as f32).to_f64(),
        Kind::Bool => f64::from(u8::from(x != 0.0)),
        Kind::F64 => x,
        _ => f64::from(x as f32),
    }
}

macro_rules! computed {
    ($name:ident, $t:ty, $function:ident) => {
        fn $name(d: &Done, [a, b, c, e]: [$t; 4]) -> $t {
            let least = |a: $t, b: $t| if a < b { a } else { b };
            let most = |a: $t, b: $t| if a > b { a } else { b };
            let truth = |holds: bool| <$t>::from(u8::from(holds));
            match d.op {
                Op::Add => a + b,
                Op::Sub => a - b,
                Op::Mul => a * b,
                Op::Div => a / b,
                Op::FloorDiv => (a / b).floor(),
                Op::FloorMod => a - (a / b).floor() * b,
                Op::Rem => a % b,
                Op::Min => least(a, b),
                Op::Max => most(a, b),
                Op::MaxMin => least(most(a, b), c),
                Op::MinMax => most(least(a, b), c),
                Op::Neg => -a,
                Op::Abs => a.abs(),
                Op::Sqrt => a.sqrt(),
                Op::Rsqrt => 1.0 / a.sqrt(),
                Op::Floor => a.floor(),
                Op::Ceil => a.ceil(),
                Op::Trunc => a.trunc(),
                Op::Round => a.round(),
                Op::RoundEven => a.round_ties_even(),
                Op::SelectLt => [e, c][usize::from(a < b)],
                Op::SelectLe => [e, c][usize::from(a <= b)],
                Op::SelectEq => [e, c][usize::from(a == b)],
                Op::Select => [c, b][usize::from(a != 0.0)],
                Op::Lt => truth(a < b),
                Op::Le => truth(a <= b),
                Op::Eq => truth(a == b),
                Op::Ne | Op::Xor => truth(a != b),
                Op::IsNan => truth(a.is_nan()),
                Op::IsInf => truth(a.is_infinite()),
                Op::IsFinite => truth(a.is_finite()),
                Op::And => truth(a != 0.0 && b != 0.0),
                Op::Or => truth(a != 0.0 || b != 0.0),
                Op::Not => truth(a == 0.0),
                Op::Narrow | Op::Cast => held(d.to, f64::from(a)) as $t,
                Op::Math | Op::Math2 => {
                    let (math, mut z) = (d.math.unwrap_or(Math::Exp) as i32, 0.0);
                    // SAFETY: all have one element.
                    unsafe { $function(math, 1, &raw const a, &raw const b, &raw mut z) };
                    z
                }
                _ => a,
            }
        }
    };
}
computed!(single, f32, rx_vmath_f32);
computed!(double, f64, rx_vmath_f64);

/// A random program over values of these types, numbers of a type among them: it ends with a number,
/// or with a truth value.
fn made(random: &mut Random, float: Kind, mut types: Vec<Kind>, truth: bool) -> Vec<Done> {
    let mut all: Vec<Done> = Vec::new();
    let steps = 2 + random.below(6);
    while all.len() < steps || (types.last() == Some(&Kind::Bool)) != truth {
        let of =
            |kind: Kind| -> Vec<usize> { (0..types.len()).filter(|&k| types[k] == kind).collect() };
        let mut any = |kind: Kind| {
            let known = of(kind);
            // Often what was just computed.
            match random.below(3) {
                0 => known[random.below(known.len())] as i32,
                _ => known[known.len() - 1] as i32,
            }
        };
        let mut args = [-1; 4];
        let bool = Kind::Bool;
        let which = any(float) as usize + all.len() * 7;
        let mut math = None;
        let (op, from, to) = match (which + types.len()) % 9 {
            0 => {
                let (op, arity) = TESTS[which % TESTS.len()];
                args[..arity].fill_with(|| any(float));
                (op, float, bool)
            }
            1 => {
                let (op, arity) = TRUTHS[which % TRUTHS.len()];
                args[..arity].fill_with(|| any(bool));
                (op, bool, bool)
            }
            2 => {
                args[..3].copy_from_slice(&[any(bool), any(float), any(float)]);
                (Op::Select, float, float)
            }
            3 if float == Kind::F32 => {
                let to = [Kind::F16, Kind::BF16][which % 2];
                args[0] = any(float);
                (Op::Narrow, float, to)
            }
            4 => {
                let kinds = [(float, bool), (bool, float)][which % 2];
                args[0] = any(kinds.0);
                (Op::Cast, kinds.0, kinds.1)
            }
            5 | 6 => {
                let found = FUNCTIONS[which % FUNCTIONS.len()];
                math = Some(found);
                let arity = if found.binary() { 2 } else { 1 };
                args[..arity].fill_with(|| any(float));
                args[arity] = found as i32;
                ([Op::Math, Op::Math2][arity - 1], float, float)
            }
            _ => {
                let (op, arity) = FLOATS[which % FLOATS.len()];
                args[..arity].fill_with(|| any(float));
                (op, float, float)
            }
        };
        let held = if op == Op::Narrow { float } else { to };
        types.push(held);
        all.push(Done {
            op,
            math,
            from,
            to,
            args,
        });
    }
    all
}

/// Extents of the axes, and how many of them are the result's.
const SHAPES: [([i64; 3], usize); 9] = [
    ([3, 5, 7], 3),
    ([1, 2, 300], 3),
    ([4, 3, 513], 3),
    ([1, 1, 64], 3),
    ([2, 40, 9], 3),
    ([3, 2, 700], 2),
    ([5, 40, 30], 1),
    ([70, 3, 5], 1),
    ([6, 90, 1], 2),
];
const KINDS: [Kind; 4] = [Kind::F16, Kind::BF16, Kind::F32, Kind::Bool];

/// The inputs' bytes, and their steps along the axes: whole, turned, one for each row, a row, one.
fn inputs(
    random: &mut Random,
    wide: bool,
    extents: [i64; 3],
) -> (Vec<Vec<u8>>, Vec<Kind>, Vec<i64>) {
    let [a, b, c] = extents;
    let ways = [
        [b * c, c, 1],
        [1, a, a * b],
        [b, 1, 0],
        [0, 0, 1],
        [0, 0, 0],
        [b * c, c, 1],
    ];
    let (mut data, mut kinds, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..4 {
        // The last one is of truth values.
        let kind = match k {
            3 => Kind::Bool,
            _ if wide => Kind::F64,
            _ => KINDS[random.below(3)],
        };
        let count = (a * b * c) as usize;
        let mut bytes = Vec::new();
        for _ in 0..count {
            let x = random.float() * 4.0;
            match kind {
                Kind::F16 => bytes.extend(f16::from_f32(x).to_le_bytes()),
                Kind::BF16 => bytes.extend(bf16::from_f32(x).to_le_bytes()),
                Kind::Bool => bytes.push(random.below(3) as u8 * 100),
                Kind::F64 => bytes.extend((f64::from(x) / 3.0).to_le_bytes()),
                _ => bytes.extend(x.to_le_bytes()),
            }
        }
        data.push(bytes);
        kinds.push(kind);
        steps.extend(ways[random.below(ways.len())]);
    }
    (data, kinds, steps)
}

/// Where maxima begin.
fn float_min(wide: bool) -> f64 {
    if wide { f64::MIN } else { f32::MIN.into() }
}

/// What is left of an element's difference: sums are made in another order.
fn close(found: f64, wanted: f64, part: f64) -> bool {
    found == wanted || found.is_nan() && wanted.is_nan() || (found - wanted).abs() <= part
}

#[test]
fn programs_are_what_their_operations_give() {
    let mut random = Random(11);
    for round in 0..360 {
        let (extents, axes) = SHAPES[round % SHAPES.len()];
        let wide = round % 4 == 3;
        let (data, kinds, steps) = inputs(&mut random, wide, extents);
        let constants = [0.75f64, -2.0];
        let reduced = axes < 3;
        let float = if wide { Kind::F64 } else { Kind::F32 };
        let out_kind = match KINDS[if reduced {
            random.below(3)
        } else {
            random.below(4)
        }] {
            kind if kind == Kind::Bool || !wide => kind,
            _ => Kind::F64,
        };
        let combiner = [Combiner::Max, Combiner::Min, Combiner::Sum][random.below(3)];
        let register = |k: &Kind| if *k == Kind::Bool { Kind::Bool } else { float };
        let types = kinds.iter().map(register).chain([float; 2]).collect();
        let ops = made(&mut random, float, types, out_kind == Kind::Bool);
        let values = constants.map(|x| match wide {
            true => x.to_bits(),
            false => u64::from((x as f32).to_bits()),
        });
        let program: Vec<RxSweepOp> = (ops.iter().enumerate())
            .map(|(k, d)| RxSweepOp {
                code: d.op as i32,
                kind: d.from as i32,
                to: d.to as i32,
                dst: k as i32,
                args: d.args,
            })
            .collect();
        let pointers: Vec<_> = data.iter().map(|d| d.as_ptr().cast()).collect();
        let codes: Vec<i32> = kinds.iter().map(|&k| k as i32).collect();
        let count: i64 = extents[..axes].iter().product();
        let over: i64 = extents[axes..].iter().product();
        everywhere(|ctx, isa| {
            let size = out_kind.size();
            let mut out = vec![0u8; count as usize * size];
            let mut pointers = pointers.clone();
            // What lies beside the result may lie in its place.
            let beside = steps[..3] == [extents[1] * extents[2], extents[2], 1];
            if !reduced && beside && kinds[0] == out_kind {
                out.copy_from_slice(&data[0]);
                pointers[0] = out.as_ptr().cast();
            }
            let sweep = RxSweep {
                axes: axes as i32,
                reduced: 3 - axes as i32,
                inputs: data.len() as i32,
                constants: values.len() as i32,
                ops: program.len() as i32,
                temps: program.len() as i32,
                combiner: combiner as i32,
                out_type: out_kind as i32,
                extents: extents.as_ptr(),
                data: pointers.as_ptr(),
                kinds: codes.as_ptr(),
                strides: steps.as_ptr(),
                values: values.as_ptr(),
                program: program.as_ptr(),
                out: out.as_mut_ptr().cast(),
            };
            // SAFETY: operands have the elements that their steps name, the result all of them.
            assert_eq!(unsafe { rx_sweep(ctx, &raw const sweep) }, 0);
            let element = |flat: i64| {
                let index = [
                    flat / (extents[1] * extents[2]),
                    flat / extents[2] % extents[1],
                    flat % extents[2],
                ];
                let mut found: Vec<f64> = (0..data.len())
                    .map(|k| {
                        let at: i64 = (0..3).map(|d| index[d] * steps[3 * k + d]).sum();
                        number(kinds[k], &data[k][at as usize * kinds[k].size()..])
                    })
                    .chain(constants)
                    .collect();
                for d in &ops {
                    let args = d.args.map(|k| {
                        let known = usize::try_from(k).ok().and_then(|k| found.get(k));
                        known.copied().unwrap_or(0.0)
                    });
                    found.push(match wide {
                        true => double(d, args),
                        false => single(d, args.map(|x| x as f32)).into(),
                    });
                }
                found[found.len() - 1]
            };
            for place in 0..count {
                let found = number(out_kind, &out[place as usize * size..]);
                let all: Vec<f64> = (0..over).map(|k| element(place * over + k)).collect();
                if reduced && all.iter().any(|x| x.is_nan()) {
                    // Which of them a maximum forgets depends on the order.
                    continue;
                }
                let most = all.iter().map(|x| x.abs()).sum::<f64>();
                if reduced && combiner == Combiner::Sum && !most.is_finite() {
                    continue;
                }
                let (wanted, part) = match (reduced, combiner) {
                    (false, _) => (all[0], 0.0),
                    (_, Combiner::Max) => {
                        (all.iter().copied().fold(float_min(wide), f64::max), 0.0)
                    }
                    (_, Combiner::Min) => {
                        (all.iter().copied().fold(-float_min(wide), f64::min), 0.0)
                    }
                    _ => {
                        let sum = all.iter().sum::<f64>();
                        let bits = match out_kind {
                            Kind::F16 => 11,
                            Kind::BF16 => 8,
                            _ => 20,
                        };
                        (sum, most * 0.5f64.powi(bits))
                    }
                };
                let wanted = match (out_kind, combiner, reduced) {
                    // The least and the greatest number of a type are where its maximum begins.
                    (Kind::F16, Combiner::Max, true) => wanted.max(-65504.0),
                    (Kind::F16, Combiner::Min, true) => wanted.min(65504.0),
                    (Kind::BF16, Combiner::Max, true) => wanted.max(bf16::MIN.to_f64()),
                    (Kind::BF16, Combiner::Min, true) => wanted.min(bf16::MAX.to_f64()),
                    _ => wanted,
                };
                assert!(
                    close(found, held(out_kind, wanted), part),
                    "{found} is not {wanted} at {place} of {extents:?} {axes} {kinds:?} {steps:?} \
                     {out_kind:?} {combiner:?} {isa:?}: {ops:#?}"
                );
            }
        });
    }
}

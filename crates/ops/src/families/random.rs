//! Random numbers: Threefry, a splittable generator without hidden state.
//!
//! A key is ten `uint64` words: key (4), path (2), counter (2), the next position in the path (2).
//! Functions take a key and return the next one with their numbers; the numbers are bitwise equal
//! to TVM's. (J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011; K.
//! Claessen and M. Pałka, Splittable pseudorandom number generators, Haskell 2013.)

use relax_loops::{Ex, Nest, TensorRef, UnOp};
use relax_sym::Dim;
use relax_tensor::DType;

use super::qnn_util::one_of;
use super::util::{dtype_given, finish_tuple, tensor_type};
use super::util_te::{Done, flat, product};
use crate::AttrTy::{self, Int, Ints};
use crate::{AttrDef, Default, Input, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const KEY: Input = input("key", "the generator's state, ten words");
const OUT_SHAPE: AttrDef = attr(
    "out_shape",
    Ints,
    Default::Required,
    "the extents of the result",
);
const OUT_DTYPE: AttrDef = attr(
    "out_dtype",
    AttrTy::DType,
    Default::DType(""),
    "float32 or float64",
);

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "random.threefry_generate",
        "The next key, and random `uint64` words.",
        generate,
    )
    .inputs(&[KEY])
    .attrs(&[OUT_SHAPE])
    .compute(generate_compute),
    OpDef::new("random.threefry_split", "Two keys from one.", split)
        .inputs(&[KEY])
        .compute(split_compute),
    OpDef::new(
        "random.uniform",
        "The next key, and numbers drawn evenly from `low` to below `high`.",
        distribution,
    )
    .inputs(&[
        KEY,
        input("low", "the least number"),
        input("high", "what numbers stay below"),
    ])
    .attrs(&[OUT_SHAPE, OUT_DTYPE])
    .compute(uniform_compute),
    OpDef::new(
        "random.normal",
        "The next key, and numbers from a normal distribution.",
        distribution,
    )
    .inputs(&[
        KEY,
        input("mean", "the mean"),
        input("scale", "the standard deviation"),
    ])
    .attrs(&[OUT_SHAPE, OUT_DTYPE])
    .compute(normal_compute),
    OpDef::new(
        "random.multinomial",
        "The next key, and indices of the last axis drawn with the probabilities there.",
        multinomial,
    )
    .inputs(&[KEY, input("probs", "probabilities, or weights")])
    .attrs(&[attr(
        "num_samples",
        Int,
        Default::Int(1),
        "how many indices are drawn for each row",
    )])
    .compute(multinomial_compute),
];

/// The type of a key; the first argument must have it.
fn key(cx: &mut RelCx<'_>) -> RelResult<relax_ir::TypeId> {
    let ty = cx.host.types_mut().tensor(vec![Dim::from(10)], DType::U64);
    cx.require_arg(0, ty, "a key of the generator is ten words")?;
    Ok(ty)
}

/// Returns the extents that the attribute gives.
fn out_shape(cx: &RelCx<'_>) -> RelResult<Vec<Dim>> {
    let shape = cx.ints("out_shape")?.unwrap_or_default();
    let size = shape.iter().try_fold(1i64, |n, &d| n.checked_mul(d));
    if shape.iter().any(|&d| d < 0) || size.is_none() {
        let text = format!("`out_shape={shape:?}` are no extents of a tensor");
        return cx.refuse(Subject::Attr("out_shape"), text);
    }
    Ok(shape.into_iter().map(Dim::from).collect())
}

fn generate(cx: &mut RelCx<'_>) -> RelResult {
    let key = key(cx)?;
    let shape = out_shape(cx)?;
    let words = tensor_type(cx, shape, DType::U64)?;
    finish_tuple(cx, vec![key, words])
}

fn split(cx: &mut RelCx<'_>) -> RelResult {
    let key = key(cx)?;
    finish_tuple(cx, vec![key, key])
}

fn distribution(cx: &mut RelCx<'_>) -> RelResult {
    let shape = out_shape(cx)?;
    let dtype = dtype_given(cx, "out_dtype")?;
    let floats = [DType::F32, DType::F64];
    one_of(
        cx,
        Subject::Attr("out_dtype"),
        dtype,
        &floats,
        "`out_dtype`",
    )?;
    let key = key(cx)?;
    let scalar = cx.host.types_mut().scalar(dtype);
    for i in [1, 2] {
        cx.require_arg(
            i,
            scalar,
            "the parameters of a distribution are scalars of `out_dtype`",
        )?;
    }
    let numbers = tensor_type(cx, shape, dtype)?;
    finish_tuple(cx, vec![key, numbers])
}

fn multinomial(cx: &mut RelCx<'_>) -> RelResult {
    let (mut dims, _) = cx.ranked(1)?;
    let samples = cx.int("num_samples")?;
    if dims.pop().is_none() {
        return cx.refuse(
            Subject::Arg(1),
            "probabilities stand along an axis, but this is a scalar",
        );
    }
    if samples < 0 {
        let text = format!("`num_samples={samples}` must not be negative");
        return cx.refuse(Subject::Attr("num_samples"), text);
    }
    dims.push(Dim::from(samples));
    let key = key(cx)?;
    let indices = tensor_type(cx, dims, DType::I32)?;
    finish_tuple(cx, vec![key, indices])
}

fn word(v: u64) -> Ex {
    Ex::int(DType::U64, v as i64)
}

const ROTATIONS: [[u64; 2]; 8] = [
    [14, 16],
    [52, 57],
    [23, 40],
    [5, 37],
    [25, 33],
    [46, 12],
    [58, 22],
    [32, 32],
];

/// The Threefry block function: four words from a key and a counter, 20 rounds.
fn threefry(n: &mut Nest<'_>, key: [Ex; 4], counter: [Ex; 4]) -> [Ex; 4] {
    let parity = key.iter().fold(word(0x1BD1_1BDA_A9FC_1A22), |p, k| p ^ k);
    let mut keys = key.to_vec();
    keys.push(n.let_(parity));
    let mut state = counter;
    for round in 0..20usize {
        if round % 4 == 0 {
            let s = round / 4;
            for (i, v) in state.iter_mut().enumerate() {
                *v = &*v + &keys[(s + i) % 5];
                if i == 3 {
                    *v = &*v + &word(s as u64);
                }
            }
        }
        let mut pair = |a: &Ex, b: &Ex, by: u64| {
            let x = n.let_(a + b);
            let b = n.let_(b.clone());
            let turned = b.shl(word(by)) | b.shr(word(64 - by));
            let y = n.let_(&x ^ &turned);
            (x, y)
        };
        let [r0, r1] = ROTATIONS[round % 8];
        let (a, b) = pair(&state[0], &state[1], r0);
        let (c, d) = pair(&state[2], &state[3], r1);
        state = [a, d, c, b];
    }
    state
}

fn words<const N: usize>(t: &TensorRef, from: usize) -> [Ex; N] {
    std::array::from_fn(|k| t.at(&[Ex::idx((from + k) as i64)]))
}

fn store_words(n: &mut Nest<'_>, t: &TensorRef, from: usize, values: &[Ex]) {
    for (k, v) in values.iter().enumerate() {
        n.store(t, &[Ex::idx((from + k) as i64)], v);
    }
}

/// Returns the next position in the path: one to the right.
fn next_place(a: &Ex, b: &Ex) -> [Ex; 2] {
    let zero = word(0);
    let (last, none) = (a.eq(1i64), a.eq(0i64));
    let first = Ex::where_(&(&last | &none), &zero, &a.shr(1i64));
    let rest = Ex::where_(&none, &b.shr(1i64), &zero);
    [first, Ex::where_(&last, &word(1 << 63), &rest)]
}

/// Returns the next key, and `len` random words.
fn random_words(te: &mut Te<'_>, len: &Ex) -> (TensorRef, TensorRef) {
    let key = te.arg(0);
    let state = te.temp("state", DType::U64, &[Ex::idx(10)]);
    let next = te.temp("next", DType::U64, &[Ex::idx(10)]);
    let out = te.temp("words", DType::U64, std::slice::from_ref(len));
    te.nest(|n| {
        let old: [Ex; 10] = words(&key, 0);
        let size = n.let_(len.cast(DType::U64));
        let room = old[7].lt(word(u64::MAX) - &size);
        n.if_else(
            room,
            |n| store_words(n, &state, 0, &old),
            |n| {
                // The counter is exhausted: a step to the right in the path, or a new key.
                let full = old[8].eq(0i64) & old[9].eq(0i64);
                n.if_else(
                    full,
                    |n| {
                        let ones = std::array::from_fn(|_| word(u64::MAX));
                        let fresh = threefry(n, words(&key, 0), ones);
                        store_words(n, &state, 0, &fresh);
                        let zero = word(0);
                        let start = word(1 << 63);
                        let rest = [&zero, &zero, &zero, &zero, &start, &zero];
                        store_words(n, &state, 4, &rest.map(Ex::clone));
                    },
                    |n| {
                        store_words(n, &state, 0, &old[..4]);
                        let path = [&old[4] | &old[8], &old[5] | &old[9], word(0), word(0)];
                        store_words(n, &state, 4, &path);
                        store_words(n, &state, 8, &next_place(&old[8], &old[9]));
                    },
                );
            },
        );
        let blocks = n.let_(len.floor_div(4));
        n.for_(blocks.clone(), |n, block| {
            let step = n.let_(block.cast(DType::U64));
            let counter = words::<4>(&state, 4).map(|c| c + &step);
            let numbers = threefry(n, words(&state, 0), counter);
            for (k, v) in numbers.iter().enumerate() {
                n.store(&out, &[block * 4 + k as i64], v);
            }
        });
        let done = n.let_(&blocks * 4);
        let left = n.let_(len - &done);
        n.if_(left.gt(0i64), |n| {
            let mut counter = words::<4>(&state, 4);
            counter[3] = &counter[3] + &done.cast(DType::U64);
            let numbers = threefry(n, words(&state, 0), counter);
            for (k, v) in numbers.iter().enumerate() {
                let at = &done + k as i64;
                n.if_(left.gt(k as i64), |n| n.store(&out, &[at], v));
            }
        });
        let mut new: [Ex; 10] = words(&state, 0);
        new[6] = word(0);
        // Counted in whole blocks, unless the last one is only partly used.
        let used = Ex::where_(&left.gt(0i64), &(&done + 4), len);
        new[7] = &new[7] + &used.cast(DType::U64);
        store_words(n, &next, 0, &new);
    });
    (next, out)
}

fn generate_compute(te: &mut Te<'_>) -> Done {
    let shape = attr_shape(te);
    let (next, bits) = random_words(te, &product(&shape));
    let own = shape.clone();
    let y = te.compute("random", &shape, |i| bits.at(&[flat(i, &own)]));
    te.output(&next);
    te.output(&y);
    Ok(())
}

fn attr_shape(te: &Te<'_>) -> Vec<Ex> {
    let shape = te.ints("out_shape").unwrap_or_default();
    shape.into_iter().map(Ex::idx).collect()
}

fn split_compute(te: &mut Te<'_>) -> Done {
    let key = te.arg(0);
    let sides = ["left", "right"].map(|name| te.temp(name, DType::U64, &[Ex::idx(10)]));
    te.nest(|n| {
        let old: [Ex; 10] = words(&key, 0);
        let full = old[8].eq(0i64) & old[9].eq(0i64);
        n.if_else(
            full,
            |n| {
                // The path is full: its hash is the new key.
                let fresh = threefry(n, words(&key, 0), words(&key, 4));
                for (side, path) in sides.iter().zip([0, 1 << 63]) {
                    store_words(n, side, 0, &fresh);
                    let rest = [path, 0, 0, 0, 1 << 62, 0].map(word);
                    store_words(n, side, 4, &rest);
                }
            },
            |n| {
                for (right, side) in sides.iter().enumerate() {
                    let mut new = old.clone();
                    if right == 1 {
                        new[4] = &old[4] | &old[8];
                        new[5] = &old[5] | &old[9];
                    }
                    store_words(n, side, 0, &new[..8]);
                    store_words(n, side, 8, &next_place(&old[8], &old[9]));
                }
            },
        );
    });
    te.output(&sides[0]);
    te.output(&sides[1]);
    Ok(())
}

/// Converts random bits to a number in [0, 1): they are its fraction.
fn unit(bits: &Ex, dtype: DType) -> Ex {
    let one = Ex::float(dtype, 1.0);
    if dtype == DType::F64 {
        let mantissa = bits.shr(word(12)) | word(0x3ff << 52);
        return mantissa.reinterpret(dtype) - one;
    }
    let bits = bits.cast(DType::U32);
    let mantissa = bits.shr(9i64) | Ex::int(DType::U32, 0x7f << 23);
    mantissa.reinterpret(dtype) - one
}

fn uniform_compute(te: &mut Te<'_>) -> Done {
    let (low, high, dtype) = (te.arg(1), te.arg(2), te.out(1).dtype);
    let shape = attr_shape(te);
    let (next, bits) = random_words(te, &product(&shape));
    let own = shape.clone();
    let y = te.compute("uniform", &shape, |i| {
        let span = high.scalar() - low.scalar();
        unit(&bits.at(&[flat(i, &own)]), dtype) * span + low.scalar()
    });
    te.output(&next);
    te.output(&y);
    Ok(())
}

fn normal_compute(te: &mut Te<'_>) -> Done {
    let (mean, scale, dtype) = (te.arg(1), te.arg(2), te.out(1).dtype);
    let shape = attr_shape(te);
    let size = product(&shape);
    let (next, bits) = random_words(te, &(&size * 2));
    let own = shape.clone();
    // Box-Muller: the first half of the numbers gives the radius, the second half the angle.
    let y = te.compute("normal", &shape, |i| {
        let at = flat(i, &own);
        let c = |v: f64| Ex::float(dtype, v);
        let radius = c(1.0) - unit(&bits.at(std::slice::from_ref(&at)), dtype);
        let radius = (c(-2.0) * radius.unary(UnOp::Log)).unary(UnOp::Sqrt);
        let turn = c(std::f64::consts::TAU) * unit(&bits.at(&[at + &size]), dtype);
        radius * turn.unary(UnOp::Sin) * scale.scalar() + mean.scalar()
    });
    te.output(&next);
    te.output(&y);
    Ok(())
}

fn multinomial_compute(te: &mut Te<'_>) -> Done {
    let probs = te.arg(1);
    let samples = Ex::idx(te.int("num_samples")?);
    let (rows, kinds) = match probs.shape.split_last() {
        Some((kinds, rows)) => (rows.to_vec(), kinds.clone()),
        None => return Err("probabilities stand along an axis".into()),
    };
    let mut shape = rows.clone();
    shape.push(samples.clone());
    let (next, bits) = random_words(te, &product(&shape));
    let out = te.temp("drawn", DType::I32, &shape);
    let f = |v: f64| Ex::float(DType::F32, v);
    te.nest(|n| {
        n.grid(&rows, |n, row| {
            let at = |k: &Ex| {
                let mut i = row.to_vec();
                i.push(k.clone());
                i
            };
            let weight = |k: &Ex| probs.at(&at(k)).cast(DType::F32).max(0i64);
            let total = n.cell(f(0.0));
            n.for_(kinds.clone(), |n, k| {
                n.set(&total, total.scalar() + weight(k))
            });
            let total = n.let_(total.scalar());
            let (sum, best, index) = (n.cell(f(0.0)), n.cell(f(0.0)), n.cell(Ex::idx(0)));
            n.for_(samples.clone(), |n, s| {
                let u = n.let_(unit(&bits.at(&[flat(&at(s), &shape)]), DType::F32));
                n.set(&sum, f(0.0));
                n.set(&best, f(f64::INFINITY));
                n.set(&index, 0i64);
                // The first index whose cumulative probability exceeds the number, by the least
                // distance; where there is none, all distances count as 1.
                n.for_(kinds.clone(), |n, k| {
                    n.set(&sum, sum.scalar() + weight(k) / &total);
                    let d = n.let_(sum.scalar() - &u);
                    let d = n.let_(Ex::where_(&d.gt(0i64), &d, &f(1.0)));
                    n.if_(d.lt(best.scalar()), |n| {
                        n.set(&best, &d);
                        n.set(&index, k);
                    });
                });
                n.store(&out, &at(s), index.scalar().cast(DType::I32));
            });
        });
    });
    te.output(&next);
    te.output(&out);
    Ok(())
}

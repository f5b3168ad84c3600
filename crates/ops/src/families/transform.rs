//! The discrete Fourier transform of an extent that is known: by its factors, or as a convolution.

use relax_loops::{Combiner, Ex, TensorRef, UnOp};
use relax_tensor::DType as DT;

use crate::Te;

/// The greatest factor along which sums are made directly. What has a greater prime factor is a
/// convolution.
const LONGEST: i64 = 256;
/// The odd factor from which on sums are made of the halves of what is even and what is odd: a
/// quarter of the multiplications, for more passes over the elements.
const HALVED: i64 = 17;

/// The angle `2π * a * b / n`, in 64 bits.
pub fn angle(a: &Ex, b: &Ex, n: &Ex) -> Ex {
    // The product modulo n keeps the angle small, and so exact.
    fraction(&(a * b).floor_mod(n), n)
}

/// The angle of a part of a turn: `2π * at / n`.
fn fraction(at: &Ex, n: &Ex) -> Ex {
    at.cast(DT::F64) / n.cast(DT::F64) * Ex::float(DT::F64, std::f64::consts::TAU)
}

/// Factors the extent of a transform into levels, whose product is `n`: as few as possible with
/// some 32 elements each, and as equal as the divisors allow. `None` where a prime factor is too
/// large.
fn levels(n: i64) -> Option<Vec<i64>> {
    const SHORT: f64 = 32.0;
    let (mut found, mut rest) = (Vec::new(), n);
    while rest > 1 || found.is_empty() {
        let size = rest as f64;
        let count = (size.ln() / SHORT.ln()).ceil().max(1.0);
        let wanted = (size.powf(1.0 / count) - 1e-9).ceil() as i64;
        let level = (wanted.max(1)..=LONGEST.min(rest)).find(|f| rest % f == 0)?;
        found.push(level);
        rest /= level;
    }
    Some(found)
}

/// A transform's result: real and imaginary part along an axis behind those of the batch, and behind
/// that the digits of the index, so that what is computed alike lies side by side.
pub struct Parts {
    tensor: TensorRef,
    /// The bases of the digits, the least significant first.
    levels: Vec<i64>,
}

impl Parts {
    /// The element of an index, the last of `at`.
    pub fn at(&self, at: &[Ex], part: Ex) -> Ex {
        let (mut index, mut rest) = match at.split_last() {
            Some((index, batch)) => (batch.to_vec(), index.clone()),
            None => (Vec::new(), Ex::idx(0)),
        };
        index.push(part);
        for (k, &level) in self.levels.iter().enumerate() {
            let last = k + 1 == self.levels.len();
            index.push(match last {
                true => rest.clone(),
                false => rest.floor_mod(level),
            });
            rest = rest.floor_div(level);
        }
        index.push(Ex::idx(0));
        self.tensor.at(&index)
    }
}

/// Numbers of two parts whose direction of rotation is `turn`.
struct Turned<'a> {
    /// The axis of the parts.
    part: usize,
    /// For each part, the sign with which the other one takes part in its product with a sine.
    sign: &'a TensorRef,
}

impl Turned<'_> {
    /// `z` at an index, turned by an angle of this cosine and sine.
    fn by(&self, z: &TensorRef, i: &[Ex], cos: &Ex, sin: &Ex) -> Ex {
        let part = &i[self.part];
        let mut other = i.to_vec();
        other[self.part] = Ex::idx(1) - part;
        let sine = sin * self.sign.at(std::slice::from_ref(part));
        z.at(i) * cos + z.at(&other) * sine
    }
}

/// `-turn` and `turn`.
fn signs(te: &mut Te<'_>, turn: f64) -> TensorRef {
    te.compute("signs", &[Ex::idx(2)], |i| {
        let one = |x| Ex::float(DT::F64, x);
        Ex::where_(&i[0].eq(0i64), &one(-turn), &one(turn))
    })
}

/// Cosines and sines of angles, each of a number of elements.
fn waves(te: &mut Te<'_>, shape: &[Ex], angle: impl Fn(&[Ex]) -> Ex) -> [TensorRef; 2] {
    [("cosines", UnOp::Cos), ("sines", UnOp::Sin)]
        .map(|(name, op)| te.compute(name, shape, |i| angle(i).unary(op)))
}

/// The transform along the last axis of `n` elements of two parts, without a factor.
pub fn transform(te: &mut Te<'_>, re: &TensorRef, im: &TensorRef, n: i64, inverse: bool) -> Parts {
    let batch = re.rank() - 1;
    let shape = [&re.shape[..batch], &[Ex::idx(2), Ex::idx(n)]].concat();
    let z = te.compute("parts", &shape, |i| {
        let at = [&i[..batch], &i[batch + 1..]].concat();
        let [x, y] = [re.at(&at), im.at(&at)].map(|e| e.cast(DT::F64));
        Ex::where_(&i[batch].eq(0i64), &x, &y)
    });
    let turn = if inverse { 1.0 } else { -1.0 };
    match levels(n) {
        Some(levels) => by_levels(te, z, levels, turn),
        None => by_convolution(te, &z, n, turn),
    }
}

/// The transform by [`levels`] along the last axis, before which are the parts.
fn by_levels(te: &mut Te<'_>, z: TensorRef, levels: Vec<i64>, turn: f64) -> Parts {
    let part = z.rank() - 2;
    let sign = signs(te, turn);
    let turned = Turned { part, sign: &sign };
    let mut z = z;
    let mut rest: i64 = levels.iter().product();
    for (k, &level) in levels.iter().enumerate() {
        let all = Ex::idx(rest);
        rest /= level;
        z = match level % 2 == 1 && level >= HALVED {
            true => by_halves(te, &z, (level, rest), &turned),
            false => by_matrix(te, &z, (level, rest), (part, turn)),
        };
        if rest == 1 {
            continue;
        }
        // What is left is turned by angles that this level's digit has a part in.
        let tables = [Ex::idx(level), Ex::idx(rest)];
        let angle = |i: &[Ex]| fraction(&(&i[0] * &i[1]), &all);
        let [cosines, sines] = waves(te, &tables, angle);
        let (y, digit) = (z, part + 1 + k);
        z = te.compute("turned", &y.shape.clone(), |i| {
            let table = &i[digit..];
            turned.by(&y, i, &cosines.at(table), &sines.at(table))
        });
    }
    Parts { tensor: z, levels }
}

/// The index of the element `at` of the last axis, of a tensor whose last two axes are `level` and
/// `rest` in place of that axis.
fn joined(i: &[Ex], at: Ex) -> Vec<Ex> {
    [&i[..i.len() - 2], &[at]].concat()
}

/// One level of elements that are `rest` apart: both parts are sums of products with a matrix.
fn by_matrix(
    te: &mut Te<'_>,
    z: &TensorRef,
    (level, rest): (i64, i64),
    (part, turn): (usize, f64),
) -> TensorRef {
    let (f, two) = (Ex::idx(level), Ex::idx(2));
    let [cosines, sines] = waves(te, std::slice::from_ref(&f), |i| fraction(&i[0], &f));
    let square = [two.clone(), f.clone(), two.clone(), f.clone()];
    let matrix = te.compute("matrix", &square, |i| {
        let at = [(&i[1] * &i[3]).floor_mod(level)];
        let sine = sines.at(&at) * Ex::float(DT::F64, turn);
        let cross = Ex::where_(&i[2].eq(0i64), &-sine.clone(), &sine);
        Ex::where_(&i[0].eq(&i[2]), &cosines.at(&at), &cross)
    });
    let last = z.rank() - 1;
    let shape = [&z.shape[..last], &[f.clone(), Ex::idx(rest)]].concat();
    te.reduce("level", &shape, &[two, f], Combiner::Sum, |i, s| {
        let mut at = joined(i, &s[1] * rest + &i[last + 1]);
        at[part] = s[0].clone();
        let of = [s[0].clone(), s[1].clone(), i[part].clone(), i[last].clone()];
        z.at(&at) * matrix.at(&of)
    })
}

/// The same for an odd number of elements. Those opposite to each other are added, and subtracted:
/// sums of the former with cosines and of the latter with sines give the results of two indices, as
/// their sum and as their difference.
fn by_halves(
    te: &mut Te<'_>,
    z: &TensorRef,
    (level, rest): (i64, i64),
    turned: &Turned<'_>,
) -> TensorRef {
    let half = level / 2;
    let (short, long, r) = (Ex::idx(half), Ex::idx(half + 1), Ex::idx(rest));
    let last = z.rank() - 1;
    let batch = &z.shape[..last];
    let pairs = [batch, &[short.clone(), r.clone()]].concat();
    let opposite = |i: &[Ex]| {
        let place = |j: Ex| z.at(&joined(i, j * rest + &i[last + 1]));
        [place(&i[last] + 1), place(Ex::idx(level - 1) - &i[last])]
    };
    let even = te.compute("even", &pairs, |i| {
        let [x, y] = opposite(i);
        x + y
    });
    let odd = te.compute("odd", &pairs, |i| {
        let [x, y] = opposite(i);
        x - y
    });
    let all = Ex::idx(level);
    let [cosines, sines] = waves(te, std::slice::from_ref(&all), |i| fraction(&i[0], &all));
    let both = [Ex::idx(2), short.clone(), long.clone()];
    let matrix = te.compute("matrix", &both, |i| {
        let at = [((&i[1] + 1) * &i[2]).floor_mod(level)];
        Ex::where_(&i[0].eq(0i64), &cosines.at(&at), &sines.at(&at))
    });
    let sums = [batch, &[long, r]].concat();
    let [even, odd] = [(even, 0), (odd, 1)].map(|(x, which)| {
        let over = std::slice::from_ref(&short);
        te.reduce("half", &sums, over, Combiner::Sum, |i, s| {
            let at = [&i[..last], &[s[0].clone(), i[last + 1].clone()]].concat();
            x.at(&at) * matrix.at(&[Ex::idx(which), s[0].clone(), i[last].clone()])
        })
    });
    let parts = |i: &[Ex]| {
        let first = z.at(&joined(i, i[last + 1].clone()));
        let mut other = i.to_vec();
        other[turned.part] = Ex::idx(1) - &i[turned.part];
        let sign = turned.sign.at(&i[turned.part..=turned.part]);
        (first + even.at(i), odd.at(&other) * sign)
    };
    let lower = te.compute("lower", &sums, |i| {
        let (x, y) = parts(i);
        x + y
    });
    let upper = te.compute("upper", &sums, |i| {
        let (x, y) = parts(i);
        x - y
    });
    let shape = [batch, &[Ex::idx(level), Ex::idx(rest)]].concat();
    te.compute("level", &shape, |i| {
        let mut back = i.to_vec();
        back[last] = Ex::idx(level) - &i[last];
        Ex::where_(&i[last].lt(half + 1), &lower.at(i), &upper.at(&back))
    })
}

/// The transform of any number of elements: as `2jk = j² + k² - (k - j)²`, it is a convolution with
/// numbers on the unit circle, which transforms of a longer, easy extent make a product of.
fn by_convolution(te: &mut Te<'_>, z: &TensorRef, n: i64, turn: f64) -> Parts {
    let part = z.rank() - 2;
    let least = 2 * n - 1;
    // A power of two, or three quarters of one.
    let whole = (least as u64).next_power_of_two() as i64;
    let m = match whole / 4 * 3 >= least {
        true => whole / 4 * 3,
        false => whole,
    };
    let easy = || levels(m).unwrap_or_else(|| vec![m]);
    let sign = signs(te, turn);
    let turned = Turned { part, sign: &sign };
    // πj² / n
    let turns = Ex::idx(2 * n);
    let one = [Ex::idx(n)];
    let [cosines, sines] = waves(te, &one, |i| angle(&i[0], &i[0], &turns));
    let own = te.compute("turned", &z.shape.clone(), |i| {
        let at = &i[part + 1..];
        turned.by(z, i, &cosines.at(at), &sines.at(at))
    });
    let zero = Ex::float(DT::F64, 0.0);
    let long = [&z.shape[..=part], &[Ex::idx(m)]].concat();
    let own = te.compute("padded", &long, |i| {
        Ex::where_(&i[part + 1].lt(n), &own.at(i), &zero)
    });
    // The other way round, from both ends: index 0 is in the middle.
    let ring = te.compute("ring", &[Ex::idx(2), Ex::idx(m)], |i| {
        let back = Ex::idx(m) - &i[1];
        let at = Ex::where_(&back.lt(n), &back, &i[1]);
        let inside = at.lt(n);
        let wave = |w: &TensorRef| Ex::where_(&inside, &w.at(std::slice::from_ref(&at)), &zero);
        let sine = wave(&sines) * Ex::float(DT::F64, -turn);
        Ex::where_(&i[0].eq(0i64), &wave(&cosines), &sine)
    });
    let own = by_levels(te, own, easy(), -1.0);
    let ring = by_levels(te, ring, easy(), -1.0);
    let forward = signs(te, 1.0);
    let product = Turned {
        part,
        sign: &forward,
    };
    let scale = Ex::float(DT::F64, 1.0 / m as f64);
    let tensor = te.compute("product", &own.tensor.shape.clone(), |i| {
        // Digits are those of the same index on both sides.
        let [cos, sin] = [0, 1].map(|p| ring.tensor.at(&[&[Ex::idx(p)], &i[part + 1..]].concat()));
        product.by(&own.tensor, i, &cos, &sin) * &scale
    });
    let product = Parts {
        tensor,
        levels: own.levels,
    };
    let index = |i: &[Ex]| [&i[..part], &i[part + 1..part + 2]].concat();
    let back = te.compute("ordered", &long, |i| product.at(&index(i), i[part].clone()));
    let back = by_levels(te, back, easy(), 1.0);
    let ordered = te.compute("ordered", &z.shape.clone(), |i| {
        back.at(&index(i), i[part].clone())
    });
    let shape = [&z.shape[..], &[Ex::idx(1)]].concat();
    let tensor = te.compute("turned", &shape, |i| {
        let (i, at) = (&i[..part + 2], &i[part + 1..part + 2]);
        turned.by(&ordered, i, &cosines.at(at), &sines.at(at))
    });
    Parts {
        tensor,
        levels: vec![n],
    }
}

//! Indices of constant size with divisions in them: `x[(i * 8 + j) // 64, (i * 8 + j) % 64]`
//! traverses an array with constant strides once the loops are split where the divisions require
//! it.
//!
//! Each axis is a list of mixed-radix digits. An index is a sum of digits with coefficients; a
//! division by `c` takes the terms that are multiples of `c`, when the others together stay below
//! `c`. Where one digit straddles `c`, it is split in two and everything is tried again.

use crate::{BinOp, Ex, ExKind, Var};

/// The maximum number of digits.
const MOST: usize = 12;
/// The maximum nesting depth of index expressions.
const DEPTH: usize = 24;

/// The source read where an index is below a bound, and not below the bounds of earlier parts;
/// without a bound, everywhere else.
pub(super) struct Part<'e> {
    pub below: Option<(&'e Ex, i64)>,
    /// The index of what is read, and the shape of the array.
    pub index: &'e [Ex],
    pub shape: Vec<i64>,
}

/// The traversal of a part: loops, one of which runs over a range only.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The loop with the range.
    pub digit: usize,
    /// The range.
    pub range: (i64, i64),
    /// The array's step along each loop, in elements.
    pub steps: Vec<i64>,
    /// The offset of the element that is read when all loops are at 0.
    pub first: i64,
}

/// A sum of digits: a coefficient for each, and a constant.
#[derive(Clone)]
struct Sum {
    terms: Vec<i64>,
    rest: i64,
}

/// The reason why an index is not such a sum.
#[derive(Clone, Copy)]
enum Trouble {
    /// Digit `.0` has to be split so that its inner part has extent `.1`.
    Cut(usize, i64),
    Never,
}

/// The digits of all axes, as axis and extent, and a range that one of them stays in.
struct Digits(Vec<(usize, i64)>, Option<(usize, (i64, i64))>);

impl Digits {
    /// Returns the digits of axes of these extents, split until `found` needs no more splits, and
    /// its result then.
    fn cut<T>(
        extents: &[i64],
        found: impl Fn(&Digits) -> Result<T, Trouble>,
    ) -> Option<(Vec<(usize, i64)>, T)> {
        let mut digits = Digits(extents.iter().copied().enumerate().collect(), None);
        loop {
            match found(&digits) {
                Ok(found) => return Some((digits.0, found)),
                Err(trouble) if digits.mend(trouble) => {}
                Err(_) => return None,
            }
        }
    }

    /// Returns the least and the greatest value of a sum.
    fn range(&self, terms: &[i64]) -> (i64, i64) {
        let mut range = (0i64, 0i64);
        for (at, (k, d)) in terms.iter().zip(&self.0).enumerate() {
            let (low, high) = match self.1 {
                Some((digit, range)) if digit == at => range,
                _ => (0, d.1),
            };
            let ends = [k.saturating_mul(low), k.saturating_mul(high - 1)];
            range = (
                range.0.saturating_add(ends[0].min(ends[1])),
                range.1.saturating_add(ends[0].max(ends[1])),
            );
        }
        range
    }

    /// Returns the digit, and its value, below which an index is below a bound.
    fn below(&self, place: &Ex, axes: &[Var], bound: i64) -> Result<(usize, i64), Trouble> {
        let sum = self.sum(place, axes, DEPTH)?;
        let (digit, &k) = (sum.terms.iter().enumerate())
            .max_by_key(|t| t.1)
            .ok_or(Trouble::Never)?;
        let mut others = sum.terms.clone();
        others[digit] = 0;
        let (least, most) = self.range(&others);
        let rest = bound.checked_sub(sum.rest).ok_or(Trouble::Never)?;
        let even = most == 0 || rest.rem_euclid(k.max(1)) == 0;
        if k < 1 || least < 0 || most >= k || !even {
            return Err(Trouble::Never);
        }
        let value = rest.div_euclid(k) + i64::from(rest.rem_euclid(k) != 0);
        Ok((digit, value.clamp(0, self.0[digit].1)))
    }

    /// Returns the traversals of all parts.
    fn parts(&self, axes: &[Var], parts: &[Part<'_>]) -> Result<Vec<Walk>, Trouble> {
        let mut walks: Vec<Walk> = Vec::with_capacity(parts.len());
        for part in parts {
            let (last, begin) = walks
                .last()
                .map_or((None, 0), |w| (Some(w.digit), w.range.1));
            let (digit, end) = match part.below {
                Some((place, bound)) => self.below(place, axes, bound)?,
                None => {
                    let digit = last.unwrap_or(0);
                    (digit, self.0[digit].1)
                }
            };
            if last.is_some_and(|d| d != digit) {
                return Err(Trouble::Never);
            }
            let range = (begin, end.max(begin));
            let within = Digits(self.0.clone(), Some((digit, range)));
            let (steps, first) = match range.0 < range.1 {
                true => within.steps(axes, part.index, &part.shape)?,
                false => (vec![0; self.0.len()], 0),
            };
            walks.push(Walk {
                digit,
                range,
                steps,
                first,
            });
        }
        Ok(walks)
    }

    /// Splits a digit in two; returns `false` where that does not help.
    fn mend(&mut self, trouble: Trouble) -> bool {
        match trouble {
            Trouble::Cut(digit, inner) if self.0.len() < MOST => {
                let (axis, extent) = self.0[digit];
                self.0[digit].1 = extent / inner;
                self.0.insert(digit + 1, (axis, inner));
                true
            }
            _ => false,
        }
    }

    fn sum(&self, e: &Ex, axes: &[Var], depth: usize) -> Result<Sum, Trouble> {
        let zero = || vec![0; self.0.len()];
        if let Some(rest) = e.as_int() {
            let terms = zero();
            return Ok(Sum { terms, rest });
        }
        if depth == 0 {
            return Err(Trouble::Never);
        }
        match e.kind() {
            ExKind::Var(v) => {
                let axis = axes.iter().position(|a| a == v).ok_or(Trouble::Never)?;
                let (mut terms, mut size) = (zero(), 1);
                for (term, &(of, extent)) in terms.iter_mut().zip(&self.0).rev() {
                    if of == axis {
                        *term = size;
                        size *= extent;
                    }
                }
                Ok(Sum { terms, rest: 0 })
            }
            ExKind::Binary(op, a, b) => {
                let a = self.sum(a, axes, depth - 1)?;
                match op {
                    BinOp::Add | BinOp::Sub => {
                        let sign = if *op == BinOp::Add { 1 } else { -1 };
                        let b = self.sum(b, axes, depth - 1)?;
                        let terms = a.terms.iter().zip(&b.terms).map(|(x, y)| x + sign * y);
                        Ok(Sum {
                            terms: terms.collect(),
                            rest: a.rest + sign * b.rest,
                        })
                    }
                    BinOp::Mul => {
                        let by = b.as_int().ok_or(Trouble::Never)?;
                        let times = |x: i64| x.checked_mul(by).ok_or(Trouble::Never);
                        Ok(Sum {
                            terms: a
                                .terms
                                .iter()
                                .map(|&x| times(x))
                                .collect::<Result<_, _>>()?,
                            rest: times(a.rest)?,
                        })
                    }
                    BinOp::FloorDiv | BinOp::FloorMod => {
                        let c = b.as_int().filter(|&c| c > 0).ok_or(Trouble::Never)?;
                        self.divide(a, c, *op == BinOp::FloorDiv)
                    }
                    _ => Err(Trouble::Never),
                }
            }
            _ => Err(Trouble::Never),
        }
    }

    /// Returns the strides of an array along all digits, and the offset of its first element.
    fn steps(&self, axes: &[Var], index: &[Ex], shape: &[i64]) -> Result<(Vec<i64>, i64), Trouble> {
        let (mut steps, mut first, mut size) = (vec![0i64; self.0.len()], 0i64, 1i64);
        for (e, &n) in index.iter().zip(shape).rev() {
            let sum = self.sum(e, axes, DEPTH)?;
            let (least, most) = self.range(&sum.terms);
            if sum.rest + least < 0 || sum.rest + most >= n {
                return Err(Trouble::Never);
            }
            for (step, k) in steps.iter_mut().zip(&sum.terms) {
                *step += k * size;
            }
            first += sum.rest * size;
            size *= n;
        }
        Ok((steps, first))
    }

    fn divide(&self, a: Sum, c: i64, quotient: bool) -> Result<Sum, Trouble> {
        let split = |high: bool| -> Vec<i64> {
            let keep = |&k: &i64| if (k % c == 0) == high { k } else { 0 };
            a.terms.iter().map(keep).collect()
        };
        let low = split(false);
        // What the low terms are above the least that they are stays within one step of the quotient.
        let (least, most) = self.range(&low);
        let base = a.rest.checked_add(least).ok_or(Trouble::Never)?;
        let rest = base.rem_euclid(c);
        if most.saturating_sub(least) < c - rest {
            return Ok(if quotient {
                Sum {
                    terms: split(true).into_iter().map(|k| k / c).collect(),
                    rest: base.div_euclid(c),
                }
            } else {
                let rest = rest.checked_sub(least).ok_or(Trouble::Never)?;
                Sum { terms: low, rest }
            });
        }
        for (digit, (&k, &(_, extent))) in low.iter().zip(&self.0).enumerate() {
            if k > 0 && c % k == 0 {
                let inner = c / k;
                if inner > 1 && inner < extent && extent % inner == 0 {
                    return Err(Trouble::Cut(digit, inner));
                }
            }
        }
        Err(Trouble::Never)
    }
}

/// Loops that traverse several arrays with constant strides.
#[derive(Clone, Debug)]
pub struct Walks {
    /// The axis and the extent of each digit, outermost first; together they enumerate the axes in
    /// order.
    pub digits: Vec<(usize, i64)>,
    /// For each array its strides along them, in elements, and the offset of its first element.
    pub loads: Vec<(Vec<i64>, i64)>,
}

/// Returns how loops over `axes` of these extents traverse arrays, each read at an index and of a
/// shape; `None` when no split makes the strides constant, or an index is not proven to be in
/// bounds.
pub(super) fn walks(axes: &[Var], extents: &[i64], loads: &[(&[Ex], Vec<i64>)]) -> Option<Walks> {
    let shapes = loads.iter().flat_map(|l| &l.1);
    if extents.iter().chain(shapes).any(|&n| n < 1) {
        return None;
    }
    let (digits, loads) = Digits::cut(extents, |digits| {
        let steps = |l: &(&[Ex], Vec<i64>)| digits.steps(axes, l.0, &l.1);
        loads.iter().map(steps).collect()
    })?;
    Some(Walks { digits, loads })
}

/// Returns how loops over `axes` of these extents traverse the arrays of some parts: the loops'
/// extents, outermost first, and a traversal for each part. `None` as for [`walks`], and where a
/// bound does not split one loop.
pub(super) fn parts(
    axes: &[Var],
    extents: &[i64],
    parts: &[Part<'_>],
) -> Option<(Vec<i64>, Vec<Walk>)> {
    let shapes = parts.iter().flat_map(|p| &p.shape);
    if extents.is_empty() || extents.iter().chain(shapes).any(|&n| n < 1) {
        return None;
    }
    let (digits, walks) = Digits::cut(extents, |digits| digits.parts(axes, parts))?;
    Some((digits.iter().map(|d| d.1).collect(), walks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_tensor::DType;

    /// Asserts that every element that the traversal reads is the one that the index names.
    fn check(
        extents: &[i64],
        shape: &[i64],
        index: impl Fn(&[Ex]) -> Vec<Ex>,
        at: impl Fn(&[i64]) -> i64,
    ) {
        let axes: Vec<Var> = (0..extents.len() as u32).map(Var).collect();
        let vars: Vec<Ex> = axes.iter().map(|&v| Ex::var(v, DType::I64)).collect();
        let index = index(&vars);
        let whole = Part {
            below: None,
            index: &index,
            shape: shape.to_vec(),
        };
        let (loops, walks) = parts(&axes, extents, &[whole]).expect("even steps");
        let walk = &walks[0];
        let count: i64 = extents.iter().product();
        assert_eq!(count, loops.iter().product::<i64>());
        let places = |extents: &[i64], mut flat: i64| -> Vec<i64> {
            let mut out = vec![0; extents.len()];
            for (o, n) in out.iter_mut().zip(extents).rev() {
                (*o, flat) = (flat % n, flat / n);
            }
            out
        };
        for flat in 0..count {
            let loops = places(&loops, flat);
            let found: i64 = loops.iter().zip(&walk.steps).map(|(i, s)| i * s).sum();
            assert_eq!(
                walk.first + found,
                at(&places(extents, flat)),
                "element {flat}"
            );
        }
    }

    #[test]
    fn heads_are_cut_out_and_put_together() {
        // reshape to (6, 4, 3), then transpose to (4, 6, 3).
        let flat = |v: &[Ex]| (&v[1] * &Ex::idx(4) + v[0].clone()) * Ex::idx(3) + v[2].clone();
        check(
            &[4, 6, 3],
            &[6, 12],
            |v| {
                vec![
                    flat(v).floor_div(Ex::idx(12)),
                    flat(v).floor_mod(Ex::idx(12)),
                ]
            },
            |i| (i[1] * 4 + i[0]) * 3 + i[2],
        );
        // And back: transpose of (4, 6, 3) to (6, 4, 3), reshaped to (6, 12).
        let flat = |v: &[Ex]| &v[0] * &Ex::idx(12) + v[1].clone();
        check(
            &[6, 12],
            &[4, 6, 3],
            |v| {
                let rows = flat(v).floor_div(Ex::idx(3));
                vec![
                    rows.floor_mod(Ex::idx(4)),
                    rows.floor_div(Ex::idx(4)),
                    flat(v).floor_mod(Ex::idx(3)),
                ]
            },
            |i| {
                let flat = i[0] * 12 + i[1];
                (flat / 3 % 4 * 6 + flat / 3 / 4) * 3 + flat % 3
            },
        );
    }

    #[test]
    fn joined_and_reshaped_parts_have_loops_of_their_own() {
        // (2, 3, 4) concatenated with (5, 3, 4) along its first axis, as (3, 28).
        let axes = [Var(0), Var(1)];
        let [i, j] = axes.map(|v| Ex::var(v, DType::I64));
        let at = j.floor_div(Ex::idx(4));
        let lane = j.floor_mod(Ex::idx(4));
        let one = [at.clone(), i.clone(), lane.clone()];
        let other = [at.clone() - Ex::idx(2), i, lane];
        let part = |below, index, first: i64| Part {
            below,
            index,
            shape: vec![first, 3, 4],
        };
        let pieces = [part(Some((&at, 2)), &one, 2), part(None, &other, 5)];
        let (loops, walks) = parts(&axes, &[3, 28], &pieces).expect("even steps");
        assert_eq!(loops, [3, 7, 4]);
        let found: Vec<_> = walks.iter().map(|w| (w.digit, w.range, w.first)).collect();
        assert_eq!(found, [(1, (0, 2), 0), (1, (2, 7), -24)]);
        assert!(walks.iter().all(|w| w.steps == [4, 12, 1]));
        // A bound within a row of the inner loop is not a bound of the outer one.
        let lanes = [part(Some((&j, 6)), &one, 7), part(None, &one, 7)];
        assert!(parts(&axes, &[3, 28], &lanes).is_none());
    }

    #[test]
    fn parts_behind_others_may_be_reshaped() {
        // (4, 6, 2) beside (2, 3, 2, 2, 2), whose axes are turned to (2, 2, 3, 2, 2) and become (4, 6, 2).
        let axes = [Var(0), Var(1), Var(2)];
        let [i, j, k] = axes.map(|v| Ex::var(v, DType::I64));
        let row = &i * &Ex::idx(6) + j.clone() + k.floor_div(Ex::idx(2)) - Ex::idx(1);
        let one = [i, j, k.clone()];
        let other = [
            row.floor_div(Ex::idx(12)),
            row.floor_div(Ex::idx(2)).floor_mod(Ex::idx(3)),
            row.floor_div(Ex::idx(6)).floor_mod(Ex::idx(2)),
            row.floor_mod(Ex::idx(2)),
            k.floor_mod(Ex::idx(2)),
        ];
        let pieces = [
            Part {
                below: Some((&k, 2)),
                index: &one,
                shape: vec![4, 6, 2],
            },
            Part {
                below: None,
                index: &other,
                shape: vec![2, 3, 2, 2, 2],
            },
        ];
        let (loops, walks) = parts(&axes, &[4, 6, 4], &pieces).expect("even steps");
        assert_eq!(loops, [2, 2, 3, 2, 4]);
        let other = &walks[1];
        assert_eq!((other.digit, other.range), (4, (2, 4)));
        assert_eq!(other.first + 2 * other.steps[4], 0);
        assert_eq!([0, 1, 2, 3, 4].map(|d| other.steps[d]), [24, 4, 8, 2, 1]);
    }

    #[test]
    fn what_has_no_even_steps_is_refused() {
        let v = Ex::var(Var(0), DType::I64);
        let five = v.floor_div(Ex::idx(5));
        let refused = |index: Ex, n: i64| {
            let whole = Part {
                below: None,
                index: &[index],
                shape: vec![n],
            };
            parts(&[Var(0)], &[12], &[whole]).is_none()
        };
        assert!(refused(five, 3));
        assert!(refused(v + Ex::idx(1), 12));
    }
}

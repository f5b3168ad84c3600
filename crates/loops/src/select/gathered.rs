//! Sums of elements at computed places, times computed numbers: interpolation between the elements around a
//! position, in whatever form it is written. Of what the axes of the result are, some only choose the
//! element of a place (channels), and all of these share places and numbers, which are tabulated once.

use std::ops::Range;

use relax_tensor::DType;

use super::picks::harmless;
use crate::extents::{elements, numbers};
use crate::{BinOp, Buf, Combiner, Compute, Ex, ExKind, Program, UnOp, Var, axes_of, visit_expr};

/// The maximum number of elements that are added, those of a reduction included.
const TAPS: usize = 256;
/// The maximum number of expressions of places.
const PICKS: usize = 16;
/// Elements that share a place from which on tables pay.
const SHARE: i64 = 8;
/// Elements of the result below which they do not.
const FEW: i64 = 1024;
/// The maximum number of a table's entries.
const MOST: i64 = 1 << 24;
/// The maximum nesting depth of expressions.
const DEPTH: usize = 64;

/// A stage that sums elements at computed places.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The array.
    pub buf: Buf,
    /// The axes of the result that are channels, and those of the array.
    pub channels: Range<usize>,
    /// See `channels`.
    pub from_channels: Range<usize>,
    /// Axes at the end of both that are the elements of a place.
    pub inner: usize,
    /// The elements that are added.
    pub picks: Vec<Pick>,
    /// The type of sums and weights.
    pub dtype: DType,
}

/// An element that is added.
#[derive(Clone, Debug)]
pub struct Pick {
    /// Where these hold, nothing is left out.
    pub conditions: Vec<Ex>,
    /// The indices of the element.
    pub index: Vec<Ex>,
    /// What it is multiplied by.
    pub weight: Ex,
}

/// Returns the sum that a stage is; `None` where it is something else, or where tables do not pay.
pub(super) fn find(program: &Program, c: &Compute) -> Option<Gathered> {
    let out = &program.bufs[c.out];
    let dtype = match out.dtype {
        DType::F64 => DType::F64,
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        _ => return None,
    };
    let over = c.reduce.as_ref().map_or(&[][..], |r| &r.axes);
    if c.reduce
        .as_ref()
        .is_some_and(|r| r.combiner != Combiner::Sum)
    {
        return None;
    }
    let times = elements(over.iter().map(|a| &a.1)).filter(|&n| n > 0)?;
    let extents = numbers(&out.shape)?;
    let mut sum = Linear {
        dtype,
        buf: None,
        picks: Vec::new(),
    };
    sum.add(&c.value, &Factor::one(dtype), DEPTH)?;
    let Linear {
        buf: Some(buf),
        picks,
        ..
    } = sum
    else {
        return None;
    };
    let computed = |p: &Pick| p.index.iter().any(is_computed);
    if picks.len() as i64 * times > TAPS as i64 || !picks.iter().any(computed) {
        return None;
    }
    let from = &program.bufs[buf];
    let shape = numbers(&from.shape)?;
    // For each axis of the result, that of the array at which it is the index and nothing else.
    let alone: Vec<Option<usize>> = (c.axes.iter().enumerate())
        .map(|(k, v)| alone(*v, &picks).filter(|&d| shape[d] == extents[k]))
        .collect();
    let (rank, depth) = (extents.len(), shape.len());
    let last = (0..rank.min(depth))
        .take_while(|&k| alone[rank - 1 - k] == Some(depth - 1 - k))
        .count();
    let (channels, from_channels) = widest(&alone[..rank - last], &extents, depth - last);
    let size = |of: Range<usize>, n: &[i64]| n[of].iter().product::<i64>();
    let shared = size(channels.clone(), &extents) * size(rank - last..rank, &extents);
    let all = extents.iter().product::<i64>();
    let entries = all / shared.max(1) * times * picks.len() as i64;
    // Elements that lie side by side in the array and far apart in the result are only moved: each would
    // be read from a line of its own, for one channel after the other.
    let turned = last == 0 && from_channels.end == depth && channels.end < rank;
    let moved = turned && picks.len() as i64 * times == 1;
    let pays = shared >= SHARE && all >= FEW && entries <= MOST && entries <= all * times && !moved;
    let fine = |p: &Pick| {
        let parts = p.conditions.iter().chain(&p.index).chain([&p.weight]);
        parts.into_iter().all(|e| harmless(program, c, e))
    };
    (pays && picks.iter().all(fine)).then_some(Gathered {
        buf,
        channels,
        from_channels,
        inner: last,
        picks,
        dtype,
    })
}

/// The axis of the array at which a variable is the whole index of every element, if it is used nowhere else.
fn alone(v: Var, picks: &[Pick]) -> Option<usize> {
    let uses = |e: &Ex| !axes_of(e, &[v]).is_empty();
    let first = picks.first()?;
    let at = (first.index.iter()).position(|e| matches!(e.kind(), ExKind::Var(x) if *x == v))?;
    let fits = |p: &Pick| {
        let own = matches!(p.index[at].kind(), ExKind::Var(x) if *x == v);
        let others = p.index.iter().enumerate().filter(|(d, _)| *d != at);
        let mut others = others.map(|o| o.1).chain(&p.conditions).chain([&p.weight]);
        own && !others.any(uses)
    };
    picks.iter().all(fits).then_some(at)
}

/// The run of axes with the most elements that lie alike in result and array, before the axis `end` of the
/// latter; empty at the beginning where there is none.
fn widest(alone: &[Option<usize>], extents: &[i64], end: usize) -> (Range<usize>, Range<usize>) {
    let mut best: (i64, Range<usize>, Range<usize>) = (1, 0..0, 0..0);
    for first in 0..alone.len() {
        let Some(from) = alone[first].filter(|&d| d < end) else {
            continue;
        };
        let mut n = 1;
        for k in first..alone.len() {
            let at = from + (k - first);
            if alone[k] != Some(at) || at >= end {
                break;
            }
            n *= extents[k];
            if n > best.0 {
                best = (n, first..k + 1, from..at + 1);
            }
        }
    }
    (best.1, best.2)
}

/// Returns whether an index is more than a sum of multiples of axes.
fn is_computed(index: &Ex) -> bool {
    let mut found = false;
    visit_expr(index, |e| {
        found |= match e.kind() {
            ExKind::Binary(op, ..) => !matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul),
            kind => !matches!(kind, ExKind::Int(_) | ExKind::Var(_)),
        }
    });
    found
}

/// What is said of a part of the sum on the way to it.
#[derive(Clone)]
struct Factor {
    /// Conditions, each with what 0 is multiplied by where it does not hold.
    conditions: Vec<(Ex, Ex)>,
    weight: Ex,
}

impl Factor {
    fn one(dtype: DType) -> Self {
        Self {
            conditions: Vec::new(),
            weight: Ex::float(dtype, 1.0),
        }
    }
}

/// A sum while its parts are collected.
struct Linear {
    dtype: DType,
    buf: Option<Buf>,
    picks: Vec<Pick>,
}

impl Linear {
    /// Whether floats of a type are summed as such.
    fn suits(&self, dtype: DType) -> bool {
        match self.dtype {
            DType::F64 => dtype == DType::F64,
            _ => matches!(dtype, DType::F32 | DType::F16 | DType::BF16),
        }
    }

    /// Returns whether an expression is a number that an element may be multiplied by.
    fn is_number(&self, e: &Ex) -> bool {
        let mut number = true;
        visit_expr(e, |x| number &= self.array(x).is_none());
        number
    }

    /// The array of an element at computed indices. What is read at plain ones is a number.
    fn array(&self, e: &Ex) -> Option<Buf> {
        let ExKind::Load(buf, index) = e.kind() else {
            return None;
        };
        let known = self.buf == Some(*buf);
        (known || index.iter().any(is_computed)).then_some(*buf)
    }

    /// Returns whether elements of a type are converted to what is summed before anything else.
    fn widens(&self, dtype: DType) -> bool {
        let whole = matches!(
            dtype,
            DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32
        );
        whole || self.dtype == DType::F64 && dtype == DType::F32
    }

    /// Adds an element times a factor.
    fn pick(&mut self, e: &Ex, by: &Factor) -> Option<()> {
        let buf = self.array(e)?;
        let ExKind::Load(_, index) = e.kind() else {
            return None;
        };
        if self.buf.is_some_and(|b| b != buf) {
            return None;
        }
        self.buf = Some(buf);
        let mut weight = by.weight.clone();
        for (cond, outside) in by.conditions.iter().rev() {
            if outside.addr() != weight.addr() {
                weight = Ex::where_(cond, &weight, outside);
            }
        }
        self.picks.push(Pick {
            conditions: by.conditions.iter().map(|c| c.0.clone()).collect(),
            index: index.clone(),
            weight,
        });
        (self.picks.len() <= PICKS).then_some(())
    }

    /// Adds an expression times a factor; `None` where that is no sum of elements.
    fn add(&mut self, e: &Ex, by: &Factor, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        if !self.suits(e.dtype()) || self.picks.len() > PICKS {
            return None;
        }
        let zero = |e: &Ex| e.as_float() == Some(0.0);
        match e.kind() {
            _ if zero(e) => Some(()),
            ExKind::Load(..) => self.pick(e, by),
            ExKind::Cast(x) if self.widens(x.dtype()) && matches!(x.kind(), ExKind::Load(..)) => {
                self.pick(x, by)
            }
            ExKind::Cast(x) => self.add(x, by, depth),
            ExKind::Unary(UnOp::Neg, x) => {
                let weight = by.weight.unary(UnOp::Neg);
                self.add(
                    x,
                    &Factor {
                        weight,
                        ..by.clone()
                    },
                    depth,
                )
            }
            ExKind::Binary(BinOp::Add, a, b) => {
                self.add(a, by, depth)?;
                self.add(b, by, depth)
            }
            ExKind::Binary(BinOp::Sub, a, b) => {
                self.add(a, by, depth)?;
                let weight = by.weight.unary(UnOp::Neg);
                self.add(
                    b,
                    &Factor {
                        weight,
                        ..by.clone()
                    },
                    depth,
                )
            }
            ExKind::Binary(op @ (BinOp::Mul | BinOp::Div), a, b) => {
                let (x, number) = match (self.is_number(a), self.is_number(b)) {
                    (false, true) => (a, b),
                    (true, false) if *op == BinOp::Mul => (b, a),
                    _ => return None,
                };
                let number = number.cast(self.dtype);
                let weight = by.weight.binary(*op, &number);
                self.add(
                    x,
                    &Factor {
                        weight,
                        ..by.clone()
                    },
                    depth,
                )
            }
            ExKind::Select(c, a, b) if self.is_number(c) && (zero(a) || zero(b)) => {
                let mut by = by.clone();
                let holds = zero(b);
                let (weight, mut parts) = (by.weight.clone(), vec![c]);
                while let Some(part) = parts.pop() {
                    let cond = match part.kind() {
                        ExKind::Binary(BinOp::And, a, b) if holds => {
                            parts.extend([a, b]);
                            continue;
                        }
                        ExKind::Int(1) if holds => continue,
                        _ if holds => part.clone(),
                        _ => part.unary(UnOp::Not),
                    };
                    by.conditions.push((cond, weight.clone()));
                }
                self.add(if holds { a } else { b }, &by, depth)
            }
            _ => None,
        }
    }
}

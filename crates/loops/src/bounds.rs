//! Bounds of index expressions by interval arithmetic.

use relax_tensor::DType;
use rustc_hash::FxHashMap;

use crate::{BinOp, Ex, ExKind, UnOp, Var};

/// Inclusive bounds of an integer expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// Least value.
    pub lo: i64,
    /// Greatest value.
    pub hi: i64,
    /// Whether no `int64` operation inside can have wrapped.
    pub exact: bool,
}

impl Interval {
    /// Nothing is known.
    pub const ALL: Interval = Interval {
        lo: i64::MIN,
        hi: i64::MAX,
        exact: false,
    };
    /// The interval of a single value.
    pub fn point(v: i64) -> Interval {
        Interval {
            lo: v,
            hi: v,
            exact: true,
        }
    }
    fn of(lo: i128, hi: i128, exact: bool) -> Interval {
        match (i64::try_from(lo), i64::try_from(hi)) {
            (Ok(lo), Ok(hi)) => Interval { lo, hi, exact },
            // A wrapped value can be anything.
            _ => Interval::ALL,
        }
    }
    /// Returns the smallest interval that contains both.
    pub fn union(self, other: Interval) -> Interval {
        Interval {
            lo: self.lo.min(other.lo),
            hi: self.hi.max(other.hi),
            exact: self.exact && other.exact,
        }
    }
    /// Returns the result of a comparison, where the bounds decide it.
    pub fn compare(self, op: BinOp, other: Interval) -> Option<bool> {
        let (yes, no) = match op {
            BinOp::Lt => (self.hi < other.lo, self.lo >= other.hi),
            BinOp::Le => (self.hi <= other.lo, self.lo > other.hi),
            BinOp::Gt => (self.lo > other.hi, self.hi <= other.lo),
            BinOp::Ge => (self.lo >= other.hi, self.hi < other.lo),
            BinOp::Eq | BinOp::Ne => {
                let same = self.lo == self.hi && self.lo == other.lo && other.lo == other.hi;
                let apart = self.hi < other.lo || self.lo > other.hi;
                if op == BinOp::Eq {
                    (same, apart)
                } else {
                    (apart, same)
                }
            }
            _ => return None,
        };
        match (yes, no) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

/// Returns the bounds of `e`, given those of its variables.
pub fn interval(e: &Ex, range: &dyn Fn(Var) -> Option<(i64, i64)>) -> Interval {
    interval_memo(e, range, &mut FxHashMap::default())
}

/// Like [`interval`]; `memo` is keyed by address, so its expressions must stay alive.
pub(crate) fn interval_memo(
    root: &Ex,
    range: &dyn Fn(Var) -> Option<(i64, i64)>,
    memo: &mut FxHashMap<usize, Interval>,
) -> Interval {
    let mut work = vec![(root, false)];
    while let Some((e, ready)) = work.pop() {
        if memo.contains_key(&e.addr()) {
            continue;
        }
        let children = e.children();
        let skip = matches!(e.kind(), ExKind::Load(..));
        if !ready && !children.is_empty() && !skip {
            work.push((e, true));
            work.extend(children.into_iter().map(|c| (c, false)));
            continue;
        }
        let result = of_node(e, range, memo);
        memo.insert(e.addr(), result);
    }
    memo[&root.addr()]
}

fn of_node(
    e: &Ex,
    range: &dyn Fn(Var) -> Option<(i64, i64)>,
    memo: &FxHashMap<usize, Interval>,
) -> Interval {
    let at = |e: &Ex| memo[&e.addr()];
    let whole = match e.dtype().int_range() {
        Some((lo, hi)) => Interval::of(lo, hi, true),
        None => Interval::ALL,
    };
    let result = match e.kind() {
        ExKind::Int(v) if e.dtype() != DType::U64 => Interval::point(*v),
        ExKind::Var(v) => match range(*v) {
            Some((lo, hi)) => Interval {
                lo,
                hi,
                exact: true,
            },
            None => Interval {
                exact: true,
                ..whole
            },
        },
        ExKind::Load(..) => Interval {
            exact: true,
            ..whole
        },
        ExKind::Select(_, a, b) => at(a).union(at(b)),
        ExKind::Cast(a) if a.dtype().is_integral() || a.dtype().is_bool() => {
            let a = at(a);
            if a.lo >= whole.lo && a.hi <= whole.hi && e.dtype() != DType::U64 {
                a
            } else {
                whole
            }
        }
        ExKind::Unary(UnOp::Neg, a) if e.dtype() == DType::I64 => {
            let a = at(a);
            Interval::of(-i128::from(a.hi), -i128::from(a.lo), a.exact)
        }
        ExKind::Binary(op, a, b) if a.dtype() == DType::I64 || a.dtype() == DType::I32 => {
            let result = of_binary(*op, at(a), at(b), b.as_int());
            if result.lo < whole.lo || result.hi > whole.hi {
                whole
            } else {
                result
            }
        }
        _ => whole,
    };
    if e.dtype().is_bool() && result == Interval::ALL {
        return Interval {
            lo: 0,
            hi: 1,
            exact: true,
        };
    }
    result
}

fn of_binary(op: BinOp, a: Interval, b: Interval, constant: Option<i64>) -> Interval {
    let exact = a.exact && b.exact;
    let wide = |v: i64| i128::from(v);
    match op {
        BinOp::Add => Interval::of(wide(a.lo) + wide(b.lo), wide(a.hi) + wide(b.hi), exact),
        BinOp::Sub => Interval::of(wide(a.lo) - wide(b.hi), wide(a.hi) - wide(b.lo), exact),
        BinOp::Mul => {
            let ends = [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)]
                .map(|(x, y)| wide(x) * wide(y));
            let lo = ends.iter().copied().fold(ends[0], i128::min);
            let hi = ends.iter().copied().fold(ends[0], i128::max);
            Interval::of(lo, hi, exact)
        }
        BinOp::FloorDiv => match constant {
            Some(c) if c > 0 => Interval {
                lo: a.lo.div_euclid(c),
                hi: a.hi.div_euclid(c),
                exact,
            },
            // A positive divisor of unknown size only moves values towards 0 (or -1).
            None if b.lo > 0 => Interval {
                lo: a.lo.min(if a.lo < 0 { -1 } else { 0 }),
                hi: a.hi.max(if a.hi < 0 { -1 } else { 0 }),
                exact,
            },
            _ => Interval::ALL,
        },
        // The remainder by zero is 0, which is in range too.
        BinOp::FloorMod if b.lo >= 0 => Interval {
            lo: 0,
            hi: if a.lo >= 0 {
                a.hi.min((b.hi - 1).max(0))
            } else {
                (b.hi - 1).max(0)
            },
            exact,
        },
        BinOp::Min => Interval {
            lo: a.lo.min(b.lo),
            hi: a.hi.min(b.hi),
            exact,
        },
        BinOp::Max => Interval {
            lo: a.lo.max(b.lo),
            hi: a.hi.max(b.hi),
            exact,
        },
        BinOp::And if a.lo >= 0 && b.lo >= 0 => Interval {
            lo: 0,
            hi: a.hi.min(b.hi),
            exact,
        },
        _ if op.is_comparison() => Interval {
            lo: 0,
            hi: 1,
            exact: true,
        },
        _ => Interval::ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_the_operations() {
        let i = Ex::var(Var(0), DType::I64);
        let range = |_| Some((0, 9));
        let of = |e: &Ex| {
            let r = interval(e, &range);
            (r.lo, r.hi)
        };
        assert_eq!(of(&(&i * 3 - 4)), (-4, 23));
        assert_eq!(of(&(&i - 4).floor_div(3)), (-2, 1));
        assert_eq!(of(&(&i - 4).floor_mod(3)), (0, 2));
        assert_eq!(of(&(&i - 4).max(0).min(3)), (0, 3));
        assert_eq!(of(&(&i + i64::MAX)), (i64::MIN, i64::MAX));
    }
}

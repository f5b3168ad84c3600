//! Rewriting of scalar expressions: maps over shared expressions, substitution, simplification.
//!
//! Everything here works on the shared graph: a shared node is rewritten once, and work lists
//! replace recursion.

use relax_tensor::DType;
use rustc_hash::FxHashMap;

use crate::{BinOp, Ex, ExKind, Stmt, Var};

/// Rebuilds `root` bottom-up. `leave` visits every node after its children were rewritten, and
/// returns its replacement (`None` keeps it).
pub fn map_expr(root: &Ex, mut leave: impl FnMut(&Ex) -> Option<Ex>) -> Ex {
    // Nodes with several parents are rewritten once; results are on a stack in the order in which
    // their parents take them.
    let mut done: FxHashMap<usize, Ex> = FxHashMap::default();
    let mut made: Vec<Ex> = Vec::new();
    let mut work = vec![(root, false)];
    while let Some((e, ready)) = work.pop() {
        let shared = e.is_shared();
        if shared
            && !ready
            && let Some(known) = done.get(&e.addr())
        {
            made.push(known.clone());
            continue;
        }
        let children = e.children();
        if !ready && !children.is_empty() {
            work.push((e, true));
            work.extend(children.map(|c| (c, false)));
            continue;
        }
        // The last child was rewritten first.
        let begin = made.len() - children.len();
        let mut pairs = made[begin..].iter().rev().zip(children);
        let rebuilt = if pairs.all(|(n, c)| n.addr() == c.addr()) {
            made.truncate(begin);
            e.clone()
        } else {
            e.with_children(made.drain(begin..).rev().collect())
        };
        let result = leave(&rebuilt).unwrap_or(rebuilt);
        if shared {
            done.insert(e.addr(), result.clone());
        }
        made.push(result);
    }
    made.pop().unwrap_or_else(|| root.clone())
}

/// Substitutes expressions for variables.
pub fn substitute(root: &Ex, of: &dyn Fn(Var) -> Option<Ex>) -> Ex {
    map_expr(root, |e| match e.kind() {
        ExKind::Var(v) => of(*v),
        _ => None,
    })
}

/// Visits every node once, children before parents.
pub fn visit_expr<'e>(root: &'e Ex, mut see: impl FnMut(&'e Ex)) {
    if root.children().is_empty() {
        return see(root);
    }
    let mut seen = rustc_hash::FxHashSet::default();
    let mut work = vec![(root, false)];
    while let Some((e, ready)) = work.pop() {
        if ready {
            see(e);
        } else if !e.is_shared() || seen.insert(e.addr()) {
            let children = e.children();
            if children.is_empty() {
                see(e);
                continue;
            }
            work.push((e, true));
            work.extend(children.rev().map(|c| (c, false)));
        }
    }
}

/// Returns which of some variables an expression depends on, by their positions, in order.
pub fn axes_of(e: &Ex, axes: &[Var]) -> Vec<usize> {
    let mut found = Vec::new();
    visit_expr(e, |x| {
        if let ExKind::Var(v) = x.kind() {
            found.extend(axes.iter().position(|a| a == v));
        }
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns what `of` makes of an expression and all its parts, by their addresses. It is given a part
/// and what it made of the part's own parts; shared ones are looked at once.
pub fn fold_expr<T: Copy>(
    root: &Ex,
    mut of: impl FnMut(&Ex, &mut dyn Iterator<Item = T>) -> T,
) -> FxHashMap<usize, T> {
    let mut made: FxHashMap<usize, T> = FxHashMap::default();
    visit_expr(root, |e| {
        let own = of(e, &mut e.children().map(|c| made[&c.addr()]));
        made.insert(e.addr(), own);
    });
    made
}

/// Returns whether an expression reads elements.
pub(crate) fn has_loads(e: &Ex) -> bool {
    let mut found = false;
    visit_expr(e, |x| found |= matches!(x.kind(), ExKind::Load(..)));
    found
}

/// Visits every statement of a block, each before those of its own blocks.
pub(crate) fn visit_stmts_mut(block: &mut [Stmt], f: &mut dyn FnMut(&mut Stmt)) {
    let mut work = vec![block];
    while let Some(block) = work.pop() {
        for stmt in block {
            f(stmt);
            match stmt {
                Stmt::For { body, .. } | Stmt::While { body, .. } | Stmt::Init { body, .. } => {
                    work.push(body);
                }
                Stmt::If {
                    then, otherwise, ..
                } => work.extend([&mut then[..], otherwise]),
                Stmt::Store { .. }
                | Stmt::Let { .. }
                | Stmt::Alloc { .. }
                | Stmt::Assert { .. } => {}
            }
        }
    }
}

/// Rewrites every expression of a block in place, before those of nested blocks.
pub fn map_stmts(block: &mut [Stmt], f: &mut dyn FnMut(&Ex) -> Ex) {
    visit_stmts_mut(block, &mut |s| s.exprs_mut().for_each(|e| *e = f(e)));
}

/// Simplifies index arithmetic (`int64`) and conditions over it.
///
/// `range` gives the inclusive bounds of variables where they are known. Constants are collected at
/// the end of sums, multiples cancel in `//` and `%`, a comparison that the bounds decide becomes a
/// constant, and a `min`, `max` or select that they decide is replaced.
pub fn simplify(root: &Ex, range: &dyn Fn(Var) -> Option<(i64, i64)>) -> Ex {
    let mut bounds: FxHashMap<usize, crate::Interval> = FxHashMap::default();
    // Created nodes stay alive, so that their addresses are not reused.
    let mut alive: Vec<Ex> = Vec::new();
    map_expr(root, |e| {
        let mut e = e.clone();
        for _ in 0..4 {
            match step(&e, range, &mut bounds, &mut alive) {
                Some(next) => e = next,
                None => break,
            }
        }
        Some(e)
    })
}

fn step(
    e: &Ex,
    range: &dyn Fn(Var) -> Option<(i64, i64)>,
    bounds: &mut FxHashMap<usize, crate::Interval>,
    alive: &mut Vec<Ex>,
) -> Option<Ex> {
    let mut interval = |e: &Ex| {
        alive.push(e.clone());
        crate::bounds::interval_memo(e, range, bounds)
    };
    match e.kind() {
        ExKind::Binary(op, a, b) if a.dtype() == DType::I64 => {
            let (ia, ib) = (interval(a), interval(b));
            if let Some(v) = ia.compare(*op, ib) {
                return Some(Ex::bool(v));
            }
            match op {
                BinOp::Min if ia.hi <= ib.lo => return Some(a.clone()),
                BinOp::Min if ib.hi <= ia.lo => return Some(b.clone()),
                BinOp::Max if ia.lo >= ib.hi => return Some(a.clone()),
                BinOp::Max if ib.lo >= ia.hi => return Some(b.clone()),
                _ => {}
            }
            index_step(*op, a, b, 16, &mut interval)
        }
        ExKind::Binary(BinOp::And, a, b) if e.dtype().is_bool() => match (a.as_int(), b.as_int()) {
            (Some(0), _) | (_, Some(0)) => Some(Ex::bool(false)),
            (Some(_), _) => Some(b.clone()),
            (_, Some(_)) => Some(a.clone()),
            _ => None,
        },
        ExKind::Binary(BinOp::Or, a, b) if e.dtype().is_bool() => match (a.as_int(), b.as_int()) {
            (Some(0), _) => Some(b.clone()),
            (_, Some(0)) => Some(a.clone()),
            (Some(_), _) | (_, Some(_)) => Some(Ex::bool(true)),
            _ => None,
        },
        ExKind::Select(c, a, b) => {
            let known = c.as_int();
            match known {
                Some(0) => Some(b.clone()),
                Some(_) => Some(a.clone()),
                None if a.addr() == b.addr() => Some(a.clone()),
                None => None,
            }
        }
        _ => None,
    }
}

/// Algebra of `int64`; `fuel` bounds the number of terms of one sum that are examined.
fn index_step(
    op: BinOp,
    a: &Ex,
    b: &Ex,
    fuel: u8,
    interval: &mut dyn FnMut(&Ex) -> crate::Interval,
) -> Option<Ex> {
    let constant = b.as_int();
    match op {
        // A constant moves to the right, and constants are combined.
        BinOp::Add if a.as_int().is_some() && constant.is_none() => Some(b + a),
        BinOp::Mul if a.as_int().is_some() && constant.is_none() => Some(b * a),
        BinOp::Add | BinOp::Sub if constant.is_some() => {
            let c = constant.unwrap_or(0);
            let c = if op == BinOp::Sub {
                c.checked_neg()?
            } else {
                c
            };
            match a.kind() {
                ExKind::Binary(BinOp::Add, x, y) => Some(x + y.as_int()?.checked_add(c)?),
                _ if op == BinOp::Sub => Some(a + c),
                _ => None,
            }
        }
        BinOp::Add => match (a.kind(), b.kind()) {
            // (x + c) + y is (x + y) + c; (x // c) * c + x % c is x.
            (ExKind::Binary(BinOp::Mul, q, c), ExKind::Binary(BinOp::FloorMod, x, d))
                if c.as_int().is_some() && c.as_int() == d.as_int() && c.as_int() != Some(0) =>
            {
                match q.kind() {
                    ExKind::Binary(BinOp::FloorDiv, y, f) if f.as_int() == c.as_int() && x == y => {
                        Some(x.clone())
                    }
                    _ => None,
                }
            }
            (ExKind::Binary(BinOp::Add, x, c), ExKind::Binary(BinOp::Add, y, d))
                if c.as_int().is_some() && d.as_int().is_some() =>
            {
                Some((x + y) + (c + d))
            }
            (ExKind::Binary(BinOp::Add, x, y), _) if y.as_int().is_some() => Some((x + b) + y),
            (_, ExKind::Binary(BinOp::Add, x, y)) if y.as_int().is_some() => Some((a + x) + y),
            _ => None,
        },
        BinOp::Sub if a == b => Some(Ex::idx(0)),
        BinOp::Sub => match a.kind() {
            ExKind::Binary(BinOp::Add, x, y) if y == b => Some(x.clone()),
            ExKind::Binary(BinOp::Add, x, y) if x == b => Some(y.clone()),
            _ => None,
        },
        BinOp::Mul => match a.kind() {
            ExKind::Binary(BinOp::Mul, x, y) => Some(x * y.as_int()?.checked_mul(constant?)?),
            _ => None,
        },
        BinOp::FloorDiv | BinOp::FloorMod => {
            let c = constant.filter(|c| *c > 0)?;
            let ia = interval(a);
            if ia.lo >= 0 && ia.hi < c {
                return Some(if op == BinOp::FloorDiv {
                    Ex::idx(0)
                } else {
                    a.clone()
                });
            }
            // Sums and products must not have wrapped for multiples to cancel.
            if !ia.exact {
                return None;
            }
            if op == BinOp::FloorDiv
                && let ExKind::Binary(BinOp::FloorDiv, x, d) = a.kind()
                && let Some(d) = d.as_int().filter(|d| *d > 0)
            {
                return Some(x.floor_div(d.checked_mul(c)?));
            }
            if let ExKind::Binary(BinOp::Mul, x, k) = a.kind()
                && let Some(k) = k.as_int()
            {
                return match op {
                    BinOp::FloorDiv if k % c == 0 => Some(x * (k / c)),
                    BinOp::FloorDiv if k > 0 && c % k == 0 => Some(x.floor_div(c / k)),
                    BinOp::FloorMod if k % c == 0 => Some(Ex::idx(0)),
                    _ => None,
                };
            }
            let ExKind::Binary(BinOp::Add, x, y) = a.kind() else {
                return None;
            };
            let multiple = |e: &Ex| match e.kind() {
                ExKind::Int(v) if v % c == 0 => Some(Ex::idx(v / c)),
                ExKind::Binary(BinOp::Mul, z, k) => {
                    let k = k.as_int()?;
                    (k % c == 0).then(|| z * (k / c))
                }
                _ => None,
            };
            let (whole, rest) = match (multiple(x), multiple(y)) {
                (Some(q), _) => (q, y),
                (None, Some(q)) => (q, x),
                _ => return None,
            };
            let simpler = match fuel {
                0 => None,
                _ => index_step(op, rest, b, fuel - 1, interval),
            };
            let part = simpler.unwrap_or_else(|| rest.binary(op, b));
            Some(if op == BinOp::FloorDiv {
                whole + part
            } else {
                part
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v(k: u32) -> Ex {
        Ex::var(Var(k), DType::I64)
    }

    #[test]
    fn index_arithmetic_simplifies() {
        let range = |v: Var| Some((0, [3, 15][v.0 as usize]));
        let s = |e: &Ex| simplify(e, &range);
        let (i, j) = (v(0), v(1));
        let flat = &i * 16 + &j;
        assert_eq!(s(&flat.floor_div(16)), i);
        assert_eq!(s(&flat.floor_mod(16)), j);
        assert_eq!(s(&(j.floor_div(4) * 4 + j.floor_mod(4))), j);
        assert_eq!(s(&((&i + 3) - 3)), i);
        assert_eq!(s(&i.lt(4)).as_int(), Some(1));
        assert_eq!(s(&i.min(9)), i);
        assert_eq!(s(&Ex::where_(&j.ge(16), &i, &j)), j);
        assert_eq!(s(&((&i + 1) + (&j + 2))), (&i + &j) + 3);
    }

    #[test]
    fn shared_parts_are_rewritten_once() {
        let deep = (0..200).fold(v(0), |e, _| &e + &e);
        let other = substitute(&deep, &|_| Some(v(1)));
        assert_ne!(deep, other);
        assert_eq!(substitute(&other, &|_| Some(v(0))), deep);
    }

    fn index() -> impl Strategy<Value = Ex> {
        let leaf = prop_oneof![Just(v(0)), Just(v(1)), (-9i64..20).prop_map(Ex::idx)];
        leaf.prop_recursive(5, 30, 3, |e| {
            prop_oneof![
                (e.clone(), e.clone()).prop_map(|(a, b)| a + b),
                (e.clone(), e.clone()).prop_map(|(a, b)| a - b),
                (e.clone(), -3i64..17).prop_map(|(a, k)| a * k),
                (
                    e.clone(),
                    prop_oneof![Just(2i64), Just(4), Just(16), Just(3)]
                )
                    .prop_map(|(a, k)| a.floor_div(k)),
                (
                    e.clone(),
                    prop_oneof![Just(2i64), Just(4), Just(16), Just(3)]
                )
                    .prop_map(|(a, k)| a.floor_mod(k)),
                (e.clone(), e.clone()).prop_map(|(a, b)| a.min(&b)),
                (e.clone(), e.clone()).prop_map(|(a, b)| a.max(&b)),
                (e.clone(), e.clone(), e.clone()).prop_map(|(a, b, c)| Ex::where_(
                    &(a.lt(&b) & b.ge(0)),
                    &b,
                    &c
                )),
            ]
        })
    }

    proptest! {
        #[test]
        fn simplification_keeps_values(e in index(), i in 0i64..4, j in 0i64..16) {
            let range = |v: Var| Some((0, [3, 15][v.0 as usize]));
            let at = |e: &Ex| substitute(e, &|v| Some(Ex::idx([i, j][v.0 as usize]))).as_int();
            let value = at(&e);
            prop_assert!(value.is_some());
            prop_assert_eq!(at(&simplify(&e, &range)), value);
            let bounds = crate::interval(&e, &range);
            let value = value.unwrap_or(0);
            prop_assert!(bounds.lo <= value && value <= bounds.hi);
        }
    }
}

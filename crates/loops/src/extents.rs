//! Facts about extents: which are equal, and what they imply for indices.
//!
//! An operator's computation is written for unknown extents: where it broadcasts it reads
//! `x[select(n == 1, 0, i)]`, and its result has `select(n == 1, m, n)` rows. Where types say that
//! `n` and `m` are equal, or where `i` runs over exactly `n`, the selects fold, and the matchers
//! that look for plain reads (kernels' epilogues, attention, vector expressions) find them.

use rustc_hash::FxHashMap;
use std::hash::Hash;

use crate::{BinOp, Ex, ExKind, Program, Stage, Var, map_expr, map_stmts, simplify, visit_expr};

/// Merges the dimension variables of equal extents, and folds the selects that become trivial.
/// `known` identifies the extent of each axis of each input; extents with equal keys are equal in
/// every call.
pub fn share<K: Eq + Hash>(program: &mut Program, known: &[Vec<Option<K>>]) {
    let mut first: FxHashMap<&K, Var> = FxHashMap::default();
    let mut same: FxHashMap<Var, Var> = FxHashMap::default();
    for (&buf, keys) in program.inputs.iter().zip(known) {
        for (e, key) in program.bufs[buf].shape.iter().zip(keys) {
            if let (ExKind::Var(v), Some(key)) = (e.kind(), key) {
                let one = *first.entry(key).or_insert(*v);
                if one != *v {
                    same.insert(*v, one);
                }
            }
        }
    }
    program.dims.retain(|v| !same.contains_key(v));
    settle(program, &same);
}

/// Folds selects between equal operands, after substituting variables.
fn settle(program: &mut Program, same: &FxHashMap<Var, Var>) {
    let plain = |e: &Ex| rewrite(e, same, &FxHashMap::default());
    let bufs: Vec<_> = program.bufs.ids().collect();
    for &b in &bufs {
        let shape = program.bufs[b].shape.iter().map(plain).collect();
        program.bufs[b].shape = shape;
    }
    for stage in &mut program.stages {
        match stage {
            Stage::Compute(c) => {
                let shape = &program.bufs[c.out].shape;
                let mut extents: FxHashMap<Var, Ex> = (c.axes.iter().copied())
                    .zip(shape.iter().cloned())
                    .collect();
                for (v, extent) in c.reduce.iter_mut().flat_map(|r| &mut r.axes) {
                    *extent = plain(extent);
                    extents.insert(*v, extent.clone());
                }
                c.value = rewrite(&c.value, same, &extents);
            }
            Stage::Nest(body) => map_stmts(body, &mut |e| plain(e)),
        }
    }
    for access in &mut program.accesses {
        access.index = access.index.iter().map(plain).collect();
    }
}

/// Returns the number of elements of a shape, where all extents are known and it fits 64 bits.
///
/// ```
/// use relax_loops::{Ex, extents::elements};
/// assert_eq!(elements(&[Ex::idx(2), Ex::idx(3)]), Some(6));
/// ```
pub fn elements<'e>(shape: impl IntoIterator<Item = &'e Ex>) -> Option<i64> {
    (shape.into_iter()).try_fold(1i64, |n, e| n.checked_mul(e.as_int()?))
}

/// Returns the extents as numbers, where all are known.
///
/// ```
/// use relax_loops::{Ex, extents::numbers};
/// assert_eq!(numbers(&[Ex::idx(2), Ex::idx(3)]), Some(vec![2, 3]));
/// ```
pub fn numbers<'e>(shape: impl IntoIterator<Item = &'e Ex>) -> Option<Vec<i64>> {
    shape.into_iter().map(Ex::as_int).collect()
}

/// Simplifies quotients and remainders of indices by the axes' extents: `(i * 512 + j) // 512` is
/// `i` where `j` runs over 512. Such indices are what remains of a reshape that was fused into its
/// producer.
pub fn simplify_indices(program: &mut Program) {
    for stage in &mut program.stages {
        let Stage::Compute(c) = stage else { continue };
        let mut divides = false;
        visit_expr(&c.value, |e| {
            divides |= matches!(
                e.kind(),
                ExKind::Binary(BinOp::FloorDiv | BinOp::FloorMod, ..)
            );
        });
        if !divides {
            continue;
        }
        let own = c.axes.iter().zip(&program.bufs[c.out].shape);
        let reduced = (c.reduce.iter()).flat_map(|r| r.axes.iter().map(|(v, e)| (v, e)));
        let ranges: FxHashMap<Var, (i64, i64)> = own
            .chain(reduced)
            .filter_map(|(v, extent)| Some((*v, (0, extent.as_int().filter(|n| *n > 0)? - 1))))
            .collect();
        c.value = simplify(&c.value, &|v| ranges.get(&v).copied());
    }
}

/// Rewrites an expression; `extents` are those of the variables that run over a whole axis.
fn rewrite(e: &Ex, same: &FxHashMap<Var, Var>, extents: &FxHashMap<Var, Ex>) -> Ex {
    map_expr(e, |x| match x.kind() {
        ExKind::Var(v) => same.get(v).map(|v| Ex::var(*v, x.dtype())),
        ExKind::Select(_, a, b) if a == b => Some(a.clone()),
        // In an axis of one element, index 0 is the only one.
        ExKind::Select(cond, a, b) if a.as_int() == Some(0) => {
            let (ExKind::Binary(BinOp::Eq, extent, one), ExKind::Var(v)) = (cond.kind(), b.kind())
            else {
                return None;
            };
            let own = one.as_int() == Some(1) && extents.get(v) == Some(extent);
            own.then(|| b.clone())
        }
        _ => None,
    })
}

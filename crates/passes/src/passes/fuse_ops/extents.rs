//! Extents inside a group that its boundary does not determine.
//!
//! A kernel only knows the extents of its arguments and of its result. If an operator in between
//! creates an axis by an attribute (`reshape(%x, shape(h, w))` of `h * w` elements) whose extent
//! does not occur at the boundary, the group must end there, so that the extent is one of its
//! result.

use relax_infer::Typing;
use relax_ir::{AttrValue, Expr, ExprId, Module, TypeId};
use relax_sym::Dim;
use rustc_hash::{FxHashMap, FxHashSet};

use super::groups::{Graph, Groups};

/// Returns the nodes whose extents their groups cannot know.
pub(super) fn hidden(
    m: &Module,
    typing: &Typing,
    order: &[ExprId],
    graph: &Graph,
    groups: &mut Groups,
) -> Vec<ExprId> {
    let mut border: FxHashMap<usize, FxHashSet<Dim>> = FxHashMap::default();
    // Groups in which an attribute determines an extent.
    let mut makers: FxHashSet<usize> = FxHashSet::default();
    let mut inner = Vec::new();
    for &e in order {
        let Expr::Call { args, attrs, .. } = m.exprs[e] else {
            continue;
        };
        let node = graph.of(e);
        let root = groups.root(node);
        for &arg in m.list(args) {
            if groups.root(graph.of(arg)) != root {
                border
                    .entry(root)
                    .or_default()
                    .extend(symbolic(m, typing.exprs[arg]));
            }
        }
        if m.attrs(attrs).iter().any(|(_, v)| names_extents(v)) {
            makers.insert(root);
        }
        if node == root {
            border
                .entry(root)
                .or_default()
                .extend(symbolic(m, typing.exprs[e]));
        } else {
            inner.push((e, root));
        }
    }
    let none = FxHashSet::default();
    let known = |root: &usize, d: &Dim| {
        let known = border.get(root).unwrap_or(&none);
        known.contains(d)
            || d.free_vars()
                .into_iter()
                .all(|v| known.contains(&Dim::var(v)))
    };
    // The offsets of elements do not depend on the first extent.
    let placing = |e: ExprId| {
        let all = relax_programs::dims(m, typing.exprs[e]).flatten();
        all.flat_map(|dims| dims.iter().skip(1)).filter(|d| open(d))
    };
    inner.retain(|(e, root)| makers.contains(root) && placing(*e).any(|d| !known(root, d)));
    inner.into_iter().map(|(e, _)| e).collect()
}

/// Returns whether an attribute contains symbolic extents.
fn names_extents(v: &AttrValue) -> bool {
    let one = |v: &AttrValue| matches!(v, AttrValue::Dim(d) if d.as_const().is_none());
    one(v) || v.as_array().is_some_and(|all| all.iter().any(one))
}

/// Returns the symbolic extents of a value's tensors, as far as they are known.
fn symbolic(m: &Module, ty: TypeId) -> impl Iterator<Item = Dim> {
    let all = relax_programs::dims(m, ty).flatten().flatten();
    all.filter(|d| open(d)).cloned()
}

fn open(d: &Dim) -> bool {
    d.is_known() && d.as_const().is_none()
}

//! `combine-parallel-conv2d`, `combine-parallel-dense` and `combine-parallel-batch-matmul`:
//! products of the same data with several weights become one product with all weights, and
//! operations that follow each of them alike (a bias, `relu`) are done once on the combined result.
//!
//! A *branch* is a product and the element-wise calls after it, as long as each has one user.
//! Branches whose products can be combined are a *group*.
//!
//! Invariant: a group is combined only where all branches are in one scope and none depends on
//! another, so nothing is used before it is defined.

mod batch_matmul;
mod conv2d;
mod dense;

use indexmap::IndexMap;
use relax_base::{Diagnostics, Span};
use relax_ir::{AttrValue, Expr, ExprId, IdSet, Memo, Scopes};
use relax_ops::Fusion;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::edit::{Edit, OpCall};
use crate::{Analysis, Contract, OptionDef, OptionType, PassCx, PassDef};

const MIN_BRANCHES: OptionDef = OptionDef {
    name: "min-branches",
    ty: OptionType::Int,
    default: "3",
    doc: "the least number of products that are combined",
};

/// The passes.
pub(crate) static PASSES: &[PassDef] = &[
    PassDef {
        name: "combine-parallel-conv2d",
        doc: "Combines 2-D convolutions of the same data into one.",
        options: &[MIN_BRANCHES],
        contract: Contract::TYPED
            .reorders()
            .each_function()
            .preserves(&[Analysis::Effects]),
        run: |cx| run(cx, &conv2d::Conv2d),
    },
    PassDef {
        name: "combine-parallel-dense",
        doc: "Combines dense products of the same data into one.",
        options: &[
            MIN_BRANCHES,
            OptionDef {
                name: "batch",
                ty: OptionType::Bool,
                default: "true",
                doc: "whether into a batch_matmul of equally large weights rather than a wider dense",
            },
        ],
        contract: Contract::TYPED
            .reorders()
            .each_function()
            .preserves(&[Analysis::Effects]),
        run: |cx| match cx.options.flag("batch") {
            true => run(cx, &dense::ToBatch),
            false => run(cx, &dense::ToDense),
        },
    },
    PassDef {
        name: "combine-parallel-batch-matmul",
        doc: "Combines batched matrix products of the same data into one.",
        options: &[MIN_BRANCHES],
        contract: Contract::TYPED
            .reorders()
            .each_function()
            .preserves(&[Analysis::Effects]),
        run: |cx| run(cx, &batch_matmul::BatchMatmul),
    },
];

/// The specifics of a kind of product.
trait Kind {
    /// The operator.
    fn op(&self) -> &'static str;
    /// Returns whether two products of the same data can be combined.
    fn compatible(&self, e: &Edit<'_>, a: &OpCall, b: &OpCall) -> bool;
    /// Creates the combined product.
    fn product(&self, e: &mut Edit<'_>, products: &[OpCall], span: Span) -> Option<ExprId>;
    /// Returns the axis along which the branches' results are concatenated in the combined result;
    /// `None` for a new first axis.
    fn axis(&self, e: &Edit<'_>, product: &OpCall, rank: usize) -> Option<Option<usize>>;
    /// Returns the attribute value for an operand's axis that runs along the combined one.
    fn operand_axis(&self, axis: usize) -> i64 {
        axis as i64
    }
}

/// A product and the calls that follow it, in order.
type Branch = Vec<ExprId>;

fn run(cx: &mut PassCx<'_>, kind: &dyn Kind) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let least = usize::try_from(cx.options.int("min-branches"))
        .unwrap_or(usize::MAX)
        .max(2);
    let mut edit = Edit::new(cx.module, &typing);
    let mut count = 0;
    for (global, body) in edit.m.global_bodies() {
        let order = edit.m.post_order([body]);
        let mut replaced = FxHashMap::default();
        let groups = groups(&edit, &order, kind);
        let groups: Vec<_> = groups.into_iter().filter(|g| g.len() >= least).collect();
        if groups.is_empty() {
            continue;
        }
        let func = edit.m.global_func(global).expect("it has a body");
        let scopes = cx.analyses.scopes(edit.m, func);
        for (number, group) in groups.iter().enumerate() {
            if in_one_scope(&edit, &scopes, group)
                && let Some(results) = combine(&mut edit, kind, group)
            {
                for (from, to) in results {
                    replaced.insert(from, (to, number));
                }
            }
        }
        let new = loop {
            match substitute(&mut edit, body, &replaced) {
                Ok(new) => break new,
                // The branches of this group depend on each other: leave it unchanged.
                Err(group) => replaced.retain(|_, (_, g)| *g != group),
            }
        };
        let mut combined: Vec<usize> = replaced.values().map(|r| r.1).collect();
        combined.sort_unstable();
        combined.dedup();
        count += combined.len() as u64;
        edit.m.set_global_body(global, new);
    }
    cx.count("groups combined", count);
    Ok(())
}

/// Returns the groups of branches, in order of their first products.
fn groups(e: &Edit<'_>, order: &[ExprId], kind: &dyn Kind) -> Vec<Vec<Branch>> {
    // The calls that use an expression as an argument. References to one variable are one
    // expression.
    let mut leaves: FxHashMap<u64, ExprId> = FxHashMap::default();
    let mut same = |arg: ExprId| match e.m.exprs[arg] {
        Expr::Var(v) => *leaves.entry(u64::from(v.0)).or_insert(arg),
        Expr::Const(c) => *leaves.entry(u64::from(c.0) | 1 << 32).or_insert(arg),
        _ => arg,
    };
    let mut users: FxHashMap<ExprId, Vec<ExprId>> = FxHashMap::default();
    let mut roots: IndexMap<ExprId, Vec<ExprId>, FxBuildHasher> = IndexMap::default();
    for &node in order {
        let Expr::Call { args, .. } = e.m.exprs[node] else {
            continue;
        };
        let args = e.m.list(args).to_vec();
        if e.call_of(node, kind.op()).is_some() {
            roots.entry(same(args[0])).or_default().push(node);
        } else {
            for arg in args {
                users.entry(arg).or_default().push(node);
            }
        }
    }
    let mut all: Vec<Vec<Branch>> = Vec::new();
    for products in roots.values() {
        let first = all.len();
        for &product in products {
            let call = e.op_call(product).expect("collected as such");
            let branch = branch(e, product, &users);
            let group = (all[first..].iter_mut()).find(|g| {
                e.op_call(g[0][0])
                    .is_some_and(|a| kind.compatible(e, &call, &a))
            });
            match group {
                Some(group) => group.push(branch),
                None => all.push(vec![branch]),
            }
        }
    }
    all
}

fn branch(e: &Edit<'_>, product: ExprId, users: &FxHashMap<ExprId, Vec<ExprId>>) -> Branch {
    let mut branch = vec![product];
    while let Some(&[user]) = branch
        .last()
        .and_then(|last| users.get(last))
        .map(Vec::as_slice)
    {
        match e.op_call(user) {
            Some(call) if call.def.fusion <= Fusion::Broadcast => branch.push(user),
            _ => break,
        }
    }
    branch
}

/// Returns whether all calls of a group, and all their operands, are evaluated in one scope or
/// outside of it.
fn in_one_scope(e: &Edit<'_>, scopes: &Scopes, group: &[Branch]) -> bool {
    let Some(here) = scopes.of(group[0][0]) else {
        return false;
    };
    group.iter().flatten().all(|&node| {
        scopes.of(node) == Some(here)
            && e.op_call(node).is_some_and(|call| {
                call.args.iter().all(|&arg| {
                    let place = match e.m.exprs[arg] {
                        Expr::Var(v) => scopes.of_var(v),
                        _ => scopes.of(arg),
                    };
                    place.is_none_or(|p| scopes.holds(p, here))
                })
            })
    })
}

/// Returns the replacement of the last combined call of each branch.
fn combine(e: &mut Edit<'_>, kind: &dyn Kind, group: &[Branch]) -> Option<Vec<(ExprId, ExprId)>> {
    let products: Vec<OpCall> = group
        .iter()
        .map(|b| e.op_call(b[0]))
        .collect::<Option<_>>()?;
    let span = e.m.span(group[0][0]);
    let rank = e.dims(group[0][0])?.len();
    let axis = kind.axis(e, &products[0], rank)?;
    let sizes: Vec<i64> = match axis {
        Some(axis) => (group.iter())
            .map(|b| e.dims(b[0])?.get(axis)?.as_const())
            .collect::<Option<_>>()?,
        None => Vec::new(),
    };
    let mut whole = kind.product(e, &products, span)?;
    let depth = group.iter().map(Vec::len).min()?;
    let mut done = 0;
    for level in 1..depth {
        match follow(e, kind, whole, group, level, axis) {
            Some(next) => whole = next,
            None => break,
        }
        done = level;
    }
    let mut results = Vec::new();
    match axis {
        None => {
            let n = AttrValue::Int(group.len() as i64);
            let given = [("indices_or_sections", n), ("axis", AttrValue::Int(0))];
            let parts = e.call("split", &[whole], &given, span);
            for (i, branch) in group.iter().enumerate() {
                let part = e.field(parts, i as u32, span);
                let part = e.call("squeeze", &[part], &[("axis", AttrValue::ints(&[0]))], span);
                results.push((branch[done], part));
            }
        }
        Some(axis) => {
            // A slice covers axes up to the last one that it cuts.
            let mut begin = 0;
            for (branch, size) in group.iter().zip(sizes) {
                let mut from = vec![0; axis];
                let mut to = vec![-1; axis];
                from.push(begin);
                to.push(size);
                begin += size;
                let given = [
                    ("begin", AttrValue::ints(&from)),
                    ("end", AttrValue::ints(&to)),
                    ("strides", AttrValue::ints(&vec![1; axis + 1])),
                    ("slice_mode", AttrValue::Str("size".into())),
                ];
                results.push((
                    branch[done],
                    e.call("strided_slice", &[whole], &given, span),
                ));
            }
        }
    }
    Some(results)
}

/// Combines the calls at one level of all branches into one call on the combined result.
fn follow(
    e: &mut Edit<'_>,
    kind: &dyn Kind,
    whole: ExprId,
    group: &[Branch],
    level: usize,
    axis: Option<usize>,
) -> Option<ExprId> {
    let rank = e.dims(group[0][0])?.len();
    let calls: Vec<OpCall> = group
        .iter()
        .map(|b| e.op_call(b[level]))
        .collect::<Option<_>>()?;
    let first = &calls[0];
    let at = first.args.iter().position(|&a| a == group[0][level - 1])?;
    let attrs = e.m.attrs(first.attrs).clone();
    for (call, branch) in calls.iter().zip(group) {
        let alike = call.op == first.op
            && call.args.len() == first.args.len()
            && *e.m.attrs(call.attrs) == attrs
            && call.args[at] == branch[level - 1]
            && e.dims(branch[level])? == e.dims(branch[level - 1])?;
        if !alike {
            return None;
        }
    }
    // Attributes may refer to axes: then only element-wise calls, and `axis` on the combined axis,
    // have the same meaning on the combined result.
    if first.args.len() > 1 && !attrs.is_empty() {
        let named = attrs.get("axis").and_then(AttrValue::as_int)?;
        let named = if named < 0 {
            named + rank as i64
        } else {
            named
        };
        if attrs.len() > 1 || axis.is_none_or(|a| a as i64 != named) || first.args.len() != 2 {
            return None;
        }
        let vectors = calls
            .iter()
            .all(|c| e.dims(c.args[1 - at]).is_some_and(|d| d.len() == 1));
        if !vectors || at != 0 {
            return None;
        }
    } else if first.args.len() == 1 && first.def.fusion != Fusion::Elementwise {
        return None;
    }
    let span = e.m.span(group[0][level]);
    let mut args = Vec::new();
    for i in 0..first.args.len() {
        if i == at {
            args.push(whole);
            continue;
        }
        let parts: Vec<ExprId> = calls.iter().map(|c| c.args[i]).collect();
        let vector = !attrs.is_empty();
        args.push(match axis {
            None => stacked(e, &parts, rank, span)?,
            Some(axis) => joined(e, kind, &parts, group, axis, vector, span)?,
        });
    }
    Some(e.recall(first, &args, attrs, span))
}

/// Stacks operands of the branches along a new first axis.
fn stacked(e: &mut Edit<'_>, parts: &[ExprId], rank: usize, span: Span) -> Option<ExprId> {
    let dims = e.dims(parts[0])?;
    for &p in parts {
        if e.dims(p)? != dims || e.dtype(p) != e.dtype(parts[0]) {
            return None;
        }
    }
    let fields: Vec<ExprId> = match dims.len() {
        1 if rank == 2 => {
            let given = [
                ("axis", AttrValue::Int(0)),
                ("num_newaxis", AttrValue::Int(1)),
            ];
            parts
                .iter()
                .map(|&p| e.call("expand_dims", &[p], &given, span))
                .collect()
        }
        n if n == rank => parts.to_vec(),
        _ => return None,
    };
    let tuple = e.tuple(&fields, span);
    Some(e.call("stack", &[tuple], &[("axis", AttrValue::Int(0))], span))
}

/// Concatenates operands of the branches along the combined axis, over which they must run.
fn joined(
    e: &mut Edit<'_>,
    kind: &dyn Kind,
    parts: &[ExprId],
    group: &[Branch],
    axis: usize,
    vector: bool,
    span: Span,
) -> Option<ExprId> {
    let rank = e.dims(group[0][0])?.len();
    let dims = e.dims(parts[0])?;
    // The axis within the operand: counted from the right, or the only one.
    let own = if vector {
        0
    } else {
        (axis + dims.len()).checked_sub(rank)?
    };
    for (&p, branch) in parts.iter().zip(group) {
        let these = e.dims(p)?;
        let whole = e.dims(branch[0])?;
        let alike = these.len() == dims.len()
            && e.dtype(p) == e.dtype(parts[0])
            && these
                .iter()
                .zip(&dims)
                .enumerate()
                .all(|(i, (a, b))| i == own || a == b && !a.is_any());
        if !alike || these.get(own)? != whole.get(axis)? {
            return None;
        }
    }
    let tuple = e.tuple(parts, span);
    let along = AttrValue::Int(kind.operand_axis(own));
    Some(e.call("concatenate", &[tuple], &[("axis", along)], span))
}

/// Returns the tuple of the products' operands at a position.
fn operands(e: &mut Edit<'_>, products: &[OpCall], i: usize, span: Span) -> ExprId {
    let all: Vec<ExprId> = products.iter().map(|p| p.args[i]).collect();
    e.tuple(&all, span)
}

/// Returns the body with replacements applied, also within replacements; or the group in whose
/// replacement an expression depends on itself.
fn substitute(
    e: &mut Edit<'_>,
    body: ExprId,
    replaced: &FxHashMap<ExprId, (ExprId, usize)>,
) -> Result<ExprId, usize> {
    let mut memo = Memo::default();
    let mut open = IdSet::new();
    let mut stack = vec![(body, false)];
    while let Some((node, expanded)) = stack.pop() {
        if memo.contains_key(&node) {
            continue;
        }
        let replacement = replaced.get(&node);
        if expanded {
            open.remove(node);
            let new = match replacement {
                Some((to, _)) => memo[to],
                None => {
                    let new = e.m.map_children(node, |c| memo[&c]);
                    if new != node {
                        e.set_ty(new, e.ty(node));
                    }
                    new
                }
            };
            memo.insert(node, new);
            continue;
        }
        if !open.insert(node) {
            // The path back to this node leads through a replacement.
            let group = stack
                .iter()
                .rev()
                .filter(|s| s.1)
                .find_map(|s| replaced.get(&s.0));
            return Err(group
                .or(replacement)
                .expect("the program itself has no cycle")
                .1);
        }
        stack.push((node, true));
        match replacement {
            Some((to, _)) => stack.push((*to, false)),
            None => {
                let first = stack.len();
                e.m.for_each_child(node, |c| stack.push((c, false)));
                stack[first..].reverse();
            }
        }
    }
    Ok(memo[&body])
}

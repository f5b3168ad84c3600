//! `choose-layouts`: selects for each function the data layout with the lowest cost.
//!
//! Three versions of a function are compared: as it is written, with channels first, and with
//! channels last, each made as `convert-layout` makes it, with reordered tensors propagated through
//! as many operators as possible. The cost is the sum over the operators that have one
//! ([`relax_ops::CostFn`]): those whose kernels prefer an order of the axes, and those that move
//! axes. What can be computed at compile time costs nothing, so constant weights are reordered for
//! free, and weights that are arguments are not. Every expression counts once, including those of
//! branches and loops.
//!
//! The first extent (the batch) may be unknown: all costs are proportional to it, so it is taken as
//! one. Where another extent is unknown, the function is left unchanged.

use relax_base::Diagnostics;
use relax_ir::{Expr, ExprId, IdSet, TypeId, VarId};
use relax_ops::{Effects, Known, Layout, Operand, Order, Priced, Relaid, Relayout, registry};
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use super::convert_layout::{Walk, Wanted};
use crate::edit::{Edit, OpCall};
use crate::util::{is_external, is_primitive, outside_primitives};
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "choose-layouts",
    doc: "Brings each function to the data layout that costs it least natively.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .reorders()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

/// The fraction of its cost that a changed function may have at most: the model is not more precise
/// than that.
const WORTH: f64 = 0.95;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut edit = Edit::new(cx.module, &typing);
    let mut layouts = None;
    let mut functions = 0;
    for (global, body) in edit.m.global_bodies() {
        let func = edit.m.global_func(global).expect("it has a body");
        let func = &edit.m.funcs[func];
        if is_primitive(func) || is_external(func) {
            continue;
        }
        let layouts = layouts.get_or_insert_with(first_and_last);
        let Some(mut cost) = Cost::of(&edit, body, layouts) else {
            continue;
        };
        let mut best = body;
        // A changed function is compared again, so that the pass is idempotent.
        loop {
            let mut better = None;
            for new in candidates(&mut edit, best, &cost, layouts) {
                let least = better
                    .as_ref()
                    .map_or(WORTH * cost.sum, |(_, c): &(ExprId, Cost)| c.sum);
                if let Some(c) = Cost::of(&edit, new, layouts).filter(|c| c.sum < least) {
                    better = Some((new, c));
                }
            }
            let Some(found) = better else { break };
            (best, cost) = found;
        }
        functions += u64::from(best != body);
        edit.m.set_global_body(global, best);
    }
    cx.count("functions brought to another layout", functions);
    Ok(())
}

/// Returns a body with channels first and with channels last, and each of these made from the
/// other: this removes the transposes that the program wrote between operators, since all of these
/// have been in another order once. Candidates that cannot be cheaper are omitted.
fn candidates(
    edit: &mut Edit<'_>,
    body: ExprId,
    cost: &Cost,
    layouts: &[Wanted; 2],
) -> Vec<ExprId> {
    let mut in_layout = |body: ExprId, wanted: &Wanted| {
        // A call that does not support the layout keeps its own, with the cost that it has there.
        let mut unheard = Diagnostics::new();
        Walk::new(edit, wanted, &mut unheard).function(body)
    };
    let mut found = Vec::new();
    for (wanted, other) in [(0, 1), (1, 0)] {
        if cost.least[wanted] < WORTH * cost.sum {
            found.push(in_layout(body, &layouts[wanted]));
            if cost.moves {
                let there = in_layout(body, &layouts[other]);
                found.push(in_layout(there, &layouts[wanted]));
            }
        }
    }
    found
}

/// Returns the layouts for all operators with a layout choice and a cost: channels first, and
/// channels last.
fn first_and_last() -> [Wanted; 2] {
    let (mut first, mut last) = (Wanted::default(), Wanted::default());
    for (op, def) in registry().iter() {
        if def.hooks.cost.is_none() || !def.has_layout_choice() {
            continue;
        }
        let own = |name: &str| {
            let attrs = def.default_attrs();
            Layout::parse(attrs.get(name)?.as_str()?)
        };
        // By default, an operator's layout has the channels after the batch.
        let Some(layout) = own("data_layout").or_else(|| own("layout")) else {
            continue;
        };
        let mut letters: Vec<char> = layout.axes().iter().map(|a| a.letter).collect();
        letters.retain(|l| *l != 'C');
        letters.push('C');
        let at_end: String = letters.into_iter().collect();
        if let Some(at_end) = Layout::parse(&at_end) {
            first.insert(op, vec![layout]);
            last.insert(op, vec![at_end]);
        }
    }
    [first, last]
}

/// The cost of a body, in nanoseconds.
struct Cost {
    sum: f64,
    /// The cost of the operators with a layout choice alone, with channels first and last: a lower
    /// bound for such bodies.
    least: [f64; 2],
    /// Whether other operators, that is, transposes, have a cost.
    moves: bool,
}

impl Cost {
    /// Returns `None` where the cost is not known, or no operator of the body has a layout choice.
    fn of(edit: &Edit<'_>, body: ExprId, layouts: &[Wanted; 2]) -> Option<Cost> {
        let order = outside_primitives(edit.m, body);
        let chooses = |e: &ExprId| {
            let def = edit.callee(*e).map(|c| c.1);
            def.is_some_and(|d| d.hooks.cost.is_some() && d.has_layout_choice())
        };
        if !order.iter().any(chooses) {
            return None;
        }
        let mut found = Found {
            edit,
            bound: FxHashMap::default(),
            constant: IdSet::new(),
        };
        for &e in &order {
            if let Expr::Let { var, value, .. } = edit.m.exprs[e] {
                found.bound.insert(var, value);
            }
        }
        let mut cost = Cost {
            sum: 0.0,
            least: [0.0; 2],
            moves: false,
        };
        for e in order {
            if found.is_constant(e) {
                found.constant.insert(e);
                continue;
            }
            let Some(call) = edit.op_call(e) else {
                continue;
            };
            let Some(price) = call.def.hooks.cost else {
                continue;
            };
            let mut operands = Vec::new();
            for &arg in &call.args {
                operands.extend(known(edit, edit.ty(arg))?);
            }
            let results = known(edit, edit.ty(e))?;
            let priced = Priced {
                attrs: edit.m.attrs(call.attrs),
                operands: &operands,
                results: &results,
            };
            let own = price(&priced)?;
            cost.sum += own;
            cost.moves |= !chooses(&e);
            if chooses(&e) {
                for (least, wanted) in cost.least.iter_mut().zip(layouts) {
                    *least += in_layout(&call, &priced, wanted).unwrap_or(own);
                }
            }
        }
        Some(cost)
    }
}

/// Returns the cost of a call in the requested layout; `None` where it does not support it.
fn in_layout(call: &OpCall, now: &Priced<'_>, wanted: &Wanted) -> Option<f64> {
    let operand = |t: &Known| Operand {
        dims: Some(t.extents.iter().map(|&d| Dim::from(d)).collect()),
        order: None,
    };
    let operands: Vec<Operand> = now.operands.iter().map(operand).collect();
    let site = Relayout {
        attrs: now.attrs,
        operands: &operands,
        results: now.results.len(),
        wanted: Some(wanted.get(&call.op)?),
    };
    let Relaid::Call {
        attrs,
        operands,
        results,
    } = call.def.layout_rule()?(&site)?
    else {
        return None;
    };
    let standing = |tensors: &[Known], orders: &[Option<Order>]| -> Vec<Known> {
        let one = |(t, order): (&Known, &Option<Order>)| match order {
            Some(order) => Known {
                extents: order.parts().iter().map(|p| t.extents[p.axis]).collect(),
                dtype: t.dtype,
            },
            None => t.clone(),
        };
        tensors.iter().zip(orders).map(one).collect()
    };
    call.def.hooks.cost?(&Priced {
        attrs: &attrs,
        operands: &standing(now.operands, &operands),
        results: &standing(now.results, &results),
    })
}

/// The state of the traversal of a body.
struct Found<'e, 'm> {
    edit: &'e Edit<'m>,
    /// The values of variables.
    bound: FxHashMap<VarId, ExprId>,
    /// The expressions that `fold-constant` turns into constants.
    constant: IdSet,
}

impl Found<'_, '_> {
    fn is_constant(&self, e: ExprId) -> bool {
        let m = &*self.edit.m;
        match m.exprs[e] {
            Expr::Const(_) => true,
            Expr::Var(v) => self
                .bound
                .get(&v)
                .is_some_and(|value| self.constant.contains(*value)),
            Expr::Tuple(fields) => m.list(fields).iter().all(|f| self.constant.contains(*f)),
            Expr::Proj { tuple, .. } => self.constant.contains(tuple),
            Expr::Call { .. } => (self.edit.op_call(e)).is_some_and(|call| self.folds(&call)),
            _ => false,
        }
    }

    fn folds(&self, call: &OpCall) -> bool {
        let computed = call.def.effects == Effects::Pure && call.def.hooks.computable();
        computed && !call.args.is_empty() && call.args.iter().all(|a| self.constant.contains(*a))
    }
}

/// Returns the tensors of a type with their extents, tuples flattened.
fn known(edit: &Edit<'_>, ty: TypeId) -> Option<Vec<Known>> {
    let tensor = |ty: TypeId| {
        let t = edit.m.types.as_tensor(ty)?;
        let extents = t.shape.dims()?.iter().enumerate();
        let extents = extents.map(|(axis, d)| d.as_const().or((axis == 0).then_some(1)));
        Some(Known {
            extents: extents.collect::<Option<_>>()?,
            dtype: t.dtype.known()?,
        })
    };
    edit.m.types.leaves(ty).into_iter().map(tensor).collect()
}

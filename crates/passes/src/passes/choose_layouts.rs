//! `choose-layouts`: each function in the data layout that costs it least.
//!
//! A function is compared as it is written, with channels first, and with channels last, each made as
//! `convert-layout` makes it: what follows an operator works on reordered tensors as long as it can. The cost is the
//! sum over the operators that have one ([`relax_ops::CostFn`]): those whose kernels prefer an order of the axes, and
//! those that move axes. What can be computed at compile time costs nothing, so constant weights change their order
//! for free, and weights that are arguments do not. All expressions count once, those of branches and loops too.
//!
//! The first extent may be unknown (the batch): all costs grow with it alike, and it counts as 1. Where another one is
//! unknown the function stays.

use relax_base::Diagnostics;
use relax_ir::{Expr, ExprId, IdSet, TypeId, VarId};
use relax_ops::{Effects, Known, Layout, Priced, Treatment, registry};
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

/// How much of its cost a function keeps at most for a change to be worth it: the model is not finer than that.
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
        let Some(mut cost) = cost(&edit, body) else {
            continue;
        };
        let layouts = layouts.get_or_insert_with(first_and_last);
        let mut best = body;
        // Once changed, a function is compared again, so that the pass has nothing to do on what it made.
        loop {
            let mut better = None;
            for new in candidates(&mut edit, best, layouts) {
                let least = better.map_or(WORTH * cost, |(_, c)| c);
                if let Some(c) = self::cost(&edit, new).filter(|c| *c < least) {
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

/// A body with channels first and with channels last, and each of these made of the other: transposes that the
/// program wrote between operators are gone then, as all of these have stood in another order once.
fn candidates(edit: &mut Edit<'_>, body: ExprId, layouts: &[Wanted; 2]) -> [ExprId; 4] {
    let mut in_layout = |body: ExprId, wanted: &Wanted| {
        // A call that cannot take the layout stays in its own, and costs what it costs there.
        let mut unheard = Diagnostics::new();
        Walk::new(edit, wanted, &mut unheard).function(body)
    };
    let [first, last] = layouts.each_ref().map(|wanted| in_layout(body, wanted));
    let again = [in_layout(last, &layouts[0]), in_layout(first, &layouts[1])];
    [first, last, again[0], again[1]]
}

/// For all operators with a layout to choose that say what it costs: channels first, and channels last.
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
        // What an operator takes unless told otherwise has the channels after the batch.
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

/// What a body costs, in nanoseconds; `None` where that is not known, or no operator in it has a layout to choose.
fn cost(edit: &Edit<'_>, body: ExprId) -> Option<f64> {
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
    let mut sum = 0.0;
    for e in order {
        if found.is_constant(e) {
            found.constant.insert(e);
            continue;
        }
        let Some(call) = edit.op_call(e) else {
            continue;
        };
        if let Some(price) = call.def.hooks.cost {
            let mut operands = Vec::new();
            for &arg in &call.args {
                operands.extend(known(edit, edit.ty(arg))?);
            }
            sum += price(&Priced {
                attrs: edit.m.attrs(call.attrs),
                operands: &operands,
                results: &known(edit, edit.ty(e))?,
            })?;
        }
    }
    Some(sum)
}

/// What is known of a body on the way through it.
struct Found<'e, 'm> {
    edit: &'e Edit<'m>,
    /// The values of variables.
    bound: FxHashMap<VarId, ExprId>,
    /// What `fold-constant` makes a constant.
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
        let hooks = &call.def.hooks;
        let computed = call.def.effects == Effects::Pure
            && hooks.treatment == Treatment::Computed
            && !hooks.device_bound
            && !hooks.not_computed;
        computed && !call.args.is_empty() && call.args.iter().all(|a| self.constant.contains(*a))
    }
}

/// The tensors of a type with their extents, tuples flattened.
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
    match &edit.m.types[ty] {
        relax_ir::Type::Tuple(fields) => fields.iter().map(|f| tensor(*f)).collect(),
        _ => Some(vec![tensor(ty)?]),
    }
}

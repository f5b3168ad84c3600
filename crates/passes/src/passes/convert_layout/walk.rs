//! Propagation of axis orders through a function.

use relax_base::{Diagnostic, Diagnostics};
use relax_ir::{AttrValue, Block, BlockId, Expr, ExprId, IdSet, Memo, Type, TypeId, VarId};
use relax_ops::{Operand, Order, Relaid, Relayout};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Wanted;
use crate::codes;
use crate::edit::{Edit, OpCall};
use crate::util::{is_primitive, outside_primitives};

/// The transformed expression.
#[derive(Clone, Debug)]
struct New {
    expr: ExprId,
    /// For a tensor one order, for a tuple of tensors one for each field; empty if nothing is
    /// moved.
    orders: Vec<Option<Order>>,
}

impl New {
    fn plain(expr: ExprId) -> New {
        New {
            expr,
            orders: Vec::new(),
        }
    }
    fn tensor(expr: ExprId, order: Option<Order>) -> New {
        New::tuple(expr, vec![order])
    }
    fn tuple(expr: ExprId, orders: Vec<Option<Order>>) -> New {
        let moved = orders.iter().any(Option::is_some);
        New {
            expr,
            orders: if moved { orders } else { Vec::new() },
        }
    }
    fn order(&self, field: usize) -> Option<&Order> {
        self.orders.get(field)?.as_ref()
    }
}

/// The key of a value to be transformed: all references to a variable are one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Key {
    Var(VarId),
    Node(ExprId),
}

/// A value and the layouts from and to which it is transformed.
type Transform = (Key, String, String);

/// One function under conversion.
pub(in crate::passes) struct Walk<'w, 'm> {
    edit: &'w mut Edit<'m>,
    wanted: &'w Wanted,
    warnings: &'w mut Diagnostics,
    done: FxHashMap<ExprId, New>,
    /// Values converted back to the original order.
    back: Memo,
    /// The replacements of variables whose values are moved.
    vars: FxHashMap<VarId, (VarId, Vec<Option<Order>>)>,
    /// The values that `let`s and blocks bind.
    values: FxHashMap<VarId, ExprId>,
    /// The variables of blocks, and the nodes of the values of blocks: their transformed values are
    /// not shared between bindings.
    in_blocks: FxHashSet<VarId>,
    within_blocks: IdSet,
    /// The node that is being transformed.
    here: Option<ExprId>,
    /// Transforms that were created.
    shared: FxHashMap<Transform, ExprId>,
    /// Calls that were converted to the requested layouts.
    pub moved: u64,
    /// The number of `layout_transform`s created.
    pub transforms: u64,
}

impl<'w, 'm> Walk<'w, 'm> {
    pub fn new(
        edit: &'w mut Edit<'m>,
        wanted: &'w Wanted,
        warnings: &'w mut Diagnostics,
    ) -> Walk<'w, 'm> {
        Walk {
            edit,
            wanted,
            warnings,
            done: FxHashMap::default(),
            back: Memo::default(),
            vars: FxHashMap::default(),
            values: FxHashMap::default(),
            in_blocks: FxHashSet::default(),
            within_blocks: IdSet::new(),
            here: None,
            shared: FxHashMap::default(),
            moved: 0,
            transforms: 0,
        }
    }

    /// Transforms the body of a function, with its result in the original order.
    pub fn function(&mut self, body: ExprId) -> ExprId {
        let order = outside_primitives(self.edit.m, body);
        for &e in &order {
            match self.edit.m.exprs[e] {
                Expr::Let { var, value, .. } => {
                    self.values.insert(var, value);
                }
                Expr::Dataflow { block, .. } => {
                    let m = &*self.edit.m;
                    for b in &m.blocks[block].bindings {
                        self.values.insert(b.var, b.value);
                        self.in_blocks.insert(b.var);
                    }
                    let values = m.blocks[block].bindings.iter().map(|b| b.value);
                    for e in m.post_order(values) {
                        self.within_blocks.insert(e);
                    }
                }
                _ => {}
            }
        }
        for e in order {
            self.here = Some(e);
            let new = self.node(e);
            self.done.insert(e, new);
        }
        self.here = None;
        self.as_written(body)
    }

    /// Returns whether the transformed value can be shared with other users of the value: a
    /// variable of a block is not visible where several bindings of the block could share it.
    fn sharable(&self, e: ExprId) -> bool {
        let inside = self.here.is_some_and(|h| self.within_blocks.contains(h));
        !inside || !matches!(self.edit.m.exprs[e], Expr::Var(v) if self.in_blocks.contains(&v))
    }

    fn node(&mut self, old: ExprId) -> New {
        match self.edit.m.exprs[old].clone() {
            Expr::Var(v) => self.variable(old, v),
            Expr::Let { var, value, body } => {
                let body = self.as_written(body);
                let var = self.moved(var).map_or(var, |v| v.0);
                let value = self.done[&value].expr;
                self.rebuilt(old, Expr::Let { var, value, body })
            }
            Expr::Dataflow { block, body } => {
                let mut new = self.edit.m.blocks[block].clone();
                for b in &mut new.bindings {
                    b.value = self.done[&b.value].expr;
                    b.var = self.moved(b.var).map_or(b.var, |v| v.0);
                }
                for out in &mut new.outputs {
                    *out = self.moved(*out).map_or(*out, |v| v.0);
                }
                let body = self.as_written(body);
                let expr = self.block(block, new, body);
                self.rebuilt(old, expr)
            }
            Expr::Tuple(fields) => {
                let fields = self.edit.m.list(fields).to_vec();
                self.tuple(old, &fields)
            }
            Expr::Proj { tuple, index } => {
                let of = self.done[&tuple].clone();
                let order = of.order(index as usize).cloned();
                let span = self.edit.m.span(old);
                if of.orders.is_empty() {
                    return New::plain(self.parts(old));
                }
                New::tensor(self.edit.field(of.expr, index, span), order)
            }
            Expr::Call { .. } => match self.call(old) {
                Some(new) => new,
                None => New::plain(self.parts(old)),
            },
            _ => New::plain(self.parts(old)),
        }
    }

    /// Rebuilds the node over operands in the original order.
    fn parts(&mut self, old: ExprId) -> ExprId {
        let mut children = Vec::new();
        if matches!(self.edit.m.exprs[old], Expr::Func(f) if is_primitive(&self.edit.m.funcs[f])) {
            return old;
        }
        self.edit.m.for_each_child(old, |c| children.push(c));
        let mut made = Memo::default();
        for c in children {
            let new = self.as_written(c);
            made.insert(c, new);
        }
        let new = self.edit.m.map_children(old, |c| made[&c]);
        if new != old {
            let ty = self.edit.ty(old);
            self.edit.set_ty(new, ty);
        }
        new
    }

    fn rebuilt(&mut self, old: ExprId, expr: Expr) -> New {
        if self.edit.m.exprs[old] == expr {
            return New::plain(old);
        }
        let span = self.edit.m.span(old);
        let new = self.edit.m.add(expr, span);
        self.edit.retype(new);
        New::plain(new)
    }

    fn block(&mut self, old: BlockId, new: Block, body: ExprId) -> Expr {
        let same = self.edit.m.blocks[old] == new;
        let block = if same {
            old
        } else {
            self.edit.m.blocks.push(new)
        };
        Expr::Dataflow { block, body }
    }

    /// Returns the replacement of a variable whose value is moved, with the orders of that value.
    fn moved(&mut self, var: VarId) -> Option<(VarId, Vec<Option<Order>>)> {
        if !self.vars.contains_key(&var) {
            // A closure that refers to itself is not finished yet, and never moved.
            let value = self.values.get(&var).and_then(|v| self.done.get(v));
            let value = value.filter(|v| !v.orders.is_empty())?.clone();
            let name = self.edit.m.vars[var].name;
            let style = self.edit.m.vars[var].style;
            let ty = self.edit.ty(value.expr);
            let (new, _) = self.edit.fresh_var(name, ty, style);
            // The annotation describes the value in the original order.
            self.edit.m.vars[new].ty = None;
            if self.in_blocks.contains(&var) {
                self.in_blocks.insert(new);
            }
            self.vars.insert(var, (new, value.orders));
        }
        self.vars.get(&var).cloned()
    }

    /// Transforms a use of a variable, which has the order of its value.
    fn variable(&mut self, old: ExprId, var: VarId) -> New {
        let Some((new, orders)) = self.moved(var) else {
            return New::plain(old);
        };
        let span = self.edit.m.span(old);
        let expr = self.edit.m.add(Expr::Var(new), span);
        self.edit.retype(expr);
        New { expr, orders }
    }

    fn tuple(&mut self, old: ExprId, fields: &[ExprId]) -> New {
        let tensor = |e: &Edit<'_>, f: ExprId| matches!(e.m.types[e.ty(f)], Type::Tensor(_));
        let (mut parts, mut orders) = (Vec::new(), Vec::new());
        for &f in fields {
            if tensor(self.edit, f) {
                let new = &self.done[&f];
                orders.push(new.order(0).cloned());
                parts.push(new.expr);
            } else {
                orders.push(None);
                parts.push(self.as_written(f));
            }
        }
        if parts == fields {
            return New::plain(old);
        }
        let span = self.edit.m.span(old);
        New::tuple(self.edit.tuple(&parts, span), orders)
    }

    /// Transforms a call of an operator on operands in any order; `None` when it is to be made on
    /// operands in the original order.
    fn call(&mut self, old: ExprId) -> Option<New> {
        let call = self.edit.op_call(old)?;
        let wanted = self.wanted.get(&call.op).map(Vec::as_slice);
        let moved = (call.args.iter()).any(|a| !self.done[a].orders.is_empty());
        if !moved && wanted.is_none() {
            return None;
        }
        let rule = call.def.layout_rule()?;
        let mut operands = Vec::new();
        for &arg in &call.args {
            for (field, ty) in self.tensors(arg)?.into_iter().enumerate() {
                let tensor = self.edit.m.types.as_tensor(ty)?;
                operands.push(Operand {
                    dims: tensor.shape.dims().map(<[_]>::to_vec),
                    order: self.done[&arg].order(field).cloned(),
                });
            }
        }
        let results = self.tensor_types(self.edit.ty(old))?.len();
        let attrs = self.edit.m.attrs(call.attrs).clone();
        let site = Relayout {
            attrs: &attrs,
            operands: &operands,
            results,
            wanted,
        };
        match rule(&site) {
            Some(Relaid::Operand(order)) => {
                let operand = self.done[&call.args[0]].expr;
                Some(New::tensor(operand, order.moved()))
            }
            Some(Relaid::Call {
                attrs,
                operands,
                results,
            }) => {
                self.moved += u64::from(wanted.is_some());
                let args = self.arguments(&call, &operands)?;
                let span = self.edit.m.span(old);
                let new = self.edit.recall(&call, &args, attrs, span);
                let results = results.into_iter().map(|o| o.and_then(Order::moved));
                Some(New::tuple(new, results.collect()))
            }
            None => {
                if wanted.is_some() {
                    let message = format!(
                        "`{}` stays in its layout: this call cannot take the one that is asked for",
                        call.def.name
                    );
                    let place = self.edit.m.span(old);
                    let note = "an inner part has to divide its axis, a layout has to have the \
                                axes of the one it replaces, and blocked layouts need one for the weight";
                    self.warnings
                        .push(Diagnostic::warning(codes::LAYOUT_KEPT, place, message).note(note));
                }
                None
            }
        }
    }

    /// Returns the types of the tensors that an operand consists of: itself, or its fields.
    fn tensors(&self, arg: ExprId) -> Option<Vec<TypeId>> {
        self.tensor_types(self.edit.ty(arg))
    }
    fn tensor_types(&self, ty: TypeId) -> Option<Vec<TypeId>> {
        match &self.edit.m.types[ty] {
            Type::Tensor(_) => Some(vec![ty]),
            Type::Tuple(fields) => Some(fields.to_vec()),
            _ => None,
        }
    }

    /// Returns the operands of a call, converted to the orders that it requires.
    fn arguments(&mut self, call: &OpCall, orders: &[Option<Order>]) -> Option<Vec<ExprId>> {
        let mut orders = orders.iter();
        let mut args = Vec::new();
        for &arg in &call.args {
            let count = self.tensors(arg)?.len();
            let want: Vec<Option<Order>> = orders.by_ref().take(count).cloned().collect();
            args.push(self.standing(arg, &want));
        }
        Some(args)
    }

    /// Returns a value in its original order.
    fn as_written(&mut self, old: ExprId) -> ExprId {
        let new = &self.done[&old];
        if new.orders.is_empty() {
            return new.expr;
        }
        let sharable = self.sharable(old);
        if let Some(&back) = self.back.get(&old).filter(|_| sharable) {
            return back;
        }
        let want = vec![None; new.orders.len()];
        let back = self.standing(old, &want);
        if sharable {
            self.back.insert(old, back);
        }
        back
    }

    /// Returns a value with its tensors in these orders.
    fn standing(&mut self, old: ExprId, want: &[Option<Order>]) -> ExprId {
        let new = self.done[&old].clone();
        if !matches!(self.edit.m.types[self.edit.ty(old)], Type::Tuple(_)) {
            let want = want.first().and_then(Option::as_ref);
            return self.transform(new.expr, new.order(0), want);
        }
        let span = self.edit.m.span(old);
        let same = |(i, w): (usize, &Option<Order>)| {
            w.clone().and_then(Order::moved).as_ref() == new.order(i)
        };
        if want.iter().enumerate().all(same) {
            return new.expr;
        }
        let mut fields = Vec::new();
        for (i, w) in want.iter().enumerate() {
            let field = self.edit.field(new.expr, i as u32, span);
            fields.push(self.transform(field, new.order(i), w.as_ref()));
        }
        self.edit.tuple(&fields, span)
    }

    /// Returns the operand of a call that only moves axes, when its order is already that of the
    /// result.
    fn moved_there(&self, e: ExprId, from: Option<&Order>, to: Option<&Order>) -> Option<ExprId> {
        let (None, Some(to)) = (from, to) else {
            return None;
        };
        let call = self.edit.op_call(e)?;
        let [operand] = call.args[..] else {
            return None;
        };
        let dims = self.edit.dims(operand)?;
        let operands = [Operand {
            order: Some(Order::still(dims.len())?),
            dims: Some(dims),
        }];
        let site = Relayout {
            attrs: self.edit.m.attrs(call.attrs),
            operands: &operands,
            results: 1,
            wanted: None,
        };
        match call.def.layout_rule()?(&site)? {
            Relaid::Operand(order) if order == *to => Some(operand),
            _ => None,
        }
    }

    /// Returns a tensor converted from one order to another.
    fn transform(&mut self, e: ExprId, from: Option<&Order>, to: Option<&Order>) -> ExprId {
        let to = to.cloned().and_then(Order::moved);
        let (mut e, mut to) = (e, to.as_ref());
        if from == to {
            return e;
        }
        if let Some(before) = self.moved_there(e, from, to) {
            return before;
        }
        let span = self.edit.m.span(e);
        // An operand of lower rank broadcasts along new leading axes.
        let missing = match (to, self.edit.dims(e)) {
            (Some(to), Some(dims)) if from.is_none() => to.rank().saturating_sub(dims.len()),
            _ => 0,
        };
        if missing > 0 {
            let given = [
                ("axis", AttrValue::Int(0)),
                ("num_newaxis", AttrValue::Int(missing as i64)),
            ];
            e = self.edit.call("expand_dims", &[e], &given, span);
            to = to.filter(|o| o.rank() > 0);
        }
        let Some((src, dst)) = Order::transform(from, to) else {
            return e;
        };
        let key = match self.edit.m.exprs[e] {
            Expr::Var(v) => (Key::Var(v), src.clone(), dst.clone()),
            _ => (Key::Node(e), src.clone(), dst.clone()),
        };
        let sharable = self.sharable(e);
        if let Some(&made) = self.shared.get(&key).filter(|_| sharable) {
            return made;
        }
        let given = [
            ("src_layout", AttrValue::Str(src.as_str().into())),
            ("dst_layout", AttrValue::Str(dst.as_str().into())),
        ];
        let made = self.edit.call("layout_transform", &[e], &given, span);
        self.transforms += 1;
        if sharable {
            self.shared.insert(key, made);
        }
        made
    }
}

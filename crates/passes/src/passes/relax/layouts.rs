//! `relax-convert-layout`: converts convolutions and similar operators to other data layouts, and
//! propagates these through a dataflow block.
//!
//! An operator's behaviour on permuted tensors is defined in its entry ([`relax_ops::LayoutFn`]).
//! Outputs of the block, and operands of operators that need the original layout, are converted
//! back.

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{AttrValue, Expr, ExprId, Memo, Type, TypeId, VarId, VarStyle};
use relax_ops::{Fusion, Operand, Order, Part as Piece, Relaid, Relayout};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{Bind, Code, Value, each_typed_code, each_var};
use crate::edit::{Edit, OpCall};
use crate::passes::convert_layout::{Wanted, wanted};
use crate::util::is_primitive;
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-convert-layout",
    doc: "Relax's convert-layout: convolutions and the like in other data layouts.",
    options: &[OptionDef {
        name: "layouts",
        ty: OptionType::Text,
        default: "nn.conv2d: NCHW4c OIHW4o | nn.conv2d: NHWC OHWI",
        doc: "operators with the layouts of data and weight: `nn.conv2d: NHWC OHWI, nn.max_pool2d: NHWC`; lists behind `|` \
              are for calls that cannot take what those before it ask for",
    }],
    contract: Contract::TYPED.reorders(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let (mut choices, mut errors) = (Vec::new(), Diagnostics::new());
    for list in cx.options.text("layouts").split('|') {
        match wanted(cx, list) {
            Ok(wanted) => choices.push(wanted),
            Err(found) => errors.extend(found),
        }
    }
    if errors.has_errors() {
        return Err(errors);
    }
    let typing = cx.typing()?;
    let (mut moved, mut transforms) = (0, 0);
    each_typed_code(&mut Edit::new(cx.module, &typing), |edit, func, code| {
        if is_primitive(&edit.m.funcs[func]) {
            return false;
        }
        let elsewhere = used_elsewhere(edit, code);
        let mut rewriter = Rewriter {
            edit,
            typing: &typing,
            choices: &choices,
            orders: FxHashMap::default(),
            made: FxHashMap::default(),
            fields: FxHashMap::default(),
            binds: Vec::new(),
            moved: 0,
            transforms: 0,
        };
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            if part.flow {
                let mut stay = elsewhere.clone();
                stay.extend(part.outputs.iter().copied());
                part.binds = rewriter.block(std::mem::take(&mut part.binds), &stay);
            }
        }
        let changed = rewriter.moved + rewriter.transforms > 0;
        moved += rewriter.moved;
        transforms += rewriter.transforms;
        changed
    });
    cx.count("calls brought to their layouts", moved);
    cx.count("layout transforms put in", transforms);
    Ok(())
}

/// Returns the variables that are used outside the part that binds them.
fn used_elsewhere(edit: &Edit<'_>, code: &Code) -> FxHashSet<VarId> {
    let homes = code.homes();
    let mut found = FxHashSet::default();
    for (e, s, p) in code.exprs() {
        each_var(edit.m, e, |v| {
            if p.is_none_or(|p| homes.get(&v) != Some(&(s, p))) {
                found.insert(v);
            }
        });
    }
    found
}

/// The current layouts of a value's tensors; empty if it is in its original layout.
type Orders = Vec<Option<Order>>;

/// A tensor and its layout.
type Standing = (VarId, Option<Vec<Piece>>);

struct Rewriter<'r, 'm> {
    edit: &'r mut Edit<'m>,
    typing: &'r Typing,
    /// The requested layouts; later ones are for calls that cannot take the earlier ones.
    choices: &'r [Wanted],
    /// The current layouts of variables.
    orders: FxHashMap<VarId, Orders>,
    /// Layout conversions that already exist.
    made: FxHashMap<Standing, ExprId>,
    /// Projections of tuples that are already bound.
    fields: FxHashMap<(VarId, u32), ExprId>,
    binds: Vec<Bind>,
    moved: u64,
    transforms: u64,
}

impl Rewriter<'_, '_> {
    fn block(&mut self, old: Vec<Bind>, stay: &FxHashSet<VarId>) -> Vec<Bind> {
        for mut b in old {
            b.value = match b.value {
                Value::Plain(e) => {
                    let (new, orders) = self.value(e);
                    Value::Plain(self.bound(b.var, new, orders, stay.contains(&b.var)))
                }
                Value::If {
                    cond,
                    then,
                    otherwise,
                } => Value::If {
                    cond: self.as_written(cond),
                    then,
                    otherwise,
                },
                func @ Value::Func { .. } => func,
            };
            self.binds.push(b);
        }
        // Values created in this block are not visible elsewhere.
        self.made.clear();
        self.fields.clear();
        std::mem::take(&mut self.binds)
    }

    /// Returns the value to bind to a variable, converted back if the variable must keep its
    /// original layout.
    fn bound(&mut self, var: VarId, value: ExprId, orders: Orders, stays: bool) -> ExprId {
        if orders.iter().all(Option::is_none) {
            return value;
        }
        if stays {
            let named = self.bind(value);
            let none = vec![None; orders.len()];
            if let Expr::Var(v) = self.edit.m.exprs[named] {
                self.orders.insert(v, orders);
            }
            return match self.standing(named, &none) {
                Some(back) => self.unbound(back),
                None => named,
            };
        }
        let ty = self.edit.ty(value);
        self.edit.set_var_ty(var, ty);
        self.edit.m.vars[var].ty = Some(ty);
        self.orders.insert(var, orders);
        value
    }

    fn bind(&mut self, value: ExprId) -> ExprId {
        let ty = self.edit.ty(value);
        let name = Symbol::new("lv");
        let (var, e) = self.edit.fresh_var(name, ty, VarStyle::Binding);
        self.binds.push(Bind::plain(var, value, Span::NONE));
        e
    }

    /// Removes the last binding and returns its value if the expression names it.
    fn unbound(&mut self, e: ExprId) -> ExprId {
        let last = self.binds.last().copied();
        match (&self.edit.m.exprs[e], last) {
            (Expr::Var(v), Some(last)) if last.var == *v => {
                self.binds.pop();
                self.made.retain(|_, made| *made != e);
                last.expr().unwrap_or(e)
            }
            _ => e,
        }
    }

    /// Returns the current layouts of an operand's tensors.
    fn orders_of(&self, e: ExprId) -> Orders {
        match self.edit.m.exprs[e] {
            Expr::Var(v) => self.orders.get(&v).cloned().unwrap_or_default(),
            Expr::Tuple(list) => {
                let one = |&f: &ExprId| self.orders_of_field(f);
                self.edit.m.list(list).iter().map(one).collect()
            }
            _ => Vec::new(),
        }
    }

    fn orders_of_field(&self, e: ExprId) -> Option<Order> {
        let Expr::Var(v) = self.edit.m.exprs[e] else {
            return None;
        };
        let orders = self.orders.get(&v)?;
        let tensor = matches!(self.edit.m.types[self.edit.ty(e)], Type::Tensor(_));
        orders.first().filter(|_| tensor)?.clone()
    }

    /// Rewrites a value over the converted operands.
    fn value(&mut self, e: ExprId) -> (ExprId, Orders) {
        match self.edit.m.exprs[e] {
            Expr::Var(v) => (self.var(v), self.orders_of(e)),
            Expr::Tuple(list) => {
                let fields = self.edit.m.list(list).to_vec();
                self.tuple(e, &fields)
            }
            Expr::Proj { tuple, index } => {
                let order = self.orders_of(tuple).get(index as usize).cloned();
                match (order, self.edit.m.exprs[tuple].clone()) {
                    (Some(order), Expr::Var(v)) => {
                        let tuple = self.var(v);
                        let span = self.edit.m.span(e);
                        (self.edit.field(tuple, index, span), vec![order])
                    }
                    _ => (self.as_written(e), Vec::new()),
                }
            }
            Expr::Call { .. } => match self.call(e) {
                Some(new) => new,
                None => (self.as_written(e), Vec::new()),
            },
            _ => (self.as_written(e), Vec::new()),
        }
    }

    fn var(&mut self, v: VarId) -> ExprId {
        let e = self.edit.m.add(Expr::Var(v), Span::NONE);
        let ty = self.edit.var_ty(v);
        self.edit.set_ty(e, ty);
        e
    }

    /// Rewrites a tuple, keeping the current layouts of its fields.
    fn tuple(&mut self, e: ExprId, fields: &[ExprId]) -> (ExprId, Orders) {
        let orders = self.orders_of(e);
        let plain = |f: &ExprId| {
            let tensor = matches!(self.edit.m.types[self.edit.ty(*f)], Type::Tensor(_));
            tensor && self.edit.m.is_leaf(*f)
        };
        if orders.iter().all(Option::is_none) || !fields.iter().all(plain) {
            return (self.as_written(e), Vec::new());
        }
        let fields: Vec<ExprId> = (fields.iter())
            .map(|&f| match self.edit.m.exprs[f] {
                Expr::Var(v) => self.var(v),
                _ => f,
            })
            .collect();
        let span = self.edit.m.span(e);
        (self.edit.tuple(&fields, span), orders)
    }

    /// Rewrites a call with operands in other layouts; `None` if it needs the original ones.
    fn call(&mut self, e: ExprId) -> Option<(ExprId, Orders)> {
        let call = self.edit.op_call(e)?;
        let rule = call.def.layout_rule()?;
        let operands = self.operands(&call)?;
        let results = self.tensors(self.typing.exprs[e])?;
        let attrs = self.edit.m.attrs(call.attrs).clone();
        let site = |wanted| Relayout {
            attrs: &attrs,
            operands: &operands,
            results: results.len(),
            wanted,
        };
        let mut choices = self.choices.iter().filter_map(|c| c.get(&call.op));
        let chosen = choices.find_map(|layouts| rule(&site(Some(layouts))));
        let asked = chosen.is_some();
        let cut = |o: &Order| o.parts().iter().any(|p| p.inner > 0);
        let blocked = operands.iter().filter_map(|o| o.order.as_ref()).any(cut);
        let relaid = match chosen {
            Some(relaid) => relaid,
            None if operands.iter().all(|o| o.order.is_none()) => return None,
            None if blocked && self.reshapes(&call, &results) => return None,
            None => rule(&site(None))?,
        };
        match relaid {
            Relaid::Operand(_) if blocked => None,
            Relaid::Operand(order) => match self.edit.m.exprs[*call.args.first()?] {
                Expr::Var(v) => Some((self.var(v), vec![order.moved()])),
                _ => None,
            },
            Relaid::Call {
                attrs,
                operands: orders,
                results,
            } => {
                // A blocked operand of lower rank would have to gain axes first.
                let lacks = |(o, order): (&Operand, &Option<Order>)| {
                    let order = order.as_ref().filter(|o| cut(o));
                    order.is_some_and(|order| o.rank().is_none_or(|r| r > 0 && r < order.rank()))
                };
                if operands.iter().zip(&orders).any(lacks) {
                    return None;
                }
                let (before, bound) = (self.transforms, self.binds.len());
                let args = self.arguments(&call, &orders);
                let span = self.edit.m.span(e);
                let asked = asked && attrs != *self.edit.m.attrs(call.attrs);
                let new = args.map(|args| self.edit.recall(&call, &args, attrs, span));
                let Some(new) = new.filter(|&new| self.edit.typed(new)) else {
                    self.binds.truncate(bound);
                    self.transforms = before;
                    return None;
                };
                self.moved += u64::from(asked);
                let results = results.into_iter().map(|o| o.and_then(Order::moved));
                Some((new, results.collect()))
            }
        }
    }

    /// Returns whether a call only moves elements, into a tensor of another rank.
    fn reshapes(&self, call: &OpCall, results: &[TypeId]) -> bool {
        let rank = |t: TypeId| Some(self.edit.m.types.as_tensor(t)?.shape.dims()?.len());
        let operand = call.args.first().and_then(|&a| rank(self.before(a)));
        let same = results
            .iter()
            .all(|&t| operand.is_some() && rank(t) == operand);
        call.def.fusion == Fusion::Injective && !same
    }

    /// Returns an operand's type in the original layout.
    fn before(&self, e: ExprId) -> TypeId {
        match self.edit.m.exprs[e] {
            Expr::Var(v) => self.typing.vars[v],
            _ => self.typing.exprs[e],
        }
    }

    /// Returns the tensors of the operands; `None` if one is not a plain operand.
    fn operands(&self, call: &OpCall) -> Option<Vec<Operand>> {
        let m = &*self.edit.m;
        let mut operands = Vec::new();
        for &arg in &call.args {
            let leaves = match m.exprs[arg] {
                Expr::Tuple(list) => m.list(list).iter().all(|f| m.is_leaf(*f)),
                _ => m.is_leaf(arg),
            };
            if !leaves {
                return None;
            }
            let orders = self.orders_of(arg);
            for (i, ty) in self.tensors(self.before(arg))?.into_iter().enumerate() {
                operands.push(Operand {
                    dims: m.types.as_tensor(ty)?.shape.dims().map(<[_]>::to_vec),
                    order: orders.get(i).cloned().flatten(),
                });
            }
        }
        Some(operands)
    }

    /// Returns the tensors of a type: itself, or its fields.
    fn tensors(&self, ty: TypeId) -> Option<Vec<TypeId>> {
        match &self.edit.m.types[ty] {
            Type::Tensor(_) => Some(vec![ty]),
            Type::Tuple(fields) => Some(fields.to_vec()),
            _ => None,
        }
    }

    /// Returns a call's operands in the layouts that it requires.
    fn arguments(&mut self, call: &OpCall, orders: &[Option<Order>]) -> Option<Vec<ExprId>> {
        let mut orders = orders.iter();
        let mut args = Vec::new();
        for &arg in &call.args {
            let count = self.tensors(self.before(arg))?.len();
            let want = orders.by_ref().take(count).cloned();
            let want: Orders = want.map(|o| o.and_then(Order::moved)).collect();
            args.push(self.standing(arg, &want)?);
        }
        Some(args)
    }

    /// Converts an operand's tensors to these layouts.
    fn standing(&mut self, e: ExprId, want: &[Option<Order>]) -> Option<ExprId> {
        let now = self.orders_of(e);
        let order = |i: usize| now.get(i).cloned().flatten();
        let ty = match self.edit.m.exprs[e] {
            Expr::Var(v) => self.edit.var_ty(v),
            _ => self.edit.ty(e),
        };
        match self.edit.m.exprs[e].clone() {
            Expr::Tuple(list) => {
                let fields = self.edit.m.list(list).to_vec();
                let fields = fields.iter().zip(want).enumerate();
                let fields: Option<Vec<ExprId>> = fields
                    .map(|(i, (&f, to))| self.tensor(f, order(i).as_ref(), to.as_ref()))
                    .collect();
                let span = self.edit.m.span(e);
                Some(self.edit.tuple(&fields?, span))
            }
            Expr::Var(v) if matches!(self.edit.m.types[ty], Type::Tuple(_)) => {
                if (0..want.len()).all(|i| order(i) == want[i]) {
                    return Some(self.var(v));
                }
                let mut fields = Vec::new();
                for (i, to) in want.iter().enumerate() {
                    let field = self.field(v, i as u32);
                    fields.push(self.tensor(field, order(i).as_ref(), to.as_ref())?);
                }
                let tuple = self.edit.tuple(&fields, Span::NONE);
                Some(self.bind(tuple))
            }
            _ => {
                let to = want.first().cloned().flatten();
                self.tensor(e, order(0).as_ref(), to.as_ref())
            }
        }
    }

    /// Returns a field of a tuple, bound at most once.
    fn field(&mut self, v: VarId, index: u32) -> ExprId {
        if let Some(&e) = self.fields.get(&(v, index)) {
            return e;
        }
        let tuple = self.var(v);
        let field = self.edit.field(tuple, index, Span::NONE);
        let e = self.bind(field);
        self.fields.insert((v, index), e);
        e
    }

    /// Converts a tensor from one layout to another.
    fn tensor(&mut self, e: ExprId, from: Option<&Order>, to: Option<&Order>) -> Option<ExprId> {
        let e = match self.edit.m.exprs[e] {
            Expr::Var(v) => self.var(v),
            _ => e,
        };
        if from == to {
            return Some(e);
        }
        let key = match self.edit.m.exprs[e] {
            Expr::Var(v) => Some((v, to.map(|o| o.parts().to_vec()))),
            _ => None,
        };
        if let Some(made) = key.as_ref().and_then(|k| self.made.get(k)) {
            return Some(*made);
        }
        let rank = self.edit.dims(e)?.len();
        // An operand of lower rank broadcasts along new leading axes.
        let missing = match to {
            Some(to) if from.is_none() => to.rank().saturating_sub(rank),
            _ => 0,
        };
        let mut at = e;
        if missing > 0 {
            let axes: Vec<i64> = (0..missing as i64).collect();
            let given = [("axis", AttrValue::ints(&axes))];
            let wide = self
                .edit
                .call("relax.expand_dims", &[at], &given, Span::NONE);
            at = self.bind(wide);
        }
        let moved = self.moves(at, from, to)?;
        if !self.edit.typed(moved) {
            return None;
        }
        self.transforms += 1;
        let made = self.bind(moved);
        if let Some(key) = key {
            self.made.insert(key, made);
        }
        Some(made)
    }

    /// Creates the call that permutes the axes of a tensor.
    fn moves(&mut self, e: ExprId, from: Option<&Order>, to: Option<&Order>) -> Option<ExprId> {
        let still = Order::still(from.or(to)?.rank())?;
        let (source, target) = (from.unwrap_or(&still), to.unwrap_or(&still));
        if source.parts().len() == target.parts().len() {
            let place = |p: &Piece| source.parts().iter().position(|q| q == p);
            let axes: Option<Vec<usize>> = target.parts().iter().map(place).collect();
            if let Some(axes) = axes {
                let axes: Vec<i64> = axes.into_iter().map(|a| a as i64).collect();
                let given = [("axes", AttrValue::ints(&axes))];
                return Some(self.edit.call("transpose", &[e], &given, Span::NONE));
            }
        }
        let (src, dst) = Order::transform(from, to)?;
        let given = [
            ("src_layout", AttrValue::Str(src.as_str().into())),
            ("dst_layout", AttrValue::Str(dst.as_str().into())),
        ];
        Some(self.edit.call("layout_transform", &[e], &given, Span::NONE))
    }

    /// Rewrites a value over its operands in their original layouts.
    fn as_written(&mut self, e: ExprId) -> ExprId {
        let mut vars = Vec::new();
        each_var(self.edit.m, e, |v| vars.push(v));
        let mut stands = FxHashMap::default();
        for v in vars {
            let Some(orders) = self.orders.get(&v) else {
                continue;
            };
            let none = vec![None; orders.len()];
            let now = self.var(v);
            if let Some(back) = self.standing(now, &none) {
                stands.insert(v, back);
            }
        }
        if stands.is_empty() {
            return e;
        }
        let mut memo = Memo::default();
        let new = self.edit.m.substitute(e, &mut memo, &stands);
        let ty = self.edit.ty(e);
        self.edit.set_ty(new, ty);
        new
    }
}

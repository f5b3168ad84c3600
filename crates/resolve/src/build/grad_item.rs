//! `grad` items: what is resolved as an ordinary expression becomes the parts of a [`GradItem`].

use std::sync::Arc;

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{AttrValue, Expr, ExprId, GradItem, GradNode, OpId, Var, VarId, VarStyle};
use relax_ops::{Arity, AttrTy};
use relax_syntax::ast;
use rustc_hash::FxHashMap;

use super::Resolver;
use super::pattern::count;
use crate::codes;

/// What the variables of an item stand for.
type Bound = FxHashMap<VarId, GradNode>;

/// An attribute that an item refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Referred {
    name: Symbol,
    /// Its type; `None` where the operator has no such attribute.
    ty: Option<AttrTy>,
    /// The variable that stands for its value, a number.
    var: VarId,
}

/// Returns whether every value of an attribute of one type is one of another.
fn fits_as(own: AttrTy, wanted: AttrTy) -> bool {
    use AttrTy::*;
    matches!(
        (own, wanted),
        (_, Any)
            | (Int, Float | IntOrInts)
            | (Ints, Dims | IntOrInts)
            | (Dims, Ints | IntOrInts)
            | (DType, DTypes)
    )
}

/// Returns the type of the items of a list of some type.
fn element(list: AttrTy) -> AttrTy {
    match list {
        AttrTy::Ints | AttrTy::Dims | AttrTy::IntOrInts => AttrTy::Int,
        AttrTy::Floats => AttrTy::Float,
        AttrTy::Strs => AttrTy::Str,
        AttrTy::DTypes => AttrTy::DType,
        AttrTy::IntLists => AttrTy::Ints,
        other => other,
    }
}

/// The parts of an expression under construction.
#[derive(Default)]
struct Parts {
    nodes: Vec<GradNode>,
    names: Vec<Option<Symbol>>,
    spans: Vec<Span>,
    of: FxHashMap<ExprId, u32>,
    vars: FxHashMap<VarId, u32>,
}

impl Parts {
    fn add(&mut self, node: GradNode, span: Span) -> u32 {
        self.nodes.push(node);
        self.names.push(None);
        self.spans.push(span);
        self.nodes.len() as u32 - 1
    }

    /// Returns the part that a variable of the item is, one for each.
    fn bound(&mut self, var: VarId, node: &GradNode, span: Span) -> u32 {
        if let Some(&known) = self.vars.get(&var) {
            return known;
        }
        let at = self.add(node.clone(), span);
        self.vars.insert(var, at);
        at
    }
}

impl Resolver<'_> {
    /// Resolves a `grad` item and adds it to the module, unless it has mistakes.
    pub(crate) fn define_grad(&mut self, item: &ast::GradItem, place: Span) {
        let before = self.mistakes;
        let Some(op) = self.op_named(item.op) else {
            return self.unknown_name(item.op, place, true);
        };
        let mark = self.scopes.enter();
        let mut bound = Bound::default();
        let (mut operands, mut attrs, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let ast = self.ast;
        for b in ast.list(item.params) {
            let binder = ast.binders[b];
            if let Some(t) = binder.ty {
                let message = "operands and attributes have the types of the operator here";
                let span = ast.types[t].span;
                self.error(Diagnostic::error(codes::MISPLACED, span, message));
            }
            let twice = match binder.sigil {
                true => operands.contains(&binder.name),
                false => attrs.iter().any(|a: &(Symbol, _)| a.0 == binder.name),
            };
            if twice {
                let message = format!("parameter `{}` stands twice", binder.name);
                self.error(Diagnostic::error(codes::DUPLICATE, binder.span, message));
            } else if binder.sigil {
                let node = GradNode::Operand(operands.len() as u32);
                operands.push(binder.name);
                bound.insert(self.bind_var(b, VarStyle::Param), node);
            } else {
                let only = self.grad_attr(op, item.op, &binder);
                attrs.push((binder.name, only));
                let var = self.module.vars.push(Var {
                    name: binder.name,
                    ty: None,
                    span: self.at(binder.span),
                    style: VarStyle::Param,
                });
                values.push(Referred {
                    name: binder.name,
                    ty: self.attr_ty(op, binder.name),
                    var,
                });
                bound.insert(var, GradNode::Attr(binder.name));
            }
        }
        self.grad_arity(op, operands.len(), item.op, place);
        for (b, node) in [
            (item.result, GradNode::Result),
            (item.grad, GradNode::Gradient),
        ] {
            bound.insert(self.bind_var(b, VarStyle::Param), node);
        }
        let outer = self.grad.replace(values);
        let body = self.expr(item.body);
        self.grad = outer;
        self.scopes.leave(mark);
        if self.mistakes > before || !self.grad_is_new(op, &operands, &attrs, item.op, place) {
            return;
        }
        let made = self.grad_parts(body, &bound, operands.len());
        let Some((parts, body)) = made else { return };
        let name = |b: ast::BinderId| ast.binders[b].name;
        self.module.grads.push(Arc::new(GradItem {
            op,
            name: item.op,
            operands,
            attrs,
            bound: [name(item.result), name(item.grad)],
            nodes: parts.nodes,
            names: parts.names,
            spans: parts.spans,
            body,
            span: self.at(place),
        }));
    }

    fn attr_ty(&mut self, op: OpId, name: Symbol) -> Option<AttrTy> {
        let schema = self.schema(op);
        let known = schema.attrs.iter().find(|a| a.name == name);
        known.map(|a| a.ty)
    }

    /// Returns the attribute of this name, in a `grad` item that refers to it.
    pub(crate) fn referred(&self, name: Symbol) -> Option<Referred> {
        let mut all = self.grad.as_ref()?.iter();
        all.find(|v| v.name == name).copied()
    }

    /// Returns whether a value fits an attribute, whatever the attributes are that it refers to. The
    /// recursion is bounded, as deeply nested values are rejected before.
    pub(crate) fn referred_fit(&self, value: &AttrValue, ty: AttrTy) -> bool {
        match value {
            AttrValue::Attr(name) => {
                let own = self.referred(*name).and_then(|r| r.ty);
                own.is_none_or(|own| own == ty || fits_as(own, ty))
            }
            AttrValue::Array(items) => {
                let ty = element(ty);
                items.iter().all(|item| self.referred_fit(item, ty))
            }
            _ => true,
        }
    }

    /// Resolves an attribute that stands as a value: a number.
    pub(crate) fn grad_number(&mut self, referred: Referred, span: Span) -> ExprId {
        let numbers = [AttrTy::Int, AttrTy::Float, AttrTy::Bool];
        if referred.ty.is_some_and(|ty| !numbers.contains(&ty)) {
            let message = format!("the attribute `{}` is no number", referred.name);
            let d = Diagnostic::error(codes::GRADIENT, span, message);
            self.error(d.note("other attributes can only be given to calls: `axis=axis`"));
            return self.error_expr(span);
        }
        let place = self.at(span);
        self.module.add(Expr::Var(referred.var), place)
    }

    /// Checks an attribute of an item's head; returns the value that the item is only about.
    fn grad_attr(&mut self, op: OpId, name: Symbol, binder: &ast::Binder) -> Option<AttrValue> {
        let schema = self.schema(op);
        let Some(known) = schema.attrs.iter().find(|a| a.name == binder.name) else {
            self.unknown_attr(&schema, binder.name, binder.span, name.as_str());
            return None;
        };
        let written = binder.default?;
        let value = self.attr_value(written)?;
        if value.is_none() {
            return Some(value);
        }
        let fitted = super::attrs::fit(value, known.ty);
        if fitted.is_none() {
            let message = format!("attribute `{}` of `{name}` has no such value", binder.name);
            let span = self.ast.exprs[written].span;
            self.error(Diagnostic::error(codes::ATTR_TYPE, span, message));
        }
        fitted
    }

    fn grad_arity(&mut self, op: OpId, given: usize, name: Symbol, place: Span) {
        let (wanted, at_least) = match (self.registry.get(op), self.module.user_op(op)) {
            (Some(def), _) => (def.inputs.len(), def.arity == Arity::AtLeast),
            (None, Some(user)) => (user.params.len(), false),
            (None, None) => return,
        };
        if given == wanted || at_least && given >= wanted {
            return;
        }
        let message = format!(
            "`{name}` takes {}, but {given} {} named here",
            count(wanted, "argument"),
            if given == 1 { "is" } else { "are" },
        );
        self.error(Diagnostic::error(codes::OP_ARITY, place, message));
    }

    /// Returns whether no other item is about the same calls, and reports one that is.
    fn grad_is_new(
        &mut self,
        op: OpId,
        operands: &[Symbol],
        attrs: &[(Symbol, Option<AttrValue>)],
        name: Symbol,
        place: Span,
    ) -> bool {
        let only = |attrs: &[(Symbol, Option<AttrValue>)]| {
            let mut all: Vec<(Symbol, AttrValue)> = (attrs.iter())
                .filter_map(|(n, v)| Some((*n, v.clone()?)))
                .collect();
            all.sort_by_key(|a| a.0.as_str());
            all
        };
        let mut own = self.module.grads.iter();
        let same = own.find(|g| {
            g.op == op && g.operands.len() == operands.len() && only(&g.attrs) == only(attrs)
        });
        let Some(first) = same.map(|g| g.span) else {
            return true;
        };
        self.duplicate(
            place,
            first,
            &format!("the gradients of `{name}` stand twice"),
        );
        false
    }

    fn grad_error<T>(&mut self, at: ExprId, message: &str) -> Option<T> {
        let span = self.module.spans[at];
        self.error(Diagnostic::error(codes::GRADIENT, span, message));
        None
    }

    /// Converts an expression to parts; returns them with the number of the whole. `None` after an
    /// error.
    fn grad_parts(&mut self, body: ExprId, bound: &Bound, operands: usize) -> Option<(Parts, u32)> {
        let order = self.module.post_order([body]);
        let lets: FxHashMap<VarId, ExprId> = (order.iter())
            .filter_map(|&e| match self.module.exprs[e] {
                Expr::Let { var, value, .. } => Some((var, value)),
                _ => None,
            })
            .collect();
        let mut parts = Parts::default();
        for &e in &order {
            let node = match self.module.exprs[e].clone() {
                Expr::Op(_) => continue,
                Expr::Var(v) => {
                    let at = match (bound.get(&v), lets.get(&v)) {
                        (Some(node), _) => Some(parts.bound(v, node, self.module.spans[e])),
                        (None, Some(value)) => parts.of.get(value).copied(),
                        (None, None) => None,
                    };
                    let Some(at) = at else {
                        return self.grad_error(e, "this is no variable of the gradient");
                    };
                    parts.of.insert(e, at);
                    continue;
                }
                Expr::Let { var, value, body } => {
                    let at = parts.of.get(&value).copied().zip(parts.of.get(&body));
                    let Some((named, &whole)) = at else {
                        return self.grad_error(value, "an operator is no value here: call it");
                    };
                    parts.names[named as usize] = Some(self.module.vars[var].name);
                    parts.of.insert(e, whole);
                    continue;
                }
                Expr::Const(c) if self.module.consts[c].is_scalar() => GradNode::Const {
                    value: self.module.consts[c].clone(),
                    plain: self.module.literals.get(&c).copied().unwrap_or(false),
                },
                Expr::Tuple(fields) => GradNode::Tuple(self.grad_list(fields, &parts)?),
                Expr::Proj { tuple, index } => {
                    let tuple = *parts.of.get(&tuple)?;
                    GradNode::Field { tuple, index }
                }
                Expr::Call {
                    callee,
                    args,
                    attrs,
                    type_args: 0,
                } if matches!(self.module.exprs[callee], Expr::Op(_)) => {
                    let Expr::Op(op) = self.module.exprs[callee] else {
                        unreachable!("just matched")
                    };
                    let args = self.grad_list(args, &parts)?;
                    let attrs = self.module.attrs(attrs).clone();
                    GradNode::Call { op, args, attrs }
                }
                _ => {
                    let message = "a gradient consists of calls of operators, tuples, their fields \
                                   and numbers";
                    return self.grad_error(e, message);
                }
            };
            let span = self.module.spans[e];
            let at = parts.add(node, span);
            parts.of.insert(e, at);
        }
        let Some(&whole) = parts.of.get(&body) else {
            return self.grad_error(body, "an operator is no value here: call it");
        };
        let fields = match &parts.nodes[whole as usize] {
            _ if operands == 1 => 1,
            GradNode::Tuple(fields) => fields.len(),
            _ => usize::MAX,
        };
        if fields != operands {
            let message = format!(
                "a tuple of {} is wanted here, one for each operand",
                count(operands, "gradient")
            );
            let mut last = body;
            while let Expr::Let { body, .. } = self.module.exprs[last] {
                last = body;
            }
            return self.grad_error(last, &message);
        }
        Some((parts, whole))
    }

    fn grad_list(&mut self, list: relax_ir::ExprList, parts: &Parts) -> Option<Vec<u32>> {
        let mut out = Vec::with_capacity(list.len());
        for e in self.module.list(list).to_vec() {
            match parts.of.get(&e) {
                Some(&at) => out.push(at),
                None => return self.grad_error(e, "an operator is no value here: call it"),
            }
        }
        Some(out)
    }
}

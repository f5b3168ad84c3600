//! Expressions: each is lifted over operands that are already lifted.

use relax_base::Span;
use relax_ir::{Attrs, CtorId, Expr, ExprId, Function, Pattern, VarStyle};
use rustc_hash::FxHashMap;

use super::{Failure, List, Reverse};
use crate::build::gradients;
use crate::util::copied_clauses;

impl Reverse<'_, '_> {
    /// Returns the lifted form of an operand.
    pub(super) fn part(&mut self, e: ExprId) -> Result<ExprId, Failure> {
        match self.edit.m.exprs[e] {
            Expr::Var(v) => Ok(self.var(v)),
            Expr::Global(g) => {
                let new = self.global(e, g)?;
                Ok(self.add(Expr::Global(new)))
            }
            Expr::Op(_) => {
                Err(self.refuse(e, "an operator stands as a value; put it into a function"))
            }
            Expr::Extern(_) => Err(self.refuse(e, "nothing is known of a packed function")),
            // A constructor used as a function takes the backpropagator like all others.
            Expr::Ctor(c) => {
                self.fields_stay(e, c)?;
                let fields = self.edit.m.ctors[c].fields.len();
                let (mut params, mut args) = (Vec::new(), Vec::new());
                for _ in 0..fields {
                    let (var, arg) = self.edit.m.fresh_var("x", None, VarStyle::Param);
                    params.push(var);
                    args.push(arg);
                }
                let (back, _) = self
                    .edit
                    .m
                    .fresh_var("bp", Some(self.cell), VarStyle::Param);
                params.push(back);
                let body = self.edit.m.call(e, &args, Span::NONE);
                let func = self.edit.m.funcs.push(Function {
                    type_params: Vec::new(),
                    dims: Vec::new(),
                    params,
                    ret: None,
                    constraints: Vec::new(),
                    body,
                    attrs: Attrs::new(),
                    span: Span::NONE,
                });
                Ok(self.add(Expr::Func(func)))
            }
            _ => Ok(self.memo[&e]),
        }
    }

    /// Returns the lifted form of a node over operands that were lifted already; `None` for names.
    pub(super) fn node(&mut self, e: ExprId) -> Result<Option<ExprId>, Failure> {
        let span = self.edit.m.span(e);
        let new = match self.edit.m.exprs[e].clone() {
            Expr::Var(_) | Expr::Global(_) | Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) => {
                return Ok(None);
            }
            Expr::Error => e,
            Expr::Const(_) => {
                let mut list = List::new();
                let ty = self.typing.exprs[e];
                let new = self
                    .carried(ty, e, &mut list)
                    .expect("a constant is a tensor");
                self.close(list, new)
            }
            Expr::Func(f) => {
                let body = self.edit.m.funcs[f].body;
                let back = self.params[&e];
                let new = self.part(body)?;
                let function = self.literal(f, new, back)?;
                let func = self.edit.m.funcs.push(function);
                self.edit.m.add(Expr::Func(func), span)
            }
            Expr::Let { var, value, body } => {
                let (value, body) = (self.part(value)?, self.part(body)?);
                let var = self.var_id(var);
                self.edit.m.add(Expr::Let { var, value, body }, span)
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.part(cond)?;
                let cond = self.field(cond, 0);
                let (then, otherwise) = (self.part(then)?, self.part(otherwise)?);
                let new = Expr::If {
                    cond,
                    then,
                    otherwise,
                };
                self.edit.m.add(new, span)
            }
            Expr::Match {
                value,
                clauses,
                complete,
            } => {
                let value = self.part(value)?;
                for clause in &clauses {
                    for p in self.edit.m.sub_patterns(clause.pattern) {
                        if let Pattern::Ctor(c, _) = self.edit.m.patterns[p] {
                            self.fields_stay(e, c)?;
                        }
                    }
                }
                let var = |w: &mut Self, v| Ok(w.var_id(v));
                let clauses = copied_clauses(self, |w| w.edit.m, &clauses, Self::part, var)?;
                let new = Expr::Match {
                    value,
                    clauses,
                    complete,
                };
                self.edit.m.add(new, span)
            }
            Expr::Call { callee, args, .. } => {
                let args = self.edit.m.list(args).to_vec();
                self.call_node(e, callee, &args)?
            }
            Expr::Tuple(_)
            | Expr::Proj { .. }
            | Expr::RefNew(_)
            | Expr::RefRead(_)
            | Expr::RefWrite(..) => {
                let mut parts = Vec::new();
                self.edit.m.for_each_child(e, |c| parts.push(c));
                let mut new = FxHashMap::default();
                for part in parts {
                    let made = self.part(part)?;
                    new.insert(part, made);
                }
                self.edit.m.map_children(e, |c| new[&c])
            }
            Expr::Shape(_) | Expr::MatchShape { .. } | Expr::MatchCast { .. } => {
                return Err(self.refuse(e, "shape values and checks are not carried"));
            }
            Expr::Dataflow { .. } => unreachable!("blocks were dissolved"),
        };
        Ok(Some(new))
    }

    /// Refuses a constructor with fields that would be lifted: their types are part of a definition,
    /// unlike those that are its arguments.
    fn fields_stay(&mut self, at: ExprId, c: CtorId) -> Result<(), Failure> {
        let fields = self.edit.m.ctors[c].fields.clone();
        for ty in fields {
            if self.carried_type(ty) != self.same_type(ty) {
                let why = "the constructor's fields are tensors or functions by definition";
                return Err(self.refuse(at, why));
            }
        }
        Ok(())
    }

    fn call_node(&mut self, e: ExprId, callee: ExprId, args: &[ExprId]) -> Result<ExprId, Failure> {
        let span = self.edit.m.span(e);
        let mut new = Vec::with_capacity(args.len() + 1);
        for &arg in args {
            new.push(self.part(arg)?);
        }
        match self.edit.m.exprs[callee] {
            Expr::Ctor(c) => {
                self.fields_stay(e, c)?;
                Ok(self.edit.m.call(callee, &new, span))
            }
            Expr::Op(_) => self.operator(e, args, &new),
            _ => {
                let callee = self.part(callee)?;
                new.push(self.back[&e]);
                Ok(self.edit.m.call(callee, &new, span))
            }
        }
    }

    /// Lifts a call of an operator: its value, and a step of the backpropagator.
    fn operator(&mut self, e: ExprId, old: &[ExprId], args: &[ExprId]) -> Result<ExprId, Failure> {
        let Expr::Call { callee, attrs, .. } = self.edit.m.exprs[e] else {
            unreachable!("a call of an operator")
        };
        let only = "the operator takes or gives something else than tensors";
        let mut list = List::new();
        let (mut values, mut types) = (Vec::new(), Vec::new());
        for (&arg, &old) in args.iter().zip(old) {
            let ty = self.same_type(self.typing.exprs[old]);
            let value = self.value(ty, arg, &mut list);
            values.push(value.ok_or_else(|| self.refuse(e, only))?);
            types.push(ty);
        }
        let attrs = self.subst.attrs(self.edit.m.attrs(attrs));
        let span = self.edit.m.span(e);
        let node = self.edit.call_with(callee, &values, attrs, span);
        let ty = self.same_type(self.typing.exprs[e]);
        self.edit.set_ty(node, ty);
        let result = self.bind(&mut list, node);
        let carried = self.carried(ty, result, &mut list);
        let carried = carried.ok_or_else(|| self.refuse(e, only))?;
        if !self.has_float(ty) || !types.iter().any(|&t| self.has_float(t)) {
            return Ok(self.close(list, carried));
        }
        let back = self.back[&e];
        let before = self.add(Expr::RefRead(back));
        let before = self.bind(&mut list, before);
        let mut inner = List::new();
        let grad = self
            .grad(ty, carried, &mut inner)
            .ok_or_else(|| self.refuse(e, only))?;
        let grads = gradients(&mut self.edit, node, grad, Span::NONE).map_err(|reason| {
            let (place, why) = reason.reason(&self.edit, e);
            (place, format!("there is no gradient here: {why}"))
        })?;
        for ((&arg, &ty), grad) in args.iter().zip(&types).zip(grads) {
            self.update(ty, arg, grad, &mut inner);
        }
        let last = self.edit.m.call(before, &[], Span::NONE);
        let body = self.close(inner, last);
        let step = self.step(body);
        let write = self.add(Expr::RefWrite(back, step));
        self.bind(&mut list, write);
        Ok(self.close(list, carried))
    }
}

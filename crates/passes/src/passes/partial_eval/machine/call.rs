//! Calls: unfolded, computed, or residual.

use relax_ir::{Expr, ExprId, TypeId};
use relax_ops::{Effects, registry};

use super::{Frame, Machine, State};
use crate::passes::fold_constant::computed;
use crate::passes::partial_eval::analysis::fits;
use crate::passes::partial_eval::residual;
use crate::passes::partial_eval::value::{Closure, Known, Value};
use crate::util::{is_external, is_literal_argument, is_primitive};

impl Machine<'_, '_> {
    pub(super) fn call(&mut self, e: ExprId, callee: ExprId, args: &[ExprId]) -> State {
        // The callee, unless it is an operator, a constructor or a kernel written in place.
        let function = match self.edit.m.exprs[callee] {
            Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) | Expr::Func(_) => None,
            _ => Some(self.atom(callee)),
        };
        let values = args.iter().enumerate().map(|(i, &a)| {
            match self.edit.m.exprs[a] {
                // It has no name but itself.
                Expr::Const(c) if is_literal_argument(self.edit.m, e, i) => {
                    let value = self.edit.m.consts[c].clone();
                    self.slot(Known::Tensor(value), a)
                }
                _ => self.atom(a),
            }
        });
        let values: Vec<Value> = values.collect();
        match function {
            Some(function) => {
                if let Known::Closure(closure) = self.known(function).clone()
                    && let Some(state) = self.unfold(e, &closure, function, args, &values)
                {
                    return state;
                }
                let name = self.name(function);
                self.store.invalidate();
                let new = self.residual_call(e, name, &values);
                State::Done(self.unknown(new, e))
            }
            None => State::Done(self.direct(e, callee, &values)),
        }
    }

    /// Returns the call in the residual program.
    fn residual_call(&mut self, e: ExprId, callee: ExprId, args: &[Value]) -> ExprId {
        let Expr::Call {
            attrs, type_args, ..
        } = self.edit.m.exprs[e]
        else {
            unreachable!("it is a call")
        };
        let types = self.edit.m.type_args(type_args).to_vec();
        let types: Vec<TypeId> = types
            .into_iter()
            .map(|t| {
                let local = self.locals.last_mut().expect("code runs in a function");
                local.types.ty(&mut self.edit.m.types, t)
            })
            .collect();
        let type_args = self.edit.m.make_type_args(&types);
        let names: Vec<ExprId> = args.iter().map(|&a| self.name(a)).collect();
        let args = self.edit.m.make_list(&names);
        self.like(
            e,
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            },
        )
    }

    /// Runs a known function in place; `None` when that makes no progress, or is not allowed.
    fn unfold(
        &mut self,
        e: ExprId,
        closure: &Closure,
        this: Value,
        args: &[ExprId],
        values: &[Value],
    ) -> Option<State> {
        let (m, func) = (&*self.edit.m, closure.func);
        let function = &m.funcs[func];
        let body = function.body;
        if self.bindings >= self.limits.bindings
            || self.fixed[body]
            || !function.dims.is_empty()
            || !function.constraints.is_empty()
            || is_primitive(function)
            || is_external(function)
            || !fits(m, self.typing, func, args)
        {
            return None;
        }
        let next = self.fuel_of(values);
        let before = self.fuel.get(&func).cloned();
        let met = match &before {
            None => next,
            Some(before) => {
                let (met, progress) = before.meet(&next);
                if !progress {
                    return None;
                }
                met
            }
        };
        let (type_params, params) = (function.type_params.clone(), function.params.clone());
        let given = self.typing.type_args.get(&e).cloned().unwrap_or_default();
        let around = &mut self
            .locals
            .last_mut()
            .expect("code runs in a function")
            .types;
        let m = &mut *self.edit.m;
        let types = residual::instantiate(m, &type_params, &given, around, &closure.types)?;
        self.fuel.insert(func, met);
        self.enter(closure, Some(this));
        self.local().types = types;
        for (&param, &value) in params.iter().zip(values) {
            self.insert(param, value);
        }
        self.unfolded += 1;
        self.frames.push(Frame::Call { func, fuel: before });
        Some(State::Eval(body))
    }

    /// Evaluates a call of an operator, a constructor, a kernel, or a packed function.
    fn direct(&mut self, e: ExprId, callee: ExprId, args: &[Value]) -> Value {
        match self.edit.m.exprs[callee] {
            Expr::Ctor(ctor) => {
                let new = self.residual_call(e, callee, args);
                let name = self.push(new, e);
                self.slot(Known::Data(ctor, args.into()), name)
            }
            Expr::Op(op) => {
                if let Some(value) = self.compute(e, args) {
                    self.computed += 1;
                    return value;
                }
                let pure = registry()
                    .get(op)
                    .is_none_or(|d| d.effects == Effects::Pure);
                if !pure
                    && args
                        .iter()
                        .any(|&a| !matches!(self.known(a), Known::Tensor(_)))
                {
                    self.store.invalidate();
                }
                let new = self.residual_call(e, callee, args);
                self.unknown(new, e)
            }
            Expr::Func(_) => {
                let callee = self.kernel(callee);
                let new = self.residual_call(e, callee, args);
                self.unknown(new, e)
            }
            _ => {
                self.store.invalidate();
                let new = self.residual_call(e, callee, args);
                self.unknown(new, e)
            }
        }
    }

    /// Returns the value of an operator's call on known tensors and tuples of them.
    fn compute(&mut self, e: ExprId, args: &[Value]) -> Option<Value> {
        let span = self.edit.m.span(e);
        let tensor = |this: &mut Self, v: Value| match this.known(v).clone() {
            Known::Tensor(t) => Some(this.edit.constant(t, span)),
            _ => None,
        };
        let mut nodes = Vec::with_capacity(args.len());
        for &arg in args {
            nodes.push(match self.known(arg).clone() {
                Known::Tuple(fields) => {
                    let fields: Vec<ExprId> = fields
                        .iter()
                        .map(|&f| tensor(self, f))
                        .collect::<Option<_>>()?;
                    self.edit.tuple(&fields, span)
                }
                _ => tensor(self, arg)?,
            });
        }
        let call = self.edit.op_call(e)?;
        let attrs = self.edit.m.attrs(call.attrs).clone();
        let node = self.edit.recall(&call, &nodes, attrs, span);
        if !self.edit.typed(node) {
            return None;
        }
        let call = self.edit.op_call(node)?;
        let result = computed(&mut self.edit, node, &call, self.limits.bytes)?;
        Some(self.reify(result, e))
    }

    /// Converts a constant, or a tuple of constants, to a value.
    fn reify(&mut self, result: ExprId, like: ExprId) -> Value {
        let constant = |this: &mut Self, e: ExprId| {
            let value = this
                .edit
                .constant_value(e)
                .expect("it was computed")
                .clone();
            let (var, name) = residual::unnamed(this.edit.m, None);
            this.item((var, e));
            this.slot(Known::Tensor(value), name)
        };
        match self.edit.m.exprs[result] {
            Expr::Tuple(fields) => {
                // Results of operators are one level deep.
                let fields = self.edit.m.list(fields).to_vec();
                let fields: Vec<Value> = fields.into_iter().map(|f| constant(self, f)).collect();
                self.tuple(&fields, like)
            }
            _ => constant(self, result),
        }
    }
}

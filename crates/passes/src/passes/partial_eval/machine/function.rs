//! Functions: literals, and how often they may be unfolded.

use std::rc::Rc;

use relax_ir::{Copier, Expr, ExprId, FuncId, Function, VarId};

use super::{Frame, Machine, State};
use crate::passes::partial_eval::residual;
use crate::passes::partial_eval::value::{Closure, Fuel, Known, Value};
use crate::util::{is_external, is_primitive};

impl Machine<'_, '_> {
    /// Evaluates a function literal: known from here on, and residualised with a body that was run
    /// on unknown arguments.
    pub(super) fn function(&mut self, node: ExprId, func: FuncId, var: Option<VarId>) -> State {
        let m = &*self.edit.m;
        if is_primitive(&m.funcs[func]) || is_external(&m.funcs[func]) {
            let kernel = self.kernel(node);
            let name = self.push(kernel, node);
            return State::Done(self.slot(Known::Nothing, name));
        }
        let free = self.free.of(m, node, func).to_vec();
        let local = self.locals.last().expect("code runs in a function");
        let captured = free.iter().filter(|v| Some(**v) != var);
        let captured = captured.filter_map(|v| Some((*v, *local.vars.get(v)?)));
        let closure = Rc::new(Closure {
            func,
            this: var,
            captured: captured.collect(),
            types: local.types.clone(),
        });
        let name = match var {
            Some(var) => self.fresh(var),
            None => residual::unnamed(self.edit.m, None),
        };
        let mark = self.open();
        self.store.invalidate();
        let this = self.slot(Known::Closure(closure.clone()), name.1);
        self.enter(&closure, Some(this));
        let old = self.edit.m.funcs[func].clone();
        let (mut params, mut args) = (Vec::new(), Vec::new());
        for &old in &old.params {
            let (param, name) = self.fresh(old);
            if self.edit.m.vars[param].ty.is_none() {
                // Its uses, which determined the type, may be removed.
                let types = &mut self.locals.last_mut().expect("it was entered").types;
                let ty = residual::written(self.edit.m, types, self.typing.vars[old]);
                self.edit.m.vars[param].ty = ty;
            }
            let value = self.slot(Known::Nothing, name);
            self.insert(old, value);
            params.push(param);
            args.push(value);
        }
        let types = &mut self.locals.last_mut().expect("it was entered").types;
        let ret = old.ret.map(|t| types.ty(&mut self.edit.m.types, t));
        let attrs = types.attrs(&old.attrs);
        let next = self.fuel_of(&args);
        let before = self.fuel.get(&func).cloned();
        let met = before.as_ref().map_or(next.clone(), |f| f.meet(&next).0);
        self.fuel.insert(func, met);
        let body = old.body;
        let function = Box::new(Function {
            params,
            ret,
            attrs,
            ..old
        });
        self.frames.push(Frame::Body {
            node,
            function,
            closure,
            name,
            fuel: before,
            mark,
        });
        State::Eval(body)
    }

    /// Copies a kernel, which the residual program contains once for each evaluation of its literal:
    /// each has variables of its own, and the types that the type parameters around it stand for.
    /// Variables from outside have the names of the residual program.
    pub(super) fn kernel(&mut self, literal: ExprId) -> ExprId {
        let mut outside = Vec::new();
        if let Expr::Func(func) = self.edit.m.exprs[literal] {
            let free = self.free.of(&*self.edit.m, literal, func).to_vec();
            let local = self.locals.last().expect("code runs in a function");
            let known = free.into_iter();
            outside.extend(known.filter_map(|v| Some((v, *local.vars.get(&v)?))));
        }
        let mut copier = Copier::new();
        for (var, value) in outside {
            let name = self.name(value);
            copier.values.insert(var, name);
        }
        let local = self.locals.last().expect("code runs in a function");
        copier.types = local.types.clone();
        copier.expr(self.edit.m, literal)
    }

    pub(super) fn fresh(&mut self, old: VarId) -> (VarId, ExprId) {
        let types = &mut self
            .locals
            .last_mut()
            .expect("code runs in a function")
            .types;
        residual::fresh(self.edit.m, types, old)
    }

    pub(super) fn fuel_of(&self, args: &[Value]) -> Fuel {
        let number = |v: Value| match self.known(v) {
            Known::Tensor(t) if t.is_scalar() && t.dtype().is_int() && t.dtype().size() >= 4 => {
                t.get_i64(0).max(0) as u64
            }
            _ => 0,
        };
        Fuel(args.iter().map(|&v| (v, number(v))).collect())
    }

    pub(super) fn refuel(&mut self, func: FuncId, fuel: Option<Fuel>) {
        match fuel {
            Some(fuel) => self.fuel.insert(func, fuel),
            None => self.fuel.remove(&func),
        };
    }
}

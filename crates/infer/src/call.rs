//! Calls: of operators by their relation, of functions by their type.

use relax_base::{Diagnostic, Id, Symbol};
use relax_ir::{
    AdtId, AttrsId, Constraint, CtorId, Expr, ExprId, ExprList, FuncType, GlobalKind, Kind, OpId,
    RelRef, Type, TypeId,
};
use relax_ops::{Arity, RelCx, Stop, registry};

use crate::codes;
use crate::flags::{BAD_SHAPE, COARSE, ERROR, INFER};
use crate::queue::{RelKind, State};
use crate::solver::Solver;
use crate::task::Task;
use crate::unknown::{Site, Sol};
use crate::{Check, CheckKind};

impl Solver<'_> {
    pub fn finish_call(&mut self, e: ExprId, callee: ExprId, args: ExprList) -> TypeId {
        let m = self.m;
        let (attrs, type_args) = match &m.exprs[e] {
            Expr::Call {
                attrs, type_args, ..
            } => (*attrs, m.type_args(*type_args)),
            _ => (AttrsId::NONE, &[][..]),
        };
        match m.exprs[callee] {
            Expr::Op(op) if op.user_index().is_none() => {
                if !registry().get(op).is_some_and(|d| d.hooks.told) {
                    return self.operator_call(e, op, args, attrs, type_args);
                }
                let annotated = self.annotated(e).filter(|_| type_args.is_empty());
                let given = annotated.as_ref().map_or(type_args, std::slice::from_ref);
                let ty = self.operator_call(e, op, args, attrs, given);
                if annotated.is_some() {
                    // The same call may be bound to another variable next time.
                    self.plain.remove(e);
                }
                if ty == self.error {
                    return ty;
                }
                if annotated != Some(self.object) {
                    self.packed.push(e);
                }
                self.told(e, ty, given)
            }
            Expr::Op(op) => {
                let ty = self.operator_type(op);
                self.apply(e, ty, args, type_args)
            }
            Expr::Ctor(c) => {
                let ty = self.constructor_type(c);
                self.apply(e, ty, args, type_args)
            }
            // An opaque call declares its result type.
            Expr::Extern(_) if !type_args.is_empty() => type_args[0],
            Expr::Extern(_) => {
                if let Some(ty) = self.annotated(e) {
                    if ty != self.object {
                        self.packed.push(e);
                    }
                    return ty;
                }
                self.packed.push(e);
                // One type, which the program determines, or else `Object`: a function that returns
                // it has none of its own for each call.
                let level = std::mem::take(&mut self.level);
                let ty = self.fresh();
                self.level = level;
                self.told(e, ty, type_args)
            }
            Expr::Global(g) => {
                let ty = self.global_type(g);
                if let GlobalKind::Prim(_) = m.globals[g].kind {
                    if m.is_script() {
                        // As in TVM's lowered form: the program writes into its arguments.
                        return self.unit;
                    }
                    self.say(|r| r.prim_call(e, g));
                    return self.error;
                }
                self.apply(e, ty, args, type_args)
            }
            Expr::Var(v) if self.scheme_of.contains_key(&v) => {
                let scheme = self.scheme_of[&v];
                let ty = self.use_scheme(scheme);
                self.expr_ty[callee.index()] = ty;
                self.walked.push(callee);
                self.apply(e, ty, args, type_args)
            }
            _ => {
                let ty = self.type_of(callee);
                self.apply(e, ty, args, type_args)
            }
        }
    }

    /// Returns the annotation of the variable that is bound to an expression, the one being typed,
    /// if that is a whole type: an unknown result is solved by it at once.
    fn annotated(&mut self, e: ExprId) -> Option<TypeId> {
        let (var, value) = match self.next? {
            Task::Bind(b, i) => {
                let binding = self.m.blocks[b].bindings[i as usize];
                (binding.var, binding.value)
            }
            Task::Value(outer) => match self.m.exprs[outer] {
                Expr::Let { var, value, .. } => (var, value),
                _ => return None,
            },
            _ => return None,
        };
        let ty = self.m.vars[var].ty.filter(|_| value == e)?;
        (self.flags(ty) & (INFER | ERROR | BAD_SHAPE) == 0).then_some(ty)
    }

    /// Types a call that declares its result types: a single type, or the fields of a tuple.
    fn told(&mut self, e: ExprId, ty: TypeId, given: &[TypeId]) -> TypeId {
        if given.is_empty() {
            return ty;
        }
        let want = self.told_type(given);
        self.site = Site::Rel(e);
        match self.unify(ty, want) {
            Ok(()) => want,
            Err(_) => self.error,
        }
    }

    /// Returns the type of a result that is told as these types.
    fn told_type(&mut self, given: &[TypeId]) -> TypeId {
        match given {
            [one] => *one,
            several => self.types.tuple(several),
        }
    }

    /// Types a call of a built-in operator. The hot path: if all argument types are known, the
    /// relation concludes at once and nothing is put on the work list. `told` are the types that a
    /// call of an operator that is told its result gives.
    fn operator_call(
        &mut self,
        e: ExprId,
        op: OpId,
        args: ExprList,
        attrs: AttrsId,
        told: &[TypeId],
    ) -> TypeId {
        let Some(def) = registry().get(op) else {
            return self.error;
        };
        let m = self.m;
        self.plain.remove(e);
        let list = m.list(args);
        let enough = match def.arity {
            Arity::Fixed => list.len() == def.inputs.len(),
            Arity::AtLeast => list.len() >= def.inputs.len(),
        };
        if !enough {
            let (n, found) = (def.inputs.len(), list.len());
            let d = Diagnostic::error(
                codes::ARG_COUNT,
                self.span(e),
                format!("`{}` takes {n} arguments, and {found} are given", def.name),
            );
            self.report(d);
            return self.error;
        }
        let mut buffer = [TypeId(0); 8];
        let mut long;
        let types: &mut [TypeId] = if list.len() <= buffer.len() {
            &mut buffer[..list.len()]
        } else {
            long = vec![TypeId(0); list.len()];
            &mut long
        };
        let mut flags = 0;
        for (slot, &a) in types.iter_mut().zip(list) {
            let mut t = self.type_of(a);
            let mut f = self.flags(t);
            if f & INFER != 0 {
                t = self.resolve(t);
                f = self.flags(t);
            }
            *slot = t;
            flags |= f;
        }
        if flags & ERROR != 0 {
            self.excuse_all(list);
            return self.error;
        }
        self.cur_call = e;
        self.site = Site::Rel(e);
        if flags & INFER == 0 && !self.has_rigid(types) {
            let known = (self.known_call(e, list, types)).or_else(|| {
                let answer = self.relation_cache.find(m, op, types, attrs);
                answer.filter(|_| told.is_empty())
            });
            if let Some(ty) = known {
                self.plain.insert(e);
                return ty;
            }
            let before = self.before_relation();
            let (out, id) = self.scratch;
            let mut cx = RelCx {
                host: self,
                name: def.name,
                args: types,
                out,
                attrs: m.attrs(attrs),
            };
            return match def.relate(&mut cx) {
                Ok(()) if !told.is_empty() && self.did_nothing(before, id) => {
                    // The result is what is told, whatever the arguments are.
                    let ty = self.told_type(told);
                    if self.flags(ty) & INFER == 0 {
                        self.plain.insert(e);
                    }
                    ty
                }
                Ok(()) => {
                    let ty = self.resolve(out);
                    if self.flags(ty) & INFER == 0 {
                        // No argument has unknowns, so nothing else can refer to this one.
                        let level = self.level;
                        let u = &mut self.unknowns[id as usize];
                        u.sol = Sol::Open;
                        u.level = level;
                        self.keep_answer(before, e, op, types, attrs, ty);
                    } else {
                        self.new_scratch();
                    }
                    ty
                }
                Err(Stop::Refuse(r)) => {
                    self.unknowns[id as usize].sol = Sol::Open;
                    self.refused(&RelKind::Op(op, attrs), types, out, e, &r);
                    self.unknowns[id as usize].sol = Sol::Open;
                    self.error
                }
                Err(Stop::Wait) => {
                    self.new_scratch();
                    self.defer(RelKind::Op(op, attrs), types, out)
                }
            };
        }
        let out = self.fresh();
        match self.run_relation(&RelKind::Op(op, attrs), types, out, e) {
            Ok(()) => self.head(out),
            Err(Stop::Refuse(r)) => {
                self.refused(&RelKind::Op(op, attrs), types, out, e, &r);
                self.error
            }
            Err(Stop::Wait) => self.defer(RelKind::Op(op, attrs), types, out),
        }
    }

    fn has_rigid(&self, types: &[TypeId]) -> bool {
        !self.assumptions.is_empty()
            && types
                .iter()
                .any(|&t| matches!(self.types[t], Type::Param(_)))
    }

    /// Puts a waiting relation on the work list.
    fn defer(&mut self, kind: RelKind, args: &[TypeId], out: TypeId) -> TypeId {
        let id = self.add_rel(kind.clone(), args.into(), out);
        // It has just run: it need not run again before something changes.
        let queued = self.queue.ready.pop_back();
        debug_assert_eq!(queued, Some(id));
        self.queue.rels[id as usize].state = State::Waiting;
        if !self.watch(id, &kind, args, out) {
            self.give_up(id);
        }
        self.head(out)
    }

    /// Checks the arguments of a call against the parameters of a function; returns whether any
    /// does not fit, and whether any has an error of its own.
    fn pass_arguments(
        &mut self,
        e: ExprId,
        f: &FuncType,
        list: &[ExprId],
        generic: bool,
    ) -> (bool, bool) {
        let mut clashed = false;
        let mut poisoned = false;
        self.cur_call = e;
        for (i, (&a, &want)) in list.iter().zip(f.args.iter()).enumerate() {
            let have = self.type_of(a);
            poisoned |= self.types[have] == Type::Error;
            if have == want || self.types[want] == Type::Object {
                continue;
            }
            self.site = Site::Arg {
                call: e,
                index: i as u32,
            };
            match self.unify(have, want) {
                Ok(()) if self.coarse => self.record_cast(a, have, want),
                Ok(()) => {}
                Err(clash) => {
                    let first = !clashed || !generic;
                    clashed = true;
                    if first {
                        self.report_clash(have, want, &clash);
                    }
                }
            }
        }
        (clashed, poisoned)
    }

    /// Types a call of a value with a function type.
    fn apply(&mut self, e: ExprId, ty: TypeId, args: ExprList, given: &[TypeId]) -> TypeId {
        let m = self.m;
        let list = m.list(args);
        let mut ty = self.head(ty);
        if let Type::Infer(_) = self.types[ty] {
            // A function that takes these arguments, with any result.
            let ret = self.fresh();
            let func = FuncType {
                params: Box::default(),
                dims: Box::default(),
                args: list.iter().map(|&a| self.type_of(a)).collect(),
                ret,
                constraints: Box::default(),
            };
            let func = self.types.intern(Type::Func(Box::new(func)));
            self.site = Site::Callee(e);
            if let Err(clash) = self.unify(ty, func) {
                self.report_clash(ty, func, &clash);
                return self.error;
            }
            return ret;
        }
        if self.flags(ty) & INFER != 0 {
            ty = self.resolve(ty);
        }
        let Type::Func(f) = &self.types[ty] else {
            if self.types[ty] != Type::Error {
                self.say(|r| r.not_function(e, ty));
            }
            self.excuse_all(list);
            return self.error;
        };
        let generic = !(f.params.is_empty() && f.dims.is_empty());
        let (arity, ret, params) = (f.args.len(), f.ret, f.params.len() + f.dims.len());
        if given.len() > params {
            self.say(|r| r.type_arg_count(e, given.len(), params));
            self.excuse_all(list);
            return self.error;
        }
        if let Some((i, t, kind)) = self.wrong_kind(ty, given) {
            self.say(|r| r.type_arg_kind(e, i, t, kind));
            self.excuse_all(list);
            return self.error;
        }
        if arity != list.len() {
            self.say(|r| r.arg_count(e, arity, list.len()));
            self.excuse_all(list);
            return if generic { self.error } else { ret };
        }
        let mut result = ret;
        let mut func = ty;
        if generic {
            self.cur_call = e;
            let Some(instance) = self.instantiate_func(ty, given) else {
                return self.error;
            };
            if self.fuel == 0 {
                self.report_fuel(e);
                return self.error;
            }
            func = instance.ty;
            result = match &self.types[func] {
                Type::Func(f) => f.ret,
                _ => self.error,
            };
            self.type_args.insert(e, instance.args);
            if self.is_recursive(e) && self.is_open(ret) {
                result = self.fresh();
                let kind = RelKind::Instance(Box::new(instance.subst));
                self.add_rel(kind, [ret].into(), result);
            }
        }
        if !generic
            && let Type::Func(f) = &self.types[func]
            && f.constraints.is_empty()
            && list
                .iter()
                .zip(&f.args)
                .all(|(&a, &want)| self.type_of(a) == want)
        {
            return result;
        }
        let Type::Func(f) = self.types[func].clone() else {
            return self.error;
        };
        let (clashed, poisoned) = self.pass_arguments(e, &f, list, generic);
        if poisoned && generic {
            // The error in the argument was reported; an error in the result would only follow from
            // it.
            self.excuse_all(list);
            self.solve_queue();
            return self.error;
        }
        if !clashed {
            self.cur_call = e;
            for c in &f.constraints {
                self.add_constraint(c);
            }
        } else if self.is_open(result) {
            return self.error;
        }
        self.solve_queue();
        self.resolve(result)
    }

    /// Returns whether a call is of a function of the group being inferred that has no result
    /// annotation.
    fn is_recursive(&self, e: ExprId) -> bool {
        let Expr::Call { callee, .. } = self.m.exprs[e] else {
            return false;
        };
        match self.m.exprs[callee] {
            Expr::Global(g) => self.open_globals.contains(&g),
            Expr::Var(_) => true,
            _ => false,
        }
    }

    /// Records a run-time check of a value whose type is coarser than its context requires.
    pub fn record_cast(&mut self, value: ExprId, have: TypeId, want: TypeId) {
        let (have, want) = (self.resolve(have), self.resolve(want));
        if self.flags(have) & COARSE != 0 && have != want {
            self.checks.push(Check {
                expr: value,
                kind: CheckKind::HasType(want),
            });
        }
    }

    /// Returns the arguments of a constraint: if the text names none, all arguments and the result.
    pub fn complete_constraint(
        &mut self,
        c: &Constraint,
        args: &[TypeId],
        ret: TypeId,
    ) -> Constraint {
        if !c.args.is_empty() {
            return c.clone();
        }
        Constraint {
            rel: c.rel,
            args: args.iter().copied().chain([ret]).collect(),
        }
    }

    /// Returns a constructor's type as a function.
    pub fn constructor_type(&mut self, c: CtorId) -> TypeId {
        let ctor = &self.m.ctors[c];
        if self.m.damage.adts.contains(&ctor.adt) {
            return self.error;
        }
        let ret = self.adt_type(ctor.adt);
        let params = self.m.adts[ctor.adt].params.clone();
        let func = FuncType {
            params: params.into(),
            dims: Box::default(),
            args: ctor.fields.clone().into(),
            ret,
            constraints: Box::default(),
        };
        self.types.intern(Type::Func(Box::new(func)))
    }

    /// Returns a data type applied to its own parameters.
    fn adt_type(&mut self, adt: AdtId) -> TypeId {
        let params = &self.m.adts[adt].params;
        let args = params
            .iter()
            .map(|&p| self.types.intern(Type::Param(p)))
            .collect();
        self.types.intern(Type::Adt(adt, args))
    }

    /// Returns the type of an operator as a value: its relation over type parameters, or the
    /// signature of an `op` item.
    pub fn operator_type(&mut self, op: OpId) -> TypeId {
        if let Some(user) = self.m.user_op(op) {
            if self.m.damage.user_ops.contains(&op) {
                return self.error;
            }
            let args: Box<[TypeId]> = user.params.iter().map(|p| p.1).collect();
            let mut params = user.type_params.clone();
            let ret = user.ret.unwrap_or_else(|| {
                let p = self.types.param(Symbol::new("r"), Kind::Type);
                params.push(p);
                self.types.intern(Type::Param(p))
            });
            let mut constraints: Vec<Constraint> = (user.constraints.iter())
                .map(|c| self.complete_constraint(c, &args, ret))
                .collect();
            constraints.extend(self.item_relation(op, &args, ret));
            let func = FuncType {
                params: params.into(),
                dims: user.dims.clone().into(),
                args,
                ret,
                constraints: constraints.into(),
            };
            return self.types.intern(Type::Func(Box::new(func)));
        }
        let Some(def) = registry().get(op) else {
            return self.error;
        };
        let names = (0..=def.inputs.len()).map(crate::generalise::letter);
        let params: Box<[_]> = names
            .map(|n| self.types.param(Symbol::new(&n), Kind::Type))
            .collect();
        let types: Vec<TypeId> = params
            .iter()
            .map(|&p| self.types.intern(Type::Param(p)))
            .collect();
        let rel = match registry().relation_name(op) {
            Some(name) => RelRef::Builtin(name.into()),
            None => RelRef::Op(op, AttrsId::NONE),
        };
        let func = FuncType {
            params,
            dims: Box::default(),
            args: types[..def.inputs.len()].into(),
            ret: types[def.inputs.len()],
            constraints: [Constraint {
                rel,
                args: types.clone().into(),
            }]
            .into(),
        };
        self.types.intern(Type::Func(Box::new(func)))
    }
}

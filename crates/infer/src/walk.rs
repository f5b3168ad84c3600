//! The walk over a function's body: every node gets its type, operands first.
//!
//! Invariant: the walk keeps its own stack; a node that several others use is typed once.

use relax_base::Id;
use relax_ir::{
    Binding, DTy, Expr, ExprId, FuncId, FuncType, GlobalId, GlobalKind, Shape, Type, TypeId, VarId,
};
use relax_sym::Dim;

use crate::flags::BAD_SHAPE;
use crate::solver::{OPEN, Solver, UNTYPED};
use crate::task::Task;
use crate::unknown::{Lit, Site};
use crate::way::Way;

impl Solver<'_> {
    /// Types the body of a function and everything in it.
    pub fn walk_function(&mut self, f: FuncId) {
        let mut stack = Vec::new();
        self.enter_function(f, &mut stack);
        while let Some(task) = stack.pop() {
            match task {
                Task::Visit(e) => self.visit(e, &mut stack),
                Task::Finish(e) => {
                    self.next = stack.last().copied();
                    let ty = self.finish(e);
                    self.set_expr(e, ty);
                    self.note_whole(e);
                }
                Task::Value(e) => self.let_value(e, &mut stack),
                Task::End(e) => self.end(e),
                Task::Guard(e) => self.guard(e),
                Task::Clauses(e) => self.clauses(e, &mut stack),
                Task::Function(f) => self.leave_function(f),
                Task::Bind(b, i) => {
                    let Binding { var, value } = self.m.blocks[b].bindings[i as usize];
                    self.bind(var, value);
                }
            }
            if !self.queue.ready.is_empty() {
                self.solve_queue();
            }
        }
    }

    /// Records the type of an expression; reports a shape that no tensor can have.
    fn set_expr(&mut self, e: ExprId, ty: TypeId) {
        let ty = if self.flags(ty) & BAD_SHAPE != 0 {
            self.report_bad_shape(e, ty);
            self.error
        } else {
            ty
        };
        self.expr_ty[e.index()] = ty;
    }

    /// Returns the type found for an expression, with solved unknowns at its head replaced.
    pub fn type_of(&self, e: ExprId) -> TypeId {
        match self.expr_ty[e.index()] {
            UNTYPED | OPEN => self.error,
            t => self.head(t),
        }
    }

    /// Excuses the types of some expressions.
    pub fn excuse_all(&mut self, list: &[relax_ir::ExprId]) {
        for &e in list {
            let t = self.type_of(e);
            self.excuse(t);
        }
    }

    fn push(&self, e: ExprId, stack: &mut Vec<Task>) {
        if self.expr_ty[e.index()] == UNTYPED {
            stack.push(Task::Visit(e));
        }
    }

    /// The same for an operand that is evaluated next: a variable that has a type needs no task.
    fn push_operand(&mut self, e: ExprId, stack: &mut Vec<Task>) {
        if self.expr_ty[e.index()] != UNTYPED {
            return;
        }
        if let Expr::Var(v) = self.m.exprs[e]
            && self.scheme_of.is_empty()
            && self.var_ty[v.index()] != UNTYPED
        {
            let ty = self.var_ty[v.index()];
            if self.flags(ty) & BAD_SHAPE == 0 {
                self.walked.push(e);
                self.expr_ty[e.index()] = ty;
                return;
            }
        }
        stack.push(Task::Visit(e));
    }

    fn visit(&mut self, e: ExprId, stack: &mut Vec<Task>) {
        if self.expr_ty[e.index()] != UNTYPED {
            return;
        }
        self.walked.push(e);
        if self.settled(e) {
            return;
        }
        self.note_effect(e);
        self.expr_ty[e.index()] = OPEN;
        let m = self.m;
        let leaf = match &m.exprs[e] {
            Expr::Var(v) => self.use_var(*v),
            Expr::Global(g) => self.global_type(*g),
            Expr::Op(op) => self.operator_type(*op),
            Expr::Ctor(c) => self.constructor_type(*c),
            Expr::Extern(_) => self.object,
            Expr::Const(c) => self.constant_type(e, *c),
            Expr::Error => self.error,
            Expr::Shape(dims) => self.known_shape(e).unwrap_or_else(|| {
                let shape = Shape::Dims(dims.clone());
                let ty = self.types.intern(Type::Shape(shape));
                self.check_shape_value(e, dims);
                ty
            }),
            Expr::Func(f) => {
                stack.push(Task::Finish(e));
                self.enter_function(*f, stack);
                return;
            }
            Expr::Call { callee, args, .. } => {
                let direct = match &m.exprs[*callee] {
                    Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) | Expr::Global(_) => true,
                    // Each use has its own copy of the function's type.
                    Expr::Var(v) => self.scheme_of.contains_key(v),
                    _ => false,
                };
                stack.push(Task::Finish(e));
                for &a in m.list(*args).iter().rev() {
                    self.push_operand(a, stack);
                }
                if !direct {
                    self.push(*callee, stack);
                }
                return;
            }
            Expr::Tuple(fields) => {
                stack.push(Task::Finish(e));
                for &a in m.list(*fields).iter().rev() {
                    self.push_operand(a, stack);
                }
                return;
            }
            Expr::Let { var, value, .. } => {
                stack.push(Task::Value(e));
                self.before_let(*var, *value);
                self.push(*value, stack);
                return;
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                stack.push(Task::Finish(e));
                self.push(*otherwise, stack);
                self.push(*then, stack);
                stack.push(Task::Guard(e));
                self.push(*cond, stack);
                return;
            }
            Expr::Match { value, .. } => {
                stack.push(Task::Clauses(e));
                self.push(*value, stack);
                return;
            }
            Expr::Dataflow { block, body } => {
                stack.push(Task::End(e));
                self.push(*body, stack);
                for (i, b) in m.blocks[*block].bindings.iter().enumerate().rev() {
                    stack.push(Task::Bind(*block, i as u32));
                    self.push(b.value, stack);
                }
                return;
            }
            Expr::RefWrite(cell, value) => {
                stack.push(Task::Finish(e));
                self.push(*value, stack);
                self.push(*cell, stack);
                return;
            }
            Expr::Proj { tuple: part, .. }
            | Expr::RefNew(part)
            | Expr::RefRead(part)
            | Expr::MatchShape { value: part, .. }
            | Expr::MatchCast { value: part, .. } => {
                stack.push(Task::Finish(e));
                self.push(*part, stack);
                return;
            }
        };
        self.set_expr(e, leaf);
    }

    fn finish(&mut self, e: ExprId) -> TypeId {
        let m = self.m;
        match &m.exprs[e] {
            Expr::Call { callee, args, .. } => self.finish_call(e, *callee, *args),
            Expr::Tuple(fields) => {
                if let Some(known) = self.known_tuple(e, *fields) {
                    return known;
                }
                let fields: Vec<TypeId> =
                    m.list(*fields).iter().map(|&f| self.type_of(f)).collect();
                self.types.tuple(fields)
            }
            Expr::Proj { tuple, index } => self.projection(e, *tuple, *index),
            Expr::Func(f) => self.func_ty[f.index()],
            Expr::If {
                then, otherwise, ..
            } => {
                let (a, b) = (self.type_of(*then), self.type_of(*otherwise));
                self.site = Site::Branches(e);
                match self.unify_as(b, a, Way::Join) {
                    Ok(()) if self.coarse || self.narrowed => {
                        let joined = self.join(a, b);
                        if self.coarse {
                            self.coarsen(*then, joined);
                            self.coarsen(*otherwise, joined);
                        }
                        joined
                    }
                    Ok(()) => self.head(a),
                    Err(clash) => {
                        self.report_clash(b, a, &clash);
                        self.error
                    }
                }
            }
            Expr::RefNew(value) => {
                let ty = self.type_of(*value);
                self.types.intern(Type::Ref(ty))
            }
            Expr::RefRead(cell) => self.cell(e, *cell),
            Expr::RefWrite(cell, value) => {
                let held = self.cell(e, *cell);
                let given = self.type_of(*value);
                self.site = Site::Cell(e);
                if let Err(clash) = self.unify(given, held) {
                    self.report_clash(given, held, &clash);
                }
                self.unit
            }
            Expr::MatchShape { value, dims } => self.match_shape(e, *value, dims),
            Expr::MatchCast { value, ty } => self.match_cast(e, *value, *ty),
            _ => self.error,
        }
    }

    /// Gives an expression the coarser type where a finer and a coarser one meet, as in TVM.
    pub fn coarsen(&mut self, e: ExprId, ty: TypeId) {
        if !matches!(self.m.exprs[e], Expr::Var(_)) {
            self.expr_ty[e.index()] = ty;
            self.plain.remove(e);
            self.whole.remove(e);
        }
    }

    /// Returns the content type of a reference cell.
    fn cell(&mut self, e: ExprId, cell: ExprId) -> TypeId {
        let ty = self.type_of(cell);
        match &self.types[ty] {
            Type::Ref(t) => *t,
            Type::Error => self.error,
            _ => {
                let held = self.fresh();
                let want = self.types.intern(Type::Ref(held));
                self.site = Site::Cell(e);
                if let Err(clash) = self.unify(ty, want) {
                    self.report_clash(ty, want, &clash);
                    return self.error;
                }
                held
            }
        }
    }

    fn end(&mut self, e: ExprId) {
        let ty = match &self.m.exprs[e] {
            Expr::Let { body, .. } | Expr::Dataflow { body, .. } => self.expr_ty[body.index()],
            Expr::Match { clauses, .. } => {
                let mut ty = None;
                for (i, c) in clauses.iter().enumerate() {
                    let own = self.type_of(c.body);
                    let Some(first) = ty else {
                        ty = Some(own);
                        continue;
                    };
                    self.site = Site::Clause {
                        of: e,
                        index: i as u32,
                    };
                    match self.unify_as(own, first, Way::Join) {
                        Ok(()) if self.coarse || self.narrowed => ty = Some(self.join(first, own)),
                        Ok(()) => {}
                        Err(clash) => {
                            self.report_clash(own, first, &clash);
                            ty = Some(self.error);
                            break;
                        }
                    }
                }
                self.check_coverage(e);
                match ty {
                    Some(t) => t,
                    None => self.fresh(),
                }
            }
            _ => self.error,
        };
        self.expr_ty[e.index()] = ty;
    }

    fn guard(&mut self, e: ExprId) {
        let Expr::If { cond, .. } = &self.m.exprs[e] else {
            return;
        };
        let (ty, want) = (self.type_of(*cond), self.bool_);
        if ty != want {
            self.site = Site::Cond(e);
            if let Err(clash) = self.unify(ty, want) {
                self.report_clash(ty, want, &clash);
            }
        }
    }

    fn clauses(&mut self, e: ExprId, stack: &mut Vec<Task>) {
        let m = self.m;
        let Expr::Match { value, clauses, .. } = &m.exprs[e] else {
            return;
        };
        let ty = self.type_of(*value);
        stack.push(Task::End(e));
        for c in clauses.iter().rev() {
            self.push(c.body, stack);
        }
        for c in clauses {
            self.bind_pattern(e, c.pattern, ty);
        }
    }

    /// Returns the type of a variable at a use.
    fn use_var(&mut self, v: VarId) -> TypeId {
        if let Some(&scheme) = self.scheme_of.get(&v) {
            return self.use_scheme(scheme);
        }
        self.declare_var(v)
    }

    /// Returns the type of a variable: its annotation, or an unknown.
    pub fn declare_var(&mut self, v: VarId) -> TypeId {
        if self.var_ty[v.index()] == UNTYPED {
            let ty = match self.m.vars[v].ty {
                Some(t) => {
                    let bad = self.flags(t) & BAD_SHAPE != 0;
                    if bad {
                        self.report_bad_annotation(self.m.vars[v].span, t);
                        self.error
                    } else {
                        t
                    }
                }
                None => self.fresh(),
            };
            self.set_var(v, ty);
        }
        self.var_ty[v.index()]
    }

    /// Gives a variable a type, for the first time or anew.
    pub fn set_var(&mut self, v: VarId, ty: TypeId) {
        let was = std::mem::replace(&mut self.var_ty[v.index()], ty);
        if was == UNTYPED {
            self.bound.push(v);
        }
    }

    /// Declares a let-bound function before its value is typed, since it may refer to itself.
    fn before_let(&mut self, var: VarId, value: ExprId) {
        if let Expr::Func(f) = self.m.exprs[value]
            && self.expr_ty[value.index()] == UNTYPED
        {
            self.moved = true;
            self.begin_scheme(f);
            let sig = self.signature(f);
            if self.m.vars[var].ty.is_none() {
                self.set_var(var, sig);
            } else {
                self.declare_var(var);
            }
        }
    }

    fn let_value(&mut self, e: ExprId, stack: &mut Vec<Task>) {
        let Expr::Let { var, value, body } = self.m.exprs[e] else {
            return;
        };
        self.bind(var, value);
        if let Expr::Func(f) = self.m.exprs[value] {
            self.end_scheme(var, f);
        }
        stack.push(Task::End(e));
        self.push(body, stack);
    }

    /// Gives a variable the type of its value, which must agree with its annotation.
    fn bind(&mut self, var: VarId, value: ExprId) {
        self.bind_value(var, value);
        self.compare_var(var);
    }

    fn bind_value(&mut self, var: VarId, value: ExprId) {
        let ty = self.type_of(value);
        let Some(annotated) = self.m.vars[var].ty else {
            self.set_var(var, ty);
            return;
        };
        let want = self.declare_var(var);
        if ty == want || self.types[want] == Type::Object {
            return;
        }
        // An annotation `Shape` only requires that the value is a shape, and keeps its dimensions.
        if let (Type::Shape(_), Type::Shape(relax_ir::Shape::Unknown)) =
            (&self.types[ty], &self.types[want])
        {
            self.var_ty[var.index()] = ty;
            return;
        }
        self.site = Site::Bound { var, value };
        match self.unify(ty, want) {
            Ok(()) => {
                if self.coarse {
                    self.record_cast(value, ty, want);
                    let joined = self.join(want, ty);
                    self.var_ty[var.index()] = joined;
                    self.coarsen(value, joined);
                }
            }
            Err(clash) => {
                self.report_clash(ty, annotated, &clash);
            }
        }
    }

    fn projection(&mut self, e: ExprId, tuple: ExprId, index: u32) -> TypeId {
        let ty = self.type_of(tuple);
        match &self.types[ty] {
            Type::Tuple(fields) if (index as usize) < fields.len() => {
                let field = fields[index as usize];
                self.head(field)
            }
            Type::Error => self.error,
            _ => {
                let out = self.fresh();
                self.cur_call = e;
                let kind = crate::queue::RelKind::Proj(index);
                self.add_rel(kind, [ty].into(), out);
                self.solve_queue();
                self.head(out)
            }
        }
    }

    fn constant_type(&mut self, e: ExprId, c: relax_ir::ConstId) -> TypeId {
        let value = &self.m.consts[c];
        let dtype = value.dtype();
        let plain = self.m.literals.get(&c).copied().unwrap_or(false) && !dtype.is_bool();
        let dtype = if plain {
            let lit = if dtype.is_float() {
                Lit::Float
            } else {
                Lit::Int
            };
            let d = self.fresh_dtype(lit);
            if let DTy::Infer(v) = d {
                self.literal_unknowns.push((e, v));
            }
            d
        } else {
            DTy::Known(dtype)
        };
        let dims: Box<[Dim]> = value.shape().iter().map(|&d| Dim::from(d)).collect();
        self.types.tensor(dims, dtype)
    }

    /// Returns the type of a function as far as its annotations determine it.
    pub fn signature(&mut self, f: FuncId) -> TypeId {
        if self.func_ty[f.index()] != UNTYPED {
            return self.func_ty[f.index()];
        }
        let m = self.m;
        let func = &m.funcs[f];
        let args: Box<[TypeId]> = func.params.iter().map(|&p| self.declare_var(p)).collect();
        func.params.iter().for_each(|&p| self.compare_var(p));
        let ret = match func.ret {
            Some(t) if self.flags(t) & BAD_SHAPE != 0 => {
                self.report_bad_annotation(func.span, t);
                self.error
            }
            Some(t) => t,
            None => self.fresh(),
        };
        let constraints = (func.constraints.iter())
            .map(|c| self.complete_constraint(c, &args, ret))
            .collect();
        let ty = FuncType {
            params: func.type_params.clone().into(),
            dims: func.dims.clone().into(),
            args,
            ret,
            constraints,
        };
        let ty = self.types.intern(Type::Func(Box::new(ty)));
        self.func_ty[f.index()] = ty;
        ty
    }

    fn enter_function(&mut self, f: FuncId, stack: &mut Vec<Task>) {
        let m = self.m;
        let sig = self.signature(f);
        for &d in &m.funcs[f].dims {
            self.dim_owner.insert(d, f);
        }
        if let Type::Func(t) = &self.unifier.types[sig] {
            self.assumptions.extend(t.constraints.iter().cloned());
        }
        self.funcs.push(f);
        stack.push(Task::Function(f));
        self.push(m.funcs[f].body, stack);
    }

    fn leave_function(&mut self, f: FuncId) {
        let m = self.m;
        let func = &m.funcs[f];
        self.solve_queue();
        let body = self.type_of(func.body);
        let body = self.erase_local_dims(f, body);
        let Type::Func(sig) = &self.types[self.func_ty[f.index()]] else {
            return;
        };
        let ret = sig.ret;
        if self.types[ret] != Type::Object {
            self.site = Site::Return(f);
            match self.unify(body, ret) {
                Ok(()) if self.coarse => {
                    self.record_cast(func.body, body, ret);
                    let joined = self.join(ret, body);
                    self.coarsen(func.body, joined);
                    self.give(f, joined);
                }
                Ok(()) => {}
                Err(clash) => {
                    self.report_clash(body, ret, &clash);
                    if self.m.is_script() {
                        self.give(f, body);
                    }
                }
            }
        }
        let here = self.funcs.pop();
        debug_assert_eq!(here, Some(f));
        let keep = self.assumptions.len() - func.constraints.len();
        self.assumptions.truncate(keep);
    }

    /// Returns the type of a global at a use.
    pub fn global_type(&mut self, g: GlobalId) -> TypeId {
        if self.m.damage.globals.contains(&g) {
            return self.error;
        }
        if self.global_ty[g.index()] == UNTYPED {
            self.global_ty[g.index()] = match &self.m.globals[g].kind {
                GlobalKind::Func(f) => return self.signature(*f),
                GlobalKind::Prim(p) => {
                    let p = p.clone();
                    self.program_type(&p)
                }
            };
        }
        self.global_ty[g.index()]
    }
}

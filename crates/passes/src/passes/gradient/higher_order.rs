//! Higher order: any program of tensors, tuples, data, closures, references and control flow.
//!
//! Pearlmutter and Siskind, "Reverse-mode AD in a functional framework" (2008), as TVM does it: each
//! tensor is carried with a cell for its gradient, each function takes one more argument, a cell with
//! the way back so far, and each call of an operator puts a step before that way. The entry runs the
//! program forwards, sets the gradient of its result to ones, and runs the way back.

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    Attrs, Expr, ExprId, FuncId, FuncType, Function, Global, GlobalId, GlobalKind, Module, Shape,
    Type, TypeId, TypeSubst, VarId, VarStyle,
};
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::PassCx;
use crate::build::gradients;
use crate::edit::Edit;
use crate::passes::a_normal_form::{Order, normal_form};
use crate::util::{copied_clauses, dissolve_blocks, is_external, is_primitive};

type Failure = (Span, String);

pub(super) fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let name = cx.options.text("entry").to_owned();
    let Some(entry) = cx.module.global(&name) else {
        return Err(cx.unsupported(Span::NONE, format!("there is no function `@{name}`")));
    };
    let graph = cx.module.call_graph();
    let (mut reached, mut work) = (vec![entry], vec![entry]);
    while let Some(g) = work.pop() {
        for &next in graph.get(&g).into_iter().flatten() {
            if !reached.contains(&next) {
                reached.push(next);
                work.push(next);
            }
        }
    }
    for &global in &reached {
        let Some(func) = cx.module.global_func(global) else {
            continue;
        };
        let body = dissolve_blocks(cx.module, cx.module.funcs[func].body);
        let new = normal_form(cx.module, body, Order::ArgumentsFirst, |_, _| true);
        cx.module.set_global_body(global, new);
    }
    let typing = cx.typing()?;
    let mut reverse = Reverse::new(cx.module, &typing);
    match reverse.entry(entry) {
        Ok(count) => {
            cx.count("functions differentiated", count);
            Ok(())
        }
        Err((span, message)) => Err(cx.unsupported(span, message)),
    }
}

/// Bindings in the making.
type List = Vec<(VarId, ExprId)>;

struct Reverse<'m, 't> {
    edit: Edit<'m>,
    typing: &'t Typing,
    /// Functions of the new program have type parameters and dimension variables of their own.
    subst: TypeSubst,
    types: FxHashMap<TypeId, TypeId>,
    vars: FxHashMap<VarId, ExprId>,
    globals: FxHashMap<GlobalId, GlobalId>,
    work: Vec<GlobalId>,
    memo: FxHashMap<ExprId, ExprId>,
    /// The cell with the way back, by the expression that is evaluated with it at hand.
    back: FxHashMap<ExprId, ExprId>,
    /// The parameter of each function literal for that cell. Literals may have one body: `%x`, say.
    params: FxHashMap<ExprId, ExprId>,
    unit: TypeId,
    /// The type of a way back, and of a cell with one.
    step: TypeId,
    cell: TypeId,
}

impl<'m, 't> Reverse<'m, 't> {
    fn new(m: &'m mut Module, typing: &'t Typing) -> Self {
        let unit = m.types.tuple(Vec::new());
        let step = m.types.intern(Type::Func(Box::new(FuncType {
            params: Box::default(),
            dims: Box::default(),
            args: Box::default(),
            ret: unit,
            constraints: Box::default(),
        })));
        let cell = m.types.intern(Type::Ref(step));
        Reverse {
            edit: Edit::new(m, typing),
            typing,
            subst: TypeSubst::new(),
            types: FxHashMap::default(),
            vars: FxHashMap::default(),
            globals: FxHashMap::default(),
            work: Vec::new(),
            memo: FxHashMap::default(),
            back: FxHashMap::default(),
            params: FxHashMap::default(),
            unit,
            step,
            cell,
        }
    }

    fn refuse(&self, at: ExprId, why: &str) -> Failure {
        (
            self.edit.m.span(at),
            format!("there is no gradient here: {why}"),
        )
    }

    // ---- building

    fn add(&mut self, e: Expr) -> ExprId {
        self.edit.m.add(e, Span::NONE)
    }
    fn bind(&mut self, list: &mut List, value: ExprId) -> ExprId {
        let (var, e) = self.edit.m.fresh_var("x", None, VarStyle::Let);
        let ty = self.edit.ty(value);
        self.edit.set_ty(e, ty);
        list.push((var, value));
        e
    }
    fn close(&mut self, list: List, value: ExprId) -> ExprId {
        list.into_iter().rev().fold(value, |body, (var, value)| {
            self.add(Expr::Let { var, value, body })
        })
    }
    fn field(&mut self, tuple: ExprId, index: u32) -> ExprId {
        self.add(Expr::Proj { tuple, index })
    }
    fn call(&mut self, op: &'static str, args: &[ExprId]) -> ExprId {
        self.edit.call(op, args, &[], Span::NONE)
    }
    fn step(&mut self, body: ExprId) -> ExprId {
        let func = self.edit.m.funcs.push(Function {
            type_params: Vec::new(),
            dims: Vec::new(),
            params: Vec::new(),
            ret: Some(self.unit),
            constraints: Vec::new(),
            body,
            attrs: Attrs::new(),
            span: Span::NONE,
        });
        let e = self.add(Expr::Func(func));
        self.edit.set_ty(e, self.step);
        e
    }

    /// Maps the tensors of a value, through tuples. `None` where something else is in it.
    fn lift(
        &mut self,
        ty: TypeId,
        e: ExprId,
        list: &mut List,
        mut leaf: impl FnMut(&mut Self, &mut List, ExprId, TypeId) -> ExprId,
    ) -> Option<ExprId> {
        let mut done: Vec<ExprId> = Vec::new();
        let mut work = vec![(ty, e, false)];
        while let Some((ty, e, ready)) = work.pop() {
            match self.edit.m.types[ty].clone() {
                Type::Tensor(_) => {
                    let new = leaf(self, list, e, ty);
                    let new = self.bind(list, new);
                    done.push(new);
                }
                Type::Tuple(fields) if ready => {
                    let parts = done.split_off(done.len() - fields.len());
                    let types: Vec<TypeId> = parts.iter().map(|&p| self.edit.ty(p)).collect();
                    let tuple = self.edit.m.tuple(&parts, Span::NONE);
                    let ty = self.edit.m.types.tuple(types);
                    self.edit.set_ty(tuple, ty);
                    let tuple = self.bind(list, tuple);
                    done.push(tuple);
                }
                Type::Tuple(fields) => {
                    work.push((ty, e, true));
                    for (i, &field) in fields.iter().enumerate().rev() {
                        let part = self.field(e, i as u32);
                        work.push((field, part, false));
                    }
                }
                _ => return None,
            }
        }
        done.pop()
    }

    /// A tensor with a cell of zeros.
    fn carried(&mut self, ty: TypeId, e: ExprId, list: &mut List) -> Option<ExprId> {
        self.lift(ty, e, list, |this, list, e, ty| {
            this.edit.set_ty(e, ty);
            let e = this.bind(list, e);
            let zeros = this.call("zeros_like", &[e]);
            let cell = this.add(Expr::RefNew(zeros));
            this.edit.m.tuple(&[e, cell], Span::NONE)
        })
    }
    /// The value of what is carried.
    fn value(&mut self, ty: TypeId, e: ExprId, list: &mut List) -> Option<ExprId> {
        self.lift(ty, e, list, |this, _, e, ty| {
            let value = this.field(e, 0);
            this.edit.set_ty(value, ty);
            value
        })
    }
    /// The gradient of what is carried.
    fn grad(&mut self, ty: TypeId, e: ExprId, list: &mut List) -> Option<ExprId> {
        self.lift(ty, e, list, |this, _, e, ty| {
            let cell = this.field(e, 1);
            let grad = this.add(Expr::RefRead(cell));
            this.edit.set_ty(grad, ty);
            grad
        })
    }
    /// Adds a gradient to that of what is carried.
    fn update(&mut self, ty: TypeId, e: ExprId, grad: ExprId, list: &mut List) {
        let mut work = vec![(ty, e, grad)];
        while let Some((ty, e, grad)) = work.pop() {
            match self.edit.m.types[ty].clone() {
                Type::Tuple(fields) => {
                    for (i, &field) in fields.iter().enumerate().rev() {
                        let e = self.field(e, i as u32);
                        let grad = self.edit.field(grad, i as u32, Span::NONE);
                        work.push((field, e, grad));
                    }
                }
                _ if !self.has_float(ty) => {}
                _ => {
                    let cell = self.field(e, 1);
                    let cell = self.bind(list, cell);
                    let old = self.add(Expr::RefRead(cell));
                    self.edit.set_ty(old, ty);
                    let sum = self.call("add", &[old, grad]);
                    let write = self.add(Expr::RefWrite(cell, sum));
                    self.bind(list, write);
                }
            }
        }
    }

    /// Whether a float may be in it: only floats have gradients.
    fn has_float(&self, ty: TypeId) -> bool {
        let mut work = vec![ty];
        while let Some(t) = work.pop() {
            match &self.edit.m.types[t] {
                Type::Tensor(t) if t.dtype.known().is_none_or(|d| d.is_float()) => return true,
                Type::Tuple(fields) => work.extend(fields.iter()),
                _ => {}
            }
        }
        false
    }

    // ---- types

    /// A type of the program in the new program, where nothing is carried.
    fn same_type(&mut self, ty: TypeId) -> TypeId {
        self.subst.ty(&mut self.edit.m.types, ty)
    }

    /// The type of what is carried in place of a type.
    fn carried_type(&mut self, root: TypeId) -> TypeId {
        let root = self.same_type(root);
        let mut stack = vec![(root, false)];
        while let Some((ty, expanded)) = stack.pop() {
            if self.types.contains_key(&ty) {
                continue;
            }
            if !expanded {
                stack.push((ty, true));
                let children = self.edit.m.types.children(ty);
                stack.extend(children.into_iter().map(|c| (c, false)));
                continue;
            }
            let all =
                |list: &[TypeId]| -> Vec<TypeId> { list.iter().map(|t| self.types[t]).collect() };
            let new = match &self.edit.m.types[ty] {
                Type::Tensor(_) => {
                    let cell = self.edit.m.types.intern(Type::Ref(ty));
                    self.edit.m.types.tuple(vec![ty, cell])
                }
                Type::Tuple(fields) => {
                    let fields = all(fields);
                    self.edit.m.types.tuple(fields)
                }
                Type::Adt(adt, args) => {
                    let new = Type::Adt(*adt, all(args).into());
                    self.edit.m.types.intern(new)
                }
                Type::Ref(t) => {
                    let new = Type::Ref(self.types[t]);
                    self.edit.m.types.intern(new)
                }
                Type::Func(f) => {
                    let mut args = all(&f.args);
                    args.push(self.cell);
                    let new = FuncType {
                        args: args.into(),
                        ret: self.types[&f.ret],
                        ..(**f).clone()
                    };
                    self.edit.m.types.intern(Type::Func(Box::new(new)))
                }
                _ => ty,
            };
            self.types.insert(ty, new);
        }
        self.types[&root]
    }

    /// Whether a type can be written as an annotation.
    fn written(&self, ty: TypeId) -> bool {
        let mut work = vec![ty];
        while let Some(t) = work.pop() {
            match &self.edit.m.types[t] {
                Type::Infer(_) | Type::Error => return false,
                Type::Func(f) if !f.params.is_empty() || !f.dims.is_empty() => return false,
                Type::Tensor(t)
                    if matches!(t.shape, Shape::Infer(_))
                        || matches!(t.dtype, relax_ir::DTy::Infer(_)) =>
                {
                    return false;
                }
                _ => work.extend(self.edit.m.types.children(t)),
            }
        }
        true
    }

    /// The variable of the new program.
    fn var(&mut self, old: VarId) -> ExprId {
        if let Some(&e) = self.vars.get(&old) {
            return e;
        }
        let var = self.edit.m.vars[old].clone();
        let ty = self.carried_type(self.typing.vars[old]);
        let ty = self.written(ty).then_some(ty);
        let (new, e) = self.edit.m.fresh_var(var.name, ty, var.style);
        self.edit.m.vars[new].span = var.span;
        self.vars.insert(old, e);
        e
    }
    fn var_id(&mut self, old: VarId) -> VarId {
        let e = self.var(old);
        match self.edit.m.exprs[e] {
            Expr::Var(v) => v,
            _ => unreachable!("variables are kept as references"),
        }
    }

    // ---- functions

    fn fresh_global(&mut self, like: GlobalId) -> Symbol {
        let base = format!("{}_grad", self.edit.m.globals[like].name);
        let mut name = base.clone();
        let mut n = 0;
        while self.edit.m.global(&name).is_some() {
            n += 1;
            name = format!("{base}{n}");
        }
        Symbol::from(&*name)
    }

    /// The carried form of a global, made when the work list comes to it.
    fn global(&mut self, at: ExprId, old: GlobalId) -> Result<GlobalId, Failure> {
        if let Some(&new) = self.globals.get(&old) {
            return Ok(new);
        }
        let Some(func) = self.edit.m.global_func(old) else {
            return Err(self.refuse(at, "tensor programs have none"));
        };
        let name = self.fresh_global(old);
        let global = Global {
            name,
            kind: GlobalKind::Func(func),
            span: self.edit.m.globals[old].span,
            prelude: false,
        };
        let new = self.edit.m.globals.push(global);
        self.globals.insert(old, new);
        self.work.push(old);
        Ok(new)
    }

    /// Differentiates the entry; how many functions were made.
    fn entry(&mut self, entry: GlobalId) -> Result<u64, Failure> {
        let Some(func) = self.edit.m.global_func(entry) else {
            return Err((Span::NONE, "a tensor program has no gradient".into()));
        };
        let function = self.edit.m.funcs[func].clone();
        let body = function.body;
        if !function.type_params.is_empty() {
            return Err(self.refuse(body, "the entry is polymorphic"));
        }
        let carried = self.global(body, entry)?;
        while let Some(old) = self.work.pop() {
            let func = self
                .edit
                .m
                .global_func(old)
                .expect("only functions are listed");
            let new = self.function(func)?;
            let body = self.flat(new.body);
            let new = self.edit.m.funcs.push(Function { body, ..new });
            let global = self.globals[&old];
            self.edit.m.globals[global].kind = GlobalKind::Func(new);
        }

        let mut list = List::new();
        let nothing = self.edit.m.tuple(&[], Span::NONE);
        let end = self.step(nothing);
        let cell = self.add(Expr::RefNew(end));
        let (var, back) = self.edit.m.fresh_var("bp", Some(self.cell), VarStyle::Let);
        list.push((var, cell));
        let only = "a parameter or the result is neither tensor nor tuple of tensors";
        let (mut args, mut types) = (Vec::new(), Vec::new());
        for &p in &function.params {
            let e = self.add(Expr::Var(p));
            let ty = self.typing.vars[p];
            self.edit.set_ty(e, ty);
            let arg = self.carried(ty, e, &mut list);
            args.push(arg.ok_or_else(|| self.refuse(body, only))?);
            types.push(ty);
        }
        let callee = self.add(Expr::Global(carried));
        let mut all = args.clone();
        all.push(back);
        let call = self.edit.m.call(callee, &all, function.span);
        let result = self.bind(&mut list, call);
        let ty = self.typing.exprs[body];
        self.start(ty, result, &mut list)
            .ok_or_else(|| self.refuse(body, only))?;
        let way = self.add(Expr::RefRead(back));
        let way = self.edit.m.call(way, &[], Span::NONE);
        self.bind(&mut list, way);
        let mut grads = Vec::new();
        for (&arg, &ty) in args.iter().zip(&types) {
            let grad = self.grad(ty, arg, &mut list);
            grads.push(grad.ok_or_else(|| self.refuse(body, only))?);
        }
        let value = self.value(ty, result, &mut list);
        let value = value.ok_or_else(|| self.refuse(body, only))?;
        let grads = self.edit.m.tuple(&grads, Span::NONE);
        let pair = self.edit.m.tuple(&[value, grads], Span::NONE);
        let new = self.close(list, pair);
        let new = self.flat(new);
        let ret = function.ret.map(|ret| {
            let grads = self.edit.m.types.tuple(types);
            self.edit.m.types.tuple(vec![ret, grads])
        });
        let new = Function {
            body: new,
            ret,
            ..function
        };
        let new = self.edit.m.funcs.push(new);
        self.edit.m.globals[entry].kind = GlobalKind::Func(new);
        Ok(self.globals.len() as u64)
    }

    /// The same body with one chain of `let`s for each scope. What has no name stays so: calls in tail
    /// position above all, for the way back is long.
    fn flat(&mut self, body: ExprId) -> ExprId {
        normal_form(self.edit.m, body, Order::ArgumentsFirst, |_, _| false)
    }

    /// Sets the gradient of the first tensor of a result to ones.
    fn start(&mut self, ty: TypeId, result: ExprId, list: &mut List) -> Option<()> {
        let (mut ty, mut e) = (ty, result);
        loop {
            match &self.edit.m.types[ty] {
                Type::Tensor(_) => break,
                Type::Tuple(fields) => {
                    ty = *fields.first()?;
                    e = self.field(e, 0);
                }
                _ => return None,
            }
        }
        let value = self.field(e, 0);
        self.edit.set_ty(value, ty);
        let ones = self.call("ones_like", &[value]);
        let cell = self.field(e, 1);
        let write = self.add(Expr::RefWrite(cell, ones));
        self.bind(list, write);
        Some(())
    }

    /// The carried form of a global function.
    fn function(&mut self, func: FuncId) -> Result<Function, Failure> {
        let body = self.edit.m.funcs[func].body;
        let order = self.edit.m.post_order([body]);
        self.bind_types(func);
        for &e in &order {
            if let Expr::Func(f) = self.edit.m.exprs[e] {
                self.bind_types(f);
            }
        }
        self.subst.reset();
        self.types.clear();
        // Which way back is at hand where: from the outside in.
        let back = self.new_back();
        self.back.insert(body, back);
        for &e in order.iter().rev() {
            let Some(&here) = self.back.get(&e) else {
                continue;
            };
            let inner = match self.edit.m.exprs[e] {
                Expr::Func(_) => {
                    let param = self.new_back();
                    self.params.insert(e, param);
                    param
                }
                _ => here,
            };
            let table = &mut self.back;
            self.edit.m.for_each_child(e, |c| {
                table.insert(c, inner);
            });
        }
        for &e in &order {
            let new = self.node(e)?;
            if let Some(new) = new {
                self.memo.insert(e, new);
            }
        }
        let new = self.part(body)?;
        self.literal(func, new, back)
    }

    fn bind_types(&mut self, func: FuncId) {
        let function = &self.edit.m.funcs[func];
        let (params, dims) = (function.type_params.clone(), function.dims.clone());
        for old in params {
            let param = self.edit.m.types.params[old].clone();
            let new = self.edit.m.types.params.push(param);
            let ty = self.edit.m.types.intern(Type::Param(new));
            self.subst.params.insert(old, new);
            self.subst.types.insert(old, ty);
            self.subst.shapes.insert(old, Shape::Param(new));
            self.subst.dtypes.insert(old, relax_ir::DTy::Param(new));
        }
        for old in dims {
            let info = self.edit.m.dims[old].clone();
            let new = self.edit.m.dims.push(info);
            self.subst.dims.insert(old, Dim::var(new));
        }
    }

    fn new_back(&mut self) -> ExprId {
        let (_, e) = self
            .edit
            .m
            .fresh_var("bp", Some(self.cell), VarStyle::Param);
        e
    }

    /// The function around a body that was made already.
    fn literal(&mut self, func: FuncId, body: ExprId, back: ExprId) -> Result<Function, Failure> {
        let old = self.edit.m.funcs[func].clone();
        if is_primitive(&old) || is_external(&old) {
            return Err(self.refuse(
                old.body,
                "the function is a kernel; run `defuse-ops` before",
            ));
        }
        if !old.constraints.is_empty() {
            return Err(self.refuse(old.body, "the function has a `where` clause"));
        }
        let mut params: Vec<VarId> = old.params.iter().map(|&p| self.var_id(p)).collect();
        let Expr::Var(back) = self.edit.m.exprs[back] else {
            unreachable!("variables are kept as references")
        };
        params.push(back);
        let ret = self.carried_type(self.typing.exprs[old.body]);
        let ret = self.written(ret).then_some(ret);
        let type_params = old
            .type_params
            .iter()
            .map(|p| self.subst.params[p])
            .collect();
        let dims = old
            .dims
            .iter()
            .map(|d| self.subst.dims[d].free_vars()[0])
            .collect();
        Ok(Function {
            type_params,
            dims,
            params,
            ret,
            body,
            ..old
        })
    }

    /// What became of a part of an expression.
    fn part(&mut self, e: ExprId) -> Result<ExprId, Failure> {
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
            // A constructor as a function takes the way back like all others.
            Expr::Ctor(c) => {
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

    /// The carried form of a node over parts that were made already; `None` for names.
    fn node(&mut self, e: ExprId) -> Result<Option<ExprId>, Failure> {
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

    fn call_node(&mut self, e: ExprId, callee: ExprId, args: &[ExprId]) -> Result<ExprId, Failure> {
        let span = self.edit.m.span(e);
        let mut new = Vec::with_capacity(args.len() + 1);
        for &arg in args {
            new.push(self.part(arg)?);
        }
        match self.edit.m.exprs[callee] {
            Expr::Ctor(c) => {
                let fixed = |t: &TypeId| matches!(self.edit.m.types[*t], Type::Tensor(_));
                if self.edit.m.ctors[c].fields.iter().any(fixed) {
                    return Err(
                        self.refuse(e, "the constructor's fields are tensors by definition")
                    );
                }
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

    /// A call of an operator: its value, carried, and a step of the way back.
    fn operator(&mut self, e: ExprId, old: &[ExprId], args: &[ExprId]) -> Result<ExprId, Failure> {
        let Some(call) = self.edit.op_call(e) else {
            return Err(self.refuse(e, "operators of the module have none"));
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
        let attrs = self.subst.attrs(self.edit.m.attrs(call.attrs));
        let span = self.edit.m.span(e);
        let node = self.edit.recall(&call, &values, attrs, span);
        let ty = self.same_type(self.typing.exprs[e]);
        self.edit.set_ty(node, ty);
        let result = self.bind(&mut list, node);
        let carried = self.carried(ty, result, &mut list);
        let carried = carried.ok_or_else(|| self.refuse(e, only))?;
        if !self.has_float(ty) || !types.iter().any(|&t| self.has_float(t)) {
            return Ok(self.close(list, carried));
        }
        let name = call.def.name;
        if call.def.hooks.gradient.is_none() {
            return Err(self.refuse(e, &format!("`{name}` has none")));
        }
        let back = self.back[&e];
        let before = self.add(Expr::RefRead(back));
        let before = self.bind(&mut list, before);
        let mut inner = List::new();
        let grad = self
            .grad(ty, carried, &mut inner)
            .ok_or_else(|| self.refuse(e, only))?;
        let Some(grads) = gradients(&mut self.edit, node, grad, Span::NONE) else {
            return Err(self.refuse(e, &format!("`{name}` has none in this form")));
        };
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

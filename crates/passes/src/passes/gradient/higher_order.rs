//! Higher order: any program of tensors, tuples, data, closures, references and control flow.
//!
//! Pearlmutter and Siskind, "Reverse-mode AD in a functional framework" (2008), as implemented by
//! TVM: each tensor is paired with a reference cell for its gradient, each function takes one more
//! argument, a cell with the backpropagator so far, and each call of an operator prepends a step to
//! it. The entry runs the program forwards, sets the gradient of its result to ones, and runs the
//! backpropagator.

use relax_base::{Diagnostics, Span};
use relax_infer::Typing;
use relax_ir::{
    Attrs, Expr, ExprId, FuncType, Function, GlobalId, GlobalKind, Module, Type, TypeId,
    TypeParamId, TypeSubst, VarId, VarStyle,
};
use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::PassCx;
use crate::abstracted::extents;
use crate::edit::Edit;
use crate::passes::a_normal_form::{Order, normal_form};
use crate::util::dissolve_blocks;

mod carried;
mod function;
mod node;
mod types;

type Failure = (Span, String);

pub(super) fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let name = cx.options.text("entry").trim_start_matches('@').to_owned();
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
    reverse.bind_annotations();
    match reverse.entry(entry) {
        Ok(count) => {
            cx.count("functions differentiated", count);
            Ok(())
        }
        Err((span, message)) => Err(cx.unsupported(span, message)),
    }
}

/// Bindings under construction.
type List = Vec<(VarId, ExprId)>;

struct Reverse<'m, 't> {
    edit: Edit<'m>,
    typing: &'t Typing,
    /// Functions of the new program have type parameters and dimension variables of their own.
    subst: TypeSubst,
    /// The type parameters that those functions declare, and types of functions in annotations.
    bound: FxHashSet<TypeParamId>,
    /// The dimension variables that the latter declare.
    spoken: FxHashSet<DimVar>,
    types: FxHashMap<TypeId, TypeId>,
    vars: FxHashMap<VarId, ExprId>,
    globals: FxHashMap<GlobalId, GlobalId>,
    work: Vec<GlobalId>,
    memo: FxHashMap<ExprId, ExprId>,
    /// The cell with the backpropagator, by the expression in whose evaluation it is available.
    back: FxHashMap<ExprId, ExprId>,
    /// The parameter of each function literal for that cell. Literals may share a body (`%x`, say).
    params: FxHashMap<ExprId, ExprId>,
    unit: TypeId,
    /// The type of a backpropagator, and of a cell with one.
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
            bound: FxHashSet::default(),
            spoken: FxHashSet::default(),
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

    /// Differentiates the entry; returns the number of functions created.
    fn entry(&mut self, entry: GlobalId) -> Result<u64, Failure> {
        let Some(func) = self.edit.m.global_func(entry) else {
            return Err((Span::NONE, "a tensor program has no gradient".into()));
        };
        let function = self.edit.m.funcs[func].clone();
        let body = function.body;
        if !function.type_params.is_empty() {
            return Err(self.refuse(body, "the entry is polymorphic"));
        }
        // It calls the function that carries the gradients, at its own extents.
        let types = function.params.iter().map(|p| self.typing.vars[*p]);
        let told = extents(self.edit.m, types);
        if !function.dims.iter().all(|d| told.contains(d)) {
            let why = "an extent of a parameter does not determine the variables in it";
            return Err(self.refuse(body, why));
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

    /// Returns the same body with one chain of `let`s for each scope. Unnamed expressions stay so,
    /// above all calls in tail position, because the backpropagator is long.
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
}

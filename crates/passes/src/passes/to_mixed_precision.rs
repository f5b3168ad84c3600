//! `to-mixed-precision`: converts to a narrower float type where beneficial.
//!
//! Each operator declares its precision ([`Precision`]): always narrow, always `float32`, or that
//! of its operands, which is narrow if all float operands are narrow already, or are variables and
//! constants, which are cast. Casts are shared. Parameters of functions keep their types; result
//! types are updated.

use relax_base::{Diagnostics, Span};
use relax_infer::Typing;
use relax_ir::{AttrValue, Expr, ExprId, Function, GlobalKind, Memo, Module, Type, TypeId, VarId};
use relax_ops::{Lowering, Precision};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::edit::{Edit, OpCall};
use crate::scope::Nameable;
use crate::util::{called_op, has_known_elements, mentions_type_params};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "to-mixed-precision",
    doc: "Computes what pays in a narrower float, the rest in float32.",
    options: &[
        OptionDef {
            name: "dtype",
            ty: OptionType::Choice(&["float16", "bfloat16"]),
            default: "float16",
            doc: "the narrower float",
        },
        OptionDef {
            name: "keep-output-dtype",
            ty: OptionType::Bool,
            default: "false",
            doc: "whether functions give their results in the element types they had",
        },
    ],
    contract: Contract::TYPED.coarser(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    if let Some(place) = placed(cx.module) {
        let message =
            "tensors have their places in memory already, for the element types that they have";
        let errors = cx.unsupported(place, message);
        return Err(errors);
    }
    let typing = cx.typing()?;
    let narrow = cx
        .options
        .text("dtype")
        .parse()
        .expect("one of the choices");
    let keep = cx.options.flag("keep-output-dtype");
    let casts = Converter::new(cx.module, &typing, narrow).module(keep);
    cx.count("casts inserted", casts);
    Ok(())
}

/// Returns the location of a tensor that is placed in a block of memory.
fn placed(m: &Module) -> Option<Span> {
    let bodies = m.global_bodies().into_iter().map(|b| b.1);
    let mut calls = m.post_order(bodies).into_iter();
    let found = calls.find(|&e| {
        let op = called_op(m, e);
        op.is_some_and(|d| d.hooks.lowering == Lowering::CallTirInplace)
    });
    found.map(|e| m.span(e))
}

struct Converter<'a> {
    edit: Edit<'a>,
    narrow: DType,
    /// Expressions cast to other element types. Leaves represent all nodes with the same meaning.
    casts: FxHashMap<(ExprId, DType), ExprId>,
    leaves: FxHashMap<Leaf, ExprId>,
    /// New variables of `let`s.
    vars: FxHashMap<VarId, ExprId>,
    /// Function literals that are only called in place.
    in_place: FxHashSet<ExprId>,
    count: u64,
}

/// The identity of a leaf.
#[derive(PartialEq, Eq, Hash)]
enum Leaf {
    Var(VarId),
    Const(relax_ir::ConstId),
}

impl<'a> Converter<'a> {
    fn new(m: &'a mut Module, typing: &Typing, narrow: DType) -> Converter<'a> {
        Converter {
            edit: Edit::new(m, typing),
            narrow,
            casts: FxHashMap::default(),
            leaves: FxHashMap::default(),
            vars: FxHashMap::default(),
            in_place: FxHashSet::default(),
            count: 0,
        }
    }

    fn module(mut self, keep: bool) -> u64 {
        let mut memo = Memo::default();
        // Functions that others call keep their types.
        let called: FxHashSet<_> = self.edit.m.call_graph().into_values().flatten().collect();
        for (global, body) in self.edit.m.global_bodies() {
            let mut new = self.body(body, &mut memo);
            if keep || called.contains(&global) {
                let ty = self.edit.ty(body);
                new = self.cast_to(new, ty);
            }
            if new != body {
                let func = self.edit.m.global_func(global).expect("it has a body");
                let func = self.function(func, new);
                self.edit.m.globals[global].kind = GlobalKind::Func(func);
            }
        }
        self.count
    }

    /// Returns a function with a new body, whose type is the new result type.
    fn function(&mut self, func: relax_ir::FuncId, body: ExprId) -> relax_ir::FuncId {
        let ret = self.edit.typed(body).then(|| {
            let ty = self.edit.ty(body);
            match self.edit.m.funcs[func].ret {
                Some(said) => self.in_elements_of(said, ty),
                None => ty,
            }
        });
        let m = &*self.edit.m;
        let ret =
            ret.and_then(|ty| Nameable::new(m, func, &m.post_order([body])).annotation(m, ty));
        let function = Function {
            body,
            ret,
            ..self.edit.m.funcs[func].clone()
        };
        self.edit.m.funcs.push(function)
    }

    /// Returns an annotation with the element types that its value has now: its extents may say more
    /// than those that follow from the value, where each call checks that they are equal.
    fn in_elements_of(&mut self, said: TypeId, ty: TypeId) -> TypeId {
        let types = &self.edit.m.types;
        match (&types[said], &types[ty]) {
            (Type::Tensor(_), Type::Tensor(new)) => match new.dtype.known() {
                Some(dtype) => self.edit.with_dtype(said, dtype),
                None => ty,
            },
            (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
                let pairs: Vec<_> = a.iter().copied().zip(b.iter().copied()).collect();
                let fields = pairs.into_iter().map(|(said, ty)| {
                    let types = &self.edit.m.types;
                    match (&types[said], &types[ty]) {
                        // Types may be nested deeper than functions can call themselves.
                        (Type::Tuple(_), _) => ty,
                        _ => self.in_elements_of(said, ty),
                    }
                });
                let fields: Vec<TypeId> = fields.collect();
                self.edit.m.types.tuple(fields)
            }
            (Type::Tuple(_), _) => ty,
            // Cells, data and functions keep their types.
            _ => said,
        }
    }

    fn body(&mut self, body: ExprId, memo: &mut Memo) -> ExprId {
        let order = self
            .edit
            .m
            .post_order_within([body], |id| !memo.contains_key(&id));
        for &e in &order {
            if let Expr::Call { callee, .. } = self.edit.m.exprs[e] {
                self.in_place.insert(callee);
            }
        }
        for &e in &order {
            let in_place = &mut self.in_place;
            let call = matches!(self.edit.m.exprs[e], Expr::Call { .. });
            let mut part = 0;
            self.edit.m.for_each_child(e, |c| {
                if !(call && part == 0) {
                    in_place.remove(&c);
                }
                part += 1;
            });
        }
        // Values come before their continuations: the new variable is available for the body of its
        // `let`.
        let mut lets: FxHashMap<ExprId, Vec<VarId>> = FxHashMap::default();
        for &e in &order {
            if let Expr::Let { var, value, .. } = self.edit.m.exprs[e] {
                lets.entry(value).or_default().push(var);
            }
        }
        // Another function may have the same node as a value.
        lets.retain(|value, vars| match memo.get(value) {
            Some(&new) => {
                vars.drain(..).for_each(|var| self.bind(var, new));
                false
            }
            None => true,
        });
        for old in order {
            if memo.contains_key(&old) {
                continue;
            }
            let new = self.node(old, memo);
            memo.insert(old, new);
            for var in lets.remove(&old).unwrap_or_default() {
                self.bind(var, new);
            }
        }
        memo[&body]
    }

    /// Gives a `let` a variable of its value's new type.
    fn bind(&mut self, var: VarId, value: ExprId) {
        let ty = self.edit.ty(value);
        let recursive = matches!(self.edit.m.exprs[value], Expr::Func(_));
        if !self.edit.typed(value) || recursive || self.edit.var_ty(var) == ty {
            return;
        }
        let (name, style) = (self.edit.m.vars[var].name, self.edit.m.vars[var].style);
        let (new, e) = self.edit.fresh_var(name, ty, style);
        if mentions_type_params(self.edit.m, ty) {
            self.edit.m.vars[new].ty = None;
        }
        self.vars.insert(var, e);
    }

    fn node(&mut self, old: ExprId, memo: &Memo) -> ExprId {
        let span = self.edit.m.span(old);
        match self.edit.m.exprs[old].clone() {
            Expr::Var(v) => self.vars.get(&v).copied().unwrap_or(old),
            Expr::Let { var, value, body } => {
                let Some(&e) = self.vars.get(&var) else {
                    return self.same(old, memo);
                };
                let Expr::Var(var) = self.edit.m.exprs[e] else {
                    unreachable!("variables are kept as references")
                };
                let (value, body) = (memo[&value], memo[&body]);
                self.typed(Expr::Let { var, value, body }, span)
            }
            Expr::Func(func) => {
                let given = self.edit.m.funcs[func].body;
                let mut body = memo[&given];
                if !self.in_place.contains(&old) || self.is_polymorphic(old) {
                    // Users of the function expect its original result type; calls of one that is
                    // polymorphic instantiate it.
                    body = self.cast_to(body, self.edit.ty(given));
                }
                if body == given {
                    return old;
                }
                let func = self.function(func, body);
                let e = self.edit.m.add(Expr::Func(func), span);
                let ty = self.edit.ty(old);
                self.edit.set_ty(e, ty);
                self.edit.retype(e);
                e
            }
            Expr::Tuple(_) | Expr::Proj { .. } => self.same(old, memo),
            Expr::Call {
                callee,
                args,
                attrs,
                ..
            } => match self.edit.op_call(old) {
                Some(call) => {
                    let args: Vec<ExprId> = call.args.iter().map(|a| memo[a]).collect();
                    self.call(old, &call, &args)
                }
                None => {
                    let args = self.edit.m.list(args).to_vec();
                    let new: Vec<ExprId> = (args.iter())
                        .map(|a| self.cast_to(memo[a], self.edit.ty(*a)))
                        .collect();
                    if memo[&callee] == callee && new == args {
                        return old;
                    }
                    let attrs = self.edit.m.attrs(attrs).clone();
                    let e = self.edit.m.call_attrs(memo[&callee], &new, attrs, span);
                    let ty = self.edit.ty(old);
                    self.edit.set_ty(e, ty);
                    self.edit.retype(e);
                    e
                }
            },
            Expr::If {
                then, otherwise, ..
            } if self.edit.ty(memo[&then]) == self.edit.ty(memo[&otherwise]) => {
                self.same(old, memo)
            }
            // Elsewhere values keep their types: branches must agree, cells and constructors have
            // declared types, dataflow blocks keep their variables.
            _ => {
                let mut kept = Memo::default();
                let mut parts = Vec::new();
                self.edit.m.for_each_child(old, |c| parts.push(c));
                for part in parts {
                    let new = self.cast_to(memo[&part], self.edit.ty(part));
                    kept.insert(part, new);
                }
                self.same(old, &kept)
            }
        }
    }

    fn is_polymorphic(&self, func: ExprId) -> bool {
        match &self.edit.m.types[self.edit.ty(func)] {
            Type::Func(f) => !f.params.is_empty() || !f.dims.is_empty(),
            _ => false,
        }
    }

    /// Rebuilds the same node over new operands, typed.
    fn same(&mut self, old: ExprId, memo: &Memo) -> ExprId {
        let new = self.edit.m.map_children(old, |c| memo[&c]);
        if new != old {
            let ty = self.edit.ty(old);
            self.edit.set_ty(new, ty);
            self.edit.retype(new);
        }
        new
    }

    fn typed(&mut self, e: Expr, span: Span) -> ExprId {
        let e = self.edit.m.add(e, span);
        self.edit.retype(e);
        e
    }

    fn call(&mut self, old: ExprId, call: &OpCall, args: &[ExprId]) -> ExprId {
        // What only callers know stays as it is, and what is beside it.
        let known = |&a: &ExprId| has_known_elements(self.edit.m, self.edit.ty(a));
        if !call.args.iter().all(known) {
            return self.kept(old, call, args);
        }
        let narrow = match call.def.hooks.precision {
            Precision::Narrow => true,
            Precision::Full => false,
            Precision::Follow => args.iter().all(|&a| self.may_narrow(a)),
        };
        let wanted = if narrow { self.narrow } else { DType::F32 };
        let new: Vec<ExprId> = args.iter().map(|&a| self.cast_floats(a, wanted)).collect();
        let mut attrs = self.edit.m.attrs(call.attrs).clone();
        let mut changed = new != call.args;
        // For integers and booleans the result type is left alone, also where it is that of the
        // operand.
        let floats = self.edit.dtype(old).is_none_or(DType::is_float);
        if narrow
            && floats
            && let Some(name) = call.def.hooks.result_dtype
            && let Some(AttrValue::DType(d)) = attrs.get(name)
            && (d.is_float() || d.is_void())
            && *d != self.narrow
        {
            attrs.set(name, AttrValue::DType(self.narrow));
            changed = true;
        }
        if !changed {
            return old;
        }
        let span = self.edit.m.span(old);
        let e = self.edit.recall(call, &new, attrs, span);
        if self.edit.typed(e) {
            return e;
        }
        // Some operands must keep their element type (a scale of the quantised operators, say).
        self.kept(old, call, args)
    }

    /// Returns a call on operands of the types that they had.
    fn kept(&mut self, old: ExprId, call: &OpCall, args: &[ExprId]) -> ExprId {
        let kept: Vec<ExprId> = (args.iter().zip(&call.args))
            .map(|(&new, &old)| self.cast_to(new, self.edit.ty(old)))
            .collect();
        if kept == call.args {
            return old;
        }
        let attrs = self.edit.m.attrs(call.attrs).clone();
        let span = self.edit.m.span(old);
        let e = self.edit.recall(call, &kept, attrs, span);
        let ty = self.edit.ty(old);
        self.edit.set_ty(e, ty);
        e
    }

    /// Returns whether an argument can be cast to the narrow type without changing where it is
    /// computed.
    fn may_narrow(&self, arg: ExprId) -> bool {
        if matches!(self.edit.m.exprs[arg], Expr::Var(_) | Expr::Const(_)) {
            return true;
        }
        let mut parts = vec![self.edit.ty(arg)];
        while let Some(ty) = parts.pop() {
            match &self.edit.m.types[ty] {
                Type::Tensor(t)
                    if t.dtype
                        .known()
                        .is_some_and(|d| d.is_float() && d != self.narrow) =>
                {
                    return false;
                }
                Type::Tuple(fields) => parts.extend(fields.iter()),
                _ => {}
            }
        }
        true
    }

    /// Returns the type with all float tensors in another element type, also inside tuples.
    fn float_type(&mut self, ty: TypeId, to: DType) -> TypeId {
        let mut done: FxHashMap<TypeId, TypeId> = FxHashMap::default();
        let mut stack = vec![(ty, false)];
        while let Some((t, expanded)) = stack.pop() {
            let new = match &self.edit.m.types[t] {
                Type::Tensor(x) if x.dtype.known().is_some_and(DType::is_float) => {
                    self.edit.with_dtype(t, to)
                }
                Type::Tuple(fields) => {
                    let fields = fields.to_vec();
                    if !expanded {
                        stack.push((t, true));
                        stack.extend(fields.into_iter().map(|f| (f, false)));
                        continue;
                    }
                    let fields: Vec<TypeId> = fields.iter().map(|f| done[f]).collect();
                    self.edit.m.types.tuple(fields)
                }
                _ => t,
            };
            done.insert(t, new);
        }
        done[&ty]
    }

    fn cast_floats(&mut self, e: ExprId, to: DType) -> ExprId {
        let ty = self.edit.ty(e);
        let want = self.float_type(ty, to);
        self.cast_to(e, want)
    }

    /// Casts the expression to a type that differs only in element types of floats.
    fn cast_to(&mut self, e: ExprId, want: TypeId) -> ExprId {
        enum Task {
            Visit(ExprId, TypeId),
            Build(ExprId, usize),
        }
        let (mut tasks, mut values) = (vec![Task::Visit(e, want)], Vec::new());
        while let Some(task) = tasks.pop() {
            match task {
                Task::Visit(e, want) => match (
                    &self.edit.m.types[self.edit.ty(e)],
                    &self.edit.m.types[want],
                ) {
                    (Type::Tensor(a), Type::Tensor(b)) => {
                        let floats = (a.dtype.known().filter(|d| d.is_float()))
                            .and_then(|a| Some((a, b.dtype.known().filter(|d| d.is_float())?)));
                        values.push(match floats {
                            Some((from, to)) if from != to => self.cast(e, from, to),
                            _ => e,
                        });
                    }
                    (Type::Tuple(a), Type::Tuple(b)) if a != b && a.len() == b.len() => {
                        let fields = b.to_vec();
                        let span = self.edit.m.span(e);
                        tasks.push(Task::Build(e, fields.len()));
                        for (i, ty) in fields.into_iter().enumerate().rev() {
                            // Also for a tuple: its other users keep it anyway.
                            let field = self.edit.m.add(
                                Expr::Proj {
                                    tuple: e,
                                    index: i as u32,
                                },
                                span,
                            );
                            self.edit.retype(field);
                            tasks.push(Task::Visit(field, ty));
                        }
                    }
                    _ => values.push(e),
                },
                Task::Build(e, n) => {
                    let fields = values.split_off(values.len() - n);
                    let span = self.edit.m.span(e);
                    values.push(self.edit.tuple(&fields, span));
                }
            }
        }
        values.pop().expect("each task leaves a value")
    }

    fn cast(&mut self, e: ExprId, from: DType, to: DType) -> ExprId {
        let leaf = match self.edit.m.exprs[e] {
            Expr::Var(v) => Some(Leaf::Var(v)),
            Expr::Const(c) => Some(Leaf::Const(c)),
            _ => None,
        };
        let e = leaf.map_or(e, |leaf| *self.leaves.entry(leaf).or_insert(e));
        if let Some(&known) = self.casts.get(&(e, to)) {
            return known;
        }
        let span = self.edit.m.span(e);
        let new = self.edit.cast(e, to, span);
        self.casts.insert((e, to), new);
        // Casting back is the expression itself.
        self.casts.insert((new, from), e);
        self.count += 1;
        new
    }
}

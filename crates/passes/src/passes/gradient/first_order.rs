//! First order: the function must consist of tensors, tuples and operators with a known gradient
//! ([`gradients`]); calls of function literals are inlined. The resulting program
//! computes everything once, forwards, and then the gradients, backwards.

use relax_base::{Diagnostics, Span};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Expr, ExprId, FuncId, Function, IdSet, Type, TypeId, TypeSubst, VarId, VarStyle,
};
use rustc_hash::FxHashMap;

use crate::PassCx;
use crate::build::gradients;
use crate::edit::Edit;
use crate::util::share_constants;

/// A literal that several calls share is unfolded in each, and so are those within it: their number
/// doubles with each level of a program that calls everything twice. No more nodes than these are
/// visited again in one function.
const MOST_VISITED_AGAIN: usize = 200_000;

pub(super) fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    // A constant that the text uses twice is one value, with one gradient.
    share_constants(cx.module);
    let typing = cx.typing()?;
    let mut new = Vec::new();
    {
        let mut edit = Edit::new(cx.module, &typing);
        for (global, _) in edit.m.global_bodies() {
            let func = edit.m.global_func(global).expect("it has a body");
            let mut tape = Tape {
                edit: &mut edit,
                typing: &typing,
                subst: TypeSubst::new(),
                again: 0,
                bindings: Vec::new(),
                values: Vec::new(),
                env: FxHashMap::default(),
                vars: FxHashMap::default(),
                actions: Vec::new(),
            };
            new.push((global, tape.function(func)));
        }
    }
    let mut count = 0;
    for (global, function) in new {
        match function {
            Ok(function) => {
                cx.module.set_global_func(global, function);
                count += 1;
            }
            Err((span, message)) => return Err(cx.unsupported(span, message)),
        }
    }
    cx.count("functions differentiated", count);
    Ok(())
}

type Failure = (Span, String);

/// The index of a value and its gradient.
type Id = usize;

#[derive(Clone, Copy)]
struct Value {
    forward: ExprId,
    reverse: ExprId,
}

/// A step of the backward pass.
enum Action {
    /// The value of an operator.
    Call {
        value: Id,
        args: Vec<Id>,
        call: ExprId,
    },
    /// The value of a projection.
    Proj { value: Id, tuple: Id, index: usize },
    /// The value of a tuple.
    Tuple { value: Id, fields: Vec<Id> },
}

struct Tape<'e, 'm> {
    edit: &'e mut Edit<'m>,
    typing: &'e Typing,
    /// The types and extents that the literals around the current node are applied to.
    subst: TypeSubst,
    /// The number of nodes that were visited once more, with other arguments.
    again: usize,
    bindings: Vec<(VarId, ExprId)>,
    values: Vec<Value>,
    env: FxHashMap<ExprId, Id>,
    vars: FxHashMap<VarId, Id>,
    actions: Vec<Action>,
}

impl Tape<'_, '_> {
    fn push(&mut self, value: ExprId) -> ExprId {
        let ty = self.edit.ty(value);
        let (var, reference) = self.edit.fresh_var("x".into(), ty, VarStyle::Let);
        self.bindings.push((var, value));
        reference
    }

    fn close(&mut self, from: usize, value: ExprId) -> ExprId {
        let bindings = self.bindings.split_off(from);
        bindings
            .into_iter()
            .rev()
            .fold(value, |body, (var, value)| {
                let e = self.edit.m.add(Expr::Let { var, value, body }, Span::NONE);
                self.edit.retype(e);
                e
            })
    }

    fn call(&mut self, op: &'static str, args: &[ExprId], attrs: &[(&str, AttrValue)]) -> ExprId {
        self.edit.call(op, args, attrs, Span::NONE)
    }

    /// Returns a value of a type with the same number everywhere: `like` for tensors, with the
    /// shapes of the fields for tuples.
    fn filled(
        &mut self,
        of: ExprId,
        like: &'static str,
        fill: &'static str,
    ) -> Result<ExprId, Failure> {
        let ty = self.edit.ty(of);
        if let Type::Tensor(_) = self.edit.m.types[ty] {
            return Ok(self.call(like, &[of], &[]));
        }
        let mut done: Vec<ExprId> = Vec::new();
        let mut work = vec![(ty, false)];
        while let Some((t, ready)) = work.pop() {
            match self.edit.m.types[t].clone() {
                Type::Tuple(fields) if ready => {
                    let parts = done.split_off(done.len() - fields.len());
                    let tuple = self.edit.tuple(&parts, Span::NONE);
                    done.push(tuple);
                }
                Type::Tuple(fields) => {
                    work.push((t, true));
                    work.extend(fields.iter().rev().map(|&f| (f, false)));
                }
                Type::Tensor(t) => {
                    let dims: Option<Vec<i64>> =
                        (t.shape.dims()).and_then(|d| d.iter().map(|d| d.as_const()).collect());
                    let (Some(dims), Some(dtype)) = (dims, t.dtype.known()) else {
                        return Err(self.refuse(of, "a tuple holds a tensor of unknown shape"));
                    };
                    let attrs = [
                        ("shape", AttrValue::ints(&dims)),
                        ("dtype", AttrValue::DType(dtype)),
                    ];
                    let e = self.call(fill, &[], &attrs);
                    done.push(e);
                }
                _ => return Err(self.refuse(of, "a value is neither tensor nor tuple of tensors")),
            }
        }
        Ok(done.pop().expect("one value for the type"))
    }

    fn refuse(&self, at: ExprId, why: &str) -> Failure {
        (
            self.edit.m.span(at),
            format!("there is no first-order gradient here: {why}"),
        )
    }

    fn value(&mut self, forward: ExprId) -> Result<Id, Failure> {
        let forward = self.push(forward);
        let zeros = self.filled(forward, "zeros_like", "zeros")?;
        let reverse = self.push(zeros);
        self.values.push(Value { forward, reverse });
        Ok(self.values.len() - 1)
    }

    fn function(&mut self, func: FuncId) -> Result<Function, Failure> {
        let function = self.edit.m.funcs[func].clone();
        let mut params = Vec::new();
        for &p in &function.params {
            let e = self.edit.m.add(Expr::Var(p), Span::NONE);
            let ty = self.edit.var_ty(p);
            self.edit.set_ty(e, ty);
            let id = self.value(e)?;
            self.vars.insert(p, id);
            params.push(id);
        }
        let result = self.forward(function.body)?;
        let forward = self.values[result].forward;
        let from = self.bindings.len();
        let ones = self.filled(forward, "ones_like", "ones")?;
        self.values[result].reverse = ones;
        while let Some(action) = self.actions.pop() {
            self.back(action)?;
        }
        let grads: Vec<ExprId> = params.iter().map(|&p| self.values[p].reverse).collect();
        let grads = self.edit.tuple(&grads, Span::NONE);
        let grads = self.close(from, grads);
        let pair = self.edit.tuple(&[forward, grads], Span::NONE);
        let body = self.close(0, pair);
        let ret = self.edit.ty(body);
        let ret = match (&self.edit.m.types[ret], function.ret) {
            (Type::Error, _) => None,
            // What is declared may say something else than the body, which each call then checks.
            (Type::Tuple(parts), Some(declared)) => {
                let parts = vec![declared, parts[1]];
                Some(self.edit.m.types.tuple(parts))
            }
            _ => Some(ret),
        };
        Ok(Function {
            body,
            ret,
            ..function
        })
    }

    /// Traverses the body, operands first: each shared node once, in a function literal once for
    /// each of its calls.
    fn forward(&mut self, body: ExprId) -> Result<Id, Failure> {
        enum Step {
            Enter(ExprId),
            Leave(ExprId),
            /// Binds parameters of a called literal, then continues with its body.
            Apply(ExprId, FuncId),
            /// The value of the first is that of the second.
            Same(ExprId, ExprId),
        }
        let mut stack = vec![Step::Enter(body)];
        while let Some(step) = stack.pop() {
            match step {
                Step::Enter(e) if self.known(e).is_some() => {}
                Step::Enter(e) => match self.edit.m.exprs[e].clone() {
                    Expr::Call { callee, args, .. } => {
                        match self.edit.m.exprs[callee] {
                            Expr::Op(_) => stack.push(Step::Leave(e)),
                            Expr::Func(f) => stack.push(Step::Apply(e, f)),
                            _ => {
                                return Err(self.refuse(
                                    e,
                                    "only operators and function literals may be called",
                                ));
                            }
                        }
                        let args = self.edit.m.list(args).to_vec();
                        stack.extend(args.into_iter().rev().map(Step::Enter));
                    }
                    Expr::Tuple(_) | Expr::Proj { .. } | Expr::Const(_) => {
                        stack.push(Step::Leave(e));
                        let first = stack.len();
                        self.edit
                            .m
                            .for_each_child(e, |c| stack.push(Step::Enter(c)));
                        stack[first..].reverse();
                    }
                    _ => {
                        return Err(
                            self.refuse(e, "only tensors, tuples and operators are allowed")
                        );
                    }
                },
                Step::Leave(e) => {
                    let id = self.node(e)?;
                    self.env.insert(e, id);
                }
                Step::Apply(e, f) => {
                    self.apply(e, f)?;
                    let body = self.edit.m.funcs[f].body;
                    stack.push(Step::Same(e, body));
                    stack.push(Step::Enter(body));
                }
                Step::Same(e, body) => {
                    let id = self.known(body).expect("it was visited");
                    self.env.insert(e, id);
                }
            }
        }
        Ok(self.known(body).expect("it was visited"))
    }

    /// Binds the parameters of a literal to the arguments of a call, and forgets what an earlier
    /// call bound and computed.
    fn apply(&mut self, call: ExprId, f: FuncId) -> Result<(), Failure> {
        let Expr::Call { args, .. } = self.edit.m.exprs[call] else {
            unreachable!("a call")
        };
        let args = self.edit.m.list(args).to_vec();
        let function = self.edit.m.funcs[f].clone();
        let params = &function.params;
        if params.first().is_some_and(|p| self.vars.contains_key(p)) {
            self.forget(function.body, params)?;
        }
        for p in &function.type_params {
            self.subst.types.remove(p);
            self.subst.shapes.remove(p);
            self.subst.dtypes.remove(p);
        }
        for d in &function.dims {
            self.subst.dims.remove(d);
        }
        self.subst.reset();
        for (&p, &a) in params.iter().zip(&args) {
            let id = self.known(a).expect("operands come first");
            self.vars.insert(p, id);
            let have = self.edit.ty(self.values[id].forward);
            let (types, dims) = (&self.edit.m.types, &function.dims);
            self.subst
                .match_type(types, self.typing.vars[p], have, dims);
        }
        let told = |d| self.subst.dims.get(d).is_some_and(|d| d.is_known());
        if !function.dims.iter().all(told) {
            let why = "an extent of an argument does not determine the variables of a function";
            return Err(self.refuse(call, why));
        }
        Ok(())
    }

    /// Forgets the values of the nodes that depend on parameters.
    fn forget(&mut self, body: ExprId, params: &[VarId]) -> Result<(), Failure> {
        let mut depends = IdSet::new();
        for e in self.edit.m.post_order([body]) {
            let mut found = matches!(self.edit.m.exprs[e], Expr::Var(v) if params.contains(&v));
            self.edit
                .m
                .for_each_child(e, |c| found |= depends.contains(c));
            if found {
                depends.insert(e);
                self.env.remove(&e);
                self.again += 1;
            }
        }
        if self.again > MOST_VISITED_AGAIN {
            let why = "literals that call each other several times make it too large; \
                       `mode=higher-order` keeps them as functions";
            return Err(self.refuse(body, why));
        }
        Ok(())
    }

    fn known(&self, e: ExprId) -> Option<Id> {
        match self.edit.m.exprs[e] {
            Expr::Var(v) => self.vars.get(&v).copied(),
            _ => self.env.get(&e).copied(),
        }
    }

    fn node(&mut self, e: ExprId) -> Result<Id, Failure> {
        let mut parts = Vec::new();
        self.edit.m.for_each_child(e, |c| parts.push(c));
        let call = matches!(self.edit.m.exprs[e], Expr::Call { .. });
        let ids: Vec<Option<Id>> = parts.iter().map(|&c| self.known(c)).collect();
        let forward: Vec<ExprId> = ids
            .iter()
            .zip(&parts)
            .map(|(id, &c)| id.map_or(c, |i| self.values[i].forward))
            .collect();
        let mut next = forward.into_iter();
        let new = self
            .edit
            .m
            .map_children(e, |_| next.next().expect("the same children"));
        let new = self.instantiated(new);
        let ty: TypeId = self.edit.ty(e);
        let ty = self.subst.ty(&mut self.edit.m.types, ty);
        self.edit.set_ty(new, ty);
        let value = self.value(new)?;
        let ids: Vec<Id> = ids.into_iter().skip(usize::from(call)).flatten().collect();
        match self.edit.m.exprs[e] {
            Expr::Call { .. } => self.actions.push(Action::Call {
                value,
                args: ids,
                call: new,
            }),
            Expr::Tuple(_) => self.actions.push(Action::Tuple { value, fields: ids }),
            Expr::Proj { index, .. } => {
                self.actions.push(Action::Proj {
                    value,
                    tuple: ids[0],
                    index: index as usize,
                });
            }
            _ => {}
        }
        Ok(value)
    }

    /// Returns a call with the extents in its attributes that the literals around are applied to.
    fn instantiated(&mut self, e: ExprId) -> ExprId {
        let m = &mut *self.edit.m;
        match m.exprs[e] {
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            } if !self.subst.dims.is_empty() => {
                let new = self.subst.attrs(m.attrs(attrs));
                let call = Expr::Call {
                    callee,
                    args,
                    attrs: m.make_attrs(new),
                    type_args,
                };
                m.add(call, m.span(e))
            }
            _ => e,
        }
    }

    fn back(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Call { value, args, call } => {
                let grad = self.values[value].reverse;
                let grads = gradients(self.edit, call, grad, Span::NONE).map_err(|e| {
                    let (place, why) = e.reason(self.edit, call);
                    (
                        place,
                        format!("there is no first-order gradient here: {why}"),
                    )
                })?;
                for (&arg, grad) in args.iter().zip(grads) {
                    self.values[arg].reverse = self.sum(self.values[arg].reverse, grad);
                }
            }
            Action::Proj {
                value,
                tuple,
                index,
            } => {
                let whole = self.values[tuple].reverse;
                let grad = self.values[value].reverse;
                let Type::Tuple(fields) =
                    self.edit.m.types[self.edit.ty(self.values[tuple].forward)].clone()
                else {
                    return Err(self.refuse(whole, "a projection of something that is no tuple"));
                };
                let mut parts = Vec::with_capacity(fields.len());
                for i in 0..fields.len() {
                    let old = self.part(whole, i);
                    parts.push(if i == index { self.sum(old, grad) } else { old });
                }
                let new = self.edit.tuple(&parts, Span::NONE);
                self.values[tuple].reverse = self.push(new);
            }
            Action::Tuple { value, fields } => {
                let whole = self.values[value].reverse;
                for (i, &field) in fields.iter().enumerate() {
                    let part = self.part(whole, i);
                    self.values[field].reverse = self.sum(self.values[field].reverse, part);
                }
            }
        }
        Ok(())
    }

    /// Returns a field of a gradient, kept as a projection even of a tuple: the tuple is shared.
    fn part(&mut self, tuple: ExprId, index: usize) -> ExprId {
        let e = self.edit.m.add(
            Expr::Proj {
                tuple,
                index: index as u32,
            },
            Span::NONE,
        );
        self.edit.retype(e);
        e
    }

    /// Returns the sum of two gradients, named; for tuples field by field.
    fn sum(&mut self, x: ExprId, y: ExprId) -> ExprId {
        enum Step {
            Add(ExprId, ExprId),
            /// Adds the fields of that index.
            Field(ExprId, ExprId, usize),
            Close(usize),
        }
        let (mut stack, mut done) = (vec![Step::Add(x, y)], Vec::new());
        while let Some(step) = stack.pop() {
            match step {
                Step::Add(x, y) => match self.edit.m.types[self.edit.ty(x)].clone() {
                    Type::Tuple(fields) => {
                        stack.push(Step::Close(fields.len()));
                        stack.extend((0..fields.len()).rev().map(|i| Step::Field(x, y, i)));
                    }
                    _ => {
                        let sum = self.call("add", &[x, y], &[]);
                        done.push(self.push(sum));
                    }
                },
                Step::Field(x, y, i) => {
                    // The right one first: so TVM's builds order them.
                    let b = self.part(y, i);
                    let b = self.push(b);
                    let a = self.part(x, i);
                    let a = self.push(a);
                    stack.push(Step::Add(a, b));
                }
                Step::Close(n) => {
                    let parts = done.split_off(done.len() - n);
                    let tuple = self.edit.tuple(&parts, Span::NONE);
                    done.push(self.push(tuple));
                }
            }
        }
        done.pop().expect("one sum")
    }
}

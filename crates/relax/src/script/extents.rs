//! Binds extents that no type states to dimension variables, as TVM computes only on tensors of
//! known extents.
//!
//! Results of functions and branches and parameters are matched (`match_cast`). An operator with a
//! data-dependent result shape becomes two tensor programs: one computes the extents, which become
//! a shape that is matched; the other writes the result. Each round handles the bindings whose
//! inputs have named extents; types are inferred again between rounds.

use std::sync::Arc;

use relax_base::{Span, Symbol};
use relax_infer::{InferOptions, Typing, infer};
use relax_ir::{
    AttrValue, Attrs, DimInfo, Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, Memo,
    Module, Shape, TensorType, Type, TypeId, VarId, VarStyle,
};
use relax_loops::{Ex, Program};
use relax_ops::registry;
use relax_programs::{Call, Operator};
use relax_sym::Dim;
use rustc_hash::FxHashSet;

use super::measure::measured;

/// The limit on rounds, more than any sensible program needs; remaining extents stay unknown.
const ROUNDS: usize = 64;

/// Returns the module with its extents named, and its types; `None` if all extents are named
/// already.
pub(super) fn named(module: &Module) -> Option<(Module, Typing)> {
    let mut m = module.clone();
    let options = InferOptions::default();
    let (mut typing, found) = infer(&mut m, &options);
    if found.has_errors() || !m.vars.ids().any(|v| unknown(&m, typing.vars[v])) {
        return None;
    }
    let (mut done, mut result) = (FxHashSet::default(), None);
    for _ in 0..ROUNDS {
        let mut round = Round {
            typing: &typing,
            done: &mut done,
            changed: false,
            patient: true,
        };
        round.module(&mut m);
        if !round.changed {
            round.patient = false;
            round.module(&mut m);
        }
        if !round.changed {
            break;
        }
        let (next, found) = infer(&mut m, &options);
        if found.has_errors() {
            break;
        }
        typing = next;
        result = Some(m.clone());
    }
    let mut m = result?;
    let (typing, _) = infer(&mut m, &options);
    Some((m, typing))
}

/// Returns whether a type is, or contains, a tensor type with an unknown extent.
fn unknown(m: &Module, ty: TypeId) -> bool {
    if ty.0 as usize >= m.types.len() {
        return false;
    }
    // Subtypes may be shared: each is visited once.
    let (mut work, mut seen) = (vec![ty], FxHashSet::default());
    while let Some(ty) = work.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match &m.types[ty] {
            Type::Tuple(fields) => work.extend(fields),
            Type::Tensor(t) => {
                let dims = t.shape.dims().unwrap_or_default();
                if dims.iter().any(|d| !d.is_known()) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

struct Round<'r> {
    typing: &'r Typing,
    /// Variables that are already matched.
    done: &'r mut FxHashSet<VarId>,
    changed: bool,
    /// Whether bindings that depend on unnamed extents are postponed.
    patient: bool,
}

impl Round<'_> {
    fn module(&mut self, m: &mut Module) {
        for (global, body) in m.global_bodies() {
            let Some(func) = m.global_func(global) else {
                continue;
            };
            if m.globals[global].prelude {
                continue;
            }
            let params = m.funcs[func].params.clone();
            let ret = self.result(m, func);
            let new = self.body(m, body);
            let new = self.heads(m, &params, new);
            if new != body {
                let mut function: Function = m.funcs[func].clone();
                function.body = new;
                function.ret = ret;
                m.set_global_func(global, function);
            }
        }
    }

    /// Returns the result type of a function with unknown extents written out: matches inside the
    /// function do not reach its type.
    fn result(&self, m: &Module, f: FuncId) -> Option<TypeId> {
        let found = match &m.types[self.typing.funcs[f]] {
            Type::Func(t) => Some(t.ret),
            _ => None,
        };
        m.funcs[f].ret.or(found.filter(|&t| unknown(m, t)))
    }

    fn body(&mut self, m: &mut Module, body: ExprId) -> ExprId {
        let mut memo = Memo::default();
        for old in m.post_order([body]) {
            let node = m.map_children(old, |c| memo[&c]);
            let new = match m.exprs[node].clone() {
                Expr::Dataflow { block, body } => {
                    let bindings = m.blocks[block].bindings.clone();
                    let olds: Vec<ExprId> = match m.exprs[old] {
                        Expr::Dataflow { block, .. } => {
                            m.blocks[block].bindings.iter().map(|b| b.value).collect()
                        }
                        _ => Vec::new(),
                    };
                    let mut new = body;
                    for (b, old) in bindings.iter().zip(olds).rev() {
                        new = self.binding(m, b.var, (old, b.value), new);
                    }
                    new
                }
                Expr::Let { var, value, body } => {
                    let Expr::Let { value: before, .. } = m.exprs[old] else {
                        continue;
                    };
                    match self.wanted(m, var, before) {
                        true => self.binding(m, var, (before, value), body),
                        false => node,
                    }
                }
                Expr::Func(f) => {
                    let params = m.funcs[f].params.clone();
                    let inner = m.funcs[f].body;
                    match self.heads(m, &params, inner) {
                        same if same == inner => node,
                        body => {
                            let ret = match m.exprs[old] {
                                Expr::Func(old) => self.result(m, old),
                                _ => None,
                            };
                            let function = Function {
                                body,
                                ret,
                                ..m.funcs[f].clone()
                            };
                            let f = m.funcs.push(function);
                            m.add(Expr::Func(f), m.span(node))
                        }
                    }
                }
                _ => node,
            };
            memo.insert(old, new);
        }
        memo[&body]
    }

    /// Returns whether a binding's extents can be named in this round.
    fn wanted(&self, m: &Module, var: VarId, value: ExprId) -> bool {
        let ty = self.typing.vars[var];
        if self.done.contains(&var)
            || m.types.as_tensor(ty).is_none()
            || !unknown(m, ty)
            || matches!(m.exprs[value], Expr::Var(_))
        {
            return false;
        }
        let open = |v: &VarId| !self.done.contains(v) && unknown(m, self.typing.vars[*v]);
        !self.patient || !m.free_vars(value).iter().any(open)
    }

    /// Rewrites a binding with its extents named.
    fn binding(
        &mut self,
        m: &mut Module,
        var: VarId,
        (old, value): (ExprId, ExprId),
        body: ExprId,
    ) -> ExprId {
        let span = m.span(old);
        if !self.wanted(m, var, old) {
            let several = self.several(m, var, old);
            if several && let Some(new) = self.sized(m, var, old, value, body) {
                self.changed = true;
                return new;
            }
            return m.add(Expr::Let { var, value, body }, span);
        }
        self.changed = true;
        if let Some(new) = self.sized(m, var, old, value, body) {
            return new;
        }
        let ty = self.named_type(m, self.typing.vars[var]);
        let name = m.vars[var].name;
        let before = m.vars[var].ty.take();
        let (first, e) = m.fresh_var(name, before, VarStyle::Binding);
        self.done.insert(first);
        let cast = m.add(Expr::MatchCast { value: e, ty }, span);
        let body = m.add(
            Expr::Let {
                var,
                value: cast,
                body,
            },
            span,
        );
        m.add(
            Expr::Let {
                var: first,
                value,
                body,
            },
            span,
        )
    }

    /// Returns whether a binding is an operator call with several results whose extents can be
    /// named in this round.
    fn several(&self, m: &Module, var: VarId, value: ExprId) -> bool {
        let ty = self.typing.vars[var];
        if self.done.contains(&var) || m.types.as_tensor(ty).is_some() || !unknown(m, ty) {
            return false;
        }
        let called = matches!(m.exprs[value], Expr::Call { callee, .. }
            if matches!(m.exprs[callee], Expr::Op(_)));
        let open = |v: &VarId| !self.done.contains(v) && unknown(m, self.typing.vars[*v]);
        called && !m.free_vars(value).iter().any(open)
    }

    /// Matches parameters of unknown extents at the start of a function.
    fn heads(&mut self, m: &mut Module, params: &[VarId], body: ExprId) -> ExprId {
        let mut body = body;
        for &p in params {
            let ty = self.typing.vars[p];
            if m.types.as_tensor(ty).is_none() || !unknown(m, ty) || !self.done.insert(p) {
                continue;
            }
            self.changed = true;
            let ty = self.named_type(m, ty);
            let (var, e) = m.fresh_var(m.vars[p].name, None, VarStyle::Binding);
            let values = [(p, e)].into_iter().collect();
            body = m.substitute(body, &mut Memo::default(), &values);
            let value = m.add(Expr::Var(p), Span::NONE);
            let value = m.add(Expr::MatchCast { value, ty }, Span::NONE);
            body = m.add(Expr::Let { var, value, body }, Span::NONE);
        }
        body
    }

    /// Returns a tensor's type with names for its unknown extents.
    fn named_type(&mut self, m: &mut Module, ty: TypeId) -> TypeId {
        let Some(t) = m.types.as_tensor(ty).cloned() else {
            return ty;
        };
        let dims: Vec<Dim> = t.shape.dims().unwrap_or_default().to_vec();
        let dims = dims.into_iter().map(|d| match d.is_known() {
            true => d,
            false => fresh_dim(m),
        });
        let shape = Shape::Dims(dims.collect());
        m.types.intern(Type::Tensor(TensorType {
            shape,
            dtype: t.dtype,
        }))
    }

    /// Splits an operator's call into a program that computes the extents and one that writes the
    /// result.
    fn sized(
        &mut self,
        m: &mut Module,
        var: VarId,
        old: ExprId,
        value: ExprId,
        body: ExprId,
    ) -> Option<ExprId> {
        let Expr::Call {
            callee,
            args,
            attrs,
            ..
        } = m.exprs[value]
        else {
            return None;
        };
        let Expr::Op(op) = m.exprs[callee] else {
            return None;
        };
        let def = registry().get(op).filter(|d| d.hooks.computable())?;
        let olds: Vec<ExprId> = match m.exprs[old] {
            Expr::Call { args, .. } => m.list(args).to_vec(),
            _ => return None,
        };
        let types: Vec<TypeId> = olds.iter().map(|&a| self.type_of(m, a)).collect();
        let out = self.typing.vars[var];
        let leaves: Vec<TensorType> = (m.types.leaves(out).into_iter())
            .map(|t| m.types.as_tensor(t).cloned())
            .collect::<Option<_>>()?;
        let mut open = Vec::new();
        for (i, t) in leaves.iter().enumerate() {
            let dims = t.shape.dims()?.iter().enumerate();
            open.extend(
                dims.filter(|(_, d)| !d.is_known())
                    .map(|(axis, _)| (i, axis)),
            );
        }
        let consts = olds.iter().map(|&a| match m.exprs[a] {
            Expr::Const(c) => Some(m.consts[c].clone()),
            _ => None,
        });
        let (consts, span) = (consts.collect(), m.span(old));
        let call = Call {
            m,
            op: Operator::BuiltIn(def),
            args: types,
            out,
            attrs: m.attrs(attrs),
            consts,
            span,
        };
        let program = call.program().ok()?.program;
        let types = call.args;
        let two = measured(&program, &open)?;
        let args = m.list(args).to_vec();
        let mut build = Build {
            m,
            bindings: Vec::new(),
            span,
        };
        let inputs = build.tensors(&args, &types);
        let measure = build.program(&format!("{}_extents", def.name), two.measure);
        let fill = build.program(def.name, two.fill);
        let count = build.shape(vec![Dim::from(two.count as i64)]);
        let index = AttrValue::DType(Ex::idx(0).dtype());
        let extents = build.call_tir(measure, inputs, count, index);
        let extents = build.bind("extents", extents);
        let dims: Vec<Dim> = (0..two.count).map(|_| fresh_dim(build.m)).collect();
        let extents = build.tensor_to_shape(extents, two.count);
        let extents = build.bind("extents", extents);
        let ty = Type::Shape(Shape::Dims(dims.clone().into()));
        let ty = build.m.types.intern(ty);
        let cast = build.m.add(Expr::MatchCast { value: extents, ty }, span);
        build.bind("extents", cast);
        let mut axes = two.axes.iter();
        let (mut shapes, mut dtypes) = (Vec::new(), Vec::new());
        for t in &leaves {
            let own = t.shape.dims()?.iter().map(|d| match d.is_known() {
                true => d.clone(),
                false => axes.next().map_or(Dim::ANY, |&i| dims[i].clone()),
            });
            let own = own.collect();
            shapes.push(build.shape(own));
            dtypes.push(AttrValue::DType(t.dtype.known()?));
        }
        let single = build.m.types.as_tensor(out).is_some();
        let (shape, dtype) = match single {
            true => (shapes[0], dtypes[0].clone()),
            false => (build.m.tuple(&shapes, span), AttrValue::array(dtypes)),
        };
        let value = build.call_tir(fill, inputs, shape, dtype);
        let bindings = build.bindings;
        m.vars[var].ty = None;
        self.done.insert(var);
        let body = m.add(Expr::Let { var, value, body }, span);
        Some(bindings.into_iter().rev().fold(body, |body, (var, value)| {
            m.add(Expr::Let { var, value, body }, span)
        }))
    }

    fn type_of(&self, m: &Module, e: ExprId) -> TypeId {
        self.typing.type_of(m, e)
    }
}

fn fresh_dim(m: &mut Module) -> Dim {
    Dim::var(m.dims.push(DimInfo {
        name: Symbol::new("n"),
        span: Span::NONE,
    }))
}

struct Build<'m> {
    m: &'m mut Module,
    bindings: Vec<(VarId, ExprId)>,
    span: Span,
}

impl Build<'_> {
    fn bind(&mut self, name: &str, value: ExprId) -> ExprId {
        let (var, e) = self.m.fresh_var(name, None, VarStyle::Binding);
        self.bindings.push((var, value));
        e
    }

    /// Returns the tensors of arguments as a tuple, with tuples flattened.
    fn tensors(&mut self, args: &[ExprId], types: &[TypeId]) -> ExprId {
        let mut open: Vec<(ExprId, TypeId)> = args
            .iter()
            .copied()
            .zip(types.iter().copied())
            .rev()
            .collect();
        let mut found = Vec::new();
        while let Some((e, ty)) = open.pop() {
            let Type::Tuple(fields) = self.m.types[ty].clone() else {
                found.push(e);
                continue;
            };
            let parts: Vec<ExprId> = match self.m.exprs[e] {
                Expr::Tuple(list) => self.m.list(list).to_vec(),
                _ => (0..fields.len() as u32)
                    .map(|index| {
                        let field = self.m.add(Expr::Proj { tuple: e, index }, self.span);
                        self.bind("field", field)
                    })
                    .collect(),
            };
            open.extend(parts.into_iter().zip(fields).rev());
        }
        self.m.tuple(&found, self.span)
    }

    fn shape(&mut self, dims: Vec<Dim>) -> ExprId {
        self.m.add(Expr::Shape(dims.into()), self.span)
    }

    fn call_tir(
        &mut self,
        program: GlobalId,
        inputs: ExprId,
        shape: ExprId,
        dtype: AttrValue,
    ) -> ExprId {
        let op = registry().find("call_tir").map_or(Expr::Error, Expr::Op);
        let callee = self.m.add(op, self.span);
        let program = self.m.add(Expr::Global(program), self.span);
        let attrs = Attrs::new().with("dtype", dtype);
        self.m
            .call_attrs(callee, &[program, inputs, shape], attrs, self.span)
    }

    /// Converts a vector's elements to a shape.
    fn tensor_to_shape(&mut self, vector: ExprId, count: usize) -> ExprId {
        let op = registry().find("relax.op").map_or(Expr::Error, Expr::Op);
        let callee = self.m.add(op, self.span);
        let dims: Vec<Dim> = vec![Dim::ANY; count];
        let ty = self.m.types.intern(Type::Shape(Shape::Dims(dims.into())));
        let attrs = Attrs::new()
            .with("name", AttrValue::Str("tensor_to_shape".into()))
            .with("given", AttrValue::array([AttrValue::Str("expr".into())]))
            .with("attrs", AttrValue::Dict(Arc::from([])));
        let args = self.m.make_list(&[vector]);
        let attrs = self.m.make_attrs(attrs);
        let type_args = self.m.make_type_args(&[ty]);
        let call = Expr::Call {
            callee,
            args,
            attrs,
            type_args,
        };
        self.m.add(call, self.span)
    }

    /// Adds a tensor program to the module.
    fn program(&mut self, wish: &str, mut program: Program) -> GlobalId {
        let names: FxHashSet<Symbol> = self.m.globals.values().map(|g| g.name).collect();
        let clean: String = (wish.chars())
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let mut name = Symbol::new(&format!("tir_{clean}"));
        let mut k = 0;
        while names.contains(&name) {
            k += 1;
            name = Symbol::new(&format!("tir_{clean}{k}"));
        }
        program.name = name;
        let span = self.span;
        self.m.globals.push(Global {
            name,
            kind: GlobalKind::Prim(Arc::new(program)),
            span,
            prelude: false,
        })
    }
}

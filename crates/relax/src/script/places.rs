//! Converts Relax programs that manage memory, extents and shapes explicitly into value semantics,
//! before native code is generated.
//!
//! TVM's own passes leave programs that call functions for their side effects on arguments
//! (`cls.add(x, y, alloc)`): tensors are first allocated in storage blocks, then written by tensor
//! programs, then killed. Here each such call returns new tensors, which replace the written ones
//! from there on; storage, allocations and kills are removed. Extents as values (`R.shape_of(x)`,
//! `n` as an argument) are computed from the parameters that bind them. Annotations that disagree
//! with what is computed are dropped.

use std::sync::Arc;

use relax_base::{Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, FuncId, Global, GlobalId, GlobalKind, Memo, Module, Type,
    TypeId, VarId, VarStyle,
};
use relax_ops::{Lowering, OpDef, registry};
use relax_sym::Dim;
use rustc_hash::{FxHashMap, FxHashSet};

use super::heap::Heaps;
use super::numbers::{self, bound_by, extents};
use crate::Typed;

/// Converts a Relax module from TVMScript to value semantics; `typed` are its types if they are
/// known.
pub(crate) fn as_values(m: &mut Module, typed: Option<Typed>) {
    let typing = match typed {
        Some(typed) => typed.typing,
        None => {
            let (typing, found) = relax_infer::infer(m, &relax_infer::InferOptions::default());
            if found.has_errors() {
                return;
            }
            Arc::new(typing)
        }
    };
    let measured = numbers::measured(m);
    let mut inplace = FxHashMap::default();
    for (global, body) in m.global_bodies() {
        let Some(func) = m.global_func(global) else {
            continue;
        };
        let params = m.funcs[func].params.clone();
        let heaps = Heaps::of(m, &typing, body);
        let shape = |(v, dims): (VarId, Vec<Dim>)| {
            let dims = Expr::Shape(dims.into());
            (v, m.add(dims, Span::NONE))
        };
        let mut places = Places {
            typing: &typing,
            inplace: &mut inplace,
            values: heaps.shapes.into_iter().map(shape).collect(),
            gone: heaps.gone,
            steps: Vec::new(),
            allocated: Vec::new(),
        };
        let body = places.chain(m, body);
        let bound = bound_by(m, &typing, &params);
        let body = m.rewrite(body, &mut Memo::default(), |m, new, old| {
            let known = numbers::cast(m, &measured, new);
            known
                .or_else(|| extents(m, &typing, &bound, new, old))
                .unwrap_or(new)
        });
        let sized = trusted(m, body);
        let given = given(m, &typing, func, body, &sized);
        m.set_global_body(global, body);
        if let Some(func) = m.global_func(global) {
            m.funcs[func].ret = given;
        }
    }
}

/// Drops annotations with data-dependent extents: they are TVM's inferred types, which may claim
/// more than what is computed. Returns the variables whose annotations were dropped.
fn trusted(m: &mut Module, body: ExprId) -> FxHashSet<VarId> {
    let mut sized = FxHashSet::default();
    let mut bindings = Vec::new();
    for e in m.post_order([body]) {
        match m.exprs[e] {
            Expr::Let { var, value, .. } => bindings.push((var, value)),
            Expr::Dataflow { block, .. } => {
                bindings.extend(m.blocks[block].bindings.iter().map(|b| (b.var, b.value)));
            }
            _ => {}
        }
    }
    let operator = |m: &Module, e: ExprId| match m.exprs[e] {
        Expr::Call { callee, .. } => match m.exprs[callee] {
            Expr::Op(op) => registry().get(op),
            _ => None,
        },
        _ => None,
    };
    let open = |m: &Module, e: ExprId| operator(m, e).is_some_and(|d| d.hooks.data_dependent_shape);
    if !bindings.iter().any(|b| open(m, b.1)) {
        return sized;
    }
    // In a body without branches, bindings are in evaluation order; further rounds reach the
    // others.
    loop {
        let before = sized.len();
        for &(var, value) in &bindings {
            // For other expressions the annotation may be the only type there is.
            let found = match m.exprs[value] {
                Expr::Var(_) | Expr::Tuple(_) | Expr::Proj { .. } => true,
                _ => operator(m, value).is_some_and(|d| !d.hooks.told),
            };
            if !found {
                continue;
            }
            if open(m, value) || m.free_vars(value).iter().any(|v| sized.contains(v)) {
                sized.insert(var);
            }
        }
        if sized.len() == before {
            break;
        }
    }
    for &v in &sized {
        m.vars[v].ty = None;
    }
    sized
}

/// Returns a function's result type, where known: preferably what was inferred for its body rather
/// than the annotation.
fn given(
    m: &Module,
    typing: &Typing,
    func: FuncId,
    body: ExprId,
    sized: &FxHashSet<VarId>,
) -> Option<TypeId> {
    let own = m.funcs[func].ret?;
    let mut result = body;
    while let Expr::Let { body, .. } | Expr::Dataflow { body, .. } = m.exprs[result] {
        result = body;
    }
    if m.free_vars(result).iter().any(|v| sized.contains(v)) {
        return None;
    }
    match &m.types[typing.funcs[func]] {
        Type::Func(t) => Some(t.ret),
        _ => Some(own),
    }
}

pub(super) fn op(
    m: &mut Module,
    name: &str,
    args: &[ExprId],
    attrs: Attrs,
    span: Span,
) -> Option<ExprId> {
    let callee = m.add(Expr::Op(registry().find(name)?), Span::NONE);
    Some(m.call_attrs(callee, args, attrs, span))
}

pub(super) fn attr(name: &str, value: AttrValue) -> Attrs {
    [(Symbol::new(name), value)].into_iter().collect()
}

/// Returns the operator of a call.
fn operator(m: &Module, e: ExprId) -> Option<&'static OpDef> {
    let Expr::Call { callee, .. } = m.exprs[e] else {
        return None;
    };
    match m.exprs[callee] {
        Expr::Op(id) => registry().get(id),
        _ => None,
    }
}

/// Returns the operator that a call names: a standard one, or a Relax operator that is kept as it
/// is.
pub(super) fn called(m: &Module, e: ExprId) -> Option<(&str, &[ExprId], &Attrs)> {
    let def = operator(m, e)?;
    let Expr::Call { args, attrs, .. } = m.exprs[e] else {
        return None;
    };
    let attrs = m.attrs(attrs);
    let kept = def
        .hooks
        .told
        .then(|| attrs.get("name")?.as_str())
        .flatten();
    Some((kept.unwrap_or(def.name), m.list(args), attrs))
}

/// Returns whether a call ends the life of its argument.
fn ends(m: &Module, e: ExprId) -> bool {
    operator(m, e).is_some_and(|d| d.hooks.lowering == Lowering::Kill)
}

/// Returns the type of an expression, where it is known.
pub(super) fn type_of(m: &Module, typing: &Typing, e: ExprId) -> Option<TypeId> {
    let known = |t: &TypeId| (t.0 as usize) < m.types.len();
    Some(typing.type_of(m, e)).filter(known)
}

/// The state of the conversion: functions and memory of a body.
struct Places<'t> {
    typing: &'t Typing,
    /// Programs that update their arguments in place, as globals.
    inplace: &'t mut FxHashMap<Symbol, GlobalId>,
    /// Replacements of variables that were overwritten or removed.
    values: FxHashMap<VarId, ExprId>,
    /// Bindings that only compute extents and are dropped.
    gone: FxHashSet<VarId>,
    steps: Vec<(VarId, ExprId)>,
    /// Tensors allocated in storage.
    allocated: Vec<VarId>,
}

impl Places<'_> {
    /// Converts the bindings of a body, one after the other.
    fn chain(&mut self, m: &mut Module, mut body: ExprId) -> ExprId {
        loop {
            match m.exprs[body] {
                Expr::Let {
                    var,
                    value,
                    body: rest,
                } => {
                    self.bound(m, var, value);
                    body = rest;
                }
                Expr::Dataflow { block, body: rest } => {
                    for b in m.blocks[block].bindings.clone() {
                        self.bound(m, b.var, b.value);
                    }
                    body = rest;
                }
                _ => break,
            }
        }
        if !self.values.is_empty() {
            body = m.substitute(body, &mut Memo::default(), &self.values);
        }
        self.empty(m, body);
        for (var, value) in std::mem::take(&mut self.steps).into_iter().rev() {
            let span = m.span(value);
            body = m.add(Expr::Let { var, value, body }, span);
        }
        body
    }

    fn bound(&mut self, m: &mut Module, var: VarId, value: ExprId) {
        let value = match self.values.is_empty() {
            true => value,
            false => m.substitute(value, &mut Memo::default(), &self.values),
        };
        self.step(m, var, value);
    }

    /// Initialises allocated tensors that are read before they are written with zeros.
    fn empty(&mut self, m: &mut Module, body: ExprId) {
        if self.allocated.is_empty() {
            return;
        }
        let roots = self.steps.iter().map(|s| s.1).chain([body]);
        let mut used = rustc_hash::FxHashSet::default();
        for e in m.post_order(roots) {
            if let Expr::Var(v) = m.exprs[e] {
                used.insert(v);
            }
        }
        for v in std::mem::take(&mut self.allocated) {
            if used.contains(&v)
                && let Some(zeros) = self.var_type(m, v).and_then(|t| zeros(m, t))
            {
                self.steps.insert(0, (v, zeros));
            }
        }
    }

    fn step(&mut self, m: &mut Module, var: VarId, value: ExprId) {
        if self.gone.contains(&var) {
            return;
        }
        let name = called(m, value).map(|c| c.0);
        let gone = match name {
            Some(name) => {
                matches!(
                    name,
                    "memory.alloc_storage"
                        | "memory.alloc_tensor"
                        | "vm.alloc_storage"
                        | "vm.alloc_tensor"
                        | "builtin.alloc_tensor"
                        | "relax.null_value"
                ) || ends(m, value)
            }
            None => checks(m, value),
        };
        if gone {
            if name.is_some_and(|n| n.ends_with("alloc_tensor")) {
                self.allocated.push(var);
            }
            return;
        }
        if name == Some("call_tir_inplace") && self.inplace_call(m, var, value).is_some() {
            return;
        }
        if let Some(done) = self.written(m, value) {
            return self.steps.extend(done);
        }
        if let Some(copied) = copy_of(m, value) {
            self.values.insert(var, copied);
            return;
        }
        self.steps.push((var, value));
    }

    /// Resolves a tensor program by name: its global, and for each parameter whether it is an input
    /// and whether it is an output.
    fn program(&mut self, m: &mut Module, callee: ExprId) -> Option<(GlobalId, Vec<(bool, bool)>)> {
        match m.exprs[callee] {
            Expr::Global(g) => match &m.globals[g].kind {
                GlobalKind::Prim(p) => {
                    let mut params = vec![(true, false); p.inputs.len()];
                    params.extend(vec![(false, true); p.outputs.len()]);
                    Some((g, params))
                }
                GlobalKind::Func(_) => None,
            },
            Expr::Extern(name) => {
                let own = m.script.as_ref()?.kept(name)?.inplace.clone()?;
                let global = *self.inplace.entry(name).or_insert_with(|| {
                    m.globals.push(Global {
                        name,
                        kind: GlobalKind::Prim(own.program.clone()),
                        span: own.program.span,
                        prelude: false,
                    })
                });
                Some((global, own.params.to_vec()))
            }
            _ => None,
        }
    }

    /// Converts `cls.f(x, y, out)`: written arguments become results.
    fn written(&mut self, m: &mut Module, value: ExprId) -> Option<Vec<(VarId, ExprId)>> {
        let Expr::Call { callee, args, .. } = m.exprs[value] else {
            return None;
        };
        let args = m.list(args).to_vec();
        let (global, params) = self.program(m, callee)?;
        if params.len() != args.len() {
            return None;
        }
        let mut targets = Vec::new();
        for (&a, _) in args.iter().zip(&params).filter(|(_, p)| p.1) {
            let Expr::Var(v) = m.exprs[a] else {
                return None;
            };
            targets.push((v, self.var_type(m, v)?));
        }
        let inputs: Vec<ExprId> = (args.iter().zip(&params))
            .filter(|(_, p)| p.0)
            .map(|(a, _)| *a)
            .collect();
        let types: Vec<TypeId> = targets.iter().map(|t| t.1).collect();
        let call = call_tir(m, global, &inputs, &types, m.span(value))?;
        let mut out = Vec::new();
        let whole = if targets.len() == 1 {
            call
        } else {
            let (var, e) = m.fresh_var("written", None, VarStyle::Binding);
            out.push((var, call));
            e
        };
        for (i, (v, ty)) in targets.iter().enumerate() {
            let part = match targets.len() {
                1 => whole,
                _ => m.add(
                    Expr::Proj {
                        tuple: whole,
                        index: i as u32,
                    },
                    Span::NONE,
                ),
            };
            let (var, e) = m.fresh_var(m.vars[*v].name, Some(*ty), VarStyle::Binding);
            out.push((var, part));
            self.values.insert(*v, e);
        }
        Some(out)
    }

    fn var_type(&self, m: &Module, v: VarId) -> Option<TypeId> {
        let known = |t: &TypeId| (t.0 as usize) < m.types.len();
        let own = m.vars[v].ty;
        own.or_else(|| Some(self.typing.vars[v]).filter(known))
    }

    /// Converts `R.call_tir_inplace(cls.f, (x, y), inplace_indices=[0, -1], out_ty=…)`.
    fn inplace_call(&mut self, m: &mut Module, var: VarId, value: ExprId) -> Option<()> {
        let (_, args, attrs) = called(m, value)?;
        let [callee, given] = *args else { return None };
        let AttrValue::Dict(rest) = attrs.get("attrs")?.clone() else {
            return None;
        };
        let indices = rest
            .iter()
            .find(|(n, _)| n == "inplace_indices")?
            .1
            .as_ints()?;
        let Expr::Tuple(given) = m.exprs[given] else {
            return None;
        };
        let given = m.list(given).to_vec();
        let Expr::Call { type_args, .. } = m.exprs[value] else {
            return None;
        };
        let types = m.type_args(type_args).to_vec();
        let (global, params) = self.program(m, callee)?;
        if types.len() != indices.len() {
            return None;
        }
        // Results that are no arguments come after the arguments.
        let mut fresh = given.len();
        let mut of_param = FxHashMap::default();
        for (k, &i) in indices.iter().enumerate() {
            let at = match usize::try_from(i) {
                Ok(i) => i,
                Err(_) => {
                    fresh += 1;
                    fresh - 1
                }
            };
            of_param.insert(at, k);
        }
        if fresh != params.len() {
            return None;
        }
        let (mut inputs, mut order) = (Vec::new(), Vec::new());
        for (i, p) in params.iter().enumerate() {
            if p.0 {
                inputs.push(*given.get(i)?);
            }
            if p.1 {
                order.push(*of_param.get(&i)?);
            }
        }
        let outs: Vec<TypeId> = order.iter().map(|&k| types[k]).collect();
        let call = call_tir(m, global, &inputs, &outs, m.span(value))?;
        if let [_] = outs[..] {
            self.steps.push((var, call));
            return Some(());
        }
        let (whole, e) = m.fresh_var("written", None, VarStyle::Binding);
        self.steps.push((whole, call));
        let mut fields = Vec::new();
        for k in 0..types.len() {
            let index = order.iter().position(|&o| o == k)? as u32;
            fields.push(m.add(Expr::Proj { tuple: e, index }, Span::NONE));
        }
        let tuple = m.tuple(&fields, Span::NONE);
        self.steps.push((var, tuple));
        Some(())
    }
}

/// Builds zeros of a type.
fn zeros(m: &mut Module, ty: TypeId) -> Option<ExprId> {
    let t = m.types.as_tensor(ty)?;
    let (dims, dtype) = (t.shape.dims()?.to_vec(), t.dtype.known()?);
    let dims = AttrValue::array(dims.into_iter().map(AttrValue::dim));
    let attrs = attr("shape", dims).with("dtype", AttrValue::DType(dtype));
    op(m, "zeros", &[], attrs, Span::NONE)
}

/// Builds a `call_tir` of a program with these result types.
fn call_tir(
    m: &mut Module,
    program: GlobalId,
    inputs: &[ExprId],
    outs: &[TypeId],
    span: Span,
) -> Option<ExprId> {
    let (mut shapes, mut dtypes) = (Vec::new(), Vec::new());
    for &t in outs {
        let t = m.types.as_tensor(t)?;
        dtypes.push(AttrValue::DType(t.dtype.known()?));
        let dims = t.shape.dims()?.to_vec();
        shapes.push(m.add(Expr::Shape(dims.into()), span));
    }
    let program = m.add(Expr::Global(program), span);
    let inputs = m.tuple(inputs, span);
    let (shape, dtype) = match (&shapes[..], &dtypes[..]) {
        ([one], [dtype]) => (*one, dtype.clone()),
        _ => (m.tuple(&shapes, span), AttrValue::Array(dtypes.into())),
    };
    op(
        m,
        "call_tir",
        &[program, inputs, shape],
        attr("dtype", dtype),
        span,
    )
}

/// Returns the name and the arguments of a call of an external function.
pub(super) fn outside(m: &Module, e: ExprId) -> Option<(Symbol, Vec<ExprId>)> {
    let Expr::Call { callee, args, .. } = m.exprs[e] else {
        return None;
    };
    match m.exprs[callee] {
        Expr::Extern(name) => Some((name, m.list(args).to_vec())),
        _ => None,
    }
}

/// Returns whether a call only checks what types already state.
fn checks(m: &Module, e: ExprId) -> bool {
    let Some((name, args)) = outside(m, e) else {
        return false;
    };
    match name.as_str() {
        "vm.builtin.check_tensor_info"
        | "vm.builtin.check_tuple_info"
        | "vm.builtin.check_shape_info"
        | "vm.builtin.check_prim_value_info"
        | "vm.builtin.check_func_info" => true,
        // The operands are pairs of a code and a number: code 0 compares, 3 does nothing, others
        // store or load.
        "vm.builtin.match_shape" => {
            let number = |e: &ExprId| called(m, *e)?.2.get("value")?.as_int();
            let codes = args
                .get(3..args.len().saturating_sub(1))
                .unwrap_or_default();
            codes
                .iter()
                .step_by(2)
                .all(|e| matches!(number(e), Some(0 | 3)))
        }
        _ => false,
    }
}

/// Returns the operand that a copying call returns unchanged.
fn copy_of(m: &Module, e: ExprId) -> Option<ExprId> {
    let (name, args) = outside(m, e)?;
    match (name.as_str(), &args[..]) {
        ("vm.builtin.copy", [one]) => Some(*one),
        _ => None,
    }
}

//! What Relax says of memory, of numbers that are extents, and of shapes, as values: before native code is made.
//!
//! TVM's own passes leave programs in which a function is called for what it does to its arguments
//! (`cls.add(x, y, alloc)`): tensors are placed in blocks of memory first, written by tensor programs, and killed. Here
//! each such call gives new tensors, which stand for the written ones from there on; blocks, places and ends are gone.
//! Extents as values (`R.shape_of(x)`, `n` among arguments) are computed from the parameters that bind them.

use std::sync::Arc;

use relax_base::{Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, Global, GlobalId, GlobalKind, Memo, Module, Shape, Type,
    TypeId, VarId, VarStyle,
};
use relax_ops::registry;
use relax_sym::{Atom, Dim, DimBuilder, DimError, DimOp, DimVar};
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::Typed;

/// A module of Relax in TVMScript with all of it as values; `typed` is what is known of its types.
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
    let mut inplace = FxHashMap::default();
    for (global, body) in m.global_bodies() {
        let Some(func) = m.global_func(global) else {
            continue;
        };
        let params = m.funcs[func].params.clone();
        let mut places = Places {
            typing: &typing,
            inplace: &mut inplace,
            values: FxHashMap::default(),
            steps: Vec::new(),
            allocated: Vec::new(),
        };
        let body = places.chain(m, body);
        let bound = bound_by(m, &typing, &params);
        let body = m.rewrite(body, &mut Memo::default(), |m, new, old| {
            extents(m, &typing, &bound, new, old).unwrap_or(new)
        });
        m.set_global_body(global, body);
    }
}

fn op(m: &mut Module, name: &str, args: &[ExprId], attrs: Attrs, span: Span) -> Option<ExprId> {
    let callee = m.add(Expr::Op(registry().find(name)?), Span::NONE);
    Some(m.call_attrs(callee, args, attrs, span))
}

fn attr(name: &str, value: AttrValue) -> Attrs {
    [(Symbol::new(name), value)].into_iter().collect()
}

/// The operator that a call names: one of ours, or one of Relax that is kept as it is.
fn called(m: &Module, e: ExprId) -> Option<(&str, &[ExprId], &Attrs)> {
    let Expr::Call {
        callee,
        args,
        attrs,
        ..
    } = m.exprs[e]
    else {
        return None;
    };
    let Expr::Op(id) = m.exprs[callee] else {
        return None;
    };
    let (def, attrs) = (registry().get(id)?, m.attrs(attrs));
    let kept = def
        .hooks
        .told
        .then(|| attrs.get("name")?.as_str())
        .flatten();
    Some((kept.unwrap_or(def.name), m.list(args), attrs))
}

/// The type of an expression, where it is known.
fn type_of(m: &Module, typing: &Typing, e: ExprId) -> Option<TypeId> {
    let known = |t: &TypeId| (t.0 as usize) < m.types.len();
    let ty = match m.exprs[e] {
        Expr::Var(v) => typing.vars[v],
        _ => typing.exprs[e],
    };
    Some(ty).filter(known)
}

/// The functions and the memory of a body.
struct Places<'t> {
    typing: &'t Typing,
    /// Programs that change what they are given, as globals.
    inplace: &'t mut FxHashMap<Symbol, GlobalId>,
    /// What stands for variables that were written, or are not there any more.
    values: FxHashMap<VarId, ExprId>,
    steps: Vec<(VarId, ExprId)>,
    /// Tensors in memory.
    allocated: Vec<VarId>,
}

impl Places<'_> {
    /// The bindings of a body, one after the other.
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

    /// Tensors in memory that are read although nothing was written to them hold zeros.
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
        let name = called(m, value).map(|c| c.0);
        let gone = match name {
            Some(name) => matches!(
                name,
                "memory.alloc_storage"
                    | "memory.alloc_tensor"
                    | "vm.alloc_storage"
                    | "vm.alloc_tensor"
                    | "builtin.alloc_tensor"
                    | "memory.kill_storage"
                    | "memory.kill_tensor"
                    | "vm.kill_object"
                    | "relax.null_value"
            ),
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

    /// A tensor program by its name: its global, and of each parameter whether it is an input, and an output.
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

    /// `cls.f(x, y, out)`: what is written becomes new.
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

    /// `R.call_tir_inplace(cls.f, (x, y), inplace_indices=[0, -1], out_ty=…)`.
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
        // Results that are no argument stand behind the arguments.
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

/// Zeros of a type.
fn zeros(m: &mut Module, ty: TypeId) -> Option<ExprId> {
    let t = m.types.as_tensor(ty)?;
    let (dims, dtype) = (t.shape.dims()?.to_vec(), t.dtype.known()?);
    let dims = AttrValue::array(dims.into_iter().map(AttrValue::dim));
    let attrs = attr("shape", dims).with("dtype", AttrValue::DType(dtype));
    op(m, "zeros", &[], attrs, Span::NONE)
}

/// `call_tir` of a program for results of these types.
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

/// The name and the arguments of a call of a function outside.
fn outside(m: &Module, e: ExprId) -> Option<(Symbol, Vec<ExprId>)> {
    let Expr::Call { callee, args, .. } = m.exprs[e] else {
        return None;
    };
    match m.exprs[callee] {
        Expr::Extern(name) => Some((name, m.list(args).to_vec())),
        _ => None,
    }
}

/// Whether a call only checks what types say as well.
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
        // Pairs of what to do with an extent and a number: 0 compares, 3 does nothing, others store or load.
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

/// What a call gives that only copies.
fn copy_of(m: &Module, e: ExprId) -> Option<ExprId> {
    let (name, args) = outside(m, e)?;
    match (name.as_str(), &args[..]) {
        ("vm.builtin.copy", [one]) => Some(*one),
        _ => None,
    }
}

/// The parameter and the axis whose extent each dimension is.
fn bound_by(m: &Module, typing: &Typing, params: &[VarId]) -> FxHashMap<DimVar, (VarId, usize)> {
    let mut bound = FxHashMap::default();
    for &p in params {
        let ty = typing.vars[p];
        if (ty.0 as usize) >= m.types.len() {
            continue;
        }
        let Some(dims) = m.types.as_tensor(ty).and_then(|t| t.shape.dims()) else {
            continue;
        };
        for (axis, d) in dims.iter().enumerate() {
            if let Some(Atom::Var(v)) = d.as_atom() {
                bound.entry(v).or_insert((p, axis));
            }
        }
    }
    bound
}

/// Builds a number from extents of parameters.
struct Numbers<'m> {
    m: &'m mut Module,
    bound: &'m FxHashMap<DimVar, (VarId, usize)>,
}

impl Numbers<'_> {
    fn number(&mut self, value: i64) -> ExprId {
        self.m
            .constant(Tensor::scalar_i64(DType::I64, value), Span::NONE)
    }
}

impl DimBuilder for Numbers<'_> {
    type Out = Option<ExprId>;
    fn int(&mut self, value: i64) -> Option<ExprId> {
        Some(self.number(value))
    }
    fn atom(&mut self, atom: Atom) -> Option<ExprId> {
        let Atom::Var(v) = atom else { return None };
        let &(param, axis) = self.bound.get(&v)?;
        let e = self.m.add(Expr::Var(param), Span::NONE);
        let dtype = attr("dtype", AttrValue::DType(DType::I64));
        let shape = op(self.m, "shape_of", &[e], dtype, Span::NONE)?;
        let at = self.number(axis as i64);
        let attrs = registry().get(registry().find("take")?)?.default_attrs();
        op(
            self.m,
            "take",
            &[shape, at],
            attrs.with("axis", AttrValue::Int(0)),
            Span::NONE,
        )
    }
    fn any(&mut self) -> Option<ExprId> {
        None
    }
    fn bad(&mut self, _: DimError) -> Option<ExprId> {
        None
    }
    fn op(&mut self, how: DimOp, a: Option<ExprId>, b: Option<ExprId>) -> Option<ExprId> {
        let name = match how {
            DimOp::Add => "add",
            DimOp::Sub => "subtract",
            DimOp::Mul => "multiply",
            DimOp::FloorDiv => "floor_divide",
            DimOp::Mod => "floor_mod",
            DimOp::Min => "minimum",
            DimOp::Max => "maximum",
        };
        op(self.m, name, &[a?, b?], Attrs::new(), Span::NONE)
    }
    fn group(&mut self, inner: Option<ExprId>) -> Option<ExprId> {
        inner
    }
}

fn number(
    m: &mut Module,
    bound: &FxHashMap<DimVar, (VarId, usize)>,
    v: &AttrValue,
) -> Option<ExprId> {
    v.as_dim()?.build(&mut Numbers { m, bound })
}

/// The extents of a shape, by its type.
fn dims_of(m: &Module, typing: &Typing, e: ExprId) -> Option<Vec<Dim>> {
    if let Expr::Shape(dims) = &m.exprs[e] {
        return Some(dims.to_vec());
    }
    match &m.types[type_of(m, typing, e)?] {
        Type::Shape(Shape::Dims(dims)) if dims.iter().all(Dim::is_known) => Some(dims.to_vec()),
        _ => None,
    }
}

/// A value that is made of extents, as numbers or as a shape that is written.
fn extents(
    m: &mut Module,
    typing: &Typing,
    bound: &FxHashMap<DimVar, (VarId, usize)>,
    new: ExprId,
    old: ExprId,
) -> Option<ExprId> {
    if let Some((name, _)) = outside(m, new)
        && name == "vm.builtin.shape_of"
    {
        let dims = dims_of(m, typing, old)?;
        return Some(m.add(Expr::Shape(dims.into()), m.span(new)));
    }
    let (name, args, attrs) = called(m, new)?;
    let (span, args) = (m.span(new), args.to_vec());
    match name {
        "relax.value" => {
            let value = attrs.get("value")?.clone();
            matches!(value, AttrValue::Dim(_))
                .then(|| number(m, bound, &value))
                .flatten()
        }
        "relax.condition" => {
            let name = match attrs.get("op")?.as_str()? {
                "==" => "equal",
                "!=" => "not_equal",
                "<" => "less",
                "<=" => "less_equal",
                ">" => "greater",
                _ => "greater_equal",
            };
            let (a, b) = (attrs.get("left")?.clone(), attrs.get("right")?.clone());
            let (a, b) = (number(m, bound, &a)?, number(m, bound, &b)?);
            op(m, name, &[a, b], Attrs::new(), span)
        }
        "relax.shape_of" => {
            let dims = dims_of(m, typing, old)?;
            Some(m.add(Expr::Shape(dims.into()), span))
        }
        "relax.shape_to_tensor" => {
            let dims = dims_of(m, typing, *args.first()?)?;
            let mut all = Vec::new();
            for d in dims {
                all.push(number(m, bound, &AttrValue::dim(d))?);
            }
            let tuple = m.tuple(&all, span);
            op(m, "stack", &[tuple], attr("axis", AttrValue::Int(0)), span)
        }
        "relax.reshape" | "relax.broadcast_to" => {
            let [x, shape] = args[..] else { return None };
            let dims = dims_of(m, typing, shape)?;
            let dims = AttrValue::array(dims.into_iter().map(AttrValue::dim));
            let (name, to) = match name {
                "relax.reshape" => ("reshape", "newshape"),
                _ => ("broadcast_to", "shape"),
            };
            let attrs = registry().get(registry().find(name)?)?.default_attrs();
            op(m, name, &[x], attrs.with(to, dims), span)
        }
        _ => None,
    }
}

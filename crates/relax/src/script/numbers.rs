//! Extents as values: numbers, shapes and tensors of them, computed from the parameters that bind
//! them.

use relax_infer::Typing;
use relax_ir::{AttrValue, Attrs, Expr, ExprId, Module, Shape, TensorType, Type, VarId};
use relax_ops::registry;
use relax_sym::{Atom, Dim, DimBuilder, DimError, DimOp, DimVar};
use relax_tensor::{DType, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};

use relax_base::Span;

use super::places::{attr, called, op, outside, type_of};

/// Returns the variables bound to shapes that are made from tensors. Variables cast from them lose
/// their annotations.
pub(super) fn measured(m: &mut Module) -> FxHashSet<VarId> {
    let mut bindings = Vec::new();
    for (_, body) in m.global_bodies() {
        for e in m.post_order([body]) {
            match m.exprs[e] {
                Expr::Let { var, value, .. } => bindings.push((var, value)),
                Expr::Dataflow { block, .. } => {
                    bindings.extend(m.blocks[block].bindings.iter().map(|b| (b.var, b.value)));
                }
                _ => {}
            }
        }
    }
    let said = |m: &Module, e: ExprId| called(m, e).is_some_and(|c| c.0 == "relax.tensor_to_shape");
    let found: FxHashSet<VarId> = (bindings.iter().filter(|b| said(m, b.1)))
        .map(|b| b.0)
        .collect();
    for (var, value) in bindings {
        if let Expr::MatchCast { value, .. } = m.exprs[value]
            && let Expr::Var(v) = m.exprs[value]
            && found.contains(&v)
        {
            m.vars[var].ty = None;
        }
    }
    found
}

/// Rewrites a cast of such a shape to that of a tensor with these extents.
pub(super) fn cast(m: &mut Module, measured: &FxHashSet<VarId>, e: ExprId) -> Option<ExprId> {
    let Expr::MatchCast { value, ty } = m.exprs[e] else {
        return None;
    };
    let (Expr::Var(v), Type::Shape(shape)) = (&m.exprs[value], &m.types[ty]) else {
        return None;
    };
    if !measured.contains(v) {
        return None;
    }
    let ty = Type::Tensor(TensorType {
        shape: shape.clone(),
        dtype: DType::BOOL.into(),
    });
    let (ty, span) = (m.types.intern(ty), m.span(e));
    Some(m.add(Expr::MatchCast { value, ty }, span))
}

/// Returns the parameter and axis that bind each dimension variable.
pub(super) fn bound_by(
    m: &Module,
    typing: &Typing,
    params: &[VarId],
) -> FxHashMap<DimVar, (VarId, usize)> {
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

/// Builds scalars from the extents of parameters.
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

/// Returns the extents of a shape value, from its type.
fn dims_of(m: &Module, typing: &Typing, e: ExprId) -> Option<Vec<Dim>> {
    let ty = match &m.exprs[e] {
        Expr::Shape(dims) => return Some(dims.to_vec()),
        // The call of an external function states its result type.
        Expr::Call { type_args, .. } if let [one] = m.type_args(*type_args) => *one,
        _ => type_of(m, typing, e)?,
    };
    match &m.types[ty] {
        Type::Shape(Shape::Dims(dims)) if dims.iter().all(Dim::is_known) => Some(dims.to_vec()),
        _ => None,
    }
}

/// Returns a tensor view of another tensor's memory: its extents, element type and offset.
fn view(m: &mut Module, typing: &Typing, args: &[ExprId], call: ExprId) -> Option<ExprId> {
    let [data, shape, dtype, offset] = *args else {
        return None;
    };
    let value = |m: &Module, e: ExprId| called(m, e)?.2.get("value").cloned();
    let dims = dims_of(m, typing, shape)?;
    let dims = AttrValue::array(dims.into_iter().map(AttrValue::dim));
    let attrs = attr("shape", dims)
        .with("dtype", value(m, dtype)?)
        .with("relative_byte_offset", value(m, offset)?);
    op(m, "relax.memory.view", &[data], attrs, m.span(call))
}

/// Builds a value from extents, as numbers or as an explicit shape.
pub(super) fn extents(
    m: &mut Module,
    typing: &Typing,
    bound: &FxHashMap<DimVar, (VarId, usize)>,
    new: ExprId,
    old: ExprId,
) -> Option<ExprId> {
    if let Some((name, args)) = outside(m, new) {
        return match name.as_str() {
            "vm.builtin.shape_of" => {
                let dims = dims_of(m, typing, old)?;
                Some(m.add(Expr::Shape(dims.into()), m.span(new)))
            }
            "runtime.TVMTensorCreateView" | "runtime.TVMArrayCreateView" => {
                view(m, typing, &args, new)
            }
            _ => None,
        };
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
        // The shape is represented by a tensor of these extents: only types of tensors have
        // data-dependent extents.
        "relax.tensor_to_shape" => {
            let dtype = attr("dtype", AttrValue::DType(DType::BOOL));
            op(m, "dyn.zeros", &args, dtype, span)
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

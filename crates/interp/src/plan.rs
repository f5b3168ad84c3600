//! Operator calls as tensor programs, cached by the forms of their arguments.

use std::rc::Rc;
use std::sync::Arc;

use relax_base::{Diagnostic, Span};
use relax_infer::{InferOptions, Typing};
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, Function, GlobalKind, Module, OpId, Shape, Type, TypeArena,
    TypeId, VarStyle,
};
use relax_loops::{Ex, ExKind, Program};
use relax_ops::call_requirements::{self, Extent};
use relax_ops::{OpDef, TensorInfo};
use relax_programs::{CONST_LIMIT, NoProgram, Operator, flatten_with, item_program};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use crate::codes;
use crate::types::{Dims, eval, lookup};
use crate::value::Value;

/// A step of building a value from tensors, in postfix order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Step {
    /// The next tensor.
    Tensor,
    /// A tuple of this many of the last values.
    Tuple(usize),
}

/// The program to run for a call of an operator.
pub(crate) struct Plan {
    pub program: Arc<Program>,
    pub form: Vec<Step>,
    /// The outputs' shapes, where they bind dimensions of the program.
    pub outs: Option<Vec<Vec<i64>>>,
}

/// Builds a value from tensors.
pub(crate) fn build(form: &[Step], tensors: Vec<Tensor>) -> Value {
    let mut tensors = tensors.into_iter();
    let mut stack: Vec<Value> = Vec::new();
    for step in form {
        match step {
            Step::Tensor => stack.extend(tensors.next().map(Value::from)),
            Step::Tuple(n) => {
                let fields = stack.split_off(stack.len().saturating_sub(*n));
                stack.push(Value::tuple(fields));
            }
        }
    }
    stack.pop().unwrap_or_else(|| Value::tuple(vec![]))
}

/// The tensors of a type, and the steps that build its value from them; `None` when a component is
/// not a tensor of known rank and element type.
fn form_of(types: &TypeArena, ty: TypeId, dims: &Dims) -> Option<(Vec<TensorInfo>, Vec<Step>)> {
    let infos = flatten_with(types, ty, |d| eval(dims, d))?;
    let mut form = Vec::new();
    let mut work = vec![(ty, false)];
    while let Some((ty, ready)) = work.pop() {
        match &types[ty] {
            Type::Tuple(fields) if ready => form.push(Step::Tuple(fields.len())),
            Type::Tuple(fields) => {
                work.push((ty, true));
                work.extend(fields.iter().rev().map(|f| (*f, false)));
            }
            _ => form.push(Step::Tensor),
        }
    }
    Some((infos, form))
}

/// A call to be instantiated.
pub(crate) struct Request<'a> {
    pub m: &'a Module,
    pub typing: &'a Typing,
    pub at: ExprId,
    pub op: OpId,
    pub attrs: &'a Attrs,
    /// The arguments, and the tensors of each.
    pub args: &'a [Value],
    pub tensors: &'a [Vec<Tensor>],
    /// For each argument, whether it is a constant.
    pub consts: &'a [bool],
    pub dims: &'a Dims,
    pub span: Span,
}

/// Attributes with the dimensions' values substituted for variables.
pub(crate) fn concrete(attrs: &Attrs, dims: &Dims) -> Option<Attrs> {
    fn value(v: &AttrValue, dims: &Dims, changed: &mut bool) -> AttrValue {
        match v {
            AttrValue::Dim(d) => match eval(dims, d) {
                Some(n) => {
                    *changed = true;
                    AttrValue::Int(n)
                }
                None => v.clone(),
            },
            // Lists of dimensions are flat.
            AttrValue::Array(items) if items.iter().any(|i| matches!(i, AttrValue::Dim(_))) => {
                AttrValue::array(items.iter().map(|i| match value(i, dims, changed) {
                    // An extent stays a dimension: as plain numbers in attributes, 0 and less have
                    // special meanings.
                    AttrValue::Int(n) if n <= 0 && is_symbolic(i) => AttrValue::Dim(Dim::from(n)),
                    other => other,
                }))
            }
            other => other.clone(),
        }
    }
    fn is_symbolic(v: &AttrValue) -> bool {
        matches!(v, AttrValue::Dim(d) if d.as_const().is_none())
    }
    let mut changed = false;
    let new: Attrs = attrs
        .iter()
        .map(|(n, v)| (*n, value(v, dims, &mut changed)))
        .collect();
    changed.then_some(new)
}

pub(crate) fn plan(r: &Request<'_>) -> Result<Plan, Diagnostic> {
    let typed = form_of(&r.m.types, r.typing.exprs[r.at], r.dims);
    let (outs, form) = match typed {
        Some(found) => found,
        None => infer_form(r)?,
    };
    let program = match Operator::find(r.m, r.op) {
        Some(Operator::Item(op)) => user_program(r, op)?,
        Some(Operator::BuiltIn(def)) => builtin_program(r, def, &outs)?,
        None => {
            let text = "a call of an unknown operator";
            return Err(Diagnostic::error(codes::BROKEN, r.span, text));
        }
    };
    let free = program.dims.iter().any(|d| {
        let binds = |e: &Ex| matches!(e.kind(), ExKind::Var(v) if v == d);
        !program
            .inputs
            .iter()
            .any(|b| program.bufs[*b].shape.iter().any(binds))
    });
    let shapes = || {
        outs.iter()
            .map(|o| o.shape.iter().copied().collect())
            .collect()
    };
    let outs = if free {
        let all: Option<Vec<Vec<i64>>> = shapes();
        Some(all.ok_or_else(|| {
            let text = "the shape of this result is not known, and its computation needs it";
            Diagnostic::error(codes::NO_COMPUTATION, r.span, text)
        })?)
    } else {
        None
    };
    if outs.is_none()
        && form.iter().filter(|s| **s == Step::Tensor).count() != program.outputs.len()
    {
        let (n, wanted) = (program.outputs.len(), form.len());
        let text = format!(
            "the computation of `{}` gives {n} tensors, its type has {wanted}",
            program.name
        );
        return Err(Diagnostic::error(codes::NO_COMPUTATION, r.span, text));
    }
    Ok(Plan {
        program,
        form,
        outs,
    })
}

fn builtin_program(
    r: &Request<'_>,
    def: &OpDef,
    outs: &[TensorInfo],
) -> Result<Arc<Program>, Diagnostic> {
    let args: Vec<Vec<TensorInfo>> = (r.tensors.iter())
        .map(|all| all.iter().map(TensorInfo::from).collect())
        .collect();
    let consts: Vec<Option<Tensor>> = (r.tensors.iter().zip(r.consts))
        .map(|(all, constant)| match &all[..] {
            [t] if *constant && t.len() <= CONST_LIMIT => Some(t.clone()),
            _ => None,
        })
        .collect();
    if def.compute.is_some() {
        require(r, def, &consts)?;
    }
    let request = relax_programs::Request {
        op: def,
        args: &args,
        consts,
        attrs: r.attrs,
        outs,
    };
    let made = request.program(|_| ()).map_err(|why| {
        let d = no_program(r, &why);
        match why {
            NoProgram::NoComputation(_) => d.note(def.hooks.uncomputed),
            NoProgram::Unsupported(_) => d,
        }
    })?;
    Ok(Arc::new(made.program))
}

fn no_program(r: &Request<'_>, why: &NoProgram) -> Diagnostic {
    Diagnostic::error(codes::NO_COMPUTATION, r.span, why.to_string())
}

/// Rejects incompatible extents, where typing has not proven them compatible.
fn require(r: &Request<'_>, def: &OpDef, consts: &[Option<Tensor>]) -> Result<(), Diagnostic> {
    let Expr::Call { args, .. } = r.m.exprs[r.at] else {
        return Ok(());
    };
    let types: Vec<TypeId> = (r.m.list(args).iter())
        .map(|&a| r.typing.type_of(r.m, a))
        .collect();
    let known = |ty: &TypeId| form_of(&r.m.types, *ty, r.dims).is_some();
    let needs = if types.len() == r.args.len() && types.iter().all(known) {
        call_requirements::requirements(def, &r.m.types, &r.m.dims, &types, consts, r.attrs)
    } else {
        // The call's own types are too imprecise (it is in a generic function, or calls a value).
        let mut own = TypeArena::new();
        let types: Vec<TypeId> = (r.args.iter())
            .map(|v| type_of(&mut own, v, &|_| Dim::ANY))
            .collect();
        call_requirements::requirements(def, &own, &r.m.dims, &types, consts, r.attrs)
    };
    let extent = |e: Extent| match e {
        Extent::Axis(i, j, axis) => r.tensors.get(i)?.get(j)?.shape().get(axis).copied(),
        Extent::Var(v) => lookup(r.dims, v),
    };
    match needs.broken(&extent) {
        Some(text) => Err(Diagnostic::error(codes::DIMENSION, r.span, text)),
        None => Ok(()),
    }
}

/// The program of an `op` item, with its attributes' values.
fn user_program(r: &Request<'_>, op: &relax_ir::UserOp) -> Result<Arc<Program>, Diagnostic> {
    // Each argument is one tensor; of its extents only the number matters.
    let tensors: Vec<TensorInfo> = (r.tensors.iter().flatten())
        .map(|t| TensorInfo {
            dtype: t.dtype(),
            shape: vec![None; t.shape().len()],
        })
        .collect();
    let program = item_program(op, &r.m.types, r.attrs, &tensors).map_err(|e| no_program(r, &e))?;
    Ok(Arc::new(program))
}

/// Infers the result of a call for these arguments, where the program's types leave it open: runs
/// the operator's relation, in a module of one call.
fn infer_form(r: &Request<'_>) -> Result<(Vec<TensorInfo>, Vec<Step>), Diagnostic> {
    let mut m = if r.op.user_index().is_some() {
        r.m.clone()
    } else {
        Module::new()
    };
    let (mut args, mut params) = (Vec::new(), Vec::new());
    for (k, value) in r.args.iter().enumerate() {
        let constant = r.consts[k] && r.tensors[k].len() == 1;
        if constant {
            args.push(m.constant(r.tensors[k][0].clone(), r.span));
        } else {
            let ty = type_of(&mut m.types, value, &|n| Dim::from(n));
            let (var, e) = m.fresh_var("x", Some(ty), VarStyle::Param);
            params.push(var);
            args.push(e);
        }
    }
    let callee = m.add(Expr::Op(r.op), r.span);
    let body = m.call_attrs(callee, &args, r.attrs.clone(), r.span);
    let func = m.funcs.push(Function {
        type_params: vec![],
        dims: vec![],
        params,
        ret: None,
        constraints: vec![],
        body,
        attrs: Attrs::new(),
        span: r.span,
    });
    m.globals.push(relax_ir::Global {
        name: relax_base::Symbol::new("\u{1}call"),
        kind: GlobalKind::Func(func),
        span: r.span,
        prelude: false,
    });
    let (typing, diagnostics) = relax_infer::infer(&mut m, &InferOptions::default());
    if let Some(d) = diagnostics.iter().find(|d| d.is_error()) {
        return Err(d.clone());
    }
    form_of(&m.types, typing.exprs[body], &Dims::new()).ok_or_else(|| {
        let ty = m.show_type(typing.exprs[body]);
        let text = format!("the result of this call has type {ty}, which cannot be evaluated");
        Diagnostic::error(codes::NO_COMPUTATION, r.span, text)
    })
}

/// The type of a value of tensors, tuples and shapes, with extents by `extent`; `Object` for
/// anything else.
fn type_of(types: &mut TypeArena, value: &Value, extent: &dyn Fn(i64) -> Dim) -> TypeId {
    let leaf = |types: &mut TypeArena, value: &Value| {
        let dims = |s: &[i64]| s.iter().map(|d| extent(*d)).collect::<Vec<_>>();
        match value {
            Value::Tensor(t) => types.tensor(dims(t.shape()), t.dtype()),
            Value::Shape(s) => types.intern(Type::Shape(Shape::Dims(dims(s).into()))),
            _ => types.intern(Type::Object),
        }
    };
    let mut done: Vec<TypeId> = Vec::new();
    let mut work = vec![(value, false)];
    while let Some((v, ready)) = work.pop() {
        match v.fields().filter(|_| v.ctor().is_none()) {
            Some(fields) if ready => {
                let parts = done.split_off(done.len() - fields.len());
                done.push(types.tuple(parts));
            }
            Some(fields) => {
                work.push((v, true));
                work.extend(fields.iter().rev().map(|f| (f, false)));
            }
            None => done.push(leaf(types, v)),
        }
    }
    done[0]
}

/// A tensor that holds a shape value's extents.
pub(crate) fn shape_tensor(shape: &Rc<[i64]>) -> Tensor {
    Tensor::from_slice(&[shape.len() as i64], shape)
}

/// The element types of `call_tir`'s `dtype` attribute, one per output.
pub(crate) fn dtypes(attrs: &Attrs, n: usize) -> Option<Vec<DType>> {
    let one = |v: &AttrValue| match v {
        AttrValue::DType(d) => Some(*d),
        AttrValue::Str(s) => s.parse().ok(),
        _ => None,
    };
    let value = attrs.get("dtype")?;
    let all: Vec<DType> = match value.as_array() {
        Some(list) => list.iter().map(one).collect::<Option<_>>()?,
        None => vec![one(value)?],
    };
    match all[..] {
        [d] => Some(vec![d; n]),
        _ => (all.len() == n).then_some(all),
    }
}

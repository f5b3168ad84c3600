//! Operator calls as tensor programs.

use relax_base::{Diagnostic, Span};
use relax_ir::{Attrs, DTy, Module, Shape, Type, TypeId, UserOp};
use relax_loops::{Program, extents};
use relax_ops::{OpDef, Te, TensorInfo, call_requirements};
use relax_sym::Dim;
use relax_tensor::Tensor;

use crate::codes;

/// The tensors that a value of a type consists of, tuples flattened in order. `None` when a part is
/// no tensor of known rank and element type.
pub fn flatten(m: &Module, ty: TypeId) -> Option<Vec<TensorInfo>> {
    let mut out = Vec::new();
    let mut work = vec![ty];
    while let Some(t) = work.pop() {
        match &m.types[t] {
            Type::Tensor(t) => {
                let (Shape::Dims(dims), DTy::Known(dtype)) = (&t.shape, t.dtype) else {
                    return None;
                };
                let shape = dims.iter().map(Dim::as_const).collect();
                out.push(TensorInfo { dtype, shape });
            }
            Type::Tuple(fields) => work.extend(fields.iter().rev()),
            _ => return None,
        }
    }
    Some(out)
}

/// The extents of the tensors that a value of a type consists of, in the order of [`flatten`]; nothing for what is no
/// tensor of known rank.
pub fn dims(m: &Module, ty: TypeId) -> impl Iterator<Item = Option<&[Dim]>> {
    let of = |ty| m.types.as_tensor(ty).and_then(|t| t.shape.dims());
    m.types.leaves(ty).into_iter().map(of)
}

/// What the extents of the tensors of some values are, where types say it: equal ones are equal in every call.
pub fn known_extents(m: &Module, types: impl IntoIterator<Item = TypeId>) -> Vec<Vec<Option<Dim>>> {
    let symbolic = |d: &Dim| (d.is_known() && d.as_const().is_none()).then(|| d.clone());
    let of = |dims: Option<&[Dim]>| dims.unwrap_or_default().iter().map(symbolic).collect();
    let all = types.into_iter().flat_map(|ty| dims(m, ty));
    all.map(of).collect()
}

/// What decides an operator's program, but for the values of constant arguments: calls with the same key are calls
/// of one kernel.
pub fn call_key(m: &Module, name: &str, args: &[TypeId], out: TypeId, attrs: &Attrs) -> String {
    let shown: Vec<String> = args.iter().map(|&t| m.show_type(t)).collect();
    // Two dimensions may have one name.
    let extents = known_extents(m, args.iter().copied());
    let flat: Vec<_> = extents.iter().flatten().collect();
    let first = |d| flat.iter().position(|x| *x == d);
    let equal: Vec<_> = flat.iter().map(|d| first(*d)).collect();
    format!("{name} {shown:?} {equal:?} {} {attrs:?}", m.show_type(out))
}

/// The tensor program of one call of an operator. `consts` are the values of constant arguments.
/// Errors are about `span`: an argument of unknown rank or type, or a form that the operator's
/// computation does not support.
///
/// # Errors
/// The operator has no computation for these types.
pub fn op_program(
    m: &Module,
    op: &OpDef,
    args: &[TypeId],
    out: TypeId,
    attrs: &Attrs,
    consts: Vec<Option<Tensor>>,
    span: Span,
) -> Result<Program, Diagnostic> {
    op_program_noting(m, op, args, out, attrs, consts, span).map(|p| p.0)
}

/// As [`op_program`], and whether the program depends on the values of constant arguments.
///
/// # Errors
/// As for [`op_program`].
pub fn op_program_noting(
    m: &Module,
    op: &OpDef,
    args: &[TypeId],
    out: TypeId,
    attrs: &Attrs,
    consts: Vec<Option<Tensor>>,
    span: Span,
) -> Result<(Program, bool), Diagnostic> {
    let unknown = |what: &str, ty: TypeId| unknown(m, op.name, what, ty, span);
    let mut infos = Vec::with_capacity(args.len());
    for (i, &ty) in args.iter().enumerate() {
        infos.push(flatten(m, ty).ok_or_else(|| unknown(&argument(i), ty))?);
    }
    let outs = flatten(m, out).ok_or_else(|| unknown("the result", out))?;
    let Some(compute) = op.compute else {
        let text = format!("`{}` has no computation", op.name);
        return Err(Diagnostic::error(codes::NO_COMPUTATION, span, text)
            .note("another pass has to replace it before code is generated"));
    };
    let needs = call_requirements::requirements(op, &m.types, &m.dims, args, &consts, attrs);
    let mut te = Te::new(op.name, &infos, consts, attrs, &outs);
    compute(&mut te).map_err(|e| {
        Diagnostic::error(
            codes::NO_COMPUTATION,
            span,
            format!("`{}`: {}", op.name, e.0),
        )
    })?;
    te.require(&needs, &m.types, args);
    let by_value = te.asked_for_consts();
    let mut program = te.finish();
    if !program.dims.is_empty() {
        extents::share(&mut program, &known_extents(m, args.iter().copied()));
    }
    Ok((program, by_value))
}

/// The tensor program of one call of an operator that the text defines.
///
/// # Errors
/// The operator has no computation for these arguments.
pub fn user_op_program(
    m: &Module,
    op: &UserOp,
    args: &[TypeId],
    attrs: &Attrs,
    span: Span,
) -> Result<Program, Diagnostic> {
    let mut extents = Vec::with_capacity(args.len());
    for (i, &ty) in args.iter().enumerate() {
        let tensor = flatten(m, ty).and_then(|all| all.into_iter().next());
        extents.push(match tensor {
            Some(t) => t.shape.to_vec(),
            None => return Err(unknown(m, op.name.as_str(), &argument(i), ty, span)),
        });
    }
    op.program_for(&m.types, attrs, &extents)
        .map_err(|e| Diagnostic::error(codes::NO_COMPUTATION, span, e.to_string()))
}

/// How messages name an argument.
fn argument(i: usize) -> String {
    format!("argument {}", i + 1)
}

fn unknown(m: &Module, op: &str, what: &str, ty: TypeId, span: Span) -> Diagnostic {
    let text = m.show_type(ty);
    let message = format!("`{op}` cannot be compiled here: {what} has type {text}");
    Diagnostic::error(codes::UNKNOWN_RANK, span, message)
        .note("native code needs the rank and element type of every tensor; annotate it")
}

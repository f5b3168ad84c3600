//! Relax's cross-level calls: tensor programs and packed functions that write into given tensors.

use relax_ir::{AttrValue, Shape, TensorType, Type, TypeId};
use relax_tensor::DType as DT;

use crate::AttrTy::{DTypes, Dims};
use crate::{Default, Effects, Lowering, OpDef, RelCx, RelResult, Stop, Subject, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "call_tir",
        "Runs a tensor program on tensors; it writes new tensors of the given shapes.",
        call_tir,
    )
    .inputs(&[
        input("program", "the tensor program"),
        input("args", "its inputs, a tuple"),
        input("shape", "the shape of its output, or a tuple of shapes"),
    ])
    .attrs(&[attr(
        "dtype",
        DTypes,
        Default::Required,
        "the element type of the output, or a list of them",
    )])
    .lowering(Lowering::CallTir),
    OpDef::new(
        "call_dps_packed",
        "Runs a function registered at run time on tensors; it writes new tensors of the given shapes.",
        call_dps_packed,
    )
    .inputs(&[
        input("function", "the function's name"),
        input("args", "its inputs, a tuple"),
        input("shape", "the shape of its output, or a tuple of shapes"),
    ])
    .attrs(&[attr(
        "dtype",
        DTypes,
        Default::Required,
        "the element type of the output, or a list of them",
    )])
    .lowering(Lowering::CallDpsPacked),
    OpDef::new(
        "call_tir_inplace",
        "Runs a tensor program on tensors, its inputs and then its outputs; it writes the outputs, which are the result.",
        call_tir_inplace,
    )
    .inputs(&[
        input("program", "the tensor program"),
        input("args", "a tensor for each of its buffers, a tuple"),
    ])
    .attrs(&[attr(
        "inplace_indices",
        Dims,
        Default::Required,
        "which of the tensors are written: those that stand for the program's outputs",
    )])
    .effects(Effects::Effect)
    .lowering(Lowering::CallTirInplace),
];

/// Returns the element types that the attribute gives, one per output.
fn dtypes(cx: &RelCx<'_>) -> RelResult<Vec<DT>> {
    let one = |v: &AttrValue| match v {
        AttrValue::DType(d) if !d.is_void() => Some(*d),
        AttrValue::Str(s) => s.parse().ok().filter(|d: &DT| !d.is_void()),
        _ => None,
    };
    let value = cx.attr("dtype");
    let all = match value.as_array() {
        Some(list) => list.iter().map(one).collect(),
        None => one(value).map(|d| vec![d]),
    };
    match all {
        Some(list) => Ok(list),
        None => cx.refuse(
            Subject::Attr("dtype"),
            "`dtype` must be an element type, or a list of element types",
        ),
    }
}

/// Returns the types of the outputs, and whether they form a tuple.
fn outputs(cx: &mut RelCx<'_>) -> RelResult<(Vec<TypeId>, bool)> {
    let given = cx.arg(2);
    let (shapes, several) = match &cx.host.types()[given] {
        Type::Tuple(fields) => (fields.to_vec(), true),
        Type::Infer(_) | Type::Error => return Err(Stop::Wait),
        _ => (vec![given], false),
    };
    let dtypes = dtypes(cx)?;
    if dtypes.len() != shapes.len() && dtypes.len() != 1 {
        let (s, d) = (shapes.len(), dtypes.len());
        return cx.refuse(
            Subject::Attr("dtype"),
            format!("there are {s} output shapes, but {d} element types"),
        );
    }
    let mut types = Vec::new();
    for (i, &s) in shapes.iter().enumerate() {
        let s = cx.host.resolve(s);
        let shape = match &cx.host.types()[s] {
            Type::Shape(s) => s.clone(),
            Type::Infer(_) | Type::Error => return Err(Stop::Wait),
            _ => {
                let text = cx.host.show(s);
                return cx.refuse(
                    Subject::Arg(2),
                    format!("the output shape must be a shape value, `shape(…)`, not {text}"),
                );
            }
        };
        if let Shape::Infer(_) = shape {
            return Err(Stop::Wait);
        }
        let dtype = dtypes[if dtypes.len() == 1 { 0 } else { i }].into();
        let t = Type::Tensor(TensorType { shape, dtype });
        types.push(cx.host.types_mut().intern(t));
    }
    Ok((types, several))
}

/// Returns the types of the inputs: those of a tuple's fields, or that of a single tensor.
fn inputs(cx: &mut RelCx<'_>) -> RelResult<Vec<TypeId>> {
    let given = cx.arg(1);
    match &cx.host.types()[given] {
        Type::Tuple(fields) => Ok(fields.to_vec()),
        Type::Infer(_) | Type::Error => Err(Stop::Wait),
        _ => Ok(vec![given]),
    }
}

fn conclude(cx: &mut RelCx<'_>, mut outs: Vec<TypeId>, several: bool) -> RelResult {
    let out = match outs.pop() {
        Some(one) if !several => one,
        last => {
            outs.extend(last);
            cx.host.types_mut().tuple(outs)
        }
    };
    cx.set_out(out)
}

/// Returns the buffers of the tensor program in argument 0, as tensors, with fresh dimension
/// variables for each call.
fn buffers(cx: &mut RelCx<'_>) -> RelResult<Vec<TypeId>> {
    let program = cx.arg(0);
    let unit = cx.host.types_mut().unit();
    match &cx.host.types()[program] {
        Type::Func(_) => {
            let instance = cx.host.instantiate(program);
            match &cx.host.types()[instance] {
                // Only tensor programs have no result.
                Type::Func(f) if f.ret != unit => cx.refuse(
                    Subject::Arg(0),
                    "`call_tir` takes a tensor program (`prim_func`), and this is a function",
                ),
                Type::Func(f) => Ok(f.args.to_vec()),
                _ => Err(Stop::Wait),
            }
        }
        Type::Infer(_) | Type::Error => Err(Stop::Wait),
        _ => {
            let text = cx.host.show(program);
            cx.refuse(
                Subject::Arg(0),
                format!("`call_tir` takes a tensor program first, `@name`, not {text}"),
            )
        }
    }
}

/// The program's buffers are the inputs, followed by the outputs.
fn call_tir(cx: &mut RelCx<'_>) -> RelResult {
    let buffers = buffers(cx)?;
    let ins = inputs(cx)?;
    let (outs, several) = outputs(cx)?;
    if buffers.len() != ins.len() + outs.len() {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (n, i) = (count(buffers.len(), "buffer"), count(ins.len(), "input"));
        let o = count(outs.len(), "output");
        return cx.refuse(
            Subject::Call,
            format!("the tensor program has {n}, but the call gives {i} and {o}"),
        );
    }
    for (i, (&given, &buffer)) in ins.iter().chain(&outs).zip(&buffers).enumerate() {
        if cx.host.unify(given, buffer).is_err() {
            let (have, want) = (cx.host.show(given), cx.host.show(buffer));
            let (subject, what) = match i.checked_sub(ins.len()) {
                None => (Subject::Arg(1), format!("input {}", i + 1)),
                Some(k) => (Subject::Arg(2), format!("output {}", k + 1)),
            };
            return cx.refuse(
                subject,
                format!("{what} of the tensor program is {want}, but the call gives {have}"),
            );
        }
    }
    conclude(cx, outs, several)
}

fn call_dps_packed(cx: &mut RelCx<'_>) -> RelResult {
    inputs(cx)?;
    let (outs, several) = outputs(cx)?;
    conclude(cx, outs, several)
}

/// The program's buffers are the tensors, in order; the results are some of them.
fn call_tir_inplace(cx: &mut RelCx<'_>) -> RelResult {
    let buffers = buffers(cx)?;
    let given = inputs(cx)?;
    if buffers.len() != given.len() {
        let (n, k) = (buffers.len(), given.len());
        return cx.refuse(
            Subject::Call,
            format!("the tensor program has {n} buffers, but the call gives {k} tensors"),
        );
    }
    for (i, (&tensor, &buffer)) in given.iter().zip(&buffers).enumerate() {
        if cx.host.unify(tensor, buffer).is_err() {
            let (have, want) = (cx.host.show(tensor), cx.host.show(buffer));
            let n = i + 1;
            return cx.refuse(
                Subject::Arg(1),
                format!("buffer {n} of the tensor program is {want}, but the call gives {have}"),
            );
        }
    }
    let indices = cx.attr("inplace_indices").as_ints().unwrap_or_default();
    let mut outs = Vec::with_capacity(indices.len());
    for &i in &indices {
        let out = usize::try_from(i).ok().and_then(|i| given.get(i));
        match out {
            Some(&out) => outs.push(out),
            None => {
                let n = given.len();
                return cx.refuse(
                    Subject::Attr("inplace_indices"),
                    format!("there are {n} tensors, so none has the index {i}"),
                );
            }
        }
    }
    // The outputs come last, each once.
    let first = given.len() - outs.len().min(given.len());
    if outs.is_empty()
        || !indices
            .iter()
            .copied()
            .eq((first..given.len()).map(|i| i as i64))
    {
        return cx.refuse(
            Subject::Attr("inplace_indices"),
            "a tensor program writes its last buffers: these indices, in order, are to be given",
        );
    }
    let several = outs.len() > 1;
    conclude(cx, outs, several)
}

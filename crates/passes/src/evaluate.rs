//! The value of one call on constants, by the operator's own computation.

use relax_ir::{Attrs, Type};
use relax_ops::{Te, TensorInfo, registry};
use relax_tensor::Tensor;

use crate::edit::Edit;
use relax_ops::call_requirements::{Arg, call_type};

/// The value of a call of a built-in operator with one tensor as its result; `None` where it has no
/// computation, its shape depends on values, or the computation fails.
pub(crate) fn call_value(
    edit: &mut Edit<'_>,
    name: &str,
    attrs: &Attrs,
    args: &[Tensor],
) -> Option<Tensor> {
    let op = registry().find(name)?;
    let def = registry().get(op)?;
    let types: Vec<_> = args.iter().map(|t| edit.tensor_type(t)).collect();
    let given: Vec<Arg<'_>> = (types.iter().zip(args))
        .map(|(&ty, value)| Arg {
            ty,
            value: Some(value),
        })
        .collect();
    let out = call_type(edit.m, op, attrs, &given)?;
    let Type::Tensor(t) = &edit.m.types[out] else {
        return None;
    };
    let dims = t.shape.dims()?.iter().map(|d| d.as_const());
    let shape: Vec<i64> = dims.collect::<Option<_>>()?;
    Tensor::byte_len(t.dtype.known()?, &shape)?;
    let info = |t: &Tensor| TensorInfo {
        dtype: t.dtype(),
        shape: t.shape().iter().map(|&d| Some(d)).collect(),
    };
    let inputs: Vec<Vec<TensorInfo>> = args.iter().map(|a| vec![info(a)]).collect();
    let outs = [TensorInfo {
        dtype: t.dtype.known()?,
        shape: shape.iter().map(|&d| Some(d)).collect(),
    }];
    let consts = args.iter().map(|a| Some(a.clone())).collect();
    let mut te = Te::new(name, &inputs, consts, attrs, &outs);
    (def.compute?)(&mut te).ok()?;
    let program = te.finish();
    let mut values = relax_loops::execute_for(&program, args, Some(&[shape])).ok()?;
    values.pop()
}

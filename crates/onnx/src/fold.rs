//! Constant folding during translation.

use relax_ir::{AttrValue, Module, Type};
use relax_ops::call_requirements::{Arg, call_type};
use relax_ops::{Te, TensorInfo, registry};
use relax_tensor::Tensor;

/// Evaluates a call of a built-in operator with a single tensor as its result; `None` if it has no
/// computation, its extents depend on values, or it fails.
pub fn call(
    module: &mut Module,
    name: &str,
    attrs: &[(&str, AttrValue)],
    args: &[Tensor],
) -> Option<Tensor> {
    let op = registry().find(name)?;
    let def = registry().get(op)?;
    let mut all = def.default_attrs();
    for (name, value) in attrs {
        all.set(*name, value.clone());
    }
    let mut given = Vec::new();
    for t in args {
        let dims: Vec<relax_sym::Dim> = t.shape().iter().map(|&d| d.into()).collect();
        let ty = module.types.tensor(dims, t.dtype());
        given.push(Arg { ty, value: Some(t) });
    }
    let out = call_type(module, op, &all, &given)?;
    let Type::Tensor(t) = &module.types[out] else {
        return None;
    };
    let dims = t.shape.dims()?.iter().map(|d| d.as_const());
    let shape: Vec<i64> = dims.collect::<Option<_>>()?;
    let dtype = t.dtype.known()?;
    if Tensor::byte_len(dtype, &shape)? > 1 << 16 {
        return None;
    }
    let info = |t: &Tensor| TensorInfo {
        dtype: t.dtype(),
        shape: t.shape().iter().map(|&d| Some(d)).collect(),
    };
    let inputs: Vec<Vec<TensorInfo>> = args.iter().map(|a| vec![info(a)]).collect();
    let outs = [TensorInfo {
        dtype,
        shape: shape.iter().map(|&d| Some(d)).collect(),
    }];
    let consts = args.iter().map(|a| Some(a.clone())).collect();
    let mut te = Te::new(name, &inputs, consts, &all, &outs);
    (def.compute?)(&mut te).ok()?;
    let program = te.finish();
    let mut values = relax_loops::execute_for(&program, args, Some(&[shape])).ok()?;
    values.pop()
}

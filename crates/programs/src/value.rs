//! The value of one call on constants, by the operator's own computation.

use relax_ir::{Attrs, Module, OpId};
use relax_ops::call_requirements::{Arg, call_type};
use relax_ops::{TensorInfo, registry};
use relax_sym::Dim;
use relax_tensor::Tensor;

use crate::{Request, flatten};

/// Returns the value of a call of a built-in operator whose result is one tensor; `None` where it
/// has no computation, its extents depend on values, it exceeds `most` bytes, or the computation
/// fails.
pub fn value(
    m: &mut Module,
    op: OpId,
    attrs: &Attrs,
    args: &[Tensor],
    most: Option<usize>,
) -> Option<Tensor> {
    let def = registry().get(op)?;
    let mut given = Vec::with_capacity(args.len());
    for t in args {
        let dims: Vec<Dim> = t.shape().iter().map(|&d| Dim::from(d)).collect();
        let ty = m.types.tensor(dims, t.dtype());
        given.push(Arg { ty, value: Some(t) });
    }
    let out = call_type(m, op, attrs, &given)?;
    m.types.as_tensor(out)?;
    let outs = flatten(m, out)?;
    let shape: Vec<i64> = outs[0].shape.iter().copied().collect::<Option<_>>()?;
    let bytes = Tensor::byte_len(outs[0].dtype, &shape)?;
    if most.is_some_and(|most| bytes > most) {
        return None;
    }
    let inputs: Vec<Vec<TensorInfo>> = args.iter().map(|t| vec![TensorInfo::from(t)]).collect();
    let request = Request {
        op: def,
        args: &inputs,
        consts: args.iter().map(|t| Some(t.clone())).collect(),
        attrs,
        outs: &outs,
    };
    let program = request.program(|_| ()).ok()?.program;
    let mut values = relax_loops::execute_for(&program, args, Some(&[shape])).ok()?;
    values.pop()
}

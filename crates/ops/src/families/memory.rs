//! Operators that place values in memory: blocks of memory, tensors in them, and the ends of their
//! live ranges. `plan-memory` creates them. Those by which TVM's compiled modules call kernels are
//! only read, printed and typed: such programs have been lowered for TVM's own virtual machine.

use relax_ir::{AttrValue, Shape, Type};
use relax_tensor::DType as DT;

use super::util::{dtype_or, extents, finish};
use super::util_te::{Done, elements, reshaped};
use crate::AttrTy::*;
use crate::{
    Default, Effects, Former, Lowering, OpDef, RelCx, RelResult, Stop, Subject, Te, attr, input,
};

/// The reason why kernels are not called.
const KERNEL: &str = "a kernel is what TVM's lowering made of a primitive function, and the text does not hold its code";

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("memory.alloc_storage", "A block of memory.", alloc_storage)
        .lowering(Lowering::AllocStorage)
        .not_computed()
        .inputs(&[
            input("size", "its size in bytes, `shape(n * 4)` or int64"),
            input("alignment", "its alignment, int64"),
        ])
        .attrs(&[
            attr(
                "dtype",
                DType,
                Default::DType("float32"),
                "the element type it is for",
            ),
            attr("virtual_device", Any, Default::None, "where"),
        ])
        .effects(Effects::Effect),
    OpDef::new(
        "memory.alloc_tensor",
        "A tensor in a block of memory.",
        alloc_tensor,
    )
    .lowering(Lowering::AllocTensor)
    .not_computed()
    .inputs(&[
        input("storage", "the block"),
        input("offset", "how many bytes from its start, int64"),
        input("shape", "the extents, `shape(n, 4)` or a constant").literal(),
    ])
    .attrs(&[
        attr(
            "dtype",
            DType,
            Default::DType("float32"),
            "the element type",
        ),
        attr(
            "const_shape",
            Any,
            Default::None,
            "the extents, as a constant",
        ),
        attr(
            "assert_shape",
            Dims,
            Default::None,
            "the extents, found by analysis",
        ),
    ])
    .effects(Effects::Effect),
    OpDef::new("memory.kill", "Ends a variable's life.", kill)
        .not_computed()
        .inputs(&[input("to_free", "the variable")])
        .effects(Effects::Effect)
        .lowering(Lowering::Kill),
    // The same in Relax, by what ends.
    OpDef::new("relax.memory.kill_tensor", "Ends a tensor's life.", kill)
        .not_computed()
        .inputs(&[input("tensor", "the tensor")])
        .effects(Effects::Effect)
        .lowering(Lowering::Kill),
    OpDef::new(
        "relax.memory.kill_storage",
        "Ends the life of a block of memory.",
        kill,
    )
    .not_computed()
    .inputs(&[input("storage", "the block")])
    .effects(Effects::Effect)
    .lowering(Lowering::Kill),
    OpDef::new("relax.vm.kill_object", "Ends the life of any value.", kill)
        .not_computed()
        .inputs(&[input("obj", "the value")])
        .effects(Effects::Effect)
        .lowering(Lowering::Kill),
    OpDef::new(
        "vm.invoke_tvm_op",
        "Calls a kernel that writes its outputs.",
        invoke,
    )
    .uncomputed(KERNEL)
    .calls_kernel()
    .not_computed()
    .former(&[Former::name("memory.invoke_tvm_op", 6)])
    .inputs(&[
        input("op", "the kernel"),
        input("ins", "the inputs, a tuple"),
        input("outs", "the outputs, a tuple"),
    ])
    .effects(Effects::Effect),
    OpDef::new(
        "vm.shape_func",
        "Calls a kernel that writes the extents of another's outputs.",
        shape_func,
    )
    .uncomputed(KERNEL)
    .calls_kernel()
    .not_computed()
    .former(&[Former::name("memory.shape_func", 6)])
    .inputs(&[
        input("func", "the kernel whose outputs they are"),
        input("ins", "the inputs or their extents, a tuple"),
        input("outs", "the extents, a tuple"),
    ])
    .attrs(&[attr(
        "is_input",
        Any,
        Default::None,
        "for each input, whether its values are asked for and not its extents",
    )])
    .effects(Effects::Effect),
    OpDef::new(
        "vm.reshape_tensor",
        "The same tensor under another shape.",
        reshape_tensor,
    )
    .not_computed()
    .inputs(&[
        input("data", "the input"),
        input("shape", "the new extents"),
    ])
    .attrs(&[attr("newshape", Dims, Default::Required, "the new extents")])
    .compute(reshape_tensor_compute),
    OpDef::new("call_lowered", "Calls a kernel.", call_lowered)
        .uncomputed(KERNEL)
        .calls_kernel()
        .inputs(&[
            input("func", "the kernel"),
            input("call_args", "the inputs, a tuple"),
        ])
        .attrs(&[attr(
            "metadata",
            Any,
            Default::None,
            "what is known of the kernel",
        )])
        .effects(Effects::Effect),
];

/// Requires an `int64` scalar, or a shape value with one extent.
fn size(cx: &mut RelCx<'_>, i: usize, what: &str) -> RelResult {
    let given = cx.arg(i);
    if let Type::Shape(shape) = &cx.host.types()[given]
        && let Some(dims) = shape.dims()
    {
        return match dims.len() {
            1 => Ok(()),
            n => cx.refuse(
                Subject::Arg(i),
                format!("{what} is one number, and this shape has {n}"),
            ),
        };
    }
    let scalar = cx.host.types_mut().scalar(DT::I64);
    cx.require_arg(i, scalar, &format!("{what} is an int64 scalar"))
}

/// The result is a block of memory, which is opaque to operators outside of this family.
fn alloc_storage(cx: &mut RelCx<'_>) -> RelResult {
    size(cx, 0, "the size")?;
    size(cx, 1, "the alignment")?;
    let ty = cx.host.types_mut().intern(Type::Object);
    cx.set_out(ty)
}

fn alloc_tensor(cx: &mut RelCx<'_>) -> RelResult {
    size(cx, 1, "the offset")?;
    let dtype = dtype_or(cx, "dtype", DT::F32.into());
    if let AttrValue::Array(_) = cx.attr("assert_shape") {
        let dims = extents(cx, "assert_shape")?;
        return finish(cx, dims, dtype);
    }
    let given = cx.arg(2);
    match &cx.host.types()[given] {
        Type::Shape(Shape::Dims(dims)) => {
            let dims = dims.to_vec();
            return finish(cx, dims, dtype);
        }
        Type::Shape(Shape::Infer(_)) | Type::Infer(_) => return Err(Stop::Wait),
        _ => {}
    }
    let Some(shape) = cx.host.const_arg(2) else {
        return cx.refuse(
            Subject::Arg(2),
            "without `assert_shape` the extents must be a constant or a shape value, `shape(…)`",
        );
    };
    let dims = (0..shape.len()).map(|k| shape.get_i64(k).into()).collect();
    finish(cx, dims, dtype)
}

fn kill(cx: &mut RelCx<'_>) -> RelResult {
    let unit = cx.host.types_mut().unit();
    cx.set_out(unit)
}

/// Returns the parameters and the result of the kernel in argument 0.
fn kernel(cx: &mut RelCx<'_>) -> RelResult<(Vec<relax_ir::TypeId>, relax_ir::TypeId)> {
    let ty = cx.arg(0);
    match &cx.host.types()[ty] {
        Type::Func(f) => Ok((f.args.to_vec(), f.ret)),
        Type::Infer(_) | Type::Error | Type::Object => Err(Stop::Wait),
        _ => {
            let text = cx.host.show(ty);
            cx.refuse(
                Subject::Arg(0),
                format!("a kernel is a function, not {text}"),
            )
        }
    }
}

fn invoke(cx: &mut RelCx<'_>) -> RelResult {
    let (params, ret) = kernel(cx)?;
    let ins = cx.host.types_mut().tuple(params);
    cx.require_arg(1, ins, "the inputs are the kernel's parameters")?;
    let ret = cx.host.resolve(ret);
    let outs = match &cx.host.types()[ret] {
        Type::Tuple(_) => ret,
        _ => cx.host.types_mut().tuple([ret]),
    };
    cx.require_arg(2, outs, "the outputs are the kernel's results")?;
    kill(cx)
}

fn shape_func(cx: &mut RelCx<'_>) -> RelResult {
    kernel(cx)?;
    kill(cx)
}

fn call_lowered(cx: &mut RelCx<'_>) -> RelResult {
    let (params, ret) = kernel(cx)?;
    let ins = cx.host.types_mut().tuple(params);
    cx.require_arg(1, ins, "the inputs are the kernel's parameters")?;
    cx.set_out(ret)
}

fn reshape_tensor(cx: &mut RelCx<'_>) -> RelResult {
    let dtype = cx.tensor(0)?.dtype;
    let dims = extents(cx, "newshape")?;
    if let Some([n]) = cx.tensor(1)?.shape.dims() {
        let (n, rule) = (n.clone(), "the shape is `newshape` once more");
        super::util::need_eq(cx, &n, &(dims.len() as i64).into(), Subject::Arg(1), rule)?;
    }
    if let Some(own) = cx.tensor(0)?.shape.dims() {
        let all = |d: &[relax_sym::Dim]| d.iter().fold(relax_sym::Dim::ONE, |n, d| &n * d);
        let (a, b) = (all(own), all(&dims));
        let rule = "another shape keeps the number of elements";
        super::util::check_eq(cx, &b, &a, Subject::Attr("newshape"), rule)?;
    }
    finish(cx, dims, dtype)
}

fn reshape_tensor_compute(te: &mut Te<'_>) -> Done {
    let (x, shape) = (te.arg(0), te.arg(1));
    let shape = elements(&shape)?;
    let y = reshaped(te, &x, &shape);
    te.output(&y);
    Ok(())
}

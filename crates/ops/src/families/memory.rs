//! Operators by which TVM's compiled modules allocate memory and call kernels. They are read, printed
//! and typed; programs that hold them have been lowered for TVM's own machine.

use crate::AttrTy::*;
use crate::{Default, Effects, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("memory.alloc_storage", "A block of memory.", alloc_storage)
        .inputs(&[
            input("size", "its size in bytes, int64"),
            input("alignment", "its alignment, int64"),
        ])
        .attrs(&[
            attr(
                "dtype",
                DType,
                Default::DType("float32"),
                "the element type it is for",
            ),
            attr("virtual_device", Any, Default::Required, "where"),
        ])
        .effects(Effects::Effect),
    OpDef::new(
        "memory.alloc_tensor",
        "A tensor in a block of memory.",
        alloc_tensor,
    )
    .inputs(&[
        input("storage", "the block"),
        input("offset", "where in it"),
        input("shape", "the extents"),
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
            Default::Required,
            "the extents, as a constant",
        ),
        attr(
            "assert_shape",
            Dims,
            Default::Required,
            "the extents, found by analysis",
        ),
    ])
    .effects(Effects::Effect),
    OpDef::new("memory.kill", "Ends a variable's life.", kill)
        .inputs(&[input("to_free", "the variable")])
        .effects(Effects::Effect)
        .compute(kill_compute),
    OpDef::new(
        "vm.invoke_tvm_op",
        "Calls a kernel that writes its outputs.",
        invoke,
    )
    .inputs(&[
        input("op", "the kernel"),
        input("ins", "the inputs, a tuple"),
        input("outs", "the outputs, a tuple"),
    ])
    .effects(Effects::Effect),
    OpDef::new(
        "vm.reshape_tensor",
        "The same tensor under another shape.",
        reshape_tensor,
    )
    .inputs(&[
        input("data", "the input"),
        input("shape", "the new extents"),
    ])
    .attrs(&[attr("newshape", Dims, Default::Required, "the new extents")])
    .compute(reshape_tensor_compute),
    OpDef::new("call_lowered", "Calls a kernel.", call_lowered)
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

fn alloc_storage(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn alloc_tensor(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn call_lowered(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn invoke(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn kill(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn reshape_tensor(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn kill_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn reshape_tensor_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

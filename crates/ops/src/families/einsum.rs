//! Einstein's summation convention.

use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[OpDef::new(
    "einsum",
    "Products of elements summed over the indices that the equation does not keep.",
    einsum,
)
.inputs(&[input("data", "the operands, a tuple")])
.attrs(&[attr("equation", Str, Default::Required, "`ij,jk->ik`")])
.fusion(Fusion::Injective)
.compute(einsum_compute)];

fn einsum(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn einsum_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

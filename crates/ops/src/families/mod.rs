//! The families, one file each. A new family is a new file and one line here.

mod elementwise;
mod nn_conv;
mod nn_dense;

/// All families.
pub static FAMILIES: &[&[crate::OpDef]] = &[elementwise::OPS, nn_conv::OPS, nn_dense::OPS];

//! The passes, one file each. A new file's `PASSES` is added to the list below.

mod canonicalize_cast;
mod canonicalize_ops;
mod flatten_atrous_conv;
mod simplify_expr;
mod infer_type;

use crate::PassDef;

/// All passes.
pub(crate) static PASSES: &[&[PassDef]] = &[
    canonicalize_cast::PASSES,
    canonicalize_ops::PASSES,
    flatten_atrous_conv::PASSES,
    simplify_expr::PASSES,
    infer_type::PASSES,
];

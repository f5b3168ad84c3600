//! The passes, one file each. A new file's `PASSES` is added to the list below.

mod canonicalize_cast;
mod canonicalize_ops;
mod flatten_atrous_conv;
mod simplify_expr;
mod a_normal_form;
mod basic_block_normal_form;
mod dead_code_elimination;
mod defuse_ops;
mod eliminate_common_subexpr;
mod eta_expand;
mod fast_math;
mod graph_normal_form;
mod inline;
mod remove_unused_functions;
mod fuse_ops;
mod fold_constant;
mod lambda_lift;
mod to_mixed_precision;
mod dynamic_to_static;
mod gradient;
mod simplify_inference;
mod fold_scale_axis;
mod combine_parallel;
mod infer_type;

use crate::PassDef;

/// All passes.
pub(crate) static PASSES: &[&[PassDef]] = &[
    canonicalize_cast::PASSES,
    canonicalize_ops::PASSES,
    flatten_atrous_conv::PASSES,
    simplify_expr::PASSES,
    a_normal_form::PASSES,
    basic_block_normal_form::PASSES,
    dead_code_elimination::PASSES,
    defuse_ops::PASSES,
    eliminate_common_subexpr::PASSES,
    eta_expand::PASSES,
    fast_math::PASSES,
    graph_normal_form::PASSES,
    inline::PASSES,
    remove_unused_functions::PASSES,
    fuse_ops::PASSES,
    fold_constant::PASSES,
    lambda_lift::PASSES,
    to_mixed_precision::PASSES,
    dynamic_to_static::PASSES,
    gradient::PASSES,
    simplify_inference::PASSES,
    fold_scale_axis::PASSES,
    combine_parallel::PASSES,
    infer_type::PASSES,
];

//! The passes, one file each. A new file's `PASSES` is added to the list below.

mod a_normal_form;
mod basic_block_normal_form;
mod canonicalize_bindings;
mod canonicalize_cast;
mod canonicalize_ops;
mod choose_layouts;
mod combine_parallel;
mod convert_layout;
mod dead_code_elimination;
mod defunctionalization;
mod defuse_ops;
mod div_to_mul;
mod dynamic_to_static;
mod eliminate_common_subexpr;
mod eta_expand;
mod expand_op_items;
mod fake_quantization_to_integer;
mod fast_math;
mod flatten_atrous_conv;
mod fold_constant;
mod fold_explicit_padding;
mod fold_scale_axis;
mod fuse_ops;
mod gradient;
mod graph_normal_form;
mod infer_type;
mod inline;
mod lambda_lift;
mod legalize;
mod lower_shapes;
mod merge_composite;
mod normalize;
mod partial_eval;
mod partition_graph;
mod plan_memory;
mod promote_halves;
mod raise_ops;
pub(crate) mod relax;
mod relay_to_relax;
mod remove_unused_functions;
mod rewrite_for_kernels;
mod schedule;
mod select_kernels;
mod simplify_expr;
mod simplify_fc_transpose;
mod simplify_inference;
mod sink_reshapes;
mod specialize;
mod to_mixed_precision;

use crate::PassDef;

/// All passes.
pub(crate) static PASSES: &[&[PassDef]] = &[
    canonicalize_bindings::PASSES,
    canonicalize_cast::PASSES,
    canonicalize_ops::PASSES,
    flatten_atrous_conv::PASSES,
    simplify_expr::PASSES,
    a_normal_form::PASSES,
    basic_block_normal_form::PASSES,
    dead_code_elimination::PASSES,
    defunctionalization::PASSES,
    defuse_ops::PASSES,
    div_to_mul::PASSES,
    eliminate_common_subexpr::PASSES,
    eta_expand::PASSES,
    expand_op_items::PASSES,
    fake_quantization_to_integer::PASSES,
    fast_math::PASSES,
    graph_normal_form::PASSES,
    inline::PASSES,
    promote_halves::PASSES,
    raise_ops::PASSES,
    remove_unused_functions::PASSES,
    rewrite_for_kernels::PASSES,
    fuse_ops::PASSES,
    fold_constant::PASSES,
    fold_explicit_padding::PASSES,
    lambda_lift::PASSES,
    legalize::PASSES,
    lower_shapes::PASSES,
    schedule::PASSES,
    select_kernels::PASSES,
    partial_eval::PASSES,
    specialize::PASSES,
    to_mixed_precision::PASSES,
    dynamic_to_static::PASSES,
    gradient::PASSES,
    simplify_inference::PASSES,
    fold_scale_axis::PASSES,
    combine_parallel::PASSES,
    convert_layout::PASSES,
    choose_layouts::PASSES,
    merge_composite::PASSES,
    normalize::PASSES,
    relay_to_relax::PASSES,
    partition_graph::PASSES,
    plan_memory::PASSES,
    simplify_fc_transpose::PASSES,
    sink_reshapes::PASSES,
    infer_type::PASSES,
];

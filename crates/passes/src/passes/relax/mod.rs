//! Passes specific to Relax, over bindings and dataflow blocks, under TVM's names.

mod adjoint;
mod blocks;
mod by_pattern;
mod call_tir;
mod canonical;
mod common;
mod convert_to_dataflow;
mod decompose;
mod expand_tuples;
mod fold;
mod fuse;
mod fuse_text;
mod fuse_tir;
mod inline_private;
mod kept;
mod kill;
mod layouts;
mod lift;
mod matched;
mod mixed;
mod parallel;
mod patterns;
mod private;
mod reshapes;
pub(crate) mod results;
mod sharing;
mod sorted;
mod spoken;
mod text;
mod unused;
mod unused_outputs;
mod unused_parameters;
mod vm_shapes;

use crate::PassDef;

/// The passes.
pub(crate) static PASSES: &[&[PassDef]] = &[
    adjoint::PASSES,
    blocks::PASSES,
    by_pattern::PASSES,
    call_tir::PASSES,
    canonical::PASSES,
    common::PASSES,
    convert_to_dataflow::PASSES,
    decompose::PASSES,
    expand_tuples::PASSES,
    fold::PASSES,
    fuse::PASSES,
    fuse_tir::PASSES,
    inline_private::PASSES,
    kill::PASSES,
    layouts::PASSES,
    lift::PASSES,
    mixed::PASSES,
    parallel::PASSES,
    patterns::PASSES,
    reshapes::PASSES,
    sorted::PASSES,
    unused::PASSES,
    unused_outputs::PASSES,
    unused_parameters::PASSES,
    vm_shapes::PASSES,
];

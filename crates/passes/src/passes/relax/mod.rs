//! Relax's own passes: over bindings and dataflow blocks, as TVM has them by these names.

mod adjoint;
mod by_pattern;
mod call_tir;
mod canonical;
mod common;
mod convert_to_dataflow;
mod expand_tuples;
mod fold;
mod fuse;
mod inline_private;
mod kept;
mod kill;
mod lift;
mod parallel;
mod patterns;
mod private;
mod reshapes;
mod sorted;
mod unused;
mod unused_outputs;
mod unused_parameters;

use crate::PassDef;

/// The passes.
pub(crate) static PASSES: &[&[PassDef]] = &[
    adjoint::PASSES,
    by_pattern::PASSES,
    call_tir::PASSES,
    canonical::PASSES,
    common::PASSES,
    convert_to_dataflow::PASSES,
    expand_tuples::PASSES,
    fold::PASSES,
    fuse::PASSES,
    inline_private::PASSES,
    kill::PASSES,
    lift::PASSES,
    parallel::PASSES,
    patterns::PASSES,
    reshapes::PASSES,
    sorted::PASSES,
    unused::PASSES,
    unused_outputs::PASSES,
    unused_parameters::PASSES,
];

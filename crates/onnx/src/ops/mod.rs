//! The translations of operators, one file per family.

mod arithmetic;
mod attention;
pub mod build;
mod control;
mod deform;
mod elementwise;
mod fused;
mod fused_attention;
mod fused_kin;
mod fused_quant;
mod image;
mod indexing;
mod matrix;
mod movement;
mod nn;
mod norm;
mod old;
mod quant;
mod random;
mod recurrent;
mod reduce;
mod sequence;
mod sequence_map;
mod shapes;
mod signal;
mod steps;

use crate::table::Entry;

/// All families.
pub static FAMILIES: &[&[Entry]] = &[
    arithmetic::OPS,
    attention::OPS,
    control::OPS,
    deform::OPS,
    elementwise::OPS,
    fused::OPS,
    fused_attention::OPS,
    fused_kin::OPS,
    fused_quant::OPS,
    image::OPS,
    indexing::OPS,
    matrix::OPS,
    movement::OPS,
    nn::OPS,
    norm::OPS,
    old::OPS,
    quant::OPS,
    random::OPS,
    recurrent::OPS,
    reduce::OPS,
    sequence::OPS,
    shapes::OPS,
    signal::OPS,
];

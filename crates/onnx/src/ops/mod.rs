//! The operators' translations, a file for each family.

pub mod build;
mod arithmetic;
mod attention;
mod control;
mod elementwise;
mod indexing;
mod matrix;
mod movement;
mod nn;
mod norm;
mod quant;
mod recurrent;
mod reduce;
mod sequence;
mod shapes;

use crate::table::Entry;

/// All families.
pub static FAMILIES: &[&[Entry]] = &[
    arithmetic::OPS,
    attention::OPS,
    control::OPS,
    elementwise::OPS,
    indexing::OPS,
    matrix::OPS,
    movement::OPS,
    nn::OPS,
    norm::OPS,
    quant::OPS,
    recurrent::OPS,
    reduce::OPS,
    sequence::OPS,
    shapes::OPS,
];

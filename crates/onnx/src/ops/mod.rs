//! The operators' translations, a file for each family.

pub mod build;
mod arithmetic;
mod elementwise;
mod indexing;
mod matrix;
mod movement;
mod reduce;
mod shapes;

use crate::table::Entry;

/// All families.
pub static FAMILIES: &[&[Entry]] = &[
    arithmetic::OPS,
    elementwise::OPS,
    indexing::OPS,
    matrix::OPS,
    movement::OPS,
    reduce::OPS,
    shapes::OPS,
];

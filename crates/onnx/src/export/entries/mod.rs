//! The exporters of operators, one file per family.

pub(super) mod dynamic;
pub(super) mod elementwise;
pub(super) mod index;
pub(super) mod matrix;
pub(super) mod movement;
pub(super) mod norm;
pub(super) mod quant;
pub(super) mod reduce;
pub(super) mod window;

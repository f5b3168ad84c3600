//! What entries of the table write, a file for each family.

pub(super) mod dynamic;
pub(super) mod elementwise;
pub(super) mod index;
pub(super) mod matrix;
pub(super) mod movement;
pub(super) mod norm;
pub(super) mod reduce;
pub(super) mod window;

//! What TVM saved: modules as JSON graphs (`tvm.ir.save_json`), weights as parameter files
//! (`relay.save_param_dict`).
//!
//! A graph is scanned into a flat table of nodes ([`Graph`]) that borrows the file's bytes;
//! [`program`] turns it into a syntax tree, as a parser does with a text, so that names, attributes
//! and types mean what they mean in a text. The types that the graph knows go along in the tree's
//! side tables.
//!
//! Invariant: whatever the bytes, the result is a value or a [`Mistake`] with its place; nothing
//! recurses over what a file can nest, and no memory is taken for what a file only claims to hold.

mod attrs;
mod error;
mod expr;
mod graph;
mod kinds;
mod names;
mod objects;
pub mod params;
mod program;
mod scan;
pub mod tensor;
mod types;
mod walk;
pub mod write;

pub use attrs::is_reference;
pub use error::{Mistake, codes};
pub use graph::Graph;
pub use program::{Program, plain_name, program};

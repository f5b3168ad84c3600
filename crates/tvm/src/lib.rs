//! TVM's file formats: modules as JSON graphs (`tvm.ir.save_json`), weights as parameter files
//! (`relay.save_param_dict`).
//!
//! A graph is scanned into a flat table of nodes ([`Graph`]) that borrows the file's bytes;
//! [`program`] converts it to a syntax tree, like a parser, so that names, attributes and types are
//! resolved as in a text. The types that the graph contains are passed along in the tree's side
//! tables.
//!
//! Invariant: whatever the bytes, the result is a value or a [`Mistake`] with its position; nothing
//! recurses over nested input, and no memory is allocated for sizes that a file merely claims.

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

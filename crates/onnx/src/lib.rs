//! ONNX models in: from the bytes of a model to a text that a person could have written, and its
//! weights.
//!
//! A model is read (`proto`), its nodes are translated one by one (`table`), each to calls of
//! operators of ours. While that happens every value's type is known, and for integers that
//! describe shapes their elements as dimension expressions (`value`): what other runtimes compute
//! as tensors becomes extents and attributes. What remains unknown until run time goes to operators
//! that take it as a tensor.

mod cx;
pub mod export;
mod fold;
mod graph;
mod import;
mod ints;
mod kind;
mod layers;
mod names;
mod node;
mod ops;
mod proto;
mod table;
mod tensor;
mod value;

pub use import::{External, Import, Options, codes, import, import_with};
pub use names::readable;
pub use table::{Entry, operators};

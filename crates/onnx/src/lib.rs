//! Import of ONNX models: from a model's bytes to a readable text and its weights.
//!
//! A model is read (`proto`), and its nodes are translated one by one (`table`), each to operator
//! calls. In the process, every value's type is known, and for integers that describe shapes also
//! their elements as dimension expressions (`value`): what other runtimes compute as tensors
//! becomes extents and attributes. What remains unknown until run time is passed to operators that
//! take it as a tensor.

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
mod order;
mod proto;
mod table;
mod tensor;
mod value;

pub use import::{External, Import, Options, codes, import, import_with};
pub use names::readable;
pub use table::{Entry, operators};

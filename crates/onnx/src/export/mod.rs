//! The exporter to ONNX: the inverse of the importer.
//!
//! One function becomes the graph. It is a sequence of bindings (A-normal form) of operator calls,
//! each written by its entry in `table`. Extents that are known only at run time become shape
//! arithmetic on the inputs (`extents`). Constructs without an ONNX form are reported with their
//! locations, all of them in one run.

mod call;
mod entries;
mod extents;
mod graph;
mod loops;
mod table;
mod walk;

use bytes::Bytes;
use prost::Message;
use relax_base::Diagnostics;
use relax_ir::{GlobalId, Module, TypeSource};

use crate::proto::{ModelProto, OperatorSetIdProto};

/// The default operator set version; newer ones are used only where needed.
pub const OPSET: i64 = 21;

/// Returns the IR version that corresponds to an operator set version.
fn format_of(opset: i64) -> i64 {
    if opset > OPSET { 13 } else { 10 }
}
/// ONNX's readers reject messages of 2 GiB and more.
const MOST_BYTES: usize = i32::MAX as usize;

/// Error codes.
pub mod codes {
    use relax_base::Code;

    /// A construct has no ONNX form.
    pub const NO_FORM: Code = Code(1304);
}

/// Exports a function of a module as an ONNX model. Its parameters become the graph's inputs, the
/// fields of its result the outputs, constants initialisers.
///
/// # Errors
/// Part of the function has no ONNX form, or the model is too large for one file.
pub fn export(
    module: &Module,
    entry: GlobalId,
    types: &dyn TypeSource,
    producer: &str,
) -> Result<Vec<u8>, Diagnostics> {
    let (graph, opset) = walk::graph(module, entry, types)?;
    let model = ModelProto {
        ir_version: format_of(opset),
        producer_name: producer.to_owned(),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: opset,
        }],
        functions: Vec::new(),
    };
    if model.encoded_len() > MOST_BYTES {
        return Err(walk::error(
            module.globals[entry].span,
            "the constants take more than the 2 GiB that one ONNX file may have".into(),
        ));
    }
    Ok(model.encode_to_vec())
}

/// Iterates over the operators that have an ONNX form, in alphabetical order.
pub fn exported() -> impl Iterator<Item = &'static str> {
    table::ENTRIES.iter().map(|e| e.0)
}

/// Returns the bytes of a tensor in the representation of a message.
fn raw(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

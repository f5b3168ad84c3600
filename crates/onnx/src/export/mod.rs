//! A module to an ONNX model: the way back of the importer.
//!
//! One function becomes the graph. It is a sequence of bindings (A-normal form) of calls of
//! operators, each of which has an entry in `table` that writes nodes. Extents that are known only
//! at run time become shape arithmetic on the inputs (`extents`). What ONNX has no form for is an
//! error with its place; all of them are found in one run.

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

/// The version of ONNX's operators that is written where no newer one is needed.
pub const OPSET: i64 = 21;

/// The version of the format that goes with a version of the operators.
fn format_of(opset: i64) -> i64 {
    if opset > OPSET { 13 } else { 10 }
}
/// ONNX's readers refuse messages of 2 GiB and more.
const MOST_BYTES: usize = i32::MAX as usize;

/// Codes of the errors.
pub mod codes {
    use relax_base::Code;

    /// ONNX has no form for something.
    pub const NO_FORM: Code = Code(1304);
}

/// The bytes of a model whose graph is a function of a module. The function's parameters are the
/// graph's inputs, the fields of its result the outputs, constants initialisers.
///
/// # Errors
/// Something in the function has no form in ONNX, or the model is too large for one file.
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

/// The operators of ours that have a form in ONNX, in alphabetical order.
pub fn exported() -> impl Iterator<Item = &'static str> {
    table::ENTRIES.iter().map(|e| e.0)
}

/// The bytes of a tensor as a message holds them.
fn raw(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

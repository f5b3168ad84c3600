//! Conversion between the evaluator's values and the library's.

use relax_interp::Node;
use relax_ir::Module;
use relax_tensor::Value;

/// Converts a value from the evaluator.
pub fn outer(module: &Module, value: &relax_interp::Value) -> Value {
    Value::unfold(value, |v| fields(module, v))
}

/// Returns the fields of a value, with its constructor's tag if it has one; for a value without
/// fields the error is the converted value.
fn fields<'v>(
    module: &Module,
    value: &'v relax_interp::Value,
) -> Result<(Option<u32>, Vec<&'v relax_interp::Value>), Value> {
    use relax_interp::Value as V;
    let node = match value {
        V::Tensor(t) => return Err(Value::Tensor((**t).clone())),
        V::Shape(_) => return Err(Value::Opaque("a shape")),
        // A packed function is represented by its name until it is called.
        V::Extern(_) => return Err(Value::Opaque("a text")),
        V::Node(node) => node,
        _ => return Err(Value::Opaque("a function")),
    };
    match &**node {
        Node::Tuple(fields) => Ok((None, fields.iter().collect())),
        Node::Adt(c, fields) => Ok((Some(module.ctors[*c].tag), fields.iter().collect())),
        Node::Closure(_) => Err(Value::Opaque("a function")),
        Node::Ref(_) => Err(Value::Opaque("a reference")),
    }
}

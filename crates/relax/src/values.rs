//! Values between the evaluator and the outside.

use relax_interp::Node;
use relax_ir::Module;
use relax_tensor::Value;

/// A value that the evaluator gave.
pub fn outer(module: &Module, value: &relax_interp::Value) -> Value {
    Value::unfold(value, |v| fields(module, v))
}

/// The fields of a value, with the number of its constructor, if it has one; a value without fields
/// is the error.
fn fields<'v>(
    module: &Module,
    value: &'v relax_interp::Value,
) -> Result<(Option<u32>, Vec<&'v relax_interp::Value>), Value> {
    use relax_interp::Value as V;
    let node = match value {
        V::Tensor(t) => return Err(Value::Tensor((**t).clone())),
        V::Shape(_) => return Err(Value::Opaque("a shape")),
        // A function from outside is its name until someone calls it.
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

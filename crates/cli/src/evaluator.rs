//! The reference evaluator behind `--engine interp`.

use relax_base::Diagnostic;
use relax_codegen::Value;
use relax_driver::Typing;
use relax_interp::{Interp, Node};
use relax_ir::{GlobalId, Module};
use relax_tensor::Tensor;

/// Fields nested deeper than this in a result are not shown, as in native results.
const DEPTH: usize = 64;

/// Runs a function of a module by the reference evaluator.
pub fn run(
    module: &Module,
    typing: &Typing,
    entry: GlobalId,
    tensors: &[Tensor],
) -> Result<Value, Diagnostic> {
    let inputs = tensors
        .iter()
        .cloned()
        .map(relax_interp::Value::from)
        .collect();
    let value = Interp::new(module, typing).run(entry, inputs)?;
    Ok(shown(module, &value, DEPTH))
}

/// A value in the form that both engines' results have. Recursion is bounded by `depth`.
fn shown(module: &Module, value: &relax_interp::Value, depth: usize) -> Value {
    use relax_interp::Value as V;
    let Some(depth) = depth.checked_sub(1) else {
        return Value::Opaque("…");
    };
    match value {
        V::Tensor(t) => Value::Tensor((**t).clone()),
        V::Shape(_) => Value::Opaque("a shape"),
        V::Node(n) => match &**n {
            Node::Tuple(fields) => {
                Value::Tuple(fields.iter().map(|f| shown(module, f, depth)).collect())
            }
            Node::Adt(c, fields) => {
                let fields = fields.iter().map(|f| shown(module, f, depth)).collect();
                Value::Adt(module.ctors[*c].tag, fields)
            }
            Node::Closure(_) => Value::Opaque("a function"),
            Node::Ref(_) => Value::Opaque("a reference"),
        },
        _ => Value::Opaque("a function"),
    }
}

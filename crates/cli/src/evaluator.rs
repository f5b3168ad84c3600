//! The reference evaluator behind `--engine interp`.

use std::time::{Duration, Instant};

use relax_base::Diagnostic;
use relax_codegen::Value;
use relax_driver::Typing;
use relax_interp::{Interp, Node};
use relax_ir::{GlobalId, Module};
use relax_tensor::Tensor;

use crate::progress;

/// Runs a function of a module on tensors by the reference evaluator.
pub fn run(
    module: &Module,
    typing: &Typing,
    entry: GlobalId,
    tensors: &[Tensor],
) -> Result<Value, Diagnostic> {
    let arguments: Vec<Value> = tensors.iter().cloned().map(Value::Tensor).collect();
    run_timed(module, typing, entry, &arguments, 0, None).map(|r| r.0)
}

/// Runs a function of a module on tensors and tuples by the reference evaluator, and `more` times more; also says how
/// long each run took. A run of more than `max_steps` steps is an error.
pub fn run_timed(
    module: &Module,
    typing: &Typing,
    entry: GlobalId,
    arguments: &[Value],
    more: usize,
    max_steps: Option<u64>,
) -> Result<(Value, Vec<Duration>), Diagnostic> {
    use relax_interp::Value as V;
    let value = |v: &Value| v.fold(|t| Some(V::from(t.clone())), |f| Some(V::tuple(f)));
    let inputs: Vec<V> = arguments.iter().filter_map(value).collect();
    crate::memory::limit_to_machine();
    let mut evaluator = Interp::new(module, typing).with_max_steps(max_steps);
    let mut times = Vec::new();
    let mut call = || {
        let begin = Instant::now();
        let value = evaluator.run(entry, inputs.clone());
        times.push(begin.elapsed());
        value
    };
    let first = progress::stage("running");
    let value = call()?;
    drop(first);
    for done in 0..more {
        progress::show("running", done, more);
        call()?;
    }
    if more > 0 {
        progress::end();
    }
    Ok((Value::unfold(&value, |v| fields(module, v)), times))
}

/// The fields of a value, with the number of its constructor, if it has one; a value without fields is the error.
fn fields<'v>(
    module: &Module,
    value: &'v relax_interp::Value,
) -> Result<(Option<u32>, Vec<&'v relax_interp::Value>), Value> {
    use relax_interp::Value as V;
    let node = match value {
        V::Tensor(t) => return Err(Value::Tensor((**t).clone())),
        V::Shape(_) => return Err(Value::Opaque("a shape")),
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

//! The reference evaluator behind `--engine interp`.

use std::time::{Duration, Instant};

use relax_base::Diagnostic;
use relax_codegen::Value;
use relax_driver::Typing;
use relax_interp::{Interp, Node};
use relax_ir::{GlobalId, Module};
use relax_tensor::Tensor;

use crate::progress;

/// Fields nested deeper than this in a result are not shown, as in native results.
const DEPTH: usize = 64;

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
    Ok((shown(module, &value, DEPTH), times))
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

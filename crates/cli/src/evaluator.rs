//! The reference evaluator behind `--engine interp`.

use std::time::Duration;

use relax::{Typing, values};
use relax_base::Diagnostic;
use relax_interp::Interp;
use relax_ir::{GlobalId, Module};
use relax_tensor::{Tensor, Value};

use crate::bench;

/// Runs a function of a module on tensors in the reference evaluator.
///
/// # Errors
/// The program fails.
pub fn run(
    module: &Module,
    typing: &Typing,
    entry: GlobalId,
    tensors: &[Tensor],
) -> Result<Value, Diagnostic> {
    let arguments: Vec<_> = tensors.iter().cloned().map(Into::into).collect();
    run_timed(module, typing, entry, &arguments, 0, None).map(|r| r.0)
}

/// Runs a function of a module on values in the reference evaluator, once and then `more` times;
/// also returns the time of each run. Exceeding `max_steps` steps is an error.
///
/// # Errors
/// As for [`run`].
pub fn run_timed(
    module: &Module,
    typing: &Typing,
    entry: GlobalId,
    inputs: &[relax_interp::Value],
    more: usize,
    max_steps: Option<u64>,
) -> Result<(Value, Vec<Duration>), Diagnostic> {
    crate::memory::limit_to_machine();
    let mut evaluator = Interp::new(module, typing).with_max_steps(max_steps);
    let (value, times) = bench::timed(more, || evaluator.run(entry, inputs.to_vec()))?;
    Ok((values::outer(module, &value), times))
}

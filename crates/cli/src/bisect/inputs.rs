//! The inputs that programs are run on.

use relax::Typing;
use relax_interp::Value;
use relax_ir::{FuncId, Module};
use relax_tensor::Tensor;

use crate::fit::{Taking, fit};
use crate::inputs::{Param, assemble, bind, params, slots};
use crate::random::Random;

/// The inputs of a program.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Tensors by parameter name, with `p.0` for fields of tuples. Other parameters get random
    /// numbers.
    pub given: Vec<(String, Tensor)>,
    /// The first seed.
    pub seed: u64,
    /// The number of runs with different seeds.
    pub runs: u64,
    /// The value of symbolic extents.
    pub extent: i64,
    /// Whether random numbers include NaN, infinities and signed zeros.
    pub special: bool,
    /// The limit on evaluator steps per run.
    pub max_steps: u64,
}

/// The default limit on steps: a few seconds of evaluation.
pub const MAX_STEPS: u64 = 10_000_000;

impl Default for Inputs {
    fn default() -> Inputs {
        Inputs {
            given: Vec::new(),
            seed: 0,
            runs: 1,
            extent: 4,
            special: false,
            max_steps: MAX_STEPS,
        }
    }
}

impl Inputs {
    /// Returns the arguments of one run. The error lists parameters for which no tensor can be
    /// generated.
    pub(super) fn of_run(
        &self,
        run: u64,
        m: &Module,
        typing: &Typing,
        entry: FuncId,
    ) -> Result<Vec<Value>, Vec<String>> {
        let whole: Vec<Param> = params(m, typing, entry);
        let all = self.tensors(run, m, typing, entry)?;
        let mut values = all.into_iter().map(Value::from);
        let value = |p: &Param| assemble(m, p.ty, &mut values, Value::tuple);
        Ok(whole.iter().filter_map(value).collect())
    }

    /// Returns the tensors of one run: one for each parameter, or field of a tuple parameter.
    ///
    /// # Errors
    /// The parameters for which no tensor can be generated.
    pub fn tensors(
        &self,
        run: u64,
        m: &Module,
        typing: &Typing,
        entry: FuncId,
    ) -> Result<Vec<Tensor>, Vec<String>> {
        let params = slots(m, &params(m, typing, entry));
        let seed = self.seed.wrapping_add(run);
        let how = Random {
            seed,
            extent: self.extent,
            // The inputs must be the same before a pass and after it.
            typing: None,
        };
        // A reduced program has fewer parameters, and smaller ones.
        let fits = |g: &&(String, Tensor)| {
            let mut own = params.iter().filter(|p| p.name == g.0);
            own.any(|p| fit(m, p, &g.1, Taking::default()).is_ok())
        };
        let given: Vec<_> = self.given.iter().filter(fits).cloned().collect();
        let mut all = bind(m, &params, &given, Taking::default(), Some(how))?;
        for (param, tensor) in params.iter().zip(&mut all) {
            let made = given.iter().all(|g| g.0 != param.name);
            if made && self.special && tensor.dtype().is_float() {
                odd(tensor, seed);
            }
        }
        Ok(all)
    }
}

/// Replaces every fifth number by one that incorrect rewriting is likely to get wrong.
fn odd(tensor: &mut Tensor, seed: u64) {
    const ODD: &[f64] = &[f64::NAN, -0.0, f64::INFINITY, 0.0, f64::NEG_INFINITY];
    let first = seed as usize % 5;
    for (k, i) in (first..tensor.len()).step_by(5).enumerate() {
        tensor.set_f64(i, ODD[(k + seed as usize) % ODD.len()]);
    }
}

//! What programs are run on.

use relax::Typing;
use relax_interp::Value;
use relax_ir::{FuncId, Module};
use relax_tensor::Tensor;

use crate::fit::{Taking, fit};
use crate::inputs::{Param, assemble, bind, params, slots};
use crate::random::Random;

/// What a program is run on.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Tensors by the names of parameters, fields of tuples as `p.0`. Others get random numbers.
    pub given: Vec<(String, Tensor)>,
    /// The first seed of the random numbers.
    pub seed: u64,
    /// How many runs with different seeds.
    pub runs: u64,
    /// What symbolic extents are.
    pub extent: i64,
    /// Whether NaN, infinities and zeros of both signs are among the random numbers.
    pub special: bool,
    /// How many steps of the evaluator a run may take.
    pub max_steps: u64,
}

/// How many steps a run may take unless said otherwise: some seconds for the evaluator.
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
    /// The arguments of one run. The error lists parameters that no tensor can stand for.
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

    /// The tensors of one run: one for each parameter, or field of one that is a tuple.
    ///
    /// # Errors
    /// The parameters that no tensor can stand for.
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
            // The same before a pass and after it.
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

/// Every fifth number becomes one that careless rewriting gets wrong.
fn odd(tensor: &mut Tensor, seed: u64) {
    const ODD: &[f64] = &[f64::NAN, -0.0, f64::INFINITY, 0.0, f64::NEG_INFINITY];
    let first = seed as usize % 5;
    for (k, i) in (first..tensor.len()).step_by(5).enumerate() {
        tensor.set_f64(i, ODD[(k + seed as usize) % ODD.len()]);
    }
}

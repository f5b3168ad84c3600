//! What programs are run on.

use relax_driver::Typing;
use relax_ir::{FuncId, Module};
use relax_tensor::Tensor;

use crate::inputs::{Param, params, random};

/// What a program is run on.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Tensors by the names of parameters. Parameters without one get random numbers.
    pub given: Vec<(String, Tensor)>,
    /// The first seed of the random numbers.
    pub seed: u64,
    /// How many runs with different seeds.
    pub runs: u64,
    /// What symbolic extents are.
    pub extent: i64,
    /// Whether NaN, infinities and zeros of both signs are among the random numbers.
    pub special: bool,
}

impl Default for Inputs {
    fn default() -> Inputs {
        Inputs {
            given: Vec::new(),
            seed: 0,
            runs: 1,
            extent: 4,
            special: false,
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
    ) -> Result<Vec<Tensor>, Vec<String>> {
        let params: Vec<Param> = params(m, typing, entry);
        let seed = self.seed.wrapping_add(run);
        let mut all = random(m, &params, seed, self.extent)?;
        for (param, tensor) in params.iter().zip(&mut all) {
            if let Some((_, given)) = self.given.iter().find(|g| g.0 == param.name) {
                if given.dtype() == tensor.dtype() && given.shape().len() == tensor.shape().len() {
                    *tensor = given.clone();
                }
            } else if self.special && tensor.dtype().is_float() {
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

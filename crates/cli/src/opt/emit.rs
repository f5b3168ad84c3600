//! What `relax-opt` writes beside texts: weights.

use std::path::Path;

use relax_ir::Module;
use relax_tensor::Tensor;

use crate::formats::{self, Format};
use crate::stop::Stop;
use crate::{places, save, weights};

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Emit {
    /// The module as text.
    #[default]
    Text,
    /// The constants as a parameter file of TVM.
    Params,
    /// The constants as an archive of NumPy; bfloat16 as uint16 of the same bits.
    Npz,
    /// The constants as a file of the safetensors package.
    Safetensors,
}

impl Emit {
    /// The format of weights that is meant.
    pub fn weights(self) -> Option<Format> {
        match self {
            Emit::Text => None,
            Emit::Params => Some(Format::Params),
            Emit::Npz => Some(Format::Npz),
            Emit::Safetensors => Some(Format::Safetensors),
        }
    }

    /// Whether this may go where it is to go.
    ///
    /// # Errors
    /// The name says that something else is there.
    pub fn fits(self, output: &Path) -> Result<(), String> {
        match self.weights() {
            None => formats::text_output(output),
            Some(format) => {
                Format::allow(output, "a file of weights", &[format])?;
                places::output(output)
            }
        }
    }
}

/// Writes a file of weights in another format.
///
/// # Errors
/// The file is damaged; or it cannot be read, or the other not written.
pub fn convert(from: &Path, format: Format, to: &Path) -> Result<(), Stop> {
    std::fs::File::open(from).map_err(|e| format!("cannot read {}: {e}", from.display()))?;
    let arrays = weights::read(from).map_err(Stop::Failed)?;
    Ok(save::arrays(to, format, &arrays)?)
}

/// The constants of a module that its text has in the metadata section, named as there
/// (`meta[relay.Constant][0]`), or as the array in `bound` that they were made of. Arrays that were bound
/// and stand in the text in place follow.
pub fn constants(module: &Module, bound: Vec<(String, Tensor)>) -> Vec<(String, Tensor)> {
    let same = |a: &Tensor, b: &Tensor| {
        a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes() == b.bytes()
    };
    let mut bound: Vec<Option<(String, Tensor)>> = bound.into_iter().map(Some).collect();
    let mut take = |t: &Tensor| {
        let found = bound
            .iter_mut()
            .find(|b| b.as_ref().is_some_and(|b| same(&b.1, t)));
        found.and_then(Option::take)
    };
    let mut out = Vec::new();
    for (index, id) in relax::listed_constants(module).into_iter().enumerate() {
        let tensor = &module.consts[id];
        let named = take(tensor);
        out.push(
            named.unwrap_or_else(|| (format!("meta[relay.Constant][{index}]"), tensor.clone())),
        );
    }
    let scalars = module.consts.values().filter(|t| t.is_scalar());
    out.extend(scalars.filter_map(take));
    out
}

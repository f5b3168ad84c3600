//! Weights from files: `--params x.npz|x.safetensors|x.params`. These files must not be outputs.

use std::path::Path;

use relax_ir::{GlobalId, Module};
use relax_tensor::Tensor;

use crate::inputs::Param;
use crate::places;
use crate::stop::Stop;

use relax::Error;
use relax::fit::Taking;
pub use relax::weights::{Mapped, kind, resident};

/// Maps a file.
///
/// # Errors
/// It cannot be read, or is also an output.
pub fn open(path: &Path) -> Result<Mapped, Error> {
    places::input(path).map_err(|stop| Error::File(stop.text()))?;
    Mapped::open(path)
}

/// Reads the named tensors of a `.npz`, `.safetensors` or `.params` file.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>, Stop> {
    Ok(relax::weights::arrays(path, &open(path)?)?)
}

/// Binds parameters of a function, and constants whose metadata section is missing, to the values
/// in a file: see [`relax::weights::bind`]. Returns the file that the values borrow from.
///
/// # Errors
/// The file cannot be read, or does not match.
pub fn bind(
    module: &mut Module,
    entry: GlobalId,
    params: &[Param],
    path: &Path,
    how: (bool, bool, Taking),
) -> Result<Mapped, Stop> {
    let name = module.globals[entry].name;
    let file = open(path)?;
    let arrays = relax::weights::arrays(path, &file)?;
    relax::weights::bind(module, entry, params, arrays, how).map_err(|problems| {
        Stop::Unfit(format!("{} does not fit @{name}", path.display()), problems)
    })?;
    Ok(file)
}

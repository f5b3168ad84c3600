//! Import of ONNX models with external data files.

use std::path::Path;

use bytes::Bytes;
use relax_base::{BoxError, Diagnostics};
pub use relax_onnx::{Import, Options};

use crate::Error;
use crate::mapped::Mapped;

/// A callback that opens files.
pub type Open<'a> = &'a dyn Fn(&Path) -> Result<Mapped, Error>;

fn mapped(path: &Path, open: Open<'_>) -> Result<Bytes, Error> {
    let empty = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == 0);
    if empty {
        return Ok(Bytes::new());
    }
    Ok(Bytes::from_owner(open(path)?))
}

/// Opens a file that a model refers to, relative to the model's path.
///
/// # Errors
/// It cannot be read.
pub fn beside(model: &Path, name: &str, open: Open<'_>) -> Result<Bytes, Error> {
    let folder = model.parent().unwrap_or(Path::new(""));
    mapped(&folder.join(name), open)
}

/// Imports the model in a file; the resulting text is formatted.
///
/// # Errors
/// The file cannot be read. The inner error is about the model itself.
pub fn import(
    path: &Path,
    open: Open<'_>,
    options: Options,
) -> Result<Result<Import, Diagnostics>, Error> {
    let bytes = mapped(path, open)?;
    let external = |name: &str| beside(path, name, open).map_err(BoxError::from);
    Ok(
        relax_onnx::import_with(bytes, &external, options).map(|mut imported| {
            imported.text = crate::written::laid_out("model.relay", imported.text);
            imported
        }),
    )
}

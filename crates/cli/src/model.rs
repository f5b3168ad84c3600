//! External data files of models.

use std::path::Path;

use bytes::Bytes;
use relax::BoxError;

/// Reads a file that a model refers to, relative to the model's path.
///
/// # Errors
/// It cannot be read, or is also an output.
pub fn beside(model: &str, name: &str) -> Result<Bytes, BoxError> {
    let read = relax::model::beside(Path::new(model), name, &crate::weights::open);
    read.map_err(BoxError::from)
}

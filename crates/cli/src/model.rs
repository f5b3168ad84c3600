//! The files beside models.

use std::path::Path;

use bytes::Bytes;
use relax::BoxError;

/// A file that a model names, by the model's path.
///
/// # Errors
/// It cannot be read, or something goes there.
pub fn beside(model: &str, name: &str) -> Result<Bytes, BoxError> {
    let read = relax::model::beside(Path::new(model), name, &crate::weights::open);
    read.map_err(BoxError::from)
}

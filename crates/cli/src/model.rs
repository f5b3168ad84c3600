//! The files beside models.

use std::path::Path;

use bytes::Bytes;

/// A file that a model names, by the model's path.
///
/// # Errors
/// It cannot be read, or something goes there.
pub fn beside(model: &str, name: &str) -> Result<Bytes, String> {
    relax::model::beside(Path::new(model), name, &crate::weights::open)
}

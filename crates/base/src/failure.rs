//! Errors of callbacks that callers supply.

/// The reason why a caller-supplied callback (a packed function, a file reader) failed: any error,
/// or a message.
///
/// Errors of this project's own are structured: a [`Diagnostic`](crate::Diagnostic), or an enum of
/// the crate concerned.
///
/// ```
/// use relax_base::BoxError;
///
/// fn read(name: &str) -> Result<Vec<u8>, BoxError> {
///     match name {
///         "weights.bin" => Ok(vec![0; 4]),
///         _ => Err(format!("there is no file {name}").into()),
///     }
/// }
/// assert_eq!(read("other").unwrap_err().to_string(), "there is no file other");
/// ```
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

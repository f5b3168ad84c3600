//! Why what others lend to the house could not do its work.

/// Why something that a caller lends - a function of the host, a reader of files - failed: any
/// error, or a sentence.
///
/// What the house itself has to say is data: a [`Diagnostic`](crate::Diagnostic), or an enum of the
/// room it comes from.
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

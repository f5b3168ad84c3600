//! Parsing and running of pipelines in a session.

use std::sync::Arc;

use relax_base::{BoxError, Diagnostic, Diagnostics, Span};
use relax_ir::Module;

pub use relax_passes::{
    Config as PassConfig, Event as PassEvent, Found, Observer as PassObserver,
    Outcome as PassOutcome, PassRun, Pipeline, Silent, run as run_pipeline, run_typed,
};

use crate::{ReadOptions, Session, Typing};

impl Session {
    /// Parses a pipeline.
    ///
    /// ```
    /// use relax::{PassConfig, Session, Silent, run_pipeline};
    ///
    /// let mut session = Session::default();
    /// let (mut module, _) = session.read("a.relay", b"def @main() { 1 + 2 }".to_vec());
    /// let pipeline = session.pipeline("fold-constant,dead-code-elimination").expect("two passes");
    /// let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    /// assert!(outcome.failure.is_none());
    /// assert!(session.pipeline("no-such-pass").is_err());
    /// ```
    ///
    /// # Errors
    /// All errors in it, with spans in a source named `<pipeline>`.
    pub fn pipeline(&mut self, text: &str) -> Result<Pipeline, Diagnostics> {
        match self.sources.add("<pipeline>", text) {
            Some(file) => Pipeline::parse(&file, &self.passes),
            None => {
                let message = "the pipeline is too long";
                Err(Diagnostic::error(crate::session::TOO_LARGE, Span::NONE, message).into())
            }
        }
    }

    /// Parses a pipeline and loads the files that its options name: `read` returns the bytes of
    /// one, or an error.
    ///
    /// # Errors
    /// As for [`Session::pipeline`], or a file cannot be read.
    pub fn pipeline_with(
        &mut self,
        text: &str,
        read: &dyn Fn(&str) -> Result<Vec<u8>, BoxError>,
    ) -> Result<Pipeline, Diagnostics> {
        let mut pipeline = self.pipeline(text)?;
        pipeline.load(&mut |file| {
            let mut diagnostics = Diagnostics::new();
            match self.add(file, read(file)?, &mut diagnostics) {
                Some(source) if !diagnostics.has_errors() => {
                    Ok((source.text.to_string(), source.span()))
                }
                _ => Err(format!("{file} is no text").into()),
            }
        })?;
        Ok(pipeline)
    }
}

/// Runs a pipeline of the library's own, and returns the types after its last pass.
///
/// # Errors
/// A pass rejected the module.
pub(crate) fn run_own(pipeline: &str, module: &mut Module) -> Result<Arc<Typing>, Diagnostics> {
    let pipeline = Session::new(ReadOptions::default()).pipeline(pipeline)?;
    let outcome = run_pipeline(&pipeline, module, &PassConfig::default(), &mut Silent);
    match (outcome.failure, outcome.typing) {
        (Some((_, errors)), _) => Err(errors),
        (None, Some(typing)) => Ok(typing),
        (None, None) => Err(Diagnostics::new()),
    }
}

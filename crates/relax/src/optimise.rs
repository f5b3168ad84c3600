//! Pipelines over the session's sources.

use relax_base::{Diagnostic, Diagnostics, Span};

pub use relax_passes::{
    Config as PassConfig, Event as PassEvent, Found, Observer as PassObserver,
    Outcome as PassOutcome, PassRun, Pipeline, Silent, run as run_pipeline,
};

use crate::Session;

impl Session {
    /// Reads a pipeline. Mistakes have places in a source named `<pipeline>`.
    pub fn pipeline(&mut self, text: &str) -> Result<Pipeline, Diagnostics> {
        match self.sources.add("<pipeline>", text) {
            Some(file) => Pipeline::parse(&file),
            None => {
                let message = "the pipeline is too long";
                Err(Diagnostic::error(crate::session::TOO_LARGE, Span::NONE, message).into())
            }
        }
    }
}

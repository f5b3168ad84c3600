//! Progress reports to a Python function.

use pyo3::prelude::*;

use crate::of_package;

/// A function that gets progress reports, until it raises.
pub struct Progress {
    function: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Progress {
    /// Creates the reporter of a function, if there is one.
    pub fn new(function: Option<Py<PyAny>>) -> Progress {
        Progress {
            function,
            raised: None,
        }
    }

    /// Reports the next step, the number of finished steps, and their total.
    pub fn tell(&mut self, what: &str, done: usize, total: usize) {
        let Some(function) = self.function.take() else {
            return;
        };
        Python::attach(|py| match function.call1(py, (what, done, total)) {
            Ok(_) => self.function = Some(function),
            Err(e) => self.raised = Some(e),
        });
    }

    /// Returns the exception it raised.
    pub fn ended(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}

/// Returns the function that gets progress reports.
pub fn bar(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    what: &str,
) -> PyResult<Option<Py<PyAny>>> {
    let Some(progress) = progress else {
        return Ok(None);
    };
    let bar = of_package(py, "_progress", "bar")?.call1((progress, what))?;
    Ok((!bar.is_none()).then(|| bar.unbind()))
}

/// Reports the progress of passes.
pub struct Watched<'p>(pub &'p mut Progress);

impl relax::PassObserver for Watched<'_> {
    fn before(&mut self, event: &relax::PassEvent<'_>) {
        self.0.tell(event.run.pass.name, event.index, 0);
    }
}

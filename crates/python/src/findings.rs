//! Conversion of diagnostics. Their classes are defined in `relax_ir/_diagnostics.py`.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use relax::{Finding, Place, Report};

use crate::of_package;

type Span = (u32, u32, u32, u32);

fn span(place: &Place) -> Span {
    (place.line, place.column, place.end_line, place.end_column)
}

fn one<'py>(py: Python<'py>, finding: &Finding) -> PyResult<Bound<'py, PyAny>> {
    let class = of_package(py, "_diagnostics", "Suggestion")?;
    let suggestion = |s: &relax::Suggestion| {
        let edits = s.edits.iter().map(|(place, text)| (span(place), text));
        let edits = PyTuple::new(py, edits.collect::<Vec<_>>())?;
        class.call1((&s.title, s.certain, edits))
    };
    let suggestions: PyResult<Vec<_>> = finding.suggestions.iter().map(suggestion).collect();
    let place = finding.places.first();
    of_package(py, "_diagnostics", "Diagnostic")?.call1((
        &finding.code,
        finding.word(),
        &finding.message,
        place.map(|p| &p.file),
        place.map(span),
        PyTuple::new(py, &finding.notes)?,
        PyTuple::new(py, suggestions?)?,
        finding.to_string().trim_end(),
    ))
}

/// Returns all findings of a report as a list.
pub fn all<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyAny>> {
    let findings = report.findings().iter().map(|f| one(py, f));
    let findings: Vec<_> = findings.collect::<PyResult<_>>()?;
    of_package(py, "_diagnostics", "Diagnostics")?.call1((findings,))
}

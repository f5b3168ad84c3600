//! Locations in a document, in the protocol's representation.

use lsp_types::Range;
use relax_base::Span;

use crate::document::Document;

/// Returns the range of a span in the document's own file.
pub fn range(doc: &Document, span: Span) -> Range {
    // Positions begin at 1; `NONE`, which is 0, becomes the start of the file.
    let at = |p: u32| p.saturating_sub(1) as usize;
    doc.text.range(at(span.start), at(span.end))
}

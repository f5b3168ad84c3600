//! Code actions: suggested edits, and explanations of error codes.

use std::collections::HashMap;

use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, Command, Range, TextEdit, Uri, WorkspaceEdit,
};
use relax_base::Fix;

use super::place::range;
use crate::document::Document;

/// Returns the actions for the diagnostics in a range.
pub fn actions(doc: &mut Document, uri: &Uri, at: Range) -> Vec<CodeActionOrCommand> {
    let said = super::diagnostics::all(doc, uri);
    let found = doc.diagnostics();
    let mut out = Vec::new();
    let mut certain: Vec<TextEdit> = Vec::new();
    for (d, shown) in found.iter().zip(said) {
        for fix in d.fixes.iter().filter(|f| f.certain) {
            add_apart(&mut certain, edits(doc, fix));
        }
        if shown.range.end < at.start || at.end < shown.range.start {
            continue;
        }
        for fix in &d.fixes {
            out.push(CodeActionOrCommand::CodeAction(CodeAction {
                title: fix.title.clone(),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![shown.clone()]),
                edit: Some(workspace(uri, edits(doc, fix))),
                is_preferred: Some(fix.certain),
                ..CodeAction::default()
            }));
        }
        let code = d.code.to_string();
        out.push(CodeActionOrCommand::CodeAction(CodeAction {
            title: format!("Explain {code}"),
            kind: Some(CodeActionKind::EMPTY),
            diagnostics: Some(vec![shown]),
            command: Some(Command {
                title: format!("Explain {code}"),
                command: super::lens::EXPLAIN.into(),
                arguments: Some(vec![code.into()]),
            }),
            ..CodeAction::default()
        }));
    }
    if !certain.is_empty() {
        out.push(CodeActionOrCommand::CodeAction(CodeAction {
            title: "Apply every certain suggestion".into(),
            kind: Some(CodeActionKind::SOURCE_FIX_ALL),
            edit: Some(workspace(uri, certain)),
            ..CodeAction::default()
        }));
    }
    out
}

/// Adds the edits of a fix if they do not overlap existing ones.
fn add_apart(all: &mut Vec<TextEdit>, more: Vec<TextEdit>) {
    let apart = |a: &Range, b: &Range| a.end < b.start || b.end < a.start;
    if more
        .iter()
        .all(|m| all.iter().all(|e| apart(&e.range, &m.range)))
    {
        all.extend(more);
    }
}

fn edits(doc: &Document, fix: &Fix) -> Vec<TextEdit> {
    let edit = |e: &relax_base::Edit| TextEdit::new(range(doc, e.span), e.text.clone());
    fix.edits.iter().map(edit).collect()
}

/// Returns a workspace edit of one document.
#[allow(clippy::mutable_key_type)] // The protocol's map is keyed by `Uri`, which caches a parse.
pub fn workspace(uri: &Uri, edits: Vec<TextEdit>) -> WorkspaceEdit {
    WorkspaceEdit::new(HashMap::from([(uri.clone(), edits)]))
}

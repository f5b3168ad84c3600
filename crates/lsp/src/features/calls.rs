//! The call hierarchy: callers and callees of a function.

use lsp_types::{
    CallHierarchyIncomingCall, CallHierarchyItem, CallHierarchyOutgoingCall, Position, Range,
    SymbolKind, Uri,
};
use relax_base::{Span, Symbol};
use relax_resolve::names::NameKind;
use relax_syntax::ast::ItemKind;

use super::place::range;
use super::refs::{Space, Target, name_at, occurrences};
use crate::document::Document;

/// A function or tensor program of a document.
struct Global {
    name: Symbol,
    kind: SymbolKind,
    whole: Span,
    place: Span,
}

impl Global {
    fn item(&self, doc: &Document, uri: &Uri) -> CallHierarchyItem {
        CallHierarchyItem {
            name: format!("@{}", self.name),
            kind: self.kind,
            tags: None,
            detail: None,
            uri: uri.clone(),
            range: range(doc, self.whole),
            selection_range: range(doc, self.place),
            data: None,
        }
    }
}

/// Returns all globals of a document, with spans in it.
fn globals(doc: &mut Document) -> Vec<Global> {
    let mut out = Vec::new();
    for i in 0..doc.parts().len() {
        let unit = doc.parts()[i].unit.clone();
        let own = unit.range();
        for item in &unit.ast.items {
            let (name, kind) = match item.kind {
                ItemKind::Def { name, .. } => (name, SymbolKind::FUNCTION),
                ItemKind::PrimFunc(p) => (p.name, SymbolKind::METHOD),
                _ => continue,
            };
            if own.start <= item.span.start && item.span.end <= own.end {
                out.push(Global {
                    name,
                    kind,
                    whole: doc.place(i, item.span),
                    place: doc.place(i, item.name_span),
                });
            }
        }
    }
    out
}

/// Returns the function whose name is at a position.
pub fn prepare(doc: &mut Document, uri: &Uri, at: Position) -> Vec<CallHierarchyItem> {
    let Some((_, name)) = name_at(doc, at).filter(|n| n.1.kind == NameKind::Global) else {
        return Vec::new();
    };
    let all = globals(doc);
    let found = all.iter().filter(|g| g.name == name.text);
    found.map(|g| g.item(doc, uri)).collect()
}

/// Returns the name of an item created by [`prepare`].
fn name_of(item: &CallHierarchyItem) -> Symbol {
    Symbol::new(item.name.trim_start_matches('@'))
}

/// Returns the callers of a function.
pub fn incoming(
    doc: &mut Document,
    uri: &Uri,
    item: &CallHierarchyItem,
) -> Vec<CallHierarchyIncomingCall> {
    let used = occurrences(doc, Target::Item(Space::Global, name_of(item)));
    let mut out = Vec::new();
    for g in globals(doc) {
        let inside = |s: &Span| g.whole.start <= s.start && s.end <= g.whole.end;
        let uses = used.iter().filter(|u| !u.1 && inside(&u.0));
        let from_ranges: Vec<Range> = uses.map(|u| range(doc, u.0)).collect();
        if !from_ranges.is_empty() {
            let from = g.item(doc, uri);
            out.push(CallHierarchyIncomingCall { from, from_ranges });
        }
    }
    out
}

/// Returns the functions in the document that a function refers to.
pub fn outgoing(
    doc: &mut Document,
    uri: &Uri,
    item: &CallHierarchyItem,
) -> Vec<CallHierarchyOutgoingCall> {
    let all = globals(doc);
    let Some(caller) = all.iter().find(|g| g.name == name_of(item)) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for g in &all {
        let used = occurrences(doc, Target::Item(Space::Global, g.name));
        let inside = |s: &Span| caller.whole.start <= s.start && s.end <= caller.whole.end;
        let uses = used.iter().filter(|u| !u.1 && inside(&u.0));
        let from_ranges: Vec<Range> = uses.map(|u| range(doc, u.0)).collect();
        if !from_ranges.is_empty() {
            let to = g.item(doc, uri);
            out.push(CallHierarchyOutgoingCall { to, from_ranges });
        }
    }
    out
}

//! Document symbols: the items, with their constructors.

use lsp_types::{DocumentSymbol, Range, SymbolKind};
use relax_base::Span;
use relax_syntax::ast::{Ast, ItemKind};

use super::place::range;
use crate::document::Document;

/// Returns the items.
pub fn symbols(doc: &mut Document) -> Vec<DocumentSymbol> {
    let mut out = Vec::new();
    for i in 0..doc.parts().len() {
        let unit = doc.parts()[i].unit.clone();
        // Converts spans in the unit to ranges in the document.
        let cell = std::cell::RefCell::new(&mut *doc);
        let at = |s: Span| {
            let doc = &mut **cell.borrow_mut();
            let place = doc.place(i, s);
            range(doc, place)
        };
        out.extend(listed(&unit.ast, unit.range(), &at));
    }
    out
}

/// Returns the items of a syntax tree inside `own`; `range` converts spans to the editor's ranges.
pub fn listed(ast: &Ast, own: Span, range: &dyn Fn(Span) -> Range) -> Vec<DocumentSymbol> {
    let mut out = Vec::new();
    for item in &ast.items {
        if item.span.start < own.start || item.span.end > own.end {
            continue;
        }
        let (name, kind) = match item.kind {
            ItemKind::Def { name, .. } | ItemKind::DefMeta { name, .. } => {
                (format!("@{name}"), SymbolKind::FUNCTION)
            }
            ItemKind::PrimFunc(p) => (format!("@{}", p.name), SymbolKind::METHOD),
            ItemKind::TypeDef(d) if d.external => (d.name.to_string(), SymbolKind::CLASS),
            ItemKind::TypeDef(d) => (d.name.to_string(), SymbolKind::ENUM),
            ItemKind::Rel(r) => (r.name.to_string(), SymbolKind::INTERFACE),
            ItemKind::Op(o) => (o.name.to_string(), SymbolKind::OPERATOR),
            ItemKind::Grad(g) => (format!("grad {}", g.op), SymbolKind::OPERATOR),
            ItemKind::Error | ItemKind::Expr(_) | ItemKind::Type(_) => continue,
        };
        let mut children = Vec::new();
        if let ItemKind::TypeDef(def) = item.kind {
            for c in ast.list(def.ctors) {
                let c = ast.ctors[c];
                let place = range(c.span);
                let kind = SymbolKind::ENUM_MEMBER;
                children.push(symbol(c.name.to_string(), kind, place, place, vec![]));
            }
        }
        let (whole, place) = (range(item.span), range(item.name_span));
        out.push(symbol(name, kind, whole, place, children));
    }
    out
}

#[allow(deprecated)] // A deprecated field that must still be set.
fn symbol(
    name: String,
    kind: SymbolKind,
    range: Range,
    selection_range: Range,
    children: Vec<DocumentSymbol>,
) -> DocumentSymbol {
    let name = if name.is_empty() { "?".into() } else { name };
    DocumentSymbol {
        name,
        detail: None,
        kind,
        tags: None,
        deprecated: None,
        range,
        selection_range,
        children: (!children.is_empty()).then_some(children),
    }
}

/// Returns whether a name matches a query: its letters occur in order, ignoring case.
pub fn matches(name: &str, query: &str) -> bool {
    let mut chars = name.chars().flat_map(char::to_lowercase);
    (query.chars().flat_map(char::to_lowercase)).all(|q| chars.any(|c| c == q))
}

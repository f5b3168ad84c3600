//! Selection ranges: token, expression, statement, item, file.

use lsp_types::{Position, SelectionRange};
use relax_base::Span;

use crate::document::Document;

/// Returns the nested ranges around a position.
pub fn select(doc: &mut Document, at: Position) -> SelectionRange {
    let offset = doc.text.offset(at);
    let mut places: Vec<Span> = Vec::new();
    let file = doc.lexed().0.clone();
    places.push(file.span());
    let pos = file.start + offset as u32;
    if let Some((part, inside)) = doc.at(offset) {
        let unit = doc.parts()[part].unit.clone();
        let own = unit.range();
        let ast = &unit.ast;
        let all = (ast.exprs.values().map(|e| e.span))
            .chain(ast.types.values().map(|t| t.span))
            .chain(ast.stmts.values().map(|s| s.span))
            .chain(ast.pats.values().map(|p| p.span))
            .chain(ast.clauses.values().map(|c| c.span))
            .chain(ast.attrs.values().map(|a| a.span))
            .chain(ast.functions.values().map(|f| f.header))
            .chain(ast.ctors.values().map(|c| c.span))
            .chain(ast.items.iter().map(|i| i.span));
        let around = |s: &Span| s.touches(inside) && own.start <= s.start && s.end <= own.end;
        let found: Vec<Span> = all.filter(around).collect();
        places.extend(found.into_iter().map(|s| doc.place(part, s)));
    }
    let tokens = &doc.lexed().1.tokens;
    let i = tokens.partition_point(|t| t.end < pos);
    let here = tokens[i..].iter().take(2).map(|t| t.span());
    places.extend(here.filter(|s| s.touches(pos)));
    places.sort_by_key(|s| (std::cmp::Reverse(s.len()), s.start));
    places.dedup();
    let mut chain: Option<SelectionRange> = None;
    let mut outer = file.span();
    for s in places {
        if s.is_empty() || s.start < outer.start || s.end > outer.end {
            continue;
        }
        outer = s;
        chain = Some(SelectionRange {
            range: super::place::range(doc, s),
            parent: chain.map(Box::new),
        });
    }
    chain.unwrap_or(SelectionRange {
        range: lsp_types::Range::new(at, at),
        parent: None,
    })
}

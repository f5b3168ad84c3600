//! Inlay hints: inferred types.

use lsp_types::{InlayHint, InlayHintKind, InlayHintLabel, Position, Range};
use relax_base::Span;
use relax_ir::{Type, TypeId};
use relax_syntax::ast::StmtKind;

use crate::document::Document;
use crate::unit::Unit;

/// Longer types are truncated in hints.
const LONGEST: usize = 60;

/// Returns the hints in a range.
pub fn hints(doc: &mut Document, only: Range) -> Vec<InlayHint> {
    let (from, to) = (doc.text.offset(only.start), doc.text.offset(only.end));
    let mut out = Vec::new();
    for i in 0..doc.parts().len() {
        let part = &doc.parts()[i];
        if part.chunk.end < from || to < part.chunk.start {
            continue;
        }
        let unit = part.unit.clone();
        let (own, start) = (unit.range(), part.chunk.start);
        let window = Span::new(
            own.start + from.saturating_sub(start) as u32,
            (own.start + to.saturating_sub(start).min(own.len()) as u32).min(own.end),
        );
        let mut found = unit_hints(&unit, window);
        found.sort_by_key(|f| f.0);
        for (pos, text) in found {
            let place = doc.place(i, Span::new(pos, pos));
            let at = doc.text.position((place.start - 1) as usize);
            out.push(hint(at, text));
        }
    }
    out
}

fn hint(position: Position, text: String) -> InlayHint {
    let short = match text.char_indices().nth(LONGEST) {
        Some((i, _)) => format!("{}…", &text[..i]),
        None => text.clone(),
    };
    InlayHint {
        position,
        label: InlayHintLabel::String(short.clone()),
        kind: Some(InlayHintKind::TYPE),
        text_edits: None,
        tooltip: (short != text).then(|| text.trim_start_matches(": ").to_owned().into()),
        padding_left: None,
        padding_right: None,
        data: None,
    }
}

fn known(unit: &Unit, ty: TypeId) -> Option<String> {
    let bad = matches!(unit.module.types[ty], Type::Error);
    (!bad).then(|| unit.module.show_type(ty))
}

fn unit_hints(unit: &Unit, window: Span) -> Vec<(u32, String)> {
    let inside = |s: Span| window.start <= s.start && s.end <= window.end;
    let mut out = Vec::new();
    let ast = &unit.ast;
    for b in ast.binders.values() {
        if b.ty.is_none()
            && b.sigil
            && inside(b.span)
            && let Some(&var) = unit.vars.get(&b.span)
            && let Some(text) = known(unit, unit.typing.vars[var])
        {
            out.push((b.span.end, format!(": {text}")));
        }
    }
    for s in ast.stmts.values() {
        if let StmtKind::Graph { index, value } = s.kind
            && inside(s.span)
            && let Some(text) = unit.type_at(ast.exprs[value].span)
        {
            let len = index.to_string().len() as u32 + 1;
            out.push((s.span.start + len, format!(": {text}")));
        }
    }
    for (id, f) in unit.module.funcs.iter() {
        let place = Span::new(f.span.start, f.span.start);
        if f.ret.is_some() || f.span.is_none() || !inside(place) {
            continue;
        }
        let written = ast
            .functions
            .values()
            .find(|g| g.header.start == f.span.start);
        if let Some(g) = written
            && let Type::Func(ty) = &unit.module.types[unit.typing.funcs[id]]
            && let Some(text) = known(unit, ty.ret)
        {
            out.push((g.header.end, format!(" -> {text}")));
        }
    }
    out
}

//! Hover in TVMScript: types.

use lsp_types::{Hover, Position};
use relax_ir::{Expr, Type};

use super::hover::{fence, shown};
use crate::document::Document;

/// Returns the type of the variable or the innermost value at a position.
pub fn hover(doc: &mut Document, at: Position) -> Option<Hover> {
    let (part, pos) = doc.at(doc.text.offset(at))?;
    let unit = doc.parts()[part].unit.clone();
    let m = &unit.module;
    let bound = unit.vars.iter().find(|(span, _)| span.touches(pos));
    let found = match bound {
        Some((span, &var)) => Some((*span, Some(var), unit.typing.vars[var])),
        None => unit.exprs_at(pos).into_iter().find_map(|e| {
            let var = match m.exprs[e] {
                Expr::Var(v) => Some(v),
                _ => None,
            };
            let ty = unit.typing.exprs[e];
            (m.types[ty] != Type::Error).then_some((m.spans[e], var, ty))
        }),
    };
    let (span, var, ty) = found?;
    let ty = m.show_type(ty);
    let value = match var {
        Some(v) => fence(&format!("{}: {ty}", m.vars[v].name)),
        None => fence(&ty.to_string()),
    };
    let place = doc.place(part, span);
    Some(shown(doc, place, value))
}

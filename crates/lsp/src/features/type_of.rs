//! The data type of the entity at a position.

use lsp_types::Position;
use relax_base::Symbol;
use relax_ir::{Type, TypeId};
use relax_resolve::names::NameKind;

use super::refs::name_at;
use crate::document::Document;
use crate::unit::Unit;

/// Returns the name of the data type that a value at a position has or contains: the content of a
/// reference, the result of a function, the first field of a tuple that has one.
pub fn data_type_at(doc: &mut Document, at: Position) -> Option<Symbol> {
    let named = name_at(doc, at);
    if let Some((part, name)) = named {
        let unit = doc.parts()[part].unit.clone();
        match name.kind {
            NameKind::Type => return Some(name.text),
            NameKind::Ctor | NameKind::Callee => {
                let ctors = &unit.module.ctors;
                let ctor = ctors.values().find(|c| c.name == name.text);
                if let Some(ctor) = ctor {
                    return Some(unit.module.adts[ctor.adt].name);
                }
            }
            _ => {
                let var = name.binding.and_then(|b| unit.vars.get(&b));
                if let Some(&var) = var {
                    return data_type(&unit, unit.typing.vars[var]);
                }
            }
        }
    }
    let offset = doc.text.offset(at);
    let (part, pos) = doc.at(offset)?;
    let unit = doc.parts()[part].unit.clone();
    let around = unit.exprs_at(pos).into_iter();
    let mut known = around
        .map(|e| unit.typing.exprs[e])
        .filter(|t| unit.module.types[*t] != Type::Error);
    data_type(&unit, known.next()?)
}

fn data_type(unit: &Unit, ty: TypeId) -> Option<Symbol> {
    let mut left = vec![ty];
    // Types are DAGs; none that an editor shows is larger than this.
    for _ in 0..256 {
        match &unit.module.types[left.pop()?] {
            Type::Adt(adt, _) => return Some(unit.module.adts[*adt].name),
            Type::Ref(t) => left.push(*t),
            Type::Func(f) => left.push(f.ret),
            Type::Tuple(fields) => left.extend(fields.iter().rev()),
            _ => {}
        }
    }
    None
}

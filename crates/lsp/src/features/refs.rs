//! Names: definitions, references, highlights, renaming.

use lsp_types::{Position, Range, TextEdit};
use relax_base::{Span, Symbol};
use relax_resolve::names::{Name, NameKind};
use relax_syntax::Tok;

use super::place::range;
use crate::Error;
use crate::document::Document;
use crate::library::{self, Origin};

/// The entity that a name refers to, comparable across chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A local, by its binding in a chunk.
    Here(usize, Span),
    /// A file-wide entity: functions, types, relations, and constructors with operators have
    /// separate namespaces.
    Item(Space, Symbol),
}

/// A namespace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// `@f`
    Global,
    /// `List`
    Type,
    /// A relation.
    Relation,
    /// A constructor or an operator.
    Callee,
}

/// Returns the entity that a name in a chunk refers to; `None` for keys and unbound names.
pub fn target(part: usize, name: &Name) -> Option<Target> {
    let space = match name.kind {
        NameKind::Global => Space::Global,
        NameKind::Type => Space::Type,
        NameKind::Relation => Space::Relation,
        NameKind::Callee | NameKind::Ctor | NameKind::Op => Space::Callee,
        _ => return name.binding.map(|b| Target::Here(part, b)),
    };
    Some(Target::Item(space, name.text))
}

/// Returns the name at a position, and its part.
pub fn name_at(doc: &mut Document, at: Position) -> Option<(usize, Name)> {
    let offset = doc.text.offset(at);
    let (part, pos) = doc.at(offset)?;
    let found = doc.parts()[part].unit.name_at(pos).copied();
    if found.is_some() || offset == 0 {
        return found.map(|n| (part, n));
    }
    // At the boundary of two chunks, the name may end the first one.
    let (before, pos) = doc.at(offset - 1)?;
    let unit = &doc.parts()[before].unit;
    let n = unit.name_at(pos + 1).copied()?;
    Some((before, n))
}

/// Returns all occurrences of an entity, in source order, each with whether it is a binding.
pub fn occurrences(doc: &mut Document, what: Target) -> Vec<(Span, bool)> {
    let parts = match what {
        Target::Here(part, _) => part..part + 1,
        Target::Item(..) => 0..doc.parts().len(),
    };
    let mut out = Vec::new();
    for i in parts {
        let unit = doc.parts()[i].unit.clone();
        for n in unit.names.iter().filter(|n| target(i, n) == Some(what)) {
            out.push((doc.place(i, n.span), n.binds));
        }
    }
    // A name may be recorded twice if the text has errors.
    out.sort_by_key(|&(place, binds)| (place.start, place.end, !binds));
    out.dedup_by_key(|o| o.0);
    out
}

/// Returns the entity that the name at a position refers to.
pub fn target_at(doc: &mut Document, at: Position) -> Option<Target> {
    let (part, name) = name_at(doc, at)?;
    target(part, &name)
}

/// Returns all occurrences of the name at a position, each with whether it is a binding.
pub fn references(doc: &mut Document, at: Position) -> Vec<(Range, bool)> {
    let Some(what) = target_at(doc, at) else {
        return Vec::new();
    };
    let found = occurrences(doc, what);
    found.iter().map(|o| (range(doc, o.0), o.1)).collect()
}

/// Returns the part of a name that renaming replaces, without the sigil, and its current text.
///
/// # Errors
/// There is no name, or it is not declared in this file.
pub fn rename_range(doc: &mut Document, at: Position) -> Result<(Range, String), Error> {
    let (part, name) = named(doc, at)?;
    let what = meant(part, &name)?;
    if name.kind == NameKind::Graph {
        return Err(Error::refused("graph variables are numbered, not named"));
    }
    if !occurrences(doc, what).iter().any(|o| o.1) {
        let foreign = match what {
            Target::Item(space, name) => library::origin((space, name), doc.text.encoding()),
            Target::Here(..) => None,
        };
        let whose = match foreign {
            Some(Origin::Prelude(..)) => "is defined in the prelude",
            Some(_) => "is built in",
            None => "is not defined in this file",
        };
        return Err(Error::Refused(format!("`{}` {whose}", name.text)));
    }
    let place = doc.place(part, bare(&name));
    Ok((range(doc, place), name.text.to_string()))
}

fn named(doc: &mut Document, at: Position) -> Result<(usize, Name), Error> {
    let found = name_at(doc, at);
    found.ok_or_else(|| Error::refused("there is no name here"))
}

fn meant(part: usize, name: &Name) -> Result<Target, Error> {
    let found = target(part, name);
    found.ok_or_else(|| Error::refused("this name is bound nowhere"))
}

/// Returns the span of a name without its sigil.
fn bare(name: &Name) -> Span {
    let sigil = name.span.len() > name.text.as_str().len()
        && matches!(name.kind, NameKind::Local | NameKind::Global);
    Span::new(name.span.start + u32::from(sigil), name.span.end)
}

/// Returns the edits that rename the entity at a position.
///
/// # Errors
/// The new name is invalid, or would change the program's meaning.
pub fn rename(doc: &mut Document, at: Position, new: &str) -> Result<Vec<TextEdit>, Error> {
    rename_range(doc, at)?;
    let (part, name) = named(doc, at)?;
    let sigil = match name.kind {
        NameKind::Local => "%",
        NameKind::Global => "@",
        _ => "",
    };
    let new = new.strip_prefix(sigil).unwrap_or(new);
    let spelled = format!("{sigil}{new}");
    let token = match name.kind {
        NameKind::Local => Tok::Local,
        NameKind::Global => Tok::Global,
        _ => Tok::Name,
    };
    if !is_token(&spelled, token) {
        return Err(Error::Refused(format!("`{spelled}` is no name")));
    }
    let what = meant(part, &name)?;
    let places: Vec<Span> = occurrences(doc, what).iter().map(|o| o.0).collect();
    let skip = sigil.len() as u32;
    let mut text = doc.text.as_str().to_owned();
    for p in places.iter().rev() {
        let (from, to) = ((p.start - 1 + skip) as usize, (p.end - 1) as usize);
        // If the text has errors, a name may consist of several pieces of text.
        if text.get(from..to) != Some(name.text.as_str()) {
            return Err(Error::Refused(format!(
                "`{}` is not written in one piece at some of these places",
                name.text
            )));
        }
        text.replace_range(from..to, new);
    }
    let mut changed = Document::new(text, 0, doc.text.encoding(), false);
    if structure(doc) != structure(&mut changed) {
        return Err(Error::Refused(format!(
            "`{spelled}` would mean something else at some of these places"
        )));
    }
    let edit = |p: &Span| {
        let place = Span::new(p.start + skip, p.end);
        TextEdit::new(range(doc, place), new.to_owned())
    };
    Ok(places.iter().map(edit).collect())
}

fn is_token(text: &str, tok: Tok) -> bool {
    let mut map = relax_base::SourceMap::new();
    let Some(file) = map.add("", text) else {
        return false;
    };
    let lexed = relax_syntax::lex(&file);
    let whole = |t: &relax_syntax::Token| t.tok == tok && t.span() == file.span();
    lexed.diagnostics.is_empty() && matches!(&lexed.tokens[..], [t] if whole(t))
}

/// Returns, for each name of a document in order, the index of its binding name, or of the first
/// name of the same entity.
fn structure(doc: &mut Document) -> Vec<usize> {
    let mut first: rustc_hash::FxHashMap<(usize, u32, &'static str, u8), usize> =
        rustc_hash::FxHashMap::default();
    let mut out = Vec::new();
    for i in 0..doc.parts().len() {
        let unit = doc.parts()[i].unit.clone();
        for n in &unit.names {
            let me = out.len();
            let key = match target(i, n) {
                // Byte offsets of bindings change with a renaming: indices do not.
                Some(Target::Here(part, span)) => {
                    let at = unit.names.partition_point(|m| m.span < span);
                    (part, at as u32, "", 0)
                }
                Some(Target::Item(space, name)) => (0, 0, name.as_str(), 1 + space as u8),
                None => (i, me as u32, "", 9),
            };
            out.push(*first.entry(key).or_insert(me));
        }
    }
    out
}

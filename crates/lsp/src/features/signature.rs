//! Signature help: the call around a position. It is found in the tokens, so that it works on
//! incomplete calls.

use lsp_types::{
    Documentation, MarkupContent, MarkupKind, ParameterInformation, ParameterLabel, Position,
    SignatureHelp, SignatureInformation,
};
use relax_base::{SourceFile, Span};
use relax_ops::{OpDef, registry};
use relax_syntax::{Tok, Token};

use super::hover::attr_text;
use crate::document::Document;

/// A call that is open at a position.
#[derive(Debug)]
pub struct OpenCall {
    /// The callee, as written.
    pub callee: String,
    /// The callee's span, in the document's file.
    pub place: Span,
    /// The number of arguments before the position.
    pub before: usize,
    /// The key of the current attribute.
    pub key: Option<String>,
    /// The keys of the attributes present, before and after the position.
    pub keys: Vec<String>,
}

/// The number of tokens searched backwards for the start of a call.
const HORIZON: usize = 2000;

/// Returns the innermost call around a byte offset.
pub fn open_call(doc: &mut Document, offset: usize) -> Option<OpenCall> {
    let file = doc.lexed().0.clone();
    let tokens = &doc.lexed().1.tokens;
    let pos = file.start + offset as u32;
    let end = tokens.partition_point(|t| t.end <= pos);
    let mut depth = 0usize;
    let mut before = 0;
    let mut key = None;
    for i in (end.saturating_sub(HORIZON)..end).rev() {
        match tokens[i].tok {
            Tok::RParen | Tok::RSquare | Tok::RBrace => depth += 1,
            Tok::LBrace if depth == 0 => return None,
            Tok::LSquare if depth == 0 => {
                // Inside a list: an attribute's value, or an index.
                (before, key) = (0, None);
            }
            Tok::LParen if depth == 0 => {
                let called = i.checked_sub(1).map(|j| tokens[j]);
                match called {
                    Some(t) if matches!(t.tok, Tok::Name | Tok::Global | Tok::Local) => {
                        return Some(OpenCall {
                            callee: file.slice(t.span()).to_owned(),
                            place: t.span(),
                            before,
                            key,
                            keys: keys(&file, &tokens[i + 1..], pos),
                        });
                    }
                    _ => (before, key) = (0, None),
                }
            }
            Tok::LParen | Tok::LSquare | Tok::LBrace => depth -= 1,
            Tok::Comma if depth == 0 => before += 1,
            Tok::Eq if depth == 0 && before == 0 => {
                let name = i.checked_sub(1).map(|j| tokens[j].span());
                key = name.map(|s| file.slice(s).to_owned());
            }
            Tok::Def | Tok::Semi if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Returns the keys of attributes up to the closing bracket, except for the one at a position.
fn keys(file: &SourceFile, tokens: &[Token], pos: u32) -> Vec<String> {
    let mut depth = 0usize;
    let mut out = Vec::new();
    for pair in tokens.windows(2).take(HORIZON) {
        match pair[0].tok {
            Tok::LParen | Tok::LSquare | Tok::LBrace => depth += 1,
            Tok::RParen | Tok::RSquare | Tok::RBrace => match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => break,
            },
            Tok::Semi | Tok::Def if depth == 0 => break,
            Tok::Name if depth == 0 && pair[1].tok == Tok::Eq => {
                let span = pair[0].span();
                if !span.touches(pos) {
                    out.push(file.slice(span).to_owned());
                }
            }
            _ => {}
        }
    }
    out
}

/// Returns the built-in operator of this name.
pub fn builtin(name: &str) -> Option<&'static OpDef> {
    registry().get(registry().find(name)?)
}

/// Returns the signature of the call around a position.
pub fn help(doc: &mut Document, at: Position) -> Option<SignatureHelp> {
    let offset = doc.text.offset(at);
    let call = open_call(doc, offset)?;
    let (name, parts, said): (String, Vec<(String, String)>, String) = match builtin(&call.callee) {
        Some(def) => {
            let inputs = def
                .inputs
                .iter()
                .map(|i| (format!("%{}", i.name), i.doc.to_owned()));
            let attrs = def.attrs.iter().map(|a| (attr_text(a), a.doc.to_owned()));
            (
                call.callee.clone(),
                inputs.chain(attrs).collect(),
                def.doc.to_owned(),
            )
        }
        None => {
            let parts = other(doc, &call)?;
            let parts = parts.into_iter().map(|p| (p, String::new())).collect();
            (call.callee.clone(), parts, String::new())
        }
    };
    let active = match &call.key {
        Some(key) => parts
            .iter()
            .position(|p| p.0.split(':').next() == Some(key.as_str())),
        None => Some(call.before.min(parts.len().saturating_sub(1))),
    };
    let mut label = format!("{name}(");
    let mut parameters = Vec::new();
    for (i, (text, said)) in parts.iter().enumerate() {
        if i > 0 {
            label.push_str(", ");
        }
        let from = doc.text.encoding().width(&label);
        label.push_str(text);
        let to = doc.text.encoding().width(&label);
        parameters.push(ParameterInformation {
            label: ParameterLabel::LabelOffsets([from, to]),
            documentation: (!said.is_empty()).then(|| Documentation::String(said.clone())),
        });
    }
    label.push(')');
    let documentation = (!said.is_empty()).then_some({
        Documentation::MarkupContent(MarkupContent {
            kind: MarkupKind::Markdown,
            value: said,
        })
    });
    Some(SignatureHelp {
        signatures: vec![SignatureInformation {
            label,
            documentation,
            parameters: Some(parameters),
            active_parameter: active.map(|a| a as u32),
        }],
        active_signature: Some(0),
        active_parameter: active.map(|a| a as u32),
    })
}

/// Returns the parameters of a function, constructor or `op` item of the file or the prelude, as
/// text.
fn other(doc: &mut Document, call: &OpenCall) -> Option<Vec<String>> {
    let name = call.callee.trim_start_matches(['@', '%']);
    for i in 0..doc.parts().len() {
        let unit = doc.parts()[i].unit.clone();
        let m = &unit.module;
        if call.callee.starts_with('@') {
            let Some(f) = m.global(name).and_then(|g| m.global_func(g)) else {
                continue;
            };
            let param = |&p: &relax_ir::VarId| {
                format!("%{}: {}", m.vars[p].name, m.show_type(unit.typing.vars[p]))
            };
            return Some(m.funcs[f].params.iter().map(param).collect());
        }
        if call.callee.starts_with('%') {
            let own = unit.range();
            let (part, pos) = doc.at((call.place.start - 1) as usize)?;
            if part != i || !own.touches(pos) {
                continue;
            }
            let n = *unit.name_at(pos)?;
            let var = *unit.vars.get(&n.binding?)?;
            let relax_ir::Type::Func(f) = &m.types[unit.typing.vars[var]] else {
                return None;
            };
            return Some(f.args.iter().map(|&a| m.show_type(a)).collect());
        }
        if let Some((_, c)) = m.ctors.iter().find(|c| c.1.name == name) {
            return Some(c.fields.iter().map(|&f| m.show_type(f)).collect());
        }
        if let Some(op) = m.user_ops.iter().find(|o| o.name == name) {
            let inputs = op
                .params
                .iter()
                .map(|p| format!("%{}: {}", p.0, m.show_type(p.1)));
            let attrs = op.attrs.iter().map(|a| format!("{}: {}", a.0, a.1));
            return Some(inputs.chain(attrs).collect());
        }
    }
    None
}

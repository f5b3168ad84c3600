//! Completion.

use std::sync::LazyLock;

use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionList, CompletionResponse, CompletionTextEdit,
    Documentation, InsertTextFormat, MarkupContent, MarkupKind, Position, Range, TextEdit,
};
use relax_base::{Span, Symbol};
use relax_ops::{OpDef, registry};
use relax_resolve::names::NameKind;
use relax_syntax::{HighlightClass, TOKENS, Tok};
use rustc_hash::FxHashSet;

use super::hover::{attr_text, op_signature, op_text};
use super::signature::{OpenCall, builtin, open_call};
use crate::document::Document;

/// Snippets with placeholders: label, text, description.
const SNIPPETS: &[(&str, &str, &str)] = &[
    (
        "def",
        "def @${1:name}(${2:%x: Tensor[(${3:n},), float32]}) -> ${4:Tensor[(n,), float32]} {\n  $0\n}",
        "a function",
    ),
    ("let", "let %${1:x} = ${2:value};\n$0", "a binding"),
    ("fn", "fn (${1:%x}) {\n  $0\n}", "a closure"),
    (
        "if",
        "if (${1:cond}) {\n  $2\n} else {\n  $0\n}",
        "a condition",
    ),
    (
        "match",
        "match (${1:value}) {\n  ${2:pattern} => $0,\n}",
        "a match",
    ),
    (
        "type",
        "type ${1:Name}[${2:A}] {\n  ${3:Nil},\n  ${4:Cons(A, Name[A])},\n}",
        "a data type",
    ),
    (
        "dataflow",
        "dataflow {\n  ${1:%lv} = ${2:value};\n  output(${1:%lv});\n};\n$0",
        "a dataflow block",
    ),
    (
        "prim_func",
        "prim_func @${1:name}(%X: Buffer[(${2:n},), float32], %Y: Buffer[(${2:n},), float32]) {\n  for %i in grid(${2:n}) {\n    %Y[%i] = ${0:%X[%i]};\n  }\n}",
        "a tensor program",
    ),
    (
        "op",
        "op ${1:my.scale}[${2:s}: Shape](%x: Tensor[${2:s}, float32], ${3:factor}: float64 = ${4:1.0}) -> Tensor[${2:s}, float32] {\n  compute $0\n}",
        "an operator",
    ),
    (
        "grad",
        "grad ${1:my.scale}(%x) -> (%y, %g) {\n  $0\n}",
        "the gradients of an operator",
    ),
    (
        "rel",
        "rel ${1:Name}(${2:Tensor[(d, *rest), t]}) -> ${0:Tensor[(d, prod(rest)), t]};",
        "a type relation",
    ),
];

/// The limit on variables offered at once: the editor asks again when more of the name is typed.
const MOST: usize = 500;

/// Returns the completions at a position. With `snippets`, texts may have placeholders.
pub fn complete(doc: &mut Document, at: Position, snippets: bool) -> CompletionResponse {
    let offset = doc.text.offset(at);
    if in_words(doc, offset) {
        return CompletionResponse::Array(Vec::new());
    }
    let text = doc.text.as_str();
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let mut start = text[..offset].trim_end_matches(word).len();
    let sigil = text[..start]
        .chars()
        .next_back()
        .filter(|c| matches!(c, '%' | '@'));
    start -= usize::from(sigil.is_some());
    let mut list = List {
        range: doc.text.range(start, offset),
        items: Vec::new(),
        seen: FxHashSet::default(),
        typed: text[start + usize::from(sigil.is_some())..offset].to_lowercase(),
        cut: false,
    };
    match sigil {
        Some('%') => locals(doc, offset, &mut list),
        Some(_) => globals(doc, &mut list),
        None => {
            let before = text[..start].trim_end();
            // After a colon or an arrow, or inside the brackets of a type.
            let types = before.ends_with(':') || before.ends_with("->") || in_type(before);
            // In an attribute's value, where no key is allowed.
            let value = before.ends_with('=');
            let call = open_call(doc, start);
            if types {
                type_names(doc, offset, &mut list);
                return list.response();
            }
            if let Some(call) = call.filter(|_| !value) {
                attributes(doc, &call, &mut list);
            }
            locals(doc, offset, &mut list);
            globals(doc, &mut list);
            callees(doc, &mut list, snippets);
            keywords(&mut list, snippets);
        }
    }
    list.response()
}

/// Returns whether a byte is inside a comment, a string or a header.
fn in_words(doc: &mut Document, offset: usize) -> bool {
    let (file, lexed) = doc.lexed();
    let pos = file.start + offset as u32;
    let comment = lexed.comments.partition_point(|c| c.span.start < pos);
    let in_comment = (lexed.comments[..comment].last())
        .is_some_and(|c| pos < c.span.end || c.line && pos == c.span.end);
    let token = lexed.tokens.partition_point(|t| t.start < pos);
    in_comment
        || (lexed.tokens[..token].last()).is_some_and(|t| {
            let words = matches!(t.tok, Tok::Str | Tok::Version | Tok::Metadata);
            words && (pos < t.end || t.tok == Tok::Metadata)
        })
}

/// Adds the attributes of the called operator, except those already present.
fn attributes(doc: &mut Document, call: &OpenCall, list: &mut List) {
    let mut add = |name: &str, detail: String, said: &str| {
        if call.keys.iter().any(|k| k == name) {
            return;
        }
        let mut item = list.item(&format!("{name}="), CompletionItemKind::PROPERTY, "0");
        item.detail = Some(detail);
        let said = Some(said).filter(|s| !s.is_empty());
        item.documentation = said.map(|s| Documentation::String(s.into()));
        list.add(item);
    };
    if let Some(def) = builtin(&call.callee) {
        for a in def.attrs {
            add(a.name, attr_text(a), a.doc);
        }
        return;
    }
    for part in doc.parts() {
        let ops = part.unit.module.user_ops.iter();
        for op in ops.filter(|o| o.name == call.callee.as_str()) {
            for a in &op.attrs {
                add(a.0.as_str(), format!("{}: {}", a.0, a.1), "");
            }
        }
    }
}

/// Returns whether a text ends inside the brackets of a type.
fn in_type(before: &str) -> bool {
    let Some(open) = before.rfind('[') else {
        return false;
    };
    let closed = before[open..].contains([']', ';', '{']);
    let head = before[..open].trim_end();
    let heads = ["Tensor", "Shape", "Buffer"];
    !closed
        && (heads.iter().any(|h| head.ends_with(h))
            || head.ends_with(char::is_alphabetic) && {
                let name = head
                    .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .next();
                name.is_some_and(|n| n.starts_with(|c: char| c.is_ascii_uppercase()))
            })
}

struct List {
    range: Range,
    items: Vec<CompletionItem>,
    seen: FxHashSet<String>,
    /// The typed prefix, in lower case.
    typed: String,
    /// Whether the list is incomplete.
    cut: bool,
}

impl List {
    fn response(self) -> CompletionResponse {
        match self.cut {
            true => CompletionResponse::List(CompletionList {
                is_incomplete: true,
                items: self.items,
            }),
            false => CompletionResponse::Array(self.items),
        }
    }
    /// Returns whether an editor would show a name for the typed text: its letters occur in order.
    fn fits(&self, name: &str) -> bool {
        let mut letters = name.chars().flat_map(char::to_lowercase);
        self.typed.chars().all(|c| letters.any(|l| l == c))
    }
    fn item(&self, text: &str, kind: CompletionItemKind, rank: &str) -> CompletionItem {
        CompletionItem {
            label: text.to_owned(),
            kind: Some(kind),
            sort_text: Some(format!("{rank}{text}")),
            text_edit: Some(CompletionTextEdit::Edit(TextEdit::new(
                self.range,
                text.into(),
            ))),
            ..CompletionItem::default()
        }
    }
    fn add(&mut self, item: CompletionItem) {
        if self.seen.insert(item.label.clone()) {
            self.items.push(item);
        }
    }
}

/// Adds the locals in scope at a byte offset, latest first.
fn locals(doc: &mut Document, offset: usize, list: &mut List) {
    let Some((part, pos)) = doc.at(offset) else {
        return;
    };
    let unit = doc.parts()[part].unit.clone();
    let scopes = crate::scope::Scopes::at(&unit, pos);
    let own = own_binder(doc, offset);
    let bound = unit.names.iter().rev().filter(|n| {
        n.binds && matches!(n.kind, NameKind::Local | NameKind::Graph) && scopes.sees(n.span)
    });
    for n in bound {
        if n.kind != NameKind::Graph && !list.fits(n.text.as_str()) {
            continue;
        }
        if own.is_some_and(|own| own == doc.place(part, n.span)) {
            continue;
        }
        if list.items.len() >= MOST {
            list.cut = true;
            break;
        }
        let mut item = list.item(&format!("%{}", n.text), CompletionItemKind::VARIABLE, "1");
        item.detail = unit
            .vars
            .get(&n.span)
            .map(|&v| unit.module.show_type(unit.typing.vars[v]));
        list.add(item);
    }
}

/// Returns the binder of the value that contains a byte offset, found in the tokens, as the
/// statement may be incomplete. It is visible in a closure's body, which is a block of its own.
fn own_binder(doc: &mut Document, offset: usize) -> Option<Span> {
    let (file, lexed) = doc.lexed();
    let pos = file.start + offset as u32;
    let before = &lexed.tokens[..lexed.tokens.partition_point(|t| t.end < pos)];
    let mut depth = 0usize;
    let mut first = 0;
    for (i, t) in before.iter().enumerate().rev() {
        match t.tok {
            Tok::RParen | Tok::RSquare | Tok::RBrace => depth += 1,
            Tok::LBrace if depth == 0 => {
                first = i + 1;
                break;
            }
            Tok::LParen | Tok::LSquare | Tok::LBrace => depth = depth.saturating_sub(1),
            Tok::Semi | Tok::Def | Tok::Type if depth == 0 => {
                first = i + 1;
                break;
            }
            _ => {}
        }
    }
    let statement = &before[first..];
    let statement = match statement.first()?.tok {
        Tok::Let => &statement[1..],
        _ => statement,
    };
    let (binder, rest) = statement.split_first()?;
    let bound = matches!(binder.tok, Tok::Local | Tok::Graph);
    (bound && rest.iter().any(|t| t.tok == Tok::Eq)).then(|| binder.span())
}

fn globals(doc: &mut Document, list: &mut List) {
    for i in 0..doc.parts().len() {
        let unit = doc.parts()[i].unit.clone();
        for n in unit
            .names
            .iter()
            .filter(|n| n.binds && n.kind == NameKind::Global)
        {
            let mut item = list.item(&format!("@{}", n.text), CompletionItemKind::FUNCTION, "2");
            let global = unit.module.global(n.text.as_str());
            item.detail = global.map(|g| unit.module.show_type(unit.typing.globals[g]));
            list.add(item);
        }
    }
    for name in relax_resolve::prelude_names().globals {
        let mut item = list.item(&format!("@{name}"), CompletionItemKind::FUNCTION, "5");
        item.detail = Some("prelude".into());
        list.add(item);
    }
}

fn declared(doc: &mut Document, kind: NameKind) -> Vec<Symbol> {
    let units = doc.parts().iter();
    let names = units.flat_map(|p| p.unit.names.iter());
    let found = names.filter(|n| n.binds && n.kind == kind);
    found.map(|n| n.text).collect()
}

/// What is offered of an operator.
struct Offer {
    def: &'static OpDef,
    /// Its signature.
    detail: String,
    /// A call with placeholders, if it has inputs.
    snippet: Option<String>,
}

/// Returns the offers of all operators, which are the same in every document.
fn offers() -> &'static [Offer] {
    static OFFERS: LazyLock<Vec<Offer>> = LazyLock::new(|| {
        let all = registry().iter();
        all.map(|(_, def)| Offer {
            def,
            detail: op_signature(def),
            snippet: (!def.inputs.is_empty()).then(|| snippet(def)),
        })
        .collect()
    });
    &OFFERS
}

/// Returns a call of an operator with placeholders.
fn snippet(def: &OpDef) -> String {
    let mut parts: Vec<String> = (def.inputs.iter().enumerate())
        .map(|(i, input)| format!("${{{}:%{}}}", i + 1, input.name))
        .collect();
    for a in def.attrs {
        if a.default == relax_ops::Default::Required {
            parts.push(format!("{}=${{{}}}", a.name, parts.len() + 1));
        }
    }
    format!("{}({})$0", def.name, parts.join(", "))
}

fn callees(doc: &mut Document, list: &mut List, snippets: bool) {
    for name in declared(doc, NameKind::Ctor) {
        let item = list.item(name.as_str(), CompletionItemKind::ENUM_MEMBER, "2");
        list.add(item);
    }
    for name in declared(doc, NameKind::Op) {
        let item = list.item(name.as_str(), CompletionItemKind::OPERATOR, "2");
        list.add(item);
    }
    for offer in offers() {
        if !list.fits(offer.def.name) {
            continue;
        }
        let mut item = list.item(offer.def.name, CompletionItemKind::METHOD, "4");
        item.detail = Some(offer.detail.clone());
        if snippets && let Some(text) = offer.snippet.clone() {
            item.text_edit = Some(CompletionTextEdit::Edit(TextEdit::new(list.range, text)));
            item.insert_text_format = Some(InsertTextFormat::SNIPPET);
        }
        list.add(item);
    }
    for name in relax_resolve::prelude_names().callees {
        let mut item = list.item(name, CompletionItemKind::METHOD, "5");
        item.detail = Some("prelude".into());
        list.add(item);
    }
}

fn keywords(list: &mut List, snippets: bool) {
    if snippets {
        for (label, text, what) in SNIPPETS {
            let mut item = list.item(&format!("{label} …"), CompletionItemKind::SNIPPET, "3");
            item.filter_text = Some((*label).into());
            item.detail = Some((*what).into());
            let text = (*text).to_owned();
            item.text_edit = Some(CompletionTextEdit::Edit(TextEdit::new(list.range, text)));
            item.insert_text_format = Some(InsertTextFormat::SNIPPET);
            list.add(item);
        }
    }
    for t in TOKENS {
        let word = t
            .example
            .chars()
            .all(|c| c.is_ascii_alphabetic() || c == '_' || c == '?');
        let constant = t.class == HighlightClass::Constant && t.example.len() > 1;
        if word && t.example.len() > 1 && (t.class == HighlightClass::Keyword || constant) {
            let item = list.item(t.example, CompletionItemKind::KEYWORD, "3");
            list.add(item);
        }
    }
}

fn type_names(doc: &mut Document, offset: usize, list: &mut List) {
    if let Some((part, pos)) = doc.at(offset) {
        let unit = doc.parts()[part].unit.clone();
        let scopes = crate::scope::Scopes::at(&unit, pos);
        let bound = unit.names.iter().rev().filter(|n| {
            let kind = matches!(n.kind, NameKind::TypeParam | NameKind::Dim);
            n.binds && kind && scopes.sees(n.span)
        });
        for n in bound {
            let kind = CompletionItemKind::TYPE_PARAMETER;
            let item = list.item(n.text.as_str(), kind, "1");
            list.add(item);
        }
    }
    for name in declared(doc, NameKind::Type) {
        let item = list.item(name.as_str(), CompletionItemKind::CLASS, "2");
        list.add(item);
    }
    const BUILT_IN: [&str; 18] = [
        "Tensor", "Shape", "Buffer", "Object", "bool", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "fn",
    ];
    for name in BUILT_IN {
        let item = list.item(name, CompletionItemKind::STRUCT, "3");
        list.add(item);
    }
    for name in relax_resolve::prelude_names().types {
        let item = list.item(name, CompletionItemKind::CLASS, "5");
        list.add(item);
    }
}

/// Adds the documentation of an operator to its item.
pub fn resolve(mut item: CompletionItem) -> CompletionItem {
    if item.kind == Some(CompletionItemKind::METHOD)
        && let Some(def) = builtin(&item.label)
    {
        item.documentation = Some(Documentation::MarkupContent(MarkupContent {
            kind: MarkupKind::Markdown,
            value: op_text(def),
        }));
    }
    item
}

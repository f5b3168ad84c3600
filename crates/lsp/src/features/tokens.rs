//! Semantic tokens, classified with the resolved names.

use lsp_types::{
    Range, SemanticToken, SemanticTokenModifier, SemanticTokenType, SemanticTokensLegend,
};
use relax_base::Span;
use relax_resolve::names::{Name, NameKind};
use relax_syntax::{HighlightClass, TOKENS, Tok};

use crate::document::Document;

const KEYWORD: u32 = 0;
const VARIABLE: u32 = 1;
const FUNCTION: u32 = 2;
const TYPE: u32 = 3;
const TYPE_PARAMETER: u32 = 4;
const CONSTRUCTOR: u32 = 5;
const NUMBER: u32 = 6;
const STRING: u32 = 7;
const COMMENT: u32 = 8;
const OPERATOR: u32 = 9;
const PROPERTY: u32 = 10;
const MACRO: u32 = 11;
const METHOD: u32 = 12;

const DECLARATION: u32 = 1;
const LIBRARY: u32 = 2;

/// Returns the token types and modifiers, in the order of their indices.
pub fn legend() -> SemanticTokensLegend {
    use SemanticTokenType as T;
    SemanticTokensLegend {
        token_types: vec![
            T::KEYWORD,
            T::VARIABLE,
            T::FUNCTION,
            T::TYPE,
            T::TYPE_PARAMETER,
            T::ENUM_MEMBER,
            T::NUMBER,
            T::STRING,
            T::COMMENT,
            T::OPERATOR,
            T::PROPERTY,
            T::MACRO,
            T::METHOD,
        ],
        token_modifiers: vec![
            SemanticTokenModifier::DECLARATION,
            SemanticTokenModifier::DEFAULT_LIBRARY,
        ],
    }
}

/// Returns the tokens of a document, or of a part of it.
pub fn tokens(doc: &mut Document, only: Option<Range>) -> Vec<SemanticToken> {
    let (from, to) = match only {
        Some(r) => (doc.text.offset(r.start), doc.text.offset(r.end)),
        None => (0, doc.text.as_str().len()),
    };
    let mut names: Vec<(u32, Name)> = Vec::new();
    for i in 0..doc.parts().len() {
        let c = &doc.parts()[i].chunk;
        if c.end < from || to < c.start {
            continue;
        }
        let unit = doc.parts()[i].unit.clone();
        for n in &unit.names {
            names.push((doc.place(i, n.span).start, *n));
        }
    }
    let file = doc.lexed().0.clone();
    let lexed = doc.lexed().1;
    let (first, last) = (file.start + from as u32, file.start + to as u32);
    let inside = |s: Span| s.end > first && s.start < last;
    let mut found: Vec<(Span, u32, u32)> = Vec::new();
    // Units may hold pieces of the text from elsewhere.
    names.sort_by_key(|n| n.0);
    let mut names = names.into_iter().peekable();
    let start = lexed.tokens.partition_point(|t| t.end <= first);
    for (i, t) in lexed.tokens.iter().enumerate().skip(start) {
        if t.start >= last {
            break;
        }
        while names.next_if(|n| n.0 < t.start).is_some() {}
        let name = names.peek().filter(|n| n.0 == t.start).map(|n| n.1);
        let next = lexed.tokens.get(i + 1).map(|t| t.tok);
        let text = file.slice(t.span());
        if let Some((sort, marks)) = class(t.tok, text, name, next) {
            found.push((t.span(), sort, marks));
        }
    }
    found.extend(
        (lexed.comments.iter())
            .filter(|c| inside(c.span))
            .map(|c| (c.span, COMMENT, 0)),
    );
    found.sort_by_key(|f| f.0);
    encode(doc, &file, &found)
}

fn class(tok: Tok, text: &str, name: Option<Name>, next: Option<Tok>) -> Option<(u32, u32)> {
    if let Some(n) = name {
        let sort = match n.kind {
            NameKind::Local | NameKind::Graph => VARIABLE,
            NameKind::Global => FUNCTION,
            NameKind::Callee if text.starts_with(|c: char| c.is_ascii_uppercase()) => CONSTRUCTOR,
            NameKind::Callee | NameKind::Op => METHOD,
            NameKind::Ctor => CONSTRUCTOR,
            NameKind::Type | NameKind::Relation => TYPE,
            NameKind::TypeParam | NameKind::Dim => TYPE_PARAMETER,
            NameKind::Key | NameKind::Attr => PROPERTY,
        };
        let mut marks = u32::from(n.binds) * DECLARATION;
        if n.kind == NameKind::Callee && relax_ops::registry().find(n.text.as_str()).is_some() {
            marks |= LIBRARY;
        }
        return Some((sort, marks));
    }
    Some(match CLASSES[tok as usize]? {
        HighlightClass::Keyword => (KEYWORD, 0),
        HighlightClass::Variable => (VARIABLE, 0),
        HighlightClass::Function => (FUNCTION, 0),
        HighlightClass::Number => (NUMBER, 0),
        HighlightClass::String => (STRING, 0),
        HighlightClass::Constant => (CONSTRUCTOR, LIBRARY),
        HighlightClass::Comment => (COMMENT, 0),
        HighlightClass::Operator => (OPERATOR, 0),
        HighlightClass::Meta => (MACRO, 0),
        HighlightClass::Name if is_soft_keyword(text) && next != Some(Tok::Eq) => (KEYWORD, 0),
        HighlightClass::Name => (TYPE, LIBRARY),
        HighlightClass::Bracket | HighlightClass::Punctuation => return None,
    })
}

/// The class of each token, by its number.
static CLASSES: [Option<HighlightClass>; 256] = {
    let mut classes = [None; 256];
    let mut k = 0;
    while k < TOKENS.len() {
        classes[TOKENS[k].tok as usize] = Some(TOKENS[k].class);
        k += 1;
    }
    classes
};

/// Returns whether a word is a contextual keyword.
pub fn is_soft_keyword(text: &str) -> bool {
    let keyword = |t: &&relax_syntax::TokenInfo| t.class == HighlightClass::Keyword;
    TOKENS.iter().filter(keyword).any(|t| t.example == text)
        || matches!(
            text,
            "output" | "grid" | "parallel" | "vectorize" | "unroll"
        )
}

fn encode(
    doc: &Document,
    file: &relax_base::SourceFile,
    found: &[(Span, u32, u32)],
) -> Vec<SemanticToken> {
    let mut out = Vec::with_capacity(found.len());
    let mut last = lsp_types::Position::new(0, 0);
    let mut cursor = doc.text.cursor();
    for &(span, sort, marks) in found {
        let mut offset = (span.start - file.start) as usize;
        // Tokens must not span lines.
        for line in file.slice(span).split_inclusive('\n') {
            let text = line.trim_end_matches(['\n', '\r']);
            let at = cursor.position(offset);
            offset += line.len();
            if text.is_empty() {
                continue;
            }
            let same = at.line == last.line;
            out.push(SemanticToken {
                delta_line: at.line - last.line,
                delta_start: at.character - if same { last.character } else { 0 },
                length: doc.text.encoding().width(text),
                token_type: sort,
                token_modifiers_bitset: marks,
            });
            last = at;
            if span.len() > 100_000 {
                // The metadata section: only its first line is classified.
                break;
            }
        }
    }
    out
}

/// Returns the smallest range in which two lists of tokens differ: its start and length in the old
/// one, and its replacement.
pub fn change(old: &[SemanticToken], new: &[SemanticToken]) -> (usize, usize, Vec<SemanticToken>) {
    let same = |pair: &(&SemanticToken, &SemanticToken)| pair.0 == pair.1;
    let head = old.iter().zip(new).take_while(same).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = (old.iter().rev().zip(new.iter().rev()))
        .take_while(same)
        .count();
    (head, old.len() - tail, new[..new.len() - tail].to_vec())
}

//! Rewrites the documentation's spellings to TVM's.

use relax_base::{Diagnostics, Edit, SourceFile, Span};

use crate::ast::*;
use crate::lex::{self, Token};
use crate::parse::parse_lexed;
use crate::token::Tok;

/// Returns the upgraded text, or `None` if there is nothing to upgrade.
pub(super) fn upgrade(file: &SourceFile) -> Result<Option<String>, Diagnostics> {
    let lexed = lex::lex(file);
    let tokens = lexed.tokens.clone();
    let parsed = parse_lexed(file, lexed);
    if parsed.diagnostics.has_errors() {
        return Err(parsed.diagnostics);
    }
    let mut edits = Edits {
        file,
        tokens: &tokens,
        ast: &parsed.ast,
        list: Vec::new(),
    };
    edits.types();
    edits.functions();
    edits.clauses();
    for c in &parsed.comments {
        if file.slice(c.span).starts_with('#') {
            edits.replace(Span::new(c.span.start, c.span.start + 1), "//");
        }
    }
    if edits.list.is_empty() {
        return Ok(None);
    }
    Ok(Some(edits.apply()))
}

struct Edits<'a> {
    file: &'a SourceFile,
    tokens: &'a [Token],
    ast: &'a Ast,
    list: Vec<Edit>,
}

impl Edits<'_> {
    fn replace(&mut self, span: Span, text: &str) {
        self.list.push(Edit {
            span,
            text: text.to_string(),
        });
    }

    fn first_token(&self, pos: u32) -> usize {
        self.tokens.partition_point(|t| t.start < pos)
    }

    /// Turns the first `<…>` after `pos` into `[…]`.
    fn square(&mut self, pos: u32) {
        let from = self.first_token(pos);
        let mut depth = 0;
        for t in &self.tokens[from..] {
            match t.tok {
                Tok::Lt => {
                    if depth == 0 {
                        self.replace(t.span(), "[");
                    }
                    depth += 1;
                }
                Tok::Gt => {
                    depth -= 1;
                    if depth == 0 {
                        self.replace(t.span(), "]");
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    /// Rewrites data types and function types.
    fn types(&mut self) {
        let ast = self.ast;
        for item in &ast.items {
            let ItemKind::TypeDef(def) = item.kind else {
                continue;
            };
            if def.angle {
                self.square(item.name_span.end);
            }
            if !def.data {
                continue;
            }
            let keyword = self.first_token(item.span.start);
            let keyword = &self.tokens[keyword..];
            if let Some(t) = keyword.iter().find(|t| self.file.slice(t.span()) == "data") {
                let span = t.span();
                self.replace(span, "type");
            }
            for c in ast.list(def.ctors) {
                self.ctor(c);
            }
        }
        for t in ast.types.values() {
            if let TypeExprKind::Fn { angle: true, .. } = t.kind {
                self.square(t.span.start);
            }
        }
    }

    /// Rewrites `Nil : () -> List` to `Nil,`, and `Cons : (a, List[a]) -> List` to `Cons(a,
    /// List[a]),`.
    fn ctor(&mut self, c: CtorId) {
        let Ctor {
            fields, ret, span, ..
        } = self.ast.ctors[c];
        let Some(ret) = ret else { return };
        let from = self.first_token(span.start);
        let colon = self.tokens[from + 1];
        let arrow = self.tokens[from..]
            .iter()
            .take_while(|t| t.start < self.ast.types[ret].span.start)
            .filter(|t| t.tok == Tok::Arrow)
            .last();
        let Some(&arrow) = arrow else { return };
        let name_end = self.tokens[from].end;
        if fields.is_empty() {
            self.replace(Span::new(name_end, span.end), ",");
        } else {
            self.replace(Span::new(name_end, colon.end), "");
            self.replace(Span::new(arrow.start, span.end), ",");
        }
    }

    fn functions(&mut self) {
        let ast = self.ast;
        for f in ast.functions.values() {
            if f.angle {
                self.square(f.header.start);
            }
        }
    }

    /// Rewrites `case P { e }` to `P => { e },`.
    fn clauses(&mut self) {
        let ast = self.ast;
        for c in ast.clauses.values().filter(|c| c.case) {
            let pat = ast.pats[c.pat].span;
            let body = ast.exprs[c.body].span;
            self.replace(Span::new(c.span.start, pat.start), "");
            self.replace(Span::new(pat.end, pat.end), " =>");
            let next = self.first_token(body.end);
            if self.tokens.get(next).is_none_or(|t| t.tok != Tok::Comma) {
                self.replace(Span::new(body.end, body.end), ",");
            }
        }
    }

    fn apply(mut self) -> String {
        self.list.sort_by_key(|e| (e.span.start, e.span.end));
        let base = self.file.start;
        let text = &self.file.text;
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for e in &self.list {
            let (from, to) = ((e.span.start - base) as usize, (e.span.end - base) as usize);
            if from < at {
                continue;
            }
            out.push_str(&text[at..from]);
            out.push_str(&e.text);
            at = to;
        }
        out.push_str(&text[at..]);
        out
    }
}

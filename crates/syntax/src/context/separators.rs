//! Missing separators: two adjacent tokens that need one between them.

use relax_base::{Code, Diagnostic, Span};

use super::{Frame, FrameKind, Pass, Pending, keywords::ends_operand, keywords::starts_operand};
use crate::lex::Token;
use crate::old::OldForm;
use crate::token::Tok;

impl Pass<'_> {
    /// Inserts a separator before the token at `i` if one is missing.
    pub(super) fn separate(&mut self, i: usize, t: &mut Token) {
        let Some(last) = self.last() else { return };
        if last.tok == Tok::Def && t.tok == Tok::Name {
            let name = self.text(*t);
            self.report(
                Diagnostic::error(
                    Code(108),
                    t.span(),
                    "the name of a function needs the sigil `@`",
                )
                .fix(format!("write `@{name}`"), t.span().at_start(), "@"),
            );
            t.tok = Tok::Global;
            return;
        }
        if t.tok == Tok::LParen
            && last.tok == Tok::Name
            && last.word
            && matches!(self.text(last), "Tensor" | "Shape" | "Buffer")
            && self.lacks_opener(i, Tok::RSquare)
        {
            self.insert(Tok::LSquare, "[", "after this type", last);
            if let Some(opener) = self.out.tokens.pop() {
                self.open(opener);
            }
            return;
        }
        // What ends with a block before a loop is a statement, not the loop's mark.
        let begins = starts_operand(t.tok) || t.tok == Tok::For && last.tok == Tok::RBrace;
        if !ends_operand(last.tok) || !begins {
            return;
        }
        let f = *self.top();
        let header = f.kind == FrameKind::Top && f.pending == Pending::Fn;
        if matches!(f.kind, FrameKind::Top | FrameKind::Block)
            && (last.tok == Tok::Name
                || last.tok == Tok::Global
                    && (header || self.item.is_none() || f.kind == FrameKind::Block))
            && self.lacks_opener(i, Tok::RParen)
        {
            self.insert(Tok::LParen, "(", "after this name", last);
            if let Some(opener) = self.out.tokens.pop() {
                self.open(opener);
            }
            return;
        }
        if last.tok == Tok::Local
            && t.tok == Tok::Name
            && self.text(*t) == "grid"
            && self.in_loop_header()
        {
            self.insert(
                Tok::In,
                "in",
                "between loop variables and their extents",
                last,
            );
            return;
        }
        if let Some((end, first)) = self.params
            && (end == self.out.tokens.len() || self.after_result(end, first))
            && !(f.kind == FrameKind::Top && self.item.is_some())
        {
            self.after_params(first, last, *t);
            return;
        }
        match f.kind {
            FrameKind::Top if self.item.is_some() => self.missing_body(f, last),
            FrameKind::Top | FrameKind::Block => self.missing_semicolon(i, f, last, *t),
            FrameKind::Arms => {
                if last.tok != Tok::RBrace && matches!(t.tok, Tok::Name | Tok::Local) {
                    self.insert(Tok::Comma, ",", "after this clause", last);
                    self.top().first = None;
                }
            }
            FrameKind::Ctors => {}
            FrameKind::Params if matches!(last.tok, Tok::Local | Tok::Name) => {
                if matches!(t.tok, Tok::Name | Tok::Fn | Tok::Ref) {
                    self.insert(Tok::Colon, ":", "before the type of a parameter", last);
                } else {
                    self.insert(Tok::Comma, ",", "between these", last);
                }
            }
            FrameKind::Parens | FrameKind::Args
                if matches!(f.first, Some(Tok::Let | Tok::FreeVar))
                    || f.bound && f.first == Some(Tok::Graph) =>
            {
                self.missing_semicolon(i, f, last, *t);
            }
            FrameKind::Args | FrameKind::AttrBraces
                if last.tok == Tok::Name
                    && f.first == Some(Tok::Name)
                    && !f.bound
                    && matches!(
                        t.tok,
                        Tok::Str | Tok::Int | Tok::Float | Tok::True | Tok::False
                    ) =>
            {
                self.insert(Tok::Eq, "=", "between an attribute and its value", last);
                self.top().bound = true;
            }
            _ => {
                self.insert(Tok::Comma, ",", "between these", last);
                let f = self.top();
                f.first = None;
                f.bound = false;
            }
        }
    }

    /// Reports a missing token after `last` and inserts it.
    fn insert(&mut self, tok: Tok, text: &str, place: &str, last: Token) {
        let at = last.span().at_end();
        self.report(
            Diagnostic::error(Code(107), at, format!("expected `{text}` {place}")).fix(
                format!("insert `{text}`"),
                at,
                text,
            ),
        );
        self.push_virtual(tok, last.end);
    }

    fn push_virtual(&mut self, tok: Tok, at: u32) {
        self.out.tokens.push(Token {
            tok,
            word: false,
            start: at,
            end: at,
        });
    }

    /// Returns whether only `-> type` follows the parameters of a closure, which end at `end`.
    fn after_result(&self, end: usize, first: Option<Tok>) -> bool {
        if self.out.tokens.forgot(end) {
            // Further back than a result type reaches.
            self.ran_out();
            return false;
        }
        let rest = self.out.tokens.since(end);
        let [arrow, ty @ ..] = rest else { return false };
        let in_type = |t: &Token| {
            matches!(
                t.tok,
                Tok::Name
                    | Tok::Int
                    | Tok::Question
                    | Tok::Underscore
                    | Tok::Comma
                    | Tok::LParen
                    | Tok::RParen
                    | Tok::LSquare
                    | Tok::RSquare
            )
        };
        first == Some(Tok::Local)
            && arrow.tok == Tok::Arrow
            && (1..64).contains(&ty.len())
            && ty.iter().all(in_type)
    }

    /// Reports that the parameters of a closure or of a function type are followed by neither a
    /// body nor `->`.
    fn after_params(&mut self, first: Option<Tok>, last: Token, t: Token) {
        let closure = match first {
            Some(tok) => tok == Tok::Local,
            None => t.tok != Tok::Name,
        };
        if !closure {
            self.insert(
                Tok::Arrow,
                "->",
                "before the result of a function type",
                last,
            );
            return;
        }
        let found = self.text(t);
        self.report(
            Diagnostic::error(
                Code(107),
                t.span(),
                format!("expected `{{` before the body of this function, found `{found}`"),
            )
            .suggest("insert `{`", last.span().at_end(), " {"),
        );
        // The body cannot be distinguished from what follows it, so it is omitted.
        for tok in [Tok::LBrace, Tok::Error, Tok::RBrace, Tok::Semi] {
            self.push_virtual(tok, last.end);
        }
        let f = self.top();
        f.first = None;
        f.bound = false;
        f.pending = Pending::None;
    }

    /// Reports a top-level item that continues with something that only a body can contain.
    fn missing_body(&mut self, f: Frame, last: Token) {
        if !matches!(
            self.item,
            Some(Tok::Def | Tok::Op | Tok::Grad | Tok::PrimFunc)
        ) {
            return;
        }
        if f.pending == Pending::Fn || last.tok == Tok::Global {
            return;
        }
        let at = last.span().at_end();
        self.report(
            Diagnostic::error(
                Code(107),
                at,
                "expected `{` before the body of this function",
            )
            .suggest("insert `{`", at, " {"),
        );
        let opener = Token {
            tok: Tok::LBrace,
            word: false,
            start: at.start,
            end: at.start,
        };
        self.top().pending = Pending::None;
        self.open(opener);
    }

    fn missing_semicolon(&mut self, i: usize, f: Frame, last: Token, t: Token) {
        let first = f.first;
        if matches!(first, Some(Tok::Let | Tok::FreeVar)) && !f.bound {
            // `let %x T = e` or `let %x e`.
            if last.tok == Tok::Local && first == Some(Tok::Let) {
                if self.binds_later(i) {
                    self.insert(Tok::Colon, ":", "before the type of a variable", last);
                } else {
                    self.insert(Tok::Eq, "=", "between a variable and its value", last);
                    self.top().bound = true;
                }
                return;
            }
            if last.tok == Tok::Local && matches!(t.tok, Tok::Name | Tok::Fn | Tok::Ref) {
                self.insert(Tok::Colon, ":", "before the type of a variable", last);
                return;
            }
        }
        if matches!(last.tok, Tok::Graph | Tok::Local)
            && f.first == Some(last.tok)
            && !f.bound
            && !matches!(t.tok, Tok::Let | Tok::FreeVar)
            && self.out.tokens.len() >= 2
            && self.at(i + 1) == Some(Tok::LParen)
            && i > 0
            && self.starts_statement(i - 1)
        {
            // `%0 add(%x, %y);`
            self.insert(Tok::Eq, "=", "between a variable and its value", last);
            self.top().bound = true;
            return;
        }
        let graph = first == Some(Tok::Graph) && f.bound;
        let declared = first == Some(Tok::FreeVar) && !f.bound;
        if declared && self.new_line(last, t) {
            let at = last.span().at_end();
            self.out
                .old
                .push(OldForm::new("`free_var` without `;`", at, ";"));
            self.push_virtual(Tok::Semi, last.end);
            self.top().next();
            return;
        }
        let unended = first == Some(Tok::Let) && f.bound && self.new_line(last, t);
        if unended && self.has_lines() {
            let at = last.span().at_end();
            let what = "a binding that ends with its line";
            self.out.old.push(OldForm::new(what, at, ";"));
            self.push_virtual(Tok::Semi, last.end);
            self.top().next();
            return;
        }
        let block_like = last.tok == Tok::RBrace
            && matches!(
                first,
                Some(
                    Tok::If
                        | Tok::For
                        | Tok::While
                        | Tok::Init
                        | Tok::Kernel
                        | Tok::Dataflow
                        | Tok::Match
                        | Tok::MatchQ
                )
            );
        // `parallel for` begins with a name.
        let marked_loop = last.tok == Tok::RBrace && first == Some(Tok::Name);
        if graph || block_like || marked_loop {
            self.push_virtual(Tok::Semi, last.end);
        } else {
            let what = match first {
                Some(Tok::Let) => "after this binding",
                Some(Tok::FreeVar) => "after this declaration",
                _ if f.bound => "after this binding",
                _ => "after this expression",
            };
            self.insert(Tok::Semi, ";", what, last);
        }
        let f = self.top();
        f.first = None;
        f.bound = false;
        f.pending = Pending::None;
    }

    /// Returns whether the text is one of those up to 0.5, in which statements end with their
    /// lines: its header says so, or it has several bindings and no `;` at all.
    fn has_lines(&mut self) -> bool {
        let old = |span: Span| self.file.slice(span).starts_with("v0.0.1");
        if self.out.version.is_some_and(old) {
            return true;
        }
        let file = self.file;
        let bare = || !file.text.contains(';') && file.text.matches(" = ").nth(1).is_some();
        *self.bare.get_or_insert_with(bare)
    }

    /// Returns whether a token is on another line than the one before it.
    fn new_line(&self, last: Token, t: Token) -> bool {
        let between = Span::new(last.end, t.start);
        self.file.slice(between).contains('\n')
    }

    /// Returns whether the first closing bracket without its opening one is `closer`, in this
    /// statement.
    fn lacks_opener(&self, i: usize, closer: Tok) -> bool {
        let mut depth = 0usize;
        for t in self.input.since(i).iter().take(super::keywords::HORIZON) {
            match t.tok {
                Tok::LParen | Tok::LSquare => depth += 1,
                Tok::RParen | Tok::RSquare if depth == 0 => return t.tok == closer,
                Tok::RParen | Tok::RSquare => depth -= 1,
                Tok::Semi | Tok::LBrace | Tok::RBrace | Tok::Let | Tok::Def => return false,
                _ => {}
            }
        }
        false
    }

    /// Returns whether a statement begins with the token at `i`.
    fn starts_statement(&self, i: usize) -> bool {
        i == 0 || matches!(self.at(i - 1), Some(Tok::Semi | Tok::LBrace | Tok::RBrace))
    }

    /// Returns whether a `=` follows before the statement ends.
    fn binds_later(&self, i: usize) -> bool {
        let mut depth = 0usize;
        for t in self.input.since(i).iter().take(super::keywords::HORIZON) {
            match t.tok {
                Tok::LParen | Tok::LSquare => depth += 1,
                Tok::RParen | Tok::RSquare => depth = depth.saturating_sub(1),
                Tok::Eq if depth == 0 => return true,
                Tok::Semi | Tok::LBrace | Tok::RBrace | Tok::Let | Tok::Def => return false,
                _ => {}
            }
        }
        false
    }
}

//! Soft keywords, type brackets, and words of other languages.

use relax_base::{Code, Diagnostic, Span};

use super::{FrameKind, Pass, Pending};
use crate::lex::Token;
use crate::token::Tok;

/// How to handle a word of another language.
pub(super) enum Foreign {
    /// Read it as `fn`.
    Fn,
    /// Read it as `def`.
    Def,
    /// Read it as `let`.
    Let,
    /// Read it as `else if`.
    ElseIf,
    /// Read on without it.
    Drop,
    /// Treat everything before this token as a value that could not be read.
    Value(usize),
    /// Omit an item that ends before this token.
    Item(usize),
}

/// The maximum number of tokens of a look-ahead that is not otherwise bounded.
pub(super) const HORIZON: usize = 512;

impl Pass<'_> {
    /// Returns the special meaning of the token at `i` in its context, if it has one.
    pub(super) fn keyword(&mut self, i: usize) -> Option<Tok> {
        let t = self.input.get(i)?;
        match t.tok {
            Tok::Name if t.word => self.soft_keyword(i),
            Tok::Lt => self.opens_types(i).then_some(Tok::TLt),
            Tok::Gt if self.kind() == FrameKind::Angle => Some(Tok::TGt),
            _ => None,
        }
    }

    fn soft_keyword(&mut self, i: usize) -> Option<Tok> {
        let next = self.at(i + 1);
        let fresh = self.frames.last().is_some_and(|f| f.first.is_none());
        let item_place = self.item_place();
        let text = self.text(self.input.get(i)?);
        Some(match (text, next) {
            ("data", Some(Tok::Name)) if item_place => Tok::Data,
            ("rel", Some(Tok::Name)) if item_place => Tok::Rel,
            ("op", Some(Tok::Name)) if item_place => Tok::Op,
            ("grad", Some(Tok::Name)) if item_place => Tok::Grad,
            ("prim_func", Some(Tok::Global | Tok::Name)) if item_place => Tok::PrimFunc,
            ("where", Some(Tok::Name)) if self.after_operand() => Tok::Where,
            ("where", Some(_)) if self.item == Some(Tok::Rel) && self.after_operand() => Tok::Where,
            ("case", Some(Tok::Name | Tok::Local | Tok::Underscore | Tok::LParen))
                if self.kind() == FrameKind::Arms && fresh =>
            {
                Tok::Case
            }
            ("shape", Some(Tok::LParen)) => Tok::Shape,
            ("match_shape", Some(Tok::LParen)) => Tok::MatchShape,
            ("match_cast", Some(Tok::LParen)) => Tok::MatchCast,
            ("dataflow", Some(Tok::LBrace)) => Tok::Dataflow,
            ("for", Some(Tok::Local)) => Tok::For,
            ("for", Some(Tok::Name)) if self.begins_loop(i) => Tok::For,
            ("while", Some(Tok::LParen | Tok::Local))
                if self.item == Some(Tok::PrimFunc) && (fresh || self.after_block()) =>
            {
                Tok::While
            }
            ("in", Some(_)) if self.after_operand() && self.in_loop_header() => Tok::In,
            ("alloc", Some(Tok::Local)) => Tok::Alloc,
            ("init", Some(Tok::LBrace)) => Tok::Init,
            ("kernel", Some(Tok::Name))
                if self.item == Some(Tok::PrimFunc) && (fresh || self.after_block()) =>
            {
                Tok::Kernel
            }
            ("compute", Some(_)) if self.item == Some(Tok::Op) && fresh => Tok::Compute,
            _ => return None,
        })
    }

    /// Returns whether an item that has no closing brace may end here.
    fn item_may_end(&self) -> bool {
        matches!(
            self.item,
            Some(Tok::Extern | Tok::Type | Tok::Data | Tok::Rel | Tok::Prolog)
        ) && self.after_operand()
            || self.frames[0].first.is_none()
    }

    fn after_block(&self) -> bool {
        self.last().is_some_and(|t| t.tok == Tok::RBrace)
    }

    fn after_operand(&self) -> bool {
        self.last().is_some_and(|t| ends_operand(t.tok))
    }

    pub(super) fn in_loop_header(&self) -> bool {
        let header = self.out.tokens.back().take(HORIZON);
        header
            .map(|t| t.tok)
            .find(|t| !matches!(t, Tok::Local | Tok::Name | Tok::Comma))
            == Some(Tok::For)
    }

    /// Returns whether `for` at `i` is followed by names and `in`.
    fn begins_loop(&self, i: usize) -> bool {
        let rest = self.input.since(i + 1).iter().take(HORIZON);
        let mut rest = rest.skip_while(|t| t.tok == Tok::Comma || self.is_loop_name(**t));
        rest.next().is_some_and(|t| self.text(*t) == "in")
    }

    fn is_loop_name(&self, t: Token) -> bool {
        t.tok == Tok::Local || t.tok == Tok::Name && self.text(t) != "in"
    }

    /// Returns whether the `<` at `i` is a bracket.
    fn opens_types(&self, i: usize) -> bool {
        let Some(last) = self.last() else {
            return false;
        };
        if last.tok == Tok::Fn {
            return true;
        }
        let before = self.out.tokens.back().nth(1).map(|t| t.tok);
        if matches!(last.tok, Tok::Global | Tok::Name)
            && matches!(
                before,
                Some(Tok::Def | Tok::Data | Tok::Type | Tok::Op | Tok::PrimFunc)
            )
        {
            return true;
        }
        let adjacent = (self.input.get(i)).is_some_and(|t| t.start == last.end);
        if !adjacent || !matches!(last.tok, Tok::Local | Tok::Global | Tok::Name | Tok::Graph) {
            return false;
        }
        // Type arguments contain no variables, so the scanned ranges are disjoint.
        let mut depth = 1;
        let mut before = Tok::Lt;
        for (j, t) in (i + 1..).zip(self.input.since(i + 1)) {
            let previous = std::mem::replace(&mut before, t.tok);
            match t.tok {
                Tok::Gt => {
                    depth -= 1;
                    if depth == 0 {
                        return self.at(j + 1) == Some(Tok::LParen);
                    }
                }
                Tok::Lt if previous == Tok::Fn => depth += 1,
                Tok::Name
                | Tok::Int
                | Tok::Comma
                | Tok::LParen
                | Tok::RParen
                | Tok::LSquare
                | Tok::RSquare
                | Tok::Colon
                | Tok::Arrow
                | Tok::Question
                | Tok::Underscore
                | Tok::Plus
                | Tok::Minus
                | Tok::Star
                | Tok::SlashSlash
                | Tok::Percent
                | Tok::Fn
                | Tok::Ref
                | Tok::Meta => {}
                _ => return false,
            }
        }
        self.ran_out();
        false
    }

    /// Returns whether `Name(…) :-` begins at `i`.
    pub(super) fn is_prolog(&self, i: usize) -> bool {
        if self.at(i) != Some(Tok::Name) || self.at(i + 1) != Some(Tok::LParen) {
            return false;
        }
        let mut depth = 0usize;
        for (j, t) in (i + 1..).zip(self.input.since(i + 1)) {
            match t.tok {
                Tok::LParen | Tok::LSquare | Tok::LBrace => depth += 1,
                Tok::RParen | Tok::RSquare | Tok::RBrace => {
                    depth -= 1;
                    if depth == 0 {
                        return self.at(j + 1) == Some(Tok::Turnstile);
                    }
                }
                Tok::Def => return false,
                _ => {}
            }
        }
        self.ran_out();
        false
    }

    /// Recognises words of other languages that cannot have another meaning.
    pub(super) fn foreign(&mut self, i: usize) -> Option<Foreign> {
        let t = self.input.get(i)?;
        let next = self.at(i + 1)?;
        if !t.word && (t.tok, next) != (Tok::Fn, Tok::Global) {
            return None;
        }
        match self.text(t) {
            word @ ("fun" | "func" | "function" | "lambda")
                if matches!(next, Tok::LParen | Tok::Lt | Tok::LSquare)
                    && !self.after_operand()
                    && self.has_body(i + 1) =>
            {
                self.report(
                    Diagnostic::error(
                        Code(109),
                        t.span(),
                        format!("a function is spelled `fn`, not `{word}`"),
                    )
                    .fix("write `fn`", t.span(), "fn"),
                );
                self.top().pending = Pending::Fn;
                Some(Foreign::Fn)
            }
            "lambda" if matches!(next, Tok::Local | Tok::Colon) && !self.after_operand() => {
                self.report(
                    Diagnostic::error(
                        Code(109),
                        t.span(),
                        "a function is spelled `fn`, not `lambda`",
                    )
                    .note("a function of one parameter looks like `fn (%y) { add(%y, %x) }`"),
                );
                Some(Foreign::Value(self.value_ends(i + 1)))
            }
            word @ ("class" | "struct" | "enum") if next == Tok::Name && self.item_place() => {
                self.report(
                    Diagnostic::error(
                        Code(109),
                        t.span(),
                        format!("a data type is spelled `type`, not `{word}`"),
                    )
                    .note(
                        "its constructors stand in braces: `type Shape { Circle(float32), Empty }`",
                    ),
                );
                Some(Foreign::Item(self.item_ends(i + 1)))
            }
            "rel" if next == Tok::LParen && self.item_place() && self.is_relation(i + 1) => {
                self.report(
                    Diagnostic::error(Code(101), t.span(), "this relation has no name")
                        .primary("its name is missing after this")
                        .note("a relation looks like `rel Same(a, a) -> a;`"),
                );
                Some(Foreign::Item(self.item_ends(i + 1)))
            }
            word @ ("fun" | "func" | "function" | "fn")
                if next == Tok::Global
                    && self.frames.len() == 1
                    && self.frames[0].first.is_none() =>
            {
                self.report(
                    Diagnostic::error(
                        Code(109),
                        t.span(),
                        format!("a function with a name is spelled `def`, not `{word}`"),
                    )
                    .fix("write `def`", t.span(), "def"),
                );
                Some(Foreign::Def)
            }
            word @ ("var" | "val" | "const" | "auto")
                if next == Tok::Local
                    && matches!(self.kind(), FrameKind::Block | FrameKind::Top)
                    && self.top().first.is_none() =>
            {
                self.report(
                    Diagnostic::error(
                        Code(109),
                        t.span(),
                        format!("a binding is spelled `let`, not `{word}`"),
                    )
                    .fix("write `let`", t.span(), "let"),
                );
                Some(Foreign::Let)
            }
            word @ ("elif" | "elsif" | "elseif")
                if next == Tok::LParen && self.last().map(|l| l.tok) == Some(Tok::RBrace) =>
            {
                self.report(
                    Diagnostic::error(
                        Code(109),
                        t.span(),
                        format!("a further condition is spelled `else if`, not `{word}`"),
                    )
                    .fix("write `else if`", t.span(), "else if"),
                );
                Some(Foreign::ElseIf)
            }
            "return" if starts_operand(next) || next == Tok::LParen => {
                if !matches!(self.kind(), FrameKind::Block | FrameKind::Top) {
                    return None;
                }
                let rest = Span::new(t.start, self.input.get(i + 1)?.start);
                self.report(
                    Diagnostic::error(Code(109), t.span(), "there is no `return`")
                        .note("the last expression of a block, without `;`, is its value")
                        .suggest("drop `return`", rest, ""),
                );
                Some(Foreign::Drop)
            }
            _ => None,
        }
    }

    /// Returns whether an item may begin here.
    fn item_place(&self) -> bool {
        self.frames.len() == 1 && (self.segment.is_none() || self.item_may_end())
    }

    /// Returns the end of a value that begins before `i`: a separator that is not in brackets, or a
    /// closing bracket.
    fn value_ends(&self, i: usize) -> usize {
        let (mut depth, mut body, mut at) = (0usize, false, i);
        for t in self.input.since(i) {
            match t.tok {
                Tok::LParen | Tok::LSquare | Tok::LBrace => depth += 1,
                Tok::RParen | Tok::RSquare | Tok::RBrace if depth == 0 => break,
                Tok::RParen | Tok::RSquare | Tok::RBrace => depth -= 1,
                Tok::Colon => body = true,
                Tok::Comma if depth == 0 && body => break,
                Tok::Semi if depth == 0 => break,
                Tok::Def => break,
                _ => {}
            }
            at += 1;
        }
        at
    }

    /// Returns the end of an item with an unknown spelling: after its braces or its `;`, or before
    /// the next item.
    fn item_ends(&self, i: usize) -> usize {
        let (mut depth, mut at) = (0usize, i);
        for t in self.input.since(i) {
            match t.tok {
                Tok::LBrace => depth += 1,
                Tok::RBrace if depth <= 1 => return at + 1,
                Tok::RBrace => depth -= 1,
                Tok::Semi if depth == 0 => return at + 1,
                Tok::Def | Tok::Type | Tok::Extern => break,
                _ => {}
            }
            at += 1;
        }
        at
    }

    /// Returns whether the tokens after the brackets that open at `i` are those of a relation and
    /// not of a call.
    fn is_relation(&self, i: usize) -> bool {
        let mut depth = 0usize;
        for (j, t) in (i..).zip(self.input.since(i).iter().take(HORIZON)) {
            match t.tok {
                Tok::LParen | Tok::LSquare => depth += 1,
                Tok::RParen | Tok::RSquare => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        let next = self.input.get(j + 1);
                        return next
                            .is_some_and(|n| n.tok == Tok::Arrow || self.text(n) == "where");
                    }
                }
                Tok::Semi | Tok::LBrace | Tok::RBrace => return false,
                _ => {}
            }
        }
        false
    }

    /// Returns whether the brackets that open at `i` are followed by a body or a result type.
    fn has_body(&self, i: usize) -> bool {
        let mut depth = 0usize;
        for (j, t) in (i..).zip(self.input.since(i).iter().take(HORIZON)) {
            match t.tok {
                Tok::LParen | Tok::LSquare => depth += 1,
                Tok::RParen | Tok::RSquare => {
                    depth = depth.saturating_sub(1);
                    let next = self.at(j + 1);
                    if depth == 0 && matches!(next, Some(Tok::LBrace | Tok::Arrow)) {
                        return true;
                    }
                }
                Tok::LBrace | Tok::RBrace | Tok::Semi => return false,
                _ => {}
            }
        }
        false
    }
}

/// Returns whether an expression or type can end with the token.
pub(super) fn ends_operand(tok: Tok) -> bool {
    matches!(
        tok,
        Tok::Local
            | Tok::Graph
            | Tok::Global
            | Tok::Name
            | Tok::Int
            | Tok::Float
            | Tok::Proj
            | Tok::Caret
            | Tok::Str
            | Tok::Meta
            | Tok::True
            | Tok::False
            | Tok::Underscore
            | Tok::Question
            | Tok::RParen
            | Tok::RSquare
            | Tok::RBrace
            | Tok::Error
    )
}

/// Returns whether an expression can begin with the token and no expression can continue with it.
pub(super) fn starts_operand(tok: Tok) -> bool {
    matches!(
        tok,
        Tok::Local
            | Tok::Graph
            | Tok::Global
            | Tok::Name
            | Tok::Int
            | Tok::Float
            | Tok::Str
            | Tok::Meta
            | Tok::True
            | Tok::False
            | Tok::Question
            | Tok::Let
            | Tok::Fn
            | Tok::If
            | Tok::Match
            | Tok::MatchQ
            | Tok::Ref
            | Tok::RefRead
            | Tok::RefWrite
            | Tok::FreeVar
            | Tok::Shape
            | Tok::MatchShape
            | Tok::MatchCast
            | Tok::Dataflow
            | Tok::Alloc
            | Tok::Init
            | Tok::Kernel
            | Tok::While
            | Tok::Compute
            | Tok::Error
    )
}

//! Balancing brackets.

use relax_base::{Code, Diagnostic, Edit, Fix, Span};

use super::{Frame, FrameKind, Pass, Pending, keywords::HORIZON, keywords::ends_operand};
use crate::lex::Token;
use crate::token::Tok;

fn closer(opener: Tok) -> Tok {
    match opener {
        Tok::LParen => Tok::RParen,
        Tok::LSquare => Tok::RSquare,
        Tok::LBrace => Tok::RBrace,
        _ => Tok::TGt,
    }
}

fn text(tok: Tok) -> &'static str {
    match tok {
        Tok::LParen => "(",
        Tok::RParen => ")",
        Tok::LSquare => "[",
        Tok::RSquare => "]",
        Tok::LBrace => "{",
        Tok::RBrace => "}",
        Tok::TLt => "<",
        _ => ">",
    }
}

impl Pass<'_> {
    pub(super) fn open(&mut self, t: Token) {
        let last = self.last().map(|t| t.tok);
        let before = self.out.tokens.back().nth(1).map(|t| t.tok);
        let f = *self.top();
        let kind = match t.tok {
            Tok::LBrace => match (last, f.pending) {
                (Some(Tok::Local), _) if f.kind == FrameKind::Params => FrameKind::AttrBraces,
                (Some(Tok::Local), _) if before == Some(Tok::Let) => FrameKind::AttrBraces,
                (Some(Tok::Eq), _)
                    if matches!(
                        f.kind,
                        FrameKind::Args | FrameKind::Params | FrameKind::AttrBraces
                    ) =>
                {
                    FrameKind::AttrBraces
                }
                (_, Pending::Match) => FrameKind::Arms,
                (_, Pending::Data) => FrameKind::Ctors,
                _ => FrameKind::Block,
            },
            Tok::LParen if f.pending == Pending::Fn => FrameKind::Params,
            Tok::LParen if last.is_some_and(ends_operand) || last == Some(Tok::TGt) => {
                FrameKind::Args
            }
            Tok::LParen => FrameKind::Parens,
            Tok::LSquare => FrameKind::Square,
            _ => FrameKind::Angle,
        };
        let done = match t.tok {
            Tok::LParen => f.pending == Pending::Fn,
            Tok::LBrace => true,
            _ => false,
        };
        if done {
            self.top().pending = Pending::None;
        }
        self.out.tokens.push(t);
        self.frames.push(Frame {
            kind,
            opener: t,
            pending: Pending::None,
            first: None,
            bound: false,
        });
    }

    pub(super) fn close(&mut self, i: usize, t: Token) {
        let matches = |f: &Frame| closer(f.opener.tok) == t.tok;
        let inner = self.frames.len() - 1;
        if inner > 0 && matches(&self.frames[inner]) {
            self.pop(t);
            return;
        }
        // Round and square brackets do not extend beyond braces.
        let found = (1..=inner).rev().find_map(|d| {
            if matches(&self.frames[d]) {
                return Some(Some(d));
            }
            let wall = self.frames[d].opener.tok == Tok::LBrace && t.tok != Tok::RBrace;
            wall.then_some(None)
        });
        let Some(Some(depth)) = found else {
            self.stray(t);
            return;
        };
        if depth + 1 == inner && self.at(i + 1) == Some(t.tok) {
            self.mistaken(t);
            return;
        }
        if t.tok != Tok::RBrace && self.is_stray(i, depth) {
            self.stray(t);
            return;
        }
        let unclosed: Vec<Token> = self.frames[depth + 1..].iter().map(|f| f.opener).collect();
        self.unclosed(&unclosed, Some(t));
        while self.frames.len() - 1 > depth {
            self.insert_closer();
        }
        self.pop(t);
    }

    /// Handles a closing bracket of the wrong kind: the bracket around the innermost one is closed
    /// by the next token, so this one was meant for the innermost.
    fn mistaken(&mut self, t: Token) {
        let opener = self.top().opener;
        let right = closer(opener.tok);
        let message = format!(
            "`{}` is closed by `{}`, not `{}`",
            text(opener.tok),
            text(right),
            text(t.tok)
        );
        self.report(
            Diagnostic::error(Code(106), t.span(), message)
                .label(
                    opener.span(),
                    format!("this `{}` is open", text(opener.tok)),
                )
                .fix(format!("write `{}`", text(right)), t.span(), text(right)),
        );
        self.pop(Token { tok: right, ..t });
    }

    /// Closes brackets that cannot contain the token `t`.
    pub(super) fn close_before(&mut self, t: Token) {
        if !matches!(t.tok, Tok::Arrow | Tok::LBrace | Tok::Eq | Tok::FatArrow) {
            return;
        }
        let Some(last) = self.last() else { return };
        if !ends_operand(last.tok) && last.tok != Tok::TGt {
            return;
        }
        let depth = match t.tok {
            Tok::Arrow => self.arrow_closes(),
            Tok::FatArrow => self.pattern_closes(),
            _ => self.inner_brackets(),
        };
        let Some(depth) = depth else { return };
        let unclosed: Vec<Token> = self.frames[depth..].iter().map(|f| f.opener).collect();
        self.unclosed(&unclosed, Some(t));
        while self.frames.len() > depth {
            self.insert_closer();
        }
    }

    /// Returns the outermost square or angle bracket inside the innermost braces or parameters:
    /// these can contain neither `{` nor `=`.
    fn inner_brackets(&self) -> Option<usize> {
        let inner = |f: &Frame| {
            matches!(
                f.kind,
                FrameKind::Square | FrameKind::Angle | FrameKind::Parens | FrameKind::Args
            )
        };
        let from = self.frames.iter().rposition(|f| !inner(f))? + 1;
        let square = |f: &Frame| matches!(f.kind, FrameKind::Square | FrameKind::Angle);
        // Only a bracket that directly encloses everything nested further in, without a closure or
        // block between.
        let depth = self.frames[from..].iter().rposition(square)? + from;
        let first = self.frames[from..=depth].iter().position(square)? + from;
        Some(first)
    }

    /// Handles `=>`, which follows a complete pattern, or the index variables of a `compute`.
    fn pattern_closes(&self) -> Option<usize> {
        let round = |f: &Frame| {
            matches!(
                f.kind,
                FrameKind::Parens | FrameKind::Args | FrameKind::Square
            )
        };
        let depth = self.frames.iter().rposition(|f| !round(f))? + 1;
        let f = &self.frames[depth - 1];
        let awaited = match f.kind {
            FrameKind::Arms => !f.bound,
            FrameKind::Block => self.item == Some(Tok::Op) && f.first == Some(Tok::Compute),
            _ => false,
        };
        (awaited && depth < self.frames.len()).then_some(depth)
    }

    /// Detects an arrow in a list of parameters, where no function type is open: it shows that the
    /// list was not closed.
    fn arrow_closes(&self) -> Option<usize> {
        let depth = self
            .frames
            .iter()
            .rposition(|f| f.kind == FrameKind::Params)?;
        if self.frames[depth..]
            .iter()
            .any(|f| f.opener.tok == Tok::LBrace)
        {
            return None;
        }
        let mut types = 0isize;
        for t in self.out.tokens.back().take(HORIZON) {
            if *t == self.frames[depth].opener {
                break;
            }
            match t.tok {
                Tok::Fn => types += 1,
                Tok::Arrow => types -= 1,
                _ => {}
            }
        }
        // The list itself may belong to a function type: its own arrow comes after `)`.
        (types <= 0).then_some(depth)
    }

    /// Pops the frame that `t` closes.
    fn pop(&mut self, t: Token) {
        let closed = self.frames.pop();
        self.out.tokens.push(t);
        if let Some(Frame {
            kind: FrameKind::Params,
            first,
            ..
        }) = closed
        {
            self.params = Some((self.out.tokens.len(), first));
        }
        if t.tok == Tok::RBrace && self.kind() == FrameKind::Arms {
            // A clause may end with its block, without a comma.
            self.top().first = None;
        }
        if t.tok == Tok::RBrace && self.frames.len() == 1 {
            self.statement_ends_at_top(true);
        }
    }

    fn insert_closer(&mut self) {
        let Some(f) = self.frames.pop() else { return };
        let end = self.end_of_last();
        self.out.tokens.push(Token {
            tok: closer(f.opener.tok),
            word: false,
            start: end,
            end,
        });
    }

    fn stray(&mut self, t: Token) {
        let mut d = Diagnostic::error(
            Code(106),
            t.span(),
            format!("this `{}` closes nothing", text(t.tok)),
        );
        if let Some(f) = self.frames.last()
            && self.frames.len() > 1
        {
            d = d.label(
                f.opener.span(),
                format!(
                    "the innermost open bracket is this `{}`",
                    text(f.opener.tok)
                ),
            );
        }
        self.report(d.suggest("remove it", t.span(), ""));
        // Where a value is still expected, the bracket counts as one.
        let awaited = self
            .last()
            .is_none_or(|l| !ends_operand(l.tok) && l.tok != Tok::Semi);
        if awaited && (self.frames.len() > 1 || self.item.is_some()) {
            self.begin(
                usize::MAX,
                Token {
                    tok: Tok::Error,
                    ..t
                },
            );
            self.out.tokens.push(Token {
                tok: Tok::Error,
                ..t
            });
        }
    }

    /// Returns which interpretation of a wrong closing bracket leaves fewer errors up to the end of
    /// the statement: whether it is an extra one, rather than the one that closes the frame at
    /// `depth`.
    fn is_stray(&self, i: usize, depth: usize) -> bool {
        let from = self.frames.len().saturating_sub(16).max(1);
        let stack: Vec<Tok> = self.frames[from..].iter().map(|f| f.opener.tok).collect();
        let popped = self.frames.len() - 1 - depth;
        let keep = stack.len().saturating_sub(popped + 1);
        let closing = popped + self.mismatches(i + 1, stack[..keep].to_vec());
        let stray = 1 + self.mismatches(i + 1, stack);
        stray < closing
    }

    /// Counts the bracket errors from `i` to the end of the statement.
    fn mismatches(&self, i: usize, mut stack: Vec<Tok>) -> usize {
        let mut count = 0;
        for t in self.input.since(i).iter().take(HORIZON) {
            match t.tok {
                Tok::LParen | Tok::LSquare => stack.push(t.tok),
                Tok::RParen | Tok::RSquare => match stack.last() {
                    Some(&o) if closer(o) == t.tok => {
                        stack.pop();
                    }
                    Some(Tok::LParen | Tok::LSquare)
                        if stack
                            .iter()
                            .rev()
                            .nth(1)
                            .is_some_and(|&o| closer(o) == t.tok) =>
                    {
                        stack.truncate(stack.len() - 2);
                        count += 1;
                    }
                    _ => count += 1,
                },
                Tok::LBrace | Tok::RBrace | Tok::Semi | Tok::Def => break,
                _ => {}
            }
        }
        let open = stack
            .iter()
            .rev()
            .take_while(|&&o| o != Tok::LBrace)
            .count();
        count + open
    }

    /// Reports brackets that are never closed, as one error; `before` is the token that shows it,
    /// `None` the end of the file.
    fn unclosed(&mut self, openers: &[Token], before: Option<Token>) {
        let Some(&first) = openers.first() else {
            return;
        };
        let what = text(first.tok);
        let mut d = Diagnostic::error(
            Code(105),
            first.span(),
            format!("this `{what}` is never closed"),
        );
        let (place, found) = match before {
            Some(t) => (
                t.span(),
                format!("`{}` expected before this", text(closer(first.tok))),
            ),
            None => {
                let end = self.file.span().at_end();
                (
                    end,
                    format!("`{}` expected before the end", text(closer(first.tok))),
                )
            }
        };
        d = d.label(place, found);
        for t in &openers[1..openers.len().min(4)] {
            d = d.label(t.span(), format!("nor is this `{}`", text(t.tok)));
        }
        let closers: String = openers.iter().rev().map(|t| text(closer(t.tok))).collect();
        let end = self.end_of_last();
        d.fixes.push(Fix {
            title: format!("insert `{closers}`"),
            edits: vec![Edit {
                span: Span::new(end, end),
                text: closers,
            }],
            certain: false,
        });
        self.report(d);
    }

    /// Closes all brackets: an item begins, or the file ends.
    pub(super) fn close_all(&mut self, before: Option<Token>) {
        let openers: Vec<Token> = self.frames[1..].iter().map(|f| f.opener).collect();
        self.unclosed(&openers, before);
        while self.frames.len() > 1 {
            self.insert_closer();
        }
        self.statement_ends_at_top(true);
    }

    pub(super) fn semicolon(&mut self, i: usize, t: Token) {
        // A `;` inside brackets separates statements only after `let` and the like.
        while matches!(
            self.kind(),
            FrameKind::Args
                | FrameKind::Params
                | FrameKind::Square
                | FrameKind::Angle
                | FrameKind::Parens
                | FrameKind::AttrBraces
        ) {
            let f = *self.top();
            let statement = matches!(f.kind, FrameKind::Parens | FrameKind::Args)
                && (matches!(f.first, Some(Tok::Let | Tok::FreeVar | Tok::Dataflow)) || f.bound);
            if statement || f.kind == FrameKind::Parens && self.closes_later(i) {
                break;
            }
            self.unclosed(&[f.opener], Some(t));
            self.insert_closer();
        }
        if self.frames.len() == 1 && self.segment.is_none() {
            // After an item: `type T;` ended with its name already, others may have one too.
            if let Some(s) = self.out.segments.last_mut()
                && s.item
                && s.end == self.out.tokens.len()
            {
                return;
            }
        }
        self.begin(i, t);
        self.out.tokens.push(t);
        self.top().next();
        if self.frames.len() == 1 {
            self.statement_ends_at_top(false);
        }
    }

    /// Returns whether a `)` for the innermost bracket follows before the block around it ends, or
    /// nothing says otherwise as far as it looks.
    fn closes_later(&self, i: usize) -> bool {
        let mut depth = 0usize;
        let ahead = self.input.since(i);
        for t in ahead.iter().take(HORIZON * 4) {
            match t.tok {
                Tok::LParen | Tok::LSquare | Tok::LBrace => depth += 1,
                Tok::RParen if depth == 0 => return true,
                Tok::RBrace | Tok::RSquare if depth == 0 => return false,
                Tok::RParen | Tok::RSquare | Tok::RBrace => depth -= 1,
                Tok::Def => return false,
                _ => {}
            }
        }
        ahead.len() >= HORIZON * 4
    }
}

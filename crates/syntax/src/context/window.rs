//! A window over tokens: indexed from the beginning of the file, but only the newest are kept.

use crate::lex::Token;

/// A list of tokens that may have dropped its beginning; indices count from the original one.
#[derive(Debug, Default)]
pub(crate) struct Window {
    base: usize,
    tokens: Vec<Token>,
}

impl Window {
    /// Creates a window over all tokens of a file.
    pub(crate) fn whole(tokens: Vec<Token>) -> Window {
        Window { base: 0, tokens }
    }
    /// Returns the index after the last token.
    pub(crate) fn len(&self) -> usize {
        self.base + self.tokens.len()
    }
    /// Returns the token at an index, if it is available.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<Token> {
        self.tokens.get(at.wrapping_sub(self.base)).copied()
    }
    /// Returns the tokens from a position on, as far as they are available.
    pub(crate) fn since(&self, at: usize) -> &[Token] {
        let from = at.saturating_sub(self.base).min(self.tokens.len());
        &self.tokens[from..]
    }
    /// Returns the tokens between two indices.
    pub(crate) fn between(&self, start: usize, end: usize) -> &[Token] {
        &self.tokens[start - self.base..end - self.base]
    }
    /// Returns whether the token at a position was dropped.
    pub(crate) fn forgot(&self, at: usize) -> bool {
        at < self.base
    }
    #[inline]
    pub(crate) fn last(&self) -> Option<Token> {
        self.tokens.last().copied()
    }
    /// Returns the tokens, newest first.
    pub(crate) fn back(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().rev()
    }
    #[inline]
    pub(crate) fn push(&mut self, t: Token) {
        self.tokens.push(t);
    }
    pub(crate) fn pop(&mut self) -> Option<Token> {
        self.tokens.pop()
    }
    pub(crate) fn reserve(&mut self, n: usize) {
        self.tokens.reserve(n);
    }
    /// Drops the tokens before a position.
    pub(crate) fn forget(&mut self, before: usize) {
        let n = before.saturating_sub(self.base).min(self.tokens.len());
        self.tokens.drain(..n);
        self.base += n;
    }
}

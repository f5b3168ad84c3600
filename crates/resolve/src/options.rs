//! Options for reading texts.

use std::fmt;
use std::str::FromStr;

pub use relax_ops::Release;

/// Options for reading texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// If set, constants whose metadata section is missing become placeholders, typed by the
    /// comment that TVM prints after them.
    pub stub_constants: Option<Stubs>,
    /// The TVM release that wrote the text, if its header does not tell.
    pub release: Option<Release>,
    /// Whether a call of an unknown operator is kept as it is if a comment gives its type.
    pub allow_unknown_ops: bool,
    /// Whether lines around the text, and prefixes of its lines, are skipped.
    pub from_log: bool,
    /// Whether to recover the text from input that does not parse: surrounding lines and line
    /// prefixes are skipped with a warning, and damage from copying is undone.
    pub pasted: bool,
}

/// The values of placeholder constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stubs {
    /// Zeros.
    Zeros,
    /// Random numbers, determined by the seed.
    Random(u64),
    /// Zeros, to be replaced from a weight file later: no note is emitted.
    Awaited,
}

impl FromStr for Stubs {
    type Err = NoStubs;

    fn from_str(text: &str) -> Result<Stubs, NoStubs> {
        match text.split_once(':') {
            None if text == "zeros" => Ok(Stubs::Zeros),
            None if text == "random" => Ok(Stubs::Random(0)),
            Some(("random", seed)) => seed.parse().map(Stubs::Random).map_err(|_| NoStubs),
            _ => Err(NoStubs),
        }
    }
}

/// The error for an unknown kind of placeholder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoStubs;

impl fmt::Display for NoStubs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected `zeros`, `random` or `random:SEED`")
    }
}

impl std::error::Error for NoStubs {}

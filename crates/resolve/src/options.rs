//! How texts are read.

use std::fmt;
use std::str::FromStr;

pub use relax_ops::Release;

/// How texts are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Gives constants whose metadata section is missing a placeholder, typed by the comment that
    /// TVM prints after them.
    pub stub_constants: Option<Stubs>,
    /// The release of TVM that wrote the text, where its header does not tell.
    pub release: Option<Release>,
    /// Whether a call of an operator that nobody knows is kept as it is where a comment says its
    /// type.
    pub allow_unknown_ops: bool,
    /// Whether lines around the text, and marks before its lines, are passed over.
    pub from_log: bool,
    /// Looks for the text in what cannot be read as it is: lines around it and marks before its
    /// lines are passed over with a warning, and what copying did to it is undone.
    pub pasted: bool,
}

/// The values of placeholders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stubs {
    /// Zeros.
    Zeros,
    /// Random numbers, the same for the same seed.
    Random(u64),
    /// Zeros that a file of weights replaces later: no note is owed.
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

/// A text is none of the ways to fill placeholders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoStubs;

impl fmt::Display for NoStubs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected `zeros`, `random` or `random:SEED`")
    }
}

impl std::error::Error for NoStubs {}

//! Releases of TVM, by which texts and defaults differ.

use std::fmt;
use std::str::FromStr;

/// A release of TVM: the minor version, since the major version was 0 as long as there was Relay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Release(pub u8);

impl Release {
    /// The first release with Relay in it.
    pub const FIRST: Release = Release(3);
    /// The last one.
    pub const LAST: Release = Release(19);
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0.{}", self.0)
    }
}

impl FromStr for Release {
    type Err = NoRelease;

    /// Parses `0.8`, and the usual variants: `v0.8.0`, `0.9.dev0`.
    fn from_str(text: &str) -> Result<Release, NoRelease> {
        let number = text.trim().trim_start_matches(['v', 'V']);
        let minor = number.strip_prefix("0.").map(|rest| {
            let end = rest.find('.').unwrap_or(rest.len());
            &rest[..end]
        });
        let minor = minor.and_then(|m| m.parse().ok()).map(Release);
        let known = minor.filter(|r| (Release::FIRST..=Release::LAST).contains(r));
        known.ok_or(NoRelease)
    }
}

/// The text is not a release of TVM that has Relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRelease;

impl fmt::Display for NoRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (Release::FIRST, Release::LAST);
        write!(f, "expected a release of TVM with Relay, {first} to {last}")
    }
}

impl std::error::Error for NoRelease {}

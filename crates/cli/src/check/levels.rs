//! Severity overrides: `--allow`, `--warn` and `--deny`.

pub use relax::code;
use relax_base::{Code, Diagnostics, Severity};

use super::Checked;

use crate::stop::Stop;

/// An override. If several are given for one code, the strictest takes precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Suppress the diagnostic.
    Allow,
    /// Make it a warning.
    Warn,
    /// Make it an error.
    Deny,
}

/// The overrides by code.
#[derive(Clone, Default, Debug)]
pub struct Levels {
    codes: Vec<(Code, Level)>,
    /// Whether warnings are errors.
    pub deny_warnings: bool,
}

impl Levels {
    /// Creates the overrides from three lists of codes; `warnings` in the last stands for all
    /// warnings.
    ///
    /// # Errors
    /// A code does not exist.
    pub fn new(allow: &[String], warn: &[String], deny: &[String]) -> Result<Levels, Stop> {
        let mut levels = Levels::default();
        let lists = [
            (allow, Level::Allow),
            (warn, Level::Warn),
            (deny, Level::Deny),
        ];
        for (list, level) in lists {
            for text in list {
                if level == Level::Deny && text == "warnings" {
                    levels.deny_warnings = true;
                    continue;
                }
                let code = code(text).ok_or_else(|| format!("there is no diagnostic `{text}`"))?;
                levels.codes.push((code, level));
            }
        }
        Ok(levels)
    }

    fn of(&self, code: Code) -> Option<Level> {
        let own = self.codes.iter().filter(|c| c.0 == code);
        own.map(|c| c.1).max()
    }

    /// Applies the overrides to a file's diagnostics.
    pub fn apply(&self, checked: &mut Checked) {
        let all = std::mem::take(&mut checked.diagnostics);
        let mut out = Diagnostics::new();
        for mut d in all {
            match self.of(d.code) {
                Some(Level::Allow) => continue,
                Some(Level::Warn) => d.severity = Severity::Warning,
                Some(Level::Deny) => d.severity = Severity::Error,
                None => {}
            }
            out.push(d);
        }
        checked.diagnostics = out;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_level_counts() {
        let list = |codes: &[&str]| Vec::from_iter(codes.iter().map(|c| (*c).to_owned()));
        let levels = Levels::new(&list(&["RX0319"]), &[], &list(&["319", "warnings"]));
        let levels = levels.expect("codes that exist");
        assert_eq!(levels.of(Code(319)), Some(Level::Deny));
        assert!(levels.deny_warnings && levels.of(Code(301)).is_none());
        assert!(Levels::new(&list(&["RX9999"]), &[], &[]).is_err());
    }
}

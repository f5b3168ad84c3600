//! What diagnostics count as: `--allow`, `--warn` and `--deny`, and comments in the text.

use relax_base::{Code, Diagnostic, Diagnostics, Severity, SourceFile, explain};

use super::Checked;

/// What a diagnostic is made of. Where several are asked for one code, the strictest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Nothing: it is not said.
    Allow,
    /// A warning.
    Warn,
    /// An error.
    Deny,
}

/// What is asked for, by code.
#[derive(Clone, Default, Debug)]
pub struct Levels {
    codes: Vec<(Code, Level)>,
    /// Whether warnings count as errors.
    pub deny_warnings: bool,
}

impl Levels {
    /// What is asked for by three lists of codes; `warnings` in the last stands for all of them.
    ///
    /// # Errors
    /// A code that no diagnostic has.
    pub fn new(allow: &[String], warn: &[String], deny: &[String]) -> Result<Levels, String> {
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

    /// The diagnostics of a file as they count.
    pub fn apply(&self, checked: &mut Checked) {
        let all = std::mem::take(&mut checked.diagnostics);
        let mut out = Diagnostics::new();
        for mut d in all {
            if checked.file(d.span()).is_some_and(|f| is_allowed(f, &d)) {
                continue;
            }
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

/// The code that a text names: `RX0301`, `301`.
pub fn code(text: &str) -> Option<Code> {
    let number = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let code = number.parse().ok().map(Code)?;
    explain::explain(code).map(|_| code)
}

/// Whether a comment allows a diagnostic: `// relax: allow(RX0319)` on its line, or alone on the line before.
fn is_allowed(file: &SourceFile, d: &Diagnostic) -> bool {
    let line = file.line_col(d.span().start).line;
    let before = line.checked_sub(1).filter(|l| *l > 0).map(|l| file.line(l));
    let alone = before.filter(|l| l.trim_start().starts_with("//"));
    [Some(file.line(line)), alone]
        .into_iter()
        .flatten()
        .any(|l| allows(l, d.code))
}

fn allows(line: &str, wanted: Code) -> bool {
    let comment = line.find("//").map(|at| &line[at + 2..]);
    let rest = comment.and_then(|c| c.trim_start().strip_prefix("relax:"));
    let list = rest.and_then(|r| r.trim_start().strip_prefix("allow("));
    let list = list.and_then(|l| l.split(')').next()).unwrap_or_default();
    list.split(',').any(|c| code(c.trim()) == Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_allow_codes() {
        let wanted = Code(319);
        assert!(allows("  add(%x, %y) // relax: allow(RX0319)", wanted));
        assert!(allows("//relax:allow( RX0301 , RX0319 ) why", wanted));
        assert!(!allows("  add(%x, %y) // relax: allow(RX0301)", wanted));
        assert!(!allows("  relax: allow(RX0319)", wanted));
    }

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

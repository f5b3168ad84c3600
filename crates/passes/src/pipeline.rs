//! Pipelines as text: `infer-type,fold-constant{max-bytes=1048576},fixpoint{max=4}(a,b),O2`.
//!
//! `name`, `name{option=value,…}`, and `fixpoint{max=8}(…)`, which repeats what is between the
//! parentheses until nothing changes. The name of a named pipeline stands for its passes.

use std::fmt;

use relax_base::{BoxError, Diagnostic, Diagnostics, SourceFile, Span, did_you_mean};

use crate::{OptionValue, Options, PassDef, PassRun, Registry, codes, registry};

/// A step of a pipeline.
#[derive(Clone, Debug)]
pub enum Step {
    /// A run of a pass.
    Pass(PassRun),
    /// Steps that are repeated until they change nothing, at most `max` times.
    Fixpoint {
        /// The limit on repetitions.
        max: u64,
        /// The steps.
        steps: Vec<Step>,
    },
}

/// A sequence of steps.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    /// The steps.
    pub steps: Vec<Step>,
}

/// The maximum nesting depth of `fixpoint`.
const DEEPEST: usize = 8;
const FIXPOINT: &str = "fixpoint";
/// The name of its option.
const MAX: &str = "max";
const ROUNDS: u64 = 8;

fn write_steps(f: &mut fmt::Formatter<'_>, steps: &[Step]) -> fmt::Result {
    for (i, step) in steps.iter().enumerate() {
        if i > 0 {
            f.write_str(",")?;
        }
        // The recursion is bounded: the parser nests at most `DEEPEST` deep.
        match step {
            Step::Pass(run) => write!(f, "{run}")?,
            Step::Fixpoint { max, steps } => {
                write!(f, "{FIXPOINT}{{max={max}}}(")?;
                write_steps(f, steps)?;
                f.write_str(")")?;
            }
        }
    }
    Ok(())
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_steps(f, &self.steps)
    }
}

/// A callback that returns the text of a named file and its position in the sources, or the reason
/// why it cannot be read.
pub type ReadSource<'a> = dyn FnMut(&str) -> Result<(String, Span), BoxError> + 'a;

impl Pipeline {
    /// Parses a pipeline of the passes in a registry.
    ///
    /// # Errors
    /// All errors, with their spans in the text.
    pub fn parse(file: &SourceFile, passes: &Registry) -> Result<Pipeline, Diagnostics> {
        let mut parser = Parser::new(&file.text, Some(file.start), passes);
        let steps = parser.steps();
        if parser.diagnostics.has_errors() {
            Err(parser.diagnostics)
        } else {
            Ok(Pipeline { steps })
        }
    }

    /// Replaces `@FILE` in options that accept it ([`crate::OptionType::Source`]) by the contents
    /// of the file. `read` returns the text of a file and its position in the sources.
    ///
    /// # Errors
    /// All files that cannot be read, at the spans that name them.
    pub fn load(&mut self, read: &mut ReadSource) -> Result<(), Diagnostics> {
        let mut errors = Diagnostics::new();
        let mut open: Vec<&mut Step> = self.steps.iter_mut().collect();
        while let Some(step) = open.pop() {
            let run = match step {
                Step::Fixpoint { steps, .. } => {
                    open.extend(steps.iter_mut());
                    continue;
                }
                Step::Pass(run) => run,
            };
            for (i, def) in run.pass.options.iter().enumerate() {
                let OptionValue::Text(text) = &run.options.values[i].1 else {
                    continue;
                };
                let file = text.strip_prefix('@').map(str::to_owned);
                let Some(file) = file.filter(|_| def.ty == crate::OptionType::Source) else {
                    continue;
                };
                match read(&file) {
                    Ok((text, place)) => {
                        run.options.values[i].1 = OptionValue::Text(text);
                        run.options.places[i] = place;
                    }
                    Err(e) => {
                        let place = run.options.places[i];
                        let d = Diagnostic::error(codes::OPTION_VALUE, place, e.to_string());
                        errors.push(d);
                    }
                }
            }
        }
        if errors.has_errors() {
            Err(errors)
        } else {
            Ok(())
        }
    }

    /// Returns the passes, in order, those of `fixpoint`s once.
    pub fn passes(&self) -> Vec<&PassRun> {
        let (mut out, mut stack) = (Vec::new(), vec![self.steps.iter()]);
        while let Some(top) = stack.last_mut() {
            match top.next() {
                None => {
                    stack.pop();
                }
                Some(Step::Pass(run)) => out.push(run),
                Some(Step::Fixpoint { steps, .. }) => stack.push(steps.iter()),
            }
        }
        out
    }
}

struct Parser<'t> {
    passes: &'t Registry,
    text: &'t str,
    at: usize,
    /// The position of the text in the sources; `None` for the text of a named pipeline.
    start: Option<u32>,
    diagnostics: Diagnostics,
}

/// An option as given in the text.
struct Given<'t> {
    name: Word<'t>,
    value: Word<'t>,
}

/// A word and its span.
struct Word<'t> {
    text: &'t str,
    span: Span,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, start: Option<u32>, passes: &'t Registry) -> Parser<'t> {
        Parser {
            passes,
            text,
            at: 0,
            start,
            diagnostics: Diagnostics::new(),
        }
    }
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }
    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }
    fn span(&self, from: usize, to: usize) -> Span {
        match self.start {
            Some(start) => Span::new(start + from as u32, start + to as u32),
            None => Span::NONE,
        }
    }
    fn expected(&mut self, what: &str) {
        let found = match self.peek() {
            Some(c) => format!("`{c}`"),
            None => "the end".to_owned(),
        };
        let end = self.at
            + self.text[self.at..]
                .chars()
                .next()
                .map_or(0, char::len_utf8);
        let message = format!("the pipeline needs {what} here, not {found}");
        let place = self.span(self.at, end);
        let d = Diagnostic::error(codes::PIPELINE_SYNTAX, place, message);
        let d = d.note("a pipeline is a list of passes: `infer-type,fuse-ops{level=2}`");
        self.diagnostics.push(d);
    }
    fn word(&mut self) -> Option<Word<'t>> {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)));
        let len = end.unwrap_or(rest.len());
        if len == 0 {
            return None;
        }
        let from = self.at;
        self.at += len;
        Some(Word {
            text: &rest[..len],
            span: self.span(from, self.at),
        })
    }

    /// Parses the value of an option: a word, or text in quotes or brackets.
    fn value(&mut self) -> Option<Word<'t>> {
        let first = self.peek()?;
        let rest = &self.text[self.at..];
        let (skip, len) = match first {
            '"' | '\'' => (1, rest[1..].find(first)?),
            _ => {
                let mut depth = 0usize;
                let end = rest.find(|c| {
                    match c {
                        '[' => depth += 1,
                        ']' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    depth == 0 && ",{}()".contains(c)
                });
                (0, rest[..end.unwrap_or(rest.len())].trim_end().len())
            }
        };
        let from = self.at + skip;
        self.at = from + len + skip;
        Some(Word {
            text: &self.text[from..from + len],
            span: self.span(from, from + len),
        })
    }

    fn steps(&mut self) -> Vec<Step> {
        let mut open: Vec<(u64, Vec<Step>)> = vec![(0, Vec::new())];
        if self.peek().is_none() {
            return Vec::new();
        }
        loop {
            let Some(name) = self.word() else {
                self.expected("the name of a pass");
                break;
            };
            if name.text == FIXPOINT {
                let Some(max) = self.rounds() else { break };
                if !self.eat('(') {
                    self.expected("`(` and the passes to repeat");
                    break;
                }
                if open.len() > DEEPEST {
                    let message = format!("`{FIXPOINT}` may be nested {DEEPEST} deep");
                    let d = Diagnostic::error(codes::PIPELINE_SYNTAX, name.span, message);
                    self.diagnostics.push(d);
                    break;
                }
                open.push((max, Vec::new()));
                continue;
            }
            let steps = self.named(&name);
            open.last_mut().expect("never empty").1.extend(steps);
            while open.len() > 1 && self.eat(')') {
                let (max, steps) = open.pop().expect("more than one");
                open.last_mut()
                    .expect("never empty")
                    .1
                    .push(Step::Fixpoint { max, steps });
            }
            if self.eat(',') {
                continue;
            }
            if self.peek() == Some('(') {
                let place = self.span(self.at, self.at + 1);
                let message = format!("`{}` takes no passes", name.text);
                let d = Diagnostic::error(codes::PIPELINE_SYNTAX, place, message);
                let d = d.note("only `fixpoint(…)` has passes in parentheses: it repeats them");
                self.diagnostics.push(d);
            } else if open.len() > 1 {
                self.expected("`,` or `)`");
            } else if self.peek().is_some() {
                self.expected("`,` or the end");
            }
            break;
        }
        open.swap_remove(0).1
    }

    /// Returns the steps that a name stands for, with the options that follow it.
    fn named(&mut self, name: &Word<'t>) -> Vec<Step> {
        if let Some(pass) = self.passes.named(name.text) {
            let options = self.options(pass);
            return vec![Step::Pass(PassRun { pass, options })];
        }
        let pipelines = registry::named_pipelines();
        let bare = name.text.trim_start_matches('-');
        if let Some((_, text)) = pipelines.iter().find(|p| p.0 == bare) {
            let mut named = Parser::new(text, None, self.passes);
            return named.steps();
        }
        let message = format!("there is no pass `{}`", name.text);
        let mut d = Diagnostic::error(codes::UNKNOWN_PASS, name.span, message);
        let near = did_you_mean(name.text, [FIXPOINT]).map(str::to_owned);
        if let Some(near) = near.or_else(|| self.passes.meant(name.text)) {
            d = d.suggest(format!("did you mean `{near}`?"), name.span, near);
        }
        self.diagnostics.push(d.note(
            "`relax-opt --list-passes` lists all passes, and the pipelines that have a name (`O2`)",
        ));
        // Skip the unknown pass's options in braces, or the arguments of a call in Python.
        for (open, close) in [('{', '}'), ('(', ')')] {
            if self.peek() == Some(open) {
                let rest = &self.text[self.at..];
                self.at += rest.find(close).map_or(rest.len(), |end| end + 1);
            }
        }
        Vec::new()
    }

    /// Parses the options of a `fixpoint` and returns its limit on repetitions; `None` if they are
    /// malformed.
    fn rounds(&mut self) -> Option<u64> {
        let mut given: Option<(u64, Span)> = None;
        if !self.eat('{') || self.eat('}') {
            return Some(ROUNDS);
        }
        loop {
            let option = self.option()?;
            if option.name.text != MAX {
                self.unknown_option(FIXPOINT, &[MAX], &option.name);
            } else if let Some((_, first)) = given {
                self.given_twice(&option.name, first);
            } else {
                let value = &option.value;
                let max = value.text.parse().ok().filter(|max| *max > 0);
                if max.is_none() {
                    let message = format!("`{}` does not fit the option `{MAX}`", value.text);
                    let d = Diagnostic::error(codes::OPTION_VALUE, value.span, message);
                    self.diagnostics.push(d.note(format!(
                        "it takes an integer, 1 or more: how often to repeat at most; the default is {ROUNDS}"
                    )));
                }
                given = Some((max.unwrap_or(ROUNDS), option.name.span));
            }
            if !self.another_option()? {
                return Some(given.map_or(ROUNDS, |g| g.0));
            }
        }
    }

    /// Parses an option and its value, which a flag may omit.
    fn option(&mut self) -> Option<Given<'t>> {
        let Some(name) = self.word() else {
            self.expected("the name of an option");
            return None;
        };
        let value = if self.eat('=') {
            match self.value() {
                Some(value) => value,
                None => {
                    self.expected("a value");
                    return None;
                }
            }
        } else {
            Word {
                text: "true",
                span: name.span,
            }
        };
        Some(Given { name, value })
    }

    /// Parses what follows an option; returns whether another one follows. `None` if the list is
    /// malformed.
    fn another_option(&mut self) -> Option<bool> {
        if self.eat('}') {
            Some(false)
        } else if self.eat(',') {
            Some(true)
        } else {
            self.expected("`,` or `}`");
            None
        }
    }

    fn given_twice(&mut self, name: &Word<'_>, first: Span) {
        let message = format!("the option `{}` is given twice", name.text);
        let d = Diagnostic::error(codes::OPTION_VALUE, name.span, message);
        let d = d.primary("here again");
        self.diagnostics
            .push(d.label(first, "here for the first time"));
    }

    fn options(&mut self, pass: &'static PassDef) -> Options {
        let mut options = Options::defaults(pass);
        if !self.eat('{') || self.eat('}') {
            return options;
        }
        // The span of each option's name.
        let mut names: Vec<Option<Span>> = vec![None; pass.options.len()];
        loop {
            let Some(Given { name, value }) = self.option() else {
                return options;
            };
            match pass.options.iter().position(|o| o.name == name.text) {
                None => {
                    let all: Vec<&str> = pass.options.iter().map(|o| o.name).collect();
                    self.unknown_option(pass.name, &all, &name);
                }
                Some(i) => match (names[i], OptionValue::parse(pass.options[i].ty, value.text)) {
                    (Some(first), _) => self.given_twice(&name, first),
                    (None, None) => self.bad_value(pass, i, &value),
                    (None, Some(given)) => {
                        options.values[i].1 = given;
                        options.places[i] = value.span;
                        names[i] = Some(name.span);
                    }
                },
            }
            if self.another_option() != Some(true) {
                return options;
            }
        }
    }

    fn unknown_option(&mut self, of: &str, names: &[&str], name: &Word<'_>) {
        let message = format!("`{of}` has no option `{}`", name.text);
        let mut d = Diagnostic::error(codes::UNKNOWN_OPTION, name.span, message);
        if let Some(near) = did_you_mean(name.text, names.iter().copied()) {
            d = d.suggest(format!("did you mean `{near}`?"), name.span, near);
        }
        let note = if names.is_empty() {
            "it has no options".to_owned()
        } else {
            format!("its options: {}", names.join(", "))
        };
        self.diagnostics.push(d.note(note));
    }

    fn bad_value(&mut self, pass: &PassDef, option: usize, value: &Word<'_>) {
        let o = &pass.options[option];
        let message = format!("`{}` does not fit the option `{}`", value.text, o.name);
        let mut d = Diagnostic::error(codes::OPTION_VALUE, value.span, message).note(format!(
            "it takes {}: {}; the default is {}",
            o.ty, o.doc, o.default
        ));
        if let crate::OptionType::Choice(words) = o.ty
            && let Some(near) = did_you_mean(value.text, words.iter().copied())
        {
            d = d.suggest(format!("did you mean `{near}`?"), value.span, near);
        }
        self.diagnostics.push(d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, Vec<String>> {
        let mut map = relax_base::SourceMap::new();
        let file = map.add("<pipeline>", text).expect("short");
        match Pipeline::parse(&file, &Registry::default()) {
            Ok(p) => Ok(p.to_string()),
            Err(d) => Err(d
                .iter()
                .map(|d| format!("{}: {}", d.code, d.message))
                .collect()),
        }
    }

    #[test]
    fn pipelines_print_as_they_are_read() {
        assert_eq!(parse(""), Ok(String::new()));
        assert_eq!(
            parse(" infer-type , infer-type"),
            Ok("infer-type,infer-type".into())
        );
        let nested = "fixpoint{max=3}(infer-type,fixpoint{max=8}(infer-type)),infer-type";
        assert_eq!(parse(nested), Ok(nested.into()));
    }

    #[test]
    fn every_mistake_is_reported() {
        let bad = |text: &str| parse(text).expect_err("it is wrong").join(" ");
        assert!(bad("infer-typo{a=b},infer-tipe").matches("RX0902").count() == 2);
        assert!(bad("infer-type{level=2}").contains("RX0903"));
        assert!(bad("infer-type,").contains("RX0901"));
        assert!(bad("fixpoint(infer-type").contains("RX0901"));
        assert!(bad("infer-type)").contains("RX0901"));
        assert!(bad(&"fixpoint(".repeat(100)).contains("nested"));
        // One error per mistake.
        assert_eq!(
            bad("fixpoint{maks=3}(infer-type)").matches("RX09").count(),
            1
        );
        assert!(bad("fixpoint{maks=3}(infer-type)").contains("RX0903"));
        assert!(bad("fixpoint{max=0}(infer-type)").contains("RX0904"));
        assert!(bad("fixpoint{max=1,max=2}(infer-type)").contains("twice"));
        assert!(bad("fuse-ops{level=1,level=1}").contains("twice"));
        assert!(bad("infer-type(infer-type)").contains("takes no passes"));
    }

    #[test]
    fn named_pipelines_can_be_read() {
        for (name, _) in registry::named_pipelines() {
            assert!(parse(name).is_ok(), "{name}");
        }
    }
}

//! The definition of a pass.

use std::fmt;

use relax_base::{Diagnostic, Diagnostics, Span, Symbol, did_you_mean};
use relax_ir::Module;

use crate::{Contract, PassCx, codes};

/// The type of an option's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionType {
    /// `true` or `false`.
    Bool,
    /// An integer, 0 or more.
    Int,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text; in quotes or brackets if it contains `,` or `}`.
    Text,
    /// The same, or `@FILE` for the contents of a file.
    Source,
    /// Names of functions of the module, separated by spaces. Names other than the default must
    /// exist.
    Functions,
}

impl fmt::Display for OptionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionType::Bool => f.write_str("true|false"),
            OptionType::Int => f.write_str("int"),
            OptionType::Choice(words) => f.write_str(&words.join("|")),
            OptionType::Text => f.write_str("text"),
            OptionType::Source => f.write_str("text|@FILE"),
            OptionType::Functions => f.write_str("functions"),
        }
    }
}

/// An option of a pass.
#[derive(Clone, Copy, Debug)]
pub struct OptionDef {
    /// Its name, in kebab case.
    pub name: &'static str,
    /// The type of its value.
    pub ty: OptionType,
    /// Its default, in the syntax of pipelines.
    pub default: &'static str,
    /// A one-line description.
    pub doc: &'static str,
}

/// A pass.
#[derive(Clone, Copy)]
pub struct PassDef {
    /// Its name, in kebab case.
    pub name: &'static str,
    /// A one-line description.
    pub doc: &'static str,
    /// Its options.
    pub options: &'static [OptionDef],
    /// Its contract.
    pub contract: Contract,
    /// The implementation. The module may be partially rewritten when it returns an error.
    pub run: fn(&mut PassCx<'_>) -> Result<(), Diagnostics>,
}

impl fmt::Debug for PassDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PassDef({})", self.name)
    }
}

/// The value of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionValue {
    /// Of [`OptionType::Bool`].
    Bool(bool),
    /// Of [`OptionType::Int`].
    Int(u64),
    /// Of all others.
    Text(String),
}

impl OptionValue {
    /// Parses a value; `None` if it does not have the type.
    pub fn parse(ty: OptionType, text: &str) -> Option<OptionValue> {
        Some(match ty {
            OptionType::Bool => OptionValue::Bool(text.parse().ok()?),
            OptionType::Int => OptionValue::Int(text.parse().ok()?),
            OptionType::Choice(words) => {
                OptionValue::Text(words.iter().find(|w| **w == text)?.to_string())
            }
            OptionType::Text | OptionType::Source | OptionType::Functions => {
                OptionValue::Text(text.to_owned())
            }
        })
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Bool(b) => write!(f, "{b}"),
            OptionValue::Int(i) => write!(f, "{i}"),
            OptionValue::Text(s)
                if s.contains([',', '{', '}', '(', ')', '=', ' ', '"', '\'']) || s.is_empty() =>
            {
                let quote = if s.contains('"') { '\'' } else { '"' };
                write!(f, "{quote}{s}{quote}")
            }
            OptionValue::Text(s) => f.write_str(s),
        }
    }
}

/// The options of a run of a pass, complete and in the order of the declarations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    pub(crate) values: Vec<(&'static str, OptionValue)>,
    /// The spans of the values in the pipeline's text; [`Span::NONE`] for defaults.
    pub(crate) places: Vec<Span>,
}

impl Options {
    /// Returns the defaults of a pass.
    pub fn defaults(pass: &PassDef) -> Options {
        let value = |o: &OptionDef| {
            let value = OptionValue::parse(o.ty, o.default);
            (o.name, value.expect("a default fits its option"))
        };
        Options {
            values: pass.options.iter().map(value).collect(),
            places: vec![Span::NONE; pass.options.len()],
        }
    }
    /// Iterates over all options, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (&'static str, OptionValue)> {
        self.values.iter()
    }
    /// Returns the span of an option's value in the pipeline's text; [`Span::NONE`] for a default.
    pub fn place(&self, name: &str) -> Span {
        let found = self.values.iter().position(|v| v.0 == name);
        found.map_or(Span::NONE, |i| self.places[i])
    }
    fn get(&self, name: &str) -> &OptionValue {
        let found = self.values.iter().find(|v| v.0 == name);
        &found
            .unwrap_or_else(|| panic!("the pass declares no option `{name}`"))
            .1
    }
    /// Returns an option declared as [`OptionType::Bool`].
    pub fn flag(&self, name: &str) -> bool {
        match self.get(name) {
            OptionValue::Bool(b) => *b,
            other => panic!("option `{name}` is no truth value: {other}"),
        }
    }
    /// Returns an option declared as [`OptionType::Int`].
    pub fn int(&self, name: &str) -> u64 {
        match self.get(name) {
            OptionValue::Int(i) => *i,
            other => panic!("option `{name}` is no integer: {other}"),
        }
    }
    /// Returns the names in an option declared as [`OptionType::Functions`].
    pub fn functions(&self, name: &str) -> Vec<Symbol> {
        let names = self.text(name).split_whitespace();
        names.map(|n| Symbol::from(bare(n))).collect()
    }
    /// Reports functions that options name and the module does not have.
    pub(crate) fn unknown_functions(&self, pass: &PassDef, m: &Module) -> Diagnostics {
        let mut errors = Diagnostics::new();
        for (o, (_, value)) in pass.options.iter().zip(&self.values) {
            let OptionValue::Text(text) = value else {
                continue;
            };
            if o.ty != OptionType::Functions || text == o.default {
                continue;
            }
            for name in text.split_whitespace().map(bare) {
                if m.global(name).is_none() {
                    errors.push(unknown_function(pass, (o, self.place(o.name)), name, m));
                }
            }
        }
        errors
    }
    /// Returns an option declared as [`OptionType::Choice`] or [`OptionType::Text`].
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            OptionValue::Text(s) => s,
            other => panic!("option `{name}` is no text: {other}"),
        }
    }
}

/// Returns the name of a function without its sigil.
fn bare(name: &str) -> &str {
    name.trim_start_matches('@')
}

fn unknown_function(
    pass: &PassDef,
    (option, place): (&OptionDef, Span),
    name: &str,
    m: &Module,
) -> Diagnostic {
    let message = format!(
        "the option `{}` of `{}` names @{name}, which the module does not have",
        option.name, pass.name
    );
    let own = m.globals.values().filter(|g| !g.prelude);
    let names: Vec<&str> = own.map(|g| g.name.as_str()).collect();
    let d = Diagnostic::error(codes::UNKNOWN_FUNCTION, place, message);
    match did_you_mean(name, names.iter().copied()) {
        Some(near) => d.note(format!("did you mean `{near}`?")),
        None if names.is_empty() => d.note("it has no functions"),
        None => d.note(format!("it has @{}", names.join(", @"))),
    }
}

/// A pass with its options.
#[derive(Clone, Debug)]
pub struct PassRun {
    /// The pass.
    pub pass: &'static PassDef,
    /// Its options, complete.
    pub options: Options,
}

impl fmt::Display for PassRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pass.name)?;
        let all: Vec<String> = self
            .options
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        if all.is_empty() {
            Ok(())
        } else {
            write!(f, "{{{}}}", all.join(","))
        }
    }
}

/// Converts `FuseOps`, `fuse_ops` and `Conv2D` to the spelling used here: `fuse-ops`, `conv2d`.
pub(crate) fn kebab(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let before = i.checked_sub(1).map(|k| chars[k]);
        let lower_after = chars.get(i + 1).is_some_and(|n| n.is_lowercase());
        let begins = c.is_uppercase()
            && before.is_some_and(|b| b.is_lowercase() || b.is_uppercase() && lower_after);
        if begins {
            out.push('-');
        }
        match c {
            '_' => out.push('-'),
            c => out.extend(c.to_lowercase()),
        }
    }
    out
}

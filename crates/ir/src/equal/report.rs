//! Differences: their messages, and the path to their position.

use std::fmt;

use super::{Check, Comparer, Pair};
use crate::{ExprId, VarId};

/// A step from an expression to an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Callee,
    Arg(u32),
    Field(u32),
    Tuple,
    Value(VarId),
    LetBody,
    Cond,
    Then,
    Else,
    Scrutinee,
    Clause(u32),
    FuncBody,
    Ref,
    Written,
}

/// The first difference between two modules.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// A description of the difference.
    pub what: String,
    /// The definition that contains the difference, `@main`; empty for the module as a whole.
    pub item: String,
    /// The path from the definition to the expression, outermost step first, as text; long paths
    /// keep their last steps.
    pub path: Vec<String>,
    /// The expression on the left side, if the difference is in one.
    pub left: Option<ExprId>,
    /// The expression on the right side.
    pub right: Option<ExprId>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.item.is_empty() {
            write!(f, "\n  in {}", self.item)?;
        }
        if !self.path.is_empty() {
            write!(f, "\n  at {}", self.path.join(" → "))?;
        }
        Ok(())
    }
}

/// The path by which a pair of expressions was reached.
pub(super) struct Trail {
    pub(super) parent: u32,
    pub(super) step: Step,
}

pub(super) const ROOT: u32 = u32::MAX;

impl Comparer<'_> {
    pub(super) fn difference(&self, what: &str, at: Option<&Pair>) -> Box<Difference> {
        let mut path = Vec::new();
        let mut trail = at.map_or(ROOT, |p| p.trail);
        const KEEP: usize = 12;
        while trail != ROOT {
            let t = &self.trail[trail as usize];
            if path.len() == KEEP {
                path.push("…".to_owned());
                break;
            }
            path.push(self.show_step(t.step));
            trail = t.parent;
        }
        path.reverse();
        Box::new(Difference {
            what: what.to_owned(),
            item: self.item.clone(),
            path,
            left: at.map(|p| p.a),
            right: at.map(|p| p.b),
        })
    }

    pub(super) fn show_step(&self, step: Step) -> String {
        match step {
            Step::Callee => "callee".into(),
            Step::Arg(i) => format!("argument {i}"),
            Step::Field(i) => format!("field {i}"),
            Step::Tuple => "tuple".into(),
            Step::Value(v) => format!("value of %{}", self.a.vars[v].name),
            Step::LetBody => "what follows".into(),
            Step::Cond => "condition".into(),
            Step::Then => "then".into(),
            Step::Else => "else".into(),
            Step::Scrutinee => "matched value".into(),
            Step::Clause(i) => format!("clause {i}"),
            Step::FuncBody => "function body".into(),
            Step::Ref => "reference".into(),
            Step::Written => "written value".into(),
        }
    }

    pub(super) fn differ(&self, what: &str) -> Check {
        Err(self.difference(what, None))
    }

    pub(super) fn differ_at(&self, what: &str, at: Option<&Pair>) -> Check {
        Err(self.difference(what, at))
    }
}

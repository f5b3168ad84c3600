//! The children of statements: the one place that knows which statements contain others, and which
//! expressions are a statement's own.

use crate::{Ex, Program, Stage, Stmt};

impl Stmt {
    /// Returns the nested blocks, in order; empty ones where there are fewer than two.
    pub fn bodies(&self) -> [&[Stmt]; 2] {
        match self {
            Stmt::For { body, .. } | Stmt::While { body, .. } | Stmt::Init { body, .. } => {
                [body, &[]]
            }
            Stmt::If {
                then, otherwise, ..
            } => [then, otherwise],
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Alloc { .. } | Stmt::Assert { .. } => {
                [&[], &[]]
            }
        }
    }

    /// Returns the expressions of the statement itself, in order of evaluation; not those of nested
    /// blocks.
    pub fn exprs(&self) -> impl Iterator<Item = &Ex> {
        let (first, list, last): (Option<&Ex>, &[Ex], Option<&Ex>) = match self {
            Stmt::For { extent: e, .. }
            | Stmt::While { cond: e, .. }
            | Stmt::If { cond: e, .. }
            | Stmt::Let { value: e, .. } => (Some(e), &[], None),
            Stmt::Store { index, value, .. } => (None, index, Some(value)),
            Stmt::Assert { cond, values, .. } => (Some(cond), values, None),
            Stmt::Alloc { .. } | Stmt::Init { .. } => (None, &[], None),
        };
        first.into_iter().chain(list).chain(last)
    }

    /// The same expressions, mutable.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Ex> {
        let (first, list, last): (Option<&mut Ex>, &mut [Ex], Option<&mut Ex>) = match self {
            Stmt::For { extent: e, .. }
            | Stmt::While { cond: e, .. }
            | Stmt::If { cond: e, .. }
            | Stmt::Let { value: e, .. } => (Some(e), &mut [], None),
            Stmt::Store { index, value, .. } => (None, index, Some(value)),
            Stmt::Assert { cond, values, .. } => (Some(cond), values, None),
            Stmt::Alloc { .. } | Stmt::Init { .. } => (None, &mut [], None),
        };
        first.into_iter().chain(list).chain(last)
    }
}

/// Returns all statements of a block, with nested ones directly after their parents: the textual
/// order.
pub fn statements(body: &[Stmt]) -> Statements<'_> {
    Statements {
        work: vec![body.iter()],
    }
}

/// See [`statements`].
pub struct Statements<'s> {
    work: Vec<std::slice::Iter<'s, Stmt>>,
}

impl<'s> Iterator for Statements<'s> {
    type Item = &'s Stmt;
    fn next(&mut self) -> Option<&'s Stmt> {
        loop {
            let Some(stmt) = self.work.last_mut()?.next() else {
                self.work.pop();
                continue;
            };
            let [first, second] = stmt.bodies();
            for block in [second, first] {
                if !block.is_empty() {
                    self.work.push(block.iter());
                }
            }
            return Some(stmt);
        }
    }
}

impl Program {
    /// All statements of the loop nests among the stages.
    pub fn statements(&self) -> impl Iterator<Item = &Stmt> {
        self.stages.iter().flat_map(|stage| match stage {
            Stage::Nest(body) => statements(body),
            Stage::Compute(_) => statements(&[]),
        })
    }
}

impl Stage {
    /// Returns whether the stage only checks conditions that depend on no buffer's elements.
    pub fn is_guard(&self) -> bool {
        let Stage::Nest(body) = self else {
            return false;
        };
        body.iter().all(|s| {
            matches!(s, Stmt::Assert { .. })
                && s.exprs().all(|e| {
                    let mut free = true;
                    crate::visit_expr(e, |x| free &= !matches!(x.kind(), crate::ExKind::Load(..)));
                    free
                })
        })
    }
}

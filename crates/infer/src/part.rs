//! The part of a module that is typed again.

use relax_base::Id;
use relax_ir::{ExprId, Module, VarId};

use crate::typing::Typing;

/// The part of a module that a solver types.
#[derive(Debug)]
pub(crate) struct Part<'m> {
    /// The globals to type, by id.
    pub asked: Vec<bool>,
    /// The expressions in them, operands first.
    pub exprs: Vec<ExprId>,
    /// The variables that these expressions bind.
    pub vars: Vec<VarId>,
    /// Whether any function had effects before.
    pub had_effects: bool,
    /// The types of everything else.
    pub before: &'m Typing,
}

impl<'m> Part<'m> {
    pub fn new(m: &Module, asked: Vec<bool>, before: &'m Typing) -> Part<'m> {
        let (mut bodies, mut vars) = (Vec::new(), Vec::new());
        for (global, body) in m.global_bodies() {
            if asked[global.index()]
                && let Some(func) = m.global_func(global)
            {
                bodies.push(body);
                vars.extend(&m.funcs[func].params);
            }
        }
        let exprs = m.post_order(bodies);
        for &e in &exprs {
            m.for_each_bound(e, |v| vars.push(v));
        }
        let had_effects = m.funcs.ids().any(|f| !before.pure[f]);
        Part {
            asked,
            exprs,
            vars,
            had_effects,
            before,
        }
    }
}

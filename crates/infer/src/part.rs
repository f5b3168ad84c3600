//! The part of a module that is typed again.

use relax_base::Id;
use std::sync::Arc;

use relax_ir::{ExprId, FuncId, Module, Scopes, VarId};

use crate::typing::Typing;

/// The part of a module that a solver types.
#[derive(Debug)]
pub(crate) struct Part<'m> {
    /// The globals to type, by id.
    pub asked: Vec<bool>,
    /// The expressions in them, operands first. One that two functions share may be there twice.
    pub exprs: Vec<ExprId>,
    /// The variables that these expressions bind.
    pub vars: Vec<VarId>,
    /// Whether any function had effects before.
    pub had_effects: bool,
    /// The types of everything else.
    pub before: &'m Typing,
}

impl<'m> Part<'m> {
    /// `scopes` are those of functions for which they are known: they hold the expressions in
    /// order.
    pub fn new(
        m: &Module,
        asked: Vec<bool>,
        before: &'m Typing,
        scopes: impl Fn(FuncId) -> Option<Arc<Scopes>>,
    ) -> Part<'m> {
        let (mut bodies, mut vars, mut exprs) = (Vec::new(), Vec::new(), Vec::new());
        for (global, body) in m.global_bodies() {
            if asked[global.index()]
                && let Some(func) = m.global_func(global)
            {
                match scopes(func) {
                    Some(scopes) => exprs.extend(scopes.order().iter().rev()),
                    None => bodies.push(body),
                }
                vars.extend(&m.funcs[func].params);
            }
        }
        exprs.extend(m.post_order(bodies));
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

//! The part of a module that is typed again.

use relax_ir::Module;

use crate::typing::Typing;

/// The part of a module that a solver types.
#[derive(Debug)]
pub(crate) struct Part<'m> {
    /// The globals to type, by id.
    pub asked: Vec<bool>,
    /// Whether any function had effects before, or the walk came by anything by which one can have
    /// some.
    pub had_effects: bool,
    /// The types of everything else.
    pub before: &'m Typing,
}

impl<'m> Part<'m> {
    pub fn new(m: &Module, asked: Vec<bool>, before: &'m Typing) -> Part<'m> {
        Part {
            asked,
            had_effects: m.funcs.ids().any(|f| !before.pure[f]),
            before,
        }
    }
}

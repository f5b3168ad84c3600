//! Scopes that map names to the spans of their bindings.

use relax_base::{Span, Symbol};
use rustc_hash::FxHashMap;

use super::NameKind;

/// The length of the undo log when a scope was entered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(usize);

enum Undo {
    Local(Symbol, Option<Span>),
    Type(Symbol, Option<(NameKind, Span)>),
}

/// The bindings at a point of the traversal.
#[derive(Default)]
pub(super) struct Scope {
    locals: FxHashMap<Symbol, Span>,
    /// Free variables of an expression file: visible everywhere once used.
    free: FxHashMap<Symbol, Span>,
    types: FxHashMap<Symbol, (NameKind, Span)>,
    /// Graph variables, which are unscoped.
    graph: FxHashMap<u32, Span>,
    undo: Vec<Undo>,
}

impl Scope {
    pub(super) fn enter(&self) -> Mark {
        Mark(self.undo.len())
    }
    pub(super) fn leave(&mut self, mark: Mark) {
        for undo in self.undo.drain(mark.0..).rev() {
            match undo {
                Undo::Local(name, Some(old)) => drop(self.locals.insert(name, old)),
                Undo::Local(name, None) => drop(self.locals.remove(&name)),
                Undo::Type(name, Some(old)) => drop(self.types.insert(name, old)),
                Undo::Type(name, None) => drop(self.types.remove(&name)),
            }
        }
    }
    /// Leaves a dataflow block: dimensions bound in it stay in scope.
    pub(super) fn leave_keeping_types(&mut self, mark: Mark) {
        let kept: Vec<_> = (self.undo[mark.0..].iter())
            .filter_map(|u| match u {
                Undo::Type(name, _) => Some((*name, *self.types.get(name)?)),
                Undo::Local(..) => None,
            })
            .collect();
        self.leave(mark);
        for (name, what) in kept {
            self.bind_type(name, what);
        }
    }
    pub(super) fn bind_local(&mut self, name: Symbol, place: Span) {
        let old = self.locals.insert(name, place);
        self.undo.push(Undo::Local(name, old));
    }
    pub(super) fn bind_free(&mut self, name: Symbol, place: Span) {
        self.free.insert(name, place);
    }
    pub(super) fn bind_type(&mut self, name: Symbol, what: (NameKind, Span)) {
        let old = self.types.insert(name, what);
        self.undo.push(Undo::Type(name, old));
    }
    pub(super) fn bind_graph(&mut self, index: u32, place: Span) {
        self.graph.insert(index, place);
    }
    pub(super) fn local(&self, name: Symbol) -> Option<Span> {
        let found = self.locals.get(&name).or_else(|| self.free.get(&name));
        found.copied()
    }
    pub(super) fn type_name(&self, name: Symbol) -> Option<(NameKind, Span)> {
        self.types.get(&name).copied()
    }
    pub(super) fn graph(&self, index: u32) -> Option<Span> {
        self.graph.get(&index).copied()
    }
}

//! Lexical scopes.
//!
//! Names live in flat maps; entering a scope records the length of the undo log, leaving it replays
//! the log. Scopes allocate nothing.

use relax_base::Symbol;
use relax_ir::{ExprId, TypeParamId, VarId};
use relax_sym::DimVar;
use rustc_hash::FxHashMap;

/// The meaning of a bare name in a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TypeName {
    /// A type parameter.
    Param(TypeParamId),
    /// A dimension variable.
    Dim(DimVar),
}

/// The length of the undo log when a scope was entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u32);

enum Undo {
    Local(Symbol, Option<VarId>),
    Type(Symbol, Option<TypeName>),
}

/// A snapshot of the scope at a point of the traversal: the depth of the undo log, and the serial
/// number of its last entry.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Here {
    depth: u32,
    serial: u32,
}

/// The value of a graph variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Graph {
    pub value: ExprId,
    /// The index of the item that binds it.
    pub item: u32,
    /// The scope at its binding.
    pub here: Here,
}

/// The graph bindings. TVM numbers them from 0, so that nearly all are stored by index.
#[derive(Default)]
pub(crate) struct GraphBindings {
    dense: Vec<Option<Graph>>,
    /// Bindings with outlying indices.
    sparse: FxHashMap<u32, Graph>,
}

impl GraphBindings {
    /// Binds `%index`.
    pub(crate) fn bind(&mut self, index: u32, value: Graph) {
        let at = index as usize;
        if at < self.dense.len() {
            self.dense[at] = Some(value);
        } else if at <= 2 * self.dense.len() + 64 {
            self.dense.resize(at + 1, None);
            self.dense[at] = Some(value);
        } else {
            self.sparse.insert(index, value);
        }
    }
    /// Returns the binding of `%index`.
    pub(crate) fn get(&self, index: u32) -> Option<Graph> {
        match self.dense.get(index as usize) {
            Some(Some(value)) => Some(*value),
            _ => self.sparse.get(&index).copied(),
        }
    }
}

/// The scopes.
#[derive(Default)]
pub(crate) struct Scopes {
    locals: FxHashMap<Symbol, VarId>,
    types: FxHashMap<Symbol, TypeName>,
    undo: Vec<Undo>,
    /// A serial number for each entry of `undo`.
    serials: Vec<u32>,
    last: u32,
}

impl Scopes {
    /// Returns a snapshot of the current scope.
    pub(crate) fn here(&self) -> Here {
        Here {
            depth: self.undo.len() as u32,
            serial: self.serials.last().copied().unwrap_or(0),
        }
    }
    /// Returns whether everything in scope at the snapshot is still in scope.
    pub(crate) fn holds(&self, here: Here) -> bool {
        let Some(last) = here.depth.checked_sub(1) else {
            return true;
        };
        self.serials.get(last as usize) == Some(&here.serial)
    }
    fn note(&mut self, undo: Undo) {
        self.last = self.last.wrapping_add(1);
        self.serials.push(self.last);
        self.undo.push(undo);
    }
    /// Enters a scope.
    pub(crate) fn enter(&self) -> Mark {
        Mark(self.undo.len() as u32)
    }
    /// Leaves the scope entered at `mark`, and all nested ones.
    pub(crate) fn leave(&mut self, mark: Mark) {
        while self.undo.len() > mark.0 as usize {
            match self.undo.pop() {
                Some(Undo::Local(name, Some(old))) => {
                    self.locals.insert(name, old);
                }
                Some(Undo::Local(name, None)) => {
                    self.locals.remove(&name);
                }
                Some(Undo::Type(name, Some(old))) => {
                    self.types.insert(name, old);
                }
                Some(Undo::Type(name, None)) => {
                    self.types.remove(&name);
                }
                None => {}
            }
        }
        self.serials.truncate(self.undo.len());
    }
    /// Leaves a scope but keeps the dimension variables bound in it (for a dataflow block).
    pub(crate) fn leave_keeping_dims(&mut self, mark: Mark) {
        let kept: Vec<(Symbol, TypeName)> = self.undo[mark.0 as usize..]
            .iter()
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
    /// Binds a local variable.
    pub(crate) fn bind(&mut self, name: Symbol, var: VarId) {
        let old = self.locals.insert(name, var);
        self.note(Undo::Local(name, old));
    }
    /// Binds a name in types.
    pub(crate) fn bind_type(&mut self, name: Symbol, what: TypeName) {
        let old = self.types.insert(name, what);
        self.note(Undo::Type(name, old));
    }
    /// Returns the local variable of this name.
    pub(crate) fn local(&self, name: Symbol) -> Option<VarId> {
        self.locals.get(&name).copied()
    }
    /// Returns the meaning of a name in types.
    pub(crate) fn type_name(&self, name: Symbol) -> Option<TypeName> {
        if self.types.is_empty() {
            return None;
        }
        self.types.get(&name).copied()
    }
    /// Iterates over the names of all locals in scope, in no particular order.
    pub(crate) fn local_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.locals.keys().map(|s| s.as_str())
    }
    /// Iterates over the names bound in types, in no particular order.
    pub(crate) fn type_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.types.keys().map(|s| s.as_str())
    }
}

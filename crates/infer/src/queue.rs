//! Relations that wait or are ready to run, as data: [`crate::relations`] runs them.

use std::collections::VecDeque;

use relax_ir::{AttrsId, ExprId, OpId, RelId, RelRef, TypeId};
use relax_sym::Dim;

use crate::subst::Subst;

/// The kinds of relations.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RelKind {
    /// The relation of a built-in operator, with its attributes.
    Op(OpId, AttrsId),
    /// A relation by name.
    Builtin(relax_base::Symbol),
    /// A `rel` item.
    User(RelId),
    /// A field of a tuple whose type is not known yet.
    Proj(u32),
    /// Equality of two dimensions in which no unknown can be isolated yet.
    DimEq(Dim, Dim),
    /// The result of a recursive call of a polymorphic function without result annotation: the only
    /// argument is the result type inside the function.
    Instance(Box<Subst>),
}

/// The state of a relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Queued,
    Waiting,
    Done,
}

/// A relation that did not conclude at once.
#[derive(Clone, Debug)]
pub(crate) struct Rel {
    pub kind: RelKind,
    pub args: Box<[TypeId]>,
    pub out: TypeId,
    /// The call that it belongs to.
    pub call: ExprId,
    pub state: State,
}

impl From<RelRef> for RelKind {
    fn from(rel: RelRef) -> RelKind {
        match rel {
            RelRef::User(id) => RelKind::User(id),
            RelRef::Builtin(name) => RelKind::Builtin(name),
            RelRef::Op(op, attrs) => RelKind::Op(op, attrs),
        }
    }
}

/// All relations, and the queue of those to run.
#[derive(Default)]
pub(crate) struct Queue {
    pub rels: Vec<Rel>,
    /// The relations that may make progress, in the order in which they run.
    pub ready: VecDeque<u32>,
}

impl Queue {
    /// Adds a relation and schedules it.
    pub fn add(&mut self, kind: RelKind, args: Box<[TypeId]>, out: TypeId, call: ExprId) -> u32 {
        let id = u32::try_from(self.rels.len()).expect("fewer than 2^32 relations");
        self.rels.push(Rel {
            kind,
            args,
            out,
            call,
            state: State::Queued,
        });
        self.ready.push_back(id);
        id
    }

    /// Schedules a waiting relation again.
    pub fn wake(&mut self, rel: u32) {
        let r = &mut self.rels[rel as usize];
        if r.state == State::Waiting {
            r.state = State::Queued;
            self.ready.push_back(rel);
        }
    }
}

//! The relations that wait or are to run, as data: [`crate::relations`] runs them.

use std::collections::VecDeque;

use relax_ir::{AttrsId, ExprId, OpId, RelId, RelRef, TypeId};
use relax_sym::Dim;

use crate::subst::Subst;

/// Which relation.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RelKind {
    /// The relation of a built-in operator, with its attributes.
    Op(OpId, AttrsId),
    /// A relation by name.
    Builtin(relax_base::Symbol),
    /// A `rel` item.
    User(RelId),
    /// A field of a tuple that is not known yet.
    Proj(u32),
    /// Two dimensions of which no unknown can be isolated yet.
    DimEq(Dim, Dim),
    /// The result of a recursive call of a polymorphic function whose result is not annotated:
    /// the one argument is the result type in the function itself.
    Instance(Box<Subst>),
}

/// What became of a relation.
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
    /// The call it belongs to.
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

/// The relations, and which of them are to run.
#[derive(Default)]
pub(crate) struct Queue {
    pub rels: Vec<Rel>,
    /// Those that may have more to say, in the order in which they run.
    pub ready: VecDeque<u32>,
}

impl Queue {
    /// Adds a relation, which is to run.
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

    /// Lets a waiting relation run again.
    pub fn wake(&mut self, rel: u32) {
        let r = &mut self.rels[rel as usize];
        if r.state == State::Waiting {
            r.state = State::Queued;
            self.ready.push_back(rel);
        }
    }
}

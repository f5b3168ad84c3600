//! Which of two function types may stand for the other.
//!
//! A polymorphic function can be used where a monomorphic one is needed: its parameters become
//! unknowns, which the use solves. It is never the other way round: a function that is needed at
//! every type cannot be one of `float32`. There the parameters become unknowns too, because a
//! literal without annotations may turn out to be polymorphic, but nothing may solve them.

use relax_ir::TypeId;

use crate::subst::Subst;
use crate::unknown::Site;

/// How values pass between two types that meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Way {
    /// A value of the first type is used as one of the second.
    Into,
    /// A value of the second type is used as one of the first, as arguments of functions are.
    From,
    /// In both directions: contents of reference cells.
    Both,
    /// Values of either type come out of one expression, whose type is that of both joined.
    Join,
}

impl Way {
    /// The way between the parameters of two functions.
    pub fn of_params(self) -> Way {
        match self {
            Way::Into => Way::From,
            Way::From => Way::Into,
            Way::Both | Way::Join => Way::Both,
        }
    }

    /// Returns whether the first type has to hold for every value of its parameters.
    pub fn keeps_first(self) -> bool {
        matches!(self, Way::From | Way::Both)
    }

    /// The same of the second type.
    pub fn keeps_second(self) -> bool {
        matches!(self, Way::Into | Way::Both)
    }
}

/// The unknowns of a polymorphic type for which a function stood that was not known to be
/// polymorphic.
pub(crate) struct Kept {
    pub unknowns: Subst,
    /// The two types, and where they met.
    pub clash: (TypeId, TypeId),
    pub whole: (TypeId, TypeId),
    pub site: Site,
}

//! The parts of a module that come from erroneous source text.

use relax_base::Span;
use rustc_hash::FxHashSet;

use crate::{AdtId, GlobalId, OpId, PatId, RelId};

/// The parts of a module that are unreliable because their source text has errors. Together with
/// [`Expr::Error`](crate::Expr::Error) and [`Type::Error`](crate::Type::Error) it records what was
/// already reported: code that depends on these parts is not checked, and everything else is.
///
/// Empty unless the module has errors.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    /// Globals of unknown type.
    pub globals: FxHashSet<GlobalId>,
    /// Data types whose list of constructors is unreliable.
    pub adts: FxHashSet<AdtId>,
    /// `op` items with an unknown signature.
    pub user_ops: FxHashSet<OpId>,
    /// `rel` items that may relate anything.
    pub relations: FxHashSet<RelId>,
    /// Patterns (tuples of the parts that parsed) that may match any value.
    pub patterns: FxHashSet<PatId>,
    /// Ranges of the source, in order, inside which a type error may be the consequence of another
    /// error.
    pub places: Vec<Span>,
}

impl Damage {
    /// Returns whether a position lies in a damaged range.
    pub fn covers(&self, place: Span) -> bool {
        let after = self.places.partition_point(|p| p.start <= place.start);
        let last = after.checked_sub(1).map(|i| self.places[i]);
        last.is_some_and(|p| place.end <= p.end) && !place.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_what_lies_inside() {
        let damage = Damage {
            places: vec![Span::new(10, 20), Span::new(30, 40)],
            ..Damage::default()
        };
        assert!(damage.covers(Span::new(10, 20)) && damage.covers(Span::new(35, 35)));
        assert!(!damage.covers(Span::new(20, 21)) && !damage.covers(Span::new(5, 12)));
        assert!(!damage.covers(Span::NONE));
    }
}

//! Parts of a module that stand for text with mistakes.

use relax_base::Span;
use rustc_hash::FxHashSet;

use crate::{AdtId, GlobalId, OpId, PatId, RelId};

/// What of a module is not what was written, because a mistake stands in its text. Together with
/// [`Expr::Error`](crate::Expr::Error) and [`Type::Error`](crate::Type::Error) it says what was
/// reported already: whatever depends on these parts is not judged, and everything else is.
///
/// Only a module with errors has any.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    /// Globals of whose type nothing is known.
    pub globals: FxHashSet<GlobalId>,
    /// Data types whose constructors may be others than those that are there.
    pub adts: FxHashSet<AdtId>,
    /// `op` items of whose signature nothing is known.
    pub user_ops: FxHashSet<OpId>,
    /// `rel` items that may hold of anything.
    pub relations: FxHashSet<RelId>,
    /// Patterns (tuples of what could be read of them) that may be for any value.
    pub patterns: FxHashSet<PatId>,
    /// Stretches of the text, in order, inside which a mistake of types may be the consequence of
    /// another one.
    pub places: Vec<Span>,
}

impl Damage {
    /// Returns whether a place lies in a damaged stretch of the text.
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

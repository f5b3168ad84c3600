//! The sub-expressions of a node, iterated without allocating a list, since most analyses walk
//! whole expressions.

use crate::Ex;

/// The direct sub-expressions of a node, in order.
#[derive(Clone, Debug)]
pub struct Children<'e> {
    /// The indices of a load.
    index: &'e [Ex],
    /// The operands of anything else.
    few: [&'e Ex; 3],
    from: usize,
    to: usize,
}

impl<'e> Children<'e> {
    /// The first `count` of `index`, or where that is empty of `few`.
    pub(crate) fn of(index: &'e [Ex], few: [&'e Ex; 3], count: usize) -> Children<'e> {
        let (from, to) = (0, count);
        Children {
            index,
            few,
            from,
            to,
        }
    }

    /// Returns whether there are none (left).
    pub fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    fn at(&self, k: usize) -> Option<&'e Ex> {
        match self.index {
            [] => self.few.get(k).copied(),
            index => index.get(k),
        }
    }
}

impl<'e> Iterator for Children<'e> {
    type Item = &'e Ex;

    fn next(&mut self) -> Option<&'e Ex> {
        if self.from >= self.to {
            return None;
        }
        self.from += 1;
        self.at(self.from - 1)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.to.saturating_sub(self.from);
        (left, Some(left))
    }
}

impl DoubleEndedIterator for Children<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.from >= self.to {
            return None;
        }
        self.to -= 1;
        self.at(self.to)
    }
}

impl ExactSizeIterator for Children<'_> {}

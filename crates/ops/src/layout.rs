//! Data layouts: which axis of a tensor means what.
//!
//! A layout is a word: capital letters are axes (`NCHW`), a number with a small letter is an inner
//! block of the axis of the same letter, of that extent (`NCHW16c`: channel `C * 16 + c`).

use relax_loops::Ex;
use relax_sym::Dim;

/// One axis of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Its letter as written: a capital for an outer axis, a small one for an inner block.
    pub letter: char,
    /// The extent of an inner part; 0 for an outer axis.
    pub factor: i64,
}

/// A parsed layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    axes: Vec<Axis>,
}

impl Layout {
    /// Parses a layout. `None` when the word is not one: a letter twice, an inner block without its
    /// outer axis or without an extent.
    pub fn parse(text: &str) -> Option<Layout> {
        let mut axes: Vec<Axis> = Vec::new();
        let mut factor: i64 = 0;
        for c in text.chars() {
            if let Some(d) = c.to_digit(10) {
                factor = factor.checked_mul(10)?.checked_add(d.into())?;
                continue;
            }
            let fits = if c.is_ascii_uppercase() {
                factor == 0
            } else {
                c.is_ascii_lowercase() && factor > 0
            };
            if !fits || axes.iter().any(|a| a.letter == c) {
                return None;
            }
            axes.push(Axis { letter: c, factor });
            factor = 0;
        }
        let whole = |a: &Axis| {
            axes.iter()
                .any(|b| b.letter == a.letter.to_ascii_uppercase())
        };
        (factor == 0 && !axes.is_empty() && axes.iter().all(whole))
            .then_some(Layout { axes: axes.clone() })
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.axes.len()
    }
    /// All axes, in order.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }
    /// Returns the position of an axis.
    pub fn position(&self, letter: char) -> Option<usize> {
        self.axes.iter().position(|a| a.letter == letter)
    }
    /// Returns the extent of the inner block of an outer axis; 1 without one.
    pub fn factor(&self, outer: char) -> i64 {
        let inner = outer.to_ascii_lowercase();
        self.axes
            .iter()
            .find(|a| a.letter == inner)
            .map_or(1, |a| a.factor)
    }
    /// Returns whether both have the same outer axes.
    pub fn convertible(&self, other: &Layout) -> bool {
        let outer = |l: &Layout| {
            let mut o: Vec<char> = l
                .axes
                .iter()
                .filter(|a| a.factor == 0)
                .map(|a| a.letter)
                .collect();
            o.sort_unstable();
            o
        };
        outer(self) == outer(other)
    }
    /// Returns the extents in `to` of a tensor whose extents in `self` are `dims`. The layouts must
    /// be convertible and `dims` have `self`'s rank.
    pub fn convert_dims(&self, to: &Layout, dims: &[Dim]) -> Vec<Dim> {
        to.axes
            .iter()
            .map(|a| {
                if a.factor > 0 {
                    return Dim::from(a.factor);
                }
                let at = self.position(a.letter).expect("layouts are convertible");
                let whole = &dims[at] * &Dim::from(self.factor(a.letter));
                whole.floordiv(&Dim::from(to.factor(a.letter)))
            })
            .collect()
    }
    /// Like [`Layout::convert_dims`], for the extents of tensor programs.
    pub fn convert_extents(&self, to: &Layout, dims: &[Ex]) -> Vec<Ex> {
        to.axes
            .iter()
            .map(|a| {
                if a.factor > 0 {
                    return Ex::idx(a.factor);
                }
                let at = self.position(a.letter).expect("layouts are convertible");
                (&dims[at] * self.factor(a.letter)).floor_div(to.factor(a.letter))
            })
            .collect()
    }
    /// Returns the index in `self` of the element at `index` in `from`.
    pub fn index_from(&self, from: &Layout, index: &[Ex]) -> Vec<Ex> {
        let part = |letter: char| from.position(letter).map(|p| index[p].clone());
        self.axes
            .iter()
            .map(|a| {
                let outer = a.letter.to_ascii_uppercase();
                let inner = outer.to_ascii_lowercase();
                let mut whole = part(outer).expect("layouts are convertible");
                let (mine, theirs) = (self.factor(outer), from.factor(outer));
                if mine == theirs && mine > 1 {
                    return if a.factor > 0 {
                        part(inner).expect("has a factor")
                    } else {
                        whole
                    };
                }
                if let Some(i) = part(inner) {
                    whole = whole * theirs + i;
                }
                if a.factor > 0 {
                    whole.floor_mod(mine)
                } else {
                    whole.floor_div(mine)
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_layouts() {
        for ok in ["NCHW", "NCHW16c", "OIHW4i16o", "C", "NHWC8c"] {
            assert!(Layout::parse(ok).is_some(), "{ok}");
        }
        for bad in ["", "NN", "NCHWc", "NHW4c", "4NCHW", "NCHW4"] {
            assert!(Layout::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn converts_extents_and_indices() {
        let (a, b) = (Layout::parse("NHWC"), Layout::parse("NCHW4c"));
        let (Some(a), Some(b)) = (a, b) else {
            unreachable!()
        };
        let dims: Vec<Dim> = [1, 5, 6, 8].map(Dim::from).into();
        let there = a.convert_dims(&b, &dims);
        assert_eq!(there, [1, 2, 5, 6, 4].map(Dim::from));
        assert_eq!(b.convert_dims(&a, &there), dims);
        let index = [0, 1, 2, 3, 2].map(Ex::idx);
        let back = a.index_from(&b, &index);
        assert_eq!(back, [0, 2, 3, 6].map(Ex::idx));
    }
}

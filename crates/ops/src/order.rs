//! Tensors with permuted axes: the axis orders that `convert-layout` propagates, and the interface
//! by which operators declare that they support them.

use std::ops::Range;

use relax_ir::Attrs;
use relax_sym::Dim;

use crate::{Axis, Layout};

/// An axis of the reordered tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The axis of the tensor in the program's original order.
    pub axis: usize,
    /// The extent of an inner block of that axis; 0 for the axis itself, or its outer part.
    pub inner: i64,
}

/// A permutation of a tensor's axes: `NCHW` that became `NHWC4c` has the parts 0, 2, 3, 1 and the
/// inner 4 of 1.
///
/// Two orders are equal when they permute axes alike, regardless of the axes' names.
#[derive(Clone, Debug)]
pub struct Order {
    /// The names of the axes in the original order: capitals, for `layout_transform`.
    names: Vec<char>,
    parts: Vec<Part>,
}

impl PartialEq for Order {
    fn eq(&self, other: &Order) -> bool {
        self.parts == other.parts && self.rank() == other.rank()
    }
}
impl Eq for Order {}

impl Order {
    /// Returns the order from one layout to another. `None` when the first has inner blocks or the
    /// two have different axes.
    pub fn between(old: &Layout, new: &Layout) -> Option<Order> {
        let plain = old.axes().iter().all(|a| a.factor == 0);
        if !plain || !old.convertible(new) {
            return None;
        }
        let part = |a: &Axis| {
            let axis = old.position(a.letter.to_ascii_uppercase())?;
            Some(Part {
                axis,
                inner: a.factor,
            })
        };
        Some(Order {
            names: old.axes().iter().map(|a| a.letter).collect(),
            parts: new.axes().iter().map(part).collect::<Option<_>>()?,
        })
    }

    /// Returns the identity order of a tensor of that rank; `None` where letters run out.
    pub fn still(rank: usize) -> Option<Order> {
        let letters: String = ('A'..='Z').take(rank).collect();
        let layout = Layout::parse(&letters).filter(|l| l.rank() == rank)?;
        Order::between(&layout, &layout)
    }

    /// Number of axes of the tensor as the program wrote it.
    pub fn rank(&self) -> usize {
        self.names.len()
    }
    /// Returns the axes in their current order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
    /// Returns the order, or `None` when it moves nothing.
    pub fn moved(self) -> Option<Order> {
        let still = |(i, p): (usize, &Part)| p.axis == i && p.inner == 0;
        let all = self.parts.len() == self.rank() && self.parts.iter().enumerate().all(still);
        (!all).then_some(self)
    }
    /// Returns whether an axis was split into an outer and an inner part.
    pub fn is_split(&self, axis: usize) -> bool {
        self.parts.iter().any(|p| p.axis == axis && p.inner > 0)
    }
    /// Returns the current position of an axis; `None` when it was split.
    pub fn place(&self, axis: usize) -> Option<usize> {
        if self.is_split(axis) {
            return None;
        }
        self.parts.iter().position(|p| p.axis == axis)
    }
    /// Returns the current positions of an axis, or of its two parts.
    pub fn places(&self, axis: usize) -> Vec<usize> {
        let here = |(i, p): (usize, &Part)| (p.axis == axis).then_some(i);
        self.parts.iter().enumerate().filter_map(here).collect()
    }
    /// Returns whether a tensor of these extents (in the original order) can be reordered so: inner
    /// blocks must divide their axes.
    pub fn fits(&self, dims: &[Dim]) -> bool {
        let divides = |p: &Part| {
            let whole = dims[p.axis].as_const();
            p.inner == 0 || whole.is_some_and(|d| d % p.inner == 0)
        };
        dims.len() == self.rank() && self.parts.iter().all(divides)
    }
    /// Returns the order for an operand that broadcasts along axes of extent 1: these have inner
    /// blocks of 1.
    pub fn broadcasting(&self, dims: &[Dim]) -> Order {
        let part = |p: &Part| match dims[p.axis].as_const() {
            Some(1) if p.inner > 0 => Part { inner: 1, ..*p },
            _ => *p,
        };
        Order {
            names: self.names.clone(),
            parts: self.parts.iter().map(part).collect(),
        }
    }
    /// Returns the order of the remaining axes when axes are removed.
    pub fn without(&self, gone: &[usize]) -> Order {
        let stays = |a: usize| !gone.contains(&a);
        let number = |a: usize| a - gone.iter().filter(|g| **g < a).count();
        let left = |p: &&Part| stays(p.axis);
        let part = |p: &Part| Part {
            axis: number(p.axis),
            ..*p
        };
        let names = self.names.iter().enumerate();
        Order {
            names: names.filter(|n| stays(n.0)).map(|n| *n.1).collect(),
            parts: self.parts.iter().filter(left).map(part).collect(),
        }
    }
    /// Returns the order of a tensor whose axis `i` was axis `axes[i]`, with the elements unmoved.
    pub fn after_transpose(&self, axes: &[usize]) -> Option<Order> {
        let part = |p: &Part| {
            let axis = axes.iter().position(|a| *a == p.axis)?;
            Some(Part { axis, ..*p })
        };
        Some(Order {
            names: axes
                .iter()
                .map(|a| self.names.get(*a).copied())
                .collect::<Option<_>>()?,
            parts: self.parts.iter().map(part).collect::<Option<_>>()?,
        })
    }
    /// Returns the order of a tensor of other extents with the same elements in the program's order,
    /// with the elements unmoved. `None` where axes that become others do not lie beside each other, in
    /// their order.
    pub fn after_reshape(&self, old: &[Dim], new: &[Dim]) -> Option<Order> {
        if old.len() != self.rank() || self.parts.iter().any(|p| p.inner > 0) {
            return None;
        }
        let mut parts = Vec::new();
        // Runs of axes that become runs of others, each with where its first axis lies.
        let runs = self.runs_in_order(old, new)?;
        for run in &runs {
            let long = run.0.clone().filter(|&a| old[a] != Dim::ONE);
            let mut lies = self.parts.iter().filter(|p| old[p.axis] != Dim::ONE);
            if let Some(first) = long.clone().next() {
                lies.by_ref().find(|p| p.axis == first)?;
                if !long
                    .skip(1)
                    .all(|a| lies.next().is_some_and(|p| p.axis == a))
                {
                    return None;
                }
            }
        }
        for (_, made) in runs {
            parts.extend(made.map(|axis| Part { axis, inner: 0 }));
        }
        let names = Order::still(new.len())?.names;
        Some(Order { names, parts })
    }
    /// Returns the closest order in which axes that a reshaping makes others of lie beside each other, in
    /// their order: that of the first of them.
    pub fn beside(&self, old: &[Dim], new: &[Dim]) -> Option<Order> {
        if old.len() != self.rank() || self.parts.iter().any(|p| p.inner > 0) {
            return None;
        }
        let parts = self.runs_in_order(old, new)?.into_iter();
        let parts = parts.flat_map(|run| run.0.map(|axis| Part { axis, inner: 0 }));
        Some(Order {
            names: self.names.clone(),
            parts: parts.collect(),
        })
    }
    /// Returns the runs of axes that become runs of others in the order in which their first axes lie.
    fn runs_in_order(&self, old: &[Dim], new: &[Dim]) -> Option<Vec<Runs>> {
        let mut runs = reshaped_runs(old, new)?;
        runs.sort_by_key(|run| {
            let long = run.0.clone().find(|&a| old[a] != Dim::ONE);
            long.or_else(|| run.0.clone().next())
                .and_then(|a| self.place(a))
        });
        Some(runs)
    }
    /// Returns the layout attribute for a tensor in this order.
    pub fn apply(&self, layout: &Layout) -> Option<String> {
        let axes = layout.axes();
        if axes.len() != self.rank() || axes.iter().any(|a| a.factor > 0) {
            return None;
        }
        Some(self.word(&axes.iter().map(|a| a.letter).collect::<Vec<_>>()))
    }
    /// Returns the attributes of the `layout_transform` from one order to another of the same
    /// tensor; `None` is the original order.
    pub fn transform(from: Option<&Order>, to: Option<&Order>) -> Option<(String, String)> {
        let names = &from.or(to)?.names;
        let word = |o: Option<&Order>| match o {
            Some(o) => o.word(names),
            None => names.iter().collect(),
        };
        Some((word(from), word(to)))
    }

    fn word(&self, names: &[char]) -> String {
        let mut text = String::new();
        for p in &self.parts {
            match p.inner {
                0 => text.push(names[p.axis]),
                n => {
                    text.push_str(&n.to_string());
                    text.push(names[p.axis].to_ascii_lowercase());
                }
            }
        }
        text
    }
}

/// A run of axes, and the run of axes that it becomes.
pub type Runs = (Range<usize>, Range<usize>);

/// Returns the shortest runs of axes that a reshaping makes runs of others of, which have as many
/// elements. `None` where extents are not known well enough, or there are no elements.
pub fn reshaped_runs(old: &[Dim], new: &[Dim]) -> Option<Vec<Runs>> {
    let (mut runs, mut i, mut j) = (Vec::new(), 0, 0);
    while i < old.len() && j < new.len() {
        let (from, to) = (i, j);
        let (mut a, mut b) = (old[i].clone(), new[j].clone());
        (i, j) = (i + 1, j + 1);
        while a != b {
            let (x, y) = (a.as_const()?, b.as_const()?);
            if x < y {
                a = &a * old.get(i)?;
                i += 1;
            } else {
                b = &b * new.get(j)?;
                j += 1;
            }
        }
        runs.push((from..i, to..j));
    }
    // What is left has one element.
    let last = runs.last_mut()?;
    (last.0.end, last.1.end) = (old.len(), new.len());
    let mut all = old.iter().chain(new);
    let one = old[i..].iter().chain(&new[j..]).all(|d| *d == Dim::ONE);
    let known = |d: &Dim| d.is_known() && d.as_const() != Some(0);
    (one && all.all(known)).then_some(runs)
}

/// An operand of a call whose operands may be reordered.
#[derive(Clone, Debug)]
pub struct Operand {
    /// Its dimensions in the original order, where its rank is known.
    pub dims: Option<Vec<Dim>>,
    /// Its current order, if different.
    pub order: Option<Order>,
}

impl Operand {
    /// Its rank.
    pub fn rank(&self) -> Option<usize> {
        Some(self.dims.as_ref()?.len())
    }
}

/// A call to be made on reordered operands, or to be converted to a layout.
#[derive(Clone, Copy, Debug)]
pub struct Relayout<'a> {
    /// The attributes, complete.
    pub attrs: &'a Attrs,
    /// The operands; the fields of tuples one by one.
    pub operands: &'a [Operand],
    /// The number of tensors that the call returns.
    pub results: usize,
    /// The layouts that the user requests, of the data and possibly of the weight.
    pub wanted: Option<&'a [Layout]>,
}

/// The form of a call on reordered operands.
#[derive(Clone, Debug)]
pub enum Relaid {
    /// With these attributes, on operands in these orders (an order with more axes than the operand
    /// means that axes of extent 1 are prepended), with results in these orders.
    Call {
        /// The attributes.
        attrs: Attrs,
        /// The order that each operand must have.
        operands: Vec<Option<Order>>,
        /// The order of each result.
        results: Vec<Option<Order>>,
    },
    /// No call: it only permutes axes, and the first operand itself is the result in this order.
    Operand(Order),
}

/// Returns how an operator works on reordered operands; `None` when it cannot: then the operands
/// are brought back to their original order. Rules that several operators share are in
/// `families::layout_rules`.
pub type LayoutFn = fn(&Relayout<'_>) -> Option<Relaid>;

#[cfg(test)]
mod tests {
    use super::*;

    fn order(old: &str, new: &str) -> Order {
        let layouts = (Layout::parse(old), Layout::parse(new));
        let (Some(old), Some(new)) = layouts else {
            panic!("layouts")
        };
        Order::between(&old, &new).expect("they have the same axes")
    }

    #[test]
    fn orders_are_equal_by_what_they_move() {
        assert_eq!(order("NCHW", "NHWC"), order("ABCD", "ACDB"));
        assert_ne!(order("NCHW", "NHWC"), order("NCHW", "NCHW4c"));
        assert!(order("NCHW", "NCHW").moved().is_none());
    }

    #[test]
    fn transposes_move_no_element() {
        // Data written as NCHW and stored as NHWC, which the program transposes to NHWC: nothing
        // moved.
        let there = order("NCHW", "NHWC").after_transpose(&[0, 2, 3, 1]);
        assert!(there.expect("a permutation").moved().is_none());
    }

    #[test]
    fn reductions_keep_the_order_of_the_rest() {
        let rest = order("NCHW", "NHWC4c").without(&[2]);
        assert_eq!(rest, order("NCW", "NWC4c"));
        assert_eq!(rest.places(1), [2, 3]);
    }

    #[test]
    fn axes_that_lie_together_are_reshaped_where_they_lie() {
        let after = |old: &str, new: &str, from: &[i64], to: &[i64]| {
            let dims = |d: &[i64]| d.iter().map(|&d| Dim::from(d)).collect::<Vec<_>>();
            let order = order(old, new).after_reshape(&dims(from), &dims(to))?;
            Some(order.parts().iter().map(|p| p.axis).collect::<Vec<_>>())
        };
        let last = |from: &[i64], to: &[i64]| after("NCHW", "NHWC", from, to);
        // Height and width become one axis, the batch two; an axis of one element lies anywhere.
        assert_eq!(last(&[6, 3, 4, 5], &[6, 3, 20]), Some(vec![0, 2, 1]));
        let planes = last(&[6, 3, 4, 5], &[2, 3, 3, 4, 5]);
        assert_eq!(planes, Some(vec![0, 1, 3, 4, 2]));
        assert_eq!(last(&[1, 3, 4, 5], &[3, 4, 5]), Some(vec![1, 2, 0]));
        assert_eq!(last(&[2, 3, 1, 1], &[2, 3]), Some(vec![0, 1]));
        assert_eq!(last(&[2, 3], &[2, 3, 1, 1]), None);
        // Channels and rows do not lie beside each other, nor in this order.
        assert_eq!(last(&[2, 3, 4, 5], &[2, 12, 5]), None);
        assert_eq!(after("NCHW", "NHCW", &[2, 3, 4, 5], &[2, 12, 5]), None);
        assert_eq!(last(&[2, 3, 4, 5], &[2, 60]), None);
    }

    #[test]
    fn axes_that_become_one_are_brought_together() {
        // Phases of pixels as channels: (n, c, h, 2, w, 2) stored as (n, h, w, 2, 2, c).
        let dims = |d: &[i64]| d.iter().map(|&d| Dim::from(d)).collect::<Vec<_>>();
        let (old, new) = (dims(&[3, 5, 4, 2, 6, 2]), dims(&[3, 5, 8, 12]));
        let apart = order("NCHIWV", "NHWIVC");
        assert_eq!(apart.after_reshape(&old, &new), None);
        let beside = apart.beside(&old, &new).expect("known extents");
        assert_eq!(beside, order("NCHIWV", "NHIWVC"));
        assert_eq!(
            beside.after_reshape(&old, &new),
            Some(order("NCHW", "NHWC"))
        );
    }

    #[test]
    fn transforms_have_the_names_of_the_axes() {
        let (a, b) = (order("NCHW", "NHWC"), order("NCHW", "NCHW4c"));
        let names = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(
            Order::transform(Some(&a), Some(&b)),
            names("NHWC", "NCHW4c")
        );
        assert_eq!(Order::transform(None, Some(&b)), names("NCHW", "NCHW4c"));
    }
}

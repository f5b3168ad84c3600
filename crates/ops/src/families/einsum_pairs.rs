//! Products of many tensors as products of two, which have kernels.
//!
//! A sum over the indices of all operands at once takes as many steps as all of them have values
//! together. Two operands at a time, the sum over an index that no other operand has is done before
//! the others multiply the work. The pair that takes the fewest steps comes first; an index that
//! one operand has alone is summed before anything else.

use relax_ir::{AttrValue, ExprId};

use super::einsum_equation::Equation;
use crate::expand::{Build, Site};

/// How many times the steps of the whole sum the pairs may take: they run in kernels.
const WORTH: f64 = 4.0;

/// An operand: its expression and the letters of its axes.
struct Operand {
    value: ExprId,
    axes: Vec<char>,
}

/// The operands that are left, and what is known of all letters.
struct Pairs<'e> {
    left: Vec<Operand>,
    output: Vec<char>,
    extents: &'e [(char, i64)],
    steps: f64,
}

/// Rewrites `einsum` of several operands of known extents, where sums are not rounded to few bits.
pub(super) fn in_pairs(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let equation = Equation::parse(site.value("equation").as_str()?).ok()?;
    let tuple = *site.args.first()?;
    let shapes = b.field_extents(tuple)?;
    let dtype = b.dtype(site.call)?;
    let exact = dtype.is_int() || (dtype.is_float() && dtype.size() >= 4);
    if shapes.len() < 2 || !exact {
        return None;
    }
    let (inputs, output) = equation.letters(&shapes)?;
    let mut extents: Vec<(char, i64)> = Vec::new();
    for (axes, shape) in inputs.iter().zip(&shapes) {
        for (&c, &n) in axes.iter().zip(shape) {
            match extents.iter_mut().find(|(d, _)| *d == c) {
                Some((_, most)) => *most = (*most).max(n),
                None => extents.push((c, n)),
            }
        }
    }
    let whole: f64 = extents.iter().map(|(_, n)| *n as f64).product();
    let left = (0..).zip(inputs).map(|(k, axes)| Operand {
        value: b.field(tuple, k),
        axes,
    });
    let mut pairs = Pairs {
        left: left.collect(),
        output,
        extents: &extents,
        steps: 0.0,
    };
    let summed = (extents.iter()).any(|(c, _)| !pairs.output.contains(c));
    let alone = (0..pairs.left.len()).any(|k| pairs.summed_alone(k).is_some());
    if !summed || !(alone || pairs.left.len() > 2) {
        return None;
    }
    for k in 0..pairs.left.len() {
        if let Some(to) = pairs.summed_alone(k) {
            pairs.join(b, &[k], to);
        }
    }
    while pairs.left.len() > 2 {
        let (i, j) = pairs.least();
        let to = pairs.kept(&[i, j]);
        pairs.join(b, &[i, j], to);
    }
    let to = pairs.output.clone();
    pairs.join(b, &[0, 1], to);
    (pairs.steps <= WORTH * whole).then(|| pairs.left[0].value)
}

/// The letters, each once.
fn distinct(axes: &[char]) -> Vec<char> {
    let mut all = Vec::with_capacity(axes.len());
    for &c in axes {
        if !all.contains(&c) {
            all.push(c);
        }
    }
    all
}

impl Pairs<'_> {
    /// All letters of some operands.
    fn together(&self, which: &[usize]) -> Vec<char> {
        let all: Vec<char> = (which.iter())
            .flat_map(|&k| self.left[k].axes.iter().copied())
            .collect();
        distinct(&all)
    }

    /// The letters of some operands that the result or another operand has.
    fn kept(&self, which: &[usize]) -> Vec<char> {
        let mut all = self.together(which);
        all.retain(|c| {
            let others = self.left.iter().enumerate();
            self.output.contains(c)
                || (others.filter(|(k, _)| !which.contains(k))).any(|(_, o)| o.axes.contains(c))
        });
        all
    }

    /// The letters that are left of an operand that has others alone, which are summed over.
    fn summed_alone(&self, k: usize) -> Option<Vec<char>> {
        let kept = self.kept(&[k]);
        (kept.len() < self.together(&[k]).len()).then_some(kept)
    }

    /// The values that some letters take together.
    fn size(&self, letters: &[char]) -> f64 {
        let known = self.extents.iter().filter(|(c, _)| letters.contains(c));
        known.map(|(_, n)| *n as f64).product()
    }

    /// The two operands whose product takes the fewest steps.
    fn least(&self) -> (usize, usize) {
        let cost = |(i, j)| {
            let steps = self.size(&self.together(&[i, j]));
            steps + self.size(&self.kept(&[i, j]))
        };
        let n = self.left.len();
        let all = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        all.min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
            .expect("several operands")
    }

    /// Replaces one or two operands by their product with these letters.
    fn join(&mut self, b: &mut dyn Build, which: &[usize], to: Vec<char>) {
        self.steps += self.size(&self.together(which));
        let mut values = Vec::new();
        let mut text = String::new();
        for &k in which {
            if !values.is_empty() {
                text.push(',');
            }
            text.extend(&self.left[k].axes);
            values.push(self.left[k].value);
        }
        text.push_str("->");
        text.extend(&to);
        let tuple = b.tuple(&values);
        let value = b.call(
            "einsum",
            &[tuple],
            &[("equation", AttrValue::Str(text.as_str().into()))],
        );
        self.left[which[0]] = Operand { value, axes: to };
        if let [_, other] = which {
            self.left.remove(*other);
        }
    }
}

//! The roles of the axes of a contraction, and the strategy that computes it.

use crate::kernels::kinds::Kind;

/// An axis, or several that are traversed as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Axis {
    pub extent: usize,
    /// The strides of the left operand, the right one and the result.
    pub steps: [isize; 3],
}

/// The strategy of a contraction; decided by its sizes, so that threads do not matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Products of packed panels.
    Packed,
    /// Strips of the result, with the operands read in place.
    Direct,
    /// Each element as a sum of products along the summed axis.
    Dots,
}

/// A contraction, with its axes sorted by their roles.
#[derive(Debug)]
pub(super) struct Plan {
    /// Both operands and the result move, or neither operand does.
    pub batch: Vec<Axis>,
    /// The left operand and the result.
    pub rows: Vec<Axis>,
    /// The right operand and the result.
    pub columns: Vec<Axis>,
    /// The axes along which the result does not move.
    pub summed: Vec<Axis>,
    /// Whether the operands were swapped, so that the result is contiguous along columns.
    pub swapped: bool,
    pub way: Way,
}

/// Appends an axis, merged with the previous one where both can be traversed as one.
fn push(axes: &mut Vec<Axis>, axis: Axis) {
    if let Some(last) = axes.last_mut() {
        let alike = |k: usize| last.steps[k] == axis.steps[k] * axis.extent as isize;
        if (0..3).all(alike) {
            last.extent *= axis.extent;
            last.steps = axis.steps;
            return;
        }
    }
    axes.push(axis);
}

pub(super) fn count(axes: &[Axis]) -> usize {
    axes.iter().map(|a| a.extent).product()
}

impl Plan {
    /// `None` where the result has no elements.
    pub fn new(extents: &[i64], steps: &[i64], result: Kind) -> Option<Plan> {
        let n = extents.len();
        let (mut batch, mut rows, mut columns, mut summed) = (vec![], vec![], vec![], vec![]);
        for (k, &extent) in extents.iter().enumerate() {
            let axis = Axis {
                extent: usize::try_from(extent).unwrap_or(0),
                steps: [0, 1, 2].map(|x| steps[x * n + k] as isize),
            };
            if axis.steps[2] != 0 && axis.extent == 0 {
                return None;
            }
            if axis.extent == 1 {
                continue;
            }
            push(
                match axis.steps.map(|s| s != 0) {
                    [_, _, false] => &mut summed,
                    [true, false, true] => &mut rows,
                    [false, true, true] => &mut columns,
                    _ => &mut batch,
                },
                axis,
            );
        }
        let mut plan = Plan {
            batch,
            rows,
            columns,
            summed,
            swapped: false,
            way: Way::Packed,
        };
        let side = |axes: &[Axis]| axes.last().is_some_and(|a| a.steps[2] == 1);
        if side(&plan.rows) {
            plan.swap();
        }
        plan.way = plan.choose(result);
        Some(plan)
    }

    fn swap(&mut self) {
        self.swapped = !self.swapped;
        std::mem::swap(&mut self.rows, &mut self.columns);
        for axes in [
            &mut self.batch,
            &mut self.rows,
            &mut self.columns,
            &mut self.summed,
        ] {
            axes.iter_mut().for_each(|a| a.steps.swap(0, 1));
        }
    }

    fn choose(&self, result: Kind) -> Way {
        let (m, n, k) = (count(&self.rows), count(&self.columns), count(&self.summed));
        let dots = self
            .summed
            .last()
            .is_some_and(|a| a.steps[0] == 1 && a.steps[1] == 1 && a.extent >= 8);
        // Strips of the result read at least one operand in place.
        let inner = [&self.columns, &self.batch, &self.rows]
            .into_iter()
            .find_map(|a| a.last());
        let strips = inner.is_some_and(|a| {
            a.steps[2] == 1 && a.steps[0].abs() <= 1 && a.steps[1].abs() <= 1 && a.extent >= 8
        });
        let few = m < 4 || n < 4;
        match (few || k < 4, dots, strips) {
            (true, _, true) => Way::Direct,
            (true, true, false) => Way::Dots,
            (true, false, false) if m * n < 16 || k < 4 => Way::Direct,
            // 64-bit integer multiplication is so slow that packing small products does not pay.
            _ if result.size() == 8 && m * n * k < 512 => Way::Direct,
            _ => Way::Packed,
        }
    }

    /// All axes of the result, the one that strips run along last.
    pub fn outer(&self) -> (Vec<Axis>, Axis) {
        let mut all: Vec<Axis> = [&self.batch[..], &self.rows, &self.columns].concat();
        let at = all.iter().position(|a| a.steps[2] == 1);
        let inner = match at {
            Some(at) => all.remove(at),
            None => Axis {
                extent: 1,
                steps: [0; 3],
            },
        };
        (all, inner)
    }

    /// Returns the least and the greatest offset at which an original operand is read; in reverse
    /// order where none is.
    pub fn reach(&self, operand: usize) -> (isize, isize) {
        if count(&self.summed) == 0 {
            return (0, -1);
        }
        self.reach_of(if self.swapped { 1 - operand } else { operand })
    }

    /// The same for the left operand (0) or the right one, as they are multiplied.
    pub fn reach_of(&self, operand: usize) -> (isize, isize) {
        let (mut low, mut high) = (0, 0);
        for a in [&self.batch, &self.rows, &self.columns, &self.summed]
            .into_iter()
            .flatten()
        {
            let far = a.steps[operand] * (a.extent as isize - 1).max(0);
            low += far.min(0);
            high += far.max(0);
        }
        (low, high)
    }
}

/// Returns the offsets of an operand at `n` positions of an index domain from position `first` on.
pub(super) fn offsets(axes: &[Axis], operand: usize, first: usize, to: &mut [isize]) {
    let mut index = [0usize; super::AXES];
    let (mut at, mut rest) = (0isize, first);
    for (k, a) in axes.iter().enumerate().rev() {
        index[k] = rest % a.extent.max(1);
        rest /= a.extent.max(1);
        at += index[k] as isize * a.steps[operand];
    }
    for to in to {
        *to = at;
        for (k, a) in axes.iter().enumerate().rev() {
            index[k] += 1;
            at += a.steps[operand];
            if index[k] < a.extent {
                break;
            }
            at -= a.extent as isize * a.steps[operand];
            index[k] = 0;
        }
    }
}

/// Returns the offset at one position.
pub(super) fn offset(axes: &[Axis], operand: usize, place: usize) -> isize {
    let mut at = [0];
    offsets(axes, operand, place, &mut at);
    at[0]
}

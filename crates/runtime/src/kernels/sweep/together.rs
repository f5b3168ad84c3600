//! Results that are each reduced over few elements: what several of them are reduced of is one strip,
//! whose lines are then folded one after the other.

use super::folds::folded;
use super::read::Strip;
use super::space::Space;
use super::{AXES, Plan, STRIP, combine, register, slice};
use crate::kernels::combiner::Combiner;
use crate::kernels::kinds::Kind;
use crate::kernels::simd::dispatch;

/// Elements of a line from which it is reduced alone: what comes before the first of them is little
/// then.
const LONG: usize = 256;

impl Plan<'_> {
    /// Returns all axes, where strips have lines of several results.
    pub(super) fn together(&self) -> Option<Space> {
        let v = self.v;
        let (all, inputs) = ((v.axes + v.reduced) as usize, v.inputs as usize);
        let float = matches!(register(self.out_kind), Kind::F32 | Kind::F64);
        let folds = !matches!(self.combiner, Combiner::And | Combiner::Or);
        let short = self.along_reduced && self.over.count() < LONG && self.out.count() > 1;
        if !float || !folds || !short || all > AXES {
            return None;
        }
        // SAFETY: the lists are as long as the structure says.
        let (extents, strides) = unsafe { (slice(v.extents, all), slice(v.strides, inputs * all)) };
        Some(Space::new(extents, strides, all, 0))
    }
}

/// Elements `begin..end` of a result, `line` being what [`Plan::together`] returned.
///
/// # Safety
/// Elements are those of the result, inputs have what the axes name, and `room` has what the plan
/// says.
pub(super) unsafe fn run(p: &Plan<'_>, line: &Space, (begin, end): (usize, usize), room: *mut u8) {
    let len = p.over.count();
    let high = (p.strip / len.max(1)).max(1);
    let kind = register(p.out_kind);
    // SAFETY: strips are parts of all axes, and the room has sums and results of a strip.
    unsafe {
        let mut s: Strip = p.begin(room);
        let (sums, result) = (room.add(p.room() - 2 * STRIP), room.add(p.room() - STRIP));
        for first in (begin..end).step_by(high) {
            let rows = (end - first).min(high);
            let cursor = line.cursor(first * len, None);
            p.read(&mut s, &cursor, line, rows * len);
            let values = p.value(&mut s, rows * len, result);
            let mut start = [0u8; 8];
            combine::neutral(p.combiner, p.out_kind, start.as_mut_ptr(), 1);
            let (combiner, start) = (p.combiner, start.as_ptr());
            dispatch!(folded(combiner: Combiner, kind: Kind, start: *const u8, values: *const u8,
                rows: usize, len: usize, sums: *mut u8));
            p.finish(sums, first, rows);
        }
    }
}

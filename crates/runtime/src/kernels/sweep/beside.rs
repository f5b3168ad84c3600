//! Results of few elements, each reduced over many places: what is read for several places is one
//! strip, which is combined with as many sums of each result. These are combined at the end.

use super::read::Strip;
use super::space::Space;
use super::{AXES, Plan, STRIP, combine, register, slice};
use crate::kernels::combiner::Combiner;
use crate::kernels::kinds::Kind;

impl Plan<'_> {
    /// Returns the reduced axes followed by those of the result, where strips of several places are
    /// worth it: all elements are then one line, or nearly.
    pub(super) fn beside(&self) -> Option<Space> {
        let v = self.v;
        let (axes, reduced, inputs) = (v.axes as usize, v.reduced as usize, v.inputs as usize);
        let all = axes + reduced;
        // A maximum of floats forgets a NaN for what comes after it, so their order counts.
        let float = matches!(
            self.out_kind,
            Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64
        );
        let ordered = float && matches!(self.combiner, Combiner::Max | Combiner::Min);
        let fits = reduced > 0 && !self.along_reduced && !ordered && all <= AXES;
        let several = self.out.count() * 2 <= self.strip && self.over.count() > 1;
        if !fits || !several || self.strips() != 1 {
            return None;
        }
        // SAFETY: the lists are as long as the structure says.
        let (extents, strides) = unsafe { (slice(v.extents, all), slice(v.strides, inputs * all)) };
        let turned = |list: &[i64]| -> Vec<i64> { [&list[axes..], &list[..axes]].concat() };
        let steps: Vec<i64> = strides.chunks(all.max(1)).flat_map(turned).collect();
        Some(Space::new(&turned(extents), &steps, all, 0))
    }
}

/// All elements of a result, `line` being what [`Plan::beside`] returned.
///
/// # Safety
/// Inputs have what the axes name, and `room` has what the plan says.
pub(super) unsafe fn run(p: &Plan<'_>, line: &Space, room: *mut u8) {
    let (count, places) = (p.out.count(), p.over.count());
    let kind = register(p.out_kind);
    let high = (p.strip / count).min(places).max(1);
    // SAFETY: strips are parts of the line, and the room has sums and results of a strip.
    unsafe {
        let mut s: Strip = p.begin(room);
        let (sums, result) = (room.add(p.room() - 2 * STRIP), room.add(p.room() - STRIP));
        combine::neutral(p.combiner, p.out_kind, sums, high * count);
        for place in (0..places).step_by(high) {
            let n = (places - place).min(high) * count;
            let cursor = line.cursor(place * count, None);
            p.read(&mut s, &cursor, line, n);
            let values = p.value(&mut s, n, result);
            combine::combine::<false>(p.combiner, kind, sums, values, n);
        }
        for row in 1..high {
            let more = sums.add(row * count * kind.size()).cast_const();
            combine::combine::<false>(p.combiner, kind, sums, more, count);
        }
        p.finish(sums, 0, count);
    }
}

//! Results that are each reduced over few elements: what several of them are reduced of is one strip,
//! whose lines are then folded one after the other.

use super::read::Strip;
use super::space::Space;
use super::{AXES, MAX, MIN, PRODUCT, Plan, STRIP, SUM, combine, register, slice};
use crate::kernels::combiner::Combiner;
use crate::kernels::kinds::Kind;
use crate::kernels::simd::bytes::Lanes;
use crate::kernels::simd::dispatch;
use crate::kernels::simd::wide::{Vector, Wide};

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

/// Reduces each of `rows` lines of `len` elements, beginning with a number.
#[inline(always)]
unsafe fn folded<S: Wide>(
    combiner: Combiner,
    kind: Kind,
    start: *const u8,
    x: *const u8,
    rows: usize,
    len: usize,
    to: *mut u8,
) {
    macro_rules! of {
        ($lines:ident, $vector:ty) => {{
            let (start, x, to) = (start.cast(), x.cast(), to.cast());
            match combiner {
                Combiner::Product => $lines::<$vector, PRODUCT>(start, x, rows, len, to),
                Combiner::Max => $lines::<$vector, MAX>(start, x, rows, len, to),
                Combiner::Min => $lines::<$vector, MIN>(start, x, rows, len, to),
                _ => $lines::<$vector, SUM>(start, x, rows, len, to),
            }
        }};
    }
    // SAFETY: there are as many lines, and room for a number of each.
    unsafe {
        match kind {
            Kind::F64 => of!(doubles, S::F64),
            _ => of!(singles, S::F32),
        }
    }
}

/// The most lanes of a vector.
const LANES: usize = 16;

macro_rules! lines {
    ($($name:ident of $t:ty;)*) => {$(
        #[inline(always)]
        unsafe fn $name<V: Vector<Element = $t>, const COMBINER: i32>(
            start: *const $t,
            x: *const $t,
            rows: usize,
            len: usize,
            to: *mut $t,
        ) {
            macro_rules! onto {
                ($a:expr, $b:expr) => {{
                    let (a, b) = ($a, $b);
                    match COMBINER {
                        SUM => a + b,
                        PRODUCT => a * b,
                        MAX => if a > b { a } else { b },
                        _ => if a < b { a } else { b },
                    }
                }};
            }
            let wide = <V as Vector>::LANES;
            // SAFETY: there are as many lines, and room for a number of each.
            unsafe {
                let start = start.read_unaligned();
                for row in 0..rows {
                    let x = x.add(row * len);
                    let mut all = [V::splat(start); 4];
                    let mut i = 0;
                    while i + 4 * wide <= len {
                        for k in 0..4 {
                            all[k] = all[k].with::<COMBINER>(V::load(x.add(i + k * wide)));
                        }
                        i += 4 * wide;
                    }
                    while i + wide <= len {
                        all[0] = all[0].with::<COMBINER>(V::load(x.add(i)));
                        i += wide;
                    }
                    let halves = [
                        all[0].with::<COMBINER>(all[1]),
                        all[2].with::<COMBINER>(all[3]),
                    ];
                    let mut lanes = [start; LANES];
                    halves[0].with::<COMBINER>(halves[1]).store(lanes.as_mut_ptr());
                    for k in 0..len - i {
                        lanes[k] = onto!(lanes[k], *x.add(i + k));
                    }
                    let mut half = wide / 2;
                    while half > 0 {
                        for k in 0..half {
                            lanes[k] = onto!(lanes[k], lanes[k + half]);
                        }
                        half /= 2;
                    }
                    *to.add(row) = lanes[0];
                }
            }
        }
    )*};
}

lines! {
    singles of f32;
    doubles of f64;
}

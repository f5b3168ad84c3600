//! Nests that do something along all lines of an array: sorting, the place of an extreme element, running sums.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::{Buf, Hint, Lines, Stmt, fits};
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::lines::{knows, work};

use super::contract::kind;
use super::{Kernel, Result, written};

/// What a nest that writes one or two buffers does.
struct Work {
    data: Buf,
    axis: usize,
    work: i32,
    flag: bool,
    values: Option<Buf>,
    indices: Option<Buf>,
}

impl Kernel<'_, '_, '_> {
    /// What the hints of all buffers that a nest writes say together.
    fn work_of(&self, stmts: &[Stmt]) -> Option<Work> {
        let mut all: Option<Work> = None;
        for buf in written(stmts) {
            if self.program.bufs[buf].role == relax_loops::Role::Local {
                continue;
            }
            let Some(Hint::Lines {
                data,
                axis,
                work: w,
            }) = self.program.hint(buf)
            else {
                return None;
            };
            let (number, flag, indices) = match *w {
                Lines::Sorted { ascend, indices } => (work::SORT, ascend, indices),
                Lines::Extreme {
                    greatest: true,
                    last,
                } => (work::GREATEST, last, true),
                Lines::Extreme {
                    greatest: false,
                    last,
                } => (work::LEAST, last, true),
                Lines::Running {
                    product: false,
                    exclusive,
                } => (work::SUM, exclusive, false),
                Lines::Running {
                    product: true,
                    exclusive,
                } => (work::PRODUCT, exclusive, false),
            };
            let found = all.get_or_insert(Work {
                data: *data,
                axis: *axis,
                work: number,
                flag,
                values: None,
                indices: None,
            });
            let same = (found.data, found.axis, found.work, found.flag);
            let place = if indices {
                &mut found.indices
            } else {
                &mut found.values
            };
            if same != (*data, *axis, number, flag) || place.replace(buf).is_some() {
                return None;
            }
        }
        let of = |b: Buf| kind(self.program.bufs[b].dtype);
        all.filter(|w| {
            let elements = of(w.data);
            elements.is_some_and(|kind| knows(kind, w.work))
                && w.values.is_none_or(|b| of(b) == elements)
                && w.indices
                    .is_none_or(|b| matches!(of(b), Some(Kind::I32 | Kind::I64)))
                && self.places.contains_key(&w.data)
        })
    }

    /// Emits a nest as a call; `false` when it is something else.
    pub(super) fn lines(&mut self, stmts: &[Stmt]) -> Result<bool> {
        let Some(w) = self.work_of(stmts) else {
            return Ok(false);
        };
        for buf in [w.values, w.indices].into_iter().flatten() {
            self.place(buf)?;
            if let Some(hint) = self.program.hint(buf) {
                self.require_fits(fits::of_hint(self.program, buf, hint))?;
            }
        }
        // Both results of a sorted line have as many elements.
        if let (Some(values), Some(indices)) = (w.values, w.indices) {
            let extent = |b: Buf| self.program.bufs[b].shape[w.axis].clone();
            let fit = fits::Fit {
                at: (indices, w.axis),
                found: extent(indices),
                needed: extent(values),
                or_one: false,
            };
            self.require_fits(vec![fit])?;
        }
        let (x, extents) = self.of(w.data);
        let f = self.structure(72);
        let (before, behind) = (&extents[..w.axis], &extents[w.axis + 1..]);
        let (outer, inner) = (self.product(before), self.product(behind));
        let keep = match (w.work, w.values.or(w.indices)) {
            (work::SORT, Some(out)) => self.of(out).1[w.axis],
            _ => self.b.ins().iconst(types::I64, 1),
        };
        for (at, v) in [
            (0, outer),
            (8, extents[w.axis]),
            (16, inner),
            (24, keep),
            (48, x),
        ] {
            self.put(&f, at, v);
        }
        let number = |k: &Self, b: Buf| kind(k.program.bufs[b].dtype).map_or(0, |k| k as i64);
        let elements = number(self, w.data);
        let index = w.indices.map_or(Kind::I32 as i64, |b| number(self, b));
        let words = [elements, index, w.work.into(), i64::from(w.flag)];
        for (at, n) in [32, 36, 40, 44].into_iter().zip(words) {
            self.put_int32(&f, at, n);
        }
        for (at, buf) in [(56, w.values), (64, w.indices)] {
            if let Some(buf) = buf {
                let data: Value = self.of(buf).0;
                self.put(&f, at, data);
            }
        }
        self.run_with("rx_lines", &[f]);
        Ok(true)
    }
}

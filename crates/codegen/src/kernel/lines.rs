//! Nests over all lines of an array: sorting, the index of an extreme element, running sums.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::{Buf, Hint, Lines, Stmt, fits};
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::lines::{RxLines, Work as Along, knows};
use relax_runtime::{abi, fields};

use super::encoding::kind;
use super::{Kernel, Result, written};

/// The operation of a nest that writes one or two buffers.
struct Work {
    data: Buf,
    axis: usize,
    work: Along,
    flag: bool,
    values: Option<Buf>,
    indices: Option<Buf>,
}

impl Kernel<'_, '_, '_> {
    /// Returns the operation that the hints of all buffers written by a nest describe together.
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
                Lines::Sorted { ascend, indices } => (Along::Sort, ascend, indices),
                Lines::Extreme {
                    greatest: true,
                    last,
                } => (Along::Greatest, last, true),
                Lines::Extreme {
                    greatest: false,
                    last,
                } => (Along::Least, last, true),
                Lines::Running {
                    product: false,
                    exclusive,
                } => (Along::Sum, exclusive, false),
                Lines::Running {
                    product: true,
                    exclusive,
                } => (Along::Product, exclusive, false),
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

    /// Emits a nest as a call; `false` for any other nest.
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
        // The values and the indices of a sorted line have equally many elements.
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
        let f = self.structure::<RxLines>();
        let (before, behind) = (&extents[..w.axis], &extents[w.axis + 1..]);
        let (outer, inner) = (self.product(before), self.product(behind));
        let keep = match (w.work, w.values.or(w.indices)) {
            (Along::Sort, Some(out)) => self.of(out).1[w.axis],
            _ => self.b.ins().iconst(types::I64, 1),
        };
        self.put(
            &f,
            fields!(RxLines {
                outer: outer,
                extent: extents[w.axis],
                inner: inner,
                keep: keep,
                x: x,
            }),
        );
        let number = |k: &Self, b: Buf| kind(k.program.bufs[b].dtype).map_or(0, |k| k as i64);
        let elements = number(self, w.data);
        self.put_ints(
            &f,
            fields!(RxLines {
                kind: elements,
                index_kind: w.indices.map_or(Kind::I32 as i64, |b| number(self, b)),
                work: w.work as i64,
                flag: i64::from(w.flag),
            }),
        );
        if let Some(values) = w.values {
            let data: Value = self.of(values).0;
            self.put(&f, fields!(RxLines { values: data }));
        }
        if let Some(indices) = w.indices {
            let data: Value = self.of(indices).0;
            self.put(&f, fields!(RxLines { indices: data }));
        }
        self.run_with(abi::rx_lines, f);
        Ok(true)
    }
}

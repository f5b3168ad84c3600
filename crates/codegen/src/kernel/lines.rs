//! Nests over all lines of an array: sorting, the index of an extreme element, running sums.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::select::lines::LinesNest;
use relax_loops::{Buf, Lines, fits};
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::lines::{RxLines, Work as Along};
use relax_runtime::{abi, fields};

use super::encoding::kind;
use super::{Kernel, Result};

impl Kernel<'_, '_, '_> {
    /// Emits a nest as a call.
    pub(super) fn lines(&mut self, w: &LinesNest) -> Result<()> {
        let (work, flag) = match w.work {
            Lines::Sorted { ascend, .. } => (Along::Sort, ascend),
            Lines::Extreme { greatest, last } => match greatest {
                true => (Along::Greatest, last),
                false => (Along::Least, last),
            },
            Lines::Running { product, exclusive } => match product {
                true => (Along::Product, exclusive),
                false => (Along::Sum, exclusive),
            },
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
        let keep = match (work, w.values.or(w.indices)) {
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
                work: work as i64,
                flag: i64::from(flag),
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_loops::select::{hinted, lines};
    use relax_runtime::kernels::integer::Element;
    use relax_runtime::kernels::lines::knows;
    use relax_tensor::{DType, TypeCode};

    /// The selection takes the element types for which the runtime has kernels.
    #[test]
    fn the_selection_knows_the_kernels() {
        let codes = [
            TypeCode::Int,
            TypeCode::UInt,
            TypeCode::Float,
            TypeCode::BFloat,
        ];
        for code in codes {
            for bits in [1, 2, 4, 8, 16, 32, 64] {
                for lanes in [1, 4] {
                    let dtype = DType { code, bits, lanes };
                    let kind = kind(dtype);
                    assert_eq!(lines::is_element(dtype), kind.is_some(), "{dtype}");
                    let operand = kind.and_then(|k| Element::of(k as i32)).is_some();
                    assert_eq!(hinted::is_operand(dtype), operand, "{dtype}");
                    let sorted = Lines::Sorted {
                        ascend: true,
                        indices: false,
                    };
                    let sorts = kind.is_some_and(|k| knows(k, Along::Sort));
                    assert_eq!(lines::takes(dtype, sorted), sorts, "{dtype}");
                    let extreme = Lines::Extreme {
                        greatest: true,
                        last: false,
                    };
                    let finds = kind.is_some_and(|k| knows(k, Along::Greatest));
                    assert_eq!(lines::takes(dtype, extreme), finds, "{dtype}");
                }
            }
        }
    }
}

//! Reductions over boxes, through `rx_boxes`.

use relax_loops::Compute;
use relax_loops::select::boxes::{self, Boxes};
use relax_runtime::kernels::boxes::{self as kernel, RxBoxes};
use relax_runtime::{abi, fields};

use super::encoding::{combiner, kind};
use super::{Kernel, Result, Unsupported};

const _: () = assert!(boxes::AXES <= kernel::AXES);

impl Kernel<'_, '_, '_> {
    /// Emits a stage as a call.
    pub(super) fn boxes(&mut self, c: &Compute, found: &Boxes) -> Result<()> {
        self.place(c.out)?;
        let dtype = self.program.bufs[c.out].dtype;
        let (Some(kind), Some(reduce)) = (kind(dtype), &c.reduce) else {
            return Err(Unsupported(format!("boxes of {dtype}")));
        };
        let (x, shape) = self.of(found.buf);
        let out = self.of(c.out).0;
        let end = found.first + found.ranges.len();
        let (outer, inner) = (
            self.product(&shape[..found.first]),
            self.product(&shape[end..]),
        );
        let extent = |e: &relax_loops::Ex| e.as_int().unwrap_or_default();
        let from = self.program.bufs[found.buf].shape[found.first..end].iter();
        let to = found.ranges.iter().map(|r| r.len() as i64);
        let extents: Vec<i64> = from.map(extent).chain(to).collect();
        let ranges = found.ranges.iter().flatten();
        let ranges: Vec<i64> = ranges.flat_map(|r| [r.0, r.1]).collect();
        let [extents, ranges] = [extents, ranges].map(|n| {
            let bytes: Vec<u8> = n.into_iter().flat_map(i64::to_le_bytes).collect();
            self.constant(&bytes)
        });
        let f = self.structure::<RxBoxes>();
        self.put_ints(
            &f,
            fields!(RxBoxes {
                axes: found.ranges.len() as i64,
                combiner: combiner(reduce.combiner) as i64,
                kind: kind as i64,
            }),
        );
        self.put(
            &f,
            fields!(RxBoxes {
                outer: outer,
                inner: inner,
                extents: extents,
                ranges: ranges,
                x: x,
                out: out,
            }),
        );
        self.run_with(abi::rx_boxes, f);
        Ok(())
    }
}

//! The preconditions of runtime kernels on extents.
//!
//! A kernel takes its sizes from some of its operands and assumes that the others match. The stage
//! that it replaces checks each of its accesses; the kernel checks none. So for each way to call
//! one, its assumptions are stated here, and the emitter of the call proves them or has them
//! checked before it.
//!
//! Invariant: a kernel whose fits hold accesses only its operands, whatever the types are.

use crate::attention::Attention;
use crate::outside::same_number;
use crate::{Buf, Ex, Hint, Program};

/// An extent that a kernel assumes to be a number.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The buffer and the axis that messages name.
    pub at: (Buf, usize),
    /// The actual extent.
    pub found: Ex,
    /// The extent that the kernel assumes.
    pub needed: Ex,
    /// Whether 1 is accepted as well: the single element is broadcast.
    pub or_one: bool,
}

impl Fit {
    /// Returns whether it holds in every call.
    pub fn is_proven(&self) -> bool {
        same_number(&self.found, &self.needed) || self.or_one && self.found.as_int() == Some(1)
    }
}

/// Returns the assumptions of the kernel of a hint when it writes `out`.
pub fn of_hint(program: &Program, out: Buf, hint: &Hint) -> Vec<Fit> {
    let mut fits = Fits::of(program);
    match *hint {
        Hint::Gemm {
            a,
            b,
            transpose_a,
            transpose_b,
        } => fits.gemm([a, b, out], [transpose_a, transpose_b]),
        Hint::BatchGemm {
            a,
            b,
            transpose_a,
            transpose_b,
        } => {
            let k = fits.extent(a, if transpose_a { 1 } else { 2 });
            fits.same((b, 1 + usize::from(transpose_b)), k);
            let batch = fits.extent(out, 0);
            fits.same_or_one((a, 0), batch.clone());
            fits.same_or_one((b, 0), batch);
            let rows = fits.extent(a, if transpose_a { 2 } else { 1 });
            fits.same((out, 1), rows);
            let columns = fits.extent(b, 2 - usize::from(transpose_b));
            fits.same((out, 2), columns);
        }
        Hint::Blockwise {
            data,
            weight,
            scale,
            block,
            bits,
        } => {
            let last = program.bufs[data].shape.len().saturating_sub(1);
            for axis in 0..last {
                let extent = fits.extent(data, axis);
                fits.same((out, axis), extent);
            }
            let (rows, blocks) = (fits.extent(weight, 0), fits.extent(scale, 1));
            fits.same((data, last), &blocks * block);
            fits.same((weight, 1), blocks * (block * bits / 8));
            fits.same((scale, 0), rows.clone());
            fits.same((out, last), rows);
        }
        Hint::Conv2d { .. } => fits.conv(out, hint),
        Hint::Depthwise3d { .. } => fits.depthwise3d(out, hint),
        Hint::Conv2dTranspose {
            data,
            weight,
            groups,
            ..
        } => {
            let channels = fits.extent(data, 1);
            fits.same((weight, 0), channels);
            let images = fits.extent(data, 0);
            fits.same((out, 0), images);
            let filters = fits.extent(weight, 1) * groups;
            fits.same((out, 1), filters);
        }
        Hint::Softmax { data, .. } => fits.alike(out, data),
        Hint::LayerNorm {
            data,
            gamma,
            beta,
            axis,
            groups,
            ..
        } => {
            fits.alike(out, data);
            for factor in [Some(gamma), beta].into_iter().flatten() {
                for k in 0..program.bufs[factor].shape.len() {
                    let extent = fits.extent(data, axis + k);
                    fits.same((factor, k), extent);
                }
            }
            if groups > 1 {
                let channels = fits.extent(data, axis);
                let whole = channels.floor_div(groups) * groups;
                fits.push((data, axis), channels, whole, false);
            }
        }
        // Windows are clipped to the image, so any number of them is accepted.
        Hint::Pool2d { data, nhwc, .. } => {
            for axis in [0, if nhwc { 3 } else { 1 }] {
                let extent = fits.extent(data, axis);
                fits.same((out, axis), extent);
            }
        }
        // See `of_attention`.
        Hint::Attention { .. } => {}
        Hint::Lines { data, axis, work } => {
            let rank = program.bufs[data].shape.len();
            let gone = program.bufs[out].shape.len() < rank;
            for k in (0..rank).filter(|&k| k != axis) {
                let extent = fits.extent(data, k);
                fits.same((out, k - usize::from(gone && k > axis)), extent);
            }
            match work {
                crate::Lines::Running { .. } => {
                    let extent = fits.extent(data, axis);
                    fits.same((out, axis), extent);
                }
                crate::Lines::Extreme { .. } if !gone => fits.same((out, axis), Ex::idx(1)),
                _ => {}
            }
        }
        Hint::Requantize {
            data, tables, axis, ..
        } => {
            fits.alike(out, data);
            let channels = axis.map_or(Ex::idx(1), |axis| fits.extent(out, axis));
            for table in tables {
                fits.same((table, 0), channels.clone());
            }
        }
    }
    fits.all
}

/// Returns the assumptions of the kernel for attention.
pub fn of_attention(program: &Program, a: &Attention) -> Vec<Fit> {
    let mut fits = Fits::of(program);
    let Attention { out, q, k, v, .. } = *a;
    let of_query = fits.extent(q.buf, q.feature);
    fits.same((k.buf, k.feature), of_query);
    let keys = fits.extent(k.buf, k.position);
    fits.same((v.buf, v.position), keys);
    let heads = fits.extent(out.buf, out.head);
    for operand in [q, k, v] {
        let at = (operand.buf, operand.head);
        match operand.share {
            1 => fits.same_or_one(at, heads.clone()),
            share => {
                let found = fits.extent(at.0, at.1) * share;
                fits.push(at, found, heads.clone(), false);
            }
        }
        if let (Some(own), Some(of)) = (operand.batch, out.batch) {
            let batch = fits.extent(out.buf, of);
            fits.same((operand.buf, own), batch);
        }
    }
    let queries = fits.extent(q.buf, q.position);
    fits.same((out.buf, out.position), queries);
    let columns = fits.extent(v.buf, v.feature);
    fits.same((out.buf, out.feature), columns);
    if let Some(mask) = &a.mask {
        let along = [
            out.batch.map(|axis| (out.buf, axis)),
            Some((out.buf, out.head)),
            Some((out.buf, out.position)),
            Some((k.buf, k.position)),
        ];
        for (of, axis) in along.into_iter().zip(mask.axes) {
            if let (Some((buf, of)), Some(axis)) = (of, axis) {
                let extent = fits.extent(buf, of);
                let found = fits.extent(mask.buf, axis);
                fits.push((mask.buf, axis), found, extent, mask.spread);
            }
        }
        // The others are read at their first index.
        for axis in 0..program.bufs[mask.buf].shape.len() {
            if !mask.axes.contains(&Some(axis)) {
                let extent = fits.extent(mask.buf, axis);
                fits.same((mask.buf, axis), extent.max(1));
            }
        }
    }
    fits.all
}

struct Fits<'p> {
    program: &'p Program,
    all: Vec<Fit>,
}

impl<'p> Fits<'p> {
    fn of(program: &'p Program) -> Fits<'p> {
        let all = Vec::new();
        Fits { program, all }
    }

    /// Returns an extent; one that never fits where the buffer has no such axis.
    fn extent(&self, buf: Buf, axis: usize) -> Ex {
        let shape = &self.program.bufs[buf].shape;
        shape.get(axis).cloned().unwrap_or(Ex::idx(-1))
    }

    fn same(&mut self, at: (Buf, usize), needed: Ex) {
        let found = self.extent(at.0, at.1);
        self.push(at, found, needed, false);
    }

    fn same_or_one(&mut self, at: (Buf, usize), needed: Ex) {
        let found = self.extent(at.0, at.1);
        self.push(at, found, needed, true);
    }

    fn push(&mut self, at: (Buf, usize), found: Ex, needed: Ex, or_one: bool) {
        self.all.push(Fit {
            at,
            found,
            needed,
            or_one,
        });
    }

    /// Requires all axes of a buffer to be as long as those of another one.
    fn alike(&mut self, out: Buf, data: Buf) {
        let rank = |b: Buf| self.program.bufs[b].shape.len();
        for axis in 0..rank(out).max(rank(data)) {
            let extent = self.extent(data, axis);
            self.same((out, axis), extent);
        }
    }

    fn product(&self, shape: &[Ex]) -> Ex {
        shape.iter().fold(Ex::idx(1), |n, d| n * d)
    }

    fn gemm(&mut self, [a, b, out]: [Buf; 3], [transpose_a, transpose_b]: [bool; 2]) {
        let program = self.program;
        let [a_shape, out_shape] = [a, out].map(|b| &program.bufs[b].shape[..]);
        let (Some((last, lead)), Some((width, rows))) =
            (a_shape.split_last(), out_shape.split_last())
        else {
            // A product of operands other than matrices: nothing fits.
            return self.push((out, 0), Ex::idx(0), Ex::idx(-1), false);
        };
        let (k, m) = match transpose_a {
            true => (self.extent(a, 0), last.clone()),
            false => (last.clone(), self.product(lead)),
        };
        self.same((b, usize::from(transpose_b)), k);
        let columns = self.extent(b, usize::from(!transpose_b));
        let axis = out_shape.len() - 1;
        self.push((out, axis), width.clone(), columns, false);
        if !transpose_a && rows.len() == lead.len() {
            for (axis, extent) in lead.iter().enumerate() {
                self.same((out, axis), extent.clone());
            }
        } else {
            let found = self.product(rows);
            self.push((out, 0), found, m, false);
        }
    }

    fn conv(&mut self, out: Buf, hint: &Hint) {
        let Hint::Conv2d {
            data,
            weight,
            strides,
            padding,
            dilation,
            groups,
            nhwc,
        } = *hint
        else {
            return;
        };
        // The spatial axes of the data, of the weight, and which of rows and columns the first of
        // them is.
        let spatial = self.program.bufs[data].shape.len().saturating_sub(2);
        let first = 2usize.saturating_sub(spatial);
        let (channels, [input, output], image, taps) = match nhwc {
            true => (1 + spatial, [spatial, spatial + 1], 1, 0),
            false => (1, [1, 0], 2, 2),
        };
        let all = self.extent(data, channels);
        let (of_group, filters) = (self.extent(weight, input), self.extent(weight, output));
        let depthwise = groups > 1 && all.as_int() == Some(groups);
        if depthwise && of_group.as_int() != Some(1) {
            // The weight has an axis for the channels and one for the outputs of each of them.
            self.same((out, channels), &of_group * &filters);
        } else {
            self.same((weight, input), all.floor_div(groups));
            if groups != 1 {
                self.same((data, channels), of_group * groups);
            }
            self.same((out, channels), filters);
        }
        let images = self.extent(data, 0);
        self.same((out, 0), images);
        for i in first..2 {
            let k = i - first;
            let window = (self.extent(weight, taps + k) - 1) * dilation[i] + 1;
            let around = padding[i] + padding[i + 2];
            let room = self.extent(data, image + k) + around - window;
            self.same((out, image + k), room.floor_div(strides[i]) + 1);
        }
    }

    fn depthwise3d(&mut self, out: Buf, hint: &Hint) {
        let Hint::Depthwise3d {
            data,
            weight,
            strides,
            padding,
            dilation,
            last,
        } = *hint
        else {
            return;
        };
        let (channels, of_weight, image, taps) = match last {
            true => (4, [3, 4], 1, 0),
            false => (1, [0, 1], 2, 2),
        };
        let [filters, each] = of_weight.map(|axis| self.extent(weight, axis));
        self.same((out, channels), filters * each);
        // Otherwise the kernel refuses what is no multiple.
        if last {
            let own = self.extent(data, channels);
            self.same((out, channels), own);
        }
        let images = self.extent(data, 0);
        self.same((out, 0), images);
        for k in 0..3 {
            let window = (self.extent(weight, taps + k) - 1) * dilation[k] + 1;
            let around = padding[k] + padding[k + 3];
            let room = self.extent(data, image + k) + around - window;
            self.same((out, image + k), room.floor_div(strides[k]) + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use relax_tensor::DType;

    /// A product of (m, k) and (n, k) whose result has `columns` columns.
    fn product(columns: Option<i64>) -> Vec<Fit> {
        let mut b = Builder::new("f");
        let x = b.input("x", DType::F32, &[Some(4), Some(8)]);
        let w = b.input("w", DType::F32, &[None, Some(8)]);
        let columns = columns.map_or(w.shape[0].clone(), Ex::idx);
        let y = b.compute("y", &[Ex::idx(4), columns], |i| x.at(i) + w.at(i));
        b.output(&y);
        let hint = Hint::Gemm {
            a: x.buf,
            b: w.buf,
            transpose_a: false,
            transpose_b: true,
        };
        of_hint(&b.program, y.buf, &hint)
    }

    #[test]
    fn what_follows_from_the_extents_needs_no_check() {
        assert!(product(None).iter().all(Fit::is_proven));
        let open: Vec<Fit> = (product(Some(8)).into_iter())
            .filter(|f| !f.is_proven())
            .collect();
        assert_eq!(open.len(), 1, "the result has as many columns as `w` rows");
        assert_eq!(open[0].found.as_int(), Some(8));
    }
}

//! Stages that only move elements: transposition, slices, broadcasts, and joining along an axis,
//! where selections by one index choose the input. Each piece is one strided copy.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::select::copies::{self, Copies, Joined, Piece};
use relax_loops::select::strided::inside;
use relax_loops::{Compute, Ex, Var};
use relax_runtime::abi;
use relax_runtime::kernels::strided::MAX_RANK;

use super::{Access, Kernel, Result};
use crate::scalar::words;

const _: () = assert!(copies::AXES <= MAX_RANK);

impl Kernel<'_, '_, '_> {
    /// Emits a stage that moves elements as copies.
    pub(super) fn copies(&mut self, c: &Compute, found: &Copies) -> Result<()> {
        match found {
            Copies::Walks(joined) => self.walk(c, joined),
            Copies::Pieces(along, pieces) => self.emit_copies(c, *along, pieces),
        }
    }

    /// Emits a stage of constant size that reads arrays with constant strides, whose loops are split
    /// where divisions in indices, or joined arrays, require it.
    fn walk(&mut self, c: &Compute, Joined { loops, parts }: &Joined) -> Result<()> {
        self.place(c.out)?;
        let size = self.program.bufs[c.out].dtype.size() as i64;
        let mut out_steps = vec![1i64; loops.len()];
        for k in (1..out_steps.len()).rev() {
            out_steps[k - 1] = out_steps[k] * loops[k];
        }
        let out = self.places[&c.out].data;
        for (buf, walk) in parts {
            let (begin, end) = walk.range;
            if begin == end {
                continue;
            }
            let mut extents = loops.clone();
            extents[walk.digit] = end - begin;
            let first = walk.first + begin * walk.steps[walk.digit];
            let from = self.places[buf].data;
            let from = self.b.ins().iadd_imm_s(from, first * size);
            let to = (self.b.ins()).iadd_imm_s(out, begin * out_steps[walk.digit] * size);
            let width = self.b.ins().iconst(types::I32, size);
            let rank = self.b.ins().iconst(types::I32, out_steps.len() as i64);
            let [extents, steps, out_steps] = [&extents, &walk.steps, &out_steps].map(|words| {
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                self.constant(&bytes)
            });
            let args = [width, rank, extents, from, steps, to, out_steps];
            self.run(abi::rx_copy_strided, &args);
        }
        Ok(())
    }

    fn emit_copies(&mut self, c: &Compute, along: usize, pieces: &[Piece]) -> Result<()> {
        self.place(c.out)?;
        let size = self.program.bufs[c.out].dtype.size() as i64;
        let (out, extents) = self.of(c.out);
        let mut out_steps = vec![self.b.ins().iconst(types::I64, 1); extents.len()];
        for k in (1..extents.len()).rev() {
            out_steps[k - 1] = self.b.ins().imul(out_steps[k], extents[k]);
        }
        let axes = self.program.loops(c);
        let zero = self.b.ins().iconst(types::I64, 0);
        let mut begin = zero;
        for piece in pieces {
            let end = match &piece.end {
                Some(bound) => {
                    let bound = self.eval(bound)?;
                    let bound = self.b.ins().smin(bound, extents[along]);
                    self.b.ins().smax(bound, begin)
                }
                None => extents[along],
            };
            let mut part = extents.clone();
            part[along] = self.b.ins().isub(end, begin);
            let whole = pieces.len() == 1;
            let (from, steps) = self.source(piece, &axes, &part, along, begin, whole)?;
            let skipped = self.b.ins().imul(begin, out_steps[along]);
            let skipped = self.b.ins().imul_imm_s(skipped, size);
            let to = self.b.ins().iadd(out, skipped);
            let width = self.b.ins().iconst(types::I32, size);
            let rank = self.b.ins().iconst(types::I32, part.len() as i64);
            let (part, steps, out_steps) = (
                words(self.b, &part),
                words(self.b, &steps),
                words(self.b, &out_steps),
            );
            let args = [width, rank, part, from, steps, to, out_steps];
            self.run(abi::rx_copy_strided, &args);
            begin = end;
        }
        Ok(())
    }

    /// Returns the offset of a piece's first element, and its steps; indices that are not proven in
    /// bounds are checked.
    fn source(
        &mut self,
        piece: &Piece,
        axes: &[(Var, Ex)],
        part: &[Value],
        along: usize,
        begin: Value,
        whole: bool,
    ) -> Result<(Value, Vec<Value>)> {
        let place = self.places[&piece.buf].clone();
        let zero = self.b.ins().iconst(types::I64, 0);
        let mut offset = zero;
        let mut along_axes = vec![zero; part.len()];
        let mut size = self.b.ins().iconst(types::I64, 1);
        let shape = self.program.bufs[piece.buf].shape.clone();
        let mut checks = Vec::new();
        for (index, own) in piece.index.iter().zip(&piece.axes).rev() {
            let mut first = self.eval(&index.1)?;
            let mut bounds = (zero, zero);
            for (j, step) in index.0.iter().enumerate() {
                if step.as_int() == Some(0) {
                    continue;
                }
                let step = self.eval(step)?;
                if j == along {
                    let skipped = self.b.ins().imul(step, begin);
                    first = self.b.ins().iadd(first, skipped);
                }
                let scaled = self.b.ins().imul(step, size);
                along_axes[j] = self.b.ins().iadd(along_axes[j], scaled);
                bounds = self.widened(bounds, step, part[j]);
            }
            let scaled = self.b.ins().imul(first, size);
            offset = self.b.ins().iadd(offset, scaled);
            let extent = self.product(&place.extents[own.clone()]);
            let proven = own.len() == 1 && inside(index, &shape[own.start], axes);
            if !whole || !proven {
                let (low, high) = bounds;
                let bounds = (
                    self.b.ins().iadd(first, low),
                    self.b.ins().iadd(first, high),
                );
                let access = Access {
                    buf: piece.buf,
                    axis: own.start as u32,
                    place: None,
                };
                checks.push((access, bounds, extent));
            }
            size = self.b.ins().imul(size, extent);
        }
        if !checks.is_empty() {
            self.check_box(part, &checks);
        }
        let bytes = self.program.bufs[piece.buf].dtype.size() as i64;
        let bytes = self.b.ins().imul_imm_s(offset, bytes);
        Ok((self.b.ins().iadd(place.data, bytes), along_axes))
    }
}

//! Stages that only move elements: transposition, slices, broadcasts, and joining along an axis,
//! where selections by one index choose the input. Each piece is one strided copy.

use std::ops::Range;

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::select::moves::{Arm, arms};
use relax_loops::{BinOp, Buf, Compute, Ex, ExKind, Program, Var};
use relax_runtime::abi;
use relax_runtime::kernels::strided::MAX_RANK;

use super::strips::{affine, inside};
use super::{Access, Kernel, Result, digits};
use crate::scalar::words;

/// Part of a stage: where one index lies below a bound, the elements come from one load.
struct Piece<'e> {
    /// The piece's end along the joined axis; `None` is the axis's own end.
    end: Option<&'e Ex>,
    buf: Buf,
    /// For each place of the buffer, its step along every axis of the stage, and the offset.
    index: Vec<(Vec<Ex>, Ex)>,
    /// The axes of the buffer that are one place, as [`undivided`] says.
    axes: Vec<Range<usize>>,
}

/// Indices in which no adjacent axes are the quotient and the remainder of one number by the
/// extent of the latter: these are one place of the buffer, at that number. Reshapes with extents
/// known only at run time are read so.
fn undivided(index: &[Ex], shape: &[Ex]) -> Vec<(Ex, Range<usize>)> {
    let mut out: Vec<(Ex, Range<usize>)> = Vec::with_capacity(index.len());
    for (k, e) in index.iter().enumerate() {
        out.push((e.clone(), k..k + 1));
        // A place may be the remainder of the next larger number.
        while let [.., (first, of), (last, own)] = &out[..] {
            let (ExKind::Binary(BinOp::FloorDiv, a, n), ExKind::Binary(BinOp::FloorMod, b, m)) =
                (first.kind(), last.kind())
            else {
                break;
            };
            let extent = shape[own.clone()].iter().fold(Ex::idx(1), |n, d| n * d);
            if a != b || n != m || extent != *n {
                break;
            }
            let joined = (a.clone(), of.start..own.end);
            out.truncate(out.len() - 2);
            out.push(joined);
        }
    }
    out
}

/// Arrays that are joined: the loops over the result, and how each array is traversed.
struct Joined {
    loops: Vec<i64>,
    parts: Vec<(Buf, digits::Walk)>,
}

/// The pieces of a value and the axis along which they are joined; `None` for any other value.
fn pieces<'e>(program: &Program, value: &'e Ex, axes: &[Var]) -> Option<(usize, Vec<Piece<'e>>)> {
    let (mut along, mut out) = (None, Vec::new());
    for Arm { below, buf, index } in arms(value)? {
        if let Some((place, bound)) = below {
            let ExKind::Var(v) = place.kind() else {
                return None;
            };
            let axis = axes.iter().position(|a| a == v)?;
            if along.is_some_and(|a| a != axis) {
                return None;
            }
            along = Some(axis);
            // The bound is the same for all elements.
            let (steps, _) = affine(bound, axes, 8)?;
            steps.iter().all(|s| s.as_int() == Some(0)).then_some(())?;
        }
        let places = undivided(index, &program.bufs[buf].shape);
        let index = (places.iter())
            .map(|(i, _)| affine(i, axes, 16))
            .collect::<Option<Vec<_>>>()?;
        out.push(Piece {
            end: below.map(|b| b.1),
            buf,
            index,
            axes: places.into_iter().map(|p| p.1).collect(),
        });
    }
    Some((along.unwrap_or(0), out))
}

impl Kernel<'_, '_, '_> {
    /// Emits a stage that moves elements as copies; `false` when these are no strided ones.
    pub(super) fn copies(&mut self, c: &Compute) -> Result<bool> {
        let dtype = self.program.bufs[c.out].dtype;
        let shape = self.program.bufs[c.out].shape.clone();
        if shape.len() > MAX_RANK {
            return Ok(false);
        }
        if self.walk(c, &shape)? {
            return Ok(true);
        }
        let Some((along, pieces)) = pieces(self.program, &c.value, &c.axes) else {
            return Ok(false);
        };
        let fits =
            |p: &Piece| self.places.contains_key(&p.buf) && self.program.bufs[p.buf].dtype == dtype;
        if !pieces.iter().all(fits) {
            return Ok(false);
        }
        // Values are memoised by the address of their expression: those created here are temporary.
        self.memo.push(Default::default());
        let done = self.emit_copies(c, along, &pieces);
        self.memo.pop();
        done.map(|()| true)
    }

    /// Emits a stage of constant size that reads arrays with constant strides, after splitting its
    /// loops where divisions in indices, or joined arrays, require it.
    fn walk(&mut self, c: &Compute, shape: &[Ex]) -> Result<bool> {
        let Some(Joined { loops, parts }) = self.walks(c, shape) else {
            return Ok(false);
        };
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
            let from = self.places[&buf].data;
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
        Ok(true)
    }

    /// The loops of such a stage, and how each of its parts is traversed.
    fn walks(&self, c: &Compute, shape: &[Ex]) -> Option<Joined> {
        let known = |shape: &[Ex]| -> Option<Vec<i64>> { shape.iter().map(Ex::as_int).collect() };
        let extents = known(shape)?;
        let dtype = self.program.bufs[c.out].dtype;
        let (mut bufs, mut parts) = (Vec::new(), Vec::new());
        for Arm { below, buf, index } in arms(&c.value)? {
            let of = &self.program.bufs[buf];
            if !self.places.contains_key(&buf) || of.dtype != dtype {
                return None;
            }
            let below = match below {
                Some((place, bound)) => Some((place, bound.as_int()?)),
                None => None,
            };
            bufs.push(buf);
            parts.push(digits::Part {
                below,
                index,
                shape: known(&of.shape)?,
            });
        }
        let (loops, walks) = digits::parts(&c.axes, &extents, &parts)?;
        let parts = bufs.into_iter().zip(walks).collect();
        Some(Joined { loops, parts })
    }

    fn emit_copies(&mut self, c: &Compute, along: usize, pieces: &[Piece<'_>]) -> Result<()> {
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
            let end = match piece.end {
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
        piece: &Piece<'_>,
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

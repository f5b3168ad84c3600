//! Attention: two products with a softmax between them.
//!
//! `softmax(Q Kᵀ · scale + mask) V`, or with `where(mask, …, -inf)`, is recognised by the hints of
//! its stages, however the program was written. The stages are not changed; [`find`] returns which
//! one a kernel may write without those before it.

use relax_tensor::DType;

use crate::{BinOp, Buf, Compute, Ex, ExKind, Hint, Program, Role, Stage, Var};

/// Stages that a kernel may compute at once.
#[derive(Clone, PartialEq, Debug)]
pub struct Attention {
    /// The output.
    pub out: Buf,
    /// Queries: (batch, rows, depth).
    pub q: Buf,
    /// Keys: (batch, keys, depth), or (batch, depth, keys) where not `keys_in_rows`.
    pub k: Buf,
    /// See `k`.
    pub keys_in_rows: bool,
    /// Values: (batch, keys, width), or (batch, width, keys) where not `values_in_rows`.
    pub v: Buf,
    /// See `v`.
    pub values_in_rows: bool,
    /// The factor of scores.
    pub scale: f32,
    /// The mask applied to them then.
    pub mask: Option<Mask>,
}

/// The application of a mask to a score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Masking {
    /// The mask is added.
    Add,
    /// The mask is `bool`: this value is used where it is false.
    Keep(f32),
    /// The mask is `bool`: this value is used where it is true.
    Replace(f32),
}

/// Another operand of scores.
#[derive(Clone, PartialEq, Debug)]
pub struct Mask {
    /// The operand.
    pub buf: Buf,
    /// The way it is applied.
    pub how: Masking,
    /// Its axis for batch, row and key; `None` where it does not vary along them.
    pub axes: [Option<usize>; 3],
}

/// Finds all attentions in a program.
pub fn find(program: &Program) -> Vec<Attention> {
    let outs = program.stages.iter().filter_map(|s| match s {
        Stage::Compute(c) => Some(c.out),
        Stage::Nest(_) => None,
    });
    outs.filter_map(|out| of(program, out)).collect()
}

fn of(program: &Program, out: Buf) -> Option<Attention> {
    let Hint::BatchGemm {
        a: weights,
        b: v,
        transpose_a: false,
        transpose_b,
    } = *program.hint(out)?
    else {
        return None;
    };
    let Hint::Softmax { data, log: false } = *program.hint(weights)? else {
        return None;
    };
    let (mut scores, mut scale, mut mask) = (data, 1.0f64, None);
    // Stages between the product and the softmax: at most a factor and a mask.
    for _ in 0..4 {
        if program.hint(scores).is_some() {
            break;
        }
        let c = program.stage_of(scores).filter(|c| c.reduce.is_none())?;
        let same = program.bufs[c.out].shape == program.bufs[data].shape;
        scores = Scores {
            program,
            c,
            scale: &mut scale,
            mask: &mut mask,
        }
        .peel()
        .filter(|_| same)?;
    }
    let Hint::BatchGemm {
        a: q,
        b: k,
        transpose_a: false,
        transpose_b: keys_in_rows,
    } = *program.hint(scores)?
    else {
        return None;
    };
    let mut floats = [out, weights, data, scores, q, k, v].into_iter();
    let fits = floats.all(|b| program.bufs[b].dtype == DType::F32);
    let finite = (scale as f32).is_finite();
    (fits && finite).then_some(Attention {
        out,
        q,
        k,
        keys_in_rows,
        v,
        values_in_rows: !transpose_b,
        scale: scale as f32,
        mask,
    })
}

/// The operations of a stage on scores, decomposed from the outside in.
struct Scores<'a> {
    program: &'a Program,
    c: &'a Compute,
    scale: &'a mut f64,
    mask: &'a mut Option<Mask>,
}

impl Scores<'_> {
    /// Returns the scores that the stage starts from.
    fn peel(&mut self) -> Option<Buf> {
        let mut e = &self.c.value;
        loop {
            match e.kind() {
                ExKind::Load(buf, index) if self.own(index) && e.dtype() == DType::F32 => {
                    return Some(*buf);
                }
                ExKind::Select(cond, a, b) if self.mask.is_none() && *self.scale == 1.0 => {
                    let (how, x) = match (number(a), number(b)) {
                        (None, Some(fill)) => (Masking::Keep(fill as f32), a),
                        (Some(fill), None) => (Masking::Replace(fill as f32), b),
                        _ => return None,
                    };
                    (*self.mask, e) = (Some(self.operand(cond, how)?), x);
                }
                // A summand outside of a factor would be scaled too, so it comes first.
                ExKind::Binary(BinOp::Add, a, b) if self.mask.is_none() && *self.scale == 1.0 => {
                    (*self.mask, e) =
                        match (self.operand(a, Masking::Add), self.operand(b, Masking::Add)) {
                            (_, Some(m)) => (Some(m), a),
                            (Some(m), _) => (Some(m), b),
                            _ => return None,
                        };
                }
                ExKind::Binary(BinOp::Mul, a, b) => {
                    let (x, factor) = match (number(a), number(b)) {
                        (_, Some(f)) => (a, f),
                        (Some(f), _) => (b, f),
                        _ => return None,
                    };
                    *self.scale *= factor;
                    e = x;
                }
                ExKind::Binary(BinOp::Div, a, b) => {
                    *self.scale /= number(b).filter(|f| *f != 0.0)?;
                    e = a;
                }
                _ => return None,
            }
        }
    }

    fn own(&self, index: &[Ex]) -> bool {
        let extents = &self.program.bufs[self.c.out].shape;
        // An axis of one element may be read at its only index.
        let only = |e: &Ex, extent: &Ex| e.as_int() == Some(0) && extent.as_int() == Some(1);
        let all = index.iter().zip(&self.c.axes).zip(extents);
        index.len() == self.c.axes.len() && { all }
            .all(|((e, v), extent)| is(e, *v) || only(e, extent))
    }

    /// Returns an input that is read at some of the stage's own indices, in their order.
    fn operand(&self, e: &Ex, how: Masking) -> Option<Mask> {
        let ExKind::Load(buf, index) = e.kind() else {
            return None;
        };
        let dtype = match how {
            Masking::Add => DType::F32,
            Masking::Keep(_) | Masking::Replace(_) => DType::BOOL,
        };
        let input = &self.program.bufs[*buf];
        if input.role != Role::Input || input.dtype != dtype {
            return None;
        }
        let (mut axes, mut next) = ([None; 3], 0);
        for (k, i) in index.iter().enumerate() {
            if i.as_int() == Some(0) {
                continue;
            }
            let axis = self.c.axes.iter().position(|v| is(i, *v))?;
            if axis < next || axis >= 3 {
                return None;
            }
            (axes[axis], next) = (Some(k), axis + 1);
        }
        Some(Mask {
            buf: *buf,
            how,
            axes,
        })
    }
}

fn is(e: &Ex, v: Var) -> bool {
    matches!(e.kind(), ExKind::Var(w) if *w == v)
}

fn number(e: &Ex) -> Option<f64> {
    match e.kind() {
        ExKind::Float(v) => Some(*v),
        _ => None,
    }
}

//! Attention: two products with a softmax between them.
//!
//! `softmax(Q Kᵀ · scale + mask) V`, or with `where(mask, …, -inf)`, is recognised by the hints of
//! its stages, however the program was written, or by the hint of the whole. The stages are not
//! changed; [`find`] returns which one a kernel may write without those before it.

use relax_tensor::DType;

use crate::{BinOp, Buf, Compute, Ex, ExKind, Hint, Program, Role, Seen, Stage, Var};

/// Stages that a kernel may compute at once.
#[derive(Clone, PartialEq, Debug)]
pub struct Attention {
    /// The output, at the axes of the queries.
    pub out: Operand,
    /// Queries.
    pub q: Operand,
    /// Keys.
    pub k: Operand,
    /// Values.
    pub v: Operand,
    /// The factor of scores.
    pub scale: f32,
    /// The mask applied to them then.
    pub mask: Option<Mask>,
    /// The keys that each query sees.
    pub seen: Seen,
}

/// An operand and the meaning of its axes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Operand {
    /// The buffer.
    pub buf: Buf,
    /// The axis of the batch.
    pub batch: Option<usize>,
    /// The axis of the heads.
    pub head: usize,
    /// The axis of the positions.
    pub position: usize,
    /// The axis of the features.
    pub feature: usize,
    /// The number of adjacent heads of queries that share one of this operand.
    pub share: i64,
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
    /// Its axis for batch, head, row and key; `None` where it does not vary along them.
    pub axes: [Option<usize>; 4],
    /// Whether an axis that turns out to have one element is broadcast.
    pub spread: bool,
}

/// Finds all attentions in a program.
pub fn find(program: &Program) -> Vec<Attention> {
    let outs = program.stages.iter().filter_map(|s| match s {
        Stage::Compute(c) => Some(c.out),
        Stage::Nest(_) => None,
    });
    outs.filter_map(|out| of(program, out)).collect()
}

/// Queries, keys or values in rows, (batch, position, feature), or turned, as heads of one batch.
fn matrices(buf: Buf, turned: bool) -> Operand {
    let (position, feature) = if turned { (2, 1) } else { (1, 2) };
    Operand {
        buf,
        batch: None,
        head: 0,
        position,
        feature,
        share: 1,
    }
}

/// Heads that lie beside each other: (batch, position, head, feature).
fn heads(program: &Program, buf: Buf, of: &Ex) -> Option<Operand> {
    let own = program.bufs[buf].shape.get(2)?.as_int()?;
    let all = of.as_int()?;
    (own > 0 && all % own == 0).then(|| Operand {
        buf,
        batch: Some(0),
        head: 2,
        position: 1,
        feature: 3,
        share: all / own,
    })
}

/// Looks through stages that repeat heads.
fn source(program: &Program, mut of: Operand) -> Operand {
    while let Some((from, times)) = repeated(program, &of) {
        of.buf = from;
        of.share *= times;
    }
    of
}

/// The buffer whose heads a stage repeats, each so many times in succession.
fn repeated(program: &Program, of: &Operand) -> Option<(Buf, i64)> {
    let c = program.stage_of(of.buf).filter(|c| c.reduce.is_none())?;
    let ExKind::Load(from, index) = c.value.kind() else {
        return None;
    };
    let mut times = 1;
    for (axis, (e, v)) in index.iter().zip(&c.axes).enumerate() {
        match e.kind() {
            ExKind::Binary(BinOp::FloorDiv, i, n) if axis == of.head && is(i, *v) => {
                times = n.as_int().filter(|n| *n > 0)?;
            }
            _ => (is(e, *v) || e.as_int() == Some(0)).then_some(())?,
        }
    }
    let (shape, own) = (&program.bufs[*from].shape, &program.bufs[of.buf].shape);
    let same = shape.len() == own.len() && index.len() == own.len();
    let ones = index.iter().zip(shape).zip(own);
    let only = |e: &Ex| e.as_int() == Some(1);
    let sound = { ones }.all(|((e, n), m)| e.as_int() != Some(0) || only(n) && only(m));
    let typed = program.bufs[*from].dtype == DType::F32;
    (same && sound && typed).then_some((*from, times))
}

/// The attention of a hint about the whole.
fn whole(program: &Program, out: Buf, hint: &Hint) -> Option<Attention> {
    let Hint::Attention {
        q,
        k,
        v,
        bias,
        scale,
        seen,
    } = *hint
    else {
        return None;
    };
    let of = program.bufs[q].shape.get(2)?;
    let [out, q, k, v] = [out, q, k, v].map(|b| heads(program, b, of));
    let mask = bias.map(|buf| {
        let shape = &program.bufs[buf].shape;
        let varies = |k: usize| shape.get(k).is_some_and(|n| n.as_int() != Some(1));
        Mask {
            buf,
            how: Masking::Add,
            axes: [0, 1, 2, 3].map(|k| varies(k).then_some(k)),
            spread: true,
        }
    });
    Some(Attention {
        out: out?,
        q: q?,
        k: source(program, k?),
        v: source(program, v?),
        scale: scale as f32,
        mask,
        seen,
    })
}

fn of(program: &Program, out: Buf) -> Option<Attention> {
    let hint = program.hint(out)?;
    if let Some(found) = whole(program, out, hint) {
        return Some(found);
    }
    let Hint::BatchGemm {
        a: weights,
        b: v,
        transpose_a: false,
        transpose_b,
    } = *hint
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
        out: matrices(out, false),
        q: matrices(q, false),
        k: source(program, matrices(k, !keys_in_rows)),
        v: source(program, matrices(v, transpose_b)),
        scale: scale as f32,
        mask,
        seen: Seen::default(),
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
        // Batches are heads of one.
        let (mut axes, mut next) = ([None; 4], 0);
        for (k, i) in index.iter().enumerate() {
            if i.as_int() == Some(0) {
                continue;
            }
            let axis = self.c.axes.iter().position(|v| is(i, *v))?;
            if axis < next || axis >= 3 {
                return None;
            }
            (axes[axis + 1], next) = (Some(k), axis + 1);
        }
        Some(Mask {
            buf: *buf,
            how,
            axes,
            spread: false,
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

//! Epilogues: operations on the result of a product or convolution before it is stored.
//!
//! A stage that reads the result of a hinted stage element by element and only scales it, adds to
//! it and bounds it is its epilogue: the kernel writes that stage's output and the sums themselves
//! are never stored. The stages are not changed; [`find`] returns which pairs a kernel may compute
//! at once.

use crate::continued::{largest_part, only_reader, reads, split_off};
use crate::{BinOp, Buf, Buffer, Compute, Ex, ExKind, Hint, Program, Role, Stage, visit_expr};
use relax_tensor::DType;

/// `bound((sum + offset) * scale + bias + residual)`, rounded; parts that are `None` are omitted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Epilogue {
    /// A summand per channel, before the factor.
    pub offset: Option<Buf>,
    /// A factor per channel.
    pub scale: Option<Buf>,
    /// A summand per channel.
    pub bias: Option<Buf>,
    /// A summand per element.
    pub residual: Option<Buf>,
    /// The bounds of the result.
    pub bounds: Option<Bounds>,
    /// Whether the result is rounded to float16, last of all. Bounds that are numbers of it are the
    /// same before that and after.
    pub halved: bool,
}

/// The least and the largest result, which may be infinite.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// The least.
    pub lo: f32,
    /// The largest.
    pub hi: f32,
    /// What becomes of NaN.
    pub nan: OfNan,
}

/// What a bounded NaN becomes: it differs from a number by the order in which the two bounds are
/// taken, and by which operand of these the bound is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfNan {
    /// The lower bound: `min(max(x, lo), hi)`.
    Low,
    /// The upper bound: `max(min(x, hi), lo)`.
    High,
    /// NaN: `min(hi, max(lo, x))`.
    Nan,
}

impl Bounds {
    /// Returns what an expression is bounded to by the maxima and minima with numbers around it, and
    /// the expression without them; `None` where no one pair of bounds does the same.
    fn around(mut e: &Ex) -> Option<(Option<Bounds>, &Ex)> {
        let mut taken = Vec::new();
        while let ExKind::Binary(op @ (BinOp::Max | BinOp::Min), a, b) = e.kind() {
            let (element_first, bound, x) = match (a.as_float(), b.as_float()) {
                (None, Some(bound)) => (true, bound, a),
                (Some(bound), None) => (false, bound, b),
                _ => break,
            };
            taken.push((*op == BinOp::Max, element_first, bound as f32));
            e = x;
        }
        let Some(&(_, first, start)) = taken.last() else {
            return Some((None, e));
        };
        let (mut lo, mut hi, mut of_nan) = (f32::NEG_INFINITY, f32::INFINITY, start);
        for &(is_max, element_first, bound) in taken.iter().rev() {
            let (mine, other) = match is_max {
                true => (&mut lo, hi),
                false => (&mut hi, lo),
            };
            // Zeros of both signs would not be told apart in the same way.
            let mixed =
                element_first != first || bound == *mine && bound.to_bits() != mine.to_bits();
            if mixed || bound.is_nan() || bound == other {
                return None;
            }
            match is_max {
                true => (lo, of_nan) = (lo.max(bound), of_nan.max(bound)),
                false => (hi, of_nan) = (hi.min(bound), of_nan.min(bound)),
            }
        }
        let nan = match of_nan {
            _ if lo >= hi => return None,
            _ if !first => OfNan::Nan,
            n if n == lo => OfNan::Low,
            n if n == hi => OfNan::High,
            _ => return None,
        };
        Some((Some(Bounds { lo, hi, nan }), e))
    }
}

impl Epilogue {
    /// The buffers that it reads.
    pub fn operands(&self) -> impl Iterator<Item = Buf> {
        let all = [self.offset, self.scale, self.bias, self.residual];
        all.into_iter().flatten()
    }
}

/// A hinted stage with the stage that follows it.
#[derive(Clone, PartialEq, Debug)]
pub struct Fused {
    /// The number of the stage with the hint.
    pub producer: usize,
    /// The number of the stage that is its epilogue.
    pub consumer: usize,
    /// The operations of that stage.
    pub epilogue: Epilogue,
}

/// Returns all epilogues of a program.
pub fn find(program: &Program) -> Vec<Fused> {
    let mut found: Vec<Fused> = Vec::new();
    for (k, stage) in program.stages.iter().enumerate() {
        let Some(sums) = Sums::of(program, stage) else {
            continue;
        };
        let Some((q, c)) = sums.reader(k) else {
            continue;
        };
        if let Some(epilogue) = sums.epilogue(c, &c.value)
            && epilogue != Epilogue::default()
            && found.iter().all(|f| f.consumer != q)
        {
            found.push(Fused {
                producer: k,
                consumer: q,
                epilogue,
            });
        }
    }
    found
}

/// Splits stages that begin with an epilogue and continue (`gelu(sum + bias)`) in two, so that the
/// kernel can compute the first part.
pub fn split(program: &mut Program) {
    let mut k = 0;
    while k < program.stages.len() {
        if let Some((q, part, out)) = beginning(program, k) {
            let between = Buffer {
                role: Role::Temp,
                ..program.bufs[out].clone()
            };
            split_off(program, q, &part, out, between);
        }
        k += 1;
    }
}

/// Returns the reader of stage `k`, if that continues, with the epilogue that it begins with and the
/// sums.
fn beginning(program: &Program, k: usize) -> Option<(usize, Ex, Buf)> {
    let sums = Sums::of(program, &program.stages[k])?;
    let (q, c) = sums.reader(k)?;
    if sums.epilogue(c, &c.value).is_some() {
        return None;
    }
    let part = largest_part(&c.value, |e| {
        (sums.epilogue(c, e)).is_some_and(|x| x != Epilogue::default())
    })?;
    Some((q, part, sums.out))
}

/// Returns whether a stage reads the sums of a product or convolution at its own indices: it may
/// become an epilogue, so it is not fused into a reader with other indices.
pub fn follows_sums(program: &Program, c: &Compute) -> bool {
    program.stages.iter().any(|stage| {
        Sums::of(program, stage).is_some_and(|sums| {
            let mut found = false;
            visit_expr(&c.value, |e| found |= sums.at_own_index(c, e));
            found
        })
    })
}

/// A stage whose kernel supports an epilogue.
struct Sums<'p> {
    program: &'p Program,
    out: Buf,
    /// The axis along which `scale` and `bias` vary.
    channel: usize,
}

impl<'p> Sums<'p> {
    fn of(program: &'p Program, stage: &Stage) -> Option<Sums<'p>> {
        let Stage::Compute(Compute { out, .. }) = stage else {
            return None;
        };
        let hint = program.hint(*out)?;
        let rank = program.bufs[*out].shape.len();
        let channel = match hint {
            Hint::Gemm { .. }
            | Hint::BatchGemm { .. }
            | Hint::Conv2d { nhwc: true, .. }
            | Hint::Depthwise3d { last: true, .. } => rank.checked_sub(1)?,
            Hint::Conv2d { nhwc: false, .. }
            | Hint::Depthwise3d { last: false, .. }
            | Hint::Conv2dTranspose { .. } => 1,
            _ => return None,
        };
        (program.bufs[*out].dtype == DType::F32).then_some(Sums {
            program,
            out: *out,
            channel,
        })
    }

    /// Returns the only stage that reads the sums of stage `k`, when it has their shape.
    fn reader(&self, k: usize) -> Option<(usize, &'p Compute)> {
        let found = only_reader(self.program, k, self.out)?;
        (self.program.bufs[found.1.out].dtype == DType::F32).then_some(found)
    }

    /// Returns whether `e` is the element of the sums at the indices of `c`.
    fn at_own_index(&self, c: &Compute, e: &Ex) -> bool {
        matches!(e.kind(), ExKind::Load(b, index) if *b == self.out && self.own(c, *b, index))
    }

    fn own(&self, c: &Compute, buf: Buf, index: &[Ex]) -> bool {
        let shape = &self.program.bufs[buf].shape;
        let of_sums = &self.program.bufs[self.out].shape;
        let mine = |(k, i): (usize, &Ex)| match i.kind() {
            ExKind::Var(v) => c.axes[k] == *v,
            ExKind::Int(0) => of_sums[k].as_int() == Some(1),
            _ => false,
        };
        index.len() == c.axes.len() && shape == of_sums && index.iter().enumerate().all(mine)
    }

    /// Returns a buffer with one element per channel that is read at the channel.
    fn per_channel(&self, c: &Compute, e: &Ex) -> Option<Buf> {
        let ExKind::Load(buf, index) = e.kind() else {
            return None;
        };
        let (shape, mut found) = (&self.program.bufs[*buf].shape, false);
        let channels = &self.program.bufs[self.out].shape[self.channel];
        for (i, extent) in index.iter().zip(shape) {
            match i.kind() {
                ExKind::Int(0) if extent.as_int() == Some(1) => {}
                ExKind::Var(v) if c.axes.get(self.channel) == Some(v) && !found => {
                    if extent != channels {
                        return None;
                    }
                    found = true;
                }
                _ => return None,
            }
        }
        // One channel: index 0 everywhere.
        let one = channels.as_int() == Some(1);
        ((found || one) && self.program.bufs[*buf].dtype == DType::F32).then_some(*buf)
    }

    /// Returns what an expression adds to the sums: nothing, or a number per channel.
    fn offset(&self, c: &Compute, e: &Ex) -> Option<Option<Buf>> {
        if self.at_own_index(c, e) {
            return Some(None);
        }
        let ExKind::Binary(BinOp::Add, a, b) = e.kind() else {
            return None;
        };
        let (sum, offset) = if reads(a, self.out) { (a, b) } else { (b, a) };
        let sums = self.at_own_index(c, sum);
        sums.then(|| self.per_channel(c, offset).map(Some))?
    }

    /// Returns the epilogue that an expression of the reader `c` applies to the sums.
    fn epilogue(&self, c: &Compute, value: &Ex) -> Option<Epilogue> {
        let mut out = Epilogue::default();
        let mut e = value;
        if let ExKind::Cast(narrow) = value.kind()
            && narrow.dtype() == DType::F16
        {
            (out.halved, e) = (true, narrow);
        }
        (out.bounds, e) = Bounds::around(e)?;
        if out.halved {
            e = match e.kind() {
                ExKind::Cast(sum) if sum.dtype() == DType::F32 => sum,
                _ => return None,
            };
        }
        let mut terms = vec![e];
        let mut seen = false;
        while let Some(e) = terms.pop() {
            if self.at_own_index(c, e) {
                if std::mem::replace(&mut seen, true) {
                    return None;
                }
                continue;
            }
            if reads(e, self.out) {
                match e.kind() {
                    ExKind::Binary(BinOp::Add, a, b) => terms.extend([a, b]),
                    ExKind::Binary(BinOp::Mul, a, b) if out.scale.is_none() && !seen => {
                        let (sum, factor) = if reads(a, self.out) { (a, b) } else { (b, a) };
                        out.offset = self.offset(c, sum)?;
                        out.scale = Some(self.per_channel(c, factor)?);
                        seen = true;
                    }
                    _ => return None,
                }
                continue;
            }
            if let (Some(buf), true) = (self.per_channel(c, e), out.bias.is_none()) {
                out.bias = Some(buf);
                continue;
            }
            match e.kind() {
                ExKind::Load(buf, index)
                    if out.residual.is_none()
                        && self.program.bufs[*buf].dtype == DType::F32
                        && self.own(c, *buf, index) =>
                {
                    out.residual = Some(*buf);
                }
                _ => return None,
            }
        }
        seen.then_some(out)
    }
}

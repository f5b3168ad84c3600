//! Element-wise stages and reductions of float32 as operations on strips: the stage's expression
//! becomes a list of vector operations, its indices become steps. Integers that are loaded may be
//! converted to floats, and bytes that are stored from them.

use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::operations::{Form, Op, Operand, Operations, Read, Split, Vectors, selection};
use crate::extents::elements;
use crate::{BinOp, Buf, Combiner, Compute, Ex, ExKind, Program, UnOp, Var, as_byte};

/// The maximum number of inputs.
pub const INPUTS: usize = 16;
/// The maximum number of operations.
pub const OPS: usize = 64;
/// The maximum number of constants.
pub const CONSTANTS: usize = 16;
/// Elements below which a call does not pay.
const FEW: i64 = 16;

/// Returns whether elements of a type may be converted to floats on their way.
fn is_operand(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32
    )
}

/// Returns whether there is such an operation on strips.
pub fn takes(op: Op) -> bool {
    match op {
        Op::Unary(op) => matches!(
            op,
            UnOp::Neg
                | UnOp::Abs
                | UnOp::Sqrt
                | UnOp::Rsqrt
                | UnOp::RoundEven
                | UnOp::Round
                | UnOp::Floor
                | UnOp::Ceil
                | UnOp::Trunc
                | UnOp::Exp
                | UnOp::Log
                | UnOp::Tanh
                | UnOp::Erf
                | UnOp::Sigmoid
                | UnOp::Sin
                | UnOp::Cos
        ),
        Op::Binary(op) => matches!(
            op,
            BinOp::Add
                | BinOp::Sub
                | BinOp::Mul
                | BinOp::Div
                | BinOp::Min
                | BinOp::Max
                | BinOp::Pow
        ),
        Op::Copy | Op::SelectLt | Op::SelectLe | Op::SelectEq => true,
        Op::Select | Op::Cast | Op::Narrow | Op::MaxMin | Op::MinMax | Op::Rescale => false,
    }
}

/// Returns the operations on strips that a stage is; `None` when it does not fit.
pub(super) fn find(program: &Program, c: &Compute, stage: &Split) -> Option<Vectors> {
    let of = |b: Buf| program.bufs[b].dtype;
    let value = match of(c.out) {
        DType::F32 => c.value.clone(),
        _ => as_byte(&c.value)?,
    };
    if let Some(Combiner::And | Combiner::Or) = c.reduce.as_ref().map(|r| r.combiner) {
        return None;
    }
    let axes = program.loops(c);
    if elements(axes.iter().map(|a| &a.1)).is_some_and(|n| n < FEW) {
        return None;
    }
    // Short windows of few elements: a strip would be almost empty. Axes of extent 1 do not count.
    let short = |axes: &[(Var, Ex)]| {
        let mut extents = axes.iter().rev().map(|a| a.1.as_int());
        extents.find(|n| *n != Some(1)).flatten().unwrap_or(64) < 8
    };
    if c.reduce.is_some() && short(&axes) && short(&axes[..c.axes.len()]) {
        return None;
    }
    let operations = translate(&value, stage)?;
    let mut inputs = operations.inputs.iter().filter_map(|r| match r {
        Read::Memory(read) => Some(read),
        Read::Index(..) => None,
    });
    let floats = |b: Buf| of(b) == DType::F32;
    if c.reduce.is_some() && !(floats(c.out) && inputs.clone().all(|i| floats(i.buf))) {
        return None;
    }
    // Loads on only one side of a selection must be neither executed nor checked when the other
    // side is chosen.
    let selects = |op: Op| matches!(op, Op::SelectLt | Op::SelectLe | Op::SelectEq);
    let fits = !operations.steps.iter().any(|s| selects(s.op))
        || inputs.all(|i| stage.is_inside(program, i));
    fits.then(|| stage.stage(Form::Strips, operations))
}

/// The operations of an expression; `None` when one is unsupported.
fn translate(value: &Ex, stage: &Split) -> Option<Operations> {
    let float = DType::F32;
    let mut out = Operations::default();
    let mut known: FxHashMap<usize, Operand> = FxHashMap::default();
    let mut work = vec![(value, false)];
    while let Some((e, ready)) = work.pop() {
        if known.contains_key(&e.addr()) {
            continue;
        }
        if e.dtype() != float {
            return None;
        }
        // What is loaded, as it is or converted to a float.
        let loaded = match e.kind() {
            ExKind::Cast(x) if is_operand(x.dtype()) => x,
            _ => e,
        };
        let operand = match loaded.kind() {
            ExKind::Float(v) => out.constant((*v as f32).to_bits().into(), 4),
            ExKind::Load(buf, index) => out.memory(stage.load(loaded, *buf, index)?),
            _ if loaded.addr() != e.addr() => return None,
            _ => {
                let applied = Applied::of(e)?;
                if !ready {
                    work.push((e, true));
                    work.extend(applied.parts.iter().rev().map(|p| (*p, false)));
                    continue;
                }
                let args = applied.args(|part| known[&part.addr()]);
                out.push(applied.op, float, float, args)
            }
        };
        if out.steps.len() > OPS || out.inputs.len() > INPUTS || out.constants.len() > CONSTANTS {
            return None;
        }
        known.insert(e.addr(), operand);
    }
    let result = known[&value.addr()];
    if out.steps.is_empty() || result != Operand::Temp(out.steps.len() - 1) {
        out.push(Op::Copy, float, float, vec![result]);
    }
    Some(out)
}

/// An operation and the expressions that it is applied to, in the order in which they are computed.
struct Applied<'e> {
    op: Op,
    parts: Vec<&'e Ex>,
    /// Of a selection: whether what is compared is exchanged, and what is selected.
    swapped: (bool, bool),
}

impl<'e> Applied<'e> {
    fn of(e: &'e Ex) -> Option<Applied<'e>> {
        let plain = (false, false);
        let (op, parts, swapped) = match e.kind() {
            ExKind::Unary(op, a) => (Op::Unary(*op), vec![a], plain),
            ExKind::Binary(op, a, b) => (Op::Binary(*op), vec![a, b], plain),
            ExKind::Select(c, yes, no) => {
                let ExKind::Binary(op, a, b) = c.kind() else {
                    return None;
                };
                let (op, turned, exchanged) = selection(*op)?;
                (op, vec![a, b, yes, no], (turned, exchanged))
            }
            _ => return None,
        };
        takes(op).then_some(Applied { op, parts, swapped })
    }

    fn args(&self, operand: impl Fn(&Ex) -> Operand) -> Vec<Operand> {
        let mut args: Vec<Operand> = self.parts.iter().map(|p| operand(p)).collect();
        if self.swapped.0 {
            args.swap(0, 1);
        }
        if self.swapped.1 {
            args.swap(2, 3);
        }
        args
    }
}

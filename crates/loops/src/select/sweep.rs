//! Stages of any element type as operations of a sweep: the stage's expression becomes a list of
//! vector operations, each with types of its own.
//!
//! Elements that are not read with constant strides, and selections where speculative evaluation of
//! a side is unsafe, are left to loops.

use half::{bf16, f16};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::lines::is_element;
use super::operations::{
    Form, Op, Operand, Operations, Split, Vectors, rescaled, selection, side_by_side,
};
use super::strided::{Strided, affine, inside};
use crate::extents::elements;
use crate::{BinOp, Buf, Combiner, Compute, Ex, ExKind, Program, UnOp, Var, has_loads, visit_expr};

/// The maximum number of inputs.
pub const INPUTS: usize = 32;
/// The maximum number of inputs, constants and operations together.
pub const OPERANDS: usize = 128;
/// The maximum number of operations.
const OPS: usize = 96;
/// The maximum nesting depth of expressions.
const DEPTH: usize = 48;
/// Elements below which a call does not pay.
const FEW: i64 = 64;
/// Elements of a result's reduction below which folding vectors costs more than a loop.
const SHORT: i64 = 64;
/// The same for narrow floats, and the number of adjacent results for which vectors pay.
const WIDE: i64 = 8;

/// Returns whether a type is a float without native arithmetic.
fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Returns the type in which elements of a type are held in registers.
fn register(dtype: DType) -> DType {
    if is_half(dtype) { DType::F32 } else { dtype }
}

/// The number of reduced elements from which a sweep pays, for a result of type `out` over `axes`.
fn least(c: &Compute, out: DType, axes: &[(Var, Ex)]) -> i64 {
    let mut halves = is_half(out);
    visit_expr(&c.value, |e| halves |= is_half(e.dtype()));
    // Loops convert narrow floats one by one, which takes longer than all overhead of a sweep.
    match halves {
        true if axes.last().and_then(|a| a.1.as_int()) >= Some(WIDE) => 0,
        true => WIDE,
        false => SHORT,
    }
}

/// Returns the operations of a sweep that a stage is; `None` when it does not fit.
pub(super) fn find(program: &Program, c: &Compute, stage: &Split) -> Option<Vectors> {
    let out = program.bufs[c.out].dtype;
    let combiner = c.reduce.as_ref().map(|r| r.combiner);
    let arithmetic = matches!(combiner, Some(Combiner::Sum | Combiner::Prod));
    let bitwise = matches!(combiner, Some(Combiner::And | Combiner::Or));
    let suits = !(arithmetic && out == DType::BOOL || bitwise && out.is_float());
    if !is_element(out) || !suits {
        return None;
    }
    let axes = program.loops(c);
    if elements(axes.iter().map(|a| &a.1)).is_some_and(|n| n < FEW) {
        return None;
    }
    let (result, folded) = axes.split_at(c.axes.len());
    let length = elements(folded.iter().map(|a| &a.1));
    let beside = side_by_side(c, out);
    if !folded.is_empty() && !beside && length.is_some_and(|n| n < least(c, out, result)) {
        return None;
    }
    let bits = c.reduce.is_none() && only_chooses(&c.value);
    let operations = translate(program, &c.value, stage, bits)?;
    Some(stage.stage(Form::Sweep, operations))
}

/// Returns whether an expression chooses among narrow floats and does nothing else with any: their
/// bits are all that matters then.
fn only_chooses(value: &Ex) -> bool {
    let mut fits = is_half(value.dtype());
    visit_expr(value, |e| {
        let moves = matches!(
            e.kind(),
            ExKind::Load(..) | ExKind::Float(_) | ExKind::Select(..)
        );
        let computes = !is_half(e.dtype()) && e.children().any(|x| is_half(x.dtype()));
        fits &= !computes && (moves || !is_half(e.dtype()));
    });
    fits
}

/// The operations of an expression; `None` when one is unsupported. With `bits`, narrow floats are
/// moved as integers of 16 bits.
fn translate(program: &Program, value: &Ex, stage: &Split, bits: bool) -> Option<Operations> {
    let mut t = Translation {
        program,
        stage,
        bits,
        known: FxHashMap::default(),
        out: Operations::default(),
    };
    let result = t.value(value, DEPTH)?;
    let mut out = std::mem::take(&mut t.out);
    if out.steps.is_empty() || result != Operand::Temp(out.steps.len() - 1) {
        let dtype = t.register(value.dtype());
        out.push(Op::Copy, dtype, dtype, vec![result]);
    }
    let fits = out.inputs.len() <= INPUTS && out.steps.len() <= OPS;
    (fits && out.inputs.len() + out.constants.len() + out.steps.len() <= OPERANDS).then_some(out)
}

struct Translation<'a> {
    program: &'a Program,
    stage: &'a Split,
    /// Narrow floats are their bits.
    bits: bool,
    /// Expressions by address.
    known: FxHashMap<usize, Operand>,
    out: Operations,
}

impl Translation<'_> {
    /// The type in which elements of a type are held.
    fn register(&self, dtype: DType) -> DType {
        match self.bits && is_half(dtype) {
            true => DType::U16,
            false => register(dtype),
        }
    }

    /// An index that is affine in the axes.
    fn even(&self, e: &Ex) -> Option<(Vec<Ex>, Ex)> {
        affine(e, &self.stage.vars, 16).filter(|_| !has_loads(e))
    }

    /// Returns whether an expression can be evaluated speculatively.
    fn safe(&self, e: &Ex) -> bool {
        let mut safe = true;
        // Loads traversed by a cut are in bounds.
        if self.stage.cut.is_some() {
            return true;
        }
        visit_expr(e, |x| {
            if let ExKind::Load(buf, index) = x.kind() {
                let shape = &self.program.bufs[*buf].shape;
                let index: Option<Vec<_>> = index.iter().map(|i| self.even(i)).collect();
                safe &= index.is_some_and(|i| {
                    (i.iter().zip(shape)).all(|(i, extent)| inside(i, extent, &self.stage.axes))
                });
            }
        });
        safe
    }

    fn value(&mut self, e: &Ex, depth: usize) -> Option<Operand> {
        if let Some(&found) = self.known.get(&e.addr()) {
            return Some(found);
        }
        if depth == 0 || self.out.steps.len() > OPS {
            return None;
        }
        let own = element(e.dtype())?;
        let operand = match e.kind() {
            ExKind::Int(v) => self.constant(own, *v as u64, *v as f64),
            ExKind::Float(v) => self.constant(own, 0, *v),
            _ if own == DType::I64 && self.even(e).is_some() => {
                let (steps, rest) = self.even(e)?;
                self.out.index(steps, rest)
            }
            ExKind::Var(_) => return None,
            ExKind::Load(buf, index) => {
                let read = self.load(e, *buf, index)?;
                self.out.memory(read)
            }
            ExKind::Unary(op, a) => {
                let from = element(a.dtype())?;
                let a = self.value(a, depth - 1)?;
                self.unary(*op, from, a)?
            }
            ExKind::Binary(op, a, c) if self.bounded(*op, a).is_some() => {
                let (op, [a, b]) = self.bounded(*op, a)?;
                let mut args = Vec::new();
                for e in [a, b, c] {
                    args.push(self.value(e, depth - 1)?);
                }
                let dtype = self.register(own);
                self.out.push(op, dtype, dtype, args)
            }
            ExKind::Binary(op, a, b) => {
                let from = element(a.dtype())?;
                let x = self.value(a, depth - 1)?;
                let y = self.value(b, depth - 1)?;
                self.binary(*op, from, x, y)?
            }
            // Both sides are computed for all elements.
            ExKind::Select(_, a, b) if !self.safe(a) || !self.safe(b) => return None,
            ExKind::Select(c, a, b) if self.compared(c, own).is_some() => {
                let (op, [x, y], turned) = self.compared(c, own)?;
                let (a, b) = if turned { (b, a) } else { (a, b) };
                let mut args = Vec::new();
                for e in [x, y, a, b] {
                    args.push(self.value(e, depth - 1)?);
                }
                let dtype = self.register(own);
                self.out.push(op, dtype, dtype, args)
            }
            ExKind::Select(c, a, b) => {
                let c = self.value(c, depth - 1)?;
                let x = self.value(a, depth - 1)?;
                let y = self.value(b, depth - 1)?;
                let dtype = self.register(own);
                self.out.push(Op::Select, dtype, dtype, vec![c, x, y])
            }
            ExKind::Cast(a) => match rescaled(e) {
                Some(found) => {
                    let mut args = vec![self.value(found.number, depth - 1)?];
                    for by in found.by {
                        args.push(self.constant(DType::I64, by as u64, 0.0));
                    }
                    self.out.push(Op::Rescale, found.number.dtype(), own, args)
                }
                None => {
                    let from = element(a.dtype())?;
                    let a = self.value(a, depth - 1)?;
                    self.cast(from, own, a)
                }
            },
            ExKind::Reinterpret(a) => {
                let from = element(a.dtype())?;
                let whole = |d: DType| !is_half(d) && d != DType::BOOL;
                if !whole(from) || !whole(own) {
                    return None;
                }
                self.value(a, depth - 1)?
            }
        };
        self.known.insert(e.addr(), operand);
        Some(operand)
    }

    /// The minimum of a maximum, or the other way round, as one operation with the operands of what
    /// is inside, unless that is known.
    fn bounded<'e>(&self, op: BinOp, a: &'e Ex) -> Option<(Op, [&'e Ex; 2])> {
        let ExKind::Binary(inside, x, y) = a.kind() else {
            return None;
        };
        if self.known.contains_key(&a.addr()) || a.dtype().is_bool() {
            return None;
        }
        match (inside, op) {
            (BinOp::Max, BinOp::Min) => Some((Op::MaxMin, [x, y])),
            (BinOp::Min, BinOp::Max) => Some((Op::MinMax, [x, y])),
            _ => None,
        }
    }

    /// The comparison that a selection of elements of a type is made by, as one operation with it:
    /// what is compared, and whether the sides are exchanged. `None` where it compares elements of
    /// another type, or is known.
    fn compared<'e>(&self, c: &'e Ex, own: DType) -> Option<(Op, [&'e Ex; 2], bool)> {
        let ExKind::Binary(op, x, y) = c.kind() else {
            return None;
        };
        let alike =
            element(x.dtype()).map(register) == Some(self.register(own)) && own != DType::BOOL;
        if !alike || self.known.contains_key(&c.addr()) {
            return None;
        }
        let (op, turned, exchanged) = selection(*op)?;
        Some((op, if turned { [y, x] } else { [x, y] }, exchanged))
    }

    fn constant(&mut self, dtype: DType, bits: u64, value: f64) -> Operand {
        let bits = match self.register(dtype) {
            DType::U16 if dtype == DType::F16 => f16::from_f64(value).to_bits().into(),
            DType::U16 if dtype == DType::BF16 => bf16::from_f64(value).to_bits().into(),
            DType::F32 => (value as f32).to_bits().into(),
            DType::F64 => value.to_bits(),
            DType::BOOL => u64::from(bits != 0),
            _ => bits,
        };
        let size = self.register(dtype).size();
        self.out.constant(bits, size)
    }

    /// How a load is traversed. Those at computed indices are left to generated loops, which know
    /// where the sides of a selection begin, and are faster.
    fn load(&self, e: &Ex, buf: Buf, index: &[Ex]) -> Option<Strided> {
        let even = self.stage.cut.is_some() || !index.iter().any(has_loads);
        self.stage.load(e, buf, index).filter(|_| even)
    }

    /// Returns a float32 result rounded to a narrow float.
    fn narrowed(&mut self, dtype: DType, x: Operand) -> Operand {
        match is_half(dtype) {
            true => self.out.push(Op::Narrow, DType::F32, dtype, vec![x]),
            false => x,
        }
    }

    fn cast(&mut self, from: DType, to: DType, x: Operand) -> Operand {
        if from == to {
            return x;
        }
        let (r, s) = (register(from), register(to));
        let x = match r == s {
            true => x,
            false => self.out.push(Op::Cast, r, s, vec![x]),
        };
        self.narrowed(to, x)
    }

    fn unary(&mut self, op: UnOp, own: DType, x: Operand) -> Option<Operand> {
        let r = register(own);
        let float = own.is_float();
        let test = matches!(op, UnOp::IsNan | UnOp::IsInf | UnOp::IsFinite);
        match op {
            UnOp::Neg if own == DType::BOOL => return Some(x),
            UnOp::Not if float => return None,
            UnOp::Popcount | UnOp::Clz => return None,
            UnOp::Neg | UnOp::Abs | UnOp::Not => {}
            UnOp::Floor | UnOp::Ceil | UnOp::Trunc | UnOp::Round | UnOp::RoundEven if !float => {
                return Some(x);
            }
            _ if !float && !test => return None,
            _ => {}
        }
        let to = if test { DType::BOOL } else { r };
        let y = self.out.push(Op::Unary(op), r, to, vec![x]);
        // These give narrow floats of narrow floats.
        let exact = matches!(
            op,
            UnOp::Neg
                | UnOp::Abs
                | UnOp::Floor
                | UnOp::Ceil
                | UnOp::Trunc
                | UnOp::Round
                | UnOp::RoundEven
        );
        Some(if exact || test || !float {
            y
        } else {
            self.narrowed(own, y)
        })
    }

    fn binary(&mut self, op: BinOp, own: DType, x: Operand, y: Operand) -> Option<Operand> {
        let r = register(own);
        let (float, truth) = (own.is_float(), own == DType::BOOL);
        let turned = match op {
            BinOp::Gt => Some(BinOp::Lt),
            BinOp::Ge => Some(BinOp::Le),
            _ => None,
        };
        if let Some(op) = turned {
            return Some(self.out.push(Op::Binary(op), r, DType::BOOL, vec![y, x]));
        }
        let op = match op {
            BinOp::Add if truth => BinOp::Or,
            BinOp::Sub if truth => BinOp::Xor,
            BinOp::Mul if truth => BinOp::And,
            op => op,
        };
        let compares = matches!(op, BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le);
        match op {
            _ if compares => {}
            BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max => {}
            BinOp::And | BinOp::Or | BinOp::Xor if !float => {}
            _ if truth => return None,
            // Narrow floats are rounded in between.
            BinOp::FloorDiv | BinOp::FloorMod if is_half(own) => {
                let quotient = self.out.push(Op::Binary(BinOp::Div), r, r, vec![x, y]);
                let quotient = self.narrowed(own, quotient);
                let whole = self.out.push(Op::Unary(UnOp::Floor), r, r, vec![quotient]);
                if op == BinOp::FloorDiv {
                    return Some(whole);
                }
                let product = self.out.push(Op::Binary(BinOp::Mul), r, r, vec![whole, y]);
                let product = self.narrowed(own, product);
                let rest = self
                    .out
                    .push(Op::Binary(BinOp::Sub), r, r, vec![x, product]);
                return Some(self.narrowed(own, rest));
            }
            BinOp::Div | BinOp::Rem | BinOp::FloorDiv | BinOp::FloorMod => {}
            BinOp::Shl | BinOp::Shr if !float => {}
            BinOp::Pow | BinOp::Atan2 if float => {}
            _ => return None,
        }
        let to = if compares { DType::BOOL } else { r };
        let z = self.out.push(Op::Binary(op), r, to, vec![x, y]);
        let exact = compares || matches!(op, BinOp::Min | BinOp::Max);
        Some(if exact { z } else { self.narrowed(own, z) })
    }
}

/// Returns the type, if kernels take its elements.
fn element(dtype: DType) -> Option<DType> {
    is_element(dtype).then_some(dtype)
}

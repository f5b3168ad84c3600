//! Vector operations, and the stages that are lists of them.

use relax_tensor::DType;

use super::cut::{Cut, cut};
use super::strided::{Strided, affine, inside};
use crate::{BinOp, Buf, Combiner, Compute, Ex, ExKind, Program, UnOp, Var, axes_of};

/// The maximum number of axes of the result, and of reduced axes.
pub const AXES: usize = 12;
/// The longest step from the elements of one result to those of the next for which short
/// reductions run in parallel lanes.
pub const WINDOW_STEP: i64 = 8;

/// A stage as vector operations.
#[derive(Clone, Debug)]
pub struct Vectors {
    /// The form.
    pub form: Form,
    /// The loops: those of the result, then those that are reduced.
    pub axes: Vec<(Var, Ex)>,
    /// The number of axes of the result.
    pub result_axes: usize,
    /// What is read.
    pub inputs: Vec<Read>,
    /// The bits of constants, and the size of an element in bytes.
    pub constants: Vec<(u64, usize)>,
    /// The operations, the last of which gives the result.
    pub steps: Vec<Step>,
}

/// The kernel that runs the operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// All in float32.
    Strips,
    /// Each in types of its own.
    Sweep,
}

/// An input: a strided buffer, or an index that is a sum of axes' indices.
#[derive(Clone, Debug)]
pub enum Read {
    /// Elements of a buffer.
    Memory(Strided),
    /// An index: its step along every axis, and the offset.
    Index(Vec<Ex>, Ex),
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is done.
    pub op: Op,
    /// The type of its arguments, as they are held in registers: float32 for narrow floats.
    pub from: DType,
    /// The type of its result: for [`Op::Narrow`], the float that it is rounded to.
    pub to: DType,
    /// The arguments.
    pub args: Vec<Operand>,
}

/// What an operation does with its arguments `a`, `b`, `c`, `d`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `a`.
    Copy,
    /// A function of `a`.
    Unary(UnOp),
    /// A function of `a` and `b`.
    Binary(BinOp),
    /// `b` where `a` holds, else `c`.
    Select,
    /// `c` where `a` is below `b`, else `d`.
    SelectLt,
    /// `c` where `a` is not above `b`, else `d`.
    SelectLe,
    /// `c` where `a` equals `b`, else `d`.
    SelectEq,
    /// `a` as another type.
    Cast,
    /// Float32 rounded to a narrow float.
    Narrow,
    /// The minimum of `c` and the maximum of `a` and `b`.
    MaxMin,
    /// The maximum of `c` and the minimum of `a` and `b`.
    MinMax,
    /// The low 32 bits of `(a * b + c) >> d`, computed in 64 bits; `a` has 32, or 8.
    Rescale,
}

/// An operand of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// An input, by its number.
    Input(usize),
    /// A constant, by its number.
    Constant(usize),
    /// The result of an operation, by its number.
    Temp(usize),
}

/// A stage's loops, as the kernels run them.
pub(super) struct Split {
    /// How divisions in indices split the stage's own loops.
    pub cut: Option<Cut>,
    pub axes: Vec<(Var, Ex)>,
    pub result_axes: usize,
    pub vars: Vec<Var>,
}

impl Split {
    pub fn new(program: &Program, c: &Compute, axes: Vec<(Var, Ex)>) -> Split {
        let cut = cut(program, c, &axes);
        let result_axes = cut.as_ref().map_or(c.axes.len(), |c| c.result_axes);
        let axes = cut.as_ref().map_or(axes, |c| c.axes.clone());
        let vars = axes.iter().map(|a| a.0).collect();
        Split {
            cut,
            axes,
            result_axes,
            vars,
        }
    }

    /// Returns how a load is traversed; `None` where its steps are not constant.
    pub fn load(&self, e: &Ex, buf: Buf, index: &[Ex]) -> Option<Strided> {
        match &self.cut {
            Some(cut) => cut.loads.get(&e.addr()).cloned(),
            None => Strided::along(&self.vars, buf, index),
        }
    }

    /// Returns whether a buffer is proven to be read in bounds.
    pub fn is_inside(&self, program: &Program, read: &Strided) -> bool {
        let shape = &program.bufs[read.buf].shape;
        read.sure
            || (read.index.iter().zip(shape))
                .all(|(index, extent)| inside(index, extent, &self.axes))
    }

    /// A stage of these loops.
    pub fn stage(&self, form: Form, of: Operations) -> Vectors {
        Vectors {
            form,
            axes: self.axes.clone(),
            result_axes: self.result_axes,
            inputs: of.inputs,
            constants: of.constants,
            steps: of.steps,
        }
    }
}

/// Operations while they are collected.
#[derive(Default)]
pub(super) struct Operations {
    pub inputs: Vec<Read>,
    pub constants: Vec<(u64, usize)>,
    pub steps: Vec<Step>,
}

impl Operations {
    pub fn push(&mut self, op: Op, from: DType, to: DType, args: Vec<Operand>) -> Operand {
        self.steps.push(Step { op, from, to, args });
        Operand::Temp(self.steps.len() - 1)
    }

    pub fn constant(&mut self, bits: u64, size: usize) -> Operand {
        let found = self.constants.iter().position(|c| *c == (bits, size));
        Operand::Constant(found.unwrap_or_else(|| {
            self.constants.push((bits, size));
            self.constants.len() - 1
        }))
    }

    pub fn index(&mut self, steps: Vec<Ex>, rest: Ex) -> Operand {
        let same = |r: &Read| matches!(r, Read::Index(s, o) if *s == steps && *o == rest);
        let found = self.inputs.iter().position(same);
        self.input(found, || Read::Index(steps, rest))
    }

    pub fn memory(&mut self, read: Strided) -> Operand {
        let same =
            |r: &Read| matches!(r, Read::Memory(i) if i.buf == read.buf && i.index == read.index);
        let found = self.inputs.iter().position(same);
        self.input(found, || Read::Memory(read))
    }

    fn input(&mut self, found: Option<usize>, read: impl FnOnce() -> Read) -> Operand {
        Operand::Input(found.unwrap_or_else(|| {
            self.inputs.push(read());
            self.inputs.len() - 1
        }))
    }
}

/// A number that is brought to another scale in fixed point.
pub(super) struct Rescaled<'e> {
    /// The number, of 32 bits or a byte.
    pub number: &'e Ex,
    /// The constants that it is multiplied by, that is added then, and by which the sum is shifted.
    pub by: [i64; 3],
}

/// Returns the fixed-point arithmetic that an expression is: the result of [`Op::Rescale`].
pub(super) fn rescaled(e: &Ex) -> Option<Rescaled<'_>> {
    let ExKind::Cast(shifted) = e.kind() else {
        return None;
    };
    let ExKind::Binary(BinOp::Shr, sum, right) = shifted.kind() else {
        return None;
    };
    let ExKind::Binary(BinOp::Add, product, half) = sum.kind() else {
        return None;
    };
    let ExKind::Binary(BinOp::Mul, wide, factor) = product.kind() else {
        return None;
    };
    let ExKind::Cast(number) = wide.kind() else {
        return None;
    };
    let types = [e.dtype(), shifted.dtype(), number.dtype()];
    let by = [factor.as_int()?, half.as_int()?, right.as_int()?];
    let fits = types == [DType::I32, DType::I64, DType::I32] && (0..64).contains(&by[2]);
    fits.then(|| of_byte(number, by).unwrap_or(Rescaled { number, by }))
}

/// The same of a byte whose zero point is subtracted first: what that takes from the product is
/// added with the rest.
fn of_byte<'e>(number: &'e Ex, [factor, half, right]: [i64; 3]) -> Option<Rescaled<'e>> {
    let (cast, zero) = match number.kind() {
        ExKind::Binary(BinOp::Sub, x, zero) => (x, zero.as_int()?),
        ExKind::Binary(BinOp::Add, x, more) => (x, more.as_int()?.checked_neg()?),
        _ => (number, 0),
    };
    let ExKind::Cast(byte) = cast.kind() else {
        return None;
    };
    // The difference is that of the numbers: it does not wrap.
    let fits = matches!(byte.dtype(), DType::I8 | DType::U8) && zero.unsigned_abs() < 1 << 30;
    let half = half.wrapping_sub(zero.wrapping_mul(factor));
    fits.then_some(Rescaled {
        number: byte,
        by: [factor, half, right],
    })
}

/// The selecting operation for a comparison, and whether its operands or its results are swapped.
pub(super) fn selection(op: BinOp) -> Option<(Op, bool, bool)> {
    Some(match op {
        BinOp::Lt => (Op::SelectLt, false, false),
        BinOp::Le => (Op::SelectLe, false, false),
        BinOp::Gt => (Op::SelectLt, true, false),
        BinOp::Ge => (Op::SelectLe, true, false),
        BinOp::Eq => (Op::SelectEq, false, false),
        BinOp::Ne => (Op::SelectEq, false, true),
        _ => return None,
    })
}

/// Returns whether a reduction reads elements that are adjacent, or a few steps apart, for adjacent
/// results. Where it finds an extremum, they may first meet those of another array, of which a row has one or
/// that are adjacent, too.
pub fn side_by_side(c: &Compute, dtype: DType) -> bool {
    let Some(reduce) = &c.reduce else {
        return false;
    };
    let Some(last) = c.axes.last() else {
        return false;
    };
    let step = |e: &Ex| match e.kind() {
        ExKind::Load(_, index) => {
            let along = affine(index.last()?, &[*last], 16)?;
            along.0[0].as_int()
        }
        _ => None,
    };
    let read = match c.value.kind() {
        ExKind::Binary(op @ (BinOp::Add | BinOp::Mul), x, other) => {
            let extreme = matches!(reduce.combiner, Combiner::Max | Combiner::Min);
            let whole = *op == BinOp::Add && dtype == DType::I32;
            let before = |e: &Ex| match e.kind() {
                ExKind::Load(_, index) => index.split_last().is_some_and(|(_, before)| {
                    before.iter().all(|i| axes_of(i, &[*last]).is_empty())
                }),
                _ => false,
            };
            let fits = before(other) && matches!(step(other), Some(0 | 1));
            if !extreme || !fits || !(dtype.is_float() || whole) {
                return false;
            }
            x
        }
        _ => &c.value,
    };
    let known = match reduce.combiner {
        Combiner::Sum | Combiner::Max | Combiner::Min => true,
        Combiner::Prod => dtype.is_float(),
        Combiner::And | Combiner::Or => false,
    };
    let step = step(read);
    known && !dtype.is_bool() && matches!(step, Some(1..=WINDOW_STEP))
}

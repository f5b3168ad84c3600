//! Stages of quantised arithmetic for which there are kernels: operands with their zero points
//! subtracted, and requantisation in fixed point.

use std::borrow::Cow;

use crate::{
    BinOp, Buf, Buffer, Compute, Ex, ExKind, Hint, Program, Role, Stage, Var, axes_of, map_expr,
    visit_expr,
};
use relax_base::Symbol;
use relax_tensor::DType;

/// The maximum number of casts and bounds around a number that are looked through.
const DEPTH: usize = 16;

/// A buffer of 32-bit integers that are another buffer's elements minus a uniform zero point.
#[derive(Clone, PartialEq, Debug)]
pub struct Shifted {
    /// The elements, of the same shape.
    pub from: Buf,
    /// The subtracted zero point, `int32`.
    pub zero: Ex,
}

/// Looks through the stage that subtracts a zero point, if that computes `buf`.
pub fn shifted(program: &Program, buf: Buf) -> Option<Shifted> {
    let c = program.stage_of(buf)?;
    if c.reduce.is_some() || program.bufs[buf].dtype != DType::I32 {
        return None;
    }
    let (whole, zero) = match c.value.kind() {
        ExKind::Binary(BinOp::Sub, x, zero) => (x, zero.clone()),
        _ => (&c.value, Ex::int(DType::I32, 0)),
    };
    let ExKind::Cast(element) = whole.kind() else {
        return None;
    };
    let from = own_element(program, c, element)?;
    let small = matches!(program.bufs[from].dtype, DType::I8 | DType::U8);
    (small && axes_of(&zero, &c.axes).is_empty()).then_some(Shifted { from, zero })
}

/// Returns the buffer of which an expression is the element at the stage's own indices.
pub fn own_element(program: &Program, c: &Compute, e: &Ex) -> Option<Buf> {
    let ExKind::Load(buf, index) = e.kind() else {
        return None;
    };
    let same = program.bufs[*buf].shape == program.bufs[c.out].shape;
    let own = |(i, axis): (&Ex, &Var)| match i.kind() {
        ExKind::Var(v) => v == axis,
        _ => false,
    };
    let one = |k: usize| program.bufs[*buf].shape[k].as_int() == Some(1);
    let fits = (index.iter().zip(&c.axes).enumerate())
        .all(|(k, at)| own(at) || (at.0.as_int() == Some(0) && one(k)));
    (same && index.len() == c.axes.len() && fits).then_some(*buf)
}

/// `bound(zero + int32((((int64(x) + bias) << left) * factor + half) >>
/// right))`, all but `x` a number per channel.
struct Rescaled {
    x: Buf,
    bias: Ex,
    left: Ex,
    factor: Ex,
    half: Ex,
    right: Ex,
    zero: Ex,
    bounds: (i64, i64),
}

/// Matches a number within bounds, through lossless casts: returns the bounded number, and its
/// bounds.
fn bounded(e: &Ex, depth: usize) -> Option<(&Ex, i64, i64)> {
    if depth == 0 {
        return None;
    }
    match e.kind() {
        ExKind::Cast(x) if x.dtype().is_integral() && x.dtype() != DType::I64 => {
            let (core, low, high) = bounded(x, depth - 1)?;
            let (least, most) = e.dtype().int_range()?;
            let holds = i128::from(low) >= least && i128::from(high) <= most;
            holds.then_some((core, low, high))
        }
        ExKind::Binary(BinOp::Max, x, b) if b.as_int().is_some() => {
            let (core, low, high) = bounded(x, depth - 1)?;
            let b = b.as_int()?;
            Some((core, low.max(b), high.max(b)))
        }
        ExKind::Binary(BinOp::Min, x, b) if b.as_int().is_some() => {
            let (core, low, high) = bounded(x, depth - 1)?;
            let b = b.as_int()?;
            Some((core, low.min(b), high.min(b)))
        }
        _ if e.dtype() == DType::I32 => Some((e, i32::MIN.into(), i32::MAX.into())),
        _ => None,
    }
}

/// Returns both operands of a commutative operation, the one that satisfies `is` first.
fn sides(e: &Ex, op: BinOp, is: impl Fn(&Ex) -> bool) -> Option<(&Ex, &Ex)> {
    match e.kind() {
        ExKind::Binary(o, a, b) if *o == op && is(a) => Some((a, b)),
        ExKind::Binary(o, a, b) if *o == op && is(b) => Some((b, a)),
        _ => None,
    }
}

impl Rescaled {
    /// Returns the requantisation that an expression of a stage is, and the axis along which its
    /// numbers vary, if any.
    fn of(program: &Program, c: &Compute, value: &Ex) -> Option<(Rescaled, Option<usize>)> {
        let (y, low, high) = bounded(value, DEPTH)?;
        let is_cast = |e: &Ex| matches!(e.kind(), ExKind::Cast(x) if x.dtype() == DType::I64);
        let (cast, zero) = if is_cast(y) {
            (y, Ex::int(DType::I32, 0))
        } else {
            let (cast, zero) = sides(y, BinOp::Add, is_cast)?;
            (cast, zero.clone())
        };
        let ExKind::Cast(shifted) = cast.kind() else {
            return None;
        };
        let ExKind::Binary(BinOp::Shr, rounded, right) = shifted.kind() else {
            return None;
        };
        let is_product = |e: &Ex| matches!(e.kind(), ExKind::Binary(BinOp::Mul, ..));
        let (product, half) = sides(rounded, BinOp::Add, is_product)?;
        let wide = |e: &Ex| matches!(e.kind(), ExKind::Cast(x) if x.dtype() == DType::I32);
        let is_shifted =
            |e: &Ex| wide(e) || matches!(e.kind(), ExKind::Binary(BinOp::Shl, x, _) if wide(x));
        let (number, factor) = sides(product, BinOp::Mul, is_shifted)?;
        let (number, left) = match number.kind() {
            ExKind::Binary(BinOp::Shl, x, left) => (x, left.clone()),
            _ => (number, Ex::int(DType::I64, 0)),
        };
        let ExKind::Cast(sum) = number.kind() else {
            return None;
        };
        let (x, bias) = Rescaled::sum(program, c, sum)?;
        let found = Rescaled {
            x,
            bias,
            left,
            factor: factor.clone(),
            half: half.clone(),
            right: right.clone(),
            zero,
            bounds: (low, high),
        };
        let mut axis = None;
        for table in found.tables() {
            let mut reads = false;
            visit_expr(table, |e| {
                reads |= matches!(e.kind(), ExKind::Load(b, _) if *b == x)
            });
            let axes = axes_of(table, &c.axes);
            if reads || axes.len() > 1 || axes.iter().any(|a| *axis.get_or_insert(*a) != *a) {
                return None;
            }
        }
        Some((found, axis))
    }

    /// Matches a sum that contains one of the stage's own elements; the rest is the bias.
    fn sum(program: &Program, c: &Compute, sum: &Ex) -> Option<(Buf, Ex)> {
        let mut found = None;
        let (mut plus, mut minus) = (vec![sum], Vec::new());
        let mut bias = Ex::int(DType::I32, 0);
        let reads = |e: &Ex| {
            let mut own = false;
            visit_expr(e, |x| {
                own |=
                    own_element(program, c, x).is_some_and(|b| program.bufs[b].dtype == DType::I32);
            });
            own
        };
        while let Some(e) = plus.pop() {
            if let Some(buf) = own_element(program, c, e)
                && found.is_none()
                && axes_of(e, &c.axes).len() == c.axes.len()
            {
                found = Some(buf);
                continue;
            }
            match e.kind() {
                ExKind::Binary(BinOp::Add, a, b) if reads(a) || reads(b) => plus.extend([a, b]),
                ExKind::Binary(BinOp::Sub, a, b) if reads(a) => {
                    plus.push(a);
                    minus.push(b);
                }
                _ => bias = &bias + e,
            }
        }
        for e in minus {
            bias = &bias - e;
        }
        Some((found?, bias))
    }

    fn tables(&self) -> [&Ex; 6] {
        [
            &self.bias,
            &self.left,
            &self.factor,
            &self.half,
            &self.right,
            &self.zero,
        ]
    }
}

/// Returns whether an expression of a stage makes bytes of the sums `data` in fixed point, by numbers
/// that vary along the axis `channel` at most.
pub(crate) fn is_requantised(
    program: &Program,
    c: &Compute,
    e: &Ex,
    (data, channel): (Buf, usize),
) -> bool {
    matches!(e.dtype(), DType::I8 | DType::U8)
        && Rescaled::of(program, c, e)
            .is_some_and(|(found, axis)| found.x == data && axis.is_none_or(|a| a == channel))
}

/// Adds hints to requantising stages, and stages of their own for the numbers per channel that the
/// hint names. The values that every stage computes are unchanged; without such a stage the program
/// is too.
pub fn hint_requantised(mut program: Cow<'_, Program>) -> Cow<'_, Program> {
    let mut k = 0;
    while k < program.stages.len() {
        if let Some(added) = requantised(&mut program, k) {
            k += added;
        }
        k += 1;
    }
    program
}

/// Inserts a stage at `at` that computes an expression for all indices of a channel, of which there
/// are so many, or once; returns its buffer.
pub(crate) fn table(
    program: &mut Program,
    at: usize,
    value: &Ex,
    (channel, channels): (Option<Var>, Option<Ex>),
    name: &str,
) -> Buf {
    let (var, index) = program.fresh("c", DType::I64);
    let value = map_expr(value, |e| match e.kind() {
        ExKind::Var(v) if channel == Some(*v) => Some(index.clone()),
        _ => None,
    });
    let axes = if channels.is_some() {
        vec![var]
    } else {
        Vec::new()
    };
    let out = program.bufs.push(Buffer {
        name: Symbol::new(name),
        dtype: value.dtype(),
        shape: channels.into_iter().collect(),
        role: Role::Temp,
    });
    let stage = Compute {
        out,
        axes,
        reduce: None,
        value,
    };
    program.insert_stage(at, Stage::Compute(stage));
    out
}

/// Does it for one stage; returns the number of stages that were inserted before it.
fn requantised(program: &mut Cow<'_, Program>, k: usize) -> Option<usize> {
    let Stage::Compute(c) = &program.stages[k] else {
        return None;
    };
    let dtype = program.bufs[c.out].dtype;
    let fits = matches!(dtype, DType::I8 | DType::U8 | DType::I16 | DType::I32);
    if !fits || c.reduce.is_some() || program.hints.iter().any(|h| h.0 == c.out) {
        return None;
    }
    let (found, axis) = Rescaled::of(program, c, &c.value)?;
    if found.x == c.out || program.bufs[found.x].dtype != DType::I32 {
        return None;
    }
    let (rescaled, channel) = (c.out, axis.map(|axis| c.axes[axis]));
    let channels = match axis {
        Some(axis) => program.bufs[rescaled].shape[axis].clone(),
        None => Ex::idx(1),
    };
    let program = program.to_mut();
    let names = ["bias", "left", "factor", "half", "right", "zero"];
    let mut tables = Vec::new();
    for (name, value) in names.into_iter().zip(found.tables()) {
        let channels = Some(channels.clone());
        tables.push(table(program, k, value, (channel, channels), name));
    }
    let hint = Hint::Requantize {
        data: found.x,
        tables: [
            tables[0], tables[1], tables[2], tables[3], tables[4], tables[5],
        ],
        axis,
        bounds: found.bounds,
    };
    program.hints.push((rescaled, hint));
    Some(tables.len())
}

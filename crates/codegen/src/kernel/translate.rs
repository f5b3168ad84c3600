//! An expression as the operations of a sweep.

use relax_loops::{BinOp, Buf, Ex, ExKind, UnOp, Var, visit_expr};
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::math::Math;
use relax_runtime::kernels::sweep::{INPUTS, OPERANDS, Op, RxSweepOp, register};
use rustc_hash::FxHashMap;

use super::Kernel;
use super::contract::kind;
use super::strips::{Input, affine};

/// Most operations.
const OPS: usize = 96;
/// How deep expressions may nest.
const DEPTH: usize = 48;

/// What an operation reads: an operand, before operands are numbered, or a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Operand {
    Input(usize),
    Constant(usize),
    Temp(usize),
    Number(i32),
}

/// An input: a buffer in even steps, or an index that is a sum of axes' indices.
pub(super) enum Read {
    Memory(Input),
    Index(Vec<Ex>, Ex),
}

struct Step {
    op: Op,
    kind: Kind,
    to: Kind,
    args: Vec<Operand>,
}

/// A stage as vector operations.
#[derive(Default)]
pub(super) struct Sweep {
    pub inputs: Vec<Read>,
    pub arrays: Vec<Buf>,
    /// The bits of constants, and the bytes of an element.
    pub constants: Vec<(u64, usize)>,
    steps: Vec<Step>,
}

/// The operations behind an expression over `axes`; `None` when it holds something else.
pub(super) fn sweep(k: &Kernel<'_, '_, '_>, value: &Ex, axes: &[(Var, Ex)]) -> Option<Sweep> {
    let mut t = Translation {
        k,
        axes,
        vars: axes.iter().map(|a| a.0).collect(),
        known: FxHashMap::default(),
        out: Sweep::default(),
    };
    let result = t.value(value, None, DEPTH)?;
    let mut out = t.out;
    if out.steps.is_empty() || result != Operand::Temp(out.steps.len() - 1) {
        let kind = register(kind(value.dtype())?);
        out.push(Op::Copy, kind, kind, vec![result]);
    }
    let fits = out.inputs.len() <= INPUTS && out.steps.len() <= OPS;
    (fits && out.inputs.len() + out.constants.len() + out.steps.len() <= OPERANDS).then_some(out)
}

struct Translation<'a, 'k, 'f, 'm> {
    k: &'a Kernel<'k, 'f, 'm>,
    axes: &'a [(Var, Ex)],
    vars: Vec<Var>,
    /// Expressions by address, with the mask under which they were computed.
    known: FxHashMap<(usize, Option<Operand>), Operand>,
    out: Sweep,
}

fn is_half(kind: Kind) -> bool {
    matches!(kind, Kind::F16 | Kind::BF16)
}

fn is_float(kind: Kind) -> bool {
    matches!(kind, Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64)
}

fn has_loads(e: &Ex) -> bool {
    let mut found = false;
    visit_expr(e, |x| found |= matches!(x.kind(), ExKind::Load(..)));
    found
}

impl Translation<'_, '_, '_, '_> {
    /// An index in even steps along the axes.
    fn even(&self, e: &Ex) -> Option<(Vec<Ex>, Ex)> {
        affine(e, &self.vars, 16).filter(|_| !has_loads(e))
    }

    /// Whether evaluating an expression needlessly does no harm.
    fn safe(&self, e: &Ex) -> bool {
        let mut safe = true;
        visit_expr(e, |x| {
            if let ExKind::Load(buf, index) = x.kind() {
                let shape = &self.k.program.bufs[*buf].shape;
                let index: Option<Vec<_>> = index.iter().map(|i| self.even(i)).collect();
                safe &= index.is_some_and(|i| self.k.surely_inside(&i, shape, self.axes));
            }
        });
        safe
    }

    fn value(&mut self, e: &Ex, mask: Option<Operand>, depth: usize) -> Option<Operand> {
        let mask = mask.filter(|_| !self.safe(e));
        if let Some(&found) = self.known.get(&(e.addr(), mask)) {
            return Some(found);
        }
        if depth == 0 || self.out.steps.len() > OPS {
            return None;
        }
        let own = kind(e.dtype())?;
        let operand = match e.kind() {
            ExKind::Int(v) => self.constant(own, *v as u64, *v as f64),
            ExKind::Float(v) => self.constant(own, 0, *v),
            _ if own == Kind::I64 && self.even(e).is_some() => {
                let (steps, rest) = self.even(e)?;
                self.index(steps, rest)
            }
            ExKind::Var(_) => return None,
            ExKind::Load(buf, index) => self.load(*buf, index, own, mask, depth - 1)?,
            ExKind::Unary(op, a) => {
                let from = kind(a.dtype())?;
                let a = self.value(a, mask, depth - 1)?;
                self.unary(*op, from, a)?
            }
            ExKind::Binary(op, a, b) => {
                let from = kind(a.dtype())?;
                let x = self.value(a, mask, depth - 1)?;
                let y = self.value(b, mask, depth - 1)?;
                self.binary(*op, from, x, y)?
            }
            ExKind::Select(c, a, b) => {
                let c = self.value(c, mask, depth - 1)?;
                let yes = match self.safe(a) {
                    true => None,
                    false => Some(self.both(mask, c)),
                };
                let x = self.value(a, yes, depth - 1)?;
                let no = match self.safe(b) {
                    true => None,
                    false => {
                        let not = self.out.push(Op::Not, Kind::Bool, Kind::Bool, vec![c]);
                        Some(self.both(mask, not))
                    }
                };
                let y = self.value(b, no, depth - 1)?;
                let kind = register(own);
                self.out.push(Op::Select, kind, kind, vec![c, x, y])
            }
            ExKind::Cast(a) => {
                let from = kind(a.dtype())?;
                let a = self.value(a, mask, depth - 1)?;
                self.cast(from, own, a)
            }
            ExKind::Reinterpret(a) => {
                let from = kind(a.dtype())?;
                let whole = |k: Kind| register(k) == k && k != Kind::Bool;
                if !whole(from) || !whole(own) {
                    return None;
                }
                self.value(a, mask, depth - 1)?
            }
        };
        self.known.insert((e.addr(), mask), operand);
        Some(operand)
    }

    fn both(&mut self, mask: Option<Operand>, c: Operand) -> Operand {
        match mask {
            None => c,
            Some(m) => self.out.push(Op::And, Kind::Bool, Kind::Bool, vec![m, c]),
        }
    }

    fn constant(&mut self, kind: Kind, bits: u64, value: f64) -> Operand {
        let bits = match register(kind) {
            Kind::F32 => (value as f32).to_bits().into(),
            Kind::F64 => value.to_bits(),
            Kind::Bool => u64::from(bits != 0),
            _ => bits,
        };
        let constant = (bits, register(kind).size());
        let found = self.out.constants.iter().position(|c| *c == constant);
        Operand::Constant(found.unwrap_or_else(|| {
            self.out.constants.push(constant);
            self.out.constants.len() - 1
        }))
    }

    fn index(&mut self, steps: Vec<Ex>, rest: Ex) -> Operand {
        let same = |r: &Read| matches!(r, Read::Index(s, o) if *s == steps && *o == rest);
        let found = self.out.inputs.iter().position(same);
        Operand::Input(found.unwrap_or_else(|| {
            self.out.inputs.push(Read::Index(steps, rest));
            self.out.inputs.len() - 1
        }))
    }

    fn load(
        &mut self,
        buf: Buf,
        index: &[Ex],
        own: Kind,
        mask: Option<Operand>,
        depth: usize,
    ) -> Option<Operand> {
        let shape = self.k.program.bufs[buf].shape.clone();
        let even: Option<Vec<_>> = index.iter().map(|i| self.even(i)).collect();
        if let Some(even) = &even
            && (mask.is_none() || self.k.surely_inside(even, &shape, self.axes))
        {
            let same = |r: &Read| matches!(r, Read::Memory(i) if i.buf == buf && i.index == *even);
            let found = self.out.inputs.iter().position(same);
            return Some(Operand::Input(found.unwrap_or_else(|| {
                let index = even.clone();
                self.out.inputs.push(Read::Memory(Input { buf, index }));
                self.out.inputs.len() - 1
            })));
        }
        let masked = mask.unwrap_or(Operand::Number(-1));
        let mut places = Vec::new();
        for (i, extent) in index.iter().zip(&shape) {
            let place = self.value(i, mask, depth)?;
            if !self.k.inside(i, extent) {
                let extent = self.extent(extent)?;
                let args = vec![place, extent, masked];
                self.out.push(Op::Check, Kind::I64, Kind::I64, args);
            }
            places.push(place);
        }
        let at = self.flat(index, &shape, &places)?;
        let array = self.out.arrays.iter().position(|b| *b == buf);
        let array = array.unwrap_or_else(|| {
            self.out.arrays.push(buf);
            self.out.arrays.len() - 1
        });
        let args = vec![at, Operand::Number(array as i32), masked];
        Some(self.out.push(Op::Gather, own, own, args))
    }

    fn extent(&mut self, extent: &Ex) -> Option<Operand> {
        if let Some(n) = extent.as_int() {
            return Some(self.constant(Kind::I64, n as u64, 0.0));
        }
        let (steps, rest) = self.even(extent)?;
        Some(self.index(steps, rest))
    }

    /// The number of an element among all of its buffer.
    fn flat(&mut self, index: &[Ex], shape: &[Ex], places: &[Operand]) -> Option<Operand> {
        let mut whole = Ex::idx(0);
        for (i, n) in index.iter().zip(shape) {
            whole = whole * n + i;
        }
        if shape[1.min(shape.len())..]
            .iter()
            .all(|n| n.as_int().is_some())
            && let Some((steps, rest)) = self.even(&whole)
        {
            return Some(self.index(steps, rest));
        }
        let mut at = None;
        for (&place, n) in places.iter().zip(shape) {
            at = Some(match at {
                None => place,
                Some(at) => {
                    let n = self.extent(n)?;
                    let scaled = self.out.push(Op::Mul, Kind::I64, Kind::I64, vec![at, n]);
                    self.out
                        .push(Op::Add, Kind::I64, Kind::I64, vec![scaled, place])
                }
            });
        }
        Some(at.unwrap_or_else(|| self.constant(Kind::I64, 0, 0.0)))
    }

    /// What was computed in float32 as a narrow float holds it.
    fn narrowed(&mut self, kind: Kind, x: Operand) -> Operand {
        match is_half(kind) {
            true => self.out.push(Op::Narrow, Kind::F32, kind, vec![x]),
            false => x,
        }
    }

    fn cast(&mut self, from: Kind, to: Kind, x: Operand) -> Operand {
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

    fn unary(&mut self, op: UnOp, own: Kind, x: Operand) -> Option<Operand> {
        let r = register(own);
        let float = is_float(own);
        let plain = match op {
            UnOp::Neg if own == Kind::Bool => return Some(x),
            UnOp::Neg => Op::Neg,
            UnOp::Abs => Op::Abs,
            UnOp::Not if !float => Op::Not,
            UnOp::Floor | UnOp::Ceil | UnOp::Trunc | UnOp::Round | UnOp::RoundEven if !float => {
                return Some(x);
            }
            UnOp::Floor => Op::Floor,
            UnOp::Ceil => Op::Ceil,
            UnOp::Trunc => Op::Trunc,
            UnOp::Round => Op::Round,
            UnOp::RoundEven => Op::RoundEven,
            UnOp::IsNan => return Some(self.out.push(Op::IsNan, r, Kind::Bool, vec![x])),
            UnOp::IsInf => return Some(self.out.push(Op::IsInf, r, Kind::Bool, vec![x])),
            UnOp::IsFinite => return Some(self.out.push(Op::IsFinite, r, Kind::Bool, vec![x])),
            _ if !float => return None,
            UnOp::Sqrt => {
                let y = self.out.push(Op::Sqrt, r, r, vec![x]);
                return Some(self.narrowed(own, y));
            }
            UnOp::Rsqrt => {
                let y = self.out.push(Op::Rsqrt, r, r, vec![x]);
                return Some(self.narrowed(own, y));
            }
            _ => {
                let number = Operand::Number(math(op)? as i32);
                let y = self.out.push(Op::Math, r, r, vec![x, number]);
                return Some(self.narrowed(own, y));
            }
        };
        Some(self.out.push(plain, r, r, vec![x]))
    }

    fn binary(&mut self, op: BinOp, own: Kind, x: Operand, y: Operand) -> Option<Operand> {
        let r = register(own);
        let (float, truth) = (is_float(own), own == Kind::Bool);
        let (plain, to) = match op {
            BinOp::Eq => (Op::Eq, Kind::Bool),
            BinOp::Ne => (Op::Ne, Kind::Bool),
            BinOp::Lt => (Op::Lt, Kind::Bool),
            BinOp::Le => (Op::Le, Kind::Bool),
            BinOp::Gt => return Some(self.out.push(Op::Lt, r, Kind::Bool, vec![y, x])),
            BinOp::Ge => return Some(self.out.push(Op::Le, r, Kind::Bool, vec![y, x])),
            BinOp::Add if truth => (Op::Or, r),
            BinOp::Sub if truth => (Op::Xor, r),
            BinOp::Mul if truth => (Op::And, r),
            BinOp::Add => (Op::Add, r),
            BinOp::Sub => (Op::Sub, r),
            BinOp::Mul => (Op::Mul, r),
            BinOp::Min => (Op::Min, r),
            BinOp::Max => (Op::Max, r),
            BinOp::And if !float => (Op::And, r),
            BinOp::Or if !float => (Op::Or, r),
            BinOp::Xor if !float => (Op::Xor, r),
            _ if truth => return None,
            BinOp::Div => (Op::Div, r),
            BinOp::Rem => (Op::Rem, r),
            // Narrow floats are rounded in between.
            BinOp::FloorDiv if !is_half(own) => (Op::FloorDiv, r),
            BinOp::FloorMod if !is_half(own) => (Op::FloorMod, r),
            BinOp::Shl if !float => (Op::Shl, r),
            BinOp::Shr if !float => (Op::Shr, r),
            BinOp::Pow | BinOp::Atan2 if float => {
                let number = if op == BinOp::Pow {
                    Math::Pow
                } else {
                    Math::Atan2
                };
                let number = Operand::Number(number as i32);
                let z = self.out.push(Op::Math2, r, r, vec![x, y, number]);
                return Some(self.narrowed(own, z));
            }
            _ => return None,
        };
        let z = self.out.push(plain, r, to, vec![x, y]);
        let exact = to == Kind::Bool || matches!(plain, Op::Min | Op::Max);
        Some(if exact { z } else { self.narrowed(own, z) })
    }
}

/// The kernels' number of a function of real numbers.
fn math(op: UnOp) -> Option<Math> {
    Some(match op {
        UnOp::Exp => Math::Exp,
        UnOp::Log => Math::Log,
        UnOp::Log2 => Math::Log2,
        UnOp::Log10 => Math::Log10,
        UnOp::Sin => Math::Sin,
        UnOp::Cos => Math::Cos,
        UnOp::Tan => Math::Tan,
        UnOp::Asin => Math::Asin,
        UnOp::Acos => Math::Acos,
        UnOp::Atan => Math::Atan,
        UnOp::Sinh => Math::Sinh,
        UnOp::Cosh => Math::Cosh,
        UnOp::Tanh => Math::Tanh,
        UnOp::Asinh => Math::Asinh,
        UnOp::Acosh => Math::Acosh,
        UnOp::Atanh => Math::Atanh,
        UnOp::Erf => Math::Erf,
        UnOp::Sigmoid => Math::Sigmoid,
        _ => return None,
    })
}

impl Sweep {
    fn push(&mut self, op: Op, kind: Kind, to: Kind, args: Vec<Operand>) -> Operand {
        self.steps.push(Step { op, kind, to, args });
        Operand::Temp(self.steps.len() - 1)
    }

    /// Whether an index may turn out to be outside.
    pub fn checked(&self) -> bool {
        self.steps.iter().any(|s| s.op == Op::Check)
    }

    /// The operations with temporaries shared where their values do not live at the same time, and the number of
    /// temporaries. No operation writes where it reads: elements differ in size.
    pub fn program(&self) -> (Vec<RxSweepOp>, usize) {
        let mut last = vec![0; self.steps.len()];
        for (k, step) in self.steps.iter().enumerate() {
            for a in &step.args {
                if let Operand::Temp(t) = a {
                    last[*t] = k;
                }
            }
        }
        let (mut free, mut count) = (Vec::new(), 0);
        let mut place = vec![0usize; self.steps.len()];
        let first = self.inputs.len() + self.constants.len();
        let mut out = Vec::new();
        for (k, step) in self.steps.iter().enumerate() {
            place[k] = free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            });
            let mut args = [-1; 4];
            for (to, a) in args.iter_mut().zip(&step.args) {
                *to = match *a {
                    Operand::Input(i) => i as i32,
                    Operand::Constant(c) => (self.inputs.len() + c) as i32,
                    Operand::Temp(t) => (first + place[t]) as i32,
                    Operand::Number(n) => n,
                };
            }
            out.push(RxSweepOp {
                code: step.op as i32,
                kind: step.kind as i32,
                to: step.to as i32,
                dst: place[k] as i32,
                args,
            });
            let mut seen = Vec::new();
            for a in &step.args {
                if let Operand::Temp(t) = a
                    && last[*t] == k
                    && !seen.contains(t)
                {
                    seen.push(*t);
                    free.push(place[*t]);
                }
            }
            // What nobody reads is free at once.
            if last[k] == 0 && k + 1 < self.steps.len() {
                free.push(place[k]);
            }
        }
        (out, count)
    }
}

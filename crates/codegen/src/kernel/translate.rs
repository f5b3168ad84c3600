//! Translates an expression to the operations of a sweep.

use relax_loops::{BinOp, Buf, Ex, ExKind, UnOp, Var, visit_expr};
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::math::Math;
use relax_runtime::kernels::sweep::{INPUTS, OPERANDS, Op, RxSweepOp, register};
use rustc_hash::FxHashMap;

use super::Kernel;
use super::cut::Cut;
use super::encoding::kind;
use super::strips::{Input, affine};

/// The maximum number of operations.
const OPS: usize = 96;
/// The maximum nesting depth of expressions.
const DEPTH: usize = 48;

/// An operand of an operation: an unnumbered value, or a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Operand {
    Input(usize),
    Constant(usize),
    Temp(usize),
    Number(i32),
}

/// An input: a strided buffer, or an index that is a sum of axes' indices.
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
    /// The bits of constants, and the size of an element in bytes.
    pub constants: Vec<(u64, usize)>,
    steps: Vec<Step>,
}

/// The operations of an expression over `axes`; `None` when one is unsupported.
///
/// With `cut`, the axes are those of the cut, and so are the traversals of loads.
pub(super) fn sweep(
    k: &Kernel<'_, '_, '_>,
    value: &Ex,
    axes: &[(Var, Ex)],
    cut: Option<&Cut>,
) -> Option<Sweep> {
    let mut t = Translation {
        k,
        axes,
        cut,
        vars: axes.iter().map(|a| a.0).collect(),
        known: FxHashMap::default(),
        out: Sweep::default(),
    };
    let result = t.value(value, DEPTH)?;
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
    cut: Option<&'a Cut>,
    vars: Vec<Var>,
    /// Expressions by address.
    known: FxHashMap<usize, Operand>,
    out: Sweep,
}

/// Returns whether a type is a float without native arithmetic.
pub(super) fn is_half(kind: Kind) -> bool {
    matches!(kind, Kind::F16 | Kind::BF16)
}

fn is_float(kind: Kind) -> bool {
    matches!(kind, Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64)
}

pub(super) fn has_loads(e: &Ex) -> bool {
    let mut found = false;
    visit_expr(e, |x| found |= matches!(x.kind(), ExKind::Load(..)));
    found
}

impl Translation<'_, '_, '_, '_> {
    /// An index that is affine in the axes.
    fn even(&self, e: &Ex) -> Option<(Vec<Ex>, Ex)> {
        affine(e, &self.vars, 16).filter(|_| !has_loads(e))
    }

    /// Returns whether an expression can be evaluated speculatively.
    fn safe(&self, e: &Ex) -> bool {
        let mut safe = true;
        // Loads traversed by a cut are in bounds.
        if self.cut.is_some() {
            return true;
        }
        visit_expr(e, |x| {
            if let ExKind::Load(buf, index) = x.kind() {
                let shape = &self.k.program.bufs[*buf].shape;
                let index: Option<Vec<_>> = index.iter().map(|i| self.even(i)).collect();
                safe &= index.is_some_and(|i| self.k.surely_inside(&i, shape, self.axes));
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
        let own = kind(e.dtype())?;
        let operand = match e.kind() {
            ExKind::Int(v) => self.constant(own, *v as u64, *v as f64),
            ExKind::Float(v) => self.constant(own, 0, *v),
            _ if own == Kind::I64 && self.even(e).is_some() => {
                let (steps, rest) = self.even(e)?;
                self.index(steps, rest)
            }
            ExKind::Var(_) => return None,
            ExKind::Load(buf, index) => match self.cut {
                Some(cut) => self.memory(cut.loads.get(&e.addr())?.clone()),
                None => self.load(*buf, index)?,
            },
            ExKind::Unary(op, a) => {
                let from = kind(a.dtype())?;
                let a = self.value(a, depth - 1)?;
                self.unary(*op, from, a)?
            }
            ExKind::Binary(op, a, c) if self.bounded(*op, a).is_some() => {
                let (op, [a, b]) = self.bounded(*op, a)?;
                let mut args = Vec::new();
                for e in [a, b, c] {
                    args.push(self.value(e, depth - 1)?);
                }
                let kind = register(own);
                self.out.push(op, kind, kind, args)
            }
            ExKind::Binary(op, a, b) => {
                let from = kind(a.dtype())?;
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
                let kind = register(own);
                self.out.push(op, kind, kind, args)
            }
            ExKind::Select(c, a, b) => {
                let c = self.value(c, depth - 1)?;
                let x = self.value(a, depth - 1)?;
                let y = self.value(b, depth - 1)?;
                let kind = register(own);
                self.out.push(Op::Select, kind, kind, vec![c, x, y])
            }
            ExKind::Cast(a) => {
                let from = kind(a.dtype())?;
                let a = self.value(a, depth - 1)?;
                self.cast(from, own, a)
            }
            ExKind::Reinterpret(a) => {
                let from = kind(a.dtype())?;
                let whole = |k: Kind| register(k) == k && k != Kind::Bool;
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
    fn compared<'e>(&self, c: &'e Ex, own: Kind) -> Option<(Op, [&'e Ex; 2], bool)> {
        let ExKind::Binary(op, x, y) = c.kind() else {
            return None;
        };
        let alike = kind(x.dtype()).map(register) == Some(register(own)) && own != Kind::Bool;
        if !alike || self.known.contains_key(&c.addr()) {
            return None;
        }
        Some(match op {
            BinOp::Lt => (Op::SelectLt, [x, y], false),
            BinOp::Le => (Op::SelectLe, [x, y], false),
            BinOp::Gt => (Op::SelectLt, [y, x], false),
            BinOp::Ge => (Op::SelectLe, [y, x], false),
            BinOp::Eq => (Op::SelectEq, [x, y], false),
            BinOp::Ne => (Op::SelectEq, [x, y], true),
            _ => return None,
        })
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

    /// A strided element. Those at computed indices are left to generated loops, which know where
    /// the sides of a selection begin, and are faster.
    fn load(&mut self, buf: Buf, index: &[Ex]) -> Option<Operand> {
        let index: Option<Vec<_>> = index.iter().map(|i| self.even(i)).collect();
        let index = index?;
        let sure = false;
        Some(self.memory(Input { buf, index, sure }))
    }

    fn memory(&mut self, input: Input) -> Operand {
        let same =
            |r: &Read| matches!(r, Read::Memory(i) if i.buf == input.buf && i.index == input.index);
        let found = self.out.inputs.iter().position(same);
        Operand::Input(found.unwrap_or_else(|| {
            self.out.inputs.push(Read::Memory(input));
            self.out.inputs.len() - 1
        }))
    }

    /// Returns a float32 result rounded to a narrow float.
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
                let number = Operand::Number(Math::named(op.source_name())? as i32);
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
            BinOp::FloorDiv | BinOp::FloorMod if is_half(own) => {
                let quotient = self.out.push(Op::Div, r, r, vec![x, y]);
                let quotient = self.narrowed(own, quotient);
                let whole = self.out.push(Op::Floor, r, r, vec![quotient]);
                if op == BinOp::FloorDiv {
                    return Some(whole);
                }
                let product = self.out.push(Op::Mul, r, r, vec![whole, y]);
                let product = self.narrowed(own, product);
                let rest = self.out.push(Op::Sub, r, r, vec![x, product]);
                return Some(self.narrowed(own, rest));
            }
            BinOp::FloorDiv => (Op::FloorDiv, r),
            BinOp::FloorMod => (Op::FloorMod, r),
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

impl Sweep {
    fn push(&mut self, op: Op, kind: Kind, to: Kind, args: Vec<Operand>) -> Operand {
        self.steps.push(Step { op, kind, to, args });
        Operand::Temp(self.steps.len() - 1)
    }

    /// The operations with temporaries shared where their live ranges are disjoint, and the number
    /// of temporaries. No operation writes to a temporary that it reads, since element sizes
    /// differ.
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
            // Unused results are free at once.
            if last[k] == 0 && k + 1 < self.steps.len() {
                free.push(place[k]);
            }
        }
        (out, count)
    }
}

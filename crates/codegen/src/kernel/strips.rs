//! Element-wise stages and reductions of float32 through `rx_strips_f32`: the stage's expression
//! becomes a list of vector operations, its indices become steps. Integers that are loaded may be
//! converted to floats, and bytes that are stored from them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::extents::elements;
use relax_loops::{BinOp, Buf, Combiner, Compute, Ex, ExKind, Var, as_byte, visit_expr};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::cut::Cut;
use super::encoding::{combiner, kind};
use super::{Access, Kernel, Result};
use crate::scalar::words;
use relax_runtime::kernels::combiner::Combiner as How;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::strips::{AXES, INPUTS, OPS, Op, RxStripOp, RxStrips};
use relax_runtime::{abi, fields};

/// Elements below which a call does not pay.
const FEW: i64 = 16;
/// More elements than any memory holds.
const FARTHEST: i64 = 1 << 56;

/// Returns whether elements of a type may be converted to floats on their way.
fn is_operand(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32
    )
}

/// An operand of an operation, before operands are numbered.
#[derive(Clone, Copy, PartialEq)]
enum Operand {
    Input(usize),
    Constant(usize),
    Temp(usize),
}

/// A buffer read at an affine index.
#[derive(Clone)]
pub(super) struct Input {
    pub buf: Buf,
    /// For each axis of the buffer, its step along every axis of the stage, and the offset.
    pub index: Vec<(Vec<Ex>, Ex)>,
    /// Whether it is proven to be in the buffer as a whole, even where single axes are not.
    pub sure: bool,
}

/// A stage as vector operations.
#[derive(Default)]
struct Strips {
    inputs: Vec<Input>,
    constants: Vec<f32>,
    ops: Vec<(Op, Vec<Operand>)>,
}

/// The steps of an index along axes, and the part that does not depend on them; `None` when it is
/// not affine. Recursion is bounded by `depth`.
pub(super) fn affine(e: &Ex, axes: &[Var], depth: usize) -> Option<(Vec<Ex>, Ex)> {
    let none = || vec![Ex::idx(0); axes.len()];
    let mut depends = false;
    visit_expr(e, |x| {
        depends |= matches!(x.kind(), ExKind::Var(v) if axes.contains(v))
    });
    if !depends {
        return Some((none(), e.clone()));
    }
    if depth == 0 || e.dtype() != DType::I64 {
        return None;
    }
    match e.kind() {
        ExKind::Var(v) => {
            let mut steps = none();
            steps[axes.iter().position(|a| a == v)?] = Ex::idx(1);
            Some((steps, Ex::idx(0)))
        }
        ExKind::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) => {
            let (x, y) = (affine(a, axes, depth - 1)?, affine(b, axes, depth - 1)?);
            let join = |a: &Ex, b: &Ex| if *op == BinOp::Add { a + b } else { a - b };
            let steps = x.0.iter().zip(&y.0).map(|(a, b)| join(a, b)).collect();
            Some((steps, join(&x.1, &y.1)))
        }
        ExKind::Binary(BinOp::Mul, a, b) => {
            let (x, y) = (affine(a, axes, depth - 1)?, affine(b, axes, depth - 1)?);
            let still = |x: &[Ex]| x.iter().all(|s| s.as_int() == Some(0));
            let (x, factor) = match (still(&y.0), still(&x.0)) {
                (true, _) => (x, &y.1),
                (_, true) => (y, &x.1),
                _ => return None,
            };
            let steps = x.0.iter().map(|s| s * factor).collect();
            Some((steps, &x.1 * factor))
        }
        // A broadcast that depends on extents known only at run time.
        ExKind::Select(c, a, b) => {
            let (cond, _) = affine(c, axes, 0).map(|x| (x.1, x.0))?;
            let (x, y) = (affine(a, axes, depth - 1)?, affine(b, axes, depth - 1)?);
            let pick = |a: &Ex, b: &Ex| Ex::where_(&cond, a, b);
            let steps = x.0.iter().zip(&y.0).map(|(a, b)| pick(a, b)).collect();
            Some((steps, pick(&x.1, &y.1)))
        }
        _ => None,
    }
}

/// Returns whether an index is proven in bounds of an extent: it runs over exactly that extent, or
/// all numbers are constants.
pub(super) fn inside((steps, rest): &(Vec<Ex>, Ex), extent: &Ex, axes: &[(Var, Ex)]) -> bool {
    let moving: Vec<usize> = (0..steps.len())
        .filter(|&j| steps[j].as_int() != Some(0))
        .collect();
    if let ([j], Some(0)) = (&moving[..], rest.as_int())
        && steps[*j].as_int() == Some(1)
        && axes[*j].1 == *extent
    {
        return true;
    }
    let (Some(mut low), Some(n)) = (rest.as_int(), extent.as_int()) else {
        return false;
    };
    let mut high = low;
    for j in moving {
        let (Some(step), Some(n)) = (steps[j].as_int(), axes[j].1.as_int()) else {
            return false;
        };
        let Some(reach) = step.checked_mul((n - 1).max(0)) else {
            return false;
        };
        low = low.saturating_add(reach.min(0));
        high = high.saturating_add(reach.max(0));
    }
    low >= 0 && high < n
}

fn binary(op: BinOp) -> Option<Op> {
    Some(match op {
        BinOp::Add => Op::Add,
        BinOp::Sub => Op::Sub,
        BinOp::Mul => Op::Mul,
        BinOp::Div => Op::Div,
        BinOp::Min => Op::Min,
        BinOp::Max => Op::Max,
        BinOp::Pow => Op::Pow,
        _ => return None,
    })
}

/// The selecting operation for a comparison, and whether its operands or its results are swapped.
fn selection(op: BinOp) -> Option<(Op, bool, bool)> {
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

/// The operations of an expression over `axes`; `None` when one is unsupported.
fn translate(value: &Ex, axes: &[Var], cut: Option<&Cut>) -> Option<Strips> {
    let mut out = Strips::default();
    let mut known: FxHashMap<usize, Operand> = FxHashMap::default();
    let mut work = vec![(value, false)];
    while let Some((e, ready)) = work.pop() {
        if known.contains_key(&e.addr()) {
            continue;
        }
        if e.dtype() != DType::F32 {
            return None;
        }
        // What is loaded, as it is or converted to a float.
        let loaded = match e.kind() {
            ExKind::Cast(x) if is_operand(x.dtype()) => x,
            _ => e,
        };
        let operand = match loaded.kind() {
            ExKind::Float(v) => {
                let v = *v as f32;
                let same = |c: &f32| c.to_bits() == v.to_bits();
                let k = out.constants.iter().position(same).unwrap_or_else(|| {
                    out.constants.push(v);
                    out.constants.len() - 1
                });
                Operand::Constant(k)
            }
            ExKind::Load(buf, index) => {
                let input = match cut {
                    Some(cut) => cut.loads.get(&loaded.addr())?.clone(),
                    None => Input {
                        buf: *buf,
                        index: (index.iter())
                            .map(|i| affine(i, axes, 16))
                            .collect::<Option<_>>()?,
                        sure: false,
                    },
                };
                let same = |i: &Input| i.buf == input.buf && i.index == input.index;
                let k = out.inputs.iter().position(same).unwrap_or_else(|| {
                    out.inputs.push(input);
                    out.inputs.len() - 1
                });
                Operand::Input(k)
            }
            _ if loaded.addr() != e.addr() => return None,
            ExKind::Unary(op, a) => {
                let op = Op::named(op.source_name())?;
                let Some(args) = operands(&known, &[a], e, ready, &mut work) else {
                    continue;
                };
                out.push(op, args)
            }
            ExKind::Binary(op, a, b) => {
                let op = binary(*op)?;
                let Some(args) = operands(&known, &[a, b], e, ready, &mut work) else {
                    continue;
                };
                out.push(op, args)
            }
            ExKind::Select(c, yes, no) => {
                let ExKind::Binary(op, a, b) = c.kind() else {
                    return None;
                };
                let (op, turned, exchanged) = selection(*op)?;
                let Some(mut args) = operands(&known, &[a, b, yes, no], e, ready, &mut work) else {
                    continue;
                };
                if turned {
                    args.swap(0, 1);
                }
                if exchanged {
                    args.swap(2, 3);
                }
                out.push(op, args)
            }
            _ => return None,
        };
        if out.ops.len() > OPS || out.inputs.len() > INPUTS || out.constants.len() > 16 {
            return None;
        }
        known.insert(e.addr(), operand);
    }
    let result = known[&value.addr()];
    if out.ops.is_empty() || result != Operand::Temp(out.ops.len() - 1) {
        out.push(Op::Copy, vec![result]);
    }
    Some(out)
}

/// The operands for an expression's children; `None`, with the children pushed on the work list,
/// when some are not known yet.
fn operands<'e>(
    known: &FxHashMap<usize, Operand>,
    parts: &[&'e Ex],
    whole: &'e Ex,
    ready: bool,
    work: &mut Vec<(&'e Ex, bool)>,
) -> Option<Vec<Operand>> {
    if !ready {
        work.push((whole, true));
        work.extend(parts.iter().rev().map(|p| (*p, false)));
        return None;
    }
    Some(parts.iter().map(|p| known[&p.addr()]).collect())
}

impl Strips {
    fn push(&mut self, op: Op, args: Vec<Operand>) -> Operand {
        self.ops.push((op, args));
        Operand::Temp(self.ops.len() - 1)
    }

    /// The operations, with temporaries shared where their live ranges are disjoint, and the number
    /// of temporaries.
    fn program(&self) -> (Vec<RxStripOp>, usize) {
        let mut last = vec![0; self.ops.len()];
        for (k, (_, args)) in self.ops.iter().enumerate() {
            for a in args {
                if let Operand::Temp(t) = a {
                    last[*t] = k;
                }
            }
        }
        let (mut free, mut count) = (Vec::new(), 0);
        let mut place = vec![0usize; self.ops.len()];
        let mut out = Vec::new();
        let first = self.inputs.len() + self.constants.len();
        for (k, (op, args)) in self.ops.iter().enumerate() {
            let number = |a: &Operand| match a {
                Operand::Input(i) => *i,
                Operand::Constant(c) => self.inputs.len() + c,
                Operand::Temp(t) => first + place[*t],
            };
            let mut numbers = [number(&args[0]) as i32; 4];
            for (n, a) in numbers.iter_mut().zip(args) {
                *n = number(a) as i32;
            }
            // Element i of a result depends on elements i of its operands only, so it may overwrite
            // one that is read here for the last time.
            let mut seen = Vec::new();
            for a in args {
                if let Operand::Temp(t) = a
                    && last[*t] == k
                    && !seen.contains(t)
                {
                    seen.push(*t);
                    free.push(place[*t]);
                }
            }
            place[k] = free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            });
            out.push(RxStripOp {
                code: *op as i32,
                dst: place[k] as i32,
                args: numbers,
            });
        }
        (out, count)
    }
}

impl Kernel<'_, '_, '_> {
    /// Emits a stage as strips; `false` when it does not fit.
    pub(super) fn strips(&mut self, c: &Compute) -> Result<bool> {
        let value = match self.program.bufs[c.out].dtype {
            DType::F32 => Some(c.value.clone()),
            _ => as_byte(&c.value),
        };
        let Some(value) = value else {
            return Ok(false);
        };
        let combiner = match c.reduce.as_ref().map(|r| r.combiner) {
            None => How::Sum,
            Some(Combiner::And | Combiner::Or) => return Ok(false),
            Some(numbers) => combiner(numbers),
        };
        let axes = self.program.loops(c);
        let result_axes = c.axes.len();
        let reduced = axes.len() - result_axes;
        if result_axes > AXES || reduced > AXES || (c.reduce.is_some() && reduced == 0) {
            return Ok(false);
        }
        let known = |axes: &[(Var, Ex)]| elements(axes.iter().map(|a| &a.1));
        if known(&axes).is_some_and(|n| n < FEW) {
            return Ok(false);
        }
        // Short windows of few elements: a strip would be almost empty. Axes of extent 1 do not
        // count.
        let short = |axes: &[(Var, Ex)]| {
            let mut extents = axes.iter().rev().map(|a| a.1.as_int());
            extents.find(|n| *n != Some(1)).flatten().unwrap_or(64) < 8
        };
        if c.reduce.is_some() && short(&axes) && short(&axes[..result_axes]) {
            return Ok(false);
        }
        let cut = self.cut(c, &axes);
        let result_axes = cut.as_ref().map_or(result_axes, |c| c.result_axes);
        let axes = cut.as_ref().map_or(axes, |c| c.axes.clone());
        if result_axes > AXES || axes.len() - result_axes > AXES {
            return Ok(false);
        }
        let vars: Vec<Var> = axes.iter().map(|a| a.0).collect();
        let Some(strips) = translate(&value, &vars, cut.as_ref()) else {
            return Ok(false);
        };
        let read = |i: &Input| self.places.contains_key(&i.buf);
        if !strips.inputs.iter().all(read) {
            return Ok(false);
        }
        if c.reduce.is_some() && !self.types(&strips, c.out).all(|t| t == DType::F32) {
            return Ok(false);
        }
        // Loads on only one side of a selection must be neither executed nor checked when the other
        // side is chosen.
        let selects =
            |o: &(Op, Vec<Operand>)| matches!(o.0, Op::SelectLt | Op::SelectLe | Op::SelectEq);
        let plain = |i: &Input| {
            let shape = &self.program.bufs[i.buf].shape;
            i.sure
                || (i.index.iter().zip(shape)).all(|(index, extent)| inside(index, extent, &axes))
        };
        if strips.ops.iter().any(selects) && !strips.inputs.iter().all(plain) {
            return Ok(false);
        }
        // Values are memoised by the address of their expression: those created here are temporary.
        self.memo.push(FxHashMap::default());
        let done = self.emit_strips(c, &axes, result_axes, &strips, combiner);
        self.memo.pop();
        done.map(|()| true)
    }

    /// The element types of all inputs, then of the result.
    fn types<'s>(&'s self, strips: &'s Strips, out: Buf) -> impl Iterator<Item = DType> + 's {
        let bufs = strips.inputs.iter().map(|i| i.buf).chain([out]);
        bufs.map(|b| self.program.bufs[b].dtype)
    }

    fn emit_strips(
        &mut self,
        c: &Compute,
        axes: &[(Var, Ex)],
        result_axes: usize,
        strips: &Strips,
        combiner: How,
    ) -> Result<()> {
        let reduced = axes.len() - result_axes;
        self.place(c.out)?;
        let out = self.places[&c.out].data;
        let extents: Vec<Value> = (axes.iter())
            .map(|(_, e)| self.eval(e))
            .collect::<Result<_>>()?;
        let mut data = Vec::new();
        let mut steps = Vec::new();
        let mut checks = Vec::new();
        for input in &strips.inputs {
            let (first, along) = self.input_steps(input, axes, &extents, &mut checks)?;
            data.push(first);
            steps.extend(along);
        }
        if !checks.is_empty() {
            self.check_box(&extents, &checks);
        }
        let values: Vec<u8> = strips
            .constants
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let (ops, temps) = strips.program();
        let numbers = |o: &RxStripOp| [o.code, o.dst, o.args[0], o.args[1], o.args[2], o.args[3]];
        let code: Vec<u8> = (ops.iter())
            .flat_map(numbers)
            .flat_map(i32::to_le_bytes)
            .collect();
        let mut kinds = Vec::new();
        if self.types(strips, c.out).any(|t| t != DType::F32) {
            let types = self.types(strips, c.out);
            let numbers = types.map(|t| kind(t).unwrap_or(Kind::F32) as i32);
            kinds.extend(numbers.flat_map(i32::to_le_bytes));
        }
        let kinds = self.constant(&kinds);
        let (values, code) = (self.constant(&values), self.constant(&code));
        let [extents, data, steps] = [extents, data, steps].map(|x| words(self.b, &x));
        let f = self.structure::<RxStrips>();
        self.put_ints(
            &f,
            fields!(RxStrips {
                axes: result_axes as i64,
                reduced: reduced as i64,
                inputs: strips.inputs.len() as i64,
                constants: strips.constants.len() as i64,
                ops: ops.len() as i64,
                temps: temps as i64,
                combiner: combiner as i64,
            }),
        );
        self.put(
            &f,
            fields!(RxStrips {
                extents: extents,
                data: data,
                kinds: kinds,
                strides: steps,
                values: values,
                program: code,
                out: out,
            }),
        );
        self.run_with(abi::rx_strips_f32, f);
        Ok(())
    }

    /// The address of an input's first element and its steps along all axes, in elements; indices
    /// that are not proven in bounds remain to be checked.
    pub(super) fn input_steps(
        &mut self,
        input: &Input,
        axes: &[(Var, Ex)],
        extents: &[Value],
        checks: &mut Vec<(Access, (Value, Value), Value)>,
    ) -> Result<(Value, Vec<Value>)> {
        let place = self.places[&input.buf].clone();
        let mut offset = self.b.ins().iconst(types::I64, 0);
        let mut along = vec![offset; axes.len()];
        let mut size = self.b.ins().iconst(types::I64, 1);
        let program = self.program;
        let buffer = &program.bufs[input.buf];
        for (k, (index, rest)) in input.index.iter().enumerate().rev() {
            let rest = self.eval(rest)?;
            let scaled = self.b.ins().imul(rest, size);
            offset = self.b.ins().iadd(offset, scaled);
            let mut bounds = (rest, rest);
            for (j, step) in index.iter().enumerate() {
                if step.as_int() == Some(0) {
                    continue;
                }
                let step = self.eval(step)?;
                let scaled = self.b.ins().imul(step, size);
                along[j] = self.b.ins().iadd(along[j], scaled);
                bounds = self.widened(bounds, step, extents[j]);
            }
            if !input.sure && !inside(&input.index[k], &buffer.shape[k], axes) {
                let access = Access {
                    buf: input.buf,
                    axis: k as u32,
                    place: None,
                };
                checks.push((access, bounds, place.extents[k]));
            }
            size = self.b.ins().imul(size, place.extents[k]);
        }
        let bytes = self.b.ins().imul_imm_s(offset, buffer.dtype.size() as i64);
        Ok((self.b.ins().iadd(place.data, bytes), along))
    }

    /// The least and the greatest index after moving each by `step` in every but the first of
    /// `extent` iterations.
    pub(super) fn widened(
        &mut self,
        (low, high): (Value, Value),
        step: Value,
        extent: Value,
    ) -> (Value, Value) {
        let last = self.b.ins().iadd_imm_s(extent, -1);
        let reach = self.b.ins().imul(step, last);
        // Offsets beyond any memory count as out of bounds: sums of them might wrap to valid
        // numbers.
        let high_word = self.b.ins().smulhi(step, last);
        let sign = self.b.ins().sshr_imm_s(reach, 63);
        let over = self.b.ins().icmp(IntCC::NotEqual, high_word, sign);
        let far = self.b.ins().iadd_imm_s(reach, FARTHEST);
        let most = self.b.ins().iconst(types::I64, 2 * FARTHEST);
        let far = self.b.ins().icmp(IntCC::UnsignedGreaterThan, far, most);
        let over = self.b.ins().bor(over, far);
        let least = self.b.ins().iconst(types::I64, i64::MIN);
        let zero = self.b.ins().iconst(types::I64, 0);
        let down = self.b.ins().smin(reach, zero);
        let down = self.b.ins().select(over, least, down);
        let up = self.b.ins().smax(reach, zero);
        (self.b.ins().iadd(low, down), self.b.ins().iadd(high, up))
    }

    /// Checks the least and the greatest index of every axis, unless there are no iterations.
    pub(super) fn check_box(
        &mut self,
        extents: &[Value],
        checks: &[(Access, (Value, Value), Value)],
    ) {
        let (some, done) = (self.b.create_block(), self.b.create_block());
        let mut any = self.b.ins().iconst(types::I8, 1);
        for &n in extents {
            let positive = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, n, 0);
            any = self.b.ins().band(any, positive);
        }
        self.b.ins().brif(any, some, &[], done, &[]);
        self.b.switch_to_block(some);
        for &(access, (low, high), extent) in checks {
            self.check(access, low, extent);
            self.check(access, high, extent);
        }
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    /// The address of read-only bytes.
    pub(super) fn constant(&mut self, bytes: &[u8]) -> Value {
        if bytes.is_empty() {
            return self.b.ins().iconst(types::I64, 0);
        }
        let id = self.env.data("strips", bytes, 8);
        let gv = self.env.module.declare_data_in_func(id, self.b.func);
        self.b.ins().symbol_value(types::I64, gv)
    }
}

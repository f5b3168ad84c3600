//! Lowered programs to the machine's instructions.
//!
//! The control flow and the registers are those of the lowered program; references are counted by the values themselves, so what
//! is left of retaining and releasing is which use of a register is its last.

mod flow;

use relax_base::Symbol;
use relax_loops::{Ex, ExKind, visit_expr};
use relax_lower::lir::{self, Alloc, BlockId, Hold, LFunc, Lowered};
use relax_tensor::{DType, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

use crate::builtin::{Builtin, Plain};
use crate::code::{Arg, Callee, Const, Entry, Executable, Function, Inst, Kernel, Reg};

/// Why a program has no form for the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported(pub String);

/// Translates a lowered program.
///
/// # Errors
/// It reads elements of buffers in scalar expressions, which lowering does not make.
pub fn translate(lowered: &Lowered) -> Result<Executable, Unsupported> {
    let mut pool = Pool::default();
    for t in lowered.data.values() {
        // In the order of their numbers: constant `k` of the lowered program is `c[k]`.
        pool.consts.push(Const::Tensor(t.clone()));
    }
    let mut taken = FxHashSet::default();
    let names: Vec<String> = (lowered.funcs.values())
        .map(|f| fresh(&mut taken, f.name.as_str()))
        .collect();
    let mut out = Executable::default();
    for (f, name) in lowered.funcs.values().zip(names) {
        out.funcs
            .push(Translation::new(f, &mut pool).function(name)?);
    }
    let mut taken = FxHashSet::default();
    for kernel in lowered.kernels.values() {
        out.kernels.push(Kernel {
            name: fresh(
                &mut taken,
                &identifier(kernel.label.trim_start_matches('@')),
            ),
            program: Arc::new(kernel.program.clone()),
            by_hand: kernel.by_hand,
            places: (kernel.parts.iter().chain(&kernel.accesses))
                .map(Symbol::to_string)
                .collect(),
        });
    }
    out.entries = (lowered.entries.iter())
        .map(|e| Entry {
            name: e.name.to_string(),
            func: e.func.0,
            params: e.params.iter().map(Symbol::to_string).collect(),
            types: e.types.iter().chain([&e.result]).cloned().collect(),
        })
        .collect();
    out.consts = pool.consts;
    Ok(out)
}

/// A label as an identifier.
fn identifier(label: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let text: String = label.chars().map(clean).collect();
    match text.chars().next() {
        Some(c) if !c.is_ascii_digit() => text,
        _ => format!("k_{text}"),
    }
}

/// A name that is not taken: the one that is wanted, or that and a number.
fn fresh(taken: &mut FxHashSet<String>, wanted: &str) -> String {
    let mut name = wanted.to_owned();
    let mut k = 1;
    while !taken.insert(name.clone()) {
        k += 1;
        name = format!("{wanted}_{k}");
    }
    name
}

/// Constants, those that are not tensors once each.
#[derive(Default)]
struct Pool {
    consts: Vec<Const>,
    texts: FxHashMap<String, u32>,
    shapes: FxHashMap<Vec<i64>, u32>,
    scalars: FxHashMap<(DType, u64), u32>,
}

impl Pool {
    fn push(consts: &mut Vec<Const>, c: Const) -> u32 {
        consts.push(c);
        consts.len() as u32 - 1
    }
    fn text(&mut self, text: &str) -> Arg {
        let consts = &mut self.consts;
        let new = || Pool::push(consts, Const::Text(text.to_owned()));
        Arg::Const(*self.texts.entry(text.to_owned()).or_insert_with(new))
    }
    fn shape(&mut self, dims: Vec<i64>) -> Arg {
        let consts = &mut self.consts;
        let new = || Pool::push(consts, Const::Shape(dims.clone()));
        Arg::Const(*self.shapes.entry(dims.clone()).or_insert_with(new))
    }
    fn scalar(&mut self, t: &Tensor) -> Arg {
        let bits = crate::value::element(t).unwrap_or(0);
        if t.dtype() == DType::I64 {
            return Arg::Int(bits as i64);
        }
        let consts = &mut self.consts;
        let new = || Pool::push(consts, Const::Scalar(t.dtype(), bits));
        Arg::Const(*self.scalars.entry((t.dtype(), bits)).or_insert_with(new))
    }
}

/// A jump whose goal has no number yet.
enum Goal {
    If(BlockId),
    Goto(BlockId),
}

/// The translation of one function.
struct Translation<'a> {
    f: &'a LFunc,
    pool: &'a mut Pool,
    /// By how much the machine's registers are numbered higher: a closure's code takes the closure first.
    shift: u32,
    registers: u32,
    code: Vec<Inst>,
    places: Vec<(u32, String)>,
    goals: Vec<(usize, Goal)>,
    /// References that the next uses of a register leave behind.
    kept: FxHashMap<lir::Reg, u32>,
    /// Registers that the last instruction gave up and that are released next.
    ended: FxHashSet<Reg>,
}

impl<'a> Translation<'a> {
    fn new(f: &'a LFunc, pool: &'a mut Pool) -> Translation<'a> {
        let shift = u32::from(f.captures.is_some());
        Translation {
            f,
            pool,
            shift,
            registers: f.regs.len() as u32 + shift,
            code: Vec::new(),
            places: Vec::new(),
            goals: Vec::new(),
            kept: FxHashMap::default(),
            ended: FxHashSet::default(),
        }
    }

    fn function(mut self, name: String) -> Result<Function, Unsupported> {
        let f = self.f;
        // Parameters come first in the machine; in a lowered function any registers may be parameters.
        let params = f.params.len() as u32 + self.shift;
        self.arrange();
        let mut starts = vec![0u32; f.blocks.len()];
        for (id, block) in f.blocks.iter() {
            starts[id.0 as usize] = self.code.len() as u32;
            self.kept.clear();
            for (i, inst) in block.insts.iter().enumerate() {
                self.inst(inst, &block.insts[i + 1..])?;
            }
            self.term(&block.term);
        }
        for (at, goal) in std::mem::take(&mut self.goals) {
            match (&mut self.code[at], goal) {
                (Inst::If(_, to), Goal::If(b)) | (Inst::Goto(to), Goal::Goto(b)) => {
                    *to = starts[b.0 as usize]
                }
                _ => {}
            }
        }
        Ok(Function {
            name,
            params,
            registers: self.registers.max(params),
            closure: f.captures.is_some(),
            code: self.code,
            places: self.places,
        })
    }

    /// Moves parameters to the registers of their numbers, where they have others.
    fn arrange(&mut self) {
        let params = &self.f.params;
        let in_order = params.iter().enumerate().all(|(i, r)| r.0 as usize == i);
        if in_order {
            return;
        }
        // Above all registers of the function, so that no parameter is in the way of another.
        let n = params.len() as u32;
        self.registers += n;
        let above = self.registers - n;
        for i in 0..n {
            self.call(
                Plain::Copy,
                vec![Arg::Last(i + self.shift)],
                Some(above + i),
            );
        }
        for (i, r) in params.iter().enumerate() {
            let to = self.reg(*r);
            self.call(Plain::Copy, vec![Arg::Last(above + i as u32)], Some(to));
        }
    }

    fn reg(&self, r: lir::Reg) -> Reg {
        r.0 + self.shift
    }

    fn temp(&mut self) -> Reg {
        self.registers += 1;
        self.registers - 1
    }

    fn call(&mut self, plain: Plain, args: Vec<Arg>, dst: Option<Reg>) {
        self.emit(Callee::Builtin(Builtin::Plain(plain)), args, dst);
    }

    fn emit(&mut self, callee: Callee, args: Vec<Arg>, dst: Option<Reg>) {
        self.code.push(Inst::Call {
            callee,
            args: args.into(),
            dst,
        });
    }

    /// Notes where the next instruction stands.
    fn at(&mut self, place: Symbol) {
        if !place.as_str().is_empty() {
            self.places
                .push((self.code.len() as u32, place.to_string()));
        }
    }

    /// A use that takes a register's reference.
    fn taken(&mut self, r: lir::Reg) -> Arg {
        let register = self.reg(r);
        if self.f.hold(r) != Hold::Value {
            return Arg::Reg(register);
        }
        match self.kept.get_mut(&r) {
            Some(n) if *n > 0 => {
                *n -= 1;
                Arg::Reg(register)
            }
            _ => Arg::Last(register),
        }
    }

    fn all_taken(&mut self, regs: &[lir::Reg]) -> Vec<Arg> {
        regs.iter().map(|&r| self.taken(r)).collect()
    }

    fn seen(&self, r: lir::Reg) -> Arg {
        Arg::Reg(self.reg(r))
    }

    /// Arguments of a call, some of them lent.
    fn handed(&mut self, args: &[lir::Reg], lent: &[bool]) -> Vec<Arg> {
        let one = |(i, &r): (usize, &lir::Reg)| match lent.get(i) {
            Some(true) => self.seen(r),
            _ => self.taken(r),
        };
        args.iter().enumerate().map(one).collect()
    }

    /// A scalar expression: its parts in order, each a call.
    fn scalar(&mut self, root: &Ex) -> Result<Arg, Unsupported> {
        let mut parts: Vec<&Ex> = Vec::new();
        visit_expr(root, |e| parts.push(e));
        let mut known: FxHashMap<usize, Arg> = FxHashMap::default();
        for e in parts {
            let part = |x: &Ex| known[&x.addr()];
            let (callee, args) = match e.kind() {
                ExKind::Var(v) => {
                    known.insert(e.addr(), Arg::Reg(v.0 + self.shift));
                    continue;
                }
                ExKind::Int(v) => {
                    let c = self.pool.scalar(&Tensor::scalar_i64(e.dtype(), *v));
                    known.insert(e.addr(), c);
                    continue;
                }
                ExKind::Float(v) => {
                    let c = self.pool.scalar(&Tensor::scalar_f64(e.dtype(), *v));
                    known.insert(e.addr(), c);
                    continue;
                }
                ExKind::Unary(op, a) => (Builtin::Unary(*op, a.dtype()), vec![part(a)]),
                ExKind::Binary(op, a, b) => {
                    (Builtin::Binary(*op, a.dtype()), vec![part(a), part(b)])
                }
                ExKind::Select(c, a, b) => (
                    Builtin::Plain(Plain::Select),
                    vec![part(c), part(a), part(b)],
                ),
                ExKind::Cast(a) => (Builtin::Cast(a.dtype(), e.dtype()), vec![part(a)]),
                ExKind::Reinterpret(a) => (Builtin::Bits(a.dtype(), e.dtype()), vec![part(a)]),
                ExKind::Load(..) => {
                    return Err(Unsupported("a buffer in a scalar expression".to_owned()));
                }
            };
            let dst = self.temp();
            self.emit(Callee::Builtin(callee), args, Some(dst));
            known.insert(e.addr(), Arg::Reg(dst));
        }
        Ok(known[&root.addr()])
    }

    /// A shape: a constant where all extents are.
    fn shape(&mut self, dims: &[Ex]) -> Result<Arg, Unsupported> {
        let whole: Option<Vec<i64>> = dims.iter().map(Ex::as_int).collect();
        if let Some(dims) = whole {
            return Ok(self.pool.shape(dims));
        }
        let args = dims
            .iter()
            .map(|d| self.scalar(d))
            .collect::<Result<Vec<Arg>, _>>()?;
        let dst = self.temp();
        self.call(Plain::MakeShape, args, Some(dst));
        Ok(Arg::Reg(dst))
    }

    /// Where the result of a kernel goes: its shape, or the tensor that was placed for it.
    fn target(&mut self, given: Option<&Alloc>) -> Result<Arg, Unsupported> {
        match given {
            None => Ok(Arg::Void),
            Some(Alloc { place: Some(r), .. }) => Ok(self.seen(*r)),
            Some(out) => self.shape(&out.dims),
        }
    }

    /// Results of a call: one as it is, several as the fields of a tuple.
    fn results(&mut self, callee: Callee, args: Vec<Arg>, dsts: &[lir::Reg]) {
        if let [dst] = dsts {
            let dst = self.reg(*dst);
            return self.emit(callee, args, Some(dst));
        }
        let all = self.temp();
        self.emit(callee, args, Some(all));
        for (i, &dst) in dsts.iter().enumerate() {
            let whole = if i + 1 == dsts.len() {
                Arg::Last(all)
            } else {
                Arg::Reg(all)
            };
            let dst = self.reg(dst);
            self.call(Plain::GetItem, vec![whole, Arg::Int(i as i64)], Some(dst));
        }
    }

    /// An instruction. `rest` are those after it in its block.
    fn inst(&mut self, inst: &lir::Inst, rest: &[lir::Inst]) -> Result<(), Unsupported> {
        use lir::Inst as I;
        if !matches!(inst, I::Release(_)) {
            self.ended.clear();
        }
        match inst {
            I::Const { dst, data } => {
                let dst = self.reg(*dst);
                self.call(Plain::Copy, vec![Arg::Const(data.0)], Some(dst));
            }
            I::Kernel {
                dsts,
                kernel,
                args,
                given,
                place,
            } => {
                let mut all: Vec<Arg> = args.iter().map(|&r| self.seen(r)).collect();
                for out in given {
                    all.push(self.target(out.as_ref())?);
                }
                self.last_uses(&mut all, rest);
                self.at(*place);
                self.results(Callee::Kernel(kernel.0), all, dsts);
            }
            I::Tuple { dst, fields } => {
                let (fields, dst) = (self.all_taken(fields), self.reg(*dst));
                self.call(Plain::MakeTuple, fields, Some(dst));
            }
            I::Scalar { dst, value } => {
                let dst = self.reg(*dst);
                let before = self.code.len();
                let value = self.scalar(value)?;
                let made = self.code.len() > before;
                match self.code.last_mut() {
                    // The last part of the expression goes where the whole is wanted.
                    Some(Inst::Call { dst: to, .. }) if made && to.map(Arg::Reg) == Some(value) => {
                        *to = Some(dst)
                    }
                    _ => self.call(Plain::Copy, vec![value], Some(dst)),
                }
            }
            I::Unbox { dst, src } => {
                let mut args = vec![self.seen(*src)];
                self.last_uses(&mut args, rest);
                let dst = self.reg(*dst);
                self.call(Plain::Element, args, Some(dst));
            }
            I::Box { dst, src } => {
                let (src, dst) = (self.seen(*src), self.reg(*dst));
                self.call(Plain::Copy, vec![src], Some(dst));
            }
            I::Field { dst, src, index } => {
                let mut args = vec![self.seen(*src), Arg::Int(i64::from(*index))];
                self.last_uses(&mut args, rest);
                let dst = self.reg(*dst);
                self.call(Plain::GetItem, args, Some(dst));
            }
            I::RefRead { dst, cell } => {
                let mut args = vec![self.seen(*cell)];
                self.last_uses(&mut args, rest);
                let dst = self.reg(*dst);
                self.call(Plain::RefRead, args, Some(dst));
            }
            I::Adt { dst, tag, fields } => {
                let mut args = vec![Arg::Int(i64::from(*tag))];
                args.extend(self.all_taken(fields));
                let dst = self.reg(*dst);
                self.call(Plain::MakeAdt, args, Some(dst));
            }
            I::Closure {
                dst,
                func,
                captures,
            } => {
                let mut args = vec![Arg::Func(func.0)];
                args.extend(self.all_taken(captures));
                let dst = self.reg(*dst);
                self.call(Plain::MakeClosure, args, Some(dst));
            }
            I::Capture { dst, index } => {
                let dst = self.reg(*dst);
                self.call(
                    Plain::GetItem,
                    vec![Arg::Reg(0), Arg::Int(i64::from(*index))],
                    Some(dst),
                );
            }
            I::This { dst } => {
                let dst = self.reg(*dst);
                self.call(Plain::Copy, vec![Arg::Reg(0)], Some(dst));
            }
            I::Call {
                dst,
                func,
                args,
                lent,
            } => {
                let (args, dst) = (self.handed(args, lent), self.reg(*dst));
                self.emit(Callee::Func(func.0), args, Some(dst));
            }
            I::CallClosure { dst, callee, args } => {
                let mut all = vec![self.taken(*callee)];
                all.extend(self.all_taken(args));
                let dst = self.reg(*dst);
                self.call(Plain::InvokeClosure, all, Some(dst));
            }
            I::CallPacked { dst, name, args } => {
                let mut all = vec![self.pool.text(name.as_str())];
                all.extend(args.iter().map(|&r| self.seen(r)));
                let dst = self.reg(*dst);
                self.call(Plain::CallPacked, all, Some(dst));
            }
            I::CallDps {
                dsts,
                name,
                args,
                given,
            } => {
                let mut all = vec![self.pool.text(name.as_str()), Arg::Int(given.len() as i64)];
                for out in given {
                    all.push(self.shape(&out.dims)?);
                    all.push(self.pool.text(&out.dtype.to_string()));
                }
                all.extend(args.iter().map(|&r| self.seen(r)));
                self.results(Callee::Builtin(Builtin::Plain(Plain::CallDps)), all, dsts);
            }
            I::Storage { dst, bytes } => {
                let (bytes, dst) = (self.scalar(bytes)?, self.reg(*dst));
                self.call(Plain::AllocStorage, vec![bytes], Some(dst));
            }
            I::Place {
                dst,
                storage,
                offset,
                tensor,
            } => {
                let mut args = vec![
                    self.seen(*storage),
                    self.scalar(offset)?,
                    self.shape(&tensor.dims)?,
                ];
                args.push(self.pool.text(&tensor.dtype.to_string()));
                self.last_uses(&mut args, rest);
                let dst = self.reg(*dst);
                self.call(Plain::AllocTensor, args, Some(dst));
            }
            I::Kill { .. } => {}
            I::RefNew { dst, value } => {
                let (value, dst) = (self.taken(*value), self.reg(*dst));
                self.call(Plain::RefNew, vec![value], Some(dst));
            }
            I::RefWrite { cell, value } => {
                let args = vec![self.seen(*cell), self.taken(*value)];
                self.call(Plain::RefWrite, args, None);
            }
            I::Shape { dst, dims } => {
                let (shape, dst) = (self.shape(dims)?, self.reg(*dst));
                self.call(Plain::Copy, vec![shape], Some(dst));
            }
            I::Text { dst, text } => {
                let (text, dst) = (self.pool.text(text.as_str()), self.reg(*dst));
                self.call(Plain::Copy, vec![text], Some(dst));
            }
            I::Dim { dst, src, axis } => {
                let mut args = vec![self.seen(*src), Arg::Int(i64::from(*axis))];
                self.last_uses(&mut args, rest);
                let dst = self.reg(*dst);
                self.call(Plain::Extent, args, Some(dst));
            }
            I::CheckTensor {
                src,
                rank,
                dtype,
                place,
            } => {
                let rank = rank.map_or(-1, i64::from);
                let dtype = dtype.map_or(Arg::Void, |d| self.pool.text(&d.to_string()));
                let args = vec![self.seen(*src), Arg::Int(rank), dtype];
                self.at(*place);
                self.call(Plain::CheckTensor, args, None);
            }
            // Values of the machine cannot be misread; what is no such value fails where it is used.
            I::CheckValue { .. } => {}
            I::CheckKind { src, kind, place } => {
                let (name, fields) = match kind {
                    lir::Kind::Tensor => ("tensor", -1),
                    lir::Kind::Tuple(n) => ("tuple", i64::from(*n)),
                    lir::Kind::Adt => ("adt", -1),
                    lir::Kind::Shape => ("shape", -1),
                };
                let args = vec![self.seen(*src), self.pool.text(name), Arg::Int(fields)];
                self.at(*place);
                self.call(Plain::CheckKind, args, None);
            }
            I::CheckDims {
                a,
                b,
                or_one,
                place,
                message,
            } => {
                let args = vec![
                    self.scalar(a)?,
                    self.scalar(b)?,
                    Arg::Int(i64::from(*or_one)),
                    self.pool.text(message.as_str()),
                ];
                self.at(*place);
                self.call(Plain::CheckEqual, args, None);
            }
            I::Retain(r) => *self.kept.entry(*r).or_default() += 1,
            I::Release(r) => {
                // Unless a use just before has given it up.
                let register = self.reg(*r);
                if !self.ended.remove(&register) {
                    self.call(Plain::Kill, vec![Arg::Last(register)], None);
                }
            }
        }
        Ok(())
    }

    /// Marks the uses among `args` that are the last: those that are released right after.
    fn last_uses(&mut self, args: &mut [Arg], rest: &[lir::Inst]) {
        for released in rest {
            let lir::Inst::Release(r) = released else {
                break;
            };
            let r = self.reg(*r);
            if let Some(at) = args.iter().rposition(|a| *a == Arg::Reg(r)) {
                args[at] = Arg::Last(r);
                self.ended.insert(r);
            }
        }
    }
}

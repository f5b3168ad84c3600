//! Translation of lowered programs to bytecode.
//!
//! The control flow is that of the lowered program. Values are reference-counted by the machine, so
//! retains and releases become last-use marks on registers. These, and which values share a
//! register, are determined afterwards.

mod flow;
mod layout;
mod live;
mod pool;
mod registers;

use relax_base::Symbol;
use relax_loops::{Ex, ExKind, visit_expr};
use relax_lower::lir::{self, Alloc, BlockId, Hold, LFunc, Lowered};
use relax_tensor::Tensor;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

use crate::Kernel;
use crate::builtin::{Builtin, Plain};
use crate::code::{Arg, Callee, Const, Entry, Executable, Function, Reg};
use pool::{Pool, fresh, identifier};

/// The reason why a program has no bytecode form.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported(pub String);

/// Translates a lowered program.
///
/// # Errors
/// A scalar expression reads elements of buffers, which lowering does not produce.
pub fn translate(lowered: &Lowered) -> Result<Executable, Unsupported> {
    let mut pool = Pool::default();
    for t in lowered.data.values() {
        // In index order: constant `k` of the lowered program is `c[k]`.
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
        let name = identifier(kernel.label.trim_start_matches('@'));
        out.kernels.push(Kernel::new(
            fresh(&mut taken, &name),
            Arc::new(kernel.program.clone()),
            kernel.by_hand,
            (kernel.parts.iter().chain(&kernel.accesses))
                .map(Symbol::to_string)
                .collect(),
        ));
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

/// The terminator of a block.
#[derive(Clone, Debug)]
enum End {
    Ret(Arg),
    Goto(usize),
    /// The register, the target if it is true, and the target otherwise.
    If(Reg, usize, usize),
}

/// A call, and its source location.
#[derive(Clone, Debug)]
struct Call {
    callee: Callee,
    args: Vec<Arg>,
    dst: Option<Reg>,
    place: Symbol,
}

/// A basic block. Registers are virtual here: one for each value.
#[derive(Clone, Debug)]
struct Block {
    calls: Vec<Call>,
    end: End,
}

/// The state of translating one function.
struct Translation<'a> {
    f: &'a LFunc,
    pool: &'a mut Pool,
    /// The offset of register numbers: a closure's code has the closure as its first parameter.
    shift: u32,
    registers: u32,
    blocks: Vec<Block>,
    /// The block that is being emitted.
    here: usize,
    /// The source location of the next instruction.
    place: Symbol,
    /// Registers that hold constants.
    consts: FxHashMap<lir::Reg, Arg>,
    /// Registers that own memory, and those among them that another owner keeps alive.
    owners: FxHashSet<Reg>,
    lent: FxHashSet<Reg>,
}

impl<'a> Translation<'a> {
    fn new(f: &'a LFunc, pool: &'a mut Pool) -> Translation<'a> {
        let shift = u32::from(f.captures.is_some());
        let consts = (f.blocks.values().flat_map(|b| &b.insts)).filter_map(|inst| match inst {
            lir::Inst::Const { dst, data } => Some((*dst, Arg::Const(data.0))),
            _ => None,
        });
        let none = Symbol::new("");
        let empty = Block {
            calls: Vec::new(),
            end: End::Ret(Arg::Void),
        };
        let of = |hold: Hold| {
            let all = f.regs.iter().zip(shift..);
            all.filter(move |r| *r.0 == hold).map(|r| r.1)
        };
        let mut lent: FxHashSet<Reg> = of(Hold::Lent).collect();
        // The running closure is kept alive by its caller.
        lent.extend((shift > 0).then_some(0));
        let mut owners: FxHashSet<Reg> = of(Hold::Value).collect();
        owners.extend(&lent);
        Translation {
            f,
            pool,
            shift,
            registers: f.regs.len() as u32 + shift,
            // Blocks of the lowered function follow the first one, where parameters are moved.
            blocks: vec![empty; f.blocks.len() + 1],
            here: 0,
            place: none,
            consts: consts.collect(),
            owners,
            lent,
        }
    }

    fn function(mut self, name: String) -> Result<Function, Unsupported> {
        let f = self.f;
        // Parameters are the machine's first registers; in a lowered function any register may be a
        // parameter.
        let params = f.params.len() as u32 + self.shift;
        self.arrange();
        self.end(End::Goto(1));
        for (id, block) in f.blocks.iter() {
            self.here = Self::block(id);
            for inst in &block.insts {
                self.inst(inst)?;
            }
            self.term(&block.term);
        }
        let mut code = live::Code {
            blocks: self.blocks,
            params,
            registers: self.registers,
            owners: self.owners,
            lent: self.lent,
        };
        code.without_copies();
        let lives = code.lives();
        let lives = code.give_up(lives);
        let order = layout::order(&mut code.blocks);
        let registers = registers::assign(&mut code, &lives, &order);
        let (code, places) = layout::code(&code.blocks, &order);
        Ok(Function {
            name,
            params,
            registers: registers.max(params),
            closure: f.captures.is_some(),
            code,
            places,
        })
    }

    /// Returns the index of a block of the lowered function.
    fn block(id: BlockId) -> usize {
        id.0 as usize + 1
    }

    /// Creates an empty block.
    fn fresh(&mut self) -> usize {
        self.blocks.push(Block {
            calls: Vec::new(),
            end: End::Ret(Arg::Void),
        });
        self.blocks.len() - 1
    }

    fn end(&mut self, end: End) {
        self.blocks[self.here].end = end;
    }

    /// Moves parameters to the registers that the lowered function has for them.
    fn arrange(&mut self) {
        let params = &self.f.params;
        let in_order = params.iter().enumerate().all(|(i, r)| r.0 as usize == i);
        if in_order {
            return;
        }
        // Above all registers of the function, so that no move overwrites another parameter.
        let n = params.len() as u32;
        self.registers += n;
        let above = self.registers - n;
        for (i, r) in (0..n).zip(params) {
            if self.owners.contains(&self.reg(*r)) {
                self.owners.insert(above + i);
                self.owners.insert(i + self.shift);
            }
            self.call(Plain::Copy, vec![Arg::Reg(i + self.shift)], Some(above + i));
        }
        for (i, r) in params.iter().enumerate() {
            let to = self.reg(*r);
            self.call(Plain::Copy, vec![Arg::Reg(above + i as u32)], Some(to));
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
        let place = std::mem::replace(&mut self.place, Symbol::new(""));
        self.blocks[self.here].calls.push(Call {
            callee,
            args,
            dst,
            place,
        });
    }

    /// Sets the source location of the next instruction.
    fn at(&mut self, place: Symbol) {
        self.place = place;
    }

    /// Returns the argument for a register.
    fn seen(&self, r: lir::Reg) -> Arg {
        match self.consts.get(&r) {
            Some(&constant) => constant,
            None => Arg::Reg(self.reg(r)),
        }
    }

    fn all_seen(&self, regs: &[lir::Reg]) -> Vec<Arg> {
        regs.iter().map(|&r| self.seen(r)).collect()
    }

    /// Translates a scalar expression: its nodes in post-order, a call each.
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

    /// Translates a shape: a constant if all extents are.
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

    /// Returns the argument for a kernel's result: its shape, or the tensor allocated for it.
    fn target(&mut self, given: Option<&Alloc>) -> Result<Arg, Unsupported> {
        match given {
            None => Ok(Arg::Void),
            Some(Alloc { place: Some(r), .. }) => Ok(self.seen(*r)),
            Some(out) => self.shape(&out.dims),
        }
    }

    /// Assigns the results of a call: a single one directly, several as the fields of a tuple.
    fn results(&mut self, callee: Callee, args: Vec<Arg>, dsts: &[lir::Reg]) {
        if let [dst] = dsts {
            let dst = self.reg(*dst);
            return self.emit(callee, args, Some(dst));
        }
        let all = self.temp();
        self.owners.insert(all);
        self.emit(callee, args, Some(all));
        for (i, &dst) in dsts.iter().enumerate() {
            let dst = self.reg(dst);
            self.call(
                Plain::GetItem,
                vec![Arg::Reg(all), Arg::Int(i as i64)],
                Some(dst),
            );
        }
    }

    /// Translates an instruction.
    fn inst(&mut self, inst: &lir::Inst) -> Result<(), Unsupported> {
        use lir::Inst as I;
        match inst {
            // Constants are used directly as operands. Reference counting is implicit in the
            // values.
            I::Const { .. } | I::Retain(_) | I::Release(_) => {}
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
                self.at(*place);
                self.results(Callee::Kernel(kernel.0), all, dsts);
            }
            I::Tuple { dst, fields } => {
                let (fields, dst) = (self.all_seen(fields), self.reg(*dst));
                self.call(Plain::MakeTuple, fields, Some(dst));
            }
            I::Scalar { dst, value } => {
                let dst = self.reg(*dst);
                let before = self.blocks[self.here].calls.len();
                let value = self.scalar(value)?;
                let made = self.blocks[self.here].calls.len() > before;
                match self.blocks[self.here].calls.last_mut() {
                    // The expression's last node is computed directly into the destination.
                    Some(Call { dst: to, .. }) if made && to.map(Arg::Reg) == Some(value) => {
                        *to = Some(dst)
                    }
                    _ => self.call(Plain::Copy, vec![value], Some(dst)),
                }
            }
            I::Unbox { dst, src } => {
                let args = vec![self.seen(*src)];
                let dst = self.reg(*dst);
                self.call(Plain::Element, args, Some(dst));
            }
            I::Box { dst, src } => {
                let (src, dst) = (self.seen(*src), self.reg(*dst));
                self.call(Plain::Copy, vec![src], Some(dst));
            }
            I::Field { dst, src, index } => {
                let args = vec![self.seen(*src), Arg::Int(i64::from(*index))];
                let dst = self.reg(*dst);
                self.call(Plain::GetItem, args, Some(dst));
            }
            I::RefRead { dst, cell } => {
                let args = vec![self.seen(*cell)];
                let dst = self.reg(*dst);
                self.call(Plain::RefRead, args, Some(dst));
            }
            I::Adt { dst, tag, fields } => {
                let mut args = vec![Arg::Int(i64::from(*tag))];
                args.extend(self.all_seen(fields));
                let dst = self.reg(*dst);
                self.call(Plain::MakeAdt, args, Some(dst));
            }
            I::Closure {
                dst,
                func,
                captures,
            } => {
                let mut args = vec![Arg::Func(func.0)];
                args.extend(self.all_seen(captures));
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
                lent: _,
            } => {
                let (args, dst) = (self.all_seen(args), self.reg(*dst));
                self.emit(Callee::Func(func.0), args, Some(dst));
            }
            I::CallClosure { dst, callee, args } => {
                let mut all = vec![self.seen(*callee)];
                all.extend(self.all_seen(args));
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
                let dst = self.reg(*dst);
                self.call(Plain::AllocTensor, args, Some(dst));
            }
            // Extends the live range up to here.
            I::Kill { src } => self.call(Plain::Kill, vec![self.seen(*src)], None),
            I::RefNew { dst, value } => {
                let (value, dst) = (self.seen(*value), self.reg(*dst));
                self.call(Plain::RefNew, vec![value], Some(dst));
            }
            I::RefWrite { cell, value } => {
                let args = vec![self.seen(*cell), self.seen(*value)];
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
                let args = vec![self.seen(*src), Arg::Int(i64::from(*axis))];
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
            // The machine's values carry their kind; a value of the wrong kind fails at its use.
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
        }
        Ok(())
    }
}

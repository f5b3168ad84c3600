//! Translation of lowered programs to bytecode.
//!
//! The control flow is that of the lowered program. Values are reference-counted by the machine, so
//! retains and releases become last-use marks on registers. These, and which values share a
//! register, are determined afterwards.

mod flow;
mod inst;
mod layout;
mod live;
mod pool;
mod registers;

use relax_base::Symbol;
use relax_loops::{Ex, ExKind, visit_expr};
use relax_lower::lir::{self, BlockId, Hold, LFunc, Lowered};
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
}

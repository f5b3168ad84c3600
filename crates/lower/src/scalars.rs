//! Tensors of rank 0 in registers.
//!
//! A program creates a tensor of rank 0 for every number that it counts or adds up. Computations of
//! such tensors from others are turned into arithmetic on registers here, and functions of the
//! module take and return them as numbers. A tensor is created only where one is needed: as a
//! field, a captured value, an operand of a kernel, an argument of a closure.
//!
//! A parameter is passed as a scalar when some use of it is one; a result is a scalar when some
//! path to it ends in a scalar, and when every function that is tail-called to compute it does the
//! same (a tail call stays a jump). Both are greatest fixpoints over all functions (after Peyton
//! Jones and Launchbury, "Unboxed values as first class citizens", 1991; worker and wrapper are one
//! function here, its callers convert).

use relax_base::Arena;
use relax_loops::{Buf, Ex, ExKind, Program, Role, Stage, Var, map_expr, visit_expr};
use relax_tensor::{DType, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::lir::{DataId, FnId, Hold, Inst, KernelDef, KernelId, LFunc, Lowered, Reg, Term};

/// Programs of more nodes than this stay kernels: their code is not inlined at every call.
const MOST_NODES: usize = 256;

/// The parameters and the result of a function that are numbers.
#[derive(Clone, PartialEq)]
struct Sig {
    params: Vec<Option<DType>>,
    result: Option<DType>,
}

/// The facts about the whole program.
struct World<'a> {
    kernels: &'a Arena<KernelId, KernelDef>,
    data: &'a Arena<DataId, Tensor>,
    /// The kernels that are arithmetic on numbers.
    steps: FxHashMap<KernelId, Vec<(Buf, Ex)>>,
    sigs: Vec<Sig>,
}

/// Moves numbers into registers, in all functions.
pub(crate) fn unbox(out: &mut Lowered) {
    let steps: FxHashMap<KernelId, Vec<(Buf, Ex)>> = (out.kernels.iter())
        .filter_map(|(id, k)| Some((id, steps(&k.program)?)))
        .collect();
    let sigs: Vec<Sig> = out.funcs.values().map(candidates).collect();
    let numbers = |s: &Sig| s.result.is_some() || s.params.iter().any(Option::is_some);
    if steps.is_empty() && !sigs.iter().any(numbers) {
        return;
    }
    let mut world = World {
        kernels: &out.kernels,
        data: &out.data,
        steps,
        sigs,
    };
    world.settle(&out.funcs);
    for f in out.funcs.ids() {
        world.rewrite(f, &mut out.funcs[f]);
    }
}

/// Returns the equivalent scalar assignments of a program, if it computes numbers from numbers.
fn steps(p: &Program) -> Option<Vec<(Buf, Ex)>> {
    let number = |b: &relax_loops::Buffer| {
        b.shape.is_empty() && b.dtype.lanes == 1 && b.dtype.size() <= 8 && b.role != Role::Local
    };
    if !p.dims.is_empty() || !p.hints.is_empty() || !p.bufs.values().all(number) {
        return None;
    }
    let (mut out, mut written, mut nodes) = (Vec::new(), FxHashSet::default(), 0);
    for stage in &p.stages {
        let Stage::Compute(c) = stage else {
            return None;
        };
        if c.reduce.is_some() || !c.axes.is_empty() || !written.insert(c.out) {
            return None;
        }
        let mut plain = true;
        visit_expr(&c.value, |e| {
            nodes += 1;
            plain &= !matches!(e.kind(), ExKind::Var(_));
        });
        if !plain {
            return None;
        }
        out.push((c.out, c.value.clone()));
    }
    let whole = p.outputs.iter().all(|o| written.contains(o));
    (whole && nodes <= MOST_NODES).then_some(out)
}

/// Returns the maximal set of parameters and results of a function that can be numbers.
fn candidates(f: &LFunc) -> Sig {
    let own = f.captures.is_none() && !f.forms.is_entry;
    let fits = |d: DType| (own && d.lanes == 1 && d.size() <= 8).then_some(d);
    let param = |r| f.forms.scalars.get(r).copied().and_then(fits);
    Sig {
        params: f.params.iter().map(param).collect(),
        result: f.forms.result.and_then(fits),
    }
}

impl World<'_> {
    /// Removes what does not hold, until a fixpoint.
    fn settle(&mut self, funcs: &Arena<FnId, LFunc>) {
        let mut callers: Vec<Vec<FnId>> = vec![Vec::new(); funcs.len()];
        for (id, f) in funcs.iter() {
            for block in f.blocks.values() {
                let mut calls = |g: &FnId| callers[g.0 as usize].push(id);
                for inst in &block.insts {
                    if let Inst::Call { func, .. } = inst {
                        calls(func);
                    }
                }
                if let Term::TailCall { func, .. } = &block.term {
                    calls(func);
                }
            }
        }
        let mut work: Vec<FnId> = funcs.ids().rev().collect();
        let mut queued = vec![true; funcs.len()];
        while let Some(id) = work.pop() {
            queued[id.0 as usize] = false;
            let new = self.held(id, &funcs[id]);
            if new != self.sigs[id.0 as usize] {
                self.sigs[id.0 as usize] = new;
                for &c in callers[id.0 as usize].iter().chain([&id]) {
                    if !std::mem::replace(&mut queued[c.0 as usize], true) {
                        work.push(c);
                    }
                }
            }
        }
    }

    /// Returns the registers of a function that hold numbers, given the functions' signatures
    /// `sigs`.
    fn numbers(&self, id: FnId, f: &LFunc) -> FxHashMap<Reg, DType> {
        let sig = &self.sigs[id.0 as usize];
        let mut found: FxHashMap<Reg, DType> = FxHashMap::default();
        let mut work: Vec<Reg> = Vec::new();
        let mut handed: FxHashMap<Reg, Vec<Reg>> = FxHashMap::default();
        let mut see = |r: Reg, dtype: Option<DType>, work: &mut Vec<Reg>| {
            if let Some(d) = dtype
                && found.insert(r, d).is_none()
            {
                work.push(r);
            }
        };
        for (&r, &d) in f.params.iter().zip(&sig.params) {
            see(r, d, &mut work);
        }
        for block in f.blocks.values() {
            for inst in &block.insts {
                match inst {
                    Inst::Kernel { dsts, kernel, .. } if self.steps.contains_key(kernel) => {
                        let p = &self.kernels[*kernel].program;
                        for (&r, &o) in dsts.iter().zip(&p.outputs) {
                            see(r, Some(p.bufs[o].dtype), &mut work);
                        }
                    }
                    Inst::Call { dst, func, .. } => {
                        see(*dst, self.sigs[func.0 as usize].result, &mut work);
                    }
                    _ => {}
                }
            }
            if let Term::Jump(to, args) = &block.term {
                for (&a, &p) in args.iter().zip(&f.blocks[*to].params) {
                    handed.entry(a).or_default().push(p);
                }
            }
        }
        // A number that is passed to a block whose parameter is known to be one.
        while let Some(r) = work.pop() {
            for &p in handed.get(&r).map_or(&[][..], |p| p) {
                see(p, f.forms.scalars.get(&p).copied(), &mut work);
            }
        }
        found
    }

    /// Returns the part of a function's signature that its body supports.
    fn held(&self, id: FnId, f: &LFunc) -> Sig {
        let sig = &self.sigs[id.0 as usize];
        if sig.result.is_none() && sig.params.iter().all(Option::is_none) {
            return sig.clone();
        }
        let numbers = self.numbers(id, f);
        let mut used: FxHashSet<Reg> = FxHashSet::default();
        let (mut returned, mut forced) = (false, false);
        let passed = |func: &FnId, args: &[Reg], used: &mut FxHashSet<Reg>| {
            let takes = &self.sigs[func.0 as usize].params;
            let scalars = args.iter().zip(takes).filter(|(_, t)| t.is_some());
            used.extend(scalars.map(|(a, _)| *a));
        };
        for block in f.blocks.values() {
            for inst in &block.insts {
                match inst {
                    Inst::Kernel { kernel, args, .. } if self.steps.contains_key(kernel) => {
                        used.extend(args);
                    }
                    Inst::Call { func, args, .. } => passed(func, args, &mut used),
                    _ => {}
                }
            }
            match &block.term {
                Term::If { cond, .. } => {
                    used.insert(*cond);
                }
                Term::Jump(to, args) => {
                    let to = &f.blocks[*to].params;
                    let scalars = args.iter().zip(to).filter(|(_, p)| numbers.contains_key(p));
                    used.extend(scalars.map(|(a, _)| *a));
                }
                Term::Return(r) => {
                    returned |= numbers.contains_key(r);
                    if sig.result.is_some() {
                        used.insert(*r);
                    }
                }
                Term::TailCall { func, args, .. } => {
                    passed(func, args, &mut used);
                    match self.sigs[func.0 as usize].result {
                        Some(_) => returned = true,
                        None => forced = true,
                    }
                }
                Term::TailClosure { .. } => forced = true,
                Term::Switch { .. } | Term::NoMatch(_) => {}
            }
        }
        let params = (f.params.iter().zip(&sig.params))
            .map(|(r, d)| d.filter(|_| used.contains(r)))
            .collect();
        let result = sig.result.filter(|_| returned && !forced);
        Sig { params, result }
    }

    /// Rewrites the code of a function to code over numbers.
    fn rewrite(&self, id: FnId, f: &mut LFunc) {
        let numbers = self.numbers(id, f);
        for (&r, &d) in &numbers {
            f.regs[r.0 as usize] = Hold::Scalar(d);
        }
        let sig = &self.sigs[id.0 as usize];
        f.result = sig.result;
        let consts = (f.blocks.values().flat_map(|b| &b.insts))
            .filter_map(|inst| match inst {
                Inst::Const { dst, data } => Some((*dst, literal(&self.data[*data])?)),
                _ => None,
            })
            .collect();
        let blocks: Vec<_> = f.blocks.ids().collect();
        for b in blocks {
            let insts = std::mem::take(&mut f.blocks[b].insts);
            let term = f.blocks[b].term.clone();
            let taken: Vec<Option<DType>> = match &term {
                Term::Jump(to, _) => {
                    let params = f.blocks[*to].params.iter();
                    params.map(|p| numbers.get(p).copied()).collect()
                }
                _ => Vec::new(),
            };
            let mut w = Writer {
                world: self,
                f,
                consts: &consts,
                out: Vec::with_capacity(insts.len()),
                boxed: FxHashMap::default(),
                plain: FxHashMap::default(),
            };
            for inst in insts {
                w.inst(inst);
            }
            let term = w.term(term, &taken);
            let out = w.out;
            f.blocks[b].insts = out;
            f.blocks[b].term = term;
        }
    }
}

/// Returns the number that a constant of rank 0 holds. NaNs have bits that no literal preserves.
fn literal(t: &Tensor) -> Option<Ex> {
    let dtype = t.dtype();
    if !t.shape().is_empty() || dtype.lanes != 1 {
        return None;
    }
    if dtype.is_float() {
        let v = t.get_f64(0);
        return (!v.is_nan()).then(|| Ex::new(ExKind::Float(v), dtype));
    }
    (dtype.size() <= 8).then(|| Ex::int(dtype, t.get_i64(0)))
}

/// Rewrites one block.
struct Writer<'a, 'w> {
    world: &'a World<'w>,
    f: &'a mut LFunc,
    consts: &'a FxHashMap<Reg, Ex>,
    out: Vec<Inst>,
    /// Tensors of numbers and numbers of tensors that this block created.
    boxed: FxHashMap<Reg, Reg>,
    plain: FxHashMap<Reg, Reg>,
}

impl Writer<'_, '_> {
    /// A register as an operand of arithmetic.
    fn operand(&mut self, r: Reg, dtype: DType) -> Ex {
        if let Some(e) = self.consts.get(&r) {
            return e.clone();
        }
        Ex::var(Var(self.scalar(r, dtype).0), dtype)
    }

    /// Returns the number in a register.
    fn scalar(&mut self, r: Reg, dtype: DType) -> Reg {
        if matches!(self.f.hold(r), Hold::Scalar(_)) {
            return r;
        }
        if let Some(&known) = self.plain.get(&r) {
            return known;
        }
        let dst = self.f.reg(Hold::Scalar(dtype));
        self.out.push(match self.consts.get(&r) {
            Some(e) => Inst::Scalar {
                dst,
                value: e.clone(),
            },
            None => Inst::Unbox { dst, src: r },
        });
        self.plain.insert(r, dst);
        dst
    }

    /// Returns the register of a value: a number is converted to a tensor.
    fn value(&mut self, r: Reg) -> Reg {
        if !matches!(self.f.hold(r), Hold::Scalar(_)) {
            return r;
        }
        if let Some(&known) = self.boxed.get(&r) {
            return known;
        }
        let dst = self.f.reg(Hold::Value);
        self.out.push(Inst::Box { dst, src: r });
        self.boxed.insert(r, dst);
        dst
    }

    /// Converts arguments to the representation that the callee takes.
    fn args(&mut self, args: &mut [Reg], taken: &[Option<DType>]) {
        for (r, dtype) in args.iter_mut().zip(taken) {
            *r = match dtype {
                Some(d) => self.scalar(*r, *d),
                None => self.value(*r),
            };
        }
    }

    fn inst(&mut self, mut inst: Inst) {
        match &mut inst {
            Inst::Kernel {
                dsts, kernel, args, ..
            } if let Some(steps) = self.world.steps.get(kernel) => {
                let p = &self.world.kernels[*kernel].program;
                let mut known: FxHashMap<Buf, Ex> = FxHashMap::default();
                for (&b, &r) in p.inputs.iter().zip(args.iter()) {
                    let operand = self.operand(r, p.bufs[b].dtype);
                    known.insert(b, operand);
                }
                for (b, value) in steps {
                    let dtype = p.bufs[*b].dtype;
                    let value = map_expr(value, |e| match e.kind() {
                        ExKind::Load(b, _) => known.get(b).cloned(),
                        _ => None,
                    });
                    let dst = match p.outputs.iter().position(|o| o == b) {
                        Some(k) => dsts[k],
                        None => self.f.reg(Hold::Scalar(dtype)),
                    };
                    self.out.push(Inst::Scalar { dst, value });
                    known.insert(*b, Ex::var(Var(dst.0), dtype));
                }
            }
            Inst::Call { func, args, .. } => {
                let taken = &self.world.sigs[func.0 as usize].params;
                self.args(args, taken);
                self.out.push(inst);
            }
            _ => {
                inst.values_mut(&mut |r| *r = self.value(*r));
                self.out.push(inst);
            }
        }
    }

    /// Rewrites the terminator; `taken` describes the parameters of the block that it jumps to.
    fn term(&mut self, mut term: Term, taken: &[Option<DType>]) -> Term {
        match &mut term {
            Term::Return(r) => {
                *r = match self.f.result {
                    Some(d) => self.scalar(*r, d),
                    None => self.value(*r),
                };
            }
            Term::Jump(_, args) => self.args(args, taken),
            Term::TailCall { func, args, .. } => {
                let callee = &self.world.sigs[func.0 as usize];
                self.args(args, &callee.params);
                if let (None, Some(dtype)) = (self.f.result, callee.result) {
                    // The callee tail-calls only functions of its kind, so no recursion goes
                    // through this call.
                    let dst = self.f.reg(Hold::Scalar(dtype));
                    self.out.push(Inst::Call {
                        dst,
                        func: *func,
                        args: std::mem::take(args),
                        lent: Vec::new(),
                    });
                    return Term::Return(self.value(dst));
                }
            }
            Term::TailClosure { callee, args } => {
                *callee = self.value(*callee);
                args.iter_mut().for_each(|r| *r = self.value(*r));
            }
            Term::Switch { src, .. } => *src = self.value(*src),
            Term::If { .. } | Term::NoMatch(_) => {}
        }
        term
    }
}

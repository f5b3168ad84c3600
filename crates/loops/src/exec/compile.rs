//! Compilation of expressions to bytecode.
//!
//! In *strip* code every instruction goes to the segment of its level: 0 once per stage, 1 once
//! per iteration of the outer loops, 2 once per strip, 3 once per iteration of the reduction. Loads
//! that a select guards carry a mask. In *scalar* code (loop nests) there is one segment, and
//! selects over loads jump.

use relax_base::Id;
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::code::Ins;
use super::error::Fault;
use super::memory::Bufs;
use super::num::{self, Num};
use super::span::{AxisIndex, Reg, STRIP};
use crate::{BinOp, Buf, Ex, ExKind, Program, UnOp, Var};

/// Sums deeper than this stay one term of an index.
const TERMS: usize = 16;
/// The maximum code size: only expressions that share parts under many nested selects grow so
/// large.
const MOST_CODE: usize = 1 << 20;

/// The properties of a register during compilation.
#[derive(Clone, Copy)]
struct RegInfo {
    level: u8,
    /// Whether it keeps its words to the end: loop variables, accumulators.
    pinned: bool,
}

pub(super) struct Compiler<'a> {
    program: &'a Program,
    bufs: &'a Bufs,
    scalar: bool,
    pub(super) segs: [Vec<Ins>; 5],
    regs: Vec<RegInfo>,
    vars: FxHashMap<Var, Reg>,
    /// Registers of compiled nodes, with the context in which they are valid.
    memo: FxHashMap<usize, (Reg, u32)>,
    /// Whether a node contains a load.
    loads: FxHashMap<usize, bool>,
    /// The arms entered, innermost last: number and mask.
    context: Vec<(u32, Option<Reg>)>,
    contexts: u32,
    pub(super) spans: usize,
}

enum Task<'e> {
    Visit(&'e Ex),
    Make(&'e Ex),
    /// Emits a load whose axes have the given terms, with signs.
    Load(&'e Ex, Vec<Vec<bool>>),
    /// The condition is on the stack: enters the `then` arm, or leaves it for the other.
    Then(&'e Ex),
    Otherwise(&'e Ex, Arm),
    Join(&'e Ex, Arm),
}

struct Arm {
    cond: Reg,
    /// Scalar code: the result, and the jump to patch.
    result: Reg,
    patch: usize,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(program: &'a Program, bufs: &'a Bufs, scalar: bool) -> Self {
        Compiler {
            program,
            bufs,
            scalar,
            segs: Default::default(),
            regs: Vec::new(),
            vars: FxHashMap::default(),
            memo: FxHashMap::default(),
            loads: FxHashMap::default(),
            context: Vec::new(),
            contexts: 0,
            spans: 0,
        }
    }

    /// A fresh register.
    pub(super) fn reg(&mut self, wide: bool, level: u8, pinned: bool) -> Reg {
        let at = self.regs.len() as u32;
        self.regs.push(RegInfo { level, pinned });
        Reg { at, wide }
    }
    /// A variable that the runner sets.
    pub(super) fn bind(&mut self, var: Var, wide: bool, level: u8) -> Reg {
        let r = self.reg(wide, level, true);
        self.vars.insert(var, r);
        r
    }
    /// A dimension, as a constant.
    pub(super) fn bind_const(&mut self, var: Var, value: i64) {
        let r = self.constant(DType::I64, value as u64);
        self.regs[r.at as usize].pinned = true;
        self.vars.insert(var, r);
    }
    /// Forgets memoised values, which stores may have changed.
    pub(super) fn forget(&mut self) {
        self.memo.clear();
    }
    fn level(&self, r: Reg) -> u8 {
        self.regs[r.at as usize].level
    }
    pub(super) fn code(&mut self) -> &mut Vec<Ins> {
        &mut self.segs[0]
    }
    pub(super) fn constant(&mut self, _dtype: DType, bits: u64) -> Reg {
        let r = self.reg(false, 0, false);
        self.segs[0].push(Ins::Const(r, bits));
        r
    }
    fn num(&self, dtype: DType) -> Result<Num, Fault> {
        Num::of(dtype).ok_or_else(|| Fault::Unsupported(format!("arithmetic on {dtype:?}")))
    }
    fn emit(&mut self, operands: &[Reg], make: impl FnOnce(Reg) -> Ins) -> Reg {
        let level = operands.iter().map(|r| self.level(*r)).max().unwrap_or(0);
        let wide = operands.iter().any(|r| r.wide);
        let d = self.reg(wide, level, false);
        self.segs[usize::from(level)].push(make(d));
        d
    }

    /// Returns whether evaluating `e` executes a load.
    fn has_load(&mut self, e: &Ex) -> bool {
        let mut work = vec![(e, false)];
        while let Some((e, ready)) = work.pop() {
            if self.loads.contains_key(&e.addr()) {
                continue;
            }
            let children = e.children();
            if matches!(e.kind(), ExKind::Load(..)) || children.is_empty() {
                let load = matches!(e.kind(), ExKind::Load(..));
                self.loads.insert(e.addr(), load);
            } else if ready {
                let any = children.clone().any(|c| self.loads[&c.addr()]);
                self.loads.insert(e.addr(), any);
            } else {
                work.push((e, true));
                work.extend(children.into_iter().map(|c| (c, false)));
            }
        }
        self.loads[&e.addr()]
    }

    fn recall(&self, e: &Ex) -> Option<Reg> {
        let (r, context) = *self.memo.get(&e.addr())?;
        (context == 0 || self.context.iter().any(|c| c.0 == context)).then_some(r)
    }
    fn remember(&mut self, e: &Ex, r: Reg) {
        let pure = !self.scalar && !self.has_load(e);
        let context = if pure {
            0
        } else {
            self.context.last().map_or(0, |c| c.0)
        };
        self.memo.insert(e.addr(), (r, context));
    }
    fn enter(&mut self, mask: Option<Reg>) {
        self.contexts += 1;
        self.context.push((self.contexts, mask));
    }
    fn mask(&self) -> Option<Reg> {
        self.context.last().and_then(|c| c.1)
    }

    /// Emits code for `root`; returns its register. The expression must live as long as this
    /// compiler's memo.
    pub(super) fn expr(&mut self, root: &Ex) -> Result<Reg, Fault> {
        let mut work = vec![Task::Visit(root)];
        let mut values: Vec<Reg> = Vec::new();
        while let Some(task) = work.pop() {
            if self.regs.len() > MOST_CODE {
                return Err(Fault::Unsupported("an expression of this size".into()));
            }
            match task {
                Task::Visit(e) => {
                    if let Some(r) = self.recall(e) {
                        values.push(r);
                        continue;
                    }
                    match e.kind() {
                        ExKind::Var(v) => {
                            let r = self.vars.get(v).copied().ok_or(Fault::Unbound(*v))?;
                            values.push(r);
                        }
                        ExKind::Int(_) | ExKind::Float(_) => {
                            let r = self.literal(e)?;
                            values.push(r);
                        }
                        ExKind::Load(_, index) if !self.scalar => {
                            let mut signs = Vec::with_capacity(index.len());
                            let mut all = Vec::new();
                            for i in index {
                                let terms = terms(i);
                                signs.push(terms.iter().map(|t| t.1).collect());
                                all.extend(terms.iter().map(|t| t.0));
                            }
                            work.push(Task::Load(e, signs));
                            work.extend(all.into_iter().rev().map(Task::Visit));
                        }
                        ExKind::Select(c, a, b) if self.has_load(a) || self.has_load(b) => {
                            work.push(Task::Then(e));
                            work.push(Task::Visit(c));
                        }
                        _ => {
                            work.push(Task::Make(e));
                            work.extend(e.children().rev().map(Task::Visit));
                        }
                    }
                }
                Task::Make(e) => {
                    let r = self.make(e, &mut values)?;
                    self.remember(e, r);
                    values.push(r);
                }
                Task::Load(e, signs) => {
                    let r = self.load(e, &signs, &mut values)?;
                    self.remember(e, r);
                    values.push(r);
                }
                Task::Then(e) => {
                    let ExKind::Select(_, a, _) = e.kind() else {
                        unreachable!("only selects have arms")
                    };
                    let cond = values.pop().expect("the condition was visited");
                    work.push(Task::Otherwise(e, self.enter_then(cond)));
                    work.push(Task::Visit(a));
                }
                Task::Otherwise(e, mut arm) => {
                    let ExKind::Select(_, _, b) = e.kind() else {
                        unreachable!("only selects have arms")
                    };
                    self.enter_otherwise(e, &mut arm, &mut values)?;
                    work.push(Task::Join(e, arm));
                    work.push(Task::Visit(b));
                }
                Task::Join(e, arm) => {
                    let r = self.join(e, &arm, &mut values)?;
                    self.remember(e, r);
                    values.push(r);
                }
            }
        }
        Ok(values.pop().expect("every task leaves one value"))
    }

    /// Enters the arm of a select whose condition holds.
    fn enter_then(&mut self, cond: Reg) -> Arm {
        let (mut patch, mut result) = (0, cond);
        if self.scalar {
            result = self.reg(false, 0, false);
            patch = self.segs[0].len();
            self.segs[0].push(Ins::JumpUnless(cond, 0));
            self.enter(None);
        } else {
            let mask = match self.mask() {
                None => cond,
                Some(m) => self.emit(&[m, cond], |d| {
                    Ins::Binary(BinOp::And, Num::Bool, d, m, cond)
                }),
            };
            self.enter(Some(mask));
        }
        Arm {
            cond,
            result,
            patch,
        }
    }

    /// Leaves that arm, and enters the other.
    fn enter_otherwise(
        &mut self,
        e: &Ex,
        arm: &mut Arm,
        values: &mut Vec<Reg>,
    ) -> Result<(), Fault> {
        self.context.pop();
        if self.scalar {
            let value = values.pop().expect("the arm was visited");
            let num = self.num(e.dtype())?;
            self.segs[0].push(Ins::Copy(num, arm.result, value));
            let here = self.segs[0].len();
            self.segs[0].push(Ins::Jump(0));
            self.segs[0][arm.patch] = Ins::JumpUnless(arm.cond, here + 1);
            arm.patch = here;
            self.enter(None);
        } else {
            let cond = arm.cond;
            let not = self.emit(&[cond], |d| Ins::Unary(UnOp::Not, Num::Bool, d, cond));
            let mask = match self.mask() {
                None => not,
                Some(m) => self.emit(&[m, not], |d| Ins::Binary(BinOp::And, Num::Bool, d, m, not)),
            };
            self.enter(Some(mask));
        }
        Ok(())
    }

    /// Leaves the other arm; the register of the select.
    fn join(&mut self, e: &Ex, arm: &Arm, values: &mut Vec<Reg>) -> Result<Reg, Fault> {
        self.context.pop();
        let b = values.pop().expect("the arm was visited");
        let num = self.num(e.dtype())?;
        Ok(if self.scalar {
            self.segs[0].push(Ins::Copy(num, arm.result, b));
            let here = self.segs[0].len();
            self.segs[0][arm.patch] = Ins::Jump(here);
            arm.result
        } else {
            let a = values.pop().expect("the arm was visited");
            let c = arm.cond;
            self.emit(&[c, a, b], |d| Ins::Select(num, d, c, a, b))
        })
    }

    fn literal(&mut self, e: &Ex) -> Result<Reg, Fault> {
        let num = self.num(e.dtype())?;
        let bits = match (e.kind(), num.class()) {
            (ExKind::Int(v), num::Class::Int) => *v as u64,
            (ExKind::Float(v), num::Class::Single) => u64::from((*v as f32).to_bits()),
            (ExKind::Float(v), num::Class::Double) => v.to_bits(),
            _ => return Err(Fault::Unsupported(format!("a constant of {:?}", e.dtype()))),
        };
        // Constants are emitted at their first use; scalar code may jump over it, so they are
        // memoised by context there.
        let r = self.constant(e.dtype(), bits);
        self.remember(e, r);
        Ok(r)
    }

    fn make(&mut self, e: &Ex, values: &mut Vec<Reg>) -> Result<Reg, Fault> {
        let mut pop = || values.pop().expect("children were visited");
        let num = self.num(e.dtype())?;
        Ok(match e.kind() {
            ExKind::Unary(op, a) => {
                let (op, num, r) = (*op, self.num(a.dtype())?, pop());
                if !num::unary_exists(op, num) {
                    return Err(Fault::Unsupported(format!("{op:?} of {:?}", a.dtype())));
                }
                self.emit(&[r], |d| Ins::Unary(op, num, d, r))
            }
            ExKind::Binary(op, a, _) => {
                let (op, num) = (*op, self.num(a.dtype())?);
                let (b, a_reg) = (pop(), pop());
                if !num::binary_exists(op, num) {
                    return Err(Fault::Unsupported(format!("{op:?} of {:?}", a.dtype())));
                }
                self.emit(&[a_reg, b], |d| Ins::Binary(op, num, d, a_reg, b))
            }
            ExKind::Select(..) => {
                let (b, a, c) = (pop(), pop(), pop());
                self.emit(&[c, a, b], |d| Ins::Select(num, d, c, a, b))
            }
            ExKind::Cast(a) => {
                let (from, r) = (self.num(a.dtype())?, pop());
                self.emit(&[r], |d| Ins::Cast(from, num, d, r))
            }
            ExKind::Reinterpret(a) => {
                let (from, r) = (self.num(a.dtype())?, pop());
                self.emit(&[r], |d| Ins::Reinterpret(from, num, d, r))
            }
            ExKind::Load(buf, index) => {
                let at = values.len() - index.len();
                let index: Box<[Reg]> = values.drain(at..).collect();
                self.check_access(*buf, index.len(), e.dtype())?;
                let operands = index.to_vec();
                let place = self.place_of(e);
                self.emit(&operands, |d| Ins::Fetch(d, *buf, index, place))
            }
            ExKind::Int(_) | ExKind::Float(_) | ExKind::Var(_) => {
                unreachable!("leaves are made when visited")
            }
        })
    }

    /// The number of a load among the accesses with source locations.
    fn place_of(&self, e: &Ex) -> Option<u32> {
        match e.kind() {
            ExKind::Load(buf, index) => self.program.access(*buf, index),
            _ => None,
        }
    }

    /// Returns whether a buffer exists, has as many axes as it is given indices, and elements of
    /// `dtype`.
    pub(super) fn check_access(&self, buf: Buf, indices: usize, dtype: DType) -> Result<(), Fault> {
        let info = &self.program.bufs[buf];
        match &self.bufs.of[buf.index()] {
            None => Err(Fault::Early(buf)),
            Some(_) if info.dtype != dtype => Err(Fault::Unsupported(format!(
                "{dtype:?} access to {}, which is {:?}",
                info.name, info.dtype
            ))),
            Some(_) if info.shape.len() != indices => Err(Fault::Unsupported(format!(
                "{indices} indices into {}",
                info.name
            ))),
            Some(_) => Ok(()),
        }
    }

    fn load(&mut self, e: &Ex, signs: &[Vec<bool>], values: &mut Vec<Reg>) -> Result<Reg, Fault> {
        let ExKind::Load(buf, index) = e.kind() else {
            unreachable!("only loads are made here")
        };
        self.check_access(*buf, index.len(), e.dtype())?;
        let shape = &self.bufs.at(*buf).shape;
        let mut strides = vec![1i64; shape.len()];
        for k in (1..shape.len()).rev() {
            strides[k - 1] = strides[k].wrapping_mul(shape[k]);
        }
        let count: usize = signs.iter().map(Vec::len).sum();
        let terms: Vec<Reg> = values.drain(values.len() - count..).collect();
        let mut terms = terms.into_iter();
        let mut axes = Vec::with_capacity(shape.len());
        for (k, signs) in signs.iter().enumerate() {
            let mut parts: [Option<Reg>; 2] = [None, None];
            let mut own: Vec<(Reg, bool)> = signs
                .iter()
                .map(|minus| (terms.next().expect("counted"), *minus))
                .collect();
            // Terms of low level first, so that as little as possible is summed in inner loops.
            own.sort_by_key(|t| self.level(t.0));
            for (r, minus) in own {
                let part = &mut parts[usize::from(r.wide)];
                let sum = match *part {
                    None if !minus => r,
                    None => self.emit(&[r], |d| Ins::Unary(UnOp::Neg, Num::I(64), d, r)),
                    Some(s) => {
                        let op = if minus { BinOp::Sub } else { BinOp::Add };
                        self.emit(&[s, r], |d| Ins::Binary(op, Num::I(64), d, s, r))
                    }
                };
                parts[usize::from(r.wide)] = Some(sum);
            }
            axes.push(AxisIndex {
                wide: parts[1],
                uniform: parts[0],
                extent: shape[k],
                stride: strides[k],
            });
        }
        let mask = self.mask();
        let wide_regs: Vec<Reg> = axes.iter().filter_map(|a| a.wide).collect();
        let operands: Vec<Reg> = (axes.iter().flat_map(|a| [a.wide, a.uniform]))
            .chain([mask])
            .flatten()
            .collect();
        if mask.is_none() && wide_regs.is_empty() {
            let zero = axes.iter().any(|a| a.uniform.is_none());
            let zero = zero.then(|| self.constant(DType::I64, 0));
            let index = axes
                .iter()
                .map(|a| a.uniform.or(zero).expect("made above"))
                .collect();
            return Ok(self.emit(&operands, |d| Ins::Fetch(d, *buf, index, None)));
        }
        let level = wide_regs
            .iter()
            .map(|r| self.level(*r))
            .max()
            .unwrap_or(2)
            .max(1);
        let span = self.spans as u32;
        self.spans += 1;
        let axes: Box<[AxisIndex]> = axes.into();
        // Without wide parts all offsets are 0, for as many lanes as the strip has.
        let load_level = operands
            .iter()
            .map(|r| self.level(*r))
            .max()
            .unwrap_or(0)
            .max(level);
        self.segs[usize::from(level)].push(Ins::Span(span, axes.clone()));
        let wide = operands.iter().any(|r| r.wide);
        let d = self.reg(wide, load_level, false);
        self.segs[usize::from(load_level)].push(Ins::Load(d, *buf, span, axes, mask));
        Ok(d)
    }

    /// Assigns words to registers; returns the number of words. Operands that outlive their
    /// segment, and pinned ones, keep their words; other wide registers' words are reused after
    /// their last use.
    ///
    /// Invariant: a destination never shares words with an operand of the same instruction.
    pub(super) fn allocate(&mut self, roots: &mut [&mut Reg]) -> usize {
        let n = self.regs.len();
        let mut last: Vec<Option<(usize, usize)>> = vec![None; n];
        let mut keep: Vec<bool> = self.regs.iter().map(|r| r.pinned).collect();
        roots.iter().for_each(|r| keep[r.at as usize] = true);
        for (s, seg) in self.segs.iter_mut().enumerate() {
            for (at, ins) in seg.iter_mut().enumerate() {
                ins.regs(&mut |r, _| {
                    let slot = &mut last[r.at as usize];
                    keep[r.at as usize] |= slot.is_some_and(|l| l.0 != s);
                    *slot = Some((s, at));
                });
            }
        }
        let mut place: Vec<Option<u32>> = vec![None; n];
        let mut free: Vec<u32> = Vec::new();
        let mut words = 0u32;
        let mut take = |r: &Reg, keep: bool, free: &mut Vec<u32>| {
            if !r.wide {
                words += 1;
                return words - 1;
            }
            // One that is kept may be set before its segment runs, so it must not share words used
            // earlier in the segment.
            (if keep { None } else { free.pop() }).unwrap_or_else(|| {
                words += STRIP as u32;
                words - STRIP as u32
            })
        };
        for (s, seg) in self.segs.iter_mut().enumerate() {
            for (at, ins) in seg.iter_mut().enumerate() {
                let mut ended = Vec::new();
                ins.regs(&mut |r, _| {
                    let id = r.at as usize;
                    r.at = *place[id].get_or_insert_with(|| take(r, keep[id], &mut free));
                    if r.wide && !keep[id] && last[id] == Some((s, at)) && !ended.contains(&r.at) {
                        ended.push(r.at);
                    }
                });
                free.append(&mut ended);
            }
        }
        for r in roots {
            let id = r.at as usize;
            r.at = *place[id].get_or_insert_with(|| take(r, true, &mut free));
        }
        words as usize
    }
}

/// The terms of a sum with their signs (`true` is minus).
fn terms(e: &Ex) -> Vec<(&Ex, bool)> {
    let mut out = Vec::new();
    let mut work = vec![(e, false)];
    while let Some((e, minus)) = work.pop() {
        match e.kind() {
            ExKind::Binary(BinOp::Add, a, b) if out.len() + work.len() < TERMS => {
                work.extend([(b, minus), (a, minus)]);
            }
            ExKind::Binary(BinOp::Sub, a, b) if out.len() + work.len() < TERMS => {
                work.extend([(b, !minus), (a, minus)]);
            }
            _ => out.push((e, minus)),
        }
    }
    out
}

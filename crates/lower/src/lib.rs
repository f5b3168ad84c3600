//! Typed modules to control flow over registers, with kernels and constants.
//!
//! [`lower`] takes a module and its types and returns a [`lir::Lowered`] program, or diagnostics
//! about what native code does not support. It lowers the requested functions and what they use.
//!
//! Invariant: lowering does not recurse over expressions, patterns or types.

mod ahead;
mod borrow;
pub mod codes;
mod constants;
mod counts;
mod dead_kernels;
pub mod described;
mod entry;
mod func;
mod info;
mod kernel_fusion;
pub mod lir;
mod print;
mod reuse;
mod scalar_constants;
mod scalars;
mod type_check;
mod views;

use std::rc::Rc;
use std::sync::Arc;

use relax_base::{Diagnostic, Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    ConstId, CtorId, ExprId, FuncId, GlobalId, GlobalKind, Module, OpId, Type, is_primitive,
};
use relax_loops::{Program, Stmt};
use relax_ops::registry;
use relax_programs::{CONST_LIMIT, Call, Operator};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use crate::ahead::Ahead;
use crate::func::{FnLower, Job};
use crate::info::{Captured, Info};
use crate::lir::{
    Block, DataId, Entry, FnId, Hold, Inst, KernelDef, KernelId, LFunc, Lowered, Reg, Term,
};

/// A kernel of an operator, by everything but the values of constant arguments.
enum Cached {
    Kernel(KernelId),
    /// The program depends on the values, which are the key.
    ByValue(FxHashMap<Vec<Option<Tensor>>, KernelId>),
}

/// The state of lowering one module.
pub(crate) struct Lowering<'m> {
    pub m: &'m Module,
    pub typing: &'m Typing,
    pub out: Lowered,
    /// The name of a source location in run-time errors.
    pub place: &'m dyn Fn(Span) -> Symbol,
    globals: FxHashMap<GlobalId, FnId>,
    closures: FxHashMap<GlobalId, FnId>,
    ctors: FxHashMap<CtorId, FnId>,
    consts: FxHashMap<ConstId, DataId>,
    op_kernels: FxHashMap<String, Cached>,
    prims: FxHashMap<GlobalId, KernelId>,
    fused: FxHashMap<FuncId, Option<KernelId>>,
    /// The kernels of fused groups in which nothing can fail, by the keys of their programs.
    alike: FxHashMap<String, KernelId>,
    ahead: Ahead,
    queue: Vec<Job>,
    closure_count: usize,
}

/// Lowers the functions `roots` of a module and what they use. `place` names a source location for
/// run-time errors ("model.relay:3:5").
///
/// # Errors
/// A construct in the functions has no native code; with its source location.
pub fn lower(
    m: &Module,
    typing: &Typing,
    roots: &[GlobalId],
    place: &dyn Fn(Span) -> Symbol,
) -> Result<Lowered, Diagnostics> {
    let mut lw = Lowering {
        m,
        typing,
        out: Lowered::default(),
        place,
        globals: FxHashMap::default(),
        closures: FxHashMap::default(),
        ctors: FxHashMap::default(),
        consts: FxHashMap::default(),
        op_kernels: FxHashMap::default(),
        prims: FxHashMap::default(),
        fused: FxHashMap::default(),
        alike: FxHashMap::default(),
        ahead: Ahead::of(m, typing, roots),
        queue: Vec::new(),
        closure_count: 0,
    };
    let mut diagnostics = Diagnostics::new();
    for &g in roots {
        match lw.global(g, m.globals[g].span) {
            Ok(func) => {
                let GlobalKind::Func(f) = m.globals[g].kind else {
                    continue;
                };
                let params = m.funcs[f].params.iter().map(|&p| m.vars[p].name).collect();
                let func = entry::checked(&mut lw, g, func);
                let signature = m.show_type(typing.globals[g]);
                let (types, result) = match &m.types[typing.globals[g]] {
                    Type::Func(f) => (
                        f.args.iter().map(|&t| m.show_type(t)).collect(),
                        m.show_type(f.ret),
                    ),
                    _ => (Vec::new(), String::new()),
                };
                lw.out.entries.push(Entry {
                    name: m.globals[g].name,
                    func,
                    params,
                    types,
                    result,
                    signature,
                });
            }
            Err(d) => diagnostics.push(*d),
        }
    }
    while let Some(job) = lw.queue.pop() {
        match FnLower::run(&mut lw, &job) {
            Ok(f) => lw.out.funcs[job.id] = f,
            Err(d) => diagnostics.push(*d),
        }
    }
    if diagnostics.has_errors() {
        diagnostics.sort();
        return Err(diagnostics);
    }
    let mut out = lw.out;
    scalar_constants::bind(&mut out);
    kernel_fusion::fuse(&mut out);
    constants::propagate(&mut out);
    scalars::unbox(&mut out);
    out.remove_dead_kernels();
    borrow::infer(&mut out);
    for f in out.funcs.values_mut() {
        counts::insert(f);
        views::mark(f, &out.kernels);
        reuse::plan(f, &out.kernels);
    }
    Ok(out)
}

impl Lowering<'_> {
    /// Reserves a function to be lowered later.
    fn reserve(&mut self, name: Symbol) -> FnId {
        self.out.funcs.push(LFunc::new(name, None, Span::NONE))
    }

    /// The function of a global, lowered on first use.
    fn global(&mut self, g: GlobalId, at: Span) -> Result<FnId, Box<Diagnostic>> {
        if let Some(&id) = self.globals.get(&g) {
            return Ok(id);
        }
        let GlobalKind::Func(func) = self.m.globals[g].kind else {
            let text = format!(
                "@{} is a tensor program, not a function",
                self.m.globals[g].name
            );
            return Err(Box::new(Diagnostic::error(codes::UNSUPPORTED, at, text)));
        };
        let name = self.m.globals[g].name;
        let id = self.reserve(name);
        self.globals.insert(g, id);
        self.queue.push(Job {
            id,
            func,
            name,
            closure: None,
        });
        Ok(id)
    }

    fn queue_closure(
        &mut self,
        func: FuncId,
        name: Symbol,
        closure: (ExprId, Vec<Captured>, Rc<Info>),
    ) -> FnId {
        self.closure_count += 1;
        let name = Symbol::new(&format!("{name}.fn{}", self.closure_count));
        let id = self.reserve(name);
        self.queue.push(Job {
            id,
            func,
            name,
            closure: Some(closure),
        });
        id
    }

    /// A function that is called through a closure without captures and consists of `body`.
    fn wrapper(
        &mut self,
        name: String,
        params: usize,
        body: impl FnOnce(&mut LFunc, &[Reg]),
    ) -> FnId {
        let params: Vec<Reg> = (0..params as u32).map(Reg).collect();
        let mut f = LFunc::new(Symbol::new(&name), Some(0), Span::NONE);
        f.params.clone_from(&params);
        f.regs = vec![Hold::Value; params.len()];
        f.blocks.push(Block {
            params: Vec::new(),
            insts: Vec::new(),
            term: Term::NoMatch(Symbol::new("")),
        });
        body(&mut f, &params);
        self.out.funcs.push(f)
    }

    /// A global function as the code of a closure.
    fn global_closure(&mut self, g: GlobalId, at: Span) -> Result<FnId, Box<Diagnostic>> {
        if let Some(&id) = self.closures.get(&g) {
            return Ok(id);
        }
        let func = self.global(g, at)?;
        let GlobalKind::Func(f) = self.m.globals[g].kind else {
            unreachable!("checked by `global`")
        };
        let n = self.m.funcs[f].params.len();
        let name = format!("{}.value", self.m.globals[g].name);
        let id = self.wrapper(name, n, |f, params| {
            f.blocks[lir::BlockId(0)].term = Term::TailCall {
                func,
                args: params.to_vec(),
                lent: Vec::new(),
            };
        });
        self.closures.insert(g, id);
        Ok(id)
    }

    /// A constructor as the code of a closure.
    fn ctor_closure(&mut self, c: CtorId) -> FnId {
        if let Some(&id) = self.ctors.get(&c) {
            return id;
        }
        let ctor = &self.m.ctors[c];
        let (tag, n) = (ctor.tag, ctor.fields.len());
        let id = self.wrapper(format!("{}.value", ctor.name), n, |f, params| {
            let dst = f.reg(Hold::Value);
            let block = &mut f.blocks[lir::BlockId(0)];
            block.insts.push(Inst::Adt {
                dst,
                tag,
                fields: params.to_vec(),
            });
            block.term = Term::Return(dst);
        });
        self.ctors.insert(c, id);
        id
    }

    /// An operator as the code of a closure, for the type that it has at `e`.
    fn op_closure(&mut self, op: OpId, e: ExprId) -> Result<FnId, Box<Diagnostic>> {
        let name = registry().get(op).map_or("operator", |d| d.name);
        let ty = self.typing.exprs[e];
        let unsupported = || {
            let text = format!("native code does not support `{name}` as a value of unknown type");
            Box::new(
                Diagnostic::error(codes::UNSUPPORTED, self.m.span(e), text)
                    .note("wrap it in a function: fn (%x: …) { … }"),
            )
        };
        let Some(Type::Func(f)) = (ty.0 as usize)
            .lt(&self.m.types.len())
            .then(|| &self.m.types[ty])
        else {
            return Err(unsupported());
        };
        let single = |t| matches!(self.m.types[t], Type::Tensor(_));
        if !f.args.iter().all(|&t| single(t)) || !single(f.ret) {
            return Err(unsupported());
        }
        let def = registry().get(op).ok_or_else(unsupported)?;
        let call = Call {
            m: self.m,
            op: Operator::BuiltIn(def),
            args: f.args.to_vec(),
            out: f.ret,
            attrs: &def.default_attrs(),
            consts: vec![None; f.args.len()],
            span: self.m.span(e),
        };
        let program = call.program().map_err(Box::new)?.program;
        let kernel = self.add_kernel(program, name, false);
        let place = (self.place)(self.m.span(e));
        let n = f.args.len();
        Ok(self.wrapper(format!("{name}.value"), n, |f, params| {
            let dst = f.reg(Hold::Value);
            let block = &mut f.blocks[lir::BlockId(0)];
            let args = params.to_vec();
            block.insts.push(Inst::Kernel {
                dsts: vec![dst],
                kernel,
                args,
                given: vec![None],
                place,
            });
            block.term = Term::Return(dst);
        }))
    }

    /// A constant.
    fn data(&mut self, c: ConstId) -> DataId {
        match self.consts.get(&c) {
            Some(&id) => id,
            None => {
                let id = self.out.data.push(self.m.consts[c].clone());
                self.consts.insert(c, id);
                id
            }
        }
    }

    fn add_kernel(&mut self, mut program: Program, label: &str, by_hand: bool) -> KernelId {
        relax_loops::separate(&mut program);
        let span = program.span;
        let parts = program.parts.iter().map(|s| (self.place)(*s)).collect();
        let accesses = (program.accesses.iter())
            .map(|a| (self.place)(a.span))
            .collect();
        self.out.kernels.push(KernelDef {
            program,
            label: label.to_owned(),
            by_hand: by_hand && !span.is_none(),
            // Callers of a hand-written tensor program determine the extents of its outputs.
            holds_outputs: by_hand,
            parts,
            accesses,
        })
    }

    /// The kernel of an operator call.
    fn op_kernel(&mut self, e: ExprId) -> Result<KernelId, Box<Diagnostic>> {
        let call = Call::find(self.m, self.typing, e, CONST_LIMIT);
        let call = call.expect("the verifier has seen every operator");
        let key = call.key();
        match self.op_kernels.get(&key) {
            Some(Cached::Kernel(k)) => return Ok(*k),
            Some(Cached::ByValue(known)) => {
                if let Some(&k) = known.get(&call.consts) {
                    return Ok(k);
                }
            }
            None => {}
        }
        let made = call.program().map_err(Box::new)?;
        let kernel = self.add_kernel(made.program, call.op.name(), false);
        if made.by_value {
            let cached = self
                .op_kernels
                .entry(key)
                .or_insert_with(|| Cached::ByValue(FxHashMap::default()));
            if let Cached::ByValue(known) = cached {
                known.insert(call.consts, kernel);
            }
        } else {
            self.op_kernels.insert(key, Cached::Kernel(kernel));
        }
        Ok(kernel)
    }

    /// The kernel of a tensor program of the module.
    fn prim_kernel(&mut self, g: GlobalId, program: Arc<Program>) -> KernelId {
        if let Some(&k) = self.prims.get(&g) {
            return k;
        }
        let label = format!("@{}", self.m.globals[g].name);
        let kernel = self.add_kernel((*program).clone(), &label, true);
        self.prims.insert(g, kernel);
        kernel
    }

    /// The kernel of a function that is marked as a fused group of operators (`Primitive=1`).
    /// `None` where its body is no such group (a constant tensor, a variable from outside, a call
    /// of a function): then it is lowered like any other function, and errors are reported at their
    /// locations.
    fn fused_kernel(&mut self, f: FuncId) -> Option<KernelId> {
        if let Some(&k) = self.fused.get(&f) {
            return k;
        }
        let marked = is_primitive(&self.m.funcs[f]);
        let kernel = marked.then(|| self.marked_kernel(f)).flatten();
        self.fused.insert(f, kernel);
        kernel
    }

    /// The kernel of a marked function; that of an equal one, where nothing in them can fail.
    fn marked_kernel(&mut self, f: FuncId) -> Option<KernelId> {
        let key = self.ahead.key(self.m, self.typing, f);
        if let Some(&kernel) = key.as_ref().and_then(|key| self.alike.get(key)) {
            return Some(kernel);
        }
        let (program, label) = self.ahead.program(self.m, self.typing, f)?;
        // Failures name a call in this group.
        let fails = |s: &Stmt| matches!(s, Stmt::Assert { .. });
        let quiet = program.readers.is_empty() && !program.statements().any(fails);
        let kernel = self.add_kernel(program, &label, false);
        if let Some(key) = key.filter(|_| quiet) {
            self.alike.insert(key, kernel);
        }
        Some(kernel)
    }
}

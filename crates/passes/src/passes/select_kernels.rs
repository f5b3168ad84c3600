//! `select-kernels`: decides what becomes one kernel of the runtime, and writes it into the module.
//!
//! First, programs of single operators get the form that they have in a group: padding, say, becomes
//! part of the convolution that reads it. Loops that people wrote become stages of their own, where
//! each element of a buffer is computed by one expression ([`separate`]).
//!
//! Programs that one kernel computes together become one, where each one's only result is an
//! argument of the next ([`joined`](relax_loops::select::joined)): a product, the softmax of its
//! result and another product. Then each program states its kernels ([`state`]): products with their
//! epilogues, pooled convolutions, rows, sorts. What is left is generated code. A program that
//! states its kernels already keeps them.
//!
//! The lowering decides by the same rules for programs that state none: see "Lowering" in
//! `ARCHITECTURE.md`.

use std::sync::Arc;

use relax_base::Diagnostics;
use relax_ir::{AttrsId, Block, Expr, ExprId, Global, GlobalId, GlobalKind, Memo, Module, VarId};
use relax_loops::select::joined::{Joined, arguments};
use relax_loops::select::state;
use relax_loops::{Program, separate, settle};
use relax_ops::Lowering;
use rustc_hash::{FxHashMap, FxHashSet};

use super::legalize::bound;
use crate::util::{called_op, fresh_global};
use crate::{Contract, Form, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "select-kernels",
    doc: "Decides which stages of tensor programs become one kernel of the runtime, and states it in them.",
    options: &[],
    // One kernel sums in another order than several do.
    contract: Contract::PLAIN.idempotent().reorders().keeps(&[
        Form::ANormal,
        Form::GraphNormal,
        Form::BasicBlockNormal,
        Form::Relax,
    ]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let m = &mut *cx.module;
    for g in m.globals.ids() {
        if let GlobalKind::Prim(program) = &m.globals[g].kind
            && program.kernels.is_empty()
        {
            let mut new = (**program).clone();
            if !separate(&mut new) {
                if new.hints.is_empty() {
                    continue;
                }
                settle(&mut new);
            }
            m.globals[g].kind = GlobalKind::Prim(Arc::new(new));
        }
    }
    let mut joins = Joins::default();
    for (global, body) in m.global_bodies() {
        let new = joins.body(m, body);
        m.set_global_body(global, new);
    }
    drop_unused(m, &joins.replaced);
    let mut kernels = 0;
    for g in m.globals.ids() {
        let GlobalKind::Prim(program) = &m.globals[g].kind else {
            continue;
        };
        if !program.kernels.is_empty() {
            continue;
        }
        let mut new = (**program).clone();
        let count = state(&mut new) as u64;
        if count > 0 {
            kernels += count;
            m.globals[g].kind = GlobalKind::Prim(Arc::new(new));
        }
    }
    cx.count("programs joined", joins.count);
    cx.count("kernels selected", kernels);
    Ok(())
}

/// Drops programs that were joined with others, if nothing else calls them.
fn drop_unused(m: &mut Module, replaced: &FxHashSet<GlobalId>) {
    if replaced.is_empty() {
        return;
    }
    let bodies: Vec<ExprId> = m.global_bodies().into_iter().map(|b| b.1).collect();
    let mut called: FxHashSet<GlobalId> = FxHashSet::default();
    for e in m.post_order(bodies) {
        if let Expr::Global(g) = m.exprs[e] {
            called.insert(g);
        }
    }
    let keep = (m.globals.ids()).filter(|g| called.contains(g) || !replaced.contains(g));
    let keep = keep.collect();
    m.retain_globals(&keep);
}

/// A call of a tensor program.
#[derive(Clone)]
struct TirCall {
    program: GlobalId,
    args: Vec<ExprId>,
    /// The operator, the extents of the result, and its element type.
    callee: ExprId,
    shape: ExprId,
    attrs: AttrsId,
}

impl TirCall {
    /// Destructures a call; `None` for any other expression.
    fn of(m: &Module, e: ExprId) -> Option<TirCall> {
        let Expr::Call {
            callee,
            args,
            attrs,
            ..
        } = m.exprs[e]
        else {
            return None;
        };
        let calls = called_op(m, e).is_some_and(|d| d.hooks.lowering == Lowering::CallTir);
        let [program, fields, shape] = *m.list(args) else {
            return None;
        };
        let (Expr::Global(program), Expr::Tuple(fields)) = (&m.exprs[program], &m.exprs[fields])
        else {
            return None;
        };
        let is_program = matches!(m.globals[*program].kind, GlobalKind::Prim(_));
        (calls && is_program).then(|| TirCall {
            program: *program,
            args: m.list(*fields).to_vec(),
            callee,
            shape,
            attrs,
        })
    }
}

/// Consecutive programs, and the inputs of all but the first from the one before.
type Chain = (Vec<GlobalId>, Vec<usize>);

/// Programs joined so far.
#[derive(Default)]
struct Joins {
    known: FxHashMap<Chain, Option<GlobalId>>,
    replaced: FxHashSet<GlobalId>,
    count: u64,
}

/// The calls of a body, outside of function literals.
struct Calls {
    all: FxHashMap<ExprId, TirCall>,
    /// How many expressions have an expression as a part.
    uses: FxHashMap<ExprId, usize>,
    /// How many refer to a variable; more where a dataflow block shows it.
    reads: FxHashMap<VarId, usize>,
    /// The values that variables are bound to.
    values: FxHashMap<VarId, ExprId>,
}

impl Calls {
    fn of(m: &Module, body: ExprId) -> Calls {
        let mut calls = Calls {
            all: FxHashMap::default(),
            uses: FxHashMap::default(),
            reads: FxHashMap::default(),
            values: FxHashMap::default(),
        };
        // What a function literal reads, it reads at each of its calls.
        let within = m.post_order_within([body], |e| !matches!(m.exprs[e], Expr::Func(_)));
        let inside: FxHashSet<ExprId> = within.iter().copied().collect();
        for e in m.post_order([body]) {
            let times = 1 + usize::from(!inside.contains(&e));
            m.for_each_child(e, |c| match m.exprs[c] {
                Expr::Var(v) => *calls.reads.entry(v).or_default() += times,
                _ => *calls.uses.entry(c).or_default() += times,
            });
            match &m.exprs[e] {
                Expr::Let { var, value, .. } => {
                    calls.values.insert(*var, *value);
                }
                Expr::Dataflow { block, .. } => {
                    let block = &m.blocks[*block];
                    let bound = block.bindings.iter().map(|b| (b.var, b.value));
                    calls.values.extend(bound);
                    for v in &block.outputs {
                        *calls.reads.entry(*v).or_default() += 2;
                    }
                }
                _ => {}
            }
        }
        let found = within.iter().filter_map(|&e| Some((e, TirCall::of(m, e)?)));
        calls.all = found.collect();
        calls
    }

    /// Returns the call that makes a value which is used only once, and the variable between.
    fn maker(&self, m: &Module, e: ExprId) -> Option<(ExprId, Option<VarId>)> {
        let (at, var) = match m.exprs[e] {
            Expr::Var(v) if self.reads.get(&v) == Some(&1) => (*self.values.get(&v)?, Some(v)),
            Expr::Call { .. } => (e, None),
            _ => return None,
        };
        let once = self.uses.get(&at) == Some(&1) && self.all.contains_key(&at);
        once.then_some((at, var))
    }
}

impl Joins {
    /// Joins the calls of a body; returns the new one.
    fn body(&mut self, m: &mut Module, body: ExprId) -> ExprId {
        let mut calls = Calls::of(m, body);
        if calls.all.len() < 2 {
            return body;
        }
        let (mut gone, mut changed) = (FxHashSet::default(), FxHashSet::default());
        for e in m.post_order([body]) {
            while let Some(vars) = self.join(m, &mut calls, e) {
                gone.extend(vars);
                changed.insert(e);
                self.count += 1;
            }
        }
        if changed.is_empty() {
            return body;
        }
        let mut memo = Memo::default();
        // Arguments of joined calls come from expressions that are rewritten before.
        let mut done: FxHashMap<ExprId, ExprId> = FxHashMap::default();
        m.rewrite(body, &mut memo, |m, new, old| {
            let made = match m.exprs[new] {
                Expr::Let { var, body, .. } if gone.contains(&var) => body,
                Expr::Dataflow { block, body } => {
                    let old = m.blocks[block].clone();
                    let mut bindings = old.bindings.clone();
                    bindings.retain(|b| !gone.contains(&b.var));
                    if bindings.len() == old.bindings.len() {
                        new
                    } else {
                        let block = m.blocks.push(Block { bindings, ..old });
                        let span = m.span(new);
                        m.add(Expr::Dataflow { block, body }, span)
                    }
                }
                _ if changed.contains(&old) => {
                    let call = &calls.all[&old];
                    let of = |e: &ExprId| done.get(e).copied().unwrap_or(*e);
                    let args: Vec<ExprId> = call.args.iter().map(of).collect();
                    let span = m.span(old);
                    let program = m.add(Expr::Global(call.program), span);
                    let args = m.tuple(&args, span);
                    let attrs = m.attrs(call.attrs).clone();
                    m.call_attrs(call.callee, &[program, args, of(&call.shape)], attrs, span)
                }
                _ => new,
            };
            done.insert(old, made);
            made
        })
    }

    /// Joins the calls that end with one; returns the variables that are needed no more.
    fn join(&mut self, m: &mut Module, calls: &mut Calls, e: ExprId) -> Option<Vec<VarId>> {
        let last = calls.all.get(&e)?;
        let GlobalKind::Prim(program) = &m.globals[last.program].kind else {
            return None;
        };
        let ends = Joined::ending_with(program);
        ends.into_iter()
            .find_map(|end| self.join_as(m, calls, e, end))
    }

    fn join_as(
        &mut self,
        m: &mut Module,
        calls: &mut Calls,
        e: ExprId,
        (whole, input): (Joined, usize),
    ) -> Option<Vec<VarId>> {
        let mut vars = Vec::new();
        let before = |at: &ExprId, input: usize| {
            let (maker, var) = calls.maker(m, *calls.all[at].args.get(input)?)?;
            vars.extend(var);
            Some(maker)
        };
        let program = |at: &ExprId| program_of(m, calls.all[at].program);
        let (parts, inputs) = whole.walk((e, input), before, program)?;
        let chain: Vec<GlobalId> = parts.iter().map(|at| calls.all[at].program).collect();
        let joined = match self.known.get(&(chain.clone(), inputs.clone())) {
            Some(found) => *found,
            None => {
                let found = joined(m, whole, &chain, &inputs);
                self.known.insert((chain.clone(), inputs.clone()), found);
                found
            }
        }?;
        self.replaced.extend(chain);
        let args = arguments(parts.iter().map(|at| &calls.all[at].args[..]), &inputs);
        for at in &parts[..parts.len() - 1] {
            calls.all.remove(at);
        }
        let call = calls.all.get_mut(&e)?;
        (call.program, call.args) = (joined, args);
        Some(vars)
    }
}

fn program_of(m: &Module, g: GlobalId) -> Option<&Program> {
    match &m.globals[g].kind {
        GlobalKind::Prim(program) => Some(program),
        GlobalKind::Func(_) => None,
    }
}

/// Adds the joined program of a chain to the module, if there is a kernel for it.
fn joined(m: &mut Module, whole: Joined, chain: &[GlobalId], inputs: &[usize]) -> Option<GlobalId> {
    let parts: Option<Vec<&Program>> = chain.iter().map(|&g| program_of(m, g)).collect();
    let mut program = whole.join(&parts?, inputs).filter(bound)?;
    let name = fresh_global(m, &format!("tir_{}", whole.name()));
    program.name = name;
    let span = program.span;
    Some(m.globals.push(Global {
        name,
        kind: GlobalKind::Prim(Arc::new(program)),
        span,
        prelude: false,
    }))
}

//! `normalize`: converts to Relax's form. Each operation has a separate binding, in order of
//! evaluation, and runs of pure ones are in dataflow blocks.
//!
//! Existing blocks are opened first, so that adjacent ones are merged. Constructs that a block must
//! not contain stay between blocks: control flow, closures, effects, run-time checks.

use relax_base::Diagnostics;
use relax_ir::{
    Binding, Block, Expr, ExprId, FuncId, Function, IdSet, Memo, Module, VarId, VarStyle,
};
use rustc_hash::FxHashMap;

use super::a_normal_form::{Order, normal_form_in};
use crate::purity::Purity;
use crate::util::{
    is_external, is_primitive, let_chain, opened_block, rewrite_chains, share_constants,
};
use crate::{Contract, Form, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "normalize",
    doc: "Relax's form: a binding for each operation, dataflow blocks around pure ones.",
    options: &[],
    contract: Contract::TYPED.gives(&[Form::Relax]),
    run: normalize,
}];

/// Binds each operation to a variable, in order of evaluation, with dataflow blocks opened.
/// Constants, shapes and tuples that are used once stay where they are used. Functions that `leave`
/// names stay as they are; with `kernels`, local functions that are one kernel do not. Variables
/// from the returned one on are new.
pub(super) fn bind_operations(
    cx: &mut PassCx<'_>,
    leave: fn(&Function) -> bool,
    kernels: bool,
) -> VarId {
    let m = &mut *cx.module;
    m.rewrite_globals(|m, new, _| match m.exprs[new] {
        Expr::Func(f) if kernels => opened_kernel(m, new, f),
        _ => opened_block(m, new),
    });
    share_constants(m);
    // Variables from here on are new and can be renamed.
    let fresh = m.vars.next_id();
    for (global, body) in m.global_bodies() {
        let func = m.global_func(global).expect("it has a body");
        if leave(&m.funcs[func]) {
            continue;
        }
        let uses = m.use_counts([body]);
        // Expressions that Relax accepts in place, and kernels without annotations, whose types
        // only their calls determine.
        let (mut plain, order) = (IdSet::new(), m.post_order([body]));
        let mut called = IdSet::new();
        for &e in &order {
            if let Expr::Call { callee, .. } = m.exprs[e] {
                called.insert(callee);
            }
        }
        for e in order {
            let leaf = match m.exprs[e] {
                Expr::Func(f) if is_primitive(&m.funcs[f]) && uses[e] < 2 => {
                    let open = m.funcs[f].params.iter().any(|p| m.vars[*p].ty.is_none());
                    open && called.contains(e)
                }
                Expr::Const(_) | Expr::Shape(_) => true,
                Expr::Tuple(_) => uses[e] < 2,
                _ => false,
            };
            if leaf {
                plain.insert(e);
            }
        }
        let scopes = cx.analyses.scopes(m, func);
        let first = Order::ArgumentsFirst;
        let new = normal_form_in(m, scopes, body, first, |_, e| !plain.contains(e));
        let new = without_copies(m, new, fresh);
        m.set_global_body(global, new);
    }
    fresh
}

/// Brings all functions to Relax's form that are no other compiler's.
fn normalize(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    normalize_but(cx, is_external, false)
}

/// Makes a function that is one kernel a plain one. Without annotations it stays, as only its calls
/// determine its types.
fn opened_kernel(m: &mut Module, e: ExprId, f: FuncId) -> ExprId {
    let typed = m.funcs[f].params.iter().all(|p| m.vars[*p].ty.is_some());
    if !is_primitive(&m.funcs[f]) || !typed {
        return e;
    }
    let mut function = m.funcs[f].clone();
    function.attrs.remove("Primitive");
    let func = m.funcs.push(function);
    m.add(Expr::Func(func), m.span(e))
}

/// Brings all functions to Relax's form but those that `leave` names, and with `kernels` local
/// functions that are one kernel.
pub(super) fn normalize_but(
    cx: &mut PassCx<'_>,
    leave: fn(&Function) -> bool,
    kernels: bool,
) -> Result<(), Diagnostics> {
    let fresh = bind_operations(cx, leave, kernels);
    let all = cx.bodies_with_purity()?;
    let mut blocks = 0;
    for (global, body, purity) in all {
        let mut grouper = Grouper {
            purity: &purity,
            fresh,
            uses: FxHashMap::default(),
            blocks: 0,
        };
        let new = grouper.body(cx.module, body);
        blocks += grouper.blocks;
        cx.module.set_global_body(global, new);
    }
    cx.count("dataflow blocks found", blocks);
    Ok(())
}

/// Removes bindings of new variables to expressions that can be used in place: variables,
/// constants, tuples with a single use.
fn without_copies(m: &mut Module, body: ExprId, fresh: VarId) -> ExprId {
    let order = m.post_order([body]);
    let mut uses: FxHashMap<VarId, usize> = FxHashMap::default();
    let mut values: FxHashMap<VarId, ExprId> = FxHashMap::default();
    for &e in &order {
        m.for_each_child(e, |c| {
            if let Expr::Var(v) = m.exprs[c] {
                *uses.entry(v).or_default() += 1;
            }
        });
        if let Expr::Let { var, value, .. } = m.exprs[e]
            && var >= fresh
            && matches!(
                m.exprs[value],
                Expr::Var(_) | Expr::Const(_) | Expr::Shape(_) | Expr::Tuple(_)
            )
        {
            values.insert(var, value);
        }
    }
    let once = |v: &VarId| uses.get(v).is_none_or(|n| *n < 2);
    values.retain(|v, value| !matches!(m.exprs[*value], Expr::Tuple(_)) || once(v));
    let mut memo = Memo::default();
    for e in order {
        let new = match m.exprs[e] {
            // Values come before their continuations.
            Expr::Var(v) if values.contains_key(&v) => memo[&values[&v]],
            Expr::Let { var, body, .. } if values.contains_key(&var) => memo[&body],
            _ => m.map_children(e, |c| memo[&c]),
        };
        memo.insert(e, new);
    }
    memo[&body]
}

struct Grouper<'p> {
    purity: &'p Purity,
    fresh: VarId,
    /// The number of references to each variable.
    uses: FxHashMap<VarId, usize>,
    blocks: u64,
}

impl Grouper<'_> {
    fn body(&mut self, m: &mut Module, body: ExprId) -> ExprId {
        let order = m.post_order([body]);
        for &e in &order {
            m.for_each_child(e, |c| {
                if let Expr::Var(v) = m.exprs[c] {
                    *self.uses.entry(v).or_default() += 1;
                }
            });
        }
        rewrite_chains(m, &order, |m, head, memo| self.chain(m, head, memo))
    }

    /// Returns whether a binding may be in a block, given its value.
    fn pure(&self, m: &Module, value: ExprId) -> bool {
        let simple = matches!(
            m.exprs[value],
            Expr::Call { .. }
                | Expr::Tuple(_)
                | Expr::Proj { .. }
                | Expr::Var(_)
                | Expr::Const(_)
                | Expr::Shape(_)
        );
        simple && self.purity.eval(value) && !self.purity.makes_cells(m, value)
    }

    fn chain(&mut self, m: &mut Module, head: ExprId, memo: &Memo) -> ExprId {
        let (bindings, at) = let_chain(m, head);
        let mut body = memo[&at];
        let mut end = bindings.len();
        while end > 0 {
            let (var, value) = bindings[end - 1];
            if !self.pure(m, value) {
                end -= 1;
                // A closure that refers to itself can only be bound by a `let`.
                if !matches!(m.exprs[value], Expr::Func(_)) && m.vars[var].style == VarStyle::Let {
                    m.vars[var].style = VarStyle::Binding;
                }
                self.name(m, var, "lv");
                let (value, span) = (memo[&value], m.span(value));
                body = m.add(Expr::Let { var, value, body }, span);
                continue;
            }
            let mut start = end - 1;
            while start > 0 && self.pure(m, bindings[start - 1].1) {
                start -= 1;
            }
            body = self.run(m, &bindings[start..end], body, memo);
            end = start;
        }
        body
    }

    /// Creates a run of pure bindings: a block, if anything is computed in it.
    fn run(
        &mut self,
        m: &mut Module,
        run: &[(VarId, ExprId)],
        body: ExprId,
        memo: &Memo,
    ) -> ExprId {
        let mut inside: FxHashMap<VarId, usize> = FxHashMap::default();
        for e in m.post_order(run.iter().map(|b| b.1)) {
            m.for_each_child(e, |c| {
                if let Expr::Var(v) = m.exprs[c] {
                    *inside.entry(v).or_default() += 1;
                }
            });
        }
        for (_, value) in run {
            if let Expr::Var(v) = m.exprs[*value] {
                *inside.entry(v).or_default() += 1;
            }
        }
        let outside = |v: &VarId| self.uses.get(v) > inside.get(v);
        let mut outputs: Vec<VarId> = run.iter().map(|b| b.0).filter(outside).collect();
        let computes = run
            .iter()
            .any(|b| matches!(m.exprs[b.1], Expr::Call { .. }));
        if outputs.is_empty() {
            // The computed values are unused; removing them is left to another pass.
            outputs.extend(run.last().map(|b| b.0));
        }
        for &(var, _) in run {
            m.vars[var].style = VarStyle::Binding;
            let name = if computes && outputs.contains(&var) {
                "gv"
            } else {
                "lv"
            };
            self.name(m, var, name);
        }
        let span = m.span(run[0].1);
        if !computes {
            return run.iter().rev().fold(body, |body, &(var, value)| {
                let value = memo[&value];
                m.add(Expr::Let { var, value, body }, span)
            });
        }
        let binding = |&(var, value): &(VarId, ExprId)| Binding {
            var,
            value: memo[&value],
        };
        let block = m.blocks.push(Block {
            bindings: run.iter().map(binding).collect(),
            outputs,
            span,
        });
        self.blocks += 1;
        m.add(Expr::Dataflow { block, body }, span)
    }

    fn name(&self, m: &mut Module, var: VarId, name: &str) {
        if var >= self.fresh {
            m.vars[var].name = name.into();
        }
    }
}

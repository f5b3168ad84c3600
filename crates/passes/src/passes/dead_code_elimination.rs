//! `dead-code-elimination`: drops `let`s whose variable is unused and whose value has no side
//! effects.

use relax_base::Diagnostics;
use relax_ir::{Binding, Block, Expr, ExprId, IdSet, Memo, Module, VarId};
use rustc_hash::FxHashMap;

use crate::purity::Purity;
use crate::{Analysis, Contract, Form, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "dead-code-elimination",
    doc: "Drops bindings that nothing uses and whose values do nothing else.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .asks(&[Analysis::Effects])
        .each_function()
        .preserves(&[Analysis::Effects])
        .keeps(&[
            Form::ANormal,
            Form::GraphNormal,
            Form::BasicBlockNormal,
            Form::Relax,
        ]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let (mut memo, mut dropped) = (Memo::default(), 0);
    let all = cx.bodies_with_purity()?;
    let m = &mut *cx.module;
    for (global, body, purity) in all {
        let live = live(m, body, &purity);
        let new = m.rewrite(body, &mut memo, |m, new, _| match m.exprs[new] {
            Expr::Let { var, body, .. } if !live.contains(var) => {
                dropped += 1;
                body
            }
            Expr::Dataflow { block, body } => {
                let old = &m.blocks[block];
                let keep: Vec<Binding> = old
                    .bindings
                    .iter()
                    .filter(|b| live.contains(b.var))
                    .copied()
                    .collect();
                if keep.len() == old.bindings.len() {
                    return new;
                }
                dropped += (old.bindings.len() - keep.len()) as u64;
                let outputs = old.outputs.iter().filter(|v| live.contains(**v)).copied();
                let block = Block {
                    outputs: outputs.collect(),
                    bindings: keep,
                    span: old.span,
                };
                let block = m.blocks.push(block);
                let span = m.span(new);
                m.add(Expr::Dataflow { block, body }, span)
            }
            _ => new,
        });
        m.set_global_body(global, new);
    }
    cx.count("bindings dropped", dropped);
    Ok(())
}

/// Returns the variables whose bindings have to stay: the value of a binding is visited only when
/// its variable is used or when evaluating it has side effects.
fn live(m: &Module, body: ExprId, purity: &Purity) -> IdSet {
    let (mut live, mut seen) = (IdSet::new(), IdSet::new());
    let mut waiting: FxHashMap<VarId, ExprId> = FxHashMap::default();
    let mut stack = vec![body];
    while let Some(e) = stack.pop() {
        if let Expr::Var(v) = m.exprs[e] {
            live.insert(v);
            stack.extend(waiting.remove(&v));
            continue;
        }
        if !seen.insert(e) {
            continue;
        }
        let mut bind = |var: VarId, value: ExprId, stack: &mut Vec<ExprId>| {
            if !purity.eval(value) {
                live.insert(var);
            }
            if live.contains(var) {
                stack.push(value);
            } else {
                waiting.insert(var, value);
            }
        };
        match &m.exprs[e] {
            Expr::Let { var, value, body } => {
                bind(*var, *value, &mut stack);
                stack.push(*body);
            }
            Expr::Dataflow { block, body } => {
                for b in &m.blocks[*block].bindings {
                    bind(b.var, b.value, &mut stack);
                }
                stack.push(*body);
            }
            _ => m.for_each_child(e, |c| stack.push(c)),
        }
    }
    live
}

//! `relax-inline`: inlines private functions at their calls and removes them.
//!
//! Recursive functions are kept. In a dataflow block, only functions without branches are inlined, and
//! in a module with effects none that call functions whose effects would show in the block.

use relax_base::Diagnostics;
use relax_infer::may_have_effects;
use relax_ir::{Expr, ExprId, GlobalId, Module, inline_call};
use rustc_hash::FxHashSet;

use super::{canonical, private};
use crate::code::{Bind, Code, Part, Value, each_code};
use crate::util::{calls_itself, handles_functions, is_primitive};
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-inline",
    doc: "Relax's inline-private-functions: private functions stand where they are called.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

/// The maximum number of rounds; each inlines calls in bodies that the previous round inlined.
const DEEPEST: usize = 64;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let m = &mut *cx.module;
    let inlined: FxHashSet<GlobalId> = inlinable(m);
    if inlined.is_empty() {
        return Ok(());
    }
    let (mut calls, effects) = (0, may_have_effects(m));
    for _ in 0..DEEPEST {
        let before = calls;
        each_code(m, |m, _, code| {
            let put = put(m, code, &inlined, effects);
            calls += put;
            put > 0
        });
        if calls == before {
            break;
        }
    }
    let mut named = FxHashSet::default();
    for (g, body) in m.global_bodies() {
        if !inlined.contains(&g) {
            named.extend(
                m.post_order([body])
                    .into_iter()
                    .filter_map(|e| match m.exprs[e] {
                        Expr::Global(g) => Some(g),
                        _ => None,
                    }),
            );
        }
    }
    let keep: FxHashSet<GlobalId> = (m.globals.ids())
        .filter(|g| !inlined.contains(g) || named.contains(g))
        .collect();
    m.retain_globals(&keep);
    cx.count("calls inlined", calls);
    let typing = cx.typing()?;
    if calls > 0 {
        each_code(cx.module, |m, _, code| {
            canonical::canonicalize(m, &typing, code, true)
        });
    }
    Ok(())
}

/// Returns the private functions that are only called, and never by themselves.
fn inlinable(m: &Module) -> FxHashSet<GlobalId> {
    let graph = m.call_graph();
    let kernel = |g: GlobalId| m.global_func(g).is_some_and(|f| is_primitive(&m.funcs[f]));
    let all = private::only_called(m).into_iter();
    all.filter(|&g| !kernel(g) && !calls_itself(&graph, g))
        .collect()
}

/// Inlines bodies at bound calls; returns the number of calls.
fn put(m: &mut Module, code: &mut Code, inlined: &FxHashSet<GlobalId>, effects: bool) -> u64 {
    let mut calls = 0;
    for s in 0..code.seqs.len() {
        let old = std::mem::take(&mut code.seqs[s].parts);
        let mut parts: Vec<Part> = Vec::new();
        for part in old {
            let head = Part {
                binds: Vec::new(),
                ..part.clone()
            };
            let mut now = head.clone();
            for b in part.binds {
                let call = called(m, &b, inlined).filter(|(g, _)| {
                    let f = m.global_func(*g).map(|f| &m.funcs[f]);
                    !(part.flow && effects && f.is_some_and(|f| handles_functions(m, f)))
                });
                let Some(mut inner) = call.and_then(|(f, a)| body(m, f, &a)) else {
                    now.binds.push(b);
                    continue;
                };
                let branches = inner.seqs.len() > 1;
                if part.flow && branches {
                    now.binds.push(b);
                    continue;
                }
                calls += 1;
                let first = inner.seqs.remove(0);
                let more = inner.seqs;
                let base = code.seqs.len();
                // Bodies nested in the first are numbered from 1.
                let moved = |value: Value| value.renumbered(|body| body - 1 + base);
                for mut seq in more {
                    for b in seq.parts.iter_mut().flat_map(|p| &mut p.binds) {
                        b.value = moved(b.value);
                    }
                    code.seqs.push(seq);
                }
                for mut p in first.parts {
                    for b in &mut p.binds {
                        b.value = moved(b.value);
                    }
                    if part.flow || p.flow == part.flow {
                        now.binds.extend(p.binds);
                    } else {
                        parts.push(std::mem::replace(&mut now, head.clone()));
                        parts.push(p);
                    }
                }
                now.binds.push(Bind::plain(b.var, first.value, b.span));
            }
            parts.push(now);
        }
        parts.retain(|p| p.flow || !p.binds.is_empty());
        code.seqs[s].parts = parts;
    }
    calls
}

fn called(m: &Module, b: &Bind, inlined: &FxHashSet<GlobalId>) -> Option<(GlobalId, Vec<ExprId>)> {
    let Expr::Call { callee, args, .. } = m.exprs[b.expr()?] else {
        return None;
    };
    match m.exprs[callee] {
        Expr::Global(g) if inlined.contains(&g) => Some((g, m.list(args).to_vec())),
        _ => None,
    }
}

/// Copies a function's body with parameters replaced by arguments and dimension variables by the
/// call's extents.
fn body(m: &mut Module, g: GlobalId, args: &[ExprId]) -> Option<Code> {
    let f = m.global_func(g)?;
    if !m.funcs[f].dims.is_empty() {
        return None;
    }
    let body = inline_call(m, f, args)?;
    Code::of(m, body)
}

//! `remove-unused-outputs`: private functions that return tuples return only the fields that are
//! used.

use relax_base::Diagnostics;
use relax_infer::Typing;
use relax_ir::{Expr, ExprId, GlobalId, IdMap, Memo, Module, Type, TypeId, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{expand_tuples, private};
use crate::code::{Code, each_code, each_var};
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "remove-unused-outputs",
    doc: "Lets private functions give only those fields of tuples that are asked for.",
    options: &[],
    contract: Contract::RELAX,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let m = &mut *cx.module;
    let kept = asked_for(m, &typing);
    if !kept.is_empty() {
        narrow(m, &typing, &kept);
        each_code(m, |m, _, code| results(m, code, &kept));
    }
    cx.count("functions narrowed", kept.len() as u64);
    expand_tuples::finish(cx)
}

/// Returns the used fields of functions that return more than is used.
fn asked_for(m: &mut Module, typing: &Typing) -> FxHashMap<GlobalId, Vec<u32>> {
    let mut fields: FxHashMap<GlobalId, (u32, FxHashSet<u32>)> = FxHashMap::default();
    for g in private::only_called(m) {
        let f = m.global_func(g).expect("a function");
        let literal = Code::of(m, m.funcs[f].body)
            .is_some_and(|c| matches!(m.exprs[c.seqs[0].value], Expr::Tuple(_)));
        if let Type::Func(ty) = &m.types[typing.globals[g]]
            && let Type::Tuple(all) = &m.types[ty.ret]
            && literal
        {
            fields.insert(g, (all.len() as u32, FxHashSet::default()));
        }
    }
    for (_, body) in m.global_bodies() {
        let Some(code) = Code::of(m, body) else {
            // Code outside of Relax's form may use anything.
            for e in m.post_order([body]) {
                if let Expr::Global(g) = m.exprs[e] {
                    fields.remove(&g);
                }
            }
            continue;
        };
        let mut of: FxHashMap<VarId, GlobalId> = FxHashMap::default();
        for b in code.binds() {
            if let Some(g) = b.expr().and_then(|e| called(m, e)) {
                of.insert(b.var, g);
            }
        }
        for (e, ..) in code.exprs() {
            let mut uses = 0;
            for x in m.post_order([e]) {
                if let Expr::Proj { tuple, index } = m.exprs[x]
                    && let Expr::Var(v) = m.exprs[tuple]
                    && let Some((_, asked)) = of.get(&v).and_then(|g| fields.get_mut(g))
                {
                    asked.insert(index);
                    uses += 1;
                }
                // A call nested in a value uses the whole result.
                if x != e
                    && let Some(g) = called(m, x)
                {
                    fields.remove(&g);
                }
            }
            let mut mentions = Vec::new();
            each_var(m, e, |v| mentions.extend(of.get(&v).copied()));
            if mentions.len() > uses {
                for g in mentions {
                    fields.remove(&g);
                }
            }
        }
        if let Some(g) = called(m, code.seqs[0].value) {
            fields.remove(&g);
        }
    }
    let less = fields
        .into_iter()
        .filter(|(_, (n, asked))| asked.len() < *n as usize);
    less.map(|(g, (_, asked))| {
        let mut asked: Vec<u32> = asked.into_iter().collect();
        asked.sort_unstable();
        (g, asked)
    })
    .collect()
}

fn called(m: &Module, e: ExprId) -> Option<GlobalId> {
    let Expr::Call { callee, .. } = m.exprs[e] else {
        return None;
    };
    match m.exprs[callee] {
        Expr::Global(g) => Some(g),
        _ => None,
    }
}

fn narrow(m: &mut Module, typing: &Typing, kept: &FxHashMap<GlobalId, Vec<u32>>) {
    let mut new = FxHashMap::default();
    for (&g, asked) in kept {
        let f = m.global_func(g).expect("a function");
        let mut function = m.funcs[f].clone();
        let mut code = Code::of(m, function.body).expect("it was in Relax's form");
        let value = code.seqs[0].value;
        let Expr::Tuple(list) = m.exprs[value] else {
            continue;
        };
        let all = m.list(list).to_vec();
        let fields: Vec<ExprId> = asked.iter().map(|&i| all[i as usize]).collect();
        let types: Vec<TypeId> = match &m.types[typing.globals[g]] {
            Type::Func(ty) => match &m.types[ty.ret] {
                Type::Tuple(all) => asked.iter().map(|&i| all[i as usize]).collect(),
                _ => continue,
            },
            _ => continue,
        };
        let span = m.span(value);
        let (value, ret) = match (&fields[..], &types[..]) {
            (&[one], &[ty]) => (one, ty),
            _ => (m.tuple(&fields, span), m.types.tuple(types)),
        };
        code.seqs[0].value = value;
        function.ret = Some(ret);
        function.body = code.body(m);
        new.insert(g, function);
    }
    private::replace(m, new);
}

/// Renumbers the projections of calls' results.
fn results(m: &mut Module, code: &mut Code, kept: &FxHashMap<GlobalId, Vec<u32>>) -> bool {
    let mut of: IdMap<VarId, GlobalId> = IdMap::new();
    let mut any = false;
    for part in code.seqs.iter().flat_map(|s| &s.parts) {
        for b in &part.binds {
            let g = b.expr().and_then(|e| called(m, e));
            if let Some(g) = g.filter(|g| kept.contains_key(g)) {
                of.insert(b.var, g);
                // Inferred again, since the result has fewer fields now.
                m.vars[b.var].ty = None;
                any = true;
            }
        }
    }
    if !any {
        return false;
    }
    let mut memo = Memo::default();
    code.map(|e| {
        m.rewrite(e, &mut memo, |m, new, _| {
            let Expr::Proj { tuple, index } = m.exprs[new] else {
                return new;
            };
            let Expr::Var(v) = m.exprs[tuple] else {
                return new;
            };
            let Some(asked) = of.get(&v).and_then(|g| kept.get(g)) else {
                return new;
            };
            match asked.iter().position(|i| *i == index) {
                Some(0) if asked.len() == 1 => tuple,
                Some(at) => {
                    let (index, span) = (at as u32, m.span(new));
                    m.add(Expr::Proj { tuple, index }, span)
                }
                None => new,
            }
        })
    });
    true
}

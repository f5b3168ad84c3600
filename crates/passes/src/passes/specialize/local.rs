//! Copies of functions that a `let` binds: each directly follows the function that it is a copy of.

use relax_base::Symbol;
use relax_infer::Typing;
use relax_ir::{Copier, Expr, ExprId, Memo, Module, TypeId, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{computes_on_any, key, redirected, specialized_func};

/// A copy that is already called and waits for the `let` of its function.
struct Wanted {
    var: VarId,
    args: Vec<TypeId>,
}

/// The copies made so far.
#[derive(Default)]
pub(super) struct Locals {
    /// The variables to which a `let` binds a function literal: of no others are there copies.
    bound: FxHashSet<VarId>,
    known: FxHashMap<(VarId, String), VarId>,
    wanted: FxHashMap<VarId, Vec<Wanted>>,
}

impl Locals {
    /// Finds the functions that can be copied.
    pub fn look(&mut self, m: &Module) {
        let bodies = m.global_bodies().into_iter().map(|b| b.1);
        self.bound = (m.post_order(bodies).into_iter())
            .filter_map(|e| match m.exprs[e] {
                Expr::Let { var, value, .. } => {
                    matches!(m.exprs[value], Expr::Func(_)).then_some(var)
                }
                _ => None,
            })
            .collect();
    }

    pub fn copies(&self) -> usize {
        self.known.len()
    }

    /// Returns the replacement of `new`, the rewritten `old`, where it calls such a function.
    pub fn call(
        &mut self,
        m: &mut Module,
        typing: &Typing,
        old: ExprId,
        new: ExprId,
        args: &[TypeId],
        room: usize,
    ) -> Option<ExprId> {
        let Expr::Call { callee, .. } = m.exprs[old] else {
            return None;
        };
        let Expr::Var(v) = m.exprs[callee] else {
            return None;
        };
        if !self.bound.contains(&v) || !computes_on_any(m, typing.vars[v]) {
            return None;
        }
        let at = (v, key(m, args));
        let copy = match self.known.get(&at) {
            Some(&copy) => copy,
            None if room == 0 => return None,
            None => {
                let var = m.vars[v].clone();
                let name = Symbol::new(&format!("{}_{}", var.name, self.known.len()));
                let copy = m.vars.push(relax_ir::Var {
                    name,
                    ty: None,
                    ..var
                });
                self.wanted.entry(v).or_default().push(Wanted {
                    var: copy,
                    args: args.to_vec(),
                });
                self.known.insert(at, copy);
                copy
            }
        };
        let callee = m.add(Expr::Var(copy), m.span(callee));
        redirected(m, new, callee)
    }

    /// Returns the binding `e` together with the requested copies of its function.
    pub fn bind(&mut self, m: &mut Module, typing: &Typing, e: ExprId) -> Option<ExprId> {
        let Expr::Let { var, value, body } = m.exprs[e] else {
            return None;
        };
        let Expr::Func(f) = m.exprs[value] else {
            return None;
        };
        let wanted = self.wanted.remove(&var)?;
        let generic = typing.vars[var];
        // The dimensions that are in scope in the function: those of the values around it.
        let around: Vec<TypeId> = m
            .free_vars(value)
            .into_iter()
            .filter(|&v| v != var)
            .map(|v| typing.vars[v])
            .filter(|t| (t.0 as usize) < m.types.len())
            .collect();
        let shared = m.dims_in_types(around);
        let span = m.span(e);
        let mut inside = body;
        for w in wanted.into_iter().rev() {
            let mut copier = Copier::new();
            let own = m.add(Expr::Var(w.var), span);
            copier.values.insert(var, own);
            let func = specialized_func(m, copier, f, generic, &w.args, &shared);
            let value = m.add(Expr::Func(func), m.span(value));
            inside = m.add(
                Expr::Let {
                    var: w.var,
                    value,
                    body: inside,
                },
                span,
            );
        }
        let made = Expr::Let {
            var,
            value,
            body: inside,
        };
        Some(m.add(made, span))
    }

    /// Drops the functions all of whose uses were replaced by copies.
    pub fn drop_unused(&self, m: &mut Module) {
        let generic: FxHashSet<VarId> = self.known.keys().map(|k| k.0).collect();
        if generic.is_empty() {
            return;
        }
        for (global, body) in m.global_bodies() {
            let mut memo = Memo::default();
            for old in m.post_order([body]) {
                let mut new = m.map_children(old, |c| memo[&c]);
                if let Expr::Let { var, body, .. } = m.exprs[new]
                    && generic.contains(&var)
                    && !m.free_vars(body).contains(&var)
                {
                    new = body;
                }
                memo.insert(old, new);
            }
            if memo[&body] != body {
                m.set_global_body(global, memo[&body]);
            }
        }
    }
}

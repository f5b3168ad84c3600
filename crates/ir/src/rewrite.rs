//! Bottom-up rewriting, substitution, and copies with fresh variables.
//!
//! Nodes are immutable: a rewriter creates new nodes where something changed and keeps the old ids
//! elsewhere, so that shared nodes stay shared. Invariant: none of these functions recurses.

use relax_base::Span;
use rustc_hash::FxHashMap;

use crate::{Binding, Block, Clause, Expr, ExprId, FuncId, Function, Memo, Module, VarId};

impl Module {
    /// Returns the span of an expression, to be given to its replacement.
    pub fn span(&self, id: ExprId) -> Span {
        self.spans[id]
    }

    /// Rebuilds an expression with its operands mapped by `f` (in the order of
    /// [`Module::for_each_child`]). Returns `id` itself if `f` changes nothing. Closures and
    /// dataflow blocks are copied around their new parts and keep their variables.
    #[inline]
    pub fn map_children(&mut self, id: ExprId, mut f: impl FnMut(ExprId) -> ExprId) -> ExprId {
        self.map_each_child(id, &mut f)
    }

    /// [`Module::map_children`], compiled once for all callers.
    fn map_each_child(&mut self, id: ExprId, f: &mut dyn FnMut(ExprId) -> ExprId) -> ExprId {
        let mut changed = false;
        let mut g = |old: ExprId| {
            let new = f(old);
            changed |= new != old;
            new
        };
        let new = match &self.exprs[id] {
            Expr::Var(_)
            | Expr::Global(_)
            | Expr::Op(_)
            | Expr::Ctor(_)
            | Expr::Extern(_)
            | Expr::Const(_)
            | Expr::Shape(_)
            | Expr::Error => return id,
            &Expr::Tuple(fields) => Expr::Tuple(self.map_list(fields, &mut g)),
            Expr::Proj { tuple, index } => Expr::Proj {
                tuple: g(*tuple),
                index: *index,
            },
            Expr::Func(func) => {
                let func = *func;
                let body = g(self.funcs[func].body);
                if !changed {
                    return id;
                }
                let function = Function {
                    body,
                    ..self.funcs[func].clone()
                };
                Expr::Func(self.funcs.push(function))
            }
            &Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            } => Expr::Call {
                callee: g(callee),
                args: self.map_list(args, &mut g),
                attrs,
                type_args,
            },
            Expr::Let { var, value, body } => Expr::Let {
                var: *var,
                value: g(*value),
                body: g(*body),
            },
            Expr::If {
                cond,
                then,
                otherwise,
            } => Expr::If {
                cond: g(*cond),
                then: g(*then),
                otherwise: g(*otherwise),
            },
            Expr::Match {
                value,
                clauses,
                complete,
            } => {
                let value = g(*value);
                let map = |c: &Clause| Clause {
                    pattern: c.pattern,
                    body: g(c.body),
                };
                Expr::Match {
                    value,
                    clauses: clauses.iter().map(map).collect(),
                    complete: *complete,
                }
            }
            Expr::RefNew(e) => Expr::RefNew(g(*e)),
            Expr::RefRead(e) => Expr::RefRead(g(*e)),
            Expr::RefWrite(cell, value) => Expr::RefWrite(g(*cell), g(*value)),
            Expr::MatchShape { value, dims } => Expr::MatchShape {
                value: g(*value),
                dims: dims.clone(),
            },
            Expr::MatchCast { value, ty } => Expr::MatchCast {
                value: g(*value),
                ty: *ty,
            },
            Expr::Dataflow { block, body } => {
                let (old, body) = (*block, *body);
                let map = |b: &Binding| Binding {
                    var: b.var,
                    value: g(b.value),
                };
                let bindings = self.blocks[old].bindings.iter().map(map).collect();
                let body = g(body);
                if !changed {
                    return id;
                }
                let block = Block {
                    bindings,
                    ..self.blocks[old].clone()
                };
                Expr::Dataflow {
                    block: self.blocks.push(block),
                    body,
                }
            }
        };
        if changed {
            self.add(new, self.span(id))
        } else {
            id
        }
    }

    /// Rewrites everything under `root` bottom-up, each shared node once. `f` is called with a node
    /// whose operands are already rewritten, and the original node; it returns the replacement (the
    /// node itself to keep it). `memo` maps old nodes to rewritten ones: use the same memo for all
    /// functions of a module, so that nodes stay shared.
    pub fn rewrite(
        &mut self,
        root: ExprId,
        memo: &mut Memo,
        mut f: impl FnMut(&mut Module, ExprId, ExprId) -> ExprId,
    ) -> ExprId {
        self.rewrite_with(root, memo, &mut f)
    }

    /// [`Module::rewrite`], compiled once for all callers.
    fn rewrite_with(
        &mut self,
        root: ExprId,
        memo: &mut Memo,
        f: &mut dyn FnMut(&mut Module, ExprId, ExprId) -> ExprId,
    ) -> ExprId {
        let order = self.post_order_within([root], |id| !memo.contains_key(&id));
        for old in order {
            if memo.contains_key(&old) {
                continue;
            }
            let node = self.map_children(old, |c| memo[&c]);
            let new = f(self, node, old);
            memo.insert(old, new);
        }
        memo[&root]
    }

    /// Rewrites the bodies of all functions with [`Module::rewrite`]; returns whether anything
    /// changed.
    pub fn rewrite_globals(
        &mut self,
        mut f: impl FnMut(&mut Module, ExprId, ExprId) -> ExprId,
    ) -> bool {
        let (mut memo, mut changed) = (Memo::default(), false);
        for (id, body) in self.global_bodies() {
            let new = self.rewrite_with(body, &mut memo, &mut f);
            changed |= new != body;
            self.set_global_body(id, new);
        }
        changed
    }

    /// Replaces the body of a global function.
    pub fn set_global_body(&mut self, id: crate::GlobalId, body: ExprId) {
        let func = self.global_func(id).expect("the global is a function");
        if self.funcs[func].body != body {
            let function = Function {
                body,
                ..self.funcs[func].clone()
            };
            self.set_global_func(id, function);
        }
    }

    /// Replaces the function of a global.
    pub fn set_global_func(&mut self, id: crate::GlobalId, function: Function) -> crate::FuncId {
        let func = self.funcs.push(function);
        self.globals[id].kind = crate::GlobalKind::Func(func);
        func
    }

    /// Substitutes expressions for variables under `root`. Each variable id has a single binding
    /// site, so nothing is captured; but a replacement that itself binds variables may be
    /// duplicated: copy it with [`Module::copy_fresh`] in that case. `memo` is that of
    /// [`Module::rewrite`]: calls that share one must use the same substitution for everything
    /// reachable from several of their roots.
    pub fn substitute(
        &mut self,
        root: ExprId,
        memo: &mut Memo,
        values: &FxHashMap<VarId, ExprId>,
    ) -> ExprId {
        self.rewrite(root, memo, |m, new, _| match m.exprs[new] {
            Expr::Var(v) => values.get(&v).copied().unwrap_or(new),
            _ => new,
        })
    }
}

/// Returns a function's body with arguments substituted for parameters: [`Module::copy_fresh`] of
/// the body. Returns `None` if the numbers differ.
pub fn inline_call(m: &mut Module, func: FuncId, args: &[ExprId]) -> Option<ExprId> {
    let function = &m.funcs[func];
    if function.params.len() != args.len() {
        return None;
    }
    let values = function.params.iter().copied().zip(args.iter().copied());
    let mut copy = crate::Copier::new();
    copy.values = values.collect();
    let body = function.body;
    Some(copy.expr(m, body))
}

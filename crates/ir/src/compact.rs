//! Garbage collection: the reachable part of a module in fresh arenas.

use relax_base::Id;
use rustc_hash::FxHashMap;

use crate::{
    Binding, Block, Clause, Expr, ExprId, FuncId, Function, Module, PatId, Pattern, VarId,
};

/// A compacted module, and the mapping from old ids to new ones.
#[derive(Clone, Debug)]
pub struct Compacted {
    /// The module.
    pub module: Module,
    /// The new ids of the expressions that were kept.
    pub exprs: FxHashMap<ExprId, ExprId>,
    /// The new ids of the variables that were kept.
    pub vars: FxHashMap<VarId, VarId>,
}

impl Module {
    /// Copies what is reachable from the globals into fresh arenas: expressions, variables,
    /// functions, patterns, blocks, constants, attributes. Types, data types and globals keep their
    /// ids. Sharing is preserved.
    pub fn compact(&self) -> Compacted {
        let mut new = Module::new();
        new.version = self.version;
        new.types = self.types.clone();
        new.dims = self.dims.clone();
        new.globals = self.globals.clone();
        new.adts = self.adts.clone();
        new.ctors = self.ctors.clone();
        new.relations = self.relations.clone();
        new.user_ops = self.user_ops.clone();
        new.grads = self.grads.clone();
        new.expression = self.expression;
        new.literal = self.literal;
        new.metadata = self.metadata.clone();
        new.type_item = self.type_item;
        new.type_holes = self.type_holes;
        new.meta_dims = self.meta_dims.clone();
        new.script = self.script.clone();
        let mut copy = Copy {
            old: self,
            new: &mut new,
            exprs: FxHashMap::default(),
            vars: FxHashMap::default(),
            consts: FxHashMap::default(),
        };
        let roots: Vec<_> = self.global_bodies();
        let order = self.post_order(roots.iter().map(|&(_, body)| body));
        for id in order {
            let expr = copy.expr(id);
            let expr = copy.new.add(expr, self.spans[id]);
            copy.exprs.insert(id, expr);
        }
        for (global, _) in roots {
            let func = self.global_func(global).expect("it has a body");
            let func = copy.function(func);
            copy.new.globals[global].kind = crate::GlobalKind::Func(func);
        }
        let stubs = self.metadata.stubs.iter();
        let stubs = stubs.filter_map(|(i, id)| Some((*i, *copy.consts.get(id)?)));
        let mut stubs: Vec<_> = stubs.collect();
        stubs.sort_by_key(|s| s.1);
        let (exprs, vars) = (copy.exprs, copy.vars);
        new.metadata.stubs = stubs;
        Compacted {
            module: new,
            exprs,
            vars,
        }
    }
}

struct Copy<'m> {
    old: &'m Module,
    new: &'m mut Module,
    exprs: FxHashMap<ExprId, ExprId>,
    vars: FxHashMap<VarId, VarId>,
    consts: FxHashMap<crate::ConstId, crate::ConstId>,
}

impl Copy<'_> {
    fn var(&mut self, old: VarId) -> VarId {
        if let Some(&new) = self.vars.get(&old) {
            return new;
        }
        let new = self.new.vars.push(self.old.vars[old].clone());
        if let Some(attrs) = self.old.var_attrs.get(&old) {
            self.new.var_attrs.insert(new, attrs.clone());
        }
        self.vars.insert(old, new);
        new
    }

    fn list(&mut self, list: crate::ExprList) -> crate::ExprList {
        let items: Vec<_> = self.old.list(list).iter().map(|e| self.exprs[e]).collect();
        self.new.make_list(&items)
    }

    fn function(&mut self, id: FuncId) -> FuncId {
        let old = &self.old.funcs[id];
        let function = Function {
            params: old.params.iter().map(|&p| self.var(p)).collect(),
            body: self.exprs[&old.body],
            ..old.clone()
        };
        self.new.funcs.push(function)
    }

    fn pattern(&mut self, root: PatId) -> PatId {
        let mut done: FxHashMap<PatId, PatId> = FxHashMap::default();
        for id in self.old.sub_patterns(root).into_iter().rev() {
            let all = |args: &[PatId]| args.iter().map(|a| done[a]).collect();
            let pattern = match &self.old.patterns[id] {
                Pattern::Wildcard => Pattern::Wildcard,
                Pattern::Var(v) => Pattern::Var(self.var(*v)),
                Pattern::Ctor(c, args) => Pattern::Ctor(*c, all(args)),
                Pattern::Tuple(args) => Pattern::Tuple(all(args)),
            };
            let new = self.new.patterns.push(pattern);
            self.new.pattern_spans.set(new, self.old.pattern_spans[id]);
            done.insert(id, new);
        }
        done[&root]
    }

    fn expr(&mut self, id: ExprId) -> Expr {
        let e = |this: &Self, id: &ExprId| this.exprs[id];
        match &self.old.exprs[id] {
            Expr::Var(v) => Expr::Var(self.var(*v)),
            Expr::Const(c) => {
                let c = *c;
                let new = match self.consts.get(&c) {
                    Some(&new) => new,
                    None => {
                        let new = self.new.consts.push(self.old.consts[c].clone());
                        if let Some(&plain) = self.old.literals.get(&c) {
                            self.new.literals.insert(new, plain);
                        }
                        if let Some(&name) = self.old.const_names.get(&c) {
                            self.new.const_names.insert(new, name);
                        }
                        self.consts.insert(c, new);
                        new
                    }
                };
                Expr::Const(new)
            }
            Expr::Tuple(fields) => Expr::Tuple(self.list(*fields)),
            Expr::Proj { tuple, index } => Expr::Proj {
                tuple: e(self, tuple),
                index: *index,
            },
            Expr::Func(f) => Expr::Func(self.function(*f)),
            &Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            } => Expr::Call {
                callee: e(self, &callee),
                args: self.list(args),
                attrs: self.new.make_attrs(self.old.attrs(attrs).clone()),
                type_args: self.new.make_type_args(self.old.type_args(type_args)),
            },
            Expr::Let { var, value, body } => Expr::Let {
                var: self.var(*var),
                value: e(self, value),
                body: e(self, body),
            },
            Expr::If {
                cond,
                then,
                otherwise,
            } => Expr::If {
                cond: e(self, cond),
                then: e(self, then),
                otherwise: e(self, otherwise),
            },
            Expr::Match {
                value,
                clauses,
                complete,
            } => Expr::Match {
                value: e(self, value),
                clauses: clauses
                    .iter()
                    .map(|c| Clause {
                        pattern: self.pattern(c.pattern),
                        body: self.exprs[&c.body],
                    })
                    .collect(),
                complete: *complete,
            },
            Expr::RefNew(v) => Expr::RefNew(e(self, v)),
            Expr::RefRead(v) => Expr::RefRead(e(self, v)),
            Expr::RefWrite(c, v) => Expr::RefWrite(e(self, c), e(self, v)),
            Expr::MatchShape { value, dims } => Expr::MatchShape {
                value: e(self, value),
                dims: dims.clone(),
            },
            Expr::MatchCast { value, ty } => Expr::MatchCast {
                value: e(self, value),
                ty: *ty,
            },
            Expr::Dataflow { block, body } => {
                let old = &self.old.blocks[*block];
                let mut bindings = Vec::with_capacity(old.bindings.len());
                for b in &old.bindings {
                    bindings.push(Binding {
                        var: self.var(b.var),
                        value: self.exprs[&b.value],
                    });
                }
                let block = Block {
                    bindings,
                    outputs: old.outputs.iter().map(|&v| self.var(v)).collect(),
                    span: old.span,
                };
                Expr::Dataflow {
                    block: self.new.blocks.push(block),
                    body: e(self, body),
                }
            }
            other @ (Expr::Global(_)
            | Expr::Op(_)
            | Expr::Ctor(_)
            | Expr::Extern(_)
            | Expr::Shape(_)
            | Expr::Error) => other.clone(),
        }
    }
}

impl Compacted {
    /// Carries a side table of expressions over to the new ids.
    pub fn carry<T: Clone + Default>(
        &self,
        old: &relax_base::SideTable<ExprId, T>,
    ) -> relax_base::SideTable<ExprId, T> {
        let mut new = relax_base::SideTable::default();
        let mut ids: Vec<_> = self.exprs.iter().map(|(o, n)| (*n, *o)).collect();
        ids.sort_by_key(|(n, _)| n.index());
        for (n, o) in ids {
            new.set(n, old[o].clone());
        }
        new
    }
}

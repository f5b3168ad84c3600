//! Concurrent transformation of several functions of a module.
//!
//! [`Module::lend`] freezes all nodes, [`Module::share`] gives each thread a module that shares
//! these nodes with the others and appends its own, and [`Module::absorb`] appends a share's new
//! nodes to the module, under new ids. Absorbing the shares in a fixed order makes the result
//! independent of the number of threads.
//!
//! Invariant: a share changes and creates nodes only for its own functions, and creates no
//! definitions: no globals, data types, dimension variables or type parameters.

use relax_base::{Id, Span};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use crate::module::TypeArgsId;
use crate::{
    Attrs, AttrsId, Binding, Block, BlockId, Clause, ConstId, Constraint, Expr, ExprId, ExprList,
    FuncId, FuncType, Function, GlobalId, GlobalKind, Module, PatId, Pattern, RelRef, Type, TypeId,
    Var, VarId,
};

/// The result of a share: its new nodes, and the new functions of its globals.
#[derive(Debug)]
pub struct Own {
    exprs: Vec<Expr>,
    spans: Vec<Span>,
    vars: Vec<Var>,
    var_attrs: Vec<(VarId, Attrs)>,
    patterns: Vec<Pattern>,
    pattern_spans: Vec<Span>,
    funcs: Vec<Function>,
    blocks: Vec<Block>,
    types: Vec<Type>,
    consts: Vec<Tensor>,
    literals: Vec<(ConstId, bool)>,
    attrs: Vec<Attrs>,
    lists: Vec<ExprId>,
    type_args: Vec<Box<[TypeId]>>,
    globals: Vec<(GlobalId, FuncId)>,
    first: Ends,
}

/// The first ids after the lent nodes.
#[derive(Clone, Copy, Debug)]
struct Ends {
    exprs: usize,
    vars: usize,
    patterns: usize,
    funcs: usize,
    blocks: usize,
    types: usize,
    consts: usize,
    attrs: usize,
    lists: usize,
    type_args: usize,
}

impl Ends {
    fn of(m: &Module) -> Ends {
        Ends {
            exprs: m.exprs.len(),
            vars: m.vars.len(),
            patterns: m.patterns.len(),
            funcs: m.funcs.len(),
            blocks: m.blocks.len(),
            types: m.types.len(),
            consts: m.consts.len(),
            attrs: m.attrs.len(),
            lists: m.lists.end(),
            type_args: m.type_args.len(),
        }
    }
}

impl Module {
    /// Lends (freezes) all nodes for [shares](Self::share). Nothing may be added until
    /// [`take_back`](Self::take_back).
    pub fn lend(&mut self) {
        self.spans.lend(self.exprs.len());
        self.pattern_spans.lend(self.patterns.len());
        self.exprs.lend();
        self.vars.lend();
        self.patterns.lend();
        self.funcs.lend();
        self.blocks.lend();
        self.types.lend();
        self.dims.lend();
        self.consts.lend();
        self.adts.lend();
        self.ctors.lend();
        self.relations.lend();
        self.attrs.lend();
        self.lists.lend();
        self.type_args.lend();
    }

    /// Creates a share for some of the functions: its [`Module::global_bodies`] returns only these.
    /// New nodes go to its own arenas, after the lent ones.
    pub fn share(&self, globals: &[GlobalId]) -> Module {
        Module {
            version: self.version,
            exprs: self.exprs.clone(),
            spans: self.spans.clone(),
            // Only used for reporting errors in the text.
            attr_spans: Vec::new(),
            vars: self.vars.clone(),
            var_attrs: self.var_attrs.clone(),
            patterns: self.patterns.clone(),
            pattern_spans: self.pattern_spans.clone(),
            funcs: self.funcs.clone(),
            blocks: self.blocks.clone(),
            types: self.types.clone(),
            dims: self.dims.clone(),
            consts: self.consts.clone(),
            // Only used by type inference.
            literals: FxHashMap::default(),
            // Those of lent constants stay with the module.
            const_names: FxHashMap::default(),
            globals: self.globals.clone(),
            adts: self.adts.clone(),
            ctors: self.ctors.clone(),
            relations: self.relations.clone(),
            user_ops: self.user_ops.clone(),
            grads: self.grads.clone(),
            expression: self.expression,
            literal: self.literal,
            type_item: self.type_item,
            type_holes: self.type_holes,
            metadata: self.metadata.clone(),
            meta_dims: self.meta_dims.clone(),
            // Modules with errors are never shared.
            damage: crate::Damage::default(),
            script: self.script.clone(),
            attrs: self.attrs.clone(),
            lists: self.lists.clone(),
            type_args: self.type_args.clone(),
            share: Some(globals.into()),
        }
    }

    /// Finishes a share and returns its new nodes. `lender` is the module it was created from.
    pub fn into_own(self, lender: &Module) -> Own {
        let first = Ends::of(lender);
        let definitions = [
            (self.dims.len(), lender.dims.len()),
            (self.types.params.len(), lender.types.params.len()),
            (self.globals.len(), lender.globals.len()),
            (self.adts.len(), lender.adts.len()),
            (self.relations.len(), lender.relations.len()),
        ];
        assert!(
            definitions.iter().all(|(own, lent)| own == lent),
            "a share of a module makes no definitions"
        );
        let globals = self.share.iter().flat_map(|s| s.iter());
        let globals = globals.filter_map(|&g| Some((g, self.global_func(g)?)));
        let (globals, own) = (globals.collect(), |v: &VarId| v.index() >= first.vars);
        let mut var_attrs: Vec<_> = (self.var_attrs.into_iter())
            .filter(|(v, _)| own(v))
            .collect();
        var_attrs.sort_by_key(|(v, _)| *v);
        let mut literals: Vec<_> = self.literals.into_iter().collect();
        literals.sort_by_key(|(c, _)| *c);
        Own {
            exprs: self.exprs.into_own(),
            spans: self.spans.into_own(),
            vars: self.vars.into_own(),
            var_attrs,
            patterns: self.patterns.into_own(),
            pattern_spans: self.pattern_spans.into_own(),
            funcs: self.funcs.into_own(),
            blocks: self.blocks.into_own(),
            types: self.types.into_own(),
            consts: self.consts.into_own(),
            literals,
            attrs: self.attrs.into_own(),
            lists: self.lists.into_own(),
            type_args: self.type_args.into_own(),
            globals,
            first,
        }
    }

    /// Ends [`lend`](Self::lend), after all shares have finished.
    pub fn take_back(&mut self) {
        self.exprs.take_back();
        self.spans.take_back();
        self.vars.take_back();
        self.patterns.take_back();
        self.pattern_spans.take_back();
        self.funcs.take_back();
        self.blocks.take_back();
        self.types.take_back();
        self.dims.take_back();
        self.consts.take_back();
        self.adts.take_back();
        self.ctors.take_back();
        self.relations.take_back();
        self.attrs.take_back();
        self.lists.take_back();
        self.type_args.take_back();
    }

    /// Appends a finished share's nodes to the module.
    pub fn absorb(&mut self, own: Own) {
        let mut moved = Moved {
            first: own.first,
            to: Ends::of(self),
            types: Vec::with_capacity(own.types.len()),
        };
        for attrs in own.attrs {
            self.attrs.push(attrs);
        }
        for ty in own.types {
            let ty = moved.ty(ty);
            moved.types.push(self.types.intern(ty));
        }
        for args in own.type_args {
            self.type_args.push(moved.type_ids(&args));
        }
        let items: Vec<ExprId> = own.lists.iter().map(|&e| moved.expr_id(e)).collect();
        self.lists.add(&items);
        for value in own.consts {
            self.consts.push(value);
        }
        for (id, plain) in own.literals {
            self.literals.insert(moved.const_id(id), plain);
        }
        for var in own.vars {
            let ty = var.ty.map(|t| moved.type_id(t));
            self.vars.push(Var { ty, ..var });
        }
        for (var, attrs) in own.var_attrs {
            self.var_attrs.insert(moved.var(var), attrs);
        }
        let mut spans = own.pattern_spans.into_iter();
        for pattern in own.patterns {
            let id = self.patterns.push(moved.pattern(pattern));
            self.pattern_spans
                .set(id, spans.next().unwrap_or(Span::NONE));
        }
        for block in own.blocks {
            self.blocks.push(moved.block(block));
        }
        for func in own.funcs {
            self.funcs.push(moved.function(func));
        }
        let mut spans = own.spans.into_iter();
        for expr in own.exprs {
            let expr = moved.expr(expr);
            self.add(expr, spans.next().unwrap_or(Span::NONE));
        }
        for (global, func) in own.globals {
            self.globals[global].kind = GlobalKind::Func(moved.func(func));
        }
    }
}

/// The new ids of a share's nodes.
struct Moved {
    first: Ends,
    to: Ends,
    /// The new ids of its types.
    types: Vec<TypeId>,
}

/// Renumbers a node; lent ones keep their ids.
fn id<I: Id>(old: I, first: usize, to: usize) -> I {
    match old.index().checked_sub(first) {
        Some(i) => I::from_index(to + i),
        None => old,
    }
}

impl Moved {
    fn expr_id(&self, e: ExprId) -> ExprId {
        id(e, self.first.exprs, self.to.exprs)
    }
    fn var(&self, v: VarId) -> VarId {
        id(v, self.first.vars, self.to.vars)
    }
    fn func(&self, f: FuncId) -> FuncId {
        id(f, self.first.funcs, self.to.funcs)
    }
    fn pat(&self, p: PatId) -> PatId {
        id(p, self.first.patterns, self.to.patterns)
    }
    fn block_id(&self, b: BlockId) -> BlockId {
        id(b, self.first.blocks, self.to.blocks)
    }
    fn const_id(&self, c: ConstId) -> ConstId {
        id(c, self.first.consts, self.to.consts)
    }
    fn attrs(&self, a: AttrsId) -> AttrsId {
        id(a, self.first.attrs, self.to.attrs)
    }
    fn list(&self, list: ExprList) -> ExprList {
        match (list.start as usize).checked_sub(self.first.lists) {
            Some(i) => ExprList {
                start: u32::try_from(self.to.lists + i).expect("fewer than 2^32 list items"),
                len: list.len,
            },
            None => list,
        }
    }
    fn type_id(&self, t: TypeId) -> TypeId {
        match t.index().checked_sub(self.first.types) {
            Some(i) => self.types[i],
            None => t,
        }
    }
    fn type_ids(&self, types: &[TypeId]) -> Box<[TypeId]> {
        types.iter().map(|&t| self.type_id(t)).collect()
    }
    fn constraint(&self, c: &Constraint) -> Constraint {
        Constraint {
            rel: match c.rel {
                RelRef::Op(op, attrs) => RelRef::Op(op, self.attrs(attrs)),
                rel @ (RelRef::User(_) | RelRef::Builtin(_)) => rel,
            },
            args: self.type_ids(&c.args),
        }
    }

    fn ty(&self, ty: Type) -> Type {
        match ty {
            Type::Tuple(fields) => Type::Tuple(self.type_ids(&fields)),
            Type::Adt(adt, args) => Type::Adt(adt, self.type_ids(&args)),
            Type::Ref(t) => Type::Ref(self.type_id(t)),
            Type::Func(f) => Type::Func(Box::new(FuncType {
                args: self.type_ids(&f.args),
                ret: self.type_id(f.ret),
                constraints: f.constraints.iter().map(|c| self.constraint(c)).collect(),
                ..*f
            })),
            leaf @ (Type::Tensor(_)
            | Type::Shape(_)
            | Type::Object
            | Type::Param(_)
            | Type::Infer(_)
            | Type::Error) => leaf,
        }
    }

    fn pattern(&self, pattern: Pattern) -> Pattern {
        let all = |args: &[PatId]| args.iter().map(|&p| self.pat(p)).collect();
        match pattern {
            Pattern::Wildcard => Pattern::Wildcard,
            Pattern::Var(v) => Pattern::Var(self.var(v)),
            Pattern::Ctor(c, args) => Pattern::Ctor(c, all(&args)),
            Pattern::Tuple(args) => Pattern::Tuple(all(&args)),
        }
    }

    fn block(&self, block: Block) -> Block {
        let bindings = block.bindings.iter().map(|b| Binding {
            var: self.var(b.var),
            value: self.expr_id(b.value),
        });
        Block {
            bindings: bindings.collect(),
            outputs: block.outputs.iter().map(|&v| self.var(v)).collect(),
            span: block.span,
        }
    }

    fn function(&self, f: Function) -> Function {
        Function {
            params: f.params.iter().map(|&p| self.var(p)).collect(),
            ret: f.ret.map(|t| self.type_id(t)),
            constraints: f.constraints.iter().map(|c| self.constraint(c)).collect(),
            body: self.expr_id(f.body),
            ..f
        }
    }

    fn expr(&self, expr: Expr) -> Expr {
        let e = |id: ExprId| self.expr_id(id);
        match expr {
            Expr::Var(v) => Expr::Var(self.var(v)),
            Expr::Const(c) => Expr::Const(self.const_id(c)),
            Expr::Tuple(fields) => Expr::Tuple(self.list(fields)),
            Expr::Proj { tuple, index } => Expr::Proj {
                tuple: e(tuple),
                index,
            },
            Expr::Func(f) => Expr::Func(self.func(f)),
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            } => Expr::Call {
                callee: e(callee),
                args: self.list(args),
                attrs: self.attrs(attrs),
                type_args: id(
                    TypeArgsId(type_args),
                    self.first.type_args,
                    self.to.type_args,
                )
                .0,
            },
            Expr::Let { var, value, body } => Expr::Let {
                var: self.var(var),
                value: e(value),
                body: e(body),
            },
            Expr::If {
                cond,
                then,
                otherwise,
            } => Expr::If {
                cond: e(cond),
                then: e(then),
                otherwise: e(otherwise),
            },
            Expr::Match {
                value,
                clauses,
                complete,
            } => {
                let clauses = clauses.iter().map(|c| Clause {
                    pattern: self.pat(c.pattern),
                    body: e(c.body),
                });
                Expr::Match {
                    value: e(value),
                    clauses: clauses.collect(),
                    complete,
                }
            }
            Expr::RefNew(v) => Expr::RefNew(e(v)),
            Expr::RefRead(v) => Expr::RefRead(e(v)),
            Expr::RefWrite(cell, v) => Expr::RefWrite(e(cell), e(v)),
            Expr::MatchShape { value, dims } => Expr::MatchShape {
                value: e(value),
                dims,
            },
            Expr::MatchCast { value, ty } => Expr::MatchCast {
                value: e(value),
                ty: self.type_id(ty),
            },
            Expr::Dataflow { block, body } => Expr::Dataflow {
                block: self.block_id(block),
                body: e(body),
            },
            leaf @ (Expr::Global(_)
            | Expr::Op(_)
            | Expr::Ctor(_)
            | Expr::Extern(_)
            | Expr::Shape(_)
            | Expr::Error) => leaf,
        }
    }
}

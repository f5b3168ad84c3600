//! Traversals of the expression graph: children, orders, use counts, free variables.
//!
//! Invariant: every traversal uses an explicit stack; none recurses.

use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::Seen;
use crate::{
    AttrValue, Expr, ExprId, GlobalId, GlobalKind, IdSet, IdTable, Module, PatId, Pattern,
    TensorType, Type, TypeId, VarId,
};

impl Module {
    /// Calls `f` with each direct operand, in evaluation order. The body of a closure and the
    /// bindings of a dataflow block count as operands.
    #[inline]
    pub fn for_each_child(&self, id: ExprId, mut f: impl FnMut(ExprId)) {
        self.each_child(id, &mut f);
    }

    /// [`Module::for_each_child`], compiled once for all callers.
    fn each_child(&self, id: ExprId, f: &mut dyn FnMut(ExprId)) {
        self.visit_children(id, f);
    }

    /// [`Module::for_each_child`], for walks of their own.
    #[inline(always)]
    fn visit_children(&self, id: ExprId, mut f: impl FnMut(ExprId)) {
        match &self.exprs[id] {
            Expr::Var(_)
            | Expr::Global(_)
            | Expr::Op(_)
            | Expr::Ctor(_)
            | Expr::Extern(_)
            | Expr::Const(_)
            | Expr::Shape(_)
            | Expr::Error => {}
            Expr::Tuple(fields) => self.list(*fields).iter().copied().for_each(f),
            Expr::Proj { tuple, index: _ } => f(*tuple),
            Expr::Func(func) => f(self.funcs[*func].body),
            Expr::Call {
                callee,
                args,
                attrs: _,
                type_args: _,
            } => {
                f(*callee);
                self.list(*args).iter().copied().for_each(f);
            }
            Expr::Let {
                var: _,
                value,
                body,
            } => {
                f(*value);
                f(*body);
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                f(*cond);
                f(*then);
                f(*otherwise);
            }
            Expr::Match {
                value,
                clauses,
                complete: _,
            } => {
                f(*value);
                clauses.iter().for_each(|c| f(c.body));
            }
            Expr::RefNew(e) | Expr::RefRead(e) => f(*e),
            Expr::RefWrite(cell, value) => {
                f(*cell);
                f(*value);
            }
            Expr::MatchShape { value, dims: _ } | Expr::MatchCast { value, ty: _ } => f(*value),
            Expr::Dataflow { block, body } => {
                self.blocks[*block].bindings.iter().for_each(|b| f(b.value));
                f(*body);
            }
        }
    }

    /// Returns whether an expression is a leaf of the graph: a name or a constant. Leaves have no
    /// identity of their own: two nodes for the same variable are equivalent.
    pub fn is_leaf(&self, id: ExprId) -> bool {
        matches!(
            self.exprs[id],
            Expr::Var(_)
                | Expr::Global(_)
                | Expr::Op(_)
                | Expr::Ctor(_)
                | Expr::Extern(_)
                | Expr::Const(_)
        )
    }

    /// Returns the expressions reachable from `roots` in post-order, each once, operands first.
    pub fn post_order(&self, roots: impl IntoIterator<Item = ExprId>) -> Vec<ExprId> {
        self.post_order_within(roots, |_| true)
    }

    /// Like [`Module::post_order`], without the operands of nodes for which `enter` returns false.
    pub fn post_order_within(
        &self,
        roots: impl IntoIterator<Item = ExprId>,
        mut enter: impl FnMut(ExprId) -> bool,
    ) -> Vec<ExprId> {
        self.ordered(&mut roots.into_iter(), &mut enter)
    }

    /// [`Module::post_order_within`], compiled once for all callers.
    fn ordered(
        &self,
        roots: &mut dyn Iterator<Item = ExprId>,
        enter: &mut dyn FnMut(ExprId) -> bool,
    ) -> Vec<ExprId> {
        let (mut seen, mut order) = (Seen::new(), Vec::with_capacity(16));
        // The flag says that the operands were already pushed.
        let mut stack: Vec<(ExprId, bool)> = Vec::with_capacity(16);
        for root in roots {
            stack.push((root, false));
            while let Some((id, expanded)) = stack.pop() {
                if expanded {
                    order.push(id);
                    continue;
                }
                if !seen.insert(id) {
                    continue;
                }
                let first = stack.len();
                if enter(id) && !self.is_leaf(id) {
                    stack.push((id, true));
                    self.visit_children(id, |c| {
                        if !seen.contains(c) {
                            stack.push((c, false));
                        }
                    });
                    stack[first + 1..].reverse();
                } else {
                    order.push(id);
                }
            }
        }
        order
    }

    /// Returns the expressions reachable from `roots`, each once, users before operands.
    pub fn pre_order(&self, roots: impl IntoIterator<Item = ExprId>) -> Vec<ExprId> {
        let (mut seen, mut order) = (Seen::new(), Vec::new());
        let mut stack = Vec::new();
        for root in roots {
            stack.push(root);
            while let Some(id) = stack.pop() {
                if !seen.insert(id) {
                    continue;
                }
                order.push(id);
                let first = stack.len();
                self.for_each_child(id, |c| stack.push(c));
                stack[first..].reverse();
            }
        }
        order
    }

    /// Returns the number of uses of each expression under `roots`: the number of edges to it from
    /// different nodes or different operand positions. Being a root does not count as a use.
    pub fn use_counts(&self, roots: impl IntoIterator<Item = ExprId>) -> IdTable<ExprId, u32> {
        let mut uses = IdTable::default();
        for id in self.post_order(roots) {
            self.for_each_child(id, |c| *uses.entry(c) += 1);
        }
        uses
    }

    /// Returns the variables that an expression itself binds, in order: those of a `let`, a
    /// function's parameters, patterns, a dataflow block.
    pub fn bound_vars(&self, id: ExprId) -> Vec<VarId> {
        let mut vars = Vec::new();
        self.for_each_bound(id, |v| vars.push(v));
        vars
    }

    /// Calls `f` with each of [`Module::bound_vars`].
    pub fn for_each_bound(&self, id: ExprId, f: impl FnMut(VarId)) {
        match &self.exprs[id] {
            Expr::Let { var, .. } => std::iter::once(*var).for_each(f),
            Expr::Func(func) => self.funcs[*func].params.iter().copied().for_each(f),
            Expr::Match { clauses, .. } => clauses
                .iter()
                .flat_map(|c| self.pattern_vars(c.pattern))
                .for_each(f),
            Expr::Dataflow { block, .. } => {
                let bindings = &self.blocks[*block].bindings;
                bindings.iter().map(|b| b.var).for_each(f);
            }
            _ => {}
        }
    }

    /// Returns all patterns inside a pattern in pre-order, left to right.
    pub fn sub_patterns(&self, pattern: PatId) -> Vec<PatId> {
        let (mut order, mut stack) = (Vec::new(), vec![pattern]);
        while let Some(id) = stack.pop() {
            order.push(id);
            match &self.patterns[id] {
                Pattern::Wildcard | Pattern::Var(_) => {}
                Pattern::Ctor(_, args) | Pattern::Tuple(args) => {
                    stack.extend(args.iter().rev());
                }
            }
        }
        order
    }

    /// Returns the variables that a pattern binds, left to right.
    pub fn pattern_vars(&self, pattern: PatId) -> Vec<VarId> {
        self.sub_patterns(pattern)
            .into_iter()
            .filter_map(|p| match self.patterns[p] {
                Pattern::Var(v) => Some(v),
                _ => None,
            })
            .collect()
    }

    /// Returns the free variables of `root`, in order of first use.
    pub fn free_vars(&self, root: ExprId) -> Vec<VarId> {
        let order = self.post_order([root]);
        let mut bound = IdSet::new();
        for &id in &order {
            self.for_each_bound(id, |v| {
                bound.insert(v);
            });
        }
        // Every variable has a single binding site, so being bound anywhere under the root is
        // equivalent to being bound where it is used.
        let mut free = Vec::new();
        for &id in &order {
            if let Expr::Var(v) = self.exprs[id]
                && bound.insert(v)
            {
                free.push(v);
            }
        }
        free
    }

    /// Returns the dimension variables that occur in types.
    pub fn dims_in_types(&self, types: impl IntoIterator<Item = TypeId>) -> FxHashSet<DimVar> {
        let (mut seen, mut found) = (IdSet::new(), FxHashSet::default());
        if self.dims.is_empty() {
            return found;
        }
        let mut stack: Vec<TypeId> = types.into_iter().collect();
        while let Some(ty) = stack.pop() {
            if !seen.insert(ty) {
                continue;
            }
            if let Type::Tensor(TensorType { shape, .. }) | Type::Shape(shape) = &self.types[ty] {
                let dims = shape.dims().unwrap_or_default();
                found.extend(dims.iter().flat_map(|d| d.free_vars()));
            }
            stack.extend(self.types.children(ty));
        }
        found
    }

    /// Returns the free dimension variables of `root`.
    pub fn free_dims(&self, root: ExprId) -> FxHashSet<DimVar> {
        let (mut types, mut used, mut bound) = (Vec::new(), FxHashSet::default(), Vec::new());
        if self.dims.is_empty() {
            return used;
        }
        for id in self.post_order([root]) {
            types.extend((self.bound_vars(id).into_iter()).filter_map(|v| self.vars[v].ty));
            match &self.exprs[id] {
                Expr::Func(f) => {
                    let f = &self.funcs[*f];
                    types.extend(f.ret);
                    bound.extend(f.dims.iter().copied());
                }
                Expr::MatchCast { ty, .. } => {
                    types.push(*ty);
                    bound.extend(self.dims_in_types([*ty]));
                }
                Expr::MatchShape { dims, .. } => {
                    bound.extend(dims.iter().flat_map(|d| d.free_vars()));
                }
                Expr::Shape(dims) => used.extend(dims.iter().flat_map(|d| d.free_vars())),
                Expr::Call {
                    type_args, attrs, ..
                } => {
                    types.extend(self.type_args(*type_args));
                    let mut values: Vec<&AttrValue> =
                        self.attrs(*attrs).iter().map(|a| &a.1).collect();
                    while let Some(value) = values.pop() {
                        match value {
                            AttrValue::Dim(d) => used.extend(d.free_vars()),
                            AttrValue::Array(items) => values.extend(items.iter()),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        used.extend(self.dims_in_types(types));
        for d in bound {
            used.remove(&d);
        }
        used
    }

    /// Returns the bodies of all functions, in source order; in a [share](Module::share), of its
    /// own functions.
    pub fn global_bodies(&self) -> Vec<(GlobalId, ExprId)> {
        let body = |(id, g): (GlobalId, &crate::Global)| match g.kind {
            GlobalKind::Func(f) => Some((id, self.funcs[f].body)),
            GlobalKind::Prim(_) => None,
        };
        match &self.share {
            Some(own) => own
                .iter()
                .filter_map(|&g| body((g, &self.globals[g])))
                .collect(),
            None => self.globals.iter().filter_map(body).collect(),
        }
    }

    /// Returns the globals that each function references, in order of first reference.
    pub fn call_graph(&self) -> FxHashMap<GlobalId, Vec<GlobalId>> {
        let mut graph = FxHashMap::default();
        for (id, body) in self.global_bodies() {
            let mut seen = FxHashSet::default();
            let mut callees = Vec::new();
            for e in self.post_order([body]) {
                if let Expr::Global(g) = self.exprs[e]
                    && seen.insert(g)
                {
                    callees.push(g);
                }
            }
            graph.insert(id, callees);
        }
        graph
    }
}

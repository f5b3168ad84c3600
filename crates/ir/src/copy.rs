//! Deep copies (cloning) with fresh variables.

use relax_sym::{Atom, Dim, DimVar};
use rustc_hash::FxHashMap;

use crate::{
    AttrValue, Attrs, Block, Clause, Constraint, DTy, Expr, ExprId, FuncId, FuncType, Function,
    Memo, Module, PatId, Pattern, Shape, TensorType, Type, TypeArena, TypeId, TypeParamId, VarId,
};

/// A substitution of type parameters and dimension variables in types.
#[derive(Clone, Default, Debug)]
pub struct TypeSubst {
    /// Replacements of parameters of kind `Type`.
    pub types: FxHashMap<TypeParamId, TypeId>,
    /// Replacements of parameters of kind `Shape`.
    pub shapes: FxHashMap<TypeParamId, Shape>,
    /// Replacements of parameters of kind `BaseType`.
    pub dtypes: FxHashMap<TypeParamId, DTy>,
    /// Replacements of dimension variables.
    pub dims: FxHashMap<DimVar, Dim>,
    /// Renamings of parameters bound by a function type itself.
    pub params: FxHashMap<TypeParamId, TypeParamId>,
    done: FxHashMap<TypeId, TypeId>,
}

impl TypeSubst {
    /// Creates the empty substitution.
    pub fn new() -> TypeSubst {
        TypeSubst::default()
    }
    /// Returns whether the substitution is empty.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
            && self.shapes.is_empty()
            && self.dtypes.is_empty()
            && self.dims.is_empty()
            && self.params.is_empty()
    }
    /// Clears the memoised results; must be called after changing the maps.
    pub fn reset(&mut self) {
        self.done.clear();
    }

    /// Applies the substitution to a dimension.
    pub fn dim(&self, dim: &Dim) -> Dim {
        if self.dims.is_empty() {
            return dim.clone();
        }
        dim.substitute(&|atom| match atom {
            Atom::Var(v) => self.dims.get(&v).cloned(),
            Atom::Infer(_) => None,
        })
    }
    /// Applies the substitution to attributes, which may contain extents (`newshape=[n, 4]`),
    /// nested in lists of lists at most.
    pub fn attrs(&self, attrs: &Attrs) -> Attrs {
        let mut new = attrs.clone();
        if !self.dims.is_empty() {
            for (name, value) in attrs.iter() {
                new.set(*name, self.attr(value, 2));
            }
        }
        new
    }
    fn attr(&self, value: &AttrValue, lists: usize) -> AttrValue {
        match value {
            AttrValue::Dim(d) => AttrValue::dim(self.dim(d)),
            AttrValue::Array(items) if lists > 0 => {
                AttrValue::array(items.iter().map(|i| self.attr(i, lists - 1)))
            }
            other => other.clone(),
        }
    }
    /// Applies the substitution to a shape.
    pub fn shape(&self, shape: &Shape) -> Shape {
        match shape {
            Shape::Dims(dims) => Shape::Dims(dims.iter().map(|d| self.dim(d)).collect()),
            Shape::Param(p) => self.shapes.get(p).unwrap_or(shape).clone(),
            Shape::Unknown | Shape::Infer(_) => shape.clone(),
        }
    }
    /// Applies the substitution to an element type.
    pub fn dtype(&self, dtype: DTy) -> DTy {
        match dtype {
            DTy::Param(p) => self.dtypes.get(&p).copied().unwrap_or(dtype),
            DTy::Known(_) | DTy::Unknown | DTy::Infer(_) => dtype,
        }
    }

    /// Applies the substitution to a type.
    pub fn ty(&mut self, types: &mut TypeArena, root: TypeId) -> TypeId {
        if self.is_empty() {
            return root;
        }
        let mut stack = vec![(root, false)];
        while let Some((ty, expanded)) = stack.pop() {
            if self.done.contains_key(&ty) {
                continue;
            }
            if !expanded {
                stack.push((ty, true));
                stack.extend(types.children(ty).into_iter().map(|c| (c, false)));
                continue;
            }
            let new = self.rebuild(types, ty);
            self.done.insert(ty, new);
        }
        self.done[&root]
    }

    /// Instantiates the type parameters of `generic`, and those of the dimension variables `dims`
    /// that stand alone as an extent there, by matching it with a type. What is already bound
    /// stays so.
    pub fn match_type(
        &mut self,
        types: &TypeArena,
        generic: TypeId,
        have: TypeId,
        dims: &[DimVar],
    ) {
        let mut work = vec![(generic, have)];
        while let Some((want, have)) = work.pop() {
            match (&types[want], &types[have]) {
                (&Type::Param(p), _) => {
                    self.types.entry(p).or_insert(have);
                }
                (Type::Tensor(w), Type::Tensor(h)) => {
                    self.match_shape(&w.shape, &h.shape, dims);
                    if let DTy::Param(p) = w.dtype {
                        self.dtypes.entry(p).or_insert(h.dtype);
                    }
                }
                (Type::Shape(w), Type::Shape(h)) => self.match_shape(w, h, dims),
                (Type::Tuple(w), Type::Tuple(h)) => {
                    work.extend(w.iter().copied().zip(h.iter().copied()));
                }
                (Type::Adt(a, w), Type::Adt(b, h)) if a == b => {
                    work.extend(w.iter().copied().zip(h.iter().copied()));
                }
                (&Type::Ref(w), &Type::Ref(h)) => work.push((w, h)),
                // A polymorphic one has parameters of its own, which stay.
                (Type::Func(w), Type::Func(h)) if w.params.is_empty() => {
                    work.extend(w.args.iter().copied().zip(h.args.iter().copied()));
                    work.push((w.ret, h.ret));
                }
                _ => {}
            }
        }
    }

    fn match_shape(&mut self, want: &Shape, have: &Shape, dims: &[DimVar]) {
        match (want, have) {
            (&Shape::Param(p), _) => {
                self.shapes.entry(p).or_insert_with(|| have.clone());
            }
            (Shape::Dims(w), Shape::Dims(h)) => {
                for (w, h) in w.iter().zip(h.iter()) {
                    if let Some(Atom::Var(v)) = w.as_atom()
                        && dims.contains(&v)
                    {
                        self.dims.entry(v).or_insert_with(|| h.clone());
                    }
                }
            }
            _ => {}
        }
    }

    fn rebuild(&self, types: &mut TypeArena, ty: TypeId) -> TypeId {
        let all =
            |list: &[TypeId]| -> Box<[TypeId]> { list.iter().map(|t| self.done[t]).collect() };
        let new = match &types[ty] {
            Type::Tensor(t) => Type::Tensor(TensorType {
                shape: self.shape(&t.shape),
                dtype: self.dtype(t.dtype),
            }),
            Type::Shape(s) => Type::Shape(self.shape(s)),
            Type::Tuple(fields) => Type::Tuple(all(fields)),
            Type::Func(f) => Type::Func(Box::new(FuncType {
                params: f
                    .params
                    .iter()
                    .map(|p| self.params.get(p).copied().unwrap_or(*p))
                    .collect(),
                dims: f
                    .dims
                    .iter()
                    .map(|v| match self.dims.get(v).and_then(Dim::as_atom) {
                        Some(Atom::Var(new)) => new,
                        _ => *v,
                    })
                    .collect(),
                args: all(&f.args),
                ret: self.done[&f.ret],
                constraints: f
                    .constraints
                    .iter()
                    .map(|c| Constraint {
                        rel: c.rel,
                        args: all(&c.args),
                    })
                    .collect(),
            })),
            Type::Adt(adt, args) => Type::Adt(*adt, all(args)),
            Type::Ref(t) => Type::Ref(self.done[t]),
            Type::Param(p) => return self.types.get(p).copied().unwrap_or(ty),
            Type::Object | Type::Infer(_) | Type::Error => return ty,
        };
        types.intern(new)
    }
}

/// Copies expressions, renaming every variable they bind.
///
/// A copier memoises what it copied: two calls on the same copier share the copies of shared nodes.
/// Use a new copier for each independent copy.
#[derive(Clone, Default, Debug)]
pub struct Copier {
    /// The substitution of variables: preset it to substitute, read it to find the new variables.
    pub values: FxHashMap<VarId, ExprId>,
    /// The substitution of type parameters and dimension variables.
    pub types: TypeSubst,
    vars: FxHashMap<VarId, VarId>,
    memo: Memo,
}

impl Copier {
    /// Creates a copier with an empty memo.
    pub fn new() -> Copier {
        Copier::default()
    }

    /// Returns the copy of a variable bound by a copied expression.
    pub fn var(&self, old: VarId) -> Option<VarId> {
        self.vars.get(&old).copied()
    }

    fn fresh(&mut self, m: &mut Module, old: VarId) -> VarId {
        if let Some(&new) = self.vars.get(&old) {
            return new;
        }
        let mut var = m.vars[old].clone();
        var.ty = var.ty.map(|t| self.types.ty(&mut m.types, t));
        let new = m.vars.push(var);
        if let Some(attrs) = m.var_attrs.get(&old) {
            let attrs = self.types.attrs(attrs);
            m.var_attrs.insert(new, attrs);
        }
        self.vars.insert(old, new);
        let expr = m.add(Expr::Var(new), relax_base::Span::NONE);
        self.values.entry(old).or_insert(expr);
        new
    }

    /// Copies everything under `root`.
    pub fn expr(&mut self, m: &mut Module, root: ExprId) -> ExprId {
        let order = m.post_order_within([root], |id| !self.memo.contains_key(&id));
        // Dimension variables and type parameters first: any annotation may refer to them.
        for &id in &order {
            self.bind_types(m, id);
        }
        for &id in &order {
            for var in m.bound_vars(id) {
                if !self.values.contains_key(&var) {
                    self.fresh(m, var);
                }
            }
        }
        for &old in &order {
            if !self.memo.contains_key(&old) {
                let new = self.node(m, old);
                self.memo.insert(old, new);
            }
        }
        self.memo[&root]
    }

    /// Copies a function, including its parameters, type parameters and dimension variables.
    pub fn func(&mut self, m: &mut Module, func: FuncId) -> FuncId {
        self.bind_func_types(m, func);
        for param in m.funcs[func].params.clone() {
            self.fresh(m, param);
        }
        let body = m.funcs[func].body;
        self.expr(m, body);
        self.function(m, func)
    }

    fn bind_func_types(&mut self, m: &mut Module, func: FuncId) {
        let function = &m.funcs[func];
        let (params, dims) = (function.type_params.clone(), function.dims.clone());
        for old in params {
            if self.types.params.contains_key(&old) {
                continue;
            }
            let param = m.types.params[old].clone();
            let new = m.types.params.push(param);
            let ty = m.types.intern(Type::Param(new));
            self.types.params.insert(old, new);
            self.types.types.insert(old, ty);
            self.types.shapes.insert(old, Shape::Param(new));
            self.types.dtypes.insert(old, DTy::Param(new));
        }
        for dim in dims {
            self.fresh_dim(m, dim);
        }
    }

    fn fresh_dim(&mut self, m: &mut Module, old: DimVar) {
        let dims = &mut m.dims;
        self.types.dims.entry(old).or_insert_with(|| {
            let info = dims[old].clone();
            Dim::var(dims.push(info))
        });
    }

    fn bind_types(&mut self, m: &mut Module, id: ExprId) {
        if let Expr::Func(f) = m.exprs[id] {
            self.bind_func_types(m, f);
        }
    }

    fn node(&mut self, m: &mut Module, old: ExprId) -> ExprId {
        let node = m.map_children(old, |c| self.memo[&c]);
        let new = match &m.exprs[node] {
            Expr::Var(v) => return self.values.get(v).copied().unwrap_or(node),
            // Leaves are names or constants, which need no copy.
            _ if m.is_leaf(node) => return node,
            Expr::Func(f) => {
                let f = *f;
                Expr::Func(self.function(m, f))
            }
            &Expr::Let { var, value, body } => Expr::Let {
                var: self.vars.get(&var).copied().unwrap_or(var),
                value,
                body,
            },
            Expr::Match {
                value,
                clauses,
                complete,
            } => {
                let (value, complete, clauses) = (*value, *complete, clauses.clone());
                let clauses = clauses.iter().map(|c| Clause {
                    pattern: m.rename_pattern(c.pattern, &self.vars),
                    body: c.body,
                });
                Expr::Match {
                    value,
                    clauses: clauses.collect(),
                    complete,
                }
            }
            &Expr::Dataflow { block, body } => {
                let rename = |v: VarId| self.vars.get(&v).copied().unwrap_or(v);
                let old = &m.blocks[block];
                let block = Block {
                    bindings: old
                        .bindings
                        .iter()
                        .map(|b| crate::Binding {
                            var: rename(b.var),
                            value: b.value,
                        })
                        .collect(),
                    outputs: old.outputs.iter().map(|&v| rename(v)).collect(),
                    span: old.span,
                };
                Expr::Dataflow {
                    block: m.blocks.push(block),
                    body,
                }
            }
            Expr::Shape(dims) => Expr::Shape(dims.iter().map(|d| self.types.dim(d)).collect()),
            Expr::MatchShape { value, dims } => Expr::MatchShape {
                value: *value,
                dims: dims.iter().map(|d| self.types.dim(d)).collect(),
            },
            &Expr::MatchCast { value, ty } => Expr::MatchCast {
                value,
                ty: self.types.ty(&mut m.types, ty),
            },
            &Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            } => {
                let types = m.type_args(type_args).to_vec();
                let types: Vec<_> = types
                    .into_iter()
                    .map(|t| self.types.ty(&mut m.types, t))
                    .collect();
                let attrs = match self.types.dims.is_empty() {
                    true => attrs,
                    false => {
                        let new = self.types.attrs(m.attrs(attrs));
                        m.make_attrs(new)
                    }
                };
                Expr::Call {
                    callee,
                    args,
                    attrs,
                    type_args: m.make_type_args(&types),
                }
            }
            other => other.clone(),
        };
        m.add(new, m.span(old))
    }

    /// Copies a function around its already copied body.
    fn function(&mut self, m: &mut Module, func: FuncId) -> FuncId {
        let old = m.funcs[func].clone();
        let mut ty = |m: &mut Module, t: TypeId| self.types.ty(&mut m.types, t);
        let ret = old.ret.map(|t| ty(m, t));
        let constraints = old.constraints.iter().map(|c| Constraint {
            rel: c.rel,
            args: c.args.iter().map(|&t| ty(m, t)).collect(),
        });
        let constraints = constraints.collect();
        let new = Function {
            type_params: old
                .type_params
                .iter()
                .map(|p| self.types.params[p])
                .collect(),
            dims: old
                .dims
                .iter()
                .map(|v| match self.types.dims[v].as_atom() {
                    Some(Atom::Var(new)) => new,
                    _ => *v,
                })
                .collect(),
            params: old
                .params
                .iter()
                .map(|p| self.vars.get(p).copied().unwrap_or(*p))
                .collect(),
            ret,
            constraints,
            // `map_children` may already have set the new body.
            body: self.memo.get(&old.body).copied().unwrap_or(old.body),
            attrs: self.types.attrs(&old.attrs),
            span: old.span,
        };
        m.funcs.push(new)
    }
}

impl Module {
    /// Copies a pattern with renamed variables; those missing in `vars` are kept.
    pub fn rename_pattern(&mut self, root: PatId, vars: &FxHashMap<VarId, VarId>) -> PatId {
        let mut done: FxHashMap<PatId, PatId> = FxHashMap::default();
        for id in self.sub_patterns(root).into_iter().rev() {
            let all = |args: &[PatId]| args.iter().map(|a| done[a]).collect();
            let new = match &self.patterns[id] {
                Pattern::Wildcard => Pattern::Wildcard,
                Pattern::Var(v) => Pattern::Var(vars.get(v).copied().unwrap_or(*v)),
                Pattern::Ctor(c, args) => Pattern::Ctor(*c, all(args)),
                Pattern::Tuple(args) => Pattern::Tuple(all(args)),
            };
            let span = self.pattern_spans[id];
            let new = self.patterns.push(new);
            self.pattern_spans.set(new, span);
            done.insert(id, new);
        }
        done[&root]
    }
    /// Copies everything under `root`, with fresh bound variables.
    pub fn copy_fresh(&mut self, root: ExprId) -> ExprId {
        Copier::new().expr(self, root)
    }
    /// Copies a function, with fresh variables throughout.
    pub fn copy_func(&mut self, func: FuncId) -> FuncId {
        Copier::new().func(self, func)
    }
}

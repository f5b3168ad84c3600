//! Rewriting with types: new nodes get their types as they are created.

use relax_base::{SideTable, Span};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Attrs, AttrsId, ConstId, DTy, Expr, ExprId, IdTable, Memo, Module, OpId, Type,
    TypeId, VarId, VarStyle,
};
use relax_ops::{OpDef, registry};
use relax_programs::Operator;
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use relax_ops::call_requirements::{Arg, call_type, requirements};

/// A module being rewritten, with the types of its expressions, new ones included.
pub struct Edit<'a> {
    /// The module.
    pub m: &'a mut Module,
    types: SideTable<ExprId, TypeId>,
    vars: SideTable<VarId, TypeId>,
    error: TypeId,
    ops: FxHashMap<&'static str, ExprId>,
    /// How many read an expression, as far as it was asked ([`Edit::ask_readers`]).
    readers: IdTable<ExprId, u32>,
}

/// A call to a built-in operator, destructured.
#[derive(Clone, Debug)]
pub struct OpCall {
    /// The operator.
    pub op: OpId,
    /// Its definition.
    pub def: &'static OpDef,
    /// The arguments.
    pub args: Vec<ExprId>,
    /// The attributes.
    pub attrs: AttrsId,
}

impl<'a> Edit<'a> {
    /// Starts from a typed module.
    pub fn new(m: &'a mut Module, typing: &Typing) -> Edit<'a> {
        let error = m.types.error();
        Edit {
            m,
            types: typing.exprs.clone(),
            vars: typing.vars.clone(),
            error,
            ops: FxHashMap::default(),
            readers: IdTable::default(),
        }
    }

    /// Finds the expressions that several others read, for [`Edit::is_shared`].
    pub fn ask_readers(&mut self) {
        let bodies: Vec<ExprId> = self.m.global_bodies().into_iter().map(|g| g.1).collect();
        self.readers = self.m.use_counts(bodies);
    }

    /// Returns whether several expressions read this one: what is computed instead of it is computed
    /// beside it. That of new expressions is not known, and they are taken to have one reader.
    pub fn is_shared(&self, e: ExprId) -> bool {
        self.readers[e] > 1
    }

    /// Takes over from an expression to the one that replaces it whether it is shared.
    pub fn shares(&mut self, old: ExprId, new: ExprId) {
        if old != new && self.is_shared(old) {
            *self.readers.entry(new) += 2;
        }
    }

    /// Returns the type of an expression; the error type where it is not known.
    pub fn ty(&self, e: ExprId) -> TypeId {
        self.types[e]
    }
    /// Returns the type of a variable.
    pub fn var_ty(&self, v: VarId) -> TypeId {
        self.vars[v]
    }
    /// Returns whether the type of an expression is known.
    pub fn typed(&self, e: ExprId) -> bool {
        self.types[e] != self.error
    }
    /// Sets the type of an expression.
    pub fn set_ty(&mut self, e: ExprId, ty: TypeId) {
        self.types.set(e, ty);
    }
    /// Sets the type of a variable.
    pub fn set_var_ty(&mut self, v: VarId, ty: TypeId) {
        self.vars.set(v, ty);
    }
    /// Returns the element type of a tensor expression.
    pub fn dtype(&self, e: ExprId) -> Option<DType> {
        self.m.types.as_tensor(self.types[e])?.dtype.known()
    }
    /// Returns the dimensions of a tensor expression of known rank.
    pub fn dims(&self, e: ExprId) -> Option<Vec<Dim>> {
        let shape = &self.m.types.as_tensor(self.types[e])?.shape;
        shape.dims().map(<[Dim]>::to_vec)
    }
    /// Returns the extents of a tensor expression, when all are constants.
    pub fn extents(&self, e: ExprId) -> Option<Vec<i64>> {
        self.dims(e)?.iter().map(Dim::as_const).collect()
    }

    /// Returns the type of a constant tensor.
    pub fn tensor_type(&mut self, value: &Tensor) -> TypeId {
        let dims: Vec<Dim> = value.shape().iter().map(|&d| Dim::from(d)).collect();
        self.m.types.tensor(dims, value.dtype())
    }
    /// Returns whether two nodes are the same value: the same node, or references to the same
    /// variable, global, operator or constant.
    pub fn same(&self, a: ExprId, b: ExprId) -> bool {
        a == b || self.m.is_leaf(a) && self.m.exprs[a] == self.m.exprs[b]
    }
    /// Returns the value of a constant; a placeholder has none.
    pub fn constant_value(&self, e: ExprId) -> Option<&Tensor> {
        match self.m.exprs[e] {
            Expr::Const(c) if self.m.metadata.stub(c).is_none() => Some(&self.m.consts[c]),
            _ => None,
        }
    }
    /// Returns the id of a constant.
    pub fn const_id(&self, e: ExprId) -> Option<ConstId> {
        match self.m.exprs[e] {
            Expr::Const(c) => Some(c),
            _ => None,
        }
    }
    /// Returns the value of a scalar constant.
    pub fn scalar(&self, e: ExprId) -> Option<f64> {
        let value = self.constant_value(e)?;
        value.is_scalar().then(|| value.get_f64(0))
    }

    /// Returns the operator that a call applies, the arguments and the attributes.
    pub fn applied(&self, e: ExprId) -> Option<(OpId, &[ExprId], AttrsId)> {
        let Expr::Call {
            callee,
            args,
            attrs,
            ..
        } = self.m.exprs[e]
        else {
            return None;
        };
        match self.m.exprs[callee] {
            Expr::Op(op) => Some((op, self.m.list(args), attrs)),
            _ => None,
        }
    }
    /// Returns a call of a built-in operator, destructured.
    pub fn op_call(&self, e: ExprId) -> Option<OpCall> {
        let (op, args, attrs) = self.applied(e)?;
        Some(OpCall {
            op,
            def: registry().get(op)?,
            args: args.to_vec(),
            attrs,
        })
    }
    /// Returns the operator that a call applies, of the registry or an `op` item.
    pub fn operator(&self, e: ExprId) -> Option<Operator<'_>> {
        Operator::find(self.m, self.applied(e)?.0)
    }
    /// Returns whether a call's own relation still has to be checked at run time, because extents
    /// are `?`. Equivalent operators may have weaker requirements: where a bias has one element, a
    /// sum broadcasts it.
    pub fn asks_when_run(&self, call: &OpCall) -> bool {
        let args: Vec<TypeId> = call.args.iter().map(|&a| self.ty(a)).collect();
        let attrs = self.m.attrs(call.attrs);
        !requirements(call.def, &self.m.types, &self.m.dims, &args, &[], attrs).is_empty()
    }
    /// Returns the built-in operator that a call applies, and the arguments.
    pub fn callee(&self, e: ExprId) -> Option<(OpId, &'static OpDef, &[ExprId])> {
        let (op, args, _) = self.applied(e)?;
        Some((op, registry().get(op)?, args))
    }
    /// The same, for the operator with this name.
    pub fn call_of(&self, e: ExprId, name: &str) -> Option<OpCall> {
        self.op_call(e).filter(|c| c.def.name == name)
    }
    /// Returns an attribute of a call.
    pub fn attr(&self, call: &OpCall, name: &str) -> AttrValue {
        self.m
            .attrs(call.attrs)
            .get(name)
            .cloned()
            .unwrap_or(AttrValue::None)
    }

    /// Returns an operator as an expression; one node for each.
    ///
    /// # Panics
    /// The operator does not exist: names come from the source of the passes, and a test checks
    /// them all.
    pub fn op(&mut self, name: &'static str) -> ExprId {
        if let Some(&e) = self.ops.get(name) {
            return e;
        }
        let id = registry().find(name);
        let id = id.unwrap_or_else(|| panic!("there is no operator `{name}`"));
        let e = self.m.add(Expr::Op(id), Span::NONE);
        self.ops.insert(name, e);
        e
    }

    /// Creates a call with the given attributes; those not given have their defaults.
    pub fn call(
        &mut self,
        name: &'static str,
        args: &[ExprId],
        given: &[(&str, AttrValue)],
        span: Span,
    ) -> ExprId {
        let callee = self.op(name);
        let def = registry().find(name).and_then(|op| registry().get(op));
        let mut attrs = def.expect("found by `op`").default_attrs();
        for (name, value) in given {
            attrs.set(*name, value.clone());
        }
        self.call_with(callee, args, attrs, span)
    }
    /// Creates a call of an operator node with complete attributes.
    pub fn call_with(
        &mut self,
        callee: ExprId,
        args: &[ExprId],
        attrs: Attrs,
        span: Span,
    ) -> ExprId {
        let e = self.m.call_attrs(callee, args, attrs, span);
        self.retype(e);
        e
    }
    /// Creates the same call with other arguments and attributes.
    pub fn recall(&mut self, call: &OpCall, args: &[ExprId], attrs: Attrs, span: Span) -> ExprId {
        let callee = self.op(call.def.name);
        self.call_with(callee, args, attrs, span)
    }
    /// Creates a constant.
    pub fn constant(&mut self, value: Tensor, span: Span) -> ExprId {
        let ty = self.tensor_type(&value);
        let e = self.m.constant(value, span);
        self.types.set(e, ty);
        e
    }
    /// Creates a tuple.
    pub fn tuple(&mut self, fields: &[ExprId], span: Span) -> ExprId {
        let e = self.m.tuple(fields, span);
        self.retype(e);
        e
    }
    /// Returns a field of a tuple: for a tuple expression, the field itself.
    pub fn field(&mut self, tuple: ExprId, index: u32, span: Span) -> ExprId {
        if let Expr::Tuple(fields) = self.m.exprs[tuple] {
            return self.m.list(fields)[index as usize];
        }
        let e = self.m.add(Expr::Proj { tuple, index }, span);
        self.retype(e);
        e
    }
    /// Returns a cast, or the expression itself where it has the element type.
    pub fn cast(&mut self, e: ExprId, to: DType, span: Span) -> ExprId {
        if self.dtype(e) == Some(to) {
            return e;
        }
        self.call("cast", &[e], &[("dtype", AttrValue::DType(to))], span)
    }
    /// Creates a fresh variable of a type, with an annotation, and a reference to it.
    pub fn fresh_var(
        &mut self,
        name: relax_base::Symbol,
        ty: TypeId,
        style: VarStyle,
    ) -> (VarId, ExprId) {
        let (var, e) = self.m.fresh_var(name, Some(ty), style);
        self.vars.set(var, ty);
        self.types.set(e, ty);
        (var, e)
    }

    /// Computes the type of a node from the known types of its operands; leaves it unknown where
    /// that requires inference.
    pub fn retype(&mut self, e: ExprId) {
        if let Some(ty) = self.type_from_parts(e) {
            self.types.set(e, ty);
        }
    }

    fn type_from_parts(&mut self, e: ExprId) -> Option<TypeId> {
        match &self.m.exprs[e] {
            Expr::Var(v) => Some(self.vars[*v]),
            Expr::Tuple(fields) => {
                let fields: Vec<TypeId> = self
                    .m
                    .list(*fields)
                    .iter()
                    .map(|&f| self.types[f])
                    .collect();
                Some(self.m.types.tuple(fields))
            }
            Expr::Proj { tuple, index } => match &self.m.types[self.types[*tuple]] {
                Type::Tuple(fields) => fields.get(*index as usize).copied(),
                _ => None,
            },
            Expr::Let { body, .. } | Expr::Dataflow { body, .. } => Some(self.types[*body]),
            // Of branches that differ (in extents, or because one is polymorphic) it is neither's.
            Expr::If {
                then, otherwise, ..
            } => {
                let ty = self.types[*then];
                (ty == self.types[*otherwise]).then_some(ty)
            }
            Expr::Match { clauses, .. } => {
                let ty = self.types[clauses.first()?.body];
                (clauses.iter().all(|c| self.types[c.body] == ty)).then_some(ty)
            }
            Expr::Func(f) => {
                let f = &self.m.funcs[*f];
                let Type::Func(old) = &self.m.types[self.types[e]] else {
                    return None;
                };
                let mut new = (**old).clone();
                new.args = f.params.iter().map(|p| self.vars[*p]).collect();
                new.ret = self.types[f.body];
                Some(self.m.types.intern(Type::Func(Box::new(new))))
            }
            &Expr::Call {
                callee,
                args,
                attrs,
                ..
            } => match self.m.exprs[callee] {
                Expr::Op(op) => {
                    let attrs = self.m.attrs(attrs).clone();
                    let args = self.m.list(args).to_vec();
                    let values: Vec<Option<Tensor>> = args
                        .iter()
                        .map(|&a| self.constant_value(a).cloned())
                        .collect();
                    let args: Vec<Arg<'_>> = (args.iter().zip(&values))
                        .map(|(&a, value)| Arg {
                            ty: self.types[a],
                            value: value.as_ref(),
                        })
                        .collect();
                    call_type(self.m, op, &attrs, &args)
                }
                _ => match &self.m.types[self.types[callee]] {
                    Type::Func(f) if f.params.is_empty() && f.dims.is_empty() => Some(f.ret),
                    _ => None,
                },
            },
            _ => None,
        }
    }

    /// Rewrites all functions bottom-up: `f` gets each node over rewritten operands, typed, and
    /// returns its replacement, if any. Returns the number of replacements.
    pub fn replace(&mut self, mut f: impl FnMut(&mut Edit<'_>, ExprId) -> Option<ExprId>) -> u64 {
        let mut count = 0;
        self.rewrite(|edit, _, node| {
            let new = f(edit, node);
            count += u64::from(new.is_some());
            new.unwrap_or(node)
        });
        count
    }

    /// Rewrites all functions bottom-up, like [`Module::rewrite_globals`]. `f` gets the old node
    /// and the node over rewritten operands, typed; it returns the replacement. Returns whether
    /// anything changed.
    pub fn rewrite(&mut self, mut f: impl FnMut(&mut Edit<'_>, ExprId, ExprId) -> ExprId) -> bool {
        self.rewrite_with(&mut f)
    }

    /// [`Edit::rewrite`], compiled once for all passes.
    fn rewrite_with(&mut self, f: &mut dyn FnMut(&mut Edit<'_>, ExprId, ExprId) -> ExprId) -> bool {
        let mut memo = Memo::default();
        let mut changed = false;
        for (global, body) in self.m.global_bodies() {
            let order = self
                .m
                .post_order_within([body], |id| !memo.contains_key(&id));
            for old in order {
                if memo.contains_key(&old) {
                    continue;
                }
                let node = self.m.map_children(old, |c| memo[&c]);
                if node != old {
                    let ty = self.types[old];
                    self.types.set(node, ty);
                    self.retype(node);
                }
                let new = f(self, old, node);
                memo.insert(old, new);
            }
            let new = memo[&body];
            changed |= new != body;
            self.m.set_global_body(global, new);
        }
        changed
    }

    /// Returns whether two types are equal as far as a rewrite requires it: the same dimensions and
    /// element type, none of them unknown.
    pub fn same_type(&self, a: ExprId, b: ExprId) -> bool {
        let (a, b) = (self.types[a], self.types[b]);
        a == b && a != self.error
    }

    /// Returns the same tensor type with another element type; tuples field by field.
    pub fn with_dtype(&mut self, ty: TypeId, dtype: DType) -> TypeId {
        match &self.m.types[ty] {
            Type::Tensor(t) => {
                let t = relax_ir::TensorType {
                    shape: t.shape.clone(),
                    dtype: DTy::Known(dtype),
                };
                self.m.types.intern(Type::Tensor(t))
            }
            _ => ty,
        }
    }
}

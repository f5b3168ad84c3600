//! Types of the new program, and its variables.

use relax_ir::{Expr, ExprId, FuncId, FuncType, Shape, Type, TypeId, VarId};
use relax_sym::Dim;
use rustc_hash::FxHashSet;

use super::Reverse;

impl Reverse<'_, '_> {
    /// Returns a type of the program in the new program, where nothing is lifted.
    pub(super) fn same_type(&mut self, ty: TypeId) -> TypeId {
        self.subst.ty(&mut self.edit.m.types, ty)
    }

    /// Returns the lifted form of a type.
    pub(super) fn carried_type(&mut self, root: TypeId) -> TypeId {
        let root = self.same_type(root);
        let mut stack = vec![(root, false)];
        while let Some((ty, expanded)) = stack.pop() {
            if self.types.contains_key(&ty) {
                continue;
            }
            if !expanded {
                stack.push((ty, true));
                let children = self.edit.m.types.children(ty);
                stack.extend(children.into_iter().map(|c| (c, false)));
                continue;
            }
            let all =
                |list: &[TypeId]| -> Vec<TypeId> { list.iter().map(|t| self.types[t]).collect() };
            let new = match &self.edit.m.types[ty] {
                Type::Tensor(_) => {
                    let cell = self.edit.m.types.intern(Type::Ref(ty));
                    self.edit.m.types.tuple(vec![ty, cell])
                }
                Type::Tuple(fields) => {
                    let fields = all(fields);
                    self.edit.m.types.tuple(fields)
                }
                Type::Adt(adt, args) => {
                    let new = Type::Adt(*adt, all(args).into());
                    self.edit.m.types.intern(new)
                }
                Type::Ref(t) => {
                    let new = Type::Ref(self.types[t]);
                    self.edit.m.types.intern(new)
                }
                Type::Func(f) => {
                    let mut args = all(&f.args);
                    args.push(self.cell);
                    let new = FuncType {
                        args: args.into(),
                        ret: self.types[&f.ret],
                        ..(**f).clone()
                    };
                    self.edit.m.types.intern(Type::Func(Box::new(new)))
                }
                _ => ty,
            };
            self.types.insert(ty, new);
        }
        self.types[&root]
    }

    /// Returns whether a type can be written as an annotation.
    pub(super) fn written(&self, ty: TypeId) -> bool {
        let mut work = vec![ty];
        while let Some(t) = work.pop() {
            match &self.edit.m.types[t] {
                Type::Infer(_) | Type::Error => return false,
                // Those that inference made up have no name.
                Type::Param(p) if !self.bound.contains(p) => return false,
                Type::Func(f) if !f.params.iter().all(|p| self.bound.contains(p)) => return false,
                Type::Func(f) if !f.dims.iter().all(|d| self.spoken.contains(d)) => return false,
                Type::Tensor(t)
                    if matches!(t.shape, Shape::Infer(_))
                        || matches!(t.dtype, relax_ir::DTy::Infer(_))
                        || matches!(t.shape, Shape::Param(p) if !self.bound.contains(&p))
                        || matches!(t.dtype, relax_ir::DTy::Param(p) if !self.bound.contains(&p)) =>
                {
                    return false;
                }
                _ => work.extend(self.edit.m.types.children(t)),
            }
        }
        true
    }

    /// Notes the names that the types of functions in annotations declare.
    pub(super) fn bind_annotations(&mut self) {
        let m = &*self.edit.m;
        let mut work: Vec<TypeId> = m.vars.values().filter_map(|v| v.ty).collect();
        let mut seen = FxHashSet::default();
        while let Some(t) = work.pop() {
            if !seen.insert(t) {
                continue;
            }
            if let Type::Func(f) = &m.types[t] {
                self.bound.extend(f.params.iter().copied());
                self.spoken.extend(f.dims.iter().copied());
            }
            work.extend(m.types.children(t));
        }
    }

    pub(super) fn bind_types(&mut self, func: FuncId) {
        let function = &self.edit.m.funcs[func];
        let (params, dims) = (function.type_params.clone(), function.dims.clone());
        for old in params {
            let param = self.edit.m.types.params[old].clone();
            let new = self.edit.m.types.params.push(param);
            let ty = self.edit.m.types.intern(Type::Param(new));
            self.bound.insert(new);
            self.subst.params.insert(old, new);
            self.subst.types.insert(old, ty);
            self.subst.shapes.insert(old, Shape::Param(new));
            self.subst.dtypes.insert(old, relax_ir::DTy::Param(new));
        }
        for old in dims {
            let info = self.edit.m.dims[old].clone();
            let new = self.edit.m.dims.push(info);
            self.subst.dims.insert(old, Dim::var(new));
        }
    }

    /// Returns the variable of the new program.
    pub(super) fn var(&mut self, old: VarId) -> ExprId {
        if let Some(&e) = self.vars.get(&old) {
            return e;
        }
        let var = self.edit.m.vars[old].clone();
        let ty = self.carried_type(self.typing.vars[old]);
        let ty = self.written(ty).then_some(ty);
        let (new, e) = self.edit.m.fresh_var(var.name, ty, var.style);
        self.edit.m.vars[new].span = var.span;
        self.vars.insert(old, e);
        e
    }

    pub(super) fn var_id(&mut self, old: VarId) -> VarId {
        let e = self.var(old);
        match self.edit.m.exprs[e] {
            Expr::Var(v) => v,
            _ => unreachable!("variables are kept as references"),
        }
    }
}

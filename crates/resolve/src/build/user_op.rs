//! `op` items: user-defined operators with their computation.
//!
//! `compute e` defines each element of the result in terms of the elements at the same index: every
//! tensor in `e` has the result's shape or is a scalar. `compute [%i, %j] => e` names the index and
//! reads elements, `%x[%i, %j]`; there `sum(%k, n, e)` (also `prod`, `maximum`, `minimum`, `all`,
//! `any`) combines `e` over `%k` from 0 to `n`. A reduction within a larger expression becomes a
//! separate stage over only the indices it depends on, so that a row's sum is computed once per
//! row; it cannot depend on the variable of an enclosing reduction. A tensor whose shape is a
//! parameter of kind `Shape` has a single axis over all its elements in the computation. Element
//! types may be parameters of kind `BaseType`.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{AttrValue, OpId, Shape, Type, TypeId, TypeParamId, UserOp, dim_to_ex};
use relax_loops::{
    Buffer, Combiner, Compute, Ex, ExKind, Program, Reduce, Role, Stage, Var, VarInfo, substitute,
    visit_expr,
};
use relax_ops::AttrTy;
use relax_sym::Dim;
use relax_syntax::ast::{self, ExprKind, StmtKind, TypeExprKind};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use super::attr_type::attr_type;
use super::program_cx::{Named, ProgramCx};
use super::{DimMode, Resolver};
use crate::codes;

/// The reductions by name.
pub const REDUCTIONS: &[(&str, Combiner)] = &[
    ("sum", Combiner::Sum),
    ("prod", Combiner::Prod),
    ("maximum", Combiner::Max),
    ("minimum", Combiner::Min),
    ("all", Combiner::And),
    ("any", Combiner::Or),
];

/// The extents of the tensors of an operator, as its program sees them.
#[derive(Default)]
struct Extents {
    /// The number of elements of each shape parameter.
    sizes: FxHashMap<TypeParamId, Ex>,
    vars: FxHashMap<relax_sym::DimVar, Ex>,
}

impl Resolver<'_> {
    /// Declares what calls need before the item is resolved: the number of tensors, and the
    /// attributes.
    pub(crate) fn declare_user_op(&mut self, id: OpId, op: &ast::OpItem) {
        let ast = self.ast;
        let error = self.error_type();
        let mut params = Vec::new();
        let mut attrs: Vec<(Symbol, Symbol, Option<AttrValue>)> = Vec::new();
        for p in ast.list(op.params) {
            let b = ast.binders[p];
            if params
                .iter()
                .any(|q: &(Symbol, TypeId)| b.sigil && q.0 == b.name)
                || attrs.iter().any(|q| !b.sigil && q.0 == b.name)
            {
                let message = format!("parameter `{}` stands twice", b.name);
                self.error(Diagnostic::error(codes::DUPLICATE, b.span, message));
                continue;
            }
            if b.sigil {
                params.push((b.name, error));
                if let Some(default) = b.default {
                    let span = ast.exprs[default].span;
                    let message = "only attributes have defaults";
                    self.error(Diagnostic::error(codes::MISPLACED, span, message));
                }
                continue;
            }
            let ty = b.ty.and_then(|t| match ast.types[t].kind {
                TypeExprKind::Name(name) => attr_type(name).map(|_| name),
                _ => None,
            });
            let Some(ty) = ty else {
                let message = format!("attribute `{}` needs a type", b.name);
                let d = Diagnostic::error(codes::ATTR_TYPE, b.span, message).note(
                    "attributes are numbers (`int64`, `float64`, `bool`), `string`, `dtype`, \
                     `ints` or `floats`",
                );
                self.error(d);
                continue;
            };
            let default = b.default.and_then(|e| self.attr_value(e));
            let default = match (default, attr_type(ty)) {
                (Some(v), Some(want)) => {
                    let fitted = super::attrs::fit(v, want);
                    if fitted.is_none()
                        && let Some(e) = b.default
                    {
                        let message = format!("the default of `{}` is no {ty}", b.name);
                        let span = ast.exprs[e].span;
                        self.error(Diagnostic::error(codes::ATTR_TYPE, span, message));
                    }
                    fitted
                }
                _ => None,
            };
            attrs.push((b.name, ty, default));
        }
        if let Some(i) = id.user_index() {
            let user = &mut self.module.user_ops[i];
            user.params = params;
            user.attrs = attrs;
        }
    }

    /// Resolves an operator's signature and computation.
    pub(crate) fn define_user_op(&mut self, op: &ast::OpItem) {
        let ast = self.ast;
        let Some(i) = self.user_ops.get(&op.name).and_then(|id| id.user_index()) else {
            return;
        };
        let mark = self.scopes.enter();
        let binders = self.type_params(op.type_params);
        let old = std::mem::replace(&mut self.dim_mode, DimMode::Bind);
        let mut types = Vec::new();
        for p in ast.list(op.params) {
            let b = ast.binders[p];
            if !b.sigil {
                continue;
            }
            let ty = match b.ty.and_then(|t| self.annotation(t)) {
                Some(ty) => ty,
                None => self.unknown_type(),
            };
            types.push((b.name, ty));
        }
        let ret = op.ret.and_then(|t| self.annotation(t));
        let constraints = ast
            .list(op.relations)
            .filter_map(|t| self.constraint(t))
            .collect();
        self.dim_mode = old;
        let mut dims = binders.dims;
        dims.append(&mut self.new_dims);
        {
            let user = &mut self.module.user_ops[i];
            for param in &mut user.params {
                if let Some(&(_, ty)) = types.iter().find(|t| t.0 == param.0) {
                    param.1 = ty;
                }
            }
            user.type_params = binders.params;
            user.dims = dims;
            user.ret = ret;
            user.constraints = constraints;
        }
        let user = self.module.user_ops[i].clone();
        if let Some((program, attr_vars)) = self.computation(op, &user) {
            self.module.user_ops[i].program = Some(std::sync::Arc::new(program));
            self.module.user_ops[i].attr_vars = attr_vars;
        }
        self.elements = Default::default();
        self.scopes.leave(mark);
    }

    fn op_error<T>(&mut self, span: Span, message: &str) -> Option<T> {
        self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
        None
    }

    /// Resolves the computation of an operator; `None` after an error.
    fn computation(&mut self, op: &ast::OpItem, user: &UserOp) -> Option<(Program, Vec<Var>)> {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[op.body];
        let ExprKind::Block { stmts, .. } = kind else {
            return None;
        };
        let all: Vec<ast::StmtId> = ast.list(stmts).collect();
        let [stmt] = all[..] else {
            return self.op_error(span, "an operator has one `compute`");
        };
        let StmtKind::Compute { indices, value } = ast.stmts[stmt].kind else {
            if ast.stmts[stmt].kind == StmtKind::Error {
                return None;
            }
            return self.op_error(ast.stmts[stmt].span, "an operator has one `compute`");
        };
        if !self.enter_elements(user) {
            return self.op_error(span, "an operator has at most 255 element types");
        }
        let mut cx = ProgramCx::new(op.name, user.span);
        let mut extents = Extents::default();
        // Dimension variables keep their names.
        let types: Vec<TypeId> = user.params.iter().map(|p| p.1).collect();
        let binders = ast.list(op.params).filter(|&b| ast.binders[b].sigil);
        for ((name, ty), b) in user.params.iter().zip(binders) {
            let place = ast.binders[b].span;
            let (shape, dtype) = self.op_tensor(&mut cx, &mut extents, *ty, place)?;
            let buf = cx.program.bufs.push(Buffer {
                name: *name,
                dtype,
                shape,
                role: Role::Input,
            });
            cx.program.inputs.push(buf);
            cx.bind(*name, Named::Buf(buf));
        }
        let mut attr_vars = Vec::new();
        for (name, ty, _) in &user.attrs {
            let dtype = ty.as_str().parse().unwrap_or(DType::I64);
            let var = cx.program.vars.push(VarInfo { name: *name, dtype });
            attr_vars.push(var);
            if matches!(
                attr_type(*ty),
                Some(AttrTy::Int | AttrTy::Float | AttrTy::Bool)
            ) {
                cx.attrs.insert(*name, var);
            }
        }
        // The result type: as annotated, or that of the first argument where a relation determines
        // it.
        let result = user.ret.or_else(|| types.first().copied());
        let Some(result) = result else {
            return self.op_error(span, "the result type of this operator must be written");
        };
        let place = op.ret.map_or(span, |t| ast.types[t].span);
        let (shape, dtype) = self.op_tensor(&mut cx, &mut extents, result, place)?;
        self.numbers_like(dtype);
        let mut axes = Vec::new();
        if indices.is_empty() {
            let index = (0..shape.len()).map(|k| {
                let (var, ex) = cx.program.fresh(&format!("i{k}"), DType::I64);
                axes.push(var);
                ex
            });
            cx.element = Some(index.collect());
        } else {
            if indices.len() != shape.len() {
                let message = format!(
                    "the result has rank {}, {} indices are named",
                    shape.len(),
                    indices.len()
                );
                return self.op_error(ast.stmts[stmt].span, &message);
            }
            for b in ast.list(indices) {
                let name = ast.binders[b].name;
                let dtype = DType::I64;
                let var = cx.program.vars.push(VarInfo { name, dtype });
                cx.bind(name, Named::Var(var));
                axes.push(var);
            }
            let box_ = Vec::from_iter(axes.iter().copied().zip(shape.iter().cloned()));
            self.inner_reductions(&mut cx, value, &box_)?;
        }
        let (reduce, value) = self.reduction(&mut cx, value)?;
        let value = self.scalar(&cx, value, Some(dtype))?;
        let out = cx.program.bufs.push(Buffer {
            name: Symbol::new("out"),
            dtype,
            shape,
            role: Role::Output,
        });
        cx.program.outputs.push(out);
        cx.program.stages.push(Stage::Compute(Compute {
            out,
            axes,
            reduce,
            value,
        }));
        let sound = self.check_elements(&cx.program, ast.stmts[stmt].span);
        sound.then_some((cx.program, attr_vars))
    }

    /// Returns extents and element type of a tensor in the signature.
    fn op_tensor(
        &mut self,
        cx: &mut ProgramCx,
        extents: &mut Extents,
        ty: TypeId,
        span: Span,
    ) -> Option<(Vec<Ex>, DType)> {
        let tensor = match &self.module.types[ty] {
            Type::Tensor(t) => t.clone(),
            Type::Error => return None,
            _ => return self.op_error(span, "a computation takes and gives tensors"),
        };
        let Some(dtype) = self.program_element(tensor.dtype) else {
            let message = "a computation needs element types: one of its own, or a parameter";
            return self.op_error(span, message);
        };
        if dtype.lanes != 1 {
            return self.op_error(span, "a computation does not know vector element types");
        }
        let shape = match tensor.shape {
            Shape::Dims(dims) => {
                let mut out = Vec::with_capacity(dims.len());
                for d in &dims {
                    match self.dim_extent(cx, extents, d) {
                        Some(e) => out.push(e),
                        None => {
                            let message = "the extents of a computation are known: `?` is none";
                            return self.op_error(span, message);
                        }
                    }
                }
                out
            }
            Shape::Param(p) => {
                let name = self.module.types.params[p].name;
                let size = extents.sizes.entry(p).or_insert_with(|| {
                    let (var, ex) = cx.program.fresh(name.as_str(), DType::I64);
                    cx.program.dims.push(var);
                    ex
                });
                vec![size.clone()]
            }
            Shape::Unknown | Shape::Infer(_) => {
                return self.op_error(span, "a computation needs known ranks");
            }
        };
        Some((shape, dtype))
    }

    /// Converts a dimension to a scalar expression; `None` if it has no value.
    fn dim_extent(&mut self, cx: &mut ProgramCx, extents: &mut Extents, d: &Dim) -> Option<Ex> {
        for v in d.free_vars() {
            let name = self.module.dims[v].name;
            extents.vars.entry(v).or_insert_with(|| {
                let (var, ex) = cx.program.fresh(name.as_str(), DType::I64);
                cx.program.dims.push(var);
                cx.dims.insert(name, var);
                ex
            });
        }
        dim_to_ex(d, |v| extents.vars.get(&v).cloned())
    }

    /// Resolves an outermost reduction, `sum(%k, n, e)` with any number of variables, and its
    /// operand.
    fn reduction(
        &mut self,
        cx: &mut ProgramCx,
        value: ast::ExprId,
    ) -> Option<(Option<Reduce>, ast::ExprId)> {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[value];
        let ExprKind::Call { callee, args, .. } = kind else {
            return Some((None, value));
        };
        let name = self.plain_name(callee);
        let Some((_, combiner)) = REDUCTIONS.iter().find(|r| name.is_some_and(|n| n == r.0)) else {
            return Some((None, value));
        };
        let args: Vec<ast::ExprId> = ast.list(args).collect();
        if args.len() < 3 || args.len().is_multiple_of(2) {
            let message = "a reduction is written `sum(%k, n, e)`: variables, each with its \
                           extent, then what is combined";
            return self.op_error(span, message);
        }
        let (pairs, last) = args.split_at(args.len() - 1);
        let mut axes = Vec::new();
        for pair in pairs.chunks_exact(2) {
            let ExprKind::Local(name) = ast.exprs[pair[0]].kind else {
                return self.op_error(ast.exprs[pair[0]].span, "a variable stands here: `%k`");
            };
            let extent = self.index_expr(cx, pair[1])?;
            let dtype = DType::I64;
            let var = cx.program.vars.push(VarInfo { name, dtype });
            cx.bind(name, Named::Var(var));
            axes.push((var, extent));
        }
        let combiner = *combiner;
        Some((Some(Reduce { axes, combiner }), last[0]))
    }

    /// Extracts each reduction strictly inside an expression into a stage with a buffer of its own,
    /// innermost first. `axes` are the indices of the result with their extents.
    fn inner_reductions(
        &mut self,
        cx: &mut ProgramCx,
        root: ast::ExprId,
        axes: &[(Var, Ex)],
    ) -> Option<()> {
        for e in self.reductions_in(root) {
            let mark = cx.undo.len();
            let (reduce, value) = self.reduction(cx, e)?;
            let value = self.scalar(cx, value, None)?;
            cx.leave(mark);
            let reduce = reduce?;
            let mut used = FxHashSet::default();
            let extents = reduce.axes.iter().map(|a| &a.1);
            for ex in extents.chain([&value]) {
                visit_expr(ex, |x| {
                    if let ExKind::Var(v) = x.kind() {
                        used.insert(*v);
                    }
                });
            }
            // The stage has its own variables for the result's indices.
            let (mut own, mut index, mut shape) = (Vec::new(), Vec::new(), Vec::new());
            let mut renamed = FxHashMap::default();
            for (var, extent) in axes.iter().filter(|a| used.contains(&a.0)) {
                let info = cx.program.vars[*var].clone();
                let new = cx.program.vars.push(info);
                renamed.insert(*var, cx.var(new));
                own.push(new);
                index.push(cx.var(*var));
                shape.push(extent.clone());
            }
            let of = |v: Var| renamed.get(&v).cloned();
            let value = substitute(&value, &of);
            let combiner = reduce.combiner;
            let axes = reduce.axes.iter().map(|(v, n)| (*v, substitute(n, &of)));
            let reduce = Some(Reduce {
                axes: axes.collect(),
                combiner,
            });
            let dtype = value.dtype();
            let name = Symbol::new(&format!("part{}", cx.program.stages.len()));
            let out = cx.program.bufs.push(Buffer {
                name,
                dtype,
                shape,
                role: Role::Temp,
            });
            cx.program.stages.push(Stage::Compute(Compute {
                out,
                axes: own,
                reduce,
                value,
            }));
            cx.reduced
                .insert(e, Ex::new(ExKind::Load(out, index), dtype));
        }
        Some(())
    }

    /// Collects the reductions strictly inside an expression, innermost first.
    fn reductions_in(&self, root: ast::ExprId) -> Vec<ast::ExprId> {
        let ast = self.ast;
        let mut found = Vec::new();
        let mut work = vec![root];
        while let Some(e) = work.pop() {
            match ast.exprs[e].kind {
                ExprKind::Paren(inner, _) => work.push(inner),
                ExprKind::Block { tail, .. } => work.extend(tail),
                ExprKind::Index { indices, .. } => work.extend(ast.list(indices)),
                ExprKind::Binary { lhs, rhs, .. } => work.extend([lhs, rhs]),
                ExprKind::If {
                    cond,
                    then,
                    otherwise,
                } => work.extend([cond, then].into_iter().chain(otherwise)),
                ExprKind::Call { callee, args, .. } => {
                    let name = self.plain_name(callee);
                    let reduces = |n: Symbol| REDUCTIONS.iter().any(|r| n == r.0);
                    if e != root && name.is_some_and(reduces) {
                        found.push(e);
                    }
                    work.extend(ast.list(args));
                }
                _ => {}
            }
        }
        // Nested reductions were found after the enclosing ones.
        found.reverse();
        found
    }
}

//! `rel` items, and the Prolog-like clauses of TVM's documentation.
//!
//! Names are bound at their first occurrence, and their position determines their kind: an element
//! of a shape is a dimension, `*rest` and a whole shape are shapes, the second argument of `Tensor`
//! is an element type, everything else is a type.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{
    DTypePattern, Kind, RelationDef, ShapeItem, ShapePattern, TypeParamId, TypePattern,
};
use relax_sym::DimVar;
use relax_syntax::ast::{self, TypeExprKind, TypeOp};

use super::scope::TypeName;
use super::{DimMode, Resolver};
use crate::codes;

/// The maximum nesting depth of patterns: they own their parts, and dropping them recurses.
const DEEPEST: u32 = 64;

/// The relation being resolved.
#[derive(Default)]
struct Clause {
    params: Vec<TypeParamId>,
    /// Conditions of the form `O = T`.
    meanings: Vec<(Symbol, ast::TypeId)>,
}

/// An element or slice of a shape, `sh[0]` or `sh[1:]`.
enum Part {
    Pick(i64),
    Slice(Option<i64>, Option<i64>),
}

impl Resolver<'_> {
    /// Resolves a relation; `None` after an error.
    pub(crate) fn relation_def(&mut self, rel: &ast::RelItem, span: Span) -> Option<RelationDef> {
        let mark = self.scopes.enter();
        let old = std::mem::replace(&mut self.dim_mode, DimMode::Bind);
        let def = self.relation_parts(rel, span);
        self.dim_mode = old;
        self.scopes.leave(mark);
        let dims: Vec<DimVar> = std::mem::take(&mut self.new_dims);
        let (args, ret, params) = def?;
        Some(RelationDef {
            name: rel.name,
            span: self.at(span),
            params,
            dims,
            args,
            ret,
            prelude: !self.places,
        })
    }

    fn relation_parts(
        &mut self,
        rel: &ast::RelItem,
        span: Span,
    ) -> Option<(Vec<TypePattern>, TypePattern, Vec<TypeParamId>)> {
        let ast = self.ast;
        let mut clause = Clause::default();
        let mut good = true;
        for goal in ast.list(rel.goals) {
            let ast::TypeExpr { kind, span } = ast.types[goal];
            match kind {
                TypeExprKind::Name(name) if name == "true" || name == "True" => {}
                TypeExprKind::Binary {
                    op: TypeOp::Is | TypeOp::Eq,
                    lhs,
                    rhs,
                } if matches!(ast.types[lhs].kind, TypeExprKind::Name(_)) => {
                    if let TypeExprKind::Name(name) = ast.types[lhs].kind {
                        clause.meanings.push((name, rhs));
                    }
                }
                TypeExprKind::Error => good = false,
                _ => {
                    let message = "a condition is `true` or says what a name is: `O = Tensor[…]`";
                    self.error(Diagnostic::error(codes::RELATION, span, message));
                    good = false;
                }
            }
        }
        let mut terms: Vec<ast::TypeId> = ast.list(rel.params).collect();
        let result = match rel.ret {
            Some(ret) => Some(ret),
            // The last term of a clause is the result.
            None if rel.prolog => terms.pop(),
            None => None,
        };
        if terms.is_empty() && result.is_none() {
            let message = "a relation relates at least a result";
            self.error(Diagnostic::error(codes::RELATION, span, message));
            return None;
        }
        let mut args = Vec::with_capacity(terms.len());
        for t in terms {
            match self.rel_type(&mut clause, t, 0) {
                Some(p) => args.push(p),
                None => good = false,
            }
        }
        let ret = match result {
            Some(t) => self.rel_type(&mut clause, t, 0)?,
            None => TypePattern::Any,
        };
        good.then_some((args, ret, clause.params))
    }

    fn rel_error<T>(&mut self, span: Span, message: &str) -> Option<T> {
        self.error(Diagnostic::error(codes::RELATION, span, message));
        None
    }

    /// Returns the parameter of this name, created at its first occurrence; reports an error if the
    /// name has another kind.
    fn rel_param(
        &mut self,
        clause: &mut Clause,
        name: Symbol,
        kind: Kind,
        span: Span,
    ) -> Option<TypeParamId> {
        match self.scopes.type_name(name) {
            Some(TypeName::Param(p)) if self.module.types.params[p].kind == kind => Some(p),
            Some(what) => {
                let is = match what {
                    TypeName::Param(p) => self.module.types.params[p].kind,
                    TypeName::Dim(_) => Kind::ShapeVar,
                };
                let message = format!("`{name}` has kind {is} before and {kind} here");
                self.error(Diagnostic::error(codes::KIND, span, message));
                None
            }
            None => {
                let p = self.module.types.param(name, kind);
                self.scopes.bind_type(name, TypeName::Param(p));
                clause.params.push(p);
                Some(p)
            }
        }
    }

    /// Resolves a type. The recursion is bounded by [`DEEPEST`].
    fn rel_type(&mut self, clause: &mut Clause, t: ast::TypeId, depth: u32) -> Option<TypePattern> {
        let ast = self.ast;
        let ast::TypeExpr { kind, span } = ast.types[t];
        if depth > DEEPEST {
            return self.rel_error(span, "the terms of a relation nest too deeply");
        }
        match kind {
            TypeExprKind::Error => None,
            TypeExprKind::Hole => Some(TypePattern::Any),
            TypeExprKind::Name(name) => {
                if let Some(&(_, term)) = clause.meanings.iter().find(|m| m.0 == name) {
                    return self.rel_type(clause, term, depth + 1);
                }
                if self.scopes.type_name(name).is_none() {
                    if let Some(dtype) = self.dtype(name) {
                        let (shape, dtype) =
                            (ShapePattern::Items(vec![]), DTypePattern::Known(dtype));
                        return Some(TypePattern::Tensor(shape, dtype));
                    }
                    if let Some(adt) = self.adt_named(name) {
                        return Some(TypePattern::Adt(adt, Vec::new()));
                    }
                }
                let p = self.rel_param(clause, name, Kind::Type, span)?;
                Some(TypePattern::Param(p))
            }
            TypeExprKind::Tuple { items, .. } => {
                let items: Option<Vec<_>> = ast
                    .list(items)
                    .map(|i| self.rel_type(clause, i, depth + 1))
                    .collect();
                Some(TypePattern::Tuple(items?))
            }
            TypeExprKind::Apply { head, args } | TypeExprKind::Call { head, args } => {
                let TypeExprKind::Name(name) = ast.types[head].kind else {
                    return self.rel_error(span, "a term is a tensor, a shape, a tuple or a type");
                };
                match name.as_str() {
                    "Tensor" => self.rel_tensor(clause, args, span, depth),
                    "Shape" => match ast.nth(args, 0) {
                        Some(s) if args.len() == 1 => {
                            Some(TypePattern::Shape(self.rel_shape(clause, s, depth + 1)?))
                        }
                        _ => self.rel_error(span, "a shape type has one shape: `Shape[s]`"),
                    },
                    _ => {
                        let Some(adt) = self.adt_named(name) else {
                            let message = format!("there is no type `{name}`");
                            self.error(Diagnostic::error(codes::UNKNOWN_TYPE, span, message));
                            return None;
                        };
                        let args: Option<Vec<_>> = ast
                            .list(args)
                            .map(|a| self.rel_type(clause, a, depth + 1))
                            .collect();
                        Some(TypePattern::Adt(adt, args?))
                    }
                }
            }
            _ => self.rel_error(span, "a term is a tensor, a shape, a tuple or a type"),
        }
    }

    fn rel_tensor(
        &mut self,
        clause: &mut Clause,
        args: ast::List<ast::TypeId>,
        span: Span,
        depth: u32,
    ) -> Option<TypePattern> {
        let ast = self.ast;
        let names_dtype = |t: ast::TypeId| {
            matches!(
                ast.types[t].kind,
                TypeExprKind::Name(_) | TypeExprKind::Hole
            )
        };
        match (ast.nth(args, 0), ast.nth(args, 1), args.len()) {
            (Some(shape), Some(dtype), 2) if names_dtype(dtype) => {
                let shape = self.rel_shape(clause, shape, depth + 1)?;
                let dtype = self.rel_dtype(clause, dtype)?;
                Some(TypePattern::Tensor(shape, dtype))
            }
            // TVM's documentation writes just the dimensions, `Tensor(sh[0], prod(sh[1:]))`; the
            // element type is then the one known to the clause.
            (Some(_), _, _) => {
                let items: Option<Vec<_>> =
                    ast.list(args).map(|a| self.rel_item(clause, a)).collect();
                let params = &self.module.types.params;
                let mut known = clause
                    .params
                    .iter()
                    .filter(|&&p| params[p].kind == Kind::BaseType);
                let dtype = match (known.next(), known.next()) {
                    (Some(&p), None) => DTypePattern::Param(p),
                    _ => DTypePattern::Any,
                };
                Some(TypePattern::Tensor(ShapePattern::Items(items?), dtype))
            }
            _ => self.rel_error(span, "a tensor has a shape and an element type"),
        }
    }

    fn rel_dtype(&mut self, clause: &mut Clause, t: ast::TypeId) -> Option<DTypePattern> {
        let ast::TypeExpr { kind, span } = self.ast.types[t];
        let TypeExprKind::Name(name) = kind else {
            return Some(DTypePattern::Any);
        };
        if self.scopes.type_name(name).is_none()
            && let Some(dtype) = self.dtype(name)
        {
            return Some(DTypePattern::Known(dtype));
        }
        let p = self.rel_param(clause, name, Kind::BaseType, span)?;
        Some(DTypePattern::Param(p))
    }

    fn rel_shape(
        &mut self,
        clause: &mut Clause,
        t: ast::TypeId,
        depth: u32,
    ) -> Option<ShapePattern> {
        let ast = self.ast;
        let ast::TypeExpr { kind, span } = ast.types[t];
        if depth > DEEPEST {
            return self.rel_error(span, "the terms of a relation nest too deeply");
        }
        match kind {
            TypeExprKind::Error => None,
            TypeExprKind::Hole => Some(ShapePattern::Any),
            TypeExprKind::Name(name) => {
                let p = self.rel_param(clause, name, Kind::Shape, span)?;
                Some(ShapePattern::Param(p))
            }
            TypeExprKind::Tuple { items, .. } => {
                let items: Option<Vec<_>> =
                    ast.list(items).map(|i| self.rel_item(clause, i)).collect();
                Some(ShapePattern::Items(items?))
            }
            TypeExprKind::Call { head, args }
                if ast.types[head].kind == TypeExprKind::Name(Symbol::new("broadcast")) =>
            {
                let (Some(a), Some(b), 2) = (ast.nth(args, 0), ast.nth(args, 1), args.len()) else {
                    return self.rel_error(span, "`broadcast` takes two shapes");
                };
                let a = self.rel_shape(clause, a, depth + 1)?;
                let b = self.rel_shape(clause, b, depth + 1)?;
                Some(ShapePattern::Broadcast(Box::new((a, b))))
            }
            TypeExprKind::Apply { .. } => {
                Some(ShapePattern::Items(vec![self.rel_item(clause, t)?]))
            }
            _ => self.rel_error(
                span,
                "a shape is a list of dimensions, a name or `broadcast(a, b)`",
            ),
        }
    }

    /// Resolves an element or slice of a shape: `sh[0]`, `sh[1:]`.
    fn rel_part(&mut self, clause: &mut Clause, t: ast::TypeId) -> Option<(TypeParamId, Part)> {
        let ast = self.ast;
        let ast::TypeExpr { kind, span } = ast.types[t];
        let number = |t: ast::TypeId| match ast.types[t].kind {
            TypeExprKind::Int { value, .. } => Some(value),
            TypeExprKind::Neg(inner) => match ast.types[inner].kind {
                TypeExprKind::Int { value, .. } => value.checked_neg(),
                _ => None,
            },
            _ => None,
        };
        let TypeExprKind::Apply { head, args } = kind else {
            return self.rel_error(span, "a part of a shape is written `sh[0]` or `sh[1:]`");
        };
        let (TypeExprKind::Name(name), Some(index), 1) =
            (ast.types[head].kind, ast.nth(args, 0), args.len())
        else {
            return self.rel_error(span, "a part of a shape is written `sh[0]` or `sh[1:]`");
        };
        let p = self.rel_param(clause, name, Kind::Shape, ast.types[head].span)?;
        let part = match ast.types[index].kind {
            TypeExprKind::Slice { from, to } => {
                let end = |t: Option<ast::TypeId>| match t {
                    None => Some(None),
                    Some(t) => number(t).map(Some),
                };
                match (end(from), end(to)) {
                    (Some(from), Some(to)) => Some(Part::Slice(from, to)),
                    _ => None,
                }
            }
            _ => number(index).map(Part::Pick),
        };
        match part {
            Some(part) => Some((p, part)),
            None => self.rel_error(span, "positions in a shape are numbers"),
        }
    }

    /// Resolves an item of a shape.
    fn rel_item(&mut self, clause: &mut Clause, t: ast::TypeId) -> Option<ShapeItem> {
        let ast = self.ast;
        let ast::TypeExpr { kind, span } = ast.types[t];
        match kind {
            TypeExprKind::Rest(inner) => {
                if let ast::TypeExpr {
                    kind: TypeExprKind::Name(name),
                    span,
                } = ast.types[inner]
                {
                    let p = self.rel_param(clause, name, Kind::Shape, span)?;
                    return Some(ShapeItem::Rest(p));
                }
                match self.rel_part(clause, inner)? {
                    (p, Part::Slice(from, to)) => Some(ShapeItem::Slice(p, from, to)),
                    (_, Part::Pick(_)) => self.rel_error(span, "`*` stands before a shape"),
                }
            }
            TypeExprKind::Call { head, args }
                if ast.types[head].kind == TypeExprKind::Name(Symbol::new("prod")) =>
            {
                let Some(arg) = ast.nth(args, 0).filter(|_| args.len() == 1) else {
                    return self.rel_error(span, "`prod` takes one shape");
                };
                if let ast::TypeExpr {
                    kind: TypeExprKind::Name(name),
                    span,
                } = ast.types[arg]
                {
                    let p = self.rel_param(clause, name, Kind::Shape, span)?;
                    return Some(ShapeItem::Prod(p));
                }
                match self.rel_part(clause, arg)? {
                    (p, Part::Slice(from, to)) => Some(ShapeItem::ProdSlice(p, from, to)),
                    (p, Part::Pick(i)) => Some(ShapeItem::Pick(p, i)),
                }
            }
            TypeExprKind::Apply { .. } => match self.rel_part(clause, t)? {
                (p, Part::Pick(i)) => Some(ShapeItem::Pick(p, i)),
                (p, Part::Slice(from, to)) => Some(ShapeItem::Slice(p, from, to)),
            },
            _ => {
                let dim = self.dim(t);
                dim.error().is_none().then_some(ShapeItem::Dim(dim))
            }
        }
    }
}

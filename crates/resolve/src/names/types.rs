//! Names in types, shapes, dimensions and relations.

use relax_base::{Span, Symbol};
use relax_syntax::ast::{self, TypeExprKind};

use super::{NameKind, Walk};

/// The syntactic position of a term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Type,
    Shape,
    Dim,
    DType,
    /// A term of a relation: names without another meaning are its own parameters.
    Term,
    /// The name of a relation.
    Relation,
}

/// A step of the traversal of a term.
enum Step {
    Look(ast::TypeId, Place),
    Leave(super::Mark, bool),
}

impl Walk<'_> {
    pub(super) fn type_params(&mut self, list: ast::List<ast::TypeParamId>) {
        for p in self.ast.list(list) {
            let ast::TypeParam { name, kind, span } = self.ast.type_params[p];
            let place = Self::head(span, name.as_str().len());
            let is = match kind {
                Some(k) if k == "ShapeVar" => NameKind::Dim,
                _ => NameKind::TypeParam,
            };
            self.push(place, name, is, Some(place));
            self.scope.bind_type(name, (is, place));
        }
    }

    pub(super) fn ty(&mut self, t: ast::TypeId) {
        self.term(t, Place::Type);
    }

    pub(super) fn types(&mut self, list: ast::List<ast::TypeId>) {
        for t in self.ast.list(list) {
            self.ty(t);
        }
    }

    pub(super) fn dims(&mut self, list: ast::List<ast::TypeId>) {
        for t in self.ast.list(list) {
            self.term(t, Place::Dim);
        }
    }

    /// Visits the relations after `where`.
    pub(super) fn constraints(&mut self, list: ast::List<ast::TypeId>) {
        for t in self.ast.list(list) {
            self.term(t, Place::Relation);
        }
    }

    /// Visits the terms of a `rel` item. Conditions define names, so their left sides bind nothing.
    pub(super) fn relation(&mut self, rel: &ast::RelItem) {
        for t in self.ast.list(rel.params).chain(rel.ret) {
            self.term(t, Place::Term);
        }
        for t in self.ast.list(rel.goals) {
            self.term(t, Place::Term);
        }
    }

    fn name(&mut self, name: Symbol, span: Span, place: Place) {
        if place == Place::Relation {
            return self.push(span, name, NameKind::Relation, None);
        }
        if let Some((kind, binding)) = self.scope.type_name(name) {
            return self.push(span, name, kind, Some(binding));
        }
        let text = name.as_str();
        let built_in = text.parse::<relax_tensor::DType>().is_ok()
            || matches!(
                text,
                "Tensor"
                    | "Shape"
                    | "Buffer"
                    | "Object"
                    | "min"
                    | "max"
                    | "prod"
                    | "broadcast"
                    | "True"
                    | "true"
                    | "False"
                    | "void"
            );
        match place {
            Place::Dim if self.bind_dims => {
                self.push(span, name, NameKind::Dim, Some(span));
                self.scope.bind_type(name, (NameKind::Dim, span));
            }
            Place::Term if !built_in && !self.declared.contains(&name) => {
                self.push(span, name, NameKind::TypeParam, Some(span));
                self.scope.bind_type(name, (NameKind::TypeParam, span));
            }
            Place::Dim => self.push(span, name, NameKind::Dim, None),
            _ if !built_in => self.push(span, name, NameKind::Type, None),
            _ => {}
        }
    }

    fn term(&mut self, t: ast::TypeId, place: Place) {
        let ast = self.ast;
        let mut steps = vec![Step::Look(t, place)];
        while let Some(step) = steps.pop() {
            let (t, place) = match step {
                Step::Look(t, place) => (t, place),
                Step::Leave(mark, bind) => {
                    self.scope.leave(mark);
                    self.bind_dims = bind;
                    continue;
                }
            };
            let ast::TypeExpr { kind, span } = ast.types[t];
            match kind {
                TypeExprKind::Name(name) => self.name(name, span, place),
                TypeExprKind::Apply { head, args } | TypeExprKind::Call { head, args } => {
                    let text = match ast.types[head].kind {
                        TypeExprKind::Name(name) => name.as_str(),
                        _ => "",
                    };
                    let inner = match (place, text) {
                        (Place::Relation, _) => Place::Type,
                        (Place::Term, _) => Place::Term,
                        (_, "min" | "max" | "prod") => Place::Dim,
                        _ => place,
                    };
                    let tensor = matches!(text, "Tensor" | "Buffer" | "Shape");
                    let at = |i: usize| match (i, place) {
                        (_, Place::Term) => Place::Term,
                        (0, _) if tensor => Place::Shape,
                        (_, _) if tensor => Place::DType,
                        _ => inner,
                    };
                    let parts: Vec<_> = ast.list(args).enumerate().collect();
                    let parts = parts.into_iter().rev();
                    steps.extend(parts.map(|(i, t)| Step::Look(t, at(i))));
                    steps.push(Step::Look(head, place));
                }
                TypeExprKind::Tuple { items, comma } => {
                    // A lone shape parameter in parentheses is the parameter itself.
                    let inner = match place {
                        Place::Shape => Place::Dim,
                        other => other,
                    };
                    let _ = comma;
                    steps.extend(ast.list(items).rev().map(|t| Step::Look(t, inner)));
                }
                TypeExprKind::Fn {
                    type_params,
                    signature,
                    relations,
                    ..
                } => {
                    steps.push(Step::Leave(self.scope.enter(), self.bind_dims));
                    self.type_params(type_params);
                    self.bind_dims = true;
                    let (args, ret, relations) = ast.fn_type(signature, relations);
                    let relations = ast.list(relations).rev();
                    steps.extend(relations.map(|t| Step::Look(t, Place::Relation)));
                    steps.push(Step::Look(ret, Place::Type));
                    steps.extend(ast.list(args).rev().map(|t| Step::Look(t, Place::Type)));
                }
                TypeExprKind::Binary { lhs, rhs, .. } => {
                    let inner = if place == Place::Term {
                        place
                    } else {
                        Place::Dim
                    };
                    steps.push(Step::Look(rhs, inner));
                    steps.push(Step::Look(lhs, inner));
                }
                TypeExprKind::Neg(t) => steps.push(Step::Look(t, Place::Dim)),
                TypeExprKind::Rest(t) => {
                    let inner = if place == Place::Dim {
                        Place::Term
                    } else {
                        place
                    };
                    steps.push(Step::Look(t, inner));
                }
                TypeExprKind::Ref(t) => steps.push(Step::Look(t, place)),
                TypeExprKind::Slice { from, to } => {
                    steps.extend(to.into_iter().chain(from).map(|t| Step::Look(t, place)));
                }
                TypeExprKind::Error
                | TypeExprKind::Hole
                | TypeExprKind::Any
                | TypeExprKind::Int { .. }
                | TypeExprKind::Meta(_) => {}
            }
        }
    }
}

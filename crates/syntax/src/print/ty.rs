//! Types, shapes, dimensions.

use super::emit::{Emitter, Work};
use crate::ast::*;

impl Emitter<'_> {
    pub(super) fn ty(&mut self, t: TypeId) {
        let ast = self.ast;
        let TypeExpr { kind, span } = ast.types[t];
        match kind {
            TypeExprKind::Error => self.literal(span, "_"),
            TypeExprKind::Hole => self.sink.tok("_"),
            TypeExprKind::Any => self.sink.tok("?"),
            TypeExprKind::Int { value, suffix } => {
                self.literal(span, &format!("{value}{suffix}"));
            }
            TypeExprKind::Name(n) => self.literal(span, n.as_str()),
            TypeExprKind::Apply { head, args } => {
                self.listed("[", ast.list(args).map(Work::Type), "]", false);
                self.type_operand(head, 9);
            }
            TypeExprKind::Call { head, args } => {
                self.listed("(", ast.list(args).map(Work::Type), ")", false);
                self.type_operand(head, 9);
            }
            TypeExprKind::Tuple { items, comma } => {
                let items = ast.list(items).map(Work::Type);
                if items.len() == 1 && !comma {
                    // A comma would change the type.
                    self.inline("(", items, ")", false);
                } else {
                    self.listed("(", items, ")", comma);
                }
            }
            TypeExprKind::Fn {
                type_params,
                angle,
                signature,
                relations,
            } => {
                let (params, ret, relations) = ast.fn_type(signature, relations);
                for r in ast.list(relations).rev() {
                    self.then(&[Work::Space, Work::tok("where"), Work::Space, Work::Type(r)]);
                }
                self.then(&[Work::Space, Work::tok("->"), Work::Space, Work::Type(ret)]);
                self.listed("(", ast.list(params).map(Work::Type), ")", false);
                self.type_params(type_params, angle);
                self.then(&[Work::tok("fn"), Work::Space]);
            }
            TypeExprKind::Ref(t) => self.then(&[
                Work::tok("ref"),
                Work::tok("("),
                Work::Type(t),
                Work::tok(")"),
            ]),
            TypeExprKind::Binary { op, lhs, rhs } => {
                let p = op.precedence();
                self.type_operand(rhs, p + 1);
                self.then(&[Work::Space, Work::tok(op.as_str()), Work::Space]);
                self.type_operand(lhs, p);
            }
            TypeExprKind::Neg(t) => {
                self.type_operand(t, 9);
                self.work.push(Work::tok("-"));
            }
            TypeExprKind::Rest(t) => {
                self.type_operand(t, 9);
                self.work.push(Work::tok("*"));
            }
            TypeExprKind::Slice { from, to } => {
                self.work.extend(to.map(Work::Type));
                self.work.push(Work::tok(":"));
                self.work.extend(from.map(Work::Type));
            }
            TypeExprKind::Meta(e) => self.work.push(Work::Expr(e)),
        }
    }

    /// Prints an operand, in parentheses if it binds weaker than `least`.
    fn type_operand(&mut self, t: TypeId, least: u8) {
        let loose = matches!(self.ast.types[t].kind,
            TypeExprKind::Binary { op, .. } if op.precedence() < least);
        if loose {
            self.then(&[Work::tok("("), Work::Type(t), Work::tok(")")]);
        } else {
            self.work.push(Work::Type(t));
        }
    }

    /// Prints `[A, B: Shape]`, or nothing if there are none.
    pub(super) fn type_params(&mut self, params: List<TypeParamId>, angle: bool) {
        if params.is_empty() {
            return;
        }
        let (open, close) = if angle && !self.tvm() {
            ("<", ">")
        } else {
            ("[", "]")
        };
        let items = self.ast.list(params).map(Work::TypeParam);
        self.listed(open, items, close, false);
    }

    pub(super) fn type_param(&mut self, p: TypeParamId) {
        let TypeParam { name, kind, .. } = self.ast.type_params[p];
        if let Some(kind) = kind {
            self.then(&[Work::tok(":"), Work::Space, Work::Name(kind)]);
        }
        self.sink.tok(name.as_str());
    }
}

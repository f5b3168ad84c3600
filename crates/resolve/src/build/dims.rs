//! Resolution of dimension expressions.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::DimInfo;
use relax_sym::{Dim, DimError};
use relax_syntax::ast::{self, TypeExprKind, TypeOp};

use super::scope::TypeName;
use super::{DimMode, Resolver};
use crate::codes;

/// A step of the traversal.
enum Step {
    Look(ast::TypeId),
    Finish(ast::TypeId, usize),
}

impl Resolver<'_> {
    /// Resolves a dimension; after a reported error the result is one without a value.
    pub(crate) fn dim(&mut self, t: ast::TypeId) -> Dim {
        let span = self.ast.types[t].span;
        let mut failed = false;
        let dim = match self.flat_dim(t, &mut failed) {
            Some(dim) => dim,
            None => self.deep_dim(t, &mut failed),
        };
        if failed {
            return Dim::bad(DimError::DivisionByZero);
        }
        if let Some(error) = dim.error() {
            self.error(Diagnostic::error(codes::DIM_FORM, span, error.to_string()));
        }
        dim
    }

    fn deep_dim(&mut self, t: ast::TypeId, failed: &mut bool) -> Dim {
        let ast = self.ast;
        let mut steps = vec![Step::Look(t)];
        let mut done: Vec<Dim> = Vec::new();
        while let Some(step) = steps.pop() {
            match step {
                Step::Look(t) => {
                    if let Some(dim) = self.flat_dim(t, failed) {
                        done.push(dim);
                        continue;
                    }
                    steps.push(Step::Finish(t, done.len()));
                    match ast.types[t].kind {
                        TypeExprKind::Binary { lhs, rhs, .. } => {
                            steps.push(Step::Look(rhs));
                            steps.push(Step::Look(lhs));
                        }
                        TypeExprKind::Neg(inner) => steps.push(Step::Look(inner)),
                        TypeExprKind::Call { args: items, .. }
                        | TypeExprKind::Tuple { items, .. } => {
                            steps.extend(ast.list(items).rev().map(Step::Look));
                        }
                        _ => unreachable!("only forms with parts have parts"),
                    }
                }
                Step::Finish(t, base) => {
                    let dim = self.finish_dim(t, &done[base..], failed);
                    done.truncate(base);
                    done.push(dim);
                }
            }
        }
        done.pop().expect("the walk leaves one dimension")
    }

    fn flat_dim(&mut self, t: ast::TypeId, failed: &mut bool) -> Option<Dim> {
        let ast = self.ast;
        let ast::TypeExpr { kind, span } = ast.types[t];
        let message = match kind {
            TypeExprKind::Int {
                value,
                suffix: ast::NumSuffix::I(64),
            } => return Some(Dim::wide(value)),
            TypeExprKind::Int { value, .. } => return Some(Dim::from(value)),
            TypeExprKind::Any | TypeExprKind::Hole => return Some(Dim::ANY),
            TypeExprKind::Name(name) => return Some(self.dim_by_name(name, span, failed)),
            TypeExprKind::Binary { .. } | TypeExprKind::Neg(_) => return None,
            TypeExprKind::Tuple { items, comma } if items.len() == 1 && !comma => return None,
            TypeExprKind::Call { head, args } if self.is_extremum(head) && args.len() == 2 => {
                return None;
            }
            TypeExprKind::Meta(e) => return Some(self.meta_dim(e, failed)),
            TypeExprKind::Error => {
                *failed = true;
                return Some(Dim::ANY);
            }
            TypeExprKind::Call { .. } => "dimensions know `min(a, b)` and `max(a, b)`",
            TypeExprKind::Apply { .. } | TypeExprKind::Fn { .. } | TypeExprKind::Ref(_) => {
                "a type stands where a dimension is expected"
            }
            TypeExprKind::Tuple { .. } => "a list stands where one dimension is expected",
            TypeExprKind::Rest(_) | TypeExprKind::Slice { .. } => {
                "this form belongs to a type relation (`rel`)"
            }
        };
        self.error(Diagnostic::error(codes::DIM_FORM, span, message));
        *failed = true;
        Some(Dim::ANY)
    }

    fn is_extremum(&self, head: ast::TypeId) -> bool {
        matches!(self.ast.types[head].kind,
            TypeExprKind::Name(name) if name == "min" || name == "max")
    }

    fn finish_dim(&mut self, t: ast::TypeId, parts: &[Dim], failed: &mut bool) -> Dim {
        let ast::TypeExpr { kind, span } = self.ast.types[t];
        match kind {
            TypeExprKind::Neg(_) => -parts[0].clone(),
            TypeExprKind::Tuple { .. } => parts[0].clone(),
            TypeExprKind::Call { head, .. } => match self.ast.types[head].kind {
                TypeExprKind::Name(name) if name == "min" => parts[0].min(&parts[1]),
                _ => parts[0].max(&parts[1]),
            },
            TypeExprKind::Binary { op, .. } => {
                let (a, b) = (&parts[0], &parts[1]);
                match op {
                    TypeOp::Add => a + b,
                    TypeOp::Sub => a - b,
                    TypeOp::Mul => a * b,
                    TypeOp::FloorDiv => a.floordiv(b),
                    TypeOp::Mod => a.modulo(b),
                    _ => {
                        let message = format!("`{}` belongs to a type relation", op.as_str());
                        self.error(Diagnostic::error(codes::DIM_FORM, span, message));
                        *failed = true;
                        Dim::ANY
                    }
                }
            }
            _ => unreachable!("only forms with parts are finished"),
        }
    }

    fn dim_by_name(&mut self, name: Symbol, span: Span, failed: &mut bool) -> Dim {
        match self.scopes.type_name(name) {
            Some(TypeName::Dim(var)) => return Dim::var(var),
            Some(TypeName::Param(p)) => {
                let kind = self.module.types.params[p].kind;
                let message = format!("`{name}` has kind {kind} and cannot stand for a dimension");
                let d = Diagnostic::error(codes::KIND, span, message);
                let d = match kind {
                    relax_ir::Kind::Type => d.note(format!("declare it as `{name}: ShapeVar`")),
                    _ => d,
                };
                self.error(d);
                *failed = true;
                return Dim::ANY;
            }
            None => {}
        }
        if self.dim_mode == DimMode::Bind {
            let place = self.at(span);
            let var = self.module.dims.push(DimInfo { name, span: place });
            self.scopes.bind_type(name, TypeName::Dim(var));
            self.new_dims.push(var);
            return Dim::var(var);
        }
        *failed = true;
        if self.first_report('n', name) {
            let near = self.near(name, self.scopes.type_names());
            let message = format!("there is no dimension variable `{name}` here");
            let d = Diagnostic::error(codes::UNKNOWN_DIM, span, message).note(
                "dimension variables are bound by their first use in a signature, by \
                 `match_shape` or by `match_cast`",
            );
            let d = match near {
                Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
                None => d,
            };
            self.error(d);
        }
        Dim::ANY
    }
}

//! Buffers of tensor programs: their types, and the extents that these bind and use.

use relax_base::{Diagnostic, Span, Symbol};
use relax_loops::{BinOp, Buf, Buffer, Ex, ExKind, Role};
use relax_syntax::ast::{self, TypeExprKind, TypeOp};
use relax_tensor::DType;

use super::Resolver;
use super::program_cx::{Named, ProgramCx};
use crate::codes;

enum Step {
    Look(ast::TypeId),
    Finish(ast::TypeId, usize),
}

impl Resolver<'_> {
    /// Checks that every dimension variable is bound by an extent of a parameter.
    pub(super) fn check_dims_bound(&mut self, cx: &ProgramCx, span: Span) {
        for &dim in &cx.program.dims {
            let bound = cx.program.bufs.values().any(|b| {
                let bare = |e: &Ex| matches!(e.kind(), ExKind::Var(v) if *v == dim);
                b.shape.iter().any(bare)
            });
            if !bound {
                let name = cx.program.vars[dim].name;
                let message = format!("the value of `{name}` cannot be told from the parameters");
                let d = Diagnostic::error(codes::PROGRAM_NAME, span, message)
                    .note(format!("some buffer must have `{name}` alone as an extent"));
                self.error(d);
            }
        }
    }
    /// Declares the buffer of a parameter or an `alloc`; `None` after an error.
    pub(crate) fn declare_buffer(
        &mut self,
        cx: &mut ProgramCx,
        binder: ast::BinderId,
        role: Role,
        bind_dims: bool,
    ) -> Option<Buf> {
        let ast = self.ast;
        let b = ast.binders[binder];
        let Some(ty) = b.ty else {
            let message = format!("`%{}` needs a type: `Buffer[(n,), float32]`", b.name);
            self.error(Diagnostic::error(codes::PROGRAM_FORM, b.span, message));
            return None;
        };
        let Some((shape, dtype)) = self.buffer_type(cx, ty, bind_dims) else {
            // Its uses are not reported.
            self.reported.insert(('%', b.name));
            return None;
        };
        let buf = cx.program.bufs.push(Buffer {
            name: b.name,
            dtype,
            shape,
            role,
        });
        cx.bind(b.name, Named::Buf(buf));
        Some(buf)
    }
    pub(super) fn buffer_type(
        &mut self,
        cx: &mut ProgramCx,
        ty: ast::TypeId,
        bind_dims: bool,
    ) -> Option<(Vec<Ex>, DType)> {
        let ast = self.ast;
        let ast::TypeExpr { kind, span } = ast.types[ty];
        let dtype_of = |r: &mut Self, t: ast::TypeId| match ast.types[t].kind {
            TypeExprKind::Name(name) => r.dtype(name).filter(|d| d.lanes == 1),
            _ => None,
        };
        let parts = match kind {
            TypeExprKind::Error => return None,
            TypeExprKind::Name(_) => Some((ast::List::EMPTY, dtype_of(self, ty))),
            TypeExprKind::Apply { head, args } if args.len() == 2 => {
                let known = matches!(ast.types[head].kind,
                    TypeExprKind::Name(n) if n == "Buffer" || n == "Tensor");
                match (ast.nth(args, 0), ast.nth(args, 1)) {
                    (Some(shape), Some(dtype)) if known => match ast.types[shape].kind {
                        TypeExprKind::Tuple { items, .. } => Some((items, dtype_of(self, dtype))),
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        };
        if !matches!(parts, Some((_, Some(_)))) {
            let message = "tensor programs know buffers, `Buffer[(n, 4), float32]`, and numbers, \
                           `float32`";
            self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
        }
        // The extents bind dimensions even if the rest is wrong.
        let (items, dtype) = parts?;
        let extents = ast.list(items).map(|d| self.extent(cx, d, bind_dims));
        let shape: Vec<Option<Ex>> = extents.collect();
        let shape: Option<Vec<Ex>> = shape.into_iter().collect();
        Some((shape?, dtype?))
    }
    /// Resolves a buffer's extent; new names become dimension variables where `bind` allows it.
    pub(crate) fn extent(&mut self, cx: &mut ProgramCx, t: ast::TypeId, bind: bool) -> Option<Ex> {
        let ast = self.ast;
        let mut steps = vec![Step::Look(t)];
        let mut done: Vec<Ex> = Vec::new();
        while let Some(step) = steps.pop() {
            let (t, base) = match step {
                Step::Finish(t, base) => (t, base),
                Step::Look(t) => {
                    let ast::TypeExpr { kind, span } = ast.types[t];
                    match kind {
                        TypeExprKind::Int { value, .. } => done.push(Ex::idx(value)),
                        TypeExprKind::Name(name) => {
                            done.push(self.extent_name(cx, name, span, bind)?);
                        }
                        TypeExprKind::Binary { lhs, rhs, .. } => {
                            steps.push(Step::Finish(t, done.len()));
                            steps.push(Step::Look(rhs));
                            steps.push(Step::Look(lhs));
                        }
                        TypeExprKind::Tuple { items, comma } if items.len() == 1 && !comma => {
                            steps.extend(ast.list(items).map(Step::Look));
                        }
                        TypeExprKind::Call { head, args } if args.len() == 2 => {
                            let known = matches!(ast.types[head].kind,
                                TypeExprKind::Name(n) if n == "min" || n == "max");
                            if !known {
                                let message = "extents know `min(a, b)` and `max(a, b)`";
                                let d = Diagnostic::error(codes::PROGRAM_FORM, span, message);
                                self.error(d);
                                return None;
                            }
                            steps.push(Step::Finish(t, done.len()));
                            steps.extend(ast.list(args).rev().map(Step::Look));
                        }
                        TypeExprKind::Error => return None,
                        _ => {
                            let message = "an extent is a number, a name or `+ - * // %` of them";
                            let d = Diagnostic::error(codes::PROGRAM_FORM, span, message);
                            self.error(d);
                            return None;
                        }
                    }
                    continue;
                }
            };
            let (b, a) = (done.pop()?, done.pop()?);
            debug_assert_eq!(done.len(), base);
            let op = match ast.types[t].kind {
                TypeExprKind::Binary { op, .. } => match op {
                    TypeOp::Add => BinOp::Add,
                    TypeOp::Sub => BinOp::Sub,
                    TypeOp::Mul => BinOp::Mul,
                    TypeOp::FloorDiv => BinOp::FloorDiv,
                    TypeOp::Mod => BinOp::FloorMod,
                    _ => {
                        let message = "a comparison is no extent";
                        let span = ast.types[t].span;
                        self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
                        return None;
                    }
                },
                TypeExprKind::Call { head, .. }
                    if ast.types[head].kind == TypeExprKind::Name(Symbol::new("min")) =>
                {
                    BinOp::Min
                }
                _ => BinOp::Max,
            };
            done.push(a.binary(op, &b));
        }
        done.pop()
    }
    fn extent_name(
        &mut self,
        cx: &mut ProgramCx,
        name: Symbol,
        span: Span,
        bind: bool,
    ) -> Option<Ex> {
        if let Some(&var) = cx.dims.get(&name) {
            return Some(Ex::var(var, DType::I64));
        }
        if bind {
            let (var, ex) = cx.program.fresh(name.as_str(), DType::I64);
            cx.program.dims.push(var);
            cx.dims.insert(name, var);
            return Some(ex);
        }
        if self.first_report('n', name) {
            let message = format!("there is no dimension `{name}` here");
            let d = Diagnostic::error(codes::PROGRAM_NAME, span, message);
            let near = self.near(name, cx.dims.keys().map(|n| n.as_str()));
            let d = match near {
                Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
                None => d,
            };
            self.error(d);
        }
        None
    }
}

//! Resolution of expressions: the worklist.
//!
//! A task either visits an expression (and pushes tasks for its operands and for finishing it) or
//! finishes one whose operands' results are on top of the value stack.

use relax_base::{Diagnostic, Span};
use relax_ir::{Expr, ExprId, VarId};
use relax_syntax::ast::{self, ExprKind};

use super::scope::Mark;
use super::{DimMode, Resolver};
use crate::codes;

/// A work item of the traversal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Resolve this expression and push its result.
    Expr(ast::ExprId),
    /// Create the node; its operands are the values from this index on.
    Finish(ast::ExprId, u32),
    /// Continue a block at a statement; `flow` in a dataflow block.
    Stmt {
        block: ast::ExprId,
        at: u32,
        flow: bool,
    },
    /// Bind a statement to its resolved value. For functions, the variable is already bound.
    Bound {
        stmt: ast::StmtId,
        var: Option<VarId>,
    },
    /// Wrap the pending bindings around a block's resolved result.
    BlockEnd { pending: u32, mark: Mark },
    /// Finish a dataflow block after its last statement.
    FlowEnd {
        stmt: ast::StmtId,
        pending: u32,
        mark: Mark,
    },
    /// Finish a function after its body; with the expression it stands for, for closures.
    FnEnd(Option<ast::ExprId>),
    /// Bind a clause's pattern, then resolve the body.
    Clause(ast::ClauseId),
    /// Leave a scope.
    Leave(Mark),
}

const _: () = assert!(std::mem::size_of::<Task>() <= 16);

impl Resolver<'_> {
    /// Resolves an expression.
    pub(crate) fn expr(&mut self, e: ast::ExprId) -> ExprId {
        self.tasks.push(Task::Expr(e));
        self.run();
        self.values.pop().expect("the walk leaves one value")
    }

    /// Runs until the worklist is empty.
    pub(crate) fn run(&mut self) {
        while let Some(task) = self.tasks.pop() {
            match task {
                Task::Expr(e) => {
                    let (values, tasks) = (self.values.len(), self.tasks.len());
                    self.look(e);
                    if self.values.len() > values && self.tasks.len() == tasks {
                        self.typed_value(e);
                    }
                }
                Task::Finish(e, base) => {
                    self.finish(e, base as usize);
                    self.typed_value(e);
                }
                Task::Stmt { block, at, flow } => self.stmt(block, at, flow),
                Task::Bound { stmt, var } => self.bound(stmt, var),
                Task::BlockEnd { pending, mark } => self.block_end(pending as usize, mark),
                Task::FlowEnd {
                    stmt,
                    pending,
                    mark,
                } => self.flow_end(stmt, pending as usize, mark),
                Task::FnEnd(e) => {
                    self.fn_end(e);
                    e.into_iter().for_each(|e| self.typed_value(e));
                }
                Task::Clause(c) => self.clause(c),
                Task::Leave(mark) => self.scopes.leave(mark),
            }
        }
    }

    fn value(&mut self, expr: Expr, span: Span) {
        let span = self.at(span);
        let id = self.module.add(expr, span);
        self.values.push(id);
    }

    fn later(&mut self, e: ast::ExprId) {
        let base = self.values.len() as u32;
        self.tasks.push(Task::Finish(e, base));
    }

    fn parts(&mut self, items: ast::List<ast::ExprId>) {
        let ast = self.ast;
        self.tasks.extend(ast.list(items).rev().map(Task::Expr));
    }

    fn look(&mut self, e: ast::ExprId) {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[e];
        match kind {
            ExprKind::Error => self.value(Expr::Error, span),
            ExprKind::Local(name) => self.local(name, span),
            ExprKind::Graph(index) => self.graph_var(index, span),
            ExprKind::Global(name) => {
                let value = self.global(e, name, span);
                self.values.push(value);
            }
            ExprKind::Name(name) => {
                let value = self.bare_name(name, span);
                self.values.push(value);
            }
            ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Bool(_) => {
                let value = self.literal(e);
                self.values.push(value);
            }
            ExprKind::Str(name) => self.value(Expr::Extern(name), span),
            ExprKind::Meta { key, index } => {
                let value = self.meta_expr(key, index, span);
                self.values.push(value);
            }
            ExprKind::Paren(inner, _) => self.tasks.push(Task::Expr(inner)),
            ExprKind::Tuple(items) => {
                self.later(e);
                self.parts(items);
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                let message = "a list is an attribute's value, not an expression";
                let d = Diagnostic::error(codes::MISPLACED, span, message)
                    .note("attributes are given by name: `axes=[0, 1]`");
                self.error(d);
                self.value(Expr::Error, span);
            }
            ExprKind::Index { .. } => {
                self.misplaced(span, "elements are read with `[…]` only in tensor programs");
                self.value(Expr::Error, span);
            }
            ExprKind::TypeApply { .. } => {
                self.misplaced(span, "type arguments stand before the arguments of a call");
                self.value(Expr::Error, span);
            }
            ExprKind::Proj { tuple, .. } => {
                if self.dotted
                    && let Some(name) = self.dotted_name(e)
                {
                    return self.local(name, span);
                }
                self.later(e);
                self.tasks.push(Task::Expr(tuple));
            }
            ExprKind::Call { callee, args, .. } => self.look_call(e, callee, args, span),
            ExprKind::Fn(f) => {
                self.enter_fn(f);
                self.tasks.push(Task::FnEnd(Some(e)));
                self.tasks.push(Task::Expr(ast.functions[f].body));
            }
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => {
                let Some(otherwise) = otherwise else {
                    self.misplaced(span, "an `if` without `else` has no value");
                    return self.value(Expr::Error, span);
                };
                self.later(e);
                self.tasks.push(Task::Expr(otherwise));
                self.tasks.push(Task::Expr(then));
                self.tasks.push(Task::Expr(cond));
            }
            ExprKind::Match {
                scrutinee, clauses, ..
            } => {
                self.later(e);
                self.tasks.extend(ast.list(clauses).rev().map(Task::Clause));
                self.tasks.push(Task::Expr(scrutinee));
            }
            ExprKind::Block { .. } => {
                let (pending, mark) = (self.pending.len() as u32, self.scopes.enter());
                self.tasks.push(Task::BlockEnd { pending, mark });
                let flow = false;
                self.tasks.push(Task::Stmt {
                    block: e,
                    at: 0,
                    flow,
                });
            }
            ExprKind::RefNew(inner) | ExprKind::RefRead(inner) => {
                self.later(e);
                self.tasks.push(Task::Expr(inner));
            }
            ExprKind::RefWrite { target, value } => {
                self.later(e);
                self.tasks.push(Task::Expr(value));
                self.tasks.push(Task::Expr(target));
            }
            ExprKind::Binary { lhs, rhs, .. } => {
                self.later(e);
                self.tasks.push(Task::Expr(rhs));
                self.tasks.push(Task::Expr(lhs));
            }
            ExprKind::Shape(dims) => {
                let mistakes = self.mistakes;
                let dims: Vec<_> = ast.list(dims).map(|d| self.dim(d)).collect();
                let known = self.mistakes == mistakes;
                let shape = known.then(|| Expr::Shape(dims.into()));
                self.value(shape.unwrap_or(Expr::Error), span);
            }
            ExprKind::MatchShape { value, .. } | ExprKind::MatchCast { value, .. } => {
                self.later(e);
                self.tasks.push(Task::Expr(value));
            }
        }
    }

    fn finish(&mut self, e: ast::ExprId, base: usize) {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[e];
        let parts = |r: &Self, i: usize| r.values[base + i];
        let expr = match kind {
            ExprKind::Tuple(_) => {
                let list = self.module.make_list(&self.values[base..]);
                Expr::Tuple(list)
            }
            ExprKind::Proj { index, .. } => Expr::Proj {
                tuple: parts(self, 0),
                index,
            },
            ExprKind::Call { .. } => {
                let call = self.finish_call(e, base);
                self.values.truncate(base);
                self.values.push(call);
                return;
            }
            ExprKind::If { .. } => Expr::If {
                cond: parts(self, 0),
                then: parts(self, 1),
                otherwise: parts(self, 2),
            },
            ExprKind::Match {
                clauses, complete, ..
            } => self.finish_match(clauses, complete, base),
            ExprKind::RefNew(_) => Expr::RefNew(parts(self, 0)),
            ExprKind::RefRead(_) => Expr::RefRead(parts(self, 0)),
            ExprKind::RefWrite { .. } => Expr::RefWrite(parts(self, 0), parts(self, 1)),
            ExprKind::Binary { op, .. } => self.finish_binary(op, span, base),
            ExprKind::MatchShape { dims, .. } => {
                let mistakes = self.mistakes;
                let dims: Vec<_> =
                    self.binding_dims(|r| ast.list(dims).map(|d| r.dim(d)).collect());
                let value = parts(self, 0);
                match self.mistakes == mistakes {
                    true => Expr::MatchShape {
                        value,
                        dims: dims.into(),
                    },
                    false => self.broken(span, &[value]),
                }
            }
            ExprKind::MatchCast { ty, .. } => {
                let ty = self.binding_dims(|r| r.full_type(ty));
                Expr::MatchCast {
                    value: parts(self, 0),
                    ty,
                }
            }
            _ => unreachable!("only constructs with parts are finished"),
        };
        self.values.truncate(base);
        self.value(expr, span);
    }

    /// Resolves dimensions in a position that may bind new ones; these stay in scope to the end of
    /// the block.
    fn binding_dims<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let old = std::mem::replace(&mut self.dim_mode, DimMode::Bind);
        let base = self.new_dims.len();
        let result = read(self);
        self.new_dims.truncate(base);
        self.dim_mode = old;
        result
    }

    fn finish_binary(&mut self, op: ast::BinOp, span: Span, base: usize) -> Expr {
        match self.registry.sugar(op.as_str()) {
            Some(id) => {
                let callee = {
                    let span = self.at(span);
                    self.module.add(Expr::Op(id), span)
                };
                let args = self.module.make_list(&self.values[base..]);
                let attrs = self.default_attrs(id);
                Expr::Call {
                    callee,
                    args,
                    attrs,
                    type_args: 0,
                }
            }
            None => {
                let message = format!("`{}` stands for no operator", op.as_str());
                self.error(Diagnostic::error(codes::UNKNOWN_NAME, span, message));
                let parts = self.values[base..].to_vec();
                self.broken(span, &parts)
            }
        }
    }

    /// Reports a construct that is not allowed in its position.
    pub(crate) fn misplaced(&mut self, span: Span, message: &str) {
        self.error(Diagnostic::error(codes::MISPLACED, span, message));
    }
}

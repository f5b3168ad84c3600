//! Resolution of statements: bindings, graph bindings, effects, dataflow blocks.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{Binding, Block, BlockId, Expr, ExprId, Var, VarId, VarStyle};
use relax_syntax::ast::{self, ExprKind, StmtKind};

use super::Resolver;
use super::expr::Task;
use super::scope::Mark;
use crate::codes;

/// A pending binding, to be wrapped around the rest of the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    what: PendingKind,
    span: Span,
}

#[derive(Clone, Copy, Debug)]
enum PendingKind {
    Let(VarId, ExprId),
    Flow(BlockId),
}

/// The outputs of the current dataflow block, with the spans of their names.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    outputs: Vec<(Symbol, VarId, Span)>,
    /// Whether one of the names is unknown: any variable of the block may have been meant.
    unknown: bool,
}

/// Returns whether a name ends with a dot and a number, like a projection.
fn ends_in_number(name: &str) -> bool {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    digits > 0 && name.as_bytes()[..name.len() - digits].ends_with(b".")
}

impl Resolver<'_> {
    fn block_parts(&self, e: ast::ExprId) -> (ast::List<ast::StmtId>, Option<ast::ExprId>) {
        match self.ast.exprs[e].kind {
            ExprKind::Block { stmts, tail, .. } => (stmts, tail),
            _ => (ast::List::EMPTY, Some(e)),
        }
    }

    pub(crate) fn stmt(&mut self, block: ast::ExprId, at: u32, flow: bool) {
        let ast = self.ast;
        let (stmts, tail) = self.block_parts(block);
        let Some(s) = ast.nth(stmts, at as usize) else {
            return self.tail(block, tail, flow);
        };
        self.tasks.push(Task::Stmt {
            block,
            at: at + 1,
            flow,
        });
        let ast::Stmt { kind, span } = ast.stmts[s];
        match kind {
            StmtKind::Error => {}
            StmtKind::Let { binder, value } | StmtKind::Bind { binder, value } => {
                let var = if self.is_function(value) {
                    Some(self.bind_local(binder, matches!(kind, StmtKind::Let { .. })))
                } else {
                    None
                };
                self.tasks.push(Task::Bound { stmt: s, var });
                self.tasks.push(Task::Expr(value));
            }
            StmtKind::Graph { value, .. } | StmtKind::Expr(value) => {
                self.tasks.push(Task::Bound { stmt: s, var: None });
                self.tasks.push(Task::Expr(value));
            }
            StmtKind::FreeVar(binder) => self.free_var(binder, span),
            StmtKind::Dataflow(body) => {
                if flow {
                    self.misplaced(span, "a dataflow block cannot stand in a dataflow block");
                    return;
                }
                self.flows.push(Flow::default());
                let (pending, mark) = (self.pending.len() as u32, self.scopes.enter());
                self.tasks.push(Task::FlowEnd {
                    stmt: s,
                    pending,
                    mark,
                });
                self.tasks.push(Task::Stmt {
                    block: body,
                    at: 0,
                    flow: true,
                });
            }
            StmtKind::Output(names) if flow => self.output(names),
            StmtKind::Output(_) => {
                self.misplaced(span, "`output` belongs to the end of a dataflow block");
            }
            StmtKind::Compute { .. } => {
                self.misplaced(span, "`compute` belongs to an `op` item");
            }
            StmtKind::Store { target, .. }
                if matches!(ast.exprs[target].kind, ExprKind::Tuple(_)) =>
            {
                self.misplaced(
                    ast.exprs[target].span,
                    "a tuple is taken apart by projections: `let %t = …; %t.0`",
                );
            }
            StmtKind::For { .. }
            | StmtKind::While { .. }
            | StmtKind::Store { .. }
            | StmtKind::Alloc(_)
            | StmtKind::Kernel { .. }
            | StmtKind::Init(_) => {
                self.misplaced(
                    span,
                    "this statement belongs to a tensor program (`prim_func`)",
                );
            }
        }
    }

    fn tail(&mut self, block: ast::ExprId, tail: Option<ast::ExprId>, flow: bool) {
        match (tail, flow) {
            (Some(e), false) => self.tasks.push(Task::Expr(e)),
            (None, false) => {
                let span = self.at(self.ast.exprs[block].span.at_end());
                let unit = self.module.tuple(&[], span);
                self.values.push(unit);
            }
            (Some(e), true) => {
                let span = self.ast.exprs[e].span;
                let d = Diagnostic::error(
                    codes::MISPLACED,
                    span,
                    "a dataflow block has no result; it ends with `output(…);`",
                );
                self.error(d);
            }
            (None, true) => {}
        }
    }

    /// Returns whether a value is a function literal, so that its name is in scope in it.
    fn is_function(&self, mut e: ast::ExprId) -> bool {
        loop {
            match self.ast.exprs[e].kind {
                ExprKind::Paren(inner, _) => e = inner,
                ExprKind::Fn(_) => return true,
                _ => return false,
            }
        }
    }

    /// Creates the variable of a binding and brings it into scope.
    fn bind_local(&mut self, binder: ast::BinderId, is_let: bool) -> VarId {
        let style = if is_let {
            VarStyle::Let
        } else {
            VarStyle::Binding
        };
        self.bind_var(binder, style)
    }

    /// Creates a variable for a binder and brings it into scope.
    pub(crate) fn bind_var(&mut self, binder: ast::BinderId, style: VarStyle) -> VarId {
        let b = self.ast.binders[binder];
        let ty = b.ty.and_then(|t| self.annotation(t));
        let span = self.at(b.span);
        let var = self.module.vars.push(Var {
            name: b.name,
            ty,
            span,
            style,
        });
        if !b.attrs.is_empty() {
            let attrs = self.free_attrs(b.attrs);
            self.module.var_attrs.insert(var, attrs);
        }
        self.typed_var(binder, var);
        self.dotted |= ends_in_number(b.name.as_str());
        self.scopes.bind(b.name, var);
        var
    }

    pub(crate) fn bound(&mut self, s: ast::StmtId, var: Option<VarId>) {
        let value = self.values.pop().expect("a statement has a value");
        let ast::Stmt { kind, span } = self.ast.stmts[s];
        let span = self.at(span);
        let var = match kind {
            StmtKind::Graph { index, .. } => {
                self.bind_graph(index, value);
                return;
            }
            StmtKind::Let { binder, .. } => var.unwrap_or_else(|| self.bind_local(binder, true)),
            StmtKind::Bind { binder, .. } => var.unwrap_or_else(|| self.bind_local(binder, false)),
            _ => self.module.vars.push(Var {
                name: Symbol::new(""),
                ty: None,
                span,
                style: VarStyle::Effect,
            }),
        };
        if matches!(self.module.exprs[value], Expr::Shape(_) | Expr::Error) {
            self.shapes.insert(var, value);
        }
        self.pending.push(Pending {
            what: PendingKind::Let(var, value),
            span,
        });
    }

    pub(crate) fn block_end(&mut self, base: usize, mark: Mark) {
        self.scopes.leave(mark);
        let mut body = self.values.pop().expect("a block has a result");
        while self.pending.len() > base {
            let Some(Pending { what, span }) = self.pending.pop() else {
                break;
            };
            let expr = match what {
                PendingKind::Let(var, value) => Expr::Let { var, value, body },
                PendingKind::Flow(block) => Expr::Dataflow { block, body },
            };
            body = self.module.add(expr, span);
        }
        self.values.push(body);
    }

    fn output(&mut self, names: ast::List<ast::ExprId>) {
        let ast = self.ast;
        for e in ast.list(names) {
            let ast::Expr { kind, span } = ast.exprs[e];
            let named = match kind {
                ExprKind::Local(name) => Some(name),
                _ => self.dotted_name(e).filter(|_| self.dotted),
            };
            let Some(name) = named else {
                let message = "`output` lists variables of its dataflow block";
                self.error(Diagnostic::error(codes::OUTPUT, span, message));
                continue;
            };
            match self.scopes.local(name) {
                Some(var) => {
                    let flow = self.flows.last_mut().expect("inside a dataflow block");
                    flow.outputs.push((name, var, span));
                }
                None => {
                    self.unknown_local(name, span);
                    let flow = self.flows.last_mut().expect("inside a dataflow block");
                    flow.unknown = true;
                }
            }
        }
    }

    pub(crate) fn flow_end(&mut self, s: ast::StmtId, base: usize, mark: Mark) {
        let span = self.at(self.ast.stmts[s].span);
        let flow = self.flows.pop().expect("inside a dataflow block");
        let bindings: Vec<Binding> = self
            .pending
            .drain(base..)
            .filter_map(|p| match p.what {
                PendingKind::Let(var, value) => Some(Binding { var, value }),
                PendingKind::Flow(_) => None,
            })
            .collect();
        self.scopes.leave_keeping_dims(mark);
        let mut outputs: Vec<VarId> = Vec::new();
        for (name, var, place) in flow.outputs {
            if !bindings.iter().any(|b| b.var == var) {
                let message = format!("`%{name}` is not bound in this dataflow block");
                let d = Diagnostic::error(codes::OUTPUT, place, message)
                    .note("variables from outside are visible after the block anyway");
                self.error(d);
            } else if !outputs.contains(&var) {
                outputs.push(var);
                self.scopes.bind(name, var);
            }
        }
        if flow.unknown {
            for b in &bindings {
                self.scopes.bind(self.module.vars[b.var].name, b.var);
            }
        }
        let block = self.module.blocks.push(Block {
            bindings,
            outputs,
            span,
        });
        self.pending.push(Pending {
            what: PendingKind::Flow(block),
            span,
        });
    }

    fn free_var(&mut self, binder: ast::BinderId, span: Span) {
        if self.free.is_none() {
            self.misplaced(
                span,
                "`free_var` declares variables of expression files; make it a parameter here",
            );
            return;
        }
        let name = self.ast.binders[binder].name;
        let place = self.ast.binders[binder].span;
        if let Some(&first) = self.free_names.get(&name) {
            let first = self.module.vars[first].span;
            self.duplicate(place, first, &format!("`%{name}` is declared twice"));
            return;
        }
        // Free variables become parameters: their dimensions are bound as in a signature, and
        // `expression` collects them.
        let old = std::mem::replace(&mut self.dim_mode, super::DimMode::Bind);
        let var = self.bind_var(binder, VarStyle::Free);
        self.dim_mode = old;
        self.free_names.insert(name, var);
        if let Some(free) = &mut self.free {
            free.push(var);
        }
    }

    /// Reports a duplicate definition.
    pub(crate) fn duplicate(&mut self, span: Span, first: Span, message: &str) {
        let d = Diagnostic::error(codes::DUPLICATE, span, message);
        let d = if first.is_none() {
            d
        } else {
            d.label(first, "first here")
        };
        self.error(d);
    }
}

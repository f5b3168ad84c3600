//! Conversion of expressions, with a worklist, in the order of TVM's printer.
//!
//! Expressions with several uses become graph variables, bound in the block where they are first
//! visited. A chain of `let`s becomes the statements of one block.

use relax_base::{Span, Symbol};
use relax_syntax::ast::{self, ExprId, ExprKind, List, PatId, PatKind, StmtKind};
use rustc_hash::FxHashSet;

use crate::codes;
use crate::error::Found;
use crate::graph::NodeId;
use crate::kinds::Sort;
use crate::program::Builder;

/// The limit on patterns in a clause, shared ones counted at each occurrence.
const MOST_PATTERNS: usize = 1 << 20;

/// A work item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Convert the node to an expression, which becomes the topmost value.
    Expr(NodeId),
    /// The same in tail position of a block, to which a `let` may add statements.
    Tail(NodeId),
    /// Convert this `let` and those after it to statements.
    Lets(NodeId),
    /// Finish this `let` after its value.
    Bound(NodeId),
    /// Open a block.
    Open,
    /// Close a block after its result.
    Close(NodeId, bool),
    /// Convert the pattern of a clause.
    Pattern(NodeId),
    /// Finish this node after its operands, the values from this index on.
    Finish(NodeId, u32),
}

impl Builder<'_, '_> {
    /// Converts an expression to a block with that result.
    pub(crate) fn block(&mut self, id: NodeId, braces: bool) -> Found<ExprId> {
        self.tasks.clear();
        self.values.clear();
        self.tasks
            .extend([Task::Close(id, braces), Task::Tail(id), Task::Open]);
        while let Some(task) = self.tasks.pop() {
            self.step(task)?;
        }
        Ok(self.values.swap_remove(0))
    }

    fn step(&mut self, task: Task) -> Found<()> {
        let g = self.g;
        match task {
            Task::Expr(id) => self.look(id)?,
            Task::Tail(id) if g.sort(id) == Sort::Let && !self.uses.shared(g, id) => {
                self.tasks.push(Task::Lets(id));
            }
            Task::Tail(id) => self.tasks.push(Task::Expr(id)),
            Task::Lets(id) => {
                let var = self.bound_var(id, "var", g.refers(id, "var")?)?;
                self.local_name(var)?;
                self.bound.insert(var);
                let (value, body) = (g.expr_field(id, "value")?, g.expr_field(id, "body")?);
                let tasks = [Task::Tail(body), Task::Bound(id), Task::Expr(value)];
                self.tasks.extend(tasks);
            }
            Task::Bound(id) => {
                let binder = self.binder(id, "var", g.refers(id, "var")?)?;
                let value = self.top();
                self.stmt(StmtKind::Let { binder, value }, g.span(self.start, id));
            }
            Task::Open => self.blocks.push(Vec::new()),
            Task::Close(id, braces) => {
                let tail = Some(self.top());
                let stmts = self.blocks.pop().unwrap_or_default();
                let stmts = self.out.make_list(stmts);
                let kind = ExprKind::Block {
                    stmts,
                    tail,
                    braces,
                };
                let block = self.out.expr(kind, g.span(self.start, id));
                self.values.push(block);
            }
            Task::Pattern(id) => {
                let pattern = self.pattern(id)?;
                self.pats.push(pattern);
            }
            Task::Finish(id, base) => self.finish(id, base as usize)?,
        }
        Ok(())
    }

    fn top(&mut self) -> ExprId {
        // Each task pushes the values that the next one pops.
        self.values.pop().unwrap_or(ExprId(0))
    }

    fn stmt(&mut self, kind: StmtKind, span: Span) {
        let stmt = self.out.stmt(kind, span);
        if let Some(block) = self.blocks.last_mut() {
            block.push(stmt);
        }
    }

    fn value(&mut self, id: NodeId, kind: ExprKind) -> Found<ExprId> {
        let e = self.out.expr(kind, self.g.span(self.start, id));
        if let Some(ty) = self.type_field(id, "_checked_type_")? {
            self.typed = true;
            self.out.expr_types.set(e, Some(ty));
        }
        self.values.push(e);
        Ok(e)
    }

    fn look(&mut self, id: NodeId) -> Found<()> {
        let g = self.g;
        let sort = g.sort(id);
        if let Some(&index) = self.graph.get(&id) {
            let e = self
                .out
                .expr(ExprKind::Graph(index), g.span(self.start, id));
            self.values.push(e);
            return Ok(());
        }
        let kind = match sort {
            Sort::Var => {
                let name = self.local_name(id)?;
                if self.free && self.bound.insert(id) {
                    let binder = self.binder(id, "vid", id)?;
                    let stmt = self
                        .out
                        .stmt(StmtKind::FreeVar(binder), g.span(self.start, id));
                    self.blocks[0].push(stmt);
                }
                Some(ExprKind::Local(name))
            }
            Sort::GlobalVar => Some(ExprKind::Global(self.items.of(self.g, id)?)),
            Sort::Op => {
                let name = g.repr(id).unwrap_or_default();
                Some(ExprKind::Name(Symbol::new(&name)))
            }
            Sort::Ctor => Some(ExprKind::Name(self.items.of(self.g, id)?)),
            Sort::Constant => {
                let index = self.constant(id, true)?;
                let key = Symbol::new(&g.kind(id).name);
                Some(ExprKind::Meta { key, index })
            }
            _ => None,
        };
        if let Some(kind) = kind {
            self.value(id, kind)?;
            return Ok(());
        }
        self.tasks.push(Task::Finish(id, self.values.len() as u32));
        let from = self.tasks.len();
        match sort {
            Sort::Let => {
                self.tasks
                    .extend([Task::Open, Task::Lets(id), Task::Close(id, true)]);
            }
            Sort::Func => {
                let head = self.fn_head(id)?;
                self.fns.push(head);
                self.inner_block(g.expr_field(id, "body")?);
            }
            Sort::If => {
                self.tasks.push(Task::Expr(g.expr_field(id, "cond")?));
                self.inner_block(g.expr_field(id, "true_branch")?);
                self.inner_block(g.expr_field(id, "false_branch")?);
            }
            Sort::Match => {
                self.tasks.push(Task::Expr(g.expr_field(id, "data")?));
                for &clause in g.array(id, "clauses")? {
                    self.tasks.push(Task::Pattern(clause));
                    self.inner_block(g.expr_field(clause, "rhs")?);
                }
            }
            _ => {
                let mut parts = Vec::new();
                g.parts(id, &mut parts)?;
                self.tasks.extend(parts.into_iter().map(Task::Expr));
            }
        }
        // They were pushed in execution order.
        self.tasks[from..].reverse();
        Ok(())
    }

    fn inner_block(&mut self, id: NodeId) {
        self.tasks
            .extend([Task::Open, Task::Tail(id), Task::Close(id, true)]);
    }

    fn finish(&mut self, id: NodeId, base: usize) -> Found<()> {
        let g = self.g;
        let parts = self.values.split_off(base);
        let span = g.span(self.start, id);
        let kind = match (g.sort(id), &parts[..]) {
            (Sort::Let, _) => self.out.exprs[parts[0]].kind,
            (Sort::Tuple, _) => ExprKind::Tuple(self.out.make_list(parts.iter().copied())),
            (Sort::Proj, &[tuple]) => {
                let index = g.number(id, "index")?;
                ExprKind::Proj { tuple, index }
            }
            (Sort::Call, [callee, args @ ..]) => {
                let attrs = self.call_attrs(id, g.refers(id, "op")?)?;
                ExprKind::Call {
                    callee: *callee,
                    args: self.out.make_list(args.iter().copied()),
                    attrs,
                }
            }
            (Sort::Func, &[body]) => match self.fns.pop() {
                Some(head) => {
                    let function = ast::Function { body, ..head };
                    ExprKind::Fn(self.out.functions.push(function))
                }
                None => ExprKind::Error,
            },
            (Sort::If, &[cond, then, otherwise]) => ExprKind::If {
                cond,
                then,
                otherwise: Some(otherwise),
            },
            (Sort::Match, [scrutinee, bodies @ ..]) => {
                let pats = self.pats.split_off(self.pats.len() - bodies.len());
                let clauses = pats.into_iter().zip(bodies);
                let clauses: Vec<_> = clauses
                    .map(|(pat, &body)| {
                        let case = false;
                        let clause = ast::Clause {
                            pat,
                            body,
                            case,
                            span,
                        };
                        self.out.clauses.push(clause)
                    })
                    .collect();
                ExprKind::Match {
                    scrutinee: *scrutinee,
                    clauses: self.out.make_list(clauses),
                    complete: g.number::<i64>(id, "complete")? != 0,
                }
            }
            (Sort::RefNew, &[value]) => ExprKind::RefNew(value),
            (Sort::RefRead, &[cell]) => ExprKind::RefRead(cell),
            (Sort::RefWrite, &[target, value]) => ExprKind::RefWrite { target, value },
            _ => ExprKind::Error,
        };
        let made = self.value(id, kind)?;
        if self.uses.shared(g, id) {
            let index = self.graph_vars;
            self.graph_vars += 1;
            self.top();
            self.stmt(StmtKind::Graph { index, value: made }, span);
            self.graph.insert(id, index);
            let e = self.out.expr(ExprKind::Graph(index), span);
            self.values.push(e);
        }
        Ok(())
    }

    /// Returns the name of a local variable.
    fn local_name(&mut self, id: NodeId) -> Found<Symbol> {
        if self.vars.has(id) {
            return Ok(self.vars.of(id, || "".into()));
        }
        let g = self.g;
        let vid = g.refers(id, "vid")?;
        let hint = g.name(vid, "name_hint")?;
        Ok(self.vars.of(id, || Symbol::new(&hint)))
    }

    fn bound_var(&self, id: NodeId, field: &str, var: NodeId) -> Found<NodeId> {
        match self.g.sort(var) {
            Sort::Var => Ok(var),
            _ => Err(self.g.wrong(id, field, var, "a variable")),
        }
    }

    /// Converts the binding of a variable.
    pub(crate) fn binder(&mut self, id: NodeId, field: &str, var: NodeId) -> Found<ast::BinderId> {
        let g = self.g;
        let var = self.bound_var(id, field, var)?;
        let name = self.local_name(var)?;
        self.bound.insert(var);
        let ty = self.type_field(var, "type_annotation")?;
        let binder = self.out.binder(name, ty, g.span(self.start, var));
        if let Some(device) = self.device(var)? {
            self.out.binders[binder].attrs = self.out.make_list([device]);
        }
        if let Some(ty) = self.type_field(var, "_checked_type_")? {
            self.typed = true;
            self.out.binder_types.set(binder, Some(ty));
        }
        Ok(binder)
    }

    /// Converts the pattern of a clause.
    fn pattern(&mut self, clause: NodeId) -> Found<PatId> {
        let g = self.g;
        let root = g.refers(clause, "lhs")?;
        let mut steps = vec![(root, false)];
        let mut done: Vec<PatId> = Vec::new();
        let (mut open, mut looked) = (FxHashSet::default(), 0);
        while let Some((id, finish)) = steps.pop() {
            let items = match g.sort(id) {
                Sort::PatCtor | Sort::PatTuple => g.array(id, "patterns")?,
                _ => &[],
            };
            if !finish && !items.is_empty() {
                looked += items.len();
                if !open.insert(id) {
                    return Err(g.mistake(id, "this pattern is a part of itself"));
                }
                if looked > MOST_PATTERNS {
                    let message = "this pattern is too large: it repeats its parts too often";
                    return Err(g.mistake_of(codes::TOO_LARGE, id, message));
                }
                steps.push((id, true));
                steps.extend(items.iter().rev().map(|&p| (p, false)));
                continue;
            }
            open.remove(&id);
            let items = done.split_off(done.len() - items.len());
            let kind = match g.sort(id) {
                Sort::Wildcard => PatKind::Wildcard,
                Sort::PatVar => PatKind::Var(self.binder(id, "var", g.refers(id, "var")?)?),
                Sort::PatTuple => {
                    let comma = items.len() == 1;
                    let items = self.out.make_list(items);
                    PatKind::Tuple { items, comma }
                }
                Sort::PatCtor => {
                    let ctor = g.refers(id, "constructor")?;
                    if g.sort(ctor) != Sort::Ctor {
                        return Err(g.wrong(id, "constructor", ctor, "a constructor"));
                    }
                    let parens = !items.is_empty();
                    let args = if parens {
                        self.out.make_list(items)
                    } else {
                        List::EMPTY
                    };
                    PatKind::Ctor {
                        name: self.items.of(self.g, ctor)?,
                        args,
                        parens,
                    }
                }
                _ => {
                    let message =
                        format!("`{}` stands where a pattern is expected", g.kind(id).name);
                    return Err(g.mistake(id, message));
                }
            };
            done.push(self.out.pat(kind, g.span(self.start, id)));
        }
        Ok(done.swap_remove(0))
    }
}

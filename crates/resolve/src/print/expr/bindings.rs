//! Printing of `let` chains, dataflow blocks, and `match` clauses.

use relax_ir::{Expr, ExprId, PatId, Pattern, VarId, VarStyle};
use relax_syntax::ast::{self, ExprKind, PatKind, StmtKind};
use rustc_hash::FxHashMap;

use super::{Head, Task};
use crate::print::{NO, Printer};

impl Printer<'_> {
    /// Returns whether a binding is printed as its value alone; one with an annotation needs its
    /// name.
    fn unnamed(&self, var: VarId) -> bool {
        let info = &self.m.vars[var];
        info.style == VarStyle::Effect && info.ty.is_none() && !self.m.var_attrs.contains_key(&var)
    }

    pub(super) fn begin_let(&mut self, id: ExprId, head: Head) {
        if self.state.early.contains_key(&id) {
            // Nodes shared by a closure and the rest of the chain are printed before both.
            self.push(Task::Let { id, head });
            return self.push_early(id);
        }
        match self.m.exprs[id] {
            Expr::Let { var, value, .. } => {
                let binder = (!self.unnamed(var)).then(|| self.binder(var));
                self.push(Task::LetDone { id, head, binder });
                self.push_print(value, true);
            }
            Expr::Dataflow { .. } => {
                self.state.blocks.push(Vec::new());
                self.push(Task::Flowing {
                    id,
                    head,
                    index: 0,
                    binder: None,
                });
            }
            _ => unreachable!("only these begin a chain"),
        }
    }

    /// Continues with what follows a statement of the chain.
    fn next_link(&mut self, mut head: Head, body: ExprId) {
        head.open = true;
        let link = matches!(self.m.exprs[body], Expr::Let { .. } | Expr::Dataflow { .. });
        // A shared end of a chain is placed like any other shared node.
        if link && self.state.memo.get(body).is_none() && self.uses[body] <= 1 {
            self.push(Task::Let { id: body, head });
        } else {
            self.push(Task::EndLet(head));
            self.push_print(body, true);
        }
        self.push_early(body);
    }

    fn bind(&mut self, var: VarId, binder: Option<ast::BinderId>, value: ast::ExprId) -> StmtKind {
        match (binder, self.m.vars[var].style) {
            (None, _) => StmtKind::Expr(value),
            (Some(binder), VarStyle::Binding) => StmtKind::Bind { binder, value },
            (Some(binder), _) => StmtKind::Let { binder, value },
        }
    }

    pub(super) fn end_binding(&mut self, id: ExprId, head: Head, binder: Option<ast::BinderId>) {
        let Expr::Let { var, body, .. } = self.m.exprs[id] else {
            unreachable!("a `let` is under way")
        };
        let mut value = self.pop();
        if self.pretty()
            && matches!(
                self.out.exprs[value].kind,
                ExprKind::Block { braces: false, .. }
            )
        {
            value = self.out.expr(ExprKind::Paren(value, 1), NO);
        }
        let kind = self.bind(var, binder, value);
        if !head.open {
            self.state.blocks.push(Vec::new());
        }
        self.stmt(kind);
        self.next_link(head, body);
    }

    /// Ends a binding of a dataflow block (if `index` is not 0) and starts the next one.
    pub(super) fn dataflow_step(
        &mut self,
        id: ExprId,
        head: Head,
        index: usize,
        binder: Option<ast::BinderId>,
    ) {
        let m = self.m;
        let Expr::Dataflow { block, body } = m.exprs[id] else {
            unreachable!("a dataflow block is under way")
        };
        let block = &m.blocks[block];
        if index > 0 {
            let value = self.pop();
            let kind = self.bind(block.bindings[index - 1].var, binder, value);
            self.stmt(kind);
        }
        if let Some(next) = block.bindings.get(index) {
            let binder = (!self.unnamed(next.var)).then(|| self.binder(next.var));
            self.push(Task::Flowing {
                id,
                head,
                index: index + 1,
                binder,
            });
            return self.push_print(next.value, true);
        }
        let mut outputs = Vec::new();
        for &var in &block.outputs {
            let name = self.state.vars[var].unwrap_or(m.vars[var].name);
            outputs.push(self.out.expr(ExprKind::Local(name), NO));
        }
        let outputs = self.out.make_list(outputs);
        self.stmt(StmtKind::Output(outputs));
        let stmts = self.state.blocks.pop().expect("opened with the block");
        let inner = self.out.block(stmts, None, NO);
        if !head.open {
            self.state.blocks.push(Vec::new());
        }
        self.stmt(StmtKind::Dataflow(inner));
        self.next_link(head, body);
    }

    pub(super) fn begin_clause(&mut self, id: ExprId, index: usize) {
        let Expr::Match { clauses, .. } = &self.m.exprs[id] else {
            unreachable!("a `match` is under way")
        };
        let clause = clauses[index];
        let pat = self.pattern(clause.pattern);
        self.state.pats.insert((id, index), pat);
        self.push(Task::Scope(clause.body));
    }

    fn pattern(&mut self, root: PatId) -> ast::PatId {
        let m = self.m;
        let order = m.sub_patterns(root);
        let mut binders = FxHashMap::default();
        for &id in &order {
            if let Pattern::Var(v) = m.patterns[id] {
                binders.insert(id, self.binder(v));
            }
        }
        let mut done: FxHashMap<PatId, ast::PatId> = FxHashMap::default();
        for &id in order.iter().rev() {
            let kind = match &m.patterns[id] {
                Pattern::Wildcard => PatKind::Wildcard,
                Pattern::Var(_) => PatKind::Var(binders[&id]),
                Pattern::Ctor(c, args) => PatKind::Ctor {
                    name: m.ctors[*c].name,
                    args: self.out.make_list(args.iter().map(|a| done[a])),
                    parens: !args.is_empty(),
                },
                Pattern::Tuple(args) => PatKind::Tuple {
                    items: self.out.make_list(args.iter().map(|a| done[a])),
                    // TVM prints one-tuple patterns without a comma.
                    comma: args.len() == 1 && self.pretty(),
                },
            };
            done.insert(id, self.out.pat(kind, NO));
        }
        done[&root]
    }
}

//! Printing of expressions: which nodes are printed in place, and which are bound, in which order.
//!
//! This is TVM's printer as a state machine with an explicit stack of [`Task`]s, because the
//! numbers of graph bindings depend on that printer's visiting order. Its rules:
//!
//! * Visiting a node creates its own text. Arguments of calls, fields of tuples and projected
//!   tuples are visited before the node ([`Task::Flow`]), from a worklist; everything else is
//!   visited where it occurs.
//! * A visited node is then *placed* ([`Task::Place`]): names, constants, and nodes with a single
//!   use at the end of a scope or as a `let`'s value are printed in place; all others are bound to
//!   the next `%n`, once, in the innermost open block.

mod bindings;
mod nodes;

use relax_base::{SideTable, Symbol};
use relax_ir::{
    Expr, ExprId, FuncId, Function, GlobalId, IdSet, Module, ScopeId, ScopeKind, Scopes, VarId,
};
use relax_syntax::ast::{self, ExprKind, StmtKind};
use rustc_hash::FxHashMap;

use super::types::Declared;
use super::{NO, Printer};

/// A work item. Tasks that create a tree node push it onto the result stack.
enum Task {
    /// Visit a node after its operands, unless it was visited before.
    Flow { id: ExprId, expanded: bool },
    /// Place a visited node.
    Place { id: ExprId, last: bool },
    /// Visit and place a node in a new block.
    Scope(ExprId),
    /// Close that block.
    EndScope,
    /// Create a node from the results of the preceding tasks.
    Build(ExprId),
    /// Bind a `let`'s variable, then visit its value.
    Let { id: ExprId, head: Head },
    /// Add the statement of a `let` after its value.
    LetDone {
        id: ExprId,
        head: Head,
        binder: Option<ast::BinderId>,
    },
    /// Visit the next binding of a dataflow block.
    Flowing {
        id: ExprId,
        head: Head,
        index: usize,
        binder: Option<ast::BinderId>,
    },
    /// End a chain of `let`s.
    EndLet(Head),
    /// Name the variables of a clause, then visit its body.
    Clause { id: ExprId, index: usize },
    /// Drop a result: the node was only placed for other nodes to refer to.
    Drop,
}

/// The `let` chain that a task belongs to.
#[derive(Clone, Copy)]
struct Head {
    id: ExprId,
    /// Whether the chain has opened its block: the first value is visited outside of it.
    open: bool,
}

/// Tree nodes by expression: the id plus one, so that an entry takes four bytes.
#[derive(Default)]
struct Memo(SideTable<ExprId, u32>);

impl Memo {
    fn get(&self, id: ExprId) -> Option<ast::ExprId> {
        self.0[id].checked_sub(1).map(ast::ExprId)
    }
    fn set(&mut self, id: ExprId, node: Option<ast::ExprId>) {
        self.0.set(id, node.map_or(0, |n| n.0 + 1));
    }
}

/// Returns the operands of a node that start scopes of their own, in order.
fn scope_roots(m: &Module, id: ExprId) -> Vec<ExprId> {
    match &m.exprs[id] {
        Expr::Func(f) => vec![m.funcs[*f].body],
        Expr::If {
            then, otherwise, ..
        } => vec![*then, *otherwise],
        Expr::Match { clauses, .. } => clauses.iter().map(|c| c.body).collect(),
        Expr::Let { body, .. } | Expr::Dataflow { body, .. } => vec![*body],
        _ => Vec::new(),
    }
}

/// The printer's state across functions.
#[derive(Default)]
pub(super) struct State {
    /// The tree nodes of visited expressions.
    memo: Memo,
    /// For each scope, by its root expression: the nodes bound at its start.
    early: FxHashMap<ExprId, Vec<ExprId>>,
    /// Nodes that have been bound to a `%n`.
    bound: relax_ir::IdSet,
    vars: SideTable<VarId, Option<Symbol>>,
    /// The next `%n`.
    temps: u32,
    tasks: Vec<Task>,
    results: Vec<ast::ExprId>,
    blocks: Vec<Vec<ast::StmtId>>,
    /// Free variables that are named but not declared yet.
    free: FxHashMap<VarId, ast::BinderId>,
    /// Expressions whose state is cleared at the end of a function.
    seen: Vec<ExprId>,
    /// Patterns of unfinished clauses.
    pats: FxHashMap<(ExprId, usize), ast::PatId>,
    /// Binders of unfinished functions.
    heads: FxHashMap<ExprId, ast::Function>,
}

impl Printer<'_> {
    /// Prints a function, including its body.
    pub(super) fn function(&mut self, func: FuncId) -> ast::FnId {
        let body = self.m.funcs[func].body;
        self.uses = self.m.use_counts([body]);
        self.state.early = self.early_nodes(body);
        let mut head = self.function_head(func);
        head.body = self.scope(body);
        self.forget();
        self.out.functions.push(head)
    }

    /// Ends a function: a node shared with another function is printed again there.
    fn forget(&mut self) {
        for id in self.state.seen.drain(..) {
            self.state.memo.set(id, None);
            self.state.bound.remove(id);
        }
    }

    /// Prints the expression of an expression file, with its free variables: TVM declares each
    /// before its first use, the pretty style all of them at the start.
    pub(super) fn expression(&mut self, global: GlobalId) -> ast::ExprId {
        let m = self.m;
        let func = m.global_func(global).expect("an expression file's");
        let body = m.funcs[func].body;
        self.uses = m.use_counts([body]);
        self.state.early = self.early_nodes(body);
        let mut first = Vec::new();
        let params = &m.funcs[func].params;
        // Declaring them at first uses in another order would reorder the parameters.
        if self.pretty() || m.free_vars(body) != *params {
            for &param in params {
                let binder = self.binder(param);
                first.push(self.out.stmt(StmtKind::FreeVar(binder), NO));
            }
        }
        let block = self.scope(body);
        self.forget();
        let ExprKind::Block { stmts, tail, .. } = self.out.exprs[block].kind else {
            unreachable!("a scope is a block")
        };
        first.extend(self.out.list(stmts));
        let stmts = self.out.make_list(first);
        let braces = false;
        self.out.expr(
            ExprKind::Block {
                stmts,
                tail,
                braces,
            },
            NO,
        )
    }

    /// Prints the function of a file that is a function literal.
    pub(super) fn literal(&mut self, func: FuncId) -> ast::ExprId {
        let function = self.function(func);
        let node = self.out.expr(ExprKind::Fn(function), NO);
        if let Some(ty) = self.type_of_function(func, function) {
            self.out.expr_types.set(node, Some(ty));
        }
        node
    }

    /// Prints the type of a function from its known types; returns `None` if there are none.
    fn type_of_function(&mut self, func: FuncId, printed: ast::FnId) -> Option<ast::TypeId> {
        let m = self.m;
        let types = self.mode.types?;
        let f = &m.funcs[func];
        let known = f.params.iter().map(|&p| types.var(p).or(m.vars[p].ty));
        let params: Vec<_> = known.collect::<Option<_>>()?;
        let ret = f.ret.or_else(|| types.ret(func))?;
        let signature: Vec<_> = params
            .into_iter()
            .chain([ret])
            .map(|t| self.ty(t))
            .collect();
        let kind = ast::TypeExprKind::Fn {
            type_params: self.out.functions[printed].type_params,
            angle: false,
            signature: self.out.make_list(signature),
            relations: 0,
        };
        Some(self.out.ty(kind, NO))
    }

    /// Prints the parts of a function before its body: name, parameters, attributes, result type.
    fn function_head(&mut self, func: FuncId) -> ast::Function {
        let m = self.m;
        let f = &m.funcs[func];
        let params: Vec<_> = f.params.iter().map(|&p| self.binder(p)).collect();
        let params = self.out.make_list(params);
        let dims: Vec<_> = if self.pretty() {
            self.declared_dims(f)
        } else {
            Vec::new()
        };
        let type_params = self.type_param_list(&f.type_params, &dims, self.pretty());
        let attrs = self.dict_attrs(&f.attrs);
        let ret = f.ret.or_else(|| self.found_result(func));
        let ret_node = ret.map(|t| self.ty(t));
        // A type too large to print is inferred again when the text is read.
        let hole = |t: &ast::TypeId| self.out.types[*t].kind == ast::TypeExprKind::Hole;
        let ret_node = ret_node.filter(|t| f.ret.is_some() || !hole(t));
        let relations = if self.pretty() && !f.constraints.is_empty() {
            let relations = self.constraints(&f.constraints);
            self.out.make_list(relations)
        } else {
            ast::List::EMPTY
        };
        ast::Function {
            type_params,
            angle: false,
            params,
            attrs,
            ret: ret_node,
            relations,
            // Filled in after the body.
            body: ast::ExprId(0),
            header: NO,
        }
    }

    /// Returns the inferred result type, if it can be expressed in the text.
    fn found_result(&mut self, func: FuncId) -> Option<relax_ir::TypeId> {
        let ty = self.mode.types?.ret(func)?;
        let m = self.m;
        let declared = self.declared.get_or_insert_with(|| Declared::of(m));
        declared.names(m, ty).then_some(ty)
    }

    /// Returns the dimension variables that the parameters' types do not bind.
    fn declared_dims(&self, f: &Function) -> Vec<relax_sym::DimVar> {
        let types = f.params.iter().filter_map(|&p| self.m.vars[p].ty);
        self.not_bound_by(&f.dims, types)
    }

    /// Names a variable at its binding.
    fn binder(&mut self, var: VarId) -> ast::BinderId {
        let info = &self.m.vars[var];
        let name = self.names.variable(info.name);
        self.state.vars.set(var, Some(name));
        let ty = info.ty.map(|t| self.ty(t));
        let binder = self.out.binder(name, ty, NO);
        if let Some(attrs) = self.m.var_attrs.get(&var) {
            let attrs = self.dict_attrs(attrs);
            self.out.binders[binder].attrs = attrs;
        }
        if let Some(ty) = self.mode.types.and_then(|t| t.var(var)) {
            let ty = self.ty(ty);
            self.out.binder_types.set(binder, Some(ty));
        }
        binder
    }

    /// Returns the nodes shared by several scopes under `root`, by the scope that encloses all of
    /// them, users last. TVM binds such a node where it is first visited, invisible to code printed
    /// earlier; the pretty style binds it at the start of the scope that encloses its users.
    fn early_nodes(&self, root: ExprId) -> FxHashMap<ExprId, Vec<ExprId>> {
        let m = self.m;
        let mut early: FxHashMap<ExprId, Vec<ExprId>> = FxHashMap::default();
        let shared = |id: ExprId| self.uses[id] > 1 && !m.is_leaf(id);
        if !self.pretty() || !m.post_order([root]).into_iter().any(shared) {
            return early;
        }
        let scopes = Scopes::new(m, root);
        let bodies: FxHashMap<ExprId, ScopeId> = (scopes.ids())
            .filter_map(|s| match scopes.kind(s) {
                ScopeKind::Body(e) => Some((e, s)),
                _ => None,
            })
            .collect();
        // Nodes with a use in a more deeply nested scope than their own, and among those the ones
        // used by a closure that is printed before the scope: the closure bound by the `let` that
        // opens the scope.
        let (mut inner, mut before) = (IdSet::default(), IdSet::default());
        for &user in scopes.order() {
            let own = scopes.of(user);
            let begins = scope_roots(m, user);
            m.for_each_child(user, |part| {
                if !shared(part) || scopes.of(part) == own && !begins.contains(&part) {
                    return;
                }
                inner.insert(part);
                if let Some(ScopeKind::Binding(e)) = scopes.of(part).map(|s| scopes.kind(s))
                    && let Expr::Let { value, .. } = m.exprs[e]
                    && let Some(&body) = bodies.get(&value)
                    && (user == value || own.is_some_and(|own| scopes.holds(body, own)))
                {
                    before.insert(part);
                }
            });
        }
        for &id in scopes.order().iter().rev() {
            if inner.contains(id)
                && let Some(scope) = scopes.of(id)
            {
                let first = match scopes.kind(scope) {
                    ScopeKind::Binding(e) if before.contains(id) => e,
                    ScopeKind::Root => root,
                    ScopeKind::Then(e) => scope_roots(m, e)[0],
                    ScopeKind::Else(e) => scope_roots(m, e)[1],
                    ScopeKind::Clause(e, i) => scope_roots(m, e)[i as usize],
                    ScopeKind::Body(e) | ScopeKind::Binding(e) => scope_roots(m, e)[0],
                };
                early.entry(first).or_default().push(id);
            }
        }
        early
    }

    /// Schedules the nodes bound at the start of the scope with this root.
    fn push_early(&mut self, root: ExprId) {
        for id in self
            .state
            .early
            .remove(&root)
            .unwrap_or_default()
            .into_iter()
            .rev()
        {
            self.push(Task::Drop);
            self.push_print(id, false);
        }
    }

    /// Prints a braced block with everything under `root`.
    fn scope(&mut self, root: ExprId) -> ast::ExprId {
        self.state.tasks.push(Task::Scope(root));
        while let Some(task) = self.state.tasks.pop() {
            self.step(task);
        }
        self.state.results.pop().expect("a scope gives its block")
    }

    fn push(&mut self, task: Task) {
        self.state.tasks.push(task);
    }

    /// Schedules visiting, then placing: in reverse, as the last task pushed runs first.
    fn push_print(&mut self, id: ExprId, last: bool) {
        self.push(Task::Place { id, last });
        self.push(Task::Flow {
            id,
            expanded: false,
        });
    }

    fn stmt(&mut self, kind: StmtKind) {
        let stmt = self.out.stmt(kind, NO);
        let block = self.state.blocks.last_mut().expect("a block is open");
        block.push(stmt);
    }

    fn pop(&mut self) -> ast::ExprId {
        self.state.results.pop().expect("a result for each part")
    }

    fn step(&mut self, task: Task) {
        match task {
            Task::Flow { id, expanded } => self.flow(id, expanded),
            Task::Place { id, last } => {
                let placed = self.place(id, last);
                self.state.results.push(placed);
            }
            Task::Scope(id) => {
                self.state.blocks.push(Vec::new());
                self.push(Task::EndScope);
                self.push_print(id, true);
                self.push_early(id);
            }
            Task::Drop => {
                self.pop();
            }
            Task::EndScope => {
                let tail = self.pop();
                let stmts = self.state.blocks.pop().expect("opened by the scope");
                let block = self.close(stmts, tail, true);
                self.state.results.push(block);
            }
            Task::Build(id) => self.build(id),
            Task::Let { id, head } => self.begin_let(id, head),
            Task::LetDone { id, head, binder } => self.end_binding(id, head, binder),
            Task::Flowing {
                id,
                head,
                index,
                binder,
            } => self.dataflow_step(id, head, index, binder),
            Task::EndLet(head) => {
                let tail = self.pop();
                let stmts = self.state.blocks.pop().expect("opened by the chain");
                let block = self.close(stmts, tail, false);
                self.visited(head.id, block);
            }
            Task::Clause { id, index } => self.begin_clause(id, index),
        }
    }

    /// Closes a block; the statements of a chain of `let`s at its end are merged into it.
    fn close(
        &mut self,
        mut stmts: Vec<ast::StmtId>,
        tail: ast::ExprId,
        braces: bool,
    ) -> ast::ExprId {
        let mut tail = Some(tail);
        if let Some(end) = tail
            && let ExprKind::Block {
                stmts: inner,
                tail: inner_tail,
                braces: false,
            } = self.out.exprs[end].kind
        {
            stmts.extend(self.out.list(inner));
            tail = inner_tail;
        }
        let stmts = self.out.make_list(stmts);
        self.out.expr(
            ExprKind::Block {
                stmts,
                tail,
                braces,
            },
            NO,
        )
    }

    fn flow(&mut self, id: ExprId, expanded: bool) {
        let m = self.m;
        if self.state.memo.get(id).is_some() {
            return;
        }
        if expanded {
            return self.visit(id);
        }
        self.push(Task::Flow { id, expanded: true });
        let first = self.state.tasks.len();
        match &m.exprs[id] {
            Expr::Call { callee, args, .. } => {
                for &part in std::iter::once(callee).chain(m.list(*args)) {
                    self.push_unvisited(part);
                }
            }
            Expr::Tuple(fields) => {
                for &part in m.list(*fields) {
                    self.push_unvisited(part);
                }
            }
            Expr::Proj { tuple, .. } => self.push_unvisited(*tuple),
            _ => {}
        }
        self.state.tasks[first..].reverse();
    }

    fn push_unvisited(&mut self, id: ExprId) {
        if self.state.memo.get(id).is_none() {
            self.push(Task::Flow {
                id,
                expanded: false,
            });
        }
    }

    fn visited(&mut self, id: ExprId, node: ast::ExprId) {
        if let Some(types) = self.mode.types
            && matches!(
                self.m.exprs[id],
                Expr::Const(_)
                    | Expr::Call { .. }
                    | Expr::Func(_)
                    | Expr::Tuple(_)
                    | Expr::Proj { .. }
            )
            && let Some(ty) = types.expr(id)
            && self.out.expr_types[node].is_none()
        {
            let ty = self.ty(ty);
            self.out.expr_types.set(node, Some(ty));
        }
        self.state.memo.set(id, Some(node));
        self.state.seen.push(id);
    }

    /// Creates a node's own text.
    fn visit(&mut self, id: ExprId) {
        let m = self.m;
        match &m.exprs[id] {
            Expr::Var(var) => {
                let name = self.local(*var);
                let node = self.out.expr(ExprKind::Local(name), NO);
                self.visited(id, node);
            }
            Expr::Global(g) => {
                let node = self.out.expr(ExprKind::Global(m.globals[*g].name), NO);
                self.visited(id, node);
            }
            Expr::Op(op) => {
                let name = self.op_name(*op);
                let node = self.name(name);
                self.visited(id, node);
            }
            Expr::Ctor(c) => {
                let node = self.name(m.ctors[*c].name);
                self.visited(id, node);
            }
            // A kernel of another module, referenced by an opaque call.
            Expr::Extern(name) if name.as_str().starts_with('@') => {
                let name = Symbol::new(&name.as_str()[1..]);
                let node = self.out.expr(ExprKind::Global(name), NO);
                self.visited(id, node);
            }
            Expr::Extern(name) => {
                let node = self.out.expr(ExprKind::Str(*name), NO);
                self.visited(id, node);
            }
            Expr::Const(c) => {
                let node = self.constant(*c);
                self.visited(id, node);
            }
            Expr::Call { .. } | Expr::Tuple(_) | Expr::Proj { .. } => {
                let node = self.flat(id);
                self.visited(id, node);
            }
            Expr::Shape(dims) => {
                let dims: Vec<_> = dims.iter().map(|d| self.dim(d)).collect();
                let dims = self.out.make_list(dims);
                let node = self.out.expr(ExprKind::Shape(dims), NO);
                self.visited(id, node);
            }
            Expr::Error => {
                let node = self.out.expr(ExprKind::Error, NO);
                self.visited(id, node);
            }
            Expr::Let { .. } | Expr::Dataflow { .. } => self.push(Task::Let {
                id,
                head: Head { id, open: false },
            }),
            Expr::Func(f) => {
                let head = self.function_head(*f);
                self.state.heads.insert(id, head);
                self.push(Task::Build(id));
                self.push(Task::Scope(m.funcs[*f].body));
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                self.push(Task::Build(id));
                self.push(Task::Scope(*otherwise));
                self.push(Task::Scope(*then));
                self.push_print(*cond, false);
            }
            Expr::Match { value, clauses, .. } => {
                self.push(Task::Build(id));
                for index in (0..clauses.len()).rev() {
                    self.push(Task::Clause { id, index });
                }
                self.push_print(*value, false);
            }
            Expr::RefNew(value) | Expr::RefRead(value) => {
                self.push(Task::Build(id));
                self.push_print(*value, false);
            }
            Expr::MatchShape { value, .. } | Expr::MatchCast { value, .. } => {
                self.push(Task::Build(id));
                self.push_print(*value, false);
            }
            Expr::RefWrite(cell, value) => {
                self.push(Task::Build(id));
                self.push_print(*value, false);
                self.push_print(*cell, false);
            }
        }
    }
}

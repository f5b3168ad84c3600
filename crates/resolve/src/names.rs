//! Name occurrences for editors: every occurrence of a name in a tree, with its span and the span
//! of its binding.
//!
//! [`resolve`](crate::resolve) creates a module, which keeps meanings and drops spellings: types
//! are shared, constants have no names. This traversal keeps every spelling and needs only the
//! tree, so it works on files with errors too. A test compares it with the resolver's own scopes.
//!
//! Invariant: nothing recurses over the depth of a program.
//!
//! Invariant: a name inside an item never refers to a local of another item.

mod scope;
mod types;

use relax_base::{Span, Symbol};
use relax_syntax::ast::{self, Ast, ExprKind, ItemKind, PatKind, StmtKind};

use rustc_hash::FxHashSet;
use scope::{Mark, Scope};

/// The kind of entity that a name denotes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum NameKind {
    /// `%x`: variables, parameters, buffers, loop variables.
    Local,
    /// `%0`
    Graph,
    /// `@f`
    Global,
    /// A bare name in an expression: an operator or a constructor.
    Callee,
    /// A constructor: in its declaration, and in patterns.
    Ctor,
    /// A data type, `List`.
    Type,
    /// A type parameter.
    TypeParam,
    /// A dimension variable.
    Dim,
    /// A type relation.
    Relation,
    /// An operator, in the `op` item that declares it.
    Op,
    /// An attribute key, `axis` in `axis=1`.
    Key,
    /// An attribute of an `op` item: in its declaration and in the computation.
    Attr,
}

impl NameKind {
    /// Returns whether such names are visible in the whole file rather than in one item.
    pub fn is_file_wide(self) -> bool {
        use NameKind::*;
        matches!(self, Global | Callee | Ctor | Type | Relation | Op)
    }
}

/// An occurrence of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    /// The span, including the sigil, if any.
    pub span: Span,
    /// The name, without sigil.
    pub text: Symbol,
    /// The kind of name.
    pub kind: NameKind,
    /// For a name bound within an item: the span of the name at its binding. `None` for file-wide
    /// names, and for unbound names.
    pub binding: Option<Span>,
    /// Whether this occurrence is the binding or declaration.
    pub binds: bool,
}

/// Collects every name in a tree, in source order.
pub fn names(ast: &Ast) -> Vec<Name> {
    let mut walk = Walk {
        ast,
        out: Vec::with_capacity(ast.exprs.len() / 2),
        scope: Scope::default(),
        tasks: Vec::new(),
        bind_dims: false,
        in_program: false,
        buffers: FxHashSet::default(),
        free: None,
        declared: (ast.items.iter())
            .filter_map(|i| match i.kind {
                ItemKind::TypeDef(def) => Some(def.name),
                _ => None,
            })
            .collect(),
    };
    for item in &ast.items {
        walk.item(item);
    }
    // A position may be visited twice if a relation's condition defines a name.
    walk.out.sort_by_key(|n| (n.span, !n.binds));
    walk.out.dedup_by_key(|n| n.span);
    walk.out
}

/// A step of the traversal.
enum Task {
    Expr(ast::ExprId),
    /// An attribute value: bare names are dimensions and element types.
    Value(ast::ExprId),
    Stmt(ast::StmtId),
    Clause(ast::ClauseId),
    Bind(ast::BinderId),
    Graph(ast::StmtId, u32),
    Dims(ast::List<ast::TypeId>),
    Cast(ast::TypeId),
    /// Type references to visit after the operands.
    Types(ast::List<ast::TypeId>),
    Output(ast::List<ast::ExprId>),
    Leave(Mark),
    /// Leave the scope of a dataflow block: dimensions and the listed outputs stay bound.
    LeaveFlow(Mark, ast::ExprId),
}

struct Walk<'a> {
    ast: &'a Ast,
    out: Vec<Name>,
    scope: Scope,
    tasks: Vec<Task>,
    /// Whether an unknown dimension is bound at its occurrence.
    bind_dims: bool,
    /// Inside a tensor program or a computation: bare names are dimensions and attributes.
    in_program: bool,
    /// The binders of buffers with axes in tensor programs.
    buffers: FxHashSet<Span>,
    /// In an expression file: unknown locals are free variables.
    free: Option<Mark>,
    /// The data types declared in the file.
    declared: FxHashSet<Symbol>,
}

impl<'a> Walk<'a> {
    fn push(&mut self, span: Span, text: Symbol, kind: NameKind, binding: Option<Span>) {
        self.out.push(Name {
            span,
            text,
            kind,
            binding,
            binds: binding == Some(span),
        });
    }

    /// Records the declaration of a file-wide name.
    fn declare(&mut self, span: Span, text: Symbol, kind: NameKind) {
        self.out.push(Name {
            span,
            text,
            kind,
            binding: None,
            binds: true,
        });
    }

    /// Returns the first `len` bytes of a span.
    fn head(span: Span, len: usize) -> Span {
        Span::new(span.start, (span.start + len as u32).min(span.end))
    }

    fn item(&mut self, item: &ast::Item) {
        let ast = self.ast;
        let mark = self.scope.enter();
        match item.kind {
            ItemKind::Error => {}
            ItemKind::Def { name, function } => {
                self.declare(item.name_span, name, NameKind::Global);
                self.function(function);
            }
            ItemKind::DefMeta { name, .. } => {
                self.declare(item.name_span, name, NameKind::Global);
            }
            ItemKind::TypeDef(def) => {
                self.declare(item.name_span, def.name, NameKind::Type);
                self.type_params(def.params);
                for c in ast.list(def.ctors) {
                    let c = ast.ctors[c];
                    let place = Self::head(c.span, c.name.as_str().len());
                    self.declare(place, c.name, NameKind::Ctor);
                    self.types(c.fields);
                    if let Some(ret) = c.ret {
                        self.ty(ret);
                    }
                }
            }
            ItemKind::Rel(rel) => {
                self.declare(item.name_span, rel.name, NameKind::Relation);
                self.relation(&rel);
            }
            ItemKind::Op(op) => {
                self.declare(item.name_span, op.name, NameKind::Op);
                self.type_params(op.type_params);
                self.bind_dims = true;
                for b in ast.list(op.params) {
                    self.binder(b);
                }
                op.ret.into_iter().for_each(|t| self.ty(t));
                self.constraints(op.relations);
                self.bind_dims = false;
                self.in_program = true;
                self.expr(op.body);
                self.in_program = false;
            }
            ItemKind::Grad(grad) => {
                self.push(item.name_span, grad.op, NameKind::Callee, None);
                for b in ast.list(grad.params) {
                    self.binder(b);
                    let default = ast.binders[b].default;
                    self.tasks.extend(default.map(Task::Value));
                }
                self.binder(grad.result);
                self.binder(grad.grad);
                self.run();
                self.expr(grad.body);
            }
            ItemKind::PrimFunc(p) => {
                self.declare(item.name_span, p.name, NameKind::Global);
                self.bind_dims = true;
                for b in ast.list(p.params) {
                    self.buffer(b);
                }
                self.bind_dims = false;
                self.in_program = true;
                self.expr(p.body);
                self.in_program = false;
            }
            ItemKind::Expr(e) => {
                self.free = Some(self.scope.enter());
                self.expr(e);
                self.free = None;
            }
            ItemKind::Type(t) => {
                self.bind_dims = true;
                self.ty(t);
                self.bind_dims = false;
            }
        }
        self.run();
        self.scope.leave(mark);
    }

    /// Visits a signature; the body is visited by [`Walk::run`].
    fn function(&mut self, f: ast::FnId) {
        let ast = self.ast;
        let function = ast.functions[f];
        let mark = self.scope.enter();
        self.type_params(function.type_params);
        let outer = std::mem::replace(&mut self.bind_dims, true);
        for b in ast.list(function.params) {
            self.binder(b);
        }
        if let Some(ret) = function.ret {
            self.ty(ret);
        }
        self.constraints(function.relations);
        self.bind_dims = outer;
        self.tasks.push(Task::Leave(mark));
        self.tasks.push(Task::Expr(function.body));
        self.attrs(function.attrs);
    }

    /// Visits an expression and all deferred tasks immediately.
    fn expr(&mut self, e: ast::ExprId) {
        self.tasks.push(Task::Expr(e));
        self.run();
    }

    /// Visits the type and attributes of a binder, then its name.
    fn binder(&mut self, b: ast::BinderId) {
        let binder = self.ast.binders[b];
        if let Some(t) = binder.ty {
            self.ty(t);
        }
        for a in self.ast.list(binder.attrs) {
            let a = self.ast.attrs[a];
            let place = Self::head(a.span, a.key.as_str().len());
            self.push(place, a.key, NameKind::Key, None);
        }
        if binder.name.as_str().is_empty() {
            return;
        }
        if binder.sigil {
            self.push(binder.span, binder.name, NameKind::Local, Some(binder.span));
            self.scope.bind_local(binder.name, binder.span);
        } else {
            self.push(binder.span, binder.name, NameKind::Attr, Some(binder.span));
            let what = (NameKind::Attr, binder.span);
            self.scope.bind_type(binder.name, what);
        }
    }

    fn attrs(&mut self, list: ast::List<ast::AttrId>) {
        for a in self.ast.list(list).rev() {
            let a = self.ast.attrs[a];
            let place = Self::head(a.span, a.key.as_str().len());
            self.push(place, a.key, NameKind::Key, None);
            self.tasks.push(Task::Value(a.value));
        }
    }

    fn local(&mut self, name: Symbol, span: Span) {
        let mut binding = self.scope.local(name);
        if binding.is_none() && self.free.is_some() {
            // In an expression file, the first use of an undeclared variable declares it.
            binding = Some(span);
            self.scope.bind_free(name, span);
        }
        self.push(span, name, NameKind::Local, binding);
    }

    fn run(&mut self) {
        while let Some(task) = self.tasks.pop() {
            match task {
                Task::Expr(e) => self.look(e, self.in_program),
                Task::Value(e) => self.look(e, true),
                Task::Stmt(s) => self.stmt(s),
                Task::Bind(b) => self.binder(b),
                Task::Graph(s, index) => self.bind_graph(s, index),
                Task::Clause(c) => {
                    let clause = self.ast.clauses[c];
                    let mark = self.scope.enter();
                    self.pattern(clause.pat);
                    self.tasks.push(Task::Leave(mark));
                    self.tasks.push(Task::Expr(clause.body));
                }
                Task::Dims(dims) => {
                    let outer = std::mem::replace(&mut self.bind_dims, true);
                    self.dims(dims);
                    self.bind_dims = outer;
                }
                Task::Cast(t) => {
                    let outer = std::mem::replace(&mut self.bind_dims, true);
                    self.ty(t);
                    self.bind_dims = outer;
                }
                Task::Types(list) => self.types(list),
                Task::Output(list) => {
                    for e in self.ast.list(list) {
                        if let ast::Expr {
                            kind: ExprKind::Local(name),
                            span,
                        } = self.ast.exprs[e]
                        {
                            self.local(name, span);
                        }
                    }
                }
                Task::Leave(mark) => self.scope.leave(mark),
                Task::LeaveFlow(mark, body) => self.leave_flow(mark, body),
            }
        }
    }

    fn bind_graph(&mut self, s: ast::StmtId, index: u32) {
        let text = Symbol::new(&index.to_string());
        let place = Self::head(self.ast.stmts[s].span, text.as_str().len() + 1);
        self.push(place, text, NameKind::Graph, Some(place));
        self.scope.bind_graph(index, place);
    }

    fn leave_flow(&mut self, mark: Mark, body: ast::ExprId) {
        let ast = self.ast;
        let mut outputs = Vec::new();
        if let ExprKind::Block { stmts, .. } = ast.exprs[body].kind {
            for s in ast.list(stmts) {
                if let StmtKind::Output(list) = ast.stmts[s].kind {
                    for e in ast.list(list) {
                        if let ExprKind::Local(name) = ast.exprs[e].kind
                            && let Some(place) = self.scope.local(name)
                        {
                            outputs.push((name, place));
                        }
                    }
                }
            }
        }
        self.scope.leave_keeping_types(mark);
        for (name, place) in outputs {
            self.scope.bind_local(name, place);
        }
    }

    fn stmt(&mut self, s: ast::StmtId) {
        let ast = self.ast;
        match ast.stmts[s].kind {
            StmtKind::Error => {}
            StmtKind::Let { binder, value } | StmtKind::Bind { binder, value } => {
                let b = &ast.binders[binder];
                let call = matches!(ast.exprs[value].kind, ExprKind::Call { .. });
                let known = self.scope.local(b.name);
                let writes = b.ty.is_none() && known.is_some_and(|p| self.buffers.contains(&p));
                if self.in_program && call && writes {
                    // The call of an operator writes the buffer.
                    self.tasks.push(Task::Expr(value));
                    self.local(b.name, b.span);
                } else if !self.in_program && self.is_function(value) {
                    self.binder(binder);
                    self.tasks.push(Task::Expr(value));
                } else {
                    self.tasks.push(Task::Bind(binder));
                    self.tasks.push(Task::Expr(value));
                }
            }
            StmtKind::Graph { index, value } => {
                self.tasks.push(Task::Graph(s, index));
                self.tasks.push(Task::Expr(value));
            }
            StmtKind::Expr(e) | StmtKind::Init(e) => self.tasks.push(Task::Expr(e)),
            StmtKind::FreeVar(b) => {
                let outer = std::mem::replace(&mut self.bind_dims, true);
                self.binder(b);
                self.bind_dims = outer;
            }
            StmtKind::Dataflow(body) => {
                let mark = self.scope.enter();
                self.tasks.push(Task::LeaveFlow(mark, body));
                if let ExprKind::Block { stmts, .. } = ast.exprs[body].kind {
                    self.tasks.extend(ast.list(stmts).rev().map(Task::Stmt));
                }
            }
            StmtKind::Output(list) => self.tasks.push(Task::Output(list)),
            StmtKind::For { loops, body, .. } => {
                let mark = self.scope.enter();
                self.tasks.push(Task::Leave(mark));
                self.tasks.push(Task::Expr(body));
                let binders = ast.list(loops).rev().map(|l| ast.loops[l].binder);
                self.tasks.extend(binders.map(Task::Bind));
                let extents = ast.list(loops).rev().map(|l| ast.loops[l].extent);
                self.tasks.extend(extents.map(Task::Expr));
            }
            StmtKind::While { cond, body } => {
                self.tasks.push(Task::Expr(body));
                self.tasks.push(Task::Expr(cond));
            }
            StmtKind::Store { target, value, .. } => {
                self.tasks.push(Task::Expr(value));
                self.tasks.push(Task::Expr(target));
            }
            StmtKind::Alloc(b) => self.buffer(b),
            // The name is that of no definition.
            StmtKind::Kernel { body, .. } => self.tasks.push(Task::Expr(body)),
            StmtKind::Compute { indices, value } => {
                for b in ast.list(indices) {
                    self.binder(b);
                }
                self.tasks.push(Task::Expr(value));
            }
        }
    }

    /// Binds a buffer of a tensor program.
    fn buffer(&mut self, b: ast::BinderId) {
        let ast::Binder { ty, span, .. } = self.ast.binders[b];
        let kind = ty.map(|t| self.ast.types[t].kind);
        if matches!(kind, Some(ast::TypeExprKind::Apply { .. })) {
            self.buffers.insert(span);
        }
        self.binder(b);
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

    fn look(&mut self, e: ast::ExprId, dims: bool) {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[e];
        let again = |e| if dims { Task::Value(e) } else { Task::Expr(e) };
        match kind {
            ExprKind::Local(name) => self.local(name, span),
            ExprKind::Graph(index) => {
                let binding = self.scope.graph(index);
                let text = Symbol::new(&index.to_string());
                self.push(span, text, NameKind::Graph, binding);
            }
            ExprKind::Global(name) => self.push(span, name, NameKind::Global, None),
            ExprKind::Name(name) => match self.scope.type_name(name) {
                Some((kind, place)) if dims || kind == NameKind::Attr => {
                    self.push(span, name, kind, Some(place))
                }
                _ => self.push(span, name, NameKind::Callee, None),
            },
            ExprKind::Error
            | ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Meta { .. } => {}
            ExprKind::Paren(inner, _) => self.tasks.push(again(inner)),
            ExprKind::Tuple(items) | ExprKind::List(items) => {
                self.tasks.extend(ast.list(items).rev().map(again));
            }
            ExprKind::Map(attrs) => self.attrs(attrs),
            ExprKind::Proj { tuple, .. } => self.tasks.push(again(tuple)),
            ExprKind::Call {
                callee,
                args,
                attrs,
            } => {
                self.attrs(attrs);
                self.tasks.extend(ast.list(args).rev().map(again));
                match ast.exprs[callee] {
                    ast::Expr {
                        kind: ExprKind::Name(name),
                        span,
                    } => match self.scope.type_name(name) {
                        // A conversion to an element type that is a parameter.
                        Some((NameKind::TypeParam, place)) if dims => {
                            self.push(span, name, NameKind::TypeParam, Some(place));
                        }
                        _ => self.push(span, name, NameKind::Callee, None),
                    },
                    _ => self.tasks.push(Task::Expr(callee)),
                }
            }
            ExprKind::TypeApply { callee, args } => {
                self.tasks.push(Task::Types(args));
                self.tasks.push(Task::Expr(callee));
            }
            ExprKind::Fn(f) => self.function(f),
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => {
                self.tasks.extend(otherwise.map(Task::Expr));
                self.tasks.push(Task::Expr(then));
                self.tasks.push(Task::Expr(cond));
            }
            ExprKind::Match {
                scrutinee, clauses, ..
            } => {
                self.tasks.extend(ast.list(clauses).rev().map(Task::Clause));
                self.tasks.push(Task::Expr(scrutinee));
            }
            ExprKind::Block { stmts, tail, .. } => {
                let mark = self.scope.enter();
                self.tasks.push(Task::Leave(mark));
                self.tasks.extend(tail.map(Task::Expr));
                self.tasks.extend(ast.list(stmts).rev().map(Task::Stmt));
            }
            ExprKind::RefNew(e) | ExprKind::RefRead(e) => self.tasks.push(Task::Expr(e)),
            ExprKind::RefWrite { target, value } => {
                self.tasks.push(Task::Expr(value));
                self.tasks.push(Task::Expr(target));
            }
            ExprKind::Binary { lhs, rhs, .. } => {
                self.tasks.push(again(rhs));
                self.tasks.push(again(lhs));
            }
            ExprKind::Index { base, indices } => {
                self.tasks.extend(ast.list(indices).rev().map(again));
                self.tasks.push(again(base));
            }
            ExprKind::Shape(dims) => self.dims(dims),
            ExprKind::MatchShape { value, dims } => {
                self.tasks.push(Task::Dims(dims));
                self.tasks.push(Task::Expr(value));
            }
            ExprKind::MatchCast { value, ty } => {
                self.tasks.push(Task::Cast(ty));
                self.tasks.push(Task::Expr(value));
            }
        }
    }

    fn pattern(&mut self, p: ast::PatId) {
        let ast = self.ast;
        let mut left = vec![p];
        while let Some(p) = left.pop() {
            let ast::Pat { kind, span } = ast.pats[p];
            match kind {
                PatKind::Error | PatKind::Wildcard => {}
                PatKind::Var(b) => self.binder(b),
                PatKind::Ctor { name, args, .. } => {
                    let place = Self::head(span, name.as_str().len());
                    self.push(place, name, NameKind::Ctor, None);
                    left.extend(ast.list(args).rev());
                }
                PatKind::Tuple { items, .. } => left.extend(ast.list(items).rev()),
            }
        }
    }
}

//! `to-a-normal-form`: every value gets a name.
//!
//! Each compound expression and each constant is bound by a `let` in the scope where it is
//! evaluated, in order of evaluation; the operands of calls, tuples and conditions are names.
//! Nested `let`s become one chain.

use std::collections::VecDeque;
use std::sync::Arc;

use relax_base::{Diagnostics, SideTable};
use relax_ir::{
    BlockId, Clause, Expr, ExprId, ExprList, Function, IdSet, Memo, Module, ScopeId, Scopes, VarId,
    VarStyle,
};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::util::{is_literal_argument, is_primitive, open_sharing_blocks, share_constants};
use crate::{Analysis, Contract, Form, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "to-a-normal-form",
    doc: "Binds every value by a `let`, in order of evaluation.",
    options: &[],
    contract: Contract::PLAIN
        .gives(&[Form::ANormal, Form::BasicBlockNormal])
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    share_constants(cx.module);
    open_sharing_blocks(cx.module);
    for (global, body) in cx.module.global_bodies() {
        let func = cx.module.global_func(global).expect("it has a body");
        if crate::util::is_external(&cx.module.funcs[func]) {
            continue;
        }
        let scopes = cx.scopes(func);
        let new = normal_form_in(cx.module, scopes, body, Order::ArgumentsFirst, |_, _| true);
        cx.module.set_global_body(global, new);
    }
    Ok(())
}

/// The order in which the function literal that a call applies is bound: its evaluation has no
/// effects, so either is correct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// After the arguments, as TVM's pass of this name does.
    ArgumentsFirst,
    /// Before the arguments, like TVM's partial evaluator.
    LiteralsFirst,
}

/// A step of the traversal.
enum Step {
    /// Visits an expression whose value a `let` binds to the variable, if there is one.
    Enter(ExprId, Option<VarId>),
    /// Leaves an expression whose operands were visited.
    Leave(ExprId, Option<VarId>),
}

/// An item of a scope before its value.
#[derive(Clone, Copy)]
enum Item {
    Let(VarId, ExprId),
    /// A dataflow block: it is already in normal form, and is kept.
    Block(BlockId),
}

struct Walk<'m, F> {
    m: &'m mut Module,
    scopes: Arc<Scopes>,
    /// The inner scopes that a node opens, in order of its operands.
    inner: SideTable<ExprId, Vec<ScopeId>>,
    bindings: SideTable<ScopeId, VecDeque<Item>>,
    memo: Memo,
    /// The replacements of variables: a `let` whose value is a variable only renames it.
    vars: FxHashMap<VarId, ExprId>,
    /// The values of `let`s that are bound in place: nothing else uses the value, which is bound in
    /// the scope that the `let` opens. What precedes the `let` is evaluated before it.
    in_place: FxHashMap<ExprId, ScopeId>,
    /// The variables of statements whose values are also used elsewhere, by those that they had.
    statements: FxHashMap<VarId, VarId>,
    /// The variables of functions whose bodies are being visited: nothing is bound before them yet.
    open: FxHashSet<VarId>,
    literals: Order,
    named: F,
}

/// [`normal_form_in`] for a body that is not yet that of a function.
pub(super) fn normal_form(
    m: &mut Module,
    body: ExprId,
    literals: Order,
    named: impl Fn(&Module, ExprId) -> bool,
) -> ExprId {
    let scopes = Arc::new(Scopes::new(m, body));
    normal_form_in(m, scopes, body, literals, named)
}

/// Returns the body with a `let` for each compound expression for which `named` holds (and for what
/// a `let` binds already), in the scope where it is evaluated; `scopes` are those under the body.
pub(super) fn normal_form_in(
    m: &mut Module,
    scopes: Arc<Scopes>,
    body: ExprId,
    literals: Order,
    named: impl Fn(&Module, ExprId) -> bool,
) -> ExprId {
    let mut inner: SideTable<ExprId, Vec<ScopeId>> = SideTable::default();
    for scope in scopes.ids() {
        use relax_ir::ScopeKind as K;
        match scopes.kind(scope) {
            K::Root => {}
            K::Body(e) | K::Then(e) | K::Else(e) | K::Clause(e, _) | K::Binding(e) => {
                inner.entry(e).push(scope);
            }
        }
    }
    let bindings = SideTable::default();
    let (memo, vars) = (Memo::default(), FxHashMap::default());
    let mut walk = Walk {
        m,
        scopes,
        inner,
        bindings,
        memo,
        vars,
        in_place: FxHashMap::default(),
        statements: FxHashMap::default(),
        open: FxHashSet::default(),
        literals,
        named,
    };
    walk.find_in_place(body);
    walk.run(body);
    let value = walk.memo[&body];
    walk.close(Scopes::ROOT, value)
}

impl<F: Fn(&Module, ExprId) -> bool> Walk<'_, F> {
    fn run(&mut self, body: ExprId) {
        let mut stack = vec![Step::Enter(body, None)];
        while let Some(step) = stack.pop() {
            match step {
                Step::Enter(e, var) => {
                    if let Expr::Var(used) = self.m.exprs[e] {
                        self.variable(e, used, var);
                        continue;
                    }
                    if let Some(&value) = self.memo.get(&e) {
                        if let Some(var) = var {
                            self.bind(e, var, value);
                        }
                        continue;
                    }
                    if matches!(self.m.exprs[e], Expr::Func(_)) {
                        self.open.extend(var);
                    }
                    stack.push(Step::Leave(e, var));
                    self.parts(e, &mut stack);
                }
                Step::Leave(e, var) => {
                    if let Some(var) = var {
                        self.open.remove(&var);
                    }
                    let value = self.leave(e, var);
                    self.memo.insert(e, value);
                }
            }
        }
    }

    /// Determines which values of `let`s are bound in place: those of `let`s that stay where they
    /// are used, among the operands of an operation. A statement whose value is used elsewhere, too,
    /// becomes a binding.
    fn find_in_place(&mut self, body: ExprId) {
        let order = self.m.post_order([body]);
        let (mut once, mut often) = (IdSet::new(), IdSet::new());
        // A `let` that is the result of a `let` or a branch is at the end of a chain anyway.
        let mut part = IdSet::new();
        for &e in &order {
            let mut operands = match self.m.exprs[e] {
                Expr::Let { .. } | Expr::Func(_) | Expr::Dataflow { .. } => 0,
                // The condition, or the scrutinee.
                Expr::If { .. } | Expr::Match { .. } => 1,
                _ => usize::MAX,
            };
            self.m.for_each_child(e, |c| {
                if !once.insert(c) {
                    often.insert(c);
                }
                if operands > 0 {
                    operands -= 1;
                    part.insert(c);
                }
            });
        }
        for &e in &order {
            let Expr::Let { var, value, .. } = self.m.exprs[e] else {
                continue;
            };
            if often.contains(value)
                && self.m.vars[var].style == VarStyle::Effect
                && !matches!(self.m.exprs[value], Expr::Var(_))
            {
                // The other uses of the value refer to this variable.
                let (name, ty) = (self.m.vars[var].name, self.m.vars[var].ty);
                let (named, _) = self.m.fresh_var(name, ty, VarStyle::Let);
                self.statements.insert(var, named);
            }
            if part.contains(e)
                && !often.contains(e)
                && !often.contains(value)
                && !(self.named)(self.m, e)
            {
                self.in_place.insert(value, self.inner[e][0]);
            }
        }
    }

    /// Schedules the visits of an expression's operands: arguments before the callee, as in TVM.
    fn parts(&self, e: ExprId, stack: &mut Vec<Step>) {
        let first = stack.len();
        match &self.m.exprs[e] {
            &Expr::Let { var, value, body } => {
                let var = self.statements.get(&var).copied().unwrap_or(var);
                stack.push(Step::Enter(value, Some(var)));
                stack.push(Step::Enter(body, None));
            }
            &Expr::Call { callee, args, .. } => {
                let first = self.literals == Order::LiteralsFirst && self.is_literal(callee);
                let args = self.m.list(args);
                stack.extend(first.then_some(Step::Enter(callee, None)));
                let named = args.iter().enumerate();
                let named = named.filter(|(i, _)| !is_literal_argument(self.m, e, *i));
                stack.extend(named.map(|(_, &a)| Step::Enter(a, None)));
                stack.extend((!first).then_some(Step::Enter(callee, None)));
            }
            Expr::Func(f) if is_primitive(&self.m.funcs[*f]) => {}
            Expr::Dataflow { body, .. } => stack.push(Step::Enter(*body, None)),
            _ => self
                .m
                .for_each_child(e, |c| stack.push(Step::Enter(c, None))),
        }
        stack[first..].reverse();
    }

    /// Returns whether an expression is a function literal, named or not.
    fn is_literal(&self, mut e: ExprId) -> bool {
        let mut named = None;
        loop {
            match self.m.exprs[e] {
                Expr::Func(_) => return true,
                Expr::Var(v) => return named == Some(v),
                Expr::Let { var, value, body } if matches!(self.m.exprs[value], Expr::Func(_)) => {
                    named = Some(var);
                    e = body;
                }
                _ => return false,
            }
        }
    }

    fn bind(&mut self, at: ExprId, var: VarId, value: ExprId) {
        self.item(at, Item::Let(var, value));
    }

    fn item(&mut self, at: ExprId, item: Item) {
        let scope = match self.in_place.get(&at) {
            Some(&scope) => scope,
            None => self.scopes.of(at).expect("the walk stays below its root"),
        };
        self.bindings.entry(scope).push_back(item);
    }

    /// Handles a use of a variable. Where a `let` binds it to another, that is its name from here
    /// on; the binding is placed where the variable's own scope begins. A function's other name
    /// within itself stays there.
    fn variable(&mut self, e: ExprId, used: VarId, bound: Option<VarId>) {
        if let Some(bound) = bound.filter(|_| self.open.contains(&used)) {
            let scope = self.scopes.of_var(bound).unwrap_or(Scopes::ROOT);
            self.bindings.entry(scope).push_back(Item::Let(bound, e));
            self.memo.insert(e, e);
            return;
        }
        if let Some(bound) = bound {
            let value = self.vars.get(&used).copied().unwrap_or(e);
            let scope = self.scopes.of_var(used).unwrap_or(Scopes::ROOT);
            self.bindings
                .entry(scope)
                .push_back(Item::Let(bound, value));
            let name = match self.m.vars[bound].style {
                VarStyle::Effect => value,
                _ => self.m.add(Expr::Var(bound), self.m.span(e)),
            };
            self.vars.entry(used).or_insert(name);
        } else {
            self.vars.entry(used).or_insert(e);
        }
        // Each use keeps a node of its own, at which a polymorphic function has a type of its own.
        let value = match self.m.exprs[self.vars[&used]] {
            Expr::Var(v) if v == used => e,
            Expr::Var(v) => self.m.add(Expr::Var(v), self.m.span(e)),
            _ => self.vars[&used],
        };
        self.memo.insert(e, value);
    }

    /// Wraps the value of a scope in its bindings.
    fn close(&mut self, scope: ScopeId, value: ExprId) -> ExprId {
        let bindings = std::mem::take(self.bindings.entry(scope));
        bindings
            .into_iter()
            .rev()
            .fold(value, |body, item| match item {
                Item::Let(var, value) => {
                    let span = self.m.span(value);
                    self.m.add(Expr::Let { var, value, body }, span)
                }
                Item::Block(block) => {
                    let span = self.m.blocks[block].span;
                    self.m.add(Expr::Dataflow { block, body }, span)
                }
            })
    }

    /// Names a value: in the node's scope, unless it is to be bound where it is used.
    fn compound(&mut self, old: ExprId, new: ExprId, var: Option<VarId>) -> ExprId {
        if var.is_none() && !(self.named)(self.m, old) {
            return new;
        }
        let (var, reference) = match var {
            Some(var) => (var, self.m.add(Expr::Var(var), self.m.span(old))),
            None => self.m.fresh_var("x", None, VarStyle::Let),
        };
        self.bind(old, var, new);
        reference
    }

    fn leave(&mut self, e: ExprId, var: Option<VarId>) -> ExprId {
        let span = self.m.span(e);
        let new = match self.m.exprs[e].clone() {
            Expr::Global(_) | Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) | Expr::Error => {
                if let Some(var) = var {
                    self.bind(e, var, e);
                    return self.m.add(Expr::Var(var), span);
                }
                return e;
            }
            Expr::Let { body, .. } => return self.leave_let(e, body, var),
            Expr::Func(f) if is_primitive(&self.m.funcs[f]) => e,
            Expr::Func(f) => {
                let body = self.memo[&self.m.funcs[f].body];
                let body = self.close(self.inner[e][0], body);
                let function = Function {
                    body,
                    ..self.m.funcs[f].clone()
                };
                let func = self.m.funcs.push(function);
                self.m.add(Expr::Func(func), span)
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                let scopes = self.inner[e].clone();
                let cond = self.memo[&cond];
                let then = self.close(scopes[0], self.memo[&then]);
                let otherwise = self.close(scopes[1], self.memo[&otherwise]);
                self.m.add(
                    Expr::If {
                        cond,
                        then,
                        otherwise,
                    },
                    span,
                )
            }
            Expr::Match {
                value,
                clauses,
                complete,
            } => {
                let scopes = self.inner[e].clone();
                let value = self.memo[&value];
                let clauses = clauses.iter().zip(scopes).map(|(c, scope)| {
                    let body = self.memo[&c.body];
                    Clause {
                        pattern: c.pattern,
                        body: self.close(scope, body),
                    }
                });
                let clauses = clauses.collect();
                self.m.add(
                    Expr::Match {
                        value,
                        clauses,
                        complete,
                    },
                    span,
                )
            }
            Expr::Dataflow { block, body } => {
                let value = self.memo[&body];
                self.item(e, Item::Block(block));
                // A node that the block and its continuation share belongs between two of the
                // block's bindings; binding it after the block is equivalent, because it is named
                // there.
                for inner in self.inner[e].clone() {
                    self.join(e, inner);
                }
                // The value of a block's continuation is named already.
                if let Some(var) = var {
                    self.bind(e, var, value);
                    return self.m.add(Expr::Var(var), span);
                }
                return value;
            }
            Expr::Call { args, .. } => self.call(e, args),
            _ => {
                let memo = &self.memo;
                self.m.map_children(e, |c| memo[&c])
            }
        };
        self.compound(e, new, var)
    }

    /// Returns a call of names, and of the constants that its type needs.
    fn call(&mut self, e: ExprId, args: ExprList) -> ExprId {
        let literals: Vec<ExprId> = (self.m.list(args).iter().enumerate())
            .filter(|(i, _)| is_literal_argument(self.m, e, *i))
            .map(|(_, &a)| a)
            .collect();
        let memo = &self.memo;
        let name = |c| if literals.contains(&c) { c } else { memo[&c] };
        self.m.map_children(e, name)
    }

    /// Appends the bindings of a nested `let` to those of the enclosing scope.
    fn leave_let(&mut self, e: ExprId, body: ExprId, var: Option<VarId>) -> ExprId {
        let value = self.memo[&body];
        let inner = self.inner[e][0];
        if var.is_none() && !(self.named)(self.m, e) {
            return self.close(inner, value);
        }
        self.join(e, inner);
        self.compound(e, value, var)
    }

    /// Appends the bindings of a scope that an expression opens to those of the enclosing scope.
    fn join(&mut self, e: ExprId, inner: ScopeId) {
        let mut bindings = std::mem::take(self.bindings.entry(inner));
        let outer = self.scopes.of(e).expect("the walk stays below its root");
        let before = self.bindings.entry(outer);
        // The shorter list moves, so that long chains take linear time.
        if before.len() < bindings.len() {
            while let Some(b) = before.pop_back() {
                bindings.push_front(b);
            }
            *before = bindings;
        } else {
            before.extend(bindings);
        }
    }
}

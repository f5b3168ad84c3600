//! Compilation of functions to code.
//!
//! A scope's nodes are evaluated in order on entry to the scope, operands first; a node with
//! several users belongs to the innermost scope that encloses all of them. Closures become separate
//! code; their captures are resolved once all code of a global exists, inner closures first.

use std::rc::Rc;

use relax_infer::Typing;
use relax_ir::{Expr, ExprId, FuncId, Module, PatId, Pattern, ScopeId, ScopeKind, Scopes, VarId};
use rustc_hash::FxHashMap;

use crate::code::{Code, Ins, Slot, Src};

#[derive(Clone, Copy, PartialEq)]
enum Outer {
    Var(VarId),
    Node(ExprId),
}

/// A function being compiled.
struct Draft {
    func: FuncId,
    parent: usize,
    /// The scope of its body.
    scope: ScopeId,
    vars: FxHashMap<VarId, Src>,
    nodes: FxHashMap<ExprId, Src>,
    slots: u32,
    ins: Vec<Ins>,
    captures: Vec<(Outer, Slot)>,
    own: Option<Slot>,
}

/// The continuation of a scope's value.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Return,
    Store(Slot),
    /// Nothing: the next task looks it up.
    Nothing,
}

enum Task {
    /// Compile the nodes of a scope from an index on, then its result.
    Nodes(ScopeId, usize, ExprId, Then),
    Bind(VarId, ExprId),
    Check(ExprId, Slot),
    /// End the first branch: patch the test, and jump over the other branch if values are joined.
    Else(usize, Then),
    /// Patch a jump (none after a return).
    Join(Option<usize>),
    /// Compile clause `i` of a match; with the jumps to here, and the jumps to the end.
    Clause(ExprId, usize, Src, Vec<usize>, Vec<usize>, Then),
}

struct Maker<'m> {
    m: &'m Module,
    typing: &'m Typing,
    scopes: Scopes,
    /// The nodes evaluated in each scope.
    lists: FxHashMap<ScopeId, Vec<ExprId>>,
    /// The scopes that a node opens.
    opened: FxHashMap<ExprId, Vec<ScopeId>>,
    /// The variable that a closure is bound to.
    bound: FxHashMap<ExprId, VarId>,
    drafts: Vec<Draft>,
    /// The offset of `codes` indices relative to `drafts`.
    first: usize,
}

/// Compiles a function and its nested closures. The new codes are numbered from `first` on, the
/// function itself first.
pub(crate) fn compile(m: &Module, typing: &Typing, func: FuncId, first: usize) -> Vec<Rc<Code>> {
    let body = m.funcs[func].body;
    let scopes = Scopes::new(m, body);
    let mut lists: FxHashMap<ScopeId, Vec<ExprId>> = FxHashMap::default();
    let mut bound = FxHashMap::default();
    for &e in scopes.order().iter().rev() {
        if let Expr::Let { var, value, .. } = m.exprs[e]
            && matches!(m.exprs[value], Expr::Func(_))
        {
            bound.insert(value, var);
        }
        if !m.is_leaf(e)
            && let Some(s) = scopes.of(e)
        {
            lists.entry(s).or_default().push(e);
        }
    }
    let mut opened: FxHashMap<ExprId, Vec<ScopeId>> = FxHashMap::default();
    for s in scopes.ids() {
        match scopes.kind(s) {
            ScopeKind::Root => {}
            ScopeKind::Body(e)
            | ScopeKind::Then(e)
            | ScopeKind::Else(e)
            | ScopeKind::Clause(e, _)
            | ScopeKind::Binding(e) => opened.entry(e).or_default().push(s),
        }
    }
    let mut maker = Maker {
        m,
        typing,
        scopes,
        lists,
        opened,
        bound,
        drafts: Vec::new(),
        first,
    };
    maker.draft(func, 0, Scopes::ROOT, None);
    let mut next = 0;
    while next < maker.drafts.len() {
        maker.fill(next);
        next += 1;
    }
    maker.finish()
}

impl Maker<'_> {
    fn draft(&mut self, func: FuncId, parent: usize, scope: ScopeId, own: Option<VarId>) -> usize {
        let params = &self.m.funcs[func].params;
        let mut d = Draft {
            func,
            parent,
            scope,
            vars: FxHashMap::default(),
            nodes: FxHashMap::default(),
            slots: params.len() as u32,
            ins: Vec::new(),
            captures: Vec::new(),
            own: None,
        };
        if let Some(var) = own {
            d.own = Some(d.slots);
            d.vars.insert(var, Src::Slot(d.slots));
            d.slots += 1;
        }
        for (i, p) in params.iter().enumerate() {
            d.vars.insert(*p, Src::Slot(i as u32));
        }
        self.drafts.push(d);
        self.drafts.len() - 1
    }

    fn slot(&mut self, d: usize) -> Slot {
        self.drafts[d].slots += 1;
        self.drafts[d].slots - 1
    }
    fn emit(&mut self, d: usize, ins: Ins) -> usize {
        self.drafts[d].ins.push(ins);
        self.drafts[d].ins.len() - 1
    }
    fn here(&self, d: usize) -> usize {
        self.drafts[d].ins.len()
    }
    fn patch(&mut self, d: usize, at: usize) {
        let here = self.here(d);
        match &mut self.drafts[d].ins[at] {
            Ins::Jump(to) | Ins::Branch(_, to) | Ins::IfCtor(_, _, to) => *to = here,
            _ => unreachable!("only jumps are patched"),
        }
    }

    /// Allocates a slot of this function for a captured value.
    fn outer(&mut self, d: usize, outer: Outer) -> Src {
        let draft = &mut self.drafts[d];
        let found = match outer {
            Outer::Var(v) => draft.vars.get(&v),
            Outer::Node(e) => draft.nodes.get(&e),
        };
        if let Some(src) = found {
            return *src;
        }
        let slot = draft.slots;
        draft.slots += 1;
        draft.captures.push((outer, slot));
        match outer {
            Outer::Var(v) => draft.vars.insert(v, Src::Slot(slot)),
            Outer::Node(e) => draft.nodes.insert(e, Src::Slot(slot)),
        };
        Src::Slot(slot)
    }

    fn operand(&mut self, d: usize, e: ExprId) -> Src {
        let src = match &self.m.exprs[e] {
            Expr::Var(v) => self.outer(d, Outer::Var(*v)),
            Expr::Global(g) => Src::Global(*g),
            Expr::Op(op) => Src::Op(*op),
            Expr::Ctor(c) => Src::Ctor(*c),
            Expr::Extern(name) => Src::Extern(*name),
            Expr::Const(c) => Src::Const(*c),
            _ => return self.outer(d, Outer::Node(e)),
        };
        if self.checked(e) {
            self.emit(d, Ins::Check(e, src));
        }
        src
    }
    fn operands(&mut self, d: usize, list: &[ExprId]) -> Box<[Src]> {
        list.iter().map(|e| self.operand(d, *e)).collect()
    }
    fn checked(&self, e: ExprId) -> bool {
        self.typing.checks_of(e).next().is_some()
    }

    /// Emits the instructions of a draft.
    fn fill(&mut self, d: usize) {
        let body = self.m.funcs[self.drafts[d].func].body;
        let mut work = vec![Task::Nodes(self.drafts[d].scope, 0, body, Then::Return)];
        while let Some(task) = work.pop() {
            match task {
                Task::Nodes(scope, at, result, then) => {
                    let node = self.lists.get(&scope).and_then(|l| l.get(at)).copied();
                    let Some(e) = node else {
                        self.conclude(d, result, then);
                        continue;
                    };
                    let last = self.lists[&scope].len() == at + 1;
                    if then == Then::Return && last && e == result && !self.checked(e) {
                        self.node(d, e, true, &mut work);
                    } else {
                        work.push(Task::Nodes(scope, at + 1, result, then));
                        self.node(d, e, false, &mut work);
                    }
                }
                Task::Bind(var, value) => {
                    let src = self.operand(d, value);
                    self.drafts[d].vars.insert(var, src);
                }
                Task::Check(e, slot) => {
                    self.emit(d, Ins::Check(e, Src::Slot(slot)));
                }
                Task::Else(test, then) => {
                    let over = (then != Then::Return).then(|| self.emit(d, Ins::Jump(0)));
                    self.patch(d, test);
                    // The task of the other branch lies below, and below that the join, which gets
                    // this jump to patch.
                    let at = work.len() - 2;
                    if let Task::Join(jump) = &mut work[at] {
                        *jump = over;
                    }
                }
                Task::Join(jump) => {
                    if let Some(at) = jump {
                        self.patch(d, at);
                    }
                }
                Task::Clause(e, i, src, fails, mut ends, then) => {
                    let Expr::Match { clauses, .. } = &self.m.exprs[e] else {
                        unreachable!("clauses belong to matches")
                    };
                    if i > 0 && then != Then::Return {
                        ends.push(self.emit(d, Ins::Jump(0)));
                    }
                    fails.into_iter().for_each(|at| self.patch(d, at));
                    if let Some(clause) = clauses.get(i) {
                        let fails = self.pattern(d, clause.pattern, src);
                        let scope = self.opened[&e][i];
                        work.push(Task::Clause(e, i + 1, src, fails, ends, then));
                        work.push(Task::Nodes(scope, 0, clause.body, then));
                    } else {
                        self.emit(d, Ins::NoMatch(e, src));
                        ends.into_iter().for_each(|at| self.patch(d, at));
                    }
                }
            }
        }
    }

    fn conclude(&mut self, d: usize, result: ExprId, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Return => {
                let src = self.operand(d, result);
                self.emit(d, Ins::Ret(src));
            }
            Then::Store(slot) => {
                let src = self.operand(d, result);
                self.emit(d, Ins::Move(slot, src));
            }
        }
    }

    /// Emits the code of a node. In tail position its value is returned.
    fn node(&mut self, d: usize, e: ExprId, tail: bool, work: &mut Vec<Task>) {
        let m = self.m;
        let dst = self.slot(d);
        let then = if tail { Then::Return } else { Then::Store(dst) };
        self.drafts[d].nodes.insert(e, Src::Slot(dst));
        if self.checked(e) {
            // Runs after everything the node itself pushes.
            work.push(Task::Check(e, dst));
        }
        match &m.exprs[e] {
            Expr::Let { var, value, body } => {
                let inner = self.opened[&e][0];
                if self.scopes.of(*value) != Some(inner) || m.is_leaf(*value) {
                    let src = self.operand(d, *value);
                    self.drafts[d].vars.insert(*var, src);
                }
                work.push(Task::Nodes(inner, 0, *body, then));
            }
            Expr::If {
                cond,
                then: yes,
                otherwise,
            } => {
                let cond = self.operand(d, *cond);
                let test = self.emit(d, Ins::Branch(cond, 0));
                let scopes = &self.opened[&e];
                let (a, b) = (scopes[0], scopes[1]);
                work.push(Task::Join(None));
                work.push(Task::Nodes(b, 0, *otherwise, then));
                work.push(Task::Else(test, then));
                work.push(Task::Nodes(a, 0, *yes, then));
            }
            Expr::Match { value, .. } => {
                let src = self.operand(d, *value);
                work.push(Task::Clause(e, 0, src, vec![], vec![], then));
            }
            Expr::Dataflow { block, body } => {
                let bindings = &m.blocks[*block].bindings;
                let scopes = self.opened.get(&e).cloned().unwrap_or_default();
                let from = work.len();
                for (i, b) in bindings.iter().enumerate() {
                    work.push(Task::Bind(b.var, b.value));
                    let last = i + 1 == bindings.len();
                    let (result, then) = if last {
                        (*body, then)
                    } else {
                        (b.value, Then::Nothing)
                    };
                    work.push(Task::Nodes(scopes[i], 0, result, then));
                }
                if bindings.is_empty() {
                    self.conclude(d, *body, then);
                }
                work[from..].reverse();
            }
            other => {
                self.simple(d, e, other, dst, tail);
                // Tail calls return by themselves.
                if tail && !matches!(other, Expr::Call { .. }) {
                    self.emit(d, Ins::Ret(Src::Slot(dst)));
                }
            }
        }
    }

    fn simple(&mut self, d: usize, e: ExprId, expr: &Expr, dst: Slot, tail: bool) {
        let m = self.m;
        let ins = match expr {
            Expr::Tuple(fields) => Ins::Tuple(dst, self.operands(d, m.list(*fields))),
            Expr::Proj { tuple, index } => Ins::Field(dst, self.operand(d, *tuple), *index),
            Expr::Func(f) => {
                let scope = self.opened[&e][0];
                let own = self.bound.get(&e).copied();
                let child = self.draft(*f, d, scope, own);
                if let Some(var) = own {
                    self.drafts[d].vars.insert(var, Src::Slot(dst));
                }
                Ins::Closure(dst, child, Box::default())
            }
            Expr::Call { callee, args, .. } => {
                let args = self.operands(d, m.list(*args));
                let callee = self.operand(d, *callee);
                if let Src::Ctor(c) = callee {
                    self.emit(d, Ins::Construct(dst, c, args));
                    if tail {
                        self.emit(d, Ins::Ret(Src::Slot(dst)));
                    }
                    return;
                }
                Ins::Call {
                    dst,
                    at: e,
                    callee,
                    args,
                    tail,
                }
            }
            Expr::RefNew(v) => Ins::RefNew(dst, self.operand(d, *v)),
            Expr::RefRead(c) => Ins::RefRead(dst, self.operand(d, *c)),
            Expr::RefWrite(c, v) => {
                let c = self.operand(d, *c);
                Ins::RefWrite(dst, c, self.operand(d, *v))
            }
            Expr::Shape(_) => Ins::Shape(dst, e),
            Expr::MatchShape { value, .. } | Expr::MatchCast { value, .. } => {
                let src = self.operand(d, *value);
                self.emit(d, Ins::Match(e, src));
                Ins::Move(dst, src)
            }
            _ => Ins::Broken(e),
        };
        self.emit(d, ins);
    }

    /// Emits the tests and bindings of a pattern; returns the jumps taken on a mismatch.
    fn pattern(&mut self, d: usize, root: PatId, src: Src) -> Vec<usize> {
        let m = self.m;
        let mut fails = Vec::new();
        let mut work = vec![(root, src)];
        while let Some((p, src)) = work.pop() {
            let parts = match &m.patterns[p] {
                Pattern::Wildcard => continue,
                Pattern::Var(v) => {
                    self.drafts[d].vars.insert(*v, src);
                    continue;
                }
                Pattern::Ctor(c, parts) => {
                    let ctor = *c;
                    // A type's only constructor needs no test.
                    if m.adts[m.ctors[ctor].adt].ctors.len() > 1 {
                        fails.push(self.emit(d, Ins::IfCtor(src, ctor, 0)));
                    }
                    parts
                }
                Pattern::Tuple(parts) => parts,
            };
            let from = work.len();
            for (i, part) in parts.iter().enumerate() {
                if matches!(m.patterns[*part], Pattern::Wildcard) {
                    continue;
                }
                let slot = self.slot(d);
                self.emit(d, Ins::Field(slot, src, i as u32));
                work.push((*part, Src::Slot(slot)));
            }
            work[from..].reverse();
        }
        fails
    }

    /// Resolves captures, inner closures first, and numbers the code.
    fn finish(mut self) -> Vec<Rc<Code>> {
        let mut captured: Vec<Box<[Src]>> = vec![Box::default(); self.drafts.len()];
        for d in (1..self.drafts.len()).rev() {
            let parent = self.drafts[d].parent;
            let outers: Vec<Outer> = self.drafts[d].captures.iter().map(|c| c.0).collect();
            captured[d] = outers.into_iter().map(|o| self.outer(parent, o)).collect();
        }
        let (m, typing) = (self.m, self.typing);
        let first = self.first;
        (self.drafts.into_iter())
            .map(|mut d| {
                for ins in &mut d.ins {
                    if let Ins::Closure(_, child, srcs) = ins {
                        *srcs = std::mem::take(&mut captured[*child]);
                        *child += first;
                    }
                }
                let params = &m.funcs[d.func].params;
                let dims = (params.iter().enumerate())
                    .map(|(i, p)| (i as u32, typing.vars[*p]))
                    .filter(|(_, t)| !m.dims_in_types([*t]).is_empty())
                    .collect();
                Rc::new(Code {
                    func: d.func,
                    params: params.len() as u32,
                    slots: d.slots,
                    ins: d.ins,
                    captures: d.captures.iter().map(|c| c.1).collect(),
                    own: d.own,
                    dims,
                })
            })
            .collect()
    }
}

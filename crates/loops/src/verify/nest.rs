//! Statements: scopes, stores, initial values.

use relax_base::SideTable;

use super::Verifier;
use super::facts::{Facts, assume, has_load};
use crate::rewrite::visit_expr;
use crate::schedule::MOST_LANES;
use crate::{Buf, Ex, ExKind, Mark, Role, Stmt, Var, statements};

impl Verifier<'_> {
    pub(super) fn nest(&mut self, body: &[Stmt]) {
        let program = self.program;
        self.initialised(body);
        for buf in crate::exec::written(body) {
            if program.bufs[buf].role != Role::Local && !self.written.contains(&buf) {
                self.extents(buf);
                self.written.insert(buf);
            }
        }
        enum Task<'s> {
            Block(std::slice::Iter<'s, Stmt>, Vec<Var>, Vec<Buf>),
            Facts(usize),
            Unguard,
        }
        let mut facts = Facts::new();
        let mut work = vec![Task::Block(body.iter(), vec![], vec![])];
        while let Some(task) = work.pop() {
            let (mut rest, mut vars, mut locals) = match task {
                Task::Facts(n) => {
                    facts.truncate(n);
                    continue;
                }
                Task::Unguard => {
                    self.guards -= 1;
                    continue;
                }
                Task::Block(rest, vars, locals) => (rest, vars, locals),
            };
            let Some(stmt) = rest.next() else {
                vars.into_iter().for_each(|v| self.leave(v));
                locals.iter().for_each(|b| {
                    self.written.remove(b);
                });
                continue;
            };
            match stmt {
                Stmt::For {
                    var,
                    extent,
                    mark,
                    body,
                } => {
                    self.loop_head(*var, extent, *mark, &facts);
                    work.push(Task::Block(rest, vars, locals));
                    work.push(Task::Block(body.iter(), vec![*var], vec![]));
                    continue;
                }
                Stmt::While { cond, body } => {
                    self.condition(cond);
                    self.expr(cond, &facts);
                    work.push(Task::Block(rest, vars, locals));
                    self.guards += 1;
                    work.push(Task::Unguard);
                    work.push(Task::Block(body.iter(), vec![], vec![]));
                    continue;
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    self.condition(cond);
                    self.expr(cond, &facts);
                    work.push(Task::Block(rest, vars, locals));
                    self.guards += 1;
                    work.push(Task::Unguard);
                    work.push(Task::Block(otherwise.iter(), vec![], vec![]));
                    work.push(Task::Facts(facts.len()));
                    work.push(Task::Block(then.iter(), vec![], vec![]));
                    // Elements may change inside the block: only facts without loads stay valid.
                    let mut more = Facts::new();
                    assume(cond, true, &mut more);
                    more.retain(|f| !has_load(&f.1) && !has_load(&f.2));
                    facts.append(&mut more);
                    continue;
                }
                Stmt::Init { over, body } => {
                    self.init_head(over);
                    work.push(Task::Block(rest, vars, locals));
                    self.guards += 1;
                    work.push(Task::Unguard);
                    work.push(Task::Block(body.iter(), vec![], vec![]));
                    continue;
                }
                Stmt::Store { buf, index, value } => self.store(*buf, index, value, &facts),
                Stmt::Let { var, value } => {
                    self.let_value(*var, value, &facts);
                    vars.push(*var);
                }
                Stmt::Alloc { buf } => {
                    if program.bufs[*buf].role != Role::Local {
                        let name = self.name(*buf);
                        self.problem(format!(
                            "`alloc` of {name}, which is {:?}",
                            program.bufs[*buf].role
                        ));
                    }
                    self.extents(*buf);
                    self.written.insert(*buf);
                    locals.push(*buf);
                }
                Stmt::Assert {
                    cond,
                    values,
                    message: _,
                    part: _,
                } => {
                    self.condition(cond);
                    self.expr(cond, &facts);
                    for v in values {
                        if v.dtype().is_float() {
                            self.problem("`assert` shows integers and truth values".into());
                        }
                        self.expr(v, &facts);
                    }
                }
            }
            work.push(Task::Block(rest, vars, locals));
        }
    }

    fn loop_head(&mut self, var: Var, extent: &Ex, mark: Mark, facts: &Facts) {
        if let Mark::Vectorize(w) = mark
            && !(1..=MOST_LANES).contains(&w)
        {
            self.problem(format!("a vector has 1 to {MOST_LANES} lanes, not {w}"));
        }
        self.index_type(extent, "the extent of a loop");
        self.expr(extent, facts);
        self.enter(var, extent);
    }

    fn init_head(&mut self, over: &[Var]) {
        for var in over {
            if !matches!(self.scope.get(var), Some(Some(_))) {
                let name = self.program.vars[*var].name;
                self.problem(format!(
                    "`init` is over `{name}`, which is no enclosing loop"
                ));
            }
        }
    }

    fn let_value(&mut self, var: Var, value: &Ex, facts: &Facts) {
        self.expr(value, facts);
        let info = &self.program.vars[var];
        if info.dtype != value.dtype() {
            let (name, dtype) = (info.name, info.dtype);
            self.problem(format!(
                "`{name}` is {dtype}, its value is {}",
                value.dtype()
            ));
        }
        let bounds = self.bounds(value);
        self.scope.insert(var, None);
        self.ranges.insert(var, (bounds.lo, bounds.hi));
    }

    pub(super) fn store(&mut self, buf: Buf, index: &[Ex], value: &Ex, facts: &Facts) {
        let info = &self.program.bufs[buf];
        let name = self.name(buf);
        if info.role == Role::Input {
            self.problem(format!("{name} is an input, and must not be written"));
        }
        if info.role == Role::Local && !self.written.contains(&buf) {
            self.problem(format!("{name} is used outside the block of its `alloc`"));
        }
        if index.len() != info.shape.len() {
            let rank = info.shape.len();
            self.problem(format!(
                "a store to {name} has {} indices for {rank} axes",
                index.len()
            ));
        }
        if value.dtype() != info.dtype {
            self.problem(format!(
                "{name} is {}, what is stored is {}",
                info.dtype,
                value.dtype()
            ));
        }
        for i in index {
            self.index_type(i, "an index");
            self.expr(i, facts);
        }
        self.expr(value, facts);
        self.inside(buf, index, facts, true, facts.is_empty());
    }

    /// Checks for buffers without an initial value: those that a nest only ever updates from their
    /// own elements.
    pub(super) fn initialised(&mut self, body: &[Stmt]) {
        let mut updated: SideTable<Buf, u8> = SideTable::with_default(0);
        let mut order = Vec::new();
        for stmt in statements(body) {
            let Stmt::Store { buf, index, value } = stmt else {
                continue;
            };
            let mut own = false;
            visit_expr(value, |e| {
                own |= matches!(e.kind(), ExKind::Load(b, i) if b == buf && i == index);
            });
            // A select may not execute the load: benefit of the doubt.
            let own = own && !matches!(value.kind(), ExKind::Select(..));
            *updated.entry(*buf) |= if own { 1 } else { 2 };
            order.push(*buf);
        }
        for buf in order {
            if updated[buf] == 1 && !self.written.contains(&buf) {
                updated.set(buf, 0);
                let name = self.name(buf);
                self.problem(format!(
                    "{name} is only updated from its own elements: it has no start value (use `init`)"
                ));
            }
        }
    }
}

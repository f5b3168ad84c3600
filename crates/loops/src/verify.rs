//! The verifier of tensor programs.
//!
//! A program without problems runs on every engine without undefined behaviour, provided that
//! the accesses listed as unproven are checked at run time (the reference execution checks all).

use relax_base::{Code, Diagnostic, SideTable, Span};
use relax_tensor::{DType, TypeCode};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bounds::{Interval, interval_memo};
use crate::outside::{Known, outside};
use crate::rewrite::visit_expr;
use crate::{
    BinOp, Buf, Compute, Ex, ExKind, MOST_EXTENT, Program, Role, Stage, Stmt, UnOp, Var, statements,
};

/// A broken rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// The stage, where there is one.
    pub stage: Option<usize>,
    /// One sentence without full stop.
    pub message: String,
    /// Where it stands; `None` where it is about the program as a whole.
    pub span: Option<Span>,
}

/// An index that could not be proven to lie inside its axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Unproven {
    /// The stage.
    pub stage: usize,
    /// The buffer.
    pub buf: Buf,
    /// The axis, from 0.
    pub axis: usize,
    /// The index.
    pub index: Ex,
    /// Whether this is a store.
    pub store: bool,
}

/// What the verifier found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Verdict {
    /// Broken rules; the program must not run if there is any.
    pub problems: Vec<Problem>,
    /// Accesses that need a check at run time.
    pub unproven: Vec<Unproven>,
}

impl Verdict {
    /// The problems as errors at the program's place.
    pub fn diagnostics(&self, program: &Program) -> Vec<Diagnostic> {
        (self.problems.iter())
            .map(|p| {
                let message = format!("tensor program `{}`: {}", program.name, p.message);
                match p.span {
                    Some(span) => Diagnostic::error(Code(856), span, message)
                        .label(program.span, "in this tensor program"),
                    None => Diagnostic::error(Code(856), program.span, message),
                }
            })
            .collect()
    }
}

/// Checks a program: element types, numbers of indices, variables before their use, buffers
/// written before they are read, outputs written, reductions initialised, bounds.
pub fn verify(program: &Program) -> Verdict {
    let mut v = Verifier {
        program,
        verdict: Verdict::default(),
        stage: None,
        ranges: FxHashMap::default(),
        narrowed: Vec::new(),
        written: program.inputs.iter().copied().collect(),
        scope: FxHashMap::default(),
        checked: FxHashSet::default(),
        guards: 0,
        outside: Vec::new(),
    };
    v.signature();
    for (k, stage) in program.stages.iter().enumerate() {
        v.stage = Some(k);
        v.checked.clear();
        v.outside.clear();
        match stage {
            Stage::Compute(c) => v.compute(c),
            Stage::Nest(body) => v.nest(body),
        }
    }
    v.stage = None;
    for buf in &program.outputs {
        if !v.written.contains(buf) {
            v.problem(format!(
                "no stage writes the output `{}`",
                program.bufs[*buf].name
            ));
        }
    }
    v.verdict
}

/// What is known where an expression stands: comparisons that hold.
type Facts = Vec<(BinOp, Ex, Ex)>;

struct Verifier<'p> {
    program: &'p Program,
    verdict: Verdict,
    stage: Option<usize>,
    /// Bounds of variables in scope.
    ranges: FxHashMap<Var, (i64, i64)>,
    written: FxHashSet<Buf>,
    /// Bounds of dimensions before a loop over them was entered, with the loop's index.
    narrowed: Vec<(Var, Var, (i64, i64))>,
    /// Variables in scope; the extents of loops over them.
    scope: FxHashMap<Var, Option<Ex>>,
    /// Expressions whose types were checked in this stage.
    checked: FxHashSet<usize>,
    /// How many statements that may not run surround the current place.
    guards: u32,
    /// Indices that were reported in this stage.
    outside: Vec<Ex>,
}

impl Verifier<'_> {
    fn problem(&mut self, message: String) {
        self.verdict.problems.push(Problem {
            stage: self.stage,
            message,
            span: None,
        });
    }
    fn name(&self, buf: Buf) -> String {
        format!("`{}`", self.program.bufs[buf].name)
    }

    fn signature(&mut self) {
        let p = self.program;
        let mut bound = FxHashSet::default();
        for buf in p.inputs.iter().chain(&p.outputs) {
            for extent in &p.bufs[*buf].shape {
                if let ExKind::Var(v) = extent.kind() {
                    bound.insert(*v);
                }
            }
        }
        for var in &p.dims {
            self.scope.insert(*var, None);
            self.ranges.insert(*var, (0, MOST_EXTENT));
            if !bound.contains(var) {
                let name = p.vars[*var].name;
                self.problem(format!(
                    "no extent of an input or output is the dimension `{name}` alone, so nothing binds it"
                ));
            }
        }
        for (role, bufs) in [(Role::Input, &p.inputs), (Role::Output, &p.outputs)] {
            for buf in bufs {
                if p.bufs[*buf].role != role {
                    let name = self.name(*buf);
                    self.problem(format!(
                        "{name} is listed as {role:?}, but is {:?}",
                        p.bufs[*buf].role
                    ));
                }
            }
        }
        for (buf, info) in p.bufs.iter() {
            if !computes(info.dtype) {
                let name = self.name(buf);
                self.problem(format!(
                    "{name} has elements of {}, which programs do not hold",
                    info.dtype
                ));
            }
            for (axis, extent) in info.shape.iter().enumerate() {
                if extent.dtype() != DType::I64 {
                    let name = self.name(buf);
                    self.problem(format!(
                        "extent {axis} of {name} is {}, not int64",
                        extent.dtype()
                    ));
                }
                if extent.as_int().is_some_and(|n| n < 0) {
                    let name = self.name(buf);
                    self.problem(format!("extent {axis} of {name} is negative"));
                }
            }
        }
        let inputs = p.inputs.clone();
        for buf in inputs {
            self.extents(buf);
        }
    }

    /// The extents of a buffer about to exist.
    fn extents(&mut self, buf: Buf) {
        let program = self.program;
        for extent in &program.bufs[buf].shape {
            self.expr(extent, &Facts::new());
        }
    }

    fn compute(&mut self, c: &Compute) {
        let program = self.program;
        let out = &program.bufs[c.out];
        let name = self.name(c.out);
        if out.role == Role::Input {
            self.problem(format!("{name} is an input, and must not be written"));
        }
        if !self.written.contains(&c.out) {
            self.extents(c.out);
        }
        if c.axes.len() != out.shape.len() {
            self.problem(format!(
                "the computation of {name} has {} axes, the buffer {}",
                c.axes.len(),
                out.shape.len()
            ));
            return;
        }
        if c.value.dtype() != out.dtype {
            self.problem(format!(
                "{name} is {}, its elements are {}",
                out.dtype,
                c.value.dtype()
            ));
        }
        let reduction = c.reduce.iter().flat_map(|r| &r.axes);
        for (_, extent) in reduction.clone() {
            self.index_type(extent, "the extent of a reduction");
            self.expr(extent, &Facts::new());
        }
        let axes: Vec<(Var, Ex)> = (c.axes.iter().copied().zip(out.shape.iter().cloned()))
            .chain(reduction.cloned())
            .collect();
        for (var, extent) in &axes {
            self.enter(*var, extent);
        }
        let own = self.written.remove(&c.out);
        self.expr(&c.value, &Facts::new());
        let mut own_read = false;
        visit_expr(&c.value, |e| {
            own_read |= matches!(e.kind(), ExKind::Load(b, _) if *b == c.out);
        });
        if own && own_read {
            self.problem(format!("the computation of {name} reads {name} itself"));
        }
        self.written.insert(c.out);
        for (var, _) in axes {
            self.leave(var);
        }
    }

    fn enter(&mut self, var: Var, extent: &Ex) {
        if self.program.vars[var].dtype != DType::I64 {
            let name = self.program.vars[var].name;
            self.problem(format!("the index `{name}` is not int64"));
        }
        if self.scope.insert(var, Some(extent.clone())).is_some() {
            let name = self.program.vars[var].name;
            self.problem(format!("the index `{name}` is in use already"));
        }
        let bounds = self.bounds(extent);
        // Where the loop runs at all, its extent is at least 1.
        if let ExKind::Var(v) = extent.kind()
            && let Some(range) = self.ranges.get_mut(v)
            && range.0 < 1
        {
            self.narrowed.push((var, *v, *range));
            range.0 = 1;
        }
        self.ranges
            .insert(var, (0, bounds.hi.saturating_sub(1).max(0)));
    }
    fn leave(&mut self, var: Var) {
        self.scope.remove(&var);
        self.ranges.remove(&var);
        let ranges = &mut self.ranges;
        self.narrowed.retain(|(owner, dim, range)| {
            if *owner == var {
                ranges.insert(*dim, *range);
            }
            *owner != var
        });
    }
    fn bounds(&self, e: &Ex) -> Interval {
        let ranges = &self.ranges;
        interval_memo(e, &|v| ranges.get(&v).copied(), &mut FxHashMap::default())
    }
    fn index_type(&mut self, e: &Ex, what: &str) {
        if e.dtype() != DType::I64 {
            self.problem(format!("{what} is {}, not int64", e.dtype()));
        }
    }
    fn condition(&mut self, e: &Ex) {
        if !e.dtype().is_bool() {
            self.problem(format!("a condition is {}, not bool", e.dtype()));
        }
    }

    /// Everything about one expression, given facts that hold where it stands.
    fn expr(&mut self, root: &Ex, facts: &Facts) {
        let mut nodes = Vec::new();
        visit_expr(root, |e| {
            if self.checked.insert(e.addr()) {
                nodes.push(e);
            }
        });
        for e in nodes {
            if let Some(message) = type_problem(self.program, e) {
                self.problem(message);
            }
        }
        // Variables, buffers and bounds depend on the place. Facts of enclosing selects are
        // lists that share their tails through this table.
        let mut contexts = vec![facts.clone()];
        let mut seen = FxHashSet::default();
        let mut work = vec![(root, 0usize)];
        while let Some((e, context)) = work.pop() {
            if !seen.insert((e.addr(), context)) {
                continue;
            }
            match e.kind() {
                ExKind::Var(v) if !self.scope.contains_key(v) => {
                    let name = self.program.vars[*v].name;
                    self.problem(format!("`{name}` is used where nothing defines it"));
                }
                ExKind::Load(buf, index) => {
                    if !self.written.contains(buf) {
                        let name = self.name(*buf);
                        self.problem(format!("{name} is read before it is written"));
                    }
                    let always = context == 0 && facts.is_empty();
                    self.inside(*buf, index, &contexts[context], false, always);
                    work.extend(index.iter().map(|i| (i, context)));
                }
                ExKind::Select(c, a, b) => {
                    work.push((c, context));
                    // Beyond this many places the facts are not worth their cost: accesses stay
                    // unproven, which is safe.
                    let (yes, no) = if contexts.len() < 1000 {
                        let mut holds = contexts[context].clone();
                        assume(c, true, &mut holds);
                        contexts.push(holds);
                        let mut fails = contexts[context].clone();
                        assume(c, false, &mut fails);
                        contexts.push(fails);
                        (contexts.len() - 2, contexts.len() - 1)
                    } else {
                        (context, context)
                    };
                    work.extend([(a, yes), (b, no)]);
                }
                _ => work.extend(e.children().into_iter().map(|c| (c, context))),
            }
        }
    }

    /// Whether indices lie inside; what cannot be proven is listed.
    fn inside(&mut self, buf: Buf, index: &[Ex], facts: &Facts, store: bool, always: bool) {
        let program = self.program;
        for (axis, (i, extent)) in index.iter().zip(&program.bufs[buf].shape).enumerate() {
            let bounds = self.bounds(i);
            let extent_lo = self.bounds(extent).lo;
            let low = bounds.lo >= 0 || facts.iter().any(|f| at_least_zero(f, i));
            let high = bounds.hi < extent_lo
                || self.below(i, extent)
                || facts.iter().any(|f| below_by(f, i, extent));
            if !(low && high) {
                if always && self.guards == 0 {
                    self.surely_outside(buf, index, axis);
                }
                self.verdict.unproven.push(Unproven {
                    stage: self.stage.unwrap_or(0),
                    buf,
                    axis,
                    index: i.clone(),
                    store,
                });
            }
        }
    }

    /// Reports an index that leaves its axis whenever the program comes to it.
    fn surely_outside(&mut self, buf: Buf, index: &[Ex], axis: usize) {
        let program = self.program;
        let known = |v: Var| match self.scope.get(&v) {
            Some(Some(extent)) => Known::Index(extent),
            Some(None) if program.dims.contains(&v) => Known::Dim,
            _ => Known::Other,
        };
        let running: Vec<&Ex> = self.scope.values().flatten().collect();
        let name = |v: Var| program.vars[v].name.to_string();
        let extent = &program.bufs[buf].shape[axis];
        let Some(what) = outside(&index[axis], extent, &known, &running, &name) else {
            return;
        };
        let which = match index.len() {
            1 => "the index".to_string(),
            _ => format!("index {axis}"),
        };
        let message = format!("{which} of {} {what}", self.name(buf));
        // A loop that runs too far takes every access with it: one mistake, one error.
        if self.outside.contains(&index[axis]) {
            return;
        }
        self.outside.push(index[axis].clone());
        let place = program
            .access(buf, index)
            .map(|k| &program.accesses[k as usize]);
        let span = place.map(|a| a.span);
        self.problem(message);
        if let Some(p) = self.verdict.problems.last_mut() {
            p.span = span;
        }
    }

    /// Whether `i < extent` by structure: a loop variable over that extent, or a minimum with
    /// `extent - 1`.
    fn below(&self, i: &Ex, extent: &Ex) -> bool {
        match i.kind() {
            ExKind::Var(v) => matches!(self.scope.get(v), Some(Some(e)) if e == extent),
            ExKind::Binary(BinOp::Min, a, b) => {
                let last = extent - 1;
                *a == last || *b == last || self.below(a, extent) || self.below(b, extent)
            }
            _ => false,
        }
    }

    fn nest(&mut self, body: &[Stmt]) {
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
                    mark: _,
                    body,
                } => {
                    self.index_type(extent, "the extent of a loop");
                    self.expr(extent, &facts);
                    self.enter(*var, extent);
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
                    // Elements may change inside the block: only facts without loads last.
                    let mut more = Facts::new();
                    assume(cond, true, &mut more);
                    more.retain(|f| !has_load(&f.1) && !has_load(&f.2));
                    facts.append(&mut more);
                    continue;
                }
                Stmt::Init { over, body } => {
                    for var in over {
                        if !matches!(self.scope.get(var), Some(Some(_))) {
                            let name = program.vars[*var].name;
                            self.problem(format!(
                                "`init` is over `{name}`, which is no enclosing loop"
                            ));
                        }
                    }
                    work.push(Task::Block(rest, vars, locals));
                    self.guards += 1;
                    work.push(Task::Unguard);
                    work.push(Task::Block(body.iter(), vec![], vec![]));
                    continue;
                }
                Stmt::Store { buf, index, value } => self.store(*buf, index, value, &facts),
                Stmt::Let { var, value } => {
                    self.expr(value, &facts);
                    if program.vars[*var].dtype != value.dtype() {
                        let name = program.vars[*var].name;
                        self.problem(format!(
                            "`{name}` is {}, its value is {}",
                            program.vars[*var].dtype,
                            value.dtype()
                        ));
                    }
                    let bounds = self.bounds(value);
                    self.scope.insert(*var, None);
                    self.ranges.insert(*var, (bounds.lo, bounds.hi));
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

    fn store(&mut self, buf: Buf, index: &[Ex], value: &Ex, facts: &Facts) {
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

    /// Buffers that a nest only ever updates from their own elements have no start value.
    fn initialised(&mut self, body: &[Stmt]) {
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
            // A select may leave the load out: benefit of the doubt.
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

fn has_load(e: &Ex) -> bool {
    let mut found = false;
    visit_expr(e, |e| found |= matches!(e.kind(), ExKind::Load(..)));
    found
}

/// What a condition says when it holds (or fails): the comparisons of its conjunction.
fn assume(cond: &Ex, holds: bool, facts: &mut Facts) {
    let mut work = vec![(cond, holds)];
    while let Some((e, holds)) = work.pop() {
        match e.kind() {
            ExKind::Binary(BinOp::And, a, b) if holds && e.dtype().is_bool() => {
                work.extend([(a, true), (b, true)]);
            }
            ExKind::Binary(BinOp::Or, a, b) if !holds && e.dtype().is_bool() => {
                work.extend([(a, false), (b, false)]);
            }
            ExKind::Unary(UnOp::Not, a) if e.dtype().is_bool() => work.push((a, !holds)),
            ExKind::Binary(op, a, b) if a.dtype() == DType::I64 => {
                let op = match (op, holds) {
                    (BinOp::Lt, true) | (BinOp::Ge, false) => BinOp::Lt,
                    (BinOp::Le, true) | (BinOp::Gt, false) => BinOp::Le,
                    (BinOp::Gt, true) | (BinOp::Le, false) => BinOp::Gt,
                    (BinOp::Ge, true) | (BinOp::Lt, false) => BinOp::Ge,
                    _ => continue,
                };
                facts.push((op, a.clone(), b.clone()));
            }
            _ => {}
        }
    }
}

fn at_least_zero((op, a, b): &(BinOp, Ex, Ex), i: &Ex) -> bool {
    match op {
        BinOp::Ge => a == i && b.as_int().is_some_and(|v| v >= 0),
        BinOp::Gt => a == i && b.as_int().is_some_and(|v| v >= -1),
        BinOp::Le => b == i && a.as_int().is_some_and(|v| v >= 0),
        _ => b == i && a.as_int().is_some_and(|v| v >= -1),
    }
}

fn below_by((op, a, b): &(BinOp, Ex, Ex), i: &Ex, extent: &Ex) -> bool {
    let (small, large, strict) = match op {
        BinOp::Lt => (a, b, true),
        BinOp::Le => (a, b, false),
        BinOp::Gt => (b, a, true),
        _ => (b, a, false),
    };
    if small != i {
        return false;
    }
    match (large.as_int(), extent.as_int()) {
        (Some(l), Some(n)) => l < n || strict && l == n,
        _ => strict && large == extent || !strict && *large == extent - 1,
    }
}

/// Whether programs hold and compute with such elements.
fn computes(dtype: DType) -> bool {
    dtype.lanes == 1
        && match dtype.code {
            TypeCode::Int | TypeCode::UInt => (1..=64).contains(&dtype.bits),
            TypeCode::Float => matches!(dtype.bits, 16 | 32 | 64),
            TypeCode::BFloat => dtype.bits == 16,
            TypeCode::Handle => false,
        }
}

/// The typing rule that a node breaks.
fn type_problem(program: &Program, e: &Ex) -> Option<String> {
    let t = e.dtype();
    let wrong = |what: String| Some(what);
    match e.kind() {
        _ if !computes(t) => wrong(format!("an expression of {t:?}")),
        ExKind::Int(_) if t.is_float() => wrong(format!("an integer constant of {t}")),
        ExKind::Float(_) if !t.is_float() => wrong(format!("a float constant of {t}")),
        ExKind::Int(_) | ExKind::Float(_) => None,
        ExKind::Var(v) => match program.vars.get(*v) {
            Some(info) if info.dtype == t => None,
            Some(info) => wrong(format!("`{}` is {}, not {t}", info.name, info.dtype)),
            None => wrong("a variable of another program".into()),
        },
        ExKind::Load(buf, index) => match program.bufs.get(*buf) {
            None => wrong("a buffer of another program".into()),
            Some(b) if b.dtype != t => wrong(format!("`{}` is {}, not {t}", b.name, b.dtype)),
            Some(b) if b.shape.len() != index.len() => wrong(format!(
                "a load of `{}` has {} indices for {} axes",
                b.name,
                index.len(),
                b.shape.len()
            )),
            Some(b) => {
                let bad = index.iter().find(|i| i.dtype() != DType::I64)?;
                wrong(format!(
                    "an index of `{}` is {}, not int64",
                    b.name,
                    bad.dtype()
                ))
            }
        },
        ExKind::Unary(op, a) => {
            let test = matches!(op, UnOp::IsNan | UnOp::IsInf | UnOp::IsFinite);
            let result = if test { DType::BOOL } else { a.dtype() };
            let exists = crate::exec::unary_exists(*op, a.dtype());
            (!exists || result != t).then(|| format!("{op:?} of {} as {t}", a.dtype()))
        }
        ExKind::Binary(op, a, b) => {
            let result = if op.is_comparison() {
                DType::BOOL
            } else {
                a.dtype()
            };
            let right =
                a.dtype() == b.dtype() && result == t && crate::exec::binary_exists(*op, a.dtype());
            (!right).then(|| format!("{op:?} of {} and {} as {t}", a.dtype(), b.dtype()))
        }
        ExKind::Select(c, a, b) => {
            let right = c.dtype().is_bool() && a.dtype() == t && b.dtype() == t;
            (!right).then(|| {
                format!(
                    "a select by {} of {} and {} as {t}",
                    c.dtype(),
                    a.dtype(),
                    b.dtype()
                )
            })
        }
        ExKind::Cast(_) => None,
        ExKind::Reinterpret(a) => (a.dtype().size() != t.size())
            .then(|| format!("the bits of {} as {t}, which is not as wide", a.dtype())),
    }
}

#[cfg(test)]
mod tests;

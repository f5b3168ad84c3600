//! Functions in Relax's form: blocks of bindings, some of which are branches or functions with
//! blocks of their own.
//!
//! [`Code::of`] decomposes a body, [`Code::body`] rebuilds it. In between, bindings are added,
//! dropped and moved in lists.

use relax_base::{Span, Symbol};
use relax_ir::{
    Binding, Block, Expr, ExprId, FuncId, GlobalId, IdSet, Memo, Module, TypeId, VarId, VarStyle,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::edit::Edit;
use crate::util::{is_external, lets};

/// A body and the bodies inside it.
#[derive(Debug)]
pub(crate) struct Code {
    /// The body itself, followed by the ones nested in it.
    pub seqs: Vec<Seq>,
}

/// A sequence of bindings and its role.
#[derive(Debug)]
pub(crate) struct Seq {
    /// Runs of bindings.
    pub parts: Vec<Part>,
    /// The value.
    pub value: ExprId,
}

/// Consecutive bindings.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Whether it is a dataflow block.
    pub flow: bool,
    /// The bindings.
    pub binds: Vec<Bind>,
    /// The variables visible outside of a dataflow block.
    pub outputs: Vec<VarId>,
    /// Its source location.
    pub span: Span,
}

/// A binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bind {
    /// The variable.
    pub var: VarId,
    /// Its value.
    pub value: Value,
    /// The source location of the value.
    pub span: Span,
}

/// A bound value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    /// An expression without bindings.
    /// Invariant: nothing inside of it opens a scope.
    Plain(ExprId),
    /// Two branches, as indices of [`Code::seqs`].
    If {
        cond: ExprId,
        then: usize,
        otherwise: usize,
    },
    /// A function, and the index of its body.
    Func { func: FuncId, body: usize },
}

/// A step of the evaluation of a body.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Step {
    /// A body begins.
    Open(usize),
    /// A part of a body begins.
    Part(usize, usize),
    /// A binding; the steps of its value follow.
    Bind(usize, usize, usize),
    /// A part ends.
    PartEnd(usize, usize),
    /// The value of a body.
    Value(usize),
}

/// The position of a variable's binding: the index of the body, and that of the part.
pub(crate) type Home = (usize, usize);

impl Part {
    fn plain(span: Span) -> Part {
        Part {
            flow: false,
            binds: Vec::new(),
            outputs: Vec::new(),
            span,
        }
    }
}

impl Bind {
    /// A binding of an expression.
    pub fn plain(var: VarId, value: ExprId, span: Span) -> Bind {
        let value = Value::Plain(value);
        Bind { var, value, span }
    }
    /// Returns the expression that is bound, unless it is branches or a function.
    pub fn expr(&self) -> Option<ExprId> {
        match self.value {
            Value::Plain(e) => Some(e),
            _ => None,
        }
    }
}

impl Value {
    /// Returns the indices of the bodies nested in it, in order.
    pub fn bodies(self) -> impl Iterator<Item = usize> {
        let [first, second] = match self {
            Value::Plain(_) => [None; 2],
            Value::If {
                then, otherwise, ..
            } => [Some(then), Some(otherwise)],
            Value::Func { body, .. } => [Some(body), None],
        };
        first.into_iter().chain(second)
    }
    /// Returns the same value with renumbered bodies.
    pub fn renumbered(self, number: impl Fn(usize) -> usize) -> Value {
        match self {
            Value::Plain(e) => Value::Plain(e),
            Value::If {
                cond,
                then,
                otherwise,
            } => Value::If {
                cond,
                then: number(then),
                otherwise: number(otherwise),
            },
            Value::Func { func, body } => Value::Func {
                func,
                body: number(body),
            },
        }
    }
}

impl Code {
    /// Decomposes a body; `None` if values are shared without a name, or bindings, branches or
    /// functions are parts of other expressions, which is not Relax's form.
    pub fn of(m: &Module, body: ExprId) -> Option<Code> {
        let (mut once, mut shared, mut open) = (IdSet::new(), false, vec![body]);
        let mut scoped = 0;
        while let Some(e) = open.pop() {
            scoped += usize::from(opens_scope(m, e));
            m.for_each_child(e, |c| match is_name(m, c) {
                true => {}
                false if once.insert(c) => open.push(c),
                false => shared = true,
            });
        }
        if shared {
            return None;
        }
        let mut code = Code { seqs: Vec::new() };
        let mut heads = vec![body];
        while code.seqs.len() < heads.len() {
            let head = heads[code.seqs.len()];
            let seq = sequence(m, head, &mut heads, &mut scoped);
            code.seqs.push(seq);
        }
        // What is left is inside of plain values.
        (scoped == 0).then_some(code)
    }

    /// Rebuilds the body.
    pub fn body(&self, m: &mut Module) -> ExprId {
        let mut built: Vec<ExprId> = self.seqs.iter().map(|s| s.value).collect();
        for (i, seq) in self.seqs.iter().enumerate().rev() {
            let mut at = seq.value;
            for part in seq.parts.iter().rev() {
                let mut bindings = Vec::with_capacity(part.binds.len());
                for b in &part.binds {
                    let value = match b.value {
                        Value::Plain(e) => e,
                        Value::If {
                            cond,
                            then,
                            otherwise,
                        } => {
                            let (then, otherwise) = (built[then], built[otherwise]);
                            let branches = Expr::If {
                                cond,
                                then,
                                otherwise,
                            };
                            m.add(branches, b.span)
                        }
                        Value::Func { func, body } => with_body(m, func, built[body], b.span),
                    };
                    bindings.push(Binding { var: b.var, value });
                }
                at = joined(m, part, bindings, at);
            }
            built[i] = at;
        }
        built[0]
    }

    /// Returns all steps in order of evaluation.
    pub fn steps(&self) -> Vec<Step> {
        let most = self.binds().count() + 4 * self.seqs.len();
        let (mut steps, mut open) = (Vec::with_capacity(most), vec![Step::Open(0)]);
        while let Some(step) = open.pop() {
            steps.push(step);
            match step {
                Step::Open(s) => {
                    open.push(Step::Value(s));
                    for (p, part) in self.seqs[s].parts.iter().enumerate().rev() {
                        open.push(Step::PartEnd(s, p));
                        open.extend((0..part.binds.len()).rev().map(|b| Step::Bind(s, p, b)));
                        open.push(Step::Part(s, p));
                    }
                }
                Step::Bind(s, p, b) => {
                    let bodies = self.seqs[s].parts[p].binds[b].value.bodies();
                    let from = open.len();
                    open.extend(bodies.map(Step::Open));
                    open[from..].reverse();
                }
                _ => {}
            }
        }
        steps
    }

    /// Returns all bindings, each body's before those nested in it.
    pub fn binds(&self) -> impl Iterator<Item = &Bind> {
        let parts = self.seqs.iter().flat_map(|s| &s.parts);
        parts.flat_map(|p| &p.binds)
    }

    /// Returns every expression in it, with the part that contains it; none for the value of a
    /// body. Later ones may refer to the bindings of earlier ones.
    pub fn exprs(&self) -> Vec<(ExprId, usize, Option<usize>)> {
        let mut out = Vec::with_capacity(self.binds().count() + self.seqs.len());
        for (s, seq) in self.seqs.iter().enumerate() {
            for (p, part) in seq.parts.iter().enumerate() {
                for b in &part.binds {
                    match b.value {
                        Value::Plain(e) | Value::If { cond: e, .. } => out.push((e, s, Some(p))),
                        Value::Func { .. } => {}
                    }
                }
            }
            out.push((seq.value, s, None));
        }
        out
    }

    /// Returns the number of uses of each variable.
    pub fn uses(&self, m: &Module) -> FxHashMap<VarId, usize> {
        let mut uses = FxHashMap::default();
        for (e, ..) in self.exprs() {
            each_var(m, e, |v| *uses.entry(v).or_default() += 1);
        }
        uses
    }

    /// Substitutes expressions for variables, everywhere.
    pub fn substitute(&mut self, m: &mut Module, stands: &FxHashMap<VarId, ExprId>) {
        if stands.is_empty() {
            return;
        }
        let mut memo = Memo::default();
        self.map(|e| {
            let mut mentioned = false;
            each_var(m, e, |v| mentioned |= stands.contains_key(&v));
            match mentioned {
                true => m.substitute(e, &mut memo, stands),
                false => e,
            }
        });
    }

    /// Replaces all expressions in it.
    pub fn map(&mut self, mut f: impl FnMut(ExprId) -> ExprId) {
        for seq in &mut self.seqs {
            for b in seq.parts.iter_mut().flat_map(|p| &mut p.binds) {
                match &mut b.value {
                    Value::Plain(e) | Value::If { cond: e, .. } => *e = f(*e),
                    Value::Func { .. } => {}
                }
            }
            seq.value = f(seq.value);
        }
    }

    /// Drops the bindings of these variables.
    pub fn remove(&mut self, gone: &FxHashSet<VarId>) {
        for part in self.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            part.binds.retain(|b| !gone.contains(&b.var));
            part.outputs.retain(|v| !gone.contains(v));
        }
    }

    /// Drops the bindings of these variables, for which other names are substituted among the
    /// outputs.
    pub fn remove_names(&mut self, gone: &FxHashSet<VarId>) {
        for part in self.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            part.binds.retain(|b| !gone.contains(&b.var));
        }
    }

    /// Returns the position of each variable's binding.
    pub fn homes(&self) -> FxHashMap<VarId, Home> {
        let mut homes = FxHashMap::default();
        homes.reserve(self.binds().count());
        for (s, seq) in self.seqs.iter().enumerate() {
            for (p, part) in seq.parts.iter().enumerate() {
                homes.extend(part.binds.iter().map(|b| (b.var, (s, p))));
            }
        }
        homes
    }
}

/// Rewrites every function that is in Relax's form: `f` returns whether it changed the code.
pub(crate) fn each_code(m: &mut Module, mut f: impl FnMut(&mut Module, FuncId, &mut Code) -> bool) {
    for (global, body) in m.global_bodies() {
        one_code(m, (global, body), |m| m, &mut f);
    }
}

/// Like [`each_code`], with types, of which there is one table for all functions.
pub(crate) fn each_typed_code(
    edit: &mut Edit<'_>,
    mut f: impl FnMut(&mut Edit<'_>, FuncId, &mut Code) -> bool,
) {
    for (global, body) in edit.m.global_bodies() {
        one_code(edit, (global, body), |edit| edit.m, &mut f);
    }
}

/// Rewrites a function that is in Relax's form, through anything that holds the module.
fn one_code<T>(
    at: &mut T,
    (global, body): (GlobalId, ExprId),
    module: impl Fn(&mut T) -> &mut Module,
    f: &mut impl FnMut(&mut T, FuncId, &mut Code) -> bool,
) {
    let m = module(at);
    let func = m.global_func(global).expect("it has a body");
    let Some(mut code) = code_of(m, global, body) else {
        return;
    };
    if f(at, func, &mut code) {
        let m = module(at);
        let new = code.body(m);
        m.set_global_body(global, new);
    }
}

/// Returns whether every function is in Relax's form that is not another compiler's.
pub(crate) fn in_form(m: &Module) -> bool {
    (m.global_bodies().into_iter())
        .all(|(global, body)| external(m, global) || Code::of(m, body).is_some())
}

/// Decomposes the body of a global function; `None` if it is another compiler's or not in Relax's
/// form.
pub(crate) fn code_of(m: &Module, global: GlobalId, body: ExprId) -> Option<Code> {
    match external(m, global) {
        true => None,
        false => Code::of(m, body),
    }
}

/// Returns whether a global function is another compiler's.
fn external(m: &Module, global: GlobalId) -> bool {
    m.global_func(global)
        .is_some_and(|f| is_external(&m.funcs[f]))
}

/// Returns whether a node has bodies with bindings of their own.
fn opens_scope(m: &Module, e: ExprId) -> bool {
    matches!(
        m.exprs[e],
        Expr::Let { .. }
            | Expr::Dataflow { .. }
            | Expr::If { .. }
            | Expr::Match { .. }
            | Expr::Func(_)
    )
}

/// Returns whether evaluating it again yields the same value at no cost.
fn is_name(m: &Module, e: ExprId) -> bool {
    m.is_leaf(e) || matches!(m.exprs[e], Expr::Shape(_) | Expr::Extern(_))
}

/// Returns the bindings from `head` on; the heads of nested bodies are appended to `heads`, and
/// nodes that open a scope are subtracted from `scoped`.
fn sequence(m: &Module, head: ExprId, heads: &mut Vec<ExprId>, scoped: &mut usize) -> Seq {
    let mut parts: Vec<Part> = Vec::new();
    let mut chained = 0;
    let mut bind = |var: VarId, value: ExprId| {
        let span = m.span(value);
        *scoped -= usize::from(matches!(m.exprs[value], Expr::If { .. } | Expr::Func(_)));
        let value = match m.exprs[value] {
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                heads.extend([then, otherwise]);
                let (then, otherwise) = (heads.len() - 2, heads.len() - 1);
                Value::If {
                    cond,
                    then,
                    otherwise,
                }
            }
            Expr::Func(func) => {
                heads.push(m.funcs[func].body);
                let body = heads.len() - 1;
                Value::Func { func, body }
            }
            _ => Value::Plain(value),
        };
        Bind { var, value, span }
    };
    let mut at = head;
    loop {
        match m.exprs[at] {
            Expr::Let { var, value, body } => {
                chained += 1;
                if parts.last().is_none_or(|p| p.flow) {
                    parts.push(Part::plain(m.span(at)));
                }
                let last = parts.last_mut().expect("one was just added");
                last.binds.push(bind(var, value));
                at = body;
            }
            Expr::Dataflow { block, body } => {
                chained += 1;
                let block = &m.blocks[block];
                let binds = block.bindings.iter().map(|b| bind(b.var, b.value));
                parts.push(Part {
                    flow: true,
                    binds: binds.collect(),
                    outputs: block.outputs.clone(),
                    span: block.span,
                });
                at = body;
            }
            _ => {
                *scoped -= chained;
                return Seq { parts, value: at };
            }
        }
    }
}

fn joined(m: &mut Module, part: &Part, bindings: Vec<Binding>, body: ExprId) -> ExprId {
    if !part.flow {
        return lets(m, bindings, body);
    }
    if bindings.is_empty() {
        return body;
    }
    let block = m.blocks.push(Block {
        bindings,
        outputs: part.outputs.clone(),
        span: part.span,
    });
    m.add(Expr::Dataflow { block, body }, part.span)
}

/// Creates a function with another body.
fn with_body(m: &mut Module, func: FuncId, body: ExprId, span: Span) -> ExprId {
    let mut function = m.funcs[func].clone();
    function.body = body;
    let func = m.funcs.push(function);
    m.add(Expr::Func(func), span)
}

/// Calls `f` for every occurrence of a variable, in order.
pub(crate) fn each_var(m: &Module, e: ExprId, mut f: impl FnMut(VarId)) {
    if is_flat(m, e) {
        return each_part(m, e, |part| {
            if let Expr::Var(v) = m.exprs[part] {
                f(v);
            }
        });
    }
    let mut open = vec![e];
    while let Some(e) = open.pop() {
        if let Expr::Var(v) = m.exprs[e] {
            f(v);
        }
        let from = open.len();
        m.for_each_child(e, |c| open.push(c));
        open[from..].reverse();
    }
}

/// Returns whether all operands of an expression are names, as in most bindings: then a walk needs
/// no list.
pub(crate) fn is_flat(m: &Module, e: ExprId) -> bool {
    let mut flat = true;
    m.for_each_child(e, |c| flat &= is_name(m, c));
    flat
}

/// Calls `f` with a flat expression and its operands.
pub(crate) fn each_part(m: &Module, e: ExprId, mut f: impl FnMut(ExprId)) {
    f(e);
    m.for_each_child(e, f);
}

/// Creates a fresh variable in the form that bindings have, and a reference to it.
pub(crate) fn fresh(
    m: &mut Module,
    name: impl Into<Symbol>,
    ty: Option<TypeId>,
) -> (VarId, ExprId) {
    m.fresh_var(name, ty, VarStyle::Binding)
}

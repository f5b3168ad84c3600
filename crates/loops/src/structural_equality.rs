//! Equality of programs up to the numbering and the names of buffers and variables.

use std::ops::Range;

use relax_base::Id;
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::extents::simplify_indices;
use crate::rewrite::map_expr;
use crate::{BinOp, Buf, Ex, ExKind, Program, Role, Stage, Stmt, Var, lower_stage};

/// Returns whether two programs are the same loop nests over the same buffers. A computation over
/// indices equals the nest that it lowers to, a temporary buffer the one allocated at the head of
/// the program, and names, hints and kernels do not count: a program equals what its text parses to,
/// which states only the kernels that it can show.
///
/// The stages of programs that state the same kernels are compared one by one, since kernels are
/// ranges of them, and temporary buffers are paired where they are written.
pub fn same_program(p: &Program, q: &Program) -> bool {
    let staged = !p.kernels.is_empty() && p.kernels == q.kernels;
    let simpler = |p: &Program| {
        let mut p = p.clone();
        simplify_indices(&mut p);
        p
    };
    let simple;
    let (p, q) = match staged {
        true => {
            simple = (simpler(p), simpler(q));
            (&simple.0, &simple.1)
        }
        false => (p, q),
    };
    let mut s = Same::new(p, q, staged);
    if p.inputs.len() != q.inputs.len() || p.outputs.len() != q.outputs.len() {
        return false;
    }
    let own = p.inputs.iter().chain(&p.outputs);
    let other = q.inputs.iter().chain(&q.outputs);
    let pairs: Vec<(Buf, Buf)> = own.copied().zip(other.copied()).collect();
    // Dimensions first: each is the whole extent of some parameter.
    for &(a, b) in &pairs {
        for (x, y) in p.bufs[a].shape.iter().zip(&q.bufs[b].shape) {
            if let (ExKind::Var(v), ExKind::Var(w)) = (x.kind(), y.kind()) {
                s.vars.entry(*w).or_insert(*v);
            }
        }
    }
    s.other_dims();
    pairs.into_iter().all(|(a, b)| s.buffer(a, b))
        && match staged {
            true => s.stages(&p.stages, &q.stages),
            false => s.block(&nests(p), &nests(q)),
        }
}

/// Returns whether stages of `q` are the same as some of `p`, where `q` is a copy of `p` with more
/// buffers, variables and stages; if so, the temporary buffers of `p` that the new ones stand for.
pub fn same_stages(
    p: &Program,
    own: Range<usize>,
    q: &Program,
    others: Range<usize>,
) -> Option<FxHashMap<Buf, Buf>> {
    let mut s = Same::new(p, q, true);
    s.bufs.extend(p.bufs.ids().map(|b| (b, b)));
    s.vars.extend(p.dims.iter().map(|v| (*v, *v)));
    let same = s.stages(&p.stages[own], &q.stages[others]);
    let mut bufs = s.bufs;
    bufs.retain(|b, _| b.index() >= p.bufs.len());
    same.then_some(bufs)
}

/// Returns the program as statements, including allocations of its temporary buffers.
fn nests(p: &Program) -> Vec<Stmt> {
    let temps = crate::used_temps(p).into_iter();
    let mut all: Vec<Stmt> = temps.map(|buf| Stmt::Alloc { buf }).collect();
    for stage in &p.stages {
        match stage {
            Stage::Nest(body) => all.extend(body.iter().cloned()),
            Stage::Compute(_) => all.extend(lower_stage(p, stage)),
        }
    }
    all
}

struct Same<'a> {
    p: &'a Program,
    q: &'a Program,
    /// From the second program to the first.
    vars: FxHashMap<Var, Var>,
    bufs: FxHashMap<Buf, Buf>,
    taken: FxHashSet<Buf>,
    /// Whether temporary buffers are paired where they are first written.
    by_write: bool,
}

impl<'a> Same<'a> {
    fn new(p: &'a Program, q: &'a Program, by_write: bool) -> Same<'a> {
        Same {
            p,
            q,
            vars: FxHashMap::default(),
            bufs: FxHashMap::default(),
            taken: FxHashSet::default(),
            by_write,
        }
    }
}

impl Same<'_> {
    fn stages(&mut self, own: &[Stage], others: &[Stage]) -> bool {
        let (p, q) = (self.p, self.q);
        own.len() == others.len()
            && (own.iter().zip(others))
                .all(|(a, b)| self.block(&lower_stage(p, a), &lower_stage(q, b)))
    }

    /// Returns whether a buffer that is written is the same.
    fn written(&mut self, a: Buf, b: Buf) -> bool {
        let temp = |p: &Program, b: Buf| p.bufs[b].role == Role::Temp;
        match self.bufs.get(&b) {
            Some(known) => *known == a,
            None => self.by_write && temp(self.p, a) && temp(self.q, b) && self.buffer(a, b),
        }
    }

    /// Pairs the dimensions that are no whole extent: those of equal names, and the others in order.
    fn other_dims(&mut self) {
        let (p, q) = (self.p, self.q);
        let paired: FxHashSet<Var> = self.vars.values().copied().collect();
        let mut left = p.dims.clone();
        left.retain(|v| !paired.contains(v));
        let mut right = q.dims.clone();
        right.retain(|w| !self.vars.contains_key(w));
        right.retain(|&w| {
            let name = q.vars[w].name;
            let at = left.iter().position(|&v| p.vars[v].name == name);
            if let Some(at) = at {
                self.vars.insert(w, left.remove(at));
            }
            at.is_none()
        });
        self.vars.extend(right.into_iter().zip(left));
    }

    fn buffer(&mut self, a: Buf, b: Buf) -> bool {
        let (x, y) = (&self.p.bufs[a], &self.q.bufs[b]);
        let local = |r: Role| matches!(r, Role::Temp | Role::Local);
        let fits = x.dtype == y.dtype
            && (x.role == y.role || local(x.role) && local(y.role))
            && x.shape.len() == y.shape.len()
            && self.bufs.insert(b, a).is_none()
            && self.taken.insert(a);
        fits && x.shape.iter().zip(&y.shape).all(|(x, y)| self.expr(x, y))
    }

    /// Compares statements; the recursion follows loop nests, which own their parts and so are
    /// bounded.
    fn block(&mut self, a: &[Stmt], b: &[Stmt]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| self.stmt(x, y))
    }

    fn stmt(&mut self, a: &Stmt, b: &Stmt) -> bool {
        match (a, b) {
            (
                Stmt::For {
                    var,
                    extent,
                    mark,
                    body,
                },
                Stmt::For {
                    var: w,
                    extent: n,
                    mark: k,
                    body: other,
                },
            ) => {
                let header = mark == k && self.expr(extent, n);
                self.vars.insert(*w, *var);
                header && self.block(body, other)
            }
            (
                Stmt::While { cond, body },
                Stmt::While {
                    cond: c,
                    body: other,
                },
            ) => self.expr(cond, c) && self.block(body, other),
            (
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                },
                Stmt::If {
                    cond: c,
                    then: t,
                    otherwise: o,
                },
            ) => self.expr(cond, c) && self.block(then, t) && self.block(otherwise, o),
            (
                Stmt::Store { buf, index, value },
                Stmt::Store {
                    buf: b,
                    index: i,
                    value: v,
                },
            ) => {
                self.written(*buf, *b)
                    && index.len() == i.len()
                    && index.iter().zip(i).all(|(x, y)| self.expr(x, y))
                    && self.expr(value, v)
            }
            (Stmt::Let { var, value }, Stmt::Let { var: w, value: v }) => {
                let fits = self.p.vars[*var].dtype == self.q.vars[*w].dtype && self.expr(value, v);
                self.vars.insert(*w, *var);
                fits
            }
            (Stmt::Alloc { buf }, Stmt::Alloc { buf: b }) => self.buffer(*buf, *b),
            (
                Stmt::Init { over, body },
                Stmt::Init {
                    over: o,
                    body: other,
                },
            ) => {
                let over: FxHashSet<Var> = over.iter().copied().collect();
                let o: Option<FxHashSet<Var>> =
                    o.iter().map(|v| self.vars.get(v).copied()).collect();
                o == Some(over) && self.block(body, other)
            }
            (
                Stmt::Assert {
                    cond,
                    message,
                    values,
                    part: _,
                },
                Stmt::Assert {
                    cond: c,
                    message: m,
                    values: v,
                    part: _,
                },
            ) => {
                let shown = || values.iter().zip(v).all(|(a, b)| self.expr(a, b));
                message == m && values.len() == v.len() && self.expr(cond, c) && shown()
            }
            _ => false,
        }
    }

    /// Returns the counterpart of a variable of the second program. One that nothing in the program
    /// binds (an attribute of an operator) is identified by its name.
    fn var(&self, w: Var) -> Option<Var> {
        let by_name = || {
            let name = self.q.vars[w].name;
            let found = self.p.vars.iter().find(|(_, v)| v.name == name);
            found.map(|(v, _)| v)
        };
        self.vars.get(&w).copied().or_else(by_name)
    }

    fn expr(&self, a: &Ex, b: &Ex) -> bool {
        let mut known = true;
        let b = map_expr(b, |e| match e.kind() {
            ExKind::Var(v) => {
                let Some(v) = self.var(*v) else {
                    known = false;
                    return None;
                };
                Some(Ex::var(v, e.dtype()))
            }
            ExKind::Load(buf, index) => {
                known &= self.bufs.contains_key(buf);
                let buf = *self.bufs.get(buf)?;
                Some(Ex::new(ExKind::Load(buf, index.clone()), e.dtype()))
            }
            _ => None,
        });
        known && (*a == b || a.dtype() == DType::I64 && same_sum(a, &b, 0))
    }
}

/// The longest sum and the most operands inside of each other that are compared up to their order.
const LONGEST: usize = 64;

/// Returns whether two integers are the same sum up to the order of terms and factors, which is that
/// in which a module met the extents' names. `depth`: the number of quotients around them.
fn same_sum(a: &Ex, b: &Ex, depth: usize) -> bool {
    let (mut x, mut y) = (Sum::default(), Sum::default());
    x.add(a, 1, 0) && y.add(b, 1, 0) && x.is(y, depth)
}

/// A sum of products with integer coefficients.
#[derive(Default)]
struct Sum {
    constant: i64,
    terms: Vec<(i64, Vec<Ex>)>,
}

impl Sum {
    /// Adds a multiple of an expression, and returns whether the sum is still short.
    fn add(&mut self, e: &Ex, times: i64, depth: usize) -> bool {
        if depth > LONGEST || self.terms.len() > LONGEST {
            return false;
        }
        match e.kind() {
            ExKind::Int(i) => self.constant = self.constant.wrapping_add(i.wrapping_mul(times)),
            ExKind::Binary(BinOp::Add, a, b) => {
                return self.add(a, times, depth + 1) && self.add(b, times, depth + 1);
            }
            ExKind::Binary(BinOp::Sub, a, b) => {
                return self.add(a, times, depth + 1)
                    && self.add(b, times.wrapping_neg(), depth + 1);
            }
            _ => {
                let (mut coefficient, mut factors) = (times, Vec::new());
                let mut work = vec![e];
                while let Some(e) = work.pop() {
                    match e.kind() {
                        ExKind::Int(i) => coefficient = coefficient.wrapping_mul(*i),
                        ExKind::Binary(BinOp::Mul, a, b) => work.extend([a, b]),
                        _ => factors.push(e.clone()),
                    }
                    if factors.len() + work.len() > LONGEST {
                        return false;
                    }
                }
                self.terms.push((coefficient, factors));
            }
        }
        true
    }

    fn is(&self, mut other: Sum, depth: usize) -> bool {
        self.constant == other.constant
            && self.terms.len() == other.terms.len()
            && self.terms.iter().all(|(k, factors)| {
                let same = |(l, others): &(i64, Vec<Ex>)| {
                    k == l && matched(factors, others.clone(), depth)
                };
                let at = other.terms.iter().position(same);
                at.map(|at| other.terms.swap_remove(at)).is_some()
            })
    }
}

/// Returns whether the factors of two products are the same up to their order.
fn matched(factors: &[Ex], mut others: Vec<Ex>, depth: usize) -> bool {
    factors.len() == others.len()
        && factors.iter().all(|x| {
            let at = others.iter().position(|y| same_factor(x, y, depth + 1));
            at.map(|at| others.swap_remove(at)).is_some()
        })
}

fn same_factor(a: &Ex, b: &Ex, depth: usize) -> bool {
    /// Quotients inside of quotients beyond this are compared as they are written.
    const DEEPEST: usize = 4;
    let sums = |a: &Ex, b: &Ex| same_sum(a, b, depth);
    a == b
        || depth < DEEPEST
            && match (a.kind(), b.kind()) {
                (ExKind::Binary(f, p, q), ExKind::Binary(g, r, s)) if f == g => {
                    let either = matches!(f, BinOp::Min | BinOp::Max);
                    sums(p, r) && sums(q, s) || either && sums(p, s) && sums(q, r)
                }
                _ => false,
            }
}

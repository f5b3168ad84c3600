//! Dependences between the iterations of a loop.
//!
//! The test is the one that Allen and Kennedy call the trivial case ("Optimizing Compilers for
//! Modern Architectures", 2001, chapter 2): iterations are independent when each writes distinct
//! elements, and reads no written elements but its own.

use relax_base::Symbol;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::rewrite::{map_stmts, simplify, visit_expr};
use crate::{Buf, Ex, ExKind, Program, Role, Stmt, Var, statements};

/// The reason why the iterations of a loop depend on each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dependence {
    /// All of them write this buffer, which is allocated inside the loop.
    Local(Symbol),
    /// All of them write the same elements of this buffer.
    SameElements(Symbol),
    /// This buffer is written at more than one index.
    Places(Symbol),
    /// They read elements of this buffer that others of them write.
    Reads(Symbol),
    /// They contribute to one reduction.
    Reduction,
}

impl std::fmt::Display for Dependence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dependence::Local(b) => write!(f, "all of them write `%{b}`"),
            Dependence::SameElements(b) => {
                write!(f, "all of them write the same elements of `%{b}`")
            }
            Dependence::Places(b) => write!(f, "`%{b}` is written at different places"),
            Dependence::Reads(b) => write!(f, "they read other elements of `%{b}`"),
            Dependence::Reduction => f.write_str("they sum up one reduction"),
        }
    }
}

impl std::error::Error for Dependence {}

/// The elements that statements store to, except in buffers allocated inside.
pub(super) fn stores(body: &[Stmt]) -> Vec<(Buf, &[Ex])> {
    let mut found = Vec::new();
    let mut made = FxHashSet::default();
    for s in statements(body) {
        match s {
            Stmt::Store { buf, index, .. } => found.push((*buf, &index[..])),
            Stmt::Alloc { buf } => {
                made.insert(*buf);
            }
            _ => {}
        }
    }
    found.retain(|(b, _)| !made.contains(b));
    found
}

/// Returns whether the iterations of a loop over `var` may run in any order: each writes distinct
/// elements (every store has an index that differs between iterations), and of the buffers that the
/// body writes it reads only the elements that it writes.
///
/// # Errors
/// The dependence between iterations.
pub fn independent(program: &Program, var: Var, body: &[Stmt]) -> Result<(), Dependence> {
    let stored = stores(body);
    let extents = extents_of(program, body);
    for (k, (buf, index)) in stored.iter().enumerate() {
        let name = program.bufs[*buf].name;
        if program.bufs[*buf].role == Role::Local {
            return Err(Dependence::Local(name));
        }
        if !index.iter().any(|e| steps_with(&extents, e, var)) {
            return Err(Dependence::SameElements(name));
        }
        if stored[..k].iter().any(|(b, i)| b == buf && i != index) {
            return Err(Dependence::Places(name));
        }
    }
    let mut trouble = None;
    let mut copy = body.to_vec();
    map_stmts(&mut copy, &mut |e| {
        visit_expr(e, |e| {
            if let ExKind::Load(buf, index) = e.kind()
                && stored.iter().any(|(b, i)| b == buf && *i != &index[..])
            {
                trouble = Some(*buf);
            }
        });
        e.clone()
    });
    if contains_init_over(body, var) {
        return Err(Dependence::Reduction);
    }
    match trouble {
        Some(b) => Err(Dependence::Reads(program.bufs[b].name)),
        None => Ok(()),
    }
}

fn contains_init_over(body: &[Stmt], var: Var) -> bool {
    let mut work: Vec<&Stmt> = body.iter().collect();
    while let Some(s) = work.pop() {
        match s {
            Stmt::Init { over, .. } if over.contains(&var) => return true,
            Stmt::For { body, .. } | Stmt::While { body, .. } | Stmt::Init { body, .. } => {
                work.extend(body);
            }
            Stmt::If {
                then, otherwise, ..
            } => work.extend(then.iter().chain(otherwise)),
            _ => {}
        }
    }
    false
}

/// Returns whether an index takes a different value in every iteration of `var`, whatever the other
/// variables are: it is a sum of variables, each times a step larger than the greatest sum of the
/// terms with smaller steps, and `var` is one of them. Only the variable with the largest step may
/// be unbounded.
fn steps_with(extents: &FxHashMap<Var, Option<i64>>, e: &Ex, var: Var) -> bool {
    let mut terms: Vec<(i64, Var)> = Vec::new();
    let mut work = vec![(1i64, simplify(e, &|_| None))];
    while let Some((c, e)) = work.pop() {
        match e.kind() {
            ExKind::Int(_) => {}
            ExKind::Var(v) => terms.push((c, *v)),
            ExKind::Binary(crate::BinOp::Add, a, b) => {
                work.push((c, a.clone()));
                work.push((c, b.clone()));
            }
            ExKind::Binary(crate::BinOp::Mul, a, k) => {
                match k.as_int().and_then(|k| c.checked_mul(k)) {
                    Some(c) => work.push((c, a.clone())),
                    None => return false,
                }
            }
            _ => return false,
        }
    }
    terms.sort();
    let mut reach = Some(0i64);
    let mut found = false;
    for (c, v) in terms {
        // Two terms of one variable, steps that are not positive, or an overlap with the smaller
        // terms.
        if reach.is_none_or(|r| c <= r) || (v == var && found) {
            return false;
        }
        found |= v == var;
        let last = extents.get(&v).copied().flatten().map(|n| (n - 1).max(0));
        reach = last
            .and_then(|n| n.checked_mul(c))
            .and_then(|n| n.checked_add(reach?));
    }
    found
}

/// The constant that an extent is at most, if there is one.
fn most(extent: &Ex) -> Option<i64> {
    match extent.kind() {
        ExKind::Binary(crate::BinOp::Min, a, b) => match (most(a), most(b)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        },
        _ => extent.as_int(),
    }
}

/// The greatest constant extents of all loops, those in `body` (which may be newer than the program's
/// stages) included; for a variable of several loops, the largest.
fn extents_of(program: &Program, body: &[Stmt]) -> FxHashMap<Var, Option<i64>> {
    let mut found: FxHashMap<Var, Option<i64>> = FxHashMap::default();
    for s in statements(body).chain(program.statements()) {
        if let Stmt::For { var, extent, .. } = s {
            let n = most(extent);
            found
                .entry(*var)
                .and_modify(|old| *old = old.zip(n).map(|(a, b)| a.max(b)))
                .or_insert(n);
        }
    }
    found
}

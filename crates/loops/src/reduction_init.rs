//! Initial values of reductions over empty domains.
//!
//! `init { … }` runs in the first iteration of the loops that it reduces over. Where these have no
//! iterations at all, the value is the initial value too: an empty reduction yields its identity
//! element. Programs whose reductions may be empty get, before the reduction's outermost loop, a
//! copy of the loops around the `init` that are not loops of the reduction, for the case that one
//! of those is empty.

use std::borrow::Cow;

use rustc_hash::FxHashSet;

use crate::{Ex, ExKind, Mark, Program, Stage, Stmt, Var, statements, visit_expr};

/// Returns the program with initial values also for empty reductions. Both engines run this form.
pub fn with_starts(program: &Program) -> Cow<'_, Program> {
    let mut found: Vec<(usize, Vec<Stmt>)> = Vec::new();
    for (k, stage) in program.stages.iter().enumerate() {
        if let Stage::Nest(body) = stage
            && statements(body).any(|s| matches!(s, Stmt::Init { .. }))
            && let Some(new) = block(body, &mut FxHashSet::default())
        {
            found.push((k, new));
        }
    }
    if found.is_empty() {
        return Cow::Borrowed(program);
    }
    let mut program = program.clone();
    for (k, body) in found {
        program.stages[k] = Stage::Nest(body);
    }
    Cow::Owned(program)
}

/// Returns whether the initial values of a reduction over the loops `over`, of which `outer` is the
/// outermost, are set also where none of these runs.
pub(crate) fn starts_without(outer: &Stmt, over: &[Var]) -> bool {
    skeleton(std::slice::from_ref(outer), over).is_some_and(|copy| !copy.is_empty())
}

/// Returns a block with copies before its loops; `None` where it needs none. The nesting depth is
/// bounded by the resolver and the schedules.
fn block(body: &[Stmt], around: &mut FxHashSet<Var>) -> Option<Vec<Stmt>> {
    let mut changed = false;
    let mut out = Vec::with_capacity(body.len());
    for s in body {
        if let Stmt::For { var, .. } = s {
            let starts = starts_before(s, around);
            changed |= !starts.is_empty();
            out.extend(starts);
            around.insert(*var);
        }
        let mut new = s.clone();
        match &mut new {
            Stmt::For { body, .. } | Stmt::While { body, .. } => {
                if let Some(b) = block(body, around) {
                    (*body, changed) = (b, true);
                }
            }
            Stmt::If {
                then, otherwise, ..
            } => {
                for side in [then, otherwise] {
                    if let Some(b) = block(side, around) {
                        (*side, changed) = (b, true);
                    }
                }
            }
            _ => {}
        }
        if let Stmt::For { var, .. } = s {
            around.remove(var);
        }
        out.push(new);
    }
    changed.then_some(out)
}

/// Returns the copies before a loop: for each set of loops that begins with it and may be empty.
fn starts_before(outer: &Stmt, around: &FxHashSet<Var>) -> Vec<Stmt> {
    let Stmt::For { var: first, .. } = outer else {
        return Vec::new();
    };
    let mut sets: Vec<&[Var]> = Vec::new();
    for s in statements(std::slice::from_ref(outer)) {
        if let Stmt::Init { over, .. } = s
            && over.contains(first)
            && !over.iter().any(|v| around.contains(v))
            && !sets.contains(&&over[..])
        {
            sets.push(over);
        }
    }
    let mut out = Vec::new();
    for over in sets {
        let mut empty: Option<Ex> = None;
        let mut plain = true;
        for s in statements(std::slice::from_ref(outer)) {
            if let Stmt::For { var, extent, .. } = s
                && over.contains(var)
                && extent.as_int().is_none_or(|n| n < 1)
            {
                plain &= !depends(extent, &|v| {
                    v == *first || !around.contains(&v) && bound_in(outer, v)
                });
                let none = extent.le(0i64);
                empty = Some(match empty {
                    None => none,
                    Some(e) => e | none,
                });
            }
        }
        let Some(empty) = empty else { continue };
        let Some(copy) = skeleton(std::slice::from_ref(outer), over) else {
            continue;
        };
        if plain {
            out.push(Stmt::If {
                cond: empty,
                then: copy,
                otherwise: Vec::new(),
            });
        } else {
            // Which of the loops are empty is known only inside. The initial values are set again
            // there.
            out.extend(copy);
        }
    }
    out
}

/// Returns the part of a block that only sets the initial values of the reduction over `over`;
/// `None` where it cannot be separated from the reduction.
fn skeleton(body: &[Stmt], over: &[Var]) -> Option<Vec<Stmt>> {
    let inside = |v: Var| over.contains(&v);
    let mut out = Vec::new();
    for s in body {
        match s {
            Stmt::For {
                var, extent, body, ..
            } => {
                let body = skeleton(body, over)?;
                if inside(*var) {
                    out.extend(body);
                } else if !body.is_empty() {
                    if depends(extent, &inside) {
                        return None;
                    }
                    out.push(Stmt::For {
                        var: *var,
                        extent: extent.clone(),
                        mark: Mark::Serial,
                        body,
                    });
                }
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                let (then, otherwise) = (skeleton(then, over)?, skeleton(otherwise, over)?);
                if then.is_empty() && otherwise.is_empty() {
                    continue;
                }
                if depends(cond, &inside) {
                    return None;
                }
                out.push(Stmt::If {
                    cond: cond.clone(),
                    then,
                    otherwise,
                });
            }
            Stmt::Init { over: own, body } if own[..] == *over => {
                if statements(body)
                    .flat_map(Stmt::exprs)
                    .any(|e| depends(e, &inside))
                {
                    return None;
                }
                out.extend(body.iter().cloned());
            }
            Stmt::Let { value, .. } if !depends(value, &inside) => out.push(s.clone()),
            // An `init` that depends on these is not known without the reduction.
            Stmt::Let { .. } | Stmt::Alloc { .. } | Stmt::While { .. } => {
                if statements(body).any(|s| matches!(s, Stmt::Init { .. })) {
                    return None;
                }
            }
            Stmt::Init { .. } | Stmt::Store { .. } | Stmt::Assert { .. } => {}
        }
    }
    // Names alone have no effect.
    if out.iter().all(|s| matches!(s, Stmt::Let { .. })) {
        out.clear();
    }
    Some(out)
}

/// Returns whether an expression uses any of some variables.
pub(crate) fn depends(e: &Ex, on: &dyn Fn(Var) -> bool) -> bool {
    let mut found = false;
    visit_expr(e, |x| found |= matches!(x.kind(), ExKind::Var(v) if on(*v)));
    found
}

/// Returns whether a variable is bound inside a statement.
fn bound_in(outer: &Stmt, v: Var) -> bool {
    statements(std::slice::from_ref(outer))
        .any(|s| matches!(s, Stmt::For { var, .. } | Stmt::Let { var, .. } if *var == v))
}

//! Loops around several statements as loops around one each.

use rustc_hash::{FxHashMap, FxHashSet};

use super::private::{expand, mentioned, shared};
use super::statement::{computation, writes};
use super::versions::{Reads, overwrites};
use crate::accumulation::Accumulation;
use crate::raise::peel;
use crate::{
    Buf, Ex, ExKind, Mark, Program, Stmt, Var, has_loads, map_stmts, substitute, visit_accesses,
};

/// Returns the statements that a loop is equal to if what is in it is computed one after the other,
/// each for all iterations; `None` where that is another result, or where there is one statement.
///
/// That holds where no iteration sees what another one writes: the loops' variables are, each at the
/// same axis, in all indices of the buffers that are written. A local buffer that every iteration
/// begins anew, and that is not used outside of the loop (not in `outside`), gets such an axis.
pub(super) fn distributed(
    program: &mut Program,
    s: &Stmt,
    outside: &FxHashSet<Buf>,
) -> Option<Vec<Stmt>> {
    let mut loops = Vec::new();
    let inner = peel(std::slice::from_ref(s), &mut loops);
    let (allocs, mut inner): (Vec<Stmt>, Vec<Stmt>) =
        (inner.iter().cloned()).partition(|s| matches!(s, Stmt::Alloc { .. }));
    let simple = |s: &Stmt| matches!(s, Stmt::For { .. } | Stmt::Store { .. });
    if loops.is_empty() || inner.len() < 2 || !inner.iter().all(simple) {
        return None;
    }
    if computation(program, s).is_some() || Accumulation::of(program, s).is_some() {
        return None;
    }
    let expanded = expand(program, &mut inner, &loops, outside);
    // A local buffer that has no place of its own for each iteration stays in the loop.
    let stays = |s: &Stmt| matches!(s, Stmt::Alloc { buf } if inner.iter().any(|s| mentioned(s).contains(buf)));
    if allocs.iter().any(stays)
        || loops.iter().any(|l| has_loads(&l.1))
        || !independent(&inner, &loops)
    {
        return None;
    }
    let parts: Vec<Stmt> = inner.iter().map(|s| around(program, s, &loops)).collect();
    for buf in expanded {
        let first = parts.iter().find(|s| mentioned(s).contains(&buf))?;
        if overwrites(program, first, buf) != Some(Reads::New) {
            return None;
        }
    }
    let mut outside = outside.clone();
    outside.extend(shared(&parts));
    let mut all = Vec::new();
    for part in parts {
        match distributed(program, &part, &outside) {
            Some(more) => all.extend(more),
            None => all.push(part),
        }
    }
    Some(all)
}

/// Returns a statement in loops of its own.
fn around(program: &mut Program, s: &Stmt, loops: &[(Var, Ex)]) -> Stmt {
    let mut fresh: FxHashMap<Var, Ex> = FxHashMap::default();
    let mut own: Vec<(Var, Ex)> = Vec::new();
    for (var, extent) in loops {
        let info = &program.vars[*var];
        let (name, dtype) = (info.name.to_string(), info.dtype);
        let (new, named) = program.fresh(&name, dtype);
        own.push((new, substitute(extent, &|v| fresh.get(&v).cloned())));
        fresh.insert(*var, named);
    }
    let mut body = vec![s.clone()];
    map_stmts(&mut body, &mut |e| {
        substitute(e, &|v| fresh.get(&v).cloned())
    });
    for (var, extent) in own.into_iter().rev() {
        body = vec![Stmt::For {
            var,
            extent,
            mark: Mark::Serial,
            body,
        }];
    }
    body.remove(0)
}

/// Returns whether each of some loops' variables is in all indices of every buffer that a block
/// writes, at one axis.
fn independent(block: &[Stmt], loops: &[(Var, Ex)]) -> bool {
    let mut axes: FxHashMap<Buf, Vec<Vec<usize>>> = (block.iter().flat_map(writes))
        .map(|b| (b, Vec::new()))
        .collect();
    visit_accesses(block, |buf, index| {
        let Some(possible) = axes.get_mut(&buf) else {
            return;
        };
        let places = |v: Var| {
            let is = |e: &Ex| matches!(e.kind(), ExKind::Var(x) if *x == v);
            (0..index.len()).filter(|&k| is(&index[k])).collect()
        };
        let here: Vec<Vec<usize>> = loops.iter().map(|l| places(l.0)).collect();
        if possible.is_empty() {
            *possible = here;
            return;
        }
        for (before, here) in possible.iter_mut().zip(here) {
            before.retain(|k| here.contains(k));
        }
    });
    axes.values().flatten().all(|places| !places.is_empty())
}

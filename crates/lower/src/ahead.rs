//! Programs of fused groups, made side by side before functions are lowered.
//!
//! A group's program depends on nothing but the group, and to make them takes most of the time of lowering a network.
//! What is lowered is the same whoever made them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use relax_infer::Typing;
use relax_ir::{Expr, FuncId, GlobalId, Module};
use relax_loops::Program;
use relax_passes::fused;
use rustc_hash::{FxHashMap, FxHashSet};

/// Groups that one more thread is worth starting for.
const SHARE: usize = 8;

/// What becomes of a group; `None` where it is none.
type Made = Option<(Program, String)>;

/// The different groups in the functions `roots`, where there are enough of them for several threads.
pub(crate) fn programs(m: &Module, typing: &Typing, roots: &[GlobalId]) -> FxHashMap<FuncId, Made> {
    let (mut seen, mut groups) = (FxHashSet::default(), Vec::new());
    let bodies = roots.iter().filter_map(|&g| m.global_func(g));
    for e in m.post_order(bodies.map(|f| m.funcs[f].body)) {
        let Expr::Func(f) = m.exprs[e] else { continue };
        let marked = m.funcs[f].attrs.get("Primitive");
        if marked.and_then(|p| p.as_int()) == Some(1)
            && let Some(key) = fused::key(m, typing, f)
            && seen.insert(key)
        {
            groups.push(f);
        }
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = threads.min(groups.len() / SHARE);
    if threads < 2 {
        return FxHashMap::default();
    }
    let (next, made) = (AtomicUsize::new(0), Mutex::new(FxHashMap::default()));
    let work = || {
        while let Some(&f) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
            let program = fused::program(m, typing, f).ok();
            let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
            made.insert(f, program);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where no thread can be had, this one does it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    made.into_inner().unwrap_or_else(PoisonError::into_inner)
}

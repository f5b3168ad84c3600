//! Programs of fused groups, built in parallel before functions are lowered.
//!
//! A group's program depends only on the group, and building them takes most of the time of
//! lowering a network. The lowered module is the same with any number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use relax_infer::Typing;
use relax_ir::{Expr, FuncId, GlobalId, Module, is_primitive};
use relax_loops::Program;
use relax_programs::group;
use rustc_hash::{FxHashMap, FxHashSet};

/// Groups for which one more thread pays.
const SHARE: usize = 8;

/// The program and label of a group; `None` where the function is not a group.
type Made = Option<(Program, String)>;

/// The precomputed facts about groups, by function.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The keys that determine their programs.
    keys: FxHashMap<FuncId, String>,
    programs: FxHashMap<FuncId, Made>,
}

impl Ahead {
    /// Computes the keys of the groups in the functions `roots`, and builds their programs where
    /// there are enough of them for several threads.
    pub fn of(m: &Module, typing: &Typing, roots: &[GlobalId]) -> Ahead {
        let mut out = Ahead::default();
        let (mut seen, mut groups) = (FxHashSet::default(), Vec::new());
        let bodies = roots.iter().filter_map(|&g| m.global_func(g));
        for e in m.post_order(bodies.map(|f| m.funcs[f].body)) {
            let Expr::Func(f) = m.exprs[e] else { continue };
            if !is_primitive(&m.funcs[f]) || out.keys.contains_key(&f) {
                continue;
            }
            if let Some(key) = group::key(m, typing, f) {
                if seen.insert(key.clone()) {
                    groups.push(f);
                }
                out.keys.insert(f, key);
            }
        }
        let threads = (groups.len() / SHARE).min(relax_base::helpers() + 1);
        if threads < 2 {
            return out;
        }
        let (next, made) = (AtomicUsize::new(0), Mutex::new(FxHashMap::default()));
        relax_base::with_helpers(threads - 1, || {
            while let Some(&f) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                let program = group::program(m, typing, f).ok();
                let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
                made.insert(f, program);
            }
        });
        out.programs = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        out
    }

    /// Returns the key that determines a group's program; may be called once per group.
    pub fn key(&mut self, m: &Module, typing: &Typing, f: FuncId) -> Option<String> {
        let known = self.keys.remove(&f);
        known.or_else(|| group::key(m, typing, f))
    }

    /// The program of a group; may be called once per group.
    pub fn program(&mut self, m: &Module, typing: &Typing, f: FuncId) -> Made {
        let made = self.programs.remove(&f);
        made.unwrap_or_else(|| group::program(m, typing, f).ok())
    }
}

//! Programs of fused groups, made side by side before functions are lowered.
//!
//! A group's program depends on nothing but the group, and to make them takes most of the time of
//! lowering a network. What is lowered is the same whoever made them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use relax_infer::Typing;
use relax_ir::{Expr, FuncId, GlobalId, Module, is_primitive};
use relax_loops::Program;
use relax_programs::group;
use rustc_hash::{FxHashMap, FxHashSet};

/// Groups that one more thread is worth starting for.
const SHARE: usize = 8;

/// What becomes of a group; `None` where it is none.
type Made = Option<(Program, String)>;

/// What is known of groups before they are lowered, by function.
#[derive(Default)]
pub(crate) struct Ahead {
    /// What decides their programs.
    keys: FxHashMap<FuncId, String>,
    programs: FxHashMap<FuncId, Made>,
}

impl Ahead {
    /// Of the groups in the functions `roots`. Their programs are made where there are enough of
    /// them for several threads.
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

    /// Returns what decides the program of a group; asked for once.
    pub fn key(&mut self, m: &Module, typing: &Typing, f: FuncId) -> Option<String> {
        let known = self.keys.remove(&f);
        known.or_else(|| group::key(m, typing, f))
    }

    /// The program of a group; asked for once.
    pub fn program(&mut self, m: &Module, typing: &Typing, f: FuncId) -> Made {
        let made = self.programs.remove(&f);
        made.unwrap_or_else(|| group::program(m, typing, f).ok())
    }
}

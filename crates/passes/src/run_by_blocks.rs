//! The functions that dataflow blocks may run, which therefore may get no effects.

use relax_ir::{BlockId, Expr, ExprId, FuncId, GlobalId, GlobalKind, IdSet, Module, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The functions that a module's dataflow blocks may run.
pub(crate) struct RunByBlocks {
    globals: FxHashSet<GlobalId>,
    funcs: FxHashSet<FuncId>,
    /// Whether blocks call something that only a run of the program tells.
    any: bool,
}

/// What has to be looked at.
enum Open {
    Expr(ExprId),
    Global(GlobalId),
}

impl RunByBlocks {
    /// Finds them: those that a block names, by any number of variables, and those that these name.
    pub fn of(m: &Module) -> RunByBlocks {
        let all = m.post_order(m.global_bodies().into_iter().map(|g| g.1));
        let block = |e: &ExprId| match m.exprs[*e] {
            Expr::Dataflow { block, .. } => Some(block),
            _ => None,
        };
        let blocks: Vec<BlockId> = all.iter().filter_map(block).collect();
        let mut bound: FxHashMap<VarId, ExprId> = FxHashMap::default();
        // Without blocks nobody asks what a name stands for.
        for e in all.into_iter().filter(|_| !blocks.is_empty()) {
            match m.exprs[e] {
                Expr::Let { var, value, .. } => {
                    bound.insert(var, value);
                }
                Expr::Dataflow { block, .. } => {
                    bound.extend(m.blocks[block].bindings.iter().map(|b| (b.var, b.value)));
                }
                _ => {}
            }
        }
        let mut found = RunByBlocks {
            globals: FxHashSet::default(),
            funcs: FxHashSet::default(),
            any: false,
        };
        let bindings = blocks.iter().flat_map(|b| &m.blocks[*b].bindings);
        let mut open: Vec<Open> = bindings.map(|b| Open::Expr(b.value)).collect();
        let mut seen = IdSet::new();
        let mut named = FxHashSet::default();
        while let Some(at) = open.pop() {
            let e = match at {
                Open::Expr(e) if seen.insert(e) => e,
                Open::Expr(_) => continue,
                Open::Global(g) => {
                    if let GlobalKind::Func(f) = m.globals[g].kind
                        && found.globals.insert(g)
                    {
                        open.push(Open::Expr(m.funcs[f].body));
                    }
                    continue;
                }
            };
            match m.exprs[e] {
                Expr::Global(g) => open.push(Open::Global(g)),
                Expr::Func(f) => {
                    found.funcs.insert(f);
                }
                Expr::Var(v) if named.insert(v) => {
                    open.extend(bound.get(&v).map(|&value| Open::Expr(value)));
                }
                Expr::Call { callee, .. } => found.any |= !is_told(m, &bound, callee),
                _ => {}
            }
            m.for_each_child(e, |c| open.push(Open::Expr(c)));
        }
        found
    }

    /// Returns whether a block may run a global function.
    pub fn global(&self, g: GlobalId) -> bool {
        self.any || self.globals.contains(&g)
    }

    /// Returns whether a block may run a function literal.
    pub fn literal(&self, f: FuncId) -> bool {
        self.any || self.funcs.contains(&f)
    }
}

/// Returns whether the text tells what a call calls.
fn is_told(m: &Module, bound: &FxHashMap<VarId, ExprId>, mut callee: ExprId) -> bool {
    let mut passed = FxHashSet::default();
    while let Expr::Var(v) = m.exprs[callee]
        && passed.insert(v)
        && let Some(&value) = bound.get(&v)
    {
        callee = value;
    }
    matches!(
        m.exprs[callee],
        Expr::Op(_) | Expr::Global(_) | Expr::Ctor(_) | Expr::Extern(_) | Expr::Func(_)
    )
}

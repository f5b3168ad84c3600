//! Pattern matching over the bindings of a dataflow block.

use relax_infer::Typing;
use relax_ir::{Expr, ExprId, Memo, Module, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::by_pattern::Wanted;
use crate::code::{Part, each_var};

/// The bindings that match a pattern, by index.
pub(super) struct Found {
    pub pattern: usize,
    pub binds: Vec<usize>,
}

/// Returns all matches: earlier patterns take precedence, then earlier bindings; each binding
/// belongs to at most one match. Values inside a match may be used outside of it, unless such a use
/// leads back into the match.
pub(super) fn matched(
    m: &mut Module,
    typing: &Typing,
    part: &Part,
    wanted: &[Wanted],
) -> Vec<Found> {
    let graph = graph(m, part);
    let number: FxHashMap<ExprId, usize> = (graph.iter().enumerate().rev())
        .filter_map(|(i, e)| Some(((*e)?, i)))
        .collect();
    let uses = Uses::of(m, part);
    let mut group: Vec<Option<usize>> = vec![None; part.binds.len()];
    let (mut found, mut leaks) = (Vec::new(), false);
    for (pattern, wanted) in wanted.iter().enumerate() {
        for (i, e) in graph.iter().enumerate() {
            let Some(e) = e.filter(|e| group[i].is_none() && number.get(e) == Some(&i)) else {
                continue;
            };
            let Some(hit) = wanted.pattern.find(m, e) else {
                continue;
            };
            let inside = wanted.pattern.inside(&hit);
            let mut binds: Vec<usize> = (inside.iter())
                .filter_map(|e| number.get(e).copied())
                .collect();
            binds.sort_unstable();
            binds.dedup();
            let typed = |&i: &usize| {
                let tensor = m.types.as_tensor(typing.vars[part.binds[i].var]);
                let dtype = tensor.and_then(|t| t.dtype.known());
                wanted.types.is_empty() || dtype.is_some_and(|d| wanted.types.contains(&d))
            };
            if binds.iter().any(|&i| group[i].is_some()) || !binds.iter().all(typed) {
                continue;
            }
            leaks |= uses.leaks(&binds);
            if leaks && uses.circle(&binds, &group) {
                continue;
            }
            for &i in &binds {
                group[i] = Some(found.len());
            }
            found.push(Found { pattern, binds });
        }
    }
    found
}

/// Returns the value of each binding with the other bindings' values substituted for their names.
fn graph(m: &mut Module, part: &Part) -> Vec<Option<ExprId>> {
    let mut stands: FxHashMap<VarId, ExprId> = FxHashMap::default();
    let mut graph = Vec::with_capacity(part.binds.len());
    for b in &part.binds {
        let value = b.expr().map(|e| over(m, e, &stands));
        if let Some(value) = value {
            stands.insert(b.var, value);
        }
        graph.push(value.filter(|e| matches!(m.exprs[*e], Expr::Call { .. })));
    }
    graph
}

/// Returns an expression with variables replaced by values.
fn over(m: &mut Module, e: ExprId, stands: &FxHashMap<VarId, ExprId>) -> ExprId {
    let mut memo = Memo::default();
    m.substitute(e, &mut memo, stands)
}

/// The def-use relation of the bindings.
struct Uses {
    /// The bindings that each binding uses.
    needs: Vec<Vec<usize>>,
    /// The users of each binding.
    users: Vec<Vec<usize>>,
    /// Bindings that are used outside the block.
    outside: FxHashSet<usize>,
}

impl Uses {
    fn of(m: &Module, part: &Part) -> Uses {
        let at: FxHashMap<VarId, usize> = (part.binds.iter().enumerate())
            .map(|(i, b)| (b.var, i))
            .collect();
        let mut uses = Uses {
            needs: vec![Vec::new(); part.binds.len()],
            users: vec![Vec::new(); part.binds.len()],
            outside: FxHashSet::default(),
        };
        for (i, b) in part.binds.iter().enumerate() {
            let Some(e) = b.expr() else { continue };
            each_var(m, e, |v| {
                if let Some(&from) = at.get(&v) {
                    uses.needs[i].push(from);
                    uses.users[from].push(i);
                }
            });
        }
        let outputs = part.outputs.iter().filter_map(|v| at.get(v));
        uses.outside.extend(outputs);
        uses
    }

    /// Returns whether any of these bindings except the last is used by others.
    fn leaks(&self, binds: &[usize]) -> bool {
        let Some((_, inner)) = binds.split_last() else {
            return false;
        };
        inner.iter().any(|i| {
            let others = self.users[*i].iter().any(|u| !binds.contains(u));
            others || self.outside.contains(i)
        })
    }

    /// Returns whether outlining these bindings would create a cycle: one of them depends on
    /// another through bindings outside the group.
    fn circle(&self, binds: &[usize], group: &[Option<usize>]) -> bool {
        let mut members: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for (i, g) in group.iter().enumerate() {
            if let Some(g) = g {
                members.entry(*g).or_default().push(i);
            }
        }
        let mut behind: FxHashSet<usize> = FxHashSet::default();
        let mut open: Vec<usize> = binds.to_vec();
        while let Some(i) = open.pop() {
            for &user in &self.users[i] {
                if binds.contains(&user) || !behind.insert(user) {
                    continue;
                }
                // Its group is called as a whole.
                let whole = group[user].and_then(|g| members.get(&g));
                for &other in whole.into_iter().flatten() {
                    behind.insert(other);
                    open.push(other);
                }
                open.push(user);
            }
        }
        let mut needs = binds.iter().flat_map(|&i| &self.needs[i]);
        needs.any(|from| behind.contains(from))
    }
}

//! Facts about one function of the module before it is lowered: where nodes are evaluated.

use relax_ir::{Expr, ExprId, FuncId, Module, ScopeId, ScopeKind, Scopes, VarId};
use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

/// The scopes of a global function's body, with the nodes of each in order of evaluation.
pub(crate) struct Info {
    pub scopes: Scopes,
    /// Nodes that are evaluated in a scope, operands before their users, without leaves.
    pub nodes: FxHashMap<ScopeId, Vec<ExprId>>,
    /// The scopes that a node opens, in order.
    pub opened: FxHashMap<ExprId, Vec<ScopeId>>,
    /// The variable that a closure is bound to by a `let`, by the closure's node.
    pub bound_closure: FxHashMap<ExprId, VarId>,
}

/// An entity from outside that a closure uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Captured {
    /// A variable.
    Var(VarId),
    /// A shared node.
    Node(ExprId),
    /// A dimension.
    Dim(DimVar),
}

impl Info {
    pub fn new(m: &Module, body: ExprId) -> Info {
        let scopes = Scopes::new(m, body);
        let mut nodes: FxHashMap<ScopeId, Vec<ExprId>> = FxHashMap::default();
        let mut bound_closure = FxHashMap::default();
        for &id in scopes.order().iter().rev() {
            if let Expr::Let { var, value, .. } = m.exprs[id]
                && matches!(m.exprs[value], Expr::Func(_))
            {
                bound_closure.insert(value, var);
            }
            if !m.is_leaf(id) {
                nodes
                    .entry(scopes.of(id).expect("in the order"))
                    .or_default()
                    .push(id);
            }
        }
        let mut opened: FxHashMap<ExprId, Vec<ScopeId>> = FxHashMap::default();
        for s in scopes.ids() {
            let by = match scopes.kind(s) {
                ScopeKind::Root => continue,
                ScopeKind::Body(e)
                | ScopeKind::Then(e)
                | ScopeKind::Else(e)
                | ScopeKind::Clause(e, _)
                | ScopeKind::Binding(e) => e,
            };
            opened.entry(by).or_default().push(s);
        }
        Info {
            scopes,
            nodes,
            opened,
            bound_closure,
        }
    }

    /// Returns the variables that the closure at `node` captures, in order of first use. Its own
    /// name does not count.
    pub fn captures(&self, m: &Module, node: ExprId, func: FuncId) -> Vec<Captured> {
        let inside = self.opened[&node][0];
        let own = self.bound_closure.get(&node);
        let bound: FxHashSet<DimVar> = dims_bound(m, func);
        let (mut found, mut seen) = (Vec::new(), FxHashSet::default());
        let mut visited = FxHashSet::default();
        let mut work = vec![m.funcs[func].body];
        let mut see = |c: Captured, found: &mut Vec<Captured>| {
            if seen.insert(c) {
                found.push(c);
            }
        };
        while let Some(e) = work.pop() {
            if !visited.insert(e) {
                continue;
            }
            if let Expr::Var(v) = m.exprs[e] {
                let here = self
                    .scopes
                    .of_var(v)
                    .is_some_and(|s| self.scopes.holds(inside, s));
                if !here && own != Some(&v) {
                    see(Captured::Var(v), &mut found);
                }
                continue;
            }
            if m.is_leaf(e) {
                continue;
            }
            let place = self.scopes.of(e).expect("under the root");
            if !self.scopes.holds(inside, place) {
                see(Captured::Node(e), &mut found);
                continue;
            }
            for d in dims_used(m, e) {
                if !bound.contains(&d) {
                    see(Captured::Dim(d), &mut found);
                }
            }
            let at = work.len();
            m.for_each_child(e, |c| work.push(c));
            work[at..].reverse();
        }
        found
    }
}

/// Dimension variables that a node evaluates.
fn dims_used(m: &Module, e: ExprId) -> Vec<DimVar> {
    let dims = match &m.exprs[e] {
        Expr::Shape(dims) | Expr::MatchShape { dims, .. } => dims,
        _ => return Vec::new(),
    };
    dims.iter().flat_map(|d| d.free_vars()).collect()
}

/// Returns the dimension variables that a function binds itself: in its signature, and by matching
/// inside.
fn dims_bound(m: &Module, func: FuncId) -> FxHashSet<DimVar> {
    let mut bound: FxHashSet<DimVar> = m.funcs[func].dims.iter().copied().collect();
    for e in m.post_order([m.funcs[func].body]) {
        match &m.exprs[e] {
            Expr::MatchShape { dims, .. } => bound.extend(dims.iter().flat_map(|d| d.free_vars())),
            Expr::MatchCast { ty, .. } => bound.extend(m.dims_in_types([*ty])),
            Expr::Func(f) => bound.extend(m.funcs[*f].dims.iter().copied()),
            _ => {}
        }
    }
    bound
}

//! The assignment of calls to regions of a library.

use relax_base::Symbol;
use relax_ir::{AttrValue, Expr, ExprId, Module, ScopeId, Scopes};
use rustc_hash::{FxHashMap, FxHashSet};

/// Calls that form a region.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// The library.
    pub compiler: Symbol,
    /// The calls, operands first.
    pub members: Vec<ExprId>,
    /// The values from outside that they use, in order of first use.
    pub inputs: Vec<ExprId>,
    /// The members that are used outside.
    pub outputs: Vec<ExprId>,
    scope: ScopeId,
    /// The other regions that this one depends on.
    needs: FxHashSet<usize>,
}

/// The regions of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Regions {
    /// All regions, in order of their first calls.
    pub all: Vec<Region>,
    /// The region of a call.
    pub of: FxHashMap<ExprId, usize>,
}

/// Returns the library of a call of a function that `merge-composite` created.
fn compiler(m: &Module, e: ExprId, wanted: &str) -> Option<Symbol> {
    let Expr::Call { callee, .. } = m.exprs[e] else {
        return None;
    };
    let Expr::Func(f) = m.exprs[callee] else {
        return None;
    };
    let name = m.funcs[f]
        .attrs
        .get("Composite")
        .and_then(AttrValue::as_str)?;
    let (library, _) = name.split_once('.').unwrap_or((name, ""));
    (wanted.is_empty() || wanted == library).then(|| Symbol::from(library))
}

/// Finds the regions under `body`.
pub(super) fn regions(
    m: &Module,
    scopes: &Scopes,
    body: ExprId,
    wanted: &str,
    merge: bool,
) -> Regions {
    let order = m.post_order([body]);
    let mut this = Regions::default();
    // The regions that a node depends on through nodes outside of them.
    let mut needs: FxHashMap<ExprId, FxHashSet<usize>> = FxHashMap::default();
    for &e in &order {
        let mut parts = Vec::new();
        m.for_each_child(e, |c| parts.push(c));
        let mut before: FxHashSet<usize> = FxHashSet::default();
        for p in &parts {
            before.extend(needs.get(p).into_iter().flatten());
        }
        let (library, scope) = (compiler(m, e, wanted), scopes.of(e));
        let Some((library, scope)) = library.zip(scope) else {
            before.extend(parts.iter().filter_map(|p| this.of.get(p)));
            if !before.is_empty() {
                needs.insert(e, before);
            }
            continue;
        };
        let args = match m.exprs[e] {
            Expr::Call { args, .. } => m.list(args).to_vec(),
            _ => Vec::new(),
        };
        let neighbours: Vec<usize> = args
            .iter()
            .filter_map(|a| this.of.get(a).copied())
            .collect();
        let fits = |&r: &usize| {
            let region = &this.all[r];
            let others = neighbours.iter().copied().filter(|n| *n != r);
            let mut needed: FxHashSet<usize> = before.iter().copied().chain(others).collect();
            this.close(&mut needed);
            region.compiler == library && region.scope == scope && !needed.contains(&r)
        };
        let home = neighbours.iter().copied().find(|r| merge && fits(r));
        let r = home.unwrap_or(this.all.len());
        if home.is_none() {
            this.all.push(Region {
                compiler: library,
                members: Vec::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                scope,
                needs: FxHashSet::default(),
            });
        }
        let region = &mut this.all[r];
        region.members.push(e);
        region.needs.extend(before);
        region
            .needs
            .extend(neighbours.into_iter().filter(|n| *n != r));
        for a in args {
            if this.of.get(&a) != Some(&r) && !region.inputs.contains(&a) {
                region.inputs.push(a);
            }
        }
        this.of.insert(e, r);
    }
    this.find_outputs(m, body, &order);
    this
}

impl Regions {
    /// Adds the regions that these depend on.
    fn close(&self, set: &mut FxHashSet<usize>) {
        let mut open: Vec<usize> = set.iter().copied().collect();
        while let Some(r) = open.pop() {
            for &n in &self.all[r].needs {
                if set.insert(n) {
                    open.push(n);
                }
            }
        }
    }

    fn find_outputs(&mut self, m: &Module, body: ExprId, order: &[ExprId]) {
        let mut used: FxHashSet<ExprId> = std::iter::once(body).collect();
        for &e in order {
            let home = self.of.get(&e);
            m.for_each_child(e, |c| {
                if self.of.get(&c).is_some_and(|r| Some(r) != home) {
                    used.insert(c);
                }
            });
        }
        for region in &mut self.all {
            let outputs = region.members.iter().filter(|e| used.contains(e));
            region.outputs = outputs.copied().collect();
        }
    }
}

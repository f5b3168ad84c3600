//! Reduction of a program while a predicate holds: delta debugging (Zeller, Hildebrandt, 2002) over
//! functions, expressions and shapes.

use relax::{InferOptions, check};
use relax_ir::{Expr, ExprId, FuncId, Function, GlobalKind, Memo, Module, TypeId, VarId, VarStyle};
use rustc_hash::{FxHashMap, FxHashSet};

use super::shapes;

/// Shrinks a program while `wrong` holds for the result, which also verifies and type-checks.
/// `left` is the number of programs that may be tried; it is decremented.
pub fn shrink(
    module: &Module,
    entry: &str,
    left: &mut usize,
    wrong: &mut dyn FnMut(&Module) -> bool,
) -> Module {
    let mut this = Shrinker {
        entry,
        best: module.clone(),
        left: *left,
        wrong,
    };
    loop {
        let size = this.size();
        this.functions();
        this.open();
        this.hoist();
        this.cut();
        this.collapse();
        this.drop_unused();
        this.shapes();
        if this.size() >= size || this.left == 0 {
            break;
        }
    }
    *left = this.left;
    this.best.compact().module
}

struct Shrinker<'w> {
    entry: &'w str,
    best: Module,
    left: usize,
    wrong: &'w mut dyn FnMut(&Module) -> bool,
}

impl Shrinker<'_> {
    /// Returns the measure to be minimised: nodes, then elements.
    fn size(&self) -> (usize, i64) {
        let m = &self.best;
        let bodies = m.global_bodies();
        let nodes = m.post_order(bodies.iter().map(|b| b.1)).len();
        let functions = bodies.len();
        let params: usize = (m.globals.values())
            .map(|g| match g.kind {
                GlobalKind::Func(f) => m.funcs[f].params.len(),
                GlobalKind::Prim(_) => 0,
            })
            .sum();
        (nodes + functions + params, shapes::extents(m).iter().sum())
    }

    fn accept(&mut self, module: Module) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let mut trial = module.clone();
        let sound =
            trial.verify().is_ok() && !check(&mut trial, &InferOptions::default()).1.has_errors();
        let taken = sound && (self.wrong)(&trial);
        if taken {
            self.best = module.compact().module;
        }
        taken
    }

    fn function(&self) -> Option<FuncId> {
        let global = self.best.global(self.entry)?;
        self.best.global_func(global)
    }

    /// Drops functions that are unreachable from the entry.
    fn functions(&mut self) {
        let m = &self.best;
        let Some(entry) = m.global(self.entry) else {
            return;
        };
        let graph = m.call_graph();
        let (mut keep, mut open) = (FxHashSet::default(), vec![entry]);
        while let Some(g) = open.pop() {
            if keep.insert(g) {
                open.extend(graph.get(&g).into_iter().flatten());
            }
        }
        if m.globals
            .ids()
            .all(|g| keep.contains(&g) || m.globals[g].prelude)
        {
            return;
        }
        let mut fewer = m.clone();
        let prelude = m.globals.iter().filter(|g| g.1.prelude).map(|g| g.0);
        keep.extend(prelude);
        fewer.retain_globals(&keep);
        self.accept(fewer);
    }

    /// Replaces the entry by a function nested in it, whose parameters become the entry's.
    fn open(&mut self) {
        let mut skip = 0;
        while let Some(func) = self.function() {
            let m = &self.best;
            let function = &m.funcs[func];
            let inner = |e: ExprId| match m.exprs[e] {
                Expr::Func(f) if closed(m, e, function) => Some(m.funcs[f].clone()),
                _ => None,
            };
            let all = m.post_order([function.body]).into_iter().rev();
            let Some(inner) = all.filter_map(inner).nth(skip) else {
                return;
            };
            let mut whole = Function {
                body: inner.body,
                ret: None,
                ..function.clone()
            };
            whole.type_params.extend(inner.type_params);
            whole.dims.extend(inner.dims);
            whole.params.extend(inner.params);
            whole.constraints.extend(inner.constraints);
            let mut less = m.clone();
            set_entry(&mut less, self.entry, whole);
            if !self.accept(less) {
                skip += 1;
            }
        }
    }

    /// Returns less: a part of the result, or an earlier binding.
    fn hoist(&mut self) {
        loop {
            let Some(func) = self.function() else { return };
            let m = &self.best;
            let function = m.funcs[func].clone();
            // Replacements as pairs of an expression and its replacement.
            let mut candidates: Vec<(ExprId, ExprId)> = Vec::new();
            let mut chain = Vec::new();
            let mut at = function.body;
            while let Expr::Let { body, .. } | Expr::Dataflow { body, .. } = m.exprs[at] {
                chain.push(at);
                at = body;
            }
            // Any subexpression without free bindings, small ones first.
            for e in m.post_order([function.body]) {
                let computes = matches!(
                    m.exprs[e],
                    Expr::Call { .. } | Expr::If { .. } | Expr::Match { .. } | Expr::Proj { .. }
                );
                if computes && e != function.body && closed(m, e, &function) {
                    candidates.push((function.body, e));
                }
            }
            // An operand of the result, under the same bindings.
            m.for_each_child(at, |c| {
                if !matches!(m.exprs[c], Expr::Op(_) | Expr::Global(_)) {
                    candidates.push((at, c));
                }
            });
            // The chain of bindings, truncated after one of them.
            let mut cuts = Vec::new();
            for e in chain {
                if let Expr::Let { var, body, .. } = m.exprs[e]
                    && !matches!(m.exprs[body], Expr::Var(v) if v == var)
                {
                    cuts.push((body, var));
                }
            }
            let mut trial = self.best.clone();
            for (body, var) in cuts {
                let result = trial.add(Expr::Var(var), trial.span(body));
                candidates.push((body, result));
            }
            let mut found = false;
            for (old, new) in candidates {
                let mut less = trial.clone();
                let mut memo = Memo::default();
                memo.insert(old, new);
                let body = less.rewrite(function.body, &mut memo, |_, new, _| new);
                let function = Function {
                    body,
                    ret: None,
                    ..function.clone()
                };
                set_entry(&mut less, self.entry, function);
                if self.accept(less) {
                    found = true;
                    break;
                }
            }
            if !found || self.left == 0 {
                return;
            }
        }
    }

    /// Turns computed values into parameters, as many at once as possible.
    fn cut(&mut self) {
        let mut chunk = usize::MAX;
        loop {
            let all = self.computed();
            chunk = chunk.min(all.len().div_ceil(2));
            if all.is_empty() || self.left == 0 {
                return;
            }
            let mut accepted = false;
            for part in all.chunks(chunk.max(1)) {
                let mut less = self.best.clone();
                if self.with_params(&mut less, part) && self.accept(less) {
                    // Ids have changed.
                    accepted = true;
                    break;
                }
            }
            if !accepted {
                if chunk <= 1 {
                    return;
                }
                chunk = chunk.div_ceil(2);
            }
        }
    }

    /// Returns the nodes of the entry that can be replaced by a parameter: tensors of known types,
    /// outside of recursive functions, whose termination may depend on them.
    fn computed(&mut self) -> Vec<(ExprId, TypeId)> {
        let Some(func) = self.function() else {
            return Vec::new();
        };
        // The types must be in the arena of the module being cut.
        let (typing, _) = check(&mut self.best, &InferOptions::default());
        let m = &self.best;
        let function = &m.funcs[func];
        let known: FxHashSet<_> = function.dims.iter().copied().collect();
        let mut out = Vec::new();
        for e in m.post_order([function.body]) {
            let compound = matches!(
                m.exprs[e],
                Expr::Call { .. } | Expr::If { .. } | Expr::Match { .. } | Expr::Proj { .. }
            );
            let large = matches!(m.exprs[e], Expr::Const(c) if !m.consts[c].is_scalar());
            if e == function.body || !(compound || large) {
                continue;
            }
            let ty = typing.exprs[e];
            let Some(t) = m.types.as_tensor(ty) else {
                continue;
            };
            let bound =
                |d: &relax_sym::Dim| !d.is_any() && d.free_vars().iter().all(|v| known.contains(v));
            if t.dtype.known().is_some() && t.shape.dims().is_some_and(|d| d.iter().all(bound)) {
                out.push((e, ty));
            }
        }
        // Users first: their operands become dead with them.
        out.reverse();
        out
    }

    fn with_params(&self, m: &mut Module, nodes: &[(ExprId, TypeId)]) -> bool {
        let Some(func) = self.function() else {
            return false;
        };
        let mut function = m.funcs[func].clone();
        let taken: FxHashSet<String> = (function.params.iter())
            .map(|p| m.vars[*p].name.to_string())
            .collect();
        let mut memo = Memo::default();
        let mut number = 0;
        for &(node, ty) in nodes {
            while taken.contains(&format!("cut{number}")) {
                number += 1;
            }
            let name = format!("cut{number}");
            number += 1;
            let (var, reference) = m.fresh_var(name.as_str(), Some(ty), VarStyle::Param);
            function.params.push(var);
            memo.insert(node, reference);
        }
        function.body = m.rewrite(function.body, &mut memo, |_, new, _| new);
        set_entry(m, self.entry, function);
        true
    }

    /// Replaces calls by one of their operands, and branches by one of their arms, where the types
    /// agree.
    fn collapse(&mut self) {
        let mut skip = 0;
        while self.left > 0 {
            let Some(func) = self.function() else { return };
            let mut m = self.best.clone();
            let (typing, _) = check(&mut m, &InferOptions::default());
            let body = m.funcs[func].body;
            let mut pairs = Vec::new();
            for e in m.post_order([body]) {
                m.for_each_child(e, |c| {
                    let same = typing.exprs[c] == typing.exprs[e];
                    if same && !matches!(m.exprs[e], Expr::Let { .. } | Expr::Func(_)) {
                        pairs.push((e, c));
                    }
                });
            }
            let Some(&(node, part)) = pairs.get(skip) else {
                return;
            };
            let mut less = self.best.clone();
            let mut memo = Memo::default();
            memo.insert(node, part);
            let body = less.rewrite(body, &mut memo, |_, new, _| new);
            let function = Function {
                body,
                ..less.funcs[func].clone()
            };
            set_entry(&mut less, self.entry, function);
            if !self.accept(less) {
                skip += 1;
            }
        }
    }

    /// Drops unused bindings and parameters, and bindings to names.
    fn drop_unused(&mut self) {
        let mut less = self.best.clone();
        let mut names: FxHashMap<VarId, ExprId> = FxHashMap::default();
        for e in less.post_order(less.global_bodies().iter().map(|b| b.1)) {
            if let Expr::Let { var, value, .. } = less.exprs[e]
                && less.is_leaf(value)
            {
                names.insert(var, value);
            }
        }
        let mut memo = Memo::default();
        for (global, body) in less.global_bodies() {
            let new = less.substitute(body, &mut memo, &names);
            less.set_global_body(global, new);
        }
        let Some(func) = self.function() else { return };
        let mut uses: FxHashMap<VarId, usize> = FxHashMap::default();
        for e in less.post_order(less.global_bodies().iter().map(|b| b.1)) {
            if let Expr::Var(v) = less.exprs[e] {
                *uses.entry(v).or_default() += 1;
            }
        }
        let unused = |v: &VarId| !uses.contains_key(v);
        less.rewrite_globals(|m, new, _| match m.exprs[new] {
            Expr::Let { var, body, .. } if unused(&var) => body,
            _ => new,
        });
        let func = self
            .best
            .global(self.entry)
            .and_then(|g| less.global_func(g))
            .unwrap_or(func);
        let mut function = less.funcs[func].clone();
        function.params.retain(|p| !unused(p));
        set_entry(&mut less, self.entry, function);
        self.accept(less);
    }

    /// Shrinks tensors.
    fn shapes(&mut self) {
        for old in shapes::extents(&self.best) {
            for new in [1, 2, old / 2] {
                if new >= old || new < 1 {
                    continue;
                }
                let done = [true, false]
                    .into_iter()
                    .any(|attrs| self.accept(shapes::shrink(&self.best, old, new, attrs)));
                if done {
                    break;
                }
            }
        }
    }
}

/// Returns whether an expression's only free variables are the parameters of a function.
fn closed(m: &Module, e: ExprId, function: &Function) -> bool {
    let free = m.free_vars(e);
    free.iter().all(|v| function.params.contains(v))
}

fn set_entry(m: &mut Module, name: &str, function: Function) {
    if let Some(global) = m.global(name) {
        m.set_global_func(global, function);
    }
}

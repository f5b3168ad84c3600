//! Module-wide finishing: determines which functions have effects, and forms dataflow blocks.

use relax_ir::{
    AttrValue, AttrsId, Binding, Block, Expr, ExprId, GlobalId, GlobalKind, Module, OpId, VarId,
};
use relax_ops::{Effects, registry};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Lowering;

/// Returns whether an operator has side effects.
pub(super) fn effectful(op: OpId) -> bool {
    registry()
        .get(op)
        .is_some_and(|d| d.effects != Effects::Pure)
}

/// Returns whether a call of a packed function declares that it is pure.
pub(super) fn vouched(m: &Module, attrs: AttrsId) -> bool {
    let pure = m.attrs(attrs).get("pure");
    pure.and_then(AttrValue::as_bool) == Some(true)
}

impl Lowering<'_> {
    /// Marks the functions that have effects.
    pub(super) fn finish(&mut self) {
        if !self.errors.is_empty() {
            return;
        }
        let bodies = self.m.global_bodies();
        let mut callers: FxHashMap<GlobalId, Vec<GlobalId>> = FxHashMap::default();
        let mut open = Vec::new();
        for &(g, body) in &bodies {
            let m = &self.m;
            let mut own = false;
            for e in m.post_order([body]) {
                let Expr::Call { callee, attrs, .. } = m.exprs[e] else {
                    continue;
                };
                match m.exprs[callee] {
                    Expr::Op(op) => own |= effectful(op),
                    Expr::Extern(_) => own |= !vouched(m, attrs),
                    Expr::Global(called) => callers.entry(called).or_default().push(g),
                    _ => {}
                }
            }
            if own {
                open.push(g);
            }
        }
        let mut impure = FxHashSet::default();
        while let Some(g) = open.pop() {
            if impure.insert(g) {
                open.extend(callers.get(&g).into_iter().flatten());
            }
        }
        for (g, _) in bodies {
            let GlobalKind::Func(f) = self.m.globals[g].kind else {
                continue;
            };
            if impure.contains(&g) {
                self.m.funcs[f].attrs.set("pure", AttrValue::Bool(false));
            }
        }
    }

    /// Creates bindings before a value, with runs of pure operators in dataflow blocks.
    pub(super) fn chain(&mut self, bindings: Vec<(VarId, ExprId)>, result: ExprId) -> ExprId {
        let uses = self.last_uses(&bindings, result);
        let mut body = result;
        let mut end = bindings.len();
        while end > 0 {
            let (var, value) = bindings[end - 1];
            let span = self.m.span(value);
            let mut start = end;
            while start > 0 && self.flows(bindings[start - 1].1) {
                start -= 1;
            }
            let computes = |b: &(VarId, ExprId)| matches!(self.m.exprs[b.1], Expr::Call { .. });
            if start == end || !bindings[start..end].iter().any(computes) {
                body = self.m.add(Expr::Let { var, value, body }, span);
                end -= 1;
                continue;
            }
            let run = &bindings[start..end];
            let mut outputs: Vec<VarId> = (run.iter().map(|b| b.0))
                .filter(|v| uses.get(v).is_some_and(|&at| at >= end))
                .collect();
            if outputs.is_empty() {
                outputs.extend(run.last().map(|b| b.0));
            }
            let bindings = run
                .iter()
                .map(|&(var, value)| Binding { var, value })
                .collect();
            let block = self.m.blocks.push(Block {
                bindings,
                outputs,
                span,
            });
            body = self.m.add(Expr::Dataflow { block, body }, span);
            end = start;
        }
        body
    }

    /// Returns the position of each variable's last use: a binding, or the end for the result.
    fn last_uses(&self, bindings: &[(VarId, ExprId)], result: ExprId) -> FxHashMap<VarId, usize> {
        let mut found = FxHashMap::default();
        let values = bindings.iter().map(|b| b.1).chain([result]);
        for (i, value) in values.enumerate() {
            for e in self.m.post_order([value]) {
                if let Expr::Var(v) = self.m.exprs[e] {
                    found.insert(v, i);
                }
            }
        }
        found
    }

    /// Returns whether a binding may be in a dataflow block.
    fn flows(&self, value: ExprId) -> bool {
        match self.m.exprs[value] {
            Expr::Call { callee, .. } => {
                matches!(self.m.exprs[callee], Expr::Op(op) if !effectful(op))
            }
            Expr::Tuple(_) | Expr::Proj { .. } | Expr::Var(_) | Expr::Const(_) | Expr::Shape(_) => {
                true
            }
            _ => false,
        }
    }
}

//! Effects: which functions have side effects, and what dataflow blocks may contain.

use relax_base::{Diagnostic, Id};
use relax_ir::{BlockId, Expr, ExprId, FuncId, GlobalKind, Module, OpId, VarId};
use relax_ops::{Effects, registry};
use rustc_hash::FxHashMap;

use crate::codes;
use crate::solver::Solver;

/// The callee of a call, as far as it is known.
enum Callee {
    Func(FuncId),
    /// What a variable is bound to.
    Var(VarId),
    /// An effect.
    Effect,
    /// Something without effects, or that is unknown.
    Pure,
}

/// Returns whether an expression is one by which a function can have an effect: it touches a
/// reference cell, or is a callee with effects.
fn may_have_effect(m: &Module, e: ExprId) -> bool {
    match m.exprs[e] {
        Expr::Extern(_) | Expr::RefWrite(..) | Expr::RefRead(_) | Expr::RefNew(_) => true,
        Expr::Op(op) => has_effect(op),
        _ => false,
    }
}

/// Returns whether a module contains anything by which a function can have an effect.
pub fn may_have_effects(m: &Module) -> bool {
    m.exprs.ids().any(|e| may_have_effect(m, e))
}

fn has_effect(op: OpId) -> bool {
    registry()
        .get(op)
        .is_some_and(|d| d.effects == Effects::Effect)
}

impl Solver<'_> {
    /// Determines which functions are pure, then checks dataflow blocks.
    pub fn check_effects(&mut self) {
        let m = self.m;
        let n = m.funcs.len();
        self.purity = vec![true; n];
        let effects = self.may_have_effects();
        if !effects && m.blocks.is_empty() {
            return;
        }
        if !effects && let Some(part) = &self.part {
            // Nothing has effects, so only the blocks remain to be checked.
            let mut bound = FxHashMap::default();
            for &e in &part.exprs {
                self.bound_functions(e, &mut bound);
            }
            let block = |e: &ExprId| match m.exprs[*e] {
                Expr::Dataflow { block, .. } => Some(block),
                _ => None,
            };
            for block in part.exprs.iter().filter_map(block).collect::<Vec<_>>() {
                self.check_block(block, &bound);
            }
            return;
        }
        let mut bound = FxHashMap::default();
        // Calls of variables, which may be bound to functions behind them.
        let mut open: Vec<(VarId, usize)> = Vec::new();
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); n];
        let mut impure: Vec<usize> = Vec::new();
        // Only functions of the program: dead nodes left by passes share nodes with them. A node
        // shared by two functions has its effects in both.
        let mut seen = vec![u32::MAX; m.exprs.len()];
        let mut known = vec![false; n];
        let mut funcs: Vec<FuncId> = m.globals.ids().filter_map(|g| m.global_func(g)).collect();
        let mut blocks = Vec::new();
        while let Some(f) = funcs.pop() {
            if std::mem::replace(&mut known[f.index()], true) {
                continue;
            }
            let mut stack = vec![m.funcs[f].body];
            while let Some(e) = stack.pop() {
                if std::mem::replace(&mut seen[e.index()], f.index() as u32) == f.index() as u32 {
                    continue;
                }
                match m.exprs[e] {
                    Expr::Func(g) => funcs.push(g),
                    Expr::Dataflow { block, .. } => blocks.push(block),
                    _ => {}
                }
                self.bound_functions(e, &mut bound);
                match self.effect_of(e) {
                    Callee::Var(v) => open.push((v, f.index())),
                    Callee::Func(g) => callers[g.index()].push(f.index()),
                    Callee::Effect if self.purity[f.index()] => {
                        self.purity[f.index()] = false;
                        impure.push(f.index());
                    }
                    Callee::Effect | Callee::Pure => {}
                }
                // A closure's body has its effects where the closure is called.
                if !matches!(m.exprs[e], Expr::Func(_)) {
                    self.for_parts(e, &mut |part| stack.push(part));
                }
            }
        }
        for (v, f) in open {
            if let Some(g) = bound.get(&v) {
                callers[g.index()].push(f);
            }
        }
        while let Some(f) = impure.pop() {
            for &g in &callers[f] {
                if std::mem::replace(&mut self.purity[g], false) {
                    impure.push(g);
                }
            }
        }
        blocks.sort_unstable();
        blocks.dedup();
        for b in blocks {
            self.check_block(b, &bound);
        }
    }

    /// Returns whether the module contains anything that could have an effect.
    fn may_have_effects(&self) -> bool {
        let effect = |e| may_have_effect(self.m, e);
        match &self.part {
            Some(part) => part.had_effects || part.exprs.iter().any(|&e| effect(e)),
            None => may_have_effects(self.m),
        }
    }

    /// Adds the functions that variables are bound to by an expression itself.
    fn bound_functions(&self, e: ExprId, bound: &mut FxHashMap<VarId, FuncId>) {
        let m = self.m;
        let mut bind = |var: VarId, value: ExprId| {
            if let Expr::Func(f) = m.exprs[value] {
                bound.insert(var, f);
            }
        };
        match m.exprs[e] {
            Expr::Let { var, value, .. } => bind(var, value),
            Expr::Dataflow { block, .. } => {
                let bindings = m.blocks[block].bindings.iter();
                bindings.for_each(|b| bind(b.var, b.value));
            }
            _ => {}
        }
    }

    /// Returns the effect of evaluating an expression itself, excluding its children.
    fn effect_of(&self, e: ExprId) -> Callee {
        let m = self.m;
        match &m.exprs[e] {
            Expr::RefWrite(..) | Expr::RefRead(_) | Expr::RefNew(_) => Callee::Effect,
            Expr::Call { callee, attrs, .. } => match &m.exprs[*callee] {
                Expr::Op(op) if has_effect(*op) => Callee::Effect,
                // The program declares the call pure: `call_packed("f", %x, pure=True)`.
                Expr::Extern(_)
                    if (m.attrs(*attrs).get("pure")).and_then(|v| v.as_bool()) == Some(true) =>
                {
                    Callee::Pure
                }
                Expr::Extern(_) => Callee::Effect,
                Expr::Global(g) => match m.globals[*g].kind {
                    GlobalKind::Func(f) => Callee::Func(f),
                    GlobalKind::Prim(_) => Callee::Pure,
                },
                Expr::Var(v) => Callee::Var(*v),
                Expr::Func(f) => Callee::Func(*f),
                _ => Callee::Pure,
            },
            _ => Callee::Pure,
        }
    }

    /// Returns the name of an expression's own effect.
    fn effect_name(&self, e: ExprId) -> String {
        let m = self.m;
        match &m.exprs[e] {
            Expr::RefWrite(..) => "writing a reference".into(),
            Expr::RefRead(_) => "reading a reference".into(),
            Expr::RefNew(_) => "making a reference".into(),
            Expr::Call { callee, .. } => match &m.exprs[*callee] {
                Expr::Op(op) => format!("`{}`", self.op_name(*op)),
                Expr::Extern(name) => format!("calling the packed function `{name}`"),
                _ => "this call".into(),
            },
            _ => "this".into(),
        }
    }

    fn check_block(&mut self, b: BlockId, bound: &FxHashMap<VarId, FuncId>) {
        let m = self.m;
        let block = &m.blocks[b];
        let (mut stack, mut seen) = (Vec::new(), rustc_hash::FxHashSet::default());
        for binding in &block.bindings {
            stack.clear();
            seen.clear();
            stack.push(binding.value);
            while let Some(e) = stack.pop() {
                if m.is_leaf(e) || !seen.insert(e) {
                    continue;
                }
                if let Expr::If { .. } | Expr::Match { .. } = m.exprs[e] {
                    let what = match m.exprs[e] {
                        Expr::If { .. } => "`if`",
                        _ => "`match`",
                    };
                    let d = Diagnostic::error(
                        codes::CONTROL_FLOW,
                        self.place(e),
                        format!("{what} is control flow, which a dataflow block has none of"),
                    )
                    .label(block.span.at_start(), "the dataflow block begins here")
                    .note("end the block before it, and go on in another one after it");
                    self.report(d);
                    break;
                }
                let callee = match self.effect_of(e) {
                    Callee::Var(v) => bound.get(&v).map_or(Callee::Pure, |&f| Callee::Func(f)),
                    other => other,
                };
                let effect = match callee {
                    Callee::Effect => Some(self.effect_name(e)),
                    Callee::Func(f) if !self.purity[f.index()] => {
                        Some("calling this function, which has effects,".to_string())
                    }
                    _ => None,
                };
                if let Some(text) = effect {
                    let d = Diagnostic::error(
                        codes::EFFECT,
                        self.place(e),
                        format!("{text} is an effect, which a dataflow block may not have"),
                    )
                    .label(block.span.at_start(), "the dataflow block begins here")
                    .note("move it behind the block; a packed function without effects is called with `pure=True`");
                    self.report(d);
                    break;
                }
                if !matches!(m.exprs[e], Expr::Func(_)) {
                    self.for_parts(e, &mut |part| stack.push(part));
                }
            }
        }
    }
}

//! Effects: which functions have side effects, and what dataflow blocks may contain.

mod callees;

use relax_base::{Diagnostic, Id};
use relax_ir::{BlockId, Expr, ExprId, FuncId, Module, OpId};
use relax_ops::{Effects, registry};

use crate::codes;
use crate::solver::Solver;
use callees::Callees;

/// The effect of evaluating an expression itself.
enum Effect {
    /// Those of what it calls.
    Of(ExprId),
    Some,
    None,
}

/// Returns whether an expression is one by which a function can have an effect: it touches a
/// reference cell, or is a callee with effects, or a call of one.
pub(crate) fn may_have_effect(m: &Module, e: ExprId) -> bool {
    match m.exprs[e] {
        Expr::Call { callee, .. } => is_effect(m, callee),
        _ => is_effect(m, e),
    }
}

fn is_effect(m: &Module, e: ExprId) -> bool {
    match m.exprs[e] {
        Expr::Extern(_) | Expr::RefWrite(..) | Expr::RefRead(_) | Expr::RefNew(_) => true,
        Expr::Op(op) => has_effect(op),
        _ => false,
    }
}

/// Returns whether a module contains anything by which a function can have an effect.
pub fn may_have_effects(m: &Module) -> bool {
    m.exprs.ids().any(|e| is_effect(m, e))
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
        if !effects && self.part.is_some() {
            // Nothing has effects, so only the blocks remain to be checked.
            let callees = Callees::new(m);
            let block = |e: &ExprId| match m.exprs[*e] {
                Expr::Dataflow { block, .. } => Some(block),
                _ => None,
            };
            for block in self.walked.iter().filter_map(block).collect::<Vec<_>>() {
                self.check_block(block, &callees);
            }
            return;
        }
        let mut callees = Callees::new(m);
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
                callees.bind(e);
                match self.effect_of(e) {
                    Effect::Of(callee) => callees.call(f, callee),
                    Effect::Some => callees.impure(f),
                    Effect::None => {}
                }
                // A closure's body has its effects where the closure is called.
                if !matches!(m.exprs[e], Expr::Func(_)) {
                    self.for_parts(e, &mut |part| {
                        if !m.is_leaf(part) {
                            stack.push(part);
                        }
                    });
                }
            }
        }
        self.purity = callees.solve();
        blocks.sort_unstable();
        blocks.dedup();
        for b in blocks {
            self.check_block(b, &callees);
        }
    }

    /// Returns whether the module contains anything that could have an effect.
    fn may_have_effects(&self) -> bool {
        match &self.part {
            Some(part) => part.had_effects,
            None => may_have_effects(self.m),
        }
    }

    /// Returns the effect of evaluating an expression itself, excluding its children.
    fn effect_of(&self, e: ExprId) -> Effect {
        let m = self.m;
        match &m.exprs[e] {
            Expr::RefWrite(..) | Expr::RefRead(_) | Expr::RefNew(_) => Effect::Some,
            Expr::Call { callee, attrs, .. } => match &m.exprs[*callee] {
                // The program declares the call pure: `call_packed("f", %x, pure=True)`.
                Expr::Extern(_)
                    if (m.attrs(*attrs).get("pure")).and_then(|v| v.as_bool()) == Some(true) =>
                {
                    Effect::None
                }
                Expr::Op(op) if !has_effect(*op) => Effect::None,
                Expr::Op(_) | Expr::Extern(_) => Effect::Some,
                _ => Effect::Of(*callee),
            },
            _ => Effect::None,
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

    fn check_block(&mut self, b: BlockId, callees: &Callees<'_>) {
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
                let effect = match self.effect_of(e) {
                    Effect::Some => Some(self.effect_name(e)),
                    Effect::Of(callee) if callees.may_have_effects(callee) => {
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

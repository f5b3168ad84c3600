//! Inference of a module most of which has been typed before.
//!
//! A function's type depends on its own text and on the types of the globals that it refers to.
//! Hence only the functions that changed are typed, and those that refer to a global whose type
//! changed; the others keep their types. If a function without complete annotations refers to such
//! a global, its own type may change too, so the functions that refer to it are typed with it.
//! Within them, an existing call of an operator keeps its type if its arguments keep theirs.

use relax_base::{Diagnostics, Id};
use relax_ir::{Expr, ExprId, ExprList, GlobalId, GlobalKind, IdSet, Module, Type, TypeId, VarId};
use rustc_hash::FxHashMap;

use crate::effects::may_have_effect;
use crate::flags::{COARSE, ERROR, INFER};
use crate::groups::complete;
use crate::part::Part;
use crate::solver::{Solver, UNTYPED};
use crate::typing::Outcome;
use crate::{Check, InferOptions, Typing};

/// The result of [`infer_again`].
#[derive(Debug)]
pub struct Again {
    /// The types, as [`infer`](crate::infer) would find them.
    pub typing: Typing,
    /// The diagnostics of the functions that were typed.
    pub diagnostics: Diagnostics,
    /// The number of functions of globals that were typed, counting repetitions.
    pub looked_at: usize,
}

/// Finds the types of a module that had the types `before`, when its globals are the same that they
/// were for which `stays` holds. The types before are those of globals with the numbers that they
/// have now ([`Typing::renumbered`]); nodes may only have been added.
pub fn infer_again(
    module: &mut Module,
    options: &InferOptions,
    before: &Typing,
    stays: impl Fn(GlobalId) -> bool,
) -> Again {
    let mut asked: Vec<bool> = module.globals.ids().map(|g| !stays(g)).collect();
    let mut types = std::mem::take(&mut module.types);
    let mut looked_at = 0;
    loop {
        let mut solver = Solver::after(module, types, options, Some(before));
        solver.adopt(Part::new(module, asked.clone(), before));
        let (typed, outcome) = crate::solve(solver);
        looked_at += typed;
        // Errors are reported before their consequences are determined.
        if outcome.diagnostics.has_errors() || !widen(module, &mut asked, before, &outcome) {
            let (typing, diagnostics) = outcome.into_module(module);
            return Again {
                typing,
                diagnostics,
                looked_at,
            };
        }
        types = outcome.types;
    }
}

/// Adds all functions that depend on a global whose type changed; returns whether there are any.
fn widen(m: &Module, asked: &mut [bool], before: &Typing, outcome: &Outcome) -> bool {
    let mut changed: Vec<GlobalId> = (m.globals.ids())
        .filter(|&g| asked[g.index()] && before.globals[g] != outcome.typing.globals[g])
        .collect();
    if changed.is_empty() || asked.iter().all(|a| *a) {
        return false;
    }
    let complete = complete(m, &outcome.types);
    let mut users: FxHashMap<GlobalId, Vec<GlobalId>> = FxHashMap::default();
    for (user, body) in m.global_bodies() {
        if asked[user.index()] {
            continue;
        }
        for e in m.post_order([body]) {
            if let Expr::Global(used) = m.exprs[e] {
                users.entry(used).or_default().push(user);
            }
        }
    }
    let mut more = false;
    while let Some(global) = changed.pop() {
        for user in users.remove(&global).unwrap_or_default() {
            if !std::mem::replace(&mut asked[user.index()], true) {
                more = true;
                if !complete[user.index()] {
                    changed.push(user);
                }
            }
        }
    }
    more
}

impl<'m> Solver<'m> {
    /// Takes over the types of globals outside the part. Those of nodes that the walk does not come
    /// by are taken over [at the end](crate::finish), so that nothing needs to know beforehand which
    /// nodes the part has.
    fn adopt(&mut self, part: Part<'m>) {
        let (m, before) = (self.m, part.before);
        self.global_ty = before.globals.first(m.globals.len());
        for g in m.globals.ids().filter(|g| part.asked[g.index()]) {
            self.global_ty[g.index()] = UNTYPED;
        }
        self.plain = before.notes.plain.clone();
        self.whole = before.notes.whole.clone();
        self.part = Some(part);
        // A program that nothing calls now may be called by an unchanged function.
        for g in m.globals.ids() {
            if let GlobalKind::Prim(_) = m.globals[g].kind {
                self.global_type(g);
            }
        }
    }

    /// Returns the expressions whose types this solver finds.
    pub fn exprs_to_end(&self) -> Vec<ExprId> {
        match &self.part {
            Some(_) => self.walked.clone(),
            None => self.m.exprs.ids().collect(),
        }
    }

    /// Returns the variables whose types this solver finds.
    pub fn vars_to_end(&self) -> Vec<VarId> {
        match &self.part {
            Some(_) => self.bound.clone(),
            None => self.m.vars.ids().collect(),
        }
    }

    /// Returns the previous type of a call, if the types of its arguments are unchanged and nothing
    /// else determines it.
    pub fn known_call(&mut self, e: ExprId, args: &[ExprId], types: &[TypeId]) -> Option<TypeId> {
        let known = self.known.filter(|k| k.notes.plain.contains(e))?;
        let mut pairs = args.iter().zip(types);
        let ty = known.exprs[e];
        // A coarse type may stem from an annotation.
        let whole = self.flags(ty) & (INFER | ERROR | COARSE) == 0;
        (whole && pairs.all(|(a, t)| known.exprs[*a] == *t)).then_some(ty)
    }

    /// Notes whether a global of the part has another type than before. New ones had none.
    pub fn compare_globals(&mut self) {
        let Some(known) = self.known else { return };
        let moved = |g: GlobalId| {
            let was = known.globals[g];
            was != self.error && was != self.global_ty[g.index()]
        };
        self.moved = self.m.globals.ids().any(moved);
    }

    /// Notes whether a variable has another type than before.
    #[inline]
    pub fn compare_var(&mut self, v: VarId) {
        if let Some(known) = self.known {
            let was = known.vars[v];
            self.moved |= was != self.error && was != self.var_ty[v.index()];
        }
    }

    /// Gives an expression its previous type, if nothing that it depends on has another one.
    pub fn settled(&mut self, e: ExprId) -> bool {
        let Some(known) = self.known else {
            return false;
        };
        if self.moved || !self.assumptions.is_empty() || !known.notes.whole.contains(e) {
            return false;
        }
        self.expr_ty[e.index()] = known.exprs[e];
        self.note_effect(e);
        if self.is_told(e) {
            self.packed.push(e);
        }
        true
    }

    /// Notes whether the type of an expression, just found, depends on those of variables and
    /// globals alone.
    pub fn note_whole(&mut self, e: ExprId) {
        let m = self.m;
        let ty = self.expr_ty[e.index()];
        let whole = self.flags(ty) & (INFER | ERROR | COARSE) == 0
            && match m.exprs[e] {
                Expr::Call { callee, args, .. } => {
                    matches!(m.exprs[callee], Expr::Op(_))
                        && self.plain.contains(e)
                        && m.list(args).iter().all(|&a| self.part_of_whole(a))
                }
                Expr::Tuple(fields) => m.list(fields).iter().all(|&f| self.field_of_whole(f)),
                Expr::Proj { tuple, .. } => self.field_of_whole(tuple),
                _ => false,
            };
        match whole {
            true => drop(self.whole.insert(e)),
            false => self.whole.remove(e),
        }
    }

    fn part_of_whole(&self, e: ExprId) -> bool {
        match self.m.exprs[e] {
            Expr::Shape(_) => true,
            Expr::Call { .. } => {
                self.whole.contains(e) && !self.is_told(e) && !may_have_effect(self.m, e)
            }
            _ => self.m.is_leaf(e) || self.whole.contains(e),
        }
    }

    /// The same for what can be taken out again and called.
    fn field_of_whole(&self, e: ExprId) -> bool {
        self.part_of_whole(e) && !may_have_effect(self.m, e)
    }

    /// Notes whether a function can have an effect by an expression that the walk comes by. What is
    /// [settled](Solver::settled) is not walked inside: nothing in it has effects.
    #[inline]
    pub fn note_effect(&mut self, e: ExprId) {
        let m = self.m;
        if let Some(part) = &mut self.part
            && !part.had_effects
        {
            part.had_effects = may_have_effect(m, e);
        }
    }

    /// Returns whether a call tells its result: that is checked when the program runs.
    fn is_told(&self, e: ExprId) -> bool {
        let Expr::Call { callee, .. } = self.m.exprs[e] else {
            return false;
        };
        let Expr::Op(op) = self.m.exprs[callee] else {
            return false;
        };
        relax_ops::registry().get(op).is_some_and(|d| d.hooks.told)
    }

    /// Returns the previous type of a shape value, which depends on nothing else.
    pub fn known_shape(&mut self, e: ExprId) -> Option<TypeId> {
        let ty = self.known?.exprs[e];
        (self.flags(ty) & (INFER | ERROR | COARSE) == 0).then_some(ty)
    }

    /// Returns the previous type of a tuple, if the types of its fields are unchanged.
    pub fn known_tuple(&self, e: ExprId, fields: ExprList) -> Option<TypeId> {
        let ty = self.known?.exprs[e];
        let Type::Tuple(known) = &self.types[ty] else {
            return None;
        };
        let mut fields = self.m.list(fields).iter();
        let same = known.len() == fields.len()
            && known
                .iter()
                .all(|k| fields.next().is_some_and(|&f| self.type_of(f) == *k));
        same.then_some(ty)
    }

    /// Adds the results for expressions outside the part.
    pub fn add_what_stays(
        &self,
        type_args: &mut FxHashMap<ExprId, Box<[TypeId]>>,
        checks: &mut Vec<Check>,
    ) {
        let Some(part) = &self.part else { return };
        let before = part.before;
        if before.type_args.is_empty() && before.checks.is_empty() {
            return;
        }
        let inside: IdSet = self.walked.iter().copied().collect();
        let args = before
            .type_args
            .iter()
            .filter(|(e, _)| !inside.contains(**e));
        type_args.extend(args.map(|(e, args)| (*e, args.clone())));
        let stay = before.checks.iter().filter(|c| !inside.contains(c.expr));
        checks.extend(stay.cloned());
    }
}

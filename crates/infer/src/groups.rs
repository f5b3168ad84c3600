//! Infers globals in dependency order; decides what is left open after each group.

use relax_base::{Diagnostic, Id};
use relax_ir::{DTy, Expr, ExprId, FuncId, GlobalId, GlobalKind, Module, Type, TypeArena, TypeId};
use relax_sym::{Dim, Proof};
use relax_tensor::DType;
use rustc_hash::FxHashSet;

use crate::codes;
use crate::flags::{ERROR, INFER};
use crate::queue::{RelKind, State};
use crate::report::Reporter;
use crate::solver::{Solver, UNTYPED};
use crate::unifier::OpenCheck;
use crate::unknown::{Lit, NO_EXPR, Sol, Sort};
use crate::{Check, CheckKind};

/// For each global of a module with these types, returns whether its annotations determine its type: they are there, and none of
/// their parts is left open (`List[_]`).
pub(crate) fn complete(m: &Module, types: &TypeArena) -> Vec<bool> {
    let whole = |ty: Option<TypeId>| {
        ty.is_some_and(|ty| m.type_holes == 0 || !types.any(ty, |t| matches!(t, Type::Infer(_))))
    };
    let annotated = |f: FuncId| {
        let func = &m.funcs[f];
        whole(func.ret) && func.params.iter().all(|&p| whole(m.vars[p].ty))
    };
    (m.globals.values())
        .map(|g| match g.kind {
            GlobalKind::Func(f) => annotated(f),
            GlobalKind::Prim(_) => true,
        })
        .collect()
}

impl Solver<'_> {
    /// Types every function of the module, or those of the [part](Solver::part) to be typed.
    /// Returns how many.
    pub fn run(&mut self) -> usize {
        let m = self.m;
        let asked = |id: GlobalId| self.part.as_ref().is_none_or(|p| p.asked[id.index()]);
        let funcs: Vec<(GlobalId, FuncId)> = (m.globals.iter())
            .filter_map(|(id, g)| match g.kind {
                GlobalKind::Func(f) if asked(id) => Some((id, f)),
                _ => None,
            })
            .collect();
        let complete = complete(m, &self.types);
        for &(g, f) in &funcs {
            if complete[g.index()] {
                self.global_ty[g.index()] = self.signature(f);
            }
        }
        self.compare_globals();
        let groups = if funcs.len() > 1 && complete.iter().any(|c| !c) {
            self.dependency_groups(&funcs, &complete)
        } else {
            funcs.iter().map(|f| vec![*f]).collect()
        };
        for group in groups {
            self.infer_group(&group, &complete);
        }
        funcs.len()
    }

    fn infer_group(&mut self, group: &[(GlobalId, FuncId)], complete: &[bool]) {
        let errors = self.errors;
        let (first_scheme, first_rel) = (self.schemes.len(), self.queue.rels.len());
        let first_check = self.open_checks.len();
        self.open_globals = (group.iter().map(|g| g.0))
            .filter(|g| !complete[g.index()])
            .collect();
        for &(g, f) in group {
            self.current_global = Some(g);
            self.signature(f);
            self.walk_function(f);
        }
        self.solve_queue();
        // Literals first, so that a use of a let-bound function at `1` is a use at `int32`.
        self.default_packed();
        self.default_literals();
        self.close_schemes(first_scheme);
        let open: Vec<FuncId> = (group.iter())
            .filter(|g| self.open_globals.contains(&g.0))
            .map(|g| g.1)
            .collect();
        self.divide_dims(first_rel);
        self.report_vain(first_rel);
        self.generalise_group(&open, first_rel);
        for &(g, f) in group {
            let ty = self.func_ty[f.index()];
            if self.open_globals.contains(&g) {
                self.global_ty[g.index()] = self.resolve(ty);
            }
        }
        self.open_globals.clear();
        self.report_stuck(first_rel, self.errors > errors);
        self.decide_checks(first_check);
        self.report_kept();
        if self.errors > errors {
            let m = self.m;
            let spans = group.iter().map(|g| m.funcs[g.1].span);
            self.mistaken.extend(spans);
        }
    }

    /// Gives literals that are still undetermined their default types.
    fn default_literals(&mut self) {
        for (e, v) in std::mem::take(&mut self.literal_unknowns) {
            // Solved ones are resolved to their root, which carries the class.
            if let DTy::Infer(root) = self.head_dtype(DTy::Infer(v)) {
                let u = &self.unknowns[root.index()];
                let dtype = match (u.lit, &self.m.exprs[e]) {
                    (Lit::Float, _) => DType::F32,
                    (_, Expr::Const(c)) => self.m.consts[*c].dtype(),
                    _ => DType::I32,
                };
                self.solved(root.0, Sol::DType(DTy::Known(dtype)));
                self.solve_queue();
            }
        }
    }

    /// Defaults results of packed functions to `Object` if nothing determines them.
    fn default_packed(&mut self) {
        for e in std::mem::take(&mut self.packed) {
            let ty = self.type_of(e);
            if let Type::Infer(_) = self.types[ty] {
                let object = self.types.intern(Type::Object);
                let _ = self.unify(ty, object);
            } else {
                self.checks.push(Check {
                    expr: e,
                    kind: CheckKind::HasType(ty),
                });
            }
        }
        self.solve_queue();
    }

    fn generalise_group(&mut self, funcs: &[FuncId], first_rel: usize) {
        let mut unknowns: Vec<u32> = Vec::new();
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        for &f in funcs {
            let ty = self.func_ty[f.index()];
            self.for_unknowns(ty, &mut |_, v| {
                if seen.insert(v) {
                    unknowns.push(v);
                }
            });
        }
        if unknowns.is_empty() {
            return;
        }
        // Relations that are transitively connected with these unknowns.
        let mut waiting: Vec<(u32, Vec<u32>)> = Vec::new();
        for id in first_rel..self.queue.rels.len() {
            if self.queue.rels[id].state != State::Done && self.has_open_argument(id) {
                waiting.push((id as u32, self.rel_unknowns(id)));
            }
        }
        let mut rels = Vec::new();
        loop {
            let before = rels.len();
            waiting.retain(|(id, vs)| {
                let connected = vs.iter().any(|v| seen.contains(v));
                if connected {
                    rels.push(*id);
                    for &v in vs {
                        if seen.insert(v) {
                            unknowns.push(v);
                        }
                    }
                }
                !connected
            });
            if rels.len() == before {
                break;
            }
        }
        rels.sort_unstable();
        // A field of an unknown tuple cannot be written in a type: it is reported as stuck.
        if rels.iter().any(|&r| {
            let kind = &self.queue.rels[r as usize].kind;
            matches!(
                kind,
                RelKind::Proj(_) | RelKind::DimEq(..) | RelKind::Instance(_)
            )
        }) {
            return;
        }
        self.generalise(funcs, &unknowns, &rels);
    }

    /// Reports relations that can never run; names the variable to annotate.
    fn report_stuck(&mut self, first_rel: usize, errors: bool) {
        for id in first_rel..self.queue.rels.len() {
            if self.queue.rels[id].state == State::Done {
                continue;
            }
            let rel = self.queue.rels[id].clone();
            self.queue.rels[id].state = State::Done;
            let mut poisoned = errors;
            let mut culprit = None;
            for (i, &t) in rel.args.iter().enumerate() {
                let t = self.resolve(t);
                poisoned |= self.flags(t) & ERROR != 0 || self.is_excused(t);
                if culprit.is_none() && self.flags(t) & INFER != 0 {
                    culprit = Some(i);
                }
            }
            let open = self.rel_unknowns(id);
            poisoned |= open.iter().any(|&v| self.unknowns[v as usize].excused);
            if !poisoned {
                self.say(|r| r.waiting(&rel, culprit));
            }
            for v in open {
                self.poison_unknown(v);
            }
            let out = self.head(rel.out);
            if let Type::Infer(v) = self.types[out] {
                self.poison_unknown(v.0);
            }
        }
    }

    /// Solves unknowns of which only a multiple is known, as in `3 * ? == q`: by the quotient, with
    /// a run-time check that there is no remainder.
    fn divide_dims(&mut self, first_rel: usize) {
        for id in first_rel..self.queue.rels.len() {
            let rel = &self.queue.rels[id];
            let RelKind::DimEq(a, b) = &rel.kind else {
                continue;
            };
            if rel.state == State::Done {
                continue;
            }
            let (a, b, call) = (self.resolve_dim(a), self.resolve_dim(b), rel.call);
            let (with, other) = match (a.infer_vars().len(), b.infer_vars().len()) {
                (1, 0) => (a, b),
                (0, 1) => (b, a),
                _ => continue,
            };
            let v = with.infer_vars()[0];
            let at = |value: Dim| {
                with.substitute(&|atom| (atom == relax_sym::Atom::Infer(v)).then(|| value.clone()))
            };
            let rest = at(Dim::ZERO);
            let factor = at(Dim::ONE) - &rest;
            let linear = &factor * &Dim::infer(v) + &rest == with;
            if !linear || factor.as_const().is_some_and(|f| f <= 0) {
                continue;
            }
            let quotient = match factor.as_const() {
                Some(_) => (&other - &rest).floordiv(&factor),
                None => match exact_quotient(&(&other - &rest), &factor) {
                    Some(quotient) => quotient,
                    None => continue,
                },
            };
            self.queue.rels[id].state = State::Done;
            self.cur_call = call;
            self.solved(v.0, Sol::Dim(quotient.clone()));
            self.open_checks.push(OpenCheck {
                a: other,
                b: factor * quotient + rest,
                rule: "the called function takes a dimension of this form".into(),
                at: call,
                or_one: false,
                asked: false,
            });
            self.solve_queue();
        }
    }

    /// Returns whether anything that a relation waits for may still become known.
    fn has_open_argument(&mut self, id: usize) -> bool {
        let rel = self.queue.rels[id].clone();
        matches!(rel.kind, RelKind::DimEq(..)) || rel.args.iter().any(|&t| self.is_open(t))
    }

    /// Reports relations that wait although all their arguments are known.
    fn report_vain(&mut self, first_rel: usize) {
        for id in first_rel..self.queue.rels.len() {
            if self.queue.rels[id].state == State::Done || self.has_open_argument(id) {
                continue;
            }
            let rel = self.queue.rels[id].clone();
            self.queue.rels[id].state = State::Done;
            self.say(|r| r.waiting(&rel, None));
            let error = self.error;
            let _ = self.unify(rel.out, error);
        }
        self.solve_queue();
    }

    /// Gives up on an unknown.
    pub fn poison_unknown(&mut self, v: u32) {
        if !matches!(self.unknowns[v as usize].sol, Sol::Open) {
            return;
        }
        self.unknowns[v as usize].sol = match self.unknowns[v as usize].sort {
            Sort::Type => Sol::Type(self.error),
            Sort::Shape => Sol::Shape(relax_ir::Shape::Unknown),
            Sort::DType => Sol::DType(DTy::Unknown),
            Sort::Dim => Sol::Dim(Dim::ANY),
        };
    }

    /// Decides the open checks, now that everything that can be known is known.
    fn decide_checks(&mut self, first: usize) {
        let open: Vec<_> = self.open_checks.drain(first..).collect();
        let mut seen: FxHashSet<(ExprId, Dim, Dim)> = FxHashSet::default();
        for c in open {
            let (a, b) = (self.resolve_dim(&c.a), self.resolve_dim(&c.b));
            if !a.is_known() || !b.is_known() || !seen.insert((c.at, a.clone(), b.clone())) {
                continue;
            }
            let proof = match c.asked {
                true => self.compare_extents(&a, &b),
                false => self.demand_equal(&a, &b),
            };
            match proof {
                Proof::Proven => continue,
                Proof::Refuted if !c.or_one => {
                    let unless = self.unless_empty(&a, &b);
                    let (x, y) = (self.show_extent(&a), self.show_extent(&b));
                    let mut d = Diagnostic::error(
                        codes::MATCH_SHAPE,
                        self.place(c.at),
                        format!("the dimensions {x} and {y} must be equal, but differ{unless}"),
                    );
                    if !c.rule.is_empty() {
                        d = d.note(c.rule.clone());
                    }
                    self.report(d);
                    continue;
                }
                _ => {}
            }
            if !c.asked {
                self.report_undecided(&c, &a, &b);
            }
            if c.at != NO_EXPR {
                let kind = if c.or_one {
                    CheckKind::Broadcast(a, b)
                } else {
                    CheckKind::Equal(a, b)
                };
                self.checks.push(Check { expr: c.at, kind });
            }
        }
    }

    /// Returns the first of these dimensions' variables that only a function's result mentions: no
    /// argument determines it.
    fn free_in_result(&mut self, dims: [&Dim; 2]) -> Option<relax_sym::DimVar> {
        for d in dims {
            let Some(relax_sym::Atom::Var(v)) = d.as_atom() else {
                continue;
            };
            let Some(&f) = self.dim_owner.get(&v) else {
                continue;
            };
            let func = &self.m.funcs[f];
            let given = func.params.iter().any(|&p| {
                let t = self.var_ty[p.index()];
                t == UNTYPED || self.mentions(t, &[], &[v])
            });
            if func.dims.contains(&v) && !given {
                return Some(v);
            }
        }
        None
    }

    fn report_undecided(&mut self, c: &OpenCheck, a: &Dim, b: &Dim) {
        let free = match c.or_one {
            true => None,
            false => self.free_in_result([a, b]),
        };
        let Some(v) = free else {
            return self.say(|r| r.undecided(c, a, b));
        };
        let is = match a.as_atom() == Some(relax_sym::Atom::Var(v)) {
            true => b,
            false => a,
        };
        let said = Reporter::new(self).free_result(c, v, is);
        if let Some(d) = said {
            self.report(d);
        }
    }

    /// Reports unknowns that are left anywhere, once each, with the place to annotate.
    pub fn report_open(&mut self) {
        self.mistaken.sort_unstable();
        let mut closed: FxHashSet<TypeId> = FxHashSet::default();
        for v in self.vars_to_end() {
            let t = self.var_ty[v.index()];
            if t == UNTYPED || !self.is_open_but(t, &mut closed) {
                continue;
            }
            let var = &self.m.vars[v];
            if !self.is_excused(t) && !self.follows_mistake(var.span) {
                self.say(|r| r.open_variable(v, t));
            }
            self.poison_type(t);
        }
        for e in self.exprs_to_end() {
            let t = self.expr_ty[e.index()];
            if t.0 >= crate::solver::OPEN.0 || !self.is_open_but(t, &mut closed) {
                continue;
            }
            let place = self.place(e);
            if !self.is_excused(t) && !place.is_none() && !self.follows_mistake(place) {
                self.say(|r| r.open_expression(e, t));
            }
            self.poison_type(t);
        }
    }

    /// Returns whether a location is inside a function that has errors.
    fn follows_mistake(&self, place: relax_base::Span) -> bool {
        let after = self.mistaken.partition_point(|s| s.start <= place.start);
        let last = after.checked_sub(1).map(|i| self.mistaken[i]);
        place.is_none() && self.errors > 0 || last.is_some_and(|s| place.end <= s.end)
    }

    fn poison_type(&mut self, t: TypeId) {
        let mut found = Vec::new();
        self.for_unknowns(t, &mut |_, v| found.push(v));
        for v in found {
            self.poison_unknown(v);
        }
    }
}

/// Returns the `q` for which `factor * q` is `whole` in normal form. If the factor is zero, any
/// extent would satisfy the equality, including this one.
fn exact_quotient(whole: &Dim, factor: &Dim) -> Option<Dim> {
    let mut facts = relax_sym::Facts::default();
    for atom in factor.atoms() {
        facts.add_lower(atom, 1);
    }
    let quotient = facts.simplify(&whole.floordiv(factor));
    (quotient.is_known() && factor * &quotient == *whole).then_some(quotient)
}

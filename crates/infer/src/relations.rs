//! Runs relations, and implements the host interface that they use.

use relax_base::Symbol;
use relax_ir::{AttrsId, Expr, ExprId, RelRef, Shape, TensorType, Type, TypeArena, TypeId};
use relax_ops::{Mismatch, Refusal, RelCx, RelHost, RelResult, Stop, Subject, registry};
use relax_sym::{Dim, Proof};
use relax_tensor::Tensor;

use crate::flags::{COARSE, ERROR, INFER, PARAM};
use crate::queue::{RelKind, State};
use crate::solver::Solver;
use crate::unifier::{OpenCheck, Unifier};
use crate::unknown::{NO_WATCH, Site};
use crate::way::Way;

/// Returns what is said of a relation that a `where` clause gives too many arguments or too few.
pub(crate) fn count_message(name: &str, wanted: usize, given: usize) -> String {
    format!("`{name}` relates {wanted} arguments, and {given} are given")
}

/// Whether a `where` clause asserts a relation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Assumed {
    Yes,
    /// It depends on types that are still open.
    Perhaps,
    No,
}

impl Solver<'_> {
    /// Runs relations until none makes progress.
    pub fn solve_queue(&mut self) {
        while let Some(id) = self.queue.ready.pop_front() {
            let rel = &self.queue.rels[id as usize];
            if rel.state == State::Done {
                continue;
            }
            let (kind, args, out, call) = (rel.kind.clone(), rel.args.clone(), rel.out, rel.call);
            // Marked first, so that solutions by the relation itself wake it again.
            self.queue.rels[id as usize].state = State::Waiting;
            match self.run_relation(&kind, &args, out, call) {
                Ok(()) => self.queue.rels[id as usize].state = State::Done,
                Err(Stop::Wait) => {
                    if !self.watch(id, &kind, &args, out) {
                        self.give_up(id);
                    }
                }
                Err(Stop::Refuse(r)) => {
                    self.queue.rels[id as usize].state = State::Done;
                    self.refused(&kind, &args, out, call, &r);
                }
            }
        }
    }

    /// Registers a relation with every unknown that it depends on. Returns false if its arguments
    /// have none left, so that it would wait forever.
    pub fn watch(&mut self, id: u32, kind: &RelKind, args: &[TypeId], out: TypeId) -> bool {
        let mut found: Vec<u32> = Vec::new();
        for &t in args {
            self.for_unknowns(t, &mut |_, v| found.push(v));
        }
        if let RelKind::DimEq(a, b) = kind {
            for d in [a, b] {
                found.extend(self.resolve_dim(d).infer_vars().into_iter().map(|v| v.0));
            }
        }
        let any = !found.is_empty();
        self.for_unknowns(out, &mut |_, v| found.push(v));
        found.sort_unstable();
        found.dedup();
        for v in found {
            let cell = self.watch_pool.len() as u32;
            let head = std::mem::replace(&mut self.unknowns[v as usize].watch, cell);
            self.watch_pool.push((id, head));
            debug_assert!(head == NO_WATCH || head < cell);
        }
        any
    }

    /// Runs a relation once.
    pub fn run_relation(
        &mut self,
        kind: &RelKind,
        args: &[TypeId],
        out: TypeId,
        call: ExprId,
    ) -> RelResult {
        let mut assumed = Assumed::No;
        let result = self.run_unless_assumed(kind, args, out, call, &mut assumed);
        match (result, assumed) {
            // What it refuses may be asserted, once the open types are known.
            (Err(Stop::Refuse(_)), Assumed::Perhaps) => Err(Stop::Wait),
            (result, _) => result,
        }
    }

    fn run_unless_assumed(
        &mut self,
        kind: &RelKind,
        args: &[TypeId],
        out: TypeId,
        call: ExprId,
        assumed: &mut Assumed,
    ) -> RelResult {
        let mut poisoned = match kind {
            RelKind::User(id) => self.m.damage.relations.contains(id),
            _ => false,
        };
        let mut rigid = false;
        for &t in args {
            let t = self.resolve(t);
            poisoned |= self.flags(t) & ERROR != 0;
            rigid |= matches!(self.types[t], Type::Param(_));
        }
        if poisoned {
            // The error was reported at its origin; the result is as unknown as the argument.
            for &t in args {
                self.excuse(t);
            }
            let error = self.error;
            let _ = self.unifier.unify(out, error);
            return Ok(());
        }
        if rigid {
            *assumed = self.assumed(kind, args, out);
            if *assumed == Assumed::Yes {
                return Ok(());
            }
        }
        self.cur_call = call;
        self.site = Site::Rel(call);
        match kind {
            RelKind::Op(op, attrs) => {
                let Some(def) = registry().get(*op) else {
                    return self.run_item(*op, args);
                };
                let attrs = &*def.attrs_of(self.m.attrs(*attrs));
                def.relate(&mut RelCx {
                    host: self,
                    name: def.name,
                    args,
                    out,
                    attrs,
                })
            }
            RelKind::Builtin(name) => self.run_builtin_relation(*name, args, out),
            RelKind::User(id) => self.run_user_relation(*id, args, out),
            RelKind::Proj(index) => {
                let tuple = self.head(args[0]);
                match &self.types[tuple] {
                    Type::Infer(_) => Err(Stop::Wait),
                    Type::Tuple(fields) => match fields.get(*index as usize).copied() {
                        Some(field) => {
                            if let Err(clash) = self.unifier.unify_as(out, field, Way::From) {
                                self.site = Site::Match(call);
                                self.report_clash(out, field, &clash);
                            }
                            Ok(())
                        }
                        None => self.refuse_proj(tuple, *index),
                    },
                    _ => self.refuse_proj(tuple, *index),
                }
            }
            RelKind::DimEq(a, b) => {
                let (a, b) = (self.resolve_dim(a), self.resolve_dim(b));
                let before = self.queue.rels.len();
                let result = self.unify_extent(&a, &b);
                if self.queue.rels.len() > before {
                    // Still stuck: this relation keeps waiting instead of the new one.
                    self.queue.rels.truncate(before);
                    self.queue.ready.retain(|&r| (r as usize) < before);
                    return Err(Stop::Wait);
                }
                match result {
                    Ok(()) => Ok(()),
                    Err((a, b)) => Err(refusal(
                        Subject::Call,
                        format!("the extents {}", self.show_clash(&a, &b)),
                    )),
                }
            }
            RelKind::Instance(subst) => {
                let ret = self.resolve(args[0]);
                if self.flags(ret) & INFER != 0 {
                    return Err(Stop::Wait);
                }
                let ret = self.substitute(ret, subst);
                if self.unifier.unify_as(out, ret, Way::From).is_err() {
                    let (have, want) = (self.show(out), self.show(ret));
                    return Err(Stop::from(
                        Refusal {
                            subject: Subject::Call,
                            message: format!(
                                "this recursive call gives {want}, but is used as {have}"
                            ),
                            notes: Vec::new(),
                        }
                        .note("annotate the function's result type to use it at several types"),
                    ));
                }
                Ok(())
            }
        }
    }

    /// Runs a relation that the text knows by name.
    fn run_builtin_relation(&mut self, name: Symbol, args: &[TypeId], out: TypeId) -> RelResult {
        let Some(relation) = registry().relation(name.as_str()) else {
            return Ok(());
        };
        if let Some(n) = registry().relation_arity(name.as_str())
            && n != args.len()
        {
            let message = count_message(name.as_str(), n, args.len());
            return Err(refusal(Subject::Call, message));
        }
        let attrs = self.m.attrs(AttrsId::NONE);
        relation(&mut RelCx {
            host: self,
            name: name.as_str(),
            args,
            out,
            attrs,
        })
    }

    fn refuse_proj(&mut self, tuple: TypeId, index: u32) -> RelResult {
        let text = self.show(tuple);
        let message = match &self.types[tuple] {
            Type::Tuple(fields) => match fields.len() {
                0 => format!("there is no field {index}: the tuple is empty"),
                n => format!(
                    "there is no field {index} in {text}, whose fields are 0 to {}",
                    n - 1
                ),
            },
            _ => format!("only tuples have fields, and this is {text}"),
        };
        Err(refusal(Subject::Arg(0), message))
    }

    /// Returns whether a `where` clause of an enclosing function asserts the relation of these
    /// rigid types; then its result is the clause's. Some of the types may still be open.
    fn assumed(&mut self, kind: &RelKind, args: &[TypeId], out: TypeId) -> Assumed {
        let Some(wanted) = self.rel_ref(kind) else {
            return Assumed::No;
        };
        let (mut results, mut perhaps) = (Vec::new(), false);
        for i in 0..self.assumptions.len() {
            let c = self.assumptions[i].clone();
            let same = self.same_relation(c.rel, wanted) && c.args.len() == args.len() + 1;
            if !same {
                continue;
            }
            let (mut fits, mut open) = (true, false);
            for (&x, &y) in c.args.iter().zip(args) {
                let (x, y) = (self.resolve(x), self.resolve(y));
                if x != y {
                    open = true;
                    fits &= (self.flags(x) | self.flags(y)) & INFER != 0;
                }
            }
            match (fits, open) {
                (true, false) => results.push(c.args[args.len()]),
                (true, true) => perhaps = true,
                (false, _) => {}
            }
        }
        // Uses of one local function have results of their own: the one that is meant comes first.
        let known = self.resolve(out);
        let meant = results.iter().any(|&r| self.resolve(r) == known)
            || (results.into_iter())
                .any(|result| self.unifier.unify_as(out, result, Way::From).is_ok());
        match (meant, perhaps) {
            (true, _) => Assumed::Yes,
            (false, true) => Assumed::Perhaps,
            (false, false) => Assumed::No,
        }
    }

    /// Returns a relation's reference as used in a `where` clause.
    pub fn rel_ref(&self, kind: &RelKind) -> Option<RelRef> {
        match kind {
            RelKind::Op(op, attrs) => Some(match registry().relation_name(*op) {
                Some(name) => RelRef::Builtin(name.into()),
                _ => RelRef::Op(*op, *attrs),
            }),
            RelKind::Builtin(name) => Some(RelRef::Builtin(*name)),
            RelKind::User(id) => Some(RelRef::User(*id)),
            RelKind::Proj(_) | RelKind::DimEq(..) | RelKind::Instance(_) => None,
        }
    }

    fn same_relation(&self, a: RelRef, b: RelRef) -> bool {
        let plain = |r: RelRef| match r {
            RelRef::Op(op, _) => registry()
                .relation_name(op)
                .map_or(r, |n| RelRef::Builtin(n.into())),
            other => other,
        };
        plain(a) == plain(b)
    }

    /// Gives up on a relation that waits although all its arguments are known: if some rank or
    /// element type is `_`, the result is unknown too; an `Object` is refused.
    pub fn give_up(&mut self, id: u32) {
        let rel = self.queue.rels[id as usize].clone();
        let mut coarse = false;
        let mut object = None;
        for (i, &t) in rel.args.iter().enumerate() {
            let t = self.resolve(t);
            coarse |= self.flags(t) & (COARSE | PARAM) != 0;
            if self.types[t] == Type::Object {
                object = object.or(Some(i));
            }
        }
        self.queue.rels[id as usize].state = State::Done;
        if let Some(i) = object {
            let name = self.relation_text(&rel.kind);
            let r = Refusal {
                subject: Subject::Arg(i),
                message: format!("`{name}` takes a tensor here, and of an Object nothing is known"),
                notes: vec!["say what it is: `match_cast(…, Tensor[(…), float32])`".into()],
            };
            self.refused(&rel.kind, &rel.args, rel.out, rel.call, &r);
        } else if coarse && !matches!(rel.kind, RelKind::Proj(_) | RelKind::DimEq(..)) {
            let out = self.head(rel.out);
            if matches!(self.types[out], Type::Infer(_)) {
                let unknown = self.types.intern(Type::Tensor(TensorType {
                    shape: Shape::Unknown,
                    dtype: relax_ir::DTy::Unknown,
                }));
                let _ = self.unifier.unify(out, unknown);
            }
        } else {
            self.queue.rels[id as usize].state = State::Waiting;
        }
    }

    /// Returns the name of a relation or its operator, for messages.
    pub fn relation_text(&self, kind: &RelKind) -> String {
        match kind {
            RelKind::Op(op, _) => self.operator_name(*op).to_string(),
            RelKind::Builtin(name) => name.to_string(),
            RelKind::User(id) => self.m.relations[*id].name.to_string(),
            RelKind::Proj(i) => format!(".{i}"),
            RelKind::DimEq(..) => "=".into(),
            RelKind::Instance(_) => "call".into(),
        }
    }
}

/// Creates a refusal without notes.
pub(crate) fn refusal(subject: Subject, message: String) -> Stop {
    Stop::from(Refusal {
        subject,
        message,
        notes: Vec::new(),
    })
}

impl RelHost for Solver<'_> {
    fn in_tvmscript(&self) -> bool {
        self.m.script.is_some()
    }
    fn as_written(&self) -> bool {
        self.m.is_script()
    }
    fn types(&self) -> &TypeArena {
        &self.types
    }
    fn types_mut(&mut self) -> &mut TypeArena {
        &mut self.types
    }
    fn resolve(&mut self, ty: TypeId) -> TypeId {
        Unifier::resolve(self, ty)
    }
    fn unify(&mut self, a: TypeId, b: TypeId) -> Result<(), Mismatch> {
        Unifier::unify(self, a, b).map_err(|c| Mismatch {
            left: self.show(c.found),
            right: self.show(c.expected),
        })
    }
    fn unify_dim(&mut self, a: &Dim, b: &Dim, rule: &str) -> Result<(), Mismatch> {
        let before = self.open_checks.len();
        let result = self.unify_extent(a, b);
        for check in &mut self.open_checks[before..] {
            check.rule = rule.into();
        }
        result.map_err(|(a, b)| Mismatch {
            left: self.show_dim(&a),
            right: self.show_dim(&b),
        })
    }
    fn const_arg(&self, i: usize) -> Option<&Tensor> {
        self.relation_cache.asked_value.set(true);
        let Expr::Call { args, .. } = self.m.exprs.get(self.cur_call)? else {
            return None;
        };
        match self.m.exprs[*self.m.list(*args).get(i)?] {
            Expr::Const(c) => Some(&self.m.consts[c]),
            _ => None,
        }
    }
    fn fresh_type(&mut self) -> TypeId {
        self.fresh()
    }
    fn show_dim(&self, d: &Dim) -> String {
        self.show_extent(d)
    }
    fn show(&self, ty: TypeId) -> String {
        self.show_type(ty)
    }
    fn compare_dims(&mut self, a: &Dim, b: &Dim) -> Proof {
        let (a, b) = (self.resolve_dim(a), self.resolve_dim(b));
        self.demand_equal(&a, &b)
    }
    fn show_clash(&self, a: &Dim, b: &Dim) -> String {
        let (x, y) = (self.show_extent(a), self.show_extent(b));
        format!("{x} and {y} differ{}", self.unless_empty(a, b))
    }
    fn instantiate(&mut self, ty: TypeId) -> TypeId {
        let ty = Unifier::resolve(self, ty);
        self.instantiate_func(ty, &[]).map_or(ty, |i| i.ty)
    }
    fn check_dims(&mut self, a: &Dim, b: &Dim, rule: &str) {
        let at = self.check_place();
        let (a, b) = (a.clone(), b.clone());
        self.open_checks.push(OpenCheck {
            a,
            b,
            rule: rule.into(),
            at,
            or_one: rule == "broadcasting",
            asked: false,
        });
    }
}

//! Unification.
//!
//! Invariant: works on an explicit stack; a pair of types is visited once per call, so that heavily
//! shared types take time linear in their number of distinct nodes.

use relax_base::Id;
use relax_ir::{DTy, FuncType, Shape, TensorType, Type, TypeId};
use relax_sym::{Atom, Dim, Proof, Solution, solve};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::flags::{COARSE, INFER};
use crate::queue::RelKind;
use crate::unifier::{OpenCheck, Unifier};
use crate::unknown::{Clash, Detail, Lit, NO_WATCH, Sol};
use crate::way::Way;

type Unified = Result<(), Clash>;

impl Unifier<'_> {
    /// Unifies two types. `?` and `_` are compatible with everything and set [`Unifier::coarse`].
    /// Solutions found before a clash are kept.
    ///
    /// A value of the first type is used as one of the second: only the first may be polymorphic
    /// where the other is not.
    pub fn unify(&mut self, found: TypeId, expected: TypeId) -> Unified {
        self.unify_as(found, expected, Way::Into)
    }

    /// The same of types between which values pass in some [way](Way). In a join, sets
    /// [`Unifier::narrowed`] if only one of two functions was polymorphic.
    pub fn unify_as(&mut self, found: TypeId, expected: TypeId, way: Way) -> Unified {
        self.coarse = false;
        self.narrowed = false;
        if found == expected {
            return Ok(());
        }
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.clear();
        pairs.push((found, expected, way));
        self.seen.clear();
        let kept = self.kept.len();
        let mut result = Ok(());
        while let Some((a, b, way)) = pairs.pop() {
            result = self.unify_pair(a, b, way, &mut pairs);
            if result.is_err() {
                break;
            }
        }
        self.pairs = pairs;
        if self.kept.len() > kept {
            match result {
                Ok(()) => result = self.hold_kept(kept, found, expected),
                Err(_) => self.kept.truncate(kept),
            }
        }
        result
    }

    fn unify_pair(
        &mut self,
        a: TypeId,
        b: TypeId,
        way: Way,
        pairs: &mut Vec<(TypeId, TypeId, Way)>,
    ) -> Unified {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return Ok(());
        }
        let clash = |detail| {
            Err(Clash {
                found: a,
                expected: b,
                detail,
            })
        };
        match (&self.types[a], &self.types[b]) {
            (Type::Infer(v), _) => {
                let v = v.0;
                self.bind_type(v, b, a, b)
            }
            (_, Type::Infer(v)) => {
                let v = v.0;
                self.bind_type(v, a, a, b)
            }
            (Type::Error, _) | (_, Type::Error) => {
                self.excuse(a);
                self.excuse(b);
                Ok(())
            }
            // In Relax, an annotation may leave a component unspecified.
            (_, Type::Object) if self.m.script.is_some() && self.site.is_annotated() => Ok(()),
            (Type::Tensor(x), Type::Tensor(y)) => {
                let (x, y) = (x.clone(), y.clone());
                self.unify_shape(&x.shape, &y.shape)
                    .and_then(|()| self.unify_dtype(x.dtype, y.dtype))
                    .or_else(clash)
            }
            (Type::Shape(x), Type::Shape(y)) => {
                let (x, y) = (x.clone(), y.clone());
                self.unify_shape(&x, &y).or_else(clash)
            }
            (Type::Tuple(x), Type::Tuple(y)) if x.len() == y.len() => {
                if self.seen.insert((a, b, way)) {
                    pairs.extend(x.iter().zip(y).map(|(&x, &y)| (x, y, way)).rev());
                }
                Ok(())
            }
            (Type::Tuple(x), Type::Tuple(y)) => clash(Detail::Count(x.len(), y.len())),
            (Type::Adt(p, x), Type::Adt(q, y)) if p == q && x.len() == y.len() => {
                if self.seen.insert((a, b, way)) {
                    let (adt, x, y) = (*p, x.clone(), y.clone());
                    let way = self.of_fields(way, adt);
                    pairs.extend(x.iter().zip(&y).map(|(&x, &y)| (x, y, way)).rev());
                }
                Ok(())
            }
            (Type::Ref(x), Type::Ref(y)) => {
                pairs.push((*x, *y, Way::Both));
                Ok(())
            }
            (Type::Func(x), Type::Func(y)) => {
                if x.args.len() != y.args.len() {
                    return clash(Detail::Count(x.args.len(), y.args.len()));
                }
                if !self.seen.insert((a, b, way)) {
                    return Ok(());
                }
                let (x, y) = if x.params.is_empty()
                    && y.params.is_empty()
                    && x.dims.is_empty()
                    && y.dims.is_empty()
                {
                    (a, b)
                } else {
                    let plain = |f: &FuncType| f.params.is_empty() && f.dims.is_empty();
                    self.narrowed |= way == Way::Join
                        && (x.params.len(), x.dims.len()) != (y.params.len(), y.dims.len());
                    match (plain(x), plain(y)) {
                        (true, false) => (a, self.use_generic(b, way.keeps_second(), (a, b))),
                        (false, true) => (self.use_generic(a, way.keeps_first(), (a, b)), b),
                        _ => self.align_binders(a, b, way),
                    }
                };
                let (Type::Func(x), Type::Func(y)) = (&self.types[x], &self.types[y]) else {
                    return Ok(());
                };
                pairs.push((x.ret, y.ret, way));
                let way = way.of_params();
                pairs.extend(x.args.iter().zip(&y.args).map(|(&x, &y)| (x, y, way)).rev());
                Ok(())
            }
            _ => clash(Detail::Form),
        }
    }

    /// Instantiates a polymorphic function type where a monomorphic one is required; its relations
    /// must hold. If it is `kept`, the function has to be as polymorphic as the type.
    fn use_generic(&mut self, ty: TypeId, kept: bool, pair: (TypeId, TypeId)) -> TypeId {
        let Some(instance) = self.instantiate_func(ty, &[]) else {
            return ty;
        };
        if kept {
            self.keep(instance.subst, pair.0, pair.1);
        }
        if let Type::Func(f) = self.types[instance.ty].clone() {
            for c in &f.constraints {
                self.add_constraint(c);
            }
        }
        instance.ty
    }

    /// Solves a type unknown.
    fn bind_type(&mut self, v: u32, t: TypeId, a: TypeId, b: TypeId) -> Unified {
        if self.fuel == 0 {
            // Without an occurs check, the unknown must not be solved by a type.
            self.solved(v, Sol::Type(self.error));
            return Ok(());
        }
        if self.flags(t) & INFER != 0 && !self.lower_levels(v, t) {
            return Err(Clash {
                found: a,
                expected: b,
                detail: Detail::Infinite,
            });
        }
        self.solved(v, Sol::Type(t));
        Ok(())
    }

    /// Records a solution and wakes the relations that wait for it.
    pub fn solved(&mut self, v: u32, sol: Sol) {
        let u = &mut self.unknowns[v as usize];
        u.sol = sol;
        let mut cell = std::mem::replace(&mut u.watch, NO_WATCH);
        while cell != NO_WATCH {
            let (rel, next) = self.watch_pool[cell as usize];
            self.queue.wake(rel);
            cell = next;
        }
    }

    /// Lowers the levels of unknowns in `t` to that of `v`, so that none is generalised where `v`
    /// may not be. Returns false if `v` occurs in `t`.
    fn lower_levels(&mut self, v: u32, t: TypeId) -> bool {
        let (level, excused) = self.standing(v);
        let mut ok = true;
        let visited = self.for_unknowns(t, &mut |s, u| {
            if u == v {
                ok = false;
            }
            s.cap(u, level, excused);
        });
        // Types that grow with every step of a long chain are traversed again and again.
        if visited > 64 {
            self.fuel = self.fuel.saturating_sub(16 * visited as u64);
        }
        ok
    }

    /// Calls `f` for each open unknown of a type, once per distinct type that contains it. Returns
    /// the number of types visited.
    pub fn for_unknowns(&mut self, t: TypeId, f: &mut dyn FnMut(&mut Self, u32)) -> usize {
        let mut stack = vec![t];
        let mut seen: FxHashSet<TypeId> = FxHashSet::default();
        while let Some(t) = stack.pop() {
            let t = self.find(t);
            if self.flags(t) & INFER == 0 || !seen.insert(t) {
                continue;
            }
            match self.types[t].clone() {
                Type::Infer(v) => f(self, v.0),
                Type::Tensor(TensorType { shape, dtype }) => {
                    self.shape_unknowns(&shape, f);
                    if let DTy::Infer(v) = self.head_dtype(dtype) {
                        f(self, v.0);
                    }
                }
                Type::Shape(shape) => self.shape_unknowns(&shape, f),
                _ => stack.extend(self.types.children(t).into_iter().rev()),
            }
        }
        seen.len()
    }

    fn shape_unknowns(&mut self, shape: &Shape, f: &mut dyn FnMut(&mut Self, u32)) {
        match self.resolve_shape(shape) {
            Shape::Infer(v) => f(self, v.0),
            Shape::Dims(dims) => {
                for v in dims.iter().flat_map(Dim::infer_vars) {
                    f(self, v.0);
                }
            }
            _ => {}
        }
    }

    /// Unifies two shapes.
    pub fn unify_shape(&mut self, a: &Shape, b: &Shape) -> Result<(), Detail> {
        let (a, b) = (self.head_shape(a), self.head_shape(b));
        match (&a, &b) {
            (Shape::Infer(v), Shape::Infer(w)) if v == w => Ok(()),
            (Shape::Infer(v), other) | (other, Shape::Infer(v)) => {
                let (v, (level, excused)) = (v.0, self.standing(v.0));
                match other {
                    Shape::Infer(w) => self.cap(w.0, level, excused),
                    Shape::Dims(dims) => {
                        for w in dims.iter().flat_map(Dim::infer_vars) {
                            self.cap(w.0, level, excused);
                        }
                    }
                    _ => {}
                }
                self.solved(v, Sol::Shape(other.clone()));
                Ok(())
            }
            (Shape::Unknown, _) | (_, Shape::Unknown) => {
                self.coarse = true;
                Ok(())
            }
            (Shape::Param(p), Shape::Param(q)) if p == q => Ok(()),
            (Shape::Dims(x), Shape::Dims(y)) => {
                if x.len() != y.len() {
                    return Err(Detail::Rank(x.len(), y.len()));
                }
                for (i, (x, y)) in x.iter().zip(y.iter()).enumerate() {
                    self.unify_extent(x, y)
                        .map_err(|(x, y)| Detail::Dim(i, x, y))?;
                }
                Ok(())
            }
            _ => Err(Detail::Shape),
        }
    }

    /// Returns the level and the excused flag, which an unknown passes to the unknowns in its
    /// solution.
    fn standing(&self, v: u32) -> (u32, bool) {
        let u = &self.unknowns[v as usize];
        (u.level, u.excused)
    }

    fn cap(&mut self, v: u32, level: u32, excused: bool) {
        let u = &mut self.unknowns[v as usize];
        u.level = u.level.min(level);
        u.excused |= excused;
    }

    /// Marks the unknowns of a type as possible consequences of a reported error.
    pub fn excuse(&mut self, t: TypeId) {
        if self.flags(t) & INFER != 0 {
            self.for_unknowns(t, &mut |s, v| s.unknowns[v as usize].excused = true);
        }
    }

    /// Returns whether a type contains an excused unknown.
    pub fn is_excused(&mut self, t: TypeId) -> bool {
        let mut excused = false;
        if self.flags(t) & INFER != 0 {
            self.for_unknowns(t, &mut |s, v| excused |= s.unknowns[v as usize].excused);
        }
        excused
    }

    /// Unifies two element types.
    pub fn unify_dtype(&mut self, a: DTy, b: DTy) -> Result<(), Detail> {
        let (a, b) = (self.head_dtype(a), self.head_dtype(b));
        if a == b {
            return Ok(());
        }
        match (a, b) {
            (DTy::Infer(v), DTy::Infer(w)) => {
                let (x, y) = (&self.unknowns[v.index()], &self.unknowns[w.index()]);
                let lit = match (x.lit, y.lit) {
                    (Lit::Float, _) | (_, Lit::Float) => Lit::Float,
                    (Lit::Int, _) | (_, Lit::Int) => Lit::Int,
                    _ => Lit::No,
                };
                let (level, excused) = (x.level, x.excused);
                self.unknowns[w.index()].lit = lit;
                self.cap(w.0, level, excused);
                self.solved(v.0, Sol::DType(b));
                Ok(())
            }
            (DTy::Infer(v), other) | (other, DTy::Infer(v)) => {
                let lit = self.unknowns[v.index()].lit;
                if lit != Lit::No && other == DTy::Unknown {
                    // `_` carries no information; the literal keeps its own type.
                    self.coarse = true;
                    return Ok(());
                }
                if !lit.may_be(other) {
                    return Err(Detail::DType(a, b));
                }
                self.solved(v.0, Sol::DType(other));
                Ok(())
            }
            (DTy::Unknown, _) | (_, DTy::Unknown) => {
                self.coarse = true;
                Ok(())
            }
            _ => Err(Detail::DType(a, b)),
        }
    }

    /// Unifies two extents: solves unknowns, accepts what is proven, rejects what is refuted, and
    /// defers the rest until everything is known.
    pub fn unify_extent(&mut self, a: &Dim, b: &Dim) -> Result<(), (Dim, Dim)> {
        if a == b {
            // Two `?` are equal as values, and no precision is lost.
            return Ok(());
        }
        if let (Some(x), Some(y)) = (a.as_const(), b.as_const()) {
            debug_assert_ne!(x, y);
            return Err((a.clone(), b.clone()));
        }
        let (a, b) = (self.resolve_dim(a), self.resolve_dim(b));
        if a == b {
            return Ok(());
        }
        if !a.is_known() || !b.is_known() {
            // An unknown that meets `?` becomes as coarse.
            for (d, other) in [(&a, &b), (&b, &a)] {
                if let Some(Atom::Infer(v)) = d.as_atom() {
                    self.solved(v.0, Sol::Dim(other.clone()));
                    return Ok(());
                }
            }
            self.coarse = true;
            return Ok(());
        }
        for (d, other) in [(&a, &b), (&b, &a)] {
            // What most equations are.
            if let Some(Atom::Infer(v)) = d.as_atom()
                && other.as_const().is_none_or(|c| c >= 0)
                && !other.has_infer()
            {
                self.solved(v.0, Sol::Dim(other.clone()));
                return Ok(());
            }
        }
        if a.has_infer() || b.has_infer() {
            return match solve(&a, &b, &|atom| matches!(atom, Atom::Infer(_))) {
                Solution::Equal => Ok(()),
                Solution::Different => Err((a, b)),
                Solution::Solved(solutions) => {
                    for (atom, value) in solutions {
                        if let Atom::Infer(v) = atom {
                            if value.as_const().is_some_and(|c| c < 0) {
                                return Err((a, b));
                            }
                            let (level, excused) = self.standing(v.0);
                            for w in value.infer_vars() {
                                self.cap(w.0, level, excused);
                            }
                            self.solved(v.0, Sol::Dim(value));
                        }
                    }
                    Ok(())
                }
                Solution::Stuck => {
                    self.add_rel(RelKind::DimEq(a, b), Box::default(), self.unit);
                    Ok(())
                }
            };
        }
        match self.demand_equal(&a, &b) {
            Proof::Proven => Ok(()),
            Proof::Refuted => Err((a, b)),
            Proof::Unknown => {
                self.open_checks.push(OpenCheck {
                    a,
                    b,
                    rule: String::new(),
                    at: self.check_place(),
                    or_one: false,
                    asked: false,
                });
                Ok(())
            }
        }
    }

    /// Returns whether two resolved dimensions are equal, given the bindings of matches.
    pub fn compare_extents(&self, a: &Dim, b: &Dim) -> Proof {
        match self.facts.eq(a, b) {
            Proof::Unknown if !self.alias.is_empty() => {
                self.facts.eq(&self.unalias(a), &self.unalias(b))
            }
            proof => proof,
        }
    }

    /// The same for dimensions that the program assumes to be equal implicitly: an equality that
    /// holds only for empty tensors (`n * 4 == n * 3` if `n` is 0) counts as refuted. A program
    /// that intends it states it with a match. A comparison with a constant is explicit: `n == 0`
    /// stays undecided.
    pub fn demand_equal(&self, a: &Dim, b: &Dim) -> Proof {
        match self.compare_extents(a, b) {
            Proof::Unknown if self.only_empty(a, b) => Proof::Refuted,
            proof => proof,
        }
    }

    /// Returns whether two dimensions that may be equal are equal only if one of their variables is
    /// 0.
    pub fn only_empty(&self, a: &Dim, b: &Dim) -> bool {
        if a.as_const().is_some() || b.as_const().is_some() || a.has_infer() || b.has_infer() {
            return false;
        }
        let mut facts = self.facts.clone();
        let (a, b) = (self.unalias(a), self.unalias(b));
        for v in a.free_vars().into_iter().chain(b.free_vars()) {
            facts.add_lower(v, 1);
        }
        self.facts.eq(&a, &b) == Proof::Unknown && facts.eq(&a, &b) == Proof::Refuted
    }

    /// Replaces variables that a match bound to a known dimension by that dimension.
    pub fn unalias(&self, d: &Dim) -> Dim {
        let mut d = d.clone();
        // An alias only refers to variables bound before it, so this terminates.
        loop {
            let new = d.substitute(&|atom| match atom {
                Atom::Var(v) => self.alias.get(&v).cloned(),
                Atom::Infer(_) => None,
            });
            if new == d {
                return d;
            }
            d = new;
        }
    }

    /// Returns the coarser of two unified types: `?` and `_` where either has them, as in TVM. Of a
    /// polymorphic and a monomorphic function it is the type of the latter.
    pub fn join(&mut self, a: TypeId, b: TypeId) -> TypeId {
        let (a, b) = (self.resolve(a), self.resolve(b));
        let narrowed = self.narrowed;
        if a == b || !narrowed && (self.flags(a) | self.flags(b)) & COARSE == 0 {
            return a;
        }
        let mut done: FxHashMap<(TypeId, TypeId), TypeId> = FxHashMap::default();
        let mut stack = vec![(a, b)];
        while let Some(&(x, y)) = stack.last() {
            if done.contains_key(&(x, y)) {
                stack.pop();
                continue;
            }
            let joined = if x == y || !narrowed && (self.flags(x) | self.flags(y)) & COARSE == 0 {
                x
            } else if let Some(less) = self.less_general(x, y) {
                less
            } else {
                match (self.types[x].clone(), self.types[y].clone()) {
                    (Type::Tensor(p), Type::Tensor(q)) => {
                        let dtype = if q.dtype == DTy::Unknown {
                            q.dtype
                        } else {
                            p.dtype
                        };
                        let shape = join_shape(&p.shape, &q.shape);
                        self.types.intern(Type::Tensor(TensorType { shape, dtype }))
                    }
                    (Type::Shape(p), Type::Shape(q)) => {
                        self.types.intern(Type::Shape(join_shape(&p, &q)))
                    }
                    _ => {
                        let (cx, cy) = (self.types.children(x), self.types.children(y));
                        if cx.is_empty() || cx.len() != cy.len() {
                            done.insert((x, y), x);
                            stack.pop();
                            continue;
                        }
                        let before = stack.len();
                        let pairs = cx.iter().copied().zip(cy.iter().copied());
                        stack.extend(pairs.filter(|p| !done.contains_key(p)));
                        if stack.len() > before {
                            continue;
                        }
                        let parts = cx.iter().zip(&cy).map(|(x, y)| done[&(*x, *y)]);
                        let parts: Vec<TypeId> = parts.collect();
                        self.with_children(x, &parts)
                    }
                }
            };
            done.insert((x, y), joined);
            stack.pop();
        }
        done[&(a, b)]
    }

    /// Rebuilds a type with other components, in the order of [`relax_ir::TypeArena::children`].
    fn with_children(&mut self, t: TypeId, parts: &[TypeId]) -> TypeId {
        let ty = match self.types[t].clone() {
            Type::Tuple(_) => Type::Tuple(parts.into()),
            Type::Adt(adt, _) => Type::Adt(adt, parts.into()),
            Type::Ref(_) => Type::Ref(parts[0]),
            Type::Func(mut f) => {
                let n = f.args.len();
                f.args = parts[..n].into();
                f.ret = parts[n];
                let mut rest = &parts[n + 1..];
                for c in &mut f.constraints {
                    let (own, after) = rest.split_at(c.args.len());
                    (c.args, rest) = (own.into(), after);
                }
                Type::Func(f)
            }
            other => other,
        };
        self.types.intern(ty)
    }
}

fn join_shape(a: &Shape, b: &Shape) -> Shape {
    match (a, b) {
        (Shape::Dims(x), Shape::Dims(y)) if x.len() == y.len() => {
            let join = |(x, y): (&Dim, &Dim)| if y.is_any() { y.clone() } else { x.clone() };
            Shape::Dims(x.iter().zip(y.iter()).map(join).collect())
        }
        (_, Shape::Unknown) => Shape::Unknown,
        _ => a.clone(),
    }
}

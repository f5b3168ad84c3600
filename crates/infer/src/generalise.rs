//! Generalisation: functions whose types are not determined by their own text.
//!
//! A let-bound function with open unknowns may be used at several types: each use gets its own copy
//! of the unknowns and of the relations that wait for them. When everything is known, uses that
//! agree determine the function's type (as in TVM, where functions are monomorphic); if they
//! differ, or there are none, the unknowns become type parameters and the waiting relations a
//! `where` clause.

use relax_base::{Id, Symbol};
use relax_ir::{
    Constraint, DTy, DimInfo, FuncId, FuncType, Kind, Shape, Type, TypeId, TypeParamId, VarId,
};
use relax_sym::{Dim, DimVar};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::agreement::Agreement;
use crate::flags::{ERROR, INFER};
use crate::map::{Leaf, Mapper, map_dims};
use crate::queue::{RelKind, State};
use crate::scheme::Scheme;
use crate::solver::Solver;
use crate::unifier::Unifier;
use crate::unknown::{Lit, Sol, Sort};

/// The parameters and constraints of a scheme whose type has been decided.
struct Closed {
    /// Its index.
    scheme: usize,
    params: Vec<TypeParamId>,
    dims: Vec<DimVar>,
    relations: Box<[Constraint]>,
}

/// Returns the name of the `i`-th inferred type parameter: `a` to `z`, then `a1`, …
pub(crate) fn letter(i: usize) -> String {
    let letter = (b'a' + (i % 26) as u8) as char;
    match i / 26 {
        0 => letter.to_string(),
        n => format!("{letter}{n}"),
    }
}

/// Replaces unknowns by other unknowns.
struct Copy<'a>(&'a FxHashMap<u32, Fresh>);

enum Fresh {
    Type(TypeId),
    Shape(Shape),
    DType(DTy),
    Dim(Dim),
}

impl Copy<'_> {
    fn dim(&self, d: &Dim) -> Dim {
        d.substitute(&|atom| match atom {
            relax_sym::Atom::Infer(v) => match self.0.get(&v.0) {
                Some(Fresh::Dim(d)) => Some(d.clone()),
                _ => None,
            },
            relax_sym::Atom::Var(_) => None,
        })
    }
}

impl Mapper for Copy<'_> {
    fn wants(&self, flags: u8) -> bool {
        flags & INFER != 0
    }
    fn leaf(&mut self, s: &mut Unifier<'_>, ty: &Type) -> Leaf {
        let Type::Infer(v) = ty else {
            return Leaf::Keep;
        };
        match s.unknowns[v.index()].sol {
            Sol::Type(t) => Leaf::Look(t),
            _ => match self.0.get(&v.0) {
                Some(Fresh::Type(t)) => Leaf::Is(*t),
                _ => Leaf::Keep,
            },
        }
    }
    fn shape(&mut self, s: &mut Unifier<'_>, shape: &Shape) -> Shape {
        match s.resolve_shape(shape) {
            Shape::Infer(v) => match self.0.get(&v.0) {
                Some(Fresh::Shape(shape)) => shape.clone(),
                _ => Shape::Infer(v),
            },
            other => map_dims(&other, |d| self.dim(d)),
        }
    }
    fn dtype(&mut self, s: &mut Unifier<'_>, dtype: DTy) -> DTy {
        match s.head_dtype(dtype) {
            DTy::Infer(v) => match self.0.get(&v.0) {
                Some(Fresh::DType(d)) => *d,
                _ => DTy::Infer(v),
            },
            other => other,
        }
    }
}

impl Solver<'_> {
    /// Sets a function's result type.
    pub fn give(&mut self, f: FuncId, ret: TypeId) {
        if let Type::Func(sig) = self.types[self.func_ty[f.index()]].clone() {
            let sig = FuncType { ret, ..*sig };
            self.func_ty[f.index()] = self.types.intern(Type::Func(Box::new(sig)));
        }
    }

    /// Enters a let-bound function, before its value is typed.
    pub fn begin_scheme(&mut self, _: FuncId) {
        self.level += 1;
        self.scheme_starts
            .push((self.queue.rels.len(), self.schemes.len()));
    }

    /// Leaves a let-bound function, after its value was typed.
    pub fn end_scheme(&mut self, var: VarId, func: FuncId) {
        let Some((start, inner)) = self.scheme_starts.pop() else {
            return;
        };
        self.level -= 1;
        self.solve_queue();
        let ty = self.func_ty[func.index()];
        let ty = self.resolve(ty);
        if self.flags(ty) & INFER == 0 || self.m.vars[var].ty.is_some() {
            return;
        }
        let mut unknowns = Vec::new();
        self.for_unknowns(ty, &mut |_, v| unknowns.push(v));
        let mut rels = Vec::new();
        // Relations of a nested function are decided with that function.
        let inside: FxHashSet<u32> = (self.schemes[inner..].iter())
            .flat_map(|s| s.rels.iter().copied())
            .collect();
        for id in start..self.queue.rels.len() {
            if self.queue.rels[id].state == State::Done || inside.contains(&(id as u32)) {
                continue;
            }
            if matches!(self.queue.rels[id].kind, RelKind::Instance(_)) {
                return;
            }
            let mut local = false;
            for v in self.rel_unknowns(id) {
                if self.unknowns[v as usize].level > self.level {
                    local = true;
                    unknowns.push(v);
                }
            }
            if local {
                rels.push(id as u32);
            }
        }
        let level = self.level;
        let mut seen = FxHashSet::default();
        unknowns.retain(|&v| {
            let u = &mut self.unknowns[v as usize];
            if u.lit != Lit::No {
                // A literal occurs once and has one type, at whichever types the function is used.
                u.level = u.level.min(level);
            }
            u.level > level && seen.insert(v)
        });
        if unknowns.is_empty() {
            return;
        }
        self.scheme_of.insert(var, self.schemes.len() as u32);
        self.schemes.push(Scheme {
            var,
            func,
            ty,
            unknowns,
            rels,
            instances: Vec::new(),
            inner,
        });
    }

    /// Returns the open unknowns of a relation.
    pub fn rel_unknowns(&mut self, id: usize) -> Vec<u32> {
        let rel = self.queue.rels[id].clone();
        let mut found = Vec::new();
        for &t in rel.args.iter().chain([&rel.out]) {
            self.for_unknowns(t, &mut |_, v| found.push(v));
        }
        if let RelKind::DimEq(a, b) = &rel.kind {
            for d in [a, b] {
                found.extend(self.resolve_dim(d).infer_vars().into_iter().map(|v| v.0));
            }
        }
        found
    }

    /// Copies a scheme's type for one use.
    pub fn use_scheme(&mut self, index: u32) -> TypeId {
        let scheme = self.schemes[index as usize].clone();
        let cost = 1 + scheme.unknowns.len() + scheme.rels.len();
        self.fuel = self.fuel.saturating_sub(cost as u64);
        if self.fuel == 0 {
            return self.error;
        }
        let mut fresh = FxHashMap::default();
        for &v in &scheme.unknowns {
            let u = &self.unknowns[v as usize];
            if !matches!(u.sol, Sol::Open) {
                continue;
            }
            let new = match u.sort {
                Sort::Type => Fresh::Type(self.fresh()),
                Sort::Shape => Fresh::Shape(self.fresh_shape()),
                Sort::DType => Fresh::DType(self.fresh_dtype(Lit::No)),
                Sort::Dim => Fresh::Dim(self.fresh_dim()),
            };
            fresh.insert(v, new);
        }
        let mut copy = Copy(&fresh);
        let ty = self.map_type(scheme.ty, &mut copy);
        let call = self.cur_call;
        for id in scheme.rels {
            let rel = self.queue.rels[id as usize].clone();
            if rel.state == State::Done {
                continue;
            }
            let args = (rel.args.iter())
                .map(|&t| self.map_type(t, &mut copy))
                .collect();
            let out = self.map_type(rel.out, &mut copy);
            let kind = match &rel.kind {
                RelKind::DimEq(a, b) => {
                    let (a, b) = (self.resolve_dim(a), self.resolve_dim(b));
                    RelKind::DimEq(copy.dim(&a), copy.dim(&b))
                }
                other => other.clone(),
            };
            self.cur_call = rel.call;
            self.add_rel(kind, args, out);
        }
        self.cur_call = call;
        self.schemes[index as usize].instances.push(ty);
        ty
    }

    /// Decides the types of let-bound functions, outer ones first, so that uses of inner functions
    /// are as determined as possible.
    pub fn close_schemes(&mut self, from: usize) {
        let mut made: Vec<Closed> = Vec::new();
        for i in (from..self.schemes.len()).rev() {
            let scheme = self.schemes[i].clone();
            let mut uses = Agreement::default();
            let mut agree = !scheme.instances.is_empty();
            // A use inside another polymorphic function that does not contain this one is a use at
            // every type.
            let (mut params, mut dims) = (Vec::new(), Vec::new());
            let assumed = self.assumptions.len();
            for outer in &made {
                if self.schemes[outer.scheme].inner > i {
                    params.extend_from_slice(&outer.params);
                    dims.extend_from_slice(&outer.dims);
                } else {
                    // That function contains this one, so its constraints hold here.
                    self.assumptions.extend_from_slice(&outer.relations);
                }
            }
            for &t in &scheme.instances {
                let t = self.resolve(t);
                let flags = self.flags(t);
                if flags & ERROR != 0 {
                    // A use with an erroneous type gives no information.
                    continue;
                }
                if (!params.is_empty() || !dims.is_empty()) && self.mentions(t, &params, &dims) {
                    agree = false;
                    continue;
                }
                agree = agree && uses.with(self, t);
            }
            if agree {
                for &t in &scheme.instances {
                    // They agree; those with errors were reported at their uses.
                    let _ = self.unify(scheme.ty, t);
                }
                self.solve_queue();
            }
            self.assumptions.truncate(assumed);
            if self.is_open(scheme.ty) {
                let before = (self.types.params.len(), self.new_dims.len());
                let ty = self.generalise(&[scheme.func], &scheme.unknowns, &scheme.rels);
                let params = (before.0..self.types.params.len()).map(TypeParamId::from_index);
                let dims = (before.1..self.new_dims.len())
                    .map(|d| DimVar::from_index(self.m.dims.len() + d));
                let relations = ty.first().map(|&ty| self.relations_of(ty));
                let relations = relations.unwrap_or_default();
                made.push(Closed {
                    scheme: i,
                    params: params.collect(),
                    dims: dims.collect(),
                    relations,
                });
                if let Some(&ty) = ty.first() {
                    self.var_ty[scheme.var.index()] = ty;
                }
            }
        }
    }

    /// Turns open unknowns into type parameters and waiting relations into constraints. Each
    /// function gets the parameters that occur in its type. Returns the types.
    pub fn generalise(&mut self, funcs: &[FuncId], unknowns: &[u32], rels: &[u32]) -> Vec<TypeId> {
        let mut params: Vec<TypeParamId> = Vec::new();
        let mut dims: Vec<DimVar> = Vec::new();
        let mut number = 0;
        for &v in unknowns {
            let u = &self.unknowns[v as usize];
            if !matches!(u.sol, Sol::Open) {
                continue;
            }
            if u.excused {
                // It is open because of an error: what depends on it is not checked.
                self.poison_unknown(v);
                continue;
            }
            let name = Symbol::new(&letter(number));
            number += 1;
            let sol = match u.sort {
                Sort::Dim => {
                    let var = DimVar::from_index(self.m.dims.len() + self.new_dims.len());
                    let span = relax_base::Span::NONE;
                    self.new_dims.push(DimInfo { name, span });
                    dims.push(var);
                    Sol::Dim(Dim::var(var))
                }
                sort => {
                    let kind = match sort {
                        Sort::Shape => Kind::Shape,
                        Sort::DType => Kind::BaseType,
                        _ => Kind::Type,
                    };
                    let p = self.types.param(name, kind);
                    params.push(p);
                    match sort {
                        Sort::Shape => Sol::Shape(Shape::Param(p)),
                        Sort::DType => Sol::DType(DTy::Param(p)),
                        _ => Sol::Type(self.types.intern(Type::Param(p))),
                    }
                }
            };
            // Set without waking any relation: the waiting relations become constraints.
            self.unknowns[v as usize].sol = sol;
        }
        let mut constraints: Vec<Constraint> = Vec::new();
        for &id in rels {
            let rel = self.queue.rels[id as usize].clone();
            if rel.state == State::Done {
                continue;
            }
            let Some(name) = self.rel_ref(&rel.kind) else {
                continue;
            };
            self.queue.rels[id as usize].state = State::Done;
            let args: Box<[TypeId]> = (rel.args.iter().chain([&rel.out]))
                .map(|&t| self.resolve(t))
                .collect();
            if args.iter().any(|&t| self.flags(t) & ERROR != 0) {
                let error = self.error;
                let _ = self.unify(rel.out, error);
                continue;
            }
            let c = Constraint { rel: name, args };
            if !constraints.contains(&c) {
                constraints.push(c);
            }
        }
        let mut types = Vec::new();
        for &f in funcs {
            let old = self.func_ty[f.index()];
            let old = self.resolve(old);
            let new = self.quantify(old, &params, &dims, &constraints);
            self.func_ty[f.index()] = new;
            types.push(new);
        }
        types
    }

    /// Returns the constraints of a function type, or of its result if that is a function.
    fn relations_of(&self, mut ty: TypeId) -> Box<[Constraint]> {
        while let Type::Func(f) = &self.types[ty] {
            if !f.constraints.is_empty() {
                return f.constraints.clone();
            }
            ty = f.ret;
        }
        Box::default()
    }

    /// Adds parameters to a function type, or to its result if the arguments do not mention them
    /// and the result is a function.
    fn quantify(
        &mut self,
        ty: TypeId,
        params: &[TypeParamId],
        dims: &[DimVar],
        constraints: &[Constraint],
    ) -> TypeId {
        if params.is_empty() && dims.is_empty() {
            return ty;
        }
        let Type::Func(f) = self.types[ty].clone() else {
            return ty;
        };
        let inner = f.params.is_empty()
            && matches!(&self.types[f.ret], Type::Func(r) if r.params.is_empty())
            && !f.args.iter().any(|&a| self.mentions(a, params, dims));
        let new = if inner {
            let ret = self.quantify(f.ret, params, dims, constraints);
            FuncType { ret, ..*f }
        } else {
            let mut own = f.constraints.to_vec();
            for c in constraints {
                if !own.contains(c) {
                    own.push(c.clone());
                }
            }
            FuncType {
                params: f.params.iter().chain(params).copied().collect(),
                dims: f.dims.iter().chain(dims).copied().collect(),
                constraints: own.into(),
                ..*f
            }
        };
        let new = self.types.intern(Type::Func(Box::new(new)));
        self.quantified.insert(ty, new);
        new
    }

    /// Returns whether a type mentions one of these parameters.
    pub fn mentions(&mut self, t: TypeId, params: &[TypeParamId], dims: &[DimVar]) -> bool {
        let mut stack = vec![t];
        let mut seen = FxHashSet::default();
        while let Some(t) = stack.pop() {
            if !seen.insert(t) {
                continue;
            }
            let in_shape = |s: &Shape| match s {
                Shape::Param(p) => params.contains(p),
                Shape::Dims(d) => d
                    .iter()
                    .any(|d| d.free_vars().iter().any(|v| dims.contains(v))),
                _ => false,
            };
            let hit = match &self.types[t] {
                Type::Param(p) => params.contains(p),
                Type::Shape(s) => in_shape(s),
                Type::Tensor(t) => {
                    in_shape(&t.shape) || matches!(t.dtype, DTy::Param(p) if params.contains(&p))
                }
                _ => false,
            };
            if hit {
                return true;
            }
            stack.extend(self.types.children(t));
        }
        false
    }
}

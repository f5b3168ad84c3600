//! `rel` items as relations: argument patterns are matched against the known types, and the result
//! pattern is built from the bindings.

use relax_ir::{
    DTy, DTypePattern, RelId, RelationDef, Shape, ShapeItem, ShapePattern, TensorType, Type,
    TypeId, TypeParamId, TypePattern,
};
use relax_ops::{RelCx, RelResult, Stop, Subject};
use relax_sym::{Atom, Dim, DimVar};
use rustc_hash::FxHashMap;

use crate::relations::{count_message, refusal};
use crate::solver::Solver;
use crate::unknown::Lit;
use crate::way::Way;

/// The bindings of the variables of a relation in one run.
#[derive(Default)]
struct Bindings {
    types: FxHashMap<TypeParamId, TypeId>,
    shapes: FxHashMap<TypeParamId, Vec<Dim>>,
    dtypes: FxHashMap<TypeParamId, DTy>,
    dims: FxHashMap<DimVar, Dim>,
}

impl Bindings {
    /// Returns a dimension expression with the bound variables substituted; `None` while one is
    /// free.
    fn dim(&self, d: &Dim, own: &[DimVar]) -> Option<Dim> {
        let free = d.free_vars();
        let bound = |v: &DimVar| !own.contains(v) || self.dims.contains_key(v);
        free.iter().all(bound).then(|| {
            d.substitute(&|atom| match atom {
                Atom::Var(v) => self.dims.get(&v).cloned(),
                Atom::Infer(_) => None,
            })
        })
    }
}

/// `a[from:to]` with Python's semantics.
fn slice(dims: &[Dim], from: Option<i64>, to: Option<i64>) -> &[Dim] {
    let n = dims.len() as i64;
    let place = |i: i64| (if i < 0 { i.saturating_add(n) } else { i }).clamp(0, n) as usize;
    let (from, to) = (from.map_or(0, place), to.map_or(dims.len(), place));
    dims.get(from..to).unwrap_or(&[])
}

impl Solver<'_> {
    /// Runs a `rel` item once.
    pub fn run_user_relation(&mut self, id: RelId, args: &[TypeId], out: TypeId) -> RelResult {
        let m = self.m;
        let def = &m.relations[id];
        if def.args.len() != args.len() {
            return Err(refusal(
                Subject::Call,
                count_message(def.name.as_str(), def.args.len(), args.len()),
            ));
        }
        let mut b = Bindings::default();
        for (i, (pattern, &arg)) in def.args.iter().zip(args).enumerate() {
            self.match_pattern(def, pattern, arg, Subject::Arg(i), &mut b)?;
        }
        let result = self.build_type(def, &def.ret, &mut b)?;
        if self.unify_as(out, result, Way::From).is_err() {
            let (want, have) = (self.show_type(result), self.show_type(out));
            return Err(refusal(
                Subject::Result,
                format!("`{}` gives {want}, but the result is {have}", def.name),
            ));
        }
        Ok(())
    }

    fn mismatch<T>(&self, def: &RelationDef, subject: Subject, ty: TypeId) -> RelResult<T> {
        Err(refusal(
            subject,
            format!("`{}` does not hold for {}", def.name, self.show_type(ty)),
        ))
    }

    fn match_pattern(
        &mut self,
        def: &RelationDef,
        pattern: &TypePattern,
        ty: TypeId,
        subject: Subject,
        b: &mut Bindings,
    ) -> RelResult {
        let mut work = vec![(pattern, ty)];
        while let Some((pattern, ty)) = work.pop() {
            let ty = self.resolve(ty);
            match (pattern, self.types[ty].clone()) {
                (TypePattern::Any, _) | (_, Type::Error) => {}
                (TypePattern::Param(p), _) => match b.types.get(p) {
                    None => {
                        b.types.insert(*p, ty);
                    }
                    Some(&first) => {
                        if self.unify(ty, first).is_err() {
                            let (x, y) = (self.show_type(first), self.show_type(ty));
                            let name = self.types.params[*p].name;
                            return Err(refusal(
                                subject,
                                format!(
                                    "`{}` asks for one type `{name}`, but it is {x} and {y}",
                                    def.name
                                ),
                            ));
                        }
                    }
                },
                (_, Type::Infer(_)) => return Err(Stop::Wait),
                (TypePattern::Tensor(shape, dtype), Type::Tensor(t)) => {
                    self.match_shape_pattern(def, shape, &t.shape, &subject, ty, b)?;
                    match dtype {
                        DTypePattern::Any => {}
                        DTypePattern::Known(d) => {
                            if self.unify_dtype(t.dtype, DTy::Known(*d)).is_err() {
                                return self.mismatch(def, subject, ty);
                            }
                        }
                        DTypePattern::Param(p) => match b.dtypes.get(p) {
                            None => {
                                b.dtypes.insert(*p, t.dtype);
                            }
                            Some(&first) => {
                                if self.unify_dtype(t.dtype, first).is_err() {
                                    return self.mismatch(def, subject, ty);
                                }
                            }
                        },
                    }
                }
                (TypePattern::Shape(shape), Type::Shape(s)) => {
                    self.match_shape_pattern(def, shape, &s, &subject, ty, b)?;
                }
                (TypePattern::Tuple(parts), Type::Tuple(fields)) if parts.len() == fields.len() => {
                    work.extend(parts.iter().zip(fields.iter().copied()).rev());
                }
                (TypePattern::Adt(adt, parts), Type::Adt(other, args))
                    if *adt == other && parts.len() == args.len() =>
                {
                    work.extend(parts.iter().zip(args.iter().copied()).rev());
                }
                _ => return self.mismatch(def, subject, ty),
            }
        }
        Ok(())
    }

    fn same_dim(
        &mut self,
        def: &RelationDef,
        have: &Dim,
        want: &Dim,
        subject: &Subject,
    ) -> RelResult {
        self.unify_extent(have, want).map_err(|(x, y)| {
            let (x, y) = (self.show_extent(&x), self.show_extent(&y));
            refusal(
                subject.clone(),
                format!("`{}` asks for equal dimensions, not {x} and {y}", def.name),
            )
        })
    }

    fn match_shape_pattern(
        &mut self,
        def: &RelationDef,
        pattern: &ShapePattern,
        shape: &Shape,
        subject: &Subject,
        ty: TypeId,
        b: &mut Bindings,
    ) -> RelResult {
        if *pattern == ShapePattern::Any {
            return Ok(());
        }
        let Shape::Dims(dims) = self.resolve_shape(shape) else {
            return Err(Stop::Wait);
        };
        match pattern {
            ShapePattern::Any => Ok(()),
            ShapePattern::Param(p) => self.bind_shape(def, *p, &dims, subject, ty, b),
            ShapePattern::Broadcast(_) => {
                let want = self.build_shape(def, pattern, b)?;
                self.equal_shapes(def, &dims, &want, subject, ty)
            }
            ShapePattern::Items(items) => {
                let rest = (items.iter())
                    .position(|i| matches!(i, ShapeItem::Rest(p) if !b.shapes.contains_key(p)));
                // Items before `*rest` from the front, items after it from the back.
                let (front, back) = match rest {
                    Some(at) => (&items[..at], &items[at + 1..]),
                    None => (&items[..], &[][..]),
                };
                let mut used = 0;
                for item in front {
                    used += self.match_item(def, item, &dims[used..], subject, ty, b)?;
                }
                let mut end = dims.len();
                for item in back.iter().rev() {
                    if end <= used {
                        return self.mismatch(def, subject.clone(), ty);
                    }
                    self.match_item(def, item, &dims[end - 1..end], subject, ty, b)?;
                    end -= 1;
                }
                match rest.map(|at| &items[at]) {
                    Some(ShapeItem::Rest(p)) => {
                        b.shapes.insert(*p, dims[used..end].to_vec());
                        Ok(())
                    }
                    _ if used == dims.len() => Ok(()),
                    _ => self.mismatch(def, subject.clone(), ty),
                }
            }
        }
    }

    /// Matches one item; returns the number of dimensions that it covers.
    fn match_item(
        &mut self,
        def: &RelationDef,
        item: &ShapeItem,
        dims: &[Dim],
        subject: &Subject,
        ty: TypeId,
        b: &mut Bindings,
    ) -> RelResult<usize> {
        if let ShapeItem::Dim(want) = item {
            let Some(have) = dims.first() else {
                return self.mismatch(def, subject.clone(), ty);
            };
            if let Some(Atom::Var(v)) = want.as_atom()
                && def.dims.contains(&v)
                && !b.dims.contains_key(&v)
            {
                b.dims.insert(v, have.clone());
                return Ok(1);
            }
            let Some(want) = b.dim(want, &def.dims) else {
                return Err(Stop::Wait);
            };
            self.same_dim(def, have, &want, subject)?;
            return Ok(1);
        }
        let want = self.build_items(def, std::slice::from_ref(item), b)?;
        if want.len() > dims.len() {
            return self.mismatch(def, subject.clone(), ty);
        }
        for (have, want) in dims.iter().zip(&want) {
            self.same_dim(def, have, want, subject)?;
        }
        Ok(want.len())
    }

    fn bind_shape(
        &mut self,
        def: &RelationDef,
        p: TypeParamId,
        dims: &[Dim],
        subject: &Subject,
        ty: TypeId,
        b: &mut Bindings,
    ) -> RelResult {
        match b.shapes.get(&p).cloned() {
            None => {
                b.shapes.insert(p, dims.to_vec());
                Ok(())
            }
            Some(first) => self.equal_shapes(def, dims, &first, subject, ty),
        }
    }

    fn equal_shapes(
        &mut self,
        def: &RelationDef,
        have: &[Dim],
        want: &[Dim],
        subject: &Subject,
        ty: TypeId,
    ) -> RelResult {
        if have.len() != want.len() {
            return self.mismatch(def, subject.clone(), ty);
        }
        for (have, want) in have.iter().zip(want) {
            self.same_dim(def, have, want, subject)?;
        }
        Ok(())
    }

    fn bound<'b>(
        &self,
        def: &RelationDef,
        p: TypeParamId,
        b: &'b Bindings,
    ) -> RelResult<&'b [Dim]> {
        match b.shapes.get(&p) {
            Some(dims) => Ok(dims),
            None => Err(refusal(
                Subject::Call,
                format!(
                    "`{}` uses the shape `{}`, which its arguments do not bind",
                    def.name, self.types.params[p].name
                ),
            )),
        }
    }

    fn build_items(
        &self,
        def: &RelationDef,
        items: &[ShapeItem],
        b: &Bindings,
    ) -> RelResult<Vec<Dim>> {
        let mut out = Vec::new();
        for item in items {
            match item {
                ShapeItem::Dim(d) => match b.dim(d, &def.dims) {
                    Some(d) => out.push(d),
                    None => {
                        return Err(refusal(
                            Subject::Call,
                            format!("`{}` uses a dimension that nothing binds", def.name),
                        ));
                    }
                },
                ShapeItem::Rest(p) => out.extend_from_slice(self.bound(def, *p, b)?),
                ShapeItem::Prod(p) => out.push(self.bound(def, *p, b)?.iter().cloned().product()),
                ShapeItem::Pick(p, i) => {
                    let dims = self.bound(def, *p, b)?;
                    let n = dims.len() as i64;
                    let at = if *i < 0 { i.saturating_add(n) } else { *i };
                    match usize::try_from(at).ok().and_then(|i| dims.get(i)) {
                        Some(d) => out.push(d.clone()),
                        None => {
                            return Err(refusal(
                                Subject::Call,
                                format!("`{}` asks for axis {i} of a shape of rank {n}", def.name),
                            ));
                        }
                    }
                }
                ShapeItem::Slice(p, from, to) => {
                    out.extend_from_slice(slice(self.bound(def, *p, b)?, *from, *to));
                }
                ShapeItem::ProdSlice(p, from, to) => {
                    let part = slice(self.bound(def, *p, b)?, *from, *to);
                    out.push(part.iter().cloned().product());
                }
            }
        }
        Ok(out)
    }

    /// Returns the dimensions of a pattern. The nesting depth of broadcasts is bounded by the
    /// parser's; they are processed on a worklist, with results in order of completion.
    fn build_shape(
        &mut self,
        def: &RelationDef,
        pattern: &ShapePattern,
        b: &mut Bindings,
    ) -> RelResult<Vec<Dim>> {
        let mut work = vec![(pattern, false)];
        let mut done: Vec<Vec<Dim>> = Vec::new();
        while let Some((pattern, ready)) = work.pop() {
            match pattern {
                ShapePattern::Items(items) => done.push(self.build_items(def, items, b)?),
                ShapePattern::Param(p) => done.push(self.bound(def, *p, b)?.to_vec()),
                ShapePattern::Any => {
                    return Err(refusal(
                        Subject::Call,
                        format!("`{}` broadcasts a shape that nothing binds", def.name),
                    ));
                }
                ShapePattern::Broadcast(pair) if !ready => {
                    work.push((pattern, true));
                    work.push((&pair.1, false));
                    work.push((&pair.0, false));
                }
                ShapePattern::Broadcast(_) => {
                    let (Some(y), Some(x)) = (done.pop(), done.pop()) else {
                        return Err(Stop::Wait);
                    };
                    let (out, attrs) = (self.unit, self.m.attrs(relax_ir::AttrsId::NONE));
                    let mut cx = RelCx {
                        host: self,
                        name: def.name.as_str(),
                        args: &[],
                        out,
                        attrs,
                    };
                    let dims = cx.broadcast(&x, &y)?;
                    done.push(dims);
                }
            }
        }
        done.pop().ok_or(Stop::Wait)
    }

    fn build_type(
        &mut self,
        def: &RelationDef,
        pattern: &TypePattern,
        b: &mut Bindings,
    ) -> RelResult<TypeId> {
        let mut work = vec![(pattern, false)];
        let mut done: Vec<TypeId> = Vec::new();
        while let Some((pattern, ready)) = work.pop() {
            let ty = match pattern {
                TypePattern::Tensor(shape, dtype) => {
                    let shape = match shape {
                        ShapePattern::Any => self.fresh_shape(),
                        s => Shape::Dims(self.build_shape(def, s, b)?.into()),
                    };
                    let dtype = match dtype {
                        DTypePattern::Known(d) => DTy::Known(*d),
                        DTypePattern::Any => self.fresh_dtype(Lit::No),
                        DTypePattern::Param(p) => match b.dtypes.get(p) {
                            Some(d) => *d,
                            None => {
                                let d = self.fresh_dtype(Lit::No);
                                b.dtypes.insert(*p, d);
                                d
                            }
                        },
                    };
                    self.types.intern(Type::Tensor(TensorType { shape, dtype }))
                }
                TypePattern::Shape(shape) => {
                    let shape = match shape {
                        ShapePattern::Any => self.fresh_shape(),
                        s => Shape::Dims(self.build_shape(def, s, b)?.into()),
                    };
                    self.types.intern(Type::Shape(shape))
                }
                TypePattern::Param(p) => match b.types.get(p) {
                    Some(&t) => t,
                    None => {
                        let t = self.fresh();
                        b.types.insert(*p, t);
                        t
                    }
                },
                TypePattern::Any => self.fresh(),
                TypePattern::Tuple(parts) | TypePattern::Adt(_, parts) if !ready => {
                    work.push((pattern, true));
                    work.extend(parts.iter().rev().map(|p| (p, false)));
                    continue;
                }
                TypePattern::Tuple(parts) => {
                    let fields = done.split_off(done.len() - parts.len());
                    self.types.tuple(fields)
                }
                TypePattern::Adt(adt, parts) => {
                    let args = done.split_off(done.len() - parts.len());
                    self.types.intern(Type::Adt(*adt, args.into()))
                }
            };
            done.push(ty);
        }
        done.pop().ok_or(Stop::Wait)
    }
}

//! Replaces type parameters and dimension variables in calls of polymorphic functions.

use relax_base::Id;
use relax_ir::{DTy, FuncType, Kind, Shape, Type, TypeId, TypeParamId};
use relax_sym::{Atom, Dim};

use crate::flags::{INFER, PARAM};
use crate::map::{Leaf, Mapper, map_dims};
use crate::subst::{Subst, find};
use crate::unifier::Unifier;
use crate::unknown::Lit;
use crate::way::Way;

impl Mapper for &Subst {
    fn wants(&self, flags: u8) -> bool {
        flags & (PARAM | INFER) != 0
    }
    fn leaf(&mut self, s: &mut Unifier<'_>, ty: &Type) -> Leaf {
        match ty {
            Type::Param(p) => find(&self.types, p).map_or(Leaf::Keep, Leaf::Is),
            Type::Infer(v) => match s.unknowns[v.index()].sol {
                crate::unknown::Sol::Type(t) => Leaf::Look(t),
                _ => Leaf::Keep,
            },
            _ => Leaf::Keep,
        }
    }
    fn shape(&mut self, s: &mut Unifier<'_>, shape: &Shape) -> Shape {
        match s.resolve_shape(shape) {
            Shape::Param(p) => find(&self.shapes, &p).unwrap_or(Shape::Param(p)),
            other if self.dims.is_empty() => other,
            other => map_dims(&other, |d| {
                d.substitute(&|atom| match atom {
                    Atom::Var(v) => find(&self.dims, &v),
                    Atom::Infer(_) => None,
                })
            }),
        }
    }
    fn dtype(&mut self, s: &mut Unifier<'_>, dtype: DTy) -> DTy {
        match s.head_dtype(dtype) {
            DTy::Param(p) => find(&self.dtypes, &p).unwrap_or(DTy::Param(p)),
            other => other,
        }
    }
}

/// A function type whose parameters were replaced by unknowns (or given type arguments).
pub(crate) struct Instance {
    /// The function type, without parameters.
    pub ty: TypeId,
    /// The types that replaced the parameters, in their order.
    pub args: Box<[TypeId]>,
    pub subst: Subst,
}

impl Unifier<'_> {
    /// Substitutes parameters.
    pub fn substitute(&mut self, t: TypeId, subst: &Subst) -> TypeId {
        let mut mapper = subst;
        self.map_type(t, &mut mapper)
    }

    /// Converts a type argument to the type that replaces a parameter of its kind, and records the
    /// substitution. Shapes and element types are passed as `Shape[…]` and scalar types.
    fn push_type_arg(&mut self, subst: &mut Subst, p: TypeParamId, arg: Option<TypeId>) -> TypeId {
        match self.types.params[p].kind {
            Kind::Shape => {
                let shape = match arg.map(|a| &self.types[a]) {
                    Some(Type::Shape(s)) => s.clone(),
                    Some(Type::Tensor(t)) => t.shape.clone(),
                    _ => self.fresh_shape(),
                };
                subst.shapes.push((p, shape.clone()));
                self.types.intern(Type::Shape(shape))
            }
            Kind::BaseType => {
                let dtype = match arg.map(|a| &self.types[a]) {
                    Some(Type::Tensor(t)) => t.dtype,
                    _ => self.fresh_dtype(Lit::No),
                };
                subst.dtypes.push((p, dtype));
                self.types.scalar(dtype)
            }
            Kind::Type | Kind::ShapeVar => {
                let t = arg.unwrap_or_else(|| self.fresh());
                subst.types.push((p, t));
                t
            }
        }
    }

    /// Returns the first type argument that is not of its parameter's kind.
    pub fn wrong_kind(&self, ty: TypeId, given: &[TypeId]) -> Option<(usize, TypeId, Kind)> {
        let Type::Func(f) = &self.types[ty] else {
            return None;
        };
        let kinds = (f.params.iter().map(|&p| self.types.params[p].kind))
            .chain(f.dims.iter().map(|_| Kind::ShapeVar));
        (given.iter().zip(kinds).enumerate()).find_map(|(i, (&t, kind))| {
            let fits = match (&self.types[t], kind) {
                (Type::Infer(_) | Type::Error, _) | (_, Kind::Type) => true,
                (Type::Shape(_), Kind::Shape) => true,
                (Type::Tensor(t), Kind::BaseType) => t.shape.dims().is_some_and(|d| d.is_empty()),
                (Type::Shape(s), Kind::ShapeVar) => s.dims().is_some_and(|d| d.len() == 1),
                _ => false,
            };
            (!fits).then_some((i, t, kind))
        })
    }

    /// Replaces the parameters of a function type by the given type arguments, and by unknowns if
    /// there are fewer. `None` if it has no parameters, or is not a function type.
    pub fn instantiate_func(&mut self, ty: TypeId, given: &[TypeId]) -> Option<Instance> {
        let Type::Func(f) = &self.types[ty] else {
            return None;
        };
        if f.params.is_empty() && f.dims.is_empty() {
            return None;
        }
        let f: FuncType = (**f).clone();
        let mut subst = Subst::default();
        let args = (f.params.iter().enumerate())
            .map(|(i, &p)| self.push_type_arg(&mut subst, p, given.get(i).copied()))
            .collect();
        let extra = given.get(f.params.len()..).unwrap_or_default();
        for (i, &v) in f.dims.iter().enumerate() {
            let named = extra.get(i).map(|&t| &self.types[t]);
            let dim = match named {
                Some(Type::Shape(Shape::Dims(d))) if d.len() == 1 => d[0].clone(),
                _ => self.fresh_dim(),
            };
            subst.dims.push((v, dim));
        }
        self.fuel = self.fuel.saturating_sub(1 + f.constraints.len() as u64);
        let bare = FuncType {
            params: Box::default(),
            dims: Box::default(),
            ..f
        };
        let bare = self.types.intern(Type::Func(Box::new(bare)));
        let ty = self.substitute(bare, &subst);
        Some(Instance { ty, args, subst })
    }

    /// Renames the parameters of two polymorphic function types to the same ones, so that their
    /// components can be unified. Parameters that only one of them has become unknowns.
    pub fn align_binders(&mut self, a: TypeId, b: TypeId, way: Way) -> (TypeId, TypeId) {
        let (Type::Func(x), Type::Func(y)) = (&self.types[a], &self.types[b]) else {
            return (a, b);
        };
        let (x, y) = ((**x).clone(), (**y).clone());
        if x.params.len() < y.params.len() || x.dims.len() < y.dims.len() {
            let (b_new, left) = self.align_to(y, x);
            if way.keeps_second() {
                self.keep(left, a, b);
            }
            return (a, b_new);
        }
        let (a_new, left) = self.align_to(x, y);
        if way.keeps_first() {
            self.keep(left, a, b);
        }
        (a_new, b)
    }

    /// Replaces the parameters of `more` by those of `fewer`, as many as there are, and the rest by
    /// unknowns, which it returns too.
    fn align_to(&mut self, more: FuncType, fewer: FuncType) -> (TypeId, Subst) {
        let (mut subst, mut left) = (Subst::default(), Subst::default());
        for (i, &p) in more.params.iter().enumerate() {
            let kind = self.types.params[p].kind;
            let partner = fewer.params.get(i).copied();
            match partner.filter(|q| self.types.params[*q].kind == kind) {
                Some(q) => match kind {
                    Kind::Shape => subst.shapes.push((p, Shape::Param(q))),
                    Kind::BaseType => subst.dtypes.push((p, DTy::Param(q))),
                    Kind::Type | Kind::ShapeVar => {
                        let t = self.types.intern(Type::Param(q));
                        subst.types.push((p, t));
                    }
                },
                None => {
                    self.push_type_arg(&mut left, p, None);
                }
            }
        }
        for (i, &v) in more.dims.iter().enumerate() {
            let dim = match fewer.dims.get(i) {
                Some(&w) => Dim::var(w),
                None => {
                    let dim = self.fresh_dim();
                    left.dims.push((v, dim.clone()));
                    dim
                }
            };
            subst.dims.push((v, dim));
        }
        subst.types.extend(left.types.iter().cloned());
        subst.shapes.extend(left.shapes.iter().cloned());
        subst.dtypes.extend(left.dtypes.iter().cloned());
        let bare = FuncType {
            params: Box::default(),
            dims: Box::default(),
            ..more
        };
        let bare = self.types.intern(Type::Func(Box::new(bare)));
        (self.substitute(bare, &subst), left)
    }
}

//! Flags of types, computed once per type on first use.

use relax_base::Id;
use relax_ir::{DTy, Kind, Module, Shape, Type, TypeArena, TypeId};
use relax_sym::Dim;

/// Contains an unknown of inference.
pub(crate) const INFER: u8 = 1;
/// Contains the error type.
pub(crate) const ERROR: u8 = 2;
/// Contains a type parameter or a dimension variable.
pub(crate) const PARAM: u8 = 4;
/// Contains `?` or `_`.
pub(crate) const COARSE: u8 = 8;
/// Contains a shape that no tensor can have.
pub(crate) const BAD_SHAPE: u8 = 16;
/// Contains a parameter of the wrong kind, or a data type with too few or too many arguments.
pub(crate) const BAD_KIND: u8 = 32;

/// The flags of all types, by id.
#[derive(Clone, Default, Debug)]
pub(crate) struct Flags {
    of: Vec<u8>,
}

impl Flags {
    /// The flags of a type.
    #[inline]
    pub fn get(&mut self, types: &TypeArena, m: &Module, t: TypeId) -> u8 {
        if t.index() >= self.of.len() {
            self.extend(types, m);
        }
        self.of[t.index()]
    }

    #[cold]
    fn extend(&mut self, types: &TypeArena, m: &Module) {
        // Types that a type is made of have smaller ids, so one upward sweep is enough.
        for i in self.of.len()..types.len() {
            let flags = self.compute(types, m, TypeId::from_index(i));
            self.of.push(flags);
        }
    }

    /// The flags of a type that was asked about, or that is part of one.
    pub fn known(&self, t: TypeId) -> u8 {
        self.of.get(t.index()).copied().unwrap_or(0)
    }

    fn compute(&self, types: &TypeArena, m: &Module, t: TypeId) -> u8 {
        let of = |t: &TypeId| self.of[t.index()];
        let all = |ts: &[TypeId]| ts.iter().fold(0, |f, t| f | of(t));
        match &types[t] {
            Type::Tensor(t) => shape(types, &t.shape) | dtype(types, t.dtype),
            Type::Shape(s) => shape(types, s) & !BAD_SHAPE,
            Type::Tuple(fields) => all(fields),
            Type::Adt(adt, args) => {
                let fits = m
                    .adts
                    .get(*adt)
                    .is_none_or(|a| a.params.len() == args.len());
                all(args) | if fits { 0 } else { BAD_KIND }
            }
            Type::Func(f) => {
                let rels = f.constraints.iter().fold(0, |x, c| x | all(&c.args));
                all(&f.args) | of(&f.ret) | rels
            }
            Type::Ref(t) => of(t),
            Type::Object => 0,
            Type::Param(p) => kind(types, *p, Kind::Type),
            Type::Infer(_) => INFER,
            Type::Error => ERROR,
        }
    }
}

fn kind(types: &TypeArena, p: relax_ir::TypeParamId, want: Kind) -> u8 {
    PARAM
        | if types.params[p].kind == want {
            0
        } else {
            BAD_KIND
        }
}

fn shape(types: &TypeArena, s: &Shape) -> u8 {
    match s {
        Shape::Dims(dims) => dims_flags(dims),
        Shape::Unknown => COARSE,
        Shape::Param(p) => kind(types, *p, Kind::Shape),
        Shape::Infer(_) => INFER,
    }
}

fn dims_flags(dims: &[Dim]) -> u8 {
    let mut flags = 0;
    let mut count = Some(1i64);
    let mut empty = false;
    for d in dims {
        match d.as_const() {
            Some(v) if v < 0 => flags |= BAD_SHAPE,
            Some(0) => empty = true,
            Some(v) => count = count.and_then(|c| c.checked_mul(v)),
            None if d.is_any() => flags |= COARSE,
            None if d.error().is_some() => flags |= BAD_SHAPE | COARSE,
            None => {
                if d.has_infer() {
                    flags |= INFER;
                }
                flags |= PARAM;
            }
        }
    }
    if count.is_none() && !empty {
        flags |= BAD_SHAPE;
    }
    flags
}

fn dtype(types: &TypeArena, d: DTy) -> u8 {
    match d {
        DTy::Known(_) => 0,
        DTy::Unknown => COARSE,
        DTy::Param(p) => kind(types, p, Kind::BaseType),
        DTy::Infer(_) => INFER,
    }
}

//! The requirements on values from outside, part by part, as data: inside a program, inference
//! guarantees them, but a caller from C may pass anything.
//!
//! Extents are not included: an entry checks some of them, and kernels check those of all their
//! operands.

use relax_ir::{AdtId, Module, Type, TypeId, TypeParamId};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

/// The form of a value, over parts that are nodes of the same [`Described`].
#[derive(Clone, PartialEq, Debug)]
pub enum Part {
    /// Anything.
    Any,
    /// The same as another part.
    Same(u32),
    /// A tensor of this rank and element type, as far as they are known.
    Tensor(Option<u32>, Option<DType>),
    /// A shape of such a rank.
    Shape(Option<u32>),
    /// A tuple of these fields.
    Tuple(Vec<u32>),
    /// An instance of a data type: the fields of each constructor.
    Adt(Vec<Vec<u32>>),
    /// A function with this number of parameters.
    Closure(u32),
    /// A reference cell.
    Cell(u32),
}

/// A type with all types in it. The first part is the whole; data types refer back to themselves.
#[derive(Clone, PartialEq, Debug)]
pub struct Described(pub Vec<Part>);

/// A data type may contain ever larger instances of itself: beyond this number of parts, anything
/// is accepted.
const MOST: usize = 1 << 12;

/// The parts that type parameters are instantiated with.
type Env = Vec<(TypeParamId, u32)>;

struct Describe<'m> {
    m: &'m Module,
    parts: Vec<Part>,
    /// Types under an instantiation of parameters.
    known: FxHashMap<(TypeId, Env), u32>,
    instances: FxHashMap<(AdtId, Vec<u32>), u32>,
    work: Vec<(u32, TypeId, Env)>,
}

/// Describes a type. `None` where the kind of the whole value is the only requirement.
pub(crate) fn describe(m: &Module, ty: TypeId) -> Option<Described> {
    let known = (ty.0 as usize) < m.types.len();
    let simple = |ty: TypeId| {
        matches!(
            m.types[ty],
            Type::Tensor(_) | Type::Shape(_) | Type::Object | Type::Param(_) | Type::Error
        )
    };
    (known && !simple(ty)).then(|| all_of(m, ty))
}

/// Describes a type of any kind.
pub(crate) fn all_of(m: &Module, ty: TypeId) -> Described {
    let mut d = Describe {
        m,
        parts: Vec::new(),
        known: FxHashMap::default(),
        instances: FxHashMap::default(),
        work: Vec::new(),
    };
    d.part(ty, &Env::new());
    while let Some((at, ty, env)) = d.work.pop() {
        d.parts[at as usize] = d.resolve(at, ty, &env);
    }
    Described(d.parts)
}

impl<'m> Describe<'m> {
    /// Returns a type; `None` for one that inference left undetermined.
    fn ty(&self, id: TypeId) -> Option<&'m Type> {
        ((id.0 as usize) < self.m.types.len()).then(|| &self.m.types[id])
    }

    /// Returns the part for a type, which is resolved later.
    fn part(&mut self, ty: TypeId, env: &Env) -> u32 {
        if let Some(Type::Param(p)) = self.ty(ty)
            && let Some((_, part)) = env.iter().find(|e| e.0 == *p)
        {
            return *part;
        }
        if let Some(&at) = self.known.get(&(ty, env.clone())) {
            return at;
        }
        let at = self.parts.len() as u32;
        self.parts.push(Part::Any);
        if self.parts.len() < MOST {
            self.known.insert((ty, env.clone()), at);
            self.work.push((at, ty, env.clone()));
        }
        at
    }

    fn all(&mut self, types: &[TypeId], env: &Env) -> Vec<u32> {
        types.iter().map(|&t| self.part(t, env)).collect()
    }

    fn resolve(&mut self, at: u32, ty: TypeId, env: &Env) -> Part {
        let m = self.m;
        match self.ty(ty) {
            Some(Type::Tensor(t)) => {
                let rank = t.shape.dims().map(|d| d.len() as u32);
                Part::Tensor(rank, t.dtype.known())
            }
            Some(Type::Shape(s)) => Part::Shape(s.dims().map(|d| d.len() as u32)),
            Some(Type::Tuple(fields)) => Part::Tuple(self.all(fields, env)),
            Some(Type::Func(f)) => Part::Closure(f.args.len() as u32),
            Some(Type::Ref(inner)) => Part::Cell(self.part(*inner, env)),
            Some(Type::Adt(adt, args)) if !m.adts[*adt].opaque => {
                let args = self.all(args, env);
                if let Some(&same) = self.instances.get(&(*adt, args.clone())) {
                    return Part::Same(same);
                }
                let data = &m.adts[*adt];
                let env: Env = data
                    .params
                    .iter()
                    .copied()
                    .zip(args.iter().copied())
                    .collect();
                self.instances.insert((*adt, args), at);
                let fields = |c: &relax_ir::CtorId| self.all(&m.ctors[*c].fields, &env);
                Part::Adt(data.ctors.iter().map(fields).collect())
            }
            _ => Part::Any,
        }
    }
}

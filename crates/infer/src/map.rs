//! Rebuilding types: filling in solutions, instantiating parameters, erasing dimensions.
//!
//! Invariant: works on an explicit stack and visits each distinct type once, so that neither deep
//! nor heavily shared types cost more than their number of nodes.

use relax_base::Id;
use relax_ir::{DTy, FuncType, Shape, TensorType, Type, TypeId};
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::flags::INFER;
use crate::unifier::Unifier;
use crate::unknown::Sol;

/// The maximum number of components of one type to rebuild; larger types cannot be checked. (A type
/// that doubles with each function of a chain reaches it in eighteen.)
const LARGEST: usize = 1 << 18;

/// The replacement of an unknown or a type parameter.
pub(crate) enum Leaf {
    /// It is kept.
    Keep,
    /// It is replaced by this type.
    Is(TypeId),
    /// It is replaced by this type, which is rebuilt in turn.
    Look(TypeId),
}

/// A way of rebuilding types.
pub(crate) trait Mapper {
    /// Returns whether a type with these [`flags`](crate::flags) may change at all.
    fn wants(&self, flags: u8) -> bool;
    /// Maps an unknown or a parameter in the position of a type.
    fn leaf(&mut self, s: &mut Unifier<'_>, ty: &Type) -> Leaf;
    /// Maps a shape.
    fn shape(&mut self, s: &mut Unifier<'_>, shape: &Shape) -> Shape;
    /// Maps an element type.
    fn dtype(&mut self, s: &mut Unifier<'_>, dtype: DTy) -> DTy;
    /// Maps a function type, after its components were rebuilt.
    fn func(&mut self, _: &mut Unifier<'_>, f: FuncType) -> FuncType {
        f
    }
}

/// Applies `f` to the dimensions of a shape.
pub(crate) fn map_dims(shape: &Shape, mut f: impl FnMut(&Dim) -> Dim) -> Shape {
    match shape {
        Shape::Dims(dims) => Shape::Dims(dims.iter().map(&mut f).collect()),
        other => other.clone(),
    }
}

impl Unifier<'_> {
    /// Rebuilds a type.
    pub fn map_type(&mut self, root: TypeId, m: &mut dyn Mapper) -> TypeId {
        if !m.wants(self.flags(root)) {
            return root;
        }
        if let Type::Tensor(t) = &self.types[root] {
            let t = t.clone();
            return self.map_tensor(&t, m);
        }
        self.map_type_with(root, m, &mut FxHashMap::default())
    }

    /// The same, memoised across types that share components; the mapper's answers must not have
    /// changed in between.
    pub fn map_type_with(
        &mut self,
        root: TypeId,
        m: &mut dyn Mapper,
        done: &mut FxHashMap<TypeId, TypeId>,
    ) -> TypeId {
        let known = done.len();
        let mut stack = vec![root];
        while let Some(&t) = stack.last() {
            if done.contains_key(&t) {
                stack.pop();
                continue;
            }
            let new = match self.types[t].clone() {
                ty @ (Type::Infer(_) | Type::Param(_)) => match m.leaf(self, &ty) {
                    Leaf::Keep => t,
                    Leaf::Is(u) => u,
                    Leaf::Look(u) if !m.wants(self.flags(u)) => u,
                    Leaf::Look(u) => match done.get(&u) {
                        Some(&v) => v,
                        None => {
                            stack.push(u);
                            continue;
                        }
                    },
                },
                Type::Tensor(t) => self.map_tensor(&t, m),
                Type::Shape(s) => {
                    let s = m.shape(self, &s);
                    self.types.intern(Type::Shape(s))
                }
                ty @ (Type::Object | Type::Error) => self.types.intern(ty),
                composite => {
                    let before = stack.len();
                    for c in self.types.children(t) {
                        if done.contains_key(&c) {
                            continue;
                        }
                        if m.wants(self.flags(c)) {
                            stack.push(c);
                        } else {
                            done.insert(c, c);
                        }
                    }
                    if stack.len() > before {
                        continue;
                    }
                    let get = |ts: &[TypeId]| ts.iter().map(|t| done[t]).collect::<Box<[_]>>();
                    let ty = match composite {
                        Type::Tuple(fields) => Type::Tuple(get(&fields)),
                        Type::Adt(adt, args) => Type::Adt(adt, get(&args)),
                        Type::Ref(t) => Type::Ref(done[&t]),
                        Type::Func(mut f) => {
                            f.args = get(&f.args);
                            f.ret = done[&f.ret];
                            for c in &mut f.constraints {
                                c.args = get(&c.args);
                            }
                            Type::Func(Box::new(m.func(self, *f)))
                        }
                        leaf => leaf,
                    };
                    self.types.intern(ty)
                }
            };
            done.insert(t, new);
            stack.pop();
            if done.len() - known > LARGEST {
                self.fuel = 0;
                return self.error;
            }
        }
        done[&root]
    }

    pub fn resolve_shape(&self, s: &Shape) -> Shape {
        map_dims(&self.head_shape(s), |d| self.resolve_dim(d))
    }
    /// Returns a type with all solved unknowns replaced.
    pub fn resolve(&mut self, t: TypeId) -> TypeId {
        let t = self.find(t);
        if self.flags(t) & INFER == 0 {
            return t;
        }
        self.map_type(t, &mut Resolve)
    }

    fn map_tensor(&mut self, t: &TensorType, m: &mut dyn Mapper) -> TypeId {
        let shape = m.shape(self, &t.shape);
        let dtype = m.dtype(self, t.dtype);
        self.types.intern(Type::Tensor(TensorType { shape, dtype }))
    }
}

/// Substitutes solutions.
struct Resolve;

impl Mapper for Resolve {
    fn wants(&self, flags: u8) -> bool {
        flags & INFER != 0
    }
    fn leaf(&mut self, s: &mut Unifier<'_>, ty: &Type) -> Leaf {
        match ty {
            Type::Infer(v) => match s.unknowns[v.index()].sol {
                Sol::Type(t) => Leaf::Look(t),
                _ => Leaf::Keep,
            },
            _ => Leaf::Keep,
        }
    }
    fn shape(&mut self, s: &mut Unifier<'_>, shape: &Shape) -> Shape {
        s.resolve_shape(shape)
    }
    fn dtype(&mut self, s: &mut Unifier<'_>, dtype: DTy) -> DTy {
        s.head_dtype(dtype)
    }
}

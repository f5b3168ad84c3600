//! Types, hash-consed: equal types have equal ids, except that types whose extents are spelled
//! differently (`3` and `3i64`, [`Dim::is_wide`]) have separate ids. Unification and structural
//! equality compare the types themselves and ignore the spelling.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;
use relax_base::{Arena, Symbol};
use relax_sym::Dim;
use relax_tensor::DType;
use rustc_hash::{FxHashSet, FxHasher};

use crate::{AdtId, RelId};

relax_base::define_id! {
    /// A type of a [`TypeArena`].
    pub struct TypeId("t");
    /// A type parameter of kind `Type`, `BaseType` or `Shape` (those of kind `ShapeVar` are
    /// dimension variables).
    pub struct TypeParamId("p");
    /// An inference variable for a type.
    pub struct TypeInfer("?t");
    /// An inference variable for a shape.
    pub struct ShapeInfer("?s");
    /// An inference variable for an element type.
    pub struct DTyInfer("?d");
}

/// The kind of a type parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Any type.
    Type,
    /// An element type.
    BaseType,
    /// A whole shape.
    Shape,
    /// One dimension.
    ShapeVar,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Type => "Type",
            Kind::BaseType => "BaseType",
            Kind::Shape => "Shape",
            Kind::ShapeVar => "ShapeVar",
        })
    }
}

/// A type parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeParam {
    /// The name.
    pub name: Symbol,
    /// The kind; never [`Kind::ShapeVar`].
    pub kind: Kind,
}

/// The shape of a tensor, or of a shape value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// Known rank; dimensions may be constants, expressions, or `?`.
    Dims(Box<[Dim]>),
    /// Unknown, and not inferred (`_`).
    Unknown,
    /// A parameter of kind `Shape`.
    Param(TypeParamId),
    /// An inference variable.
    Infer(ShapeInfer),
}

impl Shape {
    /// Returns the dimensions, if the rank is known.
    pub fn dims(&self) -> Option<&[Dim]> {
        if let Shape::Dims(d) = self {
            Some(d)
        } else {
            None
        }
    }
}

/// An element type in a type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DTy {
    /// A known element type.
    Known(DType),
    /// Unknown, and not inferred (`_`).
    Unknown,
    /// A parameter of kind `BaseType`.
    Param(TypeParamId),
    /// An inference variable. Float literals without a suffix start as one.
    Infer(DTyInfer),
}

impl DTy {
    /// Returns the element type, if it is known.
    pub fn known(self) -> Option<DType> {
        if let DTy::Known(d) = self {
            Some(d)
        } else {
            None
        }
    }
}

impl From<DType> for DTy {
    fn from(d: DType) -> DTy {
        DTy::Known(d)
    }
}

/// A tensor type: `Tensor[shape, dtype]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// The shape.
    pub shape: Shape,
    /// The element type.
    pub dtype: DTy,
}

/// A reference to the relation of a constraint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RelRef {
    /// A `rel` item.
    User(RelId),
    /// A relation built into the operator registry, by name (`Broadcast`).
    Builtin(Symbol),
    /// The relation of an operator, with its attributes: an unsolved constraint that inference
    /// leaves in the type of an unannotated function. Written as the operator's name.
    Op(crate::OpId, crate::AttrsId),
}

/// A relation applied to types: `Broadcast(a, b, c)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Constraint {
    /// The relation.
    pub rel: RelRef,
    /// Its operands; the function's arguments and result if the text does not list them.
    pub args: Box<[TypeId]>,
}

/// A function type: `fn [params](args) -> ret where constraints`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FuncType {
    /// The type parameters.
    pub params: Box<[TypeParamId]>,
    /// The dimension variables bound at each call: parameters of kind `ShapeVar`, and those that
    /// first occur in the arguments.
    pub dims: Box<[relax_sym::DimVar]>,
    /// The argument types.
    pub args: Box<[TypeId]>,
    /// The result type.
    pub ret: TypeId,
    /// The constraints that each call must satisfy.
    pub constraints: Box<[Constraint]>,
}

impl FuncType {
    /// Returns whether one of its constraints is the relation of an operator, which has no name in a
    /// text.
    pub fn relates_as_operator(&self) -> bool {
        (self.constraints.iter()).any(|c| matches!(c.rel, RelRef::Op(..)))
    }
}

/// A type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// A tensor or scalar: `Tensor[shape, dtype]`, `float32`.
    Tensor(TensorType),
    /// A shape value: `Shape[(n, 4)]`; plain `Shape` has an unknown shape.
    Shape(Shape),
    /// A tuple: `(A, B)`.
    Tuple(Box<[TypeId]>),
    /// A function: `fn (A) -> B`.
    Func(Box<FuncType>),
    /// An algebraic data type: `List[A]`.
    Adt(AdtId, Box<[TypeId]>),
    /// A reference: `ref(A)`.
    Ref(TypeId),
    /// The top type.
    Object,
    /// A parameter of kind `Type`.
    Param(TypeParamId),
    /// An inference variable.
    Infer(TypeInfer),
    /// The type of an expression whose error was already reported; compatible with every type.
    Error,
}

/// The interned types of a module.
#[derive(Clone, Default, Debug)]
pub struct TypeArena {
    types: Arena<TypeId, Type>,
    /// Ids by the hash of their types; in a copy of a lent arena, only its own.
    ids: HashTable<TypeId>,
    /// The ids of the lent types.
    lent: Option<Arc<HashTable<TypeId>>>,
    /// The type parameters.
    pub params: Arena<TypeParamId, TypeParam>,
}

impl TypeArena {
    /// Creates an arena with the most common types.
    pub fn new() -> Self {
        Self::default()
    }
    /// Interns a type.
    pub fn intern(&mut self, ty: Type) -> TypeId {
        let types = &self.types;
        let hash = |ty: &Type| BuildHasherDefault::<FxHasher>::default().hash_one(ty);
        let own = hash(&ty);
        let same = |id: &TypeId| types[*id] == ty && spelling(&types[*id]) == spelling(&ty);
        let lent = self.lent.as_ref().and_then(|ids| ids.find(own, same));
        if let Some(id) = lent.or_else(|| self.ids.find(own, same)) {
            return *id;
        }
        let id = self.types.push(ty);
        let types = &self.types;
        self.ids.insert_unique(own, id, |id| hash(&types[*id]));
        id
    }
    /// Interns a tensor type of known rank.
    pub fn tensor(&mut self, dims: impl Into<Box<[Dim]>>, dtype: impl Into<DTy>) -> TypeId {
        let (shape, dtype) = (Shape::Dims(dims.into()), dtype.into());
        self.intern(Type::Tensor(TensorType { shape, dtype }))
    }
    /// Interns a scalar type.
    pub fn scalar(&mut self, dtype: impl Into<DTy>) -> TypeId {
        self.tensor([], dtype)
    }
    /// Interns a tuple type.
    pub fn tuple(&mut self, fields: impl Into<Box<[TypeId]>>) -> TypeId {
        self.intern(Type::Tuple(fields.into()))
    }
    /// Returns the empty tuple type.
    pub fn unit(&mut self) -> TypeId {
        self.tuple([])
    }
    /// Returns the error type.
    pub fn error(&mut self) -> TypeId {
        self.intern(Type::Error)
    }
    /// Creates a type parameter.
    pub fn param(&mut self, name: Symbol, kind: Kind) -> TypeParamId {
        self.params.push(TypeParam { name, kind })
    }
    /// Lends all types, see [`Arena::lend`].
    pub(crate) fn lend(&mut self) {
        self.types.lend();
        self.params.lend();
        self.lent = Some(Arc::new(std::mem::take(&mut self.ids)));
    }
    /// Ends [`lend`](Self::lend); nothing was added since.
    pub(crate) fn take_back(&mut self) {
        self.types.take_back();
        self.params.take_back();
        let lent = self.lent.take().and_then(Arc::into_inner);
        self.ids = lent.expect("the types were lent and no copy holds them");
    }
    /// Returns the types that this copy of a lent arena added.
    pub(crate) fn into_own(self) -> Vec<Type> {
        self.types.into_own()
    }
    /// Releases excess capacity.
    pub fn shrink(&mut self) {
        self.types.shrink();
    }
    /// Returns the number of types. The components of a type have smaller ids.
    pub fn len(&self) -> usize {
        self.types.len()
    }
    /// Returns whether there are no types.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }
    /// Returns the tensor type with this id, if it is one.
    pub fn as_tensor(&self, id: TypeId) -> Option<&TensorType> {
        if let Type::Tensor(t) = &self[id] {
            Some(t)
        } else {
            None
        }
    }
    /// Flattens a (nested) tuple type into its non-tuple components, in order; any other type is
    /// its own only component.
    pub fn leaves(&self, id: TypeId) -> Vec<TypeId> {
        let (mut found, mut work) = (Vec::new(), vec![id]);
        while let Some(id) = work.pop() {
            match &self[id] {
                Type::Tuple(fields) => work.extend(fields.iter().rev()),
                _ => found.push(id),
            }
        }
        found
    }
    /// Returns whether a predicate holds for a type or one of its components.
    pub fn any(&self, root: TypeId, test: impl Fn(&Type) -> bool) -> bool {
        let (mut stack, mut seen) = (vec![root], FxHashSet::default());
        while let Some(t) = stack.pop() {
            if test(&self[t]) {
                return true;
            }
            if seen.insert(t) {
                stack.extend(self.children(t));
            }
        }
        false
    }
    /// Returns types and their components in the order of a text, each with whether it is inside of
    /// the type of a function.
    pub fn in_order(&self, types: impl IntoIterator<Item = TypeId>) -> Vec<(TypeId, bool)> {
        let mut stack: Vec<(TypeId, bool)> = types.into_iter().map(|t| (t, false)).collect();
        stack.reverse();
        let (mut seen, mut found) = (FxHashSet::default(), Vec::new());
        while let Some((ty, inside)) = stack.pop() {
            if !seen.insert((ty, inside)) {
                continue;
            }
            found.push((ty, inside));
            let inside = inside || matches!(self[ty], Type::Func(_));
            stack.extend(self.children(ty).into_iter().rev().map(|t| (t, inside)));
        }
        found
    }
    /// Returns the direct components of a type, in order.
    pub fn children(&self, id: TypeId) -> Vec<TypeId> {
        match &self[id] {
            Type::Tuple(fields) | Type::Adt(_, fields) => fields.to_vec(),
            Type::Func(f) => {
                let constraints = f.constraints.iter().flat_map(|c| c.args.iter());
                f.args
                    .iter()
                    .chain([&f.ret])
                    .chain(constraints)
                    .copied()
                    .collect()
            }
            Type::Ref(t) => vec![*t],
            Type::Tensor(_)
            | Type::Shape(_)
            | Type::Object
            | Type::Param(_)
            | Type::Infer(_)
            | Type::Error => vec![],
        }
    }
}

/// Returns a hash of how a type's extents are spelled; 0 for the plain spelling.
fn spelling(ty: &Type) -> u64 {
    let (Type::Tensor(TensorType { shape, .. }) | Type::Shape(shape)) = ty else {
        return 0;
    };
    let mut hasher = FxHasher::default();
    let mut plain = true;
    for (i, d) in shape.dims().unwrap_or_default().iter().enumerate() {
        let mark = d.mark();
        if d.is_wide() || mark.is_some() {
            plain = false;
            (i, mark).hash(&mut hasher);
        }
    }
    if plain { 0 } else { hasher.finish() | 1 }
}

impl std::ops::Index<TypeId> for TypeArena {
    type Output = Type;
    fn index(&self, id: TypeId) -> &Type {
        &self.types[id]
    }
}

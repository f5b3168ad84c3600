//! Types, hash-consed: equal types have equal ids, except that types whose extents are spelled
//! differently (`3` and `3i64`, [`Dim::is_wide`]) keep an id each. Unification and structural
//! equality look at the types and do not see the difference.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;
use relax_base::{Arena, Symbol};
use relax_sym::Dim;
use relax_tensor::DType;
use rustc_hash::FxHasher;

use crate::{AdtId, RelId};

relax_base::define_id! {
    /// A type of a [`TypeArena`].
    pub struct TypeId("t");
    /// A type parameter of kind `Type`, `BaseType` or `Shape` (those of kind `ShapeVar` are
    /// dimension variables).
    pub struct TypeParamId("p");
    /// A type that inference has still to find.
    pub struct TypeInfer("?t");
    /// A shape that inference has still to find.
    pub struct ShapeInfer("?s");
    /// An element type that inference has still to find.
    pub struct DTyInfer("?d");
}

/// What a type parameter stands for.
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
    /// Its name.
    pub name: Symbol,
    /// What it stands for; never [`Kind::ShapeVar`].
    pub kind: Kind,
}

/// The shape of a tensor, or of a shape value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// Known rank; dimensions may be constants, expressions, or `?`.
    Dims(Box<[Dim]>),
    /// Nothing is known and nothing is to be found (`_`).
    Unknown,
    /// A parameter of kind `Shape`.
    Param(TypeParamId),
    /// To be found by inference.
    Infer(ShapeInfer),
}

impl Shape {
    /// The dimensions, when the rank is known.
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
    /// Known.
    Known(DType),
    /// Nothing is known and nothing is to be found (`_`).
    Unknown,
    /// A parameter of kind `BaseType`.
    Param(TypeParamId),
    /// To be found by inference. `float` literals without suffix start as one of these.
    Infer(DTyInfer),
}

impl DTy {
    /// The element type, when known.
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

/// `Tensor[shape, dtype]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Its shape.
    pub shape: Shape,
    /// Its element type.
    pub dtype: DTy,
}

/// Which relation a constraint applies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RelRef {
    /// A `rel` item.
    User(RelId),
    /// A relation built into the operator registry, by name (`Broadcast`).
    Builtin(Symbol),
    /// The relation of an operator with its attributes: what inference leaves unsolved in the type
    /// of an unannotated function. Written by the operator's name.
    Op(crate::OpId, crate::AttrsId),
}

/// A relation applied to types: `Broadcast(a, b, c)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Constraint {
    /// Which.
    pub rel: RelRef,
    /// To what: the function's arguments and result where the text does not say.
    pub args: Box<[TypeId]>,
}

/// `fn [params](args) -> ret where constraints`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FuncType {
    /// Type parameters.
    pub params: Box<[TypeParamId]>,
    /// Dimension variables that are bound per call: parameters of kind `ShapeVar` and those first
    /// used in the arguments.
    pub dims: Box<[relax_sym::DimVar]>,
    /// Argument types.
    pub args: Box<[TypeId]>,
    /// Result type.
    pub ret: TypeId,
    /// What must hold at each call.
    pub constraints: Box<[Constraint]>,
}

/// A type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// `Tensor[shape, dtype]`, `float32`.
    Tensor(TensorType),
    /// `Shape[(n, 4)]`; `Shape` has an unknown shape.
    Shape(Shape),
    /// `(A, B)`.
    Tuple(Box<[TypeId]>),
    /// `fn (A) -> B`.
    Func(Box<FuncType>),
    /// `List[A]`.
    Adt(AdtId, Box<[TypeId]>),
    /// `ref(A)`.
    Ref(TypeId),
    /// Anything.
    Object,
    /// A parameter of kind `Type`.
    Param(TypeParamId),
    /// To be found by inference.
    Infer(TypeInfer),
    /// The type of something that an error was already reported for; agrees with everything.
    Error,
}

/// All types of a module, each once.
#[derive(Clone, Default, Debug)]
pub struct TypeArena {
    types: Arena<TypeId, Type>,
    /// All ids, found by the hash of their types; of an arena that is lent, those that are not.
    ids: HashTable<TypeId>,
    /// The others.
    lent: Option<Arc<HashTable<TypeId>>>,
    /// All type parameters.
    pub params: Arena<TypeParamId, TypeParam>,
}

impl TypeArena {
    /// An arena that knows the most common types.
    pub fn new() -> Self {
        Self::default()
    }
    /// The id of a type.
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
    /// A tensor type of known rank.
    pub fn tensor(&mut self, dims: impl Into<Box<[Dim]>>, dtype: impl Into<DTy>) -> TypeId {
        let (shape, dtype) = (Shape::Dims(dims.into()), dtype.into());
        self.intern(Type::Tensor(TensorType { shape, dtype }))
    }
    /// A scalar type.
    pub fn scalar(&mut self, dtype: impl Into<DTy>) -> TypeId {
        self.tensor([], dtype)
    }
    /// A tuple type.
    pub fn tuple(&mut self, fields: impl Into<Box<[TypeId]>>) -> TypeId {
        self.intern(Type::Tuple(fields.into()))
    }
    /// The empty tuple type.
    pub fn unit(&mut self) -> TypeId {
        self.tuple([])
    }
    /// The error type.
    pub fn error(&mut self) -> TypeId {
        self.intern(Type::Error)
    }
    /// A new type parameter.
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
    /// The types that a copy of a lent arena has made.
    pub(crate) fn into_own(self) -> Vec<Type> {
        self.types.into_own()
    }
    /// Gives back the room that is reserved for more types.
    pub fn shrink(&mut self) {
        self.types.shrink();
    }
    /// Number of types. Types that a type is made of have smaller ids.
    pub fn len(&self) -> usize {
        self.types.len()
    }
    /// Returns whether there is no type.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }
    /// The tensor type behind an id.
    pub fn as_tensor(&self, id: TypeId) -> Option<&TensorType> {
        if let Type::Tensor(t) = &self[id] {
            Some(t)
        } else {
            None
        }
    }
    /// The parts of a (nested) tuple type that are no tuples, in order; the type itself where it is
    /// none.
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
    /// The types that a type is directly made of, in order.
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

/// Returns how the extents of a type are spelled; 0 for the plain way.
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

//! Types, traversed along with a value.

use std::sync::Arc;

use relax_ir::{AdtId, DTy, Module, Shape, Type, TypeId, TypeParamId};
use relax_tensor::Value;

use crate::layout::{self, Sort};
use crate::{Extent, TensorType};

/// A type with the substitution that its type parameters are under.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bound {
    pub(crate) ty: TypeId,
    scope: usize,
}

impl Bound {
    /// A type under the empty substitution.
    pub(crate) fn outer(ty: TypeId) -> Bound {
        Bound { ty, scope: 0 }
    }
}

/// A substitution of type parameters.
type Scope = Vec<(TypeParamId, Bound)>;

/// The substitutions that a traversal has created.
pub(crate) struct Scopes<'a> {
    module: &'a Module,
    all: Vec<Scope>,
}

impl<'a> Scopes<'a> {
    /// Starts a traversal.
    pub(crate) fn new(module: &'a Module) -> Scopes<'a> {
        Scopes {
            module,
            all: vec![Scope::new()],
        }
    }

    /// Resolves a type that may be a type parameter.
    pub(crate) fn behind(&self, ty: Bound) -> Bound {
        let Type::Param(p) = &self.module.types[ty.ty] else {
            return ty;
        };
        // A scope never binds a parameter to another bound parameter.
        let found = self.all[ty.scope].iter().find(|b| b.0 == *p);
        found.map_or(ty, |b| b.1)
    }

    fn adt(&self, ty: Bound) -> Option<(AdtId, &'a [TypeId])> {
        match &self.module.types[ty.ty] {
            Type::Adt(adt, args) => Some((*adt, args)),
            _ => None,
        }
    }

    /// Returns the name of a constructor, if the type determines it.
    pub(crate) fn constructor(&self, ty: Bound, tag: u32) -> Option<&'a str> {
        let (adt, _) = self.adt(ty)?;
        let m = self.module;
        let ctor = m.adts[adt].ctors.get(tag as usize)?;
        Some(m.ctors[*ctor].name.as_str())
    }

    /// Returns the field types of a tuple, or of a constructor; `None` for other types.
    pub(crate) fn fields(&mut self, ty: Bound, tag: Option<u32>) -> Option<Vec<Bound>> {
        let m = self.module;
        match (&m.types[ty.ty], tag) {
            (Type::Tuple(types), None) => {
                Some(types.iter().map(|&t| Bound { ty: t, ..ty }).collect())
            }
            (Type::Adt(adt, args), Some(tag)) => {
                let ctor = *m.adts[*adt].ctors.get(tag as usize)?;
                let bind =
                    |(p, &arg): (&TypeParamId, &TypeId)| (*p, self.behind(Bound { ty: arg, ..ty }));
                let params = m.adts[*adt].params.iter();
                let own: Scope = params.zip(args.iter()).map(bind).collect();
                let scope = self.scope(ty.scope, own);
                let fields = m.ctors[ctor].fields.iter();
                Some(fields.map(|&ty| Bound { ty, scope }).collect())
            }
            _ => None,
        }
    }

    /// Returns the types of all fields of a value; derived from the value where the type does not
    /// give them.
    pub(crate) fn all_fields(&mut self, ty: Bound, value: &Value) -> Vec<Bound> {
        let (tag, count) = match value {
            Value::Tuple(fields) => (None, fields.len()),
            Value::Adt(tag, fields) => (Some(*tag), fields.len()),
            _ => return Vec::new(),
        };
        let mut types = self.fields(ty, tag).unwrap_or_default();
        types.resize(count, ty);
        types
    }

    /// Returns a scope with these bindings; reuses the current one if it is equal, as along a list.
    fn scope(&mut self, now: usize, own: Scope) -> usize {
        if self.all[now] == own {
            return now;
        }
        self.all.push(own);
        self.all.len() - 1
    }
}

/// Converts a tensor type; `None` for other types.
pub(crate) fn tensor_type(m: &Module, ty: TypeId) -> Option<TensorType> {
    let Type::Tensor(t) = &m.types[ty] else {
        return None;
    };
    let extent = |dim: &relax_sym::Dim| match dim.as_const() {
        Some(n) => Extent::Known(n),
        None => Extent::Symbolic(m.show_dim(dim)),
    };
    Some(TensorType {
        shape: match &t.shape {
            Shape::Dims(dims) => Some(dims.iter().map(extent).collect()),
            _ => None,
        },
        dtype: match t.dtype {
            DTy::Known(dtype) => Some(dtype),
            _ => None,
        },
    })
}

/// An algebraic data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataType {
    /// The name.
    pub name: String,
    /// The constructors; the index is the tag in [`Value::Adt`].
    pub constructors: Vec<Constructor>,
}

/// A constructor of a data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Constructor {
    /// The name.
    pub name: String,
    /// The field types, as text.
    pub fields: Vec<String>,
}

/// The types of a module's functions, for traversing arguments and results. They do not borrow from
/// the module.
///
/// ```
/// let module = relax::Module::parse("def @main(%x: (float32, int32)) { %x.0 }")?;
/// let types = module.types();
/// let mut walk = types.walk();
/// let pair = types.param(0, 0).expect("a parameter");
/// let fields = walk.fields(pair, None).expect("a tuple");
/// assert_eq!(walk.tensor(fields[1]).unwrap().dtype, Some(relax::DType::I32));
/// # Ok::<(), relax::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Types(Arc<Inner>);

/// No types.
impl Default for Types {
    fn default() -> Types {
        Types::new(&Module::new(), Vec::new())
    }
}

#[derive(Debug)]
struct Inner {
    /// A module that holds nothing but types.
    module: Module,
    /// The parameter types and the result type of each function.
    functions: Vec<(Vec<TypeId>, TypeId)>,
}

/// A type visited by a [`Walk`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ty(Bound);

/// A container type: a list or an option.
#[derive(Clone, Copy, Debug)]
pub struct Several {
    /// The kind of container.
    pub sort: Sort,
    /// The element type.
    pub of: Ty,
    /// The tag of the constructor of a list cell, or of a present value.
    pub some: u32,
    /// The tag of the constructor of the empty list, or of an absent value.
    pub none: u32,
}

impl Types {
    /// Collects the types of functions, given their parameter and result types.
    pub(crate) fn new(module: &Module, functions: Vec<(Vec<TypeId>, TypeId)>) -> Types {
        let mut only = Module::new();
        only.types = module.types.clone();
        only.dims = module.dims.clone();
        only.adts = module.adts.clone();
        only.ctors = module.ctors.clone();
        Types(Arc::new(Inner {
            module: only,
            functions,
        }))
    }

    /// Returns a parameter's type, by function and parameter index.
    #[must_use]
    pub fn param(&self, function: usize, index: usize) -> Option<Ty> {
        let (params, _) = self.0.functions.get(function)?;
        params.get(index).map(|&ty| Ty(Bound::outer(ty)))
    }

    /// Returns a function's result type.
    #[must_use]
    pub fn result(&self, function: usize) -> Option<Ty> {
        let (_, result) = self.0.functions.get(function)?;
        Some(Ty(Bound::outer(*result)))
    }

    /// Returns all data types.
    #[must_use]
    pub fn data_types(&self) -> Vec<DataType> {
        let m = &self.0.module;
        let constructor = |c: &relax_ir::CtorId| Constructor {
            name: m.ctors[*c].name.to_string(),
            fields: (m.ctors[*c].fields.iter())
                .map(|&f| m.show_type(f))
                .collect(),
        };
        let known = m.adts.values().filter(|a| !a.opaque);
        known
            .map(|a| DataType {
                name: a.name.to_string(),
                constructors: a.ctors.iter().map(constructor).collect(),
            })
            .collect()
    }

    /// Starts a traversal.
    #[must_use]
    pub fn walk(&self) -> Walk<'_> {
        Walk(Scopes::new(&self.0.module))
    }
}

/// A traversal of types, from one to those of its fields.
pub struct Walk<'a>(Scopes<'a>);

impl<'a> Walk<'a> {
    /// Returns the tensor type; `None` for other types.
    #[must_use]
    pub fn tensor(&self, ty: Ty) -> Option<TensorType> {
        tensor_type(self.0.module, self.0.behind(ty.0).ty)
    }

    /// Returns the name of a data type; `None` for other types.
    #[must_use]
    pub fn data(&self, ty: Ty) -> Option<&'a str> {
        let (adt, _) = self.0.adt(self.0.behind(ty.0))?;
        Some(self.0.module.adts[adt].name.as_str())
    }

    /// Returns the name of a data type's constructor by its tag.
    #[must_use]
    pub fn constructor(&self, ty: Ty, tag: u32) -> Option<&'a str> {
        self.0.constructor(self.0.behind(ty.0), tag)
    }

    /// Returns the field types of a tuple, or of the constructor with a tag; `None` for other
    /// types.
    #[must_use]
    pub fn fields(&mut self, ty: Ty, tag: Option<u32>) -> Option<Vec<Ty>> {
        let fields = self.0.fields(self.0.behind(ty.0), tag)?;
        Some(fields.into_iter().map(Ty).collect())
    }

    /// Matches a type against list and option.
    #[must_use]
    pub fn several(&self, ty: Ty) -> Option<Several> {
        let (m, ty) = (self.0.module, self.0.behind(ty.0));
        let found = layout::several(m, ty.ty)?;
        let (some, none) = found.tags(m);
        Some(Several {
            sort: found.sort,
            of: Ty(Bound { ty: found.of, ..ty }),
            some,
            none,
        })
    }

    /// Formats a type.
    #[must_use]
    pub fn show(&self, ty: Ty) -> String {
        self.0.module.show_type(self.0.behind(ty.0).ty)
    }
}

//! Types, as a walk over a value meets them.

use std::sync::Arc;

use relax_ir::{AdtId, DTy, Module, Shape, Type, TypeId, TypeParamId};
use relax_tensor::Value;

use crate::layout::{self, Sort};
use crate::{Extent, TensorType};

/// A type under what its parameters stand for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bound {
    pub(crate) ty: TypeId,
    scope: usize,
}

impl Bound {
    /// A type that is under nothing.
    pub(crate) fn outer(ty: TypeId) -> Bound {
        Bound { ty, scope: 0 }
    }
}

/// What type parameters stand for.
type Scope = Vec<(TypeParamId, Bound)>;

/// The scopes that a walk has come through.
pub(crate) struct Scopes<'a> {
    module: &'a Module,
    all: Vec<Scope>,
}

impl<'a> Scopes<'a> {
    /// A walk that begins.
    pub(crate) fn new(module: &'a Module) -> Scopes<'a> {
        Scopes {
            module,
            all: vec![Scope::new()],
        }
    }

    /// Returns what a type is that may be a parameter.
    pub(crate) fn behind(&self, ty: Bound) -> Bound {
        let Type::Param(p) = &self.module.types[ty.ty] else {
            return ty;
        };
        // What a scope binds is never a parameter that another binds.
        let found = self.all[ty.scope].iter().find(|b| b.0 == *p);
        found.map_or(ty, |b| b.1)
    }

    fn adt(&self, ty: Bound) -> Option<(AdtId, &'a [TypeId])> {
        match &self.module.types[ty.ty] {
            Type::Adt(adt, args) => Some((*adt, args)),
            _ => None,
        }
    }

    /// The name of a constructor, where the type says it.
    pub(crate) fn constructor(&self, ty: Bound, tag: u32) -> Option<&'a str> {
        let (adt, _) = self.adt(ty)?;
        let m = self.module;
        let ctor = m.adts[adt].ctors.get(tag as usize)?;
        Some(m.ctors[*ctor].name.as_str())
    }

    /// The types of the fields of a tuple, or of what a constructor makes; `None` for other types.
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

    /// The types of all fields that a value has; the value's own where its type does not say them.
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

    /// A scope with these bindings; the present one where it has the same, as along a list.
    fn scope(&mut self, now: usize, own: Scope) -> usize {
        if self.all[now] == own {
            return now;
        }
        self.all.push(own);
        self.all.len() - 1
    }
}

/// A tensor type as data; `None` for other types.
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

/// A data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataType {
    /// Its name.
    pub name: String,
    /// Its constructors; their position is the number that [`Value::Adt`] has.
    pub constructors: Vec<Constructor>,
}

/// A constructor of a data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Constructor {
    /// Its name.
    pub name: String,
    /// The types of its fields as texts.
    pub fields: Vec<String>,
}

/// The types of a module's functions, for walks over their arguments and results. They outlive the
/// module.
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

/// No types at all.
impl Default for Types {
    fn default() -> Types {
        Types::new(&Module::new(), Vec::new())
    }
}

#[derive(Debug)]
struct Inner {
    /// Nothing but types.
    module: Module,
    /// Of each function the types of its parameters, and its result's.
    functions: Vec<(Vec<TypeId>, TypeId)>,
}

/// A type that a [`Walk`] meets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ty(Bound);

/// A data type whose values are so many of another.
#[derive(Clone, Copy, Debug)]
pub struct Several {
    /// A list, or an option.
    pub sort: Sort,
    /// The type of what it holds.
    pub of: Ty,
    /// The number of the constructor of an element (and the rest), or of what is there.
    pub some: u32,
    /// The number of the constructor of the end, or of nothing.
    pub none: u32,
}

impl Types {
    /// The types of functions, given by those of their parameters and their results.
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

    /// The type of a parameter of a function, by their positions.
    #[must_use]
    pub fn param(&self, function: usize, index: usize) -> Option<Ty> {
        let (params, _) = self.0.functions.get(function)?;
        params.get(index).map(|&ty| Ty(Bound::outer(ty)))
    }

    /// The type of a function's result.
    #[must_use]
    pub fn result(&self, function: usize) -> Option<Ty> {
        let (_, result) = self.0.functions.get(function)?;
        Some(Ty(Bound::outer(*result)))
    }

    /// All data types.
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

    /// A walk that begins.
    #[must_use]
    pub fn walk(&self) -> Walk<'_> {
        Walk(Scopes::new(&self.0.module))
    }
}

/// A walk over types, from one to those of its fields.
pub struct Walk<'a>(Scopes<'a>);

impl<'a> Walk<'a> {
    /// Returns what a type says of tensors; `None` for types of other values.
    #[must_use]
    pub fn tensor(&self, ty: Ty) -> Option<TensorType> {
        tensor_type(self.0.module, self.0.behind(ty.0).ty)
    }

    /// The name of a data type; `None` for other types.
    #[must_use]
    pub fn data(&self, ty: Ty) -> Option<&'a str> {
        let (adt, _) = self.0.adt(self.0.behind(ty.0))?;
        Some(self.0.module.adts[adt].name.as_str())
    }

    /// The name of a constructor of a data type by its number.
    #[must_use]
    pub fn constructor(&self, ty: Ty, tag: u32) -> Option<&'a str> {
        self.0.constructor(self.0.behind(ty.0), tag)
    }

    /// The types of the fields of a tuple, or of what the constructor with a number makes; `None`
    /// for other types.
    #[must_use]
    pub fn fields(&mut self, ty: Ty, tag: Option<u32>) -> Option<Vec<Ty>> {
        let fields = self.0.fields(self.0.behind(ty.0), tag)?;
        Some(fields.into_iter().map(Ty).collect())
    }

    /// Returns what a type holds several of, where it is a list or an option.
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

    /// A type as a text.
    #[must_use]
    pub fn show(&self, ty: Ty) -> String {
        self.0.module.show_type(self.0.behind(ty.0).ty)
    }
}

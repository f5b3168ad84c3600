//! Walking over a result with its type, which names constructors.

use relax_ir::{AdtId, Module, Type, TypeId, TypeParamId};
use relax_tensor::{Tensor, Value};

/// A value and its type.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'a> {
    /// What the type is of.
    pub module: &'a Module,
    /// The type.
    pub ty: TypeId,
    /// The value.
    pub value: &'a Value,
}

/// A part of a value, as a walk meets it.
#[derive(Clone, PartialEq, Debug)]
pub enum Part<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// Something that cannot be looked into.
    Opaque(&'static str),
    /// Here begins a tuple, or what a constructor of that name made; and how many fields it has.
    Open(Option<String>, usize),
    /// Between two fields.
    Between,
    /// The end of what [`Part::Open`] began.
    Close(Option<String>, usize),
}

/// A type under what its parameters stand for.
#[derive(Clone, Copy, PartialEq)]
struct Bound {
    ty: TypeId,
    scope: usize,
}

/// What type parameters stand for.
type Scope = Vec<(TypeParamId, Bound)>;

enum Step<'a> {
    See(&'a Value, Bound),
    Say(Part<'a>),
}

/// Calls `look` with every part of a value, in order.
pub fn parts<'a>(typed: &Typed<'a>, look: &mut dyn FnMut(Part<'a>)) {
    let mut scopes = Scopes {
        module: typed.module,
        all: vec![Scope::new()],
    };
    let whole = Bound {
        ty: typed.ty,
        scope: 0,
    };
    let mut work = vec![Step::See(typed.value, whole)];
    while let Some(step) = work.pop() {
        let (value, ty) = match step {
            Step::Say(part) => {
                look(part);
                continue;
            }
            Step::See(value, ty) => (value, scopes.behind(ty)),
        };
        let (name, fields) = match value {
            Value::Tensor(t) => {
                look(Part::Tensor(t));
                continue;
            }
            Value::Opaque(what) => {
                look(Part::Opaque(what));
                continue;
            }
            Value::Tuple(fields) => (None, fields),
            Value::Adt(tag, fields) => (Some(scopes.constructor(ty, *tag)), fields),
        };
        let types = scopes.fields(ty, value);
        look(Part::Open(name.clone(), fields.len()));
        work.push(Step::Say(Part::Close(name, fields.len())));
        for (i, (field, ty)) in fields.iter().zip(types).enumerate().rev() {
            work.push(Step::See(field, ty));
            if i > 0 {
                work.push(Step::Say(Part::Between));
            }
        }
    }
}

struct Scopes<'a> {
    module: &'a Module,
    all: Vec<Scope>,
}

impl Scopes<'_> {
    /// What a type is that may be a parameter.
    fn behind(&self, ty: Bound) -> Bound {
        let Type::Param(p) = &self.module.types[ty.ty] else {
            return ty;
        };
        // What a scope binds is never a parameter that another binds.
        let found = self.all[ty.scope].iter().find(|b| b.0 == *p);
        found.map_or(ty, |b| b.1)
    }

    fn adt(&self, ty: Bound) -> Option<(AdtId, &[TypeId])> {
        match &self.module.types[ty.ty] {
            Type::Adt(adt, args) => Some((*adt, args)),
            _ => None,
        }
    }

    /// The name of a constructor, or its number where the type does not say.
    fn constructor(&self, ty: Bound, tag: u32) -> String {
        let m = self.module;
        let ctor = self.adt(ty).and_then(|(adt, _)| {
            let ctor = m.adts[adt].ctors.get(tag as usize)?;
            Some(m.ctors[*ctor].name.to_string())
        });
        ctor.unwrap_or_else(|| format!("constructor {tag}"))
    }

    /// The types of a value's fields.
    fn fields(&mut self, ty: Bound, value: &Value) -> Vec<Bound> {
        let m = self.module;
        match (&m.types[ty.ty], value) {
            (Type::Tuple(types), Value::Tuple(fields)) if types.len() == fields.len() => {
                let field = |&t| Bound { ty: t, ..ty };
                types.iter().map(field).collect()
            }
            (Type::Adt(adt, args), Value::Adt(tag, fields)) => {
                let bind =
                    |(p, &arg): (&TypeParamId, &TypeId)| (*p, self.behind(Bound { ty: arg, ..ty }));
                let own: Scope = m.adts[*adt]
                    .params
                    .iter()
                    .zip(args.iter())
                    .map(bind)
                    .collect();
                let scope = self.scope(ty.scope, own);
                let ctor = m.adts[*adt].ctors.get(*tag as usize);
                let types = ctor.map_or(&[][..], |c| &m.ctors[*c].fields);
                let field = |i| Bound {
                    ty: types.get(i).copied().unwrap_or(ty.ty),
                    scope,
                };
                (0..fields.len()).map(field).collect()
            }
            (_, Value::Tuple(fields) | Value::Adt(_, fields)) => vec![ty; fields.len()],
            _ => Vec::new(),
        }
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

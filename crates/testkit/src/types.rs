//! The types of generated programs.

use std::fmt;

use crate::rng::Rng;

/// An extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dim {
    /// A number.
    Const(i64),
    /// The one dimension variable that a function may have.
    N,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(c) => write!(f, "{c}"),
            Dim::N => f.write_str("n"),
        }
    }
}

/// An element type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elem {
    F32,
    F64,
    I32,
    I64,
    Bool,
}

impl Elem {
    pub fn is_float(self) -> bool {
        matches!(self, Elem::F32 | Elem::F64)
    }
    pub fn name(self) -> &'static str {
        match self {
            Elem::F32 => "float32",
            Elem::F64 => "float64",
            Elem::I32 => "int32",
            Elem::I64 => "int64",
            Elem::Bool => "bool",
        }
    }
    /// A literal of this type.
    pub fn literal(self, rng: &mut Rng) -> String {
        let halves = [-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.25];
        let float = *rng.pick(&halves);
        let int = rng.below(7) as i64 - 2;
        match self {
            Elem::F32 => format!("{float:?}f"),
            Elem::F64 => format!("{float:?}f64"),
            Elem::I32 => format!("{int}"),
            Elem::I64 => format!("{int}i64"),
            Elem::Bool => (if rng.chance(50) { "True" } else { "False" }).into(),
        }
    }
}

/// A type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ty {
    Tensor(Vec<Dim>, Elem),
    Tuple(Vec<Ty>),
    Func(Vec<Ty>, Box<Ty>),
    Ref(Box<Ty>),
    /// `List[T]` of the prelude.
    List(Box<Ty>),
    /// `Option[T]` of the prelude.
    Option(Box<Ty>),
    /// `Choice[T]`, which every program defines.
    Choice(Box<Ty>),
}

impl Ty {
    pub fn scalar(elem: Elem) -> Ty {
        Ty::Tensor(Vec::new(), elem)
    }
    /// Whether the function's dimension variable stands in it.
    pub fn symbolic(&self) -> bool {
        match self {
            Ty::Tensor(dims, _) => dims.contains(&Dim::N),
            Ty::Tuple(fields) => fields.iter().any(Ty::symbolic),
            Ty::Func(args, ret) => args.iter().any(Ty::symbolic) || ret.symbolic(),
            Ty::Ref(t) | Ty::List(t) | Ty::Option(t) | Ty::Choice(t) => t.symbolic(),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, of: &[Ty]) -> fmt::Result {
    for (i, t) in of.iter().enumerate() {
        write!(f, "{}{t}", if i > 0 { ", " } else { "" })?;
    }
    Ok(())
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Tensor(dims, elem) if dims.is_empty() => f.write_str(elem.name()),
            Ty::Tensor(dims, elem) => {
                let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
                write!(f, "Tensor[({},), {}]", dims.join(", "), elem.name())
            }
            Ty::Tuple(fields) => {
                f.write_str("(")?;
                list(f, fields)?;
                f.write_str(if fields.len() == 1 { ",)" } else { ")" })
            }
            Ty::Func(args, ret) => {
                f.write_str("fn (")?;
                list(f, args)?;
                write!(f, ") -> {ret}")
            }
            Ty::Ref(t) => write!(f, "ref({t})"),
            Ty::List(t) => write!(f, "List[{t}]"),
            Ty::Option(t) => write!(f, "Option[{t}]"),
            Ty::Choice(t) => write!(f, "Choice[{t}]"),
        }
    }
}

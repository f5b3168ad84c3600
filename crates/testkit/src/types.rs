//! The types of generated programs.

use std::collections::BTreeMap;
use std::fmt;

use crate::rng::Rng;

/// An extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dim {
    /// A number.
    Const(i64),
    /// A dimension variable; a function has those in its parameters, and further ones bound by
    /// matches.
    Var(u32),
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(c) => write!(f, "{c}"),
            Dim::Var(0) => f.write_str("n"),
            Dim::Var(1) => f.write_str("m"),
            Dim::Var(k) => write!(f, "k{k}"),
        }
    }
}

/// An element type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elem {
    F16,
    BF16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    Bool,
}

impl Elem {
    pub fn is_float(self) -> bool {
        matches!(self, Elem::F16 | Elem::BF16 | Elem::F32 | Elem::F64)
    }
    pub fn name(self) -> &'static str {
        match self {
            Elem::F16 => "float16",
            Elem::BF16 => "bfloat16",
            Elem::I8 => "int8",
            Elem::I16 => "int16",
            Elem::U8 => "uint8",
            Elem::U16 => "uint16",
            Elem::F32 => "float32",
            Elem::F64 => "float64",
            Elem::I32 => "int32",
            Elem::I64 => "int64",
            Elem::Bool => "bool",
        }
    }
    /// Generates a literal of this type.
    pub fn literal(self, rng: &mut Rng) -> String {
        let halves = [-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.25];
        let float = *rng.pick(&halves);
        let int = rng.below(7) as i64 - 2;
        match self {
            Elem::F16 => format!("{float:?}f16"),
            Elem::BF16 => format!("cast({float:?}f, dtype=\"bfloat16\")"),
            Elem::I8 => format!("{int}i8"),
            Elem::I16 => format!("{int}i16"),
            Elem::U8 => format!("{}u8", int.abs()),
            Elem::U16 => format!("{}u16", int.abs()),
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
    /// The prelude's `List[T]`.
    List(Box<Ty>),
    /// The prelude's `Option[T]`.
    Option(Box<Ty>),
    /// `Choice[T]`, which every program defines.
    Choice(Box<Ty>),
    /// A user-defined data type, by index.
    Data(usize),
}

/// The dimensions substituted for the variables of a signature at a call.
pub type Dims = BTreeMap<u32, Dim>;

impl Ty {
    /// Returns whether a value may contain a reference cell: in its fields, or captured by a
    /// function.
    pub fn holds_cells(&self) -> bool {
        match self {
            Ty::Tensor(..) => false,
            Ty::Tuple(fields) => fields.iter().any(Ty::holds_cells),
            Ty::List(t) | Ty::Option(t) | Ty::Choice(t) => t.holds_cells(),
            Ty::Func(..) | Ty::Ref(_) | Ty::Data(_) => true,
        }
    }
    /// Returns whether a cell with such a value may be part of it: behind a function that captured
    /// the cell, or within data.
    pub fn may_hold_itself(&self) -> bool {
        match self {
            Ty::Tensor(..) => false,
            Ty::Tuple(fields) => fields.iter().any(Ty::may_hold_itself),
            Ty::Ref(t) | Ty::List(t) | Ty::Option(t) | Ty::Choice(t) => t.may_hold_itself(),
            Ty::Func(..) | Ty::Data(_) => true,
        }
    }
    pub fn scalar(elem: Elem) -> Ty {
        Ty::Tensor(Vec::new(), elem)
    }
    /// Substitutes extents for dimension variables; others are kept.
    pub fn with(&self, dims: &Dims) -> Ty {
        let all = |of: &[Ty]| of.iter().map(|t| t.with(dims)).collect();
        let one = |t: &Ty| Box::new(t.with(dims));
        match self {
            Ty::Tensor(own, elem) => {
                let dim = |d: &Dim| match d {
                    Dim::Var(v) => dims.get(v).copied().unwrap_or(*d),
                    Dim::Const(_) => *d,
                };
                Ty::Tensor(own.iter().map(dim).collect(), *elem)
            }
            Ty::Tuple(fields) => Ty::Tuple(all(fields)),
            Ty::Func(args, ret) => Ty::Func(all(args), one(ret)),
            Ty::Ref(t) => Ty::Ref(one(t)),
            Ty::List(t) => Ty::List(one(t)),
            Ty::Option(t) => Ty::Option(one(t)),
            Ty::Choice(t) => Ty::Choice(one(t)),
            Ty::Data(_) => self.clone(),
        }
    }
    /// Finds the extents for which the type equals `other`; returns false if there are none.
    pub fn unify(&self, other: &Ty, dims: &mut Dims) -> bool {
        let mut all = |a: &[Ty], b: &[Ty]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.unify(b, dims))
        };
        match (self, other) {
            (Ty::Tensor(a, x), Ty::Tensor(b, y)) => {
                let mut one = |(a, b): (&Dim, &Dim)| match a {
                    Dim::Var(v) => *dims.entry(*v).or_insert(*b) == *b,
                    Dim::Const(_) => a == b,
                };
                x == y && a.len() == b.len() && a.iter().zip(b).all(&mut one)
            }
            (Ty::Tuple(a), Ty::Tuple(b)) => all(a, b),
            (Ty::Func(a, r), Ty::Func(b, s)) => all(a, b) && r.unify(s, dims),
            (Ty::Ref(a), Ty::Ref(b))
            | (Ty::List(a), Ty::List(b))
            | (Ty::Option(a), Ty::Option(b))
            | (Ty::Choice(a), Ty::Choice(b)) => a.unify(b, dims),
            (a, b) => a == b,
        }
    }
    /// Collects the dimension variables in it, each once.
    pub fn vars(&self, out: &mut Vec<u32>) {
        match self {
            Ty::Tensor(dims, _) => {
                for d in dims {
                    if let Dim::Var(v) = d
                        && !out.contains(v)
                    {
                        out.push(*v);
                    }
                }
            }
            Ty::Tuple(fields) => fields.iter().for_each(|t| t.vars(out)),
            Ty::Func(args, ret) => {
                args.iter().for_each(|t| t.vars(out));
                ret.vars(out);
            }
            Ty::Ref(t) | Ty::List(t) | Ty::Option(t) | Ty::Choice(t) => t.vars(out),
            Ty::Data(_) => {}
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
            Ty::Data(k) => write!(f, "Own{k}"),
        }
    }
}

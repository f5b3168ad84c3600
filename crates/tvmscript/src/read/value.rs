//! The values of expressions of the text.

use std::sync::Arc;

use relax_base::{Span, Symbol};
use relax_ir::{AttrValue, ExprId, TypeId};
use relax_sym::Dim;
use relax_tensor::DType;

/// The value of an expression. Nothing is evaluated: operators stay calls, and only what the
/// language itself requires of names, numbers and lists is resolved.
#[derive(Clone, Debug)]
pub(super) enum Val {
    /// Something that an error was reported for, or that is kept as text.
    Bad,
    /// A dotted name of the language: `R`, `R.nn.conv2d`, `T.int64`.
    Path(Symbol),
    /// A value of the program.
    Expr(ExprId),
    /// A symbolic dimension.
    Dim(Dim),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// `None`.
    None,
    /// A Python string.
    Str(Arc<str>),
    /// `R.str("…")`.
    StrValue(Arc<str>),
    /// `R.dtype("…")`.
    DType(DType),
    /// `T.float32(1.0)`: a number with its type.
    Number(DType, f64),
    /// `[a, b]`.
    List(Vec<Val>),
    /// `(a, b)`.
    Tuple(Vec<Val>),
    /// `{k: v}`.
    Dict(Vec<(Val, Val)>),
    /// `a:b` in an index.
    Slice,
    /// `T.index_map(lambda …)`: the layouts before and after it.
    Layouts(Arc<[String; 2]>),
    /// A type.
    Type(TypeId),
    /// The class of the module.
    Class,
    /// A function of the module, by its index.
    Function(usize),
    /// `metadata`, and `metadata["key"]`.
    Metadata(Option<Arc<str>>),
    /// An entry of the metadata section.
    Meta(Symbol, u32),
    /// `R.ExternFunc("name")`.
    Extern(Symbol),
    /// `R.dataflow()`.
    Dataflow,
    /// `R.output(…)`.
    Output(Vec<(Val, Span)>),
    /// `R.func_attr({…})`.
    FuncAttr(Vec<(Symbol, AttrValue)>),
    /// `T.int64()`: a symbol to be named by the assignment.
    Symbol,
    /// A decorator.
    Decorator(Decorator),
}

/// The meaning of a decorator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decorator {
    /// `@I.ir_module`.
    Module,
    /// `@R.function`.
    Relax {
        /// Whether it cannot be called from outside.
        private: bool,
        /// Whether it has no effects.
        pure: bool,
    },
    /// `@T.prim_func`, `@I.pyfunc`: an item that is not Relax.
    Other,
}

impl Val {
    /// Returns its description in messages.
    pub fn describe(&self) -> &'static str {
        match self {
            Val::Bad => "something that is wrong",
            Val::Path(_) => "a name of the language",
            Val::Expr(_) => "a value",
            Val::Dim(_) => "a symbolic dimension",
            Val::Int(_) => "an integer",
            Val::Float(_) | Val::Number(..) => "a number",
            Val::Bool(_) => "a truth value",
            Val::None => "`None`",
            Val::Str(_) | Val::StrValue(_) => "a string",
            Val::DType(_) => "an element type",
            Val::List(_) => "a list",
            Val::Tuple(_) => "a tuple",
            Val::Dict(_) => "a dictionary",
            Val::Slice => "a slice",
            Val::Layouts(_) => "a function over indices",
            Val::Type(_) => "a type",
            Val::Class => "the module",
            Val::Function(_) | Val::Extern(_) => "a function",
            Val::Metadata(_) | Val::Meta(..) => "an entry of the metadata section",
            Val::Dataflow => "a dataflow block",
            Val::Output(_) => "the outputs of a dataflow block",
            Val::FuncAttr(_) => "the attributes of a function",
            Val::Symbol => "a new symbolic dimension",
            Val::Decorator(_) => "a decorator",
        }
    }

    /// Returns an integer or symbolic value as a dimension.
    pub fn as_dim(&self) -> Option<Dim> {
        match self {
            Val::Int(i) => Some(Dim::from(*i)),
            Val::Dim(d) => Some(d.clone()),
            _ => None,
        }
    }

    /// Returns the value as an attribute; `None` if it cannot be one.
    pub fn as_attr(&self) -> Option<AttrValue> {
        Some(match self {
            Val::Int(i) => AttrValue::Int(*i),
            Val::Float(x) => AttrValue::Float(*x),
            Val::Bool(b) => AttrValue::Bool(*b),
            Val::None => AttrValue::None,
            Val::Str(s) => AttrValue::Str(s.clone()),
            Val::StrValue(s) => named("R.str", AttrValue::Str(s.clone())),
            Val::DType(d) => AttrValue::DType(*d),
            Val::Dim(d) => AttrValue::dim(d.clone()),
            Val::Number(d, x) => named(&format!("T.{d}"), AttrValue::Float(*x)),
            // Values nest as deep as the text's brackets; a limit bounds the recursion.
            Val::List(items) => AttrValue::Array(attrs(items)?),
            Val::Tuple(items) => AttrValue::Array(attrs(items)?),
            Val::Dict(pairs) => {
                let mut out = Vec::with_capacity(pairs.len());
                for (k, v) in pairs {
                    let Val::Str(k) = k else { return None };
                    out.push((Symbol::new(k), v.as_attr()?));
                }
                AttrValue::Dict(out.into())
            }
            Val::Meta(key, i) => AttrValue::Meta(*key, *i),
            _ => return None,
        })
    }
}

fn attrs(items: &[Val]) -> Option<Arc<[AttrValue]>> {
    items.iter().map(Val::as_attr).collect()
}

/// Returns a value that the text writes as a constructor call: `T.float32(0.5)`, `R.str("a")`.
pub(super) fn named(constructor: &str, value: AttrValue) -> AttrValue {
    AttrValue::Dict([(Symbol::new(constructor), value)].into())
}

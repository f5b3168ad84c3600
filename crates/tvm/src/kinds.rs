//! Kinds of nodes: their meaning here, and how graphs encode their fields.
//!
//! The meaning of a node is its [`Sort`]; the encoding of its fields, and its names in older
//! versions, are data: `data/nodes.txt`.

use std::sync::LazyLock;

use relax_ops::Release;
use rustc_hash::FxHashMap;

/// The meaning of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[rustfmt::skip]
pub(crate) enum Sort {
    Null, Array, Map, Text, Int, Float, Bool,
    Module, TypeData, Dict,
    Var, GlobalVar, Op, Ctor, Constant,
    Tuple, Proj, Call, Func, Let, If, Match, RefNew, RefRead, RefWrite,
    Wildcard, PatVar, PatCtor, PatTuple,
    TensorType, TupleType, FuncType, TypeVar, GlobalTypeVar, TypeCall, RefType, Incomplete,
    AnyDim, DimVar,
    Other,
}

#[rustfmt::skip]
const SORTS: &[(&str, Sort)] = &[
    ("", Sort::Null), ("Array", Sort::Array), ("Map", Sort::Map), ("runtime.String", Sort::Text),
    ("tir.StringImm", Sort::Text), ("IntImm", Sort::Int), ("runtime.BoxInt", Sort::Int), ("FloatImm", Sort::Float),
    ("runtime.BoxFloat", Sort::Float), ("runtime.BoxBool", Sort::Bool),
    ("IRModule", Sort::Module), ("relay.TypeData", Sort::TypeData), ("DictAttrs", Sort::Dict),
    ("relay.Var", Sort::Var), ("GlobalVar", Sort::GlobalVar), ("Op", Sort::Op), ("relay.Constructor", Sort::Ctor),
    ("relay.Constant", Sort::Constant), ("relay.Tuple", Sort::Tuple), ("relay.TupleGetItem", Sort::Proj),
    ("relay.Call", Sort::Call), ("relay.Function", Sort::Func), ("relay.Let", Sort::Let), ("relay.If", Sort::If),
    ("relay.Match", Sort::Match), ("relay.RefCreate", Sort::RefNew), ("relay.RefRead", Sort::RefRead),
    ("relay.RefWrite", Sort::RefWrite), ("relay.PatternWildcard", Sort::Wildcard), ("relay.PatternVar", Sort::PatVar),
    ("relay.PatternConstructor", Sort::PatCtor), ("relay.PatternTuple", Sort::PatTuple),
    ("relay.TensorType", Sort::TensorType), ("TupleType", Sort::TupleType), ("FuncType", Sort::FuncType),
    ("TypeVar", Sort::TypeVar), ("GlobalTypeVar", Sort::GlobalTypeVar), ("TypeCall", Sort::TypeCall),
    ("relay.RefType", Sort::RefType), ("IncompleteType", Sort::Incomplete), ("tir.Any", Sort::AnyDim),
    ("tir.Var", Sort::DimVar), ("tir.SizeVar", Sort::DimVar),
];

impl Sort {
    /// Returns whether a node is an expression.
    pub(crate) fn is_expr(self) -> bool {
        self.is_leaf() || self.has_parts()
    }

    /// Returns whether a node is an expression that is printed in place at every use.
    #[rustfmt::skip]
    pub(crate) fn is_leaf(self) -> bool {
        matches!(self, Sort::Var | Sort::GlobalVar | Sort::Op | Sort::Ctor | Sort::Constant)
    }

    #[rustfmt::skip]
    fn has_parts(self) -> bool {
        matches!(
            self,
            Sort::Tuple | Sort::Proj | Sort::Call | Sort::Func | Sort::Let | Sort::If | Sort::Match | Sort::RefNew
                | Sort::RefRead | Sort::RefWrite
        )
    }

    /// Returns whether a node is a type.
    #[rustfmt::skip]
    pub(crate) fn is_type(self) -> bool {
        matches!(
            self,
            Sort::TensorType | Sort::TupleType | Sort::FuncType | Sort::TypeVar | Sort::GlobalTypeVar
                | Sort::TypeCall | Sort::RefType | Sort::Incomplete
        )
    }
}

/// The encoding of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Node,
    Tensor,
    Int,
    Bool,
    Float,
    Str,
    DType,
}

impl Form {
    fn of(letter: &str) -> Option<Form> {
        Some(match letter {
            "n" => Form::Node,
            "t" => Form::Tensor,
            "i" => Form::Int,
            "b" => Form::Bool,
            "f" => Form::Float,
            "s" => Form::Str,
            "d" => Form::DType,
            _ => return None,
        })
    }
}

/// The encoding of a field before a release (exclusive), and from that release on.
#[derive(Clone, Copy, Debug)]
struct Field {
    before: Option<(Release, Form)>,
    form: Form,
}

/// The fields of a kind.
#[derive(Debug, Default)]
pub(crate) struct Fields(FxHashMap<&'static str, Field>);

impl Fields {
    /// Iterates over their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    /// Returns the encoding of a field in graphs of this release; `None` if no release has the
    /// field.
    pub(crate) fn form(&self, name: &str, release: Release) -> Option<Form> {
        let field = self.0.get(name)?;
        Some(match field.before {
            Some((end, form)) if release < end => form,
            _ => field.form,
        })
    }
}

struct Tables {
    fields: FxHashMap<&'static str, Fields>,
    renamed: FxHashMap<&'static str, &'static str>,
    sorts: FxHashMap<&'static str, Sort>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables {
        fields: FxHashMap::default(),
        renamed: FxHashMap::default(),
        sorts: SORTS.iter().copied().collect(),
    };
    for line in include_str!("../data/nodes.txt").lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            None | Some("#") => {}
            Some("=") => {
                if let (Some(old), Some(new)) = (words.next(), words.next()) {
                    tables.renamed.insert(old, new);
                }
            }
            Some(kind) => {
                let fields = words.filter_map(field).collect();
                tables.fields.insert(kind, Fields(fields));
            }
        }
    }
    tables
});

/// Parses a table entry such as `layout:s<0.8/n`.
fn field(word: &'static str) -> Option<(&'static str, Field)> {
    let (name, forms) = word.split_once(':')?;
    let (before, form) = match forms.split_once('/') {
        None => (None, forms),
        Some((old, form)) => {
            let (old, end) = old.split_once('<')?;
            (Some((end.parse().ok()?, Form::of(old)?)), form)
        }
    };
    let form = Form::of(form)?;
    Some((name, Field { before, form }))
}

/// A kind of node that occurs in a graph.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// The name; the newest one if it was renamed.
    pub(crate) name: Box<str>,
    /// The length of the name in the file.
    pub(crate) len: u32,
    /// The meaning.
    pub(crate) sort: Sort,
    /// The fields, if they are known.
    pub(crate) fields: Option<&'static Fields>,
}

impl Kind {
    pub(crate) fn new(name: &str) -> Kind {
        let tables = &*TABLES;
        let len = name.len() as u32;
        let name = tables.renamed.get(name).copied().unwrap_or(name);
        Kind {
            name: name.into(),
            len,
            sort: tables.sorts.get(name).copied().unwrap_or(Sort::Other),
            fields: tables.fields.get(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        for line in include_str!("../data/nodes.txt").lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                None | Some("#" | "=") => {}
                Some(_) => words.for_each(|w| assert!(field(w).is_some(), "{line}")),
            }
        }
    }

    #[test]
    fn forms_follow_the_release() {
        let kind = Kind::new("relay.attrs.Conv2DAttrs");
        let form = |name, minor| kind.fields.and_then(|f| f.form(name, Release(minor)));
        assert_eq!(form("data_layout", 7), Some(Form::Str));
        assert_eq!(form("data_layout", 8), Some(Form::Node));
        assert_eq!(form("groups", 12), Some(Form::Int));
        assert_eq!(form("colour", 12), None);
        assert_eq!(Kind::new("relay.TypeVar").sort, Sort::TypeVar);
    }
}

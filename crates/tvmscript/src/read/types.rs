//! Annotations to types.

use relax_base::{Diagnostic, Span, Symbol, did_you_mean};
use relax_ir::{Adt, DTy, FuncType, Shape, TensorType, Type, TypeId};
use relax_sym::Dim;
use relax_tensor::DType;

use super::Reader;
use super::calls::Given;
use super::value::Val;
use crate::ast::NodeId;
use crate::codes;

const ELEMENT_TYPES: [&str; 14] = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "bfloat16", "handle",
];

impl Reader<'_> {
    /// Returns the type that an annotation denotes.
    pub(super) fn annotation(&mut self, val: Val, span: Span) -> Option<TypeId> {
        match val {
            Val::Type(t) => Some(t),
            Val::Path(path) => self.plain_type(path.as_str(), span),
            Val::Bad => None,
            // In a signature a type may be written as its name alone.
            other => {
                self.wrong(&other, span, "a type");
                None
            }
        }
    }

    fn plain_type(&mut self, path: &str, span: Span) -> Option<TypeId> {
        let types = &mut self.m.types;
        Some(match path {
            "R.Tensor" => types.intern(Type::Tensor(TensorType {
                shape: Shape::Unknown,
                dtype: DTy::Unknown,
            })),
            "R.Any" | "R.Object" => types.intern(Type::Object),
            "R.Tuple" => types.unit(),
            "R.Shape" => types.intern(Type::Shape(Shape::Unknown)),
            "R.Callable" => {
                self.keep("a function type without parameters and result", span);
                return None;
            }
            _ => {
                let scalar = path
                    .strip_prefix("T.")
                    .filter(|n| n.parse::<DType>().is_ok());
                if scalar.is_some() {
                    return Some(self.scalar_type(path));
                }
                if path.starts_with("T.") || path.starts_with("I.") {
                    self.keep("a type of TensorIR", span);
                    return None;
                }
                let names = ["R.Tensor", "R.Any", "R.Tuple", "R.Shape", "R.Callable"];
                let d = Diagnostic::error(codes::ANNOTATION, span, format!("`{path}` is no type"));
                self.report(near(d, span, path, &names));
                return None;
            }
        })
    }

    /// Returns the tensor type without axes for a variable that is a number, `n: T.int64`; the
    /// annotation is recorded for the variable.
    pub(super) fn scalar_annotation(&mut self, val: &Val) -> Option<TypeId> {
        let Val::Path(path) = val else { return None };
        let dtype = path.as_str().strip_prefix("T.")?.parse::<DType>().ok()?;
        let plain = !dtype.is_void() && dtype.code != relax_tensor::TypeCode::Handle;
        plain.then(|| self.m.types.scalar(dtype))
    }

    /// Returns the type of values that are numbers rather than tensors, `T.int64`: an opaque type
    /// of that name.
    pub(super) fn scalar_type(&mut self, name: &str) -> TypeId {
        let name = Symbol::new(name);
        let found = self
            .m
            .adts
            .iter()
            .find(|(_, a)| a.name == name)
            .map(|(id, _)| id);
        let id = found.unwrap_or_else(|| {
            self.m.adts.push(Adt {
                name,
                params: Vec::new(),
                ctors: Vec::new(),
                opaque: true,
                span: Span::NONE,
                prelude: true,
            })
        });
        self.m.types.intern(Type::Adt(id, Box::default()))
    }

    /// `R.Tensor(shape, dtype, vdevice, ndim)`.
    pub(super) fn tensor_type(&mut self, given: &mut Given, span: Span) -> Val {
        let first = given.take(0, "shape");
        let (mut shape, mut dtype) = match first {
            // `R.Tensor("float32", ndim=2)`.
            Some((Val::Str(s), at)) => (None, Some((Val::Str(s), at))),
            other => (other, None),
        };
        dtype = dtype.or_else(|| given.take(1, "dtype"));
        let vdevice = given.take(2, "vdevice");
        let ndim = given.take(3, "ndim");
        self.leftover(given, "R.Tensor", &["shape", "dtype", "vdevice", "ndim"]);
        if matches!(shape, Some((Val::None, _))) {
            shape = None;
        }
        let dtype = match dtype {
            None | Some((Val::None, _)) => DTy::Unknown,
            Some((val, at)) => match self.element_type(&val, at) {
                Some(d) => DTy::Known(d),
                None => return Val::Bad,
            },
        };
        if !matches!(vdevice, None | Some((Val::None, _))) {
            return self.keep("a tensor on a virtual device", span);
        }
        let rank = match ndim {
            None => None,
            Some((Val::Int(n), _)) if n >= 0 => Some(n),
            Some((Val::Int(-1), _)) => None,
            Some((Val::Int(n), at)) => {
                let message = format!("a tensor has no {n} axes; -1 stands for an unknown number");
                return self.error(codes::ANNOTATION, at, message);
            }
            Some((val, at)) => {
                self.wrong(&val, at, "the number of axes");
                return Val::Bad;
            }
        };
        let shape = match (shape, rank) {
            (None, None) => Shape::Unknown,
            (None, Some(n)) if n > 64 => {
                return self.error(codes::ANNOTATION, span, "a tensor has at most 64 axes");
            }
            (None, Some(n)) => Shape::Dims(vec![Dim::ANY; n as usize].into()),
            (Some((val, at)), rank) => {
                let Some(dims) = self.dims(val, at) else {
                    return Val::Bad;
                };
                if rank.is_some_and(|n| n as usize != dims.len()) {
                    let message = "the number of axes is not that of the shape";
                    return self.error(codes::ANNOTATION, span, message);
                }
                Shape::Dims(dims.into())
            }
        };
        Val::Type(
            self.m
                .types
                .intern(Type::Tensor(TensorType { shape, dtype })),
        )
    }

    /// Returns the element type that a string names.
    pub(super) fn element_type(&mut self, val: &Val, span: Span) -> Option<DType> {
        match val {
            Val::Str(name) => match name.parse::<DType>() {
                Ok(d) => Some(d),
                Err(_)
                    if ["float8", "float6", "float4", "custom"]
                        .iter()
                        .any(|p| name.starts_with(p)) =>
                {
                    self.keep("an element type that has no values here", span);
                    None
                }
                Err(_) => {
                    let message = format!("`{name}` is no element type");
                    let d = Diagnostic::error(codes::ANNOTATION, span, message);
                    let quoted: Vec<String> =
                        ELEMENT_TYPES.iter().map(|n| format!("\"{n}\"")).collect();
                    let names: Vec<&str> = quoted.iter().map(String::as_str).collect();
                    self.report(near(d, span, &format!("\"{name}\""), &names));
                    None
                }
            },
            Val::DType(d) => Some(*d),
            Val::Bad => None,
            other => {
                let other = other.clone();
                self.wrong(&other, span, "the name of an element type");
                None
            }
        }
    }

    /// Returns the dimensions of a shape: integers, symbols, and strings that contain them.
    pub(super) fn dims(&mut self, val: Val, span: Span) -> Option<Vec<Dim>> {
        match val {
            Val::Tuple(items) | Val::List(items) => {
                let mut dims = Vec::with_capacity(items.len());
                for item in items {
                    dims.push(self.dim(item, span)?);
                }
                Some(dims)
            }
            Val::Expr(e) => match &self.m.exprs[e] {
                relax_ir::Expr::Shape(dims) => Some(dims.to_vec()),
                _ => {
                    self.keep("a shape that is a value", span);
                    None
                }
            },
            other => {
                self.wrong(&other, span, "a shape");
                None
            }
        }
    }

    /// Evaluates an expression that was parsed after those of the statement, whose values are saved
    /// meanwhile.
    fn aside(&mut self, from: u32, id: NodeId) -> Val {
        let (vals, first, quiet) = (std::mem::take(&mut self.vals), self.first, self.quiet);
        self.eval_range(from, id.0 + 1);
        let val = self.take(id);
        (self.vals, self.first, self.quiet) = (vals, first, quiet);
        val
    }

    /// Evaluates a type again whose first occurrence, with the same text, has no value that is
    /// valid here.
    pub(super) fn again(&mut self, id: NodeId) -> Val {
        let span = self.ast.span(id);
        let from = self.ast.nodes.len() as u32;
        let text = self.text(span);
        match crate::parse::expression(&mut self.ast, text, span.start) {
            Some(id) => self.aside(from, id),
            None => Val::Bad,
        }
    }

    /// Returns one dimension.
    pub(super) fn dim(&mut self, val: Val, span: Span) -> Option<Dim> {
        match val {
            Val::Str(text) => self.dim_text(&text, span),
            Val::Number(d, x) if d.is_int() => Some(Dim::from(x as i64)),
            Val::Expr(_) => {
                self.keep("a dimension that is a value", span);
                None
            }
            other => match other.as_dim() {
                Some(d) => Some(d),
                None => {
                    self.wrong(&other, span, "a dimension");
                    None
                }
            },
        }
    }

    /// Parses a dimension written as a string: it may mention symbols that are bound later.
    fn dim_text(&mut self, text: &str, span: Span) -> Option<Dim> {
        let literal = self.text(span);
        let at = literal.find(text).unwrap_or(0) as u32;
        let from = self.ast.nodes.len() as u32;
        let Some(id) = crate::parse::expression(&mut self.ast, text, span.start + at) else {
            self.error(codes::SYNTAX, span, format!("`{text}` is no dimension"));
            return None;
        };
        for i in from..=id.0 {
            use crate::ast::Node;
            // The content is parsed as it is: it must not contain escapes.
            let node = self.ast.node(NodeId(i));
            if let (Node::Name, Some(_)) = (node, &self.signature) {
                let name = self.symbol(self.ast.span(NodeId(i)));
                let known = self.names.contains_key(&name) || self.symbols.contains_key(&name);
                let at = self.ast.span(NodeId(i));
                if !known && !super::eval::ROOTS.contains(&name.as_str()) {
                    self.new_symbol(name, at);
                    if !self.type_vars.contains_key(&name) {
                        self.in_strings.insert(name, (at, false));
                    }
                }
                if let Some((_, alone)) = self.in_strings.get_mut(&name) {
                    *alone |= from == id.0;
                }
            }
        }
        let val = self.aside(from, id);
        let span = self.ast.span(id);
        if let Val::Str(_) = val {
            self.wrong(&val, span, "a dimension");
            return None;
        }
        self.dim(val, span)
    }

    /// `R.Shape(values, ndim)`.
    pub(super) fn shape_type(&mut self, given: &mut Given, span: Span) -> Val {
        let values = given.take(0, "values");
        let ndim = given.take(1, "ndim");
        self.leftover(given, "R.Shape", &["values", "ndim"]);
        let shape = match (values, ndim) {
            (None | Some((Val::None, _)), None | Some((Val::Int(-1), _))) => Shape::Unknown,
            (None | Some((Val::None, _)), Some((Val::Int(n), _))) if (0..=64).contains(&n) => {
                Shape::Dims(vec![Dim::ANY; n as usize].into())
            }
            (Some((val, at)), None) => match self.dims(val, at) {
                Some(dims) => Shape::Dims(dims.into()),
                None => return Val::Bad,
            },
            _ => {
                return self.error(
                    codes::ANNOTATION,
                    span,
                    "a shape has either its values or their number",
                );
            }
        };
        Val::Type(self.m.types.intern(Type::Shape(shape)))
    }

    /// `R.Tuple(A, B)`.
    pub(super) fn tuple_type(&mut self, given: &mut Given, _span: Span) -> Val {
        let mut fields = Vec::new();
        let mut whole = true;
        let mut items = given.positional();
        if let [(Val::List(list) | Val::Tuple(list), at)] = &items[..] {
            items = list.iter().map(|v| (v.clone(), *at)).collect();
        }
        for (val, at) in items {
            match self.annotation(val, at) {
                Some(t) => fields.push(t),
                None => whole = false,
            }
        }
        self.leftover(given, "R.Tuple", &[]);
        if whole {
            Val::Type(self.m.types.tuple(fields))
        } else {
            Val::Bad
        }
    }

    /// `R.Callable((A,), B, purity)`.
    pub(super) fn callable_type(&mut self, given: &mut Given, span: Span) -> Val {
        let params = given.take(0, "params");
        let ret = given.take(1, "ret");
        let pure = given.take(2, "purity");
        self.leftover(
            given,
            "R.Callable",
            &["params", "ret", "purity", "derive_func"],
        );
        let (Some((params, at)), Some((ret, ret_at))) = (params, ret) else {
            return self.keep("a function type without parameters and result", span);
        };
        if matches!(pure, Some((Val::Bool(false), _))) {
            return self.keep("the type of a function with effects", span);
        }
        let params = match params {
            Val::Tuple(items) | Val::List(items) => items,
            one => vec![one],
        };
        let mut args = Vec::new();
        for val in params {
            match self.annotation(val, at) {
                Some(t) => args.push(t),
                None => return Val::Bad,
            }
        }
        let Some(ret) = self.annotation(ret, ret_at) else {
            return Val::Bad;
        };
        let func = FuncType {
            params: Box::default(),
            dims: Box::default(),
            args: args.into(),
            ret,
            constraints: Box::default(),
        };
        Val::Type(self.m.types.intern(Type::Func(Box::new(func))))
    }
}

/// Adds a suggestion of a similar name.
pub(super) fn near(d: Diagnostic, span: Span, name: &str, names: &[&str]) -> Diagnostic {
    match did_you_mean(name, names.iter().copied()) {
        Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
        None => d,
    }
}

/// Returns a piece of the text on one line.
pub(super) fn spelled(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

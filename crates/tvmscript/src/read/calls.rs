//! Calls: of the language's built-ins, of functions, of operators.

use relax_base::{Diagnostic, Span, Symbol, did_you_mean};
use relax_ir::{AttrValue, Attrs, Expr, ExprId, OpId, TypeId};
use relax_ops::registry;
use relax_sym::Dim;
use relax_tensor::DType;

use super::Reader;
use super::value::{Decorator, Val};
use crate::ast::{List, NodeId};
use crate::codes;
use crate::table::table;

/// An argument of a call.
pub(super) struct Argument {
    /// The keyword, and where it stands.
    pub name: Option<(Symbol, Span)>,
    pub val: Val,
    /// The place of the value.
    pub at: Span,
    /// Whether something took it.
    taken: bool,
}

/// The arguments of a call.
#[derive(Default)]
pub(super) struct Given {
    pub args: Vec<Argument>,
    /// How many positional ones there were.
    pub count: usize,
}

impl Given {
    /// Takes the positional argument `i`, or the keyword argument of that name.
    pub fn take(&mut self, i: usize, name: &str) -> Option<(Val, Span)> {
        let named = self.args[self.count..].iter();
        let mut named = named.filter_map(|a| a.name.map(|n| n.0));
        let name = named.find(|n| *n == name);
        self.take_symbol(i, name)
    }
    /// The same for a name that is a symbol already.
    pub fn take_symbol(&mut self, i: usize, name: Option<Symbol>) -> Option<(Val, Span)> {
        let own = |a: &Argument| !a.taken && a.name.is_some_and(|n| Some(n.0) == name);
        let mut named = self.args.iter().skip(self.count);
        let by_name = match name {
            Some(_) => named.position(own).map(|i| i + self.count),
            None => None,
        };
        let arg = &mut self.args[by_name.or((i < self.count).then_some(i))?];
        arg.taken = true;
        Some((std::mem::replace(&mut arg.val, Val::Bad), arg.at))
    }
    /// Takes all positional arguments.
    pub fn positional(&mut self) -> Vec<(Val, Span)> {
        let mut out = Vec::with_capacity(self.count);
        for arg in self.args[..self.count].iter_mut().filter(|a| !a.taken) {
            arg.taken = true;
            out.push((std::mem::replace(&mut arg.val, Val::Bad), arg.at));
        }
        out
    }
    /// The arguments that were not taken.
    pub fn rest(&self) -> impl Iterator<Item = &Argument> {
        self.args.iter().filter(|a| !a.taken)
    }
}

impl Reader<'_> {
    pub(super) fn call(&mut self, id: NodeId, func: NodeId, list: List) -> Val {
        let span = self.ast.span(id);
        let callee_span = self.ast.span(func);
        let callee = self.take(func);
        // The list is used again for the next call.
        let mut given = Given {
            args: std::mem::take(&mut self.spare),
            count: 0,
        };
        given.args.clear();
        for i in list.range() {
            let arg = self.ast.args[i];
            let at = self.ast.span(arg.value);
            let val = self.take(arg.value);
            let name = arg.name.map(|n| (self.symbol(n), n));
            if name.is_none() {
                if given.args.len() > given.count {
                    self.error(
                        codes::ARGUMENTS,
                        at,
                        "arguments without a name come before those with one",
                    );
                }
                given.count += 1;
            }
            given.args.push(Argument {
                name,
                val,
                at,
                taken: false,
            });
        }
        let val = match callee {
            Val::Path(path) => self.path_call(path.as_str(), &mut given, span, callee_span),
            Val::Expr(f) => self.value_call(f, &mut given, span),
            Val::Function(i) => {
                let f = self.function(i, callee_span);
                self.value_call(f, &mut given, span)
            }
            Val::Bad => Val::Bad,
            _ if self.quiet => Val::Bad,
            other => {
                let message = format!("{} cannot be called", other.describe());
                self.error(codes::KIND, callee_span, message)
            }
        };
        self.spare = given.args;
        val
    }

    /// Returns a reference to a function of the module.
    fn function(&mut self, i: usize, span: Span) -> ExprId {
        let item = &self.items[i];
        let expr = match item.global {
            Some(g) => Expr::Global(g),
            None => Expr::Extern(item.name),
        };
        self.m.add(expr, span)
    }

    fn value_call(&mut self, f: ExprId, given: &mut Given, span: Span) -> Val {
        let mut args = Vec::new();
        for (val, at) in given.positional() {
            match self.value(val, at) {
                Some(e) => args.push(e),
                None => return Val::Bad,
            }
        }
        self.leftover(given, "a function", &[]);
        Val::Expr(self.m.call(f, &args, span))
    }

    /// Reports arguments that were not taken.
    pub(super) fn leftover(&mut self, given: &Given, what: &str, names: &[&str]) {
        let mut found = Vec::new();
        for arg in given.rest() {
            let d = match arg.name {
                Some((_, name)) => {
                    let text = self.text(name);
                    let message = format!("`{what}` has no argument `{text}`");
                    super::types::near(
                        Diagnostic::error(codes::ARGUMENTS, name, message),
                        name,
                        text,
                        names,
                    )
                }
                None if matches!(arg.val, Val::Bad) && self.quiet => continue,
                None => Diagnostic::error(
                    codes::ARGUMENTS,
                    arg.at,
                    format!("`{what}` takes fewer arguments"),
                ),
            };
            found.push(d);
        }
        for d in found {
            self.report(d);
        }
    }

    fn path_call(&mut self, path: &str, given: &mut Given, span: Span, callee: Span) -> Val {
        // Most calls are those of operators.
        if let Some(op) = path.strip_prefix("R.").and_then(|name| table().find(name)) {
            return self.operator(op, given, span);
        }
        match path {
            "R.Tensor" => self.tensor_type(given, span),
            "R.Shape" => self.shape_type(given, span),
            "R.Tuple" => self.tuple_type(given, span),
            "R.Callable" => self.callable_type(given, span),
            "R.Any" | "R.Object" => {
                self.leftover(given, path, &[]);
                Val::Type(self.m.types.intern(relax_ir::Type::Object))
            }
            "R.DTensor" => self.keep("a distributed tensor", span),
            "R.const" => {
                let value = given.take(0, "value");
                let dtype = given.take(1, "dtype");
                self.leftover(given, path, &["value", "dtype"]);
                match value {
                    Some((value, _)) => self.constant(&value, dtype.as_ref().map(|d| &d.0), span),
                    None => self.error(codes::ARGUMENTS, span, "`R.const` takes a value"),
                }
            }
            "R.shape" => {
                let values = given.take(0, "value");
                self.leftover(given, path, &["value"]);
                let dims = values.and_then(|(v, at)| self.dims(v, at));
                match dims {
                    Some(dims) => Val::Expr(self.m.add(Expr::Shape(dims.into()), span)),
                    None => Val::Bad,
                }
            }
            "R.str" => match given.take(0, "value") {
                Some((Val::Str(s), _)) => Val::StrValue(s),
                Some((Val::Bad, _)) => Val::Bad,
                _ => self.error(codes::ARGUMENTS, span, "`R.str` takes a string"),
            },
            "R.dtype" => match given.take(0, "value") {
                Some((val @ Val::Str(_), at)) => {
                    self.element_type(&val, at).map_or(Val::Bad, Val::DType)
                }
                Some((Val::Bad, _)) => Val::Bad,
                _ => self.error(
                    codes::ARGUMENTS,
                    span,
                    "`R.dtype` takes the name of an element type",
                ),
            },
            "R.tuple" => {
                let items = given.positional().into_iter().map(|(v, _)| v).collect();
                self.leftover(given, path, &[]);
                Val::Tuple(items)
            }
            "R.ExternFunc" => match (given.take(0, "name"), given.rest().next()) {
                (Some((Val::Str(s), _)), None) => Val::Extern(Symbol::new(&s)),
                _ => self.keep("an external function with a type", span),
            },
            "R.dataflow" => Val::Dataflow,
            "R.output" => {
                let items = given.positional();
                self.leftover(given, path, &[]);
                Val::Output(items)
            }
            "R.func_attr" => match given.take(0, "attrs") {
                Some((Val::Dict(pairs), at)) => self.func_attr(pairs, at),
                Some((Val::Bad, _)) => Val::Bad,
                _ => self.error(codes::ARGUMENTS, span, "`R.func_attr` takes a dictionary"),
            },
            "R.match_cast" => {
                let value = given.take(0, "value").and_then(|(v, at)| self.value(v, at));
                let ty = given
                    .take(1, "ty")
                    .and_then(|(v, at)| self.annotation(v, at));
                self.leftover(given, path, &["value", "ty"]);
                match (value, ty) {
                    (Some(value), Some(ty)) => {
                        Val::Expr(self.m.add(Expr::MatchCast { value, ty }, span))
                    }
                    _ => Val::Bad,
                }
            }
            "R.function" => {
                let flag = |given: &mut Given, name: &str, default: bool| match given
                    .take(usize::MAX, name)
                {
                    Some((Val::Bool(b), _)) => b,
                    _ => default,
                };
                let private = flag(given, "private", false);
                let pure = flag(given, "pure", true);
                flag(given, "check_well_formed", true);
                self.leftover(given, path, &["private", "pure", "check_well_formed"]);
                Val::Decorator(Decorator::Relax { private, pure })
            }
            "T.index_map" => match (given.take(0, "mapping"), given.rest().next()) {
                (Some((val @ (Val::Layouts(_) | Val::Bad), _)), None) => val,
                _ => self.keep("a function over indices", span),
            },
            "I.ir_module" => Val::Decorator(Decorator::Module),
            "T.prim_func" | "I.pyfunc" | "T.macro" | "T.inline" => Val::Decorator(Decorator::Other),
            "float" => match given.take(0, "x") {
                Some((Val::Str(s), _)) => match s.trim().parse() {
                    Ok(x) => Val::Float(x),
                    Err(_) => self.error(codes::CONSTANT, span, format!("`{s}` is no number")),
                },
                Some((Val::Int(i), _)) => Val::Float(i as f64),
                Some((v @ Val::Float(_), _)) => v,
                _ => self.keep("a conversion", span),
            },
            _ if path.starts_with("R.") => self.named_operator(path, span, callee),
            _ if path.starts_with("T.") || path.starts_with("tir") => {
                self.tensor_ir_call(path, given, span)
            }
            "TypeVar" | "min" | "max" => self.symbolic_call(path, given, span),
            _ => self.keep("a call that is not Relax", span),
        }
    }

    fn func_attr(&mut self, pairs: Vec<(Val, Val)>, span: Span) -> Val {
        let mut attrs = Vec::new();
        for (k, v) in pairs {
            match (k, v.as_attr()) {
                (Val::Str(k), Some(v)) => attrs.push((Symbol::new(&k), v)),
                (Val::Bad, _) => {}
                _ if matches!(v, Val::Bad) => {}
                _ => return self.keep("an attribute that is no plain value", span),
            }
        }
        Val::FuncAttr(attrs)
    }

    /// `T.int64()`, `T.int64(4)`, `T.max(n, 0)`.
    fn tensor_ir_call(&mut self, path: &str, given: &Given, span: Span) -> Val {
        let name = path.split_once('.').map_or("", |p| p.1);
        let Ok(dtype) = name.parse::<DType>() else {
            return self.symbolic_call(name, given, span);
        };
        match &given.args[..] {
            [] if dtype == DType::I64 => Val::Symbol,
            [] => self.keep("a symbol that is no 64-bit integer", span),
            [
                Argument {
                    name: None, val, ..
                },
            ] => match val {
                Val::Int(i) if dtype == DType::I64 => Val::Int(*i),
                Val::Int(i) => Val::Number(dtype, *i as f64),
                Val::Float(x) => Val::Number(dtype, *x),
                Val::Bool(b) => Val::Number(dtype, f64::from(u8::from(*b))),
                Val::Dim(d) if dtype == DType::I64 => Val::Dim(d.clone()),
                Val::Str(s) => match s.parse() {
                    Ok(x) => Val::Number(dtype, x),
                    Err(_) => self.keep("a number written as text", span),
                },
                Val::Bad => Val::Bad,
                _ => self.keep("a conversion", span),
            },
            _ => self.keep("a call of TensorIR", span),
        }
    }

    /// Functions of dimensions.
    fn symbolic_call(&mut self, name: &str, given: &Given, span: Span) -> Val {
        let dims: Option<Vec<Dim>> = given.args.iter().map(|a| a.val.as_dim()).collect();
        let dim = match (name, dims.as_deref()) {
            ("min", Some([a, b])) => a.min(b),
            ("max", Some([a, b])) => a.max(b),
            ("floordiv" | "truncdiv" | "div" | "indexdiv", Some([a, b])) => a.floordiv(b),
            ("floormod" | "truncmod" | "indexmod", Some([a, b])) => a.modulo(b),
            ("ceildiv", Some([a, b])) => a.ceildiv(b),
            _ => return self.keep("a call of TensorIR", span),
        };
        if dim.as_atom().is_some() {
            // Simplified to one of the operands, while TVM prints both.
            return self.keep("a dimension that is said in another way", span);
        }
        if dim.error().is_none() && dim.as_const().is_none() {
            self.note_spelling(&dim, span);
        }
        Val::Dim(dim)
    }

    /// Returns what begins as an operator does and is none.
    fn named_operator(&mut self, path: &str, span: Span, callee: Span) -> Val {
        let name = &path[2..];
        if ["dist.", "device", "tensor", "prim", "ccl."]
            .iter()
            .any(|p| name.starts_with(p))
        {
            return self.keep("a construct of placement", span);
        }
        if self.quiet {
            return Val::Bad;
        }
        let mut d = Diagnostic::error(
            codes::UNKNOWN_OPERATOR,
            callee,
            format!("there is no operator `{path}`"),
        );
        let words = [
            "const",
            "shape",
            "str",
            "dtype",
            "tuple",
            "output",
            "func_attr",
            "match_cast",
            "call_packed",
        ];
        if let Some(near) = did_you_mean(name, table().names().chain(words)) {
            d = d.suggest(
                format!("did you mean `R.{near}`?"),
                callee,
                format!("R.{near}"),
            );
        }
        self.report(d);
        Val::Bad
    }

    /// Converts a value to an expression of the program.
    pub(super) fn value(&mut self, val: Val, span: Span) -> Option<ExprId> {
        match val {
            Val::Expr(e) => Some(e),
            Val::Function(i) => Some(self.function(i, span)),
            Val::Extern(name) => Some(self.m.add(Expr::Extern(name), span)),
            Val::Tuple(items) | Val::List(items) => {
                let mut fields = Vec::with_capacity(items.len());
                for item in items {
                    fields.push(self.value(item, span)?);
                }
                Some(self.m.tuple(&fields, span))
            }
            Val::Int(_)
            | Val::Float(_)
            | Val::Bool(_)
            | Val::Number(..)
            | Val::Dim(_)
            | Val::DType(_)
            | Val::StrValue(_) => {
                let value = val.as_attr()?;
                Some(self.plain(value, span))
            }
            Val::Str(s) => Some(self.plain(super::value::named("R.str", AttrValue::Str(s)), span)),
            Val::Bad => None,
            Val::Type(_)
            | Val::Path(_)
            | Val::Class
            | Val::Decorator(_)
            | Val::Dataflow
            | Val::Output(_)
            | Val::FuncAttr(_)
            | Val::Symbol
            | Val::Slice => {
                self.wrong(&val, span, "a value");
                None
            }
            Val::None | Val::Dict(_) | Val::Metadata(_) | Val::Meta(..) | Val::Layouts(_) => {
                self.keep("a value that has no form here", span);
                None
            }
        }
    }

    /// Creates a value that is not a tensor.
    fn plain(&mut self, value: AttrValue, span: Span) -> ExprId {
        let attrs: Attrs = [(Symbol::new("value"), value)].into_iter().collect();
        self.op_call("relax.value", &[], attrs, &[], span)
    }

    /// Creates a call of an operator of the registry.
    pub(super) fn op_call(
        &mut self,
        op: &str,
        args: &[ExprId],
        attrs: Attrs,
        type_args: &[TypeId],
        span: Span,
    ) -> ExprId {
        match registry().find(op) {
            Some(op) => self.call_of(op, args, attrs, type_args, span),
            None => self.m.add(Expr::Error, span),
        }
    }
    pub(super) fn call_of(
        &mut self,
        op: OpId,
        args: &[ExprId],
        attrs: Attrs,
        type_args: &[TypeId],
        span: Span,
    ) -> ExprId {
        let callee = self.m.add(Expr::Op(op), Span::NONE);
        let (args, attrs) = (self.m.make_list(args), self.m.make_attrs(attrs));
        let type_args = self.m.make_type_args(type_args);
        let call = Expr::Call {
            callee,
            args,
            attrs,
            type_args,
        };
        self.m.add(call, span)
    }
}

//! Expressions: names, numbers, arithmetic of dimensions, attributes and indices.

use relax_base::{Diagnostic, Symbol, did_you_mean};
use relax_ir::{AttrValue, DimInfo, Expr};
use relax_sym::Dim;

use super::Reader;
use super::value::Val;
use crate::ast::{List, Node, NodeId, Operation};
use crate::codes;
use crate::strings;

/// Predefined names.
pub(super) const ROOTS: [&str; 10] = [
    "I", "R", "T", "Tx", "tvm", "ir", "relax", "tir", "tirx", "Axis",
];
/// Python's built-ins that texts use.
const BUILTIN: [&str; 9] = [
    "TypeVar", "range", "float", "int", "bool", "max", "min", "len", "abs",
];

impl Reader<'_> {
    /// Returns the value of an expression whose operands were evaluated before.
    pub(super) fn eval(&mut self, id: NodeId) -> Val {
        let span = self.ast.span(id);
        match self.ast.node(id) {
            Node::Name => self.name(self.text(span), span),
            Node::Path => self.path(span),
            Node::Same(other) => match self.types.get(&other) {
                Some(&t) => Val::Type(t),
                // Errors are reported at each occurrence.
                None => self.again(id),
            },
            Node::Int => match strings::integer(self.text(span)) {
                Some(i) => Val::Int(i),
                None => self.error(codes::CONSTANT, span, "the integer does not fit in 64 bits"),
            },
            Node::Float => Val::Float(self.text(span).replace('_', "").parse().unwrap_or(f64::NAN)),
            Node::Str => match strings::unquote(self.text(span)) {
                Some(s) => Val::Str(s.into()),
                None => self.error(
                    codes::STRING,
                    span,
                    "the string has an escape that does not exist",
                ),
            },
            Node::Bool(b) => Val::Bool(b),
            Node::None => Val::None,
            Node::Attr(base, name) => {
                let base = self.take(base);
                self.attribute(base, name, span)
            }
            Node::Call(func, args) => self.call(id, func, args),
            Node::Index(base, index) => {
                let (base, index) = (self.take(base), self.take(index));
                self.index(base, index, span)
            }
            Node::Slice(_) => Val::Slice,
            Node::Tuple(list) => Val::Tuple(self.items(list)),
            Node::List(list) => Val::List(self.items(list)),
            Node::Dict(list) => {
                let mut items = self.items(list).into_iter();
                let mut pairs = Vec::new();
                while let (Some(k), Some(v)) = (items.next(), items.next()) {
                    pairs.push((k, v));
                }
                Val::Dict(pairs)
            }
            Node::Unary(op, x) => {
                let x = self.take(x);
                self.unary(op, x, span)
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.take(a), self.take(b));
                self.binary(op, a, b, span)
            }
            Node::Lambda(params, body) => match self.layouts(params, body) {
                Some(layouts) => Val::Layouts(layouts.into()),
                None => self.keep("a function over indices", span),
            },
        }
    }

    fn items(&mut self, list: List) -> Vec<Val> {
        (list.range())
            .map(|i| self.take(self.ast.lists[i]))
            .collect()
    }

    /// Evaluates a dotted name.
    fn path(&mut self, span: relax_base::Span) -> Val {
        let text = self.text(span);
        let Some((root, mut rest)) = text.split_once('.') else {
            return Val::Bad;
        };
        // Nothing else can have that name.
        if root == "R" {
            return Val::Path(Symbol::new(text));
        }
        let mut end = span.start + root.len() as u32;
        let mut val = self.name(root, relax_base::Span::new(span.start, end));
        if let Val::Path(_) = val {
            return Val::Path(Symbol::new(text));
        }
        while !rest.is_empty() {
            let (name, behind) = rest.split_once('.').unwrap_or((rest, ""));
            let from = end + 1;
            end = from + name.len() as u32;
            let name = relax_base::Span::new(from, end);
            val = self.attribute(val, name, relax_base::Span::new(span.start, end));
            rest = behind;
        }
        val
    }

    fn name(&mut self, text: &str, span: relax_base::Span) -> Val {
        let name = Symbol::new(text);
        if let Some(val) = self.names.get(&name) {
            return match val {
                // Each occurrence has its own span.
                Val::Expr(e) => match self.m.exprs[*e] {
                    Expr::Var(v) => Val::Expr(self.m.add(Expr::Var(v), span)),
                    _ => Val::Expr(*e),
                },
                other => other.clone(),
            };
        }
        if let Some(d) = self.symbols.get(&name) {
            return Val::Dim(d.clone());
        }
        if self.type_vars.contains_key(&name) {
            return Val::Dim(self.new_symbol(name, span));
        }
        if let Some(&(at, e)) = self.numbers.get(&name)
            && at.start < span.start
        {
            return Val::Expr(e);
        }
        if text == "metadata" && self.metadata.is_given() {
            return Val::Metadata(None);
        }
        if ROOTS.contains(&text) || BUILTIN.contains(&text) {
            return Val::Path(name);
        }
        if self.quiet || self.damaged_name(text) {
            return Val::Bad;
        }
        self.undefined(name, span)
    }

    /// Returns whether a line that could not be read may bind the name.
    pub(super) fn damaged_name(&self, text: &str) -> bool {
        let mut bad = self
            .ast
            .stmts
            .iter()
            .filter(|s| s.kind == crate::ast::StmtKind::Bad);
        self.damaged && bad.any(|s| s.span.is_none() || self.text(s.span).contains(text))
    }

    fn undefined(&mut self, name: Symbol, span: relax_base::Span) -> Val {
        let message = format!("`{name}` is not defined here");
        let mut d = Diagnostic::error(codes::UNDEFINED, span, message);
        let own = self
            .names
            .keys()
            .chain(self.symbols.keys())
            .chain(self.type_vars.keys());
        let near = own
            .map(|s| s.as_str())
            .filter(|s| s.len() > 1 || name.as_str().len() > 1);
        if let Some(near) = did_you_mean(name.as_str(), near) {
            d = d.suggest(format!("did you mean `{near}`?"), span, near);
        } else if self.item_names.contains_key(&name) {
            let call = format!("cls.{name}");
            d = d.suggest(
                "functions of the module are named by `cls = Module`",
                span,
                call,
            );
        }
        self.report(d);
        Val::Bad
    }

    /// Creates this function's variable for a symbol.
    pub(super) fn new_symbol(&mut self, name: Symbol, span: relax_base::Span) -> Dim {
        let var = self.m.dims.push(DimInfo { name, span });
        let dim = Dim::var(var);
        self.symbols.insert(name, dim.clone());
        if let Some(list) = &mut self.signature {
            list.push(var);
        }
        dim
    }

    fn attribute(&mut self, base: Val, name: relax_base::Span, span: relax_base::Span) -> Val {
        let text = self.text(name);
        match base {
            Val::Path(path) => Val::Path(Symbol::new(&format!("{path}.{text}"))),
            Val::Class => match self.item_names.get(&Symbol::new(text)) {
                Some(&i) => Val::Function(i),
                None if self.damaged_name(text) => Val::Bad,
                None => self.no_function(text, name),
            },
            Val::Bad => Val::Bad,
            other => {
                if self.quiet {
                    return Val::Bad;
                }
                let message = format!("{} has no attribute `{text}`", other.describe());
                self.error(codes::KIND, span, message)
            }
        }
    }

    fn no_function(&mut self, text: &str, span: relax_base::Span) -> Val {
        let message = format!("the module has no function `{text}`");
        let mut d = Diagnostic::error(codes::NO_FUNCTION, span, message);
        let names = self.items.iter().map(|i| i.name.as_str());
        if let Some(near) = did_you_mean(text, names) {
            d = d.suggest(format!("did you mean `{near}`?"), span, near);
        }
        self.report(d);
        Val::Bad
    }

    fn index(&mut self, base: Val, index: Val, span: relax_base::Span) -> Val {
        match (base, index) {
            (Val::Expr(tuple), Val::Int(i)) => match u32::try_from(i) {
                Ok(index) => Val::Expr(self.m.add(Expr::Proj { tuple, index }, span)),
                Err(_) => self.error(codes::KIND, span, "fields of a tuple are counted from 0"),
            },
            (Val::Metadata(None), Val::Str(key)) => Val::Metadata(Some(key)),
            (Val::Metadata(Some(key)), Val::Int(i)) => self.metadata_entry(&key, i, span),
            (Val::Tuple(items) | Val::List(items), Val::Int(i)) => {
                let item = usize::try_from(i)
                    .ok()
                    .and_then(|i| items.into_iter().nth(i));
                item.unwrap_or_else(|| self.error(codes::KIND, span, "there is no such item"))
            }
            (Val::Bad, _) | (_, Val::Bad) => Val::Bad,
            (Val::Path(_), _) => self.keep("an indexed name of the language", span),
            _ if self.quiet => Val::Bad,
            (base, index) => {
                let message = format!("{} is not indexed by {}", base.describe(), index.describe());
                self.error(codes::KIND, span, message)
            }
        }
    }

    fn unary(&mut self, op: Operation, x: Val, span: relax_base::Span) -> Val {
        match (op, x) {
            (Operation::Neg, Val::Int(i)) => Val::Int(i.wrapping_neg()),
            (Operation::Neg, Val::Float(x)) => Val::Float(-x),
            (Operation::Neg, Val::Dim(d)) => Val::Dim(-d),
            (Operation::Pos, v @ (Val::Int(_) | Val::Float(_) | Val::Dim(_))) => v,
            (Operation::Not, Val::Bool(b)) => Val::Bool(!b),
            (_, Val::Bad) => Val::Bad,
            (_, Val::Expr(_) | Val::Dim(_) | Val::Number(..)) => {
                self.keep("arithmetic on values", span)
            }
            _ if self.quiet => Val::Bad,
            (_, x) => {
                let message = format!("no arithmetic is done on {}", x.describe());
                self.error(codes::KIND, span, message)
            }
        }
    }

    /// Records the text of a dimension, if it differs from that of its normal form.
    pub(super) fn note_spelling(&mut self, dim: &Dim, span: relax_base::Span) {
        let plain = dim
            .display(&|v| self.m.dims[v].name.to_string())
            .to_string();
        let text = super::types::spelled(self.text(span));
        let collapsed = dim.as_atom().is_some() || dim.as_const().is_some();
        let other = self.spelled.insert(dim.clone(), text.to_string());
        if other.is_some_and(|o| o != *text) && !collapsed {
            self.keep("a dimension that is written in two ways", span);
        } else if plain != text {
            self.script.dims.insert(dim.clone(), text.into());
        }
    }

    fn binary(&mut self, op: Operation, a: Val, b: Val, span: relax_base::Span) -> Val {
        use Operation::{Add, Div, FloorDiv, Mod, Mul, Sub};
        if let (Some(x), Some(y)) = (a.as_dim(), b.as_dim()) {
            if let Some(text) = comparison(op) {
                return Val::Expr(self.condition(text, &a, &b, span));
            }
            let dim = match op {
                Add => &x + &y,
                Sub => &x - &y,
                Mul => &x * &y,
                FloorDiv => x.floordiv(&y),
                Mod => x.modulo(&y),
                _ => return self.keep("a condition over dimensions", span),
            };
            if let Some(why) = dim.error() {
                return self.error(codes::KIND, span, why.to_string());
            }
            if let (Val::Int(_), Val::Int(_), Some(i)) = (&a, &b, dim.as_const()) {
                return Val::Int(i);
            }
            self.note_spelling(&dim, span);
            return Val::Dim(dim);
        }
        match (op, a, b) {
            (Div, Val::Int(a), Val::Int(b)) => Val::Float(a as f64 / b as f64),
            (_, Val::Bad, _) | (_, _, Val::Bad) => Val::Bad,
            (_, a, b) => {
                let value = |v: &Val| {
                    matches!(
                        v,
                        Val::Expr(_)
                            | Val::Number(..)
                            | Val::Dim(_)
                            | Val::Float(_)
                            | Val::Int(_)
                            | Val::Bool(_)
                    )
                };
                if self.quiet || value(&a) && value(&b) {
                    return self.keep("arithmetic on values", span);
                }
                let message = format!(
                    "no arithmetic is done on {} and {}",
                    a.describe(),
                    b.describe()
                );
                self.error(codes::KIND, span, message)
            }
        }
    }
}

impl Reader<'_> {
    /// Evaluates a condition over dimensions.
    fn condition(
        &mut self,
        op: &str,
        a: &Val,
        b: &Val,
        span: relax_base::Span,
    ) -> relax_ir::ExprId {
        let side = |v: &Val| v.as_attr().unwrap_or(AttrValue::None);
        let attrs = [
            (Symbol::new("left"), side(a)),
            (Symbol::new("op"), AttrValue::Str(op.into())),
            (Symbol::new("right"), side(b)),
        ];
        self.op_call(
            "relax.condition",
            &[],
            attrs.into_iter().collect(),
            &[],
            span,
        )
    }
}

/// Returns the spelling of a comparison.
fn comparison(op: Operation) -> Option<&'static str> {
    Some(match op {
        Operation::Eq => "==",
        Operation::Ne => "!=",
        Operation::Lt => "<",
        Operation::Le => "<=",
        Operation::Gt => ">",
        Operation::Ge => ">=",
        _ => return None,
    })
}

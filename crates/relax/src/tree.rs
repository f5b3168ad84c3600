//! Expressions as plain data, for inspecting and transforming programs from another language.

use relax_base::{Span, did_you_mean};
use relax_ir::{AttrValue, Attrs, Expr, ExprId, FuncId, GlobalId, GlobalKind, Module as Ir, OpId};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::{Error, Module, TensorType, TypeSource, TypedModule};

/// An expression of a function.
#[derive(Clone, Debug)]
pub struct Node {
    /// The kind:`call`, `var`, `constant`, `tuple`, `field`, `let`, `if`, `match`, `function`,
    /// `operator`, `global`, `constructor`, `extern`, `ref`, `ref_read`, `ref_write`, `shape`,
    /// `match_shape`, `match_cast`, `dataflow`.
    pub kind: &'static str,
    /// The name of what has one: `%x` for variables and for what a `let` binds, `@f`, `nn.dense`,
    /// `Cons`, the number of a field.
    pub name: String,
    /// Variables of the same number are the same.
    pub variable: Option<u32>,
    /// The operands, as indices of earlier nodes: the callee and arguments of a call, the value and
    /// the body of a `let`, the condition and the branches of an `if`.
    pub parts: Vec<usize>,
    /// The attributes of a call.
    pub attributes: Vec<(String, Attr)>,
    /// The type in the text format's syntax; empty if unknown.
    pub ty: String,
    /// The tensor type, if it is one.
    pub tensor: Option<TensorType>,
    /// The value of a constant.
    pub constant: Option<Tensor>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum Attr {
    /// None.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string, or an element type.
    Text(String),
    /// A dimension, in the text format's syntax.
    Dim(String),
    /// A list.
    List(Vec<Attr>),
    /// Any other value, in the text format's syntax: it is preserved when a call is kept, but
    /// cannot be constructed.
    Other(String),
}

/// An expression of a function's new body. Operands are indices of earlier ones.
#[derive(Clone, Debug)]
pub enum Made {
    /// One of [`Module::expressions`], with new operands.
    Kept(usize, Vec<usize>),
    /// A call of an operator, function or constructor (`nn.relu`, `@f`, `Cons`) with attributes;
    /// missing ones take their defaults. The last field is the old expression whose span it
    /// inherits.
    Call(String, Vec<usize>, Vec<(String, Attr)>, Option<usize>),
    /// A tuple.
    Tuple(Vec<usize>),
    /// A projection of a tuple field.
    Field(usize, u32),
    /// A constant.
    Constant(Tensor),
}

fn misused<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Misused(text.into()))
}

impl Module {
    /// Returns the expressions of a function's body (of `main`, or the only function) in
    /// topological order, each once: operands first, the body last.
    ///
    /// ```
    /// let module = relax::Module::parse("def @main(%x: Tensor[(n,), float32]) { nn.relu(%x) }")?;
    /// let all = module.expressions(None)?;
    /// let last = all.last().expect("a body");
    /// assert_eq!((last.kind, last.ty.as_str()), ("call", "Tensor[(n,), float32]"));
    /// assert_eq!(all[last.parts[0]].name, "nn.relu");
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// The function does not exist.
    pub fn expressions(&self, function: Option<&str>) -> Result<Vec<Node>, Error> {
        let (_, func) = self.function(function)?;
        let order = self.ir.post_order([self.ir.funcs[func].body]);
        let numbers: FxHashMap<ExprId, usize> =
            order.iter().enumerate().map(|(i, &id)| (id, i)).collect();
        let typed = TypedModule {
            module: &self.ir,
            typing: &self.typing,
        };
        let node = |&id: &ExprId| {
            let mut parts = Vec::new();
            self.ir.for_each_child(id, |c| parts.push(numbers[&c]));
            let (kind, name) = kind(&self.ir, id);
            let ty = typed.expr(id);
            let mut node = Node {
                kind,
                name,
                variable: None,
                parts,
                attributes: Vec::new(),
                ty: ty.map_or(String::new(), |t| self.ir.show_type(t)),
                tensor: ty.and_then(|t| crate::types::tensor_type(&self.ir, t)),
                constant: None,
            };
            match &self.ir.exprs[id] {
                Expr::Var(v) | Expr::Let { var: v, .. } => node.variable = Some(v.0),
                Expr::Const(c) => node.constant = Some(self.ir.consts[*c].clone()),
                Expr::Call { attrs, .. } => {
                    let all = self.ir.attrs(*attrs).iter();
                    let all = all.map(|(n, v)| (n.to_string(), attribute(&self.ir, v)));
                    node.attributes = all.collect();
                }
                _ => {}
            }
            node
        };
        Ok(order.iter().map(node).collect())
    }

    fn function(&self, name: Option<&str>) -> Result<(GlobalId, FuncId), Error> {
        let id = self.find(name)?;
        match self.ir.global_func(id) {
            Some(func) => Ok((id, func)),
            None => misused(format!("@{} is no function", self.ir.globals[id].name)),
        }
    }

    /// Replaces a function's body (of `main`, or the only function) with one built from its old
    /// expressions and new ones: the last one is the body.
    ///
    /// ```
    /// use relax::{Made, Module};
    /// let mut module = Module::parse("def @main(%x: Tensor[(n,), float32]) { exp(%x) }")?;
    /// let x = module.expressions(None)?.iter().position(|n| n.kind == "var").expect("%x");
    /// let made = [Made::Kept(x, vec![]), Made::Call("nn.relu".into(), vec![0], vec![], None)];
    /// module.rebuild(None, &made)?;
    /// assert!(module.to_string().contains("nn.relu(%x)"));
    /// # Ok::<(), relax::Error>(())
    /// ```
    ///
    /// # Errors
    /// The function, an operator or an attribute does not exist, or the new body has errors; the
    /// module is then unchanged.
    pub fn rebuild(&mut self, function: Option<&str>, made: &[Made]) -> Result<(), Error> {
        let (id, func) = self.function(function)?;
        let order = self.ir.post_order([self.ir.funcs[func].body]);
        let mut builder = Builder {
            dims: dims(&self.ir, &order),
            ir: &mut self.ir,
            order,
            done: Vec::with_capacity(made.len()),
        };
        for expr in made {
            let new = builder.add(expr)?;
            builder.done.push(new);
        }
        let Some(&body) = builder.done.last() else {
            return misused("a function has a body");
        };
        self.ir.set_global_body(id, body);
        let verified = match self.ir.global_func(id) {
            Some(func) => self.ir.verify_function(func),
            None => Ok(()),
        };
        let outcome = match verified {
            Ok(()) => self.retype(),
            Err(breach) => misused(format!("the new body of the function: {}", breach.message)),
        };
        if outcome.is_err() {
            self.ir.globals[id].kind = GlobalKind::Func(func);
            self.retype()?;
        }
        outcome
    }
}

/// Returns the kind of an expression, and its name.
fn kind(m: &Ir, id: ExprId) -> (&'static str, String) {
    let var = |v: &relax_ir::VarId| format!("%{}", m.vars[*v].name);
    match &m.exprs[id] {
        Expr::Var(v) => ("var", var(v)),
        Expr::Global(g) => ("global", format!("@{}", m.globals[*g].name)),
        Expr::Op(op) => ("operator", operator_name(m, *op)),
        Expr::Ctor(c) => ("constructor", m.ctors[*c].name.to_string()),
        Expr::Extern(name) => ("extern", name.to_string()),
        Expr::Const(_) => ("constant", String::new()),
        Expr::Tuple(_) => ("tuple", String::new()),
        Expr::Proj { index, .. } => ("field", index.to_string()),
        Expr::Func(_) => ("function", String::new()),
        Expr::Call { .. } => ("call", String::new()),
        Expr::Let { var: v, .. } => ("let", var(v)),
        Expr::If { .. } => ("if", String::new()),
        Expr::Match { .. } => ("match", String::new()),
        Expr::RefNew(_) => ("ref", String::new()),
        Expr::RefRead(_) => ("ref_read", String::new()),
        Expr::RefWrite(..) => ("ref_write", String::new()),
        Expr::Shape(_) => ("shape", String::new()),
        Expr::MatchShape { .. } => ("match_shape", String::new()),
        Expr::MatchCast { .. } => ("match_cast", String::new()),
        Expr::Dataflow { .. } => ("dataflow", String::new()),
        Expr::Error => ("error", String::new()),
    }
}

fn operator_name(m: &Ir, op: OpId) -> String {
    match m.user_op(op) {
        Some(user) => user.name.to_string(),
        None => crate::print::op_name(op),
    }
}

/// Converts an attribute value. The recursion is bounded, as the reader rejects deeply nested
/// values.
fn attribute(m: &Ir, value: &AttrValue) -> Attr {
    match value {
        AttrValue::None => Attr::None,
        AttrValue::Bool(v) => Attr::Bool(*v),
        AttrValue::Int(v) => Attr::Int(*v),
        AttrValue::Float(v) => Attr::Float(*v),
        AttrValue::Str(v) => Attr::Text(v.to_string()),
        AttrValue::DType(v) => Attr::Text(v.to_string()),
        AttrValue::Dim(d) => match d.as_const() {
            Some(n) => Attr::Int(n),
            None => Attr::Dim(m.show_dim(d)),
        },
        AttrValue::Array(items) => Attr::List(items.iter().map(|i| attribute(m, i)).collect()),
        AttrValue::Dict(_) => Attr::Other("{…}".into()),
        AttrValue::Meta(key, index) => Attr::Other(format!("meta[{key}][{index}]")),
        AttrValue::Attr(name) => Attr::Other(name.to_string()),
    }
}

/// Collects the dimensions that occur in attributes and types of the expressions, by their text.
fn dims(m: &Ir, order: &[ExprId]) -> FxHashMap<String, Dim> {
    let mut found = FxHashMap::default();
    let mut work: Vec<&AttrValue> = Vec::new();
    for &id in order {
        if let Expr::Call { attrs, .. } = &m.exprs[id] {
            work.extend(m.attrs(*attrs).iter().map(|(_, v)| v));
        }
        while let Some(value) = work.pop() {
            match value {
                AttrValue::Array(items) => work.extend(items.iter()),
                AttrValue::Dim(d) => drop(found.insert(m.show_dim(d), d.clone())),
                _ => {}
            }
        }
    }
    for (var, info) in m.dims.iter() {
        let dim = || Dim::var(var);
        found.entry(info.name.to_string()).or_insert_with(dim);
    }
    found
}

/// Builds the expressions of a new body.
struct Builder<'m> {
    ir: &'m mut Ir,
    order: Vec<ExprId>,
    dims: FxHashMap<String, Dim>,
    done: Vec<ExprId>,
}

impl Builder<'_> {
    fn part(&self, number: usize) -> Result<ExprId, Error> {
        let none = || Error::Misused(format!("there is no expression {number} before this one"));
        self.done.get(number).copied().ok_or_else(none)
    }

    fn parts(&self, numbers: &[usize]) -> Result<Vec<ExprId>, Error> {
        numbers.iter().map(|&n| self.part(n)).collect()
    }

    fn old(&self, number: usize) -> Result<ExprId, Error> {
        let none = || Error::Misused(format!("the function has no expression {number}"));
        self.order.get(number).copied().ok_or_else(none)
    }

    fn add(&mut self, made: &Made) -> Result<ExprId, Error> {
        match made {
            Made::Kept(number, parts) => {
                let (old, parts) = (self.old(*number)?, self.parts(parts)?);
                let mut count = 0;
                self.ir.for_each_child(old, |_| count += 1);
                if count != parts.len() {
                    let have = parts.len();
                    return misused(format!("expression {number} has {count} parts, not {have}"));
                }
                let mut parts = parts.into_iter();
                Ok(self.ir.map_children(old, |c| parts.next().unwrap_or(c)))
            }
            Made::Call(name, args, attributes, place) => {
                let args = self.parts(args)?;
                let span = match place {
                    Some(old) => self.ir.span(self.old(*old)?),
                    None => Span::NONE,
                };
                let callee = self.callee(name)?;
                let attrs = match callee {
                    Expr::Op(op) => self.attributes(op, attributes)?,
                    _ if attributes.is_empty() => Attrs::new(),
                    _ => return misused(format!("{name} is no operator: it has no attributes")),
                };
                let callee = self.ir.add(callee, span);
                Ok(self.ir.call_attrs(callee, &args, attrs, span))
            }
            Made::Tuple(fields) => {
                let fields = self.parts(fields)?;
                Ok(self.ir.tuple(&fields, Span::NONE))
            }
            Made::Field(tuple, index) => {
                let (tuple, index) = (self.part(*tuple)?, *index);
                Ok(self.ir.add(Expr::Proj { tuple, index }, Span::NONE))
            }
            Made::Constant(value) => Ok(self.ir.constant(value.clone(), Span::NONE)),
        }
    }

    /// Resolves the name of a callee.
    fn callee(&self, name: &str) -> Result<Expr, Error> {
        let registry = relax_ops::registry();
        let user = || self.ir.user_ops.iter().position(|o| o.name == *name);
        if let Some(op) = registry.find(name) {
            return Ok(Expr::Op(op));
        }
        if let Some(index) = user() {
            return Ok(Expr::Op(OpId(OpId::FIRST_USER.0 + index as u32)));
        }
        if let Some(global) = self.ir.global(name.trim_start_matches('@')) {
            return Ok(Expr::Global(global));
        }
        if let Some((ctor, _)) = self.ir.ctors.iter().find(|(_, c)| c.name == *name) {
            return Ok(Expr::Ctor(ctor));
        }
        let hint = did_you_mean(name, registry.iter().map(|(_, op)| op.name));
        let hint = hint.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        misused(format!("there is no operator or function `{name}`{hint}"))
    }

    /// Completes the attributes of an operator with defaults.
    fn attributes(&self, op: OpId, given: &[(String, Attr)]) -> Result<Attrs, Error> {
        let Some(def) = relax_ops::registry().get(op) else {
            let user = self.ir.user_op(op);
            let known = user.map_or(&[][..], |u| &u.attrs);
            let mut attrs: Attrs = (known.iter())
                .map(|(name, _, default)| (*name, default.clone().unwrap_or(AttrValue::None)))
                .collect();
            for (name, value) in given {
                attrs.set(name.as_str(), self.value(name, value)?);
            }
            return Ok(attrs);
        };
        let mut attrs = def.default_attrs();
        for (name, value) in given {
            let Some(attr) = def.attr(name) else {
                let near = did_you_mean(name, def.attrs.iter().map(|a| a.name));
                let hint = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
                let op = def.name;
                return misused(format!("`{op}` has no attribute `{name}`{hint}"));
            };
            let fitted = relax_resolve::fit_attribute(self.value(name, value)?, attr.ty);
            let unfit = || {
                let op = def.name;
                Error::Misused(format!("`{name}` of `{op}` cannot be {value:?}"))
            };
            attrs.set(attr.name, fitted.ok_or_else(unfit)?);
        }
        let missing = def
            .attrs
            .iter()
            .find(|a| a.default.value().is_none() && !given.iter().any(|(name, _)| name == a.name));
        match missing {
            Some(a) => misused(format!("`{}` needs the attribute `{}`", def.name, a.name)),
            None => Ok(attrs),
        }
    }

    fn value(&self, name: &str, value: &Attr) -> Result<AttrValue, Error> {
        Ok(match value {
            Attr::None => AttrValue::None,
            Attr::Bool(v) => AttrValue::Bool(*v),
            Attr::Int(v) => AttrValue::Int(*v),
            Attr::Float(v) => AttrValue::Float(*v),
            Attr::Text(v) => match v.parse::<DType>() {
                // String attributes accept element types by name.
                Ok(dtype) => AttrValue::DType(dtype),
                Err(_) => AttrValue::Str(v.as_str().into()),
            },
            Attr::Dim(text) => match self.dims.get(text) {
                Some(dim) => AttrValue::dim(dim.clone()),
                None => return misused(format!("`{name}`: the function has no extent `{text}`")),
            },
            Attr::List(items) => {
                let items = items.iter().map(|i| self.value(name, i));
                AttrValue::array(items.collect::<Result<Vec<AttrValue>, Error>>()?)
            }
            Attr::Other(text) => {
                return misused(format!("`{name}`: no value is made of `{text}`"));
            }
        })
    }
}

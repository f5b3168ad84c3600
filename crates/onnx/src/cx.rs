//! The text under construction: operator calls, their types, names and blocks.

use std::cell::RefCell;
use std::rc::Rc;

use relax_base::{Span, Symbol};
use relax_ir::{AttrValue, DTy, DimInfo, Module, Type, TypeId};
use relax_ops::call_requirements::{Arg, call_type_or_why};
use relax_ops::registry;
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::names::Names;
use crate::node::{Fault, R};
use crate::value::{Constant, Elem, Source, Val};

/// The attributes of a call.
pub type Attrs<'a> = &'a [(&'a str, AttrValue)];

/// A line of a block: `let %id = text;`.
#[derive(Debug)]
pub struct Line {
    /// The variable.
    pub id: u32,
    /// The bound expression.
    pub text: String,
    /// The scope in the model that it comes from.
    pub scope: Rc<str>,
}

/// The extents and the element type of a variable.
type Typed = (Rc<[Dim]>, DType);

/// A variable of the text.
#[derive(Debug)]
struct Variable {
    /// The preferred name.
    hint: Rc<str>,
    /// Whether it is a name from the model.
    own: bool,
}

/// A parameter of the main function.
#[derive(Debug)]
pub struct Parameter {
    /// The variable.
    pub id: u32,
    /// Its type.
    pub ty: String,
    /// Its value, if it is a weight.
    pub value: Option<Rc<Constant>>,
}

/// The text under construction.
pub struct Cx {
    /// Types and dimensions.
    pub module: Module,
    /// Open blocks, innermost last.
    blocks: Vec<Vec<Line>>,
    variables: Vec<Variable>,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// The list functions that the text needs.
    pub helpers: std::collections::BTreeSet<&'static str>,
    dim_names: Names,
    /// The types of tensor variables.
    types: RefCell<FxHashMap<u32, Typed>>,
    /// The preferred name of new variables.
    pub hint: Rc<str>,
    /// The scope of the current node.
    pub scope: Rc<str>,
}

/// The delimiters of a variable's number in a text that is not named yet.
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

/// Replaces the variables in a text.
pub fn with_mentions(text: &str, mut of: impl FnMut(u32) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, piece) in text.split(OPEN).enumerate() {
        let id = (i > 0).then(|| piece.split_once(CLOSE)).flatten();
        match id.and_then(|(id, rest)| Some((id.parse().ok()?, rest))) {
            Some((id, rest)) => {
                // The replacement includes the sigil.
                out.truncate(out.len() - usize::from(out.ends_with('%')));
                out.push_str(&of(id));
                out.push_str(rest);
            }
            None => out.push_str(piece),
        }
    }
    out
}

/// Iterates over the variables in a text.
pub fn mentioned(text: &str) -> impl Iterator<Item = u32> + '_ {
    (text.split(OPEN).skip(1)).filter_map(|rest| rest.split(CLOSE).next()?.parse().ok())
}

impl Cx {
    /// Creates an empty text.
    pub fn new() -> Cx {
        Cx {
            module: Module::new(),
            blocks: vec![Vec::new()],
            variables: Vec::new(),
            parameters: Vec::new(),
            helpers: std::collections::BTreeSet::new(),
            dim_names: Names::default(),
            types: RefCell::default(),
            hint: "v".into(),
            scope: "".into(),
        }
    }
    /// Creates a variable.
    pub fn variable(&mut self) -> u32 {
        let hint = Rc::clone(&self.hint);
        self.variables.push(Variable { hint, own: false });
        self.variables.len() as u32 - 1
    }
    /// Names a variable as in the model.
    pub fn call_it(&mut self, id: u32, name: &str) {
        let v = &mut self.variables[id as usize];
        if !v.own {
            v.hint = name.into();
            v.own = true;
        }
    }
    /// Creates a variable with the same preferred name as another.
    pub fn alike(&mut self, id: u32) -> u32 {
        let Variable { hint, own } = &self.variables[id as usize];
        let (hint, own) = (Rc::clone(hint), *own);
        self.variables.push(Variable { hint, own });
        self.variables.len() as u32 - 1
    }
    /// Returns the preferred name of a variable.
    pub fn hint_of(&self, id: u32) -> Rc<str> {
        Rc::clone(&self.variables[id as usize].hint)
    }
    /// Renames a variable.
    pub fn rename(&mut self, id: u32, name: &str) {
        self.variables[id as usize].hint = name.into();
    }
    /// Returns the type of a parameter, or of a tensor variable, as text.
    pub fn type_of(&self, id: u32) -> Option<String> {
        if let Some(p) = self.parameters.iter().find(|p| p.id == id) {
            return Some(p.ty.clone());
        }
        let types = self.types.borrow();
        let (dims, dtype) = types.get(&id)?;
        Some(self.show_type(dims, *dtype))
    }
    /// Returns the placeholder of a variable, to be replaced by its name.
    pub fn mention(id: u32) -> String {
        format!("%{OPEN}{id}{CLOSE}")
    }
    /// Binds an expression to a new variable; returns its placeholder.
    pub fn bind(&mut self, text: String) -> Rc<str> {
        let id = self.variable();
        let scope = Rc::clone(&self.scope);
        let block = self.blocks.last_mut().expect("a block is open");
        block.push(Line { id, text, scope });
        Cx::mention(id).into()
    }
    /// Binds an expression to an existing variable.
    pub fn bind_to(&mut self, id: u32, text: String) {
        let scope = Rc::clone(&self.scope);
        let block = self.blocks.last_mut().expect("a block is open");
        block.push(Line { id, text, scope });
    }
    /// Opens a block.
    pub fn open(&mut self) {
        self.blocks.push(Vec::new());
    }
    /// Returns the number of open blocks.
    pub fn depth(&self) -> usize {
        self.blocks.len()
    }
    /// Drops all but the outermost `depth` blocks.
    pub fn close_to(&mut self, depth: usize) {
        self.blocks.truncate(depth);
    }
    /// Closes the innermost block: returns the lines that `result` needs, and `result`.
    pub fn close(&mut self, result: &str) -> String {
        let kept = self.close_lines(result);
        laid_out(kept, result)
    }
    /// Closes the innermost block like [`Self::close`], and folds repeated layers; returns the
    /// functions of layers, and the block's text.
    pub fn close_folded(&mut self, result: &str) -> (Vec<String>, String) {
        let mut kept = self.close_lines(result);
        let functions = crate::layers::fold(self, &mut kept, result);
        (functions, laid_out(kept, result))
    }
    fn close_lines(&mut self, result: &str) -> Vec<Line> {
        let lines = self.blocks.pop().expect("a block is open");
        let mut needed: rustc_hash::FxHashSet<u32> = mentioned(result).collect();
        let mut kept = Vec::new();
        for line in lines.into_iter().rev() {
            if needed.contains(&line.id) {
                needed.extend(mentioned(&line.text));
                kept.push(line);
            }
        }
        kept.reverse();
        kept
    }
    /// Names the variables in a text; `reserved` names are not used for others.
    pub fn name_all(
        &self,
        text: &str,
        reserved: &mut Names,
        fixed: &[(u32, String)],
    ) -> (String, Vec<Option<String>>) {
        let mut given: Vec<Option<String>> = vec![None; self.variables.len()];
        for (id, name) in fixed {
            given[*id as usize] = Some(name.clone());
        }
        // Names from the model take precedence; numbers are for intermediate values.
        let order: Vec<u32> = mentioned(text).collect();
        for own in [true, false] {
            for &id in &order {
                let v = &self.variables[id as usize];
                if v.own == own && given[id as usize].is_none() {
                    given[id as usize] = Some(reserved.unique(v.hint.to_string()));
                }
            }
        }
        let mut out = String::with_capacity(text.len());
        for (i, part) in text.split(OPEN).enumerate() {
            let Some((id, rest)) = (i > 0).then(|| part.split_once(CLOSE)).flatten() else {
                out.push_str(part);
                continue;
            };
            let id: usize = id.parse().expect("a variable's number");
            out.push_str(given[id].as_deref().unwrap_or("_"));
            out.push_str(rest);
        }
        (out, given)
    }

    /// Creates a dimension variable.
    pub fn dim(&mut self, name: &str) -> Dim {
        // Names that have a meaning in dimension expressions.
        let name = match name {
            "min" | "max" | "shape" | "let" | "if" | "else" | "fn" | "def" | "match" | "true"
            | "false" => {
                format!("{name}_")
            }
            _ => name.to_owned(),
        };
        let name = self.dim_names.unique(name);
        let info = DimInfo {
            name: Symbol::new(&name),
            span: Span::NONE,
        };
        Dim::var(self.module.dims.push(info))
    }

    /// Formats a tensor type.
    pub fn show_type(&self, dims: &[Dim], dtype: DType) -> String {
        let dims: Vec<String> = dims.iter().map(|d| self.module.show_dim(d)).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        format!("Tensor[({}{comma}), {dtype}]", dims.join(", "))
    }
    /// Formats a value's type.
    pub fn show(&self, v: &Val) -> String {
        self.show_type(&v.dims, v.dtype())
    }

    /// Returns an expression for a value.
    pub fn text(&mut self, v: &Val) -> Rc<str> {
        let constant = match &v.source {
            Source::Text(text) => return Rc::clone(text),
            Source::Constant(c) => Rc::clone(c),
        };
        if let Some(id) = *constant.variable.borrow() {
            return Cx::mention(id).into();
        }
        if let Some(text) = literal(&constant.tensor) {
            return text.into();
        }
        let hint = std::mem::replace(&mut self.hint, Rc::clone(&constant.hint));
        let id = self.variable();
        self.hint = hint;
        self.call_it(id, &constant.hint.clone());
        *constant.variable.borrow_mut() = Some(id);
        let ty = self.show(v);
        let value = Some(constant);
        self.parameters.push(Parameter { id, ty, value });
        Cx::mention(id).into()
    }

    /// Creates a value for an expression.
    pub fn val(&self, text: Rc<str>, elem: Elem, dims: &[Dim]) -> Val {
        let dims: Rc<[Dim]> = dims.into();
        let id = text.strip_prefix('%').and_then(|t| t.strip_prefix(OPEN));
        let id = id.and_then(|t| t.strip_suffix(CLOSE));
        if let Some(id) = id.and_then(|t| t.parse().ok()) {
            let ty = (Rc::clone(&dims), Val::stored(elem));
            self.types.borrow_mut().insert(id, ty);
        }
        Val {
            source: Source::Text(text),
            elem,
            dims,
            ints: None,
            some: None,
        }
    }
    /// Binds an expression of known type.
    pub fn line(&mut self, text: String, elem: Elem, dims: &[Dim]) -> Val {
        let text = self.bind(text);
        self.val(text, elem, dims)
    }

    /// Infers the type of a call, and returns it with its text. With `tuple`, the arguments are
    /// passed as one tuple.
    fn call(
        &mut self,
        name: &str,
        args: &[&Val],
        tuple: bool,
        attrs: Attrs<'_>,
    ) -> R<(TypeId, String)> {
        let op = registry().find(name);
        let def = op.and_then(|op| registry().get(op));
        let (Some(op), Some(def)) = (op, def) else {
            return Err(Fault::Unsupported(format!("there is no operator `{name}`")));
        };
        let mut all = def.default_attrs();
        for (name, value) in attrs {
            all.set(*name, value.clone());
        }
        let mut types: Vec<TypeId> = Vec::new();
        for v in args {
            types.push(self.module.types.tensor(v.dims.to_vec(), v.dtype()));
        }
        if tuple {
            types = vec![self.module.types.tuple(types)];
        }
        let given: Vec<Arg<'_>> = (types.iter().enumerate())
            .map(|(i, &ty)| Arg {
                ty,
                value: if tuple { None } else { args[i].tensor() },
            })
            .collect();
        let out = call_type_or_why(&mut self.module, op, &all, &given);
        let out = out.map_err(|why| {
            let shown: Vec<String> = args.iter().map(|v| self.show(v)).collect();
            let why = why.unwrap_or_else(|| "the operands do not fit".into());
            Fault::Invalid(format!("`{name}` of {}: {why}", shown.join(", ")))
        })?;
        let args: Vec<Rc<str>> = args.iter().map(|v| self.text(v)).collect();
        let mut inner = args.join(", ");
        if tuple {
            let comma = if args.len() == 1 { "," } else { "" };
            inner = format!("({inner}{comma})");
        }
        for (key, value) in attrs {
            let Some(text) = self.attr(value) else {
                continue;
            };
            if !inner.is_empty() {
                inner.push_str(", ");
            }
            // Inside brackets two slashes start a comment; in a shape they are a division.
            let shape = def.shape_attr().is_some_and(|a| a.name == *key) && text.contains("//");
            match text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
                Some(dims) if shape => inner.push_str(&format!("shape({dims})")),
                _ => inner.push_str(&format!("{key}={text}")),
            }
        }
        Ok((out, format!("{name}({inner})")))
    }

    /// Formats an attribute value.
    fn attr(&self, value: &AttrValue) -> Option<String> {
        Some(match value {
            AttrValue::None => "None".into(),
            AttrValue::Bool(true) => "True".into(),
            AttrValue::Bool(false) => "False".into(),
            AttrValue::Int(i) => i.to_string(),
            AttrValue::Float(f) => float_text(*f),
            AttrValue::Str(s) => format!("{s:?}"),
            AttrValue::DType(d) => format!("\"{d}\""),
            AttrValue::Dim(d) => self.module.show_dim(d),
            AttrValue::Array(items) => {
                let items: Option<Vec<String>> = items.iter().map(|i| self.attr(i)).collect();
                format!("[{}]", items?.join(", "))
            }
            AttrValue::Dict(_) | AttrValue::Meta(..) | AttrValue::Attr(_) => return None,
        })
    }

    fn tensor_type(&self, ty: TypeId) -> R<(Option<Vec<Dim>>, DType)> {
        match &self.module.types[ty] {
            Type::Tensor(t) => match t.dtype {
                DTy::Known(dtype) => Ok((t.shape.dims().map(<[Dim]>::to_vec), dtype)),
                _ => Err("the element type of a result is not known".into()),
            },
            _ => Err("the result is no tensor".into()),
        }
    }
    fn one(&mut self, ty: TypeId, text: Rc<str>) -> R<Val> {
        let (dims, dtype) = self.tensor_type(ty)?;
        let dims = dims.ok_or("the rank of a result is not known")?;
        if let Some(e) = dims.iter().find_map(Dim::error) {
            return Err(format!("an extent has no value: {e:?}").into());
        }
        Ok(self.val(text, Elem::of(dtype), &dims))
    }

    /// Emits a call with a single tensor as its result.
    pub fn op(&mut self, name: &str, args: &[&Val], attrs: Attrs<'_>) -> R<Val> {
        if let Some(folded) = self.folded(name, args, attrs) {
            return Ok(folded);
        }
        self.op_kept(name, args, attrs)
    }
    /// Like [`Self::op`], for a call that stays one where its value is known.
    pub fn op_kept(&mut self, name: &str, args: &[&Val], attrs: Attrs<'_>) -> R<Val> {
        let (ty, text) = self.call(name, args, false, attrs)?;
        let text = self.bind(text);
        self.one(ty, text)
    }
    /// Like [`Self::op`], for an operator that takes a tuple.
    pub fn op_of_tuple(&mut self, name: &str, args: &[&Val], attrs: Attrs<'_>) -> R<Val> {
        let (ty, text) = self.call(name, args, true, attrs)?;
        let text = self.bind(text);
        self.one(ty, text)
    }
    /// Emits a call with a tuple as its result; returns its fields.
    pub fn ops(&mut self, name: &str, args: &[&Val], attrs: Attrs<'_>) -> R<Vec<Val>> {
        let (ty, text) = self.call(name, args, false, attrs)?;
        let text = self.bind(text);
        let Type::Tuple(fields) = self.module.types[ty].clone() else {
            return Ok(vec![self.one(ty, text)?]);
        };
        let field = |(i, &ty): (usize, &TypeId)| self.one(ty, format!("{text}.{i}").into());
        fields.iter().enumerate().map(field).collect()
    }
    /// Evaluates a small call on constants.
    fn folded(&mut self, name: &str, args: &[&Val], attrs: Attrs<'_>) -> Option<Val> {
        const LARGEST: usize = 4096;
        let small = |v: &&Val| v.tensor().filter(|t| t.len() <= LARGEST).cloned();
        let tensors: Vec<Tensor> = args.iter().map(small).collect::<Option<_>>()?;
        // Window sizes and counts in attributes multiply the work per element.
        let elements = tensors.iter().map(Tensor::len).max().unwrap_or(1).max(1) as u64;
        let work = attrs
            .iter()
            .fold(elements, |n, (_, v)| n.saturating_mul(extent(v)));
        if work > 1 << 24 {
            return None;
        }
        let value = crate::fold::call(&mut self.module, name, attrs, &tensors)?;
        (value.len() <= LARGEST).then(|| {
            let elem = Elem::of(value.dtype());
            Val::constant(value, elem, &self.hint.clone())
        })
    }

    /// Returns the tensor with a name for every unknown extent.
    pub fn known(&mut self, v: &Val) -> Val {
        if v.dims.iter().all(Dim::is_known) {
            return v.clone();
        }
        let dims: Vec<Dim> = (v.dims.iter())
            .map(|d| {
                if d.is_known() {
                    d.clone()
                } else {
                    self.dim("d")
                }
            })
            .collect();
        self.matched(v, &dims)
    }
    /// Returns the tensor with other extents, which are checked (or bound) at run time.
    pub fn matched(&mut self, v: &Val, dims: &[Dim]) -> Val {
        if *v.dims == *dims {
            return v.clone();
        }
        let text = self.text(v);
        let ty = self.show_type(dims, v.dtype());
        let mut out = self.line(format!("match_cast({text}, {ty})"), v.elem, dims);
        out.ints.clone_from(&v.ints);
        out
    }
}

/// Formats lines as a block that ends in `result`.
fn laid_out(lines: Vec<Line>, result: &str) -> String {
    let mut out = String::new();
    let mut scope: Rc<str> = "".into();
    for line in lines {
        if line.scope != scope && !line.scope.is_empty() {
            out.push_str(&format!("// {}\n", line.scope));
        }
        scope = line.scope;
        out.push_str(&format!("let {} = {};\n", Cx::mention(line.id), line.text));
    }
    out.push_str(result);
    out.push('\n');
    out
}

/// Returns the product of an attribute's numbers, as far as they may be extents.
fn extent(v: &AttrValue) -> u64 {
    let one = |v: &AttrValue| match v {
        AttrValue::Int(n) if (2..i64::from(i32::MAX)).contains(n) => *n as u64,
        _ => 1,
    };
    match v {
        AttrValue::Array(items) => items.iter().fold(1, |n: u64, v| n.saturating_mul(one(v))),
        v => one(v),
    }
}

/// Formats a number in an attribute.
fn float_text(f: f64) -> String {
    if f == f.trunc() && f.abs() < 1e15 {
        return format!("{f:.1}");
    }
    format!("{f:e}")
}

/// Formats a small constant inline: a number, or a few integers.
fn literal(t: &Tensor) -> Option<String> {
    let dtype = t.dtype();
    let number = |i: usize| -> Option<String> {
        Some(match dtype {
            DType::BOOL => if t.get_i64(i) != 0 { "True" } else { "False" }.into(),
            DType::U64 if t.get_i64(i) < 0 => return None,
            d if d.is_int() => format!("{}i{}", t.get_i64(i), d.bits),
            d if d.is_uint() => format!("{}u{}", t.get_i64(i), d.bits),
            d if d.is_float() && t.get_f64(i) == f64::NEG_INFINITY => {
                // The text format has no literal for it.
                let suffix = if d == DType::F32 {
                    "f".into()
                } else {
                    d.to_string().replace("float", "f")
                };
                format!("log(0{})", suffix.replace("bf16", ".0bf16"))
            }
            d if d.is_float() && t.get_f64(i).is_finite() => {
                let v = t.get_f64(i);
                let digits = match d {
                    DType::F64 => format!("{v:?}"),
                    _ => format!("{:?}", v as f32),
                };
                match d {
                    DType::F32 => format!("{digits}f"),
                    DType::BF16 => format!("{digits}bf16"),
                    d => format!("{digits}f{}", d.bits),
                }
            }
            _ => return None,
        })
    };
    match t.shape() {
        [] => number(0).filter(|n| !n.contains("-0.0")),
        [n] if (1..=16).contains(n) && dtype.is_integral() => {
            let all: Vec<String> = (0..*n as usize).map(number).collect::<Option<_>>()?;
            let comma = if all.len() == 1 { "," } else { "" };
            Some(format!("stack(({}{comma}), axis=0)", all.join(", ")))
        }
        _ => None,
    }
}

//! Single-line expressions: values, calls of operators and functions.

use relax_base::Symbol;
use relax_ir::{AttrValue, Attrs, Expr, ExprId, OpId, TypeId};
use relax_ops::{Arity, AttrTy, Lowering, OpDef, registry};
use relax_tensor::DType;

use super::arguments::{Arguments, Part};
use super::attrs::{As, same};
use super::types::Place;
use super::{Printer, Stop};
use crate::table::{Form, Operator, Way, table};
use crate::{indices, strings};

/// The maximum number of parts of a line that may come from tuples that are used several times.
pub(super) const LONGEST: usize = 1 << 16;

/// Parameters whose value is a shape; others take a tuple.
const SHAPES: [&str; 2] = ["shape", "size"];

impl Printer<'_> {
    /// Prints an expression on one line.
    pub(super) fn expr(&mut self, e: ExprId) -> String {
        let mut out = String::new();
        let mut parts = vec![Part::Value(e)];
        let mut shared = 0;
        while let Some(part) = parts.pop() {
            match part {
                // Printing it twice would compute it twice, and turn graphs into trees.
                Part::Value(e) if self.is_shared(e) || shared > LONGEST => {
                    self.refuse(Stop::NotNormal);
                }
                Part::Text(text) => out.push_str(&text),
                Part::Value(e) => {
                    let outer = self.place;
                    if !self.m.spans[e].is_none() {
                        self.place = self.m.spans[e];
                    }
                    shared += usize::from(self.uses[e] > 1);
                    let mut own = Vec::new();
                    if let Err(stop) = self.value(e, &mut own) {
                        self.refuse(stop);
                    }
                    parts.extend(own.into_iter().rev());
                    self.place = outer;
                }
            }
        }
        out
    }

    fn value(&mut self, e: ExprId, out: &mut Vec<Part>) -> Result<(), Stop> {
        let m = self.m;
        match &m.exprs[e] {
            Expr::Var(v) => out.push(Part::Text(self.names.var(m, *v))),
            Expr::Global(g) => {
                self.cls = true;
                out.push(Part::Text(format!("cls.{}", m.globals[*g].name)));
            }
            Expr::Extern(name) if self.is_item(*name) => {
                self.cls = true;
                out.push(Part::Text(format!("cls.{name}")));
            }
            Expr::Extern(name) => {
                let mut text = String::from("R.ExternFunc(");
                strings::quote(name.as_str(), &mut text);
                text.push(')');
                out.push(Part::Text(text));
            }
            Expr::Const(c) => {
                let mut text = String::new();
                self.constant(&m.consts[*c], &mut text);
                out.push(Part::Text(text));
            }
            Expr::Tuple(list) => self.tuple(m.list(*list), out),
            Expr::Proj { tuple, index } => {
                out.push(Part::Value(*tuple));
                out.push(Part::Text(format!("[{index}]")));
            }
            Expr::Shape(dims) => {
                let text = self
                    .dims(dims, Place::Body)
                    .ok_or(Stop::NoForm("an unknown extent"))?;
                out.push(Part::Text(format!("R.shape([{text}])")));
            }
            Expr::MatchCast { value, ty } => {
                let ty = self.ty(*ty, Place::Body)?;
                out.push(Part::Text("R.match_cast(".into()));
                out.push(Part::Value(*value));
                out.push(Part::Text(format!(", {ty})")));
            }
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            } => {
                let types = m.type_args(*type_args);
                return self.call(e, *callee, m.list(*args), m.attrs(*attrs), types, out);
            }
            Expr::Let { .. }
            | Expr::If { .. }
            | Expr::Dataflow { .. }
            | Expr::Func(_)
            | Expr::Op(_) => {
                return Err(Stop::NotNormal);
            }
            Expr::MatchShape { .. } => return Err(Stop::NoForm("`match_shape`")),
            Expr::Ctor(_) | Expr::Match { .. } => return Err(Stop::NoForm("a data type's value")),
            Expr::RefNew(_) | Expr::RefRead(_) | Expr::RefWrite(..) => {
                return Err(Stop::NoForm("a reference"));
            }
            Expr::Error => return Err(Stop::NoForm("a mistake")),
        }
        Ok(())
    }

    /// Returns whether it is a call with several uses.
    fn is_shared(&self, e: ExprId) -> bool {
        let called = matches!(self.m.exprs[e], Expr::Call { .. } | Expr::MatchCast { .. });
        called && self.uses[e] > 1
    }

    pub(super) fn is_item(&self, name: Symbol) -> bool {
        self.m
            .script
            .as_ref()
            .is_some_and(|s| s.kept(name).is_some())
    }

    fn tuple(&mut self, items: &[ExprId], out: &mut Vec<Part>) {
        if items.is_empty() {
            return out.push(Part::Text("R.tuple()".into()));
        }
        out.push(Part::Text("(".into()));
        self.list(items, out);
        out.push(Part::Text(if items.len() == 1 { ",)" } else { ")" }.into()));
    }

    fn list(&mut self, items: &[ExprId], out: &mut Vec<Part>) {
        for (i, &item) in items.iter().enumerate() {
            if i > 0 {
                out.push(Part::Text(", ".into()));
            }
            out.push(Part::Value(item));
        }
    }

    fn call(
        &mut self,
        e: ExprId,
        callee: ExprId,
        args: &[ExprId],
        attrs: &Attrs,
        types: &[TypeId],
        out: &mut Vec<Part>,
    ) -> Result<(), Stop> {
        let m = self.m;
        match &m.exprs[callee] {
            Expr::Op(op) => {
                let Some(def) = registry().get(*op) else {
                    let name = m.user_op(*op).map_or(String::new(), |o| o.name.to_string());
                    return Err(Stop::NoNamed(format!("the operator `{name}`")));
                };
                match def.hooks.lowering {
                    Lowering::CallTir | Lowering::CallDpsPacked => {
                        self.cross_level(args, attrs, out)
                    }
                    _ if def.name == "relax.value" => {
                        let mut text = String::new();
                        self.attr(
                            attrs.get("value").unwrap_or(&AttrValue::None),
                            As::Value,
                            &mut text,
                        )?;
                        out.push(Part::Text(text));
                        Ok(())
                    }
                    _ if def.name == "relax.condition" => {
                        let mut text = String::new();
                        let part = |name| attrs.get(name).unwrap_or(&AttrValue::None);
                        self.attr(part("left"), As::Value, &mut text)?;
                        text.push_str(&format!(" {} ", part("op").as_str().unwrap_or("==")));
                        self.attr(part("right"), As::Value, &mut text)?;
                        out.push(Part::Text(text));
                        Ok(())
                    }
                    _ if def.hooks.told => self.kept_call(args, attrs, types, out),
                    _ => self.operator(e, (*op, def), args, attrs, out),
                }
            }
            Expr::Extern(name) if !self.is_item(*name) => {
                let pure = attrs.get("pure").and_then(AttrValue::as_bool) == Some(true);
                let mut text = String::from(if pure {
                    "R.call_pure_packed("
                } else {
                    "R.call_packed("
                });
                strings::quote(name.as_str(), &mut text);
                out.push(Part::Text(text));
                for &arg in args {
                    out.push(Part::Text(", ".into()));
                    out.push(Part::Value(arg));
                }
                let types = self.type_args(types)?;
                out.push(Part::Text(if types.is_empty() {
                    ")".into()
                } else {
                    format!(", ty_args={types})")
                }));
                Ok(())
            }
            _ => {
                out.push(Part::Value(callee));
                out.push(Part::Text("(".into()));
                self.list(args, out);
                out.push(Part::Text(")".into()));
                Ok(())
            }
        }
    }

    fn type_args(&mut self, types: &[TypeId]) -> Result<String, Stop> {
        if types.is_empty() {
            return Ok(String::new());
        }
        let all: Result<Vec<String>, Stop> =
            types.iter().map(|&t| self.ty(t, Place::Body)).collect();
        let mut all = all?;
        // TVM's parser does not accept the bare name as a type here.
        for text in all.iter_mut().filter(|t| *t == "R.Any") {
            text.push_str("()");
        }
        Ok(Self::tuple_text(&all))
    }

    /// Prints a kept operator.
    fn kept_call(
        &mut self,
        args: &[ExprId],
        attrs: &Attrs,
        types: &[TypeId],
        out: &mut Vec<Part>,
    ) -> Result<(), Stop> {
        let name = attrs
            .get("name")
            .and_then(AttrValue::as_str)
            .unwrap_or_default();
        let Some(op) = table().find(name) else {
            return Err(Stop::NoNamed(format!("the operator `R.{name}`")));
        };
        let none: &[AttrValue] = &[];
        let given = attrs
            .get("given")
            .and_then(AttrValue::as_array)
            .unwrap_or(none);
        let rest = match attrs.get("attrs") {
            Some(AttrValue::Dict(pairs)) => pairs.clone(),
            _ => [].into(),
        };
        let mut given = given.iter().zip(args).peekable();
        let mut list = Arguments::new(op);
        for p in &op.params {
            while let Some((_, &arg)) = given.next_if(|(name, _)| name.as_str() == Some(p.name)) {
                list.value(p.name, p.input, arg);
                if !p.rest {
                    break;
                }
            }
            if let Some((_, value)) = rest.iter().find(|(n, _)| n == p.name) {
                let mut text = String::new();
                self.attr(value, As::Value, &mut text)?;
                list.text(p.name, p.input, text);
            } else if matches!(p.name, "out_ty" | "ty_args") && !types.is_empty() {
                let text = match types {
                    [one] if p.name == "out_ty" => self.ty(*one, Place::Body)?,
                    _ => self.type_args(types)?,
                };
                let text = if p.name == "out_ty" && types.len() > 1 {
                    format!("[{}]", &text[1..text.len() - 1])
                } else {
                    text
                };
                list.text(p.name, false, text);
            } else if !list.has(p.name) {
                list.skipped();
            }
        }
        list.finish(out);
        Ok(())
    }

    /// Prints an operator of the registry under its name in Relax.
    fn operator(
        &mut self,
        e: ExprId,
        (op, def): (OpId, &OpDef),
        args: &[ExprId],
        attrs: &Attrs,
        out: &mut Vec<Part>,
    ) -> Result<(), Stop> {
        for relax in table().of_ours(op) {
            let forms = relax.form.iter().chain(&relax.own);
            if let Some(form) = forms.into_iter().find(|f| f.op == op)
                && let Some(list) = self.fitting(e, relax, (form, def), args, attrs)?
            {
                list.finish(out);
                return Ok(());
            }
        }
        if !self.formless.contains(&def.name) {
            self.formless.push(def.name);
        }
        let what = format!("the operator `{}` with these attributes", def.name);
        Err(Stop::NoNamed(what))
    }

    fn fitting<'o>(
        &mut self,
        e: ExprId,
        relax: &'o Operator,
        (form, def): (&Form, &OpDef),
        args: &[ExprId],
        attrs: &Attrs,
    ) -> Result<Option<Arguments<'o>>, Stop> {
        for (name, value, asked) in &form.fixed {
            if *asked && attrs.get(name).is_some_and(|v| !same(v, value)) {
                return Ok(None);
            }
        }
        let relay = self.m.script.is_none();
        let some = def.arity == Arity::AtLeast && args.len() < form.inputs.len();
        if args.len() != form.inputs.len() && !some
            || relay && (!lowered(form, attrs) || !self.computes(e, def, args, attrs))
        {
            return Ok(None);
        }
        let argument = |i: &usize| form.inputs.iter().position(|k| k == i).map(|k| args[k]);
        if relay
            && !form.known.iter().all(|(i, axis)| {
                let Some(arg) = argument(i) else { return true };
                let Some(axis) = axis else {
                    return self.knows_extents(arg);
                };
                let axis = attrs.get(axis).and_then(AttrValue::as_int);
                axis.is_none_or(|axis| self.knows_extent(arg, axis))
            })
        {
            return Ok(None);
        }
        let computed = form.computes.iter().filter(|_| relay);
        for (i, element) in form.elements.iter().chain(computed) {
            let arg = argument(i);
            let ty = self.types.and_then(|t| t.expr(arg?));
            let found = ty.and_then(|t| self.m.types.as_tensor(t)?.dtype.known());
            let fits = |d: DType| match element.as_str() {
                Some("float") => d.is_float(),
                name => name == Some(&d.to_string()),
            };
            if found.is_some_and(|d| !fits(d)) {
                return Ok(None);
            }
        }
        // Lists with one number per axis must agree in length.
        let lists = relax.params.iter().zip(0..).filter(|(p, _)| p.input);
        let lists = lists.filter_map(|(p, i)| {
            let name = form.attrs.iter().find(|a| a.param == i)?.name;
            (!SHAPES.contains(&p.name))
                .then(|| attrs.get(name)?.as_array())
                .flatten()
        });
        let mut lengths = lists.map(<[AttrValue]>::len);
        if let Some(n) = lengths.next()
            && lengths.any(|k| k != n)
        {
            return Ok(None);
        }
        let mut list = Arguments::new(relax);
        for (i, p) in relax.params.iter().enumerate() {
            if let Some(k) = form.inputs.iter().position(|&x| x == i) {
                match args.get(k) {
                    Some(&arg) => list.value(p.name, p.input, arg),
                    None => list.skipped(),
                }
                continue;
            }
            if let Some((_, value)) = form.absent.iter().find(|a| a.0 == i) {
                if p.default.as_ref() == Some(value) && p.input {
                    list.skipped();
                } else {
                    let mut text = String::new();
                    self.attr(value, As::Name, &mut text)?;
                    list.text(p.name, p.input, text);
                }
                continue;
            }
            let Some(given) = form.attrs.iter().find(|a| a.param == i) else {
                return Ok(None);
            };
            let (name, way) = (given.name, given.way);
            if way == Way::Indices {
                let word = |name: &str| attrs.get(name)?.as_str();
                let next = def.attr_after(name).and_then(|a| word(a.name));
                let layouts = word(name).zip(next);
                let map = layouts.and_then(|(from, to)| indices::map(from, to));
                match map.filter(|_| !relay) {
                    Some(text) => list.text(p.name, p.input, text),
                    None => return Ok(None),
                }
                continue;
            }
            let value = attrs.get(name).unwrap_or(&AttrValue::None);
            let result = self.result_shape(e, p.name, value);
            let value = result.as_ref().unwrap_or(value);
            let required = (p.input || relay) && p.default.is_none();
            if required && value.is_none() {
                return Ok(None);
            }
            let Some(text) = self.attribute(p.name, p.input, way, given.ty, value)? else {
                return Ok(None);
            };
            if p.input && matches!(value, AttrValue::None) {
                list.skipped();
            } else {
                list.text(p.name, p.input, text);
            }
        }
        Ok(Some(list))
    }

    /// Returns the extents of a result, if the attribute contains special values for some of them.
    fn result_shape(&self, e: ExprId, name: &str, value: &AttrValue) -> Option<AttrValue> {
        let special = |v: &AttrValue| v.as_int().is_some_and(|i| i <= 0);
        let meant = name == "shape" && value.as_array().is_some_and(|a| a.iter().any(special));
        let ty = self.types.filter(|_| meant)?.expr(e)?;
        let dims = self.m.types.as_tensor(ty)?.shape.dims()?;
        let known = dims.iter().all(relax_sym::Dim::is_known);
        known.then(|| AttrValue::array(dims.iter().map(|d| AttrValue::dim(d.clone()))))
    }

    fn attribute(
        &mut self,
        name: &str,
        input: bool,
        way: Way,
        ty: AttrTy,
        value: &AttrValue,
    ) -> Result<Option<String>, Stop> {
        let mut text = String::new();
        match (way, value) {
            (Way::Negated, v) => match v.as_bool() {
                Some(b) => text.push_str(if b { "False" } else { "True" }),
                None => return Ok(None),
            },
            (Way::Single, AttrValue::Array(items)) => match &items[..] {
                [one] => self.attr(one, As::Name, &mut text)?,
                _ => return Ok(None),
            },
            (_, AttrValue::Str(s)) if s.is_empty() && name.ends_with("layout") => {
                text.push_str("None")
            }
            (_, v) if ty == AttrTy::Bool && v.as_bool().is_some() => {
                text.push_str(if v.as_bool() == Some(true) {
                    "True"
                } else {
                    "False"
                });
            }
            (_, AttrValue::Array(items)) if input => {
                let mut all = Vec::new();
                for item in items.iter() {
                    let mut text = String::new();
                    self.attr(item, As::Value, &mut text)?;
                    all.push(text);
                }
                text = if SHAPES.contains(&name) {
                    format!("R.shape([{}])", all.join(", "))
                } else {
                    Self::tuple_text(&all)
                };
            }
            (_, v) => self.attr(v, As::Name, &mut text)?,
        }
        Ok(Some(text))
    }
}

/// Returns whether TVM runs the operator with these attributes.
fn lowered(form: &Form, attrs: &Attrs) -> bool {
    let runs = |(name, value): &(&str, Option<AttrValue>)| match value {
        Some(value) => attrs.get(name).is_none_or(|v| same(v, value)),
        None => attrs.get(name).is_some_and(|v| !v.is_none()),
    };
    // Layouts that pack channels in blocks have no lowering.
    let packed = |(name, v): &(relax_base::Symbol, AttrValue)| {
        let text = v.as_str().unwrap_or_default();
        name.as_str().ends_with("layout") && text.contains(|c: char| c.is_ascii_digit())
    };
    // Relay's layout has channels and multipliers (`HWOI`), while that of Relax has outputs and
    // inputs.
    let layout = attrs.get("kernel_layout").and_then(AttrValue::as_str);
    let groups = attrs.get("groups").and_then(AttrValue::as_int);
    let multiplied = layout.is_some_and(|l| l.ends_with("OI")) && groups.is_some_and(|g| g > 1);
    let length = |name: &str| {
        attrs
            .get(name)
            .and_then(AttrValue::as_array)
            .map(<[_]>::len)
    };
    let alike = |(a, b): &(&str, &str)| length(a).zip(length(b)).is_none_or(|(a, b)| a == b);
    form.runs.iter().all(runs)
        && form.alike.iter().all(alike)
        && !multiplied
        && !attrs.iter().any(packed)
}

//! Calls of Relax's operators: binds the arguments to the operator's signature, then maps the call
//! to an operator of the registry.

use std::sync::Arc;

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{AttrValue, Attrs, Expr, ExprId, Shape, TypeId};
use relax_ops::{Arity, AttrTy, registry};
use relax_tensor::DType;

use super::Reader;
use super::calls::Given;
use super::value::Val;
use crate::codes;
use crate::table::{Form, Operator, Way};

/// An argument at its parameter.
pub(super) type Slot = Option<(Val, Span)>;

/// The arguments of a call, by parameter.
struct Bound {
    slots: Vec<Slot>,
    rest: Vec<(Val, Span)>,
    types: Vec<TypeId>,
}

impl Reader<'_> {
    pub(super) fn operator(&mut self, op: &'static Operator, given: &mut Given, span: Span) -> Val {
        let errors = self.diagnostics.len();
        let Some(mut bound) = self.bind_arguments(op, given, span) else {
            return Val::Bad;
        };
        if self.diagnostics.len() > errors {
            return Val::Bad;
        }
        match op.name {
            "call_packed" | "call_pure_packed" => return self.packed(op, bound, span),
            "call_tir" | "call_dps_packed" | "call_tir_inplace" | "call_tir_with_grad" => {
                if let Some(val) = self.cross_level(op, &mut bound, span) {
                    return val;
                }
                if op.name == "call_tir_inplace" && self.written_twice(&bound) {
                    return Val::Bad;
                }
            }
            _ => {}
        }
        if bound.types.is_empty() {
            for form in op.form.iter().chain(&op.own) {
                if let Some(e) = self.fitting(op, form, &bound, span) {
                    self.slots = bound.slots;
                    return Val::Expr(e);
                }
            }
        }
        self.as_it_is(op, bound, span)
    }

    /// Reports an argument of a program that is to receive two of its results; returns whether
    /// there is one.
    fn written_twice(&mut self, bound: &Bound) -> bool {
        let Some((Val::List(items) | Val::Tuple(items), at)) = &bound.slots[2] else {
            return false;
        };
        let index = |v: &Val| match v {
            Val::Int(i) if *i >= 0 => Some(*i),
            _ => None,
        };
        let given: Vec<i64> = items.iter().filter_map(index).collect();
        let twice = (given.iter().enumerate()).find(|(k, i)| given[..*k].contains(i));
        if let Some((_, i)) = twice {
            let message = format!("argument {i} is two results of the program");
            self.error(codes::KIND, *at, message);
        }
        twice.is_some()
    }

    fn bind_arguments(
        &mut self,
        op: &'static Operator,
        given: &mut Given,
        span: Span,
    ) -> Option<Bound> {
        // The list is used again for the next call.
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        slots.resize_with(op.params.len(), || None);
        let mut bound = Bound {
            slots,
            rest: Vec::new(),
            types: Vec::new(),
        };
        let (mut whole, mut behind) = (true, false);
        for (i, p) in op.params.iter().enumerate() {
            if p.rest {
                // What comes behind `*args` is given by name.
                behind = true;
                continue;
            }
            let at = if behind { usize::MAX } else { i };
            let (name, former) = p.symbols;
            let found = given
                .take_symbol(at, Some(name))
                .or_else(|| given.take_symbol(usize::MAX, Some(former?)));
            match found {
                Some(found) if p.types => whole &= self.type_args(found, &mut bound.types),
                Some(found) => bound.slots[i] = Some(found),
                None if p.default.is_none() => {
                    let what = if p.input { "argument" } else { "attribute" };
                    let message = format!("`R.{}` lacks its {what} `{}`", op.name, p.name);
                    let names: Vec<_> = op.params.iter().map(|p| p.name).collect();
                    let note = format!("it takes ({})", names.join(", "));
                    self.report(Diagnostic::error(codes::ARGUMENTS, span, message).note(note));
                    whole = false;
                }
                None => {}
            }
        }
        if behind {
            bound.rest = given.positional();
        }
        if given.rest().next().is_none() {
            return whole.then_some(bound);
        }
        let names: Vec<_> = op.params.iter().map(|p| p.name).collect();
        // Some operators keep attributes that none of their parameters sets.
        if given
            .rest()
            .any(|a| a.name.is_some_and(|n| n.0 == "attrs_type_key"))
        {
            self.keep("a call with attributes of another operator", span);
            return None;
        }
        self.leftover(given, &format!("R.{}", op.name), &names);
        whole.then_some(bound)
    }

    fn type_args(&mut self, (val, at): (Val, Span), out: &mut Vec<TypeId>) -> bool {
        let items = match val {
            Val::List(items) | Val::Tuple(items) => items,
            Val::None => return true,
            one => vec![one],
        };
        for item in items {
            match self.annotation(item, at) {
                Some(t) => out.push(t),
                None => return false,
            }
        }
        true
    }

    /// Reads `call_packed`: the call of a function registered at run time.
    fn packed(&mut self, op: &Operator, mut bound: Bound, span: Span) -> Val {
        let callee = match bound.slots[0].take() {
            Some((Val::Str(name), at)) => self.m.add(Expr::Extern(Symbol::new(&name)), at),
            Some((val, at)) => match self.value(val, at) {
                Some(e) => e,
                None => return Val::Bad,
            },
            None => return Val::Bad,
        };
        if !matches!(self.m.exprs[callee], Expr::Extern(_)) {
            return self.keep("a packed call of a value", span);
        }
        let mut args = Vec::with_capacity(bound.rest.len());
        for (val, at) in bound.rest {
            match self.value(val, at) {
                Some(e) => args.push(e),
                None => return Val::Bad,
            }
        }
        let mut attrs = Attrs::new();
        if op.name == "call_pure_packed" {
            attrs.set("pure", AttrValue::Bool(true));
        }
        let (args, attrs) = (self.m.make_list(&args), self.m.make_attrs(attrs));
        let type_args = self.m.make_type_args(&bound.types);
        let call = Expr::Call {
            callee,
            args,
            attrs,
            type_args,
        };
        Val::Expr(self.m.add(call, span))
    }

    /// Reads `call_tir` and similar operators: a program and its arguments, which are always a
    /// tuple; the types of the results are given as shapes and element types here.
    fn cross_level(&mut self, op: &Operator, bound: &mut Bound, span: Span) -> Option<Val> {
        if let Some((args, at)) = bound.slots[1].take() {
            let tuple = match args {
                Val::Tuple(_) => args,
                Val::List(items) => Val::Tuple(items),
                Val::Expr(e) if self.names_tuple(e) => {
                    let message = format!(
                        "`R.{}` takes its arguments as a tuple that is written here",
                        op.name
                    );
                    let d = Diagnostic::error(codes::KIND, at, message)
                        .note("the name of a tuple would be one argument, a tuple");
                    self.report(d);
                    return Some(Val::Bad);
                }
                Val::Expr(e) if matches!(self.m.exprs[e], Expr::Tuple(_)) => args,
                one => Val::Tuple(vec![one]),
            };
            bound.slots[1] = Some((tuple, at));
        }
        let (program, at) = bound.slots[0].clone()?;
        let tir = op.name != "call_dps_packed";
        match program {
            Val::Function(_) | Val::Extern(_) if tir => {}
            Val::Str(name) if !tir => bound.slots[0] = Some((Val::Extern(Symbol::new(&name)), at)),
            Val::Bad => return Some(Val::Bad),
            _ if !tir => {}
            other => {
                let message = format!(
                    "`R.{}` takes a function of the module first, not {}",
                    op.name,
                    other.describe()
                );
                let mut d = Diagnostic::error(codes::KIND, at, message);
                if let Val::Str(_) = other {
                    d = d.note(
                        "a function registered at run time is called with `R.call_dps_packed`",
                    );
                }
                self.report(d);
                return Some(Val::Bad);
            }
        }
        if !matches!(op.name, "call_tir" | "call_dps_packed")
            || bound.slots.iter().skip(2).any(Option::is_some)
        {
            return None;
        }
        let (shapes, dtypes): (Vec<_>, Vec<_>) = bound
            .types
            .iter()
            .map(|&t| self.out_type(t))
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .unzip();
        let callee = match bound.slots[0].clone()? {
            (Val::Function(i), _) if self.items[i].global.is_some() => "call_tir",
            _ => "call_dps_packed",
        };
        let mut args = Vec::with_capacity(3);
        for slot in [0, 1] {
            let (val, at) = bound.slots[slot].clone()?;
            args.push(self.value(val, at)?);
        }
        let mut shapes: Vec<ExprId> = (shapes.into_iter())
            .map(|dims| self.m.add(Expr::Shape(dims), span))
            .collect();
        let dtype = match &dtypes[..] {
            [one] => one.clone(),
            _ => AttrValue::Array(dtypes.into()),
        };
        args.push(match shapes.len() {
            1 => shapes.remove(0),
            _ => self.m.tuple(&shapes, span),
        });
        let attrs = [(Symbol::new("dtype"), dtype)].into_iter().collect();
        Some(Val::Expr(self.op_call(callee, &args, attrs, &[], span)))
    }

    /// Returns whether a value is the name of a tuple that this function creates.
    fn names_tuple(&self, e: ExprId) -> bool {
        matches!(self.m.exprs[e], Expr::Var(v) if self.tuples.contains(&v))
    }

    /// Returns the shape and element type of a result, if both are known.
    fn out_type(&self, ty: TypeId) -> Option<(Box<[relax_sym::Dim]>, AttrValue)> {
        let t = self.m.types.as_tensor(ty)?;
        let Shape::Dims(dims) = &t.shape else {
            return None;
        };
        let dtype = t.dtype.known()?;
        dims.iter()
            .all(relax_sym::Dim::is_known)
            .then(|| (dims.clone(), AttrValue::DType(dtype)))
    }

    /// Creates the call as one of a registered operator, if that can represent all of its
    /// arguments.
    fn fitting(&mut self, op: &Operator, form: &Form, bound: &Bound, span: Span) -> Option<ExprId> {
        let def = registry().get(form.op)?;
        let slot = |i: usize| bound.slots[i].as_ref().map(|s| &s.0);
        for (i, value) in &form.absent {
            if let Some(v) = slot(*i)
                && v.as_attr()? != *value
            {
                return None;
            }
        }
        let mut attrs = form.start.clone();
        for a in &form.attrs {
            let default = &op.params[a.param].default;
            let value = match slot(a.param) {
                Some(Val::Layouts(layouts)) if a.way == Way::Indices => {
                    let [from, to] = layouts
                        .each_ref()
                        .map(|l| AttrValue::Str(l.as_str().into()));
                    attrs.set(a.symbol, from);
                    attrs.set(def.attr_after(a.name)?.name, to);
                    continue;
                }
                // What is absent is an empty tuple where TVM has lowered the call.
                Some(v) if *default == Some(AttrValue::None) && self.empty(v) => AttrValue::None,
                Some(v) => self.attribute_of(v)?,
                None => default.clone()?,
            };
            attrs.set(a.symbol, coerce(a.ty, a.way, value)?);
        }
        let given = self.given_inputs(op, form, bound)?;
        for &i in given {
            match slot(i)? {
                Val::Expr(_) | Val::Number(..) | Val::Int(_) | Val::Float(_) | Val::Dim(_) => {}
                Val::Tuple(items) | Val::List(items)
                    if items.iter().all(|v| matches!(v, Val::Expr(_))) => {}
                _ => return None,
            }
        }
        let mut args = std::mem::take(&mut self.inputs);
        args.clear();
        for &i in given {
            let (val, at) = bound.slots[i].clone()?;
            args.push(self.value(val, at)?);
        }
        if def.name.strip_prefix("relax.").unwrap_or(def.name) != op.name {
            let name = || Symbol::new(op.name);
            self.script.operators.entry(form.op).or_insert_with(name);
        }
        let call = self.call_of(form.op, &args, attrs, &[], span);
        self.inputs = args;
        Some(call)
    }

    /// Returns the inputs that a call has: for variadic operators, trailing ones may be absent.
    fn given_inputs<'f>(
        &self,
        op: &Operator,
        form: &'f Form,
        bound: &Bound,
    ) -> Option<&'f [usize]> {
        let def = registry().get(form.op)?;
        let absent = |i: &usize| {
            let none = matches!(&bound.slots[*i], None | Some((Val::None, _)));
            none && op.params[*i].default == Some(AttrValue::None)
        };
        let mut given = &form.inputs[..];
        if def.arity == Arity::AtLeast {
            while let Some((_, rest)) = given.split_last().filter(|(last, _)| absent(last)) {
                given = rest;
            }
        }
        Some(given)
    }

    /// Returns whether an argument is the empty tuple.
    fn empty(&self, val: &Val) -> bool {
        match val {
            Val::Tuple(items) => items.is_empty(),
            Val::Expr(e) => match self.m.exprs[*e] {
                Expr::Tuple(list) => self.m.list(list).is_empty(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Converts an argument to an attribute value.
    fn attribute_of(&self, val: &Val) -> Option<AttrValue> {
        if let Val::Expr(e) = val {
            let Expr::Shape(dims) = &self.m.exprs[*e] else {
                return None;
            };
            return Some(AttrValue::array(
                dims.iter().map(|d| AttrValue::dim(d.clone())),
            ));
        }
        val.as_attr()
    }

    /// Creates a call of a kept operator, with all arguments unchanged.
    fn as_it_is(&mut self, op: &Operator, bound: Bound, span: Span) -> Val {
        let kept = if op.effect {
            "relax.effect"
        } else {
            "relax.op"
        };
        let (mut given, mut args, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for (p, slot) in op.params.iter().zip(bound.slots) {
            if p.rest {
                for (val, at) in &bound.rest {
                    match self.value(val.clone(), *at) {
                        Some(e) => args.push(e),
                        None => return Val::Bad,
                    }
                    given.push(AttrValue::Str(p.name.into()));
                }
                continue;
            }
            let Some((val, at)) = slot else { continue };
            let program = matches!(val, Val::Expr(_) | Val::Function(_) | Val::Extern(_));
            let values = |items: &[Val]| {
                items
                    .iter()
                    .any(|v| matches!(v, Val::Expr(_) | Val::Tuple(_) | Val::Function(_)))
            };
            let listed = match &val {
                Val::Tuple(items) => p.input || values(items),
                Val::List(items) => values(items),
                _ => false,
            };
            if program || listed {
                match self.value(val, at) {
                    Some(e) => args.push(e),
                    None => return Val::Bad,
                }
                given.push(AttrValue::Str(p.name.into()));
            } else {
                match val.as_attr() {
                    Some(v) => rest.push((Symbol::new(p.name), v)),
                    None if matches!(val, Val::Bad) => return Val::Bad,
                    None => return self.keep("an attribute that is no plain value", at),
                }
            }
        }
        let attrs: Attrs = [
            (Symbol::new("name"), AttrValue::Str(op.name.into())),
            (Symbol::new("given"), AttrValue::Array(given.into())),
            (Symbol::new("attrs"), AttrValue::Dict(rest.into())),
        ]
        .into_iter()
        .collect();
        Val::Expr(self.op_call(kept, &args, attrs, &bound.types, span))
    }
}

/// Converts a value to an attribute's type.
fn coerce(ty: AttrTy, way: Way, value: AttrValue) -> Option<AttrValue> {
    let value = match (way, value) {
        (Way::Negated, AttrValue::Bool(b)) => AttrValue::Bool(!b),
        (Way::Negated, _) | (Way::Indices, _) => return None,
        (_, v) => v,
    };
    let all = |items: &Arc<[AttrValue]>, f: fn(&AttrValue) -> bool| items.iter().all(f);
    let int = |v: &AttrValue| matches!(v, AttrValue::Int(_));
    Some(match (ty, value) {
        (AttrTy::Any, v) => v,
        (AttrTy::DType, AttrValue::None) => AttrValue::DType(DType::VOID),
        (AttrTy::DType, AttrValue::Str(s)) if s.is_empty() => AttrValue::DType(DType::VOID),
        (AttrTy::DType, AttrValue::Str(s)) => AttrValue::DType(s.parse().ok()?),
        (AttrTy::DType, v @ AttrValue::DType(_)) => v,
        (_, AttrValue::None) => AttrValue::None,
        (AttrTy::Int, v @ AttrValue::Int(_)) => v,
        (AttrTy::Int, AttrValue::Array(items)) if items.len() == 1 && int(&items[0]) => {
            items[0].clone()
        }
        (AttrTy::Float, v @ (AttrValue::Float(_) | AttrValue::Int(_))) => v,
        (AttrTy::Bool, v @ AttrValue::Bool(_)) => v,
        (AttrTy::Str, v @ AttrValue::Str(_)) => v,
        (AttrTy::Ints | AttrTy::Dims, v @ AttrValue::Int(_)) => AttrValue::array([v]),
        (AttrTy::Ints, AttrValue::Array(items))
            if all(&items, |v| matches!(v, AttrValue::Int(_))) =>
        {
            AttrValue::Array(items)
        }
        (AttrTy::Dims, AttrValue::Array(items)) if all(&items, |v| v.as_dim().is_some()) => {
            AttrValue::Array(items)
        }
        (AttrTy::Floats, AttrValue::Array(items)) => {
            AttrValue::Array(items.iter().map(plain_float).collect::<Option<_>>()?)
        }
        (AttrTy::Strs, AttrValue::Array(items)) if all(&items, |v| v.as_str().is_some()) => {
            AttrValue::Array(items)
        }
        (AttrTy::IntOrInts, v @ AttrValue::Int(_)) => v,
        (AttrTy::IntOrInts, AttrValue::Array(items))
            if all(&items, |v| matches!(v, AttrValue::Int(_))) =>
        {
            AttrValue::Array(items)
        }
        _ => return None,
    })
}

/// Returns an element of a list of floats, which may carry a type in the text: `T.float32(0.5)`.
fn plain_float(v: &AttrValue) -> Option<AttrValue> {
    match v {
        AttrValue::Dict(pairs) => match &pairs[..] {
            [(name, value)] if name == "T.float32" => value.as_float().map(AttrValue::Float),
            _ => None,
        },
        v => v.as_float().map(|_| v.clone()),
    }
}

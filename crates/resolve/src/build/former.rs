//! Calls in the form of other TVM releases: renamed operators and attributes, operands passed as
//! attributes.

use std::fmt::Write;

use relax_base::{Diagnostic, Edit, Span, Symbol};
use relax_ir::{AttrValue, Expr, ExprId, OpId};
use relax_ops::{Arity, Former, OldCall, OpDef};
use relax_syntax::OldForm;
use relax_syntax::ast;
use relax_tensor::{DType, Tensor};

use super::Resolver;
use crate::codes;

/// An attribute of a call: its value, its span, and the value's span.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) key: Symbol,
    pub(crate) value: Option<AttrValue>,
    pub(crate) span: Span,
    pub(crate) place: Span,
}

/// The result of rewriting a call.
pub(crate) struct Rewritten {
    /// The operator, possibly a different one.
    pub(crate) op: OpId,
    pub(crate) attrs: Vec<Given>,
}

/// The spans of a call that edits refer to.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    /// The operator's name.
    pub(crate) callee: Span,
    /// The last positional argument, if any.
    pub(crate) last: Option<Span>,
}

impl Resolver<'_> {
    /// Rewrites a call in an obsolete form to the current one; its positional arguments are the
    /// values from `base` on, to which operands given by name are appended.
    pub(crate) fn rewrite_call(
        &mut self,
        op: OpId,
        written: Symbol,
        given: ast::List<ast::AttrId>,
        base: usize,
        places: Places,
    ) -> Option<Rewritten> {
        let def = self.registry.get(op)?;
        let count = self.values.len() - base;
        let short = count < def.inputs.len() && def.arity == Arity::Fixed;
        let former = self.former(def, written, given, short);
        let ast = self.ast;
        let named = |key: Symbol| {
            def.inputs[count.min(def.inputs.len())..]
                .iter()
                .any(|i| key == i.name && def.attr(i.name).is_none())
        };
        let by_name = short && ast.list(given).any(|a| named(ast.attrs[a].key));
        if former.is_none() && !by_name {
            return None;
        }
        let mut old = OldCall {
            release: self.release,
            short,
            named: self.options.release.is_some(),
            op: def.name,
            attrs: Vec::new(),
        };
        let mut all: Vec<Given> = Vec::new();
        for a in ast.list(given) {
            let ast::Attr { key, value, span } = ast.attrs[a];
            let place = ast.exprs[value].span;
            let value = self.attr_value(value);
            old.attrs
                .push((key, value.clone().unwrap_or(AttrValue::None)));
            all.push(Given {
                key,
                value,
                span,
                place,
            });
        }
        let before = old.attrs.clone();
        if let Some(former) = former {
            (former.rewrite)(&mut old);
        }
        let now = self.registry.find(old.op).unwrap_or(op);
        let def = self.registry.get(now)?;
        let mut operands: Vec<AttrValue> = Vec::new();
        // Where each is written, unless an error says already that it is no value.
        let mut written_at: Vec<Option<Span>> = Vec::new();
        for input in def.inputs.get(count..).unwrap_or_default() {
            // Some operands are also attributes, and stay attributes.
            let given = Some(input.name).filter(|n| def.attr(n).is_none());
            match given.and_then(|n| old.take(n)) {
                Some(value) => {
                    let known = all.iter().find(|g| g.key == input.name);
                    let place = known.map_or(places.callee, |g| g.place);
                    written_at.push(known.is_none_or(|g| g.value.is_some()).then_some(place));
                    operands.push(value);
                }
                None => break,
            }
        }
        let same = old.attrs == before && operands.is_empty();
        if same && written == def.name {
            return None;
        }
        self.note_call(def, written, &all, &old, &operands, places);
        for (value, at) in operands.iter().zip(written_at) {
            let operand = self.operand(value, places.callee, at);
            self.values.push(operand);
        }
        let attrs = old.attrs.into_iter().map(|(key, value)| {
            let known = all.iter().find(|g| g.key == key);
            Given {
                key,
                value: Some(value),
                span: known.map_or(places.callee, |g| g.span),
                place: known.map_or(places.callee, |g| g.place),
            }
        });
        Some(Rewritten {
            op: now,
            attrs: attrs.collect(),
        })
    }

    /// Matches the obsolete forms of a call.
    fn former(
        &self,
        def: &'static OpDef,
        written: Symbol,
        given: ast::List<ast::AttrId>,
        short: bool,
    ) -> Option<&'static Former> {
        let mut forms = def.former.iter().filter(|f| written == f.name);
        let unknown = || {
            let mut keys = self.ast.list(given).map(|a| self.ast.attrs[a].key);
            keys.any(|k| def.attr(k.as_str()).is_none())
        };
        forms.find(|f| {
            f.hidden
                || f.name != def.name
                || short
                || self.release.is_some_and(|r| r <= f.until)
                || unknown()
        })
    }

    /// Creates a constant operand from an attribute value, which is written at `at`; `None` where
    /// what is written there has been reported.
    fn operand(&mut self, value: &AttrValue, span: Span, at: Option<Span>) -> ExprId {
        let items = match value {
            AttrValue::Array(items) => &items[..],
            one => std::slice::from_ref(one),
        };
        let made: Vec<Option<Tensor>> = items.iter().map(number).collect();
        if let Some(at) = at.filter(|_| made.contains(&None)) {
            let written = self.file.slice(at);
            let message = format!("`{written}` is no operand: numbers are, and lists of them");
            self.error(Diagnostic::error(codes::ATTR_TYPE, at, message));
        }
        let made: Vec<ExprId> = made.into_iter().map(|t| self.number(t, span)).collect();
        match (value, &made[..]) {
            (AttrValue::Array(_), fields) => {
                let span = self.at(span);
                self.module.tuple(fields, span)
            }
            (_, one) => one[0],
        }
    }

    fn number(&mut self, value: Option<Tensor>, span: Span) -> ExprId {
        let Some(tensor) = value else {
            return self.error_expr(span);
        };
        let id = self.module.consts.push(tensor);
        // Its element type is inferred from the context, like that of a number without a suffix.
        self.module.literals.insert(id, true);
        let span = self.at(span);
        self.module.add(Expr::Const(id), span)
    }

    /// Records the obsolete form, with the edits that bring the call into the current form.
    fn note_call(
        &mut self,
        def: &OpDef,
        written: Symbol,
        before: &[Given],
        now: &OldCall,
        operands: &[AttrValue],
        places: Places,
    ) {
        if !self.places {
            return;
        }
        let mut edits = Vec::new();
        if written != def.name {
            edits.push(Edit {
                span: places.callee,
                text: def.name.to_owned(),
            });
        }
        let same = before.len() == now.attrs.len()
            && operands.is_empty()
            && before
                .iter()
                .zip(&now.attrs)
                .all(|(g, n)| g.key == n.0 && g.value.as_ref() == Some(&n.1));
        if !same {
            let mut parts: Vec<String> = operands.iter().map(operand_text).collect();
            for (key, value) in &now.attrs {
                let kept = before
                    .iter()
                    .find(|g| g.key == *key && g.value.as_ref() == Some(value));
                parts.push(match kept {
                    Some(g) => self.file.slice(g.span).to_owned(),
                    None => format!("{key}={}", text(value)),
                });
            }
            let end = before.iter().map(|g| g.span.end).max();
            let first = before.iter().map(|g| g.span.start).min();
            let (start, comma) = match places.last {
                Some(last) => (last.end, ", "),
                None => (first.unwrap_or(places.callee.end + 1), ""),
            };
            let comma = if parts.is_empty() { "" } else { comma };
            edits.push(Edit {
                span: Span::new(start, end.unwrap_or(start).max(start)),
                text: format!("{comma}{}", parts.join(", ")),
            });
        }
        let what = if written != def.name {
            "a call of an operator by a name that it had"
        } else if operands.is_empty() {
            "a call whose attributes were others"
        } else {
            "a call with operands as attributes"
        };
        self.old.push(OldForm {
            span: places.callee,
            what,
            edits,
        });
    }
}

/// Formats an operand: a list is written as a tuple.
fn operand_text(value: &AttrValue) -> String {
    let AttrValue::Array(items) = value else {
        return text(value);
    };
    let items: Vec<String> = items.iter().map(text).collect();
    match &items[..] {
        [one] => format!("({one},)"),
        items => format!("({})", items.join(", ")),
    }
}

/// Formats a value.
fn text(value: &AttrValue) -> String {
    let mut out = String::new();
    match value {
        AttrValue::Bool(b) => out.push_str(if *b { "True" } else { "False" }),
        AttrValue::Float(x) => {
            let _ = write!(out, "{x}f");
        }
        AttrValue::Str(s) => {
            let _ = write!(out, "{s:?}");
        }
        AttrValue::DType(d) => {
            let _ = write!(out, "\"{d}\"");
        }
        AttrValue::Array(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            let _ = write!(out, "[{}]", items.join(", "));
        }
        other => match other.as_int() {
            Some(i) => {
                let _ = write!(out, "{i}");
            }
            None => out.push_str("None"),
        },
    }
    out
}

/// Returns an attribute's number as a scalar.
fn number(value: &AttrValue) -> Option<Tensor> {
    Some(match value {
        AttrValue::Float(x) => Tensor::scalar_f64(DType::F32, *x),
        AttrValue::Bool(b) => Tensor::scalar_i64(DType::BOOL, (*b).into()),
        other => Tensor::scalar_i64(DType::I32, other.as_int()?),
    })
}

//! Resolution of calls.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{AttrsId, Expr, ExprId, OpId};
use relax_ops::Arity;
use relax_sym::Dim;
use relax_syntax::ast::{self, ExprKind};

use super::Resolver;
use super::expr::Task;
use super::former::Places;
use super::pattern::count;
use crate::codes;

/// Relax's call of a packed function by name: a form of the language, not an operator.
const CALL_PACKED: &str = "call_packed";
/// The dense constant of TVM's documentation, `Constant(1, (10, 10), float32)`: a form of the
/// language.
const CONSTANT: &str = "Constant";

/// The interned names of the call forms.
pub(crate) struct Forms {
    call_packed: Symbol,
    constant: Symbol,
}

impl Default for Forms {
    fn default() -> Self {
        Forms {
            call_packed: CALL_PACKED.into(),
            constant: CONSTANT.into(),
        }
    }
}

/// A shape attribute given as an argument: its name and value.
type ShapeAttr = (Symbol, Box<[Dim]>);

impl Resolver<'_> {
    /// Splits type arguments off a callee.
    fn peel(&self, callee: ast::ExprId) -> (ast::ExprId, Option<ast::List<ast::TypeId>>) {
        match self.ast.exprs[callee].kind {
            ExprKind::TypeApply { callee, args } => (callee, Some(args)),
            _ => (callee, None),
        }
    }

    /// Returns whether a name is one of the built-in call forms; a definition of the same name
    /// takes precedence.
    fn is_form(&mut self, callee: ast::ExprId, form: Symbol) -> bool {
        match self.plain_name(callee) {
            Some(name) if name == form => {
                self.ctor_named(name).is_none() && self.op_named(name).is_none()
            }
            _ => false,
        }
    }

    pub(crate) fn look_call(
        &mut self,
        e: ast::ExprId,
        callee: ast::ExprId,
        args: ast::List<ast::ExprId>,
        span: Span,
    ) {
        let ast = self.ast;
        let (callee, _) = self.peel(callee);
        if self.is_form(callee, self.forms.constant) {
            let value = self.dense_constant(args, span);
            self.values.push(value);
            return;
        }
        if let Some(value) = self.typed_literal(callee, args, span) {
            self.values.push(value);
            return;
        }
        let base = self.values.len() as u32;
        self.tasks.push(Task::Finish(e, base));
        let mut items = ast.list(args);
        if self.meta_attrs_arg(args).is_some() {
            items.next_back();
        }
        self.tasks.extend(items.rev().map(Task::Expr));
        match ast.exprs[callee].kind {
            // Names are looked up here, so that errors in a callee are reported before those in its
            // arguments.
            ExprKind::Name(name) => {
                let place = ast.exprs[callee].span;
                let id = if self.is_form(callee, self.forms.call_packed)
                    || self.is_opaque_call(name, args, span)
                {
                    let place = self.at(place);
                    self.module.add(Expr::Extern(name), place)
                } else {
                    self.callee_name(name, place, true)
                };
                self.values.push(id);
            }
            _ => self.tasks.push(Task::Expr(callee)),
        }
    }

    /// Matches the last argument `meta[…Attrs][0]`, TVM's form for the attributes of some calls.
    fn meta_attrs_arg(&self, args: ast::List<ast::ExprId>) -> Option<(Symbol, u32, Span)> {
        let last = self.ast.nth(args, args.len().checked_sub(1)?)?;
        match self.ast.exprs[last] {
            ast::Expr {
                kind: ExprKind::Meta { key, index },
                span,
            } if key.as_str().ends_with("Attrs") => Some((key, index, span)),
            _ => None,
        }
    }

    pub(crate) fn finish_call(&mut self, e: ast::ExprId, base: usize) -> ExprId {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[e];
        let ExprKind::Call {
            callee: written,
            args: given,
            attrs,
        } = kind
        else {
            unreachable!("a call")
        };
        let (name_expr, type_args) = self.peel(written);
        let mut callee = self.values[base];
        let meta = self.meta_attrs_arg(given);
        if let Expr::Extern(form) = self.module.exprs[callee]
            && self.plain_name(name_expr) == Some(form)
        {
            let place = ast.exprs[name_expr].span;
            if form == self.forms.call_packed {
                return self.call_packed(base, attrs, span, place);
            }
            return self.opaque_call(base, attrs, span, place);
        }
        let mut call_attrs = AttrsId::NONE;
        let mistakes = self.mistakes;
        match self.module.exprs[callee] {
            Expr::Op(mut op) => {
                let mut rewritten = None;
                if let Some(written) = self.plain_name(name_expr).filter(|_| meta.is_none()) {
                    let places = Places {
                        callee: ast.exprs[name_expr].span,
                        last: (given.len().checked_sub(1))
                            .and_then(|i| ast.nth(given, i))
                            .map(|e| ast.exprs[e].span),
                    };
                    rewritten = self.rewrite_call(op, written, attrs, base + 1, places);
                    if let Some(now) = rewritten.as_ref().filter(|r| r.op != op) {
                        op = now.op;
                        let place = self.at(places.callee);
                        callee = self.module.add(Expr::Op(op), place);
                    }
                }
                let name = self.op_name(op);
                let shape = match self.shape_arg(op, base, attrs, span, name) {
                    Ok(shape) => shape,
                    Err(()) => return self.broken_call(base, ast.exprs[name_expr].span, span),
                };
                let n = self.values.len() - base - 1;
                if !self.check_arity(op, n, span, name) {
                    return self.broken_call(base, ast.exprs[name_expr].span, span);
                }
                call_attrs = match meta {
                    Some((key, index, place)) => {
                        let found = self.meta_op_attrs(op, key, index, place, span);
                        if !attrs.is_empty() {
                            let message = "attributes are given twice: by name, and as an object";
                            self.error(Diagnostic::error(codes::ATTR_PLACE, place, message));
                        }
                        found
                    }
                    None => {
                        let place = ast.exprs[name_expr].span;
                        match rewritten {
                            Some(now) => self.former_attrs(op, now.attrs, shape, place, name),
                            None => self.op_attrs(op, attrs, shape, place, name),
                        }
                    }
                };
                if self.mistakes > mistakes {
                    return self.broken_call(base, ast.exprs[name_expr].span, span);
                }
            }
            Expr::Error => {
                // The attributes of an unknown operator are still checked for other errors.
                self.free_attrs(attrs);
                return self.broken_call(base, ast.exprs[name_expr].span, span);
            }
            Expr::Ctor(_) if !attrs.is_empty() => {
                let first = ast.nth(attrs, 0).map_or(span, |a| ast.attrs[a].span);
                let message = "a constructor takes no attributes";
                self.error(Diagnostic::error(codes::ATTR_PLACE, first, message));
            }
            // A call of a nullary constructor, which is called implicitly in value position:
            // `Nil()`.
            Expr::Call { callee: inner, .. }
                if matches!(self.module.exprs[inner], Expr::Ctor(_))
                    && matches!(ast.exprs[name_expr].kind, ExprKind::Name(_)) =>
            {
                callee = inner;
            }
            _ => {
                let attrs = self.free_attrs(attrs);
                call_attrs = self.module.make_attrs(attrs);
            }
        }
        let type_args = match type_args {
            None => 0,
            Some(list) => self.call_type_args(list),
        };
        let args = self.module.make_list(&self.values[base + 1..]);
        let place = self.at(span);
        let call = Expr::Call {
            callee,
            args,
            attrs: call_attrs,
            type_args,
        };
        self.module.add(call, place)
    }

    /// Returns a placeholder for a call that is invalid for its callee.
    fn broken_call(&mut self, base: usize, callee: Span, span: Span) -> ExprId {
        let parts = self.values.split_off(base + 1);
        let call = self.broken(callee, &parts);
        let place = self.at(span);
        self.module.add(call, place)
    }

    /// Takes the dimensions of a trailing `shape(…)` argument: for operators with a required shape
    /// attribute it is that attribute's value (`reshape(%x, shape(n, 4))`). A variable bound to a
    /// `shape(…)` is accepted too.
    fn shape_arg(
        &mut self,
        op: OpId,
        base: usize,
        attrs: ast::List<ast::AttrId>,
        span: Span,
        name: &str,
    ) -> Result<Option<ShapeAttr>, ()> {
        let Some(def) = self.registry.get(op) else {
            return Ok(None);
        };
        let Some(attr) = def.shape_attr() else {
            return Ok(None);
        };
        let key = Symbol::new(attr.name);
        let wanted = def.inputs.len() + 1;
        let given = &self.values[base + 1..];
        let mut by_name = self.ast.list(attrs).map(|a| self.ast.attrs[a].key);
        if given.len() != wanted || by_name.any(|k| k == key) {
            return Ok(None);
        }
        let last = given[wanted - 1];
        let value = match self.module.exprs[last] {
            Expr::Var(v) => self.shapes.get(&v).copied().unwrap_or(last),
            _ => last,
        };
        match &self.module.exprs[value] {
            Expr::Shape(dims) if !dims.iter().all(Dim::is_known) => {
                let message = format!("`{name}` takes a shape without unknown extents");
                let place = self.module.spans[last];
                let d = Diagnostic::error(codes::ATTR_TYPE, place, message);
                self.error(
                    d.note("`-1` in a list attribute is the extent that follows from the others"),
                );
                Err(())
            }
            Expr::Shape(dims) => {
                let dims = dims.clone();
                self.values.pop();
                Ok(Some((key, dims)))
            }
            Expr::Error => Err(()),
            _ => {
                let message =
                    format!("`{name}` takes the new shape as `shape(…)` or as `{key}=[…]`");
                let place = self.module.spans[last];
                let place = if place == Span::NONE { span } else { place };
                let d = Diagnostic::error(codes::OP_ARITY, place, message)
                    .primary("this is not written as a shape")
                    .note(
                        "a shape that is known only at run time is matched first: \
                         `%s = match_shape(…, (a, b))`, then `shape(a, b)`",
                    );
                self.error(d);
                Err(())
            }
        }
    }

    /// Resolves type arguments, which may be shapes: `plus<(10, 10)>`.
    fn call_type_args(&mut self, list: ast::List<ast::TypeId>) -> u32 {
        let ast = self.ast;
        let types: Vec<_> = ast.list(list).map(|t| self.type_arg(t)).collect();
        self.module.make_type_args(&types)
    }

    fn check_arity(&mut self, op: OpId, given: usize, span: Span, name: &str) -> bool {
        let (wanted, at_least) = match (self.registry.get(op), self.module.user_op(op)) {
            (Some(def), _) => (def.inputs.len(), def.arity == Arity::AtLeast),
            (None, Some(user)) => (user.params.len(), false),
            (None, None) => return true,
        };
        if given == wanted || at_least && given >= wanted {
            return true;
        }
        // Arguments that are not expressions were already reported.
        let base = self.values.len() - given;
        let extra = self.values[base..].iter().skip(wanted);
        if extra.clone().any(|&e| self.module.exprs[e] == Expr::Error) {
            self.mistakes += 1;
            return false;
        }
        let least = if at_least { "at least " } else { "" };
        let message = format!(
            "`{name}` takes {least}{}, but {given} {} given",
            count(wanted, "argument"),
            if given == 1 { "is" } else { "are" },
        );
        let difference = match given < wanted {
            true => format!("{} missing", wanted - given),
            false => format!("{} too many", given - wanted),
        };
        let d = Diagnostic::error(codes::OP_ARITY, span, message).primary(difference);
        let d = match self.registry.get(op) {
            Some(def) if !def.inputs.is_empty() => {
                let names: Vec<&str> = def.inputs.iter().map(|i| i.name).collect();
                let d = d.note(format!("its arguments are {}", names.join(", ")));
                self.hint_extra(d, def, given)
            }
            _ => d,
        };
        self.error(d);
        false
    }

    /// Adds a hint about surplus arguments: they may be meant as fields of the operator's tuple, or
    /// as attribute values.
    fn hint_extra(&self, mut d: Diagnostic, def: &relax_ops::OpDef, given: usize) -> Diagnostic {
        let wanted = def.inputs.len();
        if given <= wanted {
            return d;
        }
        let args = &self.values[self.values.len() - given..];
        let place = |e: &ExprId| self.module.spans[*e];
        let constant = |e: &ExprId| matches!(self.module.exprs[*e], Expr::Const(_));
        if let ([input], [first, .., last]) = (def.inputs, args)
            && input.doc.ends_with("a tuple")
            && !args.iter().any(|e| place(e).is_none() || constant(e))
        {
            let edit = |span: Span, text: &str| relax_base::Edit {
                span,
                text: text.into(),
            };
            d.fixes.push(relax_base::Fix {
                title: "its one argument is a tuple: write brackets around the tensors, `((…, …))`"
                    .into(),
                edits: vec![
                    edit(place(first).at_start(), "("),
                    edit(place(last).at_end(), ")"),
                ],
                certain: false,
            });
        } else if let Some(attr) = def.attrs.get(
            args.iter()
                .skip(wanted)
                .position(constant)
                .unwrap_or(usize::MAX),
        ) {
            d = d.note(format!("attributes are given by name: `{}=…`", attr.name));
        }
        d
    }

    /// Returns the name of an operator.
    pub(crate) fn op_name(&self, op: OpId) -> &'static str {
        match (self.registry.get(op), self.module.user_op(op)) {
            (Some(def), _) => def.name,
            (None, Some(user)) => user.name.as_str(),
            (None, None) => "",
        }
    }

    /// Resolves `call_packed("name", args)`: a call of the packed function of that name.
    fn call_packed(
        &mut self,
        base: usize,
        attrs: ast::List<ast::AttrId>,
        span: Span,
        place: Span,
    ) -> ExprId {
        let first = self.values.get(base + 1).copied();
        let callee = first.filter(|&f| matches!(self.module.exprs[f], Expr::Extern(_)));
        let Some(callee) = callee else {
            let message = "`call_packed` takes the name of a function, a string, first";
            self.error(Diagnostic::error(codes::OP_ARITY, place, message));
            return self.broken_call(base, place, span);
        };
        let attrs = self.free_attrs(attrs);
        let attrs = self.module.make_attrs(attrs);
        let args = self.module.make_list(&self.values[base + 2..]);
        let span = self.at(span);
        let call = Expr::Call {
            callee,
            args,
            attrs,
            type_args: 0,
        };
        self.module.add(call, span)
    }
}

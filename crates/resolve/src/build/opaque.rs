//! Opaque calls, of which only the result type in a comment is known: calls of unknown operators,
//! of other systems' code, and of kernels that the text does not contain.
//!
//! Such a call is represented as one of a packed function, with its result type as the type
//! argument.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{Expr, ExprId, TypeId};
use relax_sym::Dim;
use relax_syntax::ast::{self, ExprKind};

use super::Resolver;
use super::attr_type::element_type;
use crate::codes;

impl Resolver<'_> {
    /// Returns whether a call is opaque: `name` is unknown, or calls a missing kernel.
    pub(crate) fn is_opaque_call(
        &mut self,
        name: Symbol,
        args: ast::List<ast::ExprId>,
        span: Span,
    ) -> bool {
        let known = self.ctor_named(name).is_some();
        let op = self
            .op_named(name)
            .or_else(|| self.registry.formerly(name.as_str()));
        let opaque = match op.and_then(|op| self.registry.get(op)) {
            Some(def) => def.hooks.calls_kernel && self.lacks_kernel(args),
            None if known || op.is_some() => false,
            None => self.options.allow_unknown_ops || relax_ops::is_foreign(name.as_str()),
        };
        opaque && self.result_of_comment(span).is_some()
    }

    /// Returns whether the first argument is a global that the module does not define: there, and
    /// nowhere else, it is one of another module.
    fn lacks_kernel(&mut self, args: ast::List<ast::ExprId>) -> bool {
        let Some(first) = self.ast.nth(args, 0) else {
            return false;
        };
        let ExprKind::Global(name) = self.ast.exprs[first].kind else {
            return false;
        };
        let lacks = !self.globals.contains_key(&name);
        if lacks {
            self.kernels.insert(first);
        }
        lacks
    }

    /// Resolves the opaque call whose callee and arguments are the values from `base` on.
    pub(crate) fn opaque_call(
        &mut self,
        base: usize,
        attrs: ast::List<ast::AttrId>,
        span: Span,
        name: Span,
    ) -> ExprId {
        let Some(ty) = self.result_of_comment(span) else {
            return self.error_expr(span);
        };
        let attrs = self.free_attrs(attrs);
        let attrs = self.module.make_attrs(attrs);
        let type_args = self.module.make_type_args(&[ty]);
        let callee = self.values[base];
        let args = self.module.make_list(&self.values[base + 1..]);
        if let Expr::Extern(called) = self.module.exprs[callee]
            && self.op_named(called).is_none()
            && !relax_ops::is_foreign(called.as_str())
        {
            self.unknown_ops.push(name);
        }
        let place = self.at(span);
        self.module.add(
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            },
            place,
        )
    }

    /// Reports, once, that unknown calls are preserved as they are.
    pub(crate) fn unknown_calls(&mut self) {
        let Some(&first) = self.unknown_ops.first() else {
            return;
        };
        let message = match self.unknown_ops.len() {
            1 => "this operator is not known: the call is taken as it is".to_owned(),
            n => {
                format!("{n} calls are of operators that are not known: they are taken as they are")
            }
        };
        let d = Diagnostic::warning(codes::UNKNOWN_OP, first, message).note(
            "its type is the one that the comment gives; it may have effects, and cannot be computed",
        );
        self.error(d);
    }

    /// Returns the type in the comment after a call.
    fn result_of_comment(&mut self, span: Span) -> Option<TypeId> {
        let text = self.type_comment(span.end)?.to_owned();
        self.comment_type(&text)
    }

    /// Parses a type of tensors and tuples as printed in TVM's comments:
    /// `(Tensor[(1, ?), float32], int32)`.
    pub(crate) fn comment_type(&mut self, text: &str) -> Option<TypeId> {
        // A long type spans several lines, each ending with a comma.
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let types = &mut self.module.types;
        let mut open: Vec<Vec<TypeId>> = Vec::new();
        let mut rest = text.as_str();
        loop {
            let ty = if let Some(inside) = rest.strip_prefix("Tensor[(") {
                let (dims, after) = inside.split_once(')')?;
                let (dtype, after) = after.split_once(']')?;
                let dtype = element_type(dtype.trim_matches(','))?;
                let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
                let dim = |d: &str| match d {
                    "?" => Some(Dim::ANY),
                    d => d.parse::<i64>().ok().filter(|d| *d >= 0).map(Dim::from),
                };
                let dims: Vec<Dim> = dims.map(dim).collect::<Option<_>>()?;
                rest = after;
                types.tensor(dims, dtype)
            } else if let Some(after) = rest.strip_prefix('(') {
                open.push(Vec::new());
                rest = after.trim_start();
                continue;
            } else if let Some(after) = rest.strip_prefix(')') {
                let fields = open.pop()?;
                rest = after;
                types.tuple(fields)
            } else {
                let end = rest.find([',', ')', ' ']).unwrap_or(rest.len());
                let dtype = element_type(&rest[..end])?;
                rest = &rest[end..];
                types.scalar(dtype)
            };
            rest = rest.trim_start();
            match open.last_mut() {
                Some(fields) => fields.push(ty),
                None => return rest.is_empty().then_some(ty),
            }
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
    }
}

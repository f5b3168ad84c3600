//! Graph variables: their values, and whether these are valid at the point of use.
//!
//! TVM numbers them across the whole module and refers to them from anywhere. A value that
//! references a variable is only valid where that variable is visible, and one that binds variables
//! belongs to a single item.

use relax_base::{Diagnostic, Span};
use relax_ir::{Expr, ExprId, Module};
use relax_sym::DimVar;

use super::Resolver;
use super::scope::{Graph, Here, TypeName};
use crate::codes;

/// A use of a graph variable outside of its binding scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Astray {
    index: u32,
    value: ExprId,
    span: Span,
}

impl Resolver<'_> {
    /// Binds `%index`.
    pub(crate) fn bind_graph(&mut self, index: u32, value: ExprId) {
        let (item, here) = (self.item, self.scopes.here());
        self.graph.bind(index, Graph { value, item, here });
    }

    /// Returns the value of `%index` at a use.
    pub(super) fn graph_value(&mut self, index: u32, bound: Graph, span: Span) -> ExprId {
        let Graph { value, item, here } = bound;
        if item != self.item {
            return self.of_other_item(index, value, span);
        }
        if !self.scopes.holds(here) {
            if self.hidden_dim(index, value, span) {
                return self.error_expr(span);
            }
            self.astray.push(Astray { index, value, span });
        }
        value
    }

    /// Reports a dimension variable in a value that is not visible here; returns whether there is
    /// one.
    fn hidden_dim(&mut self, index: u32, value: ExprId, span: Span) -> bool {
        let dims = self.module.free_dims(value);
        let visible = |d: &DimVar| match self.scopes.type_name(self.module.dims[*d].name) {
            Some(TypeName::Dim(v)) => v == *d,
            _ => false,
        };
        let Some(hidden) = dims.into_iter().filter(|d| !visible(d)).min() else {
            return false;
        };
        let info = &self.module.dims[hidden];
        let (name, bound) = (info.name.to_string(), info.span);
        self.not_visible(index, span, &name, bound);
        true
    }

    /// Returns a value that is bound in another item. One that binds variables is copied, as each
    /// variable has a single binding site.
    fn of_other_item(&mut self, index: u32, value: ExprId, span: Span) -> ExprId {
        if let Some(&var) = self.module.free_vars(value).first() {
            let bound = self.module.vars[var].span;
            let name = self.module.vars[var].name;
            self.not_visible(index, span, &format!("%{name}"), bound);
            return self.error_expr(span);
        }
        if self.hidden_dim(index, value, span) {
            return self.error_expr(span);
        }
        let m = &mut self.module;
        let binds = |e: &ExprId| binds(m, *e);
        let value = match m.post_order([value]).iter().any(binds) {
            true => m.copy_fresh(value),
            false => value,
        };
        // Further uses in this item share the copy.
        let (item, here) = (self.item, Here::default());
        self.graph.bind(index, Graph { value, item, here });
        value
    }

    /// At the end of an item, checks that uses of graph variables outside of their binding scope
    /// are valid.
    pub(super) fn astray_uses(&mut self) {
        let uses = std::mem::take(&mut self.astray);
        let (false, Some(func)) = (uses.is_empty(), self.item_func) else {
            return;
        };
        let Err(breach) = self.module.verify_function(func) else {
            return;
        };
        let Some(node) = breach.at else { return };
        let Expr::Var(var) = self.module.exprs[node] else {
            return;
        };
        let m = &self.module;
        let of = |u: &&Astray| m.post_order([u.value]).contains(&node);
        let Some(&Astray { index, span, .. }) = uses.iter().find(of) else {
            return;
        };
        let (name, bound) = (m.vars[var].name, m.vars[var].span);
        self.not_visible(index, span, &format!("%{name}"), bound);
    }

    fn not_visible(&mut self, index: u32, span: Span, name: &str, bound: Span) {
        let message = format!("`%{index}` is used where `{name}` in it is not visible");
        let mut d = Diagnostic::error(codes::UNKNOWN_GRAPH, span, message)
            .primary("a graph variable of another scope");
        if !bound.is_none() {
            d = d.label(bound, format!("`{name}` is bound here"));
        }
        let note =
            "a graph variable is a name for an expression, which is evaluated where it is used";
        self.error(d.note(note));
    }
}

/// Returns whether a node binds variables.
fn binds(m: &Module, e: ExprId) -> bool {
    match &m.exprs[e] {
        Expr::Func(_) => true,
        _ => !m.bound_vars(e).is_empty(),
    }
}

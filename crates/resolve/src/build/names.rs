//! Name lookup, and errors about unknown names.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{Expr, ExprId, OpId, Var, VarStyle};
use relax_syntax::ast;

use super::Resolver;
use super::prelude;
use super::scope::TypeName;
use crate::codes;

impl Resolver<'_> {
    pub(crate) fn local(&mut self, name: Symbol, span: Span) {
        let var = self
            .scopes
            .local(name)
            .or_else(|| self.free_names.get(&name).copied());
        let expr = match var {
            Some(var) => Expr::Var(var),
            None => self.unknown_local(name, span),
        };
        let place = self.at(span);
        let id = self.module.add(expr, place);
        self.values.push(id);
    }

    /// Returns the name of a variable that looks like a projection, if it is in scope: `%input.1`.
    pub(crate) fn dotted_name(&self, e: ast::ExprId) -> Option<Symbol> {
        const LONGEST: usize = 1024;
        let ast::Expr { span, .. } = self.ast.exprs[e];
        let here = self.file.span();
        let inside = here.start <= span.start && span.end <= here.end;
        let text = (inside && span.len() <= LONGEST).then(|| self.file.slice(span))?;
        let name = text
            .strip_prefix('%')
            .filter(|n| !n.contains(['(', ' ', '\n']))?;
        let name = Symbol::new(name);
        let known = self.scopes.local(name).is_some() || self.free_names.contains_key(&name);
        known.then_some(name)
    }

    /// In an expression file, creates a free variable with a warning; reports an error elsewhere.
    pub(crate) fn unknown_local(&mut self, name: Symbol, span: Span) -> Expr {
        if let Some(free) = &mut self.free {
            let var = self.module.vars.push(Var {
                name,
                ty: None,
                span,
                style: VarStyle::Free,
            });
            free.push(var);
            self.free_names.insert(name, var);
            let message = format!("`%{name}` is not declared; it is taken as a free variable");
            let d = Diagnostic::warning(codes::UNDECLARED_FREE, span, message).note(format!(
                "declare it before the expression: `free_var %{name}: …;`"
            ));
            self.error(d);
            return Expr::Var(var);
        }
        if self.first_report('%', name) {
            let near = self.near(name, self.scopes.local_names());
            let mut d = Diagnostic::error(
                codes::UNKNOWN_LOCAL,
                span,
                format!("there is no variable `%{name}` here"),
            );
            if let Some(near) = near {
                d = d.suggest(format!("did you mean `%{near}`?"), span, format!("%{near}"));
            } else if self.globals.contains_key(&name) {
                d = d.suggest(format!("did you mean `@{name}`?"), span, format!("@{name}"));
            } else {
                d = match self.bound_elsewhere(name, span) {
                    Some(other) => d
                        .primary("not in scope here")
                        .label(other, format!("this `%{name}` is of another scope"))
                        .note(
                            "a binding is seen to the end of its block, \
                             that of a dataflow block where `output` names it",
                        ),
                    None => d.primary("not bound before this place"),
                };
            }
            self.error(d);
        }
        Expr::Error
    }

    /// Returns the last binding of a name before a position, in any scope.
    fn bound_elsewhere(&self, name: Symbol, place: Span) -> Option<Span> {
        // After many errors, searching the module each time would be too slow.
        if self.diags.len() > super::MANY_ERRORS {
            return None;
        }
        let first: relax_ir::VarId = relax_base::Id::from_index(self.item_vars);
        let mut item = self.module.vars.values_from(first);
        let found = item.rfind(|v| v.name == name && v.span.start < place.start)?;
        (!found.span.is_none()).then_some(found.span)
    }

    pub(crate) fn graph_var(&mut self, index: u32, span: Span) {
        let value = match self.graph.get(index) {
            Some(bound) => self.graph_value(index, bound, span),
            None => {
                let name = Symbol::new(&index.to_string());
                if self.first_report('#', name) {
                    let message = format!("`%{index}` has not been bound before this place");
                    let d = Diagnostic::error(codes::UNKNOWN_GRAPH, span, message)
                        .note("graph variables are bound by `%0 = …;` and used after that");
                    self.error(d);
                }
                self.error_expr(span)
            }
        };
        self.values.push(value);
    }

    pub(crate) fn global(&mut self, e: ast::ExprId, name: Symbol, span: Span) -> ExprId {
        let found = self.globals.get(&name).copied();
        let expr = match found.or_else(|| self.prelude_global(name)) {
            Some(id) => Expr::Global(id),
            None if self.kernels.contains(&e) => Expr::Extern(Symbol::new(&format!("@{name}"))),
            None => {
                if self.first_report('@', name) {
                    let names = self.module.globals.values().map(|g| g.name.as_str());
                    let near = self.near(name, names.chain(prelude::global_names()));
                    let message = format!("there is no global `@{name}`");
                    let mut d = Diagnostic::error(codes::UNKNOWN_GLOBAL, span, message);
                    if let Some(near) = near {
                        d = d.suggest(format!("did you mean `@{near}`?"), span, format!("@{near}"));
                    } else if self.scopes.local(name).is_some() {
                        d = d.suggest(format!("did you mean `%{name}`?"), span, format!("%{name}"));
                    }
                    self.error(d);
                }
                Expr::Error
            }
        };
        let span = self.at(span);
        self.module.add(expr, span)
    }

    /// Returns the operator of this name: an `op` item of the module or the prelude, or a built-in
    /// one.
    pub(crate) fn op_named(&mut self, name: Symbol) -> Option<OpId> {
        if let Some(&id) = self.user_ops.get(&name) {
            return Some(id);
        }
        let builtin = self.builtin_op(name);
        builtin.or_else(|| self.prelude_op(name))
    }

    /// Resolves a bare name as a callee or as an operator value; nullary constructors are called
    /// implicitly, as in TVM.
    pub(crate) fn bare_name(&mut self, name: Symbol, span: Span) -> ExprId {
        if let Some(referred) = self.referred(name) {
            return self.grad_number(referred, span);
        }
        let id = self.callee_name(name, span, false);
        if let Expr::Ctor(ctor) = self.module.exprs[id]
            && self.ctor_arity(ctor) == 0
        {
            let place = self.at(span);
            return self.module.call(id, &[], place);
        }
        if let Expr::Op(op) = self.module.exprs[id]
            && self.lacks_attr(op, span, name.as_str())
        {
            let place = self.at(span);
            return self.module.add(Expr::Error, place);
        }
        id
    }

    /// Reports an operator that stands as a value, which calls give no attributes, if there are some
    /// that it needs; returns whether there are.
    fn lacks_attr(&mut self, op: OpId, place: Span, name: &str) -> bool {
        let schema = self.schema(op);
        let Some(attr) = schema.attrs.iter().find(|a| a.default.is_none()) else {
            return false;
        };
        let message = format!(
            "`{name}` needs the attribute `{}`, which a value cannot be given",
            attr.name
        );
        let d = Diagnostic::error(codes::MISSING_ATTR, place, message)
            .primary("an operator as a value")
            .note(format!(
                "write a function that calls it: `fn (…) {{ {name}(…, {}=…) }}`",
                attr.name
            ));
        self.error(d);
        true
    }

    /// Resolves a bare name as a constructor or an operator.
    pub(crate) fn callee_name(&mut self, name: Symbol, span: Span, called: bool) -> ExprId {
        let place = self.at(span);
        let expr = match self.callees.get(&name) {
            Some(known) => known.clone(),
            None => {
                let ctor = self.ctor_named(name).map(Expr::Ctor);
                match ctor.or_else(|| self.op_named(name).map(Expr::Op)) {
                    Some(found) => {
                        self.callees.insert(name, found.clone());
                        found
                    }
                    None => match self.registry.formerly(name.as_str()) {
                        Some(op) if called => Expr::Op(op),
                        _ => {
                            self.unknown_name(name, span, called);
                            Expr::Error
                        }
                    },
                }
            }
        };
        self.module.add(expr, place)
    }

    pub(crate) fn unknown_name(&mut self, name: Symbol, span: Span, called: bool) {
        if !self.first_report('a', name) {
            return;
        }
        if let Some(TypeName::Dim(_)) = self.scopes.type_name(name) {
            let d = Diagnostic::error(
                codes::UNKNOWN_NAME,
                span,
                format!("`{name}` is a dimension variable, which is no value by itself"),
            )
            .note(format!("`shape({name})` is a shape value"));
            return self.error(d);
        }
        if name == "?" {
            let message = "`?` is an extent that is not known, which is no value";
            let d = Diagnostic::error(codes::UNKNOWN_NAME, span, message);
            return self.error(d.note("types and attributes have such extents"));
        }
        let what = if called {
            "operator or constructor"
        } else {
            "operator, constructor or dimension"
        };
        let message = format!("there is no {what} `{name}`");
        let d = Diagnostic::error(codes::UNKNOWN_NAME, span, message);
        let sigil = if self.scopes.local(name).is_some() || self.free_names.contains_key(&name) {
            Some('%')
        } else if self.globals.contains_key(&name) {
            Some('@')
        } else {
            None
        };
        let d = if let Some(sigil) = sigil {
            d.suggest(
                format!("did you mean `{sigil}{name}`?"),
                span,
                format!("{sigil}{name}"),
            )
        } else {
            let ops = self.registry.iter().map(|(_, op)| op.name);
            let ctors = self.module.ctors.values().map(|c| c.name.as_str());
            let user = self.user_ops.keys().map(|n| n.as_str());
            let names = ops.chain(ctors).chain(user).chain(prelude::callee_names());
            match self.near(name, names) {
                Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
                None if !called => {
                    d.note("variables have a `%` before their names, functions an `@`")
                }
                None => d,
            }
        };
        self.error(d);
    }
}

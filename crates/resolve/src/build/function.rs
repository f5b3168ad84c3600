//! Resolution of functions: signatures and scopes of `def` and `fn`.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{
    Attrs, Constraint, Expr, FuncId, Function, Kind, RelRef, TypeId, TypeParamId, VarId, VarStyle,
};
use relax_sym::DimVar;
use relax_syntax::ast;

use super::scope::{Mark, TypeName};
use super::{DimMode, Resolver};
use crate::codes;

/// A function whose body is being resolved.
#[derive(Debug)]
pub(crate) struct FnFrame {
    mark: Mark,
    type_params: Vec<TypeParamId>,
    dims: Vec<DimVar>,
    params: Vec<VarId>,
    ret: Option<TypeId>,
    constraints: Vec<Constraint>,
    attrs: Attrs,
    span: Span,
}

/// The binders of a signature.
#[derive(Debug, Default)]
pub(crate) struct Binders {
    /// Type parameters.
    pub(crate) params: Vec<TypeParamId>,
    /// Parameters of kind `ShapeVar`.
    pub(crate) dims: Vec<DimVar>,
}

impl Resolver<'_> {
    /// Brings type parameters into scope.
    pub(crate) fn type_params(&mut self, list: ast::List<ast::TypeParamId>) -> Binders {
        let ast = self.ast;
        let mut out = Binders::default();
        let mut seen: Vec<(Symbol, Span)> = Vec::new();
        for p in ast.list(list) {
            let ast::TypeParam { name, kind, span } = ast.type_params[p];
            if let Some(&(_, first)) = seen.iter().find(|s| s.0 == name) {
                let message = format!("type parameter `{name}` is declared twice");
                self.duplicate(span, first, &message);
            }
            seen.push((name, span));
            let kind = match kind {
                None => Kind::Type,
                Some(k) => self.kind(k, span),
            };
            let what = if kind == Kind::ShapeVar {
                let place = self.at(span);
                let var = self
                    .module
                    .dims
                    .push(relax_ir::DimInfo { name, span: place });
                out.dims.push(var);
                TypeName::Dim(var)
            } else {
                let id = self.module.types.param(name, kind);
                out.params.push(id);
                TypeName::Param(id)
            };
            self.scopes.bind_type(name, what);
        }
        out
    }

    fn kind(&mut self, name: Symbol, span: Span) -> Kind {
        const KINDS: [(&str, Kind); 4] = [
            ("Type", Kind::Type),
            ("BaseType", Kind::BaseType),
            ("Shape", Kind::Shape),
            ("ShapeVar", Kind::ShapeVar),
        ];
        if let Some((_, kind)) = KINDS.iter().find(|(text, _)| name == *text) {
            return *kind;
        }
        let message = format!("there is no kind `{name}`");
        let d = Diagnostic::error(codes::KIND, span, message)
            .note("kinds are `Type`, `BaseType`, `Shape` and `ShapeVar`");
        let near = self.near(name, KINDS.iter().map(|k| k.0));
        let d = match near {
            Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
            None => d,
        };
        self.error(d);
        Kind::Type
    }

    /// Resolves a signature and enters the function's scope.
    pub(crate) fn enter_fn(&mut self, f: ast::FnId) {
        let ast = self.ast;
        let function = ast.functions[f];
        let mark = self.scopes.enter();
        let binders = self.type_params(function.type_params);
        self.dim_mode = DimMode::Bind;
        let base = self.new_dims.len();
        let mut params = Vec::with_capacity(function.params.len());
        let mut seen = rustc_hash::FxHashMap::default();
        for p in ast.list(function.params) {
            let b = ast.binders[p];
            if let Some(first) = seen.insert(b.name, b.span) {
                let message = format!("parameter `%{}` stands twice", b.name);
                self.duplicate(b.span, first, &message);
            }
            params.push(self.bind_var(p, VarStyle::Param));
        }
        let ret = function.ret.and_then(|t| self.annotation(t));
        let constraints = (ast.list(function.relations))
            .filter_map(|t| self.constraint(t))
            .collect();
        self.dim_mode = DimMode::Reject;
        let mut dims = binders.dims;
        dims.extend(self.new_dims.drain(base..));
        let attrs = self.free_attrs(function.attrs);
        let span = self.at(function.header.to(ast.exprs[function.body].span));
        self.fns.push(FnFrame {
            mark,
            type_params: binders.params,
            dims,
            params,
            ret,
            constraints,
            attrs,
            span,
        });
    }

    pub(crate) fn fn_end(&mut self, e: Option<ast::ExprId>) {
        let body = self.values.pop().expect("a function has a body");
        let frame = self.fns.pop().expect("inside a function");
        self.scopes.leave(frame.mark);
        let func = self.module.funcs.push(Function {
            type_params: frame.type_params,
            dims: frame.dims,
            params: frame.params,
            ret: frame.ret,
            constraints: frame.constraints,
            body,
            attrs: frame.attrs,
            span: frame.span,
        });
        match e {
            Some(e) => {
                let span = self.at(self.ast.exprs[e].span);
                let id = self.module.add(Expr::Func(func), span);
                self.values.push(id);
            }
            None => self.last_fn = Some(func),
        }
    }

    /// Resolves a complete `def`.
    pub(crate) fn def(&mut self, f: ast::FnId) -> FuncId {
        self.enter_fn(f);
        self.tasks.push(super::expr::Task::FnEnd(None));
        let body = self.ast.functions[f].body;
        self.tasks.push(super::expr::Task::Expr(body));
        self.run();
        self.last_fn.take().expect("the walk makes the function")
    }

    /// Resolves a relation after `where`: `R` or `R(a, b)`.
    pub(crate) fn constraint(&mut self, t: ast::TypeId) -> Option<Constraint> {
        let ast = self.ast;
        let (head, args) = match ast.types[t].kind {
            ast::TypeExprKind::Call { head, args } | ast::TypeExprKind::Apply { head, args } => {
                (head, args)
            }
            _ => (t, ast::List::EMPTY),
        };
        let rel = self.relation_ref(head)?;
        let args: Vec<TypeId> = ast.list(args).map(|a| self.full_type(a)).collect();
        let args = args.into();
        Some(Constraint { rel, args })
    }

    /// Resolves the relation that a term names.
    pub(crate) fn relation_ref(&mut self, head: ast::TypeId) -> Option<RelRef> {
        let ast::TypeExpr { kind, span } = self.ast.types[head];
        let ast::TypeExprKind::Name(name) = kind else {
            if kind != ast::TypeExprKind::Error {
                let message = "a relation is written `Name` or `Name(A, B)`";
                self.error(Diagnostic::error(codes::RELATION, span, message));
            }
            return None;
        };
        if let Some(&rel) = self.relations.get(&name) {
            return Some(RelRef::User(rel));
        }
        if self.registry.relation(name.as_str()).is_some() {
            return Some(RelRef::Builtin(name));
        }
        if let Some(rel) = self.prelude_relation(name) {
            return Some(RelRef::User(rel));
        }
        if self.first_report('R', name) {
            let names = self.relations.keys().map(|n| n.as_str());
            let near = self.near(name, names.chain(self.registry.relation_names()));
            let message = format!("there is no relation `{name}`");
            let d = Diagnostic::error(codes::RELATION, span, message);
            let d = match near {
                Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
                None => d,
            };
            self.error(d);
        }
        None
    }
}

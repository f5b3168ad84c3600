//! Resolution of items: all names of the file are declared first, then bodies are resolved, so that
//! definitions may refer to each other in any order.

use std::sync::Arc;

use relax_base::{Diagnostic, Span, Symbol, did_you_mean};
use relax_ir::{
    Adt, Attrs, Ctor, Expr, FuncId, Function, Global, GlobalId, GlobalKind, OpId, RelationDef,
    UserOp,
};
use relax_loops::Program;
use relax_syntax::OldForm;
use relax_syntax::ast::{self, ItemKind, TypeExprKind};

use super::{DimMode, MANY_ERRORS, Resolver};
use crate::codes;

impl Resolver<'_> {
    /// Resolves all items of the file.
    pub(crate) fn file_items(&mut self) {
        let ast = self.ast;
        self.module.version = ast.version.map(|v| v.0);
        self.metadata_section();
        // An item may be a duplicate definition: it is resolved to report its errors, but the first
        // definition is kept.
        let mut first = Vec::with_capacity(ast.items.len());
        for item in &ast.items {
            first.push(self.declare(item, false));
        }
        for (i, (item, first)) in ast.items.iter().zip(first).enumerate() {
            self.reported.clear();
            self.forget_given_types();
            self.item_vars = self.module.vars.len();
            let said = self.diags.len();
            self.item += 1;
            self.item_func = None;
            self.define(item, first);
            self.astray_uses();
            if self.diags.len() > said || !ast.errors.is_empty() {
                self.damage(i, said);
            }
        }
    }

    /// Declares an item's names; returns whether it is the first definition of its name.
    pub(crate) fn declare(&mut self, item: &ast::Item, prelude: bool) -> bool {
        let span = self.at(item.name_span);
        match item.kind {
            ItemKind::Def { name, .. } => {
                let kind = GlobalKind::Func(FuncId(u32::MAX));
                self.declare_global(name, kind, item.name_span, prelude)
            }
            ItemKind::PrimFunc(p) => {
                let kind = GlobalKind::Prim(Arc::new(Program::new(p.name)));
                self.declare_global(p.name, kind, item.name_span, prelude)
            }
            ItemKind::TypeDef(def) => self.declare_type(&def, item.name_span, prelude),
            ItemKind::Rel(rel) => {
                if let Some(&old) = self.relations.get(&rel.name) {
                    let old = self.module.relations[old].span;
                    let message = format!("relation `{}` is defined twice", rel.name);
                    self.duplicate(item.name_span, old, &message);
                    return false;
                }
                let id = self.module.relations.push(RelationDef {
                    name: rel.name,
                    span,
                    params: Vec::new(),
                    dims: Vec::new(),
                    args: Vec::new(),
                    ret: relax_ir::TypePattern::Any,
                    prelude,
                });
                self.relations.insert(rel.name, id);
                true
            }
            ItemKind::Op(op) => {
                if let Some(&old) = self.user_ops.get(&op.name) {
                    let old = self.module.user_op(old).map_or(Span::NONE, |o| o.span);
                    let message = format!("operator `{}` is defined twice", op.name);
                    self.duplicate(item.name_span, old, &message);
                    return false;
                }
                self.callable(op.name, item.name_span);
                if !prelude && self.builtin_op(op.name).is_some() {
                    let message = format!("`{}` is a built-in operator", op.name);
                    self.error(Diagnostic::error(codes::DUPLICATE, item.name_span, message));
                    return false;
                }
                let id = OpId(OpId::FIRST_USER.0 + self.module.user_ops.len() as u32);
                self.module.user_ops.push(UserOp {
                    name: op.name,
                    type_params: Vec::new(),
                    dims: Vec::new(),
                    params: Vec::new(),
                    ret: None,
                    constraints: Vec::new(),
                    attrs: Vec::new(),
                    program: None,
                    attr_vars: Vec::new(),
                    span,
                    prelude,
                });
                self.user_ops.insert(op.name, id);
                self.declare_user_op(id, &op);
                true
            }
            ItemKind::Error
            | ItemKind::DefMeta { .. }
            | ItemKind::Grad(_)
            | ItemKind::Expr(_)
            | ItemKind::Type(_) => true,
        }
    }

    fn declare_global(
        &mut self,
        name: Symbol,
        kind: GlobalKind,
        span: Span,
        prelude: bool,
    ) -> bool {
        if let Some(&old) = self.globals.get(&name) {
            let old = self.module.globals[old].span;
            self.duplicate(span, old, &format!("`@{name}` is defined twice"));
            let first = self.globals[&name];
            self.module.damage.globals.insert(first);
            return false;
        }
        let span = self.at(span);
        let id = self.module.globals.push(Global {
            name,
            kind,
            span,
            prelude,
        });
        self.globals.insert(name, id);
        true
    }

    /// Reports a constructor or operator whose calls would be read as something else.
    fn callable(&mut self, name: Symbol, span: Span) {
        let meaning = match name.as_str() {
            "output" => "ends a dataflow block",
            "return" => "is a statement of other languages",
            _ => return,
        };
        let message = format!("`{name}` cannot be called: `{name}(…)` {meaning}");
        self.error(Diagnostic::error(codes::MISPLACED, span, message));
    }

    fn declare_type(&mut self, def: &ast::TypeDef, span: Span, prelude: bool) -> bool {
        let ast = self.ast;
        if let Some(&old) = self.adts.get(&def.name) {
            let old = self.module.adts[old].span;
            self.duplicate(span, old, &format!("type `{}` is defined twice", def.name));
            return false;
        }
        if self.dtype(def.name).is_some() || ["Tensor", "Shape"].iter().any(|n| def.name == *n) {
            let message = format!("`{}` is a built-in type", def.name);
            self.error(Diagnostic::error(codes::DUPLICATE, span, message));
        }
        let place = self.at(span);
        let adt = self.module.adts.push(Adt {
            name: def.name,
            params: Vec::new(),
            ctors: Vec::new(),
            opaque: def.external,
            span: place,
            prelude,
        });
        self.adts.insert(def.name, adt);
        self.adt_params.push(def.params.len() as u32);
        for (tag, c) in ast.list(def.ctors).enumerate() {
            let c = ast.ctors[c];
            if def.external {
                // Already reported by the parser.
                break;
            }
            self.callable(c.name, c.span);
            let place = self.at(c.span);
            let id = self.module.ctors.push(Ctor {
                name: c.name,
                adt,
                fields: Vec::new(),
                tag: tag as u32,
                span: place,
            });
            self.ctor_fields.push(c.fields.len() as u32);
            self.module.adts[adt].ctors.push(id);
            match self.ctors.get(&c.name) {
                Some(&old) => {
                    let old = self.module.ctors[old].span;
                    let message = format!("constructor `{}` is defined twice", c.name);
                    self.duplicate(c.span, old, &message);
                }
                None => {
                    self.ctors.insert(c.name, id);
                }
            }
        }
        true
    }

    /// Resolves an item's body.
    pub(crate) fn define(&mut self, item: &ast::Item, first: bool) {
        match item.kind {
            ItemKind::Error => {}
            ItemKind::Def { name, function } => {
                let func = self.def(function);
                self.item_func = Some(func);
                if first && let Some(&id) = self.globals.get(&name) {
                    self.module.globals[id].kind = GlobalKind::Func(func);
                }
            }
            ItemKind::DefMeta { value, .. } => {
                let span = self.ast.exprs[value].span;
                let message = "functions of other kinds than Relay's are not read from the \
                               metadata section";
                self.error(Diagnostic::error(codes::METADATA, span, message));
            }
            ItemKind::TypeDef(def) if first => self.define_type(&def),
            ItemKind::TypeDef(_) => {}
            ItemKind::Rel(rel) => {
                let def = self.relation_def(&rel, item.name_span);
                if first && let (Some(&id), Some(def)) = (self.relations.get(&rel.name), def) {
                    self.module.relations[id] = def;
                }
            }
            ItemKind::Op(op) if first => self.define_user_op(&op),
            ItemKind::Op(_) => {}
            ItemKind::Grad(grad) => self.define_grad(&grad, item.name_span),
            ItemKind::PrimFunc(p) => {
                let program = self.prim_func(&p, item.name_span);
                if first && let Some(&id) = self.globals.get(&p.name) {
                    self.module.globals[id].kind = GlobalKind::Prim(Arc::new(program));
                }
            }
            ItemKind::Expr(e) => self.expression(e, item.name_span),
            ItemKind::Type(t) => {
                // Its dimensions are those of no function beside it.
                let mark = self.scopes.enter();
                self.dim_mode = DimMode::Bind;
                let ty = self.type_arg(t);
                self.dim_mode = DimMode::Reject;
                self.new_dims.clear();
                self.scopes.leave(mark);
                self.module.type_item = Some(ty);
            }
        }
    }

    fn define_type(&mut self, def: &ast::TypeDef) {
        let ast = self.ast;
        let Some(&adt) = self.adts.get(&def.name) else {
            return;
        };
        let mark = self.scopes.enter();
        let binders = self.type_params(def.params);
        if !binders.dims.is_empty() {
            let place = ast
                .nth(def.params, 0)
                .map_or(Span::NONE, |p| ast.type_params[p].span);
            let message = "a data type's parameters are types, element types or shapes";
            self.error(Diagnostic::error(codes::KIND, place, message));
        }
        let ctors = self.module.adts[adt].ctors.clone();
        for (c, id) in ast.list(def.ctors).zip(ctors) {
            let c = ast.ctors[c];
            let fields: Vec<_> = ast.list(c.fields).map(|t| self.full_type(t)).collect();
            self.module.ctors[id].fields = fields;
            if let Some(ret) = c.ret {
                self.check_ctor_result(def.name, ret);
            }
        }
        self.scopes.leave(mark);
        self.module.adts[adt].params = binders.params;
    }

    /// Checks that `Nil : () -> List` names the type it is a constructor of.
    fn check_ctor_result(&mut self, name: Symbol, ret: ast::TypeId) {
        let ast::TypeExpr { kind, span } = self.ast.types[ret];
        let head = match kind {
            TypeExprKind::Apply { head, .. } => self.ast.types[head].kind,
            other => other,
        };
        if head != TypeExprKind::Name(name) && head != TypeExprKind::Error {
            let message = format!("a constructor of `{name}` gives a `{name}`");
            let d = Diagnostic::error(codes::DATA_TYPE, span, message);
            self.error(d.suggest("give the type's name", span, name.as_str()));
        }
    }

    /// Resolves the expression of an expression file: a function of its free variables, or the
    /// function literal itself, as TVM prints `mod["main"]`.
    fn expression(&mut self, e: ast::ExprId, span: Span) {
        let place = self.at(span);
        self.free = Some(Vec::new());
        let mark = self.scopes.enter();
        let body = self.expr(e);
        self.scopes.leave(mark);
        self.dim_mode = DimMode::Reject;
        let params = self.free.take().unwrap_or_default();
        self.free_names.clear();
        let dims = std::mem::take(&mut self.new_dims);
        let several = {
            let mut all = self
                .ast
                .items
                .iter()
                .filter(|i| matches!(i.kind, ItemKind::Expr(_)));
            all.nth(1).is_some()
        };
        let func = match self.module.exprs[body] {
            Expr::Func(func) if params.is_empty() && !self.in_parens(e) => {
                self.module.literal = true;
                func
            }
            _ => self.module.funcs.push(Function {
                type_params: Vec::new(),
                dims,
                params,
                ret: None,
                constraints: Vec::new(),
                body,
                attrs: Attrs::new(),
                span: place,
            }),
        };
        self.item_func = Some(func);
        let mut name = Symbol::new("main");
        let mut n = 0;
        while self.globals.contains_key(&name) {
            n += 1;
            name = Symbol::new(&format!("main_{n}"));
        }
        let id: GlobalId = self.module.globals.push(Global {
            name,
            kind: GlobalKind::Func(func),
            span: place,
            prelude: false,
        });
        self.globals.insert(name, id);
        if several {
            // The functions of a dump: each becomes a global.
            self.name_part(span, name);
            self.module.literal = false;
        } else {
            self.module.expression = Some(id);
        }
    }

    /// Returns whether the value of a file is in parentheses: a function literal is a value then, and
    /// not the file's function.
    fn in_parens(&self, e: ast::ExprId) -> bool {
        let value = match self.ast.exprs[e].kind {
            ast::ExprKind::Block {
                tail: Some(tail), ..
            } => tail,
            _ => e,
        };
        matches!(self.ast.exprs[value].kind, ast::ExprKind::Paren(..))
    }

    /// Records that a function without a name is one of several.
    fn name_part(&mut self, span: Span, name: Symbol) {
        if !span.is_none() && self.file.slice(span).starts_with("fn") {
            let keyword = Span::new(span.start, span.start + 2);
            let what = "a function without a name among several";
            self.old
                .push(OldForm::new(what, keyword, format!("def @{name}")));
        }
    }

    /// Returns the candidate nearest to a name, for a suggestion.
    ///
    /// After many errors no suggestions are made, as each is a search over all names of the module.
    pub(crate) fn near<'n>(
        &self,
        name: Symbol,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Option<&'n str> {
        if self.diags.len() > MANY_ERRORS {
            return None;
        }
        did_you_mean(name.as_str(), names)
    }
}

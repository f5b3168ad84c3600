//! Items, functions, parameters.

use relax_base::{Code, Diagnostic, Span};

use super::{ArgCount, Builder, FnHead};
use crate::ast::*;

impl Builder<'_> {
    pub(crate) fn item(&mut self, kind: ItemKind, l: u32, r: u32, n: u32, m: u32) -> Box<Item> {
        Box::new(Item {
            kind,
            span: Span::new(l, r),
            name_span: Span::new(n, m),
        })
    }

    /// An expression that is a segment of its own.
    pub(crate) fn body_segment(&mut self, e: ExprId) -> Box<Item> {
        let span = self.ast.exprs[e].span;
        self.item(
            ItemKind::Expr(e),
            span.start,
            span.end,
            span.start,
            span.end,
        )
    }

    /// A type that is a segment of its own.
    pub(crate) fn type_segment(&mut self, ty: TypeId) -> Box<Item> {
        let span = self.ast.types[ty].span;
        self.item(
            ItemKind::Type(ty),
            span.start,
            span.end,
            span.start,
            span.end,
        )
    }

    pub(crate) fn head(
        &mut self,
        type_params: Option<(u32, bool)>,
        params: ArgCount,
        ret: Option<TypeId>,
        relations: Option<u32>,
        end: u32,
    ) -> Box<FnHead> {
        let relations = self.take(relations.unwrap_or(0));
        let attrs = self.take_attrs(params.attrs);
        let params = self.take(params.args);
        let (n, angle) = type_params.unwrap_or_default();
        Box::new(FnHead {
            type_params: self.take(n),
            angle,
            params,
            attrs,
            ret,
            relations,
            type_list: List::EMPTY,
            end,
        })
    }

    pub(crate) fn function(&mut self, head: FnHead, body: ExprId, l: u32) -> FnId {
        let params: Vec<BinderId> = self.ast.list(head.params).collect();
        for p in params {
            let b = self.ast.binders[p];
            if !b.sigil && !b.span.is_empty() {
                self.missing_sigil(b.span.start, b.span.end, "parameter");
                self.ast.binders[p].sigil = true;
            }
        }
        self.ast.functions.push(Function {
            type_params: head.type_params,
            angle: head.angle,
            params: head.params,
            attrs: head.attrs,
            ret: head.ret,
            relations: head.relations,
            body,
            header: Span::new(l, head.end),
        })
    }

    pub(crate) fn op_item(
        &mut self,
        head: FnHead,
        body: ExprId,
        l: u32,
        r: u32,
        n: u32,
        m: u32,
    ) -> Box<Item> {
        let name = self.name_symbol(n, m);
        let params = self.with_untyped(head.params, head.attrs);
        let op = OpItem {
            name,
            type_params: head.type_params,
            angle: head.angle,
            params,
            ret: head.ret,
            relations: head.relations,
            body,
        };
        self.item(ItemKind::Op(op), l, r, n, m)
    }

    /// Returns the parameters with those that were parsed as attributes: `factor=1.0` without a type
    /// is a parameter nevertheless.
    fn with_untyped(&mut self, params: List<BinderId>, attrs: List<AttrId>) -> List<BinderId> {
        if attrs.is_empty() {
            return params;
        }
        let mut all: Vec<BinderId> = self.ast.list(params).collect();
        let extra: Vec<AttrId> = self.ast.list(attrs).collect();
        for a in extra {
            let Attr { key, value, span } = self.ast.attrs[a];
            all.push(self.ast.binders.push(Binder {
                name: key,
                sigil: false,
                ty: None,
                attrs: List::EMPTY,
                default: Some(value),
                span: Span::new(span.start, span.start + key.as_str().len() as u32),
            }));
        }
        all.sort_by_key(|&b| self.ast.binders[b].span.start);
        self.ast.make_list(all)
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn grad_item(
        &mut self,
        params: ArgCount,
        result: BinderId,
        grad: BinderId,
        body: ExprId,
        l: u32,
        r: u32,
        n: u32,
        m: u32,
    ) -> Box<Item> {
        let attrs = self.take_attrs(params.attrs);
        let params = self.take(params.args);
        let item = GradItem {
            op: self.name_symbol(n, m),
            params: self.with_untyped(params, attrs),
            result,
            grad,
            body,
        };
        self.item(ItemKind::Grad(item), l, r, n, m)
    }

    pub(crate) fn prim_func(
        &mut self,
        params: ArgCount,
        body: ExprId,
        l: u32,
        r: u32,
        n: u32,
        m: u32,
    ) -> Box<Item> {
        let attrs = self.take_attrs(params.attrs);
        let params = self.take(params.args);
        let name = self.sigil_name(n, m);
        let f = PrimFunc {
            name,
            params,
            attrs,
            body,
        };
        self.item(ItemKind::PrimFunc(f), l, r, n, m)
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn type_def(
        &mut self,
        external: bool,
        data: bool,
        params: Option<(u32, bool)>,
        ctors: Option<u32>,
        l: u32,
        r: u32,
        n: u32,
        m: u32,
    ) -> Box<Item> {
        let ctor_list: List<CtorId> = self.take(ctors.unwrap_or(0));
        let (count, angle) = params.unwrap_or_default();
        let params = self.take(count);
        let name = self.name_symbol(n, m);
        if external && !ctor_list.is_empty() {
            self.diagnostics.push(Diagnostic::error(
                Code(115),
                Span::new(n, m),
                format!("the external type `{name}` cannot have constructors"),
            ));
        }
        let def = TypeDef {
            name,
            params,
            ctors: ctor_list,
            data,
            external,
            angle,
            braces: ctors.is_some(),
        };
        self.item(ItemKind::TypeDef(def), l, r, n, m)
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn rel_item(
        &mut self,
        params: u32,
        ret: Option<TypeId>,
        goals: u32,
        prolog: bool,
        l: u32,
        r: u32,
        n: u32,
        m: u32,
    ) -> Box<Item> {
        let goals = self.take(goals);
        let params = self.take(params);
        let name = self.name_symbol(n, m);
        let rel = RelItem {
            name,
            params,
            ret,
            goals,
            prolog,
        };
        self.item(ItemKind::Rel(rel), l, r, n, m)
    }

    pub(crate) fn ctor(
        &mut self,
        fields: Option<u32>,
        ret: Option<TypeId>,
        l: u32,
        m: u32,
        r: u32,
    ) -> CtorId {
        let name = self.name_symbol(l, m);
        let parens = fields.is_some();
        let fields = self.take(fields.unwrap_or(0));
        let span = Span::new(l, r);
        self.ast.ctors.push(Ctor {
            name,
            fields,
            parens,
            ret,
            span,
        })
    }

    pub(crate) fn type_param(
        &mut self,
        l: u32,
        m: u32,
        kind: Option<(u32, u32)>,
        r: u32,
    ) -> TypeParamId {
        let name = self.name_symbol(l, m);
        let kind = kind.map(|(l, r)| self.name_symbol(l, r));
        let span = Span::new(l, r);
        self.ast.type_params.push(TypeParam { name, kind, span })
    }

    pub(crate) fn binder(
        &mut self,
        l: u32,
        m: u32,
        attrs: Option<u32>,
        ty: Option<TypeId>,
    ) -> BinderId {
        let name = self.sigil_name(l, m);
        let attrs = self.take_attrs(attrs.unwrap_or(0));
        self.ast.binders.push(Binder {
            name,
            sigil: true,
            ty,
            attrs,
            default: None,
            span: Span::new(l, m),
        })
    }

    /// Builds a parameter without a sigil: an attribute of an `op` item, an error elsewhere.
    pub(crate) fn name_param(
        &mut self,
        l: u32,
        m: u32,
        ty: Option<TypeId>,
        default: Option<ExprId>,
    ) {
        let name = self.name_symbol(l, m);
        let id = self.ast.binders.push(Binder {
            name,
            sigil: false,
            ty,
            attrs: List::EMPTY,
            default,
            span: Span::new(l, m),
        });
        self.push(id);
    }

    pub(crate) fn error_param(&mut self, l: u32, r: u32) {
        let id = self.error_binder(l, r);
        self.push(id);
    }

    pub(crate) fn error_binder(&mut self, l: u32, r: u32) -> BinderId {
        self.ast.binder("".into(), None, Span::new(l, r))
    }

    pub(crate) fn fn_type_head(&mut self, type_params: Option<(u32, bool)>, n: u32) -> Box<FnHead> {
        let type_list = self.take(n);
        let (count, angle) = type_params.unwrap_or_default();
        Box::new(FnHead {
            type_params: self.take(count),
            angle,
            params: List::EMPTY,
            attrs: List::EMPTY,
            ret: None,
            relations: List::EMPTY,
            type_list,
            end: 0,
        })
    }

    pub(crate) fn fn_type(
        &mut self,
        head: FnHead,
        ret: TypeId,
        relation: Option<TypeId>,
        l: u32,
        r: u32,
    ) -> TypeId {
        let params: Vec<TypeId> = self.ast.list(head.type_list).collect();
        let relations = relation.as_slice();
        let span = Span::new(l, r);
        let t = self
            .ast
            .type_fn(head.type_params, params, ret, relations, span);
        if let TypeExprKind::Fn { angle, .. } = &mut self.ast.types[t].kind {
            *angle = head.angle;
        }
        t
    }
}

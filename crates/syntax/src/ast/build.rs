//! Creation of nodes, for the parser's actions and for printing modules.

use relax_base::{Span, Symbol};

use super::*;

impl Ast {
    /// Returns an empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases the capacity reserved for more nodes.
    pub fn shrink(&mut self) {
        self.exprs.shrink();
        self.types.shrink();
        self.stmts.shrink();
        self.binders.shrink();
        self.attrs.shrink();
        self.pool.shrink_to_fit();
    }

    /// Returns the ids of a list.
    pub fn list<I: ListItem>(
        &self,
        list: List<I>,
    ) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + Clone + '_ {
        let (start, len) = (list.start as usize, list.len as usize);
        self.pool[start..start + len]
            .iter()
            .map(|&raw| I::from_index(raw as usize))
    }

    /// Returns the `i`-th id of a list.
    pub fn nth<I: ListItem>(&self, list: List<I>, i: usize) -> Option<I> {
        (i < list.len()).then(|| I::from_index(self.pool[list.start as usize + i] as usize))
    }

    /// Stores a list.
    pub fn make_list<I: ListItem>(&mut self, ids: impl IntoIterator<Item = I>) -> List<I> {
        let start = self.pool.len();
        self.pool.extend(ids.into_iter().map(ListItem::raw));
        let len = self.pool.len() - start;
        List {
            start: u32::try_from(start).expect("fewer than 2^32 list elements"),
            len: len as u32,
            id: std::marker::PhantomData,
        }
    }

    /// Adds an expression.
    pub fn expr(&mut self, kind: ExprKind, span: Span) -> ExprId {
        self.exprs.push(Expr { kind, span })
    }

    /// Adds a type-level term.
    pub fn ty(&mut self, kind: TypeExprKind, span: Span) -> TypeId {
        self.types.push(TypeExpr { kind, span })
    }

    /// Adds a pattern.
    pub fn pat(&mut self, kind: PatKind, span: Span) -> PatId {
        self.pats.push(Pat { kind, span })
    }

    /// Adds a statement.
    pub fn stmt(&mut self, kind: StmtKind, span: Span) -> StmtId {
        self.stmts.push(Stmt { kind, span })
    }

    /// Adds an attribute.
    pub fn attr(&mut self, key: Symbol, value: ExprId, span: Span) -> AttrId {
        self.attrs.push(Attr { key, value, span })
    }

    /// Adds a binder `%name: ty`.
    pub fn binder(&mut self, name: Symbol, ty: Option<TypeId>, span: Span) -> BinderId {
        self.binders.push(Binder {
            name,
            sigil: true,
            ty,
            attrs: List::EMPTY,
            default: None,
            span,
        })
    }

    /// Adds a call without attributes.
    pub fn call(
        &mut self,
        callee: ExprId,
        args: impl IntoIterator<Item = ExprId>,
        span: Span,
    ) -> ExprId {
        let args = self.make_list(args);
        let attrs = List::EMPTY;
        self.expr(
            ExprKind::Call {
                callee,
                args,
                attrs,
            },
            span,
        )
    }

    /// Adds a block in braces.
    pub fn block(
        &mut self,
        stmts: impl IntoIterator<Item = StmtId>,
        tail: Option<ExprId>,
        span: Span,
    ) -> ExprId {
        let stmts = self.make_list(stmts);
        let braces = true;
        self.expr(
            ExprKind::Block {
                stmts,
                tail,
                braces,
            },
            span,
        )
    }

    /// Adds a type by name: `float32`, `A`.
    pub fn type_name(&mut self, name: Symbol, span: Span) -> TypeId {
        self.ty(TypeExprKind::Name(name), span)
    }

    /// Adds `head[args]`.
    pub fn type_apply(
        &mut self,
        head: Symbol,
        args: impl IntoIterator<Item = TypeId>,
        span: Span,
    ) -> TypeId {
        let head = self.type_name(head, span);
        let args = self.make_list(args);
        self.ty(TypeExprKind::Apply { head, args }, span)
    }

    /// Adds `(items)`; the printer writes the comma of one-tuples.
    pub fn type_tuple(&mut self, items: impl IntoIterator<Item = TypeId>, span: Span) -> TypeId {
        let items = self.make_list(items);
        let comma = items.len() == 1;
        self.ty(TypeExprKind::Tuple { items, comma }, span)
    }

    /// Adds `fn [type_params](params) -> ret where relations`.
    pub fn type_fn(
        &mut self,
        type_params: List<TypeParamId>,
        params: impl IntoIterator<Item = TypeId>,
        ret: TypeId,
        relations: &[TypeId],
        span: Span,
    ) -> TypeId {
        let signature = params
            .into_iter()
            .chain([ret])
            .chain(relations.iter().copied());
        let signature = self.make_list(signature);
        let relations = u16::try_from(relations.len()).unwrap_or(u16::MAX);
        let kind = TypeExprKind::Fn {
            type_params,
            angle: false,
            signature,
            relations,
        };
        self.ty(kind, span)
    }

    /// Destructures the signature of a [`TypeExprKind::Fn`]: parameters, result, relations.
    pub fn fn_type(
        &self,
        signature: List<TypeId>,
        relations: u16,
    ) -> (List<TypeId>, TypeId, List<TypeId>) {
        let params = signature.len - 1 - u32::from(relations);
        let part = |start, len| List {
            start: signature.start + start,
            len,
            id: std::marker::PhantomData,
        };
        let ret = self.nth(signature, params as usize);
        let ret = ret.expect("a function type has a result");
        (part(0, params), ret, part(params + 1, u32::from(relations)))
    }
}

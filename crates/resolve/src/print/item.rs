//! Printing of items: data types, relations, operators, tensor programs, functions.

use relax_base::Symbol;
use relax_ir::{
    AdtId, DTypePattern, Expr, GlobalId, GlobalKind, RelationDef, ShapeItem, ShapePattern,
    TypePattern, UserOp,
};
use relax_syntax::Style;
use relax_syntax::ast::{self, ExprKind, FileForm, ItemKind, NumSuffix, TypeExprKind};

use super::{NO, Printer};
use crate::build::attr_type::attr_type;

/// The version in every text's header.
const VERSION: &str = "0.0.5";

impl Printer<'_> {
    /// Prints the whole module.
    pub(super) fn module(&mut self) {
        let m = self.m;
        self.out.version = Some((VERSION.into(), NO));
        let adts: Vec<_> = m.adts.iter().filter(|(_, a)| !a.prelude).collect();
        let mut adts: Vec<_> = adts.into_iter().map(|(id, a)| (a.name, id)).collect();
        let globals = m.globals.iter().filter(|(_, g)| !g.prelude);
        let mut globals: Vec<_> = globals.map(|(id, g)| (g.name, id)).collect();
        globals.retain(|&(_, id)| Some(id) != m.expression);
        if self.mode.style == Style::Tvm {
            adts.sort();
            globals.sort();
        }
        for (name, id) in adts {
            self.begin_type_names();
            let kind = self.adt(name, id);
            self.item(kind);
        }
        for relation in m.relations.values() {
            self.begin_type_names();
            let kind = self.relation(relation);
            self.item(kind);
        }
        for op in m.user_ops.iter().filter(|op| !op.prelude) {
            self.begin_type_names();
            let kind = self.user_op(op);
            self.item(kind);
        }
        for grad in &m.grads {
            let kind = self.grad_item(grad);
            self.item(kind);
        }
        for (name, id) in globals {
            self.begin_type_names();
            let kind = self.global(name, id);
            self.item(kind);
        }
        if let Some(id) = m.expression {
            self.begin_type_names();
            self.out.form = FileForm::Expression;
            let body = match m.literal {
                true => self.literal(m.global_func(id).expect("an expression file's")),
                false => {
                    let body = self.expression(id);
                    self.literal_as_value(id, body)
                }
            };
            self.item(ItemKind::Expr(body));
        }
    }

    /// Puts the value of an expression file in parentheses if it is a function literal, which would
    /// be read as the file's function.
    fn literal_as_value(&mut self, id: GlobalId, body: ast::ExprId) -> ast::ExprId {
        let m = self.m;
        let func = &m.funcs[m.global_func(id).expect("an expression file's")];
        let ExprKind::Block {
            stmts,
            tail: Some(tail),
            braces,
        } = self.out.exprs[body].kind
        else {
            return body;
        };
        if !self.pretty() || !func.params.is_empty() || !matches!(m.exprs[func.body], Expr::Func(_))
        {
            return body;
        }
        let tail = Some(self.out.expr(ExprKind::Paren(tail, 1), NO));
        let kind = ExprKind::Block {
            stmts,
            tail,
            braces,
        };
        self.out.expr(kind, NO)
    }

    fn item(&mut self, kind: ItemKind) {
        self.out.items.push(ast::Item {
            kind,
            span: NO,
            name_span: NO,
        });
    }

    fn global(&mut self, name: Symbol, id: GlobalId) -> ItemKind {
        match &self.m.globals[id].kind {
            GlobalKind::Func(f) => {
                let function = self.function(*f);
                ItemKind::Def { name, function }
            }
            GlobalKind::Prim(program) => ItemKind::PrimFunc(self.prim_func(name, program)),
        }
    }

    fn adt(&mut self, name: Symbol, id: AdtId) -> ItemKind {
        let m = self.m;
        let adt = &m.adts[id];
        let params = self.type_param_list(&adt.params, &[], true);
        let mut ctors = Vec::new();
        for &c in &adt.ctors {
            let ctor = &m.ctors[c];
            let fields: Vec<_> = ctor.fields.iter().map(|&t| self.ty(t)).collect();
            let parens = !fields.is_empty();
            let fields = self.out.make_list(fields);
            ctors.push(self.out.ctors.push(ast::Ctor {
                name: ctor.name,
                fields,
                parens,
                ret: None,
                span: NO,
            }));
        }
        ItemKind::TypeDef(ast::TypeDef {
            name,
            params,
            ctors: self.out.make_list(ctors),
            data: false,
            external: adt.opaque,
            angle: false,
            braces: !adt.opaque,
        })
    }

    fn relation(&mut self, rel: &RelationDef) -> ItemKind {
        let params: Vec<_> = rel.args.iter().map(|p| self.type_pattern(p)).collect();
        let params = self.out.make_list(params);
        let ret = Some(self.type_pattern(&rel.ret));
        ItemKind::Rel(ast::RelItem {
            name: rel.name,
            params,
            ret,
            goals: ast::List::EMPTY,
            prolog: false,
        })
    }

    /// Prints a type pattern. The nesting of patterns is bounded by the reader.
    fn type_pattern(&mut self, pattern: &TypePattern) -> ast::TypeId {
        match pattern {
            TypePattern::Tensor(shape, dtype) => {
                let shape = self.shape_pattern(shape);
                let dtype = match dtype {
                    DTypePattern::Known(d) => self.dtype((*d).into()),
                    DTypePattern::Param(p) => self.dtype(relax_ir::DTy::Param(*p)),
                    DTypePattern::Any => self.out.ty(TypeExprKind::Hole, NO),
                };
                self.out.type_apply("Tensor".into(), [shape, dtype], NO)
            }
            TypePattern::Shape(shape) => {
                let shape = self.shape_pattern(shape);
                self.out.type_apply("Shape".into(), [shape], NO)
            }
            TypePattern::Tuple(fields) => {
                let fields: Vec<_> = fields.iter().map(|f| self.type_pattern(f)).collect();
                self.out.type_tuple(fields, NO)
            }
            TypePattern::Adt(adt, args) => {
                let name = self.m.adts[*adt].name;
                let args: Vec<_> = args.iter().map(|a| self.type_pattern(a)).collect();
                if args.is_empty() {
                    self.out.type_name(name, NO)
                } else {
                    self.out.type_apply(name, args, NO)
                }
            }
            TypePattern::Param(p) => {
                let name = self.type_param_name(*p);
                self.out.type_name(name, NO)
            }
            TypePattern::Any => self.out.ty(TypeExprKind::Hole, NO),
        }
    }

    fn shape_pattern(&mut self, shape: &ShapePattern) -> ast::TypeId {
        match shape {
            ShapePattern::Items(items) => {
                let items: Vec<_> = items.iter().map(|i| self.shape_item(i)).collect();
                self.out.type_tuple(items, NO)
            }
            ShapePattern::Param(p) => {
                let name = self.type_param_name(*p);
                self.out.type_name(name, NO)
            }
            ShapePattern::Broadcast(both) => {
                let args = [self.shape_pattern(&both.0), self.shape_pattern(&both.1)];
                self.type_call("broadcast", args)
            }
            ShapePattern::Any => self.out.ty(TypeExprKind::Hole, NO),
        }
    }

    fn type_call(
        &mut self,
        head: &str,
        args: impl IntoIterator<Item = ast::TypeId>,
    ) -> ast::TypeId {
        let head = self.out.type_name(head.into(), NO);
        let args = self.out.make_list(args);
        self.out.ty(TypeExprKind::Call { head, args }, NO)
    }

    fn shape_item(&mut self, item: &ShapeItem) -> ast::TypeId {
        match item {
            ShapeItem::Dim(d) => self.dim(d),
            ShapeItem::Rest(p) => {
                let name = self.type_param_name(*p);
                let rest = self.out.type_name(name, NO);
                self.out.ty(TypeExprKind::Rest(rest), NO)
            }
            ShapeItem::Prod(p) => {
                let name = self.type_param_name(*p);
                let shape = self.out.type_name(name, NO);
                self.type_call("prod", [shape])
            }
            ShapeItem::Pick(p, i) => {
                let name = self.type_param_name(*p);
                let index = self.type_int(*i);
                self.out.type_apply(name, [index], NO)
            }
            ShapeItem::Slice(p, from, to) => self.slice(*p, *from, *to),
            ShapeItem::ProdSlice(p, from, to) => {
                let slice = self.slice(*p, *from, *to);
                self.type_call("prod", [slice])
            }
        }
    }

    fn slice(
        &mut self,
        p: relax_ir::TypeParamId,
        from: Option<i64>,
        to: Option<i64>,
    ) -> ast::TypeId {
        let name = self.type_param_name(p);
        let from = from.map(|i| self.type_int(i));
        let to = to.map(|i| self.type_int(i));
        let range = self.out.ty(TypeExprKind::Slice { from, to }, NO);
        self.out.type_apply(name, [range], NO)
    }

    fn type_int(&mut self, value: i64) -> ast::TypeId {
        let suffix = NumSuffix::None;
        self.out.ty(TypeExprKind::Int { value, suffix }, NO)
    }

    fn user_op(&mut self, op: &UserOp) -> ItemKind {
        let used = self.m.dims_in_types(op.params.iter().map(|(_, t)| *t));
        let dims: Vec<_> = op
            .dims
            .iter()
            .copied()
            .filter(|d| !used.contains(d))
            .collect();
        let type_params = self.type_param_list(&op.type_params, &dims, true);
        let mut params = Vec::new();
        for (name, ty) in &op.params {
            let ty = self.ty(*ty);
            params.push(self.out.binder(*name, Some(ty), NO));
        }
        for (name, ty, default) in &op.attrs {
            let default = (default.as_ref()).map(|v| self.attr_value(v, attr_type(*ty)));
            let ty = self.out.type_name(*ty, NO);
            let binder = self.out.binder(*name, Some(ty), NO);
            let node = &mut self.out.binders[binder];
            node.sigil = false;
            node.default = default;
            params.push(binder);
        }
        let ret = op.ret.map(|t| self.ty(t));
        let relations = self.constraints(&op.constraints);
        let body = self.op_body(op);
        ItemKind::Op(ast::OpItem {
            name: op.name,
            type_params,
            angle: false,
            params: self.out.make_list(params),
            ret,
            relations: self.out.make_list(relations),
            body,
        })
    }
}

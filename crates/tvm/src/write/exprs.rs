//! Writing of expressions, variables, patterns and functions.

use relax_base::Span;
use relax_ir::{Expr, ExprId, FuncId, GlobalId, OpId, PatId, Pattern, TensorType, Type, VarId};
use rustc_hash::FxHashSet;

use super::{Node, Work, Writer};

impl Writer<'_> {
    pub(super) fn expr(&mut self, e: ExprId) -> u32 {
        // Leaves that the text prints in place are a single node, whatever the number of uses.
        match self.module.exprs[e] {
            Expr::Var(v) => return self.var(v),
            Expr::Global(g) => return self.global(g),
            Expr::Op(op) => return self.op(op),
            Expr::Ctor(c) => return self.ctor(c),
            _ => {}
        }
        if let Some(&known) = self.exprs.get(&e) {
            return known;
        }
        let at = self.later(Work::Expr(e));
        self.exprs.insert(e, at);
        at
    }

    fn checked(&mut self, e: ExprId) -> u32 {
        let ty = self.given.and_then(|g| g.expr(e));
        let ty = ty.filter(|&t| self.is_closed(t));
        self.opt_ty(ty)
    }

    pub(super) fn expr_node(&mut self, e: ExprId) -> Node {
        let module = self.module;
        let span = module.spans[e];
        let device = match module.exprs[e] {
            Expr::Match { .. } => 0,
            _ => self.device(None, span),
        };
        let common = [
            ("_checked_type_", self.checked(e)),
            ("span", 0),
            ("virtual_device_", device),
        ];
        let of = |kind: &str| Node::of(kind).with(&common);
        match &module.exprs[e] {
            Expr::Const(c) => {
                self.tensors.push(module.consts[*c].clone());
                of("relay.Constant").plain("data", self.tensors.len() - 1)
            }
            Expr::Tuple(fields) => {
                let fields = self.list(module.list(*fields));
                of("relay.Tuple").with(&[("fields", fields)])
            }
            Expr::Proj { tuple, index } => {
                let tuple = self.expr(*tuple);
                of("relay.TupleGetItem")
                    .plain("index", index)
                    .with(&[("tuple_value", tuple)])
            }
            Expr::Func(f) => self.func_node(*f, Some(common[0].1)),
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            } => {
                let given = module.list(*args);
                let attrs = match module.exprs[*callee] {
                    Expr::Op(op) => self.op_attrs(op, module.attrs(*attrs), given, span),
                    _ => self.dict_attrs(module.attrs(*attrs), span),
                };
                let types = module.type_args(*type_args);
                let types = types.iter().map(|&t| self.ty(t)).collect();
                let fields = [
                    ("args", self.list(given)),
                    ("attrs", attrs),
                    ("op", self.expr(*callee)),
                    ("type_args", self.array(types)),
                ];
                of("relay.Call").with(&fields)
            }
            Expr::Let { var, value, body } => {
                let fields = [
                    ("body", self.expr(*body)),
                    ("value", self.expr(*value)),
                    ("var", self.var(*var)),
                ];
                of("relay.Let").with(&fields)
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                let fields = [
                    ("cond", self.expr(*cond)),
                    ("false_branch", self.expr(*otherwise)),
                    ("true_branch", self.expr(*then)),
                ];
                of("relay.If").with(&fields)
            }
            Expr::Match {
                value,
                clauses,
                complete,
            } => {
                let mut list = Vec::new();
                for c in clauses {
                    let fields = [("lhs", self.pattern(c.pattern)), ("rhs", self.expr(c.body))];
                    list.push(self.push(Node::of("relay.Clause").with(&fields)));
                }
                let fields = [("clauses", self.array(list)), ("data", self.expr(*value))];
                let node = of("relay.Match").plain("complete", i64::from(*complete));
                node.with(&fields)
            }
            Expr::RefNew(value) => {
                let value = self.expr(*value);
                of("relay.RefCreate").with(&[("value", value)])
            }
            Expr::RefRead(r) => {
                let r = self.expr(*r);
                of("relay.RefRead").with(&[("ref", r)])
            }
            Expr::RefWrite(r, value) => {
                let fields = [("ref", self.expr(*r)), ("value", self.expr(*value))];
                of("relay.RefWrite").with(&fields)
            }
            Expr::Extern(name) => {
                self.refuse(span, &format!("`{name}`, which is no operator"));
                Node::default()
            }
            _ => {
                self.refuse(span, "what only Relax has");
                Node::default()
            }
        }
    }

    fn list(&mut self, items: &[ExprId]) -> u32 {
        let items = items.iter().map(|&e| self.expr(e)).collect();
        self.array(items)
    }

    fn op(&mut self, op: OpId) -> u32 {
        if let Some(&known) = self.ops.get(&op) {
            return known;
        }
        let name = relax_ops::registry().get(op).map(|def| def.name.to_owned());
        if name.is_none() {
            self.refuse(Span::NONE, "an operator that the text defines");
        }
        let at = self.push(Node {
            repr: name,
            ..Node::of("Op")
        });
        self.ops.insert(op, at);
        at
    }

    pub(super) fn global(&mut self, id: GlobalId) -> u32 {
        if let Some(&known) = self.globals.get(&id) {
            return known;
        }
        let name = self.text(self.module.globals[id].name.as_str());
        let at = self.push(Node::of("GlobalVar").with(&[
            ("_checked_type_", 0),
            ("name_hint", name),
            ("span", 0),
            ("virtual_device_", 0),
        ]));
        self.globals.insert(id, at);
        at
    }

    fn var(&mut self, v: VarId) -> u32 {
        if let Some(&known) = self.vars.get(&v) {
            return known;
        }
        let module = self.module;
        let var = &module.vars[v];
        let name = self.text(var.name.as_str());
        let id = self.push(Node::of("relay.Id").with(&[("name_hint", name)]));
        let checked = self.given.and_then(|g| g.var(v));
        let checked = checked.filter(|&t| self.is_closed(t));
        let fields = [
            ("_checked_type_", self.opt_ty(checked)),
            ("span", 0),
            ("type_annotation", self.opt_ty(var.ty)),
            ("vid", id),
            (
                "virtual_device_",
                self.device(module.var_attrs.get(&v), var.span),
            ),
        ];
        let at = self.push(Node::of("relay.Var").with(&fields));
        self.vars.insert(v, at);
        at
    }

    /// Returns whether a variable of a function is first used inside the type of a function. A text
    /// declares it; a graph declares none, and there it would be that type's own when it is read.
    fn is_told_late(&self, f: FuncId) -> bool {
        let m = self.module;
        let func = &m.funcs[f];
        if func.dims.is_empty() {
            return false;
        }
        let types = func.params.iter().filter_map(|&p| m.vars[p].ty);
        let mut told = FxHashSet::default();
        for (ty, inside) in m.types.in_order(types) {
            if let Type::Tensor(TensorType { shape, .. }) = &m.types[ty] {
                for v in (shape.dims().unwrap_or_default().iter()).flat_map(|d| d.free_vars()) {
                    if inside && func.dims.contains(&v) && !told.contains(&v) {
                        return true;
                    }
                    told.insert(v);
                }
            }
        }
        false
    }

    pub(super) fn func_node(&mut self, f: FuncId, checked: Option<u32>) -> Node {
        let func = &self.module.funcs[f];
        if !func.constraints.is_empty() {
            self.refuse(func.span, "a relation of a function's type");
        }
        if self.is_told_late(f) {
            self.refuse(
                func.span,
                "an extent that the type of a function names first",
            );
        }
        let params = func.params.iter().map(|&v| self.var(v)).collect();
        let type_params = func
            .type_params
            .iter()
            .map(|&p| self.type_param(p))
            .collect();
        let fields = [
            ("_checked_type_", checked.unwrap_or(0)),
            ("attrs", self.dict_attrs(&func.attrs, func.span)),
            ("body", self.expr(func.body)),
            ("params", self.array(params)),
            ("ret_type", self.opt_ty(func.ret)),
            ("span", 0),
            ("type_params", self.array(type_params)),
            ("virtual_device_", self.device(Some(&func.attrs), func.span)),
        ];
        Node::of("relay.Function").with(&fields)
    }

    fn pattern(&mut self, p: PatId) -> u32 {
        self.later(Work::Pattern(p))
    }

    pub(super) fn pattern_node(&mut self, p: PatId) -> Node {
        let module = self.module;
        match &module.patterns[p] {
            Pattern::Wildcard => Node::of("relay.PatternWildcard").with(&[("span", 0)]),
            Pattern::Var(v) => {
                let var = self.var(*v);
                Node::of("relay.PatternVar").with(&[("span", 0), ("var", var)])
            }
            Pattern::Ctor(c, fields) => {
                let fields = fields.iter().map(|&p| self.pattern(p)).collect();
                let fields = [
                    ("constructor", self.ctor(*c)),
                    ("patterns", self.array(fields)),
                    ("span", 0),
                ];
                Node::of("relay.PatternConstructor").with(&fields)
            }
            Pattern::Tuple(fields) => {
                let fields = fields.iter().map(|&p| self.pattern(p)).collect();
                let fields = self.array(fields);
                Node::of("relay.PatternTuple").with(&[("patterns", fields), ("span", 0)])
            }
        }
    }
}

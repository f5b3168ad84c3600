//! Calls: of operators, functions, constructors, closures; references.

use std::sync::Arc;

use relax_base::Span;
use relax_ir::{
    AttrValue, Attrs, CtorId, Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, TypeId,
    VarStyle,
};
use relax_ops::registry;
use relax_tensor::{DType, Tensor};

use super::Lowering;
use super::chain::{Given, State};
use super::lift::Known;

impl Lowering<'_> {
    /// Creates a call of an operator.
    pub(super) fn operator(&mut self, name: &str, args: &[ExprId], attrs: Attrs) -> ExprId {
        let callee = match registry().find(name) {
            Some(op) => Expr::Op(op),
            None => Expr::Error,
        };
        let callee = self.m.add(callee, Span::NONE);
        self.m.call_attrs(callee, args, attrs, self.place)
    }

    /// Creates a call of an operator of Relax that is kept by its name; it returns an object.
    pub(super) fn told(
        &mut self,
        name: &str,
        given: &[&str],
        args: &[ExprId],
        effect: bool,
    ) -> ExprId {
        let attrs = Attrs::new()
            .with("name", AttrValue::Str(name.into()))
            .with(
                "given",
                AttrValue::array(given.iter().map(|&g| AttrValue::Str(g.into()))),
            )
            .with("attrs", AttrValue::Dict(Arc::from([])));
        let op = if effect { "relax.effect" } else { "relax.op" };
        let call = self.operator(op, args, attrs);
        self.typed_call(call)
    }

    /// Creates the call again, with an object as its result type.
    fn typed_call(&mut self, call: ExprId) -> ExprId {
        let Expr::Call {
            callee,
            args,
            attrs,
            ..
        } = self.m.exprs[call]
        else {
            return call;
        };
        let type_args = self.m.make_type_args(&[self.any]);
        let new = Expr::Call {
            callee,
            args,
            attrs,
            type_args,
        };
        self.m.add(new, self.place)
    }

    /// Returns a function of the program in the form that is called directly.
    pub(super) fn of_global(&mut self, global: GlobalId) -> Known {
        let f = self.m.global_func(global);
        let ret = f.and_then(|f| self.m.funcs[f].ret.or_else(|| self.types.ret(f)));
        Known {
            global,
            captured: Vec::new(),
            dims: Vec::new(),
            ret: ret.unwrap_or(self.any),
        }
    }

    /// Creates a closure of a function.
    pub(super) fn closure(&mut self, st: &mut State, known: &Known) -> ExprId {
        let captured = self.handed(st, known);
        let f = self.m.add(Expr::Global(known.global), Span::NONE);
        let captured = self.m.tuple(&captured, Span::NONE);
        let call = self.told("make_closure", &["func", "args"], &[f, captured], false);
        let any = self.any;
        self.bound(st, "closure", call, any)
    }

    /// Creates a direct call.
    pub(super) fn call_known(
        &mut self,
        st: &mut State,
        known: &Known,
        mut args: Vec<ExprId>,
        span: Span,
    ) -> ExprId {
        args.extend(self.handed(st, known));
        let callee = self.m.add(Expr::Global(known.global), Span::NONE);
        self.m.call(callee, &args, span)
    }

    /// Creates an instance of a data type.
    pub(super) fn construct(
        &mut self,
        st: &mut State,
        ctor: CtorId,
        fields: &[ExprId],
        e: ExprId,
    ) -> Given {
        let tag = i64::from(self.m.ctors[ctor].tag);
        let tag = self
            .m
            .constant(Tensor::scalar_i64(DType::I32, tag), Span::NONE);
        let fields: Vec<ExprId> = fields.iter().map(|&f| self.operand(st, f)).collect();
        let mut payload = self.m.tuple(&fields, Span::NONE);
        if !fields.is_empty() {
            let (name, any) = (self.m.ctors[ctor].name, self.any);
            let name = name.as_str().to_lowercase();
            payload = self.bound(st, &name, payload, any);
        }
        let value = self.m.tuple(&[tag, payload], self.m.span(e));
        let ty = self.instance();
        self.exprs.insert(value, ty);
        Given::Value(value, ty)
    }

    /// Converts a call of the program.
    pub(super) fn call(&mut self, st: &mut State, e: ExprId) -> Given {
        let Expr::Call {
            callee,
            args,
            attrs,
            type_args,
        } = self.m.exprs[e]
        else {
            return Given::Value(e, self.any);
        };
        let span = self.m.span(e);
        let args: Vec<ExprId> = self.m.list(args).to_vec();
        let ty = self.expr_type(e);
        let to = self.here(st, ty);
        let known = match self.m.exprs[callee] {
            Expr::Ctor(c) => return self.construct(st, c, &args, e),
            Expr::Op(_) | Expr::Extern(_) => {
                let args: Vec<ExprId> = args.iter().map(|&a| self.operand(st, a)).collect();
                let attrs = st.subst.attrs(self.m.attrs(attrs));
                let types = self.m.type_args(type_args).to_vec();
                let types: Vec<TypeId> = types.into_iter().map(|t| self.here(st, t)).collect();
                let (args, attrs) = (self.m.make_list(&args), self.m.make_attrs(attrs));
                let type_args = self.m.make_type_args(&types);
                let call = Expr::Call {
                    callee,
                    args,
                    attrs,
                    type_args,
                };
                let call = self.m.add(call, span);
                self.exprs.insert(call, to);
                return Given::Value(call, to);
            }
            Expr::Global(g) => Some(self.of_global(g)),
            Expr::Var(v) => self.known.get(&v).cloned(),
            Expr::Func(f) => {
                let name = format!("{}_fn", self.name);
                Some(self.lift_function(st, f, None, &name))
            }
            _ => None,
        };
        if let Some(known) = known {
            let args: Vec<ExprId> = args.iter().map(|&a| self.operand(st, a)).collect();
            let call = self.call_known(st, &known, args, span);
            let from = self.rep(known.ret);
            let from = if self.says_less(from, to) { from } else { to };
            return self.cast(st, call, from, to);
        }
        let f = self.operand(st, callee);
        let args: Vec<ExprId> = args.iter().map(|&a| self.operand(st, a)).collect();
        let args = self.m.tuple(&args, Span::NONE);
        let (name, effects) = match self.effects {
            true => ("invoke_closure", true),
            false => ("invoke_pure_closure", false),
        };
        let call = self.told(name, &["closure", "args"], &[f, args], effects);
        let any = self.any;
        self.cast(st, call, any, to)
    }

    /// Converts the creation, a read or a write of a reference.
    pub(super) fn reference(
        &mut self,
        st: &mut State,
        which: usize,
        args: &[ExprId],
        ty: TypeId,
        span: Span,
    ) -> Given {
        let args: Vec<ExprId> = args.iter().map(|&a| self.operand(st, a)).collect();
        let global = self.cells()[which];
        let callee = self.m.add(Expr::Global(global), Span::NONE);
        let call = self.m.call(callee, &args, span);
        let to = self.here(st, ty);
        let any = self.any;
        self.cast(st, call, any, to)
    }

    /// Returns the functions that create, read and write a reference. They make TVM keep their
    /// arguments alive.
    fn cells(&mut self) -> [GlobalId; 3] {
        if let Some(cells) = self.cells {
            return cells;
        }
        let new = self.cell("ref_new", "ffi.List", &["value"]);
        let read = self.cell("ref_read", "ffi.ListGetItem", &["cell"]);
        let write = self.cell("ref_write", "ffi.ListSetItem", &["cell", "value"]);
        let cells = [new, read, write];
        self.cells = Some(cells);
        cells
    }

    fn cell(&mut self, name: &str, packed: &str, params: &[&str]) -> GlobalId {
        let any = self.any;
        let (mut vars, mut args) = (Vec::new(), Vec::new());
        for &p in params {
            let (var, e) = self.variable(p, any);
            self.m.vars[var].style = VarStyle::Param;
            vars.push(var);
            args.push(e);
        }
        if params[0] == "cell" {
            let zero = Attrs::new().with("value", AttrValue::Int(0));
            let zero = self.operator("relax.value", &[], zero);
            args.insert(1, zero);
        }
        let callee = self.m.add(Expr::Extern(packed.into()), Span::NONE);
        let call = self.m.call(callee, &args, Span::NONE);
        let call = self.typed_call(call);
        let (var, result) = self.variable("result", any);
        let body = self.m.add(
            Expr::Let {
                var,
                value: call,
                body: result,
            },
            Span::NONE,
        );
        let attrs = Attrs::new().with("private", AttrValue::Bool(true));
        let f: FuncId = self.m.funcs.push(Function {
            type_params: Vec::new(),
            dims: Vec::new(),
            params: vars,
            ret: Some(any),
            constraints: Vec::new(),
            body,
            attrs,
            span: Span::NONE,
        });
        let name = self.fresh_name(name);
        self.m.globals.push(Global {
            name,
            kind: GlobalKind::Func(f),
            span: Span::NONE,
            prelude: false,
        })
    }
}

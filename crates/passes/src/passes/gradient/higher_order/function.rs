//! Functions: each takes one more argument, a cell with the backpropagator so far.

use relax_base::Symbol;
use relax_ir::{Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, VarId, VarStyle};

use super::{Failure, Reverse};
use crate::util::{is_external, is_primitive};

impl Reverse<'_, '_> {
    fn fresh_global(&mut self, like: GlobalId) -> Symbol {
        let base = format!("{}_grad", self.edit.m.globals[like].name);
        let mut name = base.clone();
        let mut n = 0;
        while self.edit.m.global(&name).is_some() {
            n += 1;
            name = format!("{base}{n}");
        }
        Symbol::from(&*name)
    }

    /// Returns the lifted form of a global, which is created when the worklist reaches it.
    pub(super) fn global(&mut self, at: ExprId, old: GlobalId) -> Result<GlobalId, Failure> {
        if let Some(&new) = self.globals.get(&old) {
            return Ok(new);
        }
        let Some(func) = self.edit.m.global_func(old) else {
            return Err(self.refuse(at, "tensor programs have none"));
        };
        let name = self.fresh_global(old);
        let global = Global {
            name,
            kind: GlobalKind::Func(func),
            span: self.edit.m.globals[old].span,
            prelude: false,
        };
        let new = self.edit.m.globals.push(global);
        self.globals.insert(old, new);
        self.work.push(old);
        Ok(new)
    }

    /// Returns the lifted form of a global function.
    pub(super) fn function(&mut self, func: FuncId) -> Result<Function, Failure> {
        let body = self.edit.m.funcs[func].body;
        let order = self.edit.m.post_order([body]);
        self.bind_types(func);
        for &e in &order {
            if let Expr::Func(f) = self.edit.m.exprs[e] {
                self.bind_types(f);
            }
        }
        self.subst.reset();
        self.types.clear();
        // The backpropagator available at each expression, from the outside in.
        let back = self.new_back();
        self.back.insert(body, back);
        for &e in order.iter().rev() {
            let Some(&here) = self.back.get(&e) else {
                continue;
            };
            let inner = match self.edit.m.exprs[e] {
                Expr::Func(_) => {
                    let param = self.new_back();
                    self.params.insert(e, param);
                    param
                }
                _ => here,
            };
            let table = &mut self.back;
            self.edit.m.for_each_child(e, |c| {
                table.insert(c, inner);
            });
        }
        for &e in &order {
            let new = self.node(e)?;
            if let Some(new) = new {
                self.memo.insert(e, new);
            }
        }
        let new = self.part(body)?;
        self.literal(func, new, back)
    }

    fn new_back(&mut self) -> ExprId {
        let (_, e) = self
            .edit
            .m
            .fresh_var("bp", Some(self.cell), VarStyle::Param);
        e
    }

    /// Creates the function around an existing body.
    pub(super) fn literal(
        &mut self,
        func: FuncId,
        body: ExprId,
        back: ExprId,
    ) -> Result<Function, Failure> {
        let old = self.edit.m.funcs[func].clone();
        if is_primitive(&old) || is_external(&old) {
            return Err(self.refuse(
                old.body,
                "the function is a kernel; run `defuse-ops` before",
            ));
        }
        if !old.constraints.is_empty() {
            return Err(self.refuse(old.body, "the function has a `where` clause"));
        }
        let mut params: Vec<VarId> = old.params.iter().map(|&p| self.var_id(p)).collect();
        let Expr::Var(back) = self.edit.m.exprs[back] else {
            unreachable!("variables are kept as references")
        };
        params.push(back);
        // What is declared may say something else than the body, which each call then checks.
        let ret = old.ret.unwrap_or(self.typing.exprs[old.body]);
        let ret = self.carried_type(ret);
        let ret = self.written(ret).then_some(ret);
        let type_params = old
            .type_params
            .iter()
            .map(|p| self.subst.params[p])
            .collect();
        let dims = old
            .dims
            .iter()
            .map(|d| self.subst.dims[d].free_vars()[0])
            .collect();
        Ok(Function {
            type_params,
            dims,
            params,
            ret,
            body,
            attrs: self.subst.attrs(&old.attrs),
            ..old
        })
    }
}

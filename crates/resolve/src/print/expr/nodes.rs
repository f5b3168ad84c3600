//! Tree nodes of visited expressions: their text, and at uses that text or the name it is bound to.

use relax_base::Symbol;
use relax_ir::{Expr, ExprId, VarId};
use relax_syntax::ast::{self, ExprKind, StmtKind};

use crate::print::{NO, Printer};

impl Printer<'_> {
    /// Returns the name of a variable. One that is not bound yet is free, and is declared where it
    /// is placed.
    pub(super) fn local(&mut self, var: VarId) -> Symbol {
        if let Some(name) = self.state.vars[var] {
            return name;
        }
        let binder = self.binder(var);
        self.state.free.insert(var, binder);
        self.out.binders[binder].name
    }

    /// Prints a call, tuple or projection whose operands are all visited.
    pub(super) fn flat(&mut self, id: ExprId) -> ast::ExprId {
        let m = self.m;
        match &m.exprs[id] {
            Expr::Tuple(fields) => {
                let fields: Vec<_> = m
                    .list(*fields)
                    .iter()
                    .map(|&f| self.place(f, false))
                    .collect();
                let fields = self.out.make_list(fields);
                self.out.expr(ExprKind::Tuple(fields), NO)
            }
            Expr::Proj { tuple, index } => {
                let (mut tuple, index) = (self.place(*tuple, false), *index);
                if let ExprKind::Local(name) = self.out.exprs[tuple].kind
                    && self.names.hides_field(name, index)
                {
                    tuple = self.out.expr(ExprKind::Paren(tuple, 1), NO);
                }
                self.out.expr(ExprKind::Proj { tuple, index }, NO)
            }
            &Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            } => {
                // Arguments first: their bindings are printed before the callee's.
                let mut args: Vec<_> = m.list(args).iter().map(|&a| self.place(a, false)).collect();
                let attrs = self.call_attrs(callee, attrs, &mut args);
                let mut head = self.place(callee, false);
                match m.exprs[callee] {
                    // A separate node, as each call has its own type.
                    Expr::Ctor(c) if m.ctors[c].fields.is_empty() => {
                        return self.name(m.ctors[c].name);
                    }
                    Expr::Extern(name) if type_args != 0 => {
                        let ty = m.type_args(type_args)[0];
                        let ty = self.ty(ty);
                        let callee = self.name(name);
                        let args = self.out.make_list(args);
                        let kind = ExprKind::Call {
                            callee,
                            args,
                            attrs,
                        };
                        let call = self.out.expr(kind, NO);
                        self.out.expr_types.set(call, Some(ty));
                        return call;
                    }
                    Expr::Extern(_) => {
                        args.insert(0, head);
                        head = self.name("call_packed");
                    }
                    _ => {}
                }
                if self.pretty() && type_args != 0 {
                    let types: Vec<_> =
                        m.type_args(type_args).iter().map(|&t| self.ty(t)).collect();
                    let args = self.out.make_list(types);
                    let kind = ExprKind::TypeApply { callee: head, args };
                    head = self.out.expr(kind, NO);
                }
                let args = self.out.make_list(args);
                let callee = head;
                self.out.expr(
                    ExprKind::Call {
                        callee,
                        args,
                        attrs,
                    },
                    NO,
                )
            }
            _ => unreachable!("asked for calls, tuples and projections only"),
        }
    }

    /// Returns a use of a visited node: its text, or the `%n` that it is bound to.
    pub(super) fn place(&mut self, id: ExprId, last: bool) -> ast::ExprId {
        let node = self
            .state
            .memo
            .get(id)
            .expect("visited before it is placed");
        if let Expr::Var(var) = self.m.exprs[id]
            && !self.state.free.is_empty()
            && let Some(binder) = self.state.free.remove(&var)
        {
            self.stmt(StmtKind::FreeVar(binder));
        }
        if self.m.is_leaf(id) || self.state.bound.contains(id) {
            return node;
        }
        let once = self.uses[id] <= 1;
        if once && (last || self.stands_in_place(id)) {
            return node;
        }
        self.state.bound.insert(id);
        let index = self.state.temps;
        self.state.temps += 1;
        let value = match self.out.exprs[node].kind {
            ExprKind::Block { braces: false, .. } => self.out.expr(ExprKind::Paren(node, 1), NO),
            _ => node,
        };
        self.stmt(StmtKind::Graph { index, value });
        let name = self.out.expr(ExprKind::Graph(index), NO);
        self.state.memo.set(id, Some(name));
        name
    }

    /// Returns whether a node reads better in place than as a separate binding.
    fn stands_in_place(&self, id: ExprId) -> bool {
        match self.m.exprs[id] {
            Expr::Shape(_) | Expr::Error => true,
            Expr::Tuple(_) | Expr::Proj { .. } => self.pretty(),
            Expr::Call { callee, .. } => {
                self.pretty()
                    && matches!(self.m.exprs[callee], Expr::Ctor(c) if self.m.ctors[c].fields.is_empty())
            }
            _ => false,
        }
    }

    /// Creates a node from the results of its operands.
    pub(super) fn build(&mut self, id: ExprId) {
        let m = self.m;
        let kind = match &m.exprs[id] {
            Expr::Func(_) => {
                let mut head = self.state.heads.remove(&id).expect("made before the body");
                head.body = self.pop();
                ExprKind::Fn(self.out.functions.push(head))
            }
            Expr::If { .. } => {
                let (otherwise, then, cond) = (self.pop(), self.pop(), self.pop());
                ExprKind::If {
                    cond,
                    then,
                    otherwise: Some(otherwise),
                }
            }
            Expr::Match {
                clauses, complete, ..
            } => {
                let mut ids = Vec::with_capacity(clauses.len());
                for index in (0..clauses.len()).rev() {
                    let body = self.pop();
                    let pat = self.state.pats.remove(&(id, index));
                    ids.push(self.out.clauses.push(ast::Clause {
                        pat: pat.expect("made before the body"),
                        body,
                        case: false,
                        span: NO,
                    }));
                }
                let scrutinee = self.pop();
                ids.reverse();
                ExprKind::Match {
                    scrutinee,
                    clauses: self.out.make_list(ids),
                    complete: *complete,
                }
            }
            Expr::RefNew(_) => ExprKind::RefNew(self.pop()),
            Expr::RefRead(_) => ExprKind::RefRead(self.pop()),
            Expr::RefWrite(..) => {
                let (value, target) = (self.pop(), self.pop());
                ExprKind::RefWrite { target, value }
            }
            Expr::MatchShape { dims, .. } => {
                let dims: Vec<_> = dims.iter().map(|d| self.dim(d)).collect();
                ExprKind::MatchShape {
                    value: self.pop(),
                    dims: self.out.make_list(dims),
                }
            }
            Expr::MatchCast { ty, .. } => ExprKind::MatchCast {
                ty: self.ty(*ty),
                value: self.pop(),
            },
            _ => unreachable!("only these wait for their parts"),
        };
        let node = self.out.expr(kind, NO);
        self.visited(id, node);
    }
}

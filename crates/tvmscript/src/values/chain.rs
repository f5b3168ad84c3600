//! Sequences of bindings.

use relax_base::Span;
use relax_ir::{BlockId, Clause, Expr, ExprId, TypeId, TypeSubst, VarId, VarStyle};
use relax_sym::{Dim, DimVar};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Lowering;
use super::lift::{Code, Known};
use super::matching::{Matched, Next};

/// The function under construction.
pub(super) struct State {
    /// The counterpart of a variable of the program, and its type.
    pub scope: FxHashMap<VarId, (ExprId, TypeId)>,
    /// Dimension variables of the program that are in scope.
    pub dims: FxHashSet<DimVar>,
    /// The replacements of dimension variables in this function.
    pub subst: TypeSubst,
    out: Vec<(VarId, ExprId)>,
}

impl State {
    pub fn new(dims: FxHashSet<DimVar>) -> State {
        State {
            scope: FxHashMap::default(),
            dims,
            subst: TypeSubst::new(),
            out: Vec::new(),
        }
    }
}

/// The result of an expression.
pub(super) enum Given {
    /// A value and its type.
    Value(ExprId, TypeId),
    /// A function, which is global now.
    Function(Known),
}

/// The continuation after a value.
enum Then {
    /// It is the function's result.
    Return,
    /// It is bound, and an expression follows.
    Bind(VarId, ExprId),
    /// It is that of a binding of a block, followed by an expression.
    Block(BlockId, usize, ExprId),
}

impl Lowering<'_> {
    /// Converts the body of a function.
    pub(super) fn body(&mut self, st: &mut State, code: Code, ret: Option<TypeId>) -> ExprId {
        let mut open = vec![Then::Return];
        let mut next = code;
        let result = loop {
            let given = match next {
                Code::Body(e) => match self.m.exprs[e].clone() {
                    Expr::Let { var, value, body } => {
                        open.push(Then::Bind(var, body));
                        next = Code::Body(value);
                        continue;
                    }
                    Expr::Dataflow { block, body } => {
                        let first = self.m.blocks[block].bindings.first().map(|b| b.value);
                        if first.is_some() {
                            open.push(Then::Block(block, 0, body));
                        }
                        next = Code::Body(first.unwrap_or(body));
                        continue;
                    }
                    Expr::Match {
                        value,
                        clauses,
                        complete,
                    } => {
                        next = self.matched(st, e, value, &clauses, complete);
                        continue;
                    }
                    _ => {
                        let var = match open.last() {
                            Some(Then::Bind(v, _)) => Some(*v),
                            Some(Then::Block(b, i, _)) => Some(self.m.blocks[*b].bindings[*i].var),
                            _ => None,
                        };
                        self.value(st, e, var)
                    }
                },
                Code::Clause(todo, matched, tested) => {
                    match self.clause(st, todo, matched, tested) {
                        Next::Code(code) => {
                            next = code;
                            continue;
                        }
                        Next::Given(given) => given,
                    }
                }
            };
            match open.pop() {
                Some(Then::Bind(var, body)) => {
                    self.bind(st, var, given);
                    next = Code::Body(body);
                }
                Some(Then::Block(block, i, body)) => {
                    let bindings = &self.m.blocks[block].bindings;
                    let var = bindings[i].var;
                    let after = bindings.get(i + 1).map(|b| b.value);
                    self.bind(st, var, given);
                    if after.is_some() {
                        open.push(Then::Block(block, i + 1, body));
                    }
                    next = Code::Body(after.unwrap_or(body));
                }
                Some(Then::Return) | None => break given,
            }
        };
        let (mut e, ty) = self.as_value(st, result);
        if !matches!(self.m.exprs[e], Expr::Var(_)) {
            e = self.bound(st, "gv", e, ret.unwrap_or(ty));
        }
        self.chain(std::mem::take(&mut st.out), e)
    }

    /// Creates a variable and a reference to it.
    pub(super) fn variable(&mut self, name: &str, ty: TypeId) -> (VarId, ExprId) {
        let (v, e) = self.m.fresh_var(name, Some(ty), VarStyle::Binding);
        self.exprs.insert(e, ty);
        (v, e)
    }

    /// Binds a value to a new name.
    pub(super) fn bound(
        &mut self,
        st: &mut State,
        name: &str,
        value: ExprId,
        ty: TypeId,
    ) -> ExprId {
        let (var, e) = self.variable(name, ty);
        st.out.push((var, value));
        e
    }

    /// Binds a variable of the program.
    fn bind(&mut self, st: &mut State, var: VarId, given: Given) {
        match given {
            Given::Function(known) => {
                self.known.insert(var, known);
            }
            Given::Value(e, ty) => {
                let name = self.m.vars[var].name.as_str();
                let e = match self.m.exprs[e] {
                    Expr::Var(_) => e,
                    _ => self.bound(st, name, e, ty),
                };
                st.scope.insert(var, (e, ty));
            }
        }
    }

    /// Returns the representation of the type of a variable of the program.
    pub(super) fn rep_of(&mut self, st: &mut State, v: VarId) -> TypeId {
        let ty = self.var_type(v);
        self.here(st, ty)
    }

    /// Returns the representation of a type in this function.
    pub(super) fn here(&mut self, st: &mut State, ty: TypeId) -> TypeId {
        let ty = self.rep(ty);
        st.subst.ty(&mut self.m.types, ty)
    }

    /// Returns the value of a variable of the program.
    pub(super) fn var_value(&mut self, st: &mut State, v: VarId) -> ExprId {
        if let Some(known) = self.known.get(&v).cloned() {
            return self.closure(st, &known);
        }
        match st.scope.get(&v) {
            Some((e, _)) => *e,
            None => {
                let name = self.m.vars[v].name;
                self.refuse(format!(
                    "the variable `%{name}`, bound where it is not seen,"
                ));
                self.m.add(Expr::Error, Span::NONE)
            }
        }
    }

    /// Returns a value, with a function as a closure.
    pub(super) fn as_value(&mut self, st: &mut State, given: Given) -> (ExprId, TypeId) {
        match given {
            Given::Value(e, ty) => (e, ty),
            Given::Function(known) => (self.closure(st, &known), self.any),
        }
    }

    /// Returns an argument: a name, a constant, a shape, or a tuple of these.
    pub(super) fn operand(&mut self, st: &mut State, root: ExprId) -> ExprId {
        let through = |this: &Self, e: ExprId| matches!(this.m.exprs[e], Expr::Tuple(_));
        if !through(self, root) {
            return self.leaf(st, root);
        }
        let order = {
            let m = &self.m;
            m.post_order_within([root], |e| {
                matches!(
                    m.exprs[e],
                    Expr::Tuple(_)
                        | Expr::Var(_)
                        | Expr::Const(_)
                        | Expr::Shape(_)
                        | Expr::Global(_)
                )
            })
        };
        let mut done: FxHashMap<ExprId, ExprId> = FxHashMap::default();
        for e in order {
            let new = match self.m.exprs[e] {
                Expr::Tuple(list) => {
                    let fields: Vec<ExprId> = self.m.list(list).to_vec();
                    let fields: Vec<ExprId> = (fields.into_iter())
                        .map(|f| match done.get(&f) {
                            Some(&new) => new,
                            None => self.leaf(st, f),
                        })
                        .collect();
                    self.m.tuple(&fields, self.m.span(e))
                }
                _ => self.leaf(st, e),
            };
            let ty = self.expr_type(e);
            let ty = self.here(st, ty);
            self.exprs.insert(new, ty);
            done.insert(e, new);
        }
        done[&root]
    }

    fn leaf(&mut self, st: &mut State, e: ExprId) -> ExprId {
        match self.m.exprs[e].clone() {
            Expr::Var(v) => self.var_value(st, v),
            Expr::Const(_) | Expr::Extern(_) => e,
            Expr::Shape(dims) => {
                let dims = dims.iter().map(|d| st.subst.dim(d)).collect();
                self.m.add(Expr::Shape(dims), Span::NONE)
            }
            Expr::Global(g) if self.m.global_func(g).is_none() => e,
            Expr::Global(g) => {
                let known = self.of_global(g);
                self.closure(st, &known)
            }
            Expr::Call { .. } | Expr::Ctor(_) => {
                // A constructor without fields may be used directly.
                let given = match self.m.exprs[e] {
                    Expr::Ctor(c) => self.construct(st, c, &[], e),
                    Expr::Call { callee, args, .. }
                        if args.is_empty() && matches!(self.m.exprs[callee], Expr::Ctor(_)) =>
                    {
                        self.value(st, e, None)
                    }
                    _ => return self.not_normal(e),
                };
                let (value, ty) = self.as_value(st, given);
                self.bound(st, "lv", value, ty)
            }
            _ => self.not_normal(e),
        }
    }

    fn not_normal(&mut self, e: ExprId) -> ExprId {
        self.place = self.m.span(e);
        self.refuse("a value without a name among arguments (`normalize` binds them)");
        self.m.add(Expr::Error, Span::NONE)
    }

    /// Returns the value of an expression that is not a sequence of bindings.
    pub(super) fn value(&mut self, st: &mut State, e: ExprId, var: Option<VarId>) -> Given {
        if !self.m.span(e).is_none() {
            self.place = self.m.span(e);
        }
        let span = self.m.span(e);
        let ty = self.expr_type(e);
        let new = match self.m.exprs[e].clone() {
            Expr::Var(v) => match (self.known.get(&v), st.scope.get(&v)) {
                (Some(known), _) => return Given::Function(known.clone()),
                (None, Some(&(e, ty))) => return Given::Value(e, ty),
                (None, None) => self.var_value(st, v),
            },
            Expr::Global(g) if self.m.global_func(g).is_some() => {
                return Given::Function(self.of_global(g));
            }
            Expr::Ctor(c) => {
                if !self.m.ctors[c].fields.is_empty() {
                    self.refuse("a constructor as a function");
                }
                return self.construct(st, c, &[], e);
            }
            Expr::Const(_) | Expr::Extern(_) | Expr::Global(_) | Expr::Error => e,
            Expr::Shape(_) | Expr::Tuple(_) => self.operand(st, e),
            Expr::Op(_) => {
                self.refuse("an operator as a value");
                e
            }
            Expr::Proj { tuple, index } => {
                let tuple = self.operand(st, tuple);
                self.m.add(Expr::Proj { tuple, index }, span)
            }
            Expr::Func(f) => {
                let name = match var {
                    Some(v) => format!("{}_{}", self.name, self.m.vars[v].name),
                    None => format!("{}_fn", self.name),
                };
                return Given::Function(self.lift_function(st, f, var, &name));
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.operand(st, cond);
                let then = self.branch(st, then, ty, "then");
                let otherwise = self.branch(st, otherwise, ty, "else");
                let choice = Expr::If {
                    cond,
                    then,
                    otherwise,
                };
                let choice = self.m.add(choice, span);
                let ty = self.here(st, ty);
                return Given::Value(self.bound(st, "choice", choice, ty), ty);
            }
            Expr::MatchCast { value, ty: to } => {
                let value = self.operand(st, value);
                let to = self.rep(to);
                st.dims.extend(self.m.dims_in_types([to]));
                let ty = st.subst.ty(&mut self.m.types, to);
                let cast = self.m.add(Expr::MatchCast { value, ty }, span);
                self.exprs.insert(cast, ty);
                return Given::Value(cast, ty);
            }
            Expr::MatchShape { value, dims } => {
                let value = self.operand(st, value);
                st.dims.extend(dims.iter().flat_map(Dim::free_vars));
                let dims = dims.iter().map(|d| st.subst.dim(d)).collect();
                self.m.add(Expr::MatchShape { value, dims }, span)
            }
            Expr::RefNew(value) => return self.reference(st, 0, &[value], ty, span),
            Expr::RefRead(cell) => return self.reference(st, 1, &[cell], ty, span),
            Expr::RefWrite(cell, value) => {
                return self.reference(st, 2, &[cell, value], ty, span);
            }
            Expr::Call { .. } => return self.call(st, e),
            Expr::Let { .. } | Expr::Dataflow { .. } | Expr::Match { .. } => self.not_normal(e),
        };
        let ty = self.here(st, ty);
        self.exprs.insert(new, ty);
        Given::Value(new, ty)
    }

    /// Converts a branch: one that computes becomes a function of its own.
    fn branch(&mut self, st: &mut State, e: ExprId, ty: TypeId, name: &str) -> ExprId {
        let want = self.rep(ty);
        match self.m.exprs[e] {
            Expr::Var(v) if !self.known.contains_key(&v) => {
                let own = self.var_type(v);
                if self.rep(own) == want {
                    return self.var_value(st, v);
                }
            }
            Expr::Const(c) if self.m.consts[c].is_scalar() => return e,
            _ => {}
        }
        self.apart(st, Code::Body(e), ty, name)
    }

    /// Creates a call of a function that computes a piece of the program.
    pub(super) fn apart(&mut self, st: &mut State, code: Code, ty: TypeId, name: &str) -> ExprId {
        let name = format!("{}_{name}", self.name);
        let known = self.lift(st, code, &[], &[], ty, &name);
        self.call_known(st, &known, Vec::new(), Span::NONE)
    }

    /// Casts a value to a more precise type.
    pub(super) fn cast(
        &mut self,
        st: &mut State,
        value: ExprId,
        from: TypeId,
        to: TypeId,
    ) -> Given {
        if !self.says_less(from, to) {
            self.exprs.insert(value, to);
            return Given::Value(value, to);
        }
        let value = match self.m.exprs[value] {
            Expr::Var(_) => value,
            _ => self.bound(st, "lv", value, from),
        };
        let cast = self.m.add(Expr::MatchCast { value, ty: to }, Span::NONE);
        self.exprs.insert(cast, to);
        Given::Value(cast, to)
    }

    /// Converts the clauses of a `match`, with the scrutinee bound to a variable.
    fn matched(
        &mut self,
        st: &mut State,
        e: ExprId,
        value: ExprId,
        clauses: &[Clause],
        complete: bool,
    ) -> Code {
        let var = match self.m.exprs[value] {
            Expr::Var(v) if st.scope.contains_key(&v) => v,
            _ => {
                let ty = self.expr_type(value);
                let given = self.value(st, value, None);
                let (new, rep) = self.as_value(st, given);
                let var = self.part("value", ty);
                let new = self.bound(st, "lv", new, rep);
                st.scope.insert(var, (new, rep));
                var
            }
        };
        let ty = self.expr_type(e);
        Code::Clause(
            vec![(var, clauses[0].pattern)],
            Matched {
                value: var,
                clauses: clauses.into(),
                at: 0,
                complete,
                ty,
            },
            false,
        )
    }

    /// Creates a variable for a part of the scrutinee, with its type in Relay.
    pub(super) fn part(&mut self, name: &str, ty: TypeId) -> VarId {
        let (var, _) = self.m.fresh_var(name, None, VarStyle::Binding);
        self.made_types.insert(var, ty);
        var
    }
}

//! Lambda lifting: functions that become global, and their captures.

use relax_base::Span;
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, PatId, Type,
    TypeId, TypeSubst, VarId, VarStyle,
};
use relax_sym::{Dim, DimVar};
use rustc_hash::FxHashSet;

use super::Lowering;
use super::chain::State;
use super::matching::Matched;

/// A lifted function, and the captured values that its calls pass besides their arguments.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub global: GlobalId,
    /// Variables of the program that it captures.
    pub captured: Vec<VarId>,
    /// Dimension variables that no captured tensor determines.
    pub dims: Vec<DimVar>,
    /// The result type in Relay.
    pub ret: TypeId,
}

/// The body of a function.
#[derive(Clone, Debug)]
pub(super) enum Code {
    /// An expression of the program.
    Body(ExprId),
    /// The clauses of a `match` from one on: the remaining tests of its pattern. The flag says that
    /// the constructor of the first test is already known to match.
    Clause(Vec<(VarId, PatId)>, Matched, bool),
}

/// A function that is still to be created.
#[derive(Debug)]
pub(super) struct Work {
    pub global: GlobalId,
    pub code: Code,
    pub params: Vec<VarId>,
    pub captured: Vec<VarId>,
    /// Dimension variables of the context, which are replaced here.
    pub outer: Vec<DimVar>,
    /// Those of them that are passed as a shape.
    pub dims: Vec<DimVar>,
    /// The function's own dimension variables.
    pub own: Vec<DimVar>,
    pub ret: Option<TypeId>,
    pub attrs: Attrs,
    pub span: Span,
}

impl Work {
    /// The work for a function of the program.
    pub fn global(
        global: GlobalId,
        _: FuncId,
        f: &Function,
        ret: Option<TypeId>,
        private: bool,
    ) -> Work {
        let mut attrs = f.attrs.clone();
        if private {
            attrs.set("private", AttrValue::Bool(true));
        }
        Work {
            global,
            code: Code::Body(f.body),
            params: f.params.clone(),
            captured: Vec::new(),
            outer: Vec::new(),
            dims: Vec::new(),
            own: f.dims.clone(),
            ret,
            attrs,
            span: f.span,
        }
    }
}

impl Lowering<'_> {
    /// Returns the variables that a piece of the program uses, with functions replaced by their
    /// captures.
    fn captures(&self, code: &Code, bound: &[VarId]) -> Vec<VarId> {
        let m = &self.m;
        let mut free = Vec::new();
        match code {
            Code::Body(e) => free = m.free_vars(*e),
            Code::Clause(todo, matched, _) => {
                free.extend(todo.iter().map(|t| t.0));
                free.push(matched.value);
                for (i, clause) in matched.clauses.iter().enumerate().skip(matched.at) {
                    // Variables that the current clause has already bound come from outside.
                    let vars = match i == matched.at {
                        true => todo.iter().flat_map(|t| m.pattern_vars(t.1)).collect(),
                        false => m.pattern_vars(clause.pattern),
                    };
                    let own = m.free_vars(clause.body).into_iter();
                    free.extend(own.filter(|v| !vars.contains(v)));
                }
            }
        }
        let (mut seen, mut found) = (FxHashSet::default(), Vec::new());
        seen.extend(bound.iter().copied());
        for v in free {
            if !seen.insert(v) {
                continue;
            }
            match self.known.get(&v) {
                Some(known) => {
                    found.extend(known.captured.iter().filter(|c| seen.insert(**c)));
                }
                None => found.push(v),
            }
        }
        found
    }

    /// Returns the dimension variables that a piece of the program mentions.
    fn mentioned(&self, code: &Code, vars: &[VarId], ret: TypeId) -> FxHashSet<DimVar> {
        let m = &self.m;
        let roots: Vec<ExprId> = match code {
            Code::Body(e) => vec![*e],
            Code::Clause(_, matched, _) => matched.clauses[matched.at..]
                .iter()
                .map(|c| c.body)
                .collect(),
        };
        let mut types: Vec<TypeId> = vars.iter().map(|&v| self.var_type(v)).collect();
        types.push(ret);
        let mut found = FxHashSet::default();
        for e in m.post_order(roots) {
            types.extend(self.types.expr(e));
            types.extend(m.bound_vars(e).into_iter().map(|v| self.var_type(v)));
            match &m.exprs[e] {
                Expr::Func(f) => {
                    types.extend(m.funcs[*f].params.iter().map(|p| self.var_type(*p)));
                }
                Expr::MatchCast { ty, .. } => types.push(*ty),
                Expr::Shape(dims) | Expr::MatchShape { dims, .. } => {
                    found.extend(dims.iter().flat_map(Dim::free_vars));
                }
                Expr::Call { attrs, .. } => {
                    let mut open: Vec<&AttrValue> = m.attrs(*attrs).iter().map(|a| &a.1).collect();
                    while let Some(v) = open.pop() {
                        match v {
                            AttrValue::Dim(d) => found.extend(d.free_vars()),
                            AttrValue::Array(items) => open.extend(items.iter()),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
            if let Expr::Var(v) = m.exprs[e]
                && let Some(known) = self.known.get(&v)
            {
                found.extend(known.dims.iter().copied());
            }
        }
        found.extend(m.dims_in_types(types));
        found
    }

    /// Returns the dimension variables that values of these types determine: those that are an
    /// extent by themselves.
    pub(super) fn said(&self, types: impl IntoIterator<Item = TypeId>) -> FxHashSet<DimVar> {
        let (mut found, mut open) = (FxHashSet::default(), Vec::from_iter(types));
        while let Some(ty) = open.pop() {
            match &self.m.types[ty] {
                Type::Tensor(relax_ir::TensorType { shape, .. }) | Type::Shape(shape) => {
                    let dims = shape.dims().unwrap_or_default().iter();
                    found.extend(dims.filter_map(|d| match d.as_atom() {
                        Some(relax_sym::Atom::Var(v)) => Some(v),
                        _ => None,
                    }));
                }
                Type::Tuple(fields) => open.extend(fields),
                _ => {}
            }
        }
        found
    }

    /// Creates a global function from a piece of the program, to be processed later.
    pub(super) fn lift(
        &mut self,
        st: &State,
        code: Code,
        params: &[VarId],
        own: &[DimVar],
        ret: TypeId,
        name: &str,
    ) -> Known {
        let captured = self.captures(&code, params);
        self.lift_with(st, code, (params, captured), own, ret, name, None)
    }

    /// Lifts a function that may refer to itself.
    pub(super) fn lift_function(
        &mut self,
        st: &State,
        f: FuncId,
        var: Option<VarId>,
        name: &str,
    ) -> Known {
        let function = self.m.funcs[f].clone();
        let ret = match function.ret.or_else(|| self.types.ret(f)) {
            Some(ret) => ret,
            None => self.expr_type(function.body),
        };
        let code = Code::Body(function.body);
        let mut bound = function.params.clone();
        bound.extend(var);
        let captured = self.captures(&code, &bound);
        self.lift_with(
            st,
            code,
            (&function.params, captured),
            &function.dims,
            ret,
            name,
            var,
        )
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a function")]
    fn lift_with(
        &mut self,
        st: &State,
        code: Code,
        (params, captured): (&[VarId], Vec<VarId>),
        own: &[DimVar],
        ret: TypeId,
        name: &str,
        itself: Option<VarId>,
    ) -> Known {
        let all: Vec<VarId> = params.iter().chain(&captured).copied().collect();
        let mut outer: Vec<DimVar> = (self.mentioned(&code, &all, ret).into_iter())
            .filter(|d| st.dims.contains(d) && !own.contains(d))
            .collect();
        outer.sort_unstable();
        let types: Vec<TypeId> = all.iter().map(|&v| self.var_type(v)).collect();
        let reps: Vec<TypeId> = types.into_iter().map(|t| self.rep(t)).collect();
        let said = self.said(reps);
        let dims: Vec<DimVar> = outer
            .iter()
            .copied()
            .filter(|d| !said.contains(d))
            .collect();
        let name = self.fresh_name(name);
        let mut attrs = Attrs::new();
        attrs.set("private", AttrValue::Bool(true));
        let span = self.place;
        let global = self.m.globals.push(Global {
            name,
            kind: GlobalKind::Func(FuncId(0)),
            span,
            prelude: false,
        });
        let known = Known {
            global,
            captured: captured.clone(),
            dims: dims.clone(),
            ret,
        };
        if let Some(var) = itself {
            self.known.insert(var, known.clone());
        }
        self.work.push(Work {
            global,
            code,
            params: params.to_vec(),
            captured,
            outer,
            dims,
            own: own.to_vec(),
            ret: Some(ret),
            attrs,
            span,
        });
        known
    }

    /// Returns the captured values that a call of a known function passes after its arguments.
    pub(super) fn handed(&mut self, st: &mut State, known: &Known) -> Vec<ExprId> {
        let mut args = Vec::new();
        for &v in &known.captured {
            args.push(self.var_value(st, v));
        }
        if !known.dims.is_empty() {
            let dims: Box<[Dim]> = (known.dims.iter())
                .map(|&d| st.subst.dim(&Dim::var(d)))
                .collect();
            args.push(self.m.add(Expr::Shape(dims), Span::NONE));
        }
        args
    }

    /// Creates a function.
    pub(super) fn run(&mut self, work: Work) {
        let mut st = State::new(work.own.iter().chain(&work.outer).copied().collect());
        self.name = self.m.globals[work.global].name;
        let mut dims = work.own.clone();
        let mut subst = TypeSubst::new();
        for &d in &work.outer {
            let info = self.m.dims[d].clone();
            let new = self.m.dims.push(info);
            dims.push(new);
            subst.dims.insert(d, Dim::var(new));
        }
        st.subst = subst;
        let mut params = Vec::new();
        for &v in work.params.iter().chain(&work.captured) {
            let ty = self.rep_of(&mut st, v);
            let (new, e) = self.variable(self.m.vars[v].name.as_str(), ty);
            self.m.vars[new].style = VarStyle::Param;
            st.scope.insert(v, (e, ty));
            params.push(new);
        }
        if !work.dims.is_empty() {
            let extents: Box<[Dim]> = (work.dims.iter())
                .map(|&d| st.subst.dim(&Dim::var(d)))
                .collect();
            let ty = Type::Shape(relax_ir::Shape::Dims(extents));
            let ty = self.m.types.intern(ty);
            let (new, _) = self.variable("extents", ty);
            self.m.vars[new].style = VarStyle::Param;
            params.push(new);
        }
        let ret = work.ret.map(|t| {
            let t = self.rep(t);
            let t = st.subst.ty(&mut self.m.types, t);
            self.without(t, &dims)
        });
        let body = self.body(&mut st, work.code, ret);
        let function = Function {
            type_params: Vec::new(),
            dims,
            params,
            ret,
            constraints: Vec::new(),
            body,
            attrs: work.attrs,
            span: work.span,
        };
        let f = self.m.funcs.push(function);
        self.m.globals[work.global].kind = GlobalKind::Func(f);
    }

    /// Returns a type that mentions only these dimension variables.
    fn without(&mut self, root: TypeId, dims: &[DimVar]) -> TypeId {
        let foreign: Vec<DimVar> = (self.m.dims_in_types([root]).into_iter())
            .filter(|d| !dims.contains(d))
            .collect();
        if foreign.is_empty() {
            return root;
        }
        let mut subst = TypeSubst::new();
        for d in foreign {
            subst.dims.insert(d, Dim::ANY);
        }
        subst.ty(&mut self.m.types, root)
    }
}

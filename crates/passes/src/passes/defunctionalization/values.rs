//! Functions as data: the constructor that represents a function, and its clause of `apply`.

use relax_base::Symbol;
use relax_ir::{
    Clause, Copier, Ctor, CtorId, Expr, ExprId, FuncId, Module, Pattern, TypeId, VarId, VarStyle,
};

use super::specialise::plain;
use super::{Defunctionalize, Failure, is_kernel};

impl Defunctionalize<'_, '_> {
    /// Creates a constructor for a function of a type; its index is that of its clause of `apply`.
    pub(super) fn constructor(
        &mut self,
        at: ExprId,
        ty: TypeId,
        fields: Vec<TypeId>,
    ) -> Result<CtorId, Failure> {
        let why = "its type has parameters, unknowns or dimension variables";
        let adt = self.encoding(ty).ok_or_else(|| self.refuse(at, why))?;
        let mut n = self.m.ctors.len();
        let taken = |m: &Module, n: usize| {
            let name = format!("Closure{n}");
            m.ctors.values().any(|c| c.name == name.as_str())
        };
        while taken(self.m, n) {
            n += 1;
        }
        let tag = self.m.adts[adt].ctors.len() as u32;
        let ctor = self.m.ctors.push(Ctor {
            name: Symbol::from(&*format!("Closure{n}")),
            adt,
            fields,
            tag,
            span: self.m.span(at),
        });
        self.m.adts[adt].ctors.push(ctor);
        Ok(ctor)
    }

    /// Adds the clause of a constructor to the `apply` of a type.
    fn clause(&mut self, ty: TypeId, pattern: Pattern, body: ExprId) {
        let pattern = self.m.patterns.push(pattern);
        let kind = self.kinds.get_mut(&ty).expect("it was made");
        kind.clauses.push(Clause { pattern, body });
    }

    /// A global, operator or constructor as a value.
    pub(super) fn named(&mut self, e: ExprId, ty: TypeId, name: String) -> Result<ExprId, Failure> {
        let span = self.m.span(e);
        let ctor = match self.names.get(&(name.clone(), ty)) {
            Some(&ctor) => ctor,
            None => {
                let ctor = self.constructor(e, ty, Vec::new())?;
                self.names.insert((name, ty), ctor);
                let params = self.kinds[&ty].params.clone();
                let args = params[1..].iter().map(|&p| self.m.add(Expr::Var(p), span));
                let args: Vec<ExprId> = args.collect();
                let body = self.m.call(e, &args, span);
                self.clause(ty, Pattern::Ctor(ctor, Box::default()), body);
                ctor
            }
        };
        let callee = self.m.add(Expr::Ctor(ctor), span);
        Ok(self.m.call(callee, &[], span))
    }

    /// Converts a function literal to data.
    pub(super) fn closure(&mut self, e: ExprId, func: FuncId) -> Result<ExprId, Failure> {
        let span = self.m.span(e);
        let ty = self.typing.exprs[e];
        let own = self.let_of.get(&e).copied();
        let why = "what it uses has a type with parameters, unknowns or dimension variables";
        let free: Vec<VarId> = self
            .m
            .free_vars(e)
            .into_iter()
            .filter(|v| Some(*v) != own)
            .collect();
        let (mut fields, mut values) = (Vec::new(), Vec::new());
        for &v in &free {
            let known = self.typing.vars[v];
            if !plain(self.m, known) {
                return Err(self.refuse(e, why));
            }
            fields.push(self.ty(known).ok_or_else(|| self.refuse(e, why))?);
            values.push(self.var(v)?);
        }
        let ctor = self.constructor(e, ty, fields.clone())?;
        let old = self.m.funcs[func].clone();
        let params = self.kinds[&ty].params.clone();
        // The body over the parameters of `apply`, the fields, and, for references to itself, the
        // data.
        let mut copy = Copier::new();
        let mut patterns = Vec::new();
        for (&v, &field) in free.iter().zip(&fields) {
            let name = self.m.vars[v].name;
            let (var, reference) = self.m.fresh_var(name, Some(field), VarStyle::Param);
            patterns.push(self.m.patterns.push(Pattern::Var(var)));
            let new = self.var_id(v)?;
            copy.values.insert(new, reference);
        }
        for (&p, &given) in old.params.iter().zip(&params[1..]) {
            let new = self.var_id(p)?;
            let given = self.m.add(Expr::Var(given), span);
            copy.values.insert(new, given);
        }
        if let Some(own) = own {
            let new = self.var_id(own)?;
            let this = self.m.add(Expr::Var(params[0]), span);
            copy.values.insert(new, this);
        }
        let body = if is_kernel(self.m, e) {
            let args: Vec<ExprId> = params[1..]
                .iter()
                .map(|&p| self.m.add(Expr::Var(p), span))
                .collect();
            self.m.call(e, &args, span)
        } else {
            let body = self.part(old.body)?;
            copy.expr(self.m, body)
        };
        self.clause(ty, Pattern::Ctor(ctor, patterns.into()), body);
        let callee = self.m.add(Expr::Ctor(ctor), span);
        Ok(self.m.call(callee, &values, span))
    }
}

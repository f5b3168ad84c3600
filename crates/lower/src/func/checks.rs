//! The checks that inference left to run time: dimensions that it could not prove equal, and values
//! whose type is less precise than their use requires.

use relax_base::Symbol;
use relax_infer::CheckKind;
use relax_ir::{DTy, Expr, ExprId, Shape, Type, TypeId};
use relax_sym::{Dim, DimVar};

use super::{FnLower, Result};
use crate::lir::{Inst, Reg};
use crate::type_check::TypeCheck;

impl FnLower<'_, '_> {
    /// Returns whether there is a check after a node's value is computed.
    pub(super) fn checked(&self, e: ExprId) -> bool {
        self.lw.typing.checks_of(e).next().is_some()
    }

    /// Emits the checks at a node, whose value is in `r`.
    pub(super) fn checks(&mut self, e: ExprId, r: Reg) -> Result<()> {
        let checks: Vec<_> = self.lw.typing.checks_of(e).cloned().collect();
        for c in checks {
            match &c.kind {
                CheckKind::Equal(a, b) => self.check_dims(e, a, b, false)?,
                CheckKind::Broadcast(a, b) => self.check_dims(e, a, b, true)?,
                // Casts and matches check themselves.
                CheckKind::HasShape(_) => {}
                CheckKind::HasType(_) if matches!(self.m().exprs[e], Expr::MatchCast { .. }) => {}
                CheckKind::HasType(ty) => {
                    let place = self.place(e);
                    self.check_types(&[(*ty, r, place)], &[]);
                }
            }
        }
        Ok(())
    }

    fn check_dims(&mut self, e: ExprId, a: &Dim, b: &Dim, or_one: bool) -> Result<()> {
        let readable =
            |d: &Dim| d.is_known() && d.free_vars().iter().all(|v| self.dims.contains_key(v));
        if !(readable(a) && readable(b)) {
            // The kernels check the extents of their operands themselves.
            return Ok(());
        }
        let text = format!(
            "`{}` is {{}} and `{}` is {{}}, but they must be equal",
            self.m().show_dim(a),
            self.m().show_dim(b)
        );
        let (a, b) = (self.dim(e, a)?, self.dim(e, b)?);
        let (place, message) = (self.place(e), Symbol::new(&text));
        self.emit(Inst::CheckDims {
            a,
            b,
            or_one,
            place,
            message,
        });
        Ok(())
    }

    /// Checks values against types. The variables `own` get their values from these; others have
    /// those of this function, as far as they are in scope.
    fn check_types(&mut self, values: &[(TypeId, Reg, Symbol)], own: &[DimVar]) {
        let m = self.m();
        let scope: Vec<(DimVar, (Reg, u32))> = (self.dims.iter())
            .filter(|d| !own.contains(d.0))
            .map(|d| (*d.0, *d.1))
            .collect();
        let used = self.free_dims(values.iter().map(|v| v.0));
        let mut check = TypeCheck::new(m, &mut self.f.regs);
        for (v, (src, axis)) in scope {
            if used.contains(&v) {
                check.known(v, src, axis);
            }
        }
        for (ty, r, place) in values {
            check.value(*ty, *r, *place);
        }
        for inst in check.finish() {
            self.emit(inst);
        }
    }

    fn free_dims(&self, types: impl Iterator<Item = TypeId>) -> Vec<DimVar> {
        let m = self.m();
        let mut found: Vec<DimVar> = Vec::new();
        for ty in types.filter(|t| (t.0 as usize) < m.types.len()) {
            for leaf in m.types.leaves(ty) {
                let shape = match &m.types[leaf] {
                    Type::Tensor(t) => &t.shape,
                    Type::Shape(s) => s,
                    _ => continue,
                };
                found.extend(shape.dims().unwrap_or(&[]).iter().flat_map(Dim::free_vars));
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Checks the arguments of a call of a function, where their types are less precise than its
    /// parameters'.
    pub(super) fn check_args(
        &mut self,
        call: ExprId,
        callee: ExprId,
        args: &[ExprId],
    ) -> Result<()> {
        let m = self.m();
        let ty = match m.exprs[callee] {
            Expr::Global(g) => self.lw.typing.globals[g],
            _ => self.type_of(callee),
        };
        if ty.0 as usize >= m.types.len() {
            return Ok(());
        }
        let Type::Func(f) = &m.types[ty] else {
            return Ok(());
        };
        let finer = |(&want, &a): (&TypeId, &ExprId)| self.is_coarse(self.type_of(a), want);
        if f.args.len() != args.len() || !f.args.iter().zip(args).any(finer) {
            return Ok(());
        }
        let params: Vec<String> = match m.exprs[callee] {
            Expr::Global(g) => m.global_func(g).map_or(Vec::new(), |f| {
                let of = |p: &relax_ir::VarId| format!("%{}", m.vars[*p].name);
                m.funcs[f].params.iter().map(of).collect()
            }),
            _ => Vec::new(),
        };
        let at = self.place(call);
        let mut values = Vec::with_capacity(args.len());
        for (i, (&ty, &a)) in f.args.iter().zip(args).enumerate() {
            let r = self.value(a)?;
            let name = params
                .get(i)
                .cloned()
                .unwrap_or_else(|| format!("parameter {}", i + 1));
            let place = Symbol::new(&format!("{at}: the argument for {name}"));
            values.push((ty, r, place));
        }
        self.check_types(&values, &f.dims);
        Ok(())
    }

    /// Returns whether a type is less precise than another in ranks, element types or extents.
    fn is_coarse(&self, have: TypeId, want: TypeId) -> bool {
        let m = self.m();
        let known = |t: TypeId| (t.0 as usize) < m.types.len();
        if have == want || !known(have) || !known(want) {
            return false;
        }
        let (have, want) = (m.types.leaves(have), m.types.leaves(want));
        let coarse = |(&a, &b): (&TypeId, &TypeId)| match (&m.types[a], &m.types[b]) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                let dtype = a.dtype == DTy::Unknown && b.dtype.known().is_some();
                dtype || coarse_shape(&a.shape, &b.shape)
            }
            (Type::Shape(a), Type::Shape(b)) => coarse_shape(a, b),
            (Type::Object, b) => !matches!(b, Type::Object | Type::Param(_)),
            _ => false,
        };
        // An object may turn out to be a tuple.
        let object = have.len() != want.len() && have.iter().any(|&a| m.types[a] == Type::Object);
        object || have.len() == want.len() && have.iter().zip(&want).any(coarse)
    }
}

fn coarse_shape(have: &Shape, want: &Shape) -> bool {
    match (have, want) {
        (Shape::Unknown, Shape::Dims(_)) => true,
        (Shape::Dims(a), Shape::Dims(b)) => a.iter().zip(b).any(|(a, b)| a.is_any() && !b.is_any()),
        _ => false,
    }
}

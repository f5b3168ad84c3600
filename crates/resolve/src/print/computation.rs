//! Printing of the computations of `op` items.

use relax_ir::UserOp;
use relax_loops::{Compute, Ex, ExKind, Stage, Var, visit_expr};
use relax_syntax::ast::{self, ExprKind, StmtKind};

use super::prim::{Place, ProgramNames};
use super::{NO, Printer};
use crate::build::user_op::REDUCTIONS;

impl Printer<'_> {
    /// Prints the computation of an operator: `compute [%i] => e`.
    pub(super) fn op_body(&mut self, op: &UserOp) -> ast::ExprId {
        let m = self.m;
        let Some(program) = &op.program else {
            return self.out.block([], None, NO);
        };
        let stages = program.stages.iter().filter_map(|s| match s {
            Stage::Compute(compute) => Some(compute),
            Stage::Nest(_) => None,
        });
        let stages: Vec<&Compute> = stages.collect();
        let Some((last, inner)) = stages.split_last() else {
            return self.out.block([], None, NO);
        };
        let bare: Vec<Var> = program.dims.iter().chain(&op.attr_vars).copied().collect();
        let mut cx = ProgramNames::new(program, bare.clone(), self.types.words.clone());
        let elements: Vec<_> = op.element_params(&m.types).collect();
        cx.elements = elements.iter().map(|&p| self.type_param_name(p)).collect();
        // Dimensions have the names of the signature, attributes are called by theirs.
        for v in bare {
            let name = program.vars[v].name;
            let mut dims = op.dims.iter().filter(|_| !op.attr_vars.contains(&v));
            let dim = dims.find(|d| m.dims[**d].name == name);
            let name = dim.map_or(name, |&d| self.dim_name(d));
            cx.vars.insert(v, name);
        }
        let mut indices = Vec::new();
        for &axis in &last.axes {
            let name = cx.var(axis);
            indices.push(self.out.binder(name, None, NO));
        }
        // A reduction within a larger expression is a stage of its own, whose element is read once:
        // it is printed there, over the indices that read it.
        for stage in stages.iter().rev() {
            reads(stage, &mut |e| self.name_indices(&mut cx, inner, e));
        }
        for stage in inner {
            let value = self.op_value(&mut cx, stage, Place::ALONE);
            cx.folded.insert(stage.out, value);
        }
        let indices = self.out.make_list(indices);
        let value = self.op_value(&mut cx, last, Place::BESIDE);
        let kind = StmtKind::Compute { indices, value };
        let stmt = self.out.stmt(kind, NO);
        self.out.block([stmt], None, NO)
    }

    /// Names the indices of the stage whose buffer is read as the variables that it is read at.
    fn name_indices(&mut self, cx: &mut ProgramNames<'_>, inner: &[&Compute], e: &Ex) {
        let ExKind::Load(buf, index) = e.kind() else {
            return;
        };
        let Some(stage) = inner.iter().find(|s| s.out == *buf) else {
            return;
        };
        for (&own, at) in stage.axes.iter().zip(index.iter()) {
            if let ExKind::Var(v) = at.kind() {
                let name = cx.var(*v);
                cx.vars.insert(own, name);
            }
        }
    }

    fn op_value(
        &mut self,
        cx: &mut ProgramNames<'_>,
        compute: &Compute,
        place: Place,
    ) -> ast::ExprId {
        let Some(reduce) = &compute.reduce else {
            return self.scalar_ex(cx, &compute.value, place);
        };
        let mut args = Vec::new();
        for (var, extent) in &reduce.axes {
            let name = cx.var(*var);
            args.push(self.out.expr(ExprKind::Local(name), NO));
            args.push(self.scalar_ex(cx, extent, Place::EXTENT));
        }
        args.push(self.scalar_ex(cx, &compute.value, place));
        let known = REDUCTIONS.iter().find(|r| r.1 == reduce.combiner);
        let name = known.expect("every combiner has a name").0;
        let callee = self.name(name);
        self.out.call(callee, args, NO)
    }
}

/// Calls `f` for each expression in a stage.
fn reads(stage: &Compute, f: &mut dyn FnMut(&Ex)) {
    let extents = stage
        .reduce
        .iter()
        .flat_map(|r| r.axes.iter().map(|a| &a.1));
    for root in extents.chain([&stage.value]) {
        visit_expr(root, &mut *f);
    }
}

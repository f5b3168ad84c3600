//! `canonicalize-bindings`: removes bindings in dataflow blocks that only rename a variable.
//!
//! A variable that is bound to another variable, or to a field of a tuple whose fields are known,
//! is replaced by that variable. If such a name is an output of the block, the value is bound to it
//! directly. A binding whose annotation is more precise than the variable's type is kept: it is
//! checked at run time. Unused bindings are left to `dead-code-elimination`.

use relax_base::Diagnostics;
use relax_ir::{Expr, ExprId, IdSet, Memo, VarId};
use rustc_hash::FxHashMap;

use crate::blocks::{BlockCx, each_block};
use crate::{Analysis, Contract, Form, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "canonicalize-bindings",
    doc: "Replaces variables of dataflow blocks that are other names of variables by these.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .each_block()
        .preserves(&[Analysis::Effects])
        .keeps(&[
            Form::ANormal,
            Form::GraphNormal,
            Form::BasicBlockNormal,
            Form::Relax,
        ]),
    run: |cx| each_block(cx, canonicalize),
}];

fn canonicalize(b: &mut BlockCx<'_>) -> Result<(), Diagnostics> {
    let outputs: IdSet = b.outputs().iter().copied().collect();
    let copies = propagate(b, &outputs);
    let renamed = rename(b, &outputs);
    b.count("names replaced", copies + renamed);
    Ok(())
}

/// Replaces names that stay in the block.
fn propagate(b: &mut BlockCx<'_>, outputs: &IdSet) -> u64 {
    // A node shared by several values uses only variables bound before the first of them, so one
    // memo suffices for all.
    let (mut stands, mut memo) = (FxHashMap::<VarId, ExprId>::default(), Memo::default());
    let mut tuples: FxHashMap<VarId, ExprId> = FxHashMap::default();
    let mut kept = Vec::with_capacity(b.bindings.len());
    for mut binding in std::mem::take(&mut b.bindings) {
        let checked = b.typing.checks_of(binding.value).next().is_some();
        let mut value = b.module.substitute(binding.value, &mut memo, &stands);
        if let Some(field) = field(b, value, &tuples) {
            value = field;
        }
        if let Expr::Tuple(_) = b.module.exprs[value] {
            tuples.insert(binding.var, value);
        }
        binding.value = value;
        match b.module.exprs[value] {
            Expr::Var(v)
                if !outputs.contains(binding.var) && !checked && same(b, binding.var, v) =>
            {
                stands.insert(binding.var, value);
            }
            _ => kept.push(binding),
        }
    }
    b.bindings = kept;
    stands.len() as u64
}

/// Returns the variable that a projection of a known tuple yields.
fn field(b: &BlockCx<'_>, e: ExprId, tuples: &FxHashMap<VarId, ExprId>) -> Option<ExprId> {
    let m = &*b.module;
    let Expr::Proj { tuple, index } = m.exprs[e] else {
        return None;
    };
    let tuple = match m.exprs[tuple] {
        Expr::Var(v) => *tuples.get(&v)?,
        _ => tuple,
    };
    let Expr::Tuple(fields) = m.exprs[tuple] else {
        return None;
    };
    let field = *m.list(fields).get(index as usize)?;
    matches!(m.exprs[field], Expr::Var(_)).then_some(field)
}

/// Binds values that leave the block under another name to that name directly.
fn rename(b: &mut BlockCx<'_>, outputs: &IdSet) -> u64 {
    let bound: IdSet = b.bindings.iter().map(|binding| binding.var).collect();
    let mut names: FxHashMap<VarId, VarId> = FxHashMap::default();
    for binding in &b.bindings {
        if let Expr::Var(v) = b.module.exprs[binding.value]
            && bound.contains(v)
            && !outputs.contains(v)
            && outputs.contains(binding.var)
            && b.typing.checks_of(binding.value).next().is_none()
            && same(b, binding.var, v)
        {
            names.entry(v).or_insert(binding.var);
        }
    }
    if names.is_empty() {
        return 0;
    }
    let mut stands: FxHashMap<VarId, ExprId> = FxHashMap::default();
    for (&old, &new) in &names {
        let span = b.span();
        stands.insert(old, b.module.add(Expr::Var(new), span));
    }
    let mut memo = Memo::default();
    let mut kept = Vec::with_capacity(b.bindings.len());
    for mut binding in std::mem::take(&mut b.bindings) {
        if let Expr::Var(v) = b.module.exprs[binding.value]
            && names.get(&v) == Some(&binding.var)
        {
            continue;
        }
        binding.value = b.module.substitute(binding.value, &mut memo, &stands);
        if let Some(&new) = names.get(&binding.var) {
            binding.var = new;
        }
        kept.push(binding);
    }
    b.bindings = kept;
    names.len() as u64
}

/// Returns whether two variables have the same type, so that one can replace the other.
fn same(b: &BlockCx<'_>, x: VarId, y: VarId) -> bool {
    b.typing.vars[x] == b.typing.vars[y]
}

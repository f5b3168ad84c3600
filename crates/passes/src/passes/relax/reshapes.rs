//! `rewrite-dataflow-reshape`: calls of tensor programs that only give a tensor another shape become `reshape`.
//!
//! Only inside of dataflow blocks, where the result can share the memory of the operand; what leaves a block stays. Whether
//! a program does no more is found by running it on the numbers of the elements.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, Expr, ExprId, GlobalId, GlobalKind, TypeId};
use relax_loops::{Ex, ExKind, Program, Stage, Stmt, statements, substitute};
use relax_ops::Lowering;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::code::{Bind, Value, each_typed_code};
use crate::edit::Edit;
use crate::util::{called_op, extents_of};
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "rewrite-dataflow-reshape",
    doc: "Calls of tensor programs that only give another shape become `reshape`.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

/// Tensors of more elements are not looked at.
const MOST: i64 = 1 << 23;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut reshapes = FxHashMap::default();
    let mut rewritten = 0;
    each_typed_code(&mut Edit::new(cx.module, &typing), |edit, _, code| {
        if !code.seqs.iter().any(|s| s.parts.iter().any(|p| p.flow)) {
            return false;
        }
        let before = rewritten;
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            if !part.flow {
                continue;
            }
            for b in &mut part.binds {
                if part.outputs.contains(&b.var) {
                    continue;
                }
                if let Some(new) = reshaped(edit, b, &mut reshapes) {
                    let ty = edit.var_ty(b.var);
                    edit.m.vars[b.var].ty.get_or_insert(ty);
                    b.value = Value::Plain(new);
                    rewritten += 1;
                }
            }
        }
        rewritten > before
    });
    cx.count("calls that became reshapes", rewritten);
    Ok(())
}

type Known = FxHashMap<(GlobalId, TypeId, TypeId), bool>;

fn reshaped(edit: &mut Edit<'_>, b: &Bind, known: &mut Known) -> Option<ExprId> {
    let e = b.expr()?;
    if called_op(edit.m, e)?.hooks.lowering != Lowering::CallTir {
        return None;
    }
    let Expr::Call { args, .. } = edit.m.exprs[e] else {
        return None;
    };
    let args = edit.m.list(args).to_vec();
    let Expr::Global(g) = edit.m.exprs[*args.first()?] else {
        return None;
    };
    let Expr::Tuple(fields) = edit.m.exprs[*args.get(1)?] else {
        return None;
    };
    let [operand] = edit.m.list(fields)[..] else {
        return None;
    };
    let (from, to) = (edit.ty(operand), edit.var_ty(b.var));
    let (a, b_shape) = (extents_of(edit.m, from)?, extents_of(edit.m, to)?);
    let GlobalKind::Prim(program) = &edit.m.globals[g].kind else {
        return None;
    };
    let program = program.clone();
    let same = *known
        .entry((g, from, to))
        .or_insert_with(|| is_reshape(&program, &a, &b_shape));
    if !same {
        return None;
    }
    let dims = b_shape.0.iter().map(|&d| AttrValue::Int(d));
    let shape = AttrValue::array(dims);
    Some(edit.call("reshape", &[operand], &[("newshape", shape)], b.span))
}

type Extents = (Vec<i64>, DType);

/// Whether a program copies its operand's elements in order.
fn is_reshape(program: &Program, from: &Extents, to: &Extents) -> bool {
    let count: i64 = from.0.iter().product();
    let fits = from.1 == to.1 && count == to.0.iter().product() && (1..=MOST).contains(&count);
    if !fits || program.inputs.len() != 1 || program.outputs.len() != 1 || !copies(program) {
        return false;
    }
    if moves(program, from, to) {
        return false;
    }
    // With other elements of the same size: the numbers of the elements.
    let mut program = program.clone();
    let bufs: Vec<_> = program.bufs.ids().collect();
    for b in bufs {
        program.bufs[b].dtype = DType::I64;
    }
    let Some(copied) = retyped(&mut program) else {
        return false;
    };
    let mut input = Tensor::zeros(DType::I64, &from.0);
    for i in 0..count as usize {
        input.set_i64(i, i as i64);
    }
    let out = relax_loops::execute_for(copied, &[input], Some(std::slice::from_ref(&to.0)));
    out.is_ok_and(|out| {
        let out = &out[0];
        (0..count as usize).all(|i| out.get_i64(i) == i as i64)
    })
}

/// Whether a computation over indices puts the last element, or the second one along an axis, elsewhere. This says no to
/// most programs without running them.
fn moves(program: &Program, from: &Extents, to: &Extents) -> bool {
    let [Stage::Compute(c)] = &program.stages[..] else {
        return false;
    };
    let ExKind::Load(_, index) = c.value.kind() else {
        return false;
    };
    if c.axes.len() != to.0.len() || index.len() != from.0.len() {
        return false;
    }
    let number = |extents: &[i64], at: &[i64]| {
        let pairs = extents.iter().zip(at);
        pairs.fold(0, |n, (extent, i)| n * extent + i)
    };
    let mut points = vec![to.0.iter().map(|n| n - 1).collect::<Vec<i64>>()];
    for axis in (0..to.0.len()).filter(|&a| to.0[a] > 1) {
        let mut second = vec![0; to.0.len()];
        second[axis] = 1;
        points.push(second);
    }
    points.iter().any(|point| {
        let at = |v| {
            let axis = c.axes.iter().position(|a| *a == v)?;
            Some(Ex::idx(point[axis]))
        };
        let read = index.iter().map(|i| substitute(i, &at).as_int());
        let read: Option<Vec<i64>> = read.collect();
        read.is_some_and(|read| number(&from.0, &read) != number(&to.0, point))
    })
}

/// Whether every statement only moves an element.
fn copies(program: &Program) -> bool {
    program.stages.iter().all(|stage| match stage {
        Stage::Compute(c) => c.reduce.is_none() && matches!(c.value.kind(), ExKind::Load(..)),
        Stage::Nest(body) => statements(body).all(|s| match s {
            Stmt::Store { value, .. } => matches!(value.kind(), ExKind::Load(..)),
            Stmt::For { .. } | Stmt::Alloc { .. } => true,
            _ => false,
        }),
    })
}

/// The program over elements of another type: loads say their type themselves.
fn retyped(program: &mut Program) -> Option<&Program> {
    for stage in &mut program.stages {
        let new = |e: &Ex| match e.kind() {
            ExKind::Load(buf, index) => {
                Some(Ex::new(ExKind::Load(*buf, index.clone()), DType::I64))
            }
            _ => None,
        };
        match stage {
            Stage::Compute(c) => c.value = new(&c.value)?,
            Stage::Nest(body) => {
                let mut open: Vec<&mut Stmt> = body.iter_mut().collect();
                while let Some(s) = open.pop() {
                    match s {
                        Stmt::Store { value, .. } => *value = new(value)?,
                        Stmt::For { body, .. } => open.extend(body.iter_mut()),
                        _ => {}
                    }
                }
            }
        }
    }
    Some(program)
}

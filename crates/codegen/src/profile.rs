//! The arithmetic work of a kernel, as a number computed where it is called.
//!
//! Every arithmetic operation on an element counts as one; index arithmetic and conditions do not
//! count. Loops whose extents depend on data or on other loops count once.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::FunctionBuilder;
use relax_loops::{Ex, ExKind, Program, Stage, Stmt, Var, visit_expr};
use rustc_hash::FxHashMap;

use crate::env::Env;
use crate::scalar::Scalars;
use relax_tensor::DType;

/// Offset of the extents' address in a tensor.
const SHAPE: i32 = std::mem::offset_of!(relax_runtime::object::RxTensor, shape) as i32;

/// Returns the number of operations in one evaluation of an expression, without index arithmetic
/// and conditions (of padding, say).
fn operations(e: &Ex) -> i64 {
    let mut n = 0;
    visit_expr(e, |x| {
        n += i64::from(
            matches!(x.kind(), ExKind::Unary(..) | ExKind::Binary(..))
                && x.dtype() != DType::I64
                && !x.dtype().is_bool(),
        );
    });
    n
}

/// Returns the terms of the work: a number of operations per element of an index domain.
fn terms(p: &Program) -> Vec<(i64, Vec<Ex>)> {
    let mut found = Vec::new();
    for stage in &p.stages {
        match stage {
            Stage::Compute(c) => {
                let mut extents = p.bufs[c.out].shape.clone();
                let mut n = operations(&c.value);
                if let Some(r) = &c.reduce {
                    extents.extend(r.axes.iter().map(|a| a.1.clone()));
                    n += 1;
                }
                found.push((n, extents));
            }
            Stage::Nest(body) => {
                let mut work: Vec<(&Stmt, Vec<Ex>)> =
                    body.iter().map(|s| (s, Vec::new())).collect();
                while let Some((s, around)) = work.pop() {
                    let mut inside = around.clone();
                    match s {
                        Stmt::For { extent, .. } => inside.push(extent.clone()),
                        Stmt::Store { value, .. } | Stmt::Let { value, .. } => {
                            found.push((operations(value), around));
                        }
                        _ => {}
                    }
                    let blocks = s.bodies().into_iter().flatten();
                    work.extend(blocks.map(|s| (s, inside.clone())));
                }
            }
        }
    }
    found.retain(|t| t.0 > 0);
    found
}

/// Emits the number of operations of a call on these tensors.
pub(crate) fn flops(
    b: &mut FunctionBuilder<'_>,
    env: &mut Env<'_>,
    p: &Program,
    inputs: &[Value],
) -> Value {
    let mut dims: FxHashMap<Var, Value> = FxHashMap::default();
    for (&buf, &tensor) in p.inputs.iter().zip(inputs) {
        for (axis, e) in p.bufs[buf].shape.iter().enumerate() {
            if let ExKind::Var(v) = e.kind()
                && !dims.contains_key(v)
            {
                let flags = MemFlagsData::trusted();
                let shape = b.ins().load(types::I64, flags, tensor, SHAPE);
                let found = b.ins().load(types::I64, flags, shape, 8 * axis as i32);
                dims.insert(*v, found);
            }
        }
    }
    let mut total = b.ins().iconst(types::I64, 0);
    for (n, extents) in terms(p) {
        let mut product = b.ins().iconst(types::I64, n);
        for e in &extents {
            if let Some(v) = extent(b, env, &dims, e) {
                product = b.ins().imul(product, v);
            }
        }
        total = b.ins().iadd(total, product);
    }
    total
}

/// Returns an extent over dimensions; `None` where it depends on anything else. Extents are
/// shallow, and deeper ones are omitted.
fn extent(
    b: &mut FunctionBuilder<'_>,
    env: &mut Env<'_>,
    dims: &FxHashMap<Var, Value>,
    e: &Ex,
) -> Option<Value> {
    fn go(
        b: &mut FunctionBuilder<'_>,
        env: &mut Env<'_>,
        dims: &FxHashMap<Var, Value>,
        e: &Ex,
        depth: u32,
    ) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        match e.kind() {
            ExKind::Int(v) => Some(b.ins().iconst(types::I64, *v)),
            ExKind::Var(v) => dims.get(v).copied(),
            ExKind::Binary(op, x, y) if e.dtype() == DType::I64 => {
                let (x, y) = (go(b, env, dims, x, depth)?, go(b, env, dims, y, depth)?);
                Scalars { b, env }.binary(*op, DType::I64, x, y)
            }
            _ => None,
        }
    }
    go(b, env, dims, e, 16)
}

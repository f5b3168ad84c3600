//! `plan-memory`: places the results of tensor programs in memory. A result that does not outlive
//! its scope gets a location in a block of memory, and blocks whose tensors are dead are reused.
//!
//! The form is the RFC's: `memory.alloc_storage` creates a block, `memory.alloc_tensor` a tensor in
//! it, `call_tir_inplace` runs a tensor program that writes it, and `memory.kill` ends tensors and
//! blocks after their last use. These have effects, so dataflow blocks are opened and every
//! operation is bound, in order.
//!
//! Other results are left to `call_tir`, which allocates them: results that a function returns or a
//! closure captures, and operands of anything that may retain them (calls of functions, cells, data
//! values, packed functions).
//!
//! Invariant: tensors with overlapping live ranges never share a byte. The evaluator follows every
//! plan and rejects reads of overwritten tensors, so a wrong plan does not go unnoticed.

mod blocks;
mod lives;

use relax_base::{Diagnostics, Span};
use relax_infer::Typing;
use relax_ir::{AttrValue, Attrs, Expr, ExprId, Memo, Module, OpId, Type, VarId, VarStyle};
use relax_ops::{Lowering, registry};
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use self::blocks::{Blocks, Plan};
use self::lives::Lives;
use super::normalize::bind_operations;
use crate::util::{is_external, is_primitive, let_chain, outside_primitives, rewrite_chains};
use crate::{Contract, PassCx, PassDef};

/// The pass.
pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "plan-memory",
    doc: "Places results of tensor programs in blocks of memory that are used again.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

/// The alignment of blocks: that of the runtime's tensors.
const ALIGNMENT: i64 = 64;

/// The operators that express the plan.
struct Ops {
    storage: ExprId,
    tensor: ExprId,
    call: ExprId,
    kill: ExprId,
}

/// Returns the operator with this lowering.
fn operator(lowering: Lowering) -> Option<OpId> {
    let mut all = registry().iter();
    all.find(|(_, d)| d.hooks.lowering == lowering)
        .map(|(id, _)| id)
}

pub(crate) fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let fresh = bind_operations(cx, is_external, false);
    let typing = cx.typing()?;
    let [
        Some(call_tir),
        Some(storage),
        Some(tensor),
        Some(call),
        Some(kill),
    ] = [
        Lowering::CallTir,
        Lowering::AllocStorage,
        Lowering::AllocTensor,
        Lowering::CallTirInplace,
        Lowering::Kill,
    ]
    .map(operator)
    else {
        return Ok(());
    };
    let found = cx.functions(|m, func, body| {
        let function = &m.funcs[func];
        let planned = !is_primitive(function) && !is_external(function);
        planned.then(|| (body, Lives::new(m, &typing, func, call_tir)))
    });
    let m = &mut *cx.module;
    let mut op = |id| m.add(Expr::Op(id), Span::NONE);
    let ops = Ops {
        storage: op(storage),
        tensor: op(tensor),
        call: op(call),
        kill: op(kill),
    };
    let mut planner = Planner {
        typing: &typing,
        ops,
        fresh,
        tensors: 0,
        blocks: 0,
        saved: 0,
        shared: 0,
    };
    for (global, found) in found {
        if let Some((body, lives)) = found {
            let new = planner.body(m, body, &lives);
            m.set_global_body(global, new);
        }
    }
    let Planner {
        tensors,
        blocks,
        saved,
        shared,
        ..
    } = planner;
    cx.count("tensors placed", tensors);
    cx.count("blocks of memory", blocks);
    cx.count("bytes saved, of known extents", saved);
    cx.count("tensors of symbolic extents in used blocks", shared);
    Ok(())
}

struct Planner<'t> {
    typing: &'t Typing,
    ops: Ops,
    fresh: VarId,
    tensors: u64,
    blocks: u64,
    saved: u64,
    shared: u64,
}

impl Planner<'_> {
    fn body(&mut self, m: &mut Module, body: ExprId, lives: &Lives) -> ExprId {
        let order = outside_primitives(m, body);
        rewrite_chains(m, &order, |m, head, memo| self.chain(m, head, lives, memo))
    }

    /// Rewrites a scope: its bindings, with allocations and kills around them.
    fn chain(&mut self, m: &mut Module, head: ExprId, lives: &Lives, memo: &Memo) -> ExprId {
        let (bindings, at) = let_chain(m, head);
        let plan = Blocks::plan(lives.of_chain(head));
        self.count(&plan);
        let mut out: Vec<(VarId, ExprId)> = Vec::new();
        let mut storages: FxHashMap<usize, ExprId> = FxHashMap::default();
        for (i, &(var, value)) in bindings.iter().enumerate() {
            let span = m.span(value);
            if !matches!(m.exprs[value], Expr::Func(_)) && m.vars[var].style == VarStyle::Let {
                // A closure that refers to itself can only be bound by a `let`.
                m.vars[var].style = VarStyle::Binding;
            }
            if var >= self.fresh {
                m.vars[var].name = "lv".into();
            }
            let mut places = Vec::new();
            for &t in plan.begin.get(&i).into_iter().flatten() {
                let tensor = &plan.tensors[t];
                let block = &plan.blocks[tensor.block];
                let storage = match storages.get(&tensor.block) {
                    Some(&e) => e,
                    None => {
                        let e = self.storage(m, block, span, &mut out);
                        storages.insert(tensor.block, e);
                        e
                    }
                };
                places.push((t, self.place(m, tensor, storage, span, &mut out)));
            }
            let new = match places.is_empty() {
                true => memo[&value],
                false => self.call(m, value, &places, memo),
            };
            out.push((var, new));
            for (t, place) in places {
                storages.insert(plan.key(t), place);
            }
            for &t in plan.end.get(&i).into_iter().flatten() {
                let place = storages[&plan.key(t)];
                self.kill(m, place, span, &mut out);
                let block = plan.tensors[t].block;
                if plan.blocks[block].last == t {
                    let storage = storages[&block];
                    self.kill(m, storage, span, &mut out);
                }
            }
        }
        let body = memo[&at];
        out.into_iter().rev().fold(body, |body, (var, value)| {
            let span = m.span(value);
            m.add(Expr::Let { var, value, body }, span)
        })
    }

    fn count(&mut self, plan: &Plan) {
        self.tensors += plan.tensors.len() as u64;
        self.blocks += plan.blocks.len() as u64;
        let known = |d: &relax_sym::Dim| d.as_const().and_then(|n| u64::try_from(n).ok());
        let wanted: u64 = plan.tensors.iter().filter_map(|t| known(&t.size)).sum();
        let taken: u64 = plan.blocks.iter().filter_map(|b| known(&b.size)).sum();
        self.saved += wanted.saturating_sub(taken);
        let symbolic = |d: &relax_sym::Dim| known(d).is_none();
        let tensors = plan.tensors.iter().filter(|t| symbolic(&t.size)).count();
        let blocks = plan.blocks.iter().filter(|b| symbolic(&b.size)).count();
        self.shared += (tensors - blocks) as u64;
    }

    /// Binds a new variable.
    fn bind(m: &mut Module, name: &str, value: ExprId, out: &mut Vec<(VarId, ExprId)>) -> ExprId {
        let (var, reference) = m.fresh_var(name, None, VarStyle::Binding);
        out.push((var, value));
        reference
    }

    fn storage(
        &self,
        m: &mut Module,
        block: &blocks::Block,
        span: Span,
        out: &mut Vec<(VarId, ExprId)>,
    ) -> ExprId {
        let size = m.add(Expr::Shape([block.size.clone()].into()), span);
        let alignment = m.constant(Tensor::scalar_i64(DType::I64, ALIGNMENT), span);
        let mut attrs = Attrs::new();
        attrs.set("dtype", AttrValue::DType(block.dtype));
        attrs.set("virtual_device", AttrValue::None);
        let value = m.call_attrs(self.ops.storage, &[size, alignment], attrs, span);
        Self::bind(m, "storage", value, out)
    }

    fn place(
        &self,
        m: &mut Module,
        tensor: &blocks::Placed,
        storage: ExprId,
        span: Span,
        out: &mut Vec<(VarId, ExprId)>,
    ) -> ExprId {
        let offset = m.constant(Tensor::scalar_i64(DType::I64, 0), span);
        let shape = m.add(Expr::Shape(tensor.dims.clone()), span);
        let mut attrs = Attrs::new();
        attrs.set("dtype", AttrValue::DType(tensor.dtype));
        attrs.set("const_shape", AttrValue::None);
        attrs.set("assert_shape", AttrValue::None);
        let value = m.call_attrs(self.ops.tensor, &[storage, offset, shape], attrs, span);
        Self::bind(m, "tensor", value, out)
    }

    fn kill(&self, m: &mut Module, what: ExprId, span: Span, out: &mut Vec<(VarId, ExprId)>) {
        let value = m.call(self.ops.kill, &[what], span);
        let (var, _) = m.fresh_var("_", None, VarStyle::Effect);
        out.push((var, value));
    }

    /// Creates the call of a tensor program that writes into these tensors.
    fn call(&self, m: &mut Module, old: ExprId, places: &[(usize, ExprId)], memo: &Memo) -> ExprId {
        let span = m.span(old);
        let Expr::Call { args, .. } = m.exprs[old] else {
            unreachable!("only calls are planned")
        };
        let args = m.list(args).to_vec();
        let (program, given) = (memo[&args[0]], args[1]);
        let new = memo[&given];
        let mut tensors = match (&m.exprs[new], &m.types[self.type_of(m, given)]) {
            (Expr::Tuple(list), _) => m.list(*list).to_vec(),
            (_, Type::Tuple(fields)) => (0..fields.len() as u32)
                .map(|index| m.add(Expr::Proj { tuple: new, index }, span))
                .collect(),
            _ => vec![new],
        };
        let first = tensors.len() as i64;
        tensors.extend(places.iter().map(|p| p.1));
        let indices: Vec<i64> = (first..tensors.len() as i64).collect();
        let tensors = m.tuple(&tensors, span);
        let mut attrs = Attrs::new();
        attrs.set("inplace_indices", AttrValue::ints(&indices));
        m.call_attrs(self.ops.call, &[program, tensors], attrs, span)
    }

    fn type_of(&self, m: &Module, e: ExprId) -> relax_ir::TypeId {
        self.typing.type_of(m, e)
    }
}

/// Returns the size of an element in memory, in bytes.
fn element(dtype: DType) -> Option<i64> {
    let size = dtype.size() as i64;
    (size > 0).then_some(size)
}

//! `expand-op-items`: writes calls of `op` items by built-in operators.
//!
//! An item whose computation is element by element is an expression over the elements of its
//! arguments, and each function in it is what some built-in operator computes. The other passes
//! know the built-in operators (their gradients, layouts and forms in other systems), of an item
//! only its computation.

use std::sync::OnceLock;

use relax_base::{Diagnostics, Span};
use relax_ir::{AttrValue, Attrs, ExprId, Module, OpId};
use relax_loops::{BinOp, Buf, Compute, Ex, ExKind, Program, Stage, UnOp, Var};
use relax_ops::{Fusion, OpDef, TensorInfo, registry};
use relax_programs::{Call, Operator, Request};
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::edit::Edit;
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "expand-op-items",
    doc: "Writes calls of `op` items that compute element by element by built-in operators.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run: |cx| expand(cx, |_, _| true),
}];

/// Expands the calls of a module of those operators that `wanted` names.
///
/// # Errors
/// The module has type errors.
pub(crate) fn expand(
    cx: &mut PassCx<'_>,
    wanted: impl Fn(&Module, OpId) -> bool,
) -> Result<(), Diagnostics> {
    if cx.module.user_ops.is_empty() {
        return Ok(());
    }
    let typing = cx.typing()?;
    let count = Edit::new(cx.module, &typing).replace(|edit, node| {
        let (op, ..) = edit.applied(node)?;
        wanted(edit.m, op).then(|| expanded(edit, node))?
    });
    cx.count("calls expanded", count);
    Ok(())
}

/// Returns the value of a call of an `op` item by built-in operators; `None` where the node is none
/// or computes something else than an expression over the elements at one index.
fn expanded(edit: &mut Edit<'_>, node: ExprId) -> Option<ExprId> {
    let (program, args) = {
        let (op, args, attrs) = edit.applied(node)?;
        let args = args.to_vec();
        let call = Call {
            m: edit.m,
            op: Operator::Item(edit.m.user_op(op)?),
            args: args.iter().map(|&a| edit.ty(a)).collect(),
            out: edit.ty(node),
            attrs: edit.m.attrs(attrs),
            consts: Vec::new(),
            span: edit.m.span(node),
        };
        (call.program().ok()?.program, args)
    };
    let [Stage::Compute(compute)] = &program.stages[..] else {
        return None;
    };
    if compute.reduce.is_some() || program.outputs[..] != [compute.out] {
        return None;
    }
    let span = edit.m.span(node);
    let value = Expansion {
        edit: &mut *edit,
        program: &program,
        axes: &compute.axes,
        args: &args,
        span,
        made: FxHashMap::default(),
        casts: FxHashMap::default(),
    }
    .value(compute)?;
    // An expression that leaves out an argument's axes would have to be broadcast.
    edit.same_type(value, node).then_some(value)
}

struct Expansion<'x, 'm> {
    edit: &'x mut Edit<'m>,
    program: &'x Program,
    axes: &'x [Var],
    args: &'x [ExprId],
    span: Span,
    /// What was made of a part, by its address: parts that are shared are computed once.
    made: FxHashMap<*const ExKind, ExprId>,
    /// The conversions of each value: those of one argument are one.
    casts: FxHashMap<(ExprId, DType), ExprId>,
}

impl Expansion<'_, '_> {
    fn value(&mut self, compute: &Compute) -> Option<ExprId> {
        let key = |e: &Ex| std::ptr::from_ref(e.kind());
        let mut work = vec![(compute.value.clone(), false)];
        while let Some((e, ready)) = work.pop() {
            if self.made.contains_key(&key(&e)) {
                continue;
            }
            if !ready {
                work.push((e.clone(), true));
                if !matches!(e.kind(), ExKind::Load(..)) {
                    work.extend(e.children().map(|c| (c.clone(), false)));
                }
                continue;
            }
            let parts = match e.kind() {
                ExKind::Load(..) => Vec::new(),
                _ => e.children().map(|c| self.made[&key(c)]).collect(),
            };
            let made = self.node(&e, &parts)?;
            self.made.insert(key(&e), made);
        }
        self.made.get(&key(&compute.value)).copied()
    }

    /// Returns one function over its operands.
    fn node(&mut self, e: &Ex, parts: &[ExprId]) -> Option<ExprId> {
        let dtype = e.dtype();
        match e.kind() {
            ExKind::Int(v) => Some(self.constant(Tensor::scalar_i64(dtype, *v))),
            ExKind::Float(v) => Some(self.constant(Tensor::scalar_f64(dtype, *v))),
            ExKind::Load(buf, index) => self.argument(*buf, index),
            ExKind::Unary(op, _) => Some(self.call(operators().unary.get(op)?, parts)),
            ExKind::Binary(op, ..) => Some(self.call(operators().binary.get(op)?, parts)),
            ExKind::Select(..) => Some(self.call("where", parts)),
            ExKind::Cast(_) => {
                let (edit, span) = (&mut *self.edit, self.span);
                let cast = self.casts.entry((parts[0], dtype));
                Some(*cast.or_insert_with(|| edit.cast(parts[0], dtype, span)))
            }
            ExKind::Reinterpret(_) => {
                let dtype = [("dtype", AttrValue::DType(dtype))];
                Some(self.edit.call("reinterpret", parts, &dtype, self.span))
            }
            // An index or an extent.
            ExKind::Var(_) => None,
        }
    }

    fn constant(&mut self, value: Tensor) -> ExprId {
        self.edit.constant(value, self.span)
    }

    fn call(&mut self, name: &'static str, parts: &[ExprId]) -> ExprId {
        self.edit.call(name, parts, &[], self.span)
    }

    /// Returns the argument whose element is read, if it is the one at the index of the result, or
    /// at its last axes, which broadcasting aligns.
    fn argument(&self, buf: Buf, index: &[Ex]) -> Option<ExprId> {
        let at = self.program.inputs.iter().position(|&b| b == buf)?;
        let skipped = self.axes.len().checked_sub(index.len())?;
        let aligned = |(i, v): (&Ex, &Var)| matches!(i.kind(), ExKind::Var(x) if x == v);
        let all = index.iter().zip(&self.axes[skipped..]).all(aligned);
        all.then(|| self.args[at])
    }
}

/// The built-in operators that compute one scalar function of their operands' elements.
#[derive(Default)]
struct Operators {
    unary: FxHashMap<UnOp, &'static str>,
    binary: FxHashMap<BinOp, &'static str>,
}

/// Returns the operators by the function that they compute: their own computations say it.
fn operators() -> &'static Operators {
    static OPERATORS: OnceLock<Operators> = OnceLock::new();
    OPERATORS.get_or_init(|| {
        let mut found = Operators::default();
        let defs = || registry().iter().map(|(_, def)| def);
        let approximate: Vec<&str> = defs().filter_map(|d| d.hooks.fast_form).collect();
        for def in defs().filter(|d| d.attrs.is_empty() && !approximate.contains(&d.name)) {
            for dtype in [DType::F32, DType::I32, DType::BOOL] {
                match scalar_function(def, dtype) {
                    Some(Scalar::Unary(op)) => {
                        found.unary.entry(op).or_insert(def.name);
                    }
                    Some(Scalar::Binary(op)) => {
                        found.binary.entry(op).or_insert(def.name);
                    }
                    None => {}
                }
            }
        }
        found
    })
}

enum Scalar {
    Unary(UnOp),
    Binary(BinOp),
}

/// Returns the function that an operator computes on scalars of an element type, if it is but one
/// of its operands in order.
fn scalar_function(def: &'static OpDef, dtype: DType) -> Option<Scalar> {
    let count = def.inputs.len();
    if !(1..=2).contains(&count) || !matches!(def.fusion, Fusion::Elementwise | Fusion::Broadcast) {
        return None;
    }
    let info = || TensorInfo {
        dtype,
        shape: Vec::new(),
    };
    let request = Request {
        op: def,
        args: &vec![vec![info()]; count],
        consts: vec![None; count],
        attrs: &Attrs::default(),
        outs: &[info()],
    };
    let program = request.program(|_| {}).ok()?.program;
    let [Stage::Compute(compute)] = &program.stages[..] else {
        return None;
    };
    let input =
        |e: &Ex, k: usize| matches!(e.kind(), ExKind::Load(b, _) if *b == program.inputs[k]);
    match compute.value.kind() {
        ExKind::Unary(op, x) if count == 1 && input(x, 0) => Some(Scalar::Unary(*op)),
        ExKind::Binary(op, x, y) if count == 2 && input(x, 0) && input(y, 1) => {
            Some(Scalar::Binary(*op))
        }
        _ => None,
    }
}

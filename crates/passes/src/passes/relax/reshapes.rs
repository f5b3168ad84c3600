//! `rewrite-dataflow-reshape`: replaces calls of tensor programs that only change a tensor's shape
//! by `reshape`.
//!
//! Only inside dataflow blocks, where the result can share the operand's memory; outputs of a block
//! are kept. Such a program is recognised by its index expressions, or else by running it on the
//! sequence of element numbers.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, Expr, ExprId, GlobalId, GlobalKind, TypeId};
use relax_loops::{Buf, Digits, Ex, ExKind, Program, Stage, Stmt, Var, statements, substitute};
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

/// Larger tensors are skipped.
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

/// Returns whether a program copies its operand's elements in order.
fn is_reshape(program: &Program, from: &Extents, to: &Extents) -> bool {
    let count: i64 = from.0.iter().product();
    let fits =
        from.1 == to.1 && count == to.0.iter().product::<i64>() && (1..=MOST).contains(&count);
    if !fits || program.inputs.len() != 1 || program.outputs.len() != 1 || !copies(program) {
        return false;
    }
    if let Some(same) = Each::of(program, from, to).and_then(|each| each.in_order(from, to)) {
        return same;
    }
    // Run it on the elements' numbers instead, as 64-bit integers.
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

/// A program that writes each output element once: the load that it writes, over loops with known
/// extents.
struct Each {
    loops: Vec<(Var, i64)>,
    written: Vec<Ex>,
    /// The buffer that is read, and where.
    from: Buf,
    read: Vec<Ex>,
    /// What dimension variables are.
    dims: Vec<(Var, i64)>,
}

impl Each {
    /// A program of any number of stages, each of which moves what another gave.
    fn of(program: &Program, from: &Extents, to: &Extents) -> Option<Each> {
        let (input, output) = (*program.inputs.first()?, *program.outputs.first()?);
        let dims = program.bufs[input].shape.iter().zip(&from.0);
        let dims: Vec<(Var, i64)> = dims.filter_map(|(e, &n)| Some((variable(e)?, n))).collect();
        let (mut whole, mut at) = Each::set(program, program.stages.len(), output, &to.0, &dims)?;
        while whole.from != input {
            let shape = program.bufs[whole.from].shape.iter();
            let shape: Option<Vec<i64>> = shape.map(|e| constant(e, &dims)).collect();
            let before;
            (before, at) = Each::set(program, at, whole.from, &shape?, &dims)?;
            whole = whole.after(&before)?;
        }
        (whole.read.len() == from.0.len()).then_some(whole)
    }

    /// The last stage, and where it is, before one that sets a buffer.
    fn set(
        program: &Program,
        end: usize,
        buf: Buf,
        extents: &[i64],
        dims: &[(Var, i64)],
    ) -> Option<(Each, usize)> {
        let sets = |stage: &Stage| match stage {
            Stage::Compute(c) => c.out == buf,
            Stage::Nest(body) => {
                statements(body).any(|s| matches!(s, Stmt::Store { buf: b, .. } if *b == buf))
            }
        };
        let mut found = program.stages[..end]
            .iter()
            .enumerate()
            .filter(|s| sets(s.1));
        let (at, stage) = found.next()?;
        let (loops, written, value) = match stage {
            Stage::Compute(c) if c.axes.len() == extents.len() => {
                let loops = c.axes.iter().copied().zip(extents.iter().copied());
                let written = c.axes.iter().map(|a| Ex::var(*a, DType::I64));
                (loops.collect(), written.collect(), &c.value)
            }
            Stage::Compute(_) => return None,
            Stage::Nest(body) => {
                let (mut loops, mut body) = (Vec::new(), body);
                loop {
                    match &body[..] {
                        [
                            Stmt::For {
                                var,
                                extent,
                                body: inner,
                                ..
                            },
                        ] => {
                            loops.push((*var, constant(extent, dims)?));
                            body = inner;
                        }
                        [Stmt::Store { index, value, .. }] if index.len() == extents.len() => {
                            break (loops, index.clone(), value);
                        }
                        _ => return None,
                    }
                }
            }
        };
        let ExKind::Load(from, read) = value.kind() else {
            return None;
        };
        let each = Each {
            loops,
            written,
            from: *from,
            read: read.to_vec(),
            dims: dims.to_vec(),
        };
        let alone = found.next().is_none() && each.writes_all(extents);
        alone.then_some((each, at))
    }

    /// Returns what it reads for each element where a stage before it set the buffer that it reads.
    fn after(self, before: &Each) -> Option<Each> {
        if self.read.len() != before.written.len() {
            return None;
        }
        let axis = |v: Var| before.written.iter().position(|w| variable(w) == Some(v));
        // A loop over no axis of the buffer turns once.
        let at = |v: Var| match axis(v) {
            Some(axis) => Some(self.read[axis].clone()),
            None => before.loops.iter().any(|l| l.0 == v).then(|| Ex::idx(0)),
        };
        let read = before.read.iter().map(|e| substitute(e, &at)).collect();
        Some(Each {
            from: before.from,
            read,
            ..self
        })
    }

    /// Returns whether each axis of the output has a loop that covers it.
    fn writes_all(&self, to: &[i64]) -> bool {
        let mut open = self.loops.clone();
        let axes = self.written.iter().zip(to).all(|(e, n)| {
            let own = |v: Var| open.iter().position(|l| *l == (v, *n));
            match variable(e).and_then(own) {
                Some(k) => {
                    open.swap_remove(k);
                    true
                }
                None => *n == 1 && e.as_int() == Some(0),
            }
        });
        axes && open.iter().all(|l| l.1 == 1)
    }

    /// Returns whether the elements keep their order; `None` if the indices do not tell.
    fn in_order(&self, from: &Extents, to: &Extents) -> Option<bool> {
        if self.moves(from, to) {
            return Some(false);
        }
        let extent = |v: Var| self.loops.iter().find(|l| l.0 == v).map(|l| l.1);
        let of = |e: &Ex| substitute(e, &|v| known(v, &self.dims));
        let read: Vec<Ex> = self.read.iter().map(of).collect();
        let read = Digits::number_of(&read, &from.0, &extent)?;
        let written = Digits::number_of(&self.written, &to.0, &extent)?;
        (read == written).then_some(true)
    }

    /// Returns whether the last element, or the second one along an axis, is moved. This rejects
    /// most programs.
    fn moves(&self, from: &Extents, to: &Extents) -> bool {
        let mut points = vec![self.loops.iter().map(|l| l.1 - 1).collect::<Vec<i64>>()];
        for axis in (0..self.loops.len()).filter(|&a| self.loops[a].1 > 1) {
            let mut second = vec![0; self.loops.len()];
            second[axis] = 1;
            points.push(second);
        }
        points.iter().any(|point| {
            let at = |v| match self.loops.iter().position(|l| l.0 == v) {
                Some(axis) => Some(Ex::idx(point[axis])),
                None => known(v, &self.dims),
            };
            let number = |extents: &[i64], index: &[Ex]| {
                let mut pairs = extents.iter().zip(index);
                pairs.try_fold(0i64, |n, (extent, e)| {
                    let i = substitute(e, &at).as_int()?;
                    n.checked_mul(*extent)?.checked_add(i)
                })
            };
            let (read, written) = (number(&from.0, &self.read), number(&to.0, &self.written));
            read.zip(written).is_some_and(|(a, b)| a != b)
        })
    }
}

fn variable(e: &Ex) -> Option<Var> {
    match e.kind() {
        ExKind::Var(v) => Some(*v),
        _ => None,
    }
}

fn known(v: Var, dims: &[(Var, i64)]) -> Option<Ex> {
    let found = dims.iter().find(|d| d.0 == v)?;
    Some(Ex::idx(found.1))
}

fn constant(e: &Ex, dims: &[(Var, i64)]) -> Option<i64> {
    substitute(e, &|v| known(v, dims)).as_int()
}

/// Returns whether every statement only copies an element.
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

/// Changes the program's element type; loads carry their own type.
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

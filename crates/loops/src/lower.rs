//! Lowering of computations over indices to loop nests, and the fusion of one computation into
//! another.

use relax_base::Id;
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::rewrite::{map_expr, map_stmts, substitute, visit_expr};
use crate::{Buf, Compute, Ex, ExKind, Mark, Program, Role, Stage, Stmt, Var, statements};

/// Lowers a stage to a loop nest: one loop per axis of the output, then one per axis of the
/// reduction. A nest is unchanged.
///
/// Where every extent of a reduction is a positive constant, its initial value is an
/// [`Stmt::Init`], so that loops may be reordered around it; otherwise a store before the
/// reduction's loops, which is also right for empty domains.
pub fn lower_stage(program: &Program, stage: &Stage) -> Vec<Stmt> {
    let c = match stage {
        Stage::Nest(body) => return body.clone(),
        Stage::Compute(c) => c,
    };
    let index: Vec<Ex> = c.axes.iter().map(|v| Ex::var(*v, DType::I64)).collect();
    let dtype = program.bufs[c.out].dtype;
    let store = |value: Ex| Stmt::Store {
        buf: c.out,
        index: index.clone(),
        value,
    };
    let mut body = match &c.reduce {
        None => vec![store(c.value.clone())],
        Some(r) => {
            let so_far = Ex::new(ExKind::Load(c.out, index.clone()), dtype);
            let update = store(so_far.binary(r.combiner.op(), &c.value));
            let start = store(r.combiner.identity(dtype));
            let never_empty = r.axes.iter().all(|a| a.1.as_int().is_some_and(|n| n > 0));
            if never_empty {
                let over = r.axes.iter().map(|a| a.0).collect();
                let init = Stmt::Init {
                    over,
                    body: vec![start],
                };
                loops(&r.axes, vec![init, update])
            } else {
                let mut all = vec![start];
                all.extend(loops(&r.axes, vec![update]));
                all
            }
        }
    };
    let extents = &program.bufs[c.out].shape;
    let axes: Vec<(Var, Ex)> = c
        .axes
        .iter()
        .copied()
        .zip(extents.iter().cloned())
        .collect();
    body = loops(&axes, body);
    body
}

fn loops(axes: &[(Var, Ex)], mut body: Vec<Stmt>) -> Vec<Stmt> {
    for (var, extent) in axes.iter().rev() {
        body = vec![Stmt::For {
            var: *var,
            extent: extent.clone(),
            mark: Mark::Serial,
            body,
        }];
    }
    body
}

/// Why a computation cannot be inlined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoInline {
    /// The stage is a loop nest or a reduction.
    NotInjective,
    /// Its buffer is an output, and has to exist.
    Output,
    /// Another stage writes its buffer too.
    WrittenAgain,
    /// The extents of another buffer depend on its elements.
    Extent,
    /// A later stage overwrites what it reads, before the last use.
    Overwritten,
}

/// Returns the buffers that an expression reads.
pub(crate) fn reads(e: &Ex, into: &mut FxHashSet<Buf>) {
    visit_expr(e, |e| {
        if let ExKind::Load(buf, _) = e.kind() {
            into.insert(*buf);
        }
    });
}

/// Returns the buffers that a stage writes, and those that it reads.
pub(crate) fn accesses(stage: &Stage) -> (Vec<Buf>, FxHashSet<Buf>) {
    let mut read = FxHashSet::default();
    match stage {
        Stage::Compute(c) => {
            reads(&c.value, &mut read);
            for (_, extent) in c.reduce.iter().flat_map(|r| &r.axes) {
                reads(extent, &mut read);
            }
        }
        Stage::Nest(body) => {
            for e in statements(body).flat_map(Stmt::exprs) {
                reads(e, &mut read);
            }
        }
    }
    let written = match stage {
        Stage::Compute(c) => vec![c.out],
        Stage::Nest(body) => crate::exec::written(body),
    };
    (written, read)
}

/// Returns the temporary buffers that some stage uses; fusion leaves unused ones behind.
pub fn used_temps(program: &Program) -> Vec<Buf> {
    let mut used = FxHashSet::default();
    for stage in &program.stages {
        let (written, read) = accesses(stage);
        used.extend(written);
        used.extend(read);
    }
    let temps = program.bufs.iter().filter(|(_, b)| b.role == Role::Temp);
    temps
        .map(|(id, _)| id)
        .filter(|b| used.contains(b))
        .collect()
}

/// Returns whether a stage reads a buffer.
pub fn reads_buffer(stage: &Stage, buf: Buf) -> bool {
    accesses(stage).1.contains(&buf)
}

/// The buffers that each stage of a program reads and writes, kept up to date while its computations
/// are fused: the readers of a buffer are searched among these stages only.
#[derive(Clone, Debug)]
pub struct Readers {
    read: Vec<FxHashSet<Buf>>,
    written: Vec<Vec<Buf>>,
    /// The buffers that extents of buffers depend on.
    in_extents: FxHashSet<Buf>,
}

impl Readers {
    /// The readers of a program's buffers.
    pub fn of(program: &Program) -> Readers {
        let (written, read) = program.stages.iter().map(accesses).unzip();
        let mut in_extents = FxHashSet::default();
        for buffer in program.bufs.values() {
            buffer.shape.iter().for_each(|e| reads(e, &mut in_extents));
        }
        Readers {
            read,
            written,
            in_extents,
        }
    }

    /// The stages that read a buffer, in order.
    pub fn stages(&self, buf: Buf) -> impl Iterator<Item = usize> + '_ {
        let read = self.read.iter().enumerate();
        read.filter(move |r| r.1.contains(&buf)).map(|r| r.0)
    }
}

/// Fuses the computation at stage `producer` into every stage that reads its buffer: each load is
/// replaced by the element's expression, with the load's indices substituted for the axes. The
/// stage is removed; its buffer remains, unused.
///
/// Values do not change: float operations keep their order.
///
/// # Errors
/// Why the computation has to stay.
pub fn inline_compute(program: &mut Program, producer: usize) -> Result<(), NoInline> {
    let mut readers = Readers::of(program);
    inline_compute_into(program, producer, &mut readers)
}

/// Like [`inline_compute`], where the readers are known.
///
/// # Errors
/// Why the computation has to stay.
pub fn inline_compute_into(
    program: &mut Program,
    producer: usize,
    readers: &mut Readers,
) -> Result<(), NoInline> {
    let Some(Stage::Compute(c)) = program.stages.get(producer) else {
        return Err(NoInline::NotInjective);
    };
    if c.reduce.is_some() {
        return Err(NoInline::NotInjective);
    }
    let out = c.out;
    if program.bufs[out].role != Role::Temp {
        return Err(NoInline::Output);
    }
    if readers.in_extents.contains(&out) {
        return Err(NoInline::Extent);
    }
    let sources = readers.read[producer].clone();
    let mut overwritten = false;
    for (k, written) in readers.written.iter().enumerate() {
        if k == producer {
            continue;
        }
        if written.contains(&out) {
            return Err(NoInline::WrittenAgain);
        }
        if k > producer {
            let changes = written.iter().any(|b| sources.contains(b));
            if readers.read[k].contains(&out) && (overwritten || changes) {
                return Err(NoInline::Overwritten);
            }
            overwritten |= changes;
        }
    }
    let Stage::Compute(c) = program.stages[producer].clone() else {
        unreachable!("looked at above")
    };
    program.retain_stages(|k| k != producer);
    readers.read.remove(producer);
    readers.written.remove(producer);
    let after = program.stages.iter_mut().zip(&mut readers.read);
    for (stage, read) in after.skip(producer) {
        if !read.remove(&out) {
            continue;
        }
        read.extend(&sources);
        match stage {
            Stage::Compute(user) => {
                user.value = inlined(&user.value, &c);
                for (_, extent) in user.reduce.iter_mut().flat_map(|r| &mut r.axes) {
                    *extent = inlined(extent, &c);
                }
            }
            Stage::Nest(body) => map_stmts(body, &mut |e| inlined(e, &c)),
        }
    }
    Ok(())
}

/// Returns an expression with what a computation gives in place of its elements.
pub(crate) fn inlined(e: &Ex, c: &Compute) -> Ex {
    map_expr(e, |e| match e.kind() {
        ExKind::Load(buf, index) if *buf == c.out => {
            let of: FxHashMap<Var, &Ex> = c.axes.iter().copied().zip(index).collect();
            Some(substitute(&c.value, &|v| of.get(&v).map(|e| (*e).clone())))
        }
        _ => None,
    })
}

/// Removes dead stages: computations of temporaries without a later use.
pub fn drop_unused(program: &mut Program) {
    let mut live: FxHashSet<Buf> = program.outputs.iter().copied().collect();
    for buffer in program.bufs.values() {
        buffer.shape.iter().for_each(|e| reads(e, &mut live));
    }
    let mut keep = vec![true; program.stages.len()];
    for (k, stage) in program.stages.iter().enumerate().rev() {
        let (written, read) = accesses(stage);
        // A nest may abort the program by an assertion: it stays.
        keep[k] = matches!(stage, Stage::Nest(_)) || written.iter().any(|b| live.contains(b));
        if keep[k] {
            live.extend(read);
        }
    }
    program.retain_stages(|k| keep[k]);
    // A hint is of the stage that writes its buffer.
    let mut left: FxHashSet<Buf> = FxHashSet::default();
    for stage in &program.stages {
        left.extend(accesses(stage).0);
    }
    program.hints.retain(|(b, _)| left.contains(b));
    debug_assert!(
        program
            .outputs
            .iter()
            .all(|b| b.index() < program.bufs.len())
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Combiner, UnOp, execute};
    use relax_tensor::Tensor;

    fn chain() -> Program {
        let mut b = Builder::new("chain");
        let x = b.input("x", DType::F32, &[None, Some(3)]);
        let y = b.compute("y", &x.shape, |i| x.at(i).unary(UnOp::Exp));
        let t = [y.shape[1].clone(), y.shape[0].clone()];
        let z = b.compute("z", &t, |i| {
            y.at(&[i[1].clone(), i[0].clone()]) + y.scalar_at(0)
        });
        let s = b.reduce("s", &t[..1], &t[1..], Combiner::Sum, |i, r| {
            z.at(&[i[0].clone(), r[0].clone()])
        });
        b.output(&s);
        b.program
    }

    impl crate::TensorRef {
        fn scalar_at(&self, k: i64) -> Ex {
            self.at(&vec![Ex::idx(k); self.rank()])
        }
    }

    fn input() -> Tensor {
        Tensor::from_slice(&[2, 3], &[0.5f32, 1.0, -1.0, 2.0, 0.0, 0.25])
    }

    #[test]
    fn fusion_keeps_values() {
        let mut p = chain();
        let before = execute(&p, &[input()]);
        assert_eq!(inline_compute(&mut p, 2), Err(NoInline::NotInjective));
        assert_eq!(inline_compute(&mut p, 1), Ok(()));
        assert_eq!(inline_compute(&mut p, 0), Ok(()));
        assert_eq!(p.stages.len(), 1);
        assert_eq!(execute(&p, &[input()]), before);
    }

    #[test]
    fn what_must_exist_is_not_inlined() {
        let mut b = Builder::new("f");
        let x = b.input("x", DType::F32, &[Some(3)]);
        let y = b.compute("y", &x.shape, |i| x.at(i) + x.at(i));
        b.output(&y);
        assert_eq!(inline_compute(&mut b.program, 0), Err(NoInline::Output));
        let t = b.compute("t", &x.shape, |i| x.at(i));
        b.nest(|n| n.store(&t, &[Ex::idx(0)], 1.0));
        let at = b.program.stages.len() - 2;
        assert_eq!(
            inline_compute(&mut b.program, at),
            Err(NoInline::WrittenAgain)
        );
    }

    #[test]
    fn nests_mean_what_computations_mean() {
        let mut p = chain();
        let before = execute(&p, &[input()]);
        let empty = Tensor::from_slice::<f32>(&[0, 3], &[]);
        p.stages = p
            .stages
            .iter()
            .map(|s| Stage::Nest(lower_stage(&p, s)))
            .collect();
        assert_eq!(execute(&p, &[input()]), before);
        assert_eq!(p.stages.len(), 3);
        // The sum over nothing is 0, whatever the buffer held.
        let mut b = Builder::new("sum");
        let x = b.input("x", DType::F32, &[None, Some(3)]);
        let s = b.reduce("s", &x.shape[1..], &x.shape[..1], Combiner::Max, |i, r| {
            x.at(&[r[0].clone(), i[0].clone()])
        });
        b.output(&s);
        let mut p = b.program;
        let before = execute(&p, std::slice::from_ref(&empty));
        assert_eq!(
            before.as_ref().map(|o| o[0].get_f64(0)),
            Ok(f64::from(f32::MIN))
        );
        p.stages = p
            .stages
            .iter()
            .map(|s| Stage::Nest(lower_stage(&p, s)))
            .collect();
        assert_eq!(execute(&p, &[empty]), before);
    }

    #[test]
    fn unused_stages_go() {
        let mut p = chain();
        let dead = Compute {
            out: Buf(1),
            axes: vec![],
            reduce: None,
            value: Ex::float(DType::F32, 1.0),
        };
        let copy = p.bufs[Buf(1)].clone();
        let buf = p.bufs.push(crate::Buffer {
            shape: vec![],
            ..copy
        });
        p.stages.push(Stage::Compute(Compute { out: buf, ..dead }));
        let product = |a: Buf, b: Buf| crate::Hint::Gemm {
            a,
            b,
            transpose_a: false,
            transpose_b: false,
        };
        p.hints.push((buf, product(Buf(0), Buf(1))));
        p.hints.push((p.outputs[0], product(Buf(0), Buf(1))));
        drop_unused(&mut p);
        assert_eq!(p.stages.len(), 3);
        assert_eq!(p.hints.len(), 1, "of the stages that are left");
        assert_eq!(p.hints[0].0, p.outputs[0]);
    }
}

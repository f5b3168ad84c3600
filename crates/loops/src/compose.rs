//! Composition of programs: side by side over shared buffers, and in sequence.

use relax_base::Id;
use rustc_hash::FxHashMap;

use crate::{
    Buf, Compute, Ex, ExKind, Hint, Program, Reduce, Role, Stage, Stmt, TensorRef, Var, has_loads,
    map_expr, statements, substitute, visit_expr,
};

/// Copies the stages of `part` into `program`, reading `inputs`; returns the outputs. `given` are
/// dimension variables of the part that its inputs may not bind.
pub fn append(
    program: &mut Program,
    part: &Program,
    inputs: &[TensorRef],
    given: FxHashMap<Var, Ex>,
) -> Vec<TensorRef> {
    append_into(program, part, inputs, &[], given)
}

/// Like [`append`], where the first outputs of the part are buffers that the program has: a call in
/// a program's text. Checks that the program makes already are not made again.
pub fn append_into(
    program: &mut Program,
    part: &Program,
    inputs: &[TensorRef],
    outs: &[Buf],
    given: FxHashMap<Var, Ex>,
) -> Vec<TensorRef> {
    let before = program.bufs.len();
    // Chained programs are not parts of a group.
    let number = (program.parts.len() as u32).saturating_sub(1);
    let mut vars: FxHashMap<Var, Ex> = FxHashMap::default();
    // The inputs' extents replace dimension variables.
    for (&buf, t) in part.inputs.iter().zip(inputs) {
        for (e, extent) in part.bufs[buf].shape.iter().zip(&t.shape) {
            if let ExKind::Var(v) = e.kind() {
                vars.entry(*v).or_insert_with(|| extent.clone());
            }
        }
    }
    for (v, extent) in given {
        vars.entry(v).or_insert(extent);
    }
    for (v, info) in part.vars.iter() {
        if vars.contains_key(&v) {
            continue;
        }
        let (new, e) = program.fresh(info.name.as_str(), info.dtype);
        if part.dims.contains(&v) {
            // No input binds it (`newshape=[n, 4]`); an extent of the output may.
            program.dims.push(new);
        }
        vars.insert(v, e);
    }
    let mut bufs: FxHashMap<Buf, Buf> = part
        .inputs
        .iter()
        .zip(inputs)
        .map(|(&b, t)| (b, t.buf))
        .collect();
    for (&b, &out) in part.outputs.iter().zip(outs) {
        bufs.entry(b).or_insert(out);
    }
    // Extents may read buffers: ids first, extents afterwards.
    for (b, buffer) in part.bufs.iter() {
        bufs.entry(b).or_insert_with(|| {
            let mut buffer = buffer.clone();
            if buffer.role == Role::Output {
                buffer.role = Role::Temp;
            }
            program.bufs.push(buffer)
        });
    }
    let map = |e: &Ex| -> Ex {
        map_expr(e, |x| match x.kind() {
            ExKind::Var(v) => vars.get(v).cloned(),
            ExKind::Load(b, ix) => Some(Ex::new(ExKind::Load(bufs[b], ix.clone()), x.dtype())),
            _ => None,
        })
    };
    for (b, buffer) in part.bufs.iter() {
        if bufs[&b].index() >= before {
            program.bufs[bufs[&b]].shape = buffer.shape.iter().map(&map).collect();
        }
    }
    let var = |v: Var| match vars[&v].kind() {
        ExKind::Var(v) => *v,
        _ => unreachable!("only dimension variables stand for extents"),
    };
    for buf in read_by_data(part) {
        program.readers.push((bufs[&buf], number));
    }
    for stage in &part.stages {
        let stage = match stage {
            Stage::Compute(c) => Stage::Compute(Compute {
                out: bufs[&c.out],
                axes: c.axes.iter().map(|&v| var(v)).collect(),
                reduce: c.reduce.as_ref().map(|r| Reduce {
                    axes: r.axes.iter().map(|(v, e)| (var(*v), map(e))).collect(),
                    combiner: r.combiner,
                }),
                value: map(&c.value),
            }),
            Stage::Nest(stmts) => Stage::Nest(
                stmts
                    .iter()
                    .map(|s| statement(s, &map, &var, &bufs, number))
                    .collect(),
            ),
        };
        // Checks of extents come first: they fail before anything is computed, and keep stages
        // adjacent.
        if stage.is_guard() {
            let at = program.stages.iter().take_while(|s| s.is_guard()).count();
            if outs.is_empty() || !checks_already(&program.stages[..at], &stage) {
                program.insert_stage(at, stage);
            }
        } else {
            program.stages.push(stage);
        }
    }
    for (b, hint) in &part.hints {
        program.hints.push((bufs[b], rename(hint, &bufs)));
    }
    part.outputs
        .iter()
        .map(|o| {
            let buffer = &program.bufs[bufs[o]];
            TensorRef {
                buf: bufs[o],
                shape: buffer.shape.clone(),
                dtype: buffer.dtype,
            }
        })
        .collect()
}

/// Returns whether guards check all that another one does.
fn checks_already(guards: &[Stage], guard: &Stage) -> bool {
    fn checks(stage: &Stage) -> &[Stmt] {
        match stage {
            Stage::Nest(body) => body,
            Stage::Compute(_) => &[],
        }
    }
    // Messages show extents by the names that they have in one place or another.
    let same = |a: &Stmt, b: &Stmt| match (a, b) {
        (Stmt::Assert { cond, .. }, Stmt::Assert { cond: other, .. }) => cond == other,
        _ => false,
    };
    let known = |check| guards.iter().flat_map(checks).any(|k| same(k, check));
    checks(guard).iter().all(known)
}

/// One program that runs `first` and then `next`, whose input `at` is the only output of `first`.
/// It reads what `first` reads, followed by the other inputs of `next` in their order. `None` where
/// the extents of an input of `next` are not known beforehand.
pub fn chain(first: &Program, next: &Program, at: usize) -> Option<Program> {
    let [out] = first.outputs[..] else {
        return None;
    };
    let mut program = first.clone();
    program.kernels.clear();
    program.bufs[out].role = Role::Temp;
    program.outputs.clear();
    let between = TensorRef {
        buf: out,
        shape: program.bufs[out].shape.clone(),
        dtype: program.bufs[out].dtype,
    };
    let mut vars: FxHashMap<Var, Ex> = FxHashMap::default();
    for (e, extent) in next.bufs[next.inputs[at]].shape.iter().zip(&between.shape) {
        if let ExKind::Var(v) = e.kind() {
            vars.entry(*v).or_insert_with(|| extent.clone());
        }
    }
    let mut inputs = Vec::with_capacity(next.inputs.len());
    for (k, &buf) in next.inputs.iter().enumerate() {
        if k == at {
            inputs.push(between.clone());
            continue;
        }
        let mut buffer = next.bufs[buf].clone();
        for e in &mut buffer.shape {
            if let ExKind::Var(v) = e.kind()
                && !vars.contains_key(v)
            {
                let info = next.vars[*v].clone();
                let (new, extent) = program.fresh(info.name.as_str(), info.dtype);
                program.dims.push(new);
                vars.insert(*v, extent);
            }
            let mut said = true;
            visit_expr(e, |x| {
                said &= match x.kind() {
                    ExKind::Var(v) => vars.contains_key(v),
                    ExKind::Load(..) => false,
                    _ => true,
                }
            });
            said.then_some(())?;
            *e = substitute(e, &|v| vars.get(&v).cloned());
        }
        let (shape, dtype) = (buffer.shape.clone(), buffer.dtype);
        let buf = program.bufs.push(buffer);
        program.inputs.push(buf);
        inputs.push(TensorRef { buf, shape, dtype });
    }
    for t in append(&mut program, next, &inputs, FxHashMap::default()) {
        program.bufs[t.buf].role = Role::Output;
        program.outputs.push(t.buf);
    }
    Some(program)
}

/// A statement with its variables and buffers replaced. Statements nest only as deep as the
/// operator's own computation writes them.
fn statement(
    s: &Stmt,
    map: &dyn Fn(&Ex) -> Ex,
    var: &dyn Fn(Var) -> Var,
    bufs: &FxHashMap<Buf, Buf>,
    part: u32,
) -> Stmt {
    let block = |b: &[Stmt]| {
        let one = |s| statement(s, map, var, bufs, part);
        b.iter().map(one).collect()
    };
    match s {
        Stmt::For {
            var: v,
            extent,
            mark,
            body,
        } => Stmt::For {
            var: var(*v),
            extent: map(extent),
            mark: *mark,
            body: block(body),
        },
        Stmt::While { cond, body } => Stmt::While {
            cond: map(cond),
            body: block(body),
        },
        Stmt::If {
            cond,
            then,
            otherwise,
        } => Stmt::If {
            cond: map(cond),
            then: block(then),
            otherwise: block(otherwise),
        },
        Stmt::Store { buf, index, value } => Stmt::Store {
            buf: bufs[buf],
            index: index.iter().map(map).collect(),
            value: map(value),
        },
        Stmt::Let { var: v, value } => Stmt::Let {
            var: var(*v),
            value: map(value),
        },
        Stmt::Alloc { buf } => Stmt::Alloc { buf: bufs[buf] },
        Stmt::Init { over, body } => Stmt::Init {
            over: over.iter().map(|&v| var(v)).collect(),
            body: block(body),
        },
        Stmt::Assert {
            cond,
            message,
            values,
            part: _,
        } => Stmt::Assert {
            cond: map(cond),
            message: message.clone(),
            values: values.iter().map(map).collect(),
            part,
        },
    }
}

/// The buffers that a program reads or writes at indices that depend on elements of buffers.
fn read_by_data(program: &Program) -> Vec<Buf> {
    let mut found = Vec::new();
    let mut see = |e: &Ex| {
        visit_expr(e, |x| {
            if let ExKind::Load(buf, index) = x.kind()
                && index.iter().any(has_loads)
            {
                found.push(*buf);
            }
        });
    };
    for stage in &program.stages {
        match stage {
            Stage::Compute(c) => see(&c.value),
            Stage::Nest(body) => statements(body).flat_map(Stmt::exprs).for_each(&mut see),
        }
    }
    found.extend(program.statements().filter_map(|s| match s {
        Stmt::Store { buf, .. } => Some(*buf),
        _ => None,
    }));
    found.sort();
    found.dedup();
    found
}

fn rename(hint: &Hint, bufs: &FxHashMap<Buf, Buf>) -> Hint {
    let mut hint = hint.clone();
    for buf in hint.operands_mut() {
        *buf = bufs[buf];
    }
    hint
}

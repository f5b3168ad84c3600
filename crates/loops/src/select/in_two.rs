//! Reductions in two stages. Where the elements that lie side by side are few (the channels of a
//! group, channels last), all else is reduced first, in whole rows of what lies side by side, and
//! these few then. Where they are many, and what is reduced besides lies far apart (sums of all but
//! the channels), the rows are summed first, in the order of memory.
//!
//! What the first stage reads once for a run of results is laid out for each of them before.

use std::borrow::Cow;

use relax_base::Symbol;
use relax_tensor::DType;

use super::stated::Stated;
use super::strided::affine;
use super::vectors;
use crate::extents::{elements, numbers};
use crate::{
    Buf, Buffer, Combiner, Compute, Ex, ExKind, Program, Reduce, Role, Stage, Var, axes_of,
    map_expr, substitute, visit_expr,
};

/// The longest run of elements that is reduced last.
const RUN: i64 = 32;
/// How many elements each of the first stage's is made of then, at least.
const ROWS: i64 = 64;
/// The least number of these.
const ROW: i64 = 16;
/// The shortest run that is summed first.
const LONG: i64 = 128;

/// Takes such reductions apart. Without any, the program is unchanged.
pub(super) fn reduced<'p>(mut program: Cow<'p, Program>, stated: &mut Stated) -> Cow<'p, Program> {
    let mut k = 0;
    while k < program.stages.len() {
        if let Stage::Compute(c) = &program.stages[k]
            && program.hint(c.out).is_none()
            && stated.allows_vectors_alone(c.out)
            && let Some((new, parts)) = in_two(&program, c)
        {
            let [first, last] = parts;
            let mut new = new;
            let (before, first) = spread(&mut new, first);
            new.stages[k] = Stage::Compute(last);
            for c in before.into_iter().chain([first]) {
                stated.insert(c.out);
                new.insert_stage(k, Stage::Compute(c));
                k += 1;
            }
            program = Cow::Owned(new);
        }
        k += 1;
    }
    program
}

/// Returns a stage as two, and the program with their buffers; `None` for any that is not worth it.
fn in_two(program: &Program, c: &Compute) -> Option<(Program, [Compute; 2])> {
    let Reduce { axes, combiner } = c.reduce.as_ref()?;
    let (others, run) = axes.split_at(run(program, c, axes)?);
    let n = elements(run.iter().map(|a| &a.1))?;
    let times = elements(others.iter().map(|a| &a.1))?;
    let results = elements(&program.bufs[c.out].shape)?;
    let dtype = program.bufs[c.out].dtype;
    // Narrow floats are rounded at the end only.
    let narrow = dtype.is_float() && dtype.size() < 4;
    let shape = program.bufs[c.out].shape.clone();
    let results_axes = || c.axes.iter().copied().zip(shape.iter().cloned());
    let (kept, first, last): (Vec<_>, &[_], &[_]) =
        if (2..=RUN).contains(&n) && times >= ROWS && results * n >= ROW && !narrow {
            let kept = results_axes().chain(run.iter().cloned()).collect();
            (kept, others, run)
        } else if n >= LONG && times > 1 && *combiner == Combiner::Sum && of_floats(program, c) {
            let kept = others.iter().cloned().chain(results_axes()).collect();
            (kept, run, others)
        } else {
            return None;
        };
    let mut new = program.clone();
    let out = new.bufs.push(Buffer {
        name: Symbol::new("rows"),
        dtype,
        shape: kept.iter().map(|a| a.1.clone()).collect(),
        role: Role::Temp,
    });
    let reduce = |axes: Vec<(Var, Ex)>| {
        let combiner = *combiner;
        Some(Reduce { axes, combiner })
    };
    let old = || kept.iter().chain(first);
    let fresh: Vec<(Var, Ex)> = old().map(|_| new.fresh("i", DType::I64)).collect();
    let place = |v: Var| Some(fresh[old().position(|a| a.0 == v)?].1.clone());
    let (along, over) = fresh.split_at(kept.len());
    let over = over.iter().zip(first).map(|(f, a)| (f.0, a.1.clone()));
    let rows = Compute {
        out,
        axes: along.iter().map(|f| f.0).collect(),
        reduce: reduce(over.collect()),
        value: substitute(&c.value, &place),
    };
    let index = kept.iter().map(|a| Ex::var(a.0, DType::I64)).collect();
    let last = Compute {
        reduce: reduce(last.to_vec()),
        value: Ex::new(ExKind::Load(out, index), dtype),
        ..c.clone()
    };
    vectors::find(&new, &rows)
        .is_some()
        .then_some((new, [rows, last]))
}

/// Lays out what the first stage reads once for a whole run of its results (a mean for each group of channels) for each
/// of them, so that what lies side by side is one row. Returns the stages that do so, and the one that reads what
/// they make.
fn spread(program: &mut Program, c: Compute) -> (Vec<Compute>, Compute) {
    let shape = program.bufs[c.out].shape.clone();
    let (Some(&last), Some(&before)) = (c.axes.last(), c.axes.iter().rev().nth(1)) else {
        return (Vec::new(), c);
    };
    let summed: Vec<Var> = (c.reduce.iter().flat_map(|r| &r.axes))
        .map(|a| a.0)
        .collect();
    let mut found: Vec<Ex> = Vec::new();
    visit_expr(&c.value, |e| {
        let held = matches!(e.kind(), ExKind::Load(..))
            && axes_of(e, &[last]).is_empty()
            && !axes_of(e, &[before]).is_empty()
            && axes_of(e, &summed).is_empty();
        if held && e.addr() != c.value.addr() && found.iter().all(|x| x != e) {
            found.push(e.clone());
        }
    });
    let mut stages = Vec::new();
    let mut read: Vec<(Ex, Ex)> = Vec::new();
    let mut new = program.clone();
    for e in found {
        let out = new.bufs.push(Buffer {
            name: Symbol::new("each"),
            dtype: e.dtype(),
            shape: shape.clone(),
            role: Role::Temp,
        });
        let fresh: Vec<_> = c.axes.iter().map(|_| new.fresh("i", DType::I64)).collect();
        let place = |v: Var| Some(fresh[c.axes.iter().position(|a| *a == v)?].1.clone());
        let index = c.axes.iter().map(|&v| Ex::var(v, DType::I64)).collect();
        read.push((e.clone(), Ex::new(ExKind::Load(out, index), e.dtype())));
        stages.push(Compute {
            out,
            axes: fresh.iter().map(|f| f.0).collect(),
            reduce: None,
            value: substitute(&e, &place),
        });
    }
    let value = map_expr(&c.value, |e| {
        let known = read.iter().find(|r| r.0 == *e);
        known.map(|r| r.1.clone())
    });
    let with = Compute { value, ..c.clone() };
    if vectors::find(&new, &with).is_none() {
        return (Vec::new(), c);
    }
    *program = new;
    (stages, with)
}

/// Returns whether all that a stage reads and writes is float32. Sums of narrow floats along rows
/// take longer than those of whole rows.
fn of_floats(program: &Program, c: &Compute) -> bool {
    let mut all = program.bufs[c.out].dtype == DType::F32;
    visit_expr(&c.value, |e| {
        all &= !matches!(e.kind(), ExKind::Load(..)) || e.dtype() == DType::F32;
    });
    all
}

/// Returns from which of the reduced axes on an array is read in runs that lie apart: those of one
/// result are not beside each other, and no two results share them.
fn run(program: &Program, c: &Compute, axes: &[(Var, Ex)]) -> Option<usize> {
    let extents = numbers(axes.iter().map(|a| &a.1))?;
    let last = *c.axes.last()?;
    let vars: Vec<Var> = axes.iter().map(|a| a.0).chain([last]).collect();
    let mut found = None;
    visit_expr(&c.value, |e| {
        if let ExKind::Load(buf, index) = e.kind()
            && found.is_none()
            && let Some(steps) = steps(program, *buf, index, &vars)
            && let [steps @ .., result] = &steps[..]
        {
            let (mut first, mut n) = (axes.len(), 1);
            while first > 0 && steps[first - 1] == n {
                first -= 1;
                n *= extents[first];
            }
            let before = first.checked_sub(1).map(|k| steps[k]);
            let apart = *result >= n && before.is_some_and(|step| step > *result);
            found = (first < axes.len() && apart).then_some(first);
        }
    });
    found
}

/// The steps of an array along some axes, in elements.
fn steps(program: &Program, buf: Buf, index: &[Ex], vars: &[Var]) -> Option<Vec<i64>> {
    let shape = numbers(&program.bufs[buf].shape)?;
    let (mut steps, mut size) = (vec![0; vars.len()], 1);
    for (e, n) in index.iter().zip(shape).rev() {
        let (of, _) = affine(e, vars, 16)?;
        for (step, of) in steps.iter_mut().zip(of) {
            *step += of.as_int()? * size;
        }
        size *= n;
    }
    Some(steps)
}

//! Decides which computations of a fused program are inlined into their readers rather than stored.

use relax_tensor::DType;

use crate::extents::{elements, simplify_indices};
use crate::{
    BinOp, Buf, Compute, Ex, ExKind, Program, Readers, Role, Stage, Var, has_loads,
    inline_compute_into, visit_expr,
};

/// Brings a program to the form in which groups of operators are compiled: computations that need no
/// buffer of their own are part of their readers, indices are simple, stages that continue what a
/// kernel computes are cut where it ends.
///
/// A call in the text of a program ([`crate::compose::append_into`]) has this form too, as a group of
/// one operator, so that its stages are the ones that it has in a group of several.
pub fn settle(program: &mut Program) {
    inline(program);
    simplify_indices(program);
    crate::drop_unused(program);
    crate::epilogue::split(program);
    crate::fused_bytes::split(program);
}

/// Moves injective stages into their readers: those that only select elements, into all readers;
/// those that compute, if there is one reader that reads each element about once.
fn inline(program: &mut Program) {
    let hinted: Vec<Buf> = program
        .hints
        .iter()
        .flat_map(|(_, hint)| hint.operands())
        .collect();
    let mut readers = Readers::of(program);
    let mut k = 0;
    while k < program.stages.len() {
        let Stage::Compute(c) = &program.stages[k] else {
            k += 1;
            continue;
        };
        let out = c.out;
        let is_hinted = program.hints.iter().any(|h| h.0 == out) || hinted.contains(&out);
        let movable = c.reduce.is_none() && program.bufs[out].role == Role::Temp && !is_hinted;
        if movable
            && (only_picks(&c.value) || read_once(program, &readers, out))
            && (!crate::epilogue::follows_sums(program, c) || read_in_place(program, &readers, out))
            && !apart(program, &readers, c)
            && !windowed(program, &readers, c)
        {
            let mut sources = Vec::new();
            visit_expr(&c.value, |x| {
                if let ExKind::Load(b, _) = x.kind() {
                    sources.push(*b);
                }
            });
            if inline_compute_into(program, k, &mut readers).is_ok() {
                // Readers of this buffer at data-dependent indices now read the buffers that it
                // came from.
                let own: Vec<u32> = (program.readers.iter())
                    .filter(|r| r.0 == out)
                    .map(|r| r.1)
                    .collect();
                for part in own {
                    program.readers.extend(sources.iter().map(|b| (*b, part)));
                }
                continue;
            }
        }
        k += 1;
    }
}

/// Returns whether a stage selects elements (padding, spreading) for a reduction whose kernel, if
/// any, does not perform the selection itself: windows read each of its elements many times, and
/// only strided loads are multiplied or compared in panels and strips.
fn windowed(program: &Program, readers: &Readers, c: &Compute) -> bool {
    let extents = &program.bufs[c.out].shape;
    let known = elements(extents);
    let chooses = matches!(c.value.kind(), ExKind::Select(..));
    if !chooses || known.is_some_and(|n| n < SMALL) {
        return false;
    }
    let mut sources = Vec::new();
    visit_expr(&c.value, |x| {
        if let ExKind::Load(buf, _) = x.kind() {
            sources.push(*buf);
        }
    });
    // A kernel whose hint names this stage's source performs the selection itself.
    let told = |out: Buf| {
        let float = program.bufs[out].dtype == DType::F32;
        let operands = program.hint(out).map(crate::Hint::operands);
        float && operands.is_some_and(|all| all.iter().any(|b| sources.contains(b)))
    };
    let computes = |s: &Stage| match s {
        Stage::Compute(c) => Some(c.out),
        Stage::Nest(_) => None,
    };
    readers.stages(c.out).any(|k| match &program.stages[k] {
        Stage::Compute(r) if r.reduce.is_some() => {
            // The kernel may belong to the stage that completes this one (a mean).
            let mut behind = readers.stages(r.out).map(|k| &program.stages[k]);
            !told(r.out) && !behind.any(|s| computes(s).is_some_and(told))
        }
        _ => false,
    })
}

/// Elements from which on a separate stage pays beside a reduction.
const SMALL: i64 = 64;

/// Elements from which on a transpose stays a stage of its own beside stages that compute: a
/// strided copy works on blocks that fit the first-level cache, and the others on contiguous
/// elements, which together is faster than computing in an order that suits only one side.
const BLOCKS: i64 = 4096;

/// Returns whether a stage transposes for one that computes, or computes for one that transposes.
fn apart(program: &Program, readers: &Readers, c: &Compute) -> bool {
    let known = elements(&program.bufs[c.out].shape);
    let large = known.is_some_and(|n| n >= BLOCKS);
    let some = known.is_none_or(|n| n >= PIECES);
    if some && (nests(program, c) || apart_of_moves(program, readers, c)) {
        return true;
    }
    let whole = program.bufs[c.out].dtype == DType::F32;
    if some && whole && resamples(c) && readers.stages(c.out).any(|k| narrows(program, k)) {
        return true;
    }
    let picks = |c: &Compute| joins(c) || folds(c) || gathers_rows(program, c);
    let moves = |c: &Compute| large && transposes(program, c) || some && picks(c);
    let mut readers = readers
        .stages(c.out)
        .filter_map(|k| match &program.stages[k] {
            Stage::Compute(r) => Some(r),
            Stage::Nest(_) => None,
        });
    let computes = |r: &Compute| !only_picks(&r.value);
    match moves(c) {
        true => readers.any(|r| computes(r) && r.reduce.is_none()),
        false => computes(c) && readers.any(moves),
    }
}

/// Returns whether a stage computes with elements at places that are computed as floats: those of an
/// image that is resized. No kernel does that, and the code that is generated for it converts narrow
/// floats one by one, which takes longer than a stage of its own that converts them in vectors.
fn resamples(c: &Compute) -> bool {
    let mut found = false;
    visit_expr(&c.value, |x| {
        if let ExKind::Load(_, index) = x.kind() {
            found |= index.iter().any(by_float);
        }
    });
    found && !only_picks(&c.value)
}

/// Returns whether an index is computed as a float.
fn by_float(index: &Ex) -> bool {
    let mut found = false;
    visit_expr(index, |x| {
        found |= matches!(x.kind(), ExKind::Cast(e) if e.dtype().is_float())
    });
    found
}

/// Returns whether the results of a stage are narrow floats.
fn narrows(program: &Program, stage: usize) -> bool {
    match &program.stages[stage] {
        Stage::Compute(c) => matches!(program.bufs[c.out].dtype, DType::F16 | DType::BF16),
        Stage::Nest(_) => false,
    }
}

/// Returns whether a stage joins what was itself joined (a tensor that is rolled along two axes).
fn nests(program: &Program, c: &Compute) -> bool {
    let mut nested = false;
    visit_expr(&c.value, |x| {
        if let ExKind::Load(buf, _) = x.kind() {
            nested |= program.stage_of(*buf).is_some_and(joins);
        }
    });
    nested && joins(c)
}

/// Returns whether a stage that only moves elements stays separate from a reader that moves them
/// too, because the combination is no longer a strided copy: one joins what the other joined or
/// gathered, takes part of an unevenly strided tensor (the windows of an image), divides gathered
/// rows, or transposes what is mirrored at its edges.
fn apart_of_moves(program: &Program, readers: &Readers, c: &Compute) -> bool {
    let uneven = |index: &Ex| {
        let mut found = false;
        visit_expr(index, |x| {
            found |= matches!(
                x.kind(),
                ExKind::Binary(BinOp::FloorDiv | BinOp::FloorMod, ..)
            )
        });
        found
    };
    let part = |index: &Ex| matches!(index.kind(), ExKind::Binary(BinOp::Add | BinOp::Mul, _, n) if n.as_int().is_some());
    let (joined, divided) = (joins(c), only_picks(&c.value) && uneven(&c.value));
    let gathered = gathers(&c.value);
    // An image that is resized is copied by tables, in any order of its axes.
    let resized = matches!(c.value.kind(), ExKind::Load(_, index) if index.iter().any(by_float));
    let folded = folds(c) && !resized;
    let rows = gathers_rows(program, c);
    readers.stages(c.out).any(|k| match &program.stages[k] {
        Stage::Compute(r) if only_picks(&r.value) => {
            let (mut parts, mut divides) = (false, false);
            visit_expr(&r.value, |x| {
                if let ExKind::Load(buf, index) = x.kind()
                    && *buf == c.out
                {
                    let whole = index.iter().any(uneven);
                    parts |= !whole && index.iter().any(part);
                    divides |= whole;
                }
            });
            (joined || gathered) && joins(r)
                || divided && parts
                || rows && divides
                || folded && transposes(program, r)
        }
        _ => false,
    })
}

/// Returns whether a stage takes elements at places that are chosen by position (mirrored or held at
/// an edge, those of an image that is resized): a copy goes piece by piece, but code that computes
/// with what it finds chooses for each element.
fn folds(c: &Compute) -> bool {
    let ExKind::Load(_, index) = c.value.kind() else {
        return false;
    };
    let mut chosen = false;
    for i in index {
        visit_expr(i, |x| {
            let by_place = matches!(
                x.kind(),
                ExKind::Select(..) | ExKind::Binary(BinOp::Min | BinOp::Max, ..)
            );
            chosen |= by_place;
        });
    }
    chosen && !gathers(&c.value)
}

/// Elements of a row from which on rows are gathered by a stage of their own.
const ROW: i64 = 4;

/// Returns whether a stage takes whole rows that another buffer names: they are copied as they lie,
/// and what computes with them reads them in vectors.
fn gathers_rows(program: &Program, c: &Compute) -> bool {
    let ExKind::Load(from, index) = c.value.kind() else {
        return false;
    };
    let Some((last, v)) = index.last().zip(c.axes.last()) else {
        return false;
    };
    let row = program.bufs[*from].shape.last().and_then(Ex::as_int);
    gathers(&c.value) && moves(last, *v) && !has_loads(last) && row.is_none_or(|n| n >= ROW)
}

/// Returns whether an element is another buffer's at a place that a third one says.
fn gathers(e: &Ex) -> bool {
    let ExKind::Load(_, index) = e.kind() else {
        return false;
    };
    index.iter().any(has_loads)
}

/// Elements from which on joined tensors are copied piece by piece: where the piece is determined
/// per element, nothing is vectorised.
const PIECES: i64 = 256;

/// Returns whether a stage takes elements from one buffer or another, depending on their position.
fn joins(c: &Compute) -> bool {
    let loads = |e: &Ex| {
        let mut loads = 0;
        visit_expr(e, |x| {
            loads += usize::from(matches!(x.kind(), ExKind::Load(..)))
        });
        loads
    };
    let ExKind::Select(place, _, _) = c.value.kind() else {
        return false;
    };
    loads(&c.value) > 1 && loads(place) == 0 && only_picks(&c.value)
}

/// Returns whether a stage permutes the axes of a buffer such that another one is innermost.
fn transposes(program: &Program, c: &Compute) -> bool {
    let ExKind::Load(from, index) = c.value.kind() else {
        return false;
    };
    let wide = |buf: Buf, axis: usize| program.bufs[buf].shape[axis].as_int() != Some(1);
    let plain = index.iter().enumerate().all(|(axis, i)| match i.kind() {
        ExKind::Var(v) => c.axes.contains(v),
        _ => !wide(*from, axis),
    });
    let innermost = (0..c.axes.len()).rev().find(|&axis| wide(c.out, axis));
    let read = (0..index.len()).rev().find(|&axis| wide(*from, axis));
    let (Some(innermost), Some(read)) = (innermost, read) else {
        return false;
    };
    let here = |v: &Var| *v == c.axes[innermost];
    plain && !matches!(index[read].kind(), ExKind::Var(v) if here(v))
}

/// Returns whether an element is another buffer's element (or a constant), computing only indices
/// and conditions on them.
fn only_picks(e: &Ex) -> bool {
    match e.kind() {
        ExKind::Int(_) | ExKind::Float(_) | ExKind::Var(_) | ExKind::Load(..) => true,
        ExKind::Select(_, a, b) => only_picks(a) && only_picks(b),
        _ => false,
    }
}

/// Returns whether all readers of a buffer read it at their own indices.
fn read_in_place(program: &Program, readers: &Readers, buf: Buf) -> bool {
    readers.stages(buf).all(|k| match &program.stages[k] {
        Stage::Compute(c) => {
            let same = program.bufs[c.out].shape == program.bufs[buf].shape;
            let mut fine = true;
            visit_expr(&c.value, |x| {
                if let ExKind::Load(b, index) = x.kind()
                    && *b == buf
                {
                    let own = index.iter().zip(&c.axes).all(|(i, v)| {
                        matches!(i.kind(), ExKind::Var(w) if w == v) || i.as_int() == Some(0)
                    });
                    fine &= same && own;
                }
            });
            fine
        }
        Stage::Nest(_) => false,
    })
}

/// Returns whether a buffer is read by one load, in a stage without reduction that reads each
/// element about once: its index varies along every axis, and the results are not many times as
/// many (of a factor for each of several adjacent elements).
fn read_once(program: &Program, readers: &Readers, buf: Buf) -> bool {
    let mut places = 0;
    let mut plain = true;
    let own = elements(&program.bufs[buf].shape);
    for k in readers.stages(buf) {
        match &program.stages[k] {
            Stage::Compute(c) => visit_expr(&c.value, |x| {
                if let ExKind::Load(b, index) = x.kind()
                    && *b == buf
                {
                    places += 1;
                    let shape = &program.bufs[c.out].shape;
                    let along_all = c.axes.iter().zip(shape).all(|(v, extent)| {
                        extent.as_int() == Some(1) || index.iter().any(|i| moves(i, *v))
                    });
                    let read = elements(shape).zip(own);
                    let once = read.is_none_or(|(all, own)| all / 2 < own.max(1));
                    plain &= c.reduce.is_none() && along_all && once;
                }
            }),
            Stage::Nest(_) => plain = false,
        }
    }
    plain && places == 1
}

/// Returns whether an index depends on a variable.
fn moves(index: &Ex, v: Var) -> bool {
    let mut found = false;
    visit_expr(index, |x| {
        found |= matches!(x.kind(), ExKind::Var(w) if *w == v)
    });
    found
}

//! Splits a tensor program with data-dependent result extents in two: one that computes the
//! extents, and one that takes them as given.

use relax_base::Symbol;
use relax_loops::{
    Buf, Buffer, Ex, ExKind, Program, Role, Stage, Stmt, statements, verify, visit_expr,
};
use rustc_hash::FxHashSet;

/// The two programs.
pub(super) struct Measured {
    /// Computes the extents, as a vector of `int64`.
    pub measure: Program,
    /// Computes the results; their open extents are dimension variables.
    pub fill: Program,
    /// For each open axis of the results, in order, the index of its extent.
    pub axes: Vec<usize>,
    /// The number of extents.
    pub count: usize,
}

/// Splits a program. `open` lists the axes without a known extent, each as an output and an axis
/// number. Returns `None` if the extents themselves depend on buffers of such extents.
pub(super) fn measured(program: &Program, open: &[(usize, usize)]) -> Option<Measured> {
    let mut extents: Vec<Ex> = Vec::new();
    let mut axes = Vec::new();
    for &(output, axis) in open {
        let buf = *program.outputs.get(output)?;
        let extent = program.bufs[buf].shape.get(axis)?;
        let known = extents.iter().position(|e| e == extent);
        axes.push(known.unwrap_or(extents.len()));
        if known.is_none() {
            extents.push(extent.clone());
        }
    }
    let late: FxHashSet<Buf> = (program.bufs.iter())
        .filter(|(_, b)| b.shape.iter().any(|e| extents.contains(e) || reads(e)))
        .map(|(id, _)| id)
        .collect();
    let told = |b: &Buffer| b.shape.iter().all(|e| extents.contains(e) || !reads(e));
    if !program.bufs.values().all(told) {
        return None;
    }
    let measure = measure(program, &extents, &late)?;
    let mut fill = program.clone();
    for (i, extent) in extents.iter().enumerate() {
        let (var, dim) = fill.fresh(&format!("extent{i}"), Ex::idx(0).dtype());
        fill.dims.push(var);
        for b in fill.bufs.values_mut() {
            for e in b.shape.iter_mut().filter(|e| *e == extent) {
                *e = dim.clone();
            }
        }
    }
    fill.hints.clear();
    fill.accesses.clear();
    let fine = |p: &Program| verify(p).problems.is_empty();
    (fine(&measure) && fine(&fill)).then(|| Measured {
        measure,
        fill,
        axes,
        count: extents.len(),
    })
}

fn measure(program: &Program, extents: &[Ex], late: &FxHashSet<Buf>) -> Option<Program> {
    let mut p = program.clone();
    p.stages.retain(|s| touched(s).is_disjoint(late));
    p.hints.clear();
    p.accesses.clear();
    p.readers.clear();
    let written: FxHashSet<Buf> = p.stages.iter().flat_map(touched).collect();
    let mut known = true;
    for e in extents {
        visit_expr(e, |e| {
            if let ExKind::Load(b, _) = e.kind() {
                known &= p.inputs.contains(b) || written.contains(b);
            }
        });
    }
    if !known {
        return None;
    }
    for &o in &program.outputs {
        p.bufs[o].role = Role::Temp;
    }
    // Buffers that are no longer mentioned need no extents.
    for &b in late {
        p.bufs[b].shape = Vec::new();
    }
    let out = p.bufs.push(Buffer {
        name: Symbol::new("extents"),
        dtype: Ex::idx(0).dtype(),
        shape: vec![Ex::idx(extents.len() as i64)],
        role: Role::Output,
    });
    p.outputs = vec![out];
    let store = |(i, e): (usize, &Ex)| Stmt::Store {
        buf: out,
        index: vec![Ex::idx(i as i64)],
        value: e.cast(Ex::idx(0).dtype()),
    };
    p.stages
        .push(Stage::Nest(extents.iter().enumerate().map(store).collect()));
    Some(p)
}

/// Returns whether an expression reads a buffer.
fn reads(e: &Ex) -> bool {
    let mut found = false;
    visit_expr(e, |e| found |= matches!(e.kind(), ExKind::Load(..)));
    found
}

/// Returns the buffers that a stage reads or writes.
fn touched(stage: &Stage) -> FxHashSet<Buf> {
    let mut found = FxHashSet::default();
    let mut see = |e: &Ex| {
        visit_expr(e, |e| {
            if let ExKind::Load(b, _) = e.kind() {
                found.insert(*b);
            }
        });
    };
    match stage {
        Stage::Compute(c) => {
            see(&c.value);
            for (_, e) in c.reduce.iter().flat_map(|r| &r.axes) {
                see(e);
            }
            found.insert(c.out);
        }
        Stage::Nest(body) => {
            for s in statements(body) {
                s.exprs().for_each(&mut see);
            }
            for s in statements(body) {
                if let Stmt::Store { buf, .. } | Stmt::Alloc { buf } = s {
                    found.insert(*buf);
                }
            }
        }
    }
    found
}

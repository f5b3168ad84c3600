//! Buffers that every iteration of loops begins anew, with a place for each iteration.

use rustc_hash::{FxHashMap, FxHashSet};

use super::statement::{known_at_start, writes};
use crate::reduction_init::depends;
use crate::{Buf, Buffer, Ex, Program, Role, Stmt, Var, move_accesses, visit_accesses};

/// The greatest size in bytes of a buffer whose elements several iterations shared: as loops, it may
/// have been made to stay in a cache.
const MOST: i64 = 16 << 20;

/// Returns all buffers that a statement reads or writes.
pub(super) fn mentioned(s: &Stmt) -> FxHashSet<Buf> {
    let mut found = FxHashSet::default();
    visit_accesses(std::slice::from_ref(s), |buf, _| {
        found.insert(buf);
    });
    found
}

/// Returns the buffers that several of some statements read or write.
pub(super) fn shared(body: &[Stmt]) -> FxHashSet<Buf> {
    let (mut seen, mut shared) = (FxHashSet::default(), FxHashSet::default());
    for buf in body.iter().flat_map(mentioned) {
        if !seen.insert(buf) {
            shared.insert(buf);
        }
    }
    shared
}

/// Gives the local buffers of a block in loops that are not indexed by the loops' variables a place
/// for each iteration, in a buffer that lives as long as the program; an axis with one element goes.
/// Returns the new buffers.
///
/// That is the same program if each iteration writes all of them before it reads them, which is for
/// the caller to see.
pub(super) fn expand(
    program: &mut Program,
    block: &mut [Stmt],
    loops: &[(Var, Ex)],
    outside: &FxHashSet<Buf>,
) -> Vec<Buf> {
    let mut used: FxHashMap<Buf, Use> = FxHashMap::default();
    visit_accesses(block, |buf, index| {
        used.entry(buf).or_default().see(index, loops);
    });
    // An extent of some buffer is none below 0.
    let is_extent = |e: &Ex| program.bufs.values().any(|b| b.shape.contains(e));
    let fixed = loops.iter().all(|(_, extent)| {
        known_at_start(program, std::slice::from_ref(extent)) && is_extent(extent)
    });
    let mut places: FxHashMap<Buf, (Buf, Vec<usize>)> = FxHashMap::default();
    let mut bufs: Vec<Buf> = block.iter().flat_map(writes).collect();
    bufs.sort();
    bufs.dedup();
    for buf in bufs {
        let Some(seen) = used.get(&buf) else { continue };
        let buffer = &program.bufs[buf];
        let own = buffer.role == Role::Local && known_at_start(program, &buffer.shape);
        if !fixed || !own || outside.contains(&buf) || seen.by_loops {
            continue;
        }
        let single = |k: usize| buffer.shape[k].as_int() == Some(1) && !seen.moves.contains(&k);
        let kept: Vec<usize> = (0..buffer.shape.len()).filter(|&k| !single(k)).collect();
        let own = kept.iter().map(|&k| buffer.shape[k].clone());
        let shape: Vec<Ex> = loops.iter().map(|l| l.1.clone()).chain(own).collect();
        // A single element takes no more than a result with an element for each iteration.
        let bytes = shape
            .iter()
            .try_fold(buffer.dtype.bits as i64 / 8, |all, n| {
                n.as_int().and_then(|n| all.checked_mul(n))
            });
        if !kept.is_empty() && bytes.is_none_or(|n| n > MOST) {
            continue;
        }
        let new = Buffer {
            role: Role::Temp,
            shape,
            ..buffer.clone()
        };
        places.insert(buf, (program.bufs.push(new), kept));
    }
    if places.is_empty() {
        return Vec::new();
    }
    let place = |buf: Buf, index: &[Ex]| {
        let (new, kept) = places.get(&buf)?;
        let vars = loops.iter().map(|l| Ex::var(l.0, program.vars[l.0].dtype));
        let own = kept.iter().map(|&k| index[k].clone());
        Some((*new, vars.chain(own).collect()))
    };
    move_accesses(block, place, place);
    places.into_values().map(|p| p.0).collect()
}

/// How a block uses a buffer.
#[derive(Default)]
struct Use {
    /// Some index depends on a loop around the block.
    by_loops: bool,
    /// Axes with indices other than 0.
    moves: FxHashSet<usize>,
}

impl Use {
    fn see(&mut self, index: &[Ex], loops: &[(Var, Ex)]) {
        for (k, i) in index.iter().enumerate() {
            self.by_loops |= depends(i, &|v| loops.iter().any(|l| l.0 == v));
            if i.as_int() != Some(0) {
                self.moves.insert(k);
            }
        }
    }
}

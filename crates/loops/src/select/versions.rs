//! Buffers that a nest writes anew: what a buffer holds before a statement overwrites all of it gets
//! a buffer of its own, so that each is written once.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::statement::{computation, known_at_start, writes};
use crate::accumulation::Accumulation;
use crate::continued::in_extents;
use crate::raise::peel;
use crate::{
    Buf, Buffer, Combiner, Ex, ExKind, Program, Role, Stmt, map_expr, map_stmts, move_accesses,
    visit_expr,
};

/// Which contents of a buffer a statement reads that writes all of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// Those before it: each element is computed from the one at its own place.
    Old,
    /// Those that it has begun with itself, or none.
    New,
}

/// Gives what a buffer holds before a statement that overwrites it a buffer of its own; what is last
/// in it stays. `writers` says how many statements and stages of the program write a buffer.
pub(super) fn split_versions(
    program: &mut Program,
    body: &mut [Stmt],
    writers: &FxHashMap<Buf, usize>,
) {
    let mut positions: BTreeMap<Buf, Vec<usize>> = BTreeMap::new();
    for (k, s) in body.iter().enumerate() {
        for buf in writes(s) {
            positions.entry(buf).or_default().push(k);
        }
    }
    // The statements with which a buffer's next contents begin.
    let mut cuts: FxHashMap<usize, (Buf, Reads)> = FxHashMap::default();
    // The buffers of a buffer's contents, but for the first ones: those are what `now` begins with.
    let mut versions: FxHashMap<Buf, std::vec::IntoIter<Buf>> = FxHashMap::default();
    let mut now: FxHashMap<Buf, Buf> = FxHashMap::default();
    for (buf, at) in positions {
        // Other stages do not write it, and no extent asks for it.
        let own = writers.get(&buf) == Some(&at.len());
        let early = known_at_start(program, &program.bufs[buf].shape);
        if at.len() < 2 || !own || !early || in_extents(program, buf) {
            continue;
        }
        let before = cuts.len();
        for &k in &at[1..] {
            cuts.extend(overwrites(program, &body[k], buf).map(|reads| (k, (buf, reads))));
        }
        let mut names = Vec::new();
        for _ in before..cuts.len() {
            names.push(program.bufs.push(Buffer {
                role: Role::Temp,
                ..program.bufs[buf].clone()
            }));
        }
        names.push(buf);
        let mut names = names.into_iter();
        now.extend(names.next().map(|first| (buf, first)));
        versions.insert(buf, names);
    }
    for (k, s) in body.iter_mut().enumerate() {
        // The last contents are in the buffer that is allocated.
        if matches!(s, Stmt::Alloc { .. }) {
            continue;
        }
        let before = now.clone();
        let cut = cuts.get(&k);
        if let Some((buf, _)) = cut {
            now.extend(
                versions
                    .get_mut(buf)
                    .and_then(Iterator::next)
                    .map(|new| (*buf, new)),
            );
        }
        let old = cut.is_some_and(|c| c.1 == Reads::Old);
        let loads = if old { &before } else { &now };
        let renamed = |names: &FxHashMap<Buf, Buf>, buf, at: &[Ex]| {
            names.get(&buf).map(|new| (*new, at.to_vec()))
        };
        move_accesses(
            std::slice::from_mut(s),
            |buf, at| renamed(loads, buf, at),
            |buf, at| renamed(&now, buf, at),
        );
    }
}

/// Returns what a statement reads that writes all of a buffer, without regard to what is there;
/// `None` for others.
pub(super) fn overwrites(program: &Program, s: &Stmt, buf: Buf) -> Option<Reads> {
    if writes(s) != [buf] {
        return None;
    }
    let starts = Accumulation::of(program, s).is_some_and(|a| a.start.is_some());
    if starts || computation(program, s).is_some() {
        return Some(Reads::New);
    }
    let mut loops = Vec::new();
    let [Stmt::Store { index, value, .. }] = peel(std::slice::from_ref(s), &mut loops) else {
        return None;
    };
    // An element of its own place is as good as a number.
    let number = Combiner::Sum.identity(program.bufs[buf].dtype);
    let mut elsewhere = false;
    visit_expr(value, |e| {
        elsewhere |= matches!(e.kind(), ExKind::Load(b, at) if *b == buf && at[..] != index[..]);
    });
    if elsewhere {
        return None;
    }
    let own = |e: &Ex| matches!(e.kind(), ExKind::Load(b, _) if *b == buf).then(|| number.clone());
    let mut without = s.clone();
    map_stmts(std::slice::from_mut(&mut without), &mut |e| {
        map_expr(e, own)
    });
    computation(program, &without).map(|_| Reads::Old)
}

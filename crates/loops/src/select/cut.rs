//! Stages of constant size that read arrays at indices with divisions in them (reshapes, splits
//! into heads): loops are split where the divisions require it, and then every array is traversed
//! with constant strides.

use rustc_hash::FxHashMap;

use super::digits;
use super::strided::{Strided, affine};
use crate::extents::numbers;
use crate::{Buf, Compute, Ex, ExKind, Program, Var};

/// The maximum number of loads of a stage.
const LOADS: usize = 16;

/// The loops that replace a stage's own, and how they traverse the arrays that it reads.
pub(super) struct Cut {
    /// Fresh variables with their extents, those of the result first.
    pub axes: Vec<(Var, Ex)>,
    /// The number of axes of the result.
    pub result_axes: usize,
    /// Loads by the address of their expression.
    pub loads: FxHashMap<usize, Strided>,
}

/// Returns the loads of an expression; `None` where anything other than their indices depends on a
/// variable.
fn loads(value: &Ex) -> Option<Vec<(usize, Buf, &[Ex])>> {
    let (mut found, mut work) = (Vec::new(), vec![value]);
    while let Some(e) = work.pop() {
        match e.kind() {
            ExKind::Var(_) => return None,
            ExKind::Load(buf, index) => {
                if found.iter().all(|f: &(usize, _, _)| f.0 != e.addr()) {
                    found.push((e.addr(), *buf, &index[..]));
                }
                if found.len() > LOADS {
                    return None;
                }
            }
            _ => work.extend(e.children()),
        }
    }
    Some(found)
}

/// Returns how a stage over `axes` is split; `None` where it need not be, or cannot.
pub(super) fn cut(program: &Program, c: &Compute, axes: &[(Var, Ex)]) -> Option<Cut> {
    let vars: Vec<Var> = axes.iter().map(|a| a.0).collect();
    let extents: Vec<i64> = numbers(axes.iter().map(|a| &a.1))?;
    let found = loads(&c.value)?;
    let even = |index: &[Ex]| index.iter().all(|i| affine(i, &vars, 16).is_some());
    if found.iter().all(|f| even(f.2)) {
        return None;
    }
    let mut walked = Vec::with_capacity(found.len());
    for &(_, buf, index) in &found {
        walked.push((index, numbers(&program.bufs[buf].shape)?));
    }
    let walks = digits::walks(&vars, &extents, &walked)?;
    let fresh = |k: usize| Var(u32::MAX - k as u32);
    let axes = walks.digits.iter().enumerate();
    let axes = axes.map(|(k, d)| (fresh(k), Ex::idx(d.1))).collect();
    let own = |d: &&(usize, i64)| d.0 < c.axes.len();
    let result_axes = walks.digits.iter().filter(own).count();
    let none = || vec![Ex::idx(0); walks.digits.len()];
    let mut loads = FxHashMap::default();
    for ((addr, buf, index), (steps, first)) in found.into_iter().zip(&walks.loads) {
        // Steps in elements are those of the last axis.
        let mut index: Vec<_> = index.iter().map(|_| (none(), Ex::idx(0))).collect();
        if let Some(last) = index.last_mut() {
            let steps = steps.iter().map(|&s| Ex::idx(s)).collect();
            *last = (steps, Ex::idx(*first));
        }
        let sure = true;
        loads.insert(addr, Strided { buf, index, sure });
    }
    Some(Cut {
        axes,
        result_axes,
        loads,
    })
}

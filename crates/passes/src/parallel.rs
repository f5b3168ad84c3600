//! A pass over each function, on several threads.

use std::collections::BTreeMap;

use rayon::prelude::*;
use relax_base::Diagnostics;
use relax_ir::GlobalId;

use crate::{PassCx, PassDef};

/// The maximum number of shares that functions are divided into: somewhat more than processors,
/// since functions differ in size. A constant, so that the shares are the same on every machine.
const SHARES: usize = 32;

/// The number of items from which on several threads take them.
const FEW: usize = 4;

/// Returns what becomes of each item, in order; of several by rayon's threads.
pub(crate) fn mapped<T: Sync, R: Send>(items: &[T], one: impl Fn(&T) -> R + Send + Sync) -> Vec<R> {
    match items.len() {
        0..FEW => items.iter().map(one).collect(),
        _ => items.par_iter().map(one).collect(),
    }
}

/// Runs a pass over all functions, shares of them in parallel. The results of the shares are merged
/// in the order of the text: the module does not depend on the number of threads. The first of
/// several errors is returned.
pub(crate) fn run(pass: &PassDef, cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let globals: Vec<GlobalId> = (cx.module.global_bodies().iter()).map(|b| b.0).collect();
    if globals.len() < 2 {
        return (pass.run)(cx);
    }
    cx.module.lend();
    let lender = &*cx.module;
    let one = |own: &[GlobalId]| {
        let mut module = lender.share(own);
        let mut analyses = cx.analyses.for_share();
        let (mut diagnostics, mut counts) = (Diagnostics::new(), BTreeMap::new());
        let result = (pass.run)(&mut PassCx {
            module: &mut module,
            options: cx.options,
            diagnostics: &mut diagnostics,
            analyses: &mut analyses,
            infer: cx.infer,
            counts: &mut counts,
        });
        (
            module.into_own(lender),
            analyses,
            diagnostics,
            counts,
            result,
        )
    };
    let shares: Vec<_> = globals
        .par_chunks(globals.len().div_ceil(SHARES))
        .map(one)
        .collect();
    let mut outcome = Ok(());
    cx.module.take_back();
    let lent = cx.module.funcs.len();
    for (own, analyses, diagnostics, counts, result) in shares {
        cx.analyses.take_over(analyses, lent);
        cx.module.absorb(own);
        cx.diagnostics.extend(diagnostics);
        for (what, n) in counts {
            *cx.counts.entry(what).or_default() += n;
        }
        outcome = outcome.and(result);
    }
    outcome
}

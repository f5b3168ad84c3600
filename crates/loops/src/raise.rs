//! The computation that a loop nest spells out, the inverse of [`lower_stage`].

use crate::continued::reads;
use crate::{
    Buf, Combiner, Compute, Ex, ExKind, Mark, Program, Reduce, Stage, Stmt, Var, lower_stage,
};

/// Returns the computation over indices whose lowering is exactly this nest, if there is one.
pub fn raise_nest(program: &Program, body: &[Stmt]) -> Option<Compute> {
    let mut axes: Vec<(Var, Ex)> = Vec::new();
    let inner = peel(body, &mut axes);
    let found = match inner {
        [Stmt::Store { buf, index, value }] => {
            let axes: Vec<Var> = axes.iter().map(|a| a.0).collect();
            (index.len() == axes.len()).then(|| Compute {
                out: *buf,
                axes,
                reduce: None,
                value: value.clone(),
            })
        }
        [Stmt::Init { .. }, Stmt::Store { buf, index, value }] => {
            reduction(*buf, index.len(), axes, value)
        }
        [Stmt::Store { buf, index, .. }, Stmt::For { .. }] if index.len() == axes.len() => {
            match peel(&inner[1..], &mut axes) {
                [Stmt::Store { buf: b, value, .. }] if b == buf => {
                    reduction(*buf, index.len(), axes, value)
                }
                _ => None,
            }
        }
        _ => None,
    }?;
    let own = reads(&found.value, found.out);
    let stage = Stage::Compute(found);
    let same = !own && lower_stage(program, &stage) == body;
    match stage {
        Stage::Compute(found) if same => Some(found),
        _ => None,
    }
}

/// Steps into loops around a single loop, and returns the innermost body.
pub(crate) fn peel<'s>(mut body: &'s [Stmt], loops: &mut Vec<(Var, Ex)>) -> &'s [Stmt] {
    while let [
        Stmt::For {
            var,
            extent,
            mark: Mark::Serial,
            body: inner,
        },
    ] = body
    {
        loops.push((*var, extent.clone()));
        body = inner;
    }
    body
}

/// The reduction whose update stores `value`; the first `rank` loops run over the result.
fn reduction(out: Buf, rank: usize, mut loops: Vec<(Var, Ex)>, value: &Ex) -> Option<Compute> {
    if loops.len() < rank {
        return None;
    }
    let over = loops.split_off(rank);
    let ExKind::Binary(op, so_far, value) = value.kind() else {
        return None;
    };
    if !matches!(so_far.kind(), ExKind::Load(b, _) if *b == out) {
        return None;
    }
    let combiner = Combiner::ALL.into_iter().find(|c| c.op() == *op)?;
    Some(Compute {
        out,
        axes: loops.into_iter().map(|a| a.0).collect(),
        reduce: Some(Reduce {
            axes: over,
            combiner,
        }),
        value: value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use relax_tensor::DType;

    use super::*;
    use crate::Builder;

    /// A product of matrices, whose inner extent is known or not, and an element-wise computation.
    #[test]
    fn what_lowering_writes_is_read_back() {
        for inner in [Some(3), None] {
            let mut b = Builder::new("f");
            let x = b.input("x", DType::F32, &[Some(2), inner]);
            let y = b.input("y", DType::F32, &[inner, Some(4)]);
            let k = x.shape[1].clone();
            let extents = [Ex::idx(2), Ex::idx(4)];
            let sums = b.reduce("s", &extents, &[k], Combiner::Sum, |i, r| {
                x.at(&[i[0].clone(), r[0].clone()]) * y.at(&[r[0].clone(), i[1].clone()])
            });
            let twice = b.compute("t", &sums.shape.clone(), |i| sums.at(i) + sums.at(i));
            b.output(&twice);
            let program = b.program;
            for stage in &program.stages {
                let nest = lower_stage(&program, stage);
                let found = raise_nest(&program, &nest).map(Stage::Compute);
                assert_eq!(found.as_ref(), Some(stage));
                // Half of the elements is no computation of all of them.
                let half = nest.iter().cloned().map(|s| match s {
                    Stmt::For {
                        var, mark, body, ..
                    } => Stmt::For {
                        var,
                        extent: Ex::idx(1),
                        mark,
                        body,
                    },
                    other => other,
                });
                assert_eq!(raise_nest(&program, &half.collect::<Vec<_>>()), None);
            }
        }
    }
}

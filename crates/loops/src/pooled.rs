//! A convolution whose output is only pooled.
//!
//! A kernel may pool rows of a convolution while they are in the cache. The stages are not changed;
//! [`ending_at`] returns which ones a kernel may compute at once.

use relax_tensor::DType;

use crate::epilogue::Fused;
use crate::{Buf, Hint, Program, Role, Stage, reads_buffer};

/// A pooling with the convolution before it.
#[derive(Clone, PartialEq, Debug)]
pub struct Pooled {
    /// The number of the pooling's stage.
    pub pool: usize,
    /// The number of the convolution's stage.
    pub conv: usize,
    /// The number of the stage that writes the pooled buffer: the convolution, or its epilogue.
    pub last: usize,
    /// The pooled buffer.
    pub between: Buf,
}

/// Returns the pair that ends with a stage, in a program with channels first whose products and
/// convolutions have the epilogues `fused`.
pub fn ending_at(program: &Program, fused: &[Fused], pool: usize) -> Option<Pooled> {
    let Stage::Compute(c) = program.stages.get(pool)? else {
        return None;
    };
    let Some(Hint::Pool2d {
        data,
        nhwc: false,
        dilation: [1, 1],
        ..
    }) = program.hint(c.out)
    else {
        return None;
    };
    let between = *data;
    if program.bufs[between].role != Role::Temp || program.bufs[c.out].dtype != DType::F32 {
        return None;
    }
    let writes = |s: &Stage| matches!(s, Stage::Compute(c) if c.out == between);
    let last = program.stages.iter().position(writes)?;
    let conv = match fused.iter().find(|f| f.consumer == last) {
        Some(f) => f.producer,
        None => last,
    };
    let Stage::Compute(sums) = &program.stages[conv] else {
        return None;
    };
    let Some(Hint::Conv2d {
        data,
        weight,
        nhwc: false,
        ..
    }) = program.hint(sums.out)
    else {
        return None;
    };
    let floats = [*data, *weight, sums.out, between];
    let fits = floats.iter().all(|b| program.bufs[*b].dtype == DType::F32);
    // The only other reader of the convolution's output is the padding around it, which only the
    // pooling reads.
    let alone = program.stages.iter().enumerate().all(|(k, stage)| {
        k == pool
            || !reads_buffer(stage, between)
            || matches!(stage, Stage::Compute(padding)
                if program.bufs[padding.out].role == Role::Temp
                    && (program.stages.iter().enumerate())
                        .all(|(k, s)| k == pool || !reads_buffer(s, padding.out)))
    });
    (fits && alone).then_some(Pooled {
        pool,
        conv,
        last,
        between,
    })
}

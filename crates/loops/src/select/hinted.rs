//! Stages that their hints' kernels compute: matrix products, convolutions, rows, pooling,
//! requantisation.

use relax_tensor::DType;

use crate::epilogue::Epilogue;
use crate::quantised::shifted;
use crate::{Buf, Compute, Ex, Hint, KernelKind, Program};

/// A stage with the kernel that computes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Hinted {
    /// The buffer of the stage with the hint.
    pub sums: Buf,
    /// The buffer that is written: the same, or that of the epilogue.
    pub out: Buf,
    /// The hint; that of an integer product has the operands as they were before their zero points
    /// were subtracted.
    pub hint: Hint,
    /// These zero points, of the operands in order; empty for all other hints.
    pub zeros: Vec<Option<Ex>>,
    /// What the kernel applies to its results before it stores them.
    pub epilogue: Epilogue,
}

impl Hinted {
    /// Returns the kind of kernel.
    pub fn kind(&self) -> KernelKind {
        match self.hint {
            Hint::Requantize { .. } => KernelKind::Requantize,
            Hint::Pool2d { .. } => KernelKind::Pool,
            Hint::Softmax { .. } | Hint::LayerNorm { .. } => KernelKind::Rows,
            Hint::Lines { .. } => KernelKind::Lines,
            Hint::Attention { .. } => KernelKind::Attention,
            Hint::Gemm { .. }
            | Hint::BatchGemm { .. }
            | Hint::Blockwise { .. }
            | Hint::Conv2d { .. }
            | Hint::Depthwise3d { .. }
            | Hint::Conv2dTranspose { .. } => KernelKind::Product,
        }
    }
}

/// Returns the kernel of a stage's own hint, without an epilogue.
pub fn find(program: &Program, c: &Compute) -> Option<Hinted> {
    let (hint, zeros) = looked_through(program, supported(program, c)?);
    Some(Hinted {
        sums: c.out,
        out: c.out,
        hint,
        zeros,
        epilogue: Epilogue::default(),
    })
}

/// Returns whether integer products take operands of an element type.
pub fn is_operand(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::U8 | DType::I16 | DType::I32)
}

/// The hint of a stage, if a kernel takes the element types.
fn supported<'p>(program: &'p Program, c: &Compute) -> Option<&'p Hint> {
    let hint = program.hint(c.out)?;
    let of = |b: Buf| program.bufs[b].dtype;
    let fits = match (of(c.out), hint) {
        (_, Hint::Lines { .. } | Hint::Attention { .. }) => false,
        (dtype, Hint::Blockwise { .. }) => dtype == DType::F32,
        (dtype @ (DType::F16 | DType::BF16), Hint::Softmax { data, .. }) => of(*data) == dtype,
        // Factors are narrow as their rows, or floats.
        (
            dtype @ (DType::F16 | DType::BF16),
            Hint::LayerNorm {
                data, gamma, beta, ..
            },
        ) => {
            let factor = of(*gamma);
            of(*data) == dtype
                && (factor == dtype || factor == DType::F32)
                && beta.is_none_or(|b| of(b) == factor)
        }
        (DType::F32, _) => hint.operands().into_iter().all(|b| of(b) == DType::F32),
        (_, Hint::Requantize { .. }) => true,
        (DType::I32, Hint::Gemm { .. } | Hint::BatchGemm { .. } | Hint::Conv2d { .. }) => {
            hint.operands().into_iter().all(|b| is_operand(of(b)))
        }
        _ => false,
    };
    fits.then_some(hint)
}

/// An integer hint with the operands before their zero points were subtracted, and the zero points;
/// unchanged where there are none.
fn looked_through(program: &Program, hint: &Hint) -> (Hint, Vec<Option<Ex>>) {
    let mut hint = hint.clone();
    let mut zeros = Vec::new();
    if matches!(
        hint,
        Hint::Gemm { .. } | Hint::BatchGemm { .. } | Hint::Conv2d { .. }
    ) {
        for operand in hint.operands_mut() {
            let before = shifted(program, *operand);
            if let Some(s) = &before {
                *operand = s.from;
            }
            zeros.push(before.map(|s| s.zero));
        }
    }
    (hint, zeros)
}

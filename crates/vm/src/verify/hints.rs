//! Verification of hints in tensor programs, as far as their buffers allow.
//!
//! A hint makes native code call a kernel of the runtime, which relies on ranks, element types and
//! numbers. Extents are checked at the call.

use relax_loops::{Buf, Hint, Lines, Program, Stage};
use relax_tensor::DType;

/// An upper bound on steps, paddings and dilations.
const MOST: i64 = 1 << 24;

/// Returns whether each hint refers to an existing stage, and to buffers of the ranks and element
/// types that it requires.
pub(super) fn sound(p: &Program) -> bool {
    p.hints.iter().all(|(out, hint)| {
        let operands = hint.operands();
        let written = p.stages.iter().any(|s| writes(s, *out));
        written && !operands.contains(out) && fits(p, *out, hint)
    })
}

fn writes(stage: &Stage, out: Buf) -> bool {
    match stage {
        Stage::Compute(c) => c.out == out,
        Stage::Nest(body) => relax_loops::statements(body)
            .any(|s| matches!(s, relax_loops::Stmt::Store { buf, .. } if *buf == out)),
    }
}

fn fits(p: &Program, out: Buf, hint: &Hint) -> bool {
    let rank = |b: Buf| p.bufs[b].shape.len();
    let ranks = |all: &[(Buf, usize)]| all.iter().all(|&(b, n)| rank(b) == n);
    // Images, or signals, which are images with a single row.
    let images = |all: &[Buf]| [3, 4].iter().any(|&n| all.iter().all(|&b| rank(b) == n));
    let steps = |all: &[i64]| all.iter().all(|n| (1..=MOST).contains(n));
    let margins = |all: &[i64]| all.iter().all(|n| (0..=MOST).contains(n));
    let windows = |strides: &[i64], dilation: &[i64], padding: &[i64]| {
        steps(strides) && steps(dilation) && margins(padding)
    };
    match *hint {
        Hint::Gemm {
            a, b, transpose_a, ..
        } => {
            let first = if transpose_a { 2 } else { rank(a).max(1) };
            ranks(&[(a, first), (b, 2), (out, first)])
        }
        Hint::BatchGemm { a, b, .. } => ranks(&[(a, 3), (b, 3), (out, 3)]),
        Hint::Blockwise {
            data,
            weight,
            scale,
            block,
            bits,
        } => {
            let types = [(data, DType::F32), (weight, DType::I8), (scale, DType::F32)];
            let typed = types.iter().all(|&(b, dtype)| p.bufs[b].dtype == dtype);
            let whole = block % 2 == 0 || bits == 8;
            rank(data) > 0
                && ranks(&[(weight, 2), (scale, 2), (out, rank(data))])
                && typed
                && steps(&[block])
                && matches!(bits, 4 | 8)
                && whole
        }
        Hint::Attention { seen, .. } => {
            let operands = hint.operands();
            let near = seen.window.is_none_or(|n| n.abs() <= MOST);
            let all = operands.iter().chain([&out]);
            near && { all }.all(|&b| rank(b) == 4 && p.bufs[b].dtype == DType::F32)
        }
        Hint::Conv2d {
            data,
            weight,
            strides,
            padding,
            dilation,
            groups,
            ..
        } => {
            images(&[data, weight, out])
                && windows(&strides, &dilation, &padding)
                && steps(&[groups])
        }
        Hint::Depthwise3d {
            data,
            weight,
            strides,
            padding,
            dilation,
            ..
        } => ranks(&[(data, 5), (weight, 5), (out, 5)]) && windows(&strides, &dilation, &padding),
        Hint::Conv2dTranspose {
            data,
            weight,
            strides,
            padding,
            dilation,
            groups,
        } => {
            images(&[data, weight, out])
                && windows(&strides, &dilation, &padding)
                && steps(&[groups])
        }
        Hint::Softmax { data, .. } => rank(data) > 0 && rank(data) == rank(out),
        Hint::LayerNorm {
            data,
            gamma,
            beta,
            axis,
            groups,
            ..
        } => {
            let of = rank(gamma);
            let inside = of > 0 && axis < rank(data) && of <= rank(data) - axis;
            inside && ranks(&[(out, rank(data)), (beta.unwrap_or(gamma), of)]) && margins(&[groups])
        }
        Hint::Pool2d {
            data,
            window,
            strides,
            padding,
            dilation,
            nhwc,
            ..
        } => {
            (rank(data) == 4 || rank(data) == 3 && !nhwc)
                && rank(out) == rank(data)
                && steps(&window)
                && windows(&strides, &dilation, &padding)
        }
        Hint::Lines { data, axis, work } => {
            let kept = rank(out) == rank(data);
            let gone = rank(out) + 1 == rank(data) && matches!(work, Lines::Extreme { .. });
            axis < rank(data) && (kept || gone)
        }
        Hint::Requantize {
            data, tables, axis, ..
        } => {
            axis.is_none_or(|a| a < rank(data))
                && rank(data) == rank(out)
                && p.bufs[data].dtype == DType::I32
                && tables.iter().all(|&t| rank(t) == 1)
        }
    }
}

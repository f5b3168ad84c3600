//! Hints: the known operation that a stage computes, so that the compiler may use a runtime kernel
//! for it.
//!
//! A hint never changes semantics: the stage's own expression stays the definition, and kernels are
//! checked against it.

use crate::Buf;

/// A computation for which there are hand-tuned kernels. Buffers are row-major; a hint holds for
/// all extents.
#[derive(Clone, PartialEq, Debug)]
pub enum Hint {
    /// A matrix product whose second operand is a matrix. Without `transpose_a`, the leading axes
    /// of `a` are treated as one.
    Gemm {
        /// First operand.
        a: Buf,
        /// Second operand.
        b: Buf,
        /// Whether `a` is stored as (k, m).
        transpose_a: bool,
        /// Whether `b` is stored as (n, k).
        transpose_b: bool,
    },
    /// A matrix product per batch, operands of rank 3; a batch of 1 is broadcast.
    BatchGemm {
        /// First operand.
        a: Buf,
        /// Second operand.
        b: Buf,
        /// Whether `a` is stored as (batch, k, m).
        transpose_a: bool,
        /// Whether `b` is stored as (batch, n, k).
        transpose_b: bool,
    },
    /// A product with the rows of a weight quantised in blocks: signed integers of 8 bits, or of 4
    /// with two in a byte, the first one in its lower half. The leading axes of `data` are treated
    /// as one.
    Blockwise {
        /// First operand.
        data: Buf,
        /// The integers, (n, k), or (n, k / 2) with 4 bits.
        weight: Buf,
        /// The scales, (n, k / block).
        scale: Buf,
        /// The weights that share a scale.
        block: i64,
        /// The bits of a weight, 8 or 4.
        bits: i64,
    },
    /// A 2-D convolution, zero padded, or a 1-D one as images of one row. `data` is the unpadded
    /// input.
    Conv2d {
        /// The input, in (n, c, h, w), or (n, h, w, c) with `nhwc`; without h for 1-D.
        data: Buf,
        /// The weight, (o, i, kh, kw), or (kh, kw, i, o) with `nhwc`; without kh for 1-D.
        weight: Buf,
        /// Steps along h and w.
        strides: [i64; 2],
        /// Top, left, bottom, right.
        padding: [i64; 4],
        /// The dilation along h and w.
        dilation: [i64; 2],
        /// Groups of channels.
        groups: i64,
        /// Channels last.
        nhwc: bool,
    },
    /// A 3-D convolution, zero padded, in which each channel has windows of its own. `data` is the
    /// unpadded input.
    Depthwise3d {
        /// The input, in (n, c, d, h, w), or (n, d, h, w, c) with `last`.
        data: Buf,
        /// The weight, in C order (c, multiplier, kd, kh, kw), or (kd, kh, kw, c) with `last`; the
        /// axes of channels and their multiplier may be either way round.
        weight: Buf,
        /// Steps along d, h and w.
        strides: [i64; 3],
        /// Before d, h and w, and then behind them.
        padding: [i64; 6],
        /// The dilation along d, h and w.
        dilation: [i64; 3],
        /// Channels last.
        last: bool,
    },
    /// A transposed 2-D convolution in (n, c, h, w), or a 1-D one in (n, c, w).
    Conv2dTranspose {
        /// The input.
        data: Buf,
        /// The weight, (i, o, kh, kw); of lines (i, o, kw).
        weight: Buf,
        /// Distances in the output of adjacent inputs, along h and w.
        strides: [i64; 2],
        /// The number of rows and columns cropped from the output at the top and on the left.
        padding: [i64; 2],
        /// The dilation along h and w.
        dilation: [i64; 2],
        /// Groups of channels.
        groups: i64,
    },
    /// Softmax (or its logarithm) over the last axis.
    Softmax {
        /// The input.
        data: Buf,
        /// Whether the logarithm is computed.
        log: bool,
    },
    /// Values weighted by the softmax of products of queries and keys, for each head: all of float32
    /// in (batch, position, head, feature), where adjacent heads of queries share one of keys and
    /// values.
    Attention {
        /// The queries.
        q: Buf,
        /// The keys.
        k: Buf,
        /// The values.
        v: Buf,
        /// Added to the scaled products, (batch, head, query, key); an extent of 1 is broadcast.
        bias: Option<Buf>,
        /// The factor of products.
        scale: f64,
        /// The keys that count for a query.
        seen: Seen,
    },
    /// Normalisation of rows, scaled and shifted: for each index of the axes before `axis` one row
    /// of all elements, or so many of adjacent channels, which are the indices of `axis`.
    LayerNorm {
        /// The input.
        data: Buf,
        /// The scale, of the axes from `axis` on, as many as it has. Narrow floats are widened first.
        gamma: Buf,
        /// The shift, as `gamma`. Without one, rows are divided by the root of their mean square,
        /// and not centred before.
        beta: Option<Buf>,
        /// Added to the variance.
        epsilon: f64,
        /// The first axis of rows.
        axis: usize,
        /// The number of rows for one index of the axes before `axis`; 0 where each channel is one.
        groups: i64,
    },
    /// 2-D pooling, or 1-D pooling as images of one row. Windows may extend beyond the padding.
    Pool2d {
        /// The input, in (n, c, h, w), (n, c, w), or (n, h, w, c) with `nhwc`.
        data: Buf,
        /// Channels last.
        nhwc: bool,
        /// Extents of the window.
        window: [i64; 2],
        /// Steps along h and w.
        strides: [i64; 2],
        /// Top, left, bottom, right.
        padding: [i64; 4],
        /// The dilation of the window.
        dilation: [i64; 2],
        /// Whether it is the maximum (otherwise the mean).
        max: bool,
        /// Whether a mean counts padding.
        count_include_pad: bool,
    },
    /// An operation along all lines of an array, by a nest.
    Lines {
        /// The array.
        data: Buf,
        /// The axis that lines run along.
        axis: usize,
        /// The operation.
        work: Lines,
    },
    /// Sums requantised in fixed point:
    /// `bound(zero + int32((((int64(data + bias) << left) * factor + half) >> right)))`.
    Requantize {
        /// The sums, `int32`.
        data: Buf,
        /// Bias, left, factor, half, right and zero, one number per index of the axis each.
        tables: [Buf; 6],
        /// The axis; without one the tables have one number.
        axis: Option<usize>,
        /// The least and the largest result.
        bounds: (i64, i64),
    },
}

/// The operation of a nest along lines; the hint names the buffer that it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lines {
    /// The elements in order, stable, as many as the result has along the axis (0 where there are
    /// no more).
    Sorted {
        /// The least one first.
        ascend: bool,
        /// Whether their indices are written, rather than they themselves.
        indices: bool,
    },
    /// The index of the greatest element, or the least one; -1 for no elements. A result without
    /// the axis, or with extent 1.
    Extreme {
        /// The greatest one.
        greatest: bool,
        /// The last one of equals.
        last: bool,
    },
    /// The sums up to each element, or the products.
    Running {
        /// Products.
        product: bool,
        /// Whether the element itself is excluded.
        exclusive: bool,
    },
}

impl Hint {
    /// The buffers that the kernel reads.
    pub fn operands(&self) -> Vec<Buf> {
        let mut hint = self.clone();
        hint.operands_mut().into_iter().map(|b| *b).collect()
    }

    /// The same, for replacing them.
    pub fn operands_mut(&mut self) -> Vec<&mut Buf> {
        match self {
            Hint::Gemm { a, b, .. } | Hint::BatchGemm { a, b, .. } => vec![a, b],
            Hint::Blockwise {
                data,
                weight,
                scale,
                ..
            } => vec![data, weight, scale],
            Hint::Conv2d { data, weight, .. }
            | Hint::Depthwise3d { data, weight, .. }
            | Hint::Conv2dTranspose { data, weight, .. } => {
                vec![data, weight]
            }
            Hint::Softmax { data, .. } | Hint::Pool2d { data, .. } | Hint::Lines { data, .. } => {
                vec![data]
            }
            Hint::LayerNorm {
                data, gamma, beta, ..
            } => {
                let mut all = vec![data, gamma];
                all.extend(beta);
                all
            }
            Hint::Attention { q, k, v, bias, .. } => {
                let mut all = vec![q, k, v];
                all.extend(bias);
                all
            }
            Hint::Requantize { data, tables, .. } => {
                let mut all = vec![data];
                all.extend(tables);
                all
            }
        }
    }
}

/// The keys that count for a query.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Seen {
    /// None behind the query's own position.
    pub causal: bool,
    /// The last query is at the position of the last key, rather than the first at that of the
    /// first.
    pub at_end: bool,
    /// Only so many before the query's own position, with it.
    pub window: Option<i64>,
}

//! Kernels: the stages of a program that one kernel of the runtime computes together.
//!
//! A program without any leaves the choice to the compiler; one that has been through
//! `select-kernels` states it, and a text shows it: `kernel product { … }`.

use std::ops::Range;

/// What a kernel computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelKind {
    /// A matrix product or a convolution, with the epilogue of its sums.
    Product,
    /// A product of bytes whose sums become bytes again before they are stored.
    QuantizedProduct,
    /// Integer sums brought to another scale in fixed point.
    Requantize,
    /// Two products with a softmax between them.
    Attention,
    /// A convolution, with its epilogue, of which only the pooled values are stored.
    PooledConvolution,
    /// Maxima or means of windows.
    Pool,
    /// A softmax or a normalisation of rows.
    Rows,
    /// A scan, a sort or the place of an extreme along the lines of an array.
    Lines,
    /// A sum of products of two arrays that is no [`KernelKind::Product`].
    Contraction,
    /// Elements in other places.
    Copy,
    /// Expressions of elements, and reductions of them, in vectors.
    Vectors,
}

impl KernelKind {
    /// All kinds.
    ///
    /// Invariant: a kind keeps its place, which is its number in files.
    pub const ALL: [KernelKind; 11] = [
        KernelKind::Product,
        KernelKind::QuantizedProduct,
        KernelKind::Requantize,
        KernelKind::Attention,
        KernelKind::PooledConvolution,
        KernelKind::Pool,
        KernelKind::Rows,
        KernelKind::Lines,
        KernelKind::Contraction,
        KernelKind::Copy,
        KernelKind::Vectors,
    ];

    /// Returns its name in texts.
    ///
    /// ```
    /// use relax_loops::KernelKind;
    /// assert_eq!(KernelKind::PooledConvolution.name(), "pooled_convolution");
    /// assert_eq!(KernelKind::named("rows"), Some(KernelKind::Rows));
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            KernelKind::Product => "product",
            KernelKind::QuantizedProduct => "quantized_product",
            KernelKind::Requantize => "requantize",
            KernelKind::Attention => "attention",
            KernelKind::PooledConvolution => "pooled_convolution",
            KernelKind::Pool => "pool",
            KernelKind::Rows => "rows",
            KernelKind::Lines => "lines",
            KernelKind::Contraction => "contraction",
            KernelKind::Copy => "copy",
            KernelKind::Vectors => "vectors",
        }
    }

    /// Returns the kind of a name.
    pub fn named(name: &str) -> Option<KernelKind> {
        KernelKind::ALL.into_iter().find(|k| k.name() == name)
    }
}

/// Adjacent stages that one kernel computes: only what the last one writes is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// What it computes.
    pub kind: KernelKind,
    /// Their numbers.
    pub stages: Range<usize>,
}

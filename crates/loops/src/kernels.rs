//! Kernels: the stages of a program that one kernel of the runtime computes together.
//!
//! A program without any leaves the choice to the compiler; one that has been through
//! `select-kernels` states it, and a text shows it: `kernel product { … }`.

use std::ops::Range;

/// Declares the kinds of kernels, with their names in texts.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What a kernel computes.
        ///
        /// Invariant: a kind keeps its place, which is its number in files.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum KernelKind {
            $($(#[$doc])* $kind,)*
        }

        impl KernelKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &'static [KernelKind] = &[$(KernelKind::$kind),*];

            /// Returns its name in texts.
            ///
            /// ```
            /// use relax_loops::KernelKind;
            /// assert_eq!(KernelKind::PooledConvolution.name(), "pooled_convolution");
            /// assert_eq!(KernelKind::named("rows"), Some(KernelKind::Rows));
            /// ```
            pub fn name(self) -> &'static str {
                match self {
                    $(KernelKind::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// A matrix product or a convolution, with the epilogue of its sums.
    Product = "product",
    /// A product of bytes whose sums become bytes again before they are stored.
    QuantizedProduct = "quantized_product",
    /// Integer sums brought to another scale in fixed point.
    Requantize = "requantize",
    /// Two products with a softmax between them.
    Attention = "attention",
    /// A convolution, with its epilogue, of which only the pooled values are stored.
    PooledConvolution = "pooled_convolution",
    /// Maxima or means of windows.
    Pool = "pool",
    /// A softmax or a normalisation of rows.
    Rows = "rows",
    /// A scan, a sort or the place of an extreme along the lines of an array.
    Lines = "lines",
    /// A sum of products of two arrays that is no [`KernelKind::Product`].
    Contraction = "contraction",
    /// Elements in other places.
    Copy = "copy",
    /// Expressions of elements, and reductions of them, in vectors.
    Vectors = "vectors",
}

impl KernelKind {
    /// Returns the kind of a name.
    pub fn named(name: &str) -> Option<KernelKind> {
        KernelKind::ALL.iter().copied().find(|k| k.name() == name)
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

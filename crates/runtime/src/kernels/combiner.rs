//! What reductions combine elements with.

use crate::c_enumeration;

c_enumeration! {
    /// The operations that reductions combine elements with.
    pub enum Combiner {
        /// The sum.
        Sum = "RX_COMBINE_SUM",
        /// The product.
        Product = "RX_COMBINE_PRODUCT",
        /// The greatest.
        Max = "RX_COMBINE_MAX",
        /// The least.
        Min = "RX_COMBINE_MIN",
        /// Bitwise and.
        And = "RX_COMBINE_AND",
        /// Bitwise or.
        Or = "RX_COMBINE_OR",
    }
}

//! The native cost of calls, on which the choice of a graph's layouts is based.

use relax_ir::Attrs;
use relax_tensor::DType;

/// A tensor of known extents that a call reads or produces.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its extents.
    pub extents: Vec<i64>,
    /// Its element type.
    pub dtype: DType,
}

impl Known {
    /// Number of elements.
    pub fn elements(&self) -> f64 {
        self.extents.iter().map(|&d| d as f64).product()
    }
}

/// A call whose cost is to be estimated.
#[derive(Clone, Copy, Debug)]
pub struct Priced<'a> {
    /// The attributes, complete.
    pub attrs: &'a Attrs,
    /// The operands, with the fields of tuples as separate operands.
    pub operands: &'a [Known],
    /// The results.
    pub results: &'a [Known],
}

/// Returns the native cost of a call, in nanoseconds on one thread of the machine that
/// `families::costs` was measured on; `None` when its attributes do not determine it. Only the
/// differences between alternatives matter: operators without a cost function cost the same in
/// every layout.
pub type CostFn = fn(&Priced<'_>) -> Option<f64>;

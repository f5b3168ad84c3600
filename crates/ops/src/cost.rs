//! What calls cost natively: how a graph's layouts are chosen.

use relax_ir::Attrs;
use relax_tensor::DType;

/// A tensor of known extents that a call reads or gives.
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

/// A call whose cost is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Priced<'a> {
    /// The attributes, complete.
    pub attrs: &'a Attrs,
    /// The operands; the fields of tuples one by one.
    pub operands: &'a [Known],
    /// The results.
    pub results: &'a [Known],
}

/// What native code takes for a call, in nanoseconds on one thread of the machine whose
/// measurements stand in `families::costs`; `None` when its attributes do not say. Only the
/// differences between ways of doing the same matter: operators without it cost the same in every
/// layout.
pub type CostFn = fn(&Priced<'_>) -> Option<f64>;

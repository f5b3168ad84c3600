//! Where scales along channels lie in the weights of contractions.

use relax_ir::Attrs;
use relax_sym::Dim;

/// How an operator interacts with a scale of its operand along an axis.
#[derive(Clone, Copy, Debug)]
pub enum ScaleRole {
    /// It is the scaling itself: a product.
    Product,
    /// A positive scale can be moved across it.
    Positive,
    /// It adds another operand, which has to be scaled too.
    Sum,
    /// It adds a vector along `axis`, which has to be scaled too.
    Bias,
    /// It contracts its first operand with its second, the weight, which can hold the scale; this is
    /// where.
    Contraction(fn(&ScaleSite<'_>) -> Option<Contraction>),
}

/// A call of a contraction.
#[derive(Clone, Copy, Debug)]
pub struct ScaleSite<'a> {
    /// Its attributes, with the defaults of those that are not given.
    pub attrs: &'a Attrs,
    /// The dimensions of the first operand.
    pub data: &'a [Dim],
    /// The dimensions of the weight.
    pub weight: &'a [Dim],
    /// The dimensions of the result.
    pub result: &'a [Dim],
}

/// The axes of channels of a contraction: those that its result has a number of its own for, and those
/// of the data that it sums over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contraction {
    /// The channels that are summed over.
    pub inputs: Channels,
    /// The channels of the result.
    pub outputs: Channels,
}

/// Channels in a tensor, and in the weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channels {
    /// The axes of the tensor, ascending: several where channels are in blocks.
    pub axes: Vec<usize>,
    /// Where their numbers lie in the weight.
    pub weight: Lie,
}

/// Where the numbers of channels lie in a weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Along these axes, ascending: one for each of the tensor's, in their order.
    Along(Vec<usize>),
    /// Along two axes, of which the first has the groups, each of them `repeats` times in a row, and
    /// the second the channels of a group.
    Groups {
        /// The axes.
        axes: [usize; 2],
        /// The number of groups, and the channels of each.
        groups: [i64; 2],
        /// How many indices of the first axis belong to a group.
        repeats: i64,
    },
}

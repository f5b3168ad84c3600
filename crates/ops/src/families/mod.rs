//! The families, one file each. A new family is a new file and one line here.
//!
//! Operators that an `op` item of `prelude/ops.relay` could state stand here all the same where one
//! of these holds, which it does for each of them:
//! - other systems know it by its name: TVM's texts, JSON graphs and TVMScript, which have no form
//!   for an item;
//! - it is what an item is made of: `expand-op-items` finds the operator of a scalar function here;
//! - it takes part in fusion, or a pass asks its entry about layouts, scales, bytes, approximations
//!   or types in Relax; of an item passes know its computation alone, and leave its calls as they are;
//! - it broadcasts, computes on integers as TVM does (`sqrt` of them truncates), or takes tensors of
//!   unknown rank; an item has the shapes that its signature names, and refuses such elements.
//!
//! An item costs what reads it, too: the first one in a text is found by reading the prelude's, a
//! tenth of the time in which a tool reads and prints a small file.

mod affine_rules;
mod affine_totals;
mod annotate;
mod axes;
mod binary;
mod broadcast_to;
mod cast;
mod conv_attrs;
mod conv_forms;
mod costs;
mod create;
mod distinct;
mod dyn_axes;
mod dyn_image;
mod einsum;
mod einsum_equation;
mod einsum_pairs;
mod elementwise;
mod extent_rules;
mod fixed_point;
mod fourier;
mod gather;
mod gradients;
mod gradients_parts;
mod hinted;
mod hinted_windows;
mod image_resize;
mod image_sample;
mod inference_forms;
mod join;
mod late;
mod late_compute;
mod layout;
pub mod layout_rules;
mod memory;
mod narrow;
mod nn_activation;
mod nn_bitserial;
mod nn_block;
mod nn_conv;
mod nn_conv_grad;
mod nn_conv_live;
mod nn_conv_planes;
mod nn_conv_spread;
mod nn_conv_transpose;
mod nn_deform;
mod nn_dense;
mod nn_loss;
mod nn_norm;
mod nn_pad;
mod nn_pool;
mod nn_pool_grad;
mod nn_sparse;
mod nn_winograd;
mod qnn;
mod qnn_arith;
mod qnn_blockwise;
mod qnn_product;
mod qnn_util;
mod random;
mod reduce;
mod relax;
mod relax_attention;
mod relax_forms;
mod relax_index;
mod relax_kept;
mod relax_math;
mod relax_nn;
mod relax_norm;
mod relax_rules;
mod relax_shape;
mod relax_unique;
mod relax_vision;
mod repeat;
mod resample;
mod reshape;
mod resize_axis;
mod scale_rules;
mod scan;
mod scatter;
mod search;
mod select;
mod shapes;
mod slice;
mod sort;
mod sorting;
mod sparse;
mod transform;
pub mod util;
pub mod util_te;
mod vision_detect;
mod vision_nms;
mod vision_proposal;
mod vision_roi;
mod winograd;

/// All families.
pub static FAMILIES: &[&[crate::OpDef]] = &[
    annotate::OPS,
    axes::OPS,
    binary::OPS,
    broadcast_to::OPS,
    cast::OPS,
    create::OPS,
    distinct::OPS,
    dyn_axes::OPS,
    dyn_image::OPS,
    einsum::OPS,
    elementwise::OPS,
    fixed_point::OPS,
    fourier::OPS,
    gather::OPS,
    image_resize::OPS,
    image_sample::OPS,
    join::OPS,
    late::OPS,
    layout::OPS,
    memory::OPS,
    narrow::OPS,
    nn_conv::OPS,
    nn_conv_grad::OPS,
    nn_conv_transpose::OPS,
    nn_dense::OPS,
    nn_deform::OPS,
    nn_activation::OPS,
    nn_bitserial::OPS,
    nn_block::OPS,
    nn_loss::OPS,
    nn_norm::OPS,
    nn_pad::OPS,
    nn_pool::OPS,
    nn_pool_grad::OPS,
    nn_sparse::OPS,
    nn_winograd::OPS,
    qnn::OPS,
    qnn_arith::OPS,
    qnn_blockwise::OPS,
    qnn_product::OPS,
    random::OPS,
    reduce::OPS,
    relax::OPS,
    relax_attention::OPS,
    relax_forms::OPS,
    relax_index::OPS,
    relax_kept::OPS,
    relax_math::OPS,
    relax_nn::OPS,
    relax_norm::OPS,
    relax_shape::OPS,
    relax_vision::OPS,
    repeat::OPS,
    reshape::OPS,
    resize_axis::OPS,
    scan::OPS,
    scatter::OPS,
    search::OPS,
    select::OPS,
    shapes::OPS,
    slice::OPS,
    sort::OPS,
    sparse::OPS,
    vision_roi::OPS,
    vision_detect::OPS,
    vision_nms::OPS,
    vision_proposal::OPS,
];

pub use affine_rules::{dequantized, requantized};

/// Type relations that the text knows by name, for `where` clauses, with the number of arguments
/// that they relate to a result.
pub static RELATIONS: &[(&str, usize, crate::RelFn)] = &[
    ("Broadcast", 2, binary::broadcast),
    ("Identity", 1, elementwise::identity),
];

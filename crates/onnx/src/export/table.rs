//! The operators that have an ONNX form, one entry each.

use super::call::Call;
use super::entries::{dynamic, elementwise, index, matrix, movement, norm, reduce, window};
use super::walk::{R, Val};

/// The export of a call.
#[derive(Clone, Copy)]
pub(super) enum Write {
    /// As a single node of this operator with the same arguments.
    Node(&'static str),
    /// By a function.
    By(fn(&mut Call<'_, '_>) -> R<Val>),
}

use Write::{By, Node};

/// Returns the entry of an operator.
pub(super) fn find(name: &str) -> Option<Write> {
    let at = ENTRIES.binary_search_by(|e| e.0.cmp(name)).ok()?;
    Some(ENTRIES[at].1)
}

/// All entries, sorted by name.
pub(super) static ENTRIES: &[(&str, Write)] = &[
    ("abs", Node("Abs")),
    ("acos", Node("Acos")),
    ("acosh", Node("Acosh")),
    ("add", Node("Add")),
    ("all", By(|c| reduce::truth(c, "ReduceProd"))),
    ("annotation.stop_fusion", Node("Identity")),
    ("any", By(|c| reduce::truth(c, "ReduceSum"))),
    ("arange", By(index::arange)),
    ("argmax", By(|c| reduce::place(c, "ArgMax"))),
    ("argmin", By(|c| reduce::place(c, "ArgMin"))),
    ("argsort", By(|c| index::sorted(c, true))),
    ("argwhere", By(index::argwhere)),
    ("asin", Node("Asin")),
    ("asinh", Node("Asinh")),
    ("atan", Node("Atan")),
    ("atanh", Node("Atanh")),
    ("bitwise_and", Node("BitwiseAnd")),
    ("bitwise_not", Node("BitwiseNot")),
    ("bitwise_or", Node("BitwiseOr")),
    ("bitwise_xor", Node("BitwiseXor")),
    ("broadcast_to", By(movement::expanded)),
    ("broadcast_to_like", By(movement::expanded)),
    ("cast", By(elementwise::cast)),
    ("cast_like", By(elementwise::cast)),
    ("ceil", Node("Ceil")),
    ("celu", By(|c| elementwise::with_alpha(c, "Celu"))),
    ("clip", By(elementwise::clip)),
    ("collapse_sum_like", By(reduce::collapsed)),
    ("collapse_sum_to", By(reduce::collapsed)),
    ("concatenate", By(movement::concatenate)),
    ("copy", Node("Identity")),
    ("cos", Node("Cos")),
    ("cosh", Node("Cosh")),
    ("cumprod", By(|c| index::cumulated(c, "CumProd"))),
    ("cumsum", By(|c| index::cumulated(c, "CumSum"))),
    ("determinant", Node("Det")),
    ("device_copy", Node("Identity")),
    ("divide", Node("Div")),
    ("dyn.broadcast_to", By(dynamic::broadcast_to)),
    ("dyn.cumprod", By(|c| dynamic::cumulated(c, "CumProd"))),
    ("dyn.cumsum", By(|c| dynamic::cumulated(c, "CumSum"))),
    ("dyn.expand", By(dynamic::expand)),
    ("dyn.full", By(dynamic::full)),
    ("dyn.max", By(|c| dynamic::reduced(c, "ReduceMax"))),
    ("dyn.mean", By(|c| dynamic::reduced(c, "ReduceMean"))),
    ("dyn.min", By(|c| dynamic::reduced(c, "ReduceMin"))),
    ("dyn.one_hot", By(dynamic::one_hot)),
    ("dyn.pad", By(dynamic::pad)),
    ("dyn.prod", By(|c| dynamic::reduced(c, "ReduceProd"))),
    ("dyn.reshape", By(dynamic::reshape)),
    ("dyn.slice", By(dynamic::slice)),
    ("dyn.squeeze", By(|c| dynamic::axes(c, "Squeeze"))),
    ("dyn.sum", By(|c| dynamic::reduced(c, "ReduceSum"))),
    ("dyn.tile", By(|c| dynamic::axes(c, "Tile"))),
    ("dyn.topk", By(index::topk)),
    ("dyn.unsqueeze", By(|c| dynamic::axes(c, "Unsqueeze"))),
    ("einsum", By(matrix::einsum)),
    ("elu", By(|c| elementwise::with_alpha(c, "Elu"))),
    ("equal", Node("Equal")),
    ("erf", Node("Erf")),
    ("exp", Node("Exp")),
    ("expand_dims", By(movement::expand_dims)),
    ("fast_erf", Node("Erf")),
    ("fast_exp", Node("Exp")),
    ("fast_tanh", Node("Tanh")),
    ("floor", Node("Floor")),
    ("floor_divide", By(elementwise::floor_divide)),
    ("floor_mod", By(elementwise::floor_mod)),
    ("full", By(movement::filled)),
    ("full_like", By(movement::filled_like)),
    ("gather", By(index::gather)),
    ("gather_nd", By(index::gather_nd)),
    ("gelu", Node("Gelu")),
    ("gelu_tanh", By(elementwise::gelu_tanh)),
    ("greater", Node("Greater")),
    ("greater_equal", Node("GreaterOrEqual")),
    ("hard_swish", Node("HardSwish")),
    ("image.grid_sample", By(window::grid_sample)),
    ("image.resize1d", By(window::resize)),
    ("image.resize2d", By(window::resize)),
    ("image.resize3d", By(window::resize)),
    ("image.resize_axis", By(window::resize_axis)),
    ("isfinite", By(elementwise::isfinite)),
    ("isinf", Node("IsInf")),
    ("isnan", Node("IsNaN")),
    ("left_shift", By(|c| elementwise::shift(c, "LEFT"))),
    ("less", Node("Less")),
    ("less_equal", Node("LessOrEqual")),
    ("log", Node("Log")),
    (
        "log10",
        By(|c| elementwise::log(c, std::f64::consts::LN_10)),
    ),
    ("log2", By(|c| elementwise::log(c, std::f64::consts::LN_2))),
    ("logical_and", Node("And")),
    ("logical_not", Node("Not")),
    ("logical_or", Node("Or")),
    ("logical_xor", Node("Xor")),
    ("max", By(|c| reduce::reduced(c, "ReduceMax"))),
    ("maximum", Node("Max")),
    ("mean", By(|c| reduce::reduced(c, "ReduceMean"))),
    ("min", By(|c| reduce::reduced(c, "ReduceMin"))),
    ("minimum", Node("Min")),
    ("mish", Node("Mish")),
    ("mod", By(elementwise::trunc_mod)),
    ("multiply", Node("Mul")),
    ("ndarray_size", By(index::size)),
    ("negative", Node("Neg")),
    (
        "nn.adaptive_avg_pool1d",
        By(|c| window::adaptive(c, "GlobalAveragePool", "AveragePool")),
    ),
    (
        "nn.adaptive_avg_pool2d",
        By(|c| window::adaptive(c, "GlobalAveragePool", "AveragePool")),
    ),
    (
        "nn.adaptive_avg_pool3d",
        By(|c| window::adaptive(c, "GlobalAveragePool", "AveragePool")),
    ),
    (
        "nn.adaptive_max_pool1d",
        By(|c| window::adaptive(c, "GlobalMaxPool", "MaxPool")),
    ),
    (
        "nn.adaptive_max_pool2d",
        By(|c| window::adaptive(c, "GlobalMaxPool", "MaxPool")),
    ),
    (
        "nn.adaptive_max_pool3d",
        By(|c| window::adaptive(c, "GlobalMaxPool", "MaxPool")),
    ),
    ("nn.avg_pool1d", By(|c| window::pool(c, "AveragePool"))),
    ("nn.avg_pool2d", By(|c| window::pool(c, "AveragePool"))),
    ("nn.avg_pool3d", By(|c| window::pool(c, "AveragePool"))),
    ("nn.batch_flatten", By(movement::to_shape)),
    ("nn.batch_matmul", By(matrix::matmul)),
    ("nn.batch_norm", By(norm::batch)),
    ("nn.bias_add", By(norm::bias)),
    ("nn.conv1d", By(window::conv)),
    ("nn.conv1d_transpose", By(window::conv_transpose)),
    ("nn.conv2d", By(window::conv)),
    ("nn.conv2d_transpose", By(window::conv_transpose)),
    ("nn.conv3d", By(window::conv)),
    ("nn.conv3d_transpose", By(window::conv_transpose)),
    ("nn.deformable_conv2d", By(window::deformable)),
    ("nn.dense", By(matrix::dense)),
    ("nn.depth_to_space", By(window::depth_to_space)),
    ("nn.dropout", By(norm::dropout)),
    ("nn.fast_softmax", By(|c| norm::along(c, "Softmax"))),
    (
        "nn.global_avg_pool2d",
        By(|c| window::global(c, "GlobalAveragePool")),
    ),
    (
        "nn.global_max_pool2d",
        By(|c| window::global(c, "GlobalMaxPool")),
    ),
    ("nn.group_norm", By(norm::group)),
    ("nn.instance_norm", By(norm::instance)),
    ("nn.layer_norm", By(norm::layer)),
    (
        "nn.leaky_relu",
        By(|c| elementwise::with_alpha(c, "LeakyRelu")),
    ),
    ("nn.log_softmax", By(|c| norm::along(c, "LogSoftmax"))),
    ("nn.lrn", By(norm::lrn)),
    ("nn.matmul", By(matrix::matmul)),
    ("nn.max_pool1d", By(|c| window::pool(c, "MaxPool"))),
    ("nn.max_pool2d", By(|c| window::pool(c, "MaxPool"))),
    ("nn.max_pool3d", By(|c| window::pool(c, "MaxPool"))),
    ("nn.mirror_pad", By(movement::mirror_pad)),
    ("nn.pad", By(movement::pad)),
    ("nn.prelu", By(norm::prelu)),
    ("nn.relu", Node("Relu")),
    ("nn.softmax", By(|c| norm::along(c, "Softmax"))),
    ("nn.space_to_depth", By(window::space_to_depth)),
    ("nn.upsampling", By(window::resize)),
    ("nn.upsampling3d", By(window::resize)),
    ("not_equal", By(elementwise::not_equal)),
    ("one_hot", By(index::one_hot)),
    ("ones", By(|c| movement::number(c, 1.0))),
    ("ones_like", By(|c| movement::number(c, 1.0))),
    ("power", Node("Pow")),
    ("prod", By(|c| reduce::reduced(c, "ReduceProd"))),
    ("reciprocal", Node("Reciprocal")),
    ("reinterpret", By(elementwise::bits)),
    ("relu6", By(elementwise::relu6)),
    ("repeat", By(movement::repeat)),
    ("reshape", By(movement::to_shape)),
    ("reshape_like", By(movement::to_shape)),
    ("reverse", By(movement::reverse)),
    ("reverse_sequence", By(index::reverse_sequence)),
    ("right_shift", By(|c| elementwise::shift(c, "RIGHT"))),
    ("round", By(elementwise::round)),
    ("round_half_to_even", Node("Round")),
    ("rsqrt", By(elementwise::rsqrt)),
    ("scatter_elements", By(index::scatter_elements)),
    ("scatter_nd", By(index::scatter_nd)),
    ("selu", Node("Selu")),
    ("shape_of", By(index::shape_of)),
    ("sigmoid", Node("Sigmoid")),
    ("sign", Node("Sign")),
    ("silu", By(elementwise::silu)),
    ("sin", Node("Sin")),
    ("sinh", Node("Sinh")),
    ("slice_like", By(movement::slice_like)),
    ("softsign", Node("Softsign")),
    ("sort", By(|c| index::sorted(c, false))),
    ("split", By(movement::split)),
    ("sqrt", Node("Sqrt")),
    ("square", By(elementwise::square)),
    ("squeeze", By(movement::squeeze)),
    ("stack", By(movement::stack)),
    ("strided_slice", By(movement::strided_slice)),
    ("subtract", Node("Sub")),
    ("sum", By(|c| reduce::reduced(c, "ReduceSum"))),
    ("take", By(index::take)),
    ("tan", Node("Tan")),
    ("tanh", Node("Tanh")),
    ("tile", By(movement::tile)),
    ("topk", By(index::topk)),
    ("transpose", By(movement::transpose)),
    ("trilu", By(index::trilu)),
    ("trunc", By(elementwise::trunc)),
    ("trunc_divide", By(elementwise::trunc_divide)),
    ("trunc_mod", By(elementwise::trunc_mod)),
    ("unique_slices", By(index::unique)),
    ("variance", By(reduce::variance)),
    (
        "vision.all_class_non_max_suppression",
        By(index::kept_boxes),
    ),
    ("vision.roi_align", By(window::roi_align)),
    ("where", By(elementwise::choose)),
    ("zeros", By(|c| movement::number(c, 0.0))),
    ("zeros_like", By(|c| movement::number(c, 0.0))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_order() {
        assert!(ENTRIES.is_sorted_by(|a, b| a.0 < b.0));
    }

    /// Every entry is an operator of the registry, or one that the prelude defines.
    #[test]
    fn entries_are_operators() {
        let prelude = include_str!("../../../../prelude/ops.relay");
        for (name, _) in ENTRIES {
            let known = relax_ops::registry().iter().any(|(_, d)| d.name == *name)
                || prelude.contains(&format!("\nop {name}["))
                || prelude.contains(&format!("\nop {name}("));
            assert!(known, "there is no operator `{name}`");
        }
    }
}

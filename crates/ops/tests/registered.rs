//! Every operator that Relay programs use is registered.

use relax_ops::{Lowering, registry};

#[test]
fn operators_of_images_networks_and_quantisation_are_registered() {
    let names = "
        qnn.quantize qnn.dequantize qnn.requantize qnn.conv1d qnn.conv2d qnn.conv2d_transpose
        qnn.dense
        qnn.contrib_dense_pack qnn.batch_matmul qnn.add qnn.subtract qnn.mul qnn.concatenate
        qnn.leaky_relu qnn.simulated_quantize qnn.simulated_dequantize qnn.tanh qnn.exp qnn.sqrt
        qnn.rsqrt qnn.erf qnn.sigmoid qnn.hardswish qnn.log qnn.abs
        vision.get_valid_counts vision.non_max_suppression vision.all_class_non_max_suppression
        vision.roi_align vision.roi_pool vision.multibox_prior vision.multibox_transform_loc
        vision.proposal vision.yolo_reorg
        image.resize1d image.resize2d image.resize3d image.crop_and_resize image.dilation2d
        image.affine_grid image.grid_sample
        random.threefry_generate random.threefry_split random.uniform random.normal
        random.multinomial debug
        nn.deformable_conv2d nn.correlation nn.fifo_buffer nn.sparse_dense nn.sparse_add
        nn.sparse_transpose nn.sparse_conv2d nn.internal.sparse_dense_padded nn.max_pool2d_grad
        nn.avg_pool2d_grad nn.bitpack nn.bitserial_conv2d nn.bitserial_dense
        nn.contrib_conv2d_winograd_weight_transform
        nn.contrib_conv2d_winograd_without_weight_transform
        nn.contrib_conv2d_winograd_nnpack_weight_transform
        nn.contrib_conv3d_winograd_weight_transform
        nn.contrib_conv3d_winograd_without_weight_transform
        nn.contrib_conv2d_gemm_weight_transform nn.contrib_conv2d_gemm_without_weight_transform
        nn.contrib_conv2d_NCHWc nn.contrib_depthwise_conv2d_NCHWc nn.contrib_dense_pack
        nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose
        nn.conv2d_backward_weight nn.dense nn.matmul nn.batch_matmul nn.bias_add
        nn.relu nn.leaky_relu nn.prelu nn.softmax nn.fast_softmax nn.log_softmax nn.dropout
        nn.batch_norm nn.layer_norm nn.group_norm nn.instance_norm nn.l2_normalize nn.lrn
        nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d
        nn.global_max_pool2d nn.global_avg_pool2d nn.adaptive_max_pool1d nn.adaptive_max_pool2d
        nn.adaptive_max_pool3d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d
        nn.adaptive_avg_pool3d nn.pad nn.mirror_pad nn.upsampling nn.upsampling3d
        nn.batch_flatten nn.depth_to_space nn.space_to_depth nn.space_to_batch_nd
        nn.batch_to_space_nd nn.dilate nn.cross_entropy nn.cross_entropy_with_logits nn.nll_loss";
    let missing: Vec<&str> = names
        .split_whitespace()
        .filter(|n| registry().find(n).is_none())
        .collect();
    assert!(missing.is_empty(), "not registered: {missing:?}");
}

#[test]
fn names_are_unique_and_everything_is_said() {
    let mut last = "";
    for (_, op) in registry().iter() {
        assert!(op.name > last, "{} is registered twice", op.name);
        last = op.name;
        assert!(
            op.doc.ends_with('.'),
            "{}: the documentation is no sentence",
            op.name
        );
        let treated = op.compute.is_some() || op.hooks.lowering != Lowering::Computed;
        assert_ne!(
            treated,
            !op.hooks.uncomputed.is_empty(),
            "{}: computed, treated by the compiler, or why not",
            op.name
        );
        for a in op.attrs {
            assert!(
                !a.doc.is_empty(),
                "{}: attribute {} says nothing",
                op.name,
                a.name
            );
        }
    }
}

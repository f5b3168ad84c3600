//! The cost model for choosing layouts knows when a convolution uses a Winograd kernel.
#![cfg(feature = "native")]

use relax_ops::{AttrValue, Known, Priced, registry};
use relax_runtime::kernels::conv::{RxConv2dSizes, filters_minimally};
use relax_tensor::DType;

/// Returns the cost of a padded 3 by 3 convolution, channels first, with this dilation.
fn cost(c: i64, o: i64, size: i64, apart: i64) -> f64 {
    let op = registry()
        .find("nn.conv2d")
        .and_then(|op| registry().get(op));
    let def = op.expect("an operator");
    let mut attrs = def.default_attrs();
    attrs.set("padding", AttrValue::ints(&[apart, apart]));
    attrs.set("dilation", AttrValue::ints(&[apart, apart]));
    let known = |extents: [i64; 4]| Known {
        extents: extents.to_vec(),
        dtype: DType::F32,
    };
    let operands = [known([1, c, size, size]), known([o, c, 3, 3])];
    let results = [known([1, o, size, size])];
    let price = def.hooks.cost.expect("convolutions have a cost");
    let cost = price(&Priced {
        attrs: &attrs,
        operands: &operands,
        results: &results,
    });
    cost.expect("all extents are known")
}

#[test]
fn the_model_knows_when_the_kernel_filters_minimally() {
    let (mut filtered, mut plain) = (0, 0);
    for c in [16, 31, 32, 48, 64, 128, 512, 2048] {
        for o in [16, 32, 33, 64, 256, 1024] {
            for size in 1..70 {
                let sizes = RxConv2dSizes {
                    n: 1,
                    c,
                    h: size,
                    w: size,
                    o,
                    kh: 3,
                    kw: 3,
                    oh: size,
                    ow: size,
                    stride_h: 1,
                    stride_w: 1,
                    pad_t: 1,
                    pad_l: 1,
                    dilation_h: 1,
                    dilation_w: 1,
                    groups: 1,
                };
                // Dilated convolutions do not use Winograd.
                let model = cost(c, o, size, 1) < cost(c, o, size, 2);
                let kernel = filters_minimally(&sizes, 0);
                assert_eq!(model, kernel, "{c} to {o} channels, {size} by {size}");
                *(if kernel { &mut filtered } else { &mut plain }) += 1;
            }
        }
    }
    assert!(filtered > 500 && plain > 500, "{filtered} and {plain}");
}

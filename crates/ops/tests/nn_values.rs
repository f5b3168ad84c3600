//! Values of the less common neural network operators, checked against the common ones where
//! possible.

mod common;

use common::{Known, f, gives, i, ints, numbers, run, t, text};
use relax_ir::AttrValue;
use relax_tensor::{DType, Tensor};

fn int(v: i64) -> AttrValue {
    AttrValue::Int(v)
}

/// Returns deterministic pseudo-random numbers.
fn noise(shape: &[i64], seed: u64) -> Tensor {
    let n: i64 = shape.iter().product();
    let mut x = seed;
    let v: Vec<f64> = (0..n)
        .map(|_| {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((x >> 33) % 17) as f64 / 4.0 - 2.0
        })
        .collect();
    f(shape, &v)
}

fn one(name: &str, given: &[(&str, AttrValue)], args: &[&[Tensor]], shape: &[i64]) -> Tensor {
    let out = [Tensor::zeros(DType::F32, shape)];
    let got = run(name, given, args, &out, Known::Static);
    got.unwrap_or_else(|e| panic!("{name}: {e}")).remove(0)
}

#[track_caller]
fn same(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape(), b.shape());
    for (x, y) in numbers(a).iter().zip(numbers(b)) {
        assert!(
            (x - y).abs() < 1e-3,
            "{:?} and {:?}",
            numbers(a),
            numbers(b)
        );
    }
}

#[test]
fn deformable_convolution_without_offsets_is_convolution() {
    let (x, w) = ([noise(&[1, 4, 6, 5], 1)], [noise(&[3, 4, 3, 3], 2)]);
    let given = [("padding", ints(&[1, 1])), ("strides", ints(&[2, 1]))];
    let want = one("nn.conv2d", &given, &[&x, &w], &[1, 3, 3, 5]);
    let mut given = given.to_vec();
    given.push(("deformable_groups", int(2)));
    let none = [Tensor::zeros(DType::F32, &[1, 36, 3, 5])];
    gives("nn.deformable_conv2d", &given, &[&x, &none, &w], &[want]);
    // Half a step to the right, past the edge for the last element.
    gives(
        "nn.deformable_conv2d",
        &[],
        &[
            &[f(&[1, 1, 1, 2], &[2.0, 4.0])],
            &[f(&[1, 2, 1, 2], &[0.0, 0.0, 0.5, 1.5])],
            &[f(&[1, 1, 1, 1], &[1.0])],
        ],
        &[f(&[1, 1, 1, 2], &[3.0, 0.0])],
    );
}

#[test]
fn winograds_convolution_is_convolution() {
    let (x, w) = ([noise(&[2, 3, 7, 6], 3)], [noise(&[4, 3, 3, 3], 4)]);
    let padding = ("padding", ints(&[1, 0, 1, 2]));
    let want = one(
        "nn.conv2d",
        std::slice::from_ref(&padding),
        &[&x, &w],
        &[2, 4, 7, 6],
    );
    for tile in [2, 4, 6] {
        let size = tile + 2;
        let tile = ("tile_size", int(tile));
        let u = one(
            "nn.contrib_conv2d_winograd_weight_transform",
            std::slice::from_ref(&tile),
            &[&w],
            &[size, size, 4, 3],
        );
        let given = [
            tile,
            padding.clone(),
            ("channels", int(4)),
            ("kernel_size", ints(&[3, 3])),
        ];
        let got = one(
            "nn.contrib_conv2d_winograd_without_weight_transform",
            &given,
            &[&x, &[u]],
            &[2, 4, 7, 6],
        );
        same(&got, &want);
    }
    let x = [noise(&[1, 2, 5, 6, 4], 5)];
    for (depth, form) in [(3, vec![4, 4, 4, 3, 2]), (1, vec![4, 4, 1, 3, 2])] {
        let w = [noise(&[3, 2, depth, 3, 3], 6)];
        let out = [1, 3, 6 - depth, 4, 2];
        let want = one("nn.conv3d", &[], &[&x, &w], &out);
        let tile = ("tile_size", int(2));
        let u = one(
            "nn.contrib_conv3d_winograd_weight_transform",
            std::slice::from_ref(&tile),
            &[&w],
            &form,
        );
        let given = [
            tile,
            ("channels", int(3)),
            ("kernel_size", ints(&[depth, 3, 3])),
        ];
        let got = one(
            "nn.contrib_conv3d_winograd_without_weight_transform",
            &given,
            &[&x, &[u]],
            &out,
        );
        same(&got, &want);
    }
}

#[test]
fn convolution_with_tiled_weights_is_convolution() {
    let (x, w) = ([noise(&[1, 5, 6, 3], 7)], [noise(&[3, 2, 3, 5], 8)]);
    let layouts = [
        ("data_layout", text("NHWC")),
        ("kernel_layout", text("HWIO")),
    ];
    let want = one("nn.conv2d", &layouts, &[&x, &w], &[1, 3, 5, 5]);
    let tiles = [("tile_rows", int(4)), ("tile_cols", int(16))];
    let u = one(
        "nn.contrib_conv2d_gemm_weight_transform",
        &tiles,
        &[&w],
        &[2, 2, 4, 16],
    );
    let given = [
        layouts[0].clone(),
        layouts[1].clone(),
        ("channels", int(5)),
        ("kernel_size", ints(&[3, 2])),
    ];
    gives(
        "nn.contrib_conv2d_gemm_without_weight_transform",
        &given,
        &[&x, &[u]],
        &[want],
    );
}

#[test]
fn correlation_compares_surroundings() {
    let x = [f(&[1, 1, 1, 3], &[1.0, 2.0, 3.0])];
    let given = [("max_displacement", int(1)), ("padding", ints(&[1, 1]))];
    let want: Vec<f64> = [
        [0.0; 3],
        [0.0; 3],
        [0.0; 3],
        [0.0, 2.0, 6.0],
        [1.0, 4.0, 9.0],
        [2.0, 6.0, 0.0],
        [0.0; 3],
        [0.0; 3],
        [0.0; 3],
    ]
    .concat();
    gives(
        "nn.correlation",
        &given,
        &[&x, &x],
        &[f(&[1, 9, 1, 3], &want)],
    );
}

#[test]
fn buffers_slide() {
    gives(
        "nn.fifo_buffer",
        &[("axis", int(1))],
        &[&[f(&[1, 1], &[9.0])], &[f(&[1, 3], &[1.0, 2.0, 3.0])]],
        &[f(&[1, 3], &[2.0, 3.0, 9.0])],
    );
}

/// [[1, 0, 2], [0, 0, 0], [0, 3, 4]] by rows.
fn sparse() -> [[Tensor; 1]; 3] {
    [
        [f(&[4], &[1.0, 2.0, 3.0, 4.0])],
        [i(&[4], &[0.0, 2.0, 1.0, 2.0])],
        [i(&[4], &[0.0, 2.0, 2.0, 4.0])],
    ]
}

#[test]
fn sparse_matrices() {
    let [d, c, r] = sparse();
    let x = [f(&[2, 3], &[1.0, 10.0, 100.0, 2.0, 20.0, 200.0])];
    gives(
        "nn.sparse_dense",
        &[],
        &[&x, &d, &c, &r],
        &[f(&[2, 3], &[201.0, 0.0, 430.0, 402.0, 0.0, 860.0])],
    );
    gives(
        "nn.sparse_dense",
        &[("sparse_lhs", AttrValue::Bool(true))],
        &[&x, &d, &c, &r],
        &[f(&[3, 2], &[201.0, 402.0, 0.0, 0.0, 430.0, 860.0])],
    );
    // Blocks of one row and two columns: [[1, 2, 0, 0], [0, 0, 3, 4]].
    gives(
        "nn.sparse_dense",
        &[],
        &[
            &[f(&[1, 4], &[1.0, 10.0, 100.0, 1000.0])],
            &[f(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0])],
            &[i(&[2], &[0.0, 1.0])],
            &[i(&[3], &[0.0, 1.0, 2.0])],
        ],
        &[f(&[1, 2], &[21.0, 4300.0])],
    );
    gives(
        "nn.sparse_transpose",
        &[],
        &[&d, &c, &r],
        &[
            f(&[4], &[1.0, 3.0, 2.0, 4.0]),
            i(&[4], &[0.0, 2.0, 0.0, 2.0]),
            i(&[4], &[0.0, 1.0, 2.0, 4.0]),
        ],
    );
    gives(
        "nn.sparse_add",
        &[],
        &[&[f(&[3, 3], &[1.0; 9])], &d, &c, &r],
        &[f(&[3, 3], &[2.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0, 4.0, 5.0])],
    );
    // A 1x1 convolution of three channels into two.
    gives(
        "nn.sparse_conv2d",
        &[("layout", text("NCHW"))],
        &[
            &[f(&[1, 2, 1, 1], &[1.0, 10.0])],
            &[f(&[2, 1, 1], &[5.0, 7.0])],
            &[i(&[2], &[1.0, 0.0])],
            &[i(&[3], &[0.0, 1.0, 2.0])],
        ],
        &[f(&[1, 2, 1, 1], &[50.0, 7.0])],
    );
}

#[test]
fn gradients_of_pooling() {
    let x = [f(&[1, 1, 2, 3], &[1.0, 5.0, 5.0, 2.0, 3.0, 4.0])];
    let g = [f(&[1, 1, 1, 2], &[10.0, 100.0])];
    let given = [("pool_size", ints(&[2, 2]))];
    // Among equal maxima, the gradient goes to the first one.
    gives(
        "nn.max_pool2d_grad",
        &given,
        &[&g, &x],
        &[f(&[1, 1, 2, 3], &[0.0, 110.0, 0.0, 0.0, 0.0, 0.0])],
    );
    gives(
        "nn.avg_pool2d_grad",
        &given,
        &[&g, &x],
        &[f(&[1, 1, 2, 3], &[2.5, 27.5, 25.0, 2.5, 27.5, 25.0])],
    );
}

#[test]
fn packed_bits() {
    let x = [t(
        DType::U8,
        &[1, 8],
        &[1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    )];
    let given = [
        ("bits", int(2)),
        ("bit_axis", int(1)),
        ("pack_type", AttrValue::DType(DType::U8)),
    ];
    let packed = t(
        DType::U8,
        &[1, 2, 1],
        &[0b1010_0001 as f64, 0b0110_0000 as f64],
    );
    gives("nn.bitpack", &given, &[&x], std::slice::from_ref(&packed));
    let w = t(
        DType::U8,
        &[1, 8],
        &[1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0],
    );
    let w_packed = t(DType::U8, &[1, 1, 1], &[0b1010_1101 as f64]);
    for (unipolar, want) in [(false, 5.0), (true, 3.0)] {
        let given = [
            ("units", int(1)),
            ("data_bits", int(2)),
            ("out_dtype", AttrValue::DType(DType::I32)),
            ("unipolar", AttrValue::Bool(unipolar)),
        ];
        for w in [&w, &w_packed] {
            let w = std::slice::from_ref(w);
            gives(
                "nn.bitserial_dense",
                &given,
                &[&x, w],
                &[i(&[1, 1], &[want])],
            );
        }
    }
    let given = [
        ("channels", int(1)),
        ("kernel_size", ints(&[1, 1])),
        ("activation_bits", int(2)),
        ("out_dtype", AttrValue::DType(DType::I32)),
        ("unipolar", AttrValue::Bool(false)),
    ];
    let x = [x[0].reshape(&[1, 8, 1, 1]).expect("as many elements")];
    let w = [w.reshape(&[1, 8, 1, 1]).expect("as many elements")];
    gives(
        "nn.bitserial_conv2d",
        &given,
        &[&x, &w],
        &[i(&[1, 1, 1, 1], &[5.0])],
    );
}

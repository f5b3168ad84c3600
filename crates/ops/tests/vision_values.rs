//! Values of the operators for detection, sampling, and random numbers.

mod common;

use common::{Known, f, gives, i, ints, l, run, text};
use relax_ir::AttrValue;
use relax_tensor::{DType, Tensor};

fn floats(v: &[f64]) -> AttrValue {
    AttrValue::array(v.iter().map(|x| AttrValue::Float(*x)))
}

#[test]
fn valid_counts_move_good_boxes_to_the_front() {
    let boxes = [
        0.0, 0.8, 1.0, 20.0, 25.0, 45.0, //
        1.0, 0.7, 30.0, 60.0, 50.0, 80.0, //
        0.0, 0.1, 4.0, 21.0, 19.0, 40.0, //
        -1.0, 0.9, 35.0, 61.0, 52.0, 79.0,
    ];
    let mut kept = boxes[..12].to_vec();
    kept.extend([-1.0; 12]);
    gives(
        "vision.get_valid_counts",
        &[],
        &[&[f(&[1, 4, 6], &boxes)], &[f(&[], &[0.5])]],
        &[
            i(&[1], &[2.0]),
            f(&[1, 4, 6], &kept),
            i(&[1, 4], &[0.0, 1.0, -1.0, -1.0]),
        ],
    );
    gives(
        "vision.get_valid_counts",
        &[],
        &[&[f(&[1, 0, 6], &[])], &[f(&[], &[0.5])]],
        &[i(&[1], &[0.0]), f(&[1, 0, 6], &[]), i(&[1, 0], &[])],
    );
}

#[test]
fn suppression_drops_overlapping_boxes() {
    // The example of TVM's own test-suite.
    let boxes = [
        0.0, 0.8, 1.0, 20.0, 25.0, 45.0, //
        1.0, 0.7, 30.0, 60.0, 50.0, 80.0, //
        0.0, 0.4, 4.0, 21.0, 19.0, 40.0, //
        2.0, 0.9, 35.0, 61.0, 52.0, 79.0, //
        1.0, 0.5, 100.0, 60.0, 70.0, 110.0,
    ];
    let args: [&[Tensor]; 5] = [
        &[f(&[1, 5, 6], &boxes)],
        &[i(&[1], &[4.0])],
        &[i(&[1, 5], &[0.0, 1.0, 3.0, 4.0, -1.0])],
        &[i(&[], &[-1.0])],
        &[f(&[], &[0.7])],
    ];
    let mut forced = vec![
        2.0, 0.9, 35.0, 61.0, 52.0, 79.0, 0.0, 0.8, 1.0, 20.0, 25.0, 45.0,
    ];
    forced.extend([-1.0; 18]);
    let given = [
        ("force_suppress", AttrValue::Bool(true)),
        ("top_k", AttrValue::Int(2)),
        ("return_indices", AttrValue::Bool(false)),
    ];
    gives(
        "vision.non_max_suppression",
        &given,
        &args,
        &[f(&[1, 5, 6], &forced)],
    );
    let given = [
        ("force_suppress", AttrValue::Bool(true)),
        ("top_k", AttrValue::Int(2)),
    ];
    gives(
        "vision.non_max_suppression",
        &given,
        &args,
        &[
            i(&[1, 5], &[4.0, 0.0, -1.0, -1.0, -1.0]),
            i(&[1, 1], &[2.0]),
        ],
    );
}

#[test]
fn suppression_for_each_class() {
    let boxes = [
        0.0, 0.0, 1.0, 1.0, //
        0.0, 0.1, 1.0, 1.1, //
        0.0, 10.0, 1.0, 11.0,
    ];
    let scores = [0.9, 0.95, 0.5, 0.2, 0.1, 0.6];
    let args: [&[Tensor]; 5] = [
        &[f(&[1, 3, 4], &boxes)],
        &[f(&[1, 2, 3], &scores)],
        &[l(&[], &[2.0])],
        &[f(&[], &[0.5])],
        &[f(&[], &[0.15])],
    ];
    let mut rows = vec![0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 1.0, 2.0, 0.0, 1.0, 0.0];
    rows.extend([0.0; 6]);
    gives(
        "vision.all_class_non_max_suppression",
        &[],
        &args,
        &[l(&[6, 3], &rows), l(&[1], &[4.0])],
    );
    let given = [("output_format", text("tensorflow"))];
    gives(
        "vision.all_class_non_max_suppression",
        &given,
        &args,
        &[
            l(
                &[1, 6, 2],
                &[0.0, 1.0, 0.0, 2.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            ),
            f(&[1, 6], &[0.95, 0.5, 0.6, 0.2, 0.0, 0.0]),
            l(&[1], &[4.0]),
        ],
    );
}

#[test]
fn regions_are_pooled() {
    let x: Vec<f64> = (0..16).map(f64::from).collect();
    let args: [&[Tensor]; 2] = [
        &[f(&[1, 1, 4, 4], &x)],
        &[f(&[1, 5], &[0.0, 0.0, 0.0, 3.0, 3.0])],
    ];
    let given = [
        ("pooled_size", ints(&[2, 2])),
        ("spatial_scale", AttrValue::Float(1.0)),
    ];
    gives(
        "vision.roi_pool",
        &given,
        &args,
        &[f(&[1, 1, 2, 2], &[5.0, 7.0, 13.0, 15.0])],
    );
    // Bins of 1.5, two samples along each side: at 0.375, 1.125, 1.875, 2.625.
    gives(
        "vision.roi_align",
        &given,
        &args,
        &[f(&[1, 1, 2, 2], &[3.75, 5.25, 9.75, 11.25])],
    );
    let nhwc = [given[0].clone(), given[1].clone(), ("layout", text("NHWC"))];
    let args: [&[Tensor]; 2] = [
        &[f(&[1, 4, 4, 1], &x)],
        &[f(&[1, 5], &[0.0, 0.0, 0.0, 3.0, 3.0])],
    ];
    gives(
        "vision.roi_align",
        &nhwc,
        &args,
        &[f(&[1, 2, 2, 1], &[3.75, 5.25, 9.75, 11.25])],
    );
}

#[test]
fn anchors_and_detections() {
    let given = [("sizes", floats(&[0.5])), ("ratios", floats(&[1.0, 4.0]))];
    gives(
        "vision.multibox_prior",
        &given,
        &[&[f(&[1, 1, 1, 1], &[0.0])]],
        &[f(
            &[1, 2, 4],
            &[0.25, 0.25, 0.75, 0.75, 0.0, 0.375, 1.0, 0.625],
        )],
    );
    let prob = [0.25, 0.9, 0.5, 0.05, 0.25, 0.05];
    let anchor = [0.1, 0.1, 0.3, 0.3, 0.5, 0.5, 0.7, 0.7];
    gives(
        "vision.multibox_transform_loc",
        &[("threshold", AttrValue::Float(0.1))],
        &[
            &[f(&[1, 3, 2], &prob)],
            &[f(&[1, 8], &[0.0; 8])],
            &[f(&[1, 2, 4], &anchor)],
        ],
        &[
            f(
                &[1, 2, 6],
                &[0.0, 0.5, 0.1, 0.1, 0.3, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            ),
            i(&[1], &[1.0]),
        ],
    );
    let x: Vec<f64> = (0..16).map(f64::from).collect();
    let got = run(
        "vision.yolo_reorg",
        &[("stride", AttrValue::Int(2))],
        &[&[f(&[1, 4, 2, 2], &x)]],
        &[f(&[1, 16, 1, 1], &x)],
        Known::Static,
    )
    .expect("runs");
    // The image viewed as one channel of 4 x 4: its even rows and columns first.
    assert_eq!(common::numbers(&got[0])[..4], [0.0, 2.0, 8.0, 10.0]);
}

#[test]
fn proposals_repeat_until_there_are_enough() {
    let args: [&[Tensor]; 3] = [
        &[f(&[1, 2, 1, 1], &[0.1, 0.9])],
        &[f(&[1, 4, 1, 1], &[0.0; 4])],
        &[f(&[1, 3], &[32.0, 32.0, 1.0])],
    ];
    let given = [
        ("scales", floats(&[1.0])),
        ("ratios", floats(&[1.0])),
        ("rpn_post_nms_top_n", AttrValue::Int(2)),
        ("rpn_min_size", AttrValue::Int(4)),
    ];
    let row = [0.0, 0.0, 0.0, 15.0, 15.0];
    let rows: Vec<f64> = row.iter().chain(&row).copied().collect();
    gives("vision.proposal", &given, &args, &[f(&[2, 5], &rows)]);
}

#[test]
fn grids_sample_images() {
    let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    let step = (2.0 - 1e-7) / 1.0 - 1.0;
    gives(
        "image.affine_grid",
        &[("target_shape", ints(&[2, 2]))],
        &[&[f(&[1, 2, 3], &identity)]],
        &[f(
            &[1, 2, 2, 2],
            &[-1.0, step, -1.0, step, -1.0, -1.0, step, step],
        )],
    );
    let x = [f(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0])];
    // x, then y, of three samples: the middle, a corner, outside.
    let grid = [f(&[1, 2, 1, 3], &[0.0, 1.0, 3.0, 0.0, -1.0, -1.0])];
    let out = |v: &[f64]| [f(&[1, 1, 1, 3], v)];
    gives(
        "image.grid_sample",
        &[],
        &[&x, &grid],
        &out(&[2.5, 2.0, 0.0]),
    );
    let border = [("padding_mode", text("border"))];
    gives(
        "image.grid_sample",
        &border,
        &[&x, &grid],
        &out(&[2.5, 2.0, 2.0]),
    );
    let reflect = [("padding_mode", text("reflection"))];
    gives(
        "image.grid_sample",
        &reflect,
        &[&x, &grid],
        &out(&[2.5, 2.0, 1.0]),
    );
    let nearest = [
        ("method", text("nearest")),
        ("padding_mode", text("border")),
    ];
    gives(
        "image.grid_sample",
        &nearest,
        &[&x, &grid],
        &out(&[1.0, 2.0, 2.0]),
    );
    let cubic = [
        ("method", text("bicubic")),
        ("padding_mode", text("border")),
    ];
    gives(
        "image.grid_sample",
        &cubic,
        &[&x, &grid],
        &out(&[2.5, 2.0, 2.0]),
    );
}

#[test]
fn crops_and_dilations() {
    let x = [f(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0])];
    let boxes = [f(&[2, 4], &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 1.0])];
    let given = [
        ("crop_size", ints(&[2, 2])),
        ("extrapolation_value", AttrValue::Float(-1.0)),
    ];
    gives(
        "image.crop_and_resize",
        &given,
        &[&x, &boxes, &[i(&[2], &[0.0, 0.0])]],
        &[f(
            &[2, 1, 2, 2],
            &[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, -1.0, -1.0],
        )],
    );
    gives(
        "image.dilation2d",
        &[],
        &[&x, &[f(&[1, 2, 2], &[0.0, 5.0, 0.0, 0.0])]],
        &[f(&[1, 1, 1, 1], &[7.0])],
    );
}

/// Threefry with 20 rounds, written independently of the operator.
fn threefry(key: [u64; 4], counter: [u64; 4]) -> [u64; 4] {
    const R: [[u32; 2]; 8] = [
        [14, 16],
        [52, 57],
        [23, 40],
        [5, 37],
        [25, 33],
        [46, 12],
        [58, 22],
        [32, 32],
    ];
    let k = [
        key[0],
        key[1],
        key[2],
        key[3],
        key.iter().fold(0x1BD1_1BDA_A9FC_1A22, |a, b| a ^ b),
    ];
    let mut x = counter;
    for d in 0..20 {
        if d % 4 == 0 {
            for (j, v) in x.iter_mut().enumerate() {
                *v = v.wrapping_add(k[(d / 4 + j) % 5]);
            }
            x[3] = x[3].wrapping_add(d as u64 / 4);
        }
        for j in 0..2 {
            x[2 * j] = x[2 * j].wrapping_add(x[2 * j + 1]);
            x[2 * j + 1] = x[2 * j + 1].rotate_left(R[d % 8][j]) ^ x[2 * j];
        }
        x.swap(1, 3);
    }
    x
}

fn words(v: &[u64]) -> Tensor {
    Tensor::from_slice(&[v.len() as i64], v)
}

#[test]
fn random_words_are_threefrys() {
    let key = [7, 1, 2, 3, 0, 0, 0, 40, 1 << 63, 0];
    for len in [0i64, 1, 4, 6] {
        let mut want = Vec::new();
        for block in 0..(len as u64).div_ceil(4) {
            let counter = if block * 4 + 4 <= len as u64 {
                // Whole blocks add their number to every word of the counter.
                [block, block, block, 40 + block]
            } else {
                [0, 0, 0, 40 + block * 4]
            };
            want.extend(threefry([7, 1, 2, 3], counter));
        }
        want.truncate(len as usize);
        let mut next = key;
        next[7] = 40 + (len as u64).div_ceil(4) * 4;
        let out = [words(&next), words(&want)];
        let given = [("out_shape", ints(&[len]))];
        let got = run(
            "random.threefry_generate",
            &given,
            &[&[words(&key)]],
            &out,
            Known::Static,
        );
        let got = got.expect("runs");
        assert_eq!(got[0].slice::<u64>(), out[0].slice::<u64>(), "{len}");
        assert_eq!(got[1].slice::<u64>(), want, "{len}");
    }
}

#[test]
fn keys_split() {
    let key = [7, 1, 2, 3, 0, 0, 0, 40, 1 << 63, 0];
    let out = [words(&key), words(&key)];
    let got = run(
        "random.threefry_split",
        &[],
        &[&[words(&key)]],
        &out,
        Known::Static,
    )
    .expect("runs");
    assert_eq!(got[0].slice::<u64>(), [7, 1, 2, 3, 0, 0, 0, 40, 1 << 62, 0]);
    assert_eq!(
        got[1].slice::<u64>(),
        [7, 1, 2, 3, 1 << 63, 0, 0, 40, 1 << 62, 0]
    );
    // When the path is full, the hash of path and counter is the new key.
    let full = [7, 1, 2, 3, 5, 6, 0, 40, 0, 0];
    let got = run(
        "random.threefry_split",
        &[],
        &[&[words(&full)]],
        &out,
        Known::Static,
    )
    .expect("runs");
    let fresh = threefry([7, 1, 2, 3], [5, 6, 0, 40]);
    assert_eq!(got[0].slice::<u64>()[..4], fresh);
    assert_eq!(
        got[1].slice::<u64>()[..6],
        [fresh[0], fresh[1], fresh[2], fresh[3], 1 << 63, 0]
    );
}

#[test]
fn distributions_have_their_ranges() {
    let key = [words(&[7, 1, 2, 3, 0, 0, 0, 0, 1 << 63, 0])];
    let given = [
        ("out_shape", ints(&[20, 50])),
        ("out_dtype", AttrValue::DType(DType::F32)),
    ];
    let out = [key[0].clone(), Tensor::zeros(DType::F32, &[20, 50])];
    let args: [&[Tensor]; 3] = [&key, &[f(&[], &[2.0])], &[f(&[], &[4.0])]];
    let draw = |name: &str| {
        let got = run(name, &given, &args, &out, Known::Static).expect("runs");
        common::numbers(&got[1])
    };
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let u = draw("random.uniform");
    assert!(u.iter().all(|v| (2.0..4.0).contains(v)) && (mean(&u) - 3.0).abs() < 0.1);
    let g = draw("random.normal");
    let spread = mean(&g.iter().map(|v| (v - 2.0).powi(2)).collect::<Vec<_>>());
    assert!((mean(&g) - 2.0).abs() < 0.5 && (spread.sqrt() - 4.0).abs() < 0.5);
    let drawn = [key[0].clone(), Tensor::zeros(DType::I32, &[2, 8])];
    let probs = [f(&[2, 3], &[0.0, 5.0, 0.0, -1.0, 0.0, 2.0])];
    let given = [("num_samples", AttrValue::Int(8))];
    let got = run(
        "random.multinomial",
        &given,
        &[&key, &probs],
        &drawn,
        Known::Static,
    )
    .expect("runs");
    let want: Vec<f64> = [1.0; 8].into_iter().chain([2.0; 8]).collect();
    assert_eq!(common::numbers(&got[1]), want);
}

#[test]
fn boxes_that_name_no_field_stop_the_program() {
    let given = [("score_index", AttrValue::Int(9))];
    let args: [&[Tensor]; 2] = [&[f(&[1, 1, 6], &[0.0; 6])], &[f(&[], &[0.0])]];
    let out = [
        i(&[1], &[0.0]),
        f(&[1, 1, 6], &[0.0; 6]),
        i(&[1, 1], &[0.0]),
    ];
    let got = run(
        "vision.get_valid_counts",
        &given,
        &args,
        &out,
        Known::Static,
    );
    assert!(got.is_err_and(|e| e.contains("score_index")));
}

//! Values of the quantised operators: rounding, saturation, padding with the zero point.

mod common;

use common::{f, gives, i, ints, t, text};
use relax_ir::AttrValue;
use relax_tensor::{DType, Tensor};

fn scale(v: f64) -> [Tensor; 1] {
    [f(&[], &[v])]
}
fn zero(v: f64) -> [Tensor; 1] {
    [i(&[], &[v])]
}
fn dtype(d: DType) -> AttrValue {
    AttrValue::DType(d)
}
fn q8(shape: &[i64], v: &[f64]) -> Tensor {
    t(DType::I8, shape, v)
}

#[test]
fn quantize_rounds_halves_away_and_saturates() {
    gives(
        "qnn.quantize",
        &[("out_dtype", dtype(DType::I8))],
        &[
            &[f(&[6], &[-1.25, 1.25, 0.24, 1e9, -1e9, 0.0])],
            &scale(0.5),
            &zero(1.0),
        ],
        &[q8(&[6], &[-2.0, 4.0, 1.0, 127.0, -128.0, 1.0])],
    );
    let per_channel = [("out_dtype", dtype(DType::U8)), ("axis", AttrValue::Int(0))];
    gives(
        "qnn.quantize",
        &per_channel,
        &[
            &[f(&[2, 2], &[1.0, 2.0, 1.0, 2.0])],
            &[f(&[2], &[1.0, 0.5])],
            &[i(&[2], &[0.0, 10.0])],
        ],
        &[t(DType::U8, &[2, 2], &[1.0, 2.0, 12.0, 14.0])],
    );
    gives(
        "qnn.quantize",
        &[("out_dtype", dtype(DType::I8))],
        &[&[f(&[0, 3], &[])], &scale(0.5), &zero(0.0)],
        &[q8(&[0, 3], &[])],
    );
}

#[test]
fn dequantize_takes_the_zero_point_off() {
    gives(
        "qnn.dequantize",
        &[("axis", AttrValue::Int(-1))],
        &[
            &[t(DType::U8, &[2, 2], &[0.0, 1.0, 2.0, 255.0])],
            &[f(&[2], &[0.5, 2.0])],
            &zero(1.0),
        ],
        &[f(&[2, 2], &[-0.5, 0.0, 0.5, 508.0])],
    );
}

fn requantized(v: &[f64], from: f64, to: f64, more: &[(&str, AttrValue)], want: &[f64]) {
    let mut given = vec![("out_dtype", dtype(DType::I8))];
    given.extend(more.iter().cloned());
    let n = v.len() as i64;
    gives(
        "qnn.requantize",
        &given,
        &[
            &[i(&[n], v)],
            &scale(from),
            &zero(0.0),
            &scale(to),
            &zero(0.0),
        ],
        &[q8(&[n], want)],
    );
}

#[test]
fn requantize_rounds_as_asked() {
    let halves = [-3.0, -1.0, 1.0, 3.0, 1000.0];
    requantized(&halves, 1.0, 2.0, &[], &[-1.0, 0.0, 1.0, 2.0, 127.0]);
    let nearest = [("rounding", text("TONEAREST"))];
    requantized(&halves, 1.0, 2.0, &nearest, &[-2.0, -1.0, 1.0, 2.0, 127.0]);
    for compute in ["int64", "float32", "float64"] {
        let up = [
            ("compute_dtype", text(compute)),
            ("rounding", text("UPWARD")),
        ];
        requantized(&halves, 1.0, 2.0, &up, &[-1.0, 0.0, 1.0, 2.0, 127.0]);
        let near = [
            ("compute_dtype", text(compute)),
            ("rounding", text("TONEAREST")),
        ];
        requantized(&halves, 1.0, 2.0, &near, &[-2.0, -1.0, 1.0, 2.0, 127.0]);
        let same = [("compute_dtype", text(compute))];
        requantized(&[-7.0, 0.0, 9.0], 0.3, 0.3, &same, &[-7.0, 0.0, 9.0]);
        // A factor above 1 shifts to the left first.
        requantized(&[-7.0, 3.0], 1.0, 0.125, &same, &[-56.0, 24.0]);
    }
    // Scales along an axis.
    gives(
        "qnn.requantize",
        &[
            ("axis", AttrValue::Int(0)),
            ("out_dtype", dtype(DType::I32)),
        ],
        &[
            &[i(&[2, 2], &[10.0, 11.0, 10.0, 11.0])],
            &[f(&[2], &[0.5, 2.0])],
            &[i(&[2], &[1.0, 0.0])],
            &scale(1.0),
            &zero(-3.0),
        ],
        &[i(&[2, 2], &[2.0, 2.0, 17.0, 19.0])],
    );
}

#[test]
fn sums_and_products_change_scales() {
    let args = |x: &Tensor, y: &Tensor| -> Vec<Vec<Tensor>> {
        vec![
            vec![x.clone()],
            vec![y.clone()],
            scale(0.5).to_vec(),
            zero(2.0).to_vec(),
            scale(0.25).to_vec(),
            zero(-1.0).to_vec(),
            scale(0.5).to_vec(),
            zero(1.0).to_vec(),
        ]
    };
    let (x, y) = (
        q8(&[2, 2], &[4.0, -6.0, 120.0, 2.0]),
        q8(&[2], &[3.0, -1.0]),
    );
    let args = args(&x, &y);
    let args: Vec<&[Tensor]> = args.iter().map(Vec::as_slice).collect();
    // x is 1, -4, 59, 0 and y is 1, 0 in numbers.
    gives(
        "qnn.add",
        &[],
        &args,
        &[q8(&[2, 2], &[5.0, -7.0, 121.0, 1.0])],
    );
    gives(
        "qnn.subtract",
        &[],
        &args,
        &[q8(&[2, 2], &[1.0, -7.0, 117.0, 1.0])],
    );
    gives(
        "qnn.mul",
        &[],
        &args,
        &[q8(&[2, 2], &[3.0, 1.0, 119.0, 1.0])],
    );
}

#[test]
fn concatenate_brings_parts_to_one_scale() {
    gives(
        "qnn.concatenate",
        &[("axis", AttrValue::Int(0))],
        &[
            &[q8(&[2], &[2.0, 4.0]), q8(&[1], &[100.0])],
            &[f(&[], &[0.5]), f(&[], &[4.0])],
            &[i(&[], &[0.0]), i(&[], &[0.0])],
            &scale(1.0),
            &zero(3.0),
        ],
        &[q8(&[3], &[4.0, 5.0, 127.0])],
    );
}

#[test]
fn functions_of_elements() {
    let ends = |x: Tensor| {
        vec![
            vec![x],
            scale(0.5).into(),
            zero(0.0).into(),
            scale(0.25).into(),
            zero(1.0).into(),
        ]
    };
    let run = |name: &str, given: &[(&str, AttrValue)], x: &[f64], want: &[f64]| {
        let n = x.len() as i64;
        let args = ends(q8(&[n], x));
        let args: Vec<&[Tensor]> = args.iter().map(Vec::as_slice).collect();
        gives(name, given, &args, &[q8(&[n], want)]);
    };
    run("qnn.abs", &[], &[-2.0, 4.0, -128.0], &[5.0, 9.0, 127.0]);
    run("qnn.sqrt", &[], &[8.0, 0.0], &[9.0, 1.0]);
    run("qnn.tanh", &[], &[0.0, 100.0, -100.0], &[1.0, 5.0, -3.0]);
    let slope = [("alpha", AttrValue::Float(0.5))];
    run(
        "qnn.leaky_relu",
        &slope,
        &[4.0, -4.0, 0.0],
        &[9.0, -2.0, 1.0],
    );
}

#[test]
fn convolution_pads_with_the_zero_point() {
    let given = [
        ("padding", ints(&[1, 1, 1, 1])),
        ("channels", AttrValue::Int(1)),
        ("kernel_size", ints(&[3, 3])),
        ("out_dtype", dtype(DType::I32)),
    ];
    let args: [&[Tensor]; 6] = [
        &[t(DType::U8, &[1, 1, 2, 2], &[11.0, 12.0, 13.0, 14.0])],
        &[t(DType::I8, &[1, 1, 3, 3], &[2.0; 9])],
        &zero(10.0),
        &zero(1.0),
        &scale(1.0),
        &scale(1.0),
    ];
    gives("qnn.conv2d", &given, &args, &[i(&[1, 1, 2, 2], &[10.0; 4])]);
    let transposed = [
        ("channels", AttrValue::Int(1)),
        ("kernel_size", ints(&[1, 1])),
        ("strides", ints(&[2, 2])),
        ("out_dtype", dtype(DType::I32)),
    ];
    let args: [&[Tensor]; 6] = [
        &[q8(&[1, 1, 1, 2], &[3.0, 5.0])],
        &[q8(&[1, 1, 1, 1], &[4.0])],
        &zero(1.0),
        &zero(2.0),
        &scale(1.0),
        &scale(1.0),
    ];
    gives(
        "qnn.conv2d_transpose",
        &transposed,
        &args,
        &[i(&[1, 1, 1, 3], &[4.0, 0.0, 8.0])],
    );
}

#[test]
fn products_take_zero_points_off() {
    let given = [
        ("units", AttrValue::Int(2)),
        ("out_dtype", dtype(DType::I32)),
    ];
    let args: [&[Tensor]; 6] = [
        &[q8(&[1, 2], &[3.0, -128.0])],
        &[q8(&[2, 2], &[1.0, 2.0, 3.0, 127.0])],
        &zero(1.0),
        // One zero point for each result column.
        &[i(&[2], &[0.0, 1.0])],
        &scale(1.0),
        &scale(1.0),
    ];
    gives(
        "qnn.dense",
        &given,
        &args,
        &[i(&[1, 2], &[-256.0, -16250.0])],
    );
    let given = [
        ("out_dtype", dtype(DType::I32)),
        ("transpose_b", AttrValue::Bool(true)),
    ];
    let args: [&[Tensor]; 6] = [
        &[q8(&[1, 1, 2], &[3.0, 4.0])],
        &[q8(&[1, 1, 2], &[5.0, 6.0])],
        &zero(1.0),
        &zero(2.0),
        &scale(1.0),
        &scale(1.0),
    ];
    gives("qnn.batch_matmul", &given, &args, &[i(&[1, 1, 1], &[18.0])]);
}

#[test]
fn simulated_forms_choose_by_code() {
    for (code, want) in [(0.0, 300.4), (1.0, 127.0), (2.0, 255.0), (3.0, 301.0)] {
        gives(
            "qnn.simulated_quantize",
            &[],
            &[
                &[f(&[1], &[300.4])],
                &zero(code),
                &[f(&[1], &[1.0])],
                &[i(&[1], &[1.0])],
            ],
            &[f(&[1], &[want])],
        );
    }
    gives(
        "qnn.simulated_dequantize",
        &[],
        &[
            &[f(&[1], &[5.0])],
            &zero(1.0),
            &[f(&[1], &[0.5])],
            &[i(&[1], &[1.0])],
        ],
        &[f(&[1], &[2.0])],
    );
}

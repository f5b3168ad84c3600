//! Operators defined in the text format: those of the prelude against their definitions, and others
//! against equivalent built-in operators.

mod common;

use common::{numbers, run};
use relax_tensor::Tensor;

/// Returns random numbers in [-4, 4), determined by the seed, including zero.
fn random(shape: &[i64], seed: u64) -> Tensor {
    let n = shape.iter().product::<i64>() as usize;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((state >> 40) as f32 / (1u64 << 24) as f32) * 8.0 - 4.0
    };
    let mut all: Vec<f32> = (0..n).map(|_| next()).collect();
    if let Some(first) = all.first_mut() {
        *first = 0.0;
    }
    Tensor::from_slice(shape, &all)
}

#[track_caller]
fn close(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (k, (a, b)) in found.iter().zip(wanted).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan());
        assert!(
            same || (a - b).abs() <= 1e-5 + 1e-4 * b.abs(),
            "{what}: {a} at {k}, not {b}"
        );
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    (1.0 + x.exp()).ln()
}

#[test]
fn activations_of_the_prelude() {
    let c = (2.0 / std::f64::consts::PI).sqrt();
    let table: &[(&str, &dyn Fn(f64) -> f64)] = &[
        ("gelu_tanh(%x)", &|x| {
            0.5 * x * (1.0 + (c * (x + 0.044715 * x.powi(3))).tanh())
        }),
        ("gelu_sigmoid(%x)", &|x| x * sigmoid(1.702 * x)),
        ("swish(%x, beta=1.5)", &|x| x * sigmoid(1.5 * x)),
        ("swish(%x)", &|x| x * sigmoid(x)),
        ("silu(%x)", &|x| x * sigmoid(x)),
        ("softplus(%x, beta=2.0)", &|x| softplus(2.0 * x) / 2.0),
        ("mish(%x)", &|x| x * softplus(x).tanh()),
        ("hard_sigmoid(%x)", &|x| (0.2 * x + 0.5).clamp(0.0, 1.0)),
        ("hard_swish(%x)", &|x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        ("hard_tanh(%x, lo=-2.0)", &|x| x.clamp(-2.0, 1.0)),
        ("elu(%x, alpha=0.7)", &|x| {
            if x > 0.0 { x } else { 0.7 * x.exp_m1() }
        }),
        ("celu(%x, alpha=2.0)", &|x| {
            x.max(0.0) + (2.0 * (x / 2.0).exp_m1()).min(0.0)
        }),
        ("relu6(%x)", &|x| x.clamp(0.0, 6.0)),
        ("softsign(%x)", &|x| x / (1.0 + x.abs())),
        ("tanh_shrink(%x)", &|x| x - x.tanh()),
        ("threshold(%x, threshold=1.0, value=-9.0)", &|x| {
            if x > 1.0 { x } else { -9.0 }
        }),
        ("square(%x)", &|x| x * x),
        ("cube(%x)", &|x| x * x * x),
        ("reciprocal(%x)", &|x| 1.0 / x),
        ("clamp_min(%x, min=-1.0)", &|x| x.max(-1.0)),
        ("clamp_max(%x, max=1.0)", &|x| x.min(1.0)),
        ("heaviside(%x)", &|x| {
            if x < 0.0 {
                0.0
            } else if x > 0.0 {
                1.0
            } else {
                0.5
            }
        }),
    ];
    for shape in [&[3i64, 5][..], &[], &[0, 2]] {
        let x = random(shape, 7);
        let ty: Vec<String> = shape.iter().map(|d| format!("{d},")).collect();
        for (call, want) in table {
            let ty = ty.concat();
            let text = format!("def @main(%x: Tensor[({ty}), float32]) {{ {call} }}");
            let value = run(&text, std::slice::from_ref(&x));
            let tensor = value.as_tensor().expect("a tensor");
            assert_eq!(tensor.shape(), shape, "{call}");
            let wanted: Vec<f64> = (0..x.len()).map(|i| want(x.get_f64(i))).collect();
            close(&numbers(&value), &wanted, call);
        }
    }
}

#[test]
fn large_and_strange_numbers() {
    let x = Tensor::from_slice(&[4], &[f32::INFINITY, f32::NEG_INFINITY, 200.0, -200.0]);
    let give = |call: &str| {
        numbers(&run(
            &format!("def @main(%x: Tensor[(4,), float32]) {{ {call} }}"),
            std::slice::from_ref(&x),
        ))
    };
    close(
        &give("softplus(%x)"),
        &[f64::INFINITY, 0.0, 200.0, 0.0],
        "softplus",
    );
    close(&give("elu(%x)"), &[f64::INFINITY, -1.0, 200.0, -1.0], "elu");
    close(&give("relu6(%x)"), &[6.0, 0.0, 6.0, 0.0], "relu6");
    close(
        &give("reciprocal(%x)"),
        &[0.0, 0.0, 0.005, -0.005],
        "reciprocal",
    );
}

/// Each item at every float type: narrow ones are exact to a rounding, float64 to its own precision.
#[test]
fn elements_of_the_prelude() {
    let table: &[(&str, &dyn Fn(f64) -> f64)] = &[
        ("silu(%x)", &|x| x * sigmoid(x)),
        ("softplus(%x)", &softplus),
        ("elu(%x, alpha=0.7)", &|x| {
            if x > 0.0 { x } else { 0.7 * (x.exp() - 1.0) }
        }),
        ("cube(%x)", &|x| x * x * x),
        ("row_normalize(%x)", &|x| x / (x * x).sqrt().max(1e-12)),
        ("rms_norm(%x, %w)", &|x| x / (x * x + 1e-5).sqrt()),
    ];
    let types = [
        ("float16", 2f64.powi(-11)),
        ("bfloat16", 2f64.powi(-8)),
        ("float32", 1e-6),
        ("float64", 1e-13),
    ];
    for (dtype, rounding) in types {
        let dtype = dtype.parse().expect("an element type");
        let mut x = Tensor::zeros(dtype, &[9, 1]);
        (0..9).for_each(|i| x.set_f64(i, i as f64 * 0.75 - 3.0));
        let mut w = Tensor::zeros(dtype, &[1]);
        w.set_f64(0, 1.0);
        for (call, want) in table {
            let text = format!(
                "def @main(%x: Tensor[(9, 1), {dtype}], %w: Tensor[(1,), {dtype}]) {{ {call} }}"
            );
            let value = run(&text, &[x.clone(), w.clone()]);
            assert_eq!(
                value.as_tensor().expect("a tensor").dtype(),
                dtype,
                "{call}"
            );
            for (i, found) in numbers(&value).into_iter().enumerate() {
                let wanted = want(x.get_f64(i));
                let gap = (found - wanted).abs();
                assert!(
                    gap <= rounding * (1e-3 + wanted.abs()) * 1.01,
                    "{call} of {} at {dtype}: {found}, not {wanted}",
                    x.get_f64(i)
                );
            }
        }
    }
    let x = Tensor::from_slice(&[3], &[-3i8, 2, 100]);
    for (call, want) in [
        ("square(%x)", [9.0, 4.0, 16.0]),
        ("relu6(%x)", [0.0, 2.0, 6.0]),
        ("squared_error(%x, %x)", [0.0; 3]),
    ] {
        let text = format!("def @main(%x: Tensor[(3,), int8]) {{ {call} }}");
        assert_eq!(
            numbers(&run(&text, std::slice::from_ref(&x))),
            want,
            "{call}"
        );
    }
}

#[test]
fn pairs_of_the_prelude() {
    #[allow(clippy::type_complexity)] // a table of names and closed forms
    let table: &[(&str, &dyn Fn(f64, f64) -> f64)] = &[
        ("lerp(%a, %b, weight=0.25)", &|a, b| a + 0.25 * (b - a)),
        ("hypot(%a, %b)", &|a, b| a.hypot(b)),
        ("squared_error(%a, %b)", &|a, b| (a - b).powi(2)),
        ("huber(%a, %b, delta=1.5)", &|a, b| {
            let d = (a - b).abs();
            if d <= 1.5 {
                0.5 * d * d
            } else {
                1.5 * (d - 0.75)
            }
        }),
        ("binary_cross_entropy(sigmoid(%a), sigmoid(%b))", &|a, b| {
            let (p, t) = (sigmoid(a), sigmoid(b));
            -t * p.ln() - (1.0 - t) * (1.0 - p).ln()
        }),
    ];
    let (a, b) = (random(&[4, 3], 1), random(&[4, 3], 2));
    for (call, want) in table {
        let t = "Tensor[(4, 3), float32]";
        let text = format!("def @main(%a: {t}, %b: {t}) {{ {call} }}");
        let found = numbers(&run(&text, &[a.clone(), b.clone()]));
        let wanted: Vec<f64> = (0..a.len())
            .map(|i| want(a.get_f64(i), b.get_f64(i)))
            .collect();
        close(&found, &wanted, call);
    }
}

#[test]
fn rows_of_the_prelude() {
    let (n, c) = (3, 4);
    let (x, y, w) = (random(&[3, 4], 3), random(&[3, 4], 4), random(&[4], 5));
    let row = |t: &Tensor, i: usize| -> Vec<f64> { (0..c).map(|k| t.get_f64(i * c + k)).collect() };
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let t = "Tensor[(3, 4), float32]";
    let all = |call: &str| {
        let text = format!(
            "def @main(%x: {t}, %y: {t}, %w: Tensor[(4,), float32], %p: Tensor[(3,), int32]) {{ {call} }}"
        );
        let p = Tensor::from_slice(&[3], &[0i32, 1, 5]);
        numbers(&run(&text, &[x.clone(), y.clone(), w.clone(), p]))
    };
    let (mut rms, mut unit, mut cosine, mut mse, mut rotary) =
        (vec![], vec![], vec![], vec![], vec![]);
    for i in 0..n {
        let (a, b) = (row(&x, i), row(&y, i));
        let root = (dot(&a, &a) / c as f64 + 1e-5).sqrt();
        rms.extend((0..c).map(|j| a[j] / root * w.get_f64(j)));
        unit.extend(a.iter().map(|v| v / dot(&a, &a).sqrt()));
        cosine.push(dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt());
        let gap: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        mse.push(dot(&gap, &gap) / c as f64);
        let position = [0.0, 1.0, 5.0][i];
        let turn = |j: usize| position * 10000f64.powf(-2.0 * j as f64 / c as f64);
        rotary.extend((0..2).map(|j| a[j] * turn(j).cos() - a[j + 2] * turn(j).sin()));
        rotary.extend((0..2).map(|j| a[j + 2] * turn(j).cos() + a[j] * turn(j).sin()));
    }
    close(&all("rms_norm(%x, %w)"), &rms, "rms_norm");
    close(&all("row_normalize(%x)"), &unit, "row_normalize");
    close(
        &all("cosine_similarity(%x, %y)"),
        &cosine,
        "cosine_similarity",
    );
    close(&all("mse_rows(%x, %y)"), &mse, "mse_rows");
    close(
        &all("rotary_embedding(%x, %p)"),
        &rotary,
        "rotary_embedding",
    );
}

/// User-defined operators, each with a call of the equivalent built-in operator.
const TWINS: &[(&str, &str, &str)] = &[
    ("op my.relu[s: Shape](%x: Tensor[s, float32]) -> Tensor[s, float32] { compute max(%x, 0) }",
     "my.relu(%x)", "nn.relu(%x)"),
    ("op my.sigmoid[s: Shape](%x: Tensor[s, float32]) -> Tensor[s, float32] {
        compute 1.0 / (1.0 + exp(0.0 - %x)) }",
     "my.sigmoid(%x)", "sigmoid(%x)"),
    ("op my.leaky[s: Shape](%x: Tensor[s, float32], alpha: float64 = 0.05) -> Tensor[s, float32] {
        compute select(%x > 0, %x, alpha * %x) }",
     "my.leaky(%x)", "nn.leaky_relu(%x, alpha=0.05f)"),
    ("op my.clip[s: Shape](%x: Tensor[s, float32], lo: float64, hi: float64) -> Tensor[s, float32] {
        compute min(max(%x, lo), hi) }",
     "my.clip(%x, lo=-1.0, hi=2.0)", "clip(%x, a_min=-1f, a_max=2f)"),
    ("op my.tanh[s: Shape](%x: Tensor[s, float32]) -> Tensor[s, float32] {
        compute 1.0 - 2.0 / (exp(2.0 * %x) + 1.0) }",
     "my.tanh(%x)", "tanh(%x)"),
    ("op my.add[s: Shape](%x: Tensor[s, float32], %y: Tensor[s, float32]) -> Tensor[s, float32] {
        compute %x + %y }",
     "my.add(%x, %y)", "add(%x, %y)"),
    ("op my.transpose(%x: Tensor[(n, m), float32]) -> Tensor[(m, n), float32] {
        compute [%i, %j] => %x[%j, %i] }",
     "my.transpose(%x)", "transpose(%x, axes=[1, 0])"),
    ("op my.dense(%x: Tensor[(n, k), float32], %w: Tensor[(m, k), float32])
        -> Tensor[(n, m), float32] {
        compute [%i, %j] => sum(%c, k, %x[%i, %c] * %w[%j, %c]) }",
     "my.dense(%x, %y)", "nn.dense(%x, %y, units=4)"),
    ("op my.rows(%x: Tensor[(n, m), float32]) -> Tensor[(n,), float32] {
        compute [%i] => maximum(%j, m, %x[%i, %j]) }",
     "my.rows(%x)", "max(%x, axis=[1])"),
    ("op my.softmax(%x: Tensor[(n, m), float32]) -> Tensor[(n, m), float32] {
        compute [%i, %j] => exp(%x[%i, %j] - maximum(%k, m, %x[%i, %k]))
          / sum(%k, m, exp(%x[%i, %k] - maximum(%l, m, %x[%i, %l]))) }",
     "my.softmax(%x)", "nn.softmax(%x)"),
    ("op my.mean(%x: Tensor[(n, m), float32]) -> Tensor[(m,), float32] {
        compute [%j] => sum(%i, n, %x[%i, %j]) / float32(n) }",
     "my.mean(%x)", "mean(%x, axis=[0])"),
    ("op my.reverse(%x: Tensor[(n, m), float32]) -> Tensor[(n, m), float32] {
        compute [%i, %j] => %x[n - 1 - %i, %j] }",
     "my.reverse(%x)", "reverse(%x, axis=0)"),
];

#[test]
fn text_and_built_in_operators_agree() {
    for (n, (item, text, builtin)) in TWINS.iter().enumerate() {
        for (rows, columns) in [(4, 5), (4, 1), (4, 8)] {
            let t = format!("Tensor[({rows}, {columns}), float32]");
            let of = |call: &str, item: &str| {
                let text = format!("{item}\ndef @main(%x: {t}, %y: {t}) {{ {call} }}");
                let shape = [rows, columns];
                let value = run(&text, &[random(&shape, n as u64), random(&shape, 99)]);
                let shape = value.as_tensor().expect("a tensor").shape().to_vec();
                (shape, numbers(&value))
            };
            let (found, wanted) = (of(text, item), of(builtin, ""));
            assert_eq!(found.0, wanted.0, "{text}");
            close(&found.1, &wanted.1, text);
        }
    }
}

//! The runtime kernels that replace stages have their own guards, independent of type inference:
//! here, the checks that follow from the operators' relations are removed, and extents `?` are
//! arbitrary.
#![cfg(feature = "native")]

use relax::{InferOptions, ReadOptions, Session};
use relax_cli::native;
use relax_codegen::{Host, Value};
use relax_lower::lir::{Inst, Lowered};
use relax_tensor::Tensor;
use relax_testkit::{Rng, agree};

/// Parameters as ranks, with constant extents where given, and the expression computed from them.
const CALLS: &[(&[&[i64]], &str)] = &[
    (&[&[4, -1], &[-1, -1]], "nn.dense(%0, %1, units=8)"),
    (
        &[&[-1, -1], &[-1, -1], &[-1]],
        "nn.relu(nn.bias_add(nn.dense(%0, %1, units=4), %2))",
    ),
    (
        &[&[-1, -1, -1], &[-1, -1, -1]],
        "nn.batch_matmul(%0, %1, transpose_b=True)",
    ),
    (
        &[&[-1, -1, -1], &[-1, -1, -1]],
        "nn.batch_matmul(%0, %1, transpose_a=True, transpose_b=False)",
    ),
    (&[&[-1, -1], &[-1, -1]], "nn.matmul(%0, %1, units=None)"),
    (
        &[&[-1, -1], &[-1, -1], &[-1, -1]],
        "qnn.blockwise_dense(%0, cast(%1, dtype=\"int8\"), %2, block_size=1)",
    ),
    (
        &[&[-1, 4], &[-1, -1], &[-1, -1]],
        "qnn.blockwise_dense(%0, cast(%1, dtype=\"int8\"), %2, bits=4, block_size=2)",
    ),
    (
        &[&[-1, -1, -1, -1], &[-1, -1, -1, -1]],
        "nn.conv2d(%0, %1, channels=4, kernel_size=[2, 2], padding=[1, 0])",
    ),
    (
        &[&[-1, 4, -1, -1], &[4, -1, -1, -1]],
        "nn.conv2d(%0, %1, groups=4)",
    ),
    (
        &[&[-1, -1, -1, -1], &[-1, -1, -1, -1]],
        "nn.conv2d(%0, %1, data_layout=\"NHWC\", kernel_layout=\"HWIO\", strides=[2, 1])",
    ),
    (
        &[&[-1, -1, -1, -1], &[-1, -1, -1, -1]],
        "nn.conv2d_transpose(%0, %1, channels=4, kernel_size=[2, 2], strides=[2, 2])",
    ),
    (
        &[&[-1, -1, -1, -1]],
        "nn.max_pool2d(%0, pool_size=[3, 2], strides=[2, 1], padding=[1, 1], ceil_mode=True)",
    ),
    (&[&[-1, -1, -1]], "nn.softmax(%0)"),
    (&[&[-1, -1], &[-1], &[-1]], "nn.layer_norm(%0, %1, %2)"),
    (
        &[&[-1, -1, -1], &[-1, -1, -1], &[-1, -1, -1]],
        "nn.batch_matmul(nn.softmax(nn.batch_matmul(%0, %1, transpose_b=True)), %2, transpose_b=False)",
    ),
    (&[&[-1, -1], &[-1]], "add(exp(%0), %1)"),
    (&[&[-1, -1], &[-1, -1]], "concatenate((%0, %1), axis=0)"),
    (&[&[-1, -1]], "sum(transpose(%0, axes=None) * 2f, axis=[0])"),
    // Sorting, searching and scans along an axis.
    (&[&[-1, -1]], "sort(%0, axis=0)"),
    (
        &[&[-1, -1, -1]],
        "topk(%0, k=2, axis=1, ret_type=\"values\")",
    ),
    (
        &[&[-1, -1]],
        "cast(argmax(%0, axis=[1]), dtype=\"float32\")",
    ),
    (&[&[-1, -1]], "cumsum(%0, axis=0)"),
    // Gathers, and padding.
    (
        &[&[-1, -1]],
        "nn.pad(%0, 0f, pad_width=[[1, 2], [0, 1]], pad_mode=\"reflect\")",
    ),
    (
        &[&[-1, -1, -1]],
        "strided_slice(%0, begin=[1, 0, 2], end=[9, 9, 9], strides=[1, 2, 1])",
    ),
    (
        &[&[-1, -1, -1, -1]],
        "nn.upsampling(%0, scale_h=2f, scale_w=2f)",
    ),
    // Contractions of any form, and small integers.
    (
        &[&[-1, -1, -1], &[-1, -1, -1]],
        "nn.conv1d(%0, %1, channels=3, kernel_size=[2])",
    ),
    (
        &[&[-1, -1], &[-1, -1]],
        "sum(expand_dims(%0, axis=2) * expand_dims(%1, axis=0), axis=[1])",
    ),
    (
        &[&[-1, -1], &[-1, -1]],
        "cast(nn.dense(cast(%0 * 9f, dtype=\"int8\"), cast(%1 * 9f, dtype=\"int8\"), units=None, out_dtype=\"int32\"), dtype=\"float32\")",
    ),
];

fn text(params: &[&[i64]], body: &str) -> String {
    let types: Vec<String> = (params.iter().enumerate())
        .map(|(i, dims)| {
            let dims = dims.iter().map(|d| match d {
                -1 => "?, ".to_owned(),
                n => format!("{n}, "),
            });
            format!("%p{i}: Tensor[({}), float32]", dims.collect::<String>())
        })
        .collect();
    let body = body.replace('%', "%p");
    format!("def @main({}) {{ {body} }}", types.join(", "))
}

/// Returns the lowered program without the checks required by relations.
fn lowered(text: &str, pipeline: &str) -> Lowered {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, diagnostics) = session.read("guards.relay", text.as_bytes().to_vec());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}\n{text}");
    let (_, diagnostics) = relax::check(&mut module, &InferOptions::default());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}\n{text}");
    let typing = native::optimise(&mut session, &mut module, pipeline).expect("passes");
    let entry = module.global("main").expect("a main");
    let mut lowered = native::lower(&module, &typing, &[entry], &session.sources).expect("lowers");
    for kernel in lowered.kernels.values_mut() {
        kernel.program.stages.retain(|s| !s.is_guard());
    }
    for block in lowered
        .funcs
        .values_mut()
        .flat_map(|f| f.blocks.values_mut())
    {
        block.insts.retain(|i| !matches!(i, Inst::CheckDims { .. }));
    }
    lowered
}

fn input(random: &mut Rng, shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>();
    let elements: Vec<f32> = (0..n).map(|_| random.unit() as f32 * 2.0 - 1.0).collect();
    Tensor::from_slice(shape, &elements)
}

#[test]
fn kernels_never_leave_their_operands() {
    let mut random = Rng::new(17);
    for (params, body) in CALLS {
        let text = text(params, body);
        for pipeline in ["O0", "O2"] {
            let mut lowered = lowered(&text, pipeline);
            let plain = native::jit(&lowered).expect("code");
            lowered.checks = true;
            let checked = native::jit(&lowered).expect("code that is checked");
            let mut fine = 0;
            for round in 0..60 {
                // Some extents are equal, so that calls succeed now and then.
                let common = 1 + random.below(6) as i64;
                let mut extent = |d: &i64| match *d {
                    -1 if round % 3 == 0 || random.chance(60) => common,
                    -1 => random.below(7) as i64,
                    n => n,
                };
                let shapes: Vec<Vec<i64>> =
                    (params.iter().map(|p| p.iter().map(&mut extent).collect())).collect();
                let inputs: Vec<Tensor> = shapes.iter().map(|s| input(&mut random, s)).collect();
                let [found, watched] = [&plain, &checked].map(|jit| {
                    let host = Host::new(1).expect("memory");
                    host.call(jit, "main", &inputs)
                });
                let told = format!("{text}\n{shapes:?} {pipeline}\n{found:?}\n{watched:?}");
                match (&found, &watched) {
                    (Ok(Value::Tensor(a)), Ok(Value::Tensor(b))) => {
                        fine += 1;
                        assert!(
                            agree(a, b, 1e-4, 1e-5),
                            "differs when it is checked:\n{told}"
                        );
                    }
                    (Ok(_), Ok(_)) => {}
                    (Err(a), Err(b)) => {
                        assert_eq!(a, b, "{told}");
                        assert!(!a.to_string().contains("would touch"), "{told}");
                    }
                    _ => panic!("only one fails:\n{told}"),
                }
            }
            assert!(fine > 0, "nothing fits: {text}");
        }
    }
}

/// In checked mode, the extents a kernel may access are compared with the tensors, not the types: a
/// call whose output buffer is too small fails.
#[test]
fn checked_code_holds_what_is_touched_against_tensors() {
    let mut lowered = lowered(
        "def @main(%x: Tensor[(?, 32), float32]) { nn.softmax(%x) }",
        "O0",
    );
    for block in lowered
        .funcs
        .values_mut()
        .flat_map(|f| f.blocks.values_mut())
    {
        for inst in &mut block.insts {
            if let Inst::Kernel { given, .. } = inst {
                for out in given.iter_mut().flatten() {
                    out.dims[1] = out.dims[0].clone();
                }
            }
        }
    }
    lowered.checks = true;
    let jit = native::jit(&lowered).expect("code that is checked");
    let host = Host::new(1).expect("memory");
    let inputs = [input(&mut Rng::new(1), &[4, 32])];
    let said = host
        .call(&jit, "main", &inputs)
        .expect_err("it is too small")
        .to_string();
    let wanted = "has extent 4 where the program needs 32";
    assert!(said.contains(wanted), "{said}");
}

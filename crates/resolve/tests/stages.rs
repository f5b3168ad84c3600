//! Calls of operators and groups of kernels in tensor programs: what is read, printed and read again
//! has the same stages, hints and kernels.

use std::sync::Arc;

use relax_base::SourceMap;
use relax_ir::{GlobalKind, Module};
use relax_loops::{Kernel, KernelKind, Program, Stage, same_program, verify};
use relax_resolve::print::{PrintMode, module_to_ast};
use relax_resolve::{Options, resolve};
use relax_syntax::{PrintOptions, parse};

/// Reads a text; the messages where there are errors.
fn module(text: &str) -> Result<Module, Vec<String>> {
    let mut sources = SourceMap::new();
    let file = sources.add("test.relay", text.to_owned()).expect("it fits");
    let parsed = parse(&file);
    let (module, diagnostics) = resolve(&parsed.ast, &file, &Options::default());
    let all = parsed.diagnostics.iter().chain(diagnostics.iter());
    let messages: Vec<String> = all.map(|d| d.message.clone()).collect();
    match messages.is_empty() {
        true => Ok(module),
        false => Err(messages),
    }
}

fn read(text: &str) -> Program {
    let module = module(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let mut globals = module.globals.values();
    let program = globals.find_map(|g| match &g.kind {
        GlobalKind::Prim(p) => Some((**p).clone()),
        _ => None,
    });
    let program = program.expect("a tensor program");
    assert_eq!(verify(&program).problems, [], "{text}");
    program
}

fn print(program: Program) -> String {
    let mut m = module("prim_func @f(%x: int32) { %x = 1i32; }").expect("it is read");
    for g in m.globals.values_mut() {
        if matches!(g.kind, GlobalKind::Prim(_)) {
            g.kind = GlobalKind::Prim(Arc::new(program.clone()));
        }
    }
    let ast = module_to_ast(&m, &PrintMode::default());
    relax_syntax::print(&ast, &PrintOptions::default())
}

/// The hints, in terms of the buffers' names.
fn hints(p: &Program) -> Vec<String> {
    let mut all: Vec<String> = (p.hints.iter())
        .map(|(b, hint)| {
            let operands = hint.operands();
            let names: Vec<_> = operands.iter().map(|b| p.bufs[*b].name.as_str()).collect();
            let mut hint = hint.clone();
            for b in hint.operands_mut() {
                *b = relax_base::Id::from_index(0);
            }
            format!("{} {names:?} {hint:?}", p.bufs[*b].name)
        })
        .collect();
    all.sort();
    all
}

/// Prints a program with kernels and reads it again; returns the text.
fn again(program: &Program) -> String {
    let text = print(program.clone());
    let other = read(&text);
    assert_eq!(program.kernels, other.kernels, "{text}");
    assert_eq!(program.stages.len(), other.stages.len(), "{text}");
    assert!(same_program(program, &other), "{text}");
    assert_eq!(hints(program), hints(&other), "{text}");
    // Names are settled after the first time.
    assert_eq!(print(other), text);
    text
}

/// Reads a call that is all of a program, makes its stages a kernel, and checks that it is printed as
/// the call and read back with the same hint.
fn call(params: &str, call: &str, kind: KernelKind) {
    let text = format!("prim_func @f({params}) {{\n  %y = {call};\n}}\n");
    let mut program = read(&text);
    assert!(program.hints.len() == 1, "{text}: {:?}", program.hints);
    program.kernels.push(Kernel {
        kind,
        stages: 0..program.stages.len(),
    });
    let printed = again(&program);
    assert!(printed.contains(&format!("%y = {call};")), "{printed}");
}

#[test]
fn every_hint_is_the_call_of_an_operator() {
    use KernelKind::{Attention, Lines, Pool, Product, Rows};
    let f = "float32";
    let of = |shapes: &[&str]| -> String {
        let names = ["%x", "%w", "%v", "%y"];
        let first = names[..shapes.len() - 1].iter().chain(&names[3..]);
        let all: Vec<String> = (first.zip(shapes))
            .map(|(n, s)| match s.split_once('|') {
                Some((shape, dtype)) => format!("{n}: Buffer[({shape}), {dtype}]"),
                None => format!("{n}: Buffer[({s}), {f}]"),
            })
            .collect();
        all.join(", ")
    };
    let all: &[(&[&str], &str, KernelKind)] = &[
        (
            &["n, 3", "4, 3", "n, 4"],
            "nn.dense(%x, %w, units=4)",
            Product,
        ),
        (
            &["2, 3|int8", "4, 3|int8", "2, 4|int32"],
            "nn.dense(%x, %w, units=4, out_dtype=\"int32\")",
            Product,
        ),
        (
            &["3, 2", "4, 3", "2, 4"],
            "nn.matmul(%x, %w, units=4, transpose_a=True, transpose_b=True)",
            Product,
        ),
        (
            &["2, 3, 4", "1, 5, 4", "2, 3, 5"],
            "nn.batch_matmul(%x, %w, transpose_b=True)",
            Product,
        ),
        (
            &["1, 3, 8, 8", "4, 3, 3, 3", "1, 4, 4, 4"],
            "nn.conv2d(%x, %w, strides=[2, 2], padding=[1, 1])",
            Product,
        ),
        (
            &["1, 4, 8, 9", "6, 2, 3, 3", "1, 6, 7, 8"],
            "nn.conv2d(%x, %w, padding=[0, 1, 1, 0], groups=2)",
            Product,
        ),
        (
            &["1, 8, 8, 3", "3, 3, 3, 4", "1, 6, 6, 4"],
            "nn.conv2d(%x, %w, data_layout=\"NHWC\", kernel_layout=\"HWIO\")",
            Product,
        ),
        (
            &["1, 8, 8, 3", "3, 3, 3, 1", "1, 6, 6, 3"],
            "nn.conv2d(%x, %w, groups=3, data_layout=\"NHWC\", kernel_layout=\"HWOI\")",
            Product,
        ),
        (
            &["1, 3, 9", "4, 3, 3", "1, 4, 9"],
            "nn.conv1d(%x, %w, padding=[1, 1])",
            Product,
        ),
        (
            &["1, 3, 4, 4", "3, 4, 3, 3", "1, 4, 8, 8"],
            "nn.conv2d_transpose(%x, %w, strides=[2, 2], output_padding=[1, 1], padding=[1, 1])",
            Product,
        ),
        (
            &["1, 3, 4", "3, 4, 3", "1, 4, 7"],
            "nn.conv1d_transpose(%x, %w, strides=[2], padding=[1, 1])",
            Product,
        ),
        (
            &["2, 64", "4, 32|int8", "4, 2", "2, 4"],
            "qnn.blockwise_dense(%x, %w, %v, bits=4)",
            Product,
        ),
        (
            &["1, 3, 8, 8", "1, 3, 4, 4"],
            "nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1])",
            Pool,
        ),
        (
            &["1, 8, 8, 3", "1, 4, 4, 3"],
            "nn.avg_pool2d(%x, pool_size=[2, 2], strides=[2, 2], layout=\"NHWC\")",
            Pool,
        ),
        (
            &["1, 3, 9", "1, 3, 4"],
            "nn.max_pool1d(%x, pool_size=[3], strides=[2])",
            Pool,
        ),
        (&["2, n", "2, n"], "nn.softmax(%x)", Rows),
        (&["2, 3|float16", "2, 3|float16"], "nn.softmax(%x)", Rows),
        (&["2, 3", "2, 3"], "nn.log_softmax(%x)", Rows),
        (
            &["2, 8", "8,", "8,", "2, 8"],
            "nn.layer_norm(%x, %w, %v)",
            Rows,
        ),
        (
            &["2, 4, 5, 5", "4,", "4,", "2, 4, 5, 5"],
            "nn.instance_norm(%x, %w, %v)",
            Rows,
        ),
        (
            &["2, 4, 5, 5", "4,", "4,", "2, 4, 5, 5"],
            "nn.group_norm(%x, %w, %v, num_groups=2)",
            Rows,
        ),
        (
            &["2, 8", "8,", "2, 8"],
            "relax.nn.rms_norm(%x, %w, axes=[1])",
            Rows,
        ),
        (
            &["2, 3, 4", "3, 4", "3, 4", "2, 3, 4"],
            "relax.nn.layer_norm(%x, %w, %v, axes=[1, 2])",
            Rows,
        ),
        (
            &["1, 5, 4, 8", "1, 6, 4, 8", "1, 6, 4, 8", "1, 5, 4, 8"],
            "relax.nn.attention(%x, %w, %v, causal_mask=\"BottomRight\")",
            Attention,
        ),
        (
            &["1, 5, 4, 8", "1, 6, 2, 8", "1, 6, 2, 8", "1, 5, 4, 8"],
            "relax.nn.attention(%x, %w, %v, scale=0.25f, window_size=3)",
            Attention,
        ),
        (&["4, 5", "4,|int32"], "argmax(%x, axis=[1])", Lines),
        (
            &["4, 5", "1, 5|int32"],
            "argmin(%x, axis=[0], keepdims=True, select_last_index=True)",
            Lines,
        ),
        (&["4, 5", "4, 5"], "cumsum(%x, axis=1)", Lines),
        (
            &["4, 5", "4, 5"],
            "cumprod(%x, axis=0, exclusive=True)",
            Lines,
        ),
        (
            &["4, 5", "4, 5"],
            "sort(%x, axis=1, is_ascend=False)",
            Lines,
        ),
        (
            &["4, 5", "4, 5|int64"],
            "argsort(%x, axis=0, dtype=\"int64\")",
            Lines,
        ),
        (
            &["4, 5", "4, 2"],
            "topk(%x, k=2, axis=1, ret_type=\"values\")",
            Lines,
        ),
    ];
    let mut failed = Vec::new();
    for (shapes, text, kind) in all {
        let one = std::panic::AssertUnwindSafe(|| call(&of(shapes), text, *kind));
        if std::panic::catch_unwind(one).is_err() {
            failed.push(text);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn groups_are_read_as_they_are_printed() {
    let program = read(
        "prim_func @f(%x: Buffer[(2, 3), float32], %w: Buffer[(4, 3), float32], %y: Buffer[(2, 4), float32],
             %z: Buffer[(2, 4), float32]) {
           alloc %twice: Buffer[(2, 3), float32];
           alloc %calm: Buffer[(2, 3), float32];
           for %i, %j in grid(2, 3) { %twice[%i, %j] = %x[%i, %j] * 2f; }
           {
             alloc %least: Buffer[(2,), float32];
             for %i in grid(2) { %least[%i] = 0f; }
             for %i, %j in grid(2, 3) { %calm[%i, %j] = max(%twice[%i, %j], %least[%i]); }
           };
           kernel product {
             alloc %sums: Buffer[(2, 4), float32];
             %sums = nn.dense(%calm, %w, units=4);
             for %i, %j in grid(2, 4) { %y[%i, %j] = max(%sums[%i, %j], 1f); }
           }
           kernel rows { %z = nn.softmax(%y); }
         }",
    );
    // The softmax has four stages.
    let ranges: Vec<_> = program.kernels.iter().map(|k| k.stages.clone()).collect();
    assert_eq!(ranges, [2..4, 4..8]);
    assert!(matches!(program.stages[0], Stage::Compute(_)));
    assert!(matches!(program.stages[1], Stage::Nest(_)));
    assert!(matches!(program.stages[3], Stage::Compute(_)));
    assert_eq!(program.hints.len(), 2);
    let text = again(&program);
    assert!(text.contains("kernel product {"), "{text}");
    assert!(text.contains("    %z = nn.softmax(%y);"), "{text}");
    assert!(
        text.contains("    %sums = nn.dense(%calm, %w, units=4);"),
        "{text}"
    );
}

#[test]
fn what_several_stages_write_is_no_operand() {
    // A product of it is not known to be one of what it holds then.
    let program = read(
        "prim_func @f(%x: Buffer[(2, 3), float32], %w: Buffer[(4, 3), float32], %y: Buffer[(2, 4), float32]) {
           alloc %twice: Buffer[(2, 3), float32];
           for %i, %j in grid(2, 3) { %twice[%i, %j] = %x[%i, %j] * 2f; }
           %y = nn.dense(%twice, %w, units=4);
           for %i, %j in grid(2, 3) { %twice[%i, %j] = %twice[%i, %j] * 2f; }
         }",
    );
    assert_eq!(program.hints, []);
}

#[test]
fn groups_are_what_their_kernels_compute() {
    let text = |body: &str| {
        format!(
            "prim_func @f(%x: Buffer[(2, 3), float32], %w: Buffer[(4, 3), float32], %y: Buffer[(2, 4), float32]) {{
               alloc %sums: Buffer[(2, 4), float32];
               kernel product {{
                 %sums = nn.dense(%x, %w, units=4);
                 for %i, %j in grid(2, 4) {{ %y[%i, %j] = {body}; }}
               }}
             }}"
        )
    };
    assert!(module(&text("max(%sums[%i, %j], 0f)")).is_ok());
    let refused = module(&text("exp(%sums[%i, %j])")).expect_err("no epilogue");
    assert_eq!(
        refused,
        ["these stages are not what the kernel `product` computes"]
    );
}

#[test]
fn hints_without_a_call_are_loops() {
    // Another function than the operator's.
    let mut program = read(
        "prim_func @f(%x: Buffer[(2, 3), float32], %y: Buffer[(2, 3), float32]) {
           kernel rows { %y = nn.softmax(%x); }
         }",
    );
    let Some(Stage::Compute(last)) = program.stages.last_mut() else {
        panic!("a computation")
    };
    last.value = &last.value + &last.value;
    let text = print(program.clone());
    assert!(!text.contains("nn.softmax"), "{text}");
    // The loops alone are not known to be rows: the text does not say so.
    assert!(!text.contains("kernel"), "{text}");
    assert_eq!(read(&text).hints, []);
}

#[test]
fn checks_of_extents_are_made_once() {
    let program = read(
        "prim_func @f(%x: Buffer[(n, k), float32], %w: Buffer[(4, m), float32], %y: Buffer[(n, 4), float32]) {
           kernel product { %y = nn.dense(%x, %w, units=4); }
         }",
    );
    assert_eq!(program.kernels[0].stages, 1..2);
    let text = again(&program);
    assert!(text.contains("%y = nn.dense(%x, %w, units=4);"), "{text}");
    assert_eq!(text.matches("assert").count(), 1, "{text}");
}

#[test]
fn kernel_is_a_name_elsewhere() {
    let text = "def @kernel(%kernel: int32) -> int32 { let %kernel = %kernel; %kernel }\n\
                prim_func @f(%kernel: Buffer[(2,), int32], %y: Buffer[(2,), int32]) {\n\
                  for %i in grid(2) { %y[%i] = %kernel[%i]; }\n\
                }";
    assert!(module(text).is_ok());
}

#[test]
fn calls_of_functions_on_numbers_stay_numbers() {
    let program = read(
        "prim_func @f(%x: Buffer[(2,), float32], %s: float32, %y: float32) {
           let %a = exp(%s);
           %y = max(%a, %x[0]);
         }",
    );
    assert_eq!(program.stages.len(), 1);
    assert_eq!(program.inputs.len(), 2);
}

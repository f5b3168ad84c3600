//! The pass `select-kernels`: what it states is what the compiler would choose, and the compiler
//! keeps to it.
#![cfg(feature = "native")]

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use relax::{CompileOptions, Module, ReadOptions, Tensor, Value};
use relax_ir::GlobalKind;
use relax_loops::select::{Weights, check, select};
use relax_loops::{Kernel, KernelKind, Program};

const LEGALIZED: &str = "infer-type,simplify-inference,fold-constant,fuse-ops,legalize";

fn examples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<PathBuf> = [root.join("models"), root]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("a folder").flatten())
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "relay"))
        .collect();
    files.sort();
    files
}

fn programs(module: &Module) -> Vec<&Program> {
    let globals = module.ir().globals.values();
    globals
        .filter_map(|g| match &g.kind {
            GlobalKind::Prim(p) => Some(&**p),
            GlobalKind::Func(_) => None,
        })
        .collect()
}

/// What is computed how, in order.
fn kinds(p: &Program) -> Vec<Option<KernelKind>> {
    let chosen = select(Cow::Borrowed(p), Weights::Any);
    chosen.steps.iter().map(|s| s.work.kind()).collect()
}

/// `@main` of a text as programs that state their kernels.
fn stated(text: &str) -> Module {
    let mut module = Module::parse(text).expect("it reads");
    let pipeline = format!("{LEGALIZED},select-kernels");
    module.optimise(&pipeline).expect("it is legalized");
    module
}

fn all_kinds(module: &Module) -> Vec<KernelKind> {
    let all = programs(module).into_iter().flat_map(|p| &p.kernels);
    all.map(|k| k.kind).collect()
}

#[test]
fn what_is_stated_is_what_would_be_chosen() {
    let mut kernels = 0;
    for path in examples() {
        let mut module = Module::load(&path, ReadOptions::default()).expect("it reads");
        module
            .optimise(&format!("{LEGALIZED},select-kernels"))
            .expect("it is legalized");
        for p in programs(&module) {
            for k in &p.kernels {
                let name = format!("{}: @{}: {}", path.display(), p.name, k.kind.name());
                assert_eq!(check(p, k), Ok(()), "{name}");
            }
            let mut open = p.clone();
            open.kernels.clear();
            assert_eq!(kinds(p), kinds(&open), "{}: @{}", path.display(), p.name);
            kernels += p.kernels.len();
        }
    }
    assert!(kernels > 40, "only {kernels} kernels in all examples");
}

const CONV: &str = "def @main(%x: Tensor[(1, 3, 12, 12), float32], %w: Tensor[(4, 3, 3, 3), float32], \
     %b: Tensor[(4,), float32]) { nn.max_pool2d(nn.relu(nn.bias_add(nn.conv2d(%x, %w, padding=[1, 1], \
     channels=4, kernel_size=[3, 3]), %b)), pool_size=[2, 2], strides=[2, 2]) }";

const ATTENTION: &str = "def @main(%q: Tensor[(2, 5, 8), float32], %k: Tensor[(2, 7, 8), float32], \
     %v: Tensor[(2, 7, 8), float32]) { nn.batch_matmul(nn.softmax(multiply(nn.batch_matmul(%q, %k, \
     transpose_b=True), 0.25f)), %v, transpose_b=False) }";

#[test]
fn programs_of_one_kernel_are_joined() {
    let conv = stated(CONV);
    assert_eq!(all_kinds(&conv), [KernelKind::PooledConvolution]);
    assert_eq!(programs(&conv).len(), 1, "{conv}");
    let attention = stated(ATTENTION);
    assert_eq!(all_kinds(&attention), [KernelKind::Attention]);
    assert_eq!(programs(&attention).len(), 1, "{attention}");
}

#[test]
fn a_value_that_is_read_twice_is_stored() {
    // The weights of the attention are a result, too.
    let text = "def @main(%q: Tensor[(2, 5, 8), float32], %k: Tensor[(2, 7, 8), float32], \
         %v: Tensor[(2, 7, 8), float32]) { let %s = nn.softmax(nn.batch_matmul(%q, %k, \
         transpose_b=True)); (%s, nn.batch_matmul(%s, %v, transpose_b=False)) }";
    let kinds = all_kinds(&stated(text));
    assert!(!kinds.contains(&KernelKind::Attention), "{kinds:?}");
    assert_eq!(kinds.len(), 3, "{kinds:?}");
}

#[test]
fn stated_programs_compute_the_same() {
    let shapes: [(&str, &[&[i64]]); 2] = [
        (CONV, &[&[1, 3, 12, 12], &[4, 3, 3, 3], &[4]]),
        (ATTENTION, &[&[2, 5, 8], &[2, 7, 8], &[2, 7, 8]]),
    ];
    for (text, shapes) in shapes {
        let arguments: Vec<Value> = (shapes.iter())
            .map(|shape| {
                let n = shape.iter().product::<i64>();
                let data: Vec<f32> = (0..n)
                    .map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0)
                    .collect();
                Value::Tensor(Tensor::from_slice(shape, &data))
            })
            .collect();
        let run = |module: Module| {
            let options = CompileOptions {
                pipeline: Some("infer-type".into()),
                ..CompileOptions::default()
            };
            let program = module.compile(&options).expect("it compiles");
            match &program.call(&arguments).expect("it runs") {
                Value::Tensor(t) => t.slice::<f32>().to_vec(),
                _ => panic!("a tensor"),
            }
        };
        // The lowering joins the same kernels where they are no calls of programs yet.
        let mut before = Module::parse(text).expect("it reads");
        let fused = LEGALIZED.trim_end_matches(",legalize");
        before.optimise(fused).expect("it is fused");
        assert_eq!(run(before), run(stated(text)));
    }
}

#[test]
fn a_program_gets_the_kernels_that_it_states() {
    let text = "def @main(%x: Tensor[(6, 8), float32], %w: Tensor[(4, 8), float32]) { \
         nn.relu(nn.dense(%x, %w, units=4)) }";
    let module = stated(text);
    let p = programs(&module)[0];
    assert_eq!(kinds(p), [Some(KernelKind::Product)]);
    let [kernel] = &p.kernels[..] else {
        panic!("one kernel: {:?}", p.kernels)
    };
    assert_eq!(kernel.stages, 0..2, "the product and its epilogue");
    // The product alone: the rest is generated code.
    let mut alone = p.clone();
    alone.kernels[0].stages = 0..1;
    assert_eq!(kinds(&alone), [Some(KernelKind::Product), None]);
    assert_eq!(check(&alone, &alone.kernels[0]), Ok(()));
    // Not what these stages are.
    let wrong = Kernel {
        kind: KernelKind::Rows,
        stages: 0..2,
    };
    let message = check(p, &wrong).expect_err("it is a product");
    assert_eq!(message, "these stages are not the work of a kernel `rows`");
    let mut none = p.clone();
    none.kernels = vec![wrong];
    assert_eq!(kinds(&none), [None, None]);
    // The sums are read by another stage, too: they have to be stored.
    let mut read = p.clone();
    let sums = read.stages[0].written()[0];
    read.outputs.push(sums);
    let message = check(&read, kernel).expect_err("the sums are a result");
    assert!(message.contains("these stages are not"), "{message}");
}

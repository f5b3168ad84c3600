//! Repeated calls allocate no system memory: everything comes from what the context has cached.
#![cfg(feature = "native")]

use std::path::Path;

use relax::ReadOptions;
use relax_cli::random::Random;
use relax_cli::{inputs, load, native};
use relax_codegen::{Host, Value};

/// Returns the number of system allocations in calls three to five.
fn later_allocations(example: &str, threads: usize) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(example);
    let loaded = load::checked(&path, ReadOptions::default())
        .expect("readable")
        .expect("no errors");
    let (mut session, mut module) = (loaded.session, loaded.module);
    let entry = load::entry(&module, None).expect("@main");
    let func = module.global_func(entry).expect("a function");
    let params = inputs::params(&module, &loaded.typed.typing, func);
    let how = Random {
        seed: 7,
        extent: 4,
        typing: None,
    };
    let tensors = inputs::random(&module, &params, how).expect("tensors");
    let arguments: Vec<Value> = tensors.into_iter().map(Value::Tensor).collect();
    let typing = native::optimise(&mut session, &mut module, "native2");
    let Ok(typing) = typing else {
        panic!("{example}: the pipeline fails")
    };
    let entry = module.global("main").expect("@main");
    let lowered = native::lower(&module, &typing, &[entry], &session.sources);
    let Ok(lowered) = lowered else {
        panic!("{example} has no native code")
    };
    let Ok(jit) = native::jit(&lowered) else {
        panic!("{example} has no native code")
    };
    let host = Host::new(threads).expect("memory");
    let mut before = 0;
    for call in 0..5 {
        if call == 2 {
            before = host.heap().system_allocs;
        }
        host.time(&jit, "main", &arguments).expect("it runs");
    }
    let after = host.heap();
    assert!(after.system_allocs > 0, "{example} uses the context's heap");
    after.system_allocs - before
}

#[test]
fn a_steady_program_allocates_nothing() {
    for example in [
        "conv_block.relay",
        "transformer.relay",
        "lstm_list.relay",
        "tree_lstm_large.relay",
        "greedy_decoding.relay",
        "quantised_conv.relay",
        "models/resnet18.relay",
    ] {
        for threads in [1, 2] {
            let calls = later_allocations(example, threads);
            assert_eq!(calls, 0, "{example}, {threads} threads");
        }
    }
}

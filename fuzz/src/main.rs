//! One target of `relax_fuzzing`, tried by libFuzzer: `RELAX_FUZZ_TARGET` names it.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use relax_fuzzing::{Target, mutate, target};

fn chosen() -> &'static Target {
    static TARGET: OnceLock<&'static Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("RELAX_FUZZ_TARGET").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            let known: Vec<&str> = relax_fuzzing::TARGETS.iter().map(|t| t.name).collect();
            eprintln!("RELAX_FUZZ_TARGET is one of {}", known.join(", "));
            std::process::exit(2);
        })
    })
}

fuzz_target!(|data: &[u8]| (chosen().run)(data));

// One of eight changes is libFuzzer's own, which knows what the code compares with.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 8 == 7 {
        return fuzzer_mutate(data, size, max_size);
    }
    mutate::remember(&data[..size]);
    let changed = chosen().change(&data[..size], seed);
    let length = changed.len().min(max_size).min(data.len());
    data[..length].copy_from_slice(&changed[..length]);
    length
});

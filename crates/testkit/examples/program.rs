//! Prints the random program of a seed: `cargo run -p relax-testkit --example program -- SEED
//! [all|tensors|smooth|native|effects]`.

use relax_testkit::{Features, program};

fn main() {
    let mut args = std::env::args().skip(1);
    let seed = args.next().and_then(|s| s.parse().ok()).unwrap_or(0);
    let features = match args.next().as_deref() {
        Some("tensors") => Features::TENSORS,
        Some("smooth") => Features::SMOOTH,
        Some("native") => Features::NATIVE,
        Some("effects") => Features::EFFECTS,
        _ => Features::ALL,
    };
    let p = program(seed, &features);
    for (name, value) in &p.inputs {
        println!("// %{name}: {value:?}");
    }
    print!("{}", p.text);
}

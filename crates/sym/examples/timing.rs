//! Times operations on 1,000-term expressions: `cargo run --release -p relax-sym --example timing`.

use std::hint::black_box;
use std::time::Instant;

use relax_sym::{Dim, DimInfer, DimVar, Facts, solve};

fn time<T>(what: &str, mut run: impl FnMut() -> T) {
    let rounds = 50;
    black_box(run());
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(run());
    }
    println!(
        "{what:<40} {:>10.1} µs",
        start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
    );
}

fn main() {
    let var = |id: u32| Dim::var(DimVar(id));
    let one = Dim::from(1);
    let linear: Dim = (0..1000).map(|id| var(id) * i64::from(id % 7 + 1)).sum();
    let other: Dim = (500..1500).map(|id| var(id) * 3 * var(id + 1)).sum();
    let mixed: Dim = (0..500)
        .map(|id| var(id).floordiv(&Dim::from(4)) + var(id).modulo(&Dim::from(3)))
        .sum();
    let least = (1..1000).fold(var(0), |so_far, id| so_far.min(&var(id)));
    let facts = Facts::default();
    for (name, dim) in [
        ("linear", &linear),
        ("products", &other),
        ("mixed", &mixed),
        ("min", &least),
    ] {
        println!("-- {name}");
        time("add", || dim + &linear);
        time("add mixed", || dim + &mixed);
        let same = dim.clone();
        time("sub itself", || dim - &same);
        time("times a term", || dim * (var(3) * 5));
        time("floordiv 4", || dim.floordiv(&Dim::from(4)));
        time("modulo 4", || dim.modulo(&Dim::from(4)));
        time("floordiv n", || dim.floordiv(&var(3)));
        time("floordiv n + 1", || dim.floordiv(&(var(3) + 1)));
        time("min", || dim.min(&linear));
        time("min one", || dim.min(&one));
        time("eq", || facts.eq(dim, &(&linear + 1)));
        time("le", || facts.le(dim, &linear));
        time("bounds", || facts.bounds(dim));
        time("solve", || {
            solve(&(dim + Dim::infer(DimInfer(0))), &linear, &|a| {
                a == DimInfer(0).into()
            })
        });
        time("substitute", || {
            dim.substitute(&|a| (a == DimVar(3).into()).then(|| var(4) * 2))
        });
        time("eval", || dim.eval(&|_| Some(3)));
        time("display", || {
            dim.display(&|var| format!("n{}", var.0)).to_string()
        });
    }
}

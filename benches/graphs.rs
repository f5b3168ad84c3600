//! How fast JSON graphs and the weights in them are read, on one thread, in its own running time.
//!
//! `cargo bench -p relax --bench graphs [-- --megabytes N]`: the graphs are made here, of a network of residual
//! blocks with all its types, and of tensors. Each line of the output is `WHAT BYTES SECONDS`, the least of several
//! runs; `benches/reading.py` makes a table of them.

use std::fmt::Write;
use std::time::{Duration, Instant};

use relax::{ReadOptions, Session, TypeSource, TypedModule};
use relax_ir::Module;

/// A network of as many residual blocks.
fn network(blocks: usize) -> String {
    let weight = "Tensor[(64, 64, 3, 3), float32]";
    let mut body = String::new();
    let mut last = "%data".to_owned();
    for n in 0..blocks {
        let at = 3 * n;
        let (conv, relu, sum) = (at, at + 1, at + 2);
        let _ = writeln!(
            body,
            "  %{conv} = nn.conv2d({last}, %w, padding=[1, 1, 1, 1], channels=64, kernel_size=[3, 3]);\n  \
             %{relu} = nn.relu(%{conv});\n  %{sum} = add(%{relu}, {last});"
        );
        last = format!("%{sum}");
    }
    format!(
        "def @main(%data: Tensor[(1, 64, 56, 56), float32], %w: {weight}) {{\n{body}  nn.relu({last})\n}}\n"
    )
}

/// A graph of the module of a text, with its types.
fn graph(text: &str) -> Vec<u8> {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, found) = session.read("bench.relay", text.as_bytes().to_vec());
    assert!(!found.has_errors(), "the text is read");
    typed(&mut module)
}

fn typed(module: &mut Module) -> Vec<u8> {
    let (typing, found) = relax::check(module, &relax::InferOptions::default());
    assert!(!found.has_errors(), "the text has types");
    let types = TypedModule {
        module,
        typing: &typing,
    };
    let release = "0.12".parse().expect("a release");
    let graph = relax::json_graph(module, Some(&types as &dyn TypeSource), release);
    let mut bytes = Vec::new();
    let graph = graph.expect("a graph has a form for it");
    graph.to(&mut bytes).expect("memory holds it");
    bytes
}

/// A graph of constants of so many bytes in all.
fn weights(bytes: usize) -> Vec<u8> {
    let mut session = Session::new(ReadOptions::default());
    let text = "def @main() { meta[relay.Constant][0] /* ty=Tensor[(2), float32] */ }".to_owned();
    session.options.text.stub_constants = Some("zeros".parse().expect("placeholders"));
    let (mut module, _) = session.read("weights.relay", text.into_bytes());
    let len = bytes / 4;
    let numbers: Vec<f32> = (0..len).map(|i| i as f32 * 0.001).collect();
    for tensor in module.consts.values_mut() {
        *tensor = relax_tensor::Tensor::from_slice(&[len as i64], &numbers);
    }
    module.metadata.stubs.clear();
    typed(&mut module)
}

/// The time that this thread has been running, which other work on the machine does not lengthen;
/// `None` where the system does not tell.
fn running() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// The least time of several runs, at least three and about two seconds.
fn least(bytes: &[u8]) -> Duration {
    let begin = Instant::now();
    let (mut best, mut runs) = (Duration::MAX, 0);
    while runs < 3 || begin.elapsed() < Duration::from_secs(2) {
        let copy = bytes.to_vec();
        let (at, ran) = (Instant::now(), running());
        let mut session = Session::new(ReadOptions::default());
        let (module, found) = session.read("bench.json", copy);
        let wall = at.elapsed();
        let own = ran.and_then(|ran| running()?.checked_sub(ran));
        best = best.min(own.filter(|t| !t.is_zero()).unwrap_or(wall));
        assert!(
            !found.has_errors() && !module.globals.is_empty(),
            "the graph is read"
        );
        runs += 1;
    }
    best
}

fn main() {
    let mut megabytes = 30.0f64;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--megabytes" {
            megabytes = args
                .next()
                .and_then(|n| n.parse().ok())
                .expect("a number of megabytes");
        }
    }
    // A block is about three thousand bytes of the graph.
    let nodes = graph(&network((megabytes * 1e6 / 2e3) as usize));
    let heavy = weights((4.0 * megabytes * 1e6) as usize);
    for (what, bytes) in [("graph", &nodes), ("weights", &heavy)] {
        println!("{what} {} {:.6}", bytes.len(), least(bytes).as_secs_f64());
    }
}

//! Measures the time of reading and checking by module size:
//! `cargo run --release -p relax --example check_scale`
//!
//! The module has one function whose body is a chain of operators on tensors of symbolic length
//! (`nn.dense`, `nn.relu`, a residual `add`, a `multiply`); it is parsed from text and type-checked
//! on one thread with a small stack. Printed are the times of the steps, the operators per second,
//! and the growth of the time from the smaller to the larger module. Times are CPU time of the
//! thread where available, independent of other load.
//!
//! Arguments: sizes (default `100000 1000000`). `--rounds N` takes the minimum of N runs (default
//! 3). `--beside PYTHON` has a Python with apache-tvm 0.27 build and normalise the same chain with
//! Relax's block builder, at the smaller size, in the same run, and prints the ratio. `--text N`
//! writes the text of N operators to standard output instead.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use relax::{InferOptions, ReadOptions, Session};

/// The stack size: nothing may recurse over the program.
const STACK: usize = 1 << 20;

fn text(operators: usize) -> String {
    let mut text = String::from(
        "#[version = \"0.0.5\"]\n\
         def @main(%x: Tensor[(n, 64), float32], %w: Tensor[(64, 64), float32]) {\n\
         \x20 %0 = nn.dense(%x, %w, units=None);\n",
    );
    for i in 1..operators {
        let (last, before) = (i - 1, i.saturating_sub(3));
        let _ = match i % 4 {
            0 => writeln!(text, "  %{i} = nn.dense(%{last}, %w, units=None);"),
            1 => writeln!(text, "  %{i} = nn.relu(%{last});"),
            2 => writeln!(text, "  %{i} = add(%{last}, %{before});"),
            _ => writeln!(text, "  %{i} = multiply(%{last}, %x);"),
        };
    }
    let _ = writeln!(text, "  %{}\n}}", operators - 1);
    text
}

struct Times {
    read: Duration,
    check: Duration,
}

/// Returns the CPU time of this thread, or the elapsed time where that is unavailable.
fn clock(start: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|n| n.parse().ok());
    nanos.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

fn measure(text: &str) -> Times {
    let mut session = Session::new(ReadOptions::default());
    let bytes = text.as_bytes().to_vec();
    let start = Instant::now();
    let first = clock(start);
    let (mut module, said) = session.read("chain.relay", bytes);
    let read = clock(start) - first;
    assert!(!said.has_errors(), "{said:?}");
    let first = clock(start);
    let (typing, said) = relax::check(&mut module, &InferOptions::default());
    let check = clock(start) - first;
    assert!(!said.has_errors(), "{said:?}");
    drop(typing);
    Times { read, check }
}

fn best(text: &str, rounds: usize) -> Times {
    let run = || {
        let all = (0..rounds.max(1)).map(|_| measure(text));
        all.min_by_key(|t| t.read + t.check).expect("one round")
    };
    let thread = std::thread::Builder::new().stack_size(STACK);
    std::thread::scope(|s| {
        let handle = thread.spawn_scoped(s, run).expect("a thread");
        handle.join().expect("no panic")
    })
}

fn main() {
    let mut sizes: Vec<usize> = Vec::new();
    let (mut rounds, mut beside) = (3, None);
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut number = || args.next().and_then(|v| v.parse().ok()).expect("a number");
        match &a[..] {
            "--rounds" => rounds = number(),
            "--text" => return print!("{}", text(number())),
            "--beside" => beside = args.next(),
            size => sizes.push(size.parse().expect("a number of operators")),
        }
    }
    if sizes.is_empty() {
        sizes = vec![100_000, 1_000_000];
    }
    println!("operators    read s   check s     all s   operators/s");
    let mut all = Vec::new();
    for &n in &sizes {
        let t = best(&text(n), rounds);
        let sum = (t.read + t.check).as_secs_f64();
        let (read, check) = (t.read.as_secs_f64(), t.check.as_secs_f64());
        println!(
            "{n:>9} {read:>9.3} {check:>9.3} {sum:>9.3} {:>13.0}",
            n as f64 / sum
        );
        all.push(sum);
    }
    if let ([first, .., last], [small, .., large]) = (&all[..], &sizes[..]) {
        println!(
            "{large} against {small}: {:.1} times the time",
            last / first
        );
    }
    if let Some(python) = beside {
        let n = sizes[0];
        let out = Command::new(&python)
            .args(["-c", include_str!("tvm_chain.py"), &n.to_string()])
            .output()
            .expect("the Python starts");
        let said = String::from_utf8_lossy(&out.stdout);
        match said.split_whitespace().collect::<Vec<_>>()[..] {
            [version, seconds] => {
                let seconds: f64 = seconds.parse().expect("seconds");
                println!(
                    "TVM {version} builds and normalises {n} operators in {seconds:.3} s, \
                     {:.0} a second: {:.1} times as long as reading and checking takes here",
                    n as f64 / seconds,
                    seconds / all[0]
                );
            }
            _ => {
                eprintln!("{}", String::from_utf8_lossy(&out.stderr));
                std::process::exit(2);
            }
        }
    }
}

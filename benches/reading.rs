//! How fast a model dump is read and formatted, on one thread, in its own running time.
//!
//! `cargo bench -p relax-resolve --bench reading [-- --megabytes N] [-- FILE]`: without a file, a dump
//! is made as TVM prints a residual network with its types. Each line of the output is
//! `WHAT BYTES SECONDS`, the least of several runs; `benches/reading.py` sets it beside its peers.

use std::fmt::Write;
use std::time::{Duration, Instant};

use relax_base::SourceMap;
use relax_resolve::{Options, resolve};

/// A network of residual blocks as TVM prints it, types and all, at least `bytes` long.
fn dump(bytes: usize) -> String {
    let tensor = "Tensor[(1, 64, 56, 56), float32]";
    let weight = "Tensor[(64, 64, 3, 3), float32]";
    let (mut params, mut body) = (String::new(), String::new());
    let mut last = "%data".to_string();
    let mut n = 0;
    let mut block = 0;
    while params.len() + body.len() < bytes {
        let mut line = |what: &str| {
            let _ = writeln!(body, "  %{n} = {what} /* ty={tensor} */;");
            n += 1;
            format!("%{}", n - 1)
        };
        let mut x = last.clone();
        for i in 0..2 {
            let (w, b) = (
                format!("%stage{block}_conv{i}_weight"),
                format!("%stage{block}_conv{i}_bias"),
            );
            x = line(&format!(
                "nn.conv2d({x}, {w}, padding=[1, 1, 1, 1], channels=64, kernel_size=[3, 3])"
            ));
            x = line(&format!("nn.bias_add({x}, {b})"));
            x = line(&format!("nn.relu({x})"));
            let _ = write!(
                params,
                ", {w}: {weight} /* ty={weight} */, {b}: Tensor[(64), float32] \
                 /* ty=Tensor[(64), float32] */"
            );
        }
        last = line(&format!("add({x}, {last})"));
        block += 1;
    }
    format!(
        "#[version = \"0.0.5\"]\ndef @main(%data: {tensor} /* ty={tensor} */{params}) -> {tensor} \
         {{\n{body}  nn.relu({last}) /* ty={tensor} */\n}}\n"
    )
}

/// The time that this thread has been running, which other work on the machine does not lengthen;
/// `None` where the system does not tell.
fn running() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// The least time of several runs, at least three and about two seconds.
fn least<T>(mut work: impl FnMut() -> T) -> Duration {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    let mut runs = 0;
    while runs < 3 || begin.elapsed() < Duration::from_secs(2) {
        let (at, ran) = (Instant::now(), running());
        let result = work();
        let wall = at.elapsed();
        // The counter moves by ticks where the kernel is built so.
        let own = ran.and_then(|ran| running()?.checked_sub(ran));
        best = best.min(own.filter(|t| !t.is_zero()).unwrap_or(wall));
        drop(result);
        runs += 1;
    }
    best
}

fn main() {
    let mut megabytes = 10.0f64;
    let mut text = None;
    let mut write = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--megabytes" => {
                megabytes =
                    (args.next().and_then(|n| n.parse().ok())).expect("a number of megabytes");
            }
            "--write" => write = args.next(),
            // What cargo passes to every bench.
            "--bench" => {}
            file => text = Some(std::fs::read_to_string(file).expect("a readable file")),
        }
    }
    let text = text.unwrap_or_else(|| dump((megabytes * 1e6) as usize));
    if let Some(path) = write {
        std::fs::write(path, &text).expect("a writable place");
    }
    let bytes = text.len();
    let show = |what: &str, time: Duration| println!("{what} {bytes} {:.6}", time.as_secs_f64());

    // From bytes to a module whose names are resolved; the module's drop counts, too.
    let read = || {
        let decoded = relax_syntax::decode(text.as_bytes().to_vec());
        let mut map = SourceMap::new();
        let file = map
            .add("dump.relay", decoded.text)
            .expect("less than 4 GiB");
        let parsed = relax_syntax::parse(&file);
        let (module, diagnostics) = resolve(&parsed.ast, &file, &Options::default());
        decoded.bad.is_none()
            && !parsed.diagnostics.has_errors()
            && !diagnostics.has_errors()
            && !module.globals.is_empty()
    };
    assert!(read(), "the dump is read");
    show("read", least(read));

    let mut map = SourceMap::new();
    let file = map
        .add("dump.relay", text.clone())
        .expect("less than 4 GiB");
    show("lex", least(|| relax_syntax::lex(&file)));
    show("parse", least(|| relax_syntax::parse(&file)));
    let options = relax_syntax::FmtOptions::default();
    let format = || relax_syntax::format_source(&file, &options).map(|text| text.len());
    assert!(format().is_ok(), "the dump is formatted");
    show("format", least(format));
}

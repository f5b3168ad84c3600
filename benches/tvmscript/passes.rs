//! How long a pipeline takes on modules that were read before, in a process that has done so already: the counterpart
//! of passes that are called several times from one Python process.
//!
//! `cargo bench --bench script_passes -- PIPELINE SECONDS FILE…`: each line of the output is `FILE SECONDS
//! VERIFIED`, the least of several runs without the verifier and with it, and after it lines of the passes' own times.
//! Each run has a copy of the module with the types that reading found; copying is not counted.
//! `benches/tvmscript/run.py` makes a table of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use relax::{InferOptions, PassConfig, Pipeline, ReadOptions, Session, run_typed};
use relax_cli::memory;
use relax_ir::Module;
use relax_passes::{Event, Observer, Typed};

/// The time of each pass, and of what follows it: verifying and finding types.
#[derive(Default)]
struct Times(BTreeMap<&'static str, Duration>);

impl Times {
    fn add(&mut self, event: &Event<'_>) {
        *self.0.entry(event.run.pass.name).or_default() += event.time;
        *self.0.entry("(checking)").or_default() += event.checking;
    }
}

impl Observer for Times {
    fn before(&mut self, event: &Event<'_>) {
        self.add(event);
    }
    fn after(&mut self, event: &Event<'_>) {
        self.add(event);
    }
}

/// The time of one run on a copy of a module.
fn once(
    pipeline: &Pipeline,
    module: &Module,
    typed: &Typed,
    config: &PassConfig,
) -> (Duration, Times) {
    let mut module = module.clone();
    let typed = typed.clone();
    let mut times = Times::default();
    let begin = Instant::now();
    let outcome = run_typed(pipeline, &mut module, Some(typed), config, &mut times);
    let time = begin.elapsed();
    if let Some((run, errors)) = &outcome.failure {
        panic!("{run}: {errors:?}");
    }
    (time, times)
}

fn main() {
    memory::keep(); // as the tools do
    let mut args = std::env::args().skip(1).filter(|a| a != "--bench");
    let (Some(pipeline), Some(seconds)) = (args.next(), args.next()) else {
        return; // `cargo test` runs benches without arguments
    };
    let patience = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
    let pipeline = Session::new(ReadOptions::default()).pipeline(&pipeline);
    let pipeline = pipeline.expect("a pipeline");
    let configs = [false, true].map(|verify_each| PassConfig {
        verify_each,
        ..PassConfig::default()
    });
    for path in args {
        let mut session = Session::new(ReadOptions::default());
        let bytes = std::fs::read(&path).expect("a file");
        let (module, typed, found) = session.check_typed(&path, bytes, &InferOptions::default());
        assert!(!found.has_errors(), "{path}");
        let [plain, verified] = configs.map(|config| {
            let begin = Instant::now();
            let mut least = once(&pipeline, &module, &typed, &config);
            while begin.elapsed() < patience {
                let next = once(&pipeline, &module, &typed, &config);
                if next.0 < least.0 {
                    least = next;
                }
            }
            least
        });
        println!(
            "{path} {:.6} {:.6}",
            plain.0.as_secs_f64(),
            verified.0.as_secs_f64()
        );
        for (pass, time) in &plain.1.0 {
            println!("  {pass} {:.6}", time.as_secs_f64());
        }
    }
}

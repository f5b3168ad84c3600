//! Fuzzes the importer with random mutations of models, sequentially in one process: each must
//! yield a text or errors, without a panic and within time and memory limits.
//!
//!     cargo run --release -p relax-onnx --example mutate -- 10000000 FOLDER…
//!
//! Mutations apply to the fields of protobuf messages, so that the result is still a model: numbers
//! become boundary values, names those of other values, operators other ones, nodes and tensors are
//! taken from other models, fields are duplicated or dropped. Occasionally, a few bytes are changed
//! as well. The seeds are the models in the folders (recursively) of at most 64 KiB, or else a few
//! built-in ones. A model's number determines its mutations; `--from N` starts at a later one.
//! Findings are written to files, and make the exit code 1.

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[path = "mutate/wire.rs"]
mod wire;

use wire::{Field, Pool, Random};

/// The size limit on seeds.
const LARGEST: u64 = 64 << 10;
/// The limit on memory in use for one model.
const MEMORY: usize = 512 << 20;
/// The time limit for one model.
const TIME: Duration = Duration::from_secs(10);
/// The limit on findings that are written.
const FINDINGS: usize = 20;

/// An allocator that counts the memory in use.
struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
#[allow(unsafe_code, reason = "an allocator is unsafe to write")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = TAKEN.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: this function's contract is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut count, mut from, mut folders) = (100_000_u64, 0, Vec::new());
    while let Some(arg) = args.next() {
        match arg.parse() {
            _ if arg == "--from" => from = args.next().and_then(|n| n.parse().ok()).unwrap_or(0),
            Ok(n) => count = n,
            Err(_) => folders.push(PathBuf::from(arg)),
        }
    }
    let mut seeds = Vec::new();
    for folder in &folders {
        models(folder, &mut seeds);
    }
    if seeds.is_empty() {
        seeds = wire::small();
    }
    std::panic::set_hook(Box::new(|_| {}));
    println!("{} models, {count} executions from {from} on", seeds.len());
    run(&seeds, from, count)
}

/// Collects the models in a folder, recursively, in the order of their names.
fn models(folder: &Path, out: &mut Vec<Vec<u8>>) {
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&path) else {
            let small = path.metadata().is_ok_and(|m| m.len() <= LARGEST);
            if small && path.extension().is_some_and(|e| e == "onnx") {
                out.extend(std::fs::read(&path));
            }
            continue;
        };
        let mut below: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        below.sort_by(|a, b| b.cmp(a));
        open.extend(below);
    }
}

fn run(seeds: &[Vec<u8>], from: u64, count: u64) -> ExitCode {
    let trees: Vec<Vec<Field>> = seeds.iter().map(|s| wire::parse(s)).collect();
    let pool = Pool::new(&trees);
    let (started, mut said) = (Instant::now(), Instant::now());
    let (mut read, mut found, mut most, mut longest) = (0u64, 0, 0, Duration::ZERO);
    for k in from..from + count {
        let mut random = Random::new(k);
        let tree = &trees[random.below(trees.len())];
        let bytes = wire::changed(tree, &pool, &mut random);
        let base = TAKEN.load(Ordering::Relaxed);
        MOST.store(base, Ordering::Relaxed);
        let begun = Instant::now();
        let given = bytes.clone();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let options = relax_onnx::Options {
                fold_layers: k % 4 == 0,
            };
            let external = |name: &str| Err(format!("there is no {name}").into());
            relax_onnx::import_with(given.into(), &external, options).is_ok()
        }));
        let (time, memory) = (begun.elapsed(), MOST.load(Ordering::Relaxed) - base);
        (most, longest) = (most.max(memory), longest.max(time));
        let why = match ended {
            Err(_) => Some("panics"),
            _ if memory > MEMORY => Some("takes too much memory"),
            _ if time > TIME => Some("takes too long"),
            Ok(ok) => {
                read += u64::from(ok);
                None
            }
        };
        if let Some(why) = why {
            found += 1;
            let name = format!("found-{k}.onnx");
            let kept = std::fs::write(&name, &bytes).is_ok();
            println!(
                "{k} {why}{}",
                if kept {
                    format!(": {name}")
                } else {
                    String::new()
                }
            );
            if found >= FINDINGS {
                break;
            }
        }
        if said.elapsed() > Duration::from_secs(30) {
            said = Instant::now();
            let rate = (k - from + 1) as f64 / started.elapsed().as_secs_f64();
            println!("{} executions, {rate:.0} a second", k - from + 1);
        }
    }
    let rate = count as f64 / started.elapsed().as_secs_f64();
    println!(
        "{count} executions, {rate:.0} a second; {read} were read, {found} found; at most {} MiB and {:.1} s",
        most >> 20,
        longest.as_secs_f64()
    );
    ExitCode::from(u8::from(found > 0))
}

//! Mutated bytecode programs: each is rejected, or is accepted, round-trips, and runs to a value or
//! a fault.
//!
//! The mutations are deterministic. `RELAX_FUZZ=1000000` makes more, `RELAX_FUZZ_FROM` others:
//!
//!     RELAX_FUZZ=1000000 cargo test --release --workspace --test vm_damaged
#![cfg(feature = "native")]

use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

use relax_tensor::Tensor;
use relax_vm::{Executable, Kernel, KernelError, Kernels, Machine, Value};

/// Programs with constants, data types, closures, branches, and kernels with and without a text
/// form.
const PROGRAMS: &[&str] = &[
    "def @main() { (stack((1f, 2f), axis=0), stack((True, False), axis=0)) }",
    "def @f(%l: List[int32]) -> int32 {
       match (%l) { Nil => 0, Cons(%h, %t) => add(%h, @f(%t)) }
     }
     def @main(%n: int32) {
       let %g = fn (%x: int32) { @f(Cons(%x, Cons(%n, Nil))) };
       let %r = ref(%n);
       ref_write(%r, %g(3));
       ref_read(%r)
     }",
    "def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) {
       let %y = nn.softmax(nn.dense(%x, %w, units=3));
       (argsort(%y), if (sum(%y) > 1f) { %y } else { exp(%y) })
     }",
];

/// A random number generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % sides.max(1) as u64) as usize
    }
}

/// Changes, removes or duplicates some bytes of a file.
fn changed_bytes(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    const ODD: [u32; 8] = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX, 255, 1 << 24];
    let mut out = bytes.to_vec();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(out.len());
        match dice.roll(8) {
            0..=2 => out[at] ^= 1 << dice.roll(8),
            3 => out[at] = dice.roll(256) as u8,
            4 | 5 => {
                let word = match dice.roll(2) {
                    0 => ODD[dice.roll(ODD.len())],
                    _ => dice.roll(32) as u32,
                };
                if let Some(to) = out.get_mut(at..at + 4) {
                    to.copy_from_slice(&word.to_le_bytes());
                }
            }
            6 => {
                let end = (at + dice.roll(16)).min(out.len());
                let part = out[at..end].to_vec();
                let to = dice.roll(out.len());
                out.splice(to..to, part);
            }
            _ => {
                let end = (at + dice.roll(16)).min(out.len());
                out.drain(at..end);
            }
        }
        if out.is_empty() {
            break;
        }
    }
    out
}

/// Replaces, removes or duplicates some words of a listing.
fn changed_words(text: &str, dice: &mut Dice) -> String {
    let mut words: Vec<&str> = text
        .split_inclusive([' ', '\n', ',', ';', '(', ')'])
        .collect();
    for _ in 0..=dice.roll(4) {
        let (at, other) = (dice.roll(words.len()), dice.roll(words.len()));
        match dice.roll(4) {
            0 => words[at] = words[other],
            1 => drop(words.remove(at)),
            2 => words.insert(at, words[other]),
            _ => words.swap(at, other),
        }
        if words.is_empty() {
            break;
        }
    }
    words.concat()
}

/// Corrects the checksum of a mutated file: otherwise nothing after it would ever be read.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let length = out.get(16..24).and_then(|b| b.try_into().ok());
    let length = length.map_or(u64::MAX, u64::from_le_bytes);
    let end = usize::try_from(length).ok().and_then(|n| n.checked_add(24));
    if let Some(covered) = end.and_then(|end| out.get(16..end)) {
        let sum = crc32(covered);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, &byte: &u8| {
        let bit = |sum: u32, _| match sum & 1 {
            1 => sum >> 1 ^ 0xedb8_8320,
            _ => sum >> 1,
        };
        (0..8).fold(sum ^ u32::from(byte), bit)
    };
    !bytes.iter().fold(!0, step)
}

/// Kernels that do not run: loops of a mutated program may take years.
struct Few;

impl Kernels for Few {
    fn run(
        &mut self,
        _: u32,
        kernel: &Kernel,
        _: &[Rc<Tensor>],
        _: Option<&[Vec<i64>]>,
        _: &mut u64,
    ) -> Result<Vec<Tensor>, KernelError> {
        Err(KernelError {
            code: relax_vm::MALFORMED,
            message: format!("`{}` is not run here", kernel.name),
            place: None,
        })
    }
}

/// Writes a program, reads it, and runs its functions with at most two parameters.
fn run(program: Option<Executable>) {
    let Some(program) = program else { return };
    let bytes = relax_vm::write(&program).expect("it has a form");
    match relax_vm::read(Arc::new(bytes.clone())) {
        Ok(again) => {
            let again = relax_vm::write(&again).expect("it has a form");
            assert!(again == bytes, "it reads back as another");
        }
        Err(e) => panic!("what was read is not read again: {e}"),
    }
    for (number, f) in program.funcs.iter().enumerate().filter(|f| f.1.params <= 2) {
        let mut machine = Machine::new(&program, Few)
            .with_max_steps(Some(500))
            .with_stack(1 << 20);
        let argument = || Value::from(Tensor::from_slice(&[2], &[1f32, 2.0]));
        let arguments = (0..f.params).map(|_| argument()).collect();
        drop(machine.call(number as u32, arguments));
    }
}

fn number(name: &str, usual: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.and_then(|v| v.parse().ok()).unwrap_or(usual)
}

#[test]
fn changed_programs_are_refused_or_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = |source: &Path, kind: &str| {
        let done = Command::new(env!("CARGO_BIN_EXE_relaxc"))
            .arg(source)
            .args(["--emit", kind, "-o", "-"])
            .output()
            .expect("relaxc starts");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        done.stdout
    };
    let mut seeds = Vec::new();
    for (k, program) in PROGRAMS.iter().enumerate() {
        let source = folder.path().join(format!("p{k}.relay"));
        std::fs::write(&source, program).expect("written");
        let listing = String::from_utf8(made(&source, "vm")).expect("text");
        seeds.push((made(&source, "vmbin"), listing));
    }
    for (file, listing) in &seeds {
        let read = relax_vm::read(Arc::new(file.clone()));
        assert_eq!(sealed(file), *file, "the checksum is the file's");
        run(Some(read.expect("what relaxc wrote")));
        run(Some(
            relax_vm::read_listing(listing).expect("what relaxc wrote"),
        ));
    }
    let from = number("RELAX_FUZZ_FROM", 0);
    let mut found = Vec::new();
    for seed in from..from + number("RELAX_FUZZ", 2000) {
        let mut dice = Dice(seed);
        let (file, listing) = &seeds[dice.roll(seeds.len())];
        let tried = match dice.roll(3) {
            0 => {
                let text = changed_words(listing, &mut dice);
                catch_unwind(move || run(relax_vm::read_listing(&text).ok()))
            }
            _ => {
                let bytes = sealed(&changed_bytes(file, &mut dice));
                catch_unwind(move || run(relax_vm::read(Arc::new(bytes)).ok()))
            }
        };
        if tried.is_err() {
            found.push(seed);
        }
    }
    assert!(found.is_empty(), "{} findings: {found:?}", found.len());
}

//! Round trips of our own programs through TVMScript: the module that is read prints as a text of
//! the same module, and computes the same results.
//!
//! Programs without a TVMScript form are listed with the reason in
//! `tests/tvmscript/out-of-reach.txt`; `RELAX_BLESS=1 cargo test -p relax --test scripts`
//! regenerates the list.

use std::fmt::Write;
use std::path::Path;

use relax::{Module, Value};
use relax_testkit::{Features, alike, files, program};

fn read(name: &str, text: String) -> Result<Module, relax::Error> {
    Module::read(name, text.into_bytes(), Default::default())
}

/// Returns a program in Relax's form, and after a round trip through TVMScript; or why there is no
/// such text.
fn through(name: &str, text: &str) -> Result<(Module, Module), String> {
    let mut module = read(name, text.to_owned()).expect("programs check");
    if let Err(e) = module.optimise("relay-to-relax") {
        return Err(reason(&e));
    }
    let script = module.to_tvmscript().map_err(|e| reason(&e))?;
    match read("there.py", script) {
        Ok(again) => Ok((module, again)),
        Err(e) => Err(format!("not read again, {}", reason(&e))),
    }
}

/// Returns the first line of an error, without its location.
fn reason(e: &relax::Error) -> String {
    let text = e.to_string();
    let found = text.lines().find(|l| l.contains("RX"));
    let line = found.unwrap_or_else(|| text.lines().next().unwrap_or_default());
    line.trim().to_owned()
}

/// Checks that the module that was read prints and reads back as the same module.
fn settled(name: &str, again: &Module) {
    let script = again
        .to_tvmscript()
        .unwrap_or_else(|e| panic!("{name} does not print again: {e}"));
    let third = read("back.py", script.clone())
        .unwrap_or_else(|e| panic!("{name} is not read a second time: {e}\n{script}"));
    if let Some(difference) = again.difference(&third) {
        panic!("{name} comes back different: {difference:?}\n{script}");
    }
}

#[test]
fn our_programs_come_back_equal() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut out = String::new();
    for dir in ["examples", "tests/run"] {
        for path in files(&root.join(dir), "relay") {
            let text = std::fs::read_to_string(&path).expect("a text");
            let end = text.find("\n// expect:").unwrap_or(text.len());
            let name = path.strip_prefix(&root).expect("a file of ours");
            let name = name.to_string_lossy().replace('\\', "/");
            if read(&name, text[..end].to_owned()).is_err() {
                continue;
            }
            match through(&name, &text[..end]) {
                Ok((_, again)) => settled(&name, &again),
                Err(reason) => writeln!(out, "{name}: {reason}").expect("a string takes it"),
            }
        }
    }
    let list = root.join("tests/tvmscript/out-of-reach.txt");
    if std::env::var_os("RELAX_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&list, &out).expect("it can be written");
    }
    assert_eq!(out, std::fs::read_to_string(&list).unwrap_or_default());
}

/// Returns the number of seeds: `RELAX_SEEDS`, or the default.
fn seeds(default: u64) -> u64 {
    let set = std::env::var("RELAX_SEEDS").ok();
    set.and_then(|s| s.parse().ok()).unwrap_or(default)
}

#[test]
fn random_programs_come_back_equal() {
    let mut there = 0;
    for seed in 0..seeds(24) {
        let name = format!("seed {seed}");
        if let Ok((_, again)) = through(&name, &program(seed, &Features::ALL).text) {
            settled(&name, &again);
            there += 1;
        }
    }
    assert!(there > 0, "no program has a form");
}

#[test]
fn random_tensor_programs_compute_the_same() {
    let (count, mut there) = (seeds(24), 0);
    for seed in 0..count {
        let p = program(seed, &Features::TENSORS);
        let name = format!("seed {seed}");
        let Ok((module, again)) = through(&name, &p.text) else {
            continue;
        };
        settled(&name, &again);
        there += 1;
        let inputs: Vec<Value> = (p.inputs.into_iter())
            .map(|(_, tensor)| Value::Tensor(tensor))
            .collect();
        let Ok(want) = module.evaluate("main", &inputs) else {
            continue;
        };
        let got = again.evaluate("main", &inputs);
        let got = got.unwrap_or_else(|e| panic!("{name} fails there: {e}\n{}", p.text));
        assert!(
            alike(&got, &want),
            "{name} computes something else\n{}",
            p.text
        );
    }
    assert!(2 * there > count, "{there} of {count} programs have a form");
}

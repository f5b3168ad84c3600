//! Our bytecode programs compared with those of TVM, for the same modules in TVMScript.
//!
//! `tests/vm/tvm/record.py` recorded the output of TVM 0.27. On each path through a function both
//! machines call the same kernels and functions in the same order; `docs/vm.md` documents other
//! differences.
#![cfg(feature = "native")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use relax_vm::{Callee, Executable, Function, Inst};

/// An instruction, as far as both machines have it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Call(String),
    /// The jump target if the register is not true.
    If(usize),
    Goto(usize),
    Ret,
    /// A machine-specific instruction.
    Other,
}

/// Returns the paths through code: for each, the outcomes of conditions, and the calls.
fn ways(code: &[Step]) -> Vec<Vec<String>> {
    let mut ways = Vec::new();
    let mut work = vec![(0, Vec::new())];
    while let Some((mut at, mut way)) = work.pop() {
        assert!(
            ways.len() + work.len() < 1000 && way.len() < 1000,
            "too many ways"
        );
        loop {
            match &code[at] {
                Step::Call(name) => way.push(name.clone()),
                Step::Other => {}
                Step::Goto(to) => {
                    at = *to;
                    continue;
                }
                Step::If(otherwise) => {
                    let mut other = way.clone();
                    other.push("else".to_owned());
                    work.push((*otherwise, other));
                    way.push("then".to_owned());
                }
                Step::Ret => break,
            }
            at += 1;
        }
        ways.push(way);
    }
    ways.sort();
    ways
}

/// Parses the functions of TVM's listing, where jumps are relative.
fn theirs(text: &str) -> BTreeMap<String, Vec<Step>> {
    let mut functions = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(found) = line.strip_prefix('@').and_then(|l| l.strip_suffix(':')) {
            name = found.to_owned();
            functions.insert(name.clone(), Vec::new());
            continue;
        }
        let Some(code) = functions.get_mut(&name) else {
            continue;
        };
        let here = code.len();
        let ahead = |word: &str| here + word.parse::<usize>().expect("a distance");
        code.push(match words[..] {
            ["call", callee, ..] => match callee {
                own if own.starts_with("vm.builtin.") || own.starts_with("shape_func") => {
                    Step::Other
                }
                kernel => Step::Call(plain(kernel)),
            },
            ["If", _, distance] => Step::If(ahead(distance)),
            ["goto", distance] => Step::Goto(ahead(distance)),
            ["ret", _] => Step::Ret,
            _ => continue,
        });
    }
    functions
}

/// Returns a kernel's name without the suffix that makes it unique.
fn plain(name: &str) -> String {
    let name = name.strip_prefix("tir_").unwrap_or(name);
    let name = name.strip_prefix("relax_").unwrap_or(name);
    let name = name.strip_prefix("nn_").unwrap_or(name);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.trim_end_matches('_').to_owned()
}

/// Converts one of our functions. Scalar computations are instructions here, not kernels.
fn ours(program: &Executable, f: &Function) -> Vec<Step> {
    let step = |inst: &Inst| match inst {
        Inst::Call { callee, args, .. } => match callee {
            Callee::Func(g) => Step::Call(program.funcs[*g as usize].name.clone()),
            Callee::Kernel(k) => Step::Call(plain(&program.kernels[*k as usize].name)),
            Callee::Builtin(b) => {
                let name = b.to_string();
                let name = name.trim_start_matches("vm.builtin.");
                if name == "call_dps_packed" {
                    return Step::Call(match args[0] {
                        relax_vm::Arg::Const(c) => match &program.consts[c as usize] {
                            relax_vm::Const::Text(name) => plain(name),
                            _ => String::new(),
                        },
                        _ => String::new(),
                    });
                }
                let element = name
                    .strip_prefix("scalar.")
                    .and_then(|n| n.split('.').next());
                match element {
                    Some("lt") => Step::Call("less".to_owned()),
                    Some("sub") => Step::Call("subtract".to_owned()),
                    _ => Step::Other,
                }
            }
        },
        Inst::Ret(_) => Step::Ret,
        Inst::If(_, otherwise) => Step::If(*otherwise as usize),
        Inst::Goto(to) => Step::Goto(*to as usize),
    };
    f.code.iter().map(step).collect()
}

#[test]
fn ways_through_functions_are_those_of_tvms_machine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vm/tvm");
    let mut files: Vec<PathBuf> = relax_testkit::files(&folder, "txt");
    files.sort();
    assert!(files.len() > 5, "recorded listings in {}", folder.display());
    for file in files {
        let module = file.with_extension("py");
        let made = Command::new(env!("CARGO_BIN_EXE_relaxc"))
            .arg(&module)
            .args(["-O0", "--emit", "vm", "-o", "-"])
            .output()
            .expect("relaxc starts");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{}: {said}", module.display());
        let listing = String::from_utf8(made.stdout).expect("text");
        let program = relax_vm::read_listing(&listing).expect("our own listing");
        let recorded = std::fs::read_to_string(&file).expect("a recorded listing");
        for (name, code) in theirs(&recorded) {
            let f = program.funcs.iter().find(|f| f.name == name);
            let f = f.unwrap_or_else(|| panic!("{}: no @{name}\n{listing}", module.display()));
            let (a, b) = (ways(&code), ways(&ours(&program, f)));
            assert_eq!(a, b, "{}, @{name}\n{recorded}\n{listing}", module.display());
        }
    }
}

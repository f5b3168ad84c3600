//! Differential testing of the engines: the evaluator, native code at each level on one and more
//! threads, the virtual machine.

use std::cell::RefCell;
use std::collections::BTreeMap;

use relax::random::{Random, random};
use relax::{InferOptions, ReadOptions, Session, native, values, vm};
use relax_base::Diagnostic;
use relax_codegen::{Host, Jit};
use relax_interp::Interp;
use relax_ir::{GlobalKind, Module};
use relax_lower::lir::Lowered;
use relax_tensor::{Tensor, Value};
use relax_testkit::{Features, alike, program};
use relax_vm::{Loops, Machine};

use crate::mutate;

/// The prefixes of a generated program's seed, and what is in such programs; any other input is a
/// text.
const SEEDS: [(&[u8], Features); 2] = [
    (b"seed ", Features::NATIVE),
    (b"effects ", Features::EFFECTS),
];
/// The size of programs, by their number: one of so many has one of so many parts of its whole size. What an
/// operator or a construct does wrong, it does in a small program too, of which more are tried in
/// the same time.
const PARTS: [(u64, usize); 3] = [(128, 1), (8, 6), (1, 16)];
/// Longer texts take long and add no coverage.
const LONGEST: usize = 3000;
/// The evaluator's step limit: programs that exceed it are not run natively, where nothing stops
/// them.
const STEPS: u64 = 20_000;
/// The value of symbolic extents.
const EXTENT: i64 = 3;
const LEVELS: [&str; 4] = ["O0", "O1", "O2", "O3"];

/// Runs a generated program (`seed NUMBER`, `effects NUMBER`), or a text, whose `@main` is called
/// with random tensors: all engines give the same result or fail. Native code is that of one level,
/// which the input chooses.
pub(crate) fn engines(data: &[u8]) {
    compared(data);
}

/// Does what the target `engines` does, and returns whether there was something to compare: a
/// program that checks and ends.
pub fn compared(data: &[u8]) -> bool {
    let sum = mutate::sum(0, data);
    let level = LEVELS[(sum ^ sum >> 16) as usize % LEVELS.len()];
    compared_at(data, &[level])
}

/// Like [`compared`], at all levels.
pub fn compared_at_all(data: &[u8]) -> bool {
    compared_at(data, &LEVELS)
}

fn compared_at(data: &[u8], levels: &[&str]) -> bool {
    if data.len() > LONGEST {
        return false;
    }
    for (prefix, features) in &SEEDS {
        if let Some(number) = data.strip_prefix(*prefix) {
            let number = String::from_utf8_lossy(number).trim().parse::<u64>();
            return number.is_ok_and(|number| {
                let part = PARTS
                    .iter()
                    .find(|(every, _)| number.is_multiple_of(*every));
                let size = features.size / part.map_or(1, |(_, part)| *part);
                let made = program(number, &Features { size, ..*features });
                let inputs: Vec<Tensor> = made.inputs.iter().map(|i| i.1.clone()).collect();
                agreed(made.text.as_bytes(), Some(&inputs), levels)
            });
        }
    }
    agreed(data, None, levels)
}

struct Case {
    session: Session,
    module: Module,
    inputs: Vec<Tensor>,
    expected: Result<Value, Diagnostic>,
}

impl Case {
    /// Evaluates a text; `None` if it has errors, has parameters other than tensors, or takes too
    /// long.
    fn of(text: &[u8], inputs: Option<&[Tensor]>) -> Option<Case> {
        let mut session = Session::new(ReadOptions::default());
        let (mut module, diagnostics) = session.read("input.relay", text.to_vec());
        if diagnostics.has_errors() {
            return None;
        }
        let (typing, diagnostics) = relax::check(&mut module, &InferOptions::default());
        let main = module.global("main")?;
        if diagnostics.has_errors() || !matches!(module.globals[main].kind, GlobalKind::Func(_)) {
            return None;
        }
        let inputs = match inputs {
            Some(inputs) => inputs.to_vec(),
            None => {
                let func = module.global_func(main)?;
                let params = relax::inputs::params(&module, &typing, func);
                let how = Random {
                    seed: 1,
                    extent: EXTENT,
                    typing: Some(&typing),
                };
                let small = |t: &Tensor| t.bytes().len() < 1 << 16;
                let made = random(&module, &params, how).ok()?;
                made.iter().all(small).then_some(made)?
            }
        };
        let arguments = inputs.iter().cloned().map(Into::into).collect();
        let evaluator = Interp::new(&module, &typing).with_max_steps(Some(STEPS));
        let expected = { evaluator }.run(main, arguments);
        if expected
            .as_ref()
            .is_err_and(|d| d.message.contains("has not ended after"))
        {
            return None;
        }
        let expected = expected.map(|v| values::outer(&module, &v));
        Some(Case {
            session,
            module,
            inputs,
            expected,
        })
    }

    /// Compiles the module after a pipeline; `None` if a pass or the lowering rejects it.
    fn lowered(&mut self, pipeline: &str) -> Option<(Lowered, Module)> {
        let mut module = self.module.clone();
        let typing = match native::optimise(&mut self.session, &mut module, pipeline) {
            Ok(typing) => typing,
            Err(errors) => {
                let refused = |d: &Diagnostic| d.code == relax_passes::codes::UNSUPPORTED;
                assert!(errors.iter().all(refused), "{pipeline}: {errors:?}");
                return None;
            }
        };
        let main = module.global("main").expect("pipelines keep it");
        let lowered = native::lower(&module, &typing, &[main], &self.session.sources).ok()?;
        Some((lowered, module))
    }

    fn hold<E: std::fmt::Debug>(&self, how: &str, found: &Result<Value, E>) {
        let same = match (&self.expected, found) {
            (Ok(a), Ok(b)) => alike(a, b),
            (Err(_), Err(_)) => true,
            _ => false,
        };
        let expected = &self.expected;
        assert!(same, "evaluator: {expected:?}\n{how}: {found:?}");
    }
}

fn agreed(text: &[u8], inputs: Option<&[Tensor]>, levels: &[&str]) -> bool {
    let Some(mut case) = Case::of(text, inputs) else {
        return false;
    };
    for level in levels {
        let Some((lowered, module)) = case.lowered(level) else {
            continue;
        };
        if let Ok(program) = vm::program(&lowered, &module) {
            let inputs = case.inputs.iter().cloned().map(Value::Tensor);
            let inputs = inputs.filter_map(|v| vm::inner(&v)).collect();
            let entry = program.entry("main").expect("the entry").func;
            let mut machine = Machine::new(&program, Loops);
            let found = machine.call(entry, inputs);
            let found = found.map(|v| vm::outer(&v)).map_err(|f| f.message);
            case.hold(&format!("virtual machine, {level}"), &found);
        }
        let jit = match native::jit(&lowered) {
            Ok(jit) => jit,
            // An operation that native code does not have for the element type. The evaluator says so
            // for the first element.
            Err(refused) => {
                let unsupported = |d: &Diagnostic| d.code == relax_lower::codes::UNSUPPORTED;
                assert!(refused.iter().all(unsupported), "{level}: {refused:?}");
                continue;
            }
        };
        for threads in [1, 2] {
            case.hold(
                &format!("native, {level}, {threads} threads"),
                &run(&jit, threads, &case),
            );
        }
    }
    true
}

fn run(jit: &Jit, threads: usize, case: &Case) -> Result<Value, relax_codegen::Error> {
    thread_local! {
        /// The contexts of inputs before, which left nothing in them: what takes long to make are their threads.
        static HOSTS: RefCell<BTreeMap<usize, Host>> = RefCell::default();
    }
    let idle = HOSTS.with_borrow_mut(|hosts| hosts.remove(&threads));
    let host = idle.unwrap_or_else(|| Host::new(threads).expect("memory"));
    let found = host.call(jit, "main", &case.inputs);
    let left = host.heap().live_objects;
    assert_eq!(left, 0, "objects are left behind; native: {found:?}");
    HOSTS.with_borrow_mut(|hosts| hosts.insert(threads, host));
    found
}

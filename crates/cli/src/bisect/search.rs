//! The search for the failing pass.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use relax::{
    InferOptions, PassConfig, PassEvent, PassObserver, Pipeline, Typing, check, check_typed,
    run_typed,
};
use relax_base::{Diagnostic, Diagnostics};
use relax_interp::{Interp, Value};
use relax_ir::Module;
use relax_passes::codes;

use super::value::{Difference, Sort, comparable, difference};
use super::{Inputs, Tolerance};

use crate::stop::Stop;

/// The parameters of a search.
#[derive(Clone, Debug)]
pub struct Question {
    /// The passes.
    pub pipeline: Pipeline,
    /// The configuration of the pass manager.
    pub config: PassConfig,
    /// The function that is evaluated, by name.
    pub entry: String,
    /// The inputs.
    pub inputs: Inputs,
    /// The tolerance for comparing results.
    pub tolerance: Tolerance,
}

/// A defect in the output of a pass.
#[derive(Clone, Debug)]
pub enum Kind {
    /// It computes something else.
    Differs(Difference),
    /// It fails verification or type checking.
    Broken(Diagnostics),
    /// The pass panicked.
    Crashed(Crash),
}

/// A panic.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The panic message.
    pub text: String,
    /// The location of the panic in the tool's sources, if [`watch_panics`] was called.
    pub place: Option<String>,
}

/// The location of the last panic.
static PANICKED: Mutex<Option<String>> = Mutex::new(None);

/// Silences panic messages, and records their locations: crashing passes are what is searched for.
pub fn watch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string);
        *PANICKED.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }));
}

impl Kind {
    /// Returns whether two failures are the same, ignoring names and numbers.
    pub fn alike(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::Differs(a), Kind::Differs(b)) => a.sort == b.sort,
            (Kind::Broken(a), Kind::Broken(b)) => {
                let said = |d: &Diagnostics| {
                    let first = d.iter().find(|d| d.is_error());
                    first.map(|d| (d.code, skeleton(&d.message)))
                };
                said(a) == said(b)
            }
            (Kind::Crashed(a), Kind::Crashed(b)) => {
                a.place == b.place && skeleton(&a.text) == skeleton(&b.text)
            }
            _ => false,
        }
    }
}

/// Returns a message without the names and numbers in it.
fn skeleton(text: &str) -> String {
    let mut out = String::new();
    let (mut quoted, mut named) = (false, false);
    for c in text.chars() {
        if c == '`' {
            quoted = !quoted;
            continue;
        }
        named = matches!(c, '%' | '@') || named && (c.is_alphanumeric() || "_.".contains(c));
        if !quoted && !named && !c.is_ascii_digit() {
            out.push(c);
        }
    }
    out
}

/// The first failing pass.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The index of the pass run, from 0.
    pub index: usize,
    /// The pass.
    pub pass: &'static str,
    /// The pass with its options.
    pub run: String,
    /// The defect.
    pub kind: Kind,
    /// The pass's input.
    pub before: Module,
    /// The pass's output, if it computes something else.
    pub after: Option<Module>,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// All pass runs preserve the semantics; their number.
    Same(usize),
    /// A pass fails.
    Wrong(Box<Finding>),
    /// A pass rejects the program, which it may.
    Refused(String, Diagnostics),
    /// The program exceeds the step limit before any pass.
    Endless(Box<Diagnostic>),
    /// The parameters are invalid: no such function, or no inputs for it.
    Unclear(String),
}

/// Finds the first failing pass.
pub fn search(module: &Module, question: &Question) -> Verdict {
    let mut start = module.clone();
    let (typed, diagnostics) = check_typed(&mut start, &question.config.infer);
    if diagnostics.has_errors() {
        return Verdict::Unclear("the program has errors".into());
    }
    let steps = question.inputs.max_steps;
    let wanted = match outcomes(&start, &typed.typing, question, steps) {
        Ok(all) => all,
        Err(stop) => return Verdict::Unclear(stop.text()),
    };
    let endless = |o: &Outcome| o.as_ref().err().and_then(|e| e.endless.clone());
    if let Some(error) = wanted.iter().find_map(endless) {
        return Verdict::Endless(error);
    }
    if wanted.iter().flatten().any(|value| !comparable(value)) {
        let name = &question.entry;
        return Verdict::Unclear(format!(
            "the result of @{name} holds a function, and functions cannot be compared; --entry names one that returns data"
        ));
    }
    let mut watch = Watch {
        start: &start,
        question,
        wanted,
        current: None,
        passes: 0,
        before: start.clone(),
        found: None,
    };
    let mut work = start.clone();
    let run = AssertUnwindSafe(|| {
        let (pipeline, config) = (&question.pipeline, &question.config);
        run_typed(pipeline, &mut work, Some(typed), config, &mut watch)
    });
    let outcome = catch_unwind(run);
    if let Some(found) = watch.found {
        return Verdict::Wrong(Box::new(found));
    }
    let finding = |kind: Kind, watch: Watch<'_>| {
        let (index, pass, run) = watch.current.expect("a pass was begun");
        Verdict::Wrong(Box::new(Finding {
            index,
            pass,
            run,
            kind,
            before: watch.before,
            after: None,
        }))
    };
    match outcome {
        Err(panic) => {
            let crash = Crash {
                text: message(&*panic),
                place: (PANICKED.lock().unwrap_or_else(PoisonError::into_inner)).take(),
            };
            finding(Kind::Crashed(crash), watch)
        }
        Ok(outcome) => match outcome.failure {
            None => Verdict::Same(watch.passes),
            Some((run, errors)) => {
                let ours = [codes::BROKEN_MODULE, codes::ILL_TYPED];
                if errors.iter().any(|d| ours.contains(&d.code)) {
                    finding(Kind::Broken(errors), watch)
                } else {
                    Verdict::Refused(run.to_string(), errors)
                }
            }
        },
    }
}

/// Returns the message of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}

/// The outcome of one run: a value, or an error.
type Outcome = Result<Value, Failure>;

#[derive(Debug)]
struct Failure {
    /// The error's code.
    code: String,
    text: String,
    /// The step limit was exceeded, at this location.
    endless: Option<Box<Diagnostic>>,
}

/// Runs the entry on all inputs. The error says why that is impossible.
fn outcomes(
    m: &Module,
    typing: &Typing,
    question: &Question,
    max_steps: u64,
) -> Result<Vec<Outcome>, Stop> {
    let name = &question.entry;
    let entry = m
        .global(name)
        .ok_or(format!("there is no function @{name}"))?;
    let func = m.global_func(entry);
    let func = func.ok_or(format!("@{name} is a tensor program"))?;
    let mut interp = Interp::new(m, typing).with_max_steps(Some(max_steps));
    let mut all = Vec::new();
    for run in 0..question.inputs.runs {
        let inputs = question.inputs.of_run(run, m, typing, func);
        let inputs = inputs.map_err(|problems| problems.join("; "))?;
        // A crash of the evaluator is an outcome like an error: the other side must crash too.
        let value = catch_unwind(AssertUnwindSafe(|| interp.run(entry, inputs)));
        all.push(match value {
            Ok(value) => value.map_err(|d| Failure {
                code: d.code.to_string(),
                text: format!("{}: {}", d.code, d.message),
                endless: (d.code == relax_interp::codes::STEPS).then(|| Box::new(d)),
            }),
            Err(panic) => Err(Failure {
                code: String::from("a crash"),
                text: format!("the evaluator crashed: {}", message(&*panic)),
                endless: None,
            }),
        });
    }
    Ok(all)
}

struct Watch<'q> {
    start: &'q Module,
    question: &'q Question,
    wanted: Vec<Outcome>,
    /// The current pass.
    current: Option<(usize, &'static str, String)>,
    passes: usize,
    before: Module,
    found: Option<Finding>,
}

impl Watch<'_> {
    /// Returns how the module's results differ from those of the original program.
    fn compare(&self, event: &PassEvent<'_>) -> Option<Difference> {
        let mut module = event.module.clone();
        let made: Rc<Typing>;
        let typing = match event.typing {
            Some(typing) => typing,
            None => {
                made = Rc::new(check(&mut module, &InferOptions::default()).0);
                &made
            }
        };
        // A pass may slow a program down, but not by this factor.
        let steps = self.question.inputs.max_steps.saturating_mul(10);
        let now = match outcomes(&module, typing, self.question, steps) {
            Ok(all) => all,
            Err(stop) => return Some(Difference::new(Sort::Arguments, stop.text())),
        };
        for (run, (was, is)) in self.wanted.iter().zip(&now).enumerate() {
            let difference = match (was, is) {
                (Ok(was), Ok(is)) => {
                    difference((self.start, was), (&module, is), self.question.tolerance)
                }
                (Ok(_), Err(e)) => {
                    let text = format!("it fails now: {}", e.text);
                    Some(Difference::new(Sort::Fails(e.code.clone()), text))
                }
                (Err(e), Ok(_)) => {
                    let text = format!("it failed before ({}) and does not now", e.text);
                    Some(Difference::new(Sort::Failed(e.code.clone()), text))
                }
                // Passes may reorder checks.
                (Err(_), Err(_)) => None,
            };
            if let Some(mut found) = difference {
                let seed = self.question.inputs.seed.wrapping_add(run as u64);
                if self.question.inputs.runs > 1 {
                    found.text.push_str(&format!(" (seed {seed})"));
                }
                return Some(found);
            }
        }
        None
    }
}

impl PassObserver for Watch<'_> {
    fn before(&mut self, event: &PassEvent<'_>) {
        self.current = Some((event.index, event.run.pass.name, event.run.to_string()));
    }

    fn after(&mut self, event: &PassEvent<'_>) {
        self.passes += 1;
        if self.found.is_some() || !event.changed {
            return;
        }
        if let Some(difference) = self.compare(event) {
            self.found = Some(Finding {
                index: event.index,
                pass: event.run.pass.name,
                run: event.run.to_string(),
                kind: Kind::Differs(difference),
                before: self.before.clone(),
                after: Some(event.module.clone()),
            });
            return;
        }
        self.before = event.module.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_the_same_whatever_they_say_of_names_and_numbers() {
        let crash = |text: &str, place: &str| {
            Kind::Crashed(Crash {
                text: text.into(),
                place: Some(place.into()),
            })
        };
        let one = crash("index 7 of `add` at %x.1 is no index", "a.rs:1:1");
        assert!(one.alike(&crash("index 12 of `exp` at %cut0 is no index", "a.rs:1:1")));
        assert!(!one.alike(&crash("index 7 of `add` at %x.1 is no index", "b.rs:1:1")));
        assert!(!one.alike(&crash("no such index 7", "a.rs:1:1")));
        let differs = |sort| Kind::Differs(Difference::new(sort, ""));
        assert!(differs(Sort::Nan).alike(&differs(Sort::Nan)));
        assert!(!differs(Sort::Nan).alike(&differs(Sort::Numbers)));
        assert!(
            !differs(Sort::Fails("RX0850".into())).alike(&differs(Sort::Fails("RX1101".into())))
        );
    }
}

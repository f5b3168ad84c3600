//! Which pass is it?

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use relax_base::{Diagnostic, Diagnostics};
use relax_driver::{
    InferOptions, PassConfig, PassEvent, PassObserver, Pipeline, Typing, check, run_pipeline,
};
use relax_interp::{Interp, Value};
use relax_ir::Module;
use relax_passes::codes;

use super::value::difference;
use super::{Inputs, Tolerance};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The passes.
    pub pipeline: Pipeline,
    /// How they are run.
    pub config: PassConfig,
    /// The function that is evaluated, by name.
    pub entry: String,
    /// On what.
    pub inputs: Inputs,
    /// What counts as equal.
    pub tolerance: Tolerance,
}

/// What is wrong with the output of a pass.
#[derive(Clone, Debug)]
pub enum Kind {
    /// It computes something else.
    Differs(String),
    /// It does not verify, or its types do not fit.
    Broken(Diagnostics),
    /// There is none: the pass panicked.
    Crashed(String),
}

impl Kind {
    /// Whether two are alike, whatever the details.
    pub fn alike(&self, other: &Kind) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The first pass that goes wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which run of a pass it is, from 0.
    pub index: usize,
    /// The pass.
    pub pass: &'static str,
    /// The pass with its options.
    pub run: String,
    /// What is wrong.
    pub kind: Kind,
    /// The module that it was given.
    pub before: Module,
    /// What it made of it, when it computes something else.
    pub after: Option<Module>,
}

/// The answer.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// So many runs of passes, all of which keep the meaning.
    Same(usize),
    /// A pass goes wrong.
    Wrong(Box<Finding>),
    /// A pass says that it cannot treat the program: its right.
    Refused(String, Diagnostics),
    /// The program takes more steps than it may before any pass.
    Endless(Box<Diagnostic>),
    /// The question makes no sense: no such function, no inputs for it.
    Unclear(String),
}

/// Finds the first pass that goes wrong.
pub fn search(module: &Module, question: &Question) -> Verdict {
    let mut start = module.clone();
    let (typing, diagnostics) = check(&mut start, &question.config.infer);
    if diagnostics.has_errors() {
        return Verdict::Unclear("the program has errors".into());
    }
    let steps = question.inputs.max_steps;
    let wanted = match outcomes(&start, &typing, question, steps) {
        Ok(all) => all,
        Err(message) => return Verdict::Unclear(message),
    };
    let endless = |o: &Outcome| o.as_ref().err().and_then(|e| e.endless.clone());
    if let Some(error) = wanted.iter().find_map(endless) {
        return Verdict::Endless(error);
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
        run_pipeline(&question.pipeline, &mut work, &question.config, &mut watch)
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
        Err(panic) => finding(Kind::Crashed(message(&*panic)), watch),
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

/// What a panic says.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}

/// What one run gives: a value, or the error that ends it.
type Outcome = Result<Value, Failure>;

#[derive(Debug)]
struct Failure {
    text: String,
    /// It did not end by itself: the place where it was then.
    endless: Option<Box<Diagnostic>>,
}

/// Runs the entry on all inputs. The error says why that makes no sense.
fn outcomes(
    m: &Module,
    typing: &Typing,
    question: &Question,
    max_steps: u64,
) -> Result<Vec<Outcome>, String> {
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
        // A crash of the evaluator is a result like an error: the other side must have it too.
        let value = catch_unwind(AssertUnwindSafe(|| interp.run(entry, inputs)));
        all.push(match value {
            Ok(value) => value.map_err(|d| Failure {
                text: format!("{}: {}", d.code, d.message),
                endless: (d.code == relax_interp::codes::STEPS).then(|| Box::new(d)),
            }),
            Err(panic) => Err(Failure {
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
    /// The pass that runs.
    current: Option<(usize, &'static str, String)>,
    passes: usize,
    before: Module,
    found: Option<Finding>,
}

impl Watch<'_> {
    /// How the module computes something else than the program that was given.
    fn compare(&self, event: &PassEvent<'_>) -> Option<String> {
        let mut module = event.module.clone();
        let made: Rc<Typing>;
        let typing = match event.typing {
            Some(typing) => typing,
            None => {
                made = Rc::new(check(&mut module, &InferOptions::default()).0);
                &made
            }
        };
        // A pass may make a program slower, but not that much.
        let steps = self.question.inputs.max_steps.saturating_mul(10);
        let now = match outcomes(&module, typing, self.question, steps) {
            Ok(all) => all,
            Err(message) => return Some(message),
        };
        for (run, (was, is)) in self.wanted.iter().zip(&now).enumerate() {
            let text = match (was, is) {
                (Ok(was), Ok(is)) => {
                    difference((self.start, was), (&module, is), self.question.tolerance)
                }
                (Ok(_), Err(e)) => Some(format!("it fails now: {}", e.text)),
                (Err(e), Ok(_)) => Some(format!("it failed before ({}) and does not now", e.text)),
                // Which check fails first may change.
                (Err(_), Err(_)) => None,
            };
            if let Some(text) = text {
                let seed = self.question.inputs.seed.wrapping_add(run as u64);
                let several = self.question.inputs.runs > 1;
                let with = if several {
                    format!(" (seed {seed})")
                } else {
                    String::new()
                };
                return Some(format!("{text}{with}"));
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
        if let Some(text) = self.compare(event) {
            self.found = Some(Finding {
                index: event.index,
                pass: event.run.pass.name,
                run: event.run.to_string(),
                kind: Kind::Differs(text),
                before: self.before.clone(),
                after: Some(event.module.clone()),
            });
            return;
        }
        self.before = event.module.clone();
    }
}

//! Test cases: a program, its results, and both after a pipeline.

use relax::{
    InferOptions, PassConfig, ReadOptions, Session, Silent, Style, TypeSource, TypedModule, check,
    run_pipeline,
};
use relax_interp::{Interp, Value};
use relax_ir::{EqualOptions, Module};
use relax_tensor::Tensor;

use crate::kept::{Among, Kept};

/// A module without errors.
pub struct Case {
    pub name: String,
    pub session: Session,
    pub module: Module,
    main: Option<String>,
}

/// The evaluator's step limit: programs that exceed it are not evaluated. A pass may slow a program
/// down, but not by a factor of ten.
const STEPS: u64 = 200_000;

/// Inputs with the program's results; `None` if it fails, which a pass need not preserve.
pub struct Runs(Vec<Run>);

struct Run {
    among: Among,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl Runs {
    pub fn new(case: &Case, inputs: Vec<(Among, Vec<Tensor>)>) -> Runs {
        let run = |(among, inputs): (Among, Vec<Tensor>)| {
            let outputs = outcome(&case.module, &inputs, STEPS).ok()?;
            Some(Run {
                among,
                inputs,
                outputs,
            })
        };
        Runs(inputs.into_iter().filter_map(run).collect())
    }
}

impl Case {
    /// Reads and checks a text; `None` if it has errors.
    pub fn read(name: &str, text: &str) -> Option<Case> {
        let mut session = Session::new(ReadOptions::default());
        let (mut module, diagnostics) = session.read(name, text.as_bytes().to_vec());
        if diagnostics.has_errors() {
            return None;
        }
        let (_, diagnostics) = check(&mut module, &InferOptions::default());
        (!diagnostics.has_errors()).then(|| Case {
            name: name.to_owned(),
            session,
            main: main_type(&module),
            module,
        })
    }

    /// Runs a pipeline.
    pub fn after(&mut self, pipeline: &str) -> Result<Module, String> {
        let steps = self
            .session
            .pipeline(pipeline)
            .map_err(|d| format!("{d:?}"))?;
        let mut m = self.module.clone();
        let config = PassConfig {
            parallel_from: 0,
            check_preserved: true,
            ..PassConfig::default()
        };
        let outcome = run_pipeline(&steps, &mut m, &config, &mut Silent);
        match outcome.failure {
            // Rejecting a program with a reason is allowed; producing a broken module is not.
            Some((_, errors))
                if errors
                    .iter()
                    .all(|d| d.code == relax_passes::codes::UNSUPPORTED) =>
            {
                Err(String::new())
            }
            Some((_, errors)) => Err(errors.iter().map(|d| format!("{}; ", d.message)).collect()),
            None => Ok(m),
        }
    }

    /// Returns a violation by a pipeline on this program.
    pub fn mistake(&mut self, pipeline: &str, kept: Kept, runs: &Runs) -> Option<String> {
        let after = match self.after(pipeline) {
            Ok(after) => after,
            Err(reason) if reason.is_empty() => return None,
            Err(reason) => return Some(reason),
        };
        self.mistake_after(&after, kept, runs)
            .or_else(|| roundtrip(&after))
            .or_else(|| match kept.idempotent {
                true => self.second(pipeline, &after),
                false => None,
            })
    }

    /// Returns a violation in the result of a pipeline on this program.
    pub fn mistake_after(&self, after: &Module, kept: Kept, runs: &Runs) -> Option<String> {
        let (old, new) = (
            self.main.as_deref().unwrap_or(""),
            main_type(after).unwrap_or_default(),
        );
        if !kept.types(old, &new, says) {
            return Some(format!("the type was {old} and is {new}"));
        }
        for run in runs.0.iter().filter(|r| kept.for_inputs(r.among)) {
            let difference = match outcome(after, &run.inputs, 10 * STEPS) {
                Ok(new) => kept.difference(&run.outputs, &new),
                Err(message) if kept.may_refuse() && message.contains("must be equal") => None,
                Err(message) => Some(format!("the program fails: {message}")),
            };
            if let Some(difference) = difference {
                return Some(format!("{:?}: {difference}", run.among));
            }
        }
        None
    }

    /// Returns what a second run changes.
    fn second(&self, pipeline: &str, after: &Module) -> Option<String> {
        let mut again = Case {
            name: self.name.clone(),
            session: Session::new(ReadOptions::default()),
            module: after.clone(),
            main: None,
        };
        match again.after(pipeline) {
            Ok(second) => relax::difference(after, &second, Default::default())
                .map(|d| format!("a second run changes it: {}", d.text)),
            Err(reason) if reason.is_empty() => None,
            Err(reason) => Some(format!("second run: {reason}")),
        }
    }
}

/// Returns what is lost when a module is printed and read again: nothing without inferred types;
/// with them, only which types are annotated. The result must type-check as well.
pub fn roundtrip(m: &Module) -> Option<String> {
    let mut typed = m.clone();
    let (typing, errors) = check(&mut typed, &InferOptions::default());
    if let Some(d) = errors.iter().find(|d| d.is_error()) {
        return Some(format!("not typed: {}", d.message));
    }
    let types = TypedModule {
        module: &typed,
        typing: &typing,
    };
    for (printed, types) in [(m, None), (&typed, Some(&types as &dyn TypeSource))] {
        let text = relax::print(printed, Style::Pretty, types);
        let mut session = Session::new(ReadOptions::default());
        let (mut again, errors) = session.read("printed", text.clone().into_bytes());
        let lost = if let Some(d) = errors.iter().find(|d| d.is_error()) {
            let file = session.sources.file(d.span());
            let line = file.map_or("", |f| f.line(f.line_col(d.span().start).line));
            Some(format!("does not read back: {}: {line}", d.message))
        } else {
            let options = EqualOptions {
                annotations: types.is_none(),
                ..EqualOptions::default()
            };
            relax::difference(printed, &again, options)
                .map(|d| format!("reads back differently: {}", d.text))
        };
        let lost = lost.or_else(|| {
            let (_, errors) = check(&mut again, &InferOptions::default());
            let d = errors.iter().find(|d| d.is_error())?;
            Some(format!("does not type when read back: {}", d.message))
        });
        if let Some(lost) = lost {
            let how = if types.is_some() { "typed " } else { "" };
            return Some(format!("{how}{lost}\n{text}"));
        }
    }
    None
}

/// Returns the results of `@main`; run-time errors are outcomes too.
fn outcome(m: &Module, inputs: &[Tensor], steps: u64) -> Result<Vec<Tensor>, String> {
    let mut m = m.clone();
    let (typing, diagnostics) = check(&mut m, &InferOptions::default());
    if let Some(d) = diagnostics.iter().find(|d| d.is_error()) {
        return Err(format!("not typed: {}", d.message));
    }
    let entry = m.global("main").ok_or("no @main")?;
    let inputs = inputs.iter().map(|t| Value::from(t.clone())).collect();
    let value = Interp::new(&m, &typing)
        .with_max_steps(Some(steps))
        .run(entry, inputs)
        .map_err(|d| d.message.to_string())?;
    value.flatten().ok_or_else(|| "no tensors".to_owned())
}

/// Returns whether a type is at least as precise as another: equal, or with extents in place of
/// `?`.
fn says(new: &str, old: &str) -> bool {
    if old.starts_with("fn [") && !new.starts_with("fn [") && new.contains("fn [") {
        return unquantified(new) == unquantified(old);
    }
    let mut rest = new;
    for (i, part) in old.split('?').enumerate() {
        if i > 0 {
            // Extents end at a comma or a parenthesis; nested parentheses contain neither.
            let end = rest.find([',', ')']).unwrap_or(rest.len());
            rest = &rest[end..];
        }
        match rest.strip_prefix(part) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

/// A type without type parameters and the relations between them: where not the whole type has them,
/// but a function within its result, that says more.
fn unquantified(ty: &str) -> String {
    let mut kept = String::new();
    let mut rest = ty;
    while let Some(at) = rest.find("fn [") {
        let end = rest[at..].find(']').map_or(rest.len(), |n| at + n + 1);
        kept += &rest[..at];
        kept += "fn ";
        rest = &rest[end..];
    }
    kept += rest;
    while let Some(at) = kept.find(" where ") {
        let is_name = |c: char| c.is_alphanumeric() || c == ' ';
        let end = kept[at..].find(|c| !is_name(c));
        kept.replace_range(at..end.map_or(kept.len(), |n| at + n), "");
    }
    kept
}

fn main_type(m: &Module) -> Option<String> {
    let mut m = m.clone();
    let (typing, _) = check(&mut m, &InferOptions::default());
    let main = m.global("main")?;
    Some(m.show_type(typing.globals[main]).to_string())
}

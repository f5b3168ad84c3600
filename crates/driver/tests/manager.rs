//! The pass manager: what is found once and kept, what is in order whatever the number of threads, what is
//! refused.

use relax_driver::{PassConfig, Pipeline, ReadOptions, Session, Silent, Style, run_pipeline};
use relax_ir::Module;
use relax_passes::{Contract, Form, Options, PassDef, PassRun, Step, codes};
use relax_testkit::{Features, program};

fn read(text: &str) -> (Session, Module) {
    let mut session = Session::new(ReadOptions::default());
    let (module, errors) = session.read("test", text.as_bytes().to_vec());
    assert!(!errors.has_errors(), "{text}");
    (session, module)
}

/// How often types are found while a pipeline runs.
fn inferred(text: &str, pipeline: &str) -> usize {
    let (mut session, mut module) = read(text);
    let pipeline = session.pipeline(pipeline).expect("a pipeline");
    let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    assert!(outcome.failure.is_none());
    outcome.inferred
}

const NOTHING_TO_DO: &str = "def @main(%x: Tensor[(2,), float32]) { tanh(%x) }";

#[test]
fn types_are_found_once_while_the_module_stays() {
    let passes = "infer-type,fold-constant,eliminate-common-subexpr,dead-code-elimination";
    assert_eq!(inferred(NOTHING_TO_DO, passes), 1);
}

#[test]
fn types_are_found_again_after_a_change() {
    let text = "def @main(%x: Tensor[(2,), float32]) { add(%x, add(1f, 2f)) }";
    // The first pass changes the module, the others do not.
    let passes = "fold-constant,eliminate-common-subexpr,dead-code-elimination";
    assert_eq!(inferred(text, passes), 2);
    assert_eq!(inferred(text, "fold-constant,fuse-ops,infer-type"), 3);
}

/// The result of a pipeline with so many threads.
fn with_threads(n: usize, text: &str, pipeline: &str) -> String {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build();
    pool.expect("threads").install(|| {
        let (mut session, mut module) = read(text);
        let pipeline = session.pipeline(pipeline).expect("a pipeline");
        let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        relax_driver::print(&module, Style::Pretty, None)
    })
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut texts: Vec<String> = (0..8).map(|s| program(s, &Features::ALL).text).collect();
    let one = |i: usize| {
        format!(
            "def @f{i}(%x: Tensor[({}, 4), float32]) {{ add(tanh(exp(%x)), sqrt(%x)) }}\n",
            i + 1
        )
    };
    texts.push((0..64).map(one).collect());
    for text in texts {
        for pipeline in ["O3", "fuse-ops,legalize,plan-memory"] {
            let alone = with_threads(1, &text, pipeline);
            for n in [2, 7] {
                assert_eq!(alone, with_threads(n, &text, pipeline), "{n} threads");
            }
        }
    }
}

/// A pass that needs a form.
static NEEDS: PassDef = PassDef {
    name: "needs-names",
    doc: "Does nothing.",
    options: &[],
    contract: Contract::PLAIN.needs(&[Form::ANormal]),
    run: |_| Ok(()),
};

/// Runs passes, then [`NEEDS`]; the code of the error, and its note.
fn then_needs(before: &str) -> Option<(relax_base::Code, String)> {
    let (mut session, mut module) = read("def @main(%x: float32) { tanh(exp(%x)) }");
    let mut pipeline: Pipeline = session.pipeline(before).expect("a pipeline");
    pipeline.steps.push(Step::Pass(PassRun {
        pass: &NEEDS,
        options: Options::defaults(&NEEDS),
    }));
    let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    outcome.failure.map(|(_, errors)| {
        let error = errors.iter().next().expect("an error");
        let notes: Vec<String> = error.notes.iter().map(|n| n.to_string()).collect();
        (error.code, notes.join("\n"))
    })
}

#[test]
fn a_form_that_no_pass_gave_is_asked_for() {
    let (code, notes) = then_needs("infer-type").expect("refused");
    assert_eq!(code, codes::FORM);
    assert!(notes.contains("`to-a-normal-form,needs-names`"), "{notes}");
    assert_eq!(then_needs("to-a-normal-form"), None);
    // What keeps the form keeps it; what does not, and changes something, loses it.
    assert_eq!(then_needs("to-a-normal-form,infer-type"), None);
    let lost = then_needs("to-a-normal-form,to-graph-normal-form");
    assert_eq!(lost.map(|l| l.0), Some(codes::FORM));
}

//! The pass of `examples/out_of_tree`, in pipelines and in relax-opt's documentation.

use relax::passes::Registry;
use relax::{PassConfig, ReadOptions, Session, Silent, Style, run_pipeline};

#[path = "../../../examples/out_of_tree/src/rsqrt.rs"]
mod rsqrt;

const MODEL: &str = include_str!("../../../examples/out_of_tree/model.relay");

fn session() -> Session {
    let mut session = Session::new(ReadOptions::default());
    session.passes = Registry::default().with(&rsqrt::PASS);
    session
}

#[test]
fn runs_among_the_built_in_passes() {
    let mut session = session();
    let (mut module, errors) = session.read("model.relay", MODEL.as_bytes().to_vec());
    assert!(!errors.has_errors());
    let pipeline = session.pipeline("infer-type,recip-of-rsqrt,dead-code-elimination");
    let pipeline = pipeline.expect("the pass is known");
    let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    assert!(outcome.failure.is_none());
    let text = relax::print(&module, Style::Pretty, None);
    assert!(text.contains("sqrt(%0)"), "{text}");
    assert!(!text.contains("rsqrt"), "{text}");
}

#[test]
fn is_listed_described_and_suggested() {
    let passes = session().passes;
    let list = relax_cli::opt::manual::list(&passes);
    assert!(list.contains("recip-of-rsqrt: Replaces 1 / rsqrt(x) by sqrt(x).\n"));
    assert!(relax_cli::opt::manual::of(&passes, "recip-of-rsqrt").is_ok());
    assert_eq!(
        passes.meant("RecipOfRsqrt").as_deref(),
        Some("recip-of-rsqrt")
    );
    let unknown = session().pipeline("recip-of-rsqr").expect_err("no pass");
    let fix = &unknown.iter().next().expect("an error").fixes[0];
    assert_eq!(fix.edits[0].text, "recip-of-rsqrt");
}

#[test]
fn is_unknown_elsewhere() {
    let mut plain = Session::new(ReadOptions::default());
    assert!(plain.pipeline("recip-of-rsqrt").is_err());
}

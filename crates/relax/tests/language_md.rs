//! The examples in `docs/language.md` have the documented results.

use relax::{InferOptions, ReadOptions, Session, check};
use relax_loops::KernelKind;

const PAGE: &str = include_str!("../../../docs/language.md");
const PASSES: &str = include_str!("../../../docs/passes.md");

/// Returns the messages of the errors found by reading and checking.
fn errors(text: &str) -> Vec<String> {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, mut all) = session.read("example.relay", text.as_bytes().to_vec());
    if !all.has_errors() {
        all.extend(check(&mut module, &InferOptions::default()).1);
    }
    all.iter()
        .filter(|d| d.is_error())
        .map(|d| d.message.clone())
        .collect()
}

#[test]
fn examples_mean_what_the_page_says() {
    let (mut good, mut bad) = (0, 0);
    // Every other part is inside a fence.
    for part in PAGE.split("```").skip(1).step_by(2) {
        let (head, text) = part.split_once('\n').expect("a fence has lines");
        let errors = errors(text);
        match head {
            "relay" => {
                assert!(errors.is_empty(), "{text}\n{errors:?}");
                good += 1;
            }
            "relay,error" => {
                assert_eq!(
                    errors.len(),
                    1,
                    "one mistake, one error: {text}\n{errors:?}"
                );
                bad += 1;
            }
            other => panic!("a fence of an unknown kind: {other}"),
        }
    }
    assert!(good >= 8 && bad >= 3, "{good} examples, {bad} mistakes");
}

/// The kernels that a program may state are listed here, and with their rules in `docs/passes.md`.
#[test]
fn kernels_are_listed() {
    let listed = |page: &'static str, from: &str| {
        let (_, rest) = page.split_once(from).expect("the page has a list");
        let list = rest.split("\n\n").next().unwrap_or(rest);
        let names: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        names
    };
    let lists = [
        listed(PAGE, "\nThe kernels are "),
        listed(PASSES, "\n| kernel | stages | rule |\n"),
    ];
    for kind in KernelKind::ALL {
        let name = kind.name();
        assert!(lists.iter().all(|l| l.contains(&name)), "`{name}`");
    }
}

//! One mistake, one error, at its location and in plain words.

mod common;

use common::errors;
use relax_base::Code;
use relax_base::explain::explain;

/// The page of each code shows an example: it must give that error, and no other.
#[test]
fn the_examples_of_the_pages_are_what_they_say() {
    // Pages whose mistake is not in the text, or requires more text than fits on a page.
    let elsewhere = [112, 114, 118];
    for code in (101..=119).map(Code).filter(|c| !elsewhere.contains(&c.0)) {
        let page = explain(code).unwrap_or_else(|| panic!("{code} has no page"));
        let example = page
            .split("```relay\n")
            .nth(1)
            .and_then(|t| t.split("```").next());
        let found = errors(example.expect("an example"));
        assert!(!found.is_empty(), "{code}: no error");
        for error in &found {
            assert!(error.contains(&code.to_string()), "{code}: {error}");
        }
    }
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(errors(text), expected, "{text}");
}

#[test]
fn independent_mistakes_are_all_reported() {
    let text = "def @a(%x: int32) {\n  let %y = add(%x %x)\n  let z = 1;\n  f(%x, +, %y);\n  %y\n}\n\
                def b() { 1 }\ndef @c( { 1 }\ndef @d() { 1 }\n";
    let found = errors(text);
    let places: Vec<&str> = found
        .iter()
        .map(|e| e.split(": ").next().unwrap_or(""))
        .collect();
    assert_eq!(
        places,
        ["2:18", "2:22", "3:7", "4:9", "7:5", "8:7"],
        "{found:#?}"
    );
}

#[test]
fn a_missing_bracket_is_one_mistake() {
    for text in [
        "def @f(%x: Tensor[(10, bool]) { %x }",
        "def @f(%x: Tensor[3, 4), bool]) { %x }",
        "def @f(%x: Tensor(3, 4), bool]) { %x }",
        "def @f(%x: int32 -> int32 { %x }",
        "def @f(%x: int32) -> Tensor[(2), int32 { %x }",
        "def @f%x: int32) { %x }",
        "def @f(%x: int32) %x }",
        "def @f(%x: int32) { add%x, %x) }",
        "def @f(%x: int32) { add(%x, %x }",
        "def @f(%x: int32) { if (%x) { 1 } else { 2 }",
        "def @f(%x: int32) { let %y: Tensor[(1), int32 = %x; %y }",
        "def @f(%x: int32) { let %y = ); %y }",
    ] {
        assert_eq!(errors(text).len(), 1, "{text}\n{:#?}", errors(text));
    }
}

#[test]
fn statements_in_parentheses_may_be_long() {
    for count in [10, 100, 1000, 10_000] {
        let long = "add(%r, 1), ".repeat(count);
        let text = format!("def @f(%r: int32) {{ %0 = (@g(%r); %1 = ({long}); @g(%r); %1); %0 }}");
        check(&text, &[]);
    }
}

#[test]
fn messages_are_plain() {
    check(
        "def @f() {\n  let %x = 1\n  %x\n}",
        &["2:13: RX0107 expected `;` after this binding"],
    );
    check(
        "let %f = fun (x) { 1 };\n%f(1)",
        &[
            "1:10: RX0109 a function is spelled `fn`, not `fun`",
            "1:15: RX0108 the name of a parameter needs the sigil `%`",
        ],
    );
    check(
        "def @f(%x: ) { %x }",
        &["1:12: RX0101 expected a type, found `)`"],
    );
    check(
        "def @f(%x: int32) { match (%x) { + => 1 } }",
        &["1:34: RX0101 expected a pattern, found `+`"],
    );
}

#[test]
fn no_message_lists_terminals() {
    let words = [
        "def", "@f", "(", ")", "{", "}", "%x", ":", "int32", "=", "let", ";", "1", "match",
    ];
    for a in words {
        for b in words {
            for c in words {
                for e in errors(&format!("def @g() {{ {a} {b} {c} }}")) {
                    assert!(!e.contains('"') && e.len() < 200, "{a} {b} {c}: {e}");
                }
            }
        }
    }
}

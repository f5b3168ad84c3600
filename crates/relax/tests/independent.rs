//! Each mistake gives one error, and independent mistakes are all reported: names are broken in
//! otherwise correct texts.

use std::path::Path;

use relax::{InferOptions, ReadOptions, Session};
use relax_base::{Diagnostic, Severity, Span};
use relax_resolve::names::{Name, NameKind, names};
use relax_syntax::ast::{FileForm, ItemKind};

/// The number of names of each kind broken in a text.
const EACH: usize = 4;

/// Returns the diagnostics of a text, except for notes.
fn said(text: &str) -> Vec<Diagnostic> {
    let mut session = Session::new(ReadOptions::default());
    let (_, _, all) = session.check("", text.as_bytes().to_vec(), &InferOptions::default());
    (all.into_iter())
        .filter(|d| d.severity != Severity::Note)
        .collect()
}

/// Returns the texts of the repository without errors.
fn texts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    ["tests/types", "tests/run", "examples"]
        .iter()
        .flat_map(|dir| relax_testkit::files(&root.join(dir), "relay"))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .map(|text| {
            let end = text.find("\n// expect:").unwrap_or(text.len());
            text[..end].to_owned()
        })
        .filter(|text| text.len() < 8_000 && said(text).is_empty())
        .collect()
}

/// Returns some uses of names, a few of each kind, with the index of the item that contains each.
fn uses(text: &str) -> Vec<(usize, Name)> {
    let mut session = Session::new(ReadOptions::default());
    let mut diagnostics = relax_base::Diagnostics::new();
    let bytes = text.as_bytes().to_vec();
    let file = session.add("", bytes, &mut diagnostics).expect("a file");
    let tree = session.read_tree(&file, &mut diagnostics).ast;
    if tree.form != FileForm::Module {
        return Vec::new();
    }
    let all = names(&tree);
    let mut out = Vec::new();
    for kind in [NameKind::Local, NameKind::Global, NameKind::Callee] {
        let used: Vec<Name> = (all.iter().copied())
            .filter(|n| n.kind == kind && n.binding != Some(n.span))
            .filter(|n| tree.items.iter().all(|i| i.name_span != n.span))
            .collect();
        out.extend(used.iter().step_by(used.len() / EACH + 1).copied());
    }
    let item = |n: &Name| (tree.items.iter()).rposition(|i| i.span.start <= n.span.start);
    // In the computation of an `op` item, `sum(%i, n, …)` binds what looks like a use.
    let computed = |i: usize| matches!(tree.items[i].kind, ItemKind::Op(_));
    (out.into_iter())
        .filter_map(|n| Some((item(&n)?, n)))
        .filter(|(i, _)| !computed(*i))
        .collect()
}

fn unknown(kind: NameKind) -> &'static str {
    match kind {
        NameKind::Local => "%zz_unknown",
        NameKind::Global => "@zz_unknown",
        _ => "zz_unknown",
    }
}

/// Replaces names in a text; returns it with the new spans.
fn broken(text: &str, names: &[Name]) -> (String, Vec<Span>) {
    let (mut out, mut from, mut places) = (String::new(), 0, Vec::new());
    for n in names {
        out.push_str(&text[from..n.span.start as usize - 1]);
        let start = out.len() as u32 + 1;
        out.push_str(unknown(n.kind));
        places.push(Span::new(start, out.len() as u32 + 1));
        from = n.span.end as usize - 1;
    }
    out.push_str(&text[from..]);
    (out, places)
}

#[test]
fn a_name_that_is_unknown_is_one_error() {
    let mut wrong = Vec::new();
    for text in texts() {
        for (_, name) in uses(&text) {
            let (text, places) = broken(&text, &[name]);
            let said = said(&text);
            let right =
                matches!(&said[..], [d] if d.is_error() && places[0].touches(d.span().start));
            if !right {
                wrong.push(format!("{text}\n{said:?}"));
            }
        }
    }
    let shown = wrong.first().map_or("", |w| w);
    assert!(wrong.is_empty(), "{} texts, such as {shown}", wrong.len());
}

#[test]
fn names_that_are_unknown_in_two_items_are_two_errors() {
    let mut pairs = 0;
    for text in texts() {
        let uses = uses(&text);
        for (item, first) in &uses {
            let Some((_, second)) = uses.iter().find(|u| u.0 > *item) else {
                continue;
            };
            pairs += 1;
            let (text, places) = broken(&text, &[*first, *second]);
            let said = said(&text);
            assert_eq!(said.len(), 2, "{text}\n{said:?}");
            for (d, place) in said.iter().zip(places) {
                assert!(place.touches(d.span().start), "{text}\n{said:?}");
            }
        }
    }
    assert!(pairs > 50, "{pairs}");
}

#[test]
fn a_mistake_of_types_is_said_beside_those_of_names() {
    let said = said(
        "def @f(%x: Tensor[(3,), float32], %y: Tensor[(4,), float32]) {
           let %a = nn.rleu(%x);
           let %b = add(%x, %y);
           let %c = add(%a, exp(%b));
           (%c, %q, nn.dense(%x, wieght=1), if (%x) { %a } else { %y })
         }
         def @g(%x: Tensor[(3,), float32]) -> Tensor[(4,), float32] { %x }
         def @h(%x: Tensor[(3,), float32]) { @g(exp(%x, %x)).0 }
         def @i(%x) { @nothing(%x) }
         def @k() { @i(1f).1 + @f }",
    );
    let codes: Vec<String> = said.iter().map(|d| d.code.to_string()).collect();
    let expected = [
        "RX0203", "RX0319", "RX0201", "RX0510", "RX0304", "RX0305", "RX0308", "RX0510", "RX0202",
    ];
    assert_eq!(codes, expected, "{said:#?}");
}

//! Every operator with every attribute that a release of TVM wrote can be read:
//! `tests/versions/attributes.tsv` lists them by release. `tests/versions/constructs.tsv` lists the
//! other forms, each with a file test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use relax::{ReadOptions, Release, Session, TextOptions};
use relax_base::{Code, Diagnostics};

/// The operator, an attribute, or the number of arguments is not accepted.
const NOT_READ: &[Code] = &[Code(203), Code(510), Code(511)];

/// Operators that cannot be read, and why.
const NOT_THERE: &[(&str, &str)] = &[(
    "nn.contrib_conv2d_winograd_nnpack_without_weight_transform",
    "its weight is in the layout of a library of its time",
)];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/versions")
}

fn table(name: &str) -> Vec<[String; 4]> {
    let text = std::fs::read_to_string(folder().join(name)).expect("the table");
    let rows = text.lines().filter(|l| !l.starts_with('#')).skip(1);
    let row = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        cells
            .try_into()
            .unwrap_or_else(|_| panic!("four cells: {line}"))
    };
    rows.map(row).collect()
}

/// Returns whether a call is accepted, apart from types and values.
fn is_read(release: Release, op: &str, attrs: &[&str]) -> bool {
    let mut given = String::new();
    for attr in attrs {
        // With a true value it is another operator now.
        let value = if *attr == "reverse" { "False" } else { "1" };
        given.push_str(&format!(", {attr}={value}"));
    }
    (0..9).any(|count| {
        let arguments: Vec<String> = (0..count).map(|i| format!("%x{i}")).collect();
        let declared = arguments.join(", ");
        let call = format!("{declared}{given}");
        let call = call.trim_start_matches(", ");
        let text = format!("def @main({declared}) {{ {op}({call}) /* ty=float32 */ }}");
        let mut session = Session::new(ReadOptions {
            text: TextOptions {
                release: Some(release),
                ..TextOptions::default()
            },
            ..ReadOptions::default()
        });
        let (_, found): (_, Diagnostics) = session.read("call.relay", text.into_bytes());
        !found.iter().any(|d| NOT_READ.contains(&d.code))
    })
}

#[test]
fn calls_of_all_releases_are_read() {
    let rows = table("attributes.tsv");
    let mut failed = Vec::new();
    for minor in 6..=19 {
        let release = Release(minor);
        let of = |cells: &[String; 4]| {
            let [_, _, first, last] = cells;
            let range: (Release, Release) = (
                first.parse().expect("a release"),
                last.parse().expect("a release"),
            );
            range.0 <= release && release <= range.1
        };
        let mut calls: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for row in rows.iter().filter(|r| of(r)) {
            let attrs = calls.entry(&row[0]).or_default();
            attrs.extend(Some(row[1].as_str()).filter(|a| !a.is_empty()));
        }
        for (op, attrs) in calls {
            let known = NOT_THERE.iter().any(|n| n.0 == op);
            if is_read(release, op, &attrs) == known {
                failed.push(format!("{release}: {op}({})", attrs.join(", ")));
            }
        }
    }
    assert!(failed.is_empty(), "not read:\n{}", failed.join("\n"));
}

#[test]
fn constructs_have_tests() {
    let rows = table("constructs.tsv");
    let mut files: Vec<String> = relax_testkit::files(&folder(), "relay")
        .iter()
        .filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned()))
        .collect();
    files.sort();
    let mut tests: Vec<String> = rows.iter().map(|r| r[0].clone()).collect();
    tests.sort();
    assert_eq!(tests, files);
    for row in &rows {
        let range: Result<Vec<Release>, _> = row[1..3].iter().map(|r| r.parse()).collect();
        assert!(range.is_ok_and(|r| r[0] <= r[1]), "{row:?}");
    }
}

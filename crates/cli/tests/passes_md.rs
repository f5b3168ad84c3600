//! `docs/passes.md`: the text between `<!-- made: NAME -->` and `<!-- end -->` is generated from
//! the pass's entry and its file test. `RELAX_BLESS=1` regenerates it, otherwise it must be up to
//! date.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use relax_passes::PassDef;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program before and after a pass.
struct Example {
    test: String,
    pipeline: String,
    before: String,
    after: String,
}

/// Returns the example of a pass: the first run in its file test, or in a test that runs it alone.
fn example(pass: &str) -> Option<Example> {
    let dir = root().join("tests/passes");
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("file tests")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|n| n.ends_with(".relay"))
        .collect();
    names.sort();
    let own = format!("{pass}.relay");
    names.sort_by_key(|n| *n != own);
    // Preferably a run of the pass alone (or after passes that prepare the program for it).
    let mut alone = names.iter().map(|n| runs(n, pass, true));
    let found = alone.find_map(|e| e);
    found.or_else(|| names.iter().find_map(|n| runs(n, pass, false)))
}

/// Returns the first suitable run of a pass in a file test; with `last`, one with no passes after
/// it.
fn runs(name: &str, pass: &str, last: bool) -> Option<Example> {
    let path = root().join("tests/passes").join(name);
    let text = std::fs::read_to_string(path).expect("a test");
    let (source, expected) = text.split_once("\n// expect: ")?;
    let blocks: Vec<&str> = expected.split("\n// expect: ").collect();
    let lines = source.lines().filter_map(|l| l.strip_prefix("// run: "));
    let wanted = |pipeline: &str| {
        let names: Vec<&str> = top_level(pipeline)
            .into_iter()
            .map(|p| p.split('{').next().unwrap_or(p))
            .collect();
        names.last() == Some(&pass) || !last && names.contains(&pass)
    };
    for (run, block) in lines.zip(blocks) {
        let Some((_, rest)) = run.split_once("--pipeline ") else {
            continue;
        };
        let pipeline = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split('\'').next()?,
            None => rest.split_whitespace().next()?,
        };
        if !run.starts_with("relax-opt") || !block.starts_with("exit 0") || !wanted(pipeline) {
            continue;
        }
        let before = source.lines().filter(|l| !l.starts_with("// run: "));
        let after = block.lines().skip(1).filter_map(|l| l.strip_prefix("//|"));
        let after = after.map(|l| l.strip_prefix(' ').unwrap_or(l));
        let after = after.filter(|l| !l.starts_with("#[version"));
        let tidy = |text: Vec<&str>| text.join("\n").trim_end().to_owned();
        return Some(Example {
            test: format!("tests/passes/{name}"),
            pipeline: pipeline.replace("@%r/", "@"),
            before: tidy(before.collect()),
            after: tidy(after.collect()),
        });
    }
    None
}

/// Splits a pipeline into its steps.
fn top_level(pipeline: &str) -> Vec<&str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (i, c) in pipeline.char_indices() {
        match c {
            '{' | '(' => depth += 1,
            '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&pipeline[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push(&pipeline[start..]);
    out
}

fn section(pass: &PassDef) -> String {
    let mut out = String::from("\n");
    for o in pass.options {
        let default = if o.default.is_empty() {
            "empty"
        } else {
            o.default
        };
        let _ = writeln!(out, "- `{}` ({}; {default}): {}", o.name, o.ty, o.doc);
    }
    if !pass.options.is_empty() {
        out.push('\n');
    }
    let _ = writeln!(out, "{}", pass.contract);
    let example = example(pass.name).unwrap_or_else(|| panic!("`{}` has no file test", pass.name));
    let _ = write!(
        out,
        "\nBefore ([{}](../{0})):\n\n```relay\n{}\n```\n\nAfter `{}`:\n\n```relay\n{}\n```\n",
        example.test, example.before, example.pipeline, example.after
    );
    out.push('\n');
    out
}

#[test]
fn page_is_current() {
    let path = root().join("docs/passes.md");
    let text = std::fs::read_to_string(&path).expect("the page");
    let mut new = String::new();
    let mut rest = text.as_str();
    let mut made = Vec::new();
    while let Some((before, after)) = rest.split_once("<!-- made: ") {
        let (name, body) = after.split_once(" -->").expect("a name");
        let (_, tail) = body.split_once("<!-- end -->").expect("an end");
        let pass = relax_passes::find(name).unwrap_or_else(|| panic!("there is no pass `{name}`"));
        let _ = write!(
            new,
            "{before}<!-- made: {name} -->\n{}<!-- end -->",
            section(pass)
        );
        let headed = before.trim_end().lines().any(|l| l == format!("## {name}"));
        assert!(headed, "`{name}` has no section of its own");
        made.push(name.to_owned());
        rest = tail;
    }
    new.push_str(rest);
    for pass in relax_passes::all() {
        assert!(
            made.iter().any(|n| n == pass.name),
            "`{}` has no section in docs/passes.md: write `## {0}`, what it does, and \
             `<!-- made: {0} --><!-- end -->`",
            pass.name
        );
    }
    if new == text {
        return;
    }
    if std::env::var_os("RELAX_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(path, new).expect("the page is written");
        return;
    }
    let line = text.lines().zip(new.lines()).position(|(a, b)| a != b);
    panic!("docs/passes.md is not current (line {line:?}); run this test with RELAX_BLESS=1");
}

//! Relax's own passes: the texts of `tests/relax-passes/`, one for each, with their results, and
//! the page `docs/relax-passes.md`, with a section for each.
//!
//! The first line of a text names the pipeline.
//! `RELAX_BLESS=1 cargo test -p relax --test relax_passes` regenerates the results; review every
//! line, and check that TVM 0.27 reads what changed.

use std::path::{Path, PathBuf};

use relax::Module;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str, text: &str) -> Module {
    let module = Module::read(name, text.as_bytes().to_vec(), Default::default());
    module.unwrap_or_else(|e| panic!("{name}: {e}\n{text}"))
}

/// Returns the result of a text's pipeline.
fn outcome(name: &str, text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let pipeline = first.strip_prefix("# run: ").expect("a pipeline");
    let mut module = read(name, text);
    if let Err(e) = module.optimise(pipeline) {
        panic!("{name}: {e}");
    }
    let printed = module.to_tvmscript();
    printed.unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn passes_make_what_is_blessed() {
    let bless = std::env::var_os("RELAX_BLESS").is_some_and(|v| v == "1");
    let texts = relax_testkit::files(&root().join("tests/relax-passes"), "py");
    for pass in relax_passes::of_relax() {
        let own = |p: &std::path::PathBuf| p.file_stem().is_some_and(|n| n == pass.name);
        let name = pass.name;
        assert!(
            texts.iter().any(own),
            "`{name}` has no text in tests/relax-passes"
        );
    }
    for path in texts {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).expect("it was listed");
        let found = outcome(&name, &text);
        // It is a valid module, and prints the same.
        assert_eq!(
            read(&name, &found).to_tvmscript().ok(),
            Some(found.clone()),
            "{name}"
        );
        let blessed = path.with_extension("out");
        if bless {
            std::fs::write(&blessed, &found).expect("it can be written");
        }
        let want = std::fs::read_to_string(&blessed).unwrap_or_default();
        assert_eq!(found, want, "{name}");
    }
}

#[test]
fn passes_have_a_section() {
    let page = std::fs::read_to_string(root().join("docs/relax-passes.md")).expect("the page");
    for pass in relax_passes::of_relax() {
        let head = format!("## {}", pass.name);
        assert!(
            page.lines().any(|l| l == head),
            "`{}` has no section",
            pass.name
        );
    }
}

//! Relay programs as Relax that TVM can run: the texts of `tests/rescue/`, each with its result.
//!
//! `RELAX_BLESS=1 cargo test -p relax --test rescue` regenerates the results; review every line,
//! and check that TVM 0.27 builds and runs what changed.

use std::path::{Path, PathBuf};

use relax::{
    InferOptions, PassConfig, Pipeline, ReadOptions, Session, Silent, TypedModule, check,
    print_tvmscript, run_pipeline,
};
use relax_base::SourceMap;

fn texts() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/rescue");
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the folder")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "relay"))
        .collect();
    all.sort();
    all
}

/// Returns the TVMScript, or the errors, one per line.
fn outcome(name: &str, text: String) -> String {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, _, found) = session.check(name, text.into_bytes(), &InferOptions::default());
    assert!(!found.has_errors(), "{name}: {found:?}");
    let mut sources = SourceMap::new();
    let file = sources.add("<pipeline>", "relay-to-relax".to_owned());
    let pipeline = Pipeline::parse(
        &file.expect("it is small"),
        &relax_passes::Registry::default(),
    )
    .expect("a pass");
    let outcome = run_pipeline(&pipeline, &mut module, &PassConfig::default(), &mut Silent);
    assert!(outcome.failure.is_none(), "{name}");
    let (typing, _) = check(&mut module, &InferOptions::default());
    let typed = TypedModule {
        module: &module,
        typing: &typing,
    };
    match print_tvmscript(&module, Some(&typed)) {
        Ok(text) => text,
        Err(found) => found
            .iter()
            .map(|d| format!("{} {}\n", d.code, d.message))
            .collect(),
    }
}

#[test]
fn programs_become_what_is_blessed() {
    let bless = std::env::var_os("RELAX_BLESS").is_some_and(|v| v == "1");
    for path in texts() {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let found = outcome(&name, std::fs::read_to_string(&path).expect("a text"));
        let blessed = path.with_extension("py");
        if bless {
            std::fs::write(&blessed, &found).expect("it can be written");
        }
        let want = std::fs::read_to_string(&blessed).unwrap_or_default();
        assert_eq!(found, want, "{}", path.display());
    }
}

/// The output can be read, and printed again.
#[test]
fn what_is_written_is_read() {
    for path in texts() {
        let blessed = path.with_extension("py");
        let text = std::fs::read_to_string(&blessed).unwrap_or_default();
        if text.starts_with("RX") {
            continue;
        }
        let mut session = Session::new(ReadOptions::default());
        let name = blessed.to_string_lossy();
        let (module, found) = session.read(&name, text.into_bytes());
        assert!(!found.has_errors(), "{name}: {found:?}");
        assert!(print_tvmscript(&module, None).is_ok(), "{name}");
    }
}

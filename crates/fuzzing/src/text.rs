//! Text round trips: whatever parses also prints, formats and re-reads, with and without types, and
//! after passes.
//!
//! A panic is a finding.

use relax::{
    Format, InferOptions, PassConfig, ReadOptions, Session, Silent, Style, TypeSource, TypedModule,
    check, run_pipeline,
};
use relax_ir::{EqualOptions, Module};
use relax_syntax::{FmtOptions, format_source};

use crate::mutate;

/// Longer inputs add no coverage.
const LONGEST: usize = 1 << 14;

fn session() -> Session {
    Session::new(ReadOptions {
        format: Some(Format::Relay),
        ..ReadOptions::default()
    })
}

/// Reads, formats twice, prints, re-reads, compares, type-checks, prints with types, and re-reads.
pub fn front(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    let mut session = session();
    let (module, diagnostics) = session.read("input", data.to_vec());
    formatted(&session);
    if !diagnostics.has_errors() {
        reads_back(&module, &[]);
    }
}

/// Checks that formatting preserves validity, and is idempotent.
fn formatted(session: &Session) {
    let Some(file) = session.sources.files().first() else {
        return;
    };
    let Ok(once) = format_source(file, &FmtOptions::default()) else {
        return;
    };
    let mut sources = relax_base::SourceMap::new();
    let again = sources.add("formatted", once.as_str()).expect("room");
    match format_source(&again, &FmtOptions::default()) {
        Ok(twice) => assert_eq!(once, twice, "formatted again, the text is another"),
        Err(d) => panic!(
            "formatted, it cannot be read: {:?}\n{once}",
            d.iter().next()
        ),
    }
}

/// Checks that a type-checked module verifies.
fn sound(m: &Module) {
    if let Err(breach) = m.verify() {
        panic!("the module is not sound: {breach}");
    }
}

/// Checks that printing round-trips: exactly without inferred types, and up to annotations with
/// them. `after` are the passes that ran before, for what is said of a finding.
pub(crate) fn reads_back(m: &Module, after: &[String]) {
    let mut typed = m.clone();
    let (typing, errors) = check(&mut typed, &InferOptions::default());
    if errors.has_errors() {
        return;
    }
    sound(m);
    let after = match after {
        [] => String::new(),
        names => format!("after {}, ", names.join(";")),
    };
    let types = TypedModule {
        module: &typed,
        typing: &typing,
    };
    for (printed, types) in [(m, None), (&typed, Some(&types as &dyn TypeSource))] {
        let text = relax::print(printed, Style::Pretty, types);
        let mut session = session();
        let (mut again, errors) = session.read("printed", text.clone().into_bytes());
        if let Some(d) = errors.iter().find(|d| d.is_error()) {
            panic!("{after}printed, it cannot be read: {d:?}\n{text}");
        }
        let options = EqualOptions {
            annotations: types.is_none(),
            ..EqualOptions::default()
        };
        if let Some(d) = relax::difference(printed, &again, options) {
            panic!("{after}printed, it reads as another: {}\n{text}", d.text);
        }
        let (_, errors) = check(&mut again, &InferOptions::default());
        if let Some(d) = errors.iter().find(|d| d.is_error()) {
            panic!("{after}printed, it does not type: {d:?}\n{text}");
        }
    }
}

/// Pipelines, besides single passes: combinations where the last pass acts on the output of the
/// others.
const TOGETHER: [&str; 8] = [
    "legalize,lower-shapes,plan-memory",
    "legalize,schedule",
    "to-a-normal-form,to-graph-normal-form",
    "fuse-ops{level=0}",
    "O1",
    "O2",
    "O3",
    "gradient{mode=higher-order}",
];

/// The prefix of a first line that selects the passes, whose names follow, separated by `;`.
const CHOSEN: &str = "// passes: ";

/// Returns the passes or pipelines selected in the first line of an input, or else one to three
/// chosen by its bytes.
fn chosen(text: &[u8]) -> Vec<String> {
    let first = text.split(|&b| b == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    if let Some(names) = first.strip_prefix(CHOSEN) {
        return names
            .split(';')
            .take(3)
            .map(|n| n.trim().to_owned())
            .collect();
    }
    let sum = mutate::sum(7, text);
    let passes = [relax_passes::all(), relax_passes::of_relax()].concat();
    let all = passes.into_iter().map(|p| p.name);
    let all: Vec<&str> = all.chain(TOGETHER).collect();
    let bytes = sum.to_le_bytes();
    let count = 1 + usize::from(bytes[0] >> 6) % 3;
    (bytes.iter().take(count))
        .map(|&b| all[usize::from(b) % all.len()].to_owned())
        .collect()
}

/// Runs passes or pipelines on a text: each rejects it with a reason, or leaves a module that
/// verifies, type-checks and round-trips.
pub fn passes(text: &[u8]) {
    if text.len() > LONGEST {
        return;
    }
    let mut session = session();
    let (mut module, diagnostics) = session.read("input", text.to_vec());
    if diagnostics.has_errors() {
        return;
    }
    let (_, diagnostics) = check(&mut module, &InferOptions::default());
    if diagnostics.has_errors() {
        return;
    }
    let config = PassConfig {
        check_preserved: true,
        ..PassConfig::default()
    };
    let names = chosen(text);
    for (i, name) in names.iter().enumerate() {
        let Ok(steps) = session.pipeline(name) else {
            return;
        };
        let mut after = module.clone();
        let outcome = run_pipeline(&steps, &mut after, &config, &mut Silent);
        if let Some((_, errors)) = outcome.failure {
            let refused = |d: &relax_base::Diagnostic| d.code == relax_passes::codes::UNSUPPORTED;
            assert!(
                errors.iter().all(refused),
                "{}: {errors:?}",
                names[..=i].join(";")
            );
            continue;
        }
        reads_back(&after, &names[..=i]);
        module = after;
    }
}

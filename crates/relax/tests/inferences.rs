//! The number of type inferences from a text to code: one, and incremental ones for what passes
//! change.
#![cfg(feature = "native")]

use relax::{CompileOptions, Found, Module};

const TEXT: &str = "
def @half(%x: Tensor[(n, 4), float32]) { %x * 0.5f }
def @main(%x: Tensor[(n, 4), float32]) { nn.relu(%x) + @half(%x) }";

fn read() -> Module {
    let module = Module::parse(TEXT).expect("a module");
    let Found { types, typed, .. } = module.found();
    let all = module.ir().global_bodies().len();
    assert_eq!(
        (types, typed),
        (1, all),
        "reading looks at each function once"
    );
    module
}

#[test]
fn passes_that_change_nothing_find_no_types() {
    let mut module = read();
    let passes = "infer-type,fold-constant,eliminate-common-subexpr,infer-type";
    module.optimise(passes).expect("passes");
    module.optimise(passes).expect("passes");
    assert_eq!(module.found().types, 1);
    // A copy shares the module's analysis results.
    let mut copy = module.clone();
    copy.optimise(passes).expect("passes");
    assert_eq!(copy.found().types, 1);
}

#[test]
fn warnings_are_said_whenever_they_are_asked_for() {
    let text = "def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) { %x + %y }";
    let mut module = Module::parse(text).expect("a module");
    assert_eq!(module.report().findings().len(), 1);
    for _ in 0..2 {
        let said = module.optimise("infer-type").expect("a pass");
        assert_eq!(said.findings(), module.report().findings());
    }
    assert_eq!(module.found().types, 1);
}

#[test]
fn compiling_finds_the_types_of_what_changes_only() {
    let module = read();
    for level in 0..=3 {
        let program = module.compile(&CompileOptions {
            level,
            entries: vec!["main".into()],
            ..CompileOptions::default()
        });
        let found = program.expect("a program").found();
        // Without previous results, there is one more for all functions.
        let all = module.ir().global_bodies().len();
        let fresh = {
            let text = module.to_string();
            let module = Module::parse(&text).expect("the same module");
            let mut session = relax::Session::default();
            let pipeline = match level {
                0 | 1 => format!("specialize,O{level}"),
                _ => format!("specialize,native{level}"),
            };
            let pipeline = session.pipeline(&pipeline).expect("a pipeline");
            let config = relax::PassConfig::default();
            let mut ir = module.ir().clone();
            relax::run_pipeline(&pipeline, &mut ir, &config, &mut relax::Silent).found
        };
        assert_eq!(
            (found.types + 1, found.typed + all),
            (fresh.types, fresh.typed),
            "level {level}"
        );
    }
}

//! Hints of fused groups in texts: the stages that have them print as calls of operators.

use std::path::Path;
use std::sync::Arc;

use relax::Module;
use relax_ir::GlobalKind;
use relax_loops::{Buf, Kernel, KernelKind, Program, select, settle};
use relax_resolve::print::{PrintMode, module_to_ast};

/// The tensor programs with hints that a text becomes.
fn programs(text: &str, pipeline: &str) -> Vec<Program> {
    let Ok(mut module) = Module::parse(text) else {
        return Vec::new();
    };
    if module.optimise(pipeline).is_err() {
        return Vec::new();
    }
    let globals = module.ir().globals.values();
    let all = globals.filter_map(|g| match &g.kind {
        GlobalKind::Prim(p) if !p.hints.is_empty() => Some((**p).clone()),
        _ => None,
    });
    all.collect()
}

fn print(program: &Program) -> String {
    let mut m = relax_ir::Module::new();
    m.globals.push(relax_ir::Global {
        name: "f".into(),
        kind: GlobalKind::Prim(Arc::new(program.clone())),
        span: relax_base::Span::NONE,
        prelude: false,
    });
    let ast = module_to_ast(&m, &PrintMode::default());
    relax_syntax::print(&ast, &relax_syntax::PrintOptions::default())
}

#[test]
fn stages_with_hints_print_as_calls() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for folder in ["examples", "tests/run", "tests/passes"] {
        paths.extend(relax_testkit::files(&root.join(folder), "relay"));
    }
    let (mut lost, mut count) = (Vec::new(), 0);
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a text");
        let end = text.find("\n// expect:").map_or(text.len(), |at| at + 1);
        for pipeline in ["legalize", "fuse-ops,legalize"] {
            let pipeline = format!("infer-type,fold-constant,{pipeline}");
            for mut program in programs(&text[..end], &pipeline) {
                settle(&mut program);
                select::state(&mut program);
                // Element types without such a kernel are computed as their loops are.
                let stated = |b: &Buf| {
                    let stages = |k: &Kernel| &program.stages[k.stages.clone()];
                    let loops = [
                        KernelKind::Vectors,
                        KernelKind::Copy,
                        KernelKind::Contraction,
                    ];
                    let kernels = program.kernels.iter().filter(|k| !loops.contains(&k.kind));
                    let mut all = kernels.flat_map(stages);
                    all.any(|s| s.written().contains(b))
                };
                // One call stands for all results of a stage.
                let first = |b: &Buf| {
                    let mut stages = program.stages.iter().map(|s| s.written());
                    let own = stages.find(|w| w.contains(b)).unwrap_or_default();
                    own.iter().find(|b| program.hint(**b).is_some()) == Some(b)
                };
                let hinted = program.hints.iter().map(|h| &h.0);
                let expected = hinted.filter(|b| stated(b) && first(b)).count();
                let printed = print(&program);
                // Calls in the group are the only statements that give attributes or whole buffers.
                let calls = printed.lines().filter(|l| call(l)).count();
                count += expected;
                if calls < expected {
                    let hints = &program.hints;
                    lost.push(format!("{}: {hints:?}\n{printed}", path.display()));
                }
            }
        }
    }
    assert!(count > 300, "only {count} hints");
    assert!(
        lost.is_empty(),
        "{} of {count}:\n{}",
        lost.len(),
        lost.join("\n")
    );
}

/// Whether a line of a group is the call of an operator: `%y = nn.softmax(%x);`,
/// `(%a, %b) = topk(%x);`.
fn call(line: &str) -> bool {
    let Some((target, value)) = line.trim_start().split_once(" = ") else {
        return false;
    };
    let name = value.split('(').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
    let rest = &value[name.len()..];
    let whole =
        rest == "(" || rest.starts_with("(%") && (!rest.contains('[') || rest.contains('='));
    (line.starts_with("    %") || line.starts_with("    (%"))
        && !target.contains('[')
        && !name.is_empty()
        && name.chars().all(plain)
        && whole
}

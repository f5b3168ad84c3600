//! relax-opt's flags about files, and relax-bisect on a pass that is wrong on purpose.

#[path = "common/folder.rs"]
mod folder;

use std::process::{Command, Output};

use relax_base::Diagnostics;
use relax_cli::bisect::{Inputs, Kind, Question, Tolerance, Verdict, reduce, search};
use relax_driver::{PassConfig, Pipeline, ReadOptions, Session, Style};
use relax_ir::{Expr, Module};
use relax_passes::{Contract, Options, PassCx, PassDef, PassRun, Step};

use folder::Folder;

const OPT: &str = env!("CARGO_BIN_EXE_relax-opt");

impl Folder {
    fn opt(&self, args: &[&str]) -> Output {
        let mut command = Command::new(OPT);
        command.args(args).current_dir(&self.0).env("NO_COLOR", "1");
        command.output().expect("the tool starts")
    }
    fn names(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join(name)).expect("a folder");
        let name = |e: std::fs::DirEntry| e.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries.flatten().map(name).collect();
        names.sort();
        names
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn the_module_goes_to_stdout_and_everything_else_to_stderr() {
    let dir = Folder::new("streams");
    dir.write("a.relay", "def @main() { add(1, 2) }");
    let all = [
        "a.relay",
        "--pipeline",
        "fold-constant",
        "--dump-pipeline",
        "--print-ir-before=fold-constant",
        "--print-ir-after-all",
        "--print-ir-after-change",
        "--timing",
        "--stats",
        "--verify-roundtrip",
        "--no-types",
    ];
    let o = dir.opt(&all);
    assert_eq!(o.status.code(), Some(0));
    assert_eq!(
        text(&o.stdout),
        "#[version = \"0.0.5\"]\ndef @main() {\n  3\n}\n"
    );
    let err = text(&o.stderr);
    for part in [
        "before fold-constant",
        "after fold-constant",
        "changed by",
        "time",
        "statistics",
    ] {
        assert!(err.contains(part), "{part} in {err}");
    }
    let o = dir.opt(&["a.relay", "-o", "b.relay", "-O1", "--no-types"]);
    assert_eq!((o.stdout.len(), o.stderr.len()), (0, 0));
    assert_eq!(
        dir.read("b.relay"),
        "#[version = \"0.0.5\"]\ndef @main() {\n  3\n}\n"
    );
}

/// What goes to standard error for these flags.
fn said(dir: &Folder, flags: &[&str]) -> String {
    let o = dir.opt(&[&["a.relay", "-o", "out.relay"], flags].concat());
    assert_eq!(o.status.code(), Some(0), "{}", text(&o.stderr));
    assert!(o.stdout.is_empty());
    text(&o.stderr)
}

#[test]
fn pipelines_are_dumped_with_all_options_and_read_back() {
    let dir = Folder::new("dump");
    dir.write("a.relay", "def @main() { add(1, 2) }");
    let flags = ["--dump-pipeline", "--pipeline"];
    let dumped = said(
        &dir,
        &[&flags[..], &["fixpoint(fold-constant),fuse-ops{level=1}"]].concat(),
    );
    assert!(
        dumped.contains("fuse-ops{level=1,max-depth=256}"),
        "{dumped}"
    );
    assert_eq!(said(&dir, &[&flags[..], &[dumped.trim()]].concat()), dumped);
}

#[test]
fn changes_are_shown_as_differences_of_the_passes_that_made_them() {
    let dir = Folder::new("change");
    dir.write("a.relay", "def @main() { add(1, 2) }");
    let pipeline = [
        "--no-types",
        "--pipeline",
        "infer-type,fold-constant,fuse-ops",
    ];
    let err = said(
        &dir,
        &[&["--print-ir-after-change"], &pipeline[..]].concat(),
    );
    let expected = "// ---- changed by fold-constant ----\n--- before\n+++ after\n@@ -1,4 +1,4 @@\n \
                    #[version = \"0.0.5\"]\n def @main() {\n-  add(1, 2)\n+  3\n }\n";
    assert_eq!(err, expected);
}

#[test]
fn what_passes_did_and_how_long_they_took_is_said_for_each() {
    let dir = Folder::new("stats");
    dir.write("a.relay", "def @main() { add(1, 2) }");
    let pipeline = ["--pipeline", "fold-constant,dead-code-elimination"];
    let stats = said(&dir, &[&["--stats"], &pipeline[..]].concat());
    let (first, second) = stats
        .split_once("dead-code-elimination")
        .expect("two passes");
    assert!(
        first.contains("fold-constant") && first.contains(": changed the module\n"),
        "{stats}"
    );
    assert!(second.contains(": changed nothing\n"), "{stats}");
    let timing = said(&dir, &[&["--timing"], &pipeline[..]].concat());
    let lines: Vec<&str> = timing.lines().collect();
    assert_eq!(lines.len(), 4, "{timing}");
    assert!(lines[1..].iter().all(|l| l.contains(" ms ")), "{timing}");
    assert!(lines[3].ends_with("total"), "{timing}");
    for pass in ["fold-constant", "dead-code-elimination"] {
        assert_eq!(
            lines.iter().filter(|l| l.contains(pass)).count(),
            1,
            "{timing}"
        );
    }
}

#[test]
fn mistakes_of_a_pipeline_are_shown_at_their_places() {
    let dir = Folder::new("places");
    dir.write("a.relay", "def @main() { 1 }");
    let o = dir.opt(&["a.relay", "--pipeline", "infer-type,fuse-ops{levl=1}"]);
    assert_eq!(o.status.code(), Some(2));
    let err = text(&o.stderr);
    // Column 21 of the pipeline, where the option stands.
    assert!(err.contains(":1:21") && err.contains("level"), "{err}");
}

#[test]
fn each_part_of_a_file_has_a_folder_of_its_own() {
    let dir = Folder::new("tree");
    dir.write(
        "a.relay",
        "def @main() { add(1, 2) }\n// -----\ndef @main() { 4 }\n",
    );
    let o = dir.opt(&[
        "a.relay",
        "--split-input-file",
        "--pipeline",
        "infer-type,fold-constant",
        "--print-ir-tree-dir",
        "tree",
    ]);
    assert_eq!(o.status.code(), Some(0), "{}", text(&o.stderr));
    assert_eq!(dir.names("tree"), ["1", "2"]);
    let files = [
        "00_input.relay",
        "01_infer-type.relay",
        "02_fold-constant.relay",
    ];
    assert_eq!(dir.names("tree/1"), files);
    assert!(dir.read("tree/1/02_fold-constant.relay").contains("  3"));
    assert!(dir.read("tree/2/00_input.relay").contains("  4"));
}

#[test]
fn expected_diagnostics_are_written_into_each_part() {
    let dir = Folder::new("update");
    let before = "def @main() { %x }\n// -----\ndef @main() { %y }\n";
    dir.write("a.relay", before);
    let flags = [
        "a.relay",
        "--split-input-file",
        "--verify-diagnostics=update",
    ];
    assert_eq!(dir.opt(&flags).status.code(), Some(0));
    let after = dir.read("a.relay");
    assert_eq!(
        after.matches("// expected-error@+1 {{RX0201").count(),
        2,
        "{after}"
    );
    let check = ["a.relay", "--split-input-file", "--verify-diagnostics"];
    assert_eq!(dir.opt(&check).status.code(), Some(0));
    dir.write("a.relay", before);
    assert_eq!(dir.opt(&check).status.code(), Some(1));
}

#[test]
fn weights_come_from_both_kinds_of_files() {
    let dir = Folder::new("params");
    dir.write(
        "a.relay",
        "def @main(%x: float32, %w: Tensor[(2), float32]) { multiply(%x, %w) }",
    );
    // One tensor `w` of two float32: 1.5 and -2.
    let header = br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header);
    bytes.extend([1.5f32, -2.0].iter().flat_map(|f| f.to_le_bytes()));
    dir.write("w.safetensors", &bytes);
    let o = dir.opt(&["a.relay", "--params", "w.safetensors", "--no-types"]);
    let out = text(&o.stdout);
    assert!(
        out.contains("def @main(%x: float32) {"),
        "{out}{}",
        text(&o.stderr)
    );
    let values = vec![(
        "w".to_owned(),
        relax_tensor::Tensor::from_slice(&[2], &[1.5f32, -2.0]),
    )];
    relax_cli::npz::write(&dir.0.join("w.npz"), &values).expect("a file");
    let o = dir.opt(&["a.relay", "--params", "w.npz", "--no-types"]);
    assert_eq!(text(&o.stdout), out);
    dir.write("w.safetensors", b"no");
    let o = dir.opt(&["a.relay", "--params", "w.safetensors"]);
    assert_eq!(o.status.code(), Some(2));
}

#[test]
fn dumps_without_metadata_get_stubs() {
    let dir = Folder::new("stubs");
    dir.write("a.relay", "def @main() -> Tensor[(2, 3), float32] {\n  meta[relay.Constant][0] /* ty=Tensor[(2, 3), float32] */\n}\n");
    assert_eq!(dir.opt(&["a.relay"]).status.code(), Some(1));
    let o = dir.opt(&["a.relay", "--stub-constants", "--pipeline", "infer-type"]);
    assert_eq!(o.status.code(), Some(0), "{}", text(&o.stderr));
}

#[test]
fn unknown_passes_of_print_flags_are_said() {
    let dir = Folder::new("unknown");
    dir.write("a.relay", "def @main() { 1 }");
    let o = dir.opt(&["a.relay", "--print-ir-after=fuse-op"]);
    assert_eq!(o.status.code(), Some(2));
    assert!(text(&o.stderr).contains("did you mean `fuse-ops`?"));
}

#[test]
fn reproducers_run_again() {
    let dir = Folder::new("reproducer");
    dir.write(
        "a.relay",
        "// relax-opt pipeline: fold-constant\ndef @main() { add(1, 2) }\n",
    );
    let o = dir.opt(&["a.relay", "--run-reproducer", "--no-types"]);
    assert!(text(&o.stdout).contains("  3\n"));
    dir.write("a.relay", "def @main() { add(1, 2) }\n");
    assert_eq!(
        dir.opt(&["a.relay", "--run-reproducer"]).status.code(),
        Some(2)
    );
}

/// Subtractions lose their second operand: wrong unless it is zero.
static DROPS: PassDef = PassDef {
    name: "drops-second-operands",
    doc: "Wrong on purpose.",
    options: &[],
    contract: Contract::PLAIN,
    run: |cx| {
        rewrite_subtractions(cx, |m, args| {
            let _ = m;
            args[0]
        });
        Ok(())
    },
};

/// Subtractions become references to a variable that nothing binds.
static BREAKS: PassDef = PassDef {
    name: "breaks-the-module",
    doc: "Wrong on purpose.",
    options: &[],
    contract: Contract::PLAIN,
    run: |cx| {
        rewrite_subtractions(cx, |m, _| {
            m.fresh_var("lost", None, relax_ir::VarStyle::Let).1
        });
        Ok(())
    },
};

/// Crashes where there is a subtraction.
static CRASHES: PassDef = PassDef {
    name: "crashes",
    doc: "Wrong on purpose.",
    options: &[],
    contract: Contract::PLAIN,
    run: |cx| {
        rewrite_subtractions(cx, |_, _| panic!("a subtraction"));
        Ok(())
    },
};

fn rewrite_subtractions(
    cx: &mut PassCx<'_>,
    mut f: impl FnMut(&mut Module, &[relax_ir::ExprId]) -> relax_ir::ExprId,
) {
    let subtract = relax_ops::registry().find("subtract").expect("an operator");
    cx.module.rewrite_globals(|m, new, _| match m.exprs[new] {
        Expr::Call { callee, args, .. } if m.exprs[callee] == Expr::Op(subtract) => {
            let args = m.list(args).to_vec();
            f(m, &args)
        }
        _ => new,
    });
}

const PROGRAM: &str = "def @helper(%a: Tensor[(6, 4), float32]) { exp(%a) }
def @unused(%a: float32) { %a }
def @main(%x: Tensor[(6, 4), float32], %y: Tensor[(4), float32], %c: bool) {
  let %a = tanh(%x);
  let %b = if (%c) { add(%a, %y) } else { multiply(@helper(%a), %y) };
  %0 = subtract(%b, %y);
  %1 = nn.relu(%0);
  (sum(%1, axis=[1]), sqrt(abs(%a)))
}
";

fn question(wrong: &'static PassDef) -> (Module, Question) {
    let mut session = Session::new(ReadOptions::default());
    let (module, errors) = session.read("program", PROGRAM.into());
    assert!(!errors.has_errors());
    let mut pipeline = session
        .pipeline("infer-type,fold-constant")
        .expect("a pipeline");
    pipeline.steps.push(Step::Pass(PassRun {
        pass: wrong,
        options: Options::defaults(wrong),
    }));
    let rest: Result<Pipeline, Diagnostics> = session.pipeline("dead-code-elimination");
    pipeline.steps.extend(rest.expect("a pipeline").steps);
    let question = Question {
        pipeline,
        config: PassConfig::default(),
        entry: "main".into(),
        inputs: Inputs::default(),
        tolerance: Tolerance {
            relative: 1e-5,
            absolute: 1e-6,
            zeros: false,
        },
    };
    (module, question)
}

/// The reduced program of a wrong pass.
fn reduced(wrong: &'static PassDef, expected: impl Fn(&Kind) -> bool) -> String {
    let (module, question) = question(wrong);
    let Verdict::Wrong(finding) = search(&module, &question) else {
        panic!("`{}` is not found", wrong.name)
    };
    assert_eq!((finding.pass, finding.index), (wrong.name, 2));
    assert!(expected(&finding.kind), "{:?}", finding.kind);
    let less = reduce(&module, &question, &finding);
    assert_eq!(less.pipeline.to_string(), wrong.name);
    assert!(expected(&less.finding.kind));
    relax_driver::print(&less.module, Style::Pretty, None)
}

#[test]
fn a_pass_that_computes_something_else_is_found() {
    let text = reduced(&DROPS, |k| matches!(k, Kind::Differs(_)));
    assert!(
        text.contains("subtract(") && text.lines().count() <= 4,
        "{text}"
    );
}

#[test]
fn a_pass_that_breaks_the_module_is_found() {
    let text = reduced(&BREAKS, |k| matches!(k, Kind::Broken(_)));
    assert!(
        text.contains("subtract(") && text.lines().count() <= 4,
        "{text}"
    );
}

#[test]
fn a_pass_that_crashes_is_found() {
    let text = reduced(&CRASHES, |k| matches!(k, Kind::Crashed(_)));
    assert!(
        text.contains("subtract(") && text.lines().count() <= 4,
        "{text}"
    );
}

#[test]
fn good_pipelines_are_found_good() {
    let (module, mut question) = question(&DROPS);
    question.pipeline.steps.remove(2);
    assert!(matches!(search(&module, &question), Verdict::Same(3)));
}

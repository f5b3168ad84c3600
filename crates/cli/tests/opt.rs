//! relax-opt's flags about files, and relax-bisect on deliberately broken passes.

#[path = "common/folder.rs"]
mod folder;

use std::process::{Command, Output};

use relax::{PassConfig, Pipeline, ReadOptions, Session, Style};
use relax_base::Diagnostics;
use relax_cli::bisect::{Inputs, Kind, Question, Tolerance, Verdict, reduce, search};
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

/// Returns the error output for these flags.
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
fn differences_have_colours_where_they_are_asked_for() {
    let dir = Folder::new("colours");
    dir.write("a.relay", "def @main() { add(1, 2) }");
    let colored = |set: &[(&str, &str)]| {
        let mut command = Command::new(OPT);
        let flags = ["a.relay", "-O1", "--print-ir-after-change", "--no-types"];
        command.args(flags).current_dir(&dir.0);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command.envs(set.iter().copied());
        let o = command.output().expect("the tool starts");
        let err = text(&o.stderr);
        assert!(err.contains("add(1, 2)"), "{err}");
        err.contains("\x1b[31m-  add(1, 2)") && err.contains("\x1b[32m+  3")
    };
    // It is no terminal.
    assert!(!colored(&[]));
    assert!(colored(&[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&[("CLICOLOR_FORCE", "0")]));
    assert!(!colored(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn the_report_of_a_difference_shows_the_module_after_the_passes() {
    let dir = Folder::new("differ");
    dir.write("a.relay", "def @main(%x: int32) { add(%x, add(1, 2)) }");
    dir.write("b.relay", "def @main(%x: int32) {\n  add(%x, 4)\n}\n");
    let flags = [
        "--pipeline",
        "fold-constant",
        "--structural-equal",
        "b.relay",
    ];
    let o = dir.opt(&[&["a.relay"], &flags[..]].concat());
    assert_eq!((o.status.code(), o.stdout.len()), (Some(1), 0));
    let err = text(&o.stderr);
    assert!(err.contains("left: <after the passes>:3:11"), "{err}");
    assert!(
        err.contains("add(%x, 3)") && err.contains("add(%x, 4)"),
        "{err}"
    );
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
    assert_eq!(lines.len(), 9, "{timing}");
    assert!(lines[1..].iter().all(|l| l.contains(" ms ")), "{timing}");
    assert!(lines[8].ends_with("total"), "{timing}");
    for pass in [
        "fold-constant",
        "dead-code-elimination",
        "(reading)",
        "(starting threads)",
        "(finding types of what was read)",
        "(verifying, finding types)",
        "(printing)",
    ] {
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
    // Column 21 of the pipeline, the position of the option.
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
fn tuples_and_constants_without_metadata_come_from_files_too() {
    let dir = Folder::new("tuples");
    dir.write(
        "a.relay",
        "def @main(%x: float32, %p: (float32, (float32, float32))) {
           add(multiply(%x, %p.0), add(%p.1.0, multiply(%p.1.1, meta[relay.Constant][0] /* ty=float32 */)))
         }",
    );
    let number = |name: &str, x: f32| {
        let value = relax_tensor::Tensor::from_slice(&[], &[x]);
        (name.to_owned(), value)
    };
    let all = vec![
        number("p.0", 2.0),
        number("p.1.0", 3.0),
        number("p.1.1", 4.0),
        number("meta[relay.Constant][0]", 5.0),
    ];
    relax_cli::npz::write(&dir.0.join("w.npz"), &all).expect("a file");
    let flags = [
        "--params",
        "w.npz",
        "--no-types",
        "--pipeline",
        "simplify-expr,fold-constant",
    ];
    let o = dir.opt(&[&["a.relay"], &flags[..]].concat());
    assert_eq!(
        text(&o.stdout),
        "#[version = \"0.0.5\"]\ndef @main(%x: float32) {\n  %0 = multiply(%x, 2f);\n  add(%0, 23f)\n}\n",
        "{}",
        text(&o.stderr)
    );
    // A tuple is bound as a whole.
    relax_cli::npz::write(&dir.0.join("w.npz"), &all[1..]).expect("a file");
    let o = dir.opt(&["a.relay", "--params", "w.npz"]);
    assert!(text(&o.stderr).contains("%p.0 is missing: a tuple is bound as a whole"));
    // The bisector uses the same names for fields.
    dir.write(
        "b.relay",
        "def @main(%x: float32, %p: (float32, (float32, float32))) { add(multiply(%x, %p.0), divide(%p.1.0, %p.1.1)) }",
    );
    relax_cli::npz::write(&dir.0.join("p.npz"), &all[..3]).expect("a file");
    let bisect = env!("CARGO_BIN_EXE_relax-bisect");
    let run = |inputs: &str| {
        let mut command = Command::new(bisect);
        command
            .args(["b.relay", "-O2", "--inputs", inputs])
            .current_dir(&dir.0);
        command.output().expect("the tool starts")
    };
    let o = run("p.npz");
    assert_eq!(o.status.code(), Some(0), "{}", text(&o.stderr));
    relax_cli::npz::write(&dir.0.join("p.npz"), &[number("p.2", 1.0)]).expect("a file");
    let o = run("p.npz");
    assert_eq!(o.status.code(), Some(2));
    assert!(
        text(&o.stderr).contains("the array `p.2` belongs to no parameter"),
        "{}",
        text(&o.stderr)
    );
}

#[test]
fn a_file_of_several_modules_that_is_not_split_is_said() {
    let dir = Folder::new("unsplit");
    dir.write(
        "a.relay",
        "def @main() { 1 }\n// -----\ndef @main() { 2 }\n",
    );
    let o = dir.opt(&["a.relay"]);
    assert_eq!(o.status.code(), Some(1));
    assert!(text(&o.stderr).contains("with --split-input-file the parts"));
    let o = dir.opt(&["a.relay", "--split-input-file"]);
    assert_eq!((o.status.code(), o.stderr.len()), (Some(0), 0));
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

impl Folder {
    /// Runs a tool with the deliberately broken passes enabled.
    fn wrong(&self, tool: &str, args: &[&str]) -> Output {
        let mut command = Command::new(tool);
        let command = command.args(args).current_dir(&self.0);
        let command = command.env("NO_COLOR", "1").env("RELAX_TEST_PASSES", "1");
        command.output().expect("the tool starts")
    }
}

#[test]
fn failures_write_reproducers_that_fail_again() {
    let dir = Folder::new("failures");
    let program = "def @main(%x: Tensor[(2,), float32]) {\n  add(%x, add(1f, 2f))\n}\n";
    for (pass, exit, says) in [
        ("test-crash", 2, "`test-crash` does what it says"),
        ("test-break", 1, "RX0905"),
        ("test-ill-type", 1, "RX0906"),
    ] {
        dir.write("a.relay", program);
        let pipeline = format!("infer-type,fold-constant,{pass},dead-code-elimination");
        let run = [
            "a.relay",
            "--pipeline",
            &pipeline,
            "--reproducer",
            "r.relay",
        ];
        let o = dir.wrong(OPT, &run);
        let err = text(&o.stderr);
        assert_eq!(o.status.code(), Some(exit), "{err}");
        assert!(o.stdout.is_empty(), "a broken module is not printed");
        assert!(err.contains(says) && err.contains(pass), "{err}");
        assert!(
            err.contains("`relax-opt --run-reproducer r.relay` repeats this"),
            "{err}"
        );
        // The pipeline with all options, and the original text.
        let (first, rest) = dir
            .read("r.relay")
            .split_once('\n')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("lines");
        let full = "infer-type,fold-constant{max-bytes=1073741824},";
        assert_eq!(
            first,
            format!("// relax-opt pipeline: {full}{pass},dead-code-elimination")
        );
        assert_eq!(rest, program);
        let again = dir.wrong(OPT, &["r.relay", "--run-reproducer"]);
        assert_eq!(again.status.code(), Some(exit));
        assert!(
            text(&again.stderr).contains(says),
            "{}",
            text(&again.stderr)
        );
        // The bisector accepts it too, names the pass and reduces the program.
        let bisect = env!("CARGO_BIN_EXE_relax-bisect");
        let o = dir.wrong(bisect, &["r.relay", "--reduce", "-o", "small.relay"]);
        let out = text(&o.stdout) + &text(&o.stderr);
        assert_eq!(o.status.code(), Some(1), "{out}");
        assert!(out.contains(pass), "{out}");
        let small = dir.read("small.relay");
        assert!(
            small.starts_with(&format!("// relax-opt pipeline: {pass}\n")),
            "{small}"
        );
        assert!(!small.contains("add("), "{small}");
        std::fs::remove_file(dir.0.join("r.relay")).expect("it was written");
    }
    // Without the variable they do not exist.
    let o = dir.opt(&["a.relay", "--pipeline", "test-crash"]);
    assert_eq!(o.status.code(), Some(2));
    assert!(text(&o.stderr).contains("RX0902"));
}

#[test]
fn a_reproducer_is_written_whatever_becomes_of_the_passes() {
    let dir = Folder::new("reproducer");
    let ill = "def @main(%x: Tensor[(2,), float32]) { nn.dense(%x, %x, units=2) }";
    for (program, code) in [(ill, 1), ("def @main() { add(1, 2) }", 0)] {
        dir.write("a.relay", program);
        let flags = ["a.relay", "--pipeline", "fold-constant", "--no-types"];
        let asked = dir.opt(&[&flags[..], &["--reproducer", "r.relay"]].concat());
        assert_eq!(asked.status.code(), Some(code));
        let whole = dir.read("r.relay");
        assert!(
            whole.starts_with("// relax-opt pipeline: fold-constant{"),
            "{whole}"
        );
        assert!(whole.ends_with(program), "{whole}");
        let again = dir.opt(&["r.relay", "--run-reproducer", "--no-types"]);
        assert_eq!(again.status.code(), Some(code));
        assert_eq!(text(&again.stdout), text(&asked.stdout));
    }
}

#[test]
fn modules_are_printed_around_the_passes_that_are_named() {
    let dir = Folder::new("around");
    dir.write("a.relay", "def @main() { add(1, 2) }");
    let pipeline = [
        "--no-types",
        "--pipeline",
        "infer-type,fold-constant,fuse-ops",
    ];
    let heads = |flags: &[&str]| -> Vec<String> {
        let err = said(&dir, &[flags, &pipeline].concat());
        let heads = err.lines().filter_map(|l| l.strip_prefix("// ---- "));
        let head = |l: &str| l.split(['{', ' ']).take(2).collect::<Vec<_>>().join(" ");
        heads.map(head).collect()
    };
    let two = ["after infer-type", "after fuse-ops"];
    assert_eq!(heads(&["--print-ir-after", "infer-type,fuse-ops"]), two);
    assert_eq!(
        heads(&["--print-ir-after=infer-type", "--print-ir-after=fuse-ops"]),
        two
    );
    assert_eq!(heads(&["--print-ir-before-all"]).len(), 3);
    let o = dir.opt(&["a.relay", "--print-ir-after", "FuseOps"]);
    assert_eq!(
        text(&o.stderr),
        "relax-opt: --print-ir-after: there is no pass `FuseOps`; did you mean `fuse-ops`?\n"
    );
}

#[test]
fn passes_are_explained_one_by_one() {
    let dir = Folder::new("help-pass");
    let o = dir.opt(&["--help-pass", "fuse-ops"]);
    let said = text(&o.stdout);
    for part in ["fuse-ops: ", "needs types", "\n  level (int; ", "max-depth"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(text(&dir.opt(&["--help-pass", "O2"]).stdout).contains("  fuse-ops{level=2}"));
    let o = dir.opt(&["--help-pass", "FoldScale"]);
    assert_eq!(o.status.code(), Some(2));
    assert!(text(&o.stderr).starts_with("relax-opt: there is no pass `FoldScale`"));
}

#[test]
fn options_name_functions_that_are_there() {
    let dir = Folder::new("functions");
    dir.write("a.relay", "def @first() { 1 }\ndef @second() { 2 }\n");
    let pass = "remove-unused-functions{entry=\"@first secnd\"}";
    let o = dir.opt(&["a.relay", "--pipeline", pass]);
    assert_eq!(o.status.code(), Some(1));
    let err = text(&o.stderr);
    assert!(
        err.contains("[RX1250]") && err.contains("names @secnd"),
        "{err}"
    );
    assert!(err.contains("did you mean `second`?"), "{err}");
    let o = dir.opt(&["a.relay", "--pipeline", &pass.replace("secnd", "second")]);
    assert_eq!(o.status.code(), Some(0), "{}", text(&o.stderr));
}

#[test]
fn arrays_that_do_not_fit_are_listed() {
    let dir = Folder::new("misfits");
    dir.write(
        "a.relay",
        "def @main(%x: Tensor[(2, 3), float32], %weight: Tensor[(4, 3), float32], %u) { 1 }",
    );
    let zeros = |shape: &[i64]| relax_tensor::Tensor::zeros(relax_tensor::DType::F32, shape);
    let all = vec![
        ("x".to_owned(), zeros(&[3, 2])),
        ("wieght".to_owned(), zeros(&[4, 3])),
        ("u".to_owned(), zeros(&[7])),
    ];
    relax_cli::npz::write(&dir.0.join("w.npz"), &all).expect("a file");
    let o = dir.opt(&["a.relay", "--params", "w.npz"]);
    assert_eq!((o.status.code(), o.stdout.len()), (Some(2), 0));
    assert_eq!(
        text(&o.stderr),
        "relax-opt: w.npz does not fit @main:\n  %x must be Tensor[(2, 3), float32], but the array is \
         Tensor[(3, 2), float32]\n  the array `wieght` belongs to no parameter (did you mean `weight`?)\n"
    );
    dir.write("w.bin", "no arrays");
    let o = dir.opt(&["a.relay", "--params", "w.bin"]);
    assert!(
        text(&o.stderr).contains("no .npz archive (np.savez) and no .npy file"),
        "{}",
        text(&o.stderr)
    );
}

#[test]
fn printing_around_a_pass_that_is_not_run_is_said() {
    let dir = Folder::new("not-run");
    dir.write("a.relay", "def @main() { 1 }");
    let err = said(
        &dir,
        &["--pipeline", "infer-type", "--print-ir-after=fuse-ops"],
    );
    assert!(
        err.contains("--print-ir-after fuse-ops") && err.contains("does not run"),
        "{err}"
    );
}

/// Drops the second operand of subtractions: wrong unless it is zero.
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

/// Replaces subtractions by references to an unbound variable.
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

/// Crashes on a subtraction.
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
    let (module, errors) = session.read("program", PROGRAM.as_bytes().to_vec());
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

/// Returns the reduced program for a broken pass.
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
    relax::print(&less.module, Style::Pretty, None)
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

//! Invocation of relax-fmt and relax-check: streams, exit codes, output formats.

#[path = "common/folder.rs"]
mod folder;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use folder::Folder;

const FMT: &str = env!("CARGO_BIN_EXE_relax-fmt");
const CHECK: &str = env!("CARGO_BIN_EXE_relax-check");
const OPT: &str = env!("CARGO_BIN_EXE_relax-opt");

impl Folder {
    fn run(&self, tool: &str, args: &[&str]) -> Outcome {
        run(tool, args, "", &self.0)
    }
}

struct Outcome {
    code: i32,
    out: String,
    err: String,
}

fn run(tool: &str, args: &[&str], input: &str, dir: &Path) -> Outcome {
    let mut child = Command::new(tool)
        .args(args)
        .current_dir(dir)
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool starts");
    let written = (child.stdin.take().expect("a pipe")).write_all(input.as_bytes());
    // A tool that is used incorrectly may exit before it reads its input.
    let left = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    assert!(written.as_ref().err().is_none_or(left), "{written:?}");
    let out = child.wait_with_output().expect("it ends");
    Outcome {
        code: out.status.code().expect("it is not killed"),
        out: String::from_utf8(out.stdout).expect("text"),
        err: String::from_utf8(out.stderr).expect("text"),
    }
}

fn stdin(tool: &str, args: &[&str], input: &str) -> Outcome {
    run(tool, args, input, &std::env::temp_dir())
}

const UGLY: &str = "def @main(%x:float32){%x}";
const NEAT: &str = "def @main(%x: float32) {\n  %x\n}\n";

#[test]
fn fmt_reads_and_writes_the_standard_streams() {
    let o = stdin(FMT, &["-"], UGLY);
    assert_eq!((o.code, o.out.as_str(), o.err.as_str()), (0, NEAT, ""));
    let o = stdin(FMT, &["--check", "-"], UGLY);
    assert_eq!((o.code, o.out.as_str()), (1, "<stdin>\n"));
    let o = stdin(FMT, &["--check", "-"], NEAT);
    assert_eq!((o.code, o.out.as_str()), (0, ""));
    let o = stdin(FMT, &["--stdin-filename", "model.relay"], "def @main( {");
    assert_eq!((o.code, o.out.as_str()), (1, ""));
    assert!(o.err.contains("model.relay:1:"), "{}", o.err);
}

#[test]
fn fmt_works_on_folders_and_leaves_out_what_is_ignored() {
    let dir = Folder::new("folders");
    dir.write("a.relay", UGLY)
        .write("b/c.relay", UGLY)
        .write("b/d.relay", NEAT);
    dir.write("b/notes.txt", UGLY)
        .write("gen/x.relay", UGLY)
        .write(".gitignore", "gen/\n");
    let o = dir.run(FMT, &["--check", "."]);
    assert_eq!((o.code, o.out.as_str()), (1, "./a.relay\n./b/c.relay\n"));
    let o = dir.run(FMT, &["--diff", "a.relay"]);
    assert_eq!(o.code, 1);
    assert!(
        o.out.contains("\n-def @main(%x:float32){%x}\n"),
        "{}",
        o.out
    );
    assert_eq!(
        dir.read("a.relay"),
        UGLY,
        "--check and --diff write nothing"
    );
    let o = dir.run(FMT, &["-j", "2", "."]);
    assert_eq!((o.code, o.out.as_str(), o.err.as_str()), (0, "", ""));
    assert_eq!(dir.read("a.relay"), NEAT);
    assert_eq!(dir.read("b/c.relay"), NEAT);
    assert_eq!(dir.read("b/notes.txt"), UGLY);
    assert_eq!(dir.read("gen/x.relay"), UGLY);
}

#[test]
fn fmt_has_nothing_to_do_in_the_projects_own_examples() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let o = run(FMT, &["--check", "examples"], "", &root);
    assert_eq!((o.code, o.out.as_str(), o.err.as_str()), (0, "", ""));
}

#[test]
fn fmt_upgrades_the_documentations_spellings() {
    let old = "data Nat { Z : () -> Nat }\n\
               def @main<a : Type>(%x : Nat) {\n  match (%x) { case Z() { %x } }\n}\n";
    let o = stdin(FMT, &["--upgrade", "-"], old);
    assert_eq!(o.code, 0, "{}", o.err);
    for (gone, new) in [
        ("data", "type Nat"),
        ("case", "Z() =>"),
        ("<a", "[a: Type]"),
    ] {
        assert!(!o.out.contains(gone) && o.out.contains(new), "{}", o.out);
    }
    let again = stdin(FMT, &["--upgrade", "-"], &o.out);
    assert_eq!(again.out, o.out, "the second time changes nothing");
    let o = stdin(FMT, &["-"], old);
    assert!(
        o.out.contains("case"),
        "without it, spellings stay: {}",
        o.out
    );
}

#[test]
fn fmt_goes_on_after_a_file_that_fails() {
    let dir = Folder::new("failures");
    dir.write("a.relay", "def @main( {")
        .write("b.relay", UGLY)
        .write("c.relay", b"\xff");
    let o = dir.run(FMT, &["a.relay", "none.relay", "b.relay", "c.relay"]);
    assert_eq!(o.code, 2);
    assert!(o.err.contains("cannot read none.relay"), "{}", o.err);
    assert_eq!(dir.read("a.relay"), "def @main( {");
    assert_eq!(dir.read("b.relay"), NEAT);
    assert_eq!(
        std::fs::read(dir.0.join("c.relay")).expect("a file"),
        b"\xff"
    );
    assert_eq!(dir.run(FMT, &["a.relay", "b.relay"]).code, 1);
    assert_eq!(dir.run(FMT, &[]).code, 0, "standard input is empty");
}

#[test]
fn fmt_wraps_at_the_width_that_is_asked_for() {
    let text = "def @main(%first: float32, %second: float32) {\n  %first\n}\n";
    assert_eq!(stdin(FMT, &["-"], text).out, text);
    let narrow = stdin(FMT, &["--width", "40", "-"], text).out;
    assert!(
        narrow.lines().all(|l| l.len() <= 40) && narrow.lines().count() > 3,
        "{narrow}"
    );
    assert_eq!(stdin(FMT, &["--width", "3", "-"], text).code, 2);
}

#[test]
fn fmt_keeps_the_ends_of_lines() {
    let dir = Folder::new("line-ends");
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let text = "/* over\n   lines */\ndef @main(%x:float32){\n  // fmt: off\n  let %a   = 1;\n  // fmt: on\n  %x }\n";
    dir.write("lf.relay", text).write("crlf.relay", crlf(text));
    // One line with another terminator.
    dir.write("mixed.relay", crlf(text).replacen("\r\n", "\n", 1));
    let o = dir.run(FMT, &["."]);
    assert_eq!((o.code, o.err.as_str()), (0, ""));
    let lf = dir.read("lf.relay");
    assert!(
        !lf.contains('\r') && lf.contains("def @main(%x: float32) {\n"),
        "{lf}"
    );
    assert_eq!(dir.read("crlf.relay"), crlf(&lf));
    assert_eq!(dir.read("mixed.relay"), crlf(&lf));
    let o = dir.run(FMT, &["--check", "."]);
    assert_eq!((o.code, o.out.as_str()), (0, ""));
}

const BAD: &str = "def @main(%x: float32) {\n  let %y = add(%x, %x)\n  %z\n}\n";

#[test]
fn check_mends_what_is_certain() {
    let dir = Folder::new("mends");
    dir.write("a.relay", BAD);
    let o = dir.run(CHECK, &["--fix", "--format", "short", "a.relay"]);
    assert_eq!(dir.read("a.relay"), BAD.replace("%x)\n", "%x);\n"));
    assert_eq!(o.code, 1);
    assert_eq!(
        o.out,
        "a.relay:3:3: error[RX0201]: there is no variable `%z` here\n"
    );
    assert_eq!(o.err, "1 file checked: 1 error, 0 warnings, 1 fixed\n");
    let o = stdin(CHECK, &["--fix", "-"], "def main(x: float32) { %x }");
    assert_eq!(
        (o.code, o.out.as_str()),
        (0, "def @main(%x: float32) { %x }")
    );
}

#[test]
fn check_tells_in_json() {
    let o = stdin(CHECK, &["--format", "json", "-"], BAD);
    assert_eq!(o.code, 1);
    let json: serde_json::Value = serde_json::from_str(&o.out).expect("JSON");
    assert_eq!(json["errors"], 1);
    let d = &json["diagnostics"][0];
    assert_eq!(d["code"], "RX0107");
    assert_eq!(d["place"]["file"], "<stdin>");
    assert_eq!(d["place"]["start"]["line"], 2);
    assert_eq!(d["place"]["start"]["column"], 23);
    assert_eq!(d["fixes"][0]["certain"], true);
    assert_eq!(d["fixes"][0]["edits"][0]["text"], ";");
}

#[test]
fn check_tells_in_sarif() {
    let o = stdin(CHECK, &["--format", "sarif", "-"], BAD);
    let log: serde_sarif::sarif::Sarif = serde_json::from_str(&o.out).expect("a SARIF log");
    let run = &log.runs[0];
    let result = &run.results.as_ref().expect("results")[0];
    assert_eq!(result.rule_id.as_deref(), Some("RX0107"));
    let rules = run.tool.driver.rules.as_ref().expect("rules");
    assert_eq!(
        rules[result.rule_index.expect("an index") as usize].id,
        "RX0107"
    );
    let region = result.locations.as_ref().expect("places")[0]
        .physical_location
        .as_ref();
    let region = region.and_then(|p| p.region.as_ref()).expect("a region");
    assert_eq!(
        (region.start_line, region.start_column),
        (Some(2), Some(23))
    );
    assert_eq!(result.fixes.as_ref().expect("fixes").len(), 1);
}

#[test]
fn check_tells_github() {
    let o = stdin(CHECK, &["--format", "github", "-"], BAD);
    let start = "::error file=<stdin>,line=2,endLine=2,col=23,endColumn=23,title=RX0107::";
    assert!(o.out.starts_with(start), "{}", o.out);
}

#[test]
fn check_has_three_exit_codes() {
    let warns = "free_var %x: float32;\nadd(%x, %y)\n";
    assert_eq!(stdin(CHECK, &["-"], warns).code, 0);
    assert_eq!(stdin(CHECK, &["--deny", "warnings", "-"], warns).code, 1);
    assert_eq!(stdin(CHECK, &["-"], BAD).code, 1);
    let dir = Folder::new("codes");
    dir.write("a.relay", NEAT);
    let o = dir.run(CHECK, &["none.relay", "a.relay"]);
    assert_eq!(o.code, 2);
    assert!(
        o.err.ends_with("1 file checked: 0 errors, 0 warnings\n"),
        "{}",
        o.err
    );
}

#[test]
fn check_explains_codes() {
    let o = stdin(CHECK, &["--explain", "RX0107"], "");
    assert_eq!(o.code, 0);
    assert!(o.out.starts_with("# RX0107: "), "{}", o.out);
    assert_eq!(stdin(CHECK, &["--explain", "RX9999"], "").code, 2);
}

#[test]
fn check_gives_the_same_with_any_number_of_threads() {
    let dir = Folder::new("threads");
    for i in 0..20 {
        dir.write(&format!("{i}.relay"), BAD.replace("main", &format!("f{i}")));
    }
    let one = dir.run(CHECK, &["-j", "1", "--format", "short", "."]);
    let four = dir.run(CHECK, &["-j", "4", "--format", "short", "."]);
    assert_eq!((one.code, one.out.lines().count()), (1, 20));
    assert_eq!((one.out, one.err), (four.out, four.err));
}

#[test]
fn opt_shows_the_first_difference_in_context() {
    let dir = Folder::new("difference");
    let text = |op: &str, name: &str| {
        format!(
            "def @main(%{name}: float32) -> float32 {{\n  let %a = tanh(%{name});\n  \
             let %b = {op}(%a, %{name});\n  exp(%b)\n}}\n"
        )
    };
    dir.write("left.relay", text("add", "x"))
        .write("same.relay", text("add", "y"))
        .write("right.relay", text("multiply", "y"));
    let o = dir.run(OPT, &["left.relay", "--structural-equal", "same.relay"]);
    assert_eq!((o.code, o.out.as_str(), o.err.as_str()), (0, "", ""));
    let o = dir.run(OPT, &["left.relay", "--structural-equal", "right.relay"]);
    assert_eq!((o.code, o.out.as_str()), (1, ""));
    for part in [
        "in @main",
        "left: left.relay:3:12",
        "3 │   let %b = add(%a, %x);",
        "right: right.relay:3:12",
        "3 │   let %b = multiply(%a, %y);",
        "4 │   exp(%b)",
    ] {
        assert!(o.err.contains(part), "{part}:\n{}", o.err);
    }
}

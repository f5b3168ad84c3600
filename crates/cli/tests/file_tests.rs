//! Runs the file tests in `tests/` at the root of the repository.
//!
//! A test is a `.relay` file. Its first lines say what to run, its last lines what the output is:
//!
//! ```text
//! // run: relax-opt %s --print-style tvm
//! def @main() { 1 }
//! // expect: exit 0
//! //| #[version = "0.0.5"]
//! //| …
//! ```
//!
//! * `// run: TOOL ARGS` runs a tool of this crate; `%s` is the file, `%t` a scratch path, `%r` the
//!   repository; blanks within `'…'` do not separate words. Several `run` lines run one after the
//!   other, each with an `// expect:` block of its own.
//! * The tool's input ends at the first `// expect:`.
//! * Standard output and standard error are compared together, output first.
//! * Files under `tests/errors/` have no `expect` blocks: source and output are in an insta
//!   snapshot in `snapshots/`.
//!
//! The files of `examples/` (except those of real models) are tests too: relax-check must report
//! nothing, not even a warning.
//!
//! `RELAX_BLESS=1 cargo test` rewrites all expectations; review every line that it changes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use relax_testkit::files;

const TOOLS: &[(&str, Option<&str>)] = &[
    ("relax-fmt", option_env!("CARGO_BIN_EXE_relax-fmt")),
    ("relax-check", option_env!("CARGO_BIN_EXE_relax-check")),
    ("relax-opt", option_env!("CARGO_BIN_EXE_relax-opt")),
    ("relax-bisect", option_env!("CARGO_BIN_EXE_relax-bisect")),
    ("relax-run", option_env!("CARGO_BIN_EXE_relax-run")),
    ("relaxc", option_env!("CARGO_BIN_EXE_relaxc")),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository")
}

fn bless() -> bool {
    std::env::var_os("RELAX_BLESS").is_some_and(|v| v == "1")
}

fn main() {
    let args = Arguments::from_args();
    let root = root();
    let mut examples = files(&root.join("examples"), "relay");
    examples.retain(|p| !p.starts_with(root.join("examples/models")));
    let mut texts = files(&root.join("tests"), "relay");
    // Compared with the graphs of the same name in `crates/relax/tests/graphs.rs`.
    texts.retain(|p| !p.starts_with(root.join("tests/graphs")));
    // Compared with their TVMScript forms in `crates/relax/tests/rescue.rs`.
    texts.retain(|p| !p.starts_with(root.join("tests/rescue")));
    let trials = texts
        .into_iter()
        .chain(examples)
        .map(|path| {
            let name = path
                .strip_prefix(&root)
                .expect("below the root")
                .display()
                .to_string();
            let root = root.clone();
            Trial::test(name, move || run_file(&root, &path))
        })
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

/// Checks a file of `examples/`.
fn run_example(root: &Path, relative: &Path) -> Result<(), Failed> {
    let out = Command::new(tool_path("relax-check")?)
        .args(["--deny", "warnings"])
        .arg(relative)
        .current_dir(root)
        .output()?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned().into());
    }
    Ok(())
}

fn run_file(root: &Path, path: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(path)?;
    let relative = path.strip_prefix(root)?;
    if relative.starts_with("examples") {
        return run_example(root, relative);
    }
    let runs: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("// run: "))
        .collect();
    if runs.is_empty() {
        return Err("no `// run:` line".into());
    }
    let source = text
        .find("\n// expect:")
        .map_or(&text[..], |at| &text[..at + 1]);
    let scratch = Scratch::new(relative)?;
    scratch.write(relative, source)?;

    let mut blocks = String::new();
    for run in &runs {
        let (code, out) = run_tool(run, relative, &scratch)?;
        writeln!(blocks, "// expect: exit {code}")?;
        for line in out.lines() {
            writeln!(blocks, "{}", format!("//| {line}").trim_end())?;
        }
    }
    if relative.starts_with("tests/errors") {
        let name = relative
            .with_extension("")
            .display()
            .to_string()
            .replace(['/', '\\'], "__");
        return snapshot(root, &name, &format!("{source}{blocks}"));
    }
    let expected = &text[source.len()..];
    if expected == blocks {
        return Ok(());
    }
    if bless() {
        std::fs::write(path, format!("{source}{blocks}"))?;
        return Ok(());
    }
    let (names, mut diff) = (("expected", "actual"), String::new());
    relax_cli::diff::unified(names, expected, &blocks, false, &mut diff);
    Err(format!("{diff}\n(RELAX_BLESS=1 accepts the actual output)").into())
}

fn snapshot(root: &Path, name: &str, value: &str) -> Result<(), Failed> {
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(root.join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    if bless() {
        // SAFETY: only ever set to the same value, before insta reads it.
        unsafe { std::env::set_var("INSTA_UPDATE", "always") };
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        settings.bind(|| insta::assert_snapshot!(name, value));
    }));
    result.map_err(|_| Failed::from("the snapshot differs (RELAX_BLESS=1 accepts it)"))
}

fn tool_path(tool: &str) -> Result<&'static str, Failed> {
    let known = TOOLS.iter().find(|t| t.0 == tool);
    let (_, path) = known.ok_or_else(|| format!("no tool `{tool}`"))?;
    Ok(path.ok_or_else(|| format!("`{tool}` is not built"))?)
}

fn run_tool(run: &str, file: &Path, scratch: &Scratch) -> Result<(i32, String), Failed> {
    let mut words = words(run).into_iter().map(|w| {
        w.replace("%s", &file.display().to_string())
            .replace("%t", "scratch")
            .replace("%r", &root().display().to_string())
    });
    let tool = words.next().ok_or("an empty `// run:` line")?;
    let mut args: Vec<String> = words.collect();
    let mut command = Command::new(tool_path(&tool)?);
    // `<<< 'one; two'` passes these lines as standard input.
    if let Some(at) = args.iter().position(|w| w == "<<<") {
        let lines = args.split_off(at).pop().unwrap_or_default();
        let input = scratch.dir.join("standard.input");
        std::fs::write(&input, lines.replace("; ", "\n") + "\n")?;
        command.stdin(std::fs::File::open(input)?);
    }
    let out = command
        .args(args)
        .current_dir(&scratch.dir)
        .env("NO_COLOR", "1")
        .output()?;
    let mut text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&out.stderr));
    Ok((out.status.code().unwrap_or(-1), text))
}

/// Splits a command into words, separated by blanks outside of single quotes.
fn words(run: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for c in run.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// A temporary folder for one test; tools see the file under the same relative path as in the
/// repository, so that messages are the same everywhere.
struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    fn new(relative: &Path) -> std::io::Result<Scratch> {
        let name = relative
            .display()
            .to_string()
            .replace(['/', '\\', '.'], "_");
        let dir = std::env::temp_dir().join(format!("relax-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Scratch { dir })
    }
    fn write(&self, relative: &Path, text: &str) -> std::io::Result<()> {
        let to = self.dir.join(relative);
        std::fs::create_dir_all(to.parent().expect("below the folder"))?;
        std::fs::write(to, text)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the system's temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

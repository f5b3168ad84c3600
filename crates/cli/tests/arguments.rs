//! Array arguments: what relax-run and relaxc accept as arguments and weights, and their errors
//! about mismatches.
#![cfg(feature = "native")]

#[path = "common/folder.rs"]
mod folder;
use relax_testkit::npy;

use std::path::Path;
use std::process::{Command, Output};

use folder::Folder;
use relax_cli::npz;
use relax_tensor::{DType, Tensor};

const RUN: &str = env!("CARGO_BIN_EXE_relax-run");
const RELAXC: &str = env!("CARGO_BIN_EXE_relaxc");

fn call(dir: &Path, tool: &str, args: &[&str]) -> Output {
    let mut command = Command::new(tool);
    command.args(args).current_dir(dir).env("NO_COLOR", "1");
    command.output().expect("the tool starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the output of a successful call.
fn prints(dir: &Path, tool: &str, args: &[&str]) -> String {
    let o = call(dir, tool, args);
    assert_eq!(o.status.code(), Some(0), "{args:?}: {}", text(&o.stderr));
    text(&o.stdout)
}

/// Returns the error output of a call that fails with this exit code.
fn fails(dir: &Path, tool: &str, code: i32, args: &[&str]) -> String {
    let o = call(dir, tool, args);
    let said = text(&o.stderr);
    assert_eq!(o.status.code(), Some(code), "{args:?}: {said}");
    assert_eq!(text(&o.stdout), "", "{args:?}");
    said
}

fn floats(shape: &[i64], values: &[f32]) -> Tensor {
    Tensor::from_slice(shape, values)
}

const NESTED: &str = "
def @main(%x: Tensor[(2), float32], %p: (Tensor[(2), float32], (int32, bool))) {
  (%x + %p.0, %p.1.0, %p.1.1)
}
def @other(%scale: float32) { %scale }
";

fn leaves() -> Vec<(String, Tensor)> {
    vec![
        ("p.0".into(), floats(&[2], &[10.0, 20.0])),
        ("p.1.0".into(), Tensor::scalar_i64(DType::I32, 3)),
        ("p.1.1".into(), Tensor::scalar_i64(DType::BOOL, 1)),
    ]
}

#[test]
fn tuples_are_taken_by_name_and_by_position() {
    let dir = Folder::new("tuples");
    dir.write("m.relay", NESTED);
    let x = floats(&[2], &[1.0, 2.0]);
    let mut named = leaves();
    named.push(("x".into(), x.clone()));
    let place = |name: &str| dir.0.join(name);
    npz::write(&place("named.npz"), &named).expect("writable");
    let order = [x.clone()]
        .into_iter()
        .chain(leaves().into_iter().map(|l| l.1));
    let numbered = |prefix: &str| {
        let each = |(i, t): (usize, Tensor)| (format!("{prefix}{i}"), t);
        order.clone().enumerate().map(each).collect::<Vec<_>>()
    };
    npz::write(&place("in.npz"), &numbered("in")).expect("writable");
    npz::write(&place("arr.npz"), &numbered("arr_")).expect("writable");
    npz::write(&place("x.npz"), &[("x".into(), x)]).expect("writable");
    npz::write(&place("p.npz"), &leaves()).expect("writable");
    let want = "(Tensor[(2,), float32]\n[11., 22.], 3, True)\n";
    for engine in ["native", "interp"] {
        for file in ["named.npz", "in.npz", "arr.npz"] {
            let args = ["m.relay", "--inputs", file, "--engine", engine];
            assert_eq!(prints(&dir.0, RUN, &args), want, "{file}, {engine}");
        }
        let args = [
            "m.relay", "--inputs", "x.npz", "--params", "p.npz", "--engine", engine,
        ];
        assert_eq!(prints(&dir.0, RUN, &args), want, "{engine}");
        let args = ["m.relay", "--params", "named.npz", "--engine", engine];
        assert_eq!(prints(&dir.0, RUN, &args), want, "{engine}");
    }
}

#[test]
fn all_that_does_not_fit_is_listed_at_once() {
    let dir = Folder::new("unfit");
    dir.write("m.relay", NESTED);
    let arrays = [
        ("x".to_owned(), floats(&[3], &[1.0; 3])),
        ("p.0".to_owned(), Tensor::zeros(DType::F64, &[2])),
        ("p.1.00".to_owned(), Tensor::scalar_i64(DType::I32, 3)),
        ("scale".to_owned(), Tensor::scalar_f64(DType::F32, 1.0)),
    ];
    npz::write(&dir.0.join("bad.npz"), &arrays).expect("writable");
    assert_eq!(
        fails(&dir.0, RUN, 1, &["m.relay", "--inputs", "bad.npz"]),
        "relax-run: the arguments do not fit @main:
  %x must be Tensor[(2,), float32], but the array is Tensor[(3,), float32]
  %p.0 must be Tensor[(2,), float32], but the array is Tensor[(2,), float64]; --cast converts it (`.astype(\"float32\")` in NumPy)
  %p.1.0 is missing: no array `p.1.0` or `in2` (it must be int32)
  %p.1.1 is missing: no array `p.1.1` or `in3` (it must be bool)
  the array `p.1.00` belongs to no parameter (did you mean `p.1.0`?)
  the array `scale` belongs to no parameter
"
    );
    let want = "bad.npz does not fit @main:
  %x must be Tensor[(2,), float32], but the array is Tensor[(3,), float32]
  %p.0 must be Tensor[(2,), float32], but the array is Tensor[(2,), float64]; --cast converts it (`.astype(\"float32\")` in NumPy)
  the array `p.1.00` belongs to no parameter (did you mean `p.1.0`?)
  the array `scale` belongs to no parameter; @other has one of that name (--entry other runs it)
";
    let relaxc = fails(
        &dir.0,
        RELAXC,
        1,
        &["m.relay", "-o", "m.o", "--params", "bad.npz"],
    );
    assert_eq!(relaxc, format!("relaxc: {want}"));
    let missing = "  %p.1.0 is missing (it must be int32)\n  %p.1.1 is missing (it must be bool)\n";
    let run = fails(&dir.0, RUN, 1, &["m.relay", "--params", "bad.npz"]);
    assert_eq!(run, format!("relax-run: {want}{missing}"));
    npz::write(&dir.0.join("part.npz"), &leaves()[..1]).expect("writable");
    assert_eq!(
        fails(
            &dir.0,
            RUN,
            1,
            &["m.relay", "--params", "part.npz", "--random", "1"]
        ),
        "relax-run: part.npz does not fit @main:
  %p.1.0 is missing: a tuple is bound as a whole (it must be int32)
  %p.1.1 is missing: a tuple is bound as a whole (it must be bool)
"
    );
}

#[test]
fn constants_without_metadata_are_taken_from_a_file() {
    let dir = Folder::new("stubs");
    let text = "#[version = \"0.0.5\"]
def @main(%x: Tensor[(2), float32]) {
  %0 = add(%x, meta[relay.Constant][0] /* ty=Tensor[(2), float32] */);
  %1 = multiply(%0, meta[relay.Constant][1] /* ty=Tensor[(2), float32] */);
  add(%1, meta[relay.Constant][0] /* ty=Tensor[(2), float32] */)
}
";
    dir.write("m.relay", text);
    dir.write(
        "x.npy",
        npy("<f4", false, "(2,)", &[0, 0, 128, 63, 0, 0, 0, 64]),
    );
    let constant = |k: u32, values: &[f32]| {
        (
            format!("meta[relay.Constant][{k}]"),
            floats(&[values.len() as i64], values),
        )
    };
    let whole = [constant(0, &[10.0, 20.0]), constant(1, &[2.0, 3.0])];
    npz::write(&dir.0.join("whole.npz"), &whole).expect("writable");
    let bad = [constant(0, &[10.0]), ("y".to_owned(), floats(&[1], &[0.0]))];
    npz::write(&dir.0.join("bad.npz"), &bad).expect("writable");
    let args = |file: &'static str| ["m.relay", "--inputs", "x.npy", "--params", file];
    let want = "Tensor[(2,), float32]\n[32., 86.]\n";
    assert_eq!(prints(&dir.0, RUN, &args("whole.npz")), want);
    assert_eq!(
        fails(&dir.0, RUN, 1, &args("bad.npz")),
        "relax-run: bad.npz does not fit @main:
  meta[relay.Constant][0] must be Tensor[(2,), float32], but the array is Tensor[(1,), float32]
  meta[relay.Constant][1] is missing: the text has no metadata section (it must be Tensor[(2,), float32])
  the array `y` belongs to no parameter
"
    );
    let said = fails(&dir.0, RUN, 1, &["m.relay", "--inputs", "x.npy"]);
    assert!(said.contains("which the file does not have"), "{said}");
}

#[test]
fn arrays_in_other_forms_are_read() {
    let dir = Folder::new("forms");
    dir.write("m.relay", "def @main(%x: Tensor[(2, 3), int16]) { %x }");
    dir.write("b.relay", "def @main(%x: Tensor[(2), bfloat16]) { %x }");
    let want = "Tensor[(2, 3), int16]\n[[0, 1, 2],\n [3, 4, 5]]\n";
    let bytes = |values: [i16; 6], big: bool| -> Vec<u8> {
        let each = |v: i16| {
            if big {
                v.to_be_bytes()
            } else {
                v.to_le_bytes()
            }
        };
        values.into_iter().flat_map(each).collect()
    };
    for (name, descr, order, data) in [
        ("c.npy", "<i2", false, bytes([0, 1, 2, 3, 4, 5], false)),
        ("fortran.npy", "<i2", true, bytes([0, 3, 1, 4, 2, 5], false)),
        ("big.npy", ">i2", false, bytes([0, 1, 2, 3, 4, 5], true)),
        ("both.npy", ">i2", true, bytes([0, 3, 1, 4, 2, 5], true)),
    ] {
        dir.write(name, npy(descr, order, "(2, 3)", &data));
        assert_eq!(
            prints(&dir.0, RUN, &["m.relay", "--inputs", name]),
            want,
            "{name}"
        );
    }
    for descr in ["<u2", "|V2"] {
        dir.write(
            "b.npy",
            npy(descr, false, "(2,)", &[0xc0, 0x3f, 0x80, 0xbf]),
        );
        let printed = prints(&dir.0, RUN, &["b.relay", "--inputs", "b.npy"]);
        assert_eq!(printed, "Tensor[(2,), bfloat16]\n[1.5, -1.]\n", "{descr}");
    }
    for (descr, said) in [
        ("|O", "elements of type |O are no numbers"),
        ("<c8", "elements of type <c8"),
    ] {
        dir.write("bad.npy", npy(descr, false, "(2,)", &[0; 16]));
        let found = fails(&dir.0, RUN, 2, &["m.relay", "--inputs", "bad.npy"]);
        assert!(found.contains(said), "{found}");
    }
    dir.write("short.npy", npy("<i2", false, "(2, 3)", &[0; 4]));
    fails(&dir.0, RUN, 2, &["m.relay", "--inputs", "short.npy"]);
}

/// A device that is always full.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_said_once() {
    let dir = Folder::new("full");
    dir.write("m.relay", "def @main(%x: Tensor[(2), float32]) { %x }");
    for name in ["full.npz", "full.npy", "full.json"] {
        std::os::unix::fs::symlink("/dev/full", dir.0.join(name)).expect("a link");
        let args = ["m.relay", "--random", "1", "--outputs", name];
        assert_eq!(
            fails(&dir.0, RUN, 2, &args),
            format!("relax-run: cannot write {name}: No space left on device (os error 28)\n")
        );
    }
}

/// Standard streams that were closed by their readers.
#[test]
#[cfg(unix)]
fn closed_pipes_end_no_tool_badly() {
    let dir = Folder::new("pipes");
    dir.write(
        "m.relay",
        "def @main(%x: Tensor[(200, 200), float32]) { %x }",
    );
    for (tool, args) in [
        (
            RUN,
            &["m.relay", "--random", "1", "--summary", "--profile"][..],
        ),
        (
            RUN,
            &[
                "m.relay",
                "--random",
                "1",
                "--bench",
                "2",
                "--engine",
                "interp",
                "--summary",
            ],
        ),
        (RELAXC, &["m.relay", "-o", "-", "--emit", "asm"]),
        (RELAXC, &["m.relay", "-o", "m.o", "--size-report"]),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended = Command::new(tool)
            .args(args)
            .current_dir(&dir.0)
            .stdout(writer.try_clone().expect("a pipe"))
            .stderr(writer)
            .status()
            .expect("the tool starts");
        assert_eq!(ended.code(), Some(0), "{tool} {args:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn running_out_of_memory_is_an_error() {
    let dir = Folder::new("memory");
    let text = "type Seq { Empty, Cell(int32, Seq) }
def @loop(%n: int32, %xs: Seq) -> int32 { @loop(%n + 1, Cell(%n, %xs)) }
def @main() -> int32 { @loop(0, Empty) }
";
    dir.write("m.relay", text);
    let ran = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 1000000; exec \"$0\" m.relay --stack 16",
            RUN,
        ])
        .current_dir(&dir.0)
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    let told = "[RX0852] Error: @loop: out of memory: ";
    assert!(
        said.starts_with(told) && said.contains("m.relay:2:1"),
        "{said}"
    );
}

/// Object files do not depend on the location of the source.
#[test]
fn objects_do_not_know_their_folder() {
    let dir = Folder::new("folders");
    for folder in ["a", "b/c"] {
        dir.write(&format!("{folder}/m.relay"), NESTED);
    }
    for emit in ["obj", "header", "clif", "asm", "loops", "lowered"] {
        let read = |folder: &str| {
            let (text, out) = (format!("{folder}/m.relay"), format!("{folder}/out"));
            prints(&dir.0, RELAXC, &[&text, "-o", &out, "--emit", emit]);
            std::fs::read(dir.0.join(out)).expect("just written")
        };
        assert!(read("a") == read("b/c"), "{emit}");
    }
}

/// An executable accepts arrays of every element type, and documents its usage.
#[test]
#[cfg(unix)]
fn a_program_reads_and_prints_every_element_type() {
    let dir = Folder::new("program");
    let text = "def @main(%x: float16, %y: bfloat16, %b: bool, %i: int64, %u: uint16) { (%x, %y, %b, %i, %u) }";
    dir.write("m.relay", text);
    prints(&dir.0, RELAXC, &["m.relay", "-o", "m", "--emit", "exe"]);
    dir.write("x.npy", npy("<f2", false, "()", &[0, 0x3e]));
    dir.write("y.npy", npy("<u2", false, "()", &[0xc0, 0x3f]));
    dir.write("b.npy", npy("|b1", false, "()", &[1]));
    dir.write("i.npy", npy("<i8", false, "()", &(-7i64).to_le_bytes()));
    dir.write("u.npy", npy("<u2", false, "()", &[9, 0]));
    let files = ["x.npy", "y.npy", "b.npy", "i.npy", "u.npy"];
    let program = dir.0.join("m");
    let program = program.to_str().expect("a path in UTF-8");
    assert_eq!(
        prints(&dir.0, program, &files),
        "()\n1.5\n()\n1.5\n()\n1\n()\n-7\n()\n9\n"
    );
    let usage = fails(&dir.0, program, 2, &files[..2]);
    for part in [
        "b is missing, bool\n",
        " x.npy y.npy b.npy i.npy u.npy\n",
        "\n  x.npy: float16\n",
    ] {
        assert!(usage.contains(part), "{usage}");
    }
    let help = prints(&dir.0, program, &["--help"]);
    for part in [
        "ARRAYS.npz",
        "RELAX_THREADS",
        "(float16, bfloat16, bool, int64, uint16)",
    ] {
        assert!(help.contains(part), "{help}");
    }
    let many = [&files[..], &["x.npy"]].concat();
    assert!(fails(&dir.0, program, 2, &many).contains("one file too many"));
    assert!(fails(&dir.0, program, 2, &["--fast"]).contains("there is no option --fast"));
    dir.write("o.npy", npy("|O", false, "()", &[0; 8]));
    let others = [&["o.npy"], &files[1..]].concat();
    let said = "o.npy: has elements of type |O, which are no numbers that a tensor can hold\n";
    assert_eq!(fails(&dir.0, program, 2, &others), said);
}

/// An executable accepts archives, tuples by the names of their fields, and column-major arrays.
#[test]
#[cfg(unix)]
fn a_program_takes_archives() {
    let dir = Folder::new("program-archives");
    dir.write("m.relay", NESTED);
    prints(
        &dir.0,
        RELAXC,
        &["m.relay", "-o", "m", "--emit", "exe", "--entry", "main"],
    );
    let program = dir.0.join("m");
    let program = program.to_str().expect("a path in UTF-8");
    npz::write(&dir.0.join("p.npz"), &leaves()).expect("writable");
    let mut whole = leaves();
    whole.insert(0, ("x".into(), floats(&[2], &[1.0, 2.0])));
    npz::write(&dir.0.join("named.npz"), &whole).expect("writable");
    let numbered = whole.iter().enumerate();
    let numbered: Vec<_> = numbered
        .map(|(i, a)| (format!("in{i}"), a.1.clone()))
        .collect();
    npz::write(&dir.0.join("in.npz"), &numbered).expect("writable");
    dir.write(
        "x.npy",
        npy(">f4", true, "(2,)", &[63, 128, 0, 0, 64, 0, 0, 0]),
    );
    let want = "(2,)\n11\n22\n()\n3\n()\n1\n";
    for files in [
        &["named.npz"][..],
        &["in.npz"],
        &["p.npz", "x.npy"],
        &["x.npy", "p.npz"],
    ] {
        assert_eq!(prints(&dir.0, program, files), want, "{files:?}");
    }
    let said = fails(&dir.0, program, 2, &["p.npz"]);
    assert!(
        said.contains("x is missing, Tensor[(2,), float32]"),
        "{said}"
    );
    let other = [("y".to_owned(), floats(&[1], &[1.0]))];
    npz::write(&dir.0.join("other.npz"), &other).expect("writable");
    let said = fails(&dir.0, program, 2, &["other.npz"]);
    assert_eq!(said, "other.npz: `y` belongs to no parameter\n");
    // Whatever is in a file, the executable exits normally.
    let good = std::fs::read(dir.0.join("named.npz")).expect("there");
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] = 0xff;
        dir.write("bad.npz", &bad);
        let code = call(&dir.0, program, &["bad.npz"]).status.code();
        assert!(code.is_some(), "byte {at}");
    }
}

/// Files whose headers claim more data than there is.
#[test]
fn hostile_files_are_errors() {
    let dir = Folder::new("hostile");
    dir.write("m.relay", "def @main(%x: Tensor[(2,), float32]) { %x }");
    let nested = format!("(2,), 'more': {}", "(".repeat(40000));
    for (what, descr, shape) in [
        ("overflow", "<f4", "(4294967296, 4294967296)"),
        ("long", "<f4", "(99999999999999999999,)"),
        ("large", "<f4", "(1099511627776,)"),
        ("negative", "<f4", "(-2,)"),
        ("nested", "<f4", nested.as_str()),
        ("twice", "<f4", "(2,), 'shape': (4294967296, 4294967296)"),
    ] {
        dir.write("bad.npy", npy(descr, false, shape, &[0; 8]));
        let said = fails(&dir.0, RUN, 2, &["m.relay", "--inputs", "bad.npy"]);
        assert!(
            said.starts_with("relax-run: cannot read bad.npy: "),
            "{what}: {said}"
        );
    }
    let x = [("x".to_owned(), floats(&[2], &[1.0, 2.0]))];
    npz::write(&dir.0.join("good.npz"), &x).expect("writable");
    let good = std::fs::read(dir.0.join("good.npz")).expect("there");
    for at in 0..good.len() {
        for byte in [0, 0xff] {
            let mut bad = good.clone();
            bad[at] = byte;
            dir.write("bad.npz", &bad);
            let _ = relax_cli::weights::read(&dir.0.join("bad.npz"));
        }
    }
}

#[test]
fn missing_arguments_are_made_up_beside_those_given() {
    let dir = Folder::new("rest");
    dir.write(
        "m.relay",
        "def @main(%x: Tensor[(n, 2), float32], %y: Tensor[(n), float32], %z: Tensor[(n * 2), int32]) { (%y, %z) }",
    );
    let x = [("x".to_owned(), Tensor::zeros(DType::F64, &[3, 2]))];
    npz::write(&dir.0.join("x.npz"), &x).expect("writable");
    let args = ["m.relay", "--inputs", "x.npz", "--random", "1"];
    let said = fails(&dir.0, RUN, 1, &args);
    assert!(
        said.contains("; --cast converts it (`.astype(\"float32\")` in NumPy)"),
        "{said}"
    );
    let printed = prints(&dir.0, RUN, &[&args[..], &["--cast"]].concat());
    assert!(printed.starts_with("(Tensor[(3,), float32]\n"), "{printed}");
    assert!(printed.contains("Tensor[(6,), int32]\n"), "{printed}");
}

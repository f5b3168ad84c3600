//! Files with false claims: each is an error with a reason, exit code 1 or 2, never a crash or a
//! wrong number.

#[path = "common/folder.rs"]
mod folder;

use std::process::{Command, Output};

use folder::Folder;
use relax_testkit::{archive, npy};

const RUN: &str = env!("CARGO_BIN_EXE_relax-run");

fn run(folder: &Folder, inputs: &str) -> (i32, String) {
    let Output { status, stderr, .. } = Command::new(RUN)
        .args(["main.relay", "--inputs", inputs])
        .current_dir(&folder.0)
        .env("NO_COLOR", "1")
        .output()
        .expect("the tool starts");
    let text = String::from_utf8_lossy(&stderr).into_owned();
    (status.code().expect("it is not killed"), text)
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write(
        "main.relay",
        "def @main(%x: Tensor[(n,), float32]) { add(%x, 1f) }",
    );
    folder
}

#[test]
fn what_an_array_claims_is_held_against_the_file() {
    let folder = folder("hostile-npy");
    let floats = |n: usize| vec![0; 4 * n];
    let deep = format!("({}", "(".repeat(60_000));
    let axes = format!("({})", "1, ".repeat(300));
    let cases: [(&str, Vec<u8>, &str); 12] = [
        (
            "few.npy",
            npy("<f4", false, "(5,)", &floats(2)),
            "take 20 bytes, but there are 8",
        ),
        (
            "nan.npy",
            npy("<f4", false, "(nan,)", &floats(2)),
            "`nan` is no extent",
        ),
        (
            "minus.npy",
            npy("<f4", false, "(-1,)", &floats(2)),
            "is no extent",
        ),
        (
            "large.npy",
            npy("<f4", false, "(18446744073709551615,)", &floats(2)),
            "is no extent",
        ),
        (
            "product.npy",
            npy(
                "<f4",
                false,
                "(4611686018427387904, 4611686018427387904)",
                &floats(2),
            ),
            "more than memory holds",
        ),
        (
            "deep.npy",
            npy("<f4", false, &deep, &floats(2)),
            "is no extent",
        ),
        (
            "axes.npy",
            npy("<f4", false, &axes, &floats(1)),
            "more than 64 axes",
        ),
        (
            "object.npy",
            npy("|O", false, "(2,)", &floats(2)),
            "no numbers that a tensor can hold",
        ),
        (
            "bits.npy",
            npy("<f3", false, "(2,)", &floats(2)),
            "no numbers that a tensor can hold",
        ),
        (
            "header.npy",
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec(),
            "the header is cut off",
        ),
        ("empty.npy", b"\x93NUMPY".to_vec(), "the header is cut off"),
        (
            "key.npy",
            npy("<f4", false, "(2,), 'x': 1", &floats(2)),
            "unknown key `x`",
        ),
    ];
    for (name, bytes, why) in cases {
        folder.write(name, bytes);
        let (code, text) = run(&folder, name);
        assert!(code == 1 || code == 2, "{name}: {code}\n{text}");
        assert!(text.contains(why), "{name}: {text}");
    }
}

#[test]
fn members_of_archives_are_held_against_their_bounds() {
    let folder = folder("hostile-npz");
    let array = npy("<f4", false, "(2,)", &[0; 8]);
    let short = npy("<f4", false, "(4,)", &[0; 8]);
    // The second array would overlap the first one.
    let two = archive(&[("y.npy", array.clone()), ("x.npy", short)]);
    let twice = archive(&[("x.npy", array.clone()), ("x.npy", array.clone())]);
    let good = archive(&[("x.npy", array)]);
    let mut cut = good.clone();
    cut.truncate(good.len() - 8);
    let mut moved = good.clone();
    let at = moved.len() - 6;
    moved[at] ^= 0x40;
    for (name, bytes, why) in [
        ("two.npz", two, "take 16 bytes, but there are 8"),
        ("twice.npz", twice, "two arrays `x`"),
        ("cut.npz", cut, "cannot read"),
        ("moved.npz", moved, "cannot read"),
    ] {
        folder.write(name, bytes);
        let (code, text) = run(&folder, name);
        assert!(code == 1 || code == 2, "{name}: {code}\n{text}");
        assert!(text.contains(why), "{name}: {text}");
    }
    folder.write("good.npz", good);
    let (code, text) = run(&folder, "good.npz");
    assert_eq!(code, 0, "{text}");
}

#[test]
fn truth_values_of_files_are_0_or_1() {
    let folder = Folder::new("hostile-bool");
    folder.write(
        "main.relay",
        "def @main(%x: Tensor[(4,), bool]) { sum(cast(%x, dtype=\"int32\")) }",
    );
    folder.write("x.npy", npy("|b1", false, "(4,)", &[0, 1, 2, 255]));
    let o = Command::new(RUN)
        .args(["main.relay", "--inputs", "x.npy"])
        .current_dir(&folder.0)
        .output()
        .expect("the tool starts");
    assert_eq!(String::from_utf8_lossy(&o.stdout).trim(), "3");
}

#[test]
fn an_empty_tensor_of_many_rows_is_short() {
    let folder = Folder::new("hostile-rows");
    folder.write(
        "main.relay",
        "def @main() { zeros(shape=[4294967296, 0], dtype=\"float32\") }",
    );
    let o = Command::new(RUN)
        .arg("main.relay")
        .current_dir(&folder.0)
        .output()
        .expect("the tool starts");
    let text = String::from_utf8_lossy(&o.stdout);
    assert_eq!(text.trim(), "Tensor[(4294967296, 0), float32]\n[]");
}

/// Returns a tool's error output for these arguments, and its exit code.
fn called(folder: &Folder, tool: &str, args: &[&str]) -> (i32, String) {
    let o = Command::new(tool)
        .args(args)
        .current_dir(&folder.0)
        .env("NO_COLOR", "1")
        .output()
        .expect("the tool starts");
    let text = String::from_utf8_lossy(&o.stderr).into_owned();
    (o.status.code().expect("it is not killed"), text)
}

#[test]
fn memory_has_a_limit_in_every_tool() {
    let folder = Folder::new("hostile-memory");
    folder
        .write(
            "list.relay",
            "def @f(%l: List[int32], %n: int32) -> List[int32] { @f(Cons(%n, %l), %n) }
             def @main() { @f(Nil, 3) }",
        )
        .write(
            "double.relay",
            "def @f(%x: Tensor[(?,), float32]) -> Tensor[(?,), float32] {
               @f(concatenate((%x, %x), axis=0))
             }
             def @main(%x: Tensor[(100,), float32]) { @f(%x) }",
        )
        .write(
            "long.relay",
            "def @main(%x: float32) { add(%x, 1f) }\n".repeat(200_000),
        );
    for name in ["list.relay", "double.relay"] {
        let args = [
            "--engine",
            "interp",
            "--max-memory",
            "200M",
            "--random",
            "1",
            name,
        ];
        let (code, text) = called(&folder, RUN, &args);
        assert!(code == 1 || code == 2, "{name}: {code}\n{text}");
        assert!(text.contains("memory"), "{name}: {text}");
    }
    for tool in [
        env!("CARGO_BIN_EXE_relax-check"),
        env!("CARGO_BIN_EXE_relax-opt"),
        env!("CARGO_BIN_EXE_relax-fmt"),
    ] {
        let (code, text) = called(&folder, tool, &["--max-memory", "10M", "long.relay"]);
        assert_eq!(code, 2, "{tool}: {text}");
        assert!(text.contains("--max-memory"), "{tool}: {text}");
    }
    let (code, text) = called(&folder, RUN, &["--max-memory", "much", "list.relay"]);
    assert_eq!(code, 2, "{text}");
}

#[test]
fn steps_have_a_limit() {
    let folder = Folder::new("hostile-steps");
    folder.write(
        "loop.relay",
        "def @f(%n: int32) -> int32 { @f(%n) } def @main() { @f(3) }",
    );
    let args = ["--engine", "interp", "--max-steps", "10000", "loop.relay"];
    let (code, text) = called(&folder, RUN, &args);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("has not ended after 10000 steps"), "{text}");
}

#[test]
fn iterations_of_tensor_programs_are_steps() {
    let folder = Folder::new("hostile-iterations");
    let loops = [
        // Loops, rounds, and strips of a computation, each of which would take hours.
        (
            "for",
            "for %i, %j in grid(10000000, 10000000) { %Y[0] = %A[0]; }",
        ),
        ("while", "while (0 < 1) { %Y[0] = %A[0]; }"),
    ];
    for (name, body) in loops {
        let program = format!(
            "prim_func @spin(%A: Buffer[(1,), float32], %Y: Buffer[(1,), float32]) {{ {body} }}\n\
             def @main() {{ call_tir(@spin, (ones(shape=[1], dtype=\"float32\"),), shape(1), \
             dtype=\"float32\") }}"
        );
        folder.write(name, program);
    }
    folder.write(
        "strips",
        "def @main() { let %x = ones(shape=[4000, 4000], dtype=\"int8\"); \
         nn.dense(%x, %x, units=4000, out_dtype=\"int32\") }",
    );
    for name in ["for", "while", "strips"] {
        for engine in [&["interp"][..], &["vm", "--kernels", "loops"], &["vm"]] {
            let args = [&["--engine"], engine, &["--max-steps", "10000", name]].concat();
            let (code, text) = called(&folder, RUN, &args);
            assert_eq!(code, 1, "{name}, {engine:?}: {text}");
            let said = "more steps than allowed";
            assert!(text.contains(said), "{name}, {engine:?}: {text}");
        }
    }
    // A step is a hundred iterations.
    folder.write(
        "short",
        "prim_func @count(%A: Buffer[(1,), float32], %Y: Buffer[(1,), float32]) {\n\
         for %i in grid(30000) { %Y[0] = %A[0]; } }\n\
         def @main() { call_tir(@count, (ones(shape=[1], dtype=\"float32\"),), shape(1), \
         dtype=\"float32\") }",
    );
    for engine in ["interp", "vm"] {
        for (steps, ended) in [("250", false), ("350", true)] {
            let args = ["--engine", engine, "--max-steps", steps, "short"];
            let (code, text) = called(&folder, RUN, &args);
            assert_eq!(code == 0, ended, "{engine}: {text}");
        }
    }
    // Each call is charged, with the extents that it has.
    folder.write(
        "calls",
        "def @f(%n: int32, %x: Tensor[(?, 400), float32]) {\n\
         if (%n == 0) { %x } else { @f(%n - 1, nn.relu(nn.dense(%x, ones(shape=[400, 400], \
         dtype=\"float32\"), units=400))) } }\n\
         def @main() { @f(20, ones(shape=[64, 400], dtype=\"float32\")) }",
    );
    for (steps, ended) in [("2000", false), ("20000", true)] {
        let args = ["--engine", "vm", "--max-steps", steps, "calls"];
        let (code, text) = called(&folder, RUN, &args);
        assert_eq!(code == 0, ended, "{text}");
    }
}

#[test]
fn a_reproducer_names_no_file_elsewhere() {
    let folder = Folder::new("hostile-reproducer");
    let head = |file: &str| {
        format!(
            "// relax-opt pipeline: merge-composite{{patterns=@{file}}}\ndef @main() {{ 1f }}\n"
        )
    };
    folder
        .write("secret", "root:x:0:0")
        .write("in/patterns.relay", "")
        .write("in/up.relay", head("../secret"))
        .write("in/root.relay", head("/etc/hosts"));
    let opt = env!("CARGO_BIN_EXE_relax-opt");
    for name in ["in/up.relay", "in/root.relay"] {
        let (code, text) = called(&folder, opt, &["--run-reproducer", name]);
        assert_ne!(code, 0, "{name}");
        assert!(
            text.contains("may name files beside it only"),
            "{name}: {text}"
        );
    }
}

#[test]
fn nested_blocks_are_not_moved_right_without_end() {
    let folder = Folder::new("hostile-indentation");
    let n = 3000;
    let text = format!(
        "def @main(%x: float32) {{ {}%x{} }}",
        "let %y = (".repeat(n),
        "); %y".repeat(n)
    );
    folder.write("deep.relay", &text);
    let fmt = env!("CARGO_BIN_EXE_relax-fmt");
    let (code, said) = called(&folder, fmt, &["deep.relay"]);
    assert_eq!(code, 0, "{said}");
    let printed = folder.read("deep.relay");
    assert!(printed.len() < 40 * text.len(), "{} bytes", printed.len());
    let (code, said) = called(&folder, fmt, &["--check", "deep.relay"]);
    assert_eq!(code, 0, "{said}");
}

/// Builds a chain of nested pairs: thirty lines whose type has a billion nodes.
fn pairs(n: usize) -> String {
    let mut text = "def @main(%x: float32) {\n  %0 = (%x, %x);\n".to_owned();
    for i in 1..n {
        text.push_str(&format!("  %{i} = (%{}, %{});\n", i - 1, i - 1));
    }
    text + &format!("  %{}\n}}\n", n - 1)
}

#[test]
fn types_that_double_are_not_written_as_trees() {
    let folder = Folder::new("hostile-types");
    folder.write("pairs.relay", pairs(40));
    let opt = env!("CARGO_BIN_EXE_relax-opt");
    for args in [
        &["--pipeline", "infer-type", "--verify-roundtrip"][..],
        &["--pipeline", "to-a-normal-form", "--print-style", "tvm"],
        &["-O2"],
    ] {
        let args = [
            args,
            &["--max-memory", "1G", "-o", "out.relay", "pairs.relay"],
        ]
        .concat();
        let (code, text) = called(&folder, opt, &args);
        assert_eq!(code, 0, "{args:?}: {text}");
        let length = folder.read("out.relay").len();
        assert!(length < 20_000_000, "{args:?}: {length} bytes");
    }
}

#[test]
fn graphs_are_no_trees_in_tvmscript() {
    let folder = Folder::new("hostile-graph");
    let mut text = "def @main(%x: Tensor[(4,), float32]) {\n  %0 = add(%x, %x);\n".to_owned();
    for i in 1..60 {
        text.push_str(&format!("  %{i} = add(%{}, %{});\n", i - 1, i - 1));
    }
    folder.write("graph.relay", text + "  %59\n}\n");
    folder.write("pairs.relay", pairs(60));
    let opt = env!("CARGO_BIN_EXE_relax-opt");
    for name in ["graph.relay", "pairs.relay"] {
        let args = ["--print-style", "tvmscript", "--max-memory", "1G", name];
        let (code, text) = called(&folder, opt, &args);
        assert_eq!(code, 1, "{name}: {text}");
        assert!(text.contains("no sequence of bindings"), "{name}: {text}");
    }
    let args = [
        "--print-style",
        "tvmscript",
        "--pipeline",
        "relay-to-relax",
        "--max-memory",
        "1G",
        "pairs.relay",
    ];
    let (code, text) = called(&folder, opt, &args);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("a type with so many parts"), "{text}");
}

#[test]
fn weights_that_are_copied_outlive_their_file() {
    let folder = Folder::new("hostile-copy");
    let path = folder.0.join("weights.bin");
    std::fs::write(&path, vec![1; 17 << 20]).expect("it is written");
    relax::weights::copy_all();
    let weights = relax_cli::weights::open(&path).expect("it is read");
    // A mapping of the file would crash the process here.
    std::fs::File::create(&path).expect("it is cut");
    let sum: usize = weights.bytes().iter().map(|&b| usize::from(b)).sum();
    assert_eq!(sum, 17 << 20);
    for tool in [RUN, env!("CARGO_BIN_EXE_relax-check")] {
        let (_, help) = called(&folder, tool, &["--copy-weights", "missing.relay"]);
        assert!(!help.contains("unexpected argument"), "{tool}: {help}");
    }
}

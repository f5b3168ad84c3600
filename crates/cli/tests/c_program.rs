//! An object made by relaxc, linked into a C program that calls the model.
#![cfg(feature = "native")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MODEL: &str = "\
#[version = \"0.0.5\"]
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
  %0 = nn.dense(%x, %w, units=4);
  (nn.relu(%0), sum(%0))
}
";

const PROGRAM: &str = r#"
#include "model.h"
#include <stdio.h>
int main(void) {
  RxContext *ctx = rx_context_create();
  float x[6] = {1, 2, 3, -1, 0, 1}, w[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, -1, -1, -1};
  int64_t xs[2] = {2, 3}, ws[2] = {4, 3};
  DLDataType f32 = {kDLFloat, 32, 1};
  RxObject *args[2] = {rx_tensor_borrow(ctx, f32, 2, xs, x), rx_tensor_borrow(ctx, f32, 2, ws, w)};
  RxObject *out = NULL;
  if (relax_main(ctx, args, 1, &out) == RX_OK) return 10;
  printf("%s\n", rx_last_error(ctx));
  rx_clear_error(ctx);
  if (relax_main(ctx, args, 2, &out) != RX_OK) return 11;
  const float *y = rx_tensor_data(rx_field(out, 0));
  for (int i = 0; i < 8; i++) printf("%g ", y[i]);
  printf("sum %g\n", *(const float *)rx_tensor_data(rx_field(out, 1)));
  rx_release(ctx, out);
  rx_release(ctx, args[0]);
  rx_release(ctx, args[1]);
  RxHeapStats stats;
  rx_heap_stats(ctx, &stats);
  printf("live %llu\n", (unsigned long long)stats.live_objects);
  rx_context_destroy(ctx);
  return 0;
}
"#;

fn relaxc(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_relaxc"))
        .args(args)
        .current_dir(dir)
        .output()
        .expect("relaxc runs")
}

fn ok(out: &Output) {
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

fn room() -> tempfile::TempDir {
    let room = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(room.path().join("model.relay"), MODEL).expect("writable");
    room
}

#[test]
#[cfg(unix)]
fn an_object_links_into_a_c_program() {
    let room = room();
    let dir = room.path();
    ok(&relaxc(dir, &["model.relay", "-o", "model.o"]));
    ok(&relaxc(
        dir,
        &["model.relay", "-o", "model.h", "--emit", "header"],
    ));
    std::fs::write(dir.join("main.c"), PROGRAM).expect("writable");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library: PathBuf = std::env::current_exe()
        .expect("a path")
        .with_file_name("librelax_runtime.a");
    let built = Command::new("cc")
        .current_dir(dir)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("../runtime/include"))
        .args(["main.c", "model.o"])
        .arg(&library)
        .args(["-o", "program", "-lpthread", "-ldl", "-lm"])
        .output()
        .expect("a C compiler");
    ok(&built);
    let ran = Command::new(dir.join("program"))
        .output()
        .expect("just built");
    ok(&ran);
    let text = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(
        text,
        "@main: takes 2 arguments; given: 1\n1 2 3 0 0 0 1 0 sum 0\nlive 0\n"
    );
}

#[test]
fn code_prints_as_text() {
    let room = room();
    for (what, part) in [("clif", "function"), ("asm", "kernel 0")] {
        let out = relaxc(room.path(), &["model.relay", "-o", "-", "--emit", what]);
        ok(&out);
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(
            text.contains(part) && text.lines().count() > 50,
            "{what}:\n{text}"
        );
    }
}

#[test]
fn objects_are_the_same_every_time() {
    let room = room();
    for name in ["a.o", "b.o"] {
        ok(&relaxc(room.path(), &["model.relay", "-o", name]));
    }
    let read = |n: &str| std::fs::read(room.path().join(n)).expect("just written");
    assert_eq!(read("a.o"), read("b.o"));
}

#[test]
fn other_targets_get_objects() {
    let room = room();
    for (triple, machine) in [
        ("aarch64-unknown-linux-gnu", 183u8),
        ("riscv64gc-unknown-linux-gnu", 243),
    ] {
        ok(&relaxc(
            room.path(),
            &["model.relay", "-o", "m.o", "--target", triple],
        ));
        let bytes = std::fs::read(room.path().join("m.o")).expect("just written");
        // The ELF header's e_machine.
        assert_eq!(bytes[18], machine, "{triple}");
    }
}

/// Weights are parameters of this example, so that code and runtime are measured.
#[test]
#[cfg(target_os = "linux")]
fn a_stripped_program_is_small() {
    if cfg!(debug_assertions) {
        println!("left out: the runtime is not optimised in this build");
        return;
    }
    let room = room();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mlp.relay");
    let model = model.to_str().expect("a path in UTF-8");
    ok(&relaxc(room.path(), &[model, "-o", "mlp", "--emit", "exe"]));
    let program = room.path().join("mlp");
    let stripped = Command::new("strip").arg(&program).status();
    assert!(stripped.expect("binutils").success());
    let bytes = program.metadata().expect("just made").len();
    assert!(bytes < 1_000_000, "{bytes} bytes");
}

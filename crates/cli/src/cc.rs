//! The C compiler as linker, the runtime library, and what is handed to C programs.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use relax_codegen::entry_symbol;
use relax_lower::lir::Lowered;

use crate::archive;

/// The runtime's header, as C programs include it.
pub const RUNTIME_H: &str = include_str!("../../runtime/include/relax_runtime.h");
/// The stand-alone program around a compiled entry.
const MAIN_C: &str = include_str!("main.c");

/// The static runtime library: `RELAX_RUNTIME`, or beside the tool (as Cargo builds it), or in `lib/`
/// beside the tool's folder.
pub fn runtime_library() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("RELAX_RUNTIME") {
        return Ok(path.into());
    }
    let exe = std::env::current_exe().map_err(|e| format!("no path of this program: {e}"))?;
    let dir = exe.parent().unwrap_or(Path::new("."));
    let name = "librelax_runtime.a";
    // Cargo leaves an old one beside the tools when it builds only some of them: the newest counts.
    [dir.to_path_buf(), dir.join("deps"), dir.join("../lib")]
        .into_iter()
        .map(|d| d.join(name))
        .filter_map(|p| Some((p.metadata().ok()?.modified().ok()?, p)))
        .max()
        .map(|found| found.1)
        .ok_or_else(|| {
            format!("{name} is not beside {}; build it with `cargo build --release -p relax-runtime` or set RELAX_RUNTIME", dir.display())
        })
}

/// Runs the C compiler (`CC`, else `cc`).
pub fn cc<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let out = Command::new(&compiler)
        .args(args)
        .output()
        .map_err(|e| format!("cannot run the C compiler `{compiler}`: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    Err(format!(
        "`{compiler}` failed:\n{}",
        String::from_utf8_lossy(&out.stderr).trim_end()
    ))
}

/// A C header that documents every entry with its type.
pub fn header(lowered: &Lowered, name: &str) -> String {
    let guard: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    let mut out = String::new();
    let _ = write!(
        out,
        "/* Entries of {name}, compiled by relaxc. Link with the Relax runtime. */\n#ifndef RELAX_MODEL_{guard}\n#define RELAX_MODEL_{guard}\n\n#include \"relax_runtime.h\"\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n"
    );
    for entry in &lowered.entries {
        let _ = write!(
            out,
            "\n/* @{}: {}\n",
            entry.name,
            entry.signature.replace("*/", "* /")
        );
        for (i, p) in entry.params.iter().enumerate() {
            let ty = entry.types.get(i).map_or("", String::as_str);
            let _ = writeln!(out, " *   args[{i}]: %{p}, {}", ty.replace("*/", "* /"));
        }
        let _ = writeln!(out, " *   *out: {}", entry.result.replace("*/", "* /"));
        let _ = write!(
            out,
            " * Arguments are borrowed; *out is owned by the caller. Returns RX_OK, or an RxStatus with the\n * message in rx_last_error(ctx). */\nint32_t {}(RxContext *ctx, RxObject *const *args, int32_t nargs, RxObject **out);\n",
            entry_symbol(entry.name)
        );
    }
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    out
}

/// Puts an object into a static library beside the runtime's objects.
pub fn archive(object: &[u8], lowered: &Lowered, out: &Path) -> Result<(), String> {
    let runtime = runtime_library()?;
    let bytes =
        std::fs::read(&runtime).map_err(|e| format!("cannot read {}: {e}", runtime.display()))?;
    let symbols: Vec<String> = lowered
        .entries
        .iter()
        .map(|e| entry_symbol(e.name))
        .collect();
    let library = archive::append(&bytes, "model.o", object, &symbols)
        .ok_or_else(|| format!("{} is no archive in the GNU format", runtime.display()))?;
    std::fs::write(out, library).map_err(|e| format!("cannot write {}: {e}", out.display()))
}

/// Links an object with the runtime into a shared library or an executable. For an executable, the
/// first entry is called on the `.npy` files that are its arguments.
pub fn link(object: &[u8], lowered: &Lowered, out: &Path, executable: bool) -> Result<(), String> {
    let room = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let put = |name: &str, bytes: &[u8]| {
        let path = room.path().join(name);
        std::fs::write(&path, bytes)
            .map(|()| path)
            .map_err(|e| format!("cannot write {name}: {e}"))
    };
    let object = put("model.o", object)?;
    let mut args: Vec<std::ffi::OsString> = vec!["-O1".into(), "-o".into(), out.into()];
    if executable {
        let entry = lowered.entries.first().ok_or("there is no entry to call")?;
        put("relax_runtime.h", RUNTIME_H.as_bytes())?;
        put("model.h", header(lowered, "model").as_bytes())?;
        let main = put("main.c", MAIN_C.as_bytes())?;
        args.push(format!("-DENTRY={}", entry_symbol(entry.name)).into());
        args.push(format!("-DNARGS={}", entry.params.len()).into());
        args.push("-I".into());
        args.push(room.path().into());
        args.push(main.into());
        args.push(object.into());
        args.push(runtime_library()?.into());
    } else {
        // All of the runtime's functions are there for callers, and nothing else is.
        let names = put("names", b"{ global: rx_*; relax_*; local: *; };\n")?;
        args.push("-shared".into());
        args.push(object.into());
        args.push("-Wl,--whole-archive".into());
        args.push(runtime_library()?.into());
        args.push("-Wl,--no-whole-archive".into());
        args.push(format!("-Wl,--version-script={}", names.display()).into());
    }
    for flag in ["-Wl,--gc-sections", "-lpthread", "-ldl", "-lm"] {
        args.push(flag.into());
    }
    cc(args)
}

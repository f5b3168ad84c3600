//! The C compiler as linker, the runtime library, and what is provided to C programs.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use relax_codegen::{Object, entry_symbol};
use relax_lower::lir::{Entry, Lowered};

use crate::output::Output;
use crate::stop::Stop;
use crate::{archive, interrupt, io, kit};

/// The runtime's header, as C programs include it.
pub const RUNTIME_H: &str = include_str!("../../runtime/include/relax_runtime.h");
/// The stand-alone program around a compiled entry.
const MAIN_C: &str = include_str!("main.c");

/// The system's libraries that the runtime needs.
pub const SYSTEM: &[&str] = &["pthread", "dl", "m"];

/// The file name of the static runtime library.
const LIBRARY: &str = "librelax_runtime.a";

/// Returns the path of the static runtime library: `RELAX_RUNTIME`, or the first one built from the
/// same sources as this tool among those beside the tool, in `deps/` (where Cargo builds it) and in
/// `lib/` beside the tool's folder; otherwise the embedded one, written to a file (see
/// [`crate::kit`]).
///
/// # Errors
/// It is not found, or belongs to another version.
pub fn runtime_library() -> Result<PathBuf, Stop> {
    let fix = "build it with `cargo build --release` in the sources of this relaxc";
    if let Some(path) = std::env::var_os("RELAX_RUNTIME") {
        let path = PathBuf::from(path);
        return match is_ours(&path) {
            Ok(true) => Ok(path),
            Ok(false) => Err(format!(
                "RELAX_RUNTIME: {} belongs to another version of relaxc: {fix}",
                path.display()
            )
            .into()),
            Err(e) => Err(format!("RELAX_RUNTIME: cannot read {}: {e}", path.display()).into()),
        };
    }
    let exe = std::env::current_exe().map_err(|e| format!("no path of this program: {e}"))?;
    let dir = exe.parent().unwrap_or(Path::new("."));
    let places = [dir.to_path_buf(), dir.join("deps"), dir.join("../lib")];
    let found = first_of_ours(&places);
    if let (Err(_), Some(library)) = (&found, kit::library()) {
        return kit::put(LIBRARY, library);
    }
    found.map_err(|other| {
        Stop::Usage(match other {
            Some(other) => format!(
                "{} belongs to another version of relaxc: {fix}, or set RELAX_RUNTIME",
                other.display()
            ),
            None => format!(
                "libraries and programs are linked with {LIBRARY}, which this relaxc does not carry, and which is not in {}: {fix}, \
                 or set RELAX_RUNTIME to it; objects (`-o model.o`) are made without it",
                dir.display()
            ),
        })
    })
}

/// Returns the first runtime library in these folders that was built from the same sources as this
/// tool; otherwise one that was not, as the error.
fn first_of_ours(places: &[PathBuf]) -> Result<PathBuf, Option<PathBuf>> {
    let mut other = None;
    for path in places.iter().map(|d| d.join(LIBRARY)) {
        match is_ours(&path) {
            Ok(true) => return Ok(path),
            Ok(false) => other = other.or(Some(path)),
            Err(_) => {}
        }
    }
    Err(other)
}

/// Returns whether a library carries the source fingerprint that this tool was built with.
fn is_ours(path: &Path) -> std::io::Result<bool> {
    let bytes = std::fs::read(path)?;
    Ok(memchr::memmem::find(&bytes, relax_runtime::SOURCES.as_bytes()).is_some())
}

/// Runs the C compiler (`CC`, or `cc`).
///
/// # Errors
/// There is no compiler, or it fails.
pub fn cc<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Result<(), Stop> {
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
    )
    .into())
}

/// Returns a C header that documents every entry with its type.
pub fn header(lowered: &Lowered, name: &str, prefix: Option<&str>) -> String {
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
            entry_symbol(prefix, entry.name)
        );
    }
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    out
}

/// Returns the C symbols of the entries.
pub fn symbols(lowered: &Lowered, prefix: Option<&str>) -> Vec<String> {
    let entries = lowered.entries.iter();
    entries.map(|e| entry_symbol(prefix, e.name)).collect()
}

/// Writes a static library of the runtime's objects and an object with these symbols.
///
/// # Errors
/// The archive cannot be written.
pub fn archive(object: Object, symbols: &[String], out: &Path) -> Result<(), Stop> {
    let runtime = runtime_library()?;
    // A member's size precedes its bytes.
    let room = room()?;
    let (path, size) = in_file(object, room.path())?;
    let bytes =
        std::fs::read(&runtime).map_err(|e| format!("cannot read {}: {e}", runtime.display()))?;
    let parts = archive::with_object(&bytes, "model.o", size, symbols)
        .ok_or_else(|| format!("{} is no archive in the GNU format", runtime.display()))?;
    io::write_by(out, |out| {
        for part in parts {
            out.write_all(&part)?;
        }
        std::io::copy(&mut std::fs::File::open(&path)?, out)?;
        out.write_all(archive::padding(size))
    })
}

/// Creates a temporary folder that is removed on drop.
fn room() -> Result<interrupt::Held, Stop> {
    interrupt::folder().map_err(|e| format!("no temporary folder: {e}").into())
}

/// Writes an object to a file in a folder; returns its path and size.
fn in_file(object: Object, folder: &Path) -> Result<(PathBuf, usize), Stop> {
    let path = folder.join("model.o");
    let written = std::fs::File::create(&path).and_then(|file| {
        let mut out = std::io::BufWriter::new(file);
        object.write(&mut out)?;
        Ok(out.into_inner()?.metadata()?.len() as usize)
    });
    match written {
        Ok(size) => Ok((path, size)),
        Err(e) => Err(format!("cannot write model.o: {e}").into()),
    }
}

/// Returns the names and types of an entry's parameters as a C array, and the type of its result,
/// for the generated main program.
fn params(entry: &Entry) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let rows: String = (entry.params.iter().zip(&entry.types))
        .map(|(name, ty)| format!("  {{\"{}\", \"{}\"}},\n", quoted(name.as_str()), quoted(ty)))
        .collect();
    format!(
        "static const char *const params[][2] = {{\n{rows}  {{0, 0}}\n}};\nstatic const char result[] = \"{}\";\n",
        quoted(&entry.result)
    )
}

/// Checks whether a file can be created, judging by its folder: the linker's own messages are
/// unclear.
fn writable(out: &Path) -> Result<(), Stop> {
    let folder = out.parent().filter(|p| !p.as_os_str().is_empty());
    match folder.filter(|p| !p.is_dir()) {
        Some(folder) => Err(format!(
            "cannot write {}: there is no folder {}",
            out.display(),
            folder.display()
        )
        .into()),
        None => Ok(()),
    }
}

/// Links an object with the runtime into a shared library or an executable. An executable calls the
/// first entry on the `.npy` and `.npz` files that are its arguments.
///
/// # Errors
/// The linker fails, or the result cannot be written.
pub fn link(
    object: Object,
    lowered: &Lowered,
    prefix: Option<&str>,
    out: &Path,
    executable: bool,
) -> Result<(), Stop> {
    writable(out)?;
    let linked = Output::create(out)?;
    let room = room()?;
    let put = |name: &str, bytes: &[u8]| {
        let path = room.path().join(name);
        std::fs::write(&path, bytes)
            .map(|()| path)
            .map_err(|e| format!("cannot write {name}: {e}"))
    };
    let (object, _) = in_file(object, room.path())?;
    let mut args: Vec<std::ffi::OsString> = vec!["-O1".into(), "-o".into(), linked.path().into()];
    if executable {
        let entry = lowered.entries.first().ok_or("there is no entry to call")?;
        put("relax_runtime.h", RUNTIME_H.as_bytes())?;
        put("model.h", header(lowered, "model", prefix).as_bytes())?;
        put("params.h", params(entry).as_bytes())?;
        let main = put("main.c", MAIN_C.as_bytes())?;
        args.push(format!("-DENTRY={}", entry_symbol(prefix, entry.name)).into());
        args.push(format!("-DNARGS={}", entry.params.len()).into());
        args.push("-I".into());
        args.push(room.path().into());
        args.push(main.into());
        args.push(object.into());
        args.push(runtime_library()?.into());
    } else {
        // Exports all of the runtime's functions, and nothing else.
        let entries = symbols(lowered, prefix).join("; ");
        let names = format!("{{ global: rx_*; {entries}; local: *; }};\n");
        let names = put("names", names.as_bytes())?;
        args.push("-shared".into());
        args.push(object.into());
        args.push("-Wl,--whole-archive".into());
        args.push(runtime_library()?.into());
        args.push("-Wl,--no-whole-archive".into());
        args.push(format!("-Wl,--version-script={}", names.display()).into());
    }
    args.push("-Wl,--gc-sections".into());
    args.extend(SYSTEM.iter().map(|l| format!("-l{l}").into()));
    cc(args)?;
    linked.finish_as_written()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_other_sources_is_passed_over() {
        let room = tempfile::tempdir().expect("a temporary folder");
        let [none, old, ours] = ["none", "old", "ours"].map(|n| room.path().join(n));
        let write = |dir: &Path, text: &str| {
            std::fs::create_dir(dir).expect("a folder");
            std::fs::write(dir.join(LIBRARY), text).expect("writable");
        };
        write(&old, "relax-runtime sources 0123456789abcdef");
        write(&ours, &format!("code {} code", relax_runtime::SOURCES));
        let places = [none.clone(), old.clone(), ours.clone()];
        assert_eq!(first_of_ours(&places), Ok(ours.join(LIBRARY)));
        assert_eq!(first_of_ours(&places[..2]), Err(Some(old.join(LIBRARY))));
        assert_eq!(first_of_ours(&places[..1]), Err(None));
    }
}

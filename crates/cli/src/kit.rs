//! The build kit for programs around compiled code: the headers and the runtime library. relaxc
//! embeds them and writes them out on request, so that the tool alone (`cargo install`) suffices.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::stop::Stop;
use crate::{cc, output};

/// The runtime's headers, by name.
const HEADERS: &[(&str, &str)] = &[
    ("relax_runtime.h", cc::RUNTIME_H),
    (
        "relax_kernels.h",
        include_str!("../../runtime/include/relax_kernels.h"),
    ),
];

static LIBRARY: OnceLock<&'static [u8]> = OnceLock::new();

/// Sets the embedded runtime library.
pub fn carry(library: &'static [u8]) {
    let _ = LIBRARY.set(library);
}

/// Returns the embedded runtime library.
pub fn library() -> Option<&'static [u8]> {
    LIBRARY.get().copied().filter(|bytes| !bytes.is_empty())
}

/// The kinds of output of `--print`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Print {
    /// What the linker needs after objects made by `--emit obj`.
    LinkArgs,
    /// The folder of the headers.
    IncludeDir,
    /// A file for CMake that defines the target `relax_runtime`.
    Cmake,
}

/// Returns the folder for files of this version: under `RELAX_KIT`, or in the user's data folder.
fn folder() -> Result<PathBuf, Stop> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let cache = || {
        let home = || variable("HOME").map(|h| h.join(".cache"));
        Some(variable("XDG_CACHE_HOME").or_else(home)?.join("relax"))
    };
    let base = variable("RELAX_KIT").or_else(cache);
    let base = base.ok_or("there is no folder for headers and library: set RELAX_KIT to one")?;
    let version: String = (relax_runtime::SOURCES.chars().rev())
        .take_while(char::is_ascii_hexdigit)
        .collect();
    Ok(base.join(version))
}

/// Writes a file there, unless it exists already; returns its path.
///
/// # Errors
/// It cannot be written.
pub fn put(name: &str, bytes: &[u8]) -> Result<PathBuf, Stop> {
    let path = folder()?.join(name);
    if std::fs::read(&path).is_ok_and(|old| old == bytes) {
        return Ok(path);
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .map_err(|e| format!("cannot make the folder {}: {e}", parent.display()))?;
    }
    output::write(&path, bytes)?;
    Ok(path)
}

/// Returns the folder of the headers.
fn include_dir() -> Result<PathBuf, Stop> {
    for (name, text) in HEADERS {
        put(&format!("include/{name}"), text.as_bytes())?;
    }
    Ok(folder()?.join("include"))
}

/// Returns the requested text.
///
/// # Errors
/// The runtime library is not found, or something cannot be written.
pub fn text(what: Print) -> Result<String, Stop> {
    Ok(match what {
        Print::IncludeDir => format!("{}\n", include_dir()?.display()),
        Print::LinkArgs => {
            let system: String = cc::SYSTEM.iter().map(|l| format!(" -l{l}")).collect();
            format!("{}{system}\n", cc::runtime_library()?.display())
        }
        Print::Cmake => format!(
            "add_library(relax_runtime STATIC IMPORTED)\n\
             set_target_properties(relax_runtime PROPERTIES\n\
             \x20 IMPORTED_LOCATION \"{}\"\n\
             \x20 INTERFACE_INCLUDE_DIRECTORIES \"{}\"\n\
             \x20 INTERFACE_LINK_LIBRARIES \"{}\")\n",
            cc::runtime_library()?.display(),
            include_dir()?.display(),
            cc::SYSTEM.join(";")
        ),
    })
}

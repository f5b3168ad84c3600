//! Native kernels in a file that accompanies a bytecode program.

use std::path::{Path, PathBuf};

use relax_base::SourceMap;
use relax_vm::{Executable, Kernels};

use crate::stop::Stop;
use crate::{io, progress};

/// Returns the path of the native kernels for a program's file: `model.vmbin.native`.
pub fn native_path(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".native");
    PathBuf::from(name)
}

/// Compiles a program's kernels to a file.
///
/// # Errors
/// A kernel uses something that has no native code, or the file cannot be written.
#[cfg(all(target_arch = "x86_64", unix))]
pub fn write_native(
    program: &Executable,
    fingerprint: [u8; 32],
    path: &Path,
    sources: &SourceMap,
) -> Result<(), Stop> {
    let _shown = progress::stage("compiling");
    let bytes = relax::vm::native_file(program, fingerprint);
    let bytes = bytes.map_err(|d| Stop::show(&d, sources))?;
    io::write(path, &bytes)
}

/// The fallback for machines whose code is not cached.
#[cfg(not(all(target_arch = "x86_64", unix)))]
pub fn write_native(_: &Executable, _: [u8; 32], _: &Path, _: &SourceMap) -> Result<(), Stop> {
    Err(Stop::Usage(
        "native kernels are kept in files on x86-64 only".into(),
    ))
}

/// Returns the native kernels from the file that accompanies the program `path`; they are compiled
/// and written if the file is missing, or belongs to another program or machine.
///
/// # Errors
/// They are damaged, cannot be compiled, or cannot be written.
#[cfg(all(target_arch = "x86_64", unix))]
pub fn cached(
    program: &Executable,
    fingerprint: [u8; 32],
    path: &Path,
    threads: u16,
) -> Result<Box<dyn Kernels>, Stop> {
    use std::sync::Arc;

    let native = native_path(path);
    let open = || -> Result<Option<relax::vm::Native>, Stop> {
        if !native.is_file() {
            return Ok(None);
        }
        let bytes = Arc::new(crate::weights::open(&native)?);
        // SAFETY: `--kernels cached` says that the file is as trusted as this tool.
        let opened = unsafe { relax::vm::open_native(program, fingerprint, bytes, threads.into()) };
        opened.map_err(|e| Stop::Failed(format!("{}: {e}", native.display())))
    };
    if let Some(found) = open()? {
        return Ok(Box::new(found));
    }
    write_native(program, fingerprint, &native, &SourceMap::new())?;
    match open()? {
        Some(found) => Ok(Box::new(found)),
        None => Err(Stop::Failed(format!(
            "{}: it was made, and is another program's now",
            native.display()
        ))),
    }
}

/// The fallback for machines whose code is not cached.
#[cfg(not(all(target_arch = "x86_64", unix)))]
pub fn cached(_: &Executable, _: [u8; 32], _: &Path, _: u16) -> Result<Box<dyn Kernels>, Stop> {
    Err(Stop::Usage(
        "native kernels are kept in files on x86-64 only".into(),
    ))
}

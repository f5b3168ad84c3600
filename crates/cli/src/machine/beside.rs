//! Native kernels beside the file of a program of the machine.

use std::path::{Path, PathBuf};

use relax_base::SourceMap;
use relax_vm::{Executable, Kernels};

use crate::stop::Stop;
use crate::{io, progress};

/// The file of the native kernels of a program in a file: `model.vmbin.native`.
pub fn native_path(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".native");
    PathBuf::from(name)
}

/// Compiles a program's kernels into a file.
///
/// # Errors
/// A kernel asks for something that native code does not do, or the file cannot be written.
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

/// As elsewhere, for machines whose code is not kept.
#[cfg(not(all(target_arch = "x86_64", unix)))]
pub fn write_native(_: &Executable, _: [u8; 32], _: &Path, _: &SourceMap) -> Result<(), Stop> {
    Err(Stop::Usage(
        "native kernels are kept in files on x86-64 only".into(),
    ))
}

/// The native kernels beside the file `path` of a program; made and written where they are missing,
/// or those of another program or machine.
///
/// # Errors
/// They are damaged, cannot be made, or cannot be written.
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

/// As elsewhere, for machines whose code is not kept.
#[cfg(not(all(target_arch = "x86_64", unix)))]
pub fn cached(_: &Executable, _: [u8; 32], _: &Path, _: u16) -> Result<Box<dyn Kernels>, Stop> {
    Err(Stop::Usage(
        "native kernels are kept in files on x86-64 only".into(),
    ))
}

//! Reading and writing of files and standard streams; `-` denotes a stream.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

use relax::{Contents, Format};

use crate::stop::Stop;
use crate::{output, places, weights};

/// The name of standard input or output.
pub const STREAM: &str = "-";

/// Returns whether a path denotes standard input or output.
pub fn is_stream(path: &Path) -> bool {
    path == Path::new(STREAM)
}

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// It cannot be read, or is also an output.
pub fn read(path: &Path) -> Result<Vec<u8>, Stop> {
    places::input(path)?;
    let result = if is_stream(path) {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    result.map_err(|e| format!("cannot read {}: {e}", display_name(path)).into())
}

/// Returns a file's format, detected from its beginning and its name; Relay text if that is not
/// possible.
pub fn language(path: &Path) -> Format {
    head(path, &path.to_string_lossy())
}

fn head(path: &Path, name: &str) -> Format {
    let mut head = [0; 64];
    let file = std::fs::metadata(path).is_ok_and(|m| m.is_file());
    let opened = file.then(|| std::fs::File::open(path).ok()).flatten();
    match opened.map(|mut f| f.read(&mut head).unwrap_or_default()) {
        Some(n) => Format::detect(name, &head[..n]),
        None => Format::Relay,
    }
}

/// Reads a module's file like [`read`]; a binary file is mapped, so that its content need not be in
/// memory twice.
///
/// # Errors
/// As for [`read`].
pub fn contents(path: &Path) -> Result<Contents, Stop> {
    if head(path, "") != Format::Relay {
        return Ok(Contents::Held(Arc::new(weights::open(path)?)));
    }
    read(path).map(Contents::Owned)
}

/// Writes a file, or standard output for `-`. Files are written atomically.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Stop> {
    match is_stream(path) {
        true => print(bytes),
        false => output::write(path, bytes),
    }
}

/// Like [`write()`], with a callback that writes piece by piece.
///
/// # Errors
/// As for [`write()`].
pub fn write_by(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Stop> {
    if is_stream(path) {
        let mut out = std::io::stdout().lock();
        return shown(content(&mut out).and_then(|()| out.flush()));
    }
    let mut out = output::Output::create(path)?;
    content(&mut out).map_err(|e| output::trouble(path, &e))?;
    out.finish()
}

/// Writes to standard output. A closed pipe is not an error.
///
/// # Errors
/// It cannot be written.
pub fn print(bytes: &[u8]) -> Result<(), Stop> {
    let mut out = std::io::stdout().lock();
    shown(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Converts the result of writing to standard output.
fn shown(written: std::io::Result<()>) -> Result<(), Stop> {
    match written {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| format!("cannot write to standard output: {e}").into()),
    }
}

/// Prints a message on standard error. Errors are ignored: there is no one to report to.
pub fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Like [`say`], with the arguments of `format!`. The standard library's macros would panic on a
/// closed stream.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::io::say(&format!($($text)*)) };
}

/// Returns the name of a file in diagnostics.
pub fn display_name(path: &Path) -> String {
    match is_stream(path) {
        true => "<stdin>".into(),
        false => path.display().to_string(),
    }
}

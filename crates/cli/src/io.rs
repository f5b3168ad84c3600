//! Reading and writing files and the standard streams; `-` stands for a stream.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use relax_driver::{Contents, Format};

use crate::weights::Mapped;

/// The bytes of a file, or of standard input for `-`; the error as a sentence.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    let result = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    result.map_err(|e| format!("cannot read {}: {e}", display_name(path)))
}

/// What a module is read from: as [`read`]; a file that is no text is mapped, so that what it holds
/// need not be in memory twice.
pub fn contents(path: &Path) -> Result<Contents, String> {
    let mut head = [0; 64];
    let known = std::fs::metadata(path).is_ok_and(|m| m.is_file())
        && std::fs::File::open(path).is_ok_and(|mut f| {
            let n = f.read(&mut head).unwrap_or_default();
            Format::detect("", &head[..n]) != Format::Relay
        });
    if known {
        return Ok(Contents::Held(Arc::new(Mapped::open(path)?)));
    }
    read(path).map(Contents::Owned)
}

/// Writes a file, or standard output for `-`. A reader that went away is no error.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let result = if path == Path::new("-") {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    } else {
        std::fs::write(path, bytes)
    };
    match result {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| match path == Path::new("-") {
            true => format!("cannot write to standard output: {e}"),
            false => format!("cannot write {}: {e}", path.display()),
        }),
    }
}

/// Says something on standard error. Nothing can be told to whoever closed it.
pub fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// The name of a file in diagnostics.
pub fn display_name(path: &Path) -> String {
    if path == Path::new("-") {
        "<stdin>".into()
    } else {
        path.display().to_string()
    }
}

//! Progress of long work, on a terminal only.

use std::io::{IsTerminal as _, Write as _};

/// Says on standard error that `done` of `all` are done; nothing where nobody looks.
pub fn show(what: &str, done: usize, all: usize) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let percent = 100 * done / all.max(1);
        // A terminal that cannot be written to misses its progress, no more.
        let _ = write!(err, "\r{what}: {done} of {all} ({percent}%)");
        let _ = err.flush();
    }
}

/// Takes the line away.
pub fn end() {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K");
        let _ = err.flush();
    }
}

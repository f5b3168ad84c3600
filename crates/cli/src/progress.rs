//! Progress of long work, on a terminal only.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a stage may take before it is shown, and how often it is shown anew.
const PATIENCE: Duration = Duration::from_secs(1);

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

/// Work whose end is not known.
#[derive(Debug)]
pub struct Stage {
    /// Dropped when the work ends.
    ended: Option<Sender<()>>,
    watch: Option<JoinHandle<()>>,
}

/// Says on standard error what goes on, and for how many seconds, once it has taken longer than [`PATIENCE`]; the
/// line goes when the result does. Nothing where nobody looks.
pub fn stage(what: &'static str) -> Stage {
    if !std::io::stderr().is_terminal() {
        return Stage {
            ended: None,
            watch: None,
        };
    }
    let (sender, ended) = std::sync::mpsc::channel::<()>();
    let begin = Instant::now();
    let watch = std::thread::Builder::new().spawn(move || {
        let mut shown = false;
        while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            // As above.
            let mut err = std::io::stderr();
            let _ = write!(err, "\r{what} … {} s", begin.elapsed().as_secs());
            let _ = err.flush();
            shown = true;
        }
        if shown {
            end();
        }
    });
    Stage {
        ended: Some(sender),
        watch: watch.ok(),
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.ended.take());
        if let Some(watch) = self.watch.take() {
            // A watcher that panicked has nothing more to show.
            let _ = watch.join();
        }
    }
}

//! Progress of long work, on a terminal only.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a stage may take before it is shown, and how often it is shown anew.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the line is there.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Writes the line anew.
fn line(text: &str) {
    SHOWN.store(true, Ordering::Relaxed);
    crate::say!("\r{text}");
}

/// Leaves a clean line when the tool is interrupted.
pub fn interrupted() {
    if SHOWN.load(Ordering::Relaxed) {
        end();
    }
}

/// Says on standard error that `done` of `all` are done; nothing where nobody looks.
pub fn show(what: &str, done: usize, all: usize) {
    if std::io::stderr().is_terminal() {
        crate::interrupt::listen();
        let percent = 100 * done / all.max(1);
        line(&format!("{what}: {done} of {all} ({percent}%)"));
    }
}

/// Takes the line away.
pub fn end() {
    if std::io::stderr().is_terminal() {
        crate::say!("\r\x1b[K");
        SHOWN.store(false, Ordering::Relaxed);
    }
}

/// Work whose end is not known.
#[derive(Debug)]
pub struct Stage {
    /// Dropped when the work ends.
    ended: Option<Sender<()>>,
    watch: Option<JoinHandle<()>>,
}

/// Says on standard error what goes on, and for how many seconds, once it has taken longer than
/// `PATIENCE`; the line goes when the result does. Nothing where nobody looks.
pub fn stage(what: &'static str) -> Stage {
    if !std::io::stderr().is_terminal() {
        return Stage {
            ended: None,
            watch: None,
        };
    }
    crate::interrupt::listen();
    let (sender, ended) = std::sync::mpsc::channel::<()>();
    let begin = Instant::now();
    let watch = std::thread::Builder::new().spawn(move || {
        let mut shown = false;
        while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            line(&format!("{what} … {} s", begin.elapsed().as_secs()));
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

//! Progress display, on a terminal only.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time before a stage is displayed, and the update interval.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the line is displayed.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Redraws the line.
fn line(text: &str) {
    SHOWN.store(true, Ordering::Relaxed);
    crate::say!("\r{text}");
}

/// Clears the line when the tool is interrupted.
pub fn interrupted() {
    if SHOWN.load(Ordering::Relaxed) {
        end();
    }
}

/// Displays that `done` of `all` are done; does nothing if standard error is not a terminal.
pub fn show(what: &str, done: usize, all: usize) {
    if std::io::stderr().is_terminal() {
        crate::interrupt::listen();
        let percent = 100 * done / all.max(1);
        line(&format!("{what}: {done} of {all} ({percent}%)"));
    }
}

/// Clears the line.
pub fn end() {
    if std::io::stderr().is_terminal() {
        crate::say!("\r\x1b[K");
        SHOWN.store(false, Ordering::Relaxed);
    }
}

/// A stage of unknown duration.
#[derive(Debug)]
pub struct Stage {
    /// Dropped when the stage ends.
    ended: Option<Sender<()>>,
    watch: Option<JoinHandle<()>>,
}

/// Displays the stage and its duration in seconds once it takes longer than `PATIENCE`, until the
/// result is dropped; does nothing if standard error is not a terminal.
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
            // A watcher that panicked has nothing to display.
            let _ = watch.join();
        }
    }
}

//! Clean-up when a tool is interrupted: temporary files and folders, and the progress line.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The temporary files and folders.
static HELD: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<PathBuf>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file or folder, removed however the tool ends.
#[derive(Debug)]
pub struct Held(PathBuf);

impl Held {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps it: it was renamed into place.
    pub fn release(self) {
        held().retain(|h| *h != self.0);
        std::mem::forget(self);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        held().retain(|h| *h != self.0);
        remove(&self.0);
    }
}

fn remove(path: &Path) {
    // What cannot be removed remains among temporary files: there is no one to report to.
    let _ = match path.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    };
}

/// Creates a temporary file or folder; there is no moment when it exists but is not registered for
/// removal.
pub fn hold<T>(make: impl FnOnce() -> Result<(PathBuf, T)>) -> Result<(Held, T)> {
    listen();
    let mut held = held();
    let (path, made) = make()?;
    held.push(path.clone());
    Ok((Held(path), made))
}

/// Creates a temporary folder, in the system's location for these.
#[cfg(feature = "native")]
pub fn folder() -> Result<Held> {
    let make = || Ok((tempfile::tempdir()?.keep(), ()));
    hold(make).map(|made| made.0)
}

/// From now on, an interruption cleans up before it ends the tool.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(wait);
}

#[cfg(unix)]
fn wait() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::low_level::emulate_default_handler;
    let signals: Vec<i32> = ([SIGINT, SIGTERM, SIGHUP].into_iter())
        .filter(|s| !ignored(*s))
        .collect();
    let Ok(mut signals) = signal_hook::iterator::Signals::new(signals) else {
        return;
    };
    // Without the thread, interruptions would have no effect at all; in that case the tool would
    // not start either.
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Locked until the end, so that nothing new is created.
            let held = held();
            held.iter().for_each(|path| remove(path));
            crate::progress::interrupted();
            let _ = emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    });
}

#[cfg(not(unix))]
fn wait() {}

/// Returns whether the tool was started with a signal ignored (`nohup`, a background job), which is
/// preserved.
#[cfg(unix)]
fn ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only fills in the present one, which is plain data.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) } == 0;
    // SAFETY: zeros are a valid action, and the call may have written another.
    known && unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_goes_unless_it_is_released() {
        let room = tempfile::tempdir().expect("a folder");
        let make = |name: &str| {
            let path = room.path().join(name);
            let made = hold(|| std::fs::write(&path, "x").map(|()| (path.clone(), ())));
            made.expect("writable").0
        };
        let (goes, stays) = (make("goes"), make("stays"));
        drop(goes);
        stays.release();
        assert!(!room.path().join("goes").exists());
        assert!(room.path().join("stays").exists());
    }
}

//! What is taken away when a tool is interrupted: files and folders that are there for a while
//! only, and the line that shows progress.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// What is there for a while.
static HELD: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<PathBuf>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or folder that goes with the tool, however it ends.
#[derive(Debug)]
pub struct Held(PathBuf);

impl Held {
    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// It got another name: nothing is to be taken away any more.
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
    // What cannot be taken away stays where temporary things are: nobody is waiting to hear of it.
    let _ = match path.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    };
}

/// Makes something that goes with the tool: there is no moment when it is there and would stay.
pub fn hold<T>(make: impl FnOnce() -> Result<(PathBuf, T)>) -> Result<(Held, T)> {
    listen();
    let mut held = held();
    let (path, made) = make()?;
    held.push(path.clone());
    Ok((Held(path), made))
}

/// A folder for a while, where the system has such folders.
#[cfg(feature = "native")]
pub fn folder() -> Result<Held> {
    let make = || Ok((tempfile::tempdir()?.keep(), ()));
    hold(make).map(|made| made.0)
}

/// From now on an interruption cleans up before the tool ends by it.
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
    // Without the thread an interruption would have no effect at all; the tool would not start
    // either then.
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Kept until the end: nothing new is made.
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

/// Returns whether whoever started the tool has it ignore a signal (`nohup`, a job in the
/// background): that stays so.
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

//! Processors of their own for the workers.
//!
//! The kernel wakes a worker near the thread that calls it. In a virtual machine, where a waiting
//! processor is indistinguishable from one that the host has descheduled, that is the caller's own
//! processor, and both time-share it for milliseconds (`bench_threads` shows it). So each worker is
//! bound to a processor that the caller is not on, and moves away when the caller comes there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The processors that the workers of a pool are bound to.
///
/// Invariant: they and the caller's are different.
pub(super) struct Places {
    /// The last processor of the caller.
    caller: AtomicUsize,
    /// Each worker's; empty where the process may not use that many.
    own: Vec<AtomicUsize>,
}

impl Places {
    /// Creates slots for `workers` workers, which run anywhere until [`bind`](Self::bind).
    pub fn new(workers: usize) -> Self {
        let none = Self {
            caller: AtomicUsize::new(0),
            own: Vec::new(),
        };
        let Some(here) = system::here() else {
            return none;
        };
        let others = system::allowed().into_iter().filter(|&cpu| cpu != here);
        let (before, after): (Vec<usize>, Vec<usize>) = others.partition(|&cpu| cpu < here);
        let own: Vec<AtomicUsize> = (after.into_iter().chain(before))
            .take(workers)
            .map(AtomicUsize::new)
            .collect();
        if own.len() < workers {
            return none;
        }
        Self {
            caller: AtomicUsize::new(here),
            own,
        }
    }

    /// Binds a worker to its processor.
    pub fn bind(&self, worker: usize, thread: &JoinHandle<()>) {
        if let Some(own) = self.own.get(worker) {
            system::bind(thread, own.load(Ordering::Relaxed));
        }
    }

    /// Moves the worker on the caller's current processor to the caller's previous one.
    pub fn make_room(&self, workers: &[JoinHandle<()>]) {
        if self.own.is_empty() {
            return;
        }
        let was = self.caller.load(Ordering::Relaxed);
        let Some(here) = system::here().filter(|&here| here != was) else {
            return;
        };
        self.caller.store(here, Ordering::Relaxed);
        for (own, thread) in self.own.iter().zip(workers) {
            if own.load(Ordering::Relaxed) == here {
                own.store(was, Ordering::Relaxed);
                system::bind(thread, was);
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::mem::{size_of, zeroed};
    use std::os::unix::thread::JoinHandleExt;
    use std::thread::JoinHandle;

    /// Returns the processor that the calling thread is on.
    pub fn here() -> Option<usize> {
        // SAFETY: it takes nothing and returns a number.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Returns the processors that the process may use.
    pub fn allowed() -> Vec<usize> {
        // SAFETY: a set of processors is plain bits, and the call gets its size.
        unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
                return Vec::new();
            }
            let all = 0..libc::CPU_SETSIZE as usize;
            all.filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
        }
    }

    /// Binds a thread. Where that is not permitted, it runs anywhere.
    pub fn bind(thread: &JoinHandle<()>, processor: usize) {
        // SAFETY: a set of processors is plain bits, the number is less than it has (`allowed`), and
        // the thread was not joined: its handle is there.
        unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            libc::CPU_SET(processor, &mut set);
            let thread = thread.as_pthread_t();
            libc::pthread_setaffinity_np(thread, size_of::<libc::cpu_set_t>(), &set);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::thread::JoinHandle;

    /// Unknown.
    pub fn here() -> Option<usize> {
        None
    }
    /// None by name.
    pub fn allowed() -> Vec<usize> {
        Vec::new()
    }
    /// Does nothing.
    pub fn bind(_: &JoinHandle<()>, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_differ_from_each_other_and_the_callers() {
        for n in [0, 1, 2, 3, 1 << 20] {
            let places = Places::new(n);
            let mut found: Vec<usize> = (places.own.iter().chain([&places.caller]))
                .map(|place| place.load(Ordering::Relaxed))
                .collect();
            assert!(found.len() == 1 || found.len() == n + 1);
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), places.own.len() + 1);
        }
    }
}

//! The thread pool: loops over a range, split among a fixed number of threads.
//!
//! What a loop takes depends on the kernel, the element type and the processor, so how much of it
//! is worth a thread is not known beforehand, except where it is very little or very much. In
//! between, the first part of the loop is timed, and what is left is shared if that pays.
//!
//! Invariant: no thread is woken for a loop that is too small, a loop inside a loop runs inline,
//! and every piece of the range runs exactly once.

mod affinity;

use affinity::Places;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Processes a part of the range on one worker.
pub type RangeFn = unsafe extern "C" fn(*mut c_void, i64, i64, i32);

/// The number of polls of an idle worker before it sleeps: about a millisecond, which is longer
/// than most of what a program does between two loops on one thread. Waking a worker takes some
/// fifty microseconds.
const SPINS: u32 = 20_000;

/// What is left of a loop is shared if it takes longer than this: some times what it takes workers
/// that poll to join.
const WORTH: Duration = Duration::from_micros(4);

/// The same where workers sleep: waking them takes the caller some microseconds. They come too late
/// for a loop as short, but poll for the next ones.
const WORTH_WAKING: Duration = Duration::from_micros(8);

/// The part of [`Grain::sure`] that is too little whatever it takes.
const HOPELESS: i64 = 32;

/// How finely a loop divides.
///
/// Invariant: both are at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Grain {
    /// The fewest indices of a piece.
    least: i64,
    /// As many indices as are surely worth a thread. Fewer are shared if their first part takes
    /// long.
    sure: i64,
}

impl Grain {
    /// The grain of a loop that always pays, in pieces of at least `least` indices.
    pub fn always(least: usize) -> Self {
        let least = (least as i64).max(1);
        Self { least, sure: least }
    }

    /// The grain of a loop each of whose indices does `work`, where `enough` is surely worth a
    /// thread.
    pub fn of_work(enough: usize, work: usize) -> Self {
        Self::estimated((enough / work.max(1)) as i64)
    }

    /// The same in pieces of at least `least` indices.
    pub fn at_least(self, least: usize) -> Self {
        let least = (least as i64).max(1);
        Self {
            least: self.least.max(least),
            sure: self.sure.max(least),
        }
    }

    /// The grain of a loop `sure` of whose indices are surely worth a thread; fewer are shared when
    /// those that run first take long enough.
    pub fn estimated(sure: i64) -> Self {
        let sure = sure.max(1);
        Self {
            least: (sure / HOPELESS).max(1),
            sure,
        }
    }
}

/// Set in `Shared::gate` while workers may join the job; the other bits count those inside.
const OPEN: usize = 1 << 31;

#[derive(Clone, Copy)]
struct Job {
    function: RangeFn,
    data: *mut c_void,
    begin: i64,
    end: i64,
    piece: i64,
    /// Invariant: points into the frame of `Pool::run`, which waits for all that are inside the
    /// job.
    claims: *const Claims,
}

struct Shared {
    /// Written by the caller while no worker is inside a job.
    job: UnsafeCell<Option<Job>>,
    /// Counts jobs; a change wakes the workers.
    generation: AtomicU32,
    /// [`OPEN`], and the number of workers inside the current job. A worker that wakes after the
    /// work is done stays out, so that no one waits for sleeping workers.
    gate: AtomicUsize,
    sleepers: AtomicUsize,
    stop: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

// SAFETY: `job` is written only between jobs (see `Pool::run`), and its `data` is a closure that is
// `Sync` (`Pool::each`).
unsafe impl Sync for Shared {}
// SAFETY: the pointers of `job` are used by threads that are inside of it alone, as `Sync` says.
unsafe impl Send for Shared {}

impl Shared {
    fn work(job: Job, worker: i32) {
        // SAFETY: the worker is inside the job, so `Pool::share` still waits, and with it the frame
        // that has the claims.
        let claims = unsafe { &*job.claims };
        claims.take_all(worker as usize, |part| {
            let begin = job.begin + part as i64 * job.piece;
            let end = begin.saturating_add(job.piece).min(job.end);
            // SAFETY: `function` takes `data` for every part of `begin..end`, by `Pool::run`'s
            // contract; this one lies inside and is claimed once.
            unsafe { (job.function)(job.data, begin, end, worker) };
        });
    }

    fn serve(&self, worker: i32) {
        let mut seen = 0;
        loop {
            let mut spins = 0;
            while self.generation.load(Ordering::Acquire) == seen {
                spins += 1;
                if spins < SPINS {
                    std::hint::spin_loop();
                    continue;
                }
                let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                while self.generation.load(Ordering::SeqCst) == seen {
                    held = self.wake.wait(held).unwrap_or_else(PoisonError::into_inner);
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
            seen = self.generation.load(Ordering::Acquire);
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            if !self.enter() {
                continue;
            }
            // SAFETY: `Pool::share` wrote the job before it opened the gate, and writes the next one
            // only when nobody is inside, as this worker is (`enter`).
            if let Some(job) = unsafe { *self.job.get() } {
                Self::work(job, worker);
            }
            self.gate.fetch_sub(1, Ordering::Release);
        }
    }

    /// Joins the current job, if there still is one.
    fn enter(&self) -> bool {
        let join = |gate: usize| (gate & OPEN != 0).then_some(gate + 1);
        self.gate
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, join)
            .is_ok()
    }

    fn announce(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }
}

/// The workers of a context; the calling thread is one more.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    places: Places,
    active: AtomicBool,
}

impl Pool {
    /// A pool of the calling thread alone.
    pub fn new() -> Self {
        let shared = Shared {
            job: UnsafeCell::new(None),
            generation: AtomicU32::new(0),
            gate: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            workers: Vec::new(),
            places: Places::new(0),
            active: AtomicBool::new(false),
        }
    }

    /// Returns the number of threads, including the calling one.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Stops all workers and starts `threads - 1`, each bound to its own processor where the
    /// process may use enough of them; returns the resulting number of threads.
    pub fn resize(&mut self, threads: usize) -> usize {
        if threads == self.threads() || self.active.load(Ordering::Relaxed) {
            return self.threads();
        }
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.announce();
        for worker in self.workers.drain(..) {
            // A worker cannot panic: a panic cannot leave an `extern "C"` function.
            let _ = worker.join();
        }
        *self = Self::new();
        self.places = Places::new(threads - 1);
        for worker in 1..threads {
            let shared = Arc::clone(&self.shared);
            let name = format!("relax-{worker}");
            let body = move || shared.serve(worker as i32);
            match std::thread::Builder::new().name(name).spawn(body) {
                Ok(handle) => {
                    self.places.bind(worker - 1, &handle);
                    self.workers.push(handle);
                }
                Err(_) => break,
            }
        }
        self.threads()
    }

    /// Runs `function` over `[0, n)`, on several threads where that pays.
    ///
    /// # Safety
    /// `function` may be called with `data` from any thread, for disjoint ranges at the same time.
    unsafe fn run(&self, n: i64, grain: Grain, function: RangeFn, data: *mut c_void) {
        if n <= 0 {
            return;
        }
        let least = grain.least;
        let inline = self.workers.is_empty()
            || n <= grain.sure && n <= 2 * least
            || self.active.swap(true, Ordering::Acquire);
        if inline {
            // SAFETY: the whole of `0..n`.
            unsafe { function(data, 0, n, 0) };
            return;
        }
        let mut begin = 0;
        if n <= grain.sure {
            begin = least.max(n / 8);
            let start = Instant::now();
            // SAFETY: `begin` is at most `n`, since `n` is more than twice `least`.
            unsafe { function(data, 0, begin, 0) };
            let asleep = self.shared.sleepers.load(Ordering::Relaxed) > 0;
            let worth = if asleep { WORTH_WAKING } else { WORTH };
            let parts = ((n - begin) / begin).min(1 << 16) as u32;
            if start.elapsed() * parts < worth {
                // SAFETY: the rest of `0..n`.
                unsafe { function(data, begin, n, 0) };
                self.active.store(false, Ordering::Release);
                return;
            }
        }
        // Four pieces for each thread even out unequal speeds.
        let pieces = self.threads() as i64 * 4;
        let piece = least.max((n - begin - 1) / pieces + 1);
        let claims = Claims::new(((n - begin - 1) / piece + 1) as usize, self.threads());
        let job = Job {
            function,
            data,
            begin,
            end: n,
            piece,
            claims: &raw const claims,
        };
        self.share(job);
        self.active.store(false, Ordering::Release);
    }

    /// Runs a job on all threads that come while there is work, and returns when it is done.
    fn share(&self, job: Job) {
        self.places.make_room(&self.workers);
        let shared = &*self.shared;
        // SAFETY: the gate is shut and nobody is inside, so no worker reads the job; `active` keeps
        // other threads from here.
        unsafe { *shared.job.get() = Some(job) };
        shared.gate.store(OPEN, Ordering::Release);
        shared.announce();
        Shared::work(job, 0);
        shared.gate.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0u32;
        while shared.gate.load(Ordering::Acquire) != 0 {
            spins += 1;
            if spins < 20_000 {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
        }
    }

    /// Calls a closure with `(begin, end, worker)` for parts of `0..n` that are disjoint and cover
    /// it, on several threads where that pays. The closure does not panic.
    pub fn each(&self, n: usize, grain: Grain, body: impl Fn(usize, usize, usize) + Sync) {
        unsafe extern "C" fn call<F: Fn(usize, usize, usize) + Sync>(
            data: *mut c_void,
            begin: i64,
            end: i64,
            worker: i32,
        ) {
            // SAFETY: `data` is the closure of the frame of `each` below, which waits for the loop;
            // it is `Sync`.
            let body = unsafe { &*data.cast::<F>() };
            body(begin as usize, end as usize, worker as usize);
        }
        fn of<F: Fn(usize, usize, usize) + Sync>(_: &F) -> RangeFn {
            call::<F>
        }
        let data = (&raw const body).cast_mut().cast();
        // SAFETY: `data` is `body`, which `call` of its type takes from any thread: it is `Sync`.
        unsafe { self.run(n as i64, grain, of(&body), data) };
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.workers.is_empty() {
            self.shared.stop.store(true, Ordering::SeqCst);
            self.shared.announce();
            for worker in self.workers.drain(..) {
                let _ = worker.join();
            }
        }
    }
}

/// The claimed parts of a loop. A worker claims its own share of them first, in order, and then the
/// last ones of others: from one loop to the next it works on the same operands, as far as loops are
/// divided in the same way, which its caches may still hold.
///
/// Invariant: each part is claimed once.
struct Claims {
    parts: usize,
    threads: usize,
    taken: [AtomicU64; 4],
    /// Parts that are claimed in order, where there are too many for bits.
    next: AtomicUsize,
}

impl Claims {
    fn new(parts: usize, threads: usize) -> Self {
        Self {
            parts,
            threads,
            taken: [const { AtomicU64::new(0) }; 4],
            next: AtomicUsize::new(0),
        }
    }

    /// Calls `body` with each part that no other worker claims.
    fn take_all(&self, worker: usize, mut body: impl FnMut(usize)) {
        if self.parts > 64 * self.taken.len() {
            loop {
                let part = self.next.fetch_add(1, Ordering::Relaxed);
                if part >= self.parts {
                    return;
                }
                body(part);
            }
        }
        let first = |worker: usize| self.parts * worker / self.threads;
        let (begin, end) = (first(worker), first(worker + 1));
        let others = (end..self.parts).rev();
        for part in (begin..end).chain((0..begin).rev()).chain(others) {
            let (word, bit) = (&self.taken[part / 64], 1 << (part % 64));
            if word.load(Ordering::Relaxed) & bit == 0
                && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
            {
                body(part);
            }
        }
    }
}

/// Pointers that the threads of a loop share.
pub(crate) struct Share<T>(T);

// SAFETY: `Share::new`'s contract: the threads write disjoint parts.
unsafe impl<T> Sync for Share<T> {}

impl<T> Share<T> {
    /// # Safety
    /// The threads write disjoint parts of what the pointers inside point to.
    pub unsafe fn new(inner: T) -> Self {
        Self(inner)
    }

    /// Returns the shared value.
    pub fn get(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_taken_once() {
        for parts in [1, 2, 5, 64, 65, 256, 257] {
            let claims = Claims::new(parts, 3);
            let (mut taken, mut first) = (Vec::new(), [None; 3]);
            // Each of the others is asked for all that are left when one has claimed a part.
            claims.take_all(1, |part| {
                first[1].get_or_insert(part);
                taken.push(part);
                if taken.len() == 1 {
                    for worker in [2, 0] {
                        claims.take_all(worker, |part| {
                            first[worker].get_or_insert(part);
                            taken.push(part);
                        });
                    }
                }
            });
            assert!(parts > 256 || first[1] == Some(parts / 3), "{parts}");
            taken.sort_unstable();
            assert_eq!(taken, (0..parts).collect::<Vec<_>>());
        }
    }
}

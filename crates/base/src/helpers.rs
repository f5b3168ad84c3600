//! Work shared between threads.

/// Returns the number of threads that can help the current one: one for each other processor.
pub fn helpers() -> usize {
    std::thread::available_parallelism().map_or(0, |n| n.get() - 1)
}

/// Runs `work` on this thread and on `helpers` additional ones, each claiming parts of it
/// dynamically; returns when all have finished. If no thread can be started, this one does all the
/// work.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
/// relax_base::with_helpers(2, || {
///     while let Some(part) = [1, 2, 3].get(next.fetch_add(1, Ordering::Relaxed)) {
///         sum.fetch_add(*part, Ordering::Relaxed);
///     }
/// });
/// assert_eq!(sum.into_inner(), 6);
/// ```
pub fn with_helpers(helpers: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            let _ = std::thread::Builder::new().spawn_scoped(scope, &work);
        }
        work();
    });
}

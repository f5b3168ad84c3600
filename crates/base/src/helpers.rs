//! Work that several threads share.

/// Returns how many threads may help this one: one for each other processor.
pub fn helpers() -> usize {
    std::thread::available_parallelism().map_or(0, |n| n.get() - 1)
}

/// Has so many threads do something beside this one, which takes parts of it as they come: it
/// returns when all of them are done. Where no thread can be had, this one does it all.
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

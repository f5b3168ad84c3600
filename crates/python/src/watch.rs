//! Prediction of a call's duration from the last one: calls that may take long are watched for
//! interrupts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use relax::{DType, Value, View};

/// Calls that take at least this many nanoseconds are watched.
pub const SLOW: u64 = 20_000_000;

/// Statistics of a program's last call.
pub struct Watch {
    /// Its duration, in nanoseconds.
    took: AtomicU64,
    /// Its effort, see [`Effort`].
    effort: AtomicU64,
}

impl Watch {
    /// Creates the state before the first call.
    pub fn new() -> Watch {
        Watch {
            took: AtomicU64::new(u64::MAX),
            effort: AtomicU64::new(0),
        }
    }

    /// Returns the duration of the last call, in nanoseconds.
    pub fn last(&self) -> u64 {
        self.took.load(Ordering::Relaxed)
    }

    /// Records a finished call that started at `start`.
    pub fn took(&self, start: Instant, effort: Effort) {
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.took.store(nanos, Ordering::Relaxed);
        self.effort.store(effort.0, Ordering::Relaxed);
    }

    /// Returns whether a call may take long: the last one did, or would have with proportionally
    /// more effort. Time is assumed to grow with the third power, as for matrix products.
    pub fn expects_long(&self, effort: Effort) -> bool {
        let more = effort.0 as f64 / self.effort.load(Ordering::Relaxed).max(1) as f64;
        self.last() as f64 * more.max(1.0).powi(3) >= SLOW as f64
    }
}

/// An estimate of a call's work from its arguments: their bytes, and the values of short integer
/// arguments, which may be step counts.
#[derive(Clone, Copy)]
pub struct Effort(u64);

/// The minimum effort of a call.
const LEAST: u64 = 64;
/// Larger arguments are not considered counts.
const COUNTS: usize = 64;

impl Effort {
    /// Estimates the effort of a call with these arguments.
    pub fn of_views(views: &[View<'_>]) -> Effort {
        let each = views.iter().map(|v| of(v.dtype, v.bytes));
        Effort(each.fold(LEAST, u64::saturating_add))
    }

    /// Estimates the effort of a call with these arguments, with an explicit stack.
    pub fn of_values(values: &[Value]) -> Effort {
        let mut sum = LEAST;
        let mut work: Vec<&Value> = values.iter().collect();
        while let Some(value) = work.pop() {
            match value {
                Value::Tensor(t) => sum = sum.saturating_add(of(t.dtype(), t.bytes())),
                Value::Tuple(fields) | Value::Adt(_, fields) => work.extend(fields.iter()),
                Value::Opaque(_) => {}
            }
        }
        Effort(sum)
    }
}

fn of(dtype: DType, bytes: &[u8]) -> u64 {
    let size = dtype.size();
    let mut sum = bytes.len() as u64;
    if dtype.is_integral() && bytes.len() <= COUNTS && (1..=8).contains(&size) {
        for element in bytes.chunks_exact(size) {
            let mut word = [0; 8];
            word[..size].copy_from_slice(element);
            // A negative number counts as a large one: such a call is watched unnecessarily.
            sum = sum.saturating_add(u64::from_le_bytes(word));
        }
    }
    sum
}

//! What the last call has cost, and what that says about the next one: calls that may take long are
//! watched for interruptions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use relax::{DType, Value, View};

/// A call that takes so many nanoseconds is watched.
pub const SLOW: u64 = 20_000_000;

/// The last call of a program.
pub struct Watch {
    /// How long it took, in nanoseconds.
    took: AtomicU64,
    /// How much it had to do, see [`Effort`].
    effort: AtomicU64,
}

impl Watch {
    /// Before the first call, which nobody knows anything of.
    pub fn new() -> Watch {
        Watch {
            took: AtomicU64::new(u64::MAX),
            effort: AtomicU64::new(0),
        }
    }

    /// Returns how long the last call took, in nanoseconds.
    pub fn last(&self) -> u64 {
        self.took.load(Ordering::Relaxed)
    }

    /// Notes a call that began then, and has ended.
    pub fn took(&self, start: Instant, effort: Effort) {
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.took.store(nanos, Ordering::Relaxed);
        self.effort.store(effort.0, Ordering::Relaxed);
    }

    /// Returns whether a call may take long: the last one did, or would have with so much more to
    /// do. Time is taken to grow with the third power, as that of a product of matrices does.
    pub fn expects_long(&self, effort: Effort) -> bool {
        let more = effort.0 as f64 / self.effort.load(Ordering::Relaxed).max(1) as f64;
        self.last() as f64 * more.max(1.0).powi(3) >= SLOW as f64
    }
}

/// How much a call has to do, as far as its arguments tell: their bytes, and the numbers in short
/// ones of integers, which may count steps.
#[derive(Clone, Copy)]
pub struct Effort(u64);

/// What every call has to do.
const LEAST: u64 = 64;
/// Arguments of more bytes are no counts.
const COUNTS: usize = 64;

impl Effort {
    /// That of a call with these arguments.
    pub fn of_views(views: &[View<'_>]) -> Effort {
        let each = views.iter().map(|v| of(v.dtype, v.bytes));
        Effort(each.fold(LEAST, u64::saturating_add))
    }

    /// The same. However deep values are, this takes no stack.
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
            // A negative number is a large one: such a call is watched for nothing.
            sum = sum.saturating_add(u64::from_le_bytes(word));
        }
    }
    sum
}

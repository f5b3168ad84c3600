//! The cost of kernels: calls, time, work and memory traffic of each, for programs compiled with
//! profiling.

use std::time::Instant;

/// The accumulated cost of one kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxProfileRow {
    /// Number of calls.
    pub calls: u64,
    /// Total time, in nanoseconds.
    pub nanos: u64,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes of arguments and results.
    pub bytes: u64,
    /// Time of the shortest call, in nanoseconds.
    pub least: u64,
}

/// One call of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kernel's number.
    pub kernel: u32,
    /// Its start time, in nanoseconds since [`Profile::keep_events`].
    pub start: u64,
    /// Its duration, in nanoseconds.
    pub nanos: u64,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes of arguments and results.
    pub bytes: u64,
}

/// The rows of a context, by kernel number.
#[derive(Debug)]
pub struct Profile {
    start: Instant,
    rows: Vec<RxProfileRow>,
    /// Individual calls, where requested: at most `most` since a point in time.
    events: Vec<Event>,
    most: usize,
    since: u64,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            start: Instant::now(),
            rows: Vec::new(),
            events: Vec::new(),
            most: 0,
            since: 0,
        }
    }
}

impl Profile {
    /// The time, to be given to [`Profile::end`].
    pub fn begin(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Adds a call of a kernel that began at `start` and ends now.
    pub fn end(&mut self, kernel: usize, start: u64, bytes: u64, flops: u64) {
        let took = self.begin().saturating_sub(start);
        if self.rows.len() <= kernel {
            self.rows.resize(kernel + 1, RxProfileRow::default());
        }
        let row = &mut self.rows[kernel];
        row.least = if row.calls == 0 {
            took
        } else {
            row.least.min(took)
        };
        row.calls += 1;
        row.nanos += took;
        row.flops += flops;
        row.bytes += bytes;
        if self.events.len() < self.most {
            self.events.push(Event {
                kernel: kernel as u32,
                start: start.saturating_sub(self.since),
                nanos: took,
                flops,
                bytes,
            });
        }
    }

    /// Returns the accumulated cost of a kernel; zeros when it has not run.
    pub fn row(&self, kernel: usize) -> RxProfileRow {
        self.rows.get(kernel).copied().unwrap_or_default()
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Records individual calls of kernels from now on, up to a maximum.
    pub fn keep_events(&mut self, most: usize) {
        (self.events, self.most) = (Vec::new(), most);
        self.since = self.begin();
    }

    /// Returns the calls recorded since [`Profile::keep_events`], in the order in which they
    /// ended.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_add_up_and_events_end_at_the_most() {
        let mut profile = Profile::default();
        profile.end(2, profile.begin(), 10, 1);
        profile.keep_events(2);
        for bytes in [20, 30, 40] {
            profile.end(2, profile.begin(), bytes, 2);
        }
        let row = profile.row(2);
        assert_eq!((row.calls, row.bytes, row.flops), (4, 100, 7));
        assert!(row.least <= row.nanos);
        let bytes: Vec<u64> = profile.take_events().iter().map(|e| e.bytes).collect();
        assert_eq!(bytes, [20, 30]);
        assert_eq!((profile.row(0), profile.row(9)), Default::default());
        profile.clear();
        assert_eq!(profile.row(2), RxProfileRow::default());
    }
}

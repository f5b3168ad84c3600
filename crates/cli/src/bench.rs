//! Timing of runs: `--bench`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::progress;
use crate::words::count;

/// How often a program is run to measure it.
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Measuring")]
pub struct Bench {
    /// Runs so many times more and says what the median run took, and between what the others lie.
    #[arg(long, value_name = "RUNS", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub bench: Option<u32>,
    /// How many runs come before those that `--bench` measures: the first ones find caches and
    /// clocks cold.
    #[arg(
        long,
        value_name = "RUNS",
        default_value_t = 3,
        allow_negative_numbers = true
    )]
    pub warmup: u32,
}

/// Runs a call once and then `more` times; returns its first result, and the time of each run.
///
/// # Errors
/// The error of the first run that fails.
pub fn timed<T, E>(
    more: usize,
    mut call: impl FnMut() -> Result<T, E>,
) -> Result<(T, Vec<Duration>), E> {
    let mut times = Vec::new();
    let mut run = || {
        let begin = Instant::now();
        let value = call();
        times.push(begin.elapsed());
        value
    };
    let first = progress::stage("running");
    let value = run()?;
    drop(first);
    for done in 0..more {
        progress::show("running", done, more);
        run()?;
    }
    if more > 0 {
        progress::end();
    }
    Ok((value, times))
}

impl Bench {
    /// Returns the number of warm-up runs.
    pub fn warmup(&self) -> usize {
        match self.bench {
            Some(_) => self.warmup as usize,
            None => 0,
        }
    }

    /// Returns the total number of runs.
    pub fn runs(&self) -> usize {
        self.bench.unwrap_or(0) as usize + self.warmup()
    }

    /// Formats the statistics of the measured runs; `times` also has the warm-up runs, which come
    /// first. Empty if no run is measured.
    pub fn report(&self, name: &str, times: &[Duration]) -> String {
        let mut times = times.get(self.warmup()..).unwrap_or_default().to_vec();
        times.sort();
        let (Some(least), Some(most)) = (times.first(), times.last()) else {
            return String::new();
        };
        let at = |quarters: usize| times[(times.len() - 1) * quarters / 4];
        let mut out = format!("@{name}: median {:.3?}", at(2));
        if times.len() > 1 {
            let (low, high) = (at(1), at(3));
            let _ = write!(out, ", half of them {low:.3?} to {high:.3?}");
            let _ = write!(out, ", least {least:.3?}, most {most:.3?}");
        }
        let _ = write!(out, " ({}", count(times.len(), "run"));
        if self.warmup > 0 {
            let _ = write!(out, " after {} to warm up", self.warmup);
        }
        out + ")\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_measured_does_not_count() {
        let bench = Bench {
            bench: Some(5),
            warmup: 2,
        };
        let times = [900, 800, 3, 1, 2, 5, 4].map(Duration::from_micros);
        assert_eq!(bench.runs(), times.len());
        assert_eq!(
            bench.report("f", &times),
            "@f: median 3.000µs, half of them 2.000µs to 4.000µs, least 1.000µs, most 5.000µs \
             (5 runs after 2 to warm up)\n"
        );
        let none = Bench {
            bench: None,
            warmup: 2,
        };
        assert_eq!((none.runs(), none.report("f", &[])), (0, String::new()));
    }
}

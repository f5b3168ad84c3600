//! Execution traces in the format of Chrome's tracing.

use std::path::Path;
use std::time::Instant;

use relax_codegen::KernelEvent;
use serde_json::{Value, json};

use crate::formats::Format;
use crate::stop::Stop;
use crate::{io, places};

/// The limit on recorded kernel calls: a million make a file of 200 MB.
pub const MOST: usize = 1 << 20;

/// Checks that the trace's path does not contradict its format.
///
/// # Errors
/// The extension is that of another format.
pub fn allowed(path: &Path) -> Result<(), Stop> {
    Format::allow(path, "a trace", &[Format::Json])?;
    places::output(path)
}

/// The events so far.
#[derive(Debug)]
pub struct Trace {
    begin: Instant,
    /// The end of the last stage.
    last: Instant,
    /// The time when kernel timing began.
    kernels: Instant,
    stages: Vec<(&'static str, Instant, Instant)>,
}

impl Trace {
    /// Starts a trace at the given time.
    pub fn new(begin: Instant) -> Trace {
        Trace {
            begin,
            last: begin,
            kernels: begin,
            stages: Vec::new(),
        }
    }

    /// Records the end of a stage, which began at the end of the previous one.
    pub fn stage(&mut self, name: &'static str) {
        let now = Instant::now();
        // Most runs write no trace: the number of recorded stages is limited like that of kernel
        // calls.
        if self.stages.len() < MOST {
            self.stages.push((name, self.last, now));
        }
        self.last = now;
    }

    /// Records that kernel timing begins.
    pub fn kernels_begin(&mut self) {
        self.kernels = Instant::now();
    }

    /// Returns all events as JSON.
    fn json(&self, labels: &[String], kernels: &[KernelEvent]) -> Value {
        let since = |at: Instant| at.saturating_duration_since(self.begin).as_nanos() as f64 / 1e3;
        let row = |tid: u32, name: &str| json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": name}});
        let mut events = vec![row(1, "stages"), row(2, "kernels")];
        events.extend(self.stages.iter().map(|(name, from, to)| {
            let (ts, dur) = (since(*from), since(*to) - since(*from));
            json!({"ph": "X", "cat": "stage", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur})
        }));
        let offset = since(self.kernels);
        events.extend(kernels.iter().map(|k| {
            let name = labels
                .get(k.kernel as usize)
                .map_or("kernel", String::as_str);
            let (ts, dur) = (offset + k.start as f64 / 1e3, k.nanos as f64 / 1e3);
            json!({
                "ph": "X", "cat": "kernel", "name": name, "pid": 1, "tid": 2, "ts": ts, "dur": dur,
                "args": {"flops": k.flops, "bytes": k.bytes},
            })
        }));
        json!({"displayTimeUnit": "ns", "traceEvents": events})
    }

    /// Writes the trace, including these kernel calls, whose names are `labels`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(
        &self,
        path: &Path,
        labels: &[String],
        kernels: &[KernelEvent],
    ) -> Result<(), Stop> {
        let text = self.json(labels, kernels).to_string();
        io::write(path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_kernels_stand_in_their_rows() {
        let mut trace = Trace::new(Instant::now());
        trace.stage("read");
        trace.kernels_begin();
        trace.stage("run");
        let call = KernelEvent {
            kernel: 0,
            start: 1500,
            nanos: 250,
            flops: 8,
            bytes: 64,
        };
        let json = trace.json(&["add".to_owned()], &[call]);
        let events = json["traceEvents"].as_array().expect("a list");
        let names: Vec<_> = events[2..].iter().map(|e| e["name"].as_str()).collect();
        assert_eq!(names, [Some("read"), Some("run"), Some("add")]);
        assert_eq!(
            (&events[4]["dur"], &events[4]["args"]["bytes"]),
            (&json!(0.25), &json!(64))
        );
        let end = |e: &Value| e["ts"].as_f64().unwrap_or(0.0) + e["dur"].as_f64().unwrap_or(0.0);
        assert!(events[3]["ts"].as_f64() >= Some(end(&events[2]) - 0.01));
    }
}

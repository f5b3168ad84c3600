//! What a run did when, in the format of Chrome's traces.

use std::path::Path;
use std::time::Instant;

use relax_codegen::KernelEvent;
use serde_json::{Value, json};

use crate::formats::Format;
use crate::stop::Stop;
use crate::{io, places};

/// Calls of kernels beyond these are left out: a million makes a file of 200 MB.
pub const MOST: usize = 1 << 20;

/// Returns whether a trace may go where it is to go.
///
/// # Errors
/// The name says that something else is there.
pub fn allowed(path: &Path) -> Result<(), Stop> {
    Format::allow(path, "a trace", &[Format::Json])?;
    places::output(path)
}

/// What has happened so far.
#[derive(Debug)]
pub struct Trace {
    begin: Instant,
    /// When the last stage ended.
    last: Instant,
    /// Since when kernels are counted.
    kernels: Instant,
    stages: Vec<(&'static str, Instant, Instant)>,
}

impl Trace {
    /// A trace that began then.
    pub fn new(begin: Instant) -> Trace {
        Trace {
            begin,
            last: begin,
            kernels: begin,
            stages: Vec::new(),
        }
    }

    /// A stage has ended, which began when the one before it ended.
    pub fn stage(&mut self, name: &'static str) {
        let now = Instant::now();
        // Most runs have no trace: no more than a file would hold is kept of those that repeat.
        if self.stages.len() < MOST {
            self.stages.push((name, self.last, now));
        }
        self.last = now;
    }

    /// From now on kernels are measured.
    pub fn kernels_begin(&mut self) {
        self.kernels = Instant::now();
    }

    /// Everything as JSON.
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

    /// Writes it, with these calls of kernels, whose names are `labels`.
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

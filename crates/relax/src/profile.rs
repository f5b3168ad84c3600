//! The profile table of `relax-run --profile`.

use std::fmt::Write as _;

use relax_codegen::KernelCost;

/// The accumulated cost of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cost {
    /// The operators it computes.
    pub kernel: String,
    /// The number of calls.
    pub calls: u64,
    /// The total time of all calls, in nanoseconds.
    pub nanos: u64,
    /// The time of the fastest call, in nanoseconds.
    pub least: u64,
    /// Arithmetic operations over all calls, as far as they are known.
    pub flops: u64,
    /// Bytes of arguments and results over all calls.
    pub bytes: u64,
}

/// Returns the cost of the kernels that ran, the most expensive first.
pub fn costs(labels: &[String], costs: &[KernelCost]) -> Vec<Cost> {
    let row = |(label, c): (&String, &KernelCost)| Cost {
        kernel: label.clone(),
        calls: c.calls,
        nanos: c.nanos,
        least: c.least,
        flops: c.flops,
        bytes: c.bytes,
    };
    let ran = labels.iter().zip(costs).filter(|r| r.1.calls > 0);
    let mut rows: Vec<Cost> = ran.map(row).collect();
    let dearest = |a: &Cost, b: &Cost| b.nanos.cmp(&a.nanos).then_with(|| a.kernel.cmp(&b.kernel));
    rows.sort_by(dearest);
    rows
}

/// Formats the cost of each kernel, the most expensive first: calls, time, share of the total
/// kernel time, GFLOP/s, GB/s, and the fastest call, which is the least disturbed by other
/// processes. Kernels that did not run are left out.
pub fn table(labels: &[String], costs: &[KernelCost]) -> String {
    let rows = self::costs(labels, costs);
    let total: u64 = rows.iter().map(|r| r.nanos).sum();
    let mut out = format!(
        "{:>9} {:>12} {:>7} {:>9} {:>9} {:>11}  kernel\n",
        "calls", "time (us)", "share", "GFLOP/s", "GB/s", "least (us)"
    );
    for c in &rows {
        let nanos = (c.nanos as f64).max(1.0);
        let _ = writeln!(
            out,
            "{:>9} {:>12.1} {:>6.1}% {:>9.2} {:>9.2} {:>11.1}  {}",
            c.calls,
            c.nanos as f64 / 1e3,
            100.0 * c.nanos as f64 / (total as f64).max(1.0),
            c.flops as f64 / nanos,
            c.bytes as f64 / nanos,
            c.least as f64 / 1e3,
            c.kernel,
        );
    }
    let calls: u64 = rows.iter().map(|r| r.calls).sum();
    let _ = writeln!(
        out,
        "{calls:>9} {:>12.1} {:>6.1}% {:>9} {:>9} {:>11}  all kernels",
        total as f64 / 1e3,
        if total > 0 { 100.0 } else { 0.0 },
        "",
        "",
        ""
    );
    out
}

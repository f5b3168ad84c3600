//! The table of `relax-run --profile`.

use std::fmt::Write as _;

use relax_codegen::KernelCost;

/// What each kernel cost, the dearest first: calls, time, share of the kernels' time, GFLOP/s, GB/s, and the shortest
/// call, which other programs disturbed least. Kernels that did not run are left out.
pub fn table(labels: &[String], costs: &[KernelCost]) -> String {
    let mut rows: Vec<(&str, &KernelCost)> = (labels.iter().map(String::as_str))
        .zip(costs)
        .filter(|r| r.1.calls > 0)
        .collect();
    rows.sort_by(|a, b| b.1.nanos.cmp(&a.1.nanos).then_with(|| a.0.cmp(b.0)));
    let total: u64 = rows.iter().map(|r| r.1.nanos).sum();
    let mut out = format!(
        "{:>9} {:>12} {:>7} {:>9} {:>9} {:>11}  kernel\n",
        "calls", "time (us)", "share", "GFLOP/s", "GB/s", "least (us)"
    );
    for (label, c) in &rows {
        let nanos = (c.nanos as f64).max(1.0);
        let _ = writeln!(
            out,
            "{:>9} {:>12.1} {:>6.1}% {:>9.2} {:>9.2} {:>11.1}  {label}",
            c.calls,
            c.nanos as f64 / 1e3,
            100.0 * c.nanos as f64 / (total as f64).max(1.0),
            c.flops as f64 / nanos,
            c.bytes as f64 / nanos,
            c.least as f64 / 1e3,
        );
    }
    let calls: u64 = rows.iter().map(|r| r.1.calls).sum();
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

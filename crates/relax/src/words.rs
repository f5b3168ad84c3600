//! Formatting of counts.

/// `1 file`, `2 files`; `1 pass`, `2 passes`.
///
/// ```
/// assert_eq!(relax::words::count(1, "kernel"), "1 kernel");
/// assert_eq!(relax::words::count(2, "kernel"), "2 kernels");
/// ```
pub fn count(n: usize, what: &str) -> String {
    let end = match (n, what.ends_with(['s', 'x', 'z']) || what.ends_with("sh")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {what}{end}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_is_no_plural() {
        let all = [
            (0, "pass"),
            (1, "pass"),
            (2, "pass"),
            (1, "run"),
            (3, "run"),
        ];
        let shown = all.map(|(n, what)| super::count(n, what)).join(", ");
        assert_eq!(shown, "0 passes, 1 pass, 2 passes, 1 run, 3 runs");
    }
}

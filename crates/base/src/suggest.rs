//! "Did you mean …?"

/// The number of single-character insertions, deletions, replacements and swaps of neighbours
/// that turn `a` into `b` (optimal string alignment distance).
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The candidate nearest to `name`, when it is near enough to be what was meant: at most a third
/// of the longer name is different, or only letter case or the part before the last `.` is.
pub fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let tail = |s: &str| s.rsplit('.').next().unwrap_or(s).to_lowercase();
    let mut best: Option<(usize, &str)> = None;
    for c in candidates {
        if c == name || c.len().abs_diff(name.len()) > name.len().max(c.len()).div_ceil(3) + 12 {
            continue;
        }
        let d = edit_distance(name, c);
        let near = d <= name.chars().count().max(c.chars().count()) / 3;
        let score = if near {
            d
        } else if c.eq_ignore_ascii_case(name) {
            1
        } else if tail(c) == tail(name) {
            2
        } else {
            continue;
        };
        if best.is_none_or(|(b, t)| (score, c) < (b, t)) {
            best = Some((score, c));
        }
    }
    best.map(|b| b.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_swaps_once() {
        assert_eq!(edit_distance("dense", "desne"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
    }

    #[test]
    fn suggests_only_what_is_near() {
        let ops = ["nn.conv2d", "nn.dense", "add"];
        assert_eq!(did_you_mean("conv2d", ops), Some("nn.conv2d"));
        assert_eq!(did_you_mean("nn.desne", ops), Some("nn.dense"));
        assert_eq!(did_you_mean("softmax", ops), None);
    }
}

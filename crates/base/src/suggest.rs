//! Spelling suggestions: "did you mean …?"

/// Returns the number of single-character insertions, deletions, replacements and transpositions of
/// neighbours that turn `a` into `b` (optimal string alignment distance).
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    Rows::default().distance(&a, &b, usize::MAX).unwrap_or(0)
}

/// The rows of the distance table that are needed at a time, reused between pairs of words.
#[derive(Default)]
struct Rows {
    before: Vec<usize>,
    last: Vec<usize>,
    row: Vec<usize>,
}

impl Rows {
    /// Returns the edit distance if it is at most `limit`. The computation is abandoned early
    /// otherwise, as a name is compared with all names of a module.
    fn distance(&mut self, a: &[char], b: &[char], limit: usize) -> Option<usize> {
        if a.len().abs_diff(b.len()) > limit {
            return None;
        }
        self.before.clear();
        self.before.resize(b.len() + 1, 0);
        self.row.clear();
        self.row.resize(b.len() + 1, 0);
        self.last.clear();
        self.last.extend(0..=b.len());
        for i in 1..=a.len() {
            let (before, last, row) = (&self.before, &self.last, &mut self.row);
            row[0] = i;
            for j in 1..=b.len() {
                let change = usize::from(a[i - 1] != b[j - 1]);
                row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    row[j] = row[j].min(before[j - 2] + 1);
                }
            }
            // A transposition reaches back two rows and costs one.
            let least = row.iter().chain(last).min().copied().unwrap_or(0);
            if least > limit {
                return None;
            }
            std::mem::swap(&mut self.before, &mut self.last);
            std::mem::swap(&mut self.last, &mut self.row);
        }
        Some(self.last[b.len()]).filter(|&d| d <= limit)
    }
}

/// Returns the candidate nearest to `name`, if it is a plausible misspelling: at most a third of
/// the longer name differs, or only letter case or the part before the last `.` does.
pub fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let tail = |s: &'a str| s.rsplit('.').next().unwrap_or(s);
    let own_tail = name.rsplit('.').next().unwrap_or(name);
    let (word, mut other): (Vec<char>, Vec<char>) = (name.chars().collect(), Vec::new());
    let mut rows = Rows::default();
    let mut best: Option<(usize, &str)> = None;
    for c in candidates {
        if c == name || c.len().abs_diff(name.len()) > name.len().max(c.len()).div_ceil(3) + 12 {
            continue;
        }
        other.clear();
        other.extend(c.chars());
        let near = word.len().max(other.len()) / 3;
        let score = if let Some(d) = rows.distance(&word, &other, near) {
            d
        } else if c.eq_ignore_ascii_case(name) {
            1
        } else if tail(c).eq_ignore_ascii_case(own_tail) {
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

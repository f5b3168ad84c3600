//! The source lines shown in a diagnostic: clipped to the available width such that the marked
//! spans are visible, with invisible characters replaced by their code points.

use std::fmt::Write as _;

use relax_base::{SourceFile, Span};

/// The lines of a file up to the last marked one. Unmarked ones are empty.
pub(super) struct View {
    pub(super) text: String,
    /// For the marked lines: byte offsets in the file, and the corresponding ones in the text, in
    /// order.
    places: Vec<(usize, usize)>,
}

/// Returns whether a character is invisible, or changes how others are displayed.
fn is_invisible(c: char) -> bool {
    let space = c.is_whitespace() && !matches!(c, ' ' | '\t');
    let formats = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}');
    space || formats || c.is_control() && c != '\t'
}

impl View {
    /// Creates a view of the lines that contain the spans of a file, most important first.
    pub(super) fn new(file: &SourceFile, places: &[Span], width: usize) -> View {
        let mut ends: Vec<(u32, usize)> = Vec::new();
        for place in places {
            for at in [place.start, place.end] {
                let line = file.line_col(at).line;
                ends.push((line, (at - file.start) as usize));
            }
        }
        let last = ends.iter().map(|e| e.0).max().unwrap_or(1);
        let mut view = View {
            text: String::new(),
            places: Vec::new(),
        };
        let first = ends.iter().map(|e| e.0).min().unwrap_or(1);
        view.text
            .extend(std::iter::repeat_n('\n', first as usize - 1));
        for line in first..=last {
            let here: Vec<usize> = (ends.iter().filter(|e| e.0 == line).map(|e| e.1)).collect();
            if !here.is_empty() {
                view.line(file, line, &here, width);
            }
            view.text.push('\n');
        }
        view
    }

    /// Adds a line with marked positions in it.
    fn line(&mut self, file: &SourceFile, line: u32, here: &[usize], width: usize) {
        let text = file.line(line);
        let base = text.as_ptr() as usize - file.text.as_ptr() as usize;
        let within: Vec<usize> = here.iter().map(|h| h.saturating_sub(base)).collect();
        let (from, to) = window(text, &within, width);
        self.places.push((base + from, self.text.len()));
        if from > 0 {
            self.text.push('…');
        }
        for (i, c) in text[from..to].char_indices() {
            self.places.push((base + from + i, self.text.len()));
            match is_invisible(c) {
                true => _ = write!(self.text, "<U+{:04X}>", c as u32),
                false => self.text.push(c),
            }
        }
        self.places.push((base + to, self.text.len()));
        if to < text.len() {
            self.text.push('…');
        }
        self.places.push((base + text.len(), self.text.len()));
    }

    /// Maps a byte offset in the file to the nearest displayed one in the text.
    pub(super) fn at(&self, offset: usize) -> usize {
        let after = self.places.partition_point(|p| p.0 <= offset);
        let shown = after.checked_sub(1).and_then(|i| self.places.get(i));
        shown.map_or(0, |p| p.1)
    }

    /// Returns the one-based column of a byte offset in the text.
    pub(super) fn column(&self, at: usize) -> usize {
        let line = self.text[..at].rfind('\n').map_or(0, |i| i + 1);
        self.text[line..at].chars().count() + 1
    }
}

/// Returns the byte range of a line that is shown: all of it if it fits, otherwise the part around
/// the first marked position, and all marked ones if they are close enough.
fn window(text: &str, marked: &[usize], width: usize) -> (usize, usize) {
    let count = |t: &str| t.chars().take(width + 1).count();
    if text.len() <= width || count(text) <= width {
        return (0, text.len());
    }
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let low = floor(marked.iter().copied().min().unwrap_or(0));
    let high = floor(marked.iter().copied().max().unwrap_or(0));
    let (low, high) = match count(&text[low..high]) + 8 <= width {
        true => (low, high),
        false => {
            let first = floor(marked.first().copied().unwrap_or(0));
            (first, first)
        }
    };
    // The marked part is centred, with more of the line where an end is near.
    let room = width - 2 - count(&text[low..high]).min(width - 2);
    let before = text[..low].chars().rev().take(room / 2);
    let mut from = low - before.map(char::len_utf8).sum::<usize>();
    let shown = text[from..high].chars().count();
    let after = text[high..].chars().take((width - 2).saturating_sub(shown));
    let to = high + after.map(char::len_utf8).sum::<usize>();
    if to == text.len() {
        let shown = text[from..to].chars().count();
        let more = text[..from]
            .chars()
            .rev()
            .take((width - 2).saturating_sub(shown));
        from -= more.map(char::len_utf8).sum::<usize>();
    }
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_base::SourceMap;

    fn view(text: &str, places: &[(u32, u32)], width: usize) -> (View, Vec<String>) {
        let mut map = SourceMap::new();
        let file = map.add("f", text).expect("room");
        let spans: Vec<Span> = (places.iter())
            .map(|p| Span::new(file.start + p.0, file.start + p.1))
            .collect();
        let view = View::new(&file, &spans, width);
        let marked = places.iter().map(|p| {
            let (a, b) = (view.at(p.0 as usize), view.at(p.1 as usize));
            view.text[a..b].to_owned()
        });
        let marked = marked.collect();
        (view, marked)
    }

    #[test]
    fn keeps_what_is_marked_in_view() {
        let long = format!("{}MARK{}", "a".repeat(300), "b".repeat(300));
        let (v, marked) = view(&long, &[(300, 304)], 60);
        assert_eq!(marked, ["MARK"]);
        assert!(
            v.text.starts_with("…a") && v.text.ends_with("b…\n"),
            "{}",
            v.text
        );
        assert!(v.text.chars().count() <= 61, "{}", v.text);
        let (v, marked) = view(&long, &[(0, 2), (600, 604)], 60);
        assert_eq!(
            (marked[0].as_str(), v.text.starts_with("aaa")),
            ("aa", true)
        );
        let (v, _) = view(&long, &[(604, 604)], 60);
        assert!(v.text.ends_with("bbb\n") && v.text.starts_with('…'));
        assert!(v.text.chars().count() >= 58);
    }

    #[test]
    fn shows_code_points_of_what_cannot_be_seen() {
        let (v, marked) = view("ab\u{200b}cd\u{a0}", &[(2, 5), (5, 7)], 80);
        assert_eq!(v.text, "ab<U+200B>cd<U+00A0>\n");
        assert_eq!(marked, ["<U+200B>", "cd"]);
        assert_eq!(v.column(v.at(5)), 11);
    }

    #[test]
    fn leaves_out_lines_in_between() {
        let (v, marked) = view("one\ntwo\nthree\nfour\n", &[(14, 18), (4, 7)], 80);
        assert_eq!(v.text, "\ntwo\n\nfour\n");
        assert_eq!(marked, ["four", "two"]);
    }
}

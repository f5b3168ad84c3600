//! Reproducers: a pipeline and its input in one file.

/// The start of a reproducer's first line; the pipeline follows.
const HEAD: &str = "// relax-opt pipeline: ";

/// The explanation for a file that is not a reproducer.
pub const EXPECTED: &str = "its first line would be `// relax-opt pipeline: …`";

/// Returns a reproducer of a pipeline and a text.
pub fn write(pipeline: &str, text: &str) -> String {
    // Patterns from a file may have several lines and comments.
    let lines: Vec<&str> = match pipeline.contains('\n') {
        true => (pipeline.lines())
            .map(|l| l.split_once("//").map_or(l, |l| l.0).trim())
            .filter(|l| !l.is_empty())
            .collect(),
        false => vec![pipeline],
    };
    format!("{HEAD}{}\n{text}", lines.join(" "))
}

/// Returns the pipeline of a reproducer. The text is read as it is, as the first line is a comment.
pub fn pipeline(text: &str) -> Option<&str> {
    text.lines().next()?.strip_prefix(HEAD)
}

#[cfg(test)]
mod tests {
    #[test]
    fn pipelines_of_several_lines_are_read_back() {
        let text = super::write("a{p='// why\n  x // what\n  y'},b", "def @main() { 1 }\n");
        assert_eq!(super::pipeline(&text), Some("a{p=' x y'},b"));
    }
}

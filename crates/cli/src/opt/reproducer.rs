//! Reproducers: pipeline and input in one file.

/// The first line of a reproducer; the pipeline follows.
const HEAD: &str = "// relax-opt pipeline: ";

/// What a file that is none lacks.
pub const EXPECTED: &str = "its first line would be `// relax-opt pipeline: …`";

/// A reproducer of a pipeline over a text.
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

/// The pipeline of a reproducer. Its text is read as it is: the first line is a comment.
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

//! Reproducers: pipeline and input in one file.

/// The first line of a reproducer; the pipeline follows.
const HEAD: &str = "// relax-opt pipeline: ";

/// A reproducer of a pipeline over a text.
pub fn write(pipeline: &str, text: &str) -> String {
    format!("{HEAD}{}\n{text}", pipeline.replace('\n', " "))
}

/// The pipeline of a reproducer. Its text is read as it is: the first line is a comment.
pub fn pipeline(text: &str) -> Option<&str> {
    text.lines().next()?.strip_prefix(HEAD)
}

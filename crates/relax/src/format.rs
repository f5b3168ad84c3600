//! Detection of the input format of a file.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// An input format.
///
/// ```
/// use relax::Format;
///
/// assert_eq!(Format::detect("model", br#"{"root": 1}"#), Format::TvmJson);
/// assert_eq!("onnx".parse(), Ok(Format::Onnx));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// The text format of Relay and Relax.
    Relay,
    /// The JSON graph written by `tvm.ir.save_json`.
    TvmJson,
    /// Relax in TVMScript, the Python dialect that TVM 0.27 prints.
    TvmScript,
    /// An ONNX model.
    Onnx,
}

/// The prefixes of a TVMScript text, unless it starts with a comment.
const SCRIPT: [&[u8]; 9] = [
    b"# from typing import",
    b"# from tvm",
    b"from tvm",
    b"import tvm",
    b"metadata = tvm.",
    b"@I.ir_module",
    b"@R.function",
    b"@T.prim_func",
    b"# tvmscript",
];

impl Format {
    /// All formats, in the order in which they are listed for users.
    pub const ALL: &[Format] = &[
        Format::Relay,
        Format::TvmJson,
        Format::TvmScript,
        Format::Onnx,
    ];

    /// The format's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Relay => "relay",
            Format::TvmJson => "tvm-json",
            Format::TvmScript => "tvmscript",
            Format::Onnx => "onnx",
        }
    }

    /// Detects the format from the first bytes of a file, and from the file's extension where those
    /// are ambiguous.
    pub fn detect(name: &str, bytes: &[u8]) -> Format {
        // A model starts with its format version, a field tag that no text starts with.
        let versioned = matches!(bytes, [8, version, ..] if *version < 32);
        if versioned || ends_with(name, "onnx") {
            return Format::Onnx;
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if is_script(bytes) {
            return Format::TvmScript;
        }
        let mut text = bytes.iter().filter(|b| !b.is_ascii_whitespace());
        match (text.next(), text.next()) {
            // No block in Relay text starts with a string.
            (Some(b'{'), Some(b'"')) => Format::TvmJson,
            // No Relay text starts like this: trust the extension, and let the reader report what
            // is wrong.
            (None | Some(b'{' | b'[' | b'"'), _) if ends_with(name, "json") => Format::TvmJson,
            _ if ends_with(name, "py") => Format::TvmScript,
            _ => Format::Relay,
        }
    }
}

/// Returns whether the beginning of the text identifies it as TVMScript: by a known prefix, or by a
/// class under `@I.ir_module`.
fn is_script(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii_start();
    if SCRIPT.iter().any(|s| text.starts_with(s)) {
        return true;
    }
    let head = &text[..text.len().min(4096)];
    head.split(|&b| b == b'\n')
        .any(|line| line.starts_with(b"@I.ir_module"))
}

/// Returns whether the file name has this extension.
fn ends_with(name: &str, extension: &str) -> bool {
    let parts = name.rsplit_once('.');
    parts.is_some_and(|(_, end)| end.eq_ignore_ascii_case(extension))
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Format, Error> {
        let found = Format::ALL.iter().find(|f| f.name() == text);
        found.copied().ok_or_else(|| {
            let names = Vec::from_iter(Format::ALL.iter().map(|f| f.name()));
            Error::Misused(format!("expected one of {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_before_the_name() {
        let detect = |name: &str, text: &str| Format::detect(name, text.as_bytes());
        assert_eq!(detect("a.relay", "{\n  \"root\": 1"), Format::TvmJson);
        assert_eq!(detect("a", "\u{feff} {\"root\": 1"), Format::TvmJson);
        assert_eq!(detect("a.json", "def @main() { 1 }"), Format::Relay);
        assert_eq!(detect("a.json", ""), Format::TvmJson);
        assert_eq!(detect("a.JSON", "[1, 2]"), Format::TvmJson);
        assert_eq!(detect("a.relay", ""), Format::Relay);
        assert_eq!(detect("a", "{ %x }"), Format::Relay);
        assert_eq!(detect("a.py", ""), Format::TvmScript);
        assert_eq!(
            detect("a", "# by hand\n@I.ir_module\nclass M:"),
            Format::TvmScript
        );
        assert_eq!(
            detect("a.txt", "# from tvm.script import ir as I\n"),
            Format::TvmScript
        );
        assert_eq!(detect("a", "\u{8}\u{7}\u{12}"), Format::Onnx);
        assert_eq!(detect("a.onnx", ""), Format::Onnx);
    }

    #[test]
    fn names_are_read_back() {
        for &format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("tvm".parse::<Format>().is_err());
    }
}

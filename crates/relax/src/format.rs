//! Which language a file is written in.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A language that modules are read from.
///
/// ```
/// use relax::Format;
///
/// assert_eq!(Format::detect("model", br#"{"root": 1}"#), Format::TvmJson);
/// assert_eq!("onnx".parse(), Ok(Format::Onnx));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// The text of Relay and Relax.
    Relay,
    /// The JSON graph that `tvm.ir.save_json` writes.
    TvmJson,
    /// Relax in TVMScript, Python as TVM 0.27 writes it.
    TvmScript,
    /// An ONNX model.
    Onnx,
}

/// How a text in TVMScript begins, where no comment of the user's comes first.
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
    /// All, in the order in which they are listed for people.
    pub const ALL: &[Format] = &[
        Format::Relay,
        Format::TvmJson,
        Format::TvmScript,
        Format::Onnx,
    ];

    /// Its name in arguments.
    pub fn name(self) -> &'static str {
        match self {
            Format::Relay => "relay",
            Format::TvmJson => "tvm-json",
            Format::TvmScript => "tvmscript",
            Format::Onnx => "onnx",
        }
    }

    /// Returns what a file is, told by its first bytes, and by the end of its name where they leave
    /// it open.
    pub fn detect(name: &str, bytes: &[u8]) -> Format {
        // A model begins with the version of its format, a field that no text begins with.
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
            // A block of Relay does not begin with a string.
            (Some(b'{'), Some(b'"')) => Format::TvmJson,
            // No text of Relay begins so: what the name says is believed, and the reader says what
            // is missing.
            (None | Some(b'{' | b'[' | b'"'), _) if ends_with(name, "json") => Format::TvmJson,
            _ if ends_with(name, "py") => Format::TvmScript,
            _ => Format::Relay,
        }
    }
}

/// Returns whether the text says by its first lines that it is TVMScript: by how it begins, or by a
/// class under `@I.ir_module` near its beginning.
fn is_script(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii_start();
    if SCRIPT.iter().any(|s| text.starts_with(s)) {
        return true;
    }
    let head = &text[..text.len().min(4096)];
    head.split(|&b| b == b'\n')
        .any(|line| line.starts_with(b"@I.ir_module"))
}

/// Returns whether a file's name has this extension.
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

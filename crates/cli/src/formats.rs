//! File formats by extension.

use std::path::Path;

/// A file format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A single NumPy array.
    Npy,
    /// Named NumPy arrays.
    Npz,
    /// Safetensors: named tensors.
    Safetensors,
    /// TVM's parameter file: named tensors.
    Params,
    /// Human-readable text.
    Text,
    /// Relay text.
    Relay,
    /// JSON.
    Json,
    /// An ONNX model.
    Onnx,
    /// An object file.
    Object,
    /// A static library.
    Static,
    /// A shared library.
    Shared,
    /// A C header.
    Header,
    /// An assembly listing.
    Assembly,
    /// A virtual machine program as a listing.
    Listing,
    /// A virtual machine program in its binary format.
    Machine,
    /// An SVG image.
    Svg,
    /// A graph in Graphviz's DOT language.
    Dot,
    /// A Mermaid flowchart.
    Mermaid,
}

use Format::*;

use crate::stop::Stop;

/// The formats of extensions.
const EXTENSIONS: &[(&str, Format)] = &[
    ("npy", Npy),
    ("npz", Npz),
    ("safetensors", Safetensors),
    ("params", Params),
    ("txt", Text),
    ("relay", Relay),
    ("json", Json),
    ("onnx", Onnx),
    ("o", Object),
    ("obj", Object),
    ("a", Static),
    ("so", Shared),
    ("h", Header),
    ("s", Assembly),
    ("vm", Listing),
    ("vmbin", Machine),
    ("svg", Svg),
    ("dot", Dot),
    ("mmd", Mermaid),
];

impl Format {
    /// Returns the format of a path's extension; `None` for an unknown or missing extension.
    pub fn of(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let found = EXTENSIONS.iter().find(|e| e.0 == extension)?;
        Some(found.1)
    }

    /// Chooses the format to write from `among`, by the extension; standard output gets the first
    /// one.
    ///
    /// # Errors
    /// The extension is that of none of them; the message lists theirs.
    pub fn choose(path: &Path, among: &[Format]) -> Result<Format, Stop> {
        if crate::io::is_stream(path) {
            return Ok(among[0]);
        }
        match Format::of(path).filter(|f| among.contains(f)) {
            Some(format) => Ok(format),
            None => Err(format!(
                "cannot tell from its name what {} is to be: {}",
                path.display(),
                extensions(among)
            )
            .into()),
        }
    }

    /// Checks that an output's extension does not contradict its format; unknown extensions are
    /// allowed.
    ///
    /// # Errors
    /// The extension is that of another format.
    pub fn allow(path: &Path, what: &str, formats: &[Format]) -> Result<(), Stop> {
        let other = Format::of(path).filter(|f| !formats.contains(f));
        match other.filter(|_| !crate::io::is_stream(path)) {
            Some(_) => Err(format!(
                "{what} does not go into {}, by its name another kind of file: {}",
                path.display(),
                extensions(formats)
            )
            .into()),
            None => Ok(()),
        }
    }
}

/// Lists the extensions of formats, as a clause.
fn extensions(formats: &[Format]) -> String {
    let names = EXTENSIONS.iter().filter(|e| formats.contains(&e.1));
    let names: Vec<String> = names.map(|e| format!(".{}", e.0)).collect();
    match &names[..] {
        [] => "a name without extension would do".to_owned(),
        [one] => format!("its extension would be {one}"),
        [rest @ .., last] => format!("its extension would be {} or {last}", rest.join(", ")),
    }
}

/// Checks the path for a text output, like [`Format::allow`], and that it is not also read: see
/// [`crate::places::output`].
pub fn text_output(path: &Path) -> Result<(), Stop> {
    Format::allow(path, "a text", &[Relay, Text])?;
    crate::places::output(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_say_what_is_written() {
        let choose = |name: &str| Format::choose(Path::new(name), &[Text, Npz]);
        assert_eq!(choose("a/b.NPZ"), Ok(Npz));
        assert_eq!(choose("-"), Ok(Text));
        let refused =
            "cannot tell from its name what a.so is to be: its extension would be .npz or .txt";
        assert_eq!(choose("a.so"), Err(refused.into()));
        assert!(choose("npz").is_err());
    }

    #[test]
    fn names_that_mean_nothing_are_allowed() {
        let allow = |name: &str| Format::allow(Path::new(name), "a text", &[Relay]);
        for name in ["-", "a", "a.relay", "a.out.1"] {
            assert_eq!(allow(name), Ok(()), "{name}");
        }
        assert!(allow("a.npz").is_err());
    }
}

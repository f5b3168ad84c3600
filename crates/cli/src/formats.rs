//! What a file's extension says is in it.

use std::path::Path;

/// What is in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One array, as NumPy saves it.
    Npy,
    /// Named arrays, as NumPy saves them.
    Npz,
    /// Named tensors.
    Safetensors,
    /// Named tensors, as TVM saves them.
    Params,
    /// A text for people.
    Text,
    /// A text in the language.
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
    /// Instructions as text.
    Assembly,
    /// A program of the virtual machine, as text.
    Listing,
    /// The same as a file of bytes.
    Machine,
    /// A picture.
    Svg,
    /// A graph in the language of Graphviz.
    Dot,
    /// A flowchart of Mermaid.
    Mermaid,
}

use Format::*;

use crate::stop::Stop;

/// Which extension means what.
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
    /// Returns what an extension means; `None` for one that means nothing to us, and without one.
    pub fn of(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let found = EXTENSIONS.iter().find(|e| e.0 == extension)?;
        Some(found.1)
    }

    /// Returns what will be written there, of those that there are; standard output is written the
    /// first.
    ///
    /// # Errors
    /// The extension means none of them; a sentence with those that do.
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

    /// Returns whether something may go where its name says: a name that means nothing to us is
    /// anybody's choice.
    ///
    /// # Errors
    /// The extension means something else.
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

/// The extensions of formats, as a clause.
fn extensions(formats: &[Format]) -> String {
    let names = EXTENSIONS.iter().filter(|e| formats.contains(&e.1));
    let names: Vec<String> = names.map(|e| format!(".{}", e.0)).collect();
    match &names[..] {
        [] => "a name without extension would do".to_owned(),
        [one] => format!("its extension would be {one}"),
        [rest @ .., last] => format!("its extension would be {} or {last}", rest.join(", ")),
    }
}

/// Checks where a text in the language goes, as [`Format::allow`] does, and that nothing reads it:
/// see [`crate::places::output`].
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

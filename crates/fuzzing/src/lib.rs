//! Fuzz targets, shared by all drivers: `cargo test` replays the corpora with some mutations, and
//! `fuzz/` passes the same functions to libFuzzer.
//!
//! A target accepts any bytes. It panics on a defect of the project, and never because of the
//! bytes.
//!
//! Invariant: a target is deterministic: its behaviour does not depend on earlier inputs.

mod corpus;
mod files;
pub mod mutate;
mod protocol;
mod text;

#[cfg(feature = "native")]
mod capi;
#[cfg(feature = "native")]
mod engines;

pub use corpus::{corpus, texts, texts_under};
#[cfg(feature = "native")]
pub use engines::{compared, compared_at_all};
pub use files::seeds as files;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name, which is also that of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs the target on some bytes.
    pub run: fn(&[u8]),
    /// The structure of the input, to guide mutations.
    pub form: Form,
}

/// The structure of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A text of tokens.
    Text,
    /// A first line that names a format, then a file: tokens for a text format, bytes otherwise.
    File,
    /// Bytes that each make a choice.
    Choices,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "front",
        run: text::front,
        form: Form::Text,
    },
    Target {
        name: "passes",
        run: text::passes,
        form: Form::Text,
    },
    Target {
        name: "files",
        run: files::file,
        form: Form::File,
    },
    Target {
        name: "protocol",
        run: protocol::protocol,
        form: Form::Text,
    },
    #[cfg(feature = "native")]
    Target {
        name: "engines",
        run: engines::engines,
        form: Form::Text,
    },
    #[cfg(feature = "native")]
    Target {
        name: "capi",
        run: capi::capi,
        form: Form::Choices,
    },
];

/// Returns the target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}

impl Target {
    /// Mutates an input: in three of four cases by tokens, if it has some, otherwise by bytes. The
    /// mutation is determined by its number.
    pub fn change(&self, data: &[u8], number: u32) -> Vec<u8> {
        let by_tokens = !number.is_multiple_of(4);
        match self.form {
            Form::Text if by_tokens => mutate::tokens(data, number),
            Form::File => {
                let (kind, file) = files::parts(data).unwrap_or((b"", data));
                let file = match by_tokens && files::is_text(kind) {
                    true => mutate::tokens(file, number),
                    false => mutate::bytes(file, number),
                };
                [kind, b"\n", &file].concat()
            }
            _ => mutate::bytes(data, number),
        }
    }
}

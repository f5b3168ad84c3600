//! What fuzzers try, whoever starts them: `cargo test` replays the corpora and makes some changes
//! of them, and `fuzz/` gives the same functions to libFuzzer.
//!
//! A target takes any bytes. It panics where something is wrong with the project, and never because
//! the bytes are.
//!
//! Invariant: a target does the same with the same bytes, whatever was tried before.

mod corpus;
mod files;
pub mod mutate;
mod protocol;
mod text;

#[cfg(feature = "native")]
mod capi;
#[cfg(feature = "native")]
mod engines;

pub use corpus::{corpus, texts};
pub use files::seeds as files;

/// What is tried with bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of its folder in `fuzz/corpus` too.
    pub name: &'static str,
    /// Tries some bytes.
    pub run: fn(&[u8]),
    /// What the bytes are, so that changes of them are no noise.
    pub form: Form,
}

/// What an input is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Tokens.
    Text,
    /// A first line that names a format, and a file of it: tokens where the format is a text, else
    /// bytes.
    File,
    /// Bytes that each choose something.
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

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}

impl Target {
    /// A changed input: three of four by tokens where it has some, else by bytes. The same number
    /// makes the same change.
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

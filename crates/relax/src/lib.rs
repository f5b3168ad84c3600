//! The whole way as a library: bytes to module, and what follows.
//!
//! Nothing here opens files, prints or exits; that is the command line's (or the language
//! server's) work.

mod contents;
pub mod entry;
#[cfg(feature = "native")]
pub mod failure;
pub mod fit;
mod format;
pub mod inputs;
#[cfg(feature = "native")]
pub mod native;
#[cfg(feature = "weights")]
mod npy;
#[cfg(feature = "weights")]
pub mod npz;
mod onnx;
mod optimise;
pub mod parts;
mod print;
#[cfg(feature = "native")]
pub mod profile;
pub mod random;
mod script;
mod session;
pub mod show;
mod tvm_json;
mod typed;
pub mod values;
#[cfg(feature = "native")]
pub mod vm;
#[cfg(feature = "weights")]
pub mod weights;
mod whole;
pub mod words;

pub use contents::{Contents, Held};
pub use format::Format;
pub use optimise::{
    Found, PassConfig, PassEvent, PassObserver, PassOutcome, PassRun, Pipeline, Silent,
    run_pipeline,
};
pub use print::{
    Mismatch, PrintMode, Style, TypeSource, difference, listed_constants, print, print_as,
};
pub use script::print_tvmscript;
pub use session::{GivenTypes, Input, Read, ReadOptions, Release, Session, Stubs, TextOptions};
pub use typed::{Check, CheckKind, InferOptions, TypedModule, Typing, check};

//! The whole way as a library: bytes to module, and what follows.
//!
//! Nothing here opens files, prints or exits; that is the command line's (or the language
//! server's) work.

mod contents;
mod format;
mod onnx;
mod optimise;
mod print;
mod script;
mod session;
mod tvm_json;
mod typed;
mod whole;

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

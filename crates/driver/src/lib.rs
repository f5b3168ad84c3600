//! The whole way as a library: bytes to module, and what follows.
//!
//! Nothing here opens files, prints or exits; that is the command line's (or the language
//! server's) work.

mod session;

pub use session::{ReadOptions, Session};

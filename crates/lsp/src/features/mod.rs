//! The server's features, one file per request type. Each takes a document and returns protocol
//! values.

pub mod actions;
pub mod calls;
pub mod complete;
pub mod diagnostics;
pub mod fold;
pub mod format;
pub mod hints;
pub mod hover;
pub mod lens;
pub mod place;
pub mod refs;
pub mod script;
pub mod select;
pub mod signature;
pub mod symbols;
pub mod tokens;
pub mod type_of;

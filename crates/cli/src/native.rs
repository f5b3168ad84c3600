//! From a typed module to code in memory.

use relax_base::{Diagnostics, SourceMap, Span, Symbol};
use relax_codegen::Jit;
use relax_driver::Typing;
use relax_ir::{GlobalId, Module};
use relax_lower::lir::Lowered;

/// How run-time errors name a place: `file:line:column`.
pub fn place(sources: &SourceMap, span: Span) -> Symbol {
    let text = match sources.file(span) {
        Some(file) => {
            let at = file.line_col(span.start);
            format!("{}:{}:{}", file.name, at.line, at.col)
        }
        None => String::from("(generated)"),
    };
    Symbol::new(&text)
}

/// Lowers the functions `roots`.
pub fn lower(
    module: &Module,
    typing: &Typing,
    roots: &[GlobalId],
    sources: &SourceMap,
) -> Result<Lowered, Diagnostics> {
    relax_lower::lower(module, typing, roots, &|span| place(sources, span))
}

/// Compiles the functions `roots` into memory.
pub fn jit(
    module: &Module,
    typing: &Typing,
    roots: &[GlobalId],
    sources: &SourceMap,
) -> Result<Jit, Diagnostics> {
    let lowered = lower(module, typing, roots, sources)?;
    Jit::new(&lowered).map_err(|d| {
        let mut all = Diagnostics::new();
        all.push(*d);
        all
    })
}

//! Kernels as text: tensor programs in the text format.

use relax_base::{SourceMap, Span, Symbol};
use relax_ir::{Global, GlobalKind, Module};
use relax_loops::Program;
use relax_resolve::Options;
use relax_resolve::print::{PrintMode, module_to_ast};
use relax_syntax::PrintOptions;
use std::sync::Arc;

use crate::Kernel;

/// Returns whether a kernel's tensor program has a text form that round-trips: `while` loops, as in
/// sorting and searching, and extents determined by an element have none.
pub(crate) fn has_text(kernel: &Kernel) -> bool {
    if kernel.program().is_err() {
        return false;
    }
    let text = text([kernel]);
    read(&text).is_ok_and(|found| self::text(&named(found)) == text)
}

/// Converts parsed programs to kernels.
fn named(found: Vec<(String, Arc<Program>)>) -> Vec<Kernel> {
    let kernel = |(name, program)| Kernel::new(name, program, false, Vec::new());
    found.into_iter().map(kernel).collect()
}

/// Prints the tensor programs as items of a text that round-trips.
pub(crate) fn text<'k>(kernels: impl IntoIterator<Item = &'k Kernel>) -> String {
    let mut module = Module::new();
    for kernel in kernels {
        let Ok(program) = kernel.program() else {
            continue;
        };
        module.globals.push(Global {
            name: Symbol::new(&kernel.name),
            kind: GlobalKind::Prim(program.clone()),
            span: Span::NONE,
            prelude: false,
        });
    }
    let ast = module_to_ast(&module, &PrintMode::default());
    relax_syntax::print(&ast, &PrintOptions::default())
}

/// Parses the output of [`text`]: names and programs, in order.
pub(crate) fn read(text: &str) -> Result<Vec<(String, Arc<Program>)>, String> {
    let mut sources = SourceMap::new();
    let file = sources
        .add("kernels", text)
        .ok_or("the kernels' text is too long")?;
    let parsed = relax_syntax::parse(&file);
    let first = |all: &relax_base::Diagnostics| {
        let d = all.iter().find(|d| d.is_error());
        d.map(|d| {
            format!(
                "kernels, line {}: {}",
                file.line_col(d.span().start).line,
                d.message
            )
        })
    };
    if let Some(message) = first(&parsed.diagnostics) {
        return Err(message);
    }
    let (module, found) = relax_resolve::resolve(&parsed.ast, &file, &Options::default());
    if let Some(message) = first(&found) {
        return Err(message);
    }
    let programs = module.globals.values().filter_map(|g| match &g.kind {
        GlobalKind::Prim(p) => Some((g.name.to_string(), p.clone())),
        _ => None,
    });
    Ok(programs.collect())
}

//! Kernels as text: the tensor programs of the language.

use relax_base::{SourceMap, Span, Symbol};
use relax_ir::{Global, GlobalKind, Module};
use relax_loops::Program;
use relax_resolve::Options;
use relax_resolve::print::{PrintMode, module_to_ast};
use relax_syntax::PrintOptions;
use std::sync::Arc;

use crate::Kernel;

/// Returns whether the language has a form for a kernel's tensor program that reads back: for loops
/// that run as long as a condition holds, as those of sorting and searching do, and for extents
/// that an element decides, it has none.
pub(crate) fn has_text(kernel: &Kernel) -> bool {
    if kernel.program().is_err() {
        return false;
    }
    let text = text([kernel]);
    read(&text).is_ok_and(|found| self::text(&named(found)) == text)
}

/// Programs that were read, as kernels.
fn named(found: Vec<(String, Arc<Program>)>) -> Vec<Kernel> {
    let kernel = |(name, program)| Kernel::new(name, program, false, Vec::new());
    found.into_iter().map(kernel).collect()
}

/// The tensor programs, as items of a text that reads back.
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

/// Reads what [`text`] wrote: names and programs, in the order of the text.
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

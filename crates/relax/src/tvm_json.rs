//! Import and export of TVM's JSON graphs.

use std::sync::Arc;

use relax_base::{Diagnostic, Diagnostics, SourceFile, Span};
use relax_ir::Module;
use relax_resolve::{Given, GivenTypes};
use relax_tvm::{Graph, Mistake};

use crate::session::TOO_LARGE;
use crate::{Contents, Release, Session, TypeSource};

/// The number of bytes shown after an error.
const BEHIND: usize = 200;

/// A parsed graph.
pub(crate) struct Read {
    pub(crate) file: Option<Arc<SourceFile>>,
    pub(crate) module: Module,
    pub(crate) types: Option<GivenTypes>,
}

impl Session {
    /// Reads a graph. Spans refer to the file up to the tensors.
    pub(crate) fn read_graph(
        &mut self,
        name: &str,
        contents: &Contents,
        diagnostics: &mut Diagnostics,
    ) -> Read {
        let bytes = contents.bytes();
        let unneeded = |part: std::ops::Range<usize>| contents.unneeded(part);
        let mut read = Read {
            file: None,
            module: Module::new(),
            types: None,
        };
        let scanned = Graph::scan(bytes, &unneeded);
        let shown = match &scanned {
            Ok(graph) => graph.shown(),
            Err(mistake) => (mistake.at as usize).saturating_add(BEHIND),
        };
        read.file = self.sources.add(name, shown_text(bytes, shown));
        let Some(file) = read.file.clone() else {
            let message = format!("`{name}` is too large: all files together may have 4 GiB");
            diagnostics.push(Diagnostic::error(TOO_LARGE, Span::NONE, message));
            return read;
        };
        let program = scanned.and_then(|graph| {
            let program = relax_tvm::program(&graph, file.start, &unneeded)?;
            Ok((graph, program))
        });
        let (graph, program) = match program {
            Ok(found) => found,
            Err(mistake) => {
                diagnostics.push(diagnostic(&file, mistake));
                return read;
            }
        };
        let mut options = self.options.text;
        options.release = options.release.or(program.release);
        let given = Given {
            constants: program.constants.into_iter().collect(),
        };
        let (module, types, said) =
            relax_resolve::resolve_given(&program.ast, &file, &options, given);
        read.module = module;
        read.types = program.typed.then_some(types);
        plain_names(&mut read.module);
        diagnostics.extend(
            said.into_iter()
                .map(|d| match node(&graph, &file, d.span()) {
                    Some(node) => d.note(node),
                    None => d,
                }),
        );
        diagnostics.sort();
        read
    }
}

/// Exports a module as a JSON graph for a release of TVM, with the known types.
///
/// # Errors
/// Part of the module has no form in it.
pub fn json_graph(
    module: &Module,
    types: Option<&dyn TypeSource>,
    release: Release,
) -> Result<relax_tvm::write::Written, Diagnostics> {
    relax_tvm::write::write(module, types, release).map_err(|found| {
        let mut diagnostics = Diagnostics::new();
        diagnostics.extend(found);
        diagnostics
    })
}

/// Converts the beginning of a file to text: each invalid UTF-8 byte becomes one ASCII character,
/// so that positions stay valid.
fn shown_text(bytes: &[u8], end: usize) -> String {
    let bytes = &bytes[..end.min(bytes.len())];
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}

fn diagnostic(file: &SourceFile, mistake: Mistake) -> Diagnostic {
    let end = file.text.len() as u64;
    let mut at = mistake.at.min(end) as usize;
    while !file.text.is_char_boundary(at) {
        at -= 1;
    }
    let at = file.start + at as u32;
    let d = Diagnostic::error(mistake.code, Span::new(at, at), mistake.message);
    if mistake.label.is_empty() {
        return d;
    }
    d.primary(mistake.label)
}

/// Returns the description of the node that a span is in.
fn node(graph: &Graph<'_>, file: &SourceFile, span: Span) -> Option<String> {
    let at = span.start.checked_sub(file.start)?;
    let (id, kind) = graph.node_at(at.into())?;
    Some(format!("in node {id} of the graph, a `{kind}`"))
}

/// Renames variables to their names in the graph.
fn plain_names(module: &mut Module) {
    for var in module.vars.values_mut() {
        var.name = relax_tvm::plain_name(var.name);
    }
    for param in module.types.params.values_mut() {
        param.name = relax_tvm::plain_name(param.name);
    }
}

//! Code lenses, and the virtual documents they open: the module after a pass, explanations.

use lsp_types::{CodeLens, Command, Uri};
use relax::{PassConfig, Session, Silent, Style};
use relax_base::Code;
use relax_syntax::ast::ItemKind;

use super::place::range;
use crate::Error;
use crate::document::Document;

/// The command that shows the explanation of a code.
pub const EXPLAIN: &str = "relax.explain";
/// The command that runs a function on random arguments.
pub const RUN: &str = "relax.run";
/// The command that shows the module after a pass.
pub const AFTER: &str = "relax.showAfter";
/// The command that returns the available passes and pipelines.
pub const PASSES: &str = "relax.passes";

/// Returns the URI of the explanation of a code.
pub fn explain_uri(code: &str) -> Option<Uri> {
    format!("relax:explain/{code}.md").parse().ok()
}

/// Returns the lenses of a document: above every function.
pub fn lenses(doc: &mut Document, uri: &Uri) -> Vec<CodeLens> {
    let mut out = Vec::new();
    for i in 0..doc.parts().len() {
        let unit = doc.parts()[i].unit.clone();
        let own = unit.range();
        for item in &unit.ast.items {
            let name = match item.kind {
                ItemKind::Def { name, .. } => Some(name),
                ItemKind::Expr(_) => None,
                _ => continue,
            };
            if item.span.start < own.start || item.span.end > own.end {
                continue;
            }
            let place = doc.place(i, item.name_span.at_start());
            let range = range(doc, place);
            let entry = name.map_or(serde_json::Value::Null, |n| n.as_str().into());
            let mut add = |title: &str, command: &str| {
                out.push(CodeLens {
                    range,
                    command: Some(Command {
                        title: title.into(),
                        command: command.into(),
                        arguments: Some(vec![uri.as_str().into(), entry.clone()]),
                    }),
                    data: None,
                });
            };
            add("▶ run with random input", RUN);
            add("show after pass…", AFTER);
        }
    }
    out
}

/// Returns the explanation of a code, as Markdown.
pub fn explain(code: &str) -> Option<&'static str> {
    let number = code.strip_prefix("RX")?.parse().ok()?;
    relax_base::explain::explain(Code(number))
}

/// Returns the names of all passes and pipelines.
pub fn passes() -> Vec<String> {
    let passes = relax_passes::all().into_iter().map(|p| p.name.to_owned());
    let named = relax_passes::named_pipelines()
        .iter()
        .map(|p| p.0.to_owned());
    named.chain(passes).collect()
}

/// Returns the text of the module after a pipeline.
///
/// # Errors
/// The messages, if the text or the pipeline has errors.
pub fn after(text: &str, pipeline: &str) -> Result<String, Error> {
    let said = |all: &relax_base::Diagnostics| {
        let lines = all.iter().filter(|d| d.is_error());
        let lines = lines.map(|d| format!("{}: {}\n", d.code, d.message));
        lines.collect::<String>()
    };
    let refused = |all: &relax_base::Diagnostics| Error::refused(said(all));
    let mut session = Session::default();
    let (mut module, diagnostics) = session.read("", text.as_bytes().to_vec());
    if diagnostics.has_errors() {
        return Err(refused(&diagnostics));
    }
    let steps = session.pipeline(pipeline).map_err(|d| refused(&d))?;
    let config = PassConfig::default();
    let outcome = relax::run_pipeline(&steps, &mut module, &config, &mut Silent);
    if let Some((pass, diagnostics)) = outcome.failure {
        let text = format!("{pass}:\n{}", said(&diagnostics));
        return Err(Error::Refused(text));
    }
    Ok(relax::print(&module, Style::Pretty, None))
}

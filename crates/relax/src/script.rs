//! Conversion of modules to TVMScript.

mod extents;
#[cfg(feature = "native")]
mod heap;
mod measure;
#[cfg(feature = "native")]
mod numbers;
#[cfg(feature = "native")]
pub(crate) mod places;

use std::sync::Arc;

use relax_base::{Diagnostic, Diagnostics, Span};
use relax_ir::Module;
use relax_tvmscript::{Printed, codes};

use crate::optimise::run_own;
use crate::{TypeSource, TypedModule, Typing};

/// Prints a module as TVMScript, readable by TVM 0.27. With `types`, bindings are annotated,
/// operators without a Relax equivalent are written as tensor programs, and closures, data types,
/// references and type parameters are encoded as Relax values.
///
/// # Errors
/// One error, with its location, for each part of the module that has no TVMScript form.
pub fn print_tvmscript(
    module: &Module,
    types: Option<&dyn TypeSource>,
) -> Result<String, Diagnostics> {
    let sized = match types {
        Some(_) if module.script.is_none() => extents::named(module),
        _ => None,
    };
    let Some((module, typing)) = sized else {
        return as_values(module, types, false);
    };
    let typed = TypedModule {
        module: &module,
        typing: &typing,
    };
    as_values(&module, Some(&typed), true)
}

/// Prints the module with operators that lack a Relax equivalent as tensor programs. `matched` says
/// that the module contains constructs that only Relax values can express.
fn as_values(
    module: &Module,
    types: Option<&dyn TypeSource>,
    matched: bool,
) -> Result<String, Diagnostics> {
    let (mut found, formless) = match printed(module, types, matched) {
        Printed::Text(text) => return Ok(text),
        Printed::NotNormal => return Err(not_normal()),
        Printed::NoForm(found, formless) => (found, formless),
    };
    if types.is_some()
        && !formless.is_empty()
        && let Some((module, typing)) = legalized(module, &formless)
    {
        let typed = TypedModule {
            module: &module,
            typing: &typing,
        };
        match printed(&module, Some(&typed), matched) {
            Printed::Text(text) => return Ok(text),
            Printed::NotNormal => return Err(not_normal()),
            Printed::NoForm(left, _) => found = left,
        }
    }
    let mut diagnostics = Diagnostics::new();
    diagnostics.extend(found);
    Err(diagnostics)
}

/// Prints a module, with values encoded as Relax values where needed.
fn printed(module: &Module, types: Option<&dyn TypeSource>, matched: bool) -> Printed {
    match types {
        Some(types) if matched || relax_tvmscript::needs_values(module) => {
            match relax_tvmscript::values(module, types) {
                Ok(values) => relax_tvmscript::print(&values.module, Some(&values)),
                Err(found) => Printed::NoForm(found, Vec::new()),
            }
        }
        _ => relax_tvmscript::print(module, types),
    }
}

fn not_normal() -> Diagnostics {
    let message = "the program is no sequence of bindings, as Relax has them";
    let mut diagnostics = Diagnostics::new();
    diagnostics.push(
        Diagnostic::error(codes::NO_FORM, Span::NONE, message)
            .note("`--pipeline relay-to-relax` brings a program to Relax's form"),
    );
    diagnostics
}

/// Legalizes these operators to tensor programs; returns the module and its types.
fn legalized(module: &Module, operators: &[&str]) -> Option<(Module, Arc<Typing>)> {
    let text = format!("legalize{{only=\"{}\"}},infer-type", operators.join(" "));
    let mut module = module.clone();
    let typing = run_own(&text, &mut module).ok()?;
    Some((module, typing))
}

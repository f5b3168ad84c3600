//! Selection of a module's entry function.

use relax_ir::{GlobalId, GlobalKind, Module};

use crate::Error;

/// Formats a list of names, abbreviated after the first few.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let mut text = Vec::from_iter(names.iter().take(SHOWN).map(|n| format!("@{n}"))).join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// Returns the function that a run starts with: the named one, otherwise the expression of an
/// expression file, otherwise `main`.
///
/// # Errors
/// The function does not exist; the message lists the ones that do.
pub fn entry(module: &Module, name: Option<&str>) -> Result<GlobalId, Error> {
    let name = match (name, module.expression) {
        (Some(name), _) => name.trim_start_matches('@'),
        (None, Some(g)) => return Ok(g),
        (None, None) => "main",
    };
    module.global(name).ok_or_else(|| {
        let names: Vec<&str> = module
            .globals
            .values()
            .filter(|g| !g.prelude)
            .map(|g| g.name.as_str())
            .collect();
        let near = relax_base::did_you_mean(name, names.iter().copied());
        let hint = match near {
            Some(near) => format!("did you mean @{near}?"),
            None if names.is_empty() => "the file defines none".to_owned(),
            None => format!("the file defines {}; --entry names one", listed(&names)),
        };
        Error::Misused(format!("there is no function @{name}; {hint}"))
    })
}

/// Like [`entry`], but falls back to the file's only function if there is exactly one and it is not
/// called `main`.
///
/// # Errors
/// As for [`entry`].
pub fn sole_entry(module: &Module, name: Option<&str>) -> Result<GlobalId, Error> {
    if name.is_none() && module.expression.is_none() && module.global("main").is_none() {
        let mut own = (module.globals.iter())
            .filter(|(_, g)| !g.prelude && matches!(g.kind, GlobalKind::Func(_)));
        if let (Some((only, _)), None) = (own.next(), own.next()) {
            return Ok(only);
        }
    }
    entry(module, name)
}

//! relax-opt's documentation of passes.

use std::fmt::Write as _;

use relax_passes::{PassDef, Registry};

use crate::stop::Stop;

/// Returns the list of all passes with their options, and of the named pipelines.
pub fn list(passes: &Registry) -> String {
    let mut text = String::new();
    for pass in passes.all().into_iter().chain(relax_passes::of_relax()) {
        let _ = writeln!(text, "{}: {}", pass.name, pass.doc);
        for o in pass.options {
            let _ = writeln!(text, "    {}={} ({}): {}", o.name, o.default, o.ty, o.doc);
        }
    }
    for (name, passes) in relax_passes::named_pipelines() {
        let _ = writeln!(text, "-{name}: {passes}");
    }
    text
}

/// Returns the description, requirements, guarantees and options of a pass, or the passes of a
/// named pipeline.
///
/// # Errors
/// There is none of this name.
pub fn of(passes: &Registry, name: &str) -> Result<String, Stop> {
    if let Some(pass) = passes.find(name) {
        return Ok(of_pass(pass));
    }
    let bare = name.trim_start_matches('-');
    let mut named = relax_passes::named_pipelines().iter();
    match named.find(|p| p.0 == bare) {
        Some((name, passes)) => Ok(format!(
            "{name}: the passes\n  {}\n",
            passes.replace(',', ",\n  ")
        )),
        None => Err(unknown(passes, name).into()),
    }
}

fn of_pass(pass: &PassDef) -> String {
    let mut text = format!("{}: {}\n", pass.name, pass.doc);
    let contract = pass.contract;
    for (what, forms) in [("needs", contract.needs), ("gives", contract.gives)] {
        let forms: Vec<String> = forms.iter().map(ToString::to_string).collect();
        if !forms.is_empty() {
            let _ = writeln!(text, "  {what} {}", forms.join(", "));
        }
    }
    let _ = match pass.options {
        [] => writeln!(text, "  It takes no options."),
        _ => writeln!(
            text,
            "\nOptions, as in `{}{{{}={}}}`:",
            pass.name,
            pass.options[0].name,
            example(pass)
        ),
    };
    for o in pass.options {
        let default = match o.default {
            "" => "\"\"",
            other => other,
        };
        let _ = writeln!(
            text,
            "  {} ({}; {default} unless said otherwise)\n      {}",
            o.name, o.ty, o.doc
        );
    }
    let _ = writeln!(text, "\ndocs/passes.md shows what it makes of programs.");
    text
}

/// Returns an example value for a pass's first option.
fn example(pass: &PassDef) -> String {
    match pass.options[0].default {
        "" => "…".to_owned(),
        other if other.contains([',', ' ']) => format!("\"{other}\""),
        other => other.to_owned(),
    }
}

/// Returns the error for an unknown pass, with suggestions.
pub fn unknown(passes: &Registry, name: &str) -> String {
    let meant = passes.meant(name);
    let hint = meant.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
    format!("there is no pass `{name}`{hint}")
}

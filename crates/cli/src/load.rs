//! From the arguments of a tool to a checked module, and to a pipeline: the same in all tools.

use std::path::Path;

use relax_base::Diagnostics;
use relax_driver::{InferOptions, Pipeline, ReadOptions, Session, Typing};
use relax_ir::{GlobalId, GlobalKind, Module};

use crate::stop::Stop;
use crate::{io, render};

/// A module that was read and checked.
#[derive(Debug)]
pub struct Loaded {
    /// The sources, for diagnostics.
    pub session: Session,
    /// The module.
    pub module: Module,
    /// Its types.
    pub typing: Typing,
}

/// Reads and checks a file, `-` for standard input. Diagnostics go to standard error; `None` when
/// there are errors among them.
///
/// # Errors
/// The file cannot be read.
pub fn checked(path: &Path, options: ReadOptions) -> Result<Option<Loaded>, String> {
    let contents = io::contents(path)?;
    let mut session = Session::new(options);
    let name = io::display_name(path);
    let (module, typing, diagnostics) = session.check(&name, contents, &InferOptions::default());
    render::to_stderr(&diagnostics, &session.sources);
    Ok((!diagnostics.has_errors()).then_some(Loaded {
        session,
        module,
        typing,
    }))
}

/// Reads a pipeline, with the files that its options name. Mistakes in it are shown.
pub fn pipeline(session: &mut Session, text: &str) -> Result<Pipeline, Stop> {
    read_pipeline(session, text).map_err(|d| {
        render::to_stderr(&d, &session.sources);
        Stop::Misused
    })
}

fn read_pipeline(session: &mut Session, text: &str) -> Result<Pipeline, Diagnostics> {
    let mut pipeline = session.pipeline(text)?;
    pipeline.load(&mut |file| {
        let bytes = io::read(Path::new(file))?;
        let mut diagnostics = Diagnostics::new();
        match session.add(file, bytes, &mut diagnostics) {
            Some(source) if !diagnostics.has_errors() => {
                Ok((source.text.to_string(), source.span()))
            }
            _ => Err(format!("{file} is no text")),
        }
    })?;
    Ok(pipeline)
}

/// The first of some names.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let mut text = Vec::from_iter(names.iter().take(SHOWN).map(|n| format!("@{n}"))).join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// The function that a run begins with: the one that is named, or the expression of an expression
/// file, or `main`. The error says what there is instead.
pub fn entry(module: &Module, name: Option<&str>) -> Result<GlobalId, String> {
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
        format!("there is no function @{name}; {hint}")
    })
}

/// As [`entry`]; the only function of the file where there is one and none is called `main`.
pub fn sole_entry(module: &Module, name: Option<&str>) -> Result<GlobalId, String> {
    if name.is_none() && module.expression.is_none() && module.global("main").is_none() {
        let mut own = (module.globals.iter())
            .filter(|(_, g)| !g.prelude && matches!(g.kind, GlobalKind::Func(_)));
        if let (Some((only, _)), None) = (own.next(), own.next()) {
            return Ok(only);
        }
    }
    entry(module, name)
}

//! Loading of modules and pipelines from a tool's arguments, the same in all tools.

use std::path::{Component, Path, PathBuf};

use relax::{Contents, InferOptions, Pipeline, ReadOptions, Session, Typed};
use relax_base::Diagnostics;
use relax_ir::Module;

pub use relax::entry::{entry, sole_entry};

use crate::stop::Stop;
use crate::{io, render};

/// A module that was read and checked.
#[derive(Debug)]
pub struct Loaded {
    /// The session with the sources, for diagnostics.
    pub session: Session,
    /// The module.
    pub module: Module,
    /// Its types, with the warnings.
    pub typed: Typed,
    /// The file, if constants may borrow from it.
    pub mapped: Option<Contents>,
}

/// Reads and checks a file, `-` for standard input. Diagnostics go to standard error; `None` if
/// there are errors among them.
///
/// # Errors
/// The file cannot be read.
pub fn checked(path: &Path, options: ReadOptions) -> Result<Option<Loaded>, Stop> {
    let contents = io::contents(path)?;
    let mapped = matches!(contents, Contents::Held(_)).then(|| contents.clone());
    let mut session = Session::new(options);
    session.beside = Some(crate::model::beside);
    let name = io::display_name(path);
    let (module, typed, diagnostics) =
        session.check_typed(&name, contents, &InferOptions::default());
    render::to_stderr(&diagnostics, &session.sources);
    Ok((!diagnostics.has_errors()).then_some(Loaded {
        session,
        module,
        typed,
        mapped,
    }))
}

/// Parses a pipeline and loads the files that its options name. Errors in it are printed.
///
/// # Errors
/// The pipeline has errors, which were printed.
pub fn pipeline(session: &mut Session, text: &str) -> Result<Pipeline, Stop> {
    pipeline_within(session, text, None)
}

/// Like [`pipeline`], for an untrusted text: the files that it names must be in the folder.
///
/// # Errors
/// As for [`pipeline`].
pub fn pipeline_within(
    session: &mut Session,
    text: &str,
    folder: Option<&Path>,
) -> Result<Pipeline, Stop> {
    read_pipeline(session, text, folder).map_err(|d| {
        render::to_stderr(&d, &session.sources);
        Stop::Misused
    })
}

/// Returns the path of a file in a folder, after resolving links.
fn inside(folder: &Path, file: &str) -> Result<PathBuf, Stop> {
    let plain = (Path::new(file).components()).all(|c| matches!(c, Component::Normal(_)));
    let trouble = |e: std::io::Error| format!("cannot read {file}: {e}");
    let outside = || {
        let folder = folder.display();
        Stop::Usage(format!(
            "{file} does not lie in {folder}: a reproducer may name files beside it only"
        ))
    };
    if !plain {
        return Err(outside());
    }
    let path = folder.join(file).canonicalize().map_err(trouble)?;
    let folder = folder.canonicalize().map_err(trouble)?;
    path.starts_with(folder).then_some(path).ok_or_else(outside)
}

fn read_pipeline(
    session: &mut Session,
    text: &str,
    folder: Option<&Path>,
) -> Result<Pipeline, Diagnostics> {
    session.pipeline_with(text, &|file| {
        let path = match folder {
            Some(folder) => inside(folder, file)?,
            None => PathBuf::from(file),
        };
        Ok(io::read(&path)?)
    })
}

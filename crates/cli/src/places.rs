//! Checks that no file is both read and written.
//!
//! A tool registers its outputs (`output`) before it reads anything, and every file that is read
//! (`input`), whatever argument or option names it. Files rewritten in place are not outputs.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::io::{STREAM, display_name};
use crate::stop::Stop;

/// The identity of a file, independent of its names and links.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Identity {
    /// Device and inode number.
    #[cfg(unix)]
    Number(u64, u64),
    /// The path with links resolved: for a file that does not exist yet, and on other systems.
    Path(PathBuf),
}

#[derive(Default)]
struct Places {
    inputs: FxHashMap<Identity, PathBuf>,
    outputs: FxHashMap<Identity, PathBuf>,
}

fn places() -> MutexGuard<'static, Option<Places>> {
    static PLACES: Mutex<Option<Places>> = Mutex::new(None);
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a file that will be written.
///
/// # Errors
/// It is also read, or is another output.
pub fn output(path: &Path) -> Result<(), Stop> {
    let Some(identity) = identity(path, Stream::Output) else {
        return Ok(());
    };
    let mut places = places();
    let places = places.get_or_insert_default();
    if let Some(input) = places.inputs.get(&identity) {
        return Err(both(input, path).into());
    }
    match places.outputs.insert(identity, path.to_owned()) {
        Some(other) => Err(format!(
            "{} and {} are the same file, and two outputs would go there",
            display_name(&other),
            display_name(path)
        )
        .into()),
        None => Ok(()),
    }
}

/// Registers a file that is read.
///
/// # Errors
/// It is also an output.
pub fn input(path: &Path) -> Result<(), Stop> {
    let Some(identity) = identity(path, Stream::Input) else {
        return Ok(());
    };
    let mut places = places();
    let places = places.get_or_insert_default();
    if let Some(output) = places.outputs.get(&identity) {
        return Err(both(path, output).into());
    }
    places.inputs.insert(identity, path.to_owned());
    Ok(())
}

fn both(input: &Path, output: &Path) -> String {
    let output = match output == Path::new(STREAM) {
        true => "standard output".to_owned(),
        false => output.display().to_string(),
    };
    let input = display_name(input);
    match input == output {
        true => format!("{input} is read, and the output would go there too: name another file"),
        false => format!(
            "{input}, which is read, and {output}, where the output would go, are the same file"
        ),
    }
}

#[derive(Clone, Copy)]
enum Stream {
    Input,
    Output,
}

/// Returns the identity of a path; `None` where reading and writing do not conflict (a terminal, a
/// pipe, `/dev/null`).
fn identity(path: &Path, stream: Stream) -> Option<Identity> {
    let known = match path == Path::new(STREAM) {
        true => Some(of_stream(stream)?),
        false => std::fs::metadata(path).ok(),
    };
    match known {
        Some(data) if !data.is_file() => None,
        #[cfg(unix)]
        Some(data) => {
            use std::os::unix::fs::MetadataExt as _;
            Some(Identity::Number(data.dev(), data.ino()))
        }
        _ => Some(Identity::Path(real(path))),
    }
}

/// Returns the path of a file that may not exist yet, with links in its folder resolved.
fn real(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = std::fs::canonicalize(folder.unwrap_or(Path::new(".")));
    match (std::fs::canonicalize(path), folder, path.file_name()) {
        (Ok(real), ..) => real,
        (_, Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(unix)]
fn of_stream(stream: Stream) -> Option<std::fs::Metadata> {
    use std::os::fd::AsFd as _;
    let copy = match stream {
        Stream::Input => std::io::stdin().as_fd().try_clone_to_owned(),
        Stream::Output => std::io::stdout().as_fd().try_clone_to_owned(),
    };
    std::fs::File::from(copy.ok()?).metadata().ok()
}

#[cfg(not(unix))]
fn of_stream(_: Stream) -> Option<std::fs::Metadata> {
    None
}

//! Atomic writing of output files.
//!
//! A file is written next to its target under a temporary name, and renamed to the target when
//! complete; the target's mode is kept, and links remain links. Other targets (pipes, devices) are
//! written to directly.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::interrupt::{self, Held};
use crate::stop::Stop;

/// An output file.
#[derive(Debug)]
pub struct Output {
    /// The path as given.
    name: PathBuf,
    /// The file itself, with links resolved.
    target: PathBuf,
    /// The temporary file; `None` if the target is written to directly.
    held: Option<Held>,
    file: BufWriter<File>,
}

impl Output {
    /// Starts writing a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path) -> Result<Output, Stop> {
        Output::begin(path).map_err(|e| trouble(path, &e))
    }

    fn begin(path: &Path) -> io::Result<Output> {
        let target = behind_links(path)?;
        let output = |held, file| Output {
            name: path.to_owned(),
            target: target.clone(),
            held,
            file: BufWriter::with_capacity(1 << 16, file),
        };
        let old = match OpenOptions::new().write(true).open(&target) {
            Ok(file) => Some(file),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        if let Some(old) = &old
            && !old.metadata()?.is_file()
        {
            return Ok(output(None, old.try_clone()?));
        }
        match beside(&target) {
            Ok((held, file)) => Ok(output(Some(held), file)),
            // A writable file in a read-only folder.
            Err(e) if e.kind() == ErrorKind::PermissionDenied => match old {
                Some(old) => {
                    old.set_len(0)?;
                    Ok(output(None, old))
                }
                None => Err(e),
            },
            Err(e) => Err(e),
        }
    }

    /// Returns the path for a program that writes the file itself.
    pub fn path(&self) -> &Path {
        self.held.as_ref().map_or(&self.target, Held::path)
    }

    /// Moves the complete file into place. Without this call, nothing is left behind.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> Result<(), Stop> {
        let name = self.name.clone();
        self.put_in_place(true).map_err(|e| trouble(&name, &e))
    }

    /// Like [`Output::finish`], for a file written by another program, whose mode is kept.
    ///
    /// # Errors
    /// As for [`Output::finish`].
    pub fn finish_as_written(self) -> Result<(), Stop> {
        let name = self.name.clone();
        self.put_in_place(false).map_err(|e| trouble(&name, &e))
    }

    fn put_in_place(self, old_mode: bool) -> io::Result<()> {
        let file = self.file.into_inner().map_err(|e| e.into_error())?;
        let Some(held) = self.held else { return Ok(()) };
        drop(file);
        if let Ok(old) = std::fs::metadata(&self.target) {
            keep_owner(&old, held.path());
            if old_mode {
                std::fs::set_permissions(held.path(), old.permissions())?;
            }
        }
        match std::fs::rename(held.path(), &self.target) {
            Ok(()) => {
                held.release();
                Ok(())
            }
            // A file that is itself a mount point stays in place.
            Err(e) if e.kind() == ErrorKind::ResourceBusy => {
                std::fs::copy(held.path(), &self.target).map(drop)
            }
            Err(e) => Err(e),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Writes a file.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Stop> {
    let mut output = Output::create(path)?;
    output.write_all(bytes).map_err(|e| trouble(path, &e))?;
    output.finish()
}

/// Returns the error for a file that cannot be written.
pub fn trouble(path: &Path, e: &io::Error) -> Stop {
    format!("cannot write {}: {e}", path.display()).into()
}

/// Resolves links; the file need not exist.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    const MOST: usize = 40;
    let mut at = path.to_owned();
    for _ in 0..MOST {
        match std::fs::read_link(&at) {
            Ok(next) => at = at.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(at),
        }
    }
    Err(io::Error::other("too many links lead there"))
}

/// Creates a temporary file in the folder of another.
fn beside(target: &Path) -> io::Result<(Held, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = target.file_name().ok_or(ErrorKind::IsADirectory)?;
    interrupt::hold(|| {
        loop {
            let mut other = std::ffi::OsString::from(".");
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            other.push(name);
            other.push(format!(".{}-{number}.tmp", std::process::id()));
            let path = target.with_file_name(other);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                // Left behind by a process with the same id.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|file| (path, file)),
            }
        }
    })
}

/// Gives a new file the owner of the old one, as far as permitted.
#[cfg(unix)]
fn keep_owner(old: &std::fs::Metadata, new: &Path) {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let same = |m: &std::fs::Metadata| (m.uid(), m.gid()) == (old.uid(), old.gid());
    if !std::fs::metadata(new).is_ok_and(|m| same(&m)) {
        // Only the administrator may, and other users cannot replace files of another owner.
        let _ = chown(new, Some(old.uid()), Some(old.gid()));
    }
}

#[cfg(not(unix))]
fn keep_owner(_: &std::fs::Metadata, _: &Path) {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn names(room: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(room).expect("a folder").flatten();
        let mut names: Vec<String> = entries
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_whole_or_not_there() {
        let room = tempfile::tempdir().expect("a folder");
        let path = room.path().join("a");
        let mut output = Output::create(&path).expect("writable");
        output.write_all(b"part").expect("written");
        assert!(!path.exists());
        drop(output);
        assert_eq!(names(room.path()), [""; 0]);
        write(&path, b"old").expect("written");
        drop(Output::create(&path).expect("writable"));
        assert_eq!(std::fs::read(&path).expect("there"), b"old");
        write(&path, b"new").expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"new");
        assert_eq!(names(room.path()), ["a"]);
    }

    #[test]
    fn modes_and_links_stay() {
        let room = tempfile::tempdir().expect("a folder");
        let [file, link, none, dangling] =
            ["file", "link", "none", "dangling"].map(|n| room.path().join(n));
        std::fs::write(&file, "old").expect("written");
        let mode = |m| std::fs::Permissions::from_mode(m);
        std::fs::set_permissions(&file, mode(0o640)).expect("ours");
        symlink("file", &link).expect("a link");
        symlink("none", &dangling).expect("a link");
        write(&link, b"new").expect("written");
        write(&dangling, b"made").expect("written");
        for path in [&link, &dangling] {
            assert!(path.is_symlink());
        }
        assert_eq!(std::fs::read(&file).expect("there"), b"new");
        assert_eq!(std::fs::read(&none).expect("there"), b"made");
        let now = std::fs::metadata(&file).expect("there").permissions();
        assert_eq!(now.mode() & 0o777, 0o640);
    }

    #[test]
    fn what_is_no_file_is_written_to() {
        let room = tempfile::tempdir().expect("a folder");
        write(Path::new("/dev/null"), b"x").expect("written");
        let failed = write(room.path(), b"x").expect_err("a folder");
        assert!(failed.text().starts_with("cannot write "), "{failed}");
        let circle = room.path().join("circle");
        symlink("circle", &circle).expect("a link");
        write(&circle, b"x").expect_err("no end");
    }
}

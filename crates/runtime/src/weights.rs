//! Constants in a file of their own: mapped when the program is first called.
//!
//! `relaxc --weights external` leaves the elements of large constants out of the object and writes
//! them to a file. The object has a table of the tensors that need them; every entry calls
//! `rx_weights_map` first, which maps the file once and sets the tensors' data.

use crate::object::RxTensor;
use std::ffi::c_char;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The table in the object, as compiled code lays it out.
#[repr(C)]
pub struct RxWeights {
    /// 1 once the data of the tensors is set.
    pub ready: AtomicU64,
    /// Bytes of the file.
    pub length: u64,
    /// [`hash`] of its contents.
    pub hash: u64,
    /// Number of tensors.
    pub count: u64,
    /// The file's name, without a folder.
    pub file: *const c_char,
    /// The tensors follow.
    pub tensors: [RxWeight; 0],
}

/// A tensor whose elements are in the file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RxWeight {
    /// An immortal tensor.
    pub tensor: *mut RxTensor,
    /// The offset of its elements in the file.
    pub offset: u64,
}

/// Bytes in the table before the tensors.
pub const TABLE_HEAD: usize = size_of::<RxWeights>();

/// Returns a fingerprint of bytes: FNV-1a (Fowler, Noll and Vo) over words of eight bytes in four
/// chains. It distinguishes files that were mixed up or truncated; it is no protection against
/// forgery.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hash = Hash::default();
    hash.add(bytes);
    hash.finish()
}

/// Bytes that are read at a time, a word for each chain.
const BLOCK: usize = 32;

/// The fingerprint of bytes that arrive in pieces; it does not depend on the boundaries of pieces.
///
/// # Examples
/// ```
/// use relax_runtime::weights::{Hash, hash};
///
/// let mut pieces = Hash::default();
/// pieces.add(b"weig");
/// pieces.add(b"hts");
/// assert_eq!(pieces.finish(), hash(b"weights"));
/// ```
#[derive(Clone, Debug)]
pub struct Hash {
    chains: [u64; 4],
    /// The rest of the last piece: less than a block.
    rest: [u8; BLOCK],
    len: u64,
}

impl Default for Hash {
    fn default() -> Hash {
        Hash {
            chains: [0xcbf2_9ce4_8422_2325, 1, 2, 3],
            rest: [0; BLOCK],
            len: 0,
        }
    }
}

impl Hash {
    fn step(h: u64, word: u64) -> u64 {
        const PRIME: u64 = 0x0100_0000_01b3;
        (h ^ word).wrapping_mul(PRIME).rotate_left(29)
    }

    fn block(&mut self, block: &[u8]) {
        for (h, word) in self.chains.iter_mut().zip(block.chunks_exact(8)) {
            *h = Hash::step(*h, u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
    }

    /// Adds the next bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        let begun = self.len as usize % BLOCK;
        self.len += bytes.len() as u64;
        if begun > 0 {
            let (first, others) = bytes.split_at(bytes.len().min(BLOCK - begun));
            self.rest[begun..begun + first.len()].copy_from_slice(first);
            if begun + first.len() < BLOCK {
                return;
            }
            let whole = self.rest;
            self.block(&whole);
            bytes = others;
        }
        let mut blocks = bytes.chunks_exact(BLOCK);
        for block in &mut blocks {
            self.block(block);
        }
        let rest = blocks.remainder();
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// Returns the fingerprint of all bytes so far.
    pub fn finish(&self) -> u64 {
        let mut all = Hash::step(self.len, 0);
        for &b in &self.rest[..self.len as usize % BLOCK] {
            all = Hash::step(all, u64::from(b));
        }
        self.chains.into_iter().fold(all, Hash::step)
    }
}

/// Files up to this size are read, not mapped: nobody can change or truncate the process's copy.
const SMALL: u64 = 16 << 20;

impl RxWeights {
    /// Returns true once the data of the tensors is set.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) == 1
    }

    /// Maps the weights' file of this name (reads it where it is small, or `RELAX_WEIGHTS_COPY` is
    /// 1) and lets `set` set the data of the tensors to its bytes, once for the process.
    ///
    /// The path of the file is given by `RELAX_WEIGHTS` (the file, or its folder); without it, the
    /// file is next to the program or library that contains the table. A mapped file must not
    /// change while the process runs: what others write into it may be read, and truncating it ends
    /// the process (SIGBUS).
    ///
    /// # Errors
    /// A file that is missing, or has another length or other contents than the program was
    /// compiled with.
    pub fn load(&self, name: &str, set: impl FnOnce(&'static [u8])) -> Result<(), String> {
        static ONE: Mutex<()> = Mutex::new(());
        let _held = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_ready() {
            let path = find(name, std::ptr::from_ref(self).cast())?;
            set(open(&path, self)?);
            self.ready.store(1, Ordering::Release);
        }
        Ok(())
    }
}

fn find(name: &str, inside: *const u8) -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    let given = std::env::var_os("RELAX_WEIGHTS").map(PathBuf::from);
    let folders = match &given {
        Some(path) if path.is_file() => return Ok(path.clone()),
        Some(path) => vec![path.clone()],
        None => {
            let exe = std::env::current_exe().ok();
            [image(inside), exe].into_iter().flatten().collect()
        }
    };
    for place in folders {
        let folder = match &given {
            Some(_) => place.as_path(),
            None => place.parent().unwrap_or(Path::new(".")),
        };
        let path = folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        if !tried.contains(&path) {
            tried.push(path);
        }
    }
    let tried: Vec<String> = tried.iter().map(|p| format!("`{}`", p.display())).collect();
    Err(format!(
        "the weights `{name}` are missing: there is no {}; put the file there, or name it or its folder in RELAX_WEIGHTS",
        tried.join(" and no ")
    ))
}

/// Returns the file of the program or library that contains an address.
fn image(inside: *const u8) -> Option<PathBuf> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        // SAFETY: plain data, for which zeros are valid.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the call takes any address, and fills the structure.
        let found = unsafe { libc::dladdr(inside.cast(), &mut info) } != 0;
        if !found || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: a name that ends with a zero and lives as long as the image.
        let name = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
        std::fs::canonicalize(std::ffi::OsStr::from_bytes(name.to_bytes())).ok()
    }
    #[cfg(not(unix))]
    {
        let _ = inside;
        None
    }
}

/// Returns the file's bytes, for the life of the process, when they are those of the table.
fn open(path: &Path, table: &RxWeights) -> Result<&'static [u8], String> {
    let shown = path.display();
    let trouble = |e: std::io::Error| format!("cannot read the weights `{shown}`: {e}");
    let file = std::fs::File::open(path).map_err(trouble)?;
    let length = file.metadata().map_err(trouble)?.len();
    if length != table.length {
        return Err(format!(
            "the weights `{shown}` have {length} bytes, but this program was compiled with {} bytes of weights",
            table.length
        ));
    }
    let copy = std::env::var_os("RELAX_WEIGHTS_COPY").is_some_and(|v| v == "1");
    let bytes = match copy || length <= SMALL {
        true => read(file, length as usize),
        false => map(&file, path, length as usize),
    };
    let bytes = bytes.map_err(trouble)?;
    let found = hash(bytes);
    if found != table.hash {
        return Err(format!(
            "the weights `{shown}` are not those that this program was compiled with: their hash is {found:016x}, not {:016x}",
            table.hash
        ));
    }
    Ok(bytes)
}

/// Reads the file's bytes into memory of the process, with the alignment that kernels require.
fn read(mut file: std::fs::File, length: usize) -> std::io::Result<&'static [u8]> {
    let memory = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
    let layout = std::alloc::Layout::from_size_align(length.max(1), 64).map_err(|_| memory())?;
    // SAFETY: the layout has a size.
    let block = unsafe { std::alloc::alloc_zeroed(layout) };
    if block.is_null() {
        return Err(memory());
    }
    // SAFETY: the block has `length` bytes, which are set, and is never given back.
    let bytes = unsafe { std::slice::from_raw_parts_mut(block, length) };
    file.read_exact(bytes)?;
    Ok(bytes)
}

#[cfg(unix)]
fn map(file: &std::fs::File, _: &Path, length: usize) -> std::io::Result<&'static [u8]> {
    use std::os::fd::AsRawFd;
    let (access, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
    let (none, bytes) = (std::ptr::null_mut(), length.max(1));
    // SAFETY: a new private mapping of an open file, wherever the system puts it.
    let at = unsafe { libc::mmap(none, bytes, access, flags, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the mapping has `length` bytes or more, may be read, and is never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), length) })
}

#[cfg(not(unix))]
fn map(_: &std::fs::File, path: &Path, _: usize) -> std::io::Result<&'static [u8]> {
    Ok(std::fs::read(path)?.leak())
}

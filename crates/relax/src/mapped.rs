//! Files in memory, and tensors over them.
//!
//! Files are mapped into memory and tensors borrow from the mapping, so that weights are neither
//! read before they are used nor held twice.

use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{Mmap, MmapMut};
use relax_tensor::{DType, Tensor};

use crate::Error;

/// Files up to this size are read rather than mapped.
const SMALL: u64 = 16 << 20;

/// Files from this size on are read into huge pages, where the system has them: getting as many
/// small ones takes four times as long as reading.
const HUGE: u64 = 2 << 20;

/// A file in memory: read if it is small or the environment variable `RELAX_WEIGHTS_COPY` is 1,
/// otherwise mapped. A mapping has the file's contents as long as the file is not modified, and is
/// lost if it is truncated.
#[derive(Clone, Debug)]
pub struct Mapped(Arc<Memory>);

#[derive(Debug)]
enum Memory {
    Read(Vec<u8>),
    /// Read as well, into pages of its own.
    Pages(Mmap),
    Map(Mmap),
}

impl std::ops::Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::Read(bytes) => bytes,
            Memory::Pages(map) | Memory::Map(map) => map,
        }
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Whether all files are read, whatever their size.
static COPY: AtomicBool = AtomicBool::new(false);

/// From now on, files are read rather than mapped, however large they are, so that later changes of
/// a file have no effect. The environment variable `RELAX_WEIGHTS_COPY` does the same.
pub fn copy_all() {
    COPY.store(true, Ordering::Relaxed);
}

fn copies() -> bool {
    COPY.load(Ordering::Relaxed) || std::env::var_os("RELAX_WEIGHTS_COPY").is_some_and(|v| v == "1")
}

/// Reads a file of this length into huge pages. `None` without any, or if it has another length;
/// then nothing of it was read.
fn pages(file: &mut std::fs::File, length: u64) -> Option<Memory> {
    let mut map = anonymous(usize::try_from(length).ok()?)?;
    if file.read_exact(&mut map).is_err() {
        file.rewind().ok()?;
        return None;
    }
    Some(Memory::Pages(map.make_read_only().ok()?))
}

/// Returns memory of the process in huge pages, if the system has them.
fn anonymous(length: usize) -> Option<MmapMut> {
    let map = MmapMut::map_anon(length).ok()?;
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Some(map)
}

/// Returns the error for a file that cannot be read.
pub(crate) fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::File(format!("cannot read {}: {why}", path.display()))
}

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// [`Error::File`]: it cannot be read.
    pub fn open(path: &Path) -> Result<Mapped, Error> {
        let trouble = |e: &dyn std::fmt::Display| unreadable(path, e);
        let mut file = std::fs::File::open(path).map_err(|e| trouble(&e))?;
        let length = file.metadata().map_err(|e| trouble(&e))?.len();
        if length <= SMALL || copies() {
            if length >= HUGE
                && let Some(memory) = pages(&mut file, length)
            {
                return Ok(Mapped(Arc::new(memory)));
            }
            let mut bytes = Vec::new();
            let room = bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX));
            room.map_err(|e| trouble(&e))?;
            file.read_to_end(&mut bytes).map_err(|e| trouble(&e))?;
            return Ok(Mapped(Arc::new(Memory::Read(bytes))));
        }
        // SAFETY: the mapping is private; a file that others change while it is read gives other
        // numbers, as reading it would.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| trouble(&e))?;
        Ok(Mapped(Arc::new(Memory::Map(map))))
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Releases the memory of some of its bytes; accessing them later reads the file again.
    pub fn unneeded(&self, bytes: &[u8]) {
        #[cfg(unix)]
        if let Memory::Map(map) = &*self.0
            && let Some(offset) = (bytes.as_ptr() as usize).checked_sub(map.as_ptr() as usize)
            && offset + bytes.len() <= map.len()
        {
            use memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: pages of a read-only mapping of a file have the file's contents again when
            // they are read next. Failing changes nothing.
            let _ = unsafe { map.unchecked_advise_range(DontNeed, offset, bytes.len()) };
        }
        #[cfg(not(unix))]
        let _ = bytes;
    }

    /// Returns a tensor over mapped bytes, or over a copy if they are misaligned; `None` if there
    /// are too few.
    pub(crate) fn tensor(&self, dtype: DType, shape: &[i64], offset: usize) -> Option<Tensor> {
        if dtype == DType::BOOL {
            // Booleans are normalised to 0 or 1, whatever the file holds.
            let len = Tensor::byte_len(dtype, shape)?;
            let bytes = self.0.get(offset..offset.checked_add(len)?)?;
            let truth: Vec<u8> = bytes.iter().map(|&b| u8::from(b != 0)).collect();
            return Tensor::from_bytes(dtype, shape, &truth);
        }
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::clone(&self.0) as _;
        if let Some(tensor) = Tensor::from_owner(dtype, shape, owner, offset) {
            return Some(tensor);
        }
        let len = Tensor::byte_len(dtype, shape)?;
        let bytes = self.0.get(offset..offset.checked_add(len)?)?;
        let copy = Tensor::from_bytes(dtype, shape, bytes);
        self.unneeded(bytes);
        copy
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl crate::Held for Mapped {
    fn unneeded(&self, part: std::ops::Range<usize>) {
        Mapped::unneeded(self, self.0.get(part).unwrap_or_default());
    }
}

/// Copies large tensors into memory of the process, with huge pages where the system supports them,
/// as if a host had passed them, rather than leaving them in pages of a file.
pub fn resident(tensors: Vec<Tensor>) -> Vec<Tensor> {
    const LARGE: usize = 4 << 20;
    let moved = |t: &Tensor| {
        let mut map = anonymous(t.bytes().len())?;
        map.copy_from_slice(t.bytes());
        Mapped(Arc::new(Memory::Pages(map.make_read_only().ok()?))).tensor(t.dtype(), t.shape(), 0)
    };
    let large = |t: &Tensor| t.bytes().len() >= LARGE;
    (tensors.into_iter())
        .map(|t| large(&t).then(|| moved(&t)).flatten().unwrap_or(t))
        .collect()
}

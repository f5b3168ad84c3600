//! File contents, in memory or memory-mapped.

use std::ops::Range;
use std::sync::Arc;

/// Bytes owned by someone else, such as a mapped file.
pub trait Held: AsRef<[u8]> + Send + Sync {
    /// Hints that this range is no longer needed, so that its pages may be reclaimed. Reading it
    /// again must still work.
    fn unneeded(&self, part: Range<usize>) {
        let _ = part;
    }
}

/// The contents of a file.
///
/// ```
/// use relax::Contents;
///
/// let contents = Contents::from(b"def @main() { 1 }".to_vec());
/// assert_eq!(contents.bytes().len(), 17);
/// ```
#[derive(Clone)]
pub enum Contents {
    /// Owned bytes, in memory.
    Owned(Vec<u8>),
    /// Shared bytes that someone else holds.
    Held(Arc<dyn Held>),
}

impl Contents {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Contents::Owned(bytes) => bytes,
            Contents::Held(held) => (**held).as_ref(),
        }
    }

    /// Returns the bytes as a vector, copying them if they are shared.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Contents::Owned(bytes) => bytes,
            Contents::Held(held) => (*held).as_ref().to_vec(),
        }
    }

    /// Releases the pages of `part` if it is a subslice of these bytes; other slices are ignored.
    pub fn give_back(&self, part: &[u8]) {
        let all = self.bytes();
        let begin = (part.as_ptr() as usize).checked_sub(all.as_ptr() as usize);
        if let Some(begin) = begin.filter(|b| b + part.len() <= all.len()) {
            self.unneeded(begin..begin + part.len());
        }
    }

    /// Hints that this range has been read and will not be needed soon.
    pub fn unneeded(&self, part: Range<usize>) {
        if let Contents::Held(held) = self {
            held.unneeded(part);
        }
    }
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Contents {
        Contents::Owned(bytes)
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes().len())
    }
}

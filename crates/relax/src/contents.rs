//! The bytes of a file, in memory or mapped.

use std::ops::Range;
use std::sync::Arc;

/// Bytes that somebody else holds: a mapped file.
pub trait Held: AsRef<[u8]> + Send + Sync {
    /// These bytes have been used: what memory they take may go to others. Reading them again must
    /// still work.
    fn unneeded(&self, part: Range<usize>) {
        let _ = part;
    }
}

/// What a file holds.
///
/// ```
/// use relax::Contents;
///
/// let contents = Contents::from(b"def @main() { 1 }".to_vec());
/// assert_eq!(contents.bytes().len(), 17);
/// ```
#[derive(Clone)]
pub enum Contents {
    /// All of it, in memory.
    Owned(Vec<u8>),
    /// All of it, elsewhere.
    Held(Arc<dyn Held>),
}

impl Contents {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Contents::Owned(bytes) => bytes,
            Contents::Held(held) => (**held).as_ref(),
        }
    }

    /// The bytes, in memory.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Contents::Owned(bytes) => bytes,
            Contents::Held(held) => (*held).as_ref().to_vec(),
        }
    }

    /// Gives back the memory of bytes that are part of these, wherever they were found; others are
    /// left alone.
    pub fn give_back(&self, part: &[u8]) {
        let all = self.bytes();
        let begin = (part.as_ptr() as usize).checked_sub(all.as_ptr() as usize);
        if let Some(begin) = begin.filter(|b| b + part.len() <= all.len()) {
            self.unneeded(begin..begin + part.len());
        }
    }

    /// These bytes have been used and will not be soon.
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

//! Calls of kernels by generated code, as they are described to `rx_launch`: a structure for what is
//! known when the code is made, and words for the results of each call.

use std::ffi::c_char;

use crate::context::RxContext;
use crate::object::{DLDataType, RxObject};

/// The code of a kernel.
pub type Kernel =
    unsafe extern "C" fn(*mut RxContext, *const *mut RxObject, *mut *mut RxObject) -> i32;

/// A call, in read-only data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RxLaunch {
    /// The kernel's code.
    pub kernel: Option<Kernel>,
    /// Where the call stands.
    pub place: *const c_char,
    /// Whether an error with a place of its own gets this one, too.
    pub also: i32,
    /// Number of results.
    pub results: i32,
    /// The inputs that are released after the call: a bit for each, the lowest for the first.
    pub released: u64,
}

/// The word of a result that the kernel allocates.
pub const BY_KERNEL: i64 = -1;
/// The bit of a result that takes the memory of a dead tensor.
const REUSES: i64 = 1 << 62;

/// Returns the word of a result: its element type and rank, and whether it takes the memory of a
/// dead tensor.
pub fn word_of(dtype: u32, rank: u16, reuses: bool) -> i64 {
    i64::from(dtype) | i64::from(rank) << 32 | if reuses { REUSES } else { 0 }
}

fn dtype_of(word: u32) -> DLDataType {
    let [code, bits, low, high] = word.to_le_bytes();
    DLDataType {
        code,
        bits,
        lanes: u16::from_le_bytes([low, high]),
    }
}

/// A result of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Output {
    /// Its element type.
    pub dtype: DLDataType,
    /// Its rank.
    pub rank: u16,
    /// Whether it takes the memory of a dead tensor.
    pub reuses: bool,
}

/// Returns what a word says of a result: see [`word_of`]; `None` for [`BY_KERNEL`].
#[inline]
pub fn output_of(word: i64) -> Option<Output> {
    (word != BY_KERNEL).then(|| Output {
        dtype: dtype_of(word as u32),
        rank: (word >> 32) as u16,
        reuses: word & REUSES != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_was_put_into_them() {
        let dtype = DLDataType::new(2, 32);
        for (rank, reuses) in [(0, false), (u16::MAX, true)] {
            let word = word_of(u32::from_le_bytes([2, 32, 1, 0]), rank, reuses);
            let output = Output {
                dtype,
                rank,
                reuses,
            };
            assert_eq!(output_of(word), Some(output));
        }
        assert_eq!(output_of(BY_KERNEL), None);
    }
}

//! Checks that calls of kernels stay within the given memory (`RELAX_CHECK=1`).
//!
//! Before each call of a kernel, checked code passes the existing arrays and their sizes: those of
//! tensors and of scratch memory, independent of their types. Here the kernel's own arguments are
//! translated to the elements that it may access. Since the two have different origins, a mistake
//! in either is found.
//!
//! Invariant: accesses only arguments and sizes, never elements.

use std::ffi::c_void;

use crate::abi::{FUNCTIONS, Word};
use crate::context::Status;

pub(crate) mod touches;

/// An array that a kernel may access, as in the C header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RxArray {
    /// Its first byte.
    pub data: *const c_void,
    /// Its size in bytes.
    pub bytes: i64,
}

/// The range of bytes relative to a pointer that a call may access: the least one, and one past the
/// greatest.
struct Touched {
    what: &'static str,
    data: usize,
    from: i128,
    to: i128,
}

/// The memory that a call may access.
#[derive(Default)]
pub struct Reach(Vec<Touched>);

/// Extents along which an array is traversed, with the steps.
type Axes<'a> = &'a [(i64, i64)];

impl Reach {
    /// Adds elements of `size` bytes: all that the steps reach.
    fn walk<T>(&mut self, what: &'static str, data: *const T, size: usize, axes: Axes<'_>) {
        if data.is_null() || axes.iter().any(|a| a.0 <= 0) {
            return;
        }
        let (mut low, mut high) = (0i128, 0i128);
        for &(extent, step) in axes {
            let reach = (i128::from(extent) - 1) * i128::from(step);
            low += reach.min(0);
            high += reach.max(0);
        }
        let size = size as i128;
        self.0.push(Touched {
            what,
            data: data.addr(),
            from: low * size,
            to: (high + 1) * size,
        });
    }

    /// Adds contiguous elements.
    fn all<T>(&mut self, what: &'static str, data: *const T, size: usize, extents: &[i64]) {
        if data.is_null() || extents.iter().any(|&n| n <= 0) {
            return;
        }
        let n = extents.iter().try_fold(1i64, |n, e| n.checked_mul(*e));
        self.walk(what, data, size, &[(n.unwrap_or(i64::MAX), 1)]);
    }
}

/// The arguments of a call after the context that are words.
type Args<'a> = &'a [i64];

/// Records the memory that a call of a kernel may access.
///
/// # Safety
/// The arguments are those of a call of the kernel, except for floating-point ones; descriptors and
/// arrays of numbers are live.
pub type Touches = unsafe fn(&mut Reach, &[i64]);

/// Returns the memory that a call of a kernel may access; `None` for kernels without a description.
///
/// # Safety
/// As [`Touches`].
unsafe fn reach_of(kernel: &str, args: Args<'_>) -> Option<Reach> {
    let function = FUNCTIONS.iter().find(|f| f.name == kernel)?;
    let words = function.signature.params.iter().skip(1).filter(|p| {
        let word = p.word.unwrap_or(Word::Int64);
        !matches!(word, Word::Float32 | Word::Float64)
    });
    let touches = function.touches.filter(|_| words.count() == args.len())?;
    let mut reach = Reach::default();
    // SAFETY: the arguments are those of the kernel, whose descriptors are live.
    unsafe { touches(&mut reach, args) };
    Some(reach)
}

/// Returns whether an array contains all accessed bytes.
fn holds(array: &RxArray, t: &Touched) -> bool {
    let offset = t.data as i128 - array.data.addr() as i128;
    offset + t.from >= 0 && offset + t.to <= i128::from(array.bytes)
}

/// Fails unless each range that a call of a kernel may access is within one of the arrays.
///
/// # Safety
/// As [`Touches`].
///
/// # Errors
/// The status and text of the first range that is not, or of a kernel that nothing is known of.
pub(crate) unsafe fn check(
    kernel: &str,
    args: &[i64],
    arrays: &[RxArray],
) -> Result<(), (Status, String)> {
    // SAFETY: the contract is the same.
    let Some(reach) = (unsafe { reach_of(kernel, args) }) else {
        let text = format!("what `{kernel}` touches is not known, so it cannot be checked");
        return Err((Status::Internal, text));
    };
    let outside = |t: &&Touched| !arrays.iter().any(|a| holds(a, t));
    match reach.0.iter().find(outside) {
        None => Ok(()),
        Some(&Touched { what, from, to, .. }) => {
            let text = format!(
                "`{kernel}` would touch bytes {from} to {to} of its {what}, and there are no such"
            );
            Err((Status::Bounds, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::gemm::RxGemmF32;

    fn array<T>(data: &[T]) -> RxArray {
        RxArray {
            data: data.as_ptr().cast(),
            bytes: std::mem::size_of_val(data) as i64,
        }
    }

    /// Returns whether a call of `kernel` stays within `arrays`.
    fn inside(kernel: &str, args: &[i64], arrays: &[RxArray]) -> bool {
        // SAFETY: the tests' descriptors are live.
        let reach = unsafe { reach_of(kernel, args) }.expect("known");
        assert!(!reach.0.is_empty(), "{kernel} touches something");
        reach.0.iter().all(|t| arrays.iter().any(|a| holds(a, t)))
    }

    #[test]
    fn a_product_touches_its_operands_and_no_more() {
        let (a, b, mut c) = ([0f32; 6], [0f32; 12], [0f32; 8]);
        let mut g = RxGemmF32 {
            m: 2,
            n: 4,
            k: 3,
            a: a.as_ptr(),
            a_rs: 3,
            a_cs: 1,
            b: b.as_ptr(),
            b_rs: 4,
            b_cs: 1,
            c: c.as_mut_ptr(),
            c_ld: 4,
            ..Default::default()
        };
        let arrays = [array(&a), array(&b), array(&c)];
        let call = |g: &RxGemmF32| inside("rx_gemm_f32", &[(&raw const *g).addr() as i64], &arrays);
        assert!(call(&g));
        g.n = 5;
        assert!(!call(&g), "a column more than there are");
        g.n = 4;
        g.epilogue.bias = a.as_ptr();
        assert!(call(&g));
        g.m = 3;
        assert!(!call(&g), "a row more than there are");
    }

    #[test]
    fn steps_may_lead_backwards() {
        let (from, to) = ([0f32; 4], [0f32; 4]);
        let (extents, back, on) = ([4i64], [-1i64], [1i64]);
        let address = |p: *const i64| p.addr() as i64;
        let call = |first: &f32| {
            let args = [
                4,
                1,
                address(extents.as_ptr()),
                (&raw const *first).addr() as i64,
                address(back.as_ptr()),
                to.as_ptr().addr() as i64,
                address(on.as_ptr()),
            ];
            inside("rx_copy_strided", &args, &[array(&from), array(&to)])
        };
        let _ = (
            from.as_ptr().expose_provenance(),
            to.as_ptr().expose_provenance(),
        );
        assert!(call(&from[3]) && !call(&from[2]));
    }
}

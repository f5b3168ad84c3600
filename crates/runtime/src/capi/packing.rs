//! Weights in the order in which kernels read them.

use std::ffi::c_void;

use crate::kernels::conv::{self, RxConv2dF32};
use crate::kernels::gemm::pack;
use crate::kernels::integer::fused::{self, RxConv2dQ8};

use super::count;

/// Floats of a packed B.
#[unsafe(no_mangle)]
pub extern "C" fn rx_pack_b_f32_size(k: i64, n: i64) -> i64 {
    pack::size_of_columns(count(k), count(n)) as i64
}

/// Packs B.
///
/// # Safety
/// See [`pack::columns`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_pack_b_f32(
    k: i64,
    n: i64,
    b: *const f32,
    b_rs: i64,
    b_cs: i64,
    out: *mut f32,
) {
    // SAFETY: `b` has `k` by `n` floats at its strides, and `out` what `rx_pack_b_f32_size` says.
    unsafe { pack::columns(count(k), count(n), b, b_rs as isize, b_cs as isize, out) };
}

/// Floats of a packed A.
#[unsafe(no_mangle)]
pub extern "C" fn rx_pack_a_f32_size(m: i64, k: i64) -> i64 {
    pack::size_of_rows(count(m), count(k)) as i64
}

/// Packs A.
///
/// # Safety
/// See [`pack::rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_pack_a_f32(
    m: i64,
    k: i64,
    a: *const f32,
    a_rs: i64,
    a_cs: i64,
    out: *mut f32,
) {
    // SAFETY: `a` has `m` by `k` floats at its strides, and `out` what `rx_pack_a_f32_size` says.
    unsafe { pack::rows(count(m), count(k), a, a_rs as isize, a_cs as isize, out) };
}

/// Floats of a convolution's packed weight; 0 where it packs nothing, or for null.
///
/// # Safety
/// `conv` is null or a live descriptor, of which only the sizes are read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_conv2d_f32_pack_size(conv: *const RxConv2dF32) -> i64 {
    // SAFETY: null, or a descriptor that lives until the call is over.
    unsafe { conv.as_ref() }.map_or(0, |conv| conv::packed_size(conv) as i64)
}

/// Packs a convolution's weight; nothing for null.
///
/// # Safety
/// `conv` is null, or a live descriptor whose weight has the sizes that it says; `out` has room for
/// what [`rx_conv2d_f32_pack_size`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_conv2d_f32_pack(conv: *const RxConv2dF32, out: *mut f32) {
    // SAFETY: null, or a live descriptor, whose weight has its sizes; `out` has room for as many
    // floats as were asked for.
    unsafe {
        if let Some(conv) = conv.as_ref() {
            conv::pack_weight(conv, out);
        }
    }
}

/// Bytes of a convolution's packed weight; 0 where it packs nothing, or for null.
///
/// # Safety
/// `conv` is null or a live descriptor, of which only the sizes are read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_conv2d_q8_pack_size(conv: *const RxConv2dQ8) -> i64 {
    // SAFETY: null, or a descriptor that lives until the call is over.
    unsafe { conv.as_ref() }.map_or(0, |conv| fused::packed_size(conv) as i64)
}

/// Packs a convolution's weight of bytes; nothing for null.
///
/// # Safety
/// `conv` is null, or a live descriptor whose weight has the sizes that it says; `out` has room for
/// as many bytes as [`rx_conv2d_q8_pack_size`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_conv2d_q8_pack(conv: *const RxConv2dQ8, out: *mut c_void) {
    // SAFETY: null, or a live descriptor, whose weight has its sizes; `out` has room for as many
    // bytes as were asked for.
    unsafe {
        if let Some(conv) = conv.as_ref() {
            fused::pack_weight(conv, out.cast());
        }
    }
}

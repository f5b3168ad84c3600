//! Kernels over plain arrays, which are slices for the core, but for those that may be called in
//! place: an array that is read and written stays a pointer.

use std::ffi::c_void;

use crate::context::{RxContext, Status, guard};
use crate::kernels::math::Math;
use crate::kernels::{convert, functions, lookup, reduce, rows, strided, vmath};
use crate::tensor::extents;

use super::{count, slice, slice_mut};

/// Returns a number of elements of an array; none for more than memory holds.
fn whole<T>(n: impl TryInto<usize>) -> usize {
    let most = isize::MAX as usize / size_of::<T>();
    Some(count(n)).filter(|&n| n <= most).unwrap_or(0)
}

/// Defines functions of each element of an array: `name => kernel;`.
macro_rules! element_wise {
    ($($name:ident => $kernel:path;)*) => {$(
        #[doc = concat!("[`", stringify!($kernel), "`]")]
        ///
        /// # Safety
        /// Both have `n` elements, and are the same or do not overlap.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(n: i64, x: *const f32, y: *mut f32) {
            // SAFETY: both have `n` elements, and are the same or do not overlap.
            unsafe { $kernel(count(n), x, y) };
        }
    )*};
}

element_wise! {
    rx_vexp_f32 => vmath::vexp;
    rx_vlog_f32 => vmath::vlog;
    rx_vtanh_f32 => vmath::vtanh;
    rx_verf_f32 => vmath::verf;
    rx_vsigmoid_f32 => vmath::vsigmoid;
    rx_vsqrt_f32 => vmath::vsqrt;
    rx_vrsqrt_f32 => vmath::vrsqrt;
    rx_vsin_f32 => vmath::vsin;
    rx_vcos_f32 => vmath::vcos;
    rx_vatan_f32 => vmath::vatan;
    rx_vgelu_f32 => vmath::vgelu;
}

/// [`vmath::vpow`]
///
/// # Safety
/// All have `n` elements; `z` is `x`, `y` or overlaps neither.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_vpow_f32(n: i64, x: *const f32, y: *const f32, z: *mut f32) {
    // SAFETY: all have `n` elements, and `z` is one of the others or overlaps neither.
    unsafe { vmath::vpow(count(n), x, y, z) };
}

/// Defines functions by number: `name(element) => kernel;`.
macro_rules! by_number {
    ($($name:ident($ty:ty) => $kernel:path;)*) => {$(
        #[doc = concat!("[`", stringify!($kernel), "`]; nothing for an unknown number.")]
        ///
        /// # Safety
        /// `x` and `z`, and for functions of two arguments `y`, have `n` elements; `z` is one of the
        /// others or overlaps none.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            function: i32,
            n: i64,
            x: *const $ty,
            y: *const $ty,
            z: *mut $ty,
        ) {
            if let Some(math) = Math::of(function) {
                // SAFETY: the arrays that the function has have `n` elements, and `z` is one of the
                // others or overlaps none.
                unsafe { $kernel(math, count(n), x, y, z) };
            }
        }
    )*};
}

by_number! {
    rx_vmath_f32(f32) => functions::over_f32;
    rx_vmath_f64(f64) => functions::over_f64;
}

/// Defines conversions of an array: `name(from) -> to => kernel(brain);`.
macro_rules! conversions {
    ($($name:ident($from:ty) -> $to:ty => $kernel:path, $brain:literal;)*) => {$(
        #[doc = concat!("[`", stringify!($kernel), "`]")]
        ///
        /// # Safety
        /// Both have `n` elements and do not overlap.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(n: i64, x: *const $from, y: *mut $to) {
            // SAFETY: both have `n` elements and do not overlap.
            let (x, y) = unsafe { (slice(x, whole::<$from>(n)), slice_mut(y, whole::<$to>(n))) };
            $kernel($brain, x, y);
        }
    )*};
}

conversions! {
    rx_vf16_to_f32(u16) -> f32 => convert::widen, false;
    rx_vf32_to_f16(f32) -> u16 => convert::narrow, false;
    rx_vbf16_to_f32(u16) -> f32 => convert::widen, true;
    rx_vf32_to_bf16(f32) -> u16 => convert::narrow, true;
}

/// [`lookup::each_byte`]; a table that is null is an error.
///
/// # Safety
/// There are `n` bytes at `x` and at `y`, which are the same or do not overlap; `table` is null or has
/// 256.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_lookup_bytes(
    ctx: *mut RxContext,
    n: i64,
    x: *const c_void,
    table: *const c_void,
    y: *mut c_void,
    flip: i32,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: null, or 256 bytes.
        let Some(table) = (unsafe { table.cast::<[u8; 256]>().as_ref() }) else {
            return context.fail(Status::Argument, "rx_lookup_bytes: `table` is null");
        };
        let arrays = (x.cast(), y.cast());
        // SAFETY: both arrays have `n` bytes, and are the same or do not overlap.
        unsafe { lookup::each_byte(context, count(n), arrays, table, flip as u8) }
    })
}

/// [`rows::softmax`]
///
/// # Safety
/// Both have `rows * cols` elements of the kind, and are the same or do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_softmax(
    ctx: *mut RxContext,
    rows: i64,
    cols: i64,
    x: *const c_void,
    y: *mut c_void,
    kind: i32,
    log: i32,
) -> i32 {
    guard(ctx, |context| {
        let sizes = (count(rows), count(cols));
        // SAFETY: both arrays have so many elements, and are the same or do not overlap.
        unsafe { rows::softmax(context, sizes, (x, y), kind, log != 0) }
    })
}

/// [`reduce::reduce`]
///
/// # Safety
/// `x` has `outer * axis * inner` elements, `y` `outer * inner`; they do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_reduce_f32(
    ctx: *mut RxContext,
    op: i32,
    outer: i64,
    axis: i64,
    inner: i64,
    x: *const f32,
    y: *mut f32,
) -> i32 {
    guard(ctx, |context| {
        let sizes @ [outer, axis, inner] = [outer, axis, inner].map(count);
        let results = outer.saturating_mul(inner);
        // SAFETY: these are the elements of both, which do not overlap.
        let (x, y) = unsafe {
            (
                slice(x, whole::<f32>(results.saturating_mul(axis))),
                slice_mut(y, whole::<f32>(results)),
            )
        };
        reduce::reduce(context, op, sizes, x, y)
    })
}

/// Fails for a rank that strided copies do not take: `None` where they take it.
fn refused(context: &mut RxContext, function: &str, ndim: i32) -> Option<i32> {
    const MOST: usize = strided::MAX_RANK;
    if usize::try_from(ndim).is_ok_and(|rank| rank <= MOST) {
        return None;
    }
    let text = format!("{function}: rank {ndim} is not between 0 and {MOST}");
    Some(context.fail(Status::Argument, &text))
}

/// [`strided::copy_strided`]
///
/// # Safety
/// The lists have `ndim` numbers. Every element that shape and strides name lies in its array; they do
/// not overlap, or are the same with the same strides.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_copy_strided(
    ctx: *mut RxContext,
    elem_size: i32,
    ndim: i32,
    shape: *const i64,
    src: *const c_void,
    src_strides: *const i64,
    dst: *mut c_void,
    dst_strides: *const i64,
) -> i32 {
    guard(ctx, |context| {
        if let Some(status) = refused(context, "rx_copy_strided", ndim) {
            return status;
        }
        let (size, src, dst) = (count(elem_size), src.cast(), dst.cast());
        // SAFETY: the lists have `ndim` numbers, and the arrays what they name.
        unsafe {
            let [shape, from, to] = [shape, src_strides, dst_strides].map(|p| extents(ndim, p));
            strided::copy_strided(context, size, shape, (src, from), (dst, to));
        }
        0
    })
}

/// [`strided::transpose`]
///
/// # Safety
/// `src_shape` and `axes` have `ndim` numbers, both arrays are as large as the shape says and do not
/// overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_transpose(
    ctx: *mut RxContext,
    elem_size: i32,
    ndim: i32,
    src_shape: *const i64,
    axes: *const i32,
    src: *const c_void,
    dst: *mut c_void,
) -> i32 {
    guard(ctx, |context| {
        if let Some(status) = refused(context, "rx_transpose", ndim) {
            return status;
        }
        let size = count(elem_size);
        // SAFETY: both lists have `ndim` numbers.
        let (shape, axes) = unsafe { (extents(ndim, src_shape), slice(axes, ndim)) };
        let bytes = whole::<u8>(strided::compact_bytes(size, shape).unwrap_or(usize::MAX));
        // SAFETY: both arrays have as many bytes, and do not overlap.
        let (src, dst) = unsafe { (slice(src.cast(), bytes), slice_mut(dst.cast(), bytes)) };
        strided::transpose(context, size, shape, axes, src, dst)
    })
}

/// [`strided::fill`]
///
/// # Safety
/// `element` has `elem_size` bytes and `dst` `n` times as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fill(elem_size: i32, n: i64, element: *const c_void, dst: *mut c_void) {
    let bytes = whole::<u8>(count(elem_size).saturating_mul(count(n)));
    // SAFETY: `element` has one element's bytes, and `dst` those of `n`.
    let (element, dst) = unsafe {
        (
            slice(element.cast(), elem_size),
            slice_mut(dst.cast(), bytes),
        )
    };
    strided::fill(element, dst);
}

/// Copies bytes.
///
/// # Safety
/// Both have `bytes` bytes and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_copy(bytes: i64, src: *const c_void, dst: *mut c_void) {
    // SAFETY: `src` and `dst` have `bytes` bytes, and do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(src.cast::<u8>(), dst.cast(), count(bytes)) };
}

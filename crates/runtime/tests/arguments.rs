//! Arguments of the C interface are checked: each of these calls is an error, and none reads out of
//! bounds.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI64, Ordering};

use relax_runtime::capi::arrays::{
    rx_copy_strided, rx_fill, rx_lookup_bytes, rx_reduce_f32, rx_transpose,
};
use relax_runtime::capi::context::{
    rx_context_create, rx_context_destroy, rx_heap_stats, rx_set_threads,
};
use relax_runtime::capi::counts::rx_release;
use relax_runtime::capi::dlpack::{rx_from_dlpack, rx_to_dlpack};
use relax_runtime::capi::errors::{rx_clear_error, rx_last_error, rx_last_status};
use relax_runtime::capi::fields::rx_ref_set;
use relax_runtime::capi::functions::{rx_call_closure, rx_call_dps_packed, rx_call_packed};
use relax_runtime::capi::kernels::{rx_conv2d_pool2d_f32, rx_gemm_f32};
use relax_runtime::capi::packing::{rx_conv2d_f32_pack, rx_conv2d_f32_pack_size};
use relax_runtime::capi::tensors::{
    rx_alloc_tensor, rx_tensor_borrow, rx_tensor_copy, rx_tensor_data,
};
use relax_runtime::capi::threads::rx_parallel_for;
use relax_runtime::capi::values::{
    rx_alloc_tuple, rx_make_shape, rx_make_string, rx_make_tuple, rx_unit,
};
use relax_runtime::context::{RxContext, Status};
use relax_runtime::dlpack::{DLDevice, DLManagedTensor, DLTensor};
use relax_runtime::object::DLDataType;

/// A context for one test.
struct Context(*mut RxContext);

impl Context {
    fn new() -> Context {
        Context(rx_context_create())
    }
    /// Asserts that the last call was rejected for an argument, with these words.
    fn refused(&self, why: &str) {
        // SAFETY: the context lives.
        let (status, text) = unsafe {
            let text = CStr::from_ptr(rx_last_error(self.0));
            (rx_last_status(self.0), text.to_string_lossy())
        };
        assert_eq!(status, Status::Argument as i32, "{text}");
        assert!(text.contains(why), "{text}");
        rx_clear_error(self.0);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once.
        unsafe { rx_context_destroy(self.0) }
    }
}

#[test]
fn null_is_refused_where_something_is_read() {
    let cx = Context::new();
    let ctx = cx.0;
    // SAFETY: null stands where the functions check for it.
    unsafe {
        assert!(rx_make_shape(ctx, 3, null()).is_null());
        cx.refused("`dims` is null");
        assert!(rx_make_tuple(ctx, 2, null()).is_null());
        cx.refused("`values` is null");
        assert!(rx_make_string(ctx, null(), 5).is_null());
        cx.refused("`bytes` is null");
        assert!(rx_tensor_copy(ctx, DLDataType::F32, 1, [4].as_ptr(), null()).is_null());
        cx.refused("`data` is null");
        assert!(rx_tensor_borrow(ctx, DLDataType::F32, 1, [4].as_ptr(), null_mut()).is_null());
        cx.refused("`data` is null");
        assert!(rx_alloc_tensor(ctx, DLDataType::F32, 2, null()).is_null());
        cx.refused("extents");
        assert_ne!(
            rx_call_packed(ctx, c"f".as_ptr(), null(), 1, &mut null_mut()),
            0
        );
        cx.refused("`args` is null");
        assert_ne!(rx_call_packed(ctx, c"f".as_ptr(), null(), 0, null_mut()), 0);
        cx.refused("`ret` is NULL");
        assert_ne!(rx_call_dps_packed(ctx, c"f".as_ptr(), null(), 2), 0);
        cx.refused("`args` is null");
        assert_ne!(rx_call_closure(ctx, rx_unit(), null(), 0, null_mut()), 0);
        cx.refused("`out` is NULL");
        rx_ref_set(ctx, rx_unit(), rx_unit());
        cx.refused("no cell");
        assert!(rx_from_dlpack(ctx, null_mut()).is_null());
        cx.refused("no tensor");
        rx_heap_stats(ctx, null_mut());
    }
}

#[test]
fn without_a_context_nothing_is_made() {
    let none = null_mut();
    // SAFETY: as above.
    unsafe {
        assert!(rx_alloc_tuple(none, 2).is_null());
        assert!(rx_alloc_tensor(none, DLDataType::F32, 0, null()).is_null());
        assert!(rx_make_string(none, c"x".as_ptr(), 1).is_null());
        assert!(rx_from_dlpack(none, null_mut()).is_null());
        assert!(rx_to_dlpack(none, null_mut()).is_null());
        assert_ne!(
            rx_call_closure(none, rx_unit(), null(), 0, &mut null_mut()),
            0
        );
    }
}

#[test]
fn kernels_are_given_what_they_read() {
    let cx = Context::new();
    let ctx = cx.0;
    let (from, mut to) = ([1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [0f32; 6]);
    let (x, y) = (from.as_ptr(), to.as_mut_ptr());
    // SAFETY: null stands where the functions check for it; arrays have six floats.
    unsafe {
        assert_ne!(rx_gemm_f32(ctx, null()), 0);
        cx.refused("rx_gemm_f32: `g` is null");
        assert_ne!(rx_conv2d_pool2d_f32(ctx, null(), null()), 0);
        cx.refused("rx_conv2d_pool2d_f32: `conv` is null");
        assert_ne!(rx_gemm_f32(null_mut(), null()), 0);
        assert_eq!(rx_conv2d_f32_pack_size(null()), 0);
        rx_conv2d_f32_pack(null(), y);
        assert_ne!(rx_lookup_bytes(ctx, 24, x.cast(), null(), y.cast(), 0), 0);
        cx.refused("`table` is null");
        assert_ne!(rx_reduce_f32(ctx, 0, 2, 3, 1, null(), y), 0);
        cx.refused("no such arrays");
        assert_ne!(rx_reduce_f32(ctx, 0, i64::MAX, 3, 2, null(), y), 0);
        cx.refused("no such arrays");
        let shape = [2i64, 3];
        let transpose = |ndim, axes: [i32; 2], x: *const f32| {
            let (shape, axes) = (shape.as_ptr(), axes.as_ptr());
            rx_transpose(ctx, 4, ndim, shape, axes, x.cast(), y.cast())
        };
        for axes in [[0, 0], [0, 2], [-1, 0]] {
            assert_ne!(transpose(2, axes, x), 0);
            cx.refused("no permutation");
        }
        assert_ne!(transpose(2, [1, 0], null()), 0);
        cx.refused("no such arrays");
        assert_ne!(transpose(17, [1, 0], x), 0);
        cx.refused("rank 17 is not between 0 and 16");
        let none: *const i64 = null();
        let copied = rx_copy_strided(ctx, 4, -1, none, x.cast(), none, y.cast(), none);
        assert_ne!(copied, 0);
        cx.refused("rank -1 is not between 0 and 16");
        let untouched = std::slice::from_raw_parts(y, 6) == [0.0; 6];
        assert!(untouched, "nothing was written");
        assert_eq!(transpose(2, [1, 0], x), 0);
        rx_fill(3, 1, x.cast(), y.cast());
        rx_fill(4, -1, x.cast(), y.cast());
    }
    assert_eq!(to, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn memory_between_elements_is_not_borrowed() {
    let cx = Context::new();
    let mut floats = [1f32, 2.0, 3.0];
    // SAFETY: two floats lie from the second byte on.
    unsafe {
        let data = floats.as_mut_ptr().cast::<u8>().add(1).cast::<c_void>();
        assert!(rx_tensor_borrow(cx.0, DLDataType::F32, 1, [2].as_ptr(), data).is_null());
        cx.refused("not aligned");
        // A tensor of another library, which is copied.
        let mut shape = [2i64];
        let mut managed = DLManagedTensor {
            dl_tensor: DLTensor {
                data: floats.as_mut_ptr().cast(),
                device: DLDevice {
                    device_type: 1,
                    device_id: 0,
                },
                ndim: 1,
                dtype: DLDataType::F32,
                shape: shape.as_mut_ptr(),
                strides: null_mut(),
                byte_offset: 1,
            },
            manager_ctx: null_mut(),
            deleter: None,
        };
        let tensor = rx_from_dlpack(cx.0, &mut managed);
        assert!(!tensor.is_null());
        assert!((rx_tensor_data(tensor) as usize).is_multiple_of(4));
        rx_release(cx.0, tensor);
        managed.dl_tensor.data = null_mut();
        assert!(rx_from_dlpack(cx.0, &mut managed).is_null());
        cx.refused("no data");
    }
}

#[test]
fn the_longest_loop_ends() {
    unsafe extern "C" fn add(data: *mut c_void, begin: i64, end: i64, _: i32) {
        assert!(0 <= begin && begin < end);
        // SAFETY: the counter of the test.
        let sum = unsafe { &*data.cast::<AtomicI64>() };
        sum.fetch_add(end - begin, Ordering::Relaxed);
    }
    let cx = Context::new();
    rx_set_threads(cx.0, 3);
    let sum = AtomicI64::new(0);
    let data = (&raw const sum).cast_mut().cast();
    // SAFETY: the counter outlives the loop.
    unsafe { rx_parallel_for(cx.0, i64::MAX, 1, Some(add), data) };
    assert_eq!(sum.load(Ordering::Relaxed), i64::MAX);
}

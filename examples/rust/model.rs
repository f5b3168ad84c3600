//! Calls a shared library that relaxc made, from Rust.
//!
//! ```text
//! relaxc examples/call_packed.relay -o libmodel.so --emit shared
//! rustc --edition 2024 examples/rust/model.rs -L . -l dylib=model
//! LD_LIBRARY_PATH=. ./model
//! ```
//!
//! The C interface stands in `crates/runtime/include/relax_runtime.h`; what is used of it is declared below.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null_mut, slice_from_raw_parts};

/// A context and a value of the runtime: only ever behind pointers.
#[repr(C)]
pub struct RxContext([u8; 0]);
#[repr(C)]
pub struct RxObject([u8; 0]);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

const FLOAT32: DLDataType = DLDataType { code: 2, bits: 32, lanes: 1 };
const RX_OK: i32 = 0;

type Packed =
    extern "C" fn(*mut RxContext, *mut c_void, *const *mut RxObject, i32, *mut *mut RxObject) -> i32;

unsafe extern "C" {
    fn rx_context_create() -> *mut RxContext;
    fn rx_context_destroy(ctx: *mut RxContext);
    fn rx_last_error(ctx: *const RxContext) -> *const c_char;
    fn rx_register_packed(ctx: *mut RxContext, name: *const c_char, f: Packed, userdata: *mut c_void) -> i32;
    fn rx_tensor_borrow(ctx: *mut RxContext, dtype: DLDataType, ndim: i32, shape: *const i64, data: *mut c_void) -> *mut RxObject;
    fn rx_tensor_shape(tensor: *const RxObject) -> *const i64;
    fn rx_tensor_data(tensor: *const RxObject) -> *mut c_void;
    fn rx_unit() -> *mut RxObject;
    fn rx_release(ctx: *mut RxContext, object: *mut RxObject);
    /// `@main` of the model.
    fn relax_main(ctx: *mut RxContext, args: *const *mut RxObject, nargs: i32, out: *mut *mut RxObject) -> i32;
}

/// The extents and the elements of a matrix of `f32`.
///
/// # Safety
/// `t` is a live tensor of rank 2 with elements of that type.
unsafe fn matrix<'a>(t: *const RxObject) -> (usize, usize, *mut f32, &'a [f32]) {
    // SAFETY: the caller's promise.
    unsafe {
        let shape = &*slice_from_raw_parts(rx_tensor_shape(t), 2);
        let (n, m) = (shape[0] as usize, shape[1] as usize);
        let data = rx_tensor_data(t).cast::<f32>();
        (n, m, data, &*slice_from_raw_parts(data, n * m))
    }
}

extern "C" fn print(_: *mut RxContext, _: *mut c_void, args: *const *mut RxObject, _: i32, ret: *mut *mut RxObject) -> i32 {
    // SAFETY: the program calls it with one matrix.
    unsafe {
        let (n, m, ..) = matrix(*args);
        println!("host.print: ({n}, {m})");
        *ret = rx_unit();
    }
    RX_OK
}

extern "C" fn tile(_: *mut RxContext, userdata: *mut c_void, args: *const *mut RxObject, _: i32, _: *mut *mut RxObject) -> i32 {
    // SAFETY: the program calls it with a matrix, and one twice as wide to write; `userdata` is the counter
    // that `main` registered.
    unsafe {
        *userdata.cast::<u32>() += 1;
        let (n, m, _, from) = matrix(*args);
        let to = rx_tensor_data(*args.add(1)).cast::<f32>();
        for i in 0..n {
            for half in 0..2 {
                let row = from[i * m..].as_ptr();
                std::ptr::copy_nonoverlapping(row, to.add((2 * i + half) * m), m);
            }
        }
    }
    RX_OK
}

fn main() {
    let mut calls = 0u32;
    // One compilation serves all sizes.
    for (n, m) in [(2i64, 3i64), (1, 2)] {
        let mut data: Vec<f32> = (1..=n * m).map(|k| k as f32).collect();
        let shape = [n, m];
        // SAFETY: data and shape outlive the call; values are released once.
        unsafe {
            let ctx = rx_context_create();
            rx_register_packed(ctx, c"host.print".as_ptr(), print, null_mut());
            rx_register_packed(ctx, c"host.tile".as_ptr(), tile, (&raw mut calls).cast());
            let x = rx_tensor_borrow(ctx, FLOAT32, 2, shape.as_ptr(), data.as_mut_ptr().cast());
            let mut out = null_mut();
            if relax_main(ctx, &x, 1, &mut out) != RX_OK {
                eprintln!("{}", CStr::from_ptr(rx_last_error(ctx)).to_string_lossy());
                std::process::exit(1);
            }
            println!("{:?}", matrix(out).3);
            rx_release(ctx, out);
            rx_release(ctx, x);
            rx_context_destroy(ctx);
        }
    }
    println!("host.tile: {calls} calls");
}

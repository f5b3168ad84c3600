//! The functions that a host registers by name for programs to call.

use crate::context::RxContext;
use crate::object::RxObject;
use std::collections::BTreeMap;
use std::ffi::c_void;

/// A host function; see `RxPackedFn` in the C header.
pub type PackedFn = unsafe extern "C" fn(
    *mut RxContext,
    *mut c_void,
    *const *mut RxObject,
    i32,
    *mut *mut RxObject,
) -> i32;

/// The functions of a context by name, each with the data that it is called with.
pub(crate) type Registry = BTreeMap<String, (PackedFn, *mut c_void)>;

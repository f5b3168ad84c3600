//! External functions of generated code: of the runtime, and of C.

use relax_loops::Libm;
use relax_runtime::abi::{self, Function};

/// Functions that copy or fill memory.
#[allow(non_upper_case_globals)]
mod memory {
    mod c {
        use std::ffi::c_void;

        unsafe extern "C" {
            pub fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
            pub fn memset(to: *mut c_void, byte: i32, bytes: usize) -> *mut c_void;
        }
    }
    relax_runtime::c_functions! {
        self::c => memcpy(_, _, _) memset(_, _, _);
    }
}

macro_rules! unary {
    ($(
        $(#[$meta:meta])* $op:ident $text:literal $takes:ident $($double:ident $single:ident)?;
    )*) => {
        /// Scalar functions of one number.
        #[allow(non_upper_case_globals)]
        mod unary {
            mod c {
                unsafe extern "C" {
                    $($(pub fn $double(x: f64) -> f64; pub fn $single(x: f32) -> f32;)?)*
                }
            }
            relax_runtime::c_functions! {
                self::c => $($($double(_) $single(_))?)*;
            }
        }
    };
}
relax_loops::unary_functions!(unary);

macro_rules! binary {
    ($(
        $(#[$meta:meta])* $op:ident $name:literal $(call $call:literal)?
        $(libm $double:ident $single:ident)?;
    )*) => {
        /// Scalar functions of two numbers.
        #[allow(non_upper_case_globals)]
        mod binary {
            mod c {
                unsafe extern "C" {
                    $($(
                        pub fn $double(x: f64, y: f64) -> f64;
                        pub fn $single(x: f32, y: f32) -> f32;
                    )?)*
                }
            }
            relax_runtime::c_functions! {
                self::c => $($($double(_, _) $single(_, _))?)*;
            }
        }
    };
}
relax_loops::binary_functions!(binary);

pub(crate) use memory::{memcpy, memset};
pub(crate) use unary::{exp, expf};

/// A C function, on doubles or on floats.
pub(crate) fn libm(function: Libm, double: bool) -> Function {
    let name = match double {
        true => function.double,
        false => function.single,
    };
    let mut all = unary::FUNCTIONS.iter().chain(binary::FUNCTIONS);
    *(all.find(|f| f.name == name)).expect("both are made of one table")
}

/// All functions that generated code may call, with their addresses.
pub(crate) fn outside() -> impl Iterator<Item = (&'static str, *const u8)> {
    let all = [
        abi::FUNCTIONS,
        memory::FUNCTIONS,
        unary::FUNCTIONS,
        binary::FUNCTIONS,
    ];
    all.into_iter().flatten().map(|f| (f.name, f.address))
}

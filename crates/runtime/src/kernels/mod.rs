//! Computational kernels, selected at run time by the processor's features.
//!
//! A kernel is a function of the context, the structure that describes a call, and numbers; it
//! returns 0, or the status of the error that it recorded. Some are functions of slices, and those
//! that may work in place are functions of pointers. C calls them through their entries in `capi`.

mod arcs;
pub mod attention;
pub mod blockwise;
pub mod boxes;
mod by_double;
pub mod combiner;
pub mod contract;
pub mod conv;
pub mod convert;
mod double_parts;
#[cfg(target_arch = "x86_64")]
mod double_tables;
mod doubles;
mod fixed_point;
pub mod functions;
pub mod gathered;
pub mod gemm;
mod halves;
pub mod integer;
pub mod kinds;
pub mod lines;
mod logs;
pub mod lookup;
pub mod math;
mod narrow_math;
#[cfg(target_arch = "x86_64")]
mod narrowing;
mod padded;
pub mod pick;
mod pieces;
pub mod pool2d;
mod pool_lanes;
mod pool_parted;
pub mod reduce;
pub mod requantize;
pub mod rows;
mod scratch;
mod shuffled;
pub mod simd;
mod small;
pub mod strided;
pub mod strips;
pub mod sweep;
mod turn;
pub mod vmath;
mod waves;

//! Computational kernels, selected at run time by the processor's features.

mod arcs;
pub mod attention;
pub mod blockwise;
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
pub mod reduce;
pub mod requantize;
pub mod rows;
mod scratch;
pub mod simd;
mod small;
pub mod strided;
pub mod strips;
pub mod sweep;
mod turn;
pub mod vmath;
mod waves;

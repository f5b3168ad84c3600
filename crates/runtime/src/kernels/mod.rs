//! Computational kernels, selected at run time by the processor's features.

pub mod attention;
mod by_double;
pub mod contract;
pub mod conv;
pub mod convert;
mod doubles;
pub mod gemm;
mod halves;
pub mod integer;
pub mod kinds;
pub mod lines;
pub mod math;
mod padded;
pub mod pick;
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

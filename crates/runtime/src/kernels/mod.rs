//! Computational kernels, chosen at run time by what the processor can do.

pub mod gemm;
pub mod simd;
pub mod strided;

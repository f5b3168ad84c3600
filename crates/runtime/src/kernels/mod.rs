//! Computational kernels, chosen at run time by what the processor can do.
pub mod strided;

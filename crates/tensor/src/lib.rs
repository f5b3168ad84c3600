//! Element types and dense host tensors: the values of constants, inputs and results.
//!
//! This crate holds only data and knows nothing about programs.

mod dtype;
mod tensor;
mod value;

pub use dtype::{DType, TypeCode};
pub use tensor::{Element, Tensor};
pub use value::Value;

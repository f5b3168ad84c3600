//! Element types and dense host tensors: the values of constants, inputs and results.
//!
//! This room holds data and nothing about programs.

mod dtype;
mod tensor;
mod value;

pub use dtype::{DType, TypeCode};
pub use tensor::{Element, Tensor};
pub use value::Value;

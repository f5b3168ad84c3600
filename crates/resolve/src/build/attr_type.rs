//! Names of attributes' types.

use relax_base::Symbol;
use relax_ops::AttrTy;
use relax_tensor::DType;

/// Returns the element type of tensors of this name: `void`, which no text names, is only an
/// attribute's.
pub(crate) fn element_type(text: &str) -> Option<DType> {
    text.parse().ok().filter(|d: &DType| !d.is_void())
}

/// The attribute type that an attribute's type name asks for.
pub(crate) fn attr_type(name: Symbol) -> Option<AttrTy> {
    Some(match name.as_str() {
        "string" => AttrTy::Str,
        "dtype" => AttrTy::DType,
        "ints" => AttrTy::Ints,
        "floats" => AttrTy::Floats,
        text => {
            let d: DType = text.parse().ok()?;
            if d.is_bool() {
                AttrTy::Bool
            } else if d.is_float() {
                AttrTy::Float
            } else if d.is_integral() {
                AttrTy::Int
            } else {
                return None;
            }
        }
    })
}

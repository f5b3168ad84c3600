//! Signatures of functions, as callers see them.

/// A parameter, or a result.
///
/// ```
/// let module = relax::Module::parse("def @main(%x: Tensor[(n, 2), float32]) { %x }")?;
/// let param = &module.functions()[0].params[0];
/// assert_eq!((param.name.as_str(), param.ty.as_str()), ("x", "Tensor[(n, 2), float32]"));
/// # Ok::<(), relax::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Param {
    /// The name without sigil; empty for results.
    pub name: String,
    /// The type, as text.
    pub ty: String,
    /// The tensor type, if it is one.
    pub tensor: Option<TensorType>,
}

/// The type of a tensor.
///
/// ```
/// use relax::{DType, Extent, Module};
///
/// let module = Module::parse("def @main(%x: Tensor[(n, 2), float32]) { %x }")?;
/// let ty = module.functions()[0].result.tensor.clone().expect("a tensor");
/// assert_eq!(ty.shape, Some(vec![Extent::Symbolic("n".into()), Extent::Known(2)]));
/// assert_eq!(ty.dtype, Some(DType::F32));
/// # Ok::<(), relax::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorType {
    /// The extents; `None` if the rank is unknown.
    pub shape: Option<Vec<Extent>>,
    /// The element type; `None` if it is unknown.
    pub dtype: Option<crate::DType>,
}

/// An extent in a tensor type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Extent {
    /// A static extent.
    Known(i64),
    /// A symbolic expression: `n`, `n * 4`, or `?`.
    Symbolic(String),
}

/// The signature of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The name, without sigil.
    pub name: String,
    /// The parameters.
    pub params: Vec<Param>,
    /// The result.
    pub result: Param,
}

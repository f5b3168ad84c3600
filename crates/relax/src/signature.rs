//! What a function takes and gives, as callers see it.

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
    /// The type as a text.
    pub ty: String,
    /// The tensor type, where it is one.
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
    /// The extents; `None` where not even their number is known.
    pub shape: Option<Vec<Extent>>,
    /// The element type; `None` where it is unknown.
    pub dtype: Option<crate::DType>,
}

/// An extent of a tensor type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Extent {
    /// A number.
    Known(i64),
    /// An expression over names: `n`, `n * 4`, or `?`.
    Symbolic(String),
}

/// A function of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Its name without sigil.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its result.
    pub result: Param,
}

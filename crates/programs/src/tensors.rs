//! The tensors that values consist of, by their types.

use relax_ir::{DTy, Module, Shape, Type, TypeArena, TypeId};
use relax_ops::TensorInfo;
use relax_sym::Dim;

/// The tensors that a value of a type consists of, tuples flattened in order. `None` when a
/// component is not a tensor of known rank and element type.
pub fn flatten(m: &Module, ty: TypeId) -> Option<Vec<TensorInfo>> {
    flatten_with(&m.types, ty, Dim::as_const)
}

/// Like [`flatten`], with the extents that `extent` knows.
pub fn flatten_with(
    types: &TypeArena,
    ty: TypeId,
    extent: impl Fn(&Dim) -> Option<i64>,
) -> Option<Vec<TensorInfo>> {
    let mut out = Vec::new();
    let mut work = vec![ty];
    while let Some(t) = work.pop() {
        match &types[t] {
            Type::Tensor(t) => {
                let (Shape::Dims(dims), DTy::Known(dtype)) = (&t.shape, t.dtype) else {
                    return None;
                };
                let shape = dims.iter().map(&extent).collect();
                out.push(TensorInfo { dtype, shape });
            }
            Type::Tuple(fields) => work.extend(fields.iter().rev()),
            _ => return None,
        }
    }
    Some(out)
}

/// The extents of the tensors that a value of a type consists of, in the order of [`flatten`];
/// `None` for components other than tensors of known rank.
pub fn dims(m: &Module, ty: TypeId) -> impl Iterator<Item = Option<&[Dim]>> {
    let of = |ty| m.types.as_tensor(ty).and_then(|t| t.shape.dims());
    m.types.leaves(ty).into_iter().map(of)
}

/// Returns the known extents of the tensors of some values, as far as types give them: equal keys
/// are equal in every call.
pub fn known_extents(m: &Module, types: impl IntoIterator<Item = TypeId>) -> Vec<Vec<Option<Dim>>> {
    let symbolic = |d: &Dim| (d.is_known() && d.as_const().is_none()).then(|| d.clone());
    let of = |dims: Option<&[Dim]>| dims.unwrap_or_default().iter().map(symbolic).collect();
    let all = types.into_iter().flat_map(|ty| dims(m, ty));
    all.map(of).collect()
}

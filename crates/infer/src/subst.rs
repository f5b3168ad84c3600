//! The substitution of a polymorphic function's parameters.

use relax_ir::{DTy, Shape, TypeId, TypeParamId};
use relax_sym::{Dim, DimVar};

/// The replacement of each parameter.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Subst {
    pub types: Vec<(TypeParamId, TypeId)>,
    pub shapes: Vec<(TypeParamId, Shape)>,
    pub dtypes: Vec<(TypeParamId, DTy)>,
    pub dims: Vec<(DimVar, Dim)>,
}

/// Looks up a key in a list of pairs.
pub(crate) fn find<K: PartialEq, V: Clone>(list: &[(K, V)], key: &K) -> Option<V> {
    list.iter().find(|e| e.0 == *key).map(|e| e.1.clone())
}

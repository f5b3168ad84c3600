//! Types of let-bound functions that are not yet determined.

use relax_ir::{FuncId, TypeId, VarId};

/// A let-bound function that may be used at several types.
#[derive(Clone, Debug)]
pub(crate) struct Scheme {
    pub var: VarId,
    pub func: FuncId,
    pub ty: TypeId,
    pub unknowns: Vec<u32>,
    pub rels: Vec<u32>,
    pub instances: Vec<TypeId>,
    /// The schemes from this index up to this one belong to nested functions.
    pub inner: usize,
}

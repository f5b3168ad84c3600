//! Types of let-bound functions before all is known of them.

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
    /// The schemes from this one on, up to the scheme itself, belong to functions inside this one.
    pub inner: usize,
}

//! Cached results of relations: programs apply the same operators to the same types over and over,
//! and the result for fully known types depends on nothing else.
//!
//! Invariant: a result is cached only if its relation had no other effect: it recorded no check,
//! added no relation, created no unknown and queried no argument's value.

use relax_ir::{AttrsId, Module, OpId, TypeId};
use rustc_hash::FxHashMap;

/// Calls with more arguments are not cached.
const MOST_ARGS: usize = 3;

type Key = (OpId, usize, [TypeId; MOST_ARGS]);

/// The cache: for an operator and its argument types, the attributes and result of the last call.
#[derive(Default)]
pub(crate) struct RelationCache {
    answers: FxHashMap<Key, (AttrsId, TypeId)>,
    /// Whether the running relation queried the value of an argument.
    pub asked_value: std::cell::Cell<bool>,
}

fn key(op: OpId, args: &[TypeId]) -> Option<Key> {
    let mut types = [TypeId(u32::MAX); MOST_ARGS];
    types.get_mut(..args.len())?.copy_from_slice(args);
    Some((op, args.len(), types))
}

impl RelationCache {
    /// Returns the cached result of an operator on arguments of these types.
    pub fn find(&self, m: &Module, op: OpId, args: &[TypeId], attrs: AttrsId) -> Option<TypeId> {
        let &(known, result) = self.answers.get(&key(op, args)?)?;
        let same = || m.attrs(known).same_spelling(m.attrs(attrs));
        (known == attrs || same()).then_some(result)
    }

    /// Caches an operator's result.
    pub fn keep(&mut self, op: OpId, args: &[TypeId], attrs: AttrsId, result: TypeId) {
        if let Some(key) = key(op, args) {
            self.answers.insert(key, (attrs, result));
        }
    }
}

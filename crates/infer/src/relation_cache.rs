//! Cached results of relations: programs apply the same operators to the same types over and over,
//! and the result for fully known types depends on nothing else.
//!
//! Invariant: an answer is kept only when its relation did nothing but give it: it recorded no
//! check, left no relation behind and asked for no value of an argument. Unknowns that it made are
//! solved or forgotten, as the answer has none.

use std::sync::Arc;

use relax_ir::{AttrsId, Module, OpId, TypeId};
use rustc_hash::FxHashMap;

/// Calls with more arguments are not cached.
const MOST_ARGS: usize = 3;

type Key = (OpId, usize, [TypeId; MOST_ARGS]);

/// The answers: for an operator and its arguments' types, the last attributes and the result.
/// Attributes and types keep their numbers while passes change a module, so that the next inference
/// of it takes the answers over.
#[derive(Clone, Default, Debug)]
pub(crate) struct Answers {
    of: Arc<FxHashMap<Key, (AttrsId, TypeId)>>,
    /// Whether the module was a script, by which relations go too.
    script: Option<(bool, bool)>,
}

/// The answers, while a solver runs.
#[derive(Default)]
pub(crate) struct RelationCache {
    pub answers: Answers,
    /// Whether the relation that runs asked for the value of an argument.
    pub asked_value: std::cell::Cell<bool>,
}

fn key(op: OpId, args: &[TypeId]) -> Option<Key> {
    let mut types = [TypeId(u32::MAX); MOST_ARGS];
    types.get_mut(..args.len())?.copy_from_slice(args);
    Some((op, args.len(), types))
}

impl RelationCache {
    /// The answers that hold for a module, of those that were found before.
    pub fn after(m: &Module, before: Option<&Answers>) -> RelationCache {
        let script = Some((m.script.is_some(), m.is_script()));
        let answers = match before {
            Some(before) if before.script == script => before.clone(),
            _ => Answers {
                of: Arc::default(),
                script,
            },
        };
        RelationCache {
            answers,
            asked_value: std::cell::Cell::new(false),
        }
    }

    /// The result of an operator on arguments of these types, when it is known.
    pub fn find(&self, m: &Module, op: OpId, args: &[TypeId], attrs: AttrsId) -> Option<TypeId> {
        let &(known, result) = self.answers.of.get(&key(op, args)?)?;
        let same = || m.attrs(known).same_spelling(m.attrs(attrs));
        (known == attrs || same()).then_some(result)
    }

    /// Caches an operator's result.
    pub fn keep(&mut self, op: OpId, args: &[TypeId], attrs: AttrsId, result: TypeId) {
        if let Some(key) = key(op, args) {
            Arc::make_mut(&mut self.answers.of).insert(key, (attrs, result));
        }
    }
}

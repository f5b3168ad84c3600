//! The operator table, one entry per operator.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::graph::Tr;
use crate::node::{Fault, Node, R};
use crate::ops;
use crate::value::Value;

/// The translation of an operator: from a node to its results.
pub type Translate = fn(&mut Tr<'_>, &Node<'_>) -> R<Vec<Value>>;

/// An ONNX operator.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The name.
    pub name: &'static str,
    /// The range of versions in which it exists.
    pub versions: (i64, i64),
    /// The translation.
    pub(crate) translate: Translate,
}

/// The newest supported version of `ai.onnx`.
pub const NEWEST: i64 = 28;

/// Creates the entry of an `ai.onnx` operator that exists since a version.
pub(crate) const fn op(name: &'static str, since: i64, translate: Translate) -> Entry {
    Entry {
        domain: "",
        name,
        versions: (since, NEWEST),
        translate,
    }
}

/// Creates the entry of a `com.microsoft` operator.
pub(crate) const fn ms(name: &'static str, translate: Translate) -> Entry {
    Entry {
        domain: "com.microsoft",
        name,
        versions: (1, 1),
        translate,
    }
}

/// Returns all operators, by domain and name.
pub fn operators() -> Vec<&'static Entry> {
    let mut all: Vec<&Entry> = ops::FAMILIES.iter().copied().flatten().collect();
    all.sort_by_key(|e| (e.domain, e.name));
    all
}

/// Returns the entry of an operator.
pub(crate) fn find(domain: &str, name: &str, version: i64) -> R<&'static Entry> {
    static TABLE: OnceLock<FxHashMap<(&str, &str), &'static Entry>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let all = ops::FAMILIES.iter().copied().flatten();
        all.map(|e| ((e.domain, e.name), e)).collect()
    });
    let Some(entry) = table.get(&(domain, name)) else {
        let why = match domain {
            "com.microsoft.nchwc" => {
                "its weights are laid out for the processor that ONNX Runtime optimised the model on; what it saves with \
                 ORT_ENABLE_EXTENDED is read on all of them"
            }
            _ => "the operator is not supported",
        };
        return Err(Fault::Unsupported(why.into()));
    };
    if domain.is_empty() && version > entry.versions.1 {
        let newest = entry.versions.1;
        return Err(Fault::Unsupported(format!(
            "operator sets newer than {newest} are not known"
        )));
    }
    Ok(entry)
}

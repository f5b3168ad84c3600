//! All built-in operators, by name and by id.

use std::sync::OnceLock;

use relax_ir::OpId;
use rustc_hash::FxHashMap;

use crate::OpDef;
use crate::families::FAMILIES;

/// All built-in operators.
pub struct Registry {
    ops: Vec<&'static OpDef>,
    names: FxHashMap<&'static str, OpId>,
    sugar: FxHashMap<&'static str, OpId>,
    /// By former names of operators.
    former: FxHashMap<&'static str, OpId>,
}

/// The registry.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut ops: Vec<&OpDef> = FAMILIES.iter().flat_map(|f| f.iter()).collect();
        ops.sort_by_key(|op| op.name);
        let names = ops
            .iter()
            .enumerate()
            .map(|(i, op)| (op.name, OpId(i as u32)))
            .collect();
        let sugar = (ops.iter().enumerate())
            .filter(|(_, op)| !op.sugar.is_empty())
            .map(|(i, op)| (op.sugar, OpId(i as u32)))
            .collect();
        let former = (ops.iter().enumerate())
            .flat_map(|(i, op)| op.former.iter().map(move |f| (f.name, OpId(i as u32))))
            .collect();
        Registry {
            ops,
            names,
            sugar,
            former,
        }
    })
}

impl Registry {
    /// Returns the operator of that name.
    pub fn find(&self, name: &str) -> Option<OpId> {
        self.names.get(name).copied()
    }
    /// Returns the operator that had that name in another release.
    pub fn formerly(&self, name: &str) -> Option<OpId> {
        self.former.get(name).copied()
    }
    /// Returns the operator that an infix spelling (`+`) denotes.
    pub fn sugar(&self, spelling: &str) -> Option<OpId> {
        self.sugar.get(spelling).copied()
    }
    /// Returns the type relation with this name in the text (`where Broadcast`).
    pub fn relation(&self, name: &str) -> Option<crate::RelFn> {
        (crate::families::RELATIONS.iter())
            .find(|r| r.0 == name)
            .map(|r| r.2)
    }
    /// Returns how many arguments such a relation relates to a result.
    pub fn relation_arity(&self, name: &str) -> Option<usize> {
        (crate::families::RELATIONS.iter())
            .find(|r| r.0 == name)
            .map(|r| r.1)
    }
    /// Returns the names of all relations that the text knows.
    pub fn relation_names(&self) -> impl Iterator<Item = &'static str> {
        crate::families::RELATIONS.iter().map(|r| r.0)
    }
    /// Returns the definition of a built-in operator; `None` for `op` items of a module.
    pub fn get(&self, id: OpId) -> Option<&'static OpDef> {
        self.ops.get(id.0 as usize).copied()
    }
    /// Returns all operators, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (OpId, &'static OpDef)> + '_ {
        self.ops
            .iter()
            .enumerate()
            .map(|(i, op)| (OpId(i as u32), *op))
    }
    /// Returns the name of an operator's relation in a `where` clause, when it does not depend on
    /// attributes.
    pub fn relation_name(&self, op: OpId) -> Option<&'static str> {
        let def = self.get(op)?;
        let mut named = crate::families::RELATIONS.iter();
        let same = named.find(|r| std::ptr::fn_addr_eq(r.2, def.relation));
        same.filter(|_| def.attrs.is_empty()).map(|r| r.0)
    }
}

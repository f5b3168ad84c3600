//! Syntax trees without source text, which carry the contents of the metadata section and of type
//! comments with them.

use relax_base::{SideTable, Symbol};
use relax_ir::{AttrValue, ConstId, ExprId, FuncId, TypeId, TypeSource, VarId};
use relax_syntax::ast;
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use super::Resolver;

/// The data supplied with a syntax tree.
#[derive(Debug, Default)]
pub struct Given {
    /// The values of `meta[relay.Constant][i]`.
    pub constants: FxHashMap<u32, Tensor>,
}

/// The types supplied for expressions and variables, as types of the module.
#[derive(Debug, Default)]
pub struct GivenTypes {
    exprs: SideTable<ExprId, Option<TypeId>>,
    vars: FxHashMap<VarId, TypeId>,
}

impl TypeSource for GivenTypes {
    fn expr(&self, id: ExprId) -> Option<TypeId> {
        self.exprs[id]
    }
    fn var(&self, id: VarId) -> Option<TypeId> {
        self.vars.get(&id).copied()
    }
    fn ret(&self, _: FuncId) -> Option<TypeId> {
        None
    }
}

/// The resolver's state for supplied data.
#[derive(Debug, Default)]
pub(super) struct Along {
    given: Given,
    /// The module's constants created from the supplied ones.
    constants: FxHashMap<u32, ConstId>,
    pub(super) types: GivenTypes,
    made: FxHashMap<ast::TypeId, TypeId>,
}

impl Along {
    pub(super) fn new(given: Given) -> Along {
        Along {
            given,
            ..Along::default()
        }
    }
}

impl Resolver<'_> {
    /// Returns the supplied constant with an index.
    pub(super) fn given_constant(&mut self, index: u32) -> Option<ConstId> {
        let along = &mut self.along;
        if let Some(&known) = along.constants.get(&index) {
            return Some(known);
        }
        let tensor = along.given.constants.get(&index)?.clone();
        let id = self.module.consts.push(tensor);
        along.constants.insert(index, id);
        Some(id)
    }

    /// Returns a supplied constant as an attribute value.
    pub(super) fn given_attr(&self, key: Symbol, index: u32) -> Option<AttrValue> {
        let known = self.along.given.constants.contains_key(&index);
        known.then_some(AttrValue::Meta(key, index))
    }

    /// Clears per-item state at the start of an item.
    pub(super) fn forget_given_types(&mut self) {
        self.along.made.clear();
    }

    /// Gives the topmost value the supplied type of the tree's expression.
    pub(super) fn typed_value(&mut self, e: ast::ExprId) {
        if let (Some(t), Some(&id)) = (self.ast.expr_types[e], self.values.last()) {
            let ty = self.given_type(t);
            self.along.types.exprs.set(id, Some(ty));
        }
    }

    /// Gives a variable its supplied type.
    pub(super) fn typed_var(&mut self, binder: ast::BinderId, var: VarId) {
        if let Some(t) = self.ast.binder_types[binder] {
            let ty = self.given_type(t);
            self.along.types.vars.insert(var, ty);
        }
    }

    fn given_type(&mut self, t: ast::TypeId) -> TypeId {
        if let Some(&made) = self.along.made.get(&t) {
            return made;
        }
        // Its dimensions are those of the program; one that occurs nowhere else is bound here.
        let old = std::mem::replace(&mut self.dim_mode, super::DimMode::Bind);
        let dims = self.new_dims.len();
        let made = self.full_type(t);
        self.new_dims.truncate(dims);
        self.dim_mode = old;
        self.along.made.insert(t, made);
        made
    }
}

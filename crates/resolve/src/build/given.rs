//! Trees that no text stands behind: they bring along what a text would have had in its metadata
//! section and in comments.

use relax_base::{SideTable, Symbol};
use relax_ir::{AttrValue, ConstId, ExprId, FuncId, TypeId, TypeSource, VarId};
use relax_syntax::ast;
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use super::Resolver;

/// What comes along with a tree.
#[derive(Debug, Default)]
pub struct Given {
    /// What `meta[relay.Constant][i]` stands for.
    pub constants: FxHashMap<u32, Tensor>,
}

/// The types that a tree has for expressions and variables, as types of the module.
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

/// What the resolver keeps of it.
#[derive(Debug, Default)]
pub(super) struct Along {
    given: Given,
    /// The constants of the module that were made of them.
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
    /// The constant that came along under an index.
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

    /// A constant that came along as the value of an attribute.
    pub(super) fn given_attr(&self, key: Symbol, index: u32) -> Option<AttrValue> {
        let known = self.along.given.constants.contains_key(&index);
        known.then_some(AttrValue::Meta(key, index))
    }

    /// Another item begins.
    pub(super) fn forget_given_types(&mut self) {
        self.along.made.clear();
    }

    /// The topmost value is what this expression of the tree became: it has its type.
    pub(super) fn typed_value(&mut self, e: ast::ExprId) {
        if let (Some(t), Some(&id)) = (self.ast.expr_types[e], self.values.last()) {
            let ty = self.given_type(t);
            self.along.types.exprs.set(id, Some(ty));
        }
    }

    /// The same for a variable.
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
        // Its dimensions are those of the program; one that stands nowhere else is bound here.
        let old = std::mem::replace(&mut self.dim_mode, super::DimMode::Bind);
        let dims = self.new_dims.len();
        let made = self.full_type(t);
        self.new_dims.truncate(dims);
        self.dim_mode = old;
        self.along.made.insert(t, made);
        made
    }
}

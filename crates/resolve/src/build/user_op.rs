//! placeholder
use relax_base::Symbol;
use relax_ir::OpId;
use relax_ops::AttrTy;
use relax_syntax::ast;
use super::Resolver;
pub(crate) fn attr_type(_name: Symbol) -> Option<AttrTy> { None }
impl Resolver<'_> {
    pub(crate) fn declare_user_op(&mut self, _id: OpId, _op: &ast::OpItem) {}
    pub(crate) fn define_user_op(&mut self, _op: &ast::OpItem) {}
}

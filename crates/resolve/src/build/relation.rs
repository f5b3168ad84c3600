//! placeholder
use relax_base::Span;
use relax_ir::RelationDef;
use relax_syntax::ast;
use super::Resolver;
impl Resolver<'_> {
    pub(crate) fn relation_def(&mut self, _rel: &ast::RelItem, _span: Span) -> Option<RelationDef> { None }
}

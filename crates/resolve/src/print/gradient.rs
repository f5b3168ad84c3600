//! Printing of `grad` items.

use relax_base::Symbol;
use relax_ir::{GradItem, GradNode};
use relax_syntax::ast::{self, BinderId, ExprKind, ItemKind, StmtId, StmtKind};
use rustc_hash::FxHashSet;

use super::constant::scalar;
use super::{NO, Printer};

impl Printer<'_> {
    /// Prints an item: what has a name in the text, or several uses, is bound before the whole.
    pub(super) fn grad_item(&mut self, item: &GradItem) -> ItemKind {
        let mut params: Vec<BinderId> = Vec::new();
        for &name in &item.operands {
            params.push(self.out.binder(name, None, NO));
        }
        for (name, only) in &item.attrs {
            let default = only.as_ref().map(|v| self.attr_value(v, None));
            let binder = self.out.binder(*name, None, NO);
            let node = &mut self.out.binders[binder];
            node.sigil = false;
            node.default = default;
            params.push(binder);
        }
        let [result, grad] = item.bound.map(|name| self.out.binder(name, None, NO));
        let params = self.out.make_list(params);
        let body = self.grad_body(item);
        ItemKind::Grad(ast::GradItem {
            op: item.name,
            params,
            result,
            grad,
            body,
        })
    }

    fn grad_body(&mut self, item: &GradItem) -> ast::ExprId {
        let mut uses = vec![0u32; item.nodes.len()];
        for node in &item.nodes {
            for &part in node.parts() {
                uses[part as usize] += 1;
            }
        }
        // A name that hides another would change what later uses of that one mean.
        let mut taken: FxHashSet<Symbol> = item.operands.iter().copied().collect();
        taken.extend(item.bound);
        let mut stmts: Vec<StmtId> = Vec::new();
        let mut texts: Vec<ast::ExprId> = Vec::with_capacity(item.nodes.len());
        let mut temps = 0;
        for (i, node) in item.nodes.iter().enumerate() {
            let kind = self.grad_node(item, node, &texts);
            let text = self.out.expr(kind, NO);
            let leaf = node.parts().is_empty() && !matches!(node, GradNode::Call { .. });
            let variable = leaf && !matches!(node, GradNode::Const { .. });
            let name = item.names[i].filter(|&name| !variable && taken.insert(name));
            let bound = match name {
                Some(name) => {
                    let binder = self.out.binder(name, None, NO);
                    stmts.push(self.out.stmt(
                        StmtKind::Let {
                            binder,
                            value: text,
                        },
                        NO,
                    ));
                    self.out.expr(ExprKind::Local(name), NO)
                }
                None if uses[i] > 1 && !variable => {
                    let index = temps;
                    temps += 1;
                    let kind = StmtKind::Graph { index, value: text };
                    stmts.push(self.out.stmt(kind, NO));
                    self.out.expr(ExprKind::Graph(index), NO)
                }
                None => text,
            };
            texts.push(bound);
        }
        self.out.block(stmts, Some(texts[item.body as usize]), NO)
    }

    /// Returns the text of a part over those of its own parts.
    fn grad_node(&mut self, item: &GradItem, node: &GradNode, texts: &[ast::ExprId]) -> ExprKind {
        match node {
            GradNode::Operand(i) => ExprKind::Local(item.operands[*i as usize]),
            GradNode::Result => ExprKind::Local(item.bound[0]),
            GradNode::Gradient => ExprKind::Local(item.bound[1]),
            GradNode::Attr(name) => ExprKind::Name(*name),
            GradNode::Const { value, plain } => {
                scalar(value, *plain, false).unwrap_or(ExprKind::Error)
            }
            GradNode::Call { op, args, attrs } => {
                let callee = self.op_name(*op);
                let callee = self.name(callee);
                let args: Vec<_> = args.iter().map(|&a| texts[a as usize]).collect();
                let args = self.out.make_list(args);
                let attrs = self.named_attrs(Some(*op), attrs);
                ExprKind::Call {
                    callee,
                    args,
                    attrs,
                }
            }
            GradNode::Tuple(fields) => {
                let fields: Vec<_> = fields.iter().map(|&f| texts[f as usize]).collect();
                ExprKind::Tuple(self.out.make_list(fields))
            }
            GradNode::Field { tuple, index } => ExprKind::Proj {
                tuple: texts[*tuple as usize],
                index: *index,
            },
        }
    }
}

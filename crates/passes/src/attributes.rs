//! Calls that came to name their operator.
//!
//! An operator is a value: `let %f = nn.bias_add; %f(%x, %b)`. Such a call has no attributes, which
//! means the defaults. A call that names the operator has all of them, so a call of the first kind
//! that a pass turned into one of the second kind is completed.

use relax_ir::{Expr, ExprId, Module};
use relax_ops::registry;

/// Completes the attributes of calls of built-in operators among the nodes from `first` on.
pub(crate) fn complete(m: &mut Module, first: ExprId) {
    for e in (first.0..m.exprs.next_id().0).map(ExprId) {
        let Expr::Call {
            callee,
            args,
            attrs,
            type_args,
        } = m.exprs[e]
        else {
            continue;
        };
        let Expr::Op(op) = m.exprs[callee] else {
            continue;
        };
        let Some(def) = registry().get(op) else {
            continue;
        };
        let given = m.attrs(attrs);
        if given.len() >= def.attrs.len() {
            continue;
        }
        let mut all = def.default_attrs();
        for (name, value) in given.iter() {
            all.set(*name, value.clone());
        }
        let attrs = m.make_attrs(all);
        m.exprs[e] = Expr::Call {
            callee,
            args,
            attrs,
            type_args,
        };
    }
}

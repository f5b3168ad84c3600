//! `to-basic-block-normal-form`: expressions that several branches share are bound before them.
//!
//! A shared expression is evaluated in the innermost scope around all its users. Where that is not
//! the scope of its first user, a `let` makes that explicit.

use relax_base::Diagnostics;
use relax_ir::{Expr, ExprId, IdSet, Module, ScopeId, Scopes};

use super::a_normal_form::{Order, normal_form_in};
use crate::util::{open_sharing_blocks, share_constants};
use crate::{Analysis, Contract, Form, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "to-basic-block-normal-form",
    doc: "Binds what several branches share before them.",
    options: &[],
    contract: Contract::PLAIN
        .gives(&[Form::BasicBlockNormal])
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    share_constants(cx.module);
    open_sharing_blocks(cx.module);
    for (global, body) in cx.module.global_bodies() {
        let func = cx.module.global_func(global).expect("it has a body");
        let scopes = cx.scopes(func);
        let lifted = lifted(cx.module, &scopes, body);
        let first = Order::ArgumentsFirst;
        let new = normal_form_in(cx.module, scopes, body, first, |_, e| lifted.contains(e));
        cx.module.set_global_body(global, new);
    }
    Ok(())
}

/// Returns the nodes that are evaluated in an outer scope of their first user.
fn lifted(m: &Module, scopes: &Scopes, body: ExprId) -> IdSet {
    let mut inner = relax_base::SideTable::<ExprId, Vec<ScopeId>>::default();
    for scope in scopes.ids() {
        use relax_ir::ScopeKind as K;
        match scopes.kind(scope) {
            K::Root => {}
            K::Body(e) | K::Then(e) | K::Else(e) | K::Clause(e, _) | K::Binding(e) => {
                inner.entry(e).push(scope);
            }
        }
    }
    let (mut lifted, mut seen) = (IdSet::new(), IdSet::new());
    // The first user is the one that is visited first, operands before users.
    for user in m.post_order([body]) {
        let here = scopes.of(user).expect("it is below the root");
        // The operands of the user that are in inner scopes, and those scopes.
        let (mut part, mut first_inner) = (0usize, usize::MAX);
        match &m.exprs[user] {
            Expr::If { .. } | Expr::Match { .. } => first_inner = 1,
            Expr::Func(_) | Expr::Let { .. } => first_inner = 0,
            _ => {}
        }
        m.for_each_child(user, |child| {
            let scopes_here = &inner[user];
            let from = part
                .saturating_sub(first_inner)
                .min(scopes_here.len().saturating_sub(1));
            let scope = match scopes_here.get(from) {
                Some(&s) if part >= first_inner => s,
                _ => here,
            };
            part += 1;
            let unnamed = matches!(
                m.exprs[child],
                Expr::Var(_) | Expr::Global(_) | Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_)
            );
            if seen.insert(child) && !unnamed && scopes.of(child) != Some(scope) {
                // Here the value of a `let` is outside of its scope, there it is inside.
                let value = matches!(m.exprs[user], Expr::Let { .. }) && part == 1;
                if !(value && scopes.of(child) == Some(here)) {
                    lifted.insert(child);
                }
            }
        });
    }
    lifted
}

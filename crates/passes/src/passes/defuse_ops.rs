//! `defuse-ops`: inlines calls of function literals, the inverse of `fuse-ops`. Those with control
//! flow stay in dataflow blocks, which have none, and those that call functions whose effects would
//! show in them.

use relax_base::Diagnostics;
use relax_infer::may_have_effects;
use relax_ir::Expr;

use crate::util::{binds, in_blocks, inlined, stays_in_block};
use crate::{Contract, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "defuse-ops",
    doc: "Puts bodies of called function literals in place of the calls.",
    options: &[],
    contract: Contract::PLAIN,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let (mut count, effects) = (0, may_have_effects(cx.module));
    let blocks = in_blocks(cx.module);
    cx.module.rewrite_globals(|m, new, old| {
        let Expr::Call { callee, args, .. } = m.exprs[new] else {
            return new;
        };
        let Expr::Func(func) = m.exprs[callee] else {
            return new;
        };
        let stays = || stays_in_block(m, &m.funcs[func], effects);
        if binds(m, &m.funcs[func]) || blocks.contains(old) && stays() {
            return new;
        }
        let args = m.list(args).to_vec();
        match inlined(m, func, &args, effects) {
            Some(body) => {
                count += 1;
                body
            }
            None => new,
        }
    });
    cx.count("functions inlined", count);
    Ok(())
}

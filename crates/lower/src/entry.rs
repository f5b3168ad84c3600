//! Checks of arguments from outside against the signature, before anything runs.
//!
//! Inside a program types hold by inference; a caller from C, Rust or Python may violate them. An
//! entry therefore starts with a function that checks kinds, ranks, element types and extents of
//! all arguments, and fails with the parameter's location and both values.

use relax_base::Symbol;
use relax_ir::{GlobalId, GlobalKind};

use crate::Lowering;
use crate::lir::{Block, BlockId, FnId, Hold, LFunc, Reg, Term};
use crate::type_check::TypeCheck;

/// Creates the function that checks the arguments of `g` and tail-calls `func`.
pub(crate) fn checked(lw: &mut Lowering<'_>, g: GlobalId, func: FnId) -> FnId {
    let m = lw.m;
    let GlobalKind::Func(function) = m.globals[g].kind else {
        return func;
    };
    let function = &m.funcs[function];
    let params: Vec<Reg> = (0..function.params.len() as u32).map(Reg).collect();
    let mut regs = vec![Hold::Value; params.len()];
    let mut e = TypeCheck::new(m, &mut regs);
    for (&p, &r) in function.params.iter().zip(&params) {
        let at = (lw.place)(m.vars[p].span);
        let what = format!("argument %{} of @{}", m.vars[p].name, m.globals[g].name);
        let place = Symbol::new(&format!("{at}: {what}"));
        e.whole(lw.typing.vars[p], r, place);
        e.value(lw.typing.vars[p], r, place);
    }
    let insts = e.finish();
    let name = Symbol::new(&format!("{}.checked", m.globals[g].name));
    let mut f = LFunc::new(name, None, function.span);
    f.params.clone_from(&params);
    f.regs = regs;
    f.place = (lw.place)(function.span);
    f.forms.is_entry = true;
    f.blocks.push(Block {
        params: Vec::new(),
        insts,
        term: Term::TailCall {
            func,
            args: params,
            lent: Vec::new(),
        },
    });
    debug_assert_eq!(f.blocks.ids().next(), Some(BlockId(0)));
    lw.out.funcs.push(f)
}

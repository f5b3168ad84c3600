//! `kill-after-last-use`: ends the lifetimes of blocks of memory, tensors and other objects after
//! their last use.
//!
//! Values that a function returns are not killed, nor those whose last use is in a dataflow block,
//! which has no effects. Functions that dataflow blocks run get no effects either. Names are
//! canonical first.
//!
//! In a module that places tensors in blocks of memory, a block ends behind the last use of anything
//! that may lie in it ([`sharing`](super::sharing)), and its tensors end with it.

use relax_base::Diagnostics;
use relax_infer::Typing;
use relax_ir::{Expr, FuncId, GlobalId, Module, Type, VarId, VarStyle};
use relax_ops::{Lowering, registry};
use rustc_hash::{FxHashMap, FxHashSet};

use super::sharing::{End, Sharing};
use super::{canonical, kept, sharing};
use crate::code::{Bind, Code, Value, each_code, each_var};
use crate::run_by_blocks::RunByBlocks;
use crate::util::called_op;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "kill-after-last-use",
    doc: "Ends blocks of memory, tensors and objects behind their last use.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut ended = 0;
    let quiet = RunByBlocks::of(cx.module);
    let places = sharing::places_tensors(cx.module);
    let owner: FxHashMap<FuncId, GlobalId> = (cx.module.globals.ids())
        .filter_map(|g| Some((cx.module.global_func(g)?, g)))
        .collect();
    each_code(cx.module, |m, func, code| {
        let mut changed = canonical::canonicalize(m, &typing, code, true);
        changed |= unused_names(m, code);
        if owner.get(&func).is_none_or(|&g| quiet.global(g)) {
            return changed;
        }
        let shared = places.then(|| Sharing::of(m, func, code));
        let inner = run_inside(code, &quiet);
        for s in (0..code.seqs.len()).filter(|s| !inner.contains(s)) {
            let kills = last_uses(m, &typing, code, s, shared.as_ref());
            ended += kills.len() as u64;
            changed |= !kills.is_empty();
            insert(m, code, s, &kills);
        }
        changed
    });
    cx.count("objects ended", ended);
    Ok(())
}

/// Returns the bodies of the function literals that dataflow blocks may run.
fn run_inside(code: &Code, quiet: &RunByBlocks) -> FxHashSet<usize> {
    let run = |b: &&Bind| matches!(b.value, Value::Func { func, .. } if quiet.literal(func));
    let mut open: Vec<usize> = code
        .binds()
        .filter(run)
        .flat_map(|b| b.value.bodies())
        .collect();
    let mut found = FxHashSet::default();
    while let Some(s) = open.pop() {
        if found.insert(s) {
            let binds = code.seqs[s].parts.iter().flat_map(|p| &p.binds);
            open.extend(binds.flat_map(|b| b.value.bodies()));
        }
    }
    found
}

/// Removes unused aliases.
fn unused_names(m: &Module, code: &mut Code) -> bool {
    let name = |b: &&Bind| b.expr().is_some_and(|e| matches!(m.exprs[e], Expr::Var(_)));
    let mut gone: FxHashSet<VarId> = code.binds().filter(name).map(|b| b.var).collect();
    if gone.is_empty() {
        return false;
    }
    let uses = code.uses(m);
    gone.retain(|v| !uses.contains_key(v));
    code.remove(&gone);
    !gone.is_empty()
}

/// The operator that ends an object's lifetime.
type Kill = &'static str;
const TENSOR: Kill = "relax.memory.kill_tensor";
const STORAGE: Kill = "relax.memory.kill_storage";
const OBJECT: Kill = "relax.vm.kill_object";

/// Returns the variables that end in the body that binds them: the last use of each, and its kill
/// operator. With `shared`, what may be one block of memory is used and ends together.
fn last_uses(
    m: &Module,
    typing: &Typing,
    code: &Code,
    s: usize,
    shared: Option<&Sharing>,
) -> Vec<(VarId, VarId, Kill)> {
    let of = |v: VarId| shared.map_or(v, |s| s.of_var(v));
    let mut last: FxHashMap<VarId, VarId> = FxHashMap::default();
    let mut stays: FxHashSet<VarId> = FxHashSet::default();
    // What something ends already.
    let mut ended: FxHashSet<VarId> = FxHashSet::default();
    for part in &code.seqs[s].parts {
        for b in &part.binds {
            let mut uses = Vec::new();
            mentions(m, code, b, &mut uses);
            if ends(m, b) {
                ended.extend(uses.iter().map(|&v| of(v)));
                continue;
            }
            for v in uses.into_iter().map(of) {
                match part.flow {
                    true => stays.insert(v),
                    false => stays.remove(&v),
                };
                last.insert(v, b.var);
            }
        }
    }
    each_var(m, code.seqs[s].value, |v| {
        stays.insert(of(v));
    });
    let mut kills = Vec::new();
    for part in &code.seqs[s].parts {
        for b in &part.binds {
            // Nothing can name what a statement gives, which others may share.
            if m.vars[b.var].style == VarStyle::Effect {
                continue;
            }
            let root = of(b.var);
            let kind = match shared.map_or(End::Alone, |all| all.end(b.var, s)) {
                End::Alone => kind(m, typing, b),
                End::Block => Some(STORAGE),
                End::Never => None,
            };
            if let Some(&at) = last.get(&root)
                && !stays.contains(&root)
                && !ended.contains(&root)
                && let Some(kill) = kind
            {
                kills.push((at, b.var, kill));
            }
        }
    }
    let rank = |k: &Kill| [TENSOR, STORAGE, OBJECT].iter().position(|x| x == k);
    kills.sort_by_key(|k| rank(&k.2));
    kills
}

/// Returns whether a binding ends what it names.
fn ends(m: &Module, b: &Bind) -> bool {
    let called = b.expr().and_then(|e| called_op(m, e));
    called.is_some_and(|d| d.hooks.lowering == Lowering::Kill)
}

/// Collects the variables that a binding mentions, including those in nested bodies.
fn mentions(m: &Module, code: &Code, b: &Bind, out: &mut Vec<VarId>) {
    let mut open = vec![*b];
    while let Some(b) = open.pop() {
        if let Value::Plain(e) | Value::If { cond: e, .. } = b.value {
            each_var(m, e, |v| out.push(v));
        }
        for s in b.value.bodies() {
            each_var(m, code.seqs[s].value, |v| out.push(v));
            open.extend(code.seqs[s].parts.iter().flat_map(|p| &p.binds));
        }
    }
}

/// Returns how the value of a binding is killed; `None` if it has no register of its own.
fn kind(m: &Module, typing: &Typing, b: &Bind) -> Option<Kill> {
    let e = b.expr();
    if e.is_some_and(|e| matches!(m.exprs[e], Expr::Const(_))) {
        return None;
    }
    let name = e.and_then(|e| kept::name(m, e));
    if name.is_some_and(|n| n.ends_with("alloc_storage")) {
        return Some(STORAGE);
    }
    let scalar = m
        .var_attrs
        .get(&b.var)
        .is_some_and(|a| a.get("scalar").is_some());
    match &m.types[typing.vars[b.var]] {
        Type::Tensor(_) if !scalar => Some(TENSOR),
        Type::Tuple(_) | Type::Object => Some(OBJECT),
        _ => None,
    }
}

fn insert(m: &mut Module, code: &mut Code, s: usize, kills: &[(VarId, VarId, Kill)]) {
    if kills.is_empty() {
        return;
    }
    let mut behind: FxHashMap<VarId, Vec<(VarId, Kill)>> = FxHashMap::default();
    for &(at, v, kill) in kills {
        behind.entry(at).or_default().push((v, kill));
    }
    for part in &mut code.seqs[s].parts {
        let old = std::mem::take(&mut part.binds);
        for b in old {
            let at = b.var;
            part.binds.push(b);
            for &(v, name) in behind.get(&at).into_iter().flatten() {
                let arg = m.add(Expr::Var(v), b.span);
                let op = registry().find(name).expect("what ends lifetimes");
                let callee = m.add(Expr::Op(op), b.span);
                let call = m.call(callee, &[arg], b.span);
                let unit = m.types.tuple(Vec::new());
                let (var, _) = m.fresh_var("_", Some(unit), VarStyle::Effect);
                part.binds.push(Bind::plain(var, call, b.span));
            }
        }
    }
}

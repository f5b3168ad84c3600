//! `relax-dead-code-elimination`: removes dead bindings, and private functions that are never
//! called.
//!
//! Functions are public unless they are marked `private`, and tensor programs unless their text is.
//! A module that is not TVMScript keeps all of its functions.

use std::sync::Arc;

use relax_base::{Diagnostics, Symbol};
use relax_infer::Typing;
use relax_ir::{Expr, GlobalKind, IdSet, IdTable, Kept, Module, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{Bind, Code, Value, each_code, each_var};
use crate::impurity::Impurity;
use crate::util::is_private;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-dead-code-elimination",
    doc: "Relax's dead-code-elimination: drops bindings that nothing needs and private functions that nothing calls.",
    options: &[],
    contract: Contract::TYPED.idempotent(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut functions = unused_functions(cx.module);
    let mut bindings = 0;
    // Removing functions renumbers nodes.
    let typing = if functions > 0 { cx.typing()? } else { typing };
    let impurity = Impurity::of(cx)?;
    each_code(cx.module, |m, _, code| {
        let gone = unused_bindings(m, &typing, &impurity, code);
        bindings += gone;
        gone > 0
    });
    if bindings > 0 {
        functions += unused_functions(cx.module);
    }
    cx.count("functions removed", functions);
    cx.count("bindings removed", bindings);
    Ok(())
}

/// Removes unused bindings without effects; returns how many.
pub(super) fn unused_bindings(
    m: &Module,
    typing: &Typing,
    impurity: &Impurity,
    code: &mut Code,
) -> u64 {
    let closures = impurity.closures(m, code);
    // Only casts bind dimension variables.
    let casts = |b: &Bind| {
        b.expr()
            .is_some_and(|e| matches!(m.exprs[e], Expr::MatchCast { .. }))
    };
    let dims = match code.binds().any(casts) {
        true => used_dims(m, code),
        false => FxHashSet::default(),
    };
    let mut users = Users::default();
    let mut open: Vec<VarId> = Vec::new();
    let mut inner: FxHashMap<usize, VarId> = FxHashMap::default();
    for seq_bind in code.binds() {
        let bodies = seq_bind.value.bodies();
        inner.extend(bodies.map(|body| (body, seq_bind.var)));
    }
    let mut kept_inside: FxHashSet<VarId> = FxHashSet::default();
    for (s, seq) in code.seqs.iter().enumerate().rev() {
        for b in seq.parts.iter().flat_map(|p| &p.binds) {
            let needed = match b.value {
                Value::Plain(e) => {
                    each_var(m, e, |v| users.add(b.var, v));
                    let cast = matches!(m.exprs[e], Expr::MatchCast { ty, .. }
                        if binds_used(m, ty, &dims));
                    let checked = typing.checks_of(e).next().is_some();
                    cast || checked || impurity.bind(m, b, &closures)
                }
                Value::If { cond, .. } => {
                    each_var(m, cond, |v| users.add(b.var, v));
                    kept_inside.contains(&b.var) || impurity.bind(m, b, &closures)
                }
                Value::Func { .. } => false,
            };
            if needed {
                open.push(b.var);
                // An effect in a branch keeps the branches alive.
                if let Some(&outer) = inner.get(&s) {
                    users.add(b.var, outer);
                    kept_inside.insert(outer);
                }
            }
        }
        match inner.get(&s) {
            Some(&outer) => each_var(m, seq.value, |v| users.add(outer, v)),
            None => each_var(m, seq.value, |v| open.push(v)),
        }
    }
    let mut needed = IdSet::new();
    while let Some(v) = open.pop() {
        if needed.insert(v) {
            open.extend(users.of(v));
        }
    }
    let gone: FxHashSet<VarId> = (code.binds().map(|b| b.var))
        .filter(|v| !needed.contains(*v))
        .collect();
    if !gone.is_empty() {
        // Bindings that are only used inside removed values are removed with them.
        code.remove(&gone);
    }
    gone.len() as u64
}

/// What the value of each variable mentions: lists whose cells lie in one.
#[derive(Default)]
struct Users {
    /// The number of the last cell of each variable, from 1.
    last: IdTable<VarId, u32>,
    /// A variable that is mentioned, and the number of the cell before.
    cells: Vec<(VarId, u32)>,
}

impl Users {
    fn add(&mut self, user: VarId, used: VarId) {
        let last = self.last.entry(user);
        self.cells.push((used, *last));
        *last = self.cells.len() as u32;
    }

    fn of(&self, user: VarId) -> impl Iterator<Item = VarId> + '_ {
        let mut at = self.last[user];
        std::iter::from_fn(move || {
            let (used, before) = *self.cells.get((at as usize).checked_sub(1)?)?;
            at = before;
            Some(used)
        })
    }
}

/// Returns the dimension variables used by expressions, or by types other than those of casts.
fn used_dims(m: &Module, code: &Code) -> FxHashSet<relax_sym::DimVar> {
    let mut dims = FxHashSet::default();
    let mut types = Vec::new();
    for b in code.binds() {
        types.extend(m.vars[b.var].ty);
        match b.value {
            Value::Plain(e) => match m.exprs[e] {
                Expr::MatchCast { value, .. } => dims.extend(m.free_dims(value)),
                _ => dims.extend(m.free_dims(e)),
            },
            Value::Func { func, .. } => types.extend(m.funcs[func].ret),
            Value::If { .. } => {}
        }
    }
    for seq in &code.seqs {
        dims.extend(m.free_dims(seq.value));
    }
    dims.extend(m.dims_in_types(types));
    dims
}

fn binds_used(m: &Module, ty: relax_ir::TypeId, used: &FxHashSet<relax_sym::DimVar>) -> bool {
    m.dims_in_types([ty]).iter().any(|d| used.contains(d))
}

/// Removes unreachable private functions; returns how many.
pub(super) fn unused_functions(m: &mut Module) -> u64 {
    let Some(script) = m.script.clone() else {
        return 0;
    };
    let mut open: Vec<Symbol> = Vec::new();
    let mut uses: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
    for k in script.kept.iter() {
        if !says_private(&k.text) {
            open.push(k.name);
        }
        uses.entry(k.name).or_default().extend(mentioned(&k.text));
    }
    for g in m.globals.values() {
        if let GlobalKind::Func(f) = g.kind {
            if !is_private(&m.funcs[f]) && script.kept(g.name).is_none() || g.prelude {
                open.push(g.name);
            }
            let of = uses.entry(g.name).or_default();
            for e in m.post_order([m.funcs[f].body]) {
                match m.exprs[e] {
                    Expr::Global(g) => of.push(m.globals[g].name),
                    Expr::Extern(name) => of.push(name),
                    _ => {}
                }
            }
        }
    }
    let mut reached: FxHashSet<Symbol> = FxHashSet::default();
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            open.extend(uses.get(&name).into_iter().flatten());
        }
    }
    let keep: FxHashSet<_> = (m.globals.iter())
        .filter(|(_, g)| reached.contains(&g.name))
        .map(|(id, _)| id)
        .collect();
    let texts_left = script
        .kept
        .iter()
        .filter(|k| reached.contains(&k.name))
        .count();
    let of_text = |k: &&Kept| !reached.contains(&k.name) && m.global(k.name.as_str()).is_none();
    let gone = m.globals.len() - keep.len() + script.kept.iter().filter(of_text).count();
    if gone == 0 {
        return 0;
    }
    if texts_left < script.kept.len()
        && let Some(script) = &mut m.script
    {
        Arc::make_mut(script)
            .kept
            .retain(|k| reached.contains(&k.name));
    }
    m.retain_globals(&keep);
    gone as u64
}

/// Returns whether a function's text marks it as private, in a decorator above the `def`.
fn says_private(text: &str) -> bool {
    text.lines()
        .take_while(|l| !l.trim_ascii_start().starts_with("def "))
        .any(|l| l.contains("private=True"))
}

/// Returns the function names that a text mentions.
fn mentioned(text: &str) -> impl Iterator<Item = Symbol> + '_ {
    memchr::memmem::find_iter(text.as_bytes(), "cls.").map(|at| {
        let rest = &text[at + "cls.".len()..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        Symbol::new(&rest[..end.unwrap_or(rest.len())])
    })
}

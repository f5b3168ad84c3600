//! `relax-canonicalize-bindings`: removes aliases of variables, propagates constants to their uses,
//! and removes outputs of dataflow blocks that are not used outside.

use relax_base::Diagnostics;
use relax_infer::Typing;
use relax_ir::{Expr, ExprId, IdMap, IdSet, Module, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{Code, Home, Value, each_code, each_var};
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-canonicalize-bindings",
    doc: "Relax's canonicalize-bindings: no second names, constants where they are used, outputs that are used.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut changed = 0;
    each_code(cx.module, |m, _, code| {
        let one = canonicalize(m, &typing, code, true);
        changed += u64::from(one);
        one
    });
    cx.count("functions changed", changed);
    Ok(())
}

/// Facts about a function's bindings.
struct Known {
    /// The value of each variable, resolved through aliases and projections.
    values: IdMap<VarId, ExprId>,
    /// Aliases, in order, each with the variable that it names.
    second: Vec<(VarId, VarId)>,
    constants: FxHashMap<VarId, ExprId>,
    homes: FxHashMap<VarId, Home>,
    /// Variables that are used outside the dataflow block that binds them.
    outside: IdSet,
    /// The outputs of dataflow blocks.
    outputs: FxHashSet<VarId>,
}

/// Rewrites a function; returns whether anything changed. With `narrow`, unused outputs are removed
/// from the blocks' outputs.
pub(super) fn canonicalize(m: &mut Module, typing: &Typing, code: &mut Code, narrow: bool) -> bool {
    let mut known = Known::of(m, typing, code);
    let mut changed = narrow && demote(code, &mut known);
    changed |= rename(m, code, &known);
    changed | fold_casts(m, code)
}

impl Known {
    fn of(m: &Module, typing: &Typing, code: &Code) -> Known {
        let mut known = Known {
            values: IdMap::new(),
            second: Vec::new(),
            constants: FxHashMap::default(),
            homes: code.homes(),
            outside: IdSet::new(),
            outputs: FxHashSet::default(),
        };
        for part in code.seqs.iter().flat_map(|s| &s.parts).filter(|p| p.flow) {
            known.outputs.extend(&part.outputs);
        }
        for (e, s, part) in code.exprs() {
            let flow = part.is_some_and(|p| code.seqs[s].parts[p].flow);
            each_var(m, e, |v| {
                // What is used outside of a block once is.
                if known.outside.contains(v) {
                    return;
                }
                let home = known.homes.get(&v);
                if !flow || home.is_some_and(|h| Some(*h) != part.map(|p| (s, p))) {
                    known.outside.insert(v);
                }
            });
        }
        for b in code.binds() {
            if let Value::Plain(e) = b.value {
                known.bind(m, typing, b.var, e);
            }
        }
        known
    }

    fn bind(&mut self, m: &Module, typing: &Typing, var: VarId, bound: ExprId) {
        let value = match m.exprs[bound] {
            Expr::MatchCast { value, .. } => value,
            _ => bound,
        };
        let value = self.field(m, value).unwrap_or(value);
        let value = self.whole(m, typing, value).unwrap_or(value);
        let checked = typing.checks_of(bound).next().is_some();
        match m.exprs[value] {
            Expr::Var(v) => {
                let cast = matches!(m.exprs[bound], Expr::MatchCast { .. });
                let same = typing.vars[v] == typing.vars[var];
                if !checked && (!cast || same) {
                    self.second.push((var, v));
                }
            }
            Expr::Const(_) if !checked && bound == value => {
                self.constants.insert(var, value);
            }
            _ => {}
        }
        self.values.insert(var, value);
    }

    /// Resolves an expression through aliases.
    fn seen(&self, m: &Module, mut e: ExprId) -> ExprId {
        while let Expr::Var(v) = m.exprs[e]
            && let Some(&value) = self.values.get(&v)
        {
            e = value;
        }
        e
    }

    /// Returns the field that a projection selects, if the tuple is constructed in this function.
    fn field(&self, m: &Module, e: ExprId) -> Option<ExprId> {
        let Expr::Proj { tuple, index } = m.exprs[e] else {
            return None;
        };
        let Expr::Tuple(fields) = m.exprs[self.seen(m, tuple)] else {
            return None;
        };
        m.list(fields).get(index as usize).copied()
    }

    /// Returns the tuple whose fields a tuple expression collects in order.
    fn whole(&self, m: &Module, typing: &Typing, e: ExprId) -> Option<ExprId> {
        let Expr::Tuple(fields) = m.exprs[e] else {
            return None;
        };
        let fields = m.list(fields);
        let mut whole = None;
        for (i, &f) in fields.iter().enumerate() {
            let Expr::Proj { tuple, index } = m.exprs[self.seen(m, f)] else {
                return None;
            };
            let source = self.seen(m, tuple);
            let Expr::Var(v) = m.exprs[source] else {
                return None;
            };
            if index as usize != i || whole.is_some_and(|(w, _)| w != v) {
                return None;
            }
            whole = Some((v, source));
        }
        let (v, source) = whole?;
        match &m.types[typing.vars[v]] {
            relax_ir::Type::Tuple(all) if all.len() == fields.len() => Some(source),
            _ => None,
        }
    }
}

/// Removes unused outputs from the blocks' outputs.
fn demote(code: &mut Code, known: &mut Known) -> bool {
    let mut changed = false;
    for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
        let before = part.outputs.len();
        part.outputs.retain(|&v| known.outside.contains(v));
        changed |= part.outputs.len() < before;
    }
    known.outputs.retain(|&v| known.outside.contains(v));
    changed
}

/// Replaces uses of aliases by the original; where only the alias is visible outside of the block, the
/// original's binding takes the alias's name. Constants are propagated to their uses.
fn rename(m: &mut Module, code: &mut Code, known: &Known) -> bool {
    if known.second.is_empty() && known.constants.is_empty() {
        return false;
    }
    let flow: FxHashSet<VarId> = {
        let parts = code.seqs.iter().flat_map(|s| &s.parts).filter(|p| p.flow);
        let bound = parts.flat_map(|p| &p.binds).map(|b| b.var);
        bound.filter(|v| !known.outputs.contains(v)).collect()
    };
    let second: FxHashMap<VarId, VarId> = known.second.iter().copied().collect();
    // Replacements of variables at uses, and at bindings.
    let (mut used, mut bound) = (FxHashMap::default(), FxHashMap::default());
    let mut gone = FxHashSet::default();
    for &(name, first) in &known.second {
        let mut first = first;
        while let Some(&f) = second.get(&first) {
            first = f;
        }
        while let Some(&f) = bound.get(&first) {
            first = f;
        }
        // What is local to a block is named in another one, by a field of a tuple that leaves the
        // block.
        let leaves = match flow.contains(&name) {
            true => known.homes.get(&name) != known.homes.get(&first),
            false => known.outside.contains(name),
        };
        if !leaves || !flow.contains(&first) {
            used.insert(name, first);
        } else {
            bound.insert(first, name);
            used.insert(first, name);
        }
        gone.insert(name);
    }
    code.remove_names(&gone);
    for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
        for b in &mut part.binds {
            while let Some(&v) = bound.get(&b.var) {
                b.var = v;
                // The name may have been bound in another block than this one, and leaves it now.
                part.outputs.push(v);
            }
        }
        let here: FxHashSet<VarId> = part.binds.iter().map(|b| b.var).collect();
        for v in part.outputs.iter_mut() {
            while let Some(&w) = used.get(v) {
                *v = w;
            }
        }
        let mut seen = FxHashSet::default();
        part.outputs.retain(|v| here.contains(v) && seen.insert(*v));
    }
    let mut stands = FxHashMap::default();
    for &name in used.keys().chain(known.constants.keys()) {
        let mut v = name;
        while let Some(&w) = used.get(&v) {
            v = w;
        }
        let was_bound = bound.iter().find(|(_, n)| **n == v).map(|(f, _)| *f);
        let constant = known.constants.get(&v);
        let constant = constant.or_else(|| known.constants.get(&was_bound?));
        let stand = match constant {
            Some(&c) => c,
            None => {
                let span = m.vars[v].span;
                m.add(Expr::Var(v), span)
            }
        };
        stands.insert(name, stand);
    }
    let before = code.exprs();
    code.substitute(m, &stands);
    !gone.is_empty() || before != code.exprs()
}

/// Folds the binding of a value into a cast that is its only use, if the cast is an output of a
/// dataflow block.
fn fold_casts(m: &mut Module, code: &mut Code) -> bool {
    let cast = |e: ExprId| matches!(m.exprs[e], Expr::MatchCast { .. });
    if !code.binds().any(|b| b.expr().is_some_and(cast)) {
        return false;
    }
    let uses = code.uses(m);
    let mut changed = false;
    for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
        if !part.flow {
            continue;
        }
        for i in 0..part.binds.len() {
            let b = part.binds[i];
            let Some((e, Expr::MatchCast { value, ty })) =
                b.expr().map(|e| (e, m.exprs[e].clone()))
            else {
                continue;
            };
            let Expr::Var(v) = m.exprs[value] else {
                continue;
            };
            let at = part.binds[..i].iter().position(|b| b.var == v);
            let Some((at, inner)) = at.and_then(|k| Some((k, part.binds[k].expr()?))) else {
                continue;
            };
            if !part.outputs.contains(&b.var) || part.outputs.contains(&v) || uses[&v] != 1 {
                continue;
            }
            let span = m.span(e);
            let cast = m.add(Expr::MatchCast { value: inner, ty }, span);
            part.binds[i].value = Value::Plain(cast);
            // Its own binding is dropped below.
            part.binds[at].var = b.var;
            part.binds[at].value = Value::Plain(cast);
            changed = true;
        }
        if changed {
            let mut seen = FxHashSet::default();
            let mut kept: Vec<_> = part
                .binds
                .drain(..)
                .rev()
                .filter(|b| seen.insert(b.var))
                .collect();
            kept.reverse();
            part.binds = kept;
        }
    }
    changed
}

//! `annotate-tir-op-pattern`: annotates the text of each tensor program with its fusion kind.

use std::sync::Arc;

use relax_base::{Diagnostics, Symbol};
use relax_ir::{GlobalKind, Kept, Module};
use relax_loops::{
    BinOp, Buf, Ex, ExKind, Program, Role, Stage, Stmt, Var, statements, visit_expr,
};
use relax_ops::Fusion;

use super::text::find;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "annotate-tir-op-pattern",
    doc: "Says of each tensor program how it takes part in fusion.",
    options: &[],
    contract: Contract::PLAIN.idempotent(),
    run,
}];

/// The annotated attribute.
const ATTR: &str = "\"op_pattern\": ";

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let Some(mut script) = cx.module.script.clone() else {
        return Ok(());
    };
    let mut said = 0;
    Arc::make_mut(&mut script).kept.each_mut(|kept| {
        if find(&kept.text, "@T.prim_func").is_none() || find(&kept.text, ATTR).is_some() {
            return;
        }
        let kind = kept.program.as_deref().map(of_program);
        let kind = kind.unwrap_or_else(|| of_text(&kept.text));
        if let Some(text) = with_attribute(&kept.text, kind) {
            kept.text = text.into();
            said += 1;
        }
    });
    if said > 0 {
        cx.module.script = Some(script);
    }
    cx.count("programs annotated", said);
    Ok(())
}

/// Returns the fusion kind of the program of that name: from its annotation, or from its loops if
/// it has no text.
pub(super) fn of_item(m: &Module, name: Symbol) -> Fusion {
    if let Some(kept) = m.script.as_deref().and_then(|s| s.kept(name)) {
        return said(kept).unwrap_or(Fusion::Opaque);
    }
    let global = m.global(name.as_str()).map(|g| &m.globals[g].kind);
    match global {
        Some(GlobalKind::Prim(p)) => of_program(p),
        _ => Fusion::Opaque,
    }
}

fn said(kept: &Kept) -> Option<Fusion> {
    let rest = &kept.text[find(&kept.text, ATTR)? + ATTR.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    Some(match rest[..end].parse().ok()? {
        0 => Fusion::Elementwise,
        1 => Fusion::Broadcast,
        2 => Fusion::Injective,
        3 => Fusion::Reduction,
        4 => Fusion::OutElementwise,
        7 => Fusion::Tuple,
        _ => Fusion::Opaque,
    })
}

/// Returns the fusion kind of a program that exists only as text: opaque if it has blocks.
fn of_text(text: &str) -> Fusion {
    match find(text, "T.sblock(").is_some() && find(text, "# with T.sblock(\"root\")").is_none() {
        false if !text.contains("\n        with T.sblock(") => Fusion::Elementwise,
        _ => Fusion::Opaque,
    }
}

/// Returns the text with the attribute inserted.
fn with_attribute(text: &str, kind: Fusion) -> Option<String> {
    let attr = format!("{ATTR}{}", kind as u32);
    const ATTRS: &str = "T.func_attr({";
    if let Some(at) = text.find(ATTRS) {
        let at = at + ATTRS.len();
        let comma = if text[at..].starts_with('}') {
            ""
        } else {
            ", "
        };
        return Some(format!("{}{attr}{comma}{}", &text[..at], &text[at..]));
    }
    let def = text.find("def ")?;
    let head = def + end_of_head(&text[def..])?;
    let rest = text[head..].trim_start_matches([' ', '\n']);
    let line = text[..text.len() - rest.len()].rfind('\n')? + 1;
    let indent = &text[line..text.len() - rest.len()];
    Some(format!(
        "{}{indent}{ATTRS}{attr}}})\n{}",
        &text[..line],
        &text[line..]
    ))
}

/// Returns the offset after a function's signature line, including the colon and line break.
fn end_of_head(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ':' if depth == 0 => return Some(i + 1 + text[i + 1..].find('\n')? + 1),
            _ => {}
        }
    }
    None
}

/// A load: the buffer, and the indices.
type Load<'p> = (Buf, &'p [Ex]);

/// Returns a program's fusion kind: the most restrictive of its statements.
pub(crate) fn of_program(p: &Program) -> Fusion {
    let mut kind = Fusion::Elementwise;
    for stage in &p.stages {
        match stage {
            Stage::Compute(c) => {
                let axes: Vec<Ex> = c
                    .axes
                    .iter()
                    .map(|&v| Ex::var(v, p.vars[v].dtype))
                    .collect();
                let over: Vec<Var> = c.reduce.iter().flat_map(|r| &r.axes).map(|a| a.0).collect();
                let mut loads = Vec::new();
                loads_of(&c.value, &mut loads);
                let store = Store {
                    buf: c.out,
                    index: &axes,
                    value: None,
                };
                let fused = !over.is_empty()
                    && matches!(c.value.kind(), ExKind::Binary(BinOp::Mul, a, b)
                        if reused(&store, a) && reused(&store, b));
                kind = joined(p, kind, &store, &loads, &over, fused);
            }
            Stage::Nest(body) => kind = of_nest(p, body, kind),
        }
    }
    kind
}

struct Store<'p> {
    buf: Buf,
    index: &'p [Ex],
    value: Option<&'p Ex>,
}

fn of_nest(p: &Program, body: &[Stmt], mut kind: Fusion) -> Fusion {
    // The reduction axes appear in the initialisation, before the update.
    let mut over: Vec<Var> = Vec::new();
    let mut starts: Vec<&Stmt> = Vec::new();
    let mut conditions: Vec<&Ex> = Vec::new();
    for stmt in statements(body) {
        match stmt {
            Stmt::Init { over: axes, body } => {
                over.clone_from(axes);
                starts.extend(statements(body));
            }
            Stmt::If { cond, .. } => conditions.push(cond),
            Stmt::For { .. } => conditions.clear(),
            Stmt::While { .. } => return Fusion::Opaque,
            Stmt::Store { buf, index, value } if !starts.iter().any(|s| std::ptr::eq(*s, stmt)) => {
                let mut loads = Vec::new();
                for e in conditions.iter().copied().chain(index).chain([value]) {
                    loads_of(e, &mut loads);
                }
                let store = Store {
                    buf: *buf,
                    index,
                    value: Some(value),
                };
                let fused = sums_products(&store);
                kind = joined(p, kind, &store, &loads, &over, fused);
                over.clear();
            }
            _ => {}
        }
    }
    kind
}

fn loads_of<'p>(e: &'p Ex, out: &mut Vec<Load<'p>>) {
    visit_expr(e, |x| {
        if let ExKind::Load(buf, index) = x.kind() {
            out.push((*buf, index));
        }
    });
}

/// Returns the kind of a program of kind `kind` after adding one more statement.
fn joined(
    p: &Program,
    kind: Fusion,
    store: &Store<'_>,
    loads: &[Load<'_>],
    over: &[Var],
    fused: bool,
) -> Fusion {
    let (mut pairs, mut same) = (Fusion::Elementwise, false);
    for load in loads {
        let pair = if as_stored(store, load) {
            same = true;
            Fusion::Elementwise
        } else if broadcast(p, store, load) {
            Fusion::Broadcast
        } else if injective(store, load) {
            Fusion::Injective
        } else {
            Fusion::Opaque
        };
        pairs = pairs.max(pair);
    }
    if pairs == Fusion::Broadcast && same {
        pairs = Fusion::Elementwise;
    }
    if pairs != Fusion::Opaque {
        let out = p.bufs[store.buf].role == Role::Output;
        return match out && kind == Fusion::Reduction {
            true => Fusion::OutElementwise,
            false => kind.max(pairs),
        };
    }
    if over.is_empty() {
        return Fusion::Opaque;
    }
    let plain = |(_, index): &Load<'_>| index.iter().all(|e| is_var(e) || !uses(e, over));
    match !fused && loads.iter().all(plain) {
        true => kind.max(Fusion::Reduction),
        false => kind.max(Fusion::OutElementwise),
    }
}

fn var(e: &Ex) -> Option<Var> {
    match e.kind() {
        ExKind::Var(v) => Some(*v),
        _ => None,
    }
}

fn is_var(e: &Ex) -> bool {
    var(e).is_some()
}

fn uses(e: &Ex, vars: &[Var]) -> bool {
    let mut found = false;
    visit_expr(e, |x| found |= var(x).is_some_and(|v| vars.contains(&v)));
    found
}

fn same(a: &Ex, b: &Ex) -> bool {
    var(a).is_some() && var(a) == var(b)
}

fn as_stored(store: &Store<'_>, (_, index): &Load<'_>) -> bool {
    index.len() == store.index.len() && index.iter().zip(store.index).all(|(a, b)| same(a, b))
}

fn is_int(e: &Ex, value: i64) -> bool {
    matches!(e.kind(), ExKind::Int(i) if *i == value)
}

fn broadcast(p: &Program, store: &Store<'_>, (buf, index): &Load<'_>) -> bool {
    let mut j = 0;
    for (i, e) in index.iter().enumerate() {
        if is_int(&p.bufs[*buf].shape[i], 1) && is_int(e, 0) {
            continue;
        }
        while j < store.index.len() && !same(&store.index[j], e) {
            j += 1;
        }
        if j == store.index.len() {
            return false;
        }
    }
    true
}

fn injective(store: &Store<'_>, (_, index): &Load<'_>) -> bool {
    let Some(vars) = store.index.iter().map(var).collect::<Option<Vec<Var>>>() else {
        return false;
    };
    let mut known = true;
    for e in *index {
        visit_expr(e, |x| match x.kind() {
            ExKind::Var(v) => known &= vars.contains(v),
            ExKind::Load(..) => known = false,
            _ => {}
        });
    }
    known
}

fn uncast(mut e: &Ex) -> &Ex {
    while let ExKind::Cast(inner) = e.kind() {
        e = inner;
    }
    e
}

/// Returns whether a statement accumulates a product of two elements, each of which contributes to
/// several results.
fn sums_products(store: &Store<'_>) -> bool {
    let sum = store.value.map(|v| uncast(v).kind());
    let Some(ExKind::Binary(BinOp::Add, a, b)) = sum else {
        return false;
    };
    let own = match uncast(a).kind() {
        ExKind::Load(buf, index) => *buf == store.buf && as_stored(store, &(*buf, index)),
        _ => false,
    };
    match uncast(b).kind() {
        ExKind::Binary(BinOp::Mul, x, y) => own && reused(store, x) && reused(store, y),
        _ => false,
    }
}

fn reused(store: &Store<'_>, e: &Ex) -> bool {
    let ExKind::Load(_, index) = uncast(e).kind() else {
        return false;
    };
    let Some(vars) = store.index.iter().map(var).collect::<Option<Vec<Var>>>() else {
        return false;
    };
    vars.iter().any(|v| !index.iter().any(|e| uses(e, &[*v])))
}

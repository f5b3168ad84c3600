//! `merge-composite`: merges groups of operators that an external library provides as one into
//! functions marked `Composite="name"`.
//!
//! The groups are declared by patterns ([`crate::declared`]). From the result of a function to its
//! parameters, the first pattern that matches claims its nodes, unless an inner node is used
//! elsewhere too.

use relax_base::{Diagnostics, Symbol};
use relax_ir::{AttrValue, Attrs, Expr, ExprId, Function, IdSet, Memo, VarStyle};
use rustc_hash::FxHashMap;

use crate::declared::Declared;
use crate::edit::Edit;
use crate::util::{is_external, outside_primitives, share_constants};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "merge-composite",
    doc: "Makes functions marked `Composite` of operators that match declared patterns.",
    options: &[OptionDef {
        name: "patterns",
        ty: OptionType::Source,
        default: "",
        doc: "functions of the text format, in quotes: `def @lib.conv_relu(%x, %w) { nn.relu(nn.conv2d(%x, %w)) }`; \
              `@FILE` takes them from a file",
    }],
    contract: Contract::TYPED.idempotent(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let place = cx.options.place("patterns");
    let patterns = Declared::parse(cx.options.text("patterns"), place)?;
    share_constants(cx.module);
    let typing = cx.typing()?;
    let mut edit = Edit::new(cx.module, &typing);
    let mut roots: FxHashMap<ExprId, usize> = FxHashMap::default();
    for (global, body) in edit.m.global_bodies() {
        let func = edit.m.global_func(global).expect("it has a body");
        if !is_external(&edit.m.funcs[func]) {
            choose(&edit, body, &patterns, &mut roots);
        }
    }
    let mut count = 0;
    edit.rewrite(|edit, old, new| {
        let Some(&pattern) = roots.get(&old) else {
            return new;
        };
        count += 1;
        merged(edit, &patterns[pattern], old, new)
    });
    cx.count("functions made", count);
    Ok(())
}

/// Returns the nodes claimed by each pattern, by the last node of each match.
fn choose(
    edit: &Edit<'_>,
    body: ExprId,
    patterns: &[Declared],
    roots: &mut FxHashMap<ExprId, usize>,
) {
    let m = &*edit.m;
    let order = outside_composites(edit, body);
    let mut uses: FxHashMap<ExprId, usize> = FxHashMap::default();
    for &e in &order {
        m.for_each_child(e, |c| *uses.entry(c).or_default() += 1);
    }
    *uses.entry(body).or_default() += 1;
    let mut taken = IdSet::new();
    for &e in order.iter().rev() {
        if taken.contains(e) {
            continue;
        }
        for (i, pattern) in patterns.iter().enumerate() {
            let Some(found) = pattern.find(m, e) else {
                continue;
            };
            let inside = pattern.inside(&found);
            let mut inner: FxHashMap<ExprId, usize> = FxHashMap::default();
            for &n in &inside {
                m.for_each_child(n, |c| *inner.entry(c).or_default() += 1);
            }
            let own = |n: &ExprId| *n == e || uses.get(n) == inner.get(n);
            let free = |n: &ExprId| !taken.contains(*n);
            let apart = |o: &ExprId| !inside.contains(o);
            if inside.iter().all(own)
                && inside.iter().all(free)
                && pattern.operands(&found).iter().all(apart)
            {
                for n in inside {
                    taken.insert(n);
                }
                roots.insert(e, i);
                break;
            }
        }
    }
}

/// Returns the nodes under a body except for those of functions that were merged before.
fn outside_composites(edit: &Edit<'_>, body: ExprId) -> Vec<ExprId> {
    let m = &*edit.m;
    let inside: IdSet = {
        let mut set = IdSet::new();
        for e in outside_primitives(m, body) {
            if let Expr::Func(f) = m.exprs[e]
                && m.funcs[f].attrs.get("Composite").is_some()
            {
                for n in m.post_order([m.funcs[f].body]) {
                    set.insert(n);
                }
            }
        }
        set
    };
    let all = outside_primitives(m, body);
    all.into_iter().filter(|e| !inside.contains(*e)).collect()
}

/// Returns a call of the function that a match becomes. `old` is the matched node, `new` the same
/// over rewritten operands.
fn merged(edit: &mut Edit<'_>, pattern: &Declared, old: ExprId, new: ExprId) -> ExprId {
    let found = pattern.find(edit.m, old).zip(pattern.find(edit.m, new));
    let Some((was, is)) = found else {
        return new;
    };
    let (types, args) = (pattern.operands(&was), pattern.operands(&is));
    let span = edit.m.span(old);
    let (mut memo, mut params) = (Memo::default(), Vec::new());
    for (i, (&arg, &typed)) in args.iter().zip(&types).enumerate() {
        let ty = edit.ty(typed);
        let name = Symbol::from(format!("p{i}").as_str());
        let (var, reference) = edit.fresh_var(name, ty, VarStyle::Param);
        params.push(var);
        memo.insert(arg, reference);
    }
    // Operands come first: the pattern's nodes are in this order.
    for node in pattern.inside(&is) {
        let copy = edit
            .m
            .map_children(node, |c| memo.get(&c).copied().unwrap_or(c));
        let ty = edit.ty(node);
        edit.set_ty(copy, ty);
        memo.insert(node, copy);
    }
    let mut attrs = Attrs::new();
    attrs.set("Composite", AttrValue::Str(pattern.name.as_str().into()));
    let operators = pattern.operators();
    attrs.set(
        "PartitionedFromPattern",
        AttrValue::Str(operators.as_str().into()),
    );
    let ret = edit.ty(old);
    let func = edit.m.funcs.push(Function {
        type_params: Vec::new(),
        dims: Vec::new(),
        params,
        ret: Some(ret),
        constraints: Vec::new(),
        body: memo[&new],
        attrs,
        span,
    });
    let callee = edit.m.add(Expr::Func(func), span);
    let call = edit.m.call(callee, &args, span);
    edit.set_ty(call, ret);
    call
}

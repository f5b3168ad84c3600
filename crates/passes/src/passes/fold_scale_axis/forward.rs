//! Scales that are folded into the product after them.

use relax_ir::{Expr, ExprId, Memo};
use relax_ops::ScaleRole;
use rustc_hash::FxHashMap;

use super::{
    Message, along, contraction, elements, message, role, scale_along, scaled_weight, spread,
};
use crate::edit::Edit;

/// An expression as a value and a scale that is still to be applied to it.
struct Scaled {
    value: ExprId,
    scale: ExprId,
    axes: Vec<usize>,
}

/// Returns the new body, and the number of products that absorbed a scale.
pub(super) fn fold(e: &mut Edit<'_>, body: ExprId) -> (ExprId, u64) {
    let order = e.m.post_order([body]);
    let messages = messages(e, &order, body);
    if messages.values().all(Option::is_none) {
        return (body, 0);
    }
    let (mut plain, mut scaled) = (Memo::default(), FxHashMap::<ExprId, Scaled>::default());
    let mut count = 0;
    for &old in &order {
        if let Some(new) = absorb(e, old, &plain, &scaled) {
            plain.insert(old, new);
            count += 1;
            continue;
        }
        let mut node = e.m.map_children(old, |c| plain[&c]);
        if node != old {
            e.set_ty(node, e.ty(old));
        }
        // A field of a known tuple is the field itself.
        if let Expr::Proj { tuple, index } = e.m.exprs[node]
            && let Expr::Tuple(fields) = e.m.exprs[tuple]
        {
            node = e.m.list(fields)[index as usize];
        }
        plain.insert(old, node);
        if let Some(Some(message)) = messages.get(&old)
            && let Some(s) = carry(e, old, message, &plain, &scaled)
        {
            scaled.insert(old, s);
        }
    }
    (plain[&body], count)
}

/// Returns the scale that every user of an expression can absorb, by expression.
fn messages(e: &Edit<'_>, order: &[ExprId], body: ExprId) -> FxHashMap<ExprId, Option<Message>> {
    let mut all: FxHashMap<ExprId, Option<Message>> = FxHashMap::default();
    all.insert(body, None);
    for &node in order.iter().rev() {
        let mut parts = Vec::new();
        e.m.for_each_child(node, |c| parts.push((c, None)));
        if let Some((call, role)) = role(e, node) {
            let out = all.get(&node).cloned().flatten();
            // The callee is child 0.
            for (i, message) in asked(e, node, role, &call, out).into_iter().enumerate() {
                parts[i + 1].1 = message;
            }
        }
        for (part, message) in parts {
            let joined = match all.remove(&part) {
                None => message,
                Some(known) => both(known, message),
            };
            all.insert(part, joined);
        }
    }
    all
}

fn both(a: Option<Message>, b: Option<Message>) -> Option<Message> {
    let (a, b) = (a?, b?);
    Some(Message {
        axes: a.axes.into_iter().filter(|x| b.axes.contains(x)).collect(),
        positive: a.positive || b.positive,
    })
}

/// Returns the requirements of a call on the scales of its arguments, given what is required of its
/// own.
fn asked(
    e: &Edit<'_>,
    node: ExprId,
    role: ScaleRole,
    call: &crate::edit::OpCall,
    out: Option<Message>,
) -> Vec<Option<Message>> {
    let args = &call.args;
    let mut all = vec![None; args.len()];
    match role {
        ScaleRole::Positive => {
            all[0] = out.map(|m| Message {
                positive: true,
                ..m
            });
        }
        ScaleRole::Sum => {
            if let Some(m) = out {
                if along(e, args[0], args[1], &m.axes) {
                    all[0] = Some(m);
                } else if along(e, args[1], args[0], &m.axes) {
                    all[1] = Some(m);
                }
            }
        }
        ScaleRole::Contraction(_) => {
            all[0] = contraction(e, node, call, role).map(|c| message(c.inputs));
        }
        ScaleRole::Product | ScaleRole::Bias => {}
    }
    all
}

/// Returns the expression with its scale separated, where it has one that its users absorb.
fn carry(
    e: &mut Edit<'_>,
    old: ExprId,
    message: &Message,
    plain: &Memo,
    scaled: &FxHashMap<ExprId, Scaled>,
) -> Option<Scaled> {
    let (call, role) = role(e, old)?;
    let span = e.m.span(old);
    let attrs = e.m.attrs(call.attrs).clone();
    match role {
        ScaleRole::Product => {
            for (data, factor) in [(0, 1), (1, 0)] {
                let (data, factor) = (call.args[data], call.args[factor]);
                if message.axes.is_empty() || message.positive && !elements(e, factor, |x| x > 0.0)
                {
                    continue;
                }
                if let Some(scale) =
                    scale_along(e, data, factor, plain[&factor], &message.axes, span)
                {
                    return Some(Scaled {
                        value: plain[&data],
                        scale,
                        axes: message.axes.clone(),
                    });
                }
            }
            None
        }
        ScaleRole::Positive => {
            let s = scaled.get(&call.args[0])?;
            Some(Scaled {
                value: e.recall(&call, &[s.value], attrs, span),
                scale: s.scale,
                axes: s.axes.clone(),
            })
        }
        ScaleRole::Sum => {
            let (at, s) = match (scaled.get(&call.args[0]), scaled.get(&call.args[1])) {
                (Some(s), _) => (0, s),
                (None, Some(s)) => (1, s),
                (None, None) => return None,
            };
            let dims = e.dims(call.args[at])?;
            // `x * s + b` is `(x + b / s) * s` only where no element of the scale is 0.
            if !along(e, call.args[at], call.args[1 - at], &s.axes)
                || !elements(e, s.scale, |x| x != 0.0 && x.is_finite())
            {
                return None;
            }
            let scale = spread(e, s.scale, &dims, &s.axes, span)?;
            let other = e.call("divide", &[plain[&call.args[1 - at]], scale], &[], span);
            let args = if at == 0 {
                [s.value, other]
            } else {
                [other, s.value]
            };
            Some(Scaled {
                value: e.recall(&call, &args, attrs, span),
                scale: s.scale,
                axes: s.axes.clone(),
            })
        }
        ScaleRole::Bias | ScaleRole::Contraction(_) => None,
    }
}

/// Folds the scale of a product's data into its weight.
fn absorb(
    e: &mut Edit<'_>,
    old: ExprId,
    plain: &Memo,
    scaled: &FxHashMap<ExprId, Scaled>,
) -> Option<ExprId> {
    let (call, role) = role(e, old)?;
    let s = scaled.get(call.args.first()?)?;
    let span = e.m.span(old);
    let channels = contraction(e, old, &call, role)?.inputs;
    let weight = *plain.get(call.args.get(1)?)?;
    let weight = scaled_weight(e, weight, s.scale, &channels, span)?;
    let attrs = e.m.attrs(call.attrs).clone();
    Some(e.recall(&call, &[s.value, weight], attrs, span))
}

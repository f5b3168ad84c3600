//! Scales that are folded into the product before them.

use relax_ir::{ExprId, Memo};
use relax_ops::ScaleRole;
use rustc_hash::FxHashMap;

use super::{
    Message, along, contraction, elements, message, role, scale_along, scaled_weight, spread,
};
use crate::edit::Edit;

type Messages = FxHashMap<ExprId, Message>;

/// Returns the new body, and the number of folded scales.
pub(super) fn fold(e: &mut Edit<'_>, body: ExprId) -> (ExprId, u64) {
    let order = e.m.post_order([body]);
    let messages = messages(e, &order, body);
    let (mut memo, mut count) = (Memo::default(), 0);
    for &old in &order {
        let new = match product(e, old, &messages, &memo) {
            Some(new) => {
                count += 1;
                new
            }
            None => {
                let node = e.m.map_children(old, |c| memo[&c]);
                if node != old {
                    e.set_ty(node, e.ty(old));
                }
                node
            }
        };
        memo.insert(old, new);
    }
    (memo[&body], count)
}

/// Returns the scales that expressions can absorb, by expression; only those with one user.
fn messages(e: &Edit<'_>, order: &[ExprId], body: ExprId) -> Messages {
    let uses = e.m.use_counts([body]);
    let mut all = Messages::default();
    for &node in order {
        if uses[node] + u32::from(node == body) != 1 {
            continue;
        }
        if let Some(message) = takes(e, node, &all) {
            all.insert(node, message);
        }
    }
    all
}

fn takes(e: &Edit<'_>, node: ExprId, all: &Messages) -> Option<Message> {
    let (call, role) = role(e, node)?;
    let of = |i: usize| all.get(&call.args[i]);
    match role {
        ScaleRole::Positive => of(0).map(|m| Message {
            positive: true,
            ..m.clone()
        }),
        ScaleRole::Sum => {
            let (a, b) = (call.args[0], call.args[1]);
            match (of(0), of(1)) {
                (Some(m), None) if along(e, a, b, &m.axes) => Some(m.clone()),
                (None, Some(m)) if along(e, b, a, &m.axes) => Some(m.clone()),
                (Some(m), Some(n)) if m.axes == n.axes && e.dims(a)? == e.dims(b)? => {
                    Some(Message {
                        axes: m.axes.clone(),
                        positive: m.positive || n.positive,
                    })
                }
                _ => None,
            }
        }
        ScaleRole::Bias => {
            let (m, rank) = (of(0)?, e.dims(call.args[0])?.len() as i64);
            let axis = e.attr(&call, "axis").as_int()?;
            let axis = if axis < 0 { axis + rank } else { axis };
            (m.axes.len() == 1 && m.axes[0] as i64 == axis).then(|| m.clone())
        }
        ScaleRole::Contraction(_) => contraction(e, node, &call, role).map(|c| message(c.outputs)),
        ScaleRole::Product => None,
    }
}

/// Returns the scaled expression without its scale, when its operand can absorb it.
fn product(e: &mut Edit<'_>, old: ExprId, messages: &Messages, memo: &Memo) -> Option<ExprId> {
    let (call, ScaleRole::Product) = role(e, old)? else {
        return None;
    };
    let at = usize::from(!messages.contains_key(&call.args[0]));
    let (data, factor) = (call.args[at], call.args[1 - at]);
    let message = messages.get(&data)?;
    if message.positive && !elements(e, factor, |x| x > 0.0) {
        return None;
    }
    // Only a factor that does not change the shape can be folded.
    if e.dims(data)? != e.dims(old)? {
        return None;
    }
    let span = e.m.span(old);
    let scale = scale_along(e, data, factor, memo[&factor], &message.axes, span)?;
    scaled(e, data, scale, &message.axes, messages, memo)
}

/// Returns an expression with a scale folded in. Uses a worklist: the chain may be long.
fn scaled(
    e: &mut Edit<'_>,
    root: ExprId,
    scale: ExprId,
    axes: &[usize],
    messages: &Messages,
    memo: &Memo,
) -> Option<ExprId> {
    // Each has one user, so this is a tree; users come first.
    let mut chain = vec![root];
    let mut next = 0;
    while let Some(&node) = chain.get(next) {
        next += 1;
        if let (call, ScaleRole::Positive | ScaleRole::Sum | ScaleRole::Bias) = role(e, node)? {
            chain.extend(call.args.iter().filter(|a| messages.contains_key(a)));
        }
    }
    let mut new = Memo::default();
    for &node in chain.iter().rev() {
        let (call, role) = role(e, node)?;
        let (span, attrs) = (e.m.span(node), e.m.attrs(call.attrs).clone());
        let mut args: Vec<ExprId> = call.args.iter().map(|a| memo[a]).collect();
        match role {
            ScaleRole::Positive => args[0] = new[&call.args[0]],
            ScaleRole::Bias => {
                args[0] = new[&call.args[0]];
                args[1] = e.call("multiply", &[args[1], scale], &[], span);
            }
            ScaleRole::Sum => {
                let dims = e.dims(node)?;
                for (arg, old) in args.iter_mut().zip(&call.args) {
                    *arg = match new.get(old) {
                        Some(&scaled) => scaled,
                        None => {
                            let scale = spread(e, scale, &dims, axes, span)?;
                            e.call("multiply", &[*arg, scale], &[], span)
                        }
                    };
                }
            }
            ScaleRole::Contraction(_) => {
                let channels = contraction(e, node, &call, role)?.outputs;
                args[1] = scaled_weight(e, args[1], scale, &channels, span)?;
            }
            ScaleRole::Product => return None,
        }
        let call = e.recall(&call, &args, attrs, span);
        new.insert(node, call);
    }
    new.get(&root).copied()
}

//! Naming of shared subexpressions: text is a tree, while expressions share what they use more than
//! once.

use relax_loops::{BinOp, Ex, ExKind, Program, visit_expr};
use rustc_hash::FxHashMap;

/// Statements whose text has at most this many operations are printed unchanged.
const SHORT: u64 = 48;
/// Parts are named if the text would have this many times more operations than the expressions.
const REPEATED: u64 = 2;
/// Parts with fewer operations are not named.
const PART: u64 = 6;

/// The facts about one part.
struct Seen {
    /// The number of operations in its text.
    size: u64,
    /// The number of uses by other parts, or by the statement.
    uses: u32,
    /// Whether it cannot fail, so that it may be computed where the statement might not have
    /// computed it.
    total: bool,
    /// Whether the statement always computes it.
    always: bool,
}

/// Returns the parts of a statement's expressions that are worth naming, each after those that it
/// uses.
pub(super) fn repeated(p: &Program, exprs: &[&Ex]) -> Vec<Ex> {
    if is_short(exprs) {
        return Vec::new();
    }
    let (mut order, mut seen) = (Vec::new(), FxHashMap::<usize, Seen>::default());
    for root in exprs {
        visit_expr(root, |e| {
            if !seen.contains_key(&e.addr()) {
                seen.insert(e.addr(), Seen::of(p, e, &seen));
                order.push(e);
            }
        });
    }
    let sizes = exprs.iter().map(|e| seen[&e.addr()].size);
    let whole = sizes.fold(0u64, u64::saturating_add);
    if whole < REPEATED * order.len() as u64 {
        return Vec::new();
    }
    let mut count = |e: &Ex, always: bool| {
        seen.get_mut(&e.addr()).is_some_and(|s| {
            s.uses += 1;
            s.always |= always;
            s.always
        })
    };
    for e in exprs {
        count(e, true);
    }
    // Users come after their operands, so all of them have been visited.
    for e in order.iter().rev() {
        let always = count(e, false);
        for (i, part) in e.children().enumerate() {
            count(part, always && computes(e, i));
        }
    }
    order.retain(|e| {
        let s = &seen[&e.addr()];
        // Once for itself, in the traversal above.
        s.uses > 2 && s.size >= PART && (s.always || s.total)
    });
    order.into_iter().cloned().collect()
}

/// Returns whether the text of expressions has no more than [`SHORT`] operations: most do, so that
/// nothing is recorded for them.
fn is_short(exprs: &[&Ex]) -> bool {
    let (mut open, mut size) = (exprs.to_vec(), 0);
    while let Some(e) = open.pop() {
        size += 1;
        if size > SHORT {
            return false;
        }
        open.extend(e.children());
    }
    true
}

impl Seen {
    /// Returns the facts about an expression whose parts were visited.
    fn of(p: &Program, e: &Ex, seen: &FxHashMap<usize, Seen>) -> Seen {
        let (mut size, mut total) = (1u64, works(p, e));
        for part in e.children() {
            let s = &seen[&part.addr()];
            size = size.saturating_add(s.size);
            total &= s.total;
        }
        Seen {
            size,
            uses: 0,
            total,
            always: false,
        }
    }
}

/// Returns whether an expression always evaluates its part of this number.
fn computes(e: &Ex, part: usize) -> bool {
    part == 0
        || !matches!(
            e.kind(),
            ExKind::Select(..) | ExKind::Binary(BinOp::And | BinOp::Or, ..)
        )
}

/// Returns whether an operation cannot fail: its divisor cannot be 0, and the element that it reads
/// exists.
fn works(p: &Program, e: &Ex) -> bool {
    match e.kind() {
        ExKind::Load(b, index) => index.iter().zip(&p.bufs[*b].shape).all(|(at, extent)| {
            let (at, extent) = (at.as_int(), extent.as_int());
            at.zip(extent).is_some_and(|(i, n)| (0..n).contains(&i))
        }),
        ExKind::Binary(op, _, by) => {
            let divides = matches!(
                op,
                BinOp::Div | BinOp::Rem | BinOp::FloorDiv | BinOp::FloorMod
            );
            !divides || e.dtype().is_float() || by.as_int().is_some_and(|n| n != 0)
        }
        _ => true,
    }
}

//! Patterns of calls, and rewrite rules over them that are applied to a fixpoint.
//!
//! A pattern is built from small parts and read by position:
//!
//! ```text
//! op(&["reshape"], [op(&["reshape"], [x(0)])])       a reshape of a reshape of anything
//! any_order(&["add"], [x(0), c(1)])                  a sum with a constant, on either side
//! ```
//!
//! Invariant: patterns are as deep as the source of a pass writes them; matching may recurse.

use relax_base::Diagnostics;
use relax_ir::{ExprId, OpId};
use relax_ops::{Fusion, registry};
use rustc_hash::FxHashMap;

use crate::PassCx;
use crate::edit::{Edit, OpCall};

/// A pattern of expressions. Slots are numbered; a slot that occurs twice must match the same
/// expression.
#[derive(Clone, Debug)]
pub enum Pat {
    /// Anything, stored in a slot.
    Any(usize),
    /// A constant, stored in a slot.
    Const(usize),
    /// A call of one of these operators.
    Op {
        /// The operators.
        ops: Vec<OpId>,
        /// The arguments, all of them.
        args: Vec<Pat>,
        /// Whether two arguments may be in either order.
        any_order: bool,
    },
    /// A call of any operator that broadcasts its two arguments.
    Broadcast(Box<[Pat; 2]>),
    /// The match of the pattern, stored in a slot.
    Keep(usize, Box<Pat>),
    /// The first of several alternatives that matches.
    Or(Vec<Pat>),
}

fn ids(names: &[&str]) -> Vec<OpId> {
    let id = |name: &&str| {
        let id = registry().find(name);
        id.unwrap_or_else(|| panic!("a pattern names `{name}`, which is no operator"))
    };
    names.iter().map(id).collect()
}

/// Matches anything.
pub fn x(slot: usize) -> Pat {
    Pat::Any(slot)
}
/// Matches a constant.
pub fn c(slot: usize) -> Pat {
    Pat::Const(slot)
}
/// Matches a call of one of the operators.
pub fn op<const N: usize>(names: &[&str], args: [Pat; N]) -> Pat {
    Pat::Op {
        ops: ids(names),
        args: args.into(),
        any_order: false,
    }
}
/// Matches a call of one of the operators, whose two arguments may be in either order.
pub fn any_order(names: &[&str], args: [Pat; 2]) -> Pat {
    Pat::Op {
        ops: ids(names),
        args: args.into(),
        any_order: true,
    }
}
/// Matches a call of a broadcasting operator.
pub fn broadcast(a: Pat, b: Pat) -> Pat {
    Pat::Broadcast(Box::new([a, b]))
}
/// Matches one of several patterns.
pub fn or(all: impl Into<Vec<Pat>>) -> Pat {
    Pat::Or(all.into())
}
impl Pat {
    /// Stores the match in a slot.
    pub fn keep(self, slot: usize) -> Pat {
        Pat::Keep(slot, Box::new(self))
    }

    /// Matches an expression; returns the slots.
    pub fn find(&self, edit: &Edit<'_>, e: ExprId) -> Option<Found> {
        let mut found = Found {
            root: e,
            slots: [None; Found::SLOTS],
        };
        self.step(edit, e, &mut found).then_some(found)
    }

    fn step(&self, edit: &Edit<'_>, e: ExprId, found: &mut Found) -> bool {
        match self {
            Pat::Any(slot) => found.put(edit, *slot, e),
            Pat::Const(slot) => edit.constant_value(e).is_some() && found.put(edit, *slot, e),
            Pat::Keep(slot, pat) => pat.step(edit, e, found) && found.put(edit, *slot, e),
            Pat::Or(all) => all.iter().any(|p| {
                let mut trial = found.clone();
                let ok = p.step(edit, e, &mut trial);
                if ok {
                    *found = trial;
                }
                ok
            }),
            Pat::Op {
                ops,
                args,
                any_order,
            } => {
                let Some((op, _, given)) = edit.callee(e) else {
                    return false;
                };
                if !ops.contains(&op) || given.len() != args.len() {
                    return false;
                }
                all(edit, args, given, found)
                    || *any_order && all(edit, args, &[given[1], given[0]], found)
            }
            Pat::Broadcast(args) => {
                let Some((_, def, given)) = edit.callee(e) else {
                    return false;
                };
                def.fusion == Fusion::Broadcast
                    && given.len() == 2
                    && all(edit, &args[..], given, found)
            }
        }
    }
}

fn all(edit: &Edit<'_>, pats: &[Pat], args: &[ExprId], found: &mut Found) -> bool {
    let mut trial = found.clone();
    let ok = (pats.iter().zip(args)).all(|(p, &a)| p.step(edit, a, &mut trial));
    if ok {
        *found = trial;
    }
    ok
}

/// A match.
#[derive(Clone, Debug)]
pub struct Found {
    /// The expression that matched.
    pub root: ExprId,
    slots: [Option<ExprId>; Found::SLOTS],
}

impl Found {
    const SLOTS: usize = 9;

    fn put(&mut self, edit: &Edit<'_>, slot: usize, e: ExprId) -> bool {
        match self.slots[slot] {
            None => {
                self.slots[slot] = Some(e);
                true
            }
            Some(old) => edit.same(old, e),
        }
    }
    /// Returns the contents of a slot.
    ///
    /// # Panics
    /// The pattern has no such slot.
    pub fn get(&self, slot: usize) -> ExprId {
        self.slots[slot].expect("the pattern fills the slot")
    }
    /// Returns the contents of a slot that only one branch of the pattern fills.
    pub fn maybe(&self, slot: usize) -> Option<ExprId> {
        self.slots[slot]
    }
    /// Returns the matched call.
    pub fn call(&self, edit: &Edit<'_>) -> OpCall {
        edit.op_call(self.root).expect("the pattern is a call")
    }
}

/// Returns the replacement of a match, which must have the same type. `None` leaves it unchanged.
pub type Rewrite = fn(&mut Edit<'_>, &Found) -> Option<ExprId>;

/// Rules, in order of preference.
pub struct Rules {
    /// The rules that apply to calls of each operator.
    by_op: FxHashMap<OpId, Vec<usize>>,
    /// The rules that apply to calls of any other operator.
    any: Vec<usize>,
    rules: Vec<(Pat, Rewrite)>,
}

impl Rules {
    /// Indexes rules by operator.
    pub fn new(rules: Vec<(Pat, Rewrite)>) -> Rules {
        let mut this = Rules {
            by_op: FxHashMap::default(),
            any: Vec::new(),
            rules,
        };
        for (i, (pat, _)) in this.rules.iter().enumerate() {
            let mut open = vec![pat];
            while let Some(pat) = open.pop() {
                match pat {
                    Pat::Op { ops, .. } => {
                        for op in ops {
                            this.by_op.entry(*op).or_default().push(i);
                        }
                    }
                    Pat::Keep(_, inner) => open.push(inner),
                    Pat::Or(all) => open.extend(all),
                    Pat::Broadcast(_) => this.any.push(i),
                    Pat::Any(_) | Pat::Const(_) => {}
                }
            }
        }
        for mine in this.by_op.values_mut() {
            mine.extend(&this.any);
            mine.sort_unstable();
            mine.dedup();
        }
        this
    }

    /// Runs a pass that consists of rules: applies them everywhere until none applies, and counts what
    /// they did.
    ///
    /// # Errors
    /// The module has type errors.
    pub fn run(self, cx: &mut PassCx<'_>, what: &'static str) -> Result<(), Diagnostics> {
        let typing = cx.typing()?;
        let count = self.fixpoint(&mut Edit::new(cx.module, &typing));
        cx.count(what, count);
        Ok(())
    }

    fn apply(&self, edit: &mut Edit<'_>, e: ExprId) -> Option<ExprId> {
        let (op, ..) = edit.callee(e)?;
        for &i in self.by_op.get(&op).unwrap_or(&self.any) {
            let (pat, rewrite) = &self.rules[i];
            if let Some(found) = pat.find(edit, e)
                && let Some(new) = rewrite(edit, &found)
                && new != e
            {
                return Some(new);
            }
        }
        None
    }

    /// Applies the rules everywhere until none applies; returns the number of applications.
    pub fn fixpoint(&self, edit: &mut Edit<'_>) -> u64 {
        let mut total = 0;
        loop {
            let mut count = 0;
            edit.ask_readers();
            edit.rewrite(|edit, old, node| {
                let mut node = node;
                edit.shares(old, node);
                while let Some(new) = self.apply(edit, node) {
                    if !edit.typed(new) {
                        let ty = edit.ty(node);
                        edit.set_ty(new, ty);
                    }
                    node = new;
                    count += 1;
                }
                edit.shares(old, node);
                node
            });
            total += count;
            if count == 0 {
                return total;
            }
        }
    }
}

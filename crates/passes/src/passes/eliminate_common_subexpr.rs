//! `eliminate-common-subexpr`: merges calls of a pure operator on the same operands.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use relax_base::Diagnostics;
use relax_ir::{Expr, ExprId, ExprList, Memo, Module};
use relax_ops::Effects;
use rustc_hash::FxHasher;

use crate::{Analysis, Contract, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "eliminate-common-subexpr",
    doc: "Computes equal calls of pure operators once.",
    options: &[],
    contract: Contract::PLAIN
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

/// Calls and projections seen so far, by their hashes.
struct Known {
    nodes: HashTable<(u64, ExprId)>,
}

/// Hashes the identity of an operand: the same node, or a leaf that refers to the same thing.
/// Scalar constants are compared by their bits.
fn hash_leaf(m: &Module, e: ExprId, hasher: &mut FxHasher) {
    match m.exprs[e] {
        Expr::Var(v) => (0u8, v).hash(hasher),
        Expr::Global(g) => (1u8, g).hash(hasher),
        Expr::Ctor(c) => (2u8, c).hash(hasher),
        Expr::Op(o) => (3u8, o).hash(hasher),
        Expr::Const(c) if m.consts[c].is_scalar() => {
            let value = &m.consts[c];
            (4u8, value.dtype(), value.bytes()).hash(hasher);
        }
        Expr::Const(c) => (5u8, c).hash(hasher),
        _ => (6u8, e).hash(hasher),
    }
}

fn same_leaf(m: &Module, a: ExprId, b: ExprId) -> bool {
    a == b
        || match (&m.exprs[a], &m.exprs[b]) {
            (Expr::Var(a), Expr::Var(b)) => a == b,
            (Expr::Global(a), Expr::Global(b)) => a == b,
            (Expr::Ctor(a), Expr::Ctor(b)) => a == b,
            (Expr::Op(a), Expr::Op(b)) => a == b,
            (Expr::Const(a), Expr::Const(b)) => {
                let (x, y) = (&m.consts[*a], &m.consts[*b]);
                let scalars = x.is_scalar() && y.is_scalar();
                a == b || scalars && x.dtype() == y.dtype() && x.bytes() == y.bytes()
            }
            _ => false,
        }
}

/// Hashes an operand: a leaf, or a tuple of them.
fn hash_operand(m: &Module, e: ExprId, hasher: &mut FxHasher) {
    match m.exprs[e] {
        Expr::Tuple(fields) => {
            (7u8, fields.len()).hash(hasher);
            m.list(fields).iter().for_each(|&f| hash_leaf(m, f, hasher));
        }
        _ => hash_leaf(m, e, hasher),
    }
}

fn same_operands(
    m: &Module,
    a: ExprList,
    b: ExprList,
    same: fn(&Module, ExprId, ExprId) -> bool,
) -> bool {
    let (a, b) = (m.list(a), m.list(b));
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| same(m, a, b))
}

fn same_operand(m: &Module, a: ExprId, b: ExprId) -> bool {
    match (&m.exprs[a], &m.exprs[b]) {
        (&Expr::Tuple(a), &Expr::Tuple(b)) => same_operands(m, a, b, same_leaf),
        _ => same_leaf(m, a, b),
    }
}

/// Returns the hash of a call of a pure operator, or of a projection; `None` for everything else.
fn hash_node(m: &Module, e: ExprId) -> Option<u64> {
    let mut hasher = FxHasher::default();
    match m.exprs[e] {
        Expr::Call { callee, args, .. } if !args.is_empty() => {
            let Expr::Op(op) = m.exprs[callee] else {
                return None;
            };
            let def = relax_ops::registry().get(op);
            if def.is_some_and(|d| d.effects != Effects::Pure) {
                return None;
            }
            (op, args.len()).hash(&mut hasher);
            let args = m.list(args).iter();
            args.for_each(|&a| hash_operand(m, a, &mut hasher));
        }
        Expr::Proj { tuple, index } => {
            index.hash(&mut hasher);
            hash_leaf(m, tuple, &mut hasher);
        }
        _ => return None,
    }
    Some(hasher.finish())
}

fn same_node(m: &Module, a: ExprId, b: ExprId) -> bool {
    match (&m.exprs[a], &m.exprs[b]) {
        (
            &Expr::Call {
                callee: f,
                args: x,
                attrs: p,
                ..
            },
            &Expr::Call {
                callee: g,
                args: y,
                attrs: q,
                ..
            },
        ) => {
            same_leaf(m, f, g)
                && same_operands(m, x, y, same_operand)
                && (p == q || m.attrs(p).same_spelling(m.attrs(q)))
        }
        (Expr::Proj { tuple: a, index: i }, Expr::Proj { tuple: b, index: j }) => {
            i == j && same_leaf(m, *a, *b)
        }
        _ => false,
    }
}

impl Known {
    /// Returns the first of the nodes that are equal to this one; the node itself if it is new.
    fn first(&mut self, m: &Module, e: ExprId) -> ExprId {
        let Some(hash) = hash_node(m, e) else {
            return e;
        };
        let same = |entry: &(u64, ExprId)| entry.0 == hash && same_node(m, entry.1, e);
        if let Some(&(_, found)) = self.nodes.find(hash, same) {
            return found;
        }
        self.nodes.insert_unique(hash, (hash, e), |entry| entry.0);
        e
    }
}

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let m = &mut *cx.module;
    let mut merged = 0;
    for (global, body) in m.global_bodies() {
        let mut known = Known {
            nodes: HashTable::new(),
        };
        let new = m.rewrite(body, &mut Memo::default(), |m, new, _| {
            let first = known.first(m, new);
            merged += u64::from(first != new);
            first
        });
        m.set_global_body(global, new);
    }
    cx.count("calls merged", merged);
    Ok(())
}

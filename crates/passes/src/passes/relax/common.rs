//! `relax-eliminate-common-subexpr`: replaces repeated computations by aliases of the first.
//!
//! Branches see the bindings before them, functions only their own, and after a dataflow block only
//! its outputs are visible.

use std::hash::{Hash, Hasher};

use relax_base::{Diagnostics, Symbol};
use relax_ir::{Expr, ExprId, Memo, Module, OpId, TypeId, VarId};
use relax_sym::Dim;
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::results;
use crate::code::{Code, Step, Value, each_code};
use crate::impurity::Impurity;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-eliminate-common-subexpr",
    doc: "Relax's eliminate-common-subexpr: what is bound again becomes a second name.",
    options: &[],
    contract: Contract::PLAIN,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    // Elsewhere a declared result that says something else is a check.
    let script = cx.module.is_script();
    let typing = cx.analyses.known_types(cx.module).filter(|_| script);
    let mut found = 0;
    let impurity = Impurity::of(cx)?;
    each_code(cx.module, |m, _, code| {
        let one = eliminate(m, &impurity, code);
        found += one;
        one > 0
    });
    // TVM rebuilds all functions, including those without common subexpressions.
    if let Some(typing) = typing {
        let all: Vec<_> = cx.module.global_bodies().into_iter().map(|g| g.0).collect();
        results::adopt(cx.module, &typing, &all);
    }
    cx.count("bindings that became names", found);
    Ok(())
}

/// A component of a value's key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Piece {
    Var(VarId),
    Global(relax_ir::GlobalId),
    Op(OpId),
    Extern(Symbol),
    Scalar(DType, Vec<u8>),
    Const(relax_ir::ConstId),
    Tuple(usize),
    Proj(u32),
    Call(usize, String, Vec<TypeId>),
    Shape(Vec<Dim>),
    Cast(TypeId),
}

/// Returns the components of a value; `None` if it is not a plain value.
fn pieces(m: &Module, e: ExprId) -> Option<Vec<Piece>> {
    let (mut out, mut open) = (Vec::new(), vec![e]);
    while let Some(e) = open.pop() {
        out.push(match &m.exprs[e] {
            Expr::Var(v) => Piece::Var(*v),
            Expr::Global(g) => Piece::Global(*g),
            Expr::Op(o) => Piece::Op(*o),
            Expr::Extern(n) => Piece::Extern(*n),
            Expr::Const(c) if m.metadata.stub(*c).is_none() && m.consts[*c].is_scalar() => {
                let value = &m.consts[*c];
                Piece::Scalar(value.dtype(), value.bytes().to_vec())
            }
            Expr::Const(c) => Piece::Const(*c),
            Expr::Tuple(fields) => Piece::Tuple(fields.len()),
            Expr::Proj { index, .. } => Piece::Proj(*index),
            Expr::Shape(dims) => Piece::Shape(dims.to_vec()),
            Expr::MatchCast { ty, .. } => Piece::Cast(*ty),
            Expr::Call {
                args,
                attrs,
                type_args,
                ..
            } => {
                let attrs = format!("{:?}", m.attrs(*attrs));
                Piece::Call(args.len(), attrs, m.type_args(*type_args).to_vec())
            }
            _ => return None,
        });
        let from = open.len();
        m.for_each_child(e, |c| open.push(c));
        open[from..].reverse();
    }
    Some(out)
}

fn hash(pieces: &[Piece]) -> u64 {
    let mut hasher = FxHasher::default();
    pieces.hash(&mut hasher);
    hasher.finish()
}

/// The values bound so far, and the replacements of variables.
#[derive(Default)]
struct Seen {
    values: FxHashMap<u64, Vec<(Vec<Piece>, VarId)>>,
    /// Keys of `values`, in order of insertion, so that they can be undone.
    order: Vec<u64>,
    stands: FxHashMap<VarId, VarId>,
    renamed: Vec<VarId>,
}

impl Seen {
    fn mark(&self) -> (usize, usize) {
        (self.order.len(), self.renamed.len())
    }
    fn back_to(&mut self, (values, names): (usize, usize)) {
        for key in self.order.drain(values..).rev() {
            if let Some(list) = self.values.get_mut(&key) {
                list.pop();
            }
        }
        self.names_back_to(names);
    }
    fn names_back_to(&mut self, names: usize) {
        for v in self.renamed.drain(names..) {
            self.stands.remove(&v);
        }
    }
    fn first(&self, key: u64, value: &[Piece], hidden: &FxHashSet<VarId>) -> Option<VarId> {
        let list = self.values.get(&key)?;
        let mut same = list
            .iter()
            .filter(|(p, v)| p == value && !hidden.contains(v));
        same.next().map(|(_, v)| *v)
    }
}

fn eliminate(m: &mut Module, impurity: &Impurity, code: &mut Code) -> u64 {
    let closures = impurity.closures(m, code);
    let mut seen = Seen::default();
    // Variables of dataflow blocks that have ended.
    let mut hidden = FxHashSet::default();
    let (mut marks, mut outer, mut names) = (Vec::new(), Vec::new(), 0);
    let mut of_function = vec![false; code.seqs.len()];
    for b in code.binds() {
        if let Value::Func { body, .. } = b.value {
            of_function[body] = true;
        }
    }
    let mut found = 0;
    for step in code.steps() {
        match step {
            Step::Open(s) if of_function[s] => outer.push(std::mem::take(&mut seen)),
            Step::Open(_) => marks.push(seen.mark()),
            Step::Part(..) => names = seen.renamed.len(),
            Step::PartEnd(s, p) => {
                let part = &code.seqs[s].parts[p];
                if part.flow {
                    let inner = part.binds.iter().map(|b| b.var);
                    hidden.extend(inner.filter(|v| !part.outputs.contains(v)));
                    seen.names_back_to(names);
                }
            }
            Step::Bind(s, p, i) => {
                let b = code.seqs[s].parts[p].binds[i];
                let new = match b.value {
                    Value::Plain(e) => renamed(m, e, &seen.stands),
                    Value::If { cond, .. } => renamed(m, cond, &seen.stands),
                    Value::Func { .. } => continue,
                };
                let slot = &mut code.seqs[s].parts[p].binds[i].value;
                match slot {
                    Value::Plain(e) | Value::If { cond: e, .. } => *e = new,
                    Value::Func { .. } => {}
                }
                if matches!(slot, Value::If { .. }) || impurity.bind(m, &b, &closures) {
                    continue;
                }
                let Some(value) = pieces(m, new) else {
                    continue;
                };
                let key = hash(&value);
                if let Some(first) = seen.first(key, &value, &hidden) {
                    let span = m.span(new);
                    *slot = Value::Plain(m.add(Expr::Var(first), span));
                    seen.stands.insert(b.var, first);
                    seen.renamed.push(b.var);
                    found += 1;
                }
                seen.values.entry(key).or_default().push((value, b.var));
                seen.order.push(key);
            }
            Step::Value(s) => {
                code.seqs[s].value = renamed(m, code.seqs[s].value, &seen.stands);
                if of_function[s] {
                    seen = outer.pop().unwrap_or_default();
                } else if let Some(mark) = marks.pop() {
                    seen.back_to(mark);
                }
            }
        }
    }
    found
}

fn renamed(m: &mut Module, e: ExprId, stands: &FxHashMap<VarId, VarId>) -> ExprId {
    if stands.is_empty() {
        return e;
    }
    let mut memo = Memo::default();
    m.rewrite(e, &mut memo, |m, new, _| match m.exprs[new] {
        Expr::Var(v) => match stands.get(&v) {
            Some(&first) => {
                let span = m.span(new);
                m.add(Expr::Var(first), span)
            }
            None => new,
        },
        _ => new,
    })
}

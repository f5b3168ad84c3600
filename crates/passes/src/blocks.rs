//! Passes over one dataflow block at a time.
//!
//! Everything in a dataflow block is pure and has no control flow, so such a pass may drop, add and
//! move bindings without considering effects. It sees one block and nothing of the function around
//! it. The block's [outputs](BlockCx::outputs) must stay bound to the same values, which the
//! manager checks as far as it can ([`kept`]): nothing outside the blocks changed, each block has
//! the same outputs as before, and these have the same types.

use relax_base::{Diagnostics, Span};
use relax_infer::Typing;
use relax_ir::{Binding, Block, Expr, ExprId, Memo, Module, VarId};

use crate::{Options, PassCx};

/// A pass over one dataflow block: an entry of [`each_block`].
pub type BlockPass = fn(&mut BlockCx<'_>) -> Result<(), Diagnostics>;

/// A dataflow block under rewriting.
pub struct BlockCx<'a> {
    /// The module. New values are created in it.
    pub module: &'a mut Module,
    /// The bindings, in order. The pass rewrites the block by changing them.
    pub bindings: Vec<Binding>,
    /// The types that the module had before the pass.
    pub typing: &'a Typing,
    /// The options of the pass, complete.
    pub options: &'a Options,
    outputs: &'a [VarId],
    span: Span,
    counted: &'a mut Vec<(&'static str, u64)>,
}

impl BlockCx<'_> {
    /// Returns the variables that are visible after the block, in order.
    pub fn outputs(&self) -> &[VarId] {
        self.outputs
    }
    /// Returns the source location of the block.
    pub fn span(&self) -> Span {
        self.span
    }
    /// Records a statistic, for `--stats`.
    pub fn count(&mut self, what: &'static str, n: u64) {
        self.counted.push((what, n));
    }
}

/// Runs a pass over every dataflow block of every function, inner ones first: the implementation of
/// a pass with the contract [`each_block`](crate::Contract::each_block).
///
/// # Errors
/// The errors of the pass on a block.
pub fn each_block(cx: &mut PassCx<'_>, pass: BlockPass) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let (mut counted, mut outcome) = (Vec::new(), Ok(()));
    for (global, body) in cx.module.global_bodies() {
        let mut one = |m: &mut Module, node: ExprId| {
            let Expr::Dataflow { block, body } = m.exprs[node] else {
                return Ok(node);
            };
            let Block {
                bindings,
                outputs,
                span,
            } = m.blocks[block].clone();
            let mut cx = BlockCx {
                module: m,
                bindings: bindings.clone(),
                typing: &typing,
                options: cx.options,
                outputs: &outputs,
                span,
                counted: &mut counted,
            };
            pass(&mut cx)?;
            let new = cx.bindings;
            if new == bindings {
                return Ok(node);
            }
            let block = m.blocks.push(Block {
                bindings: new,
                outputs,
                span,
            });
            let at = m.span(node);
            Ok(m.add(Expr::Dataflow { block, body }, at))
        };
        let new = cx.module.rewrite(body, &mut Memo::default(), |m, new, _| {
            if outcome.is_err() {
                return new;
            }
            one(m, new).unwrap_or_else(|errors| {
                outcome = Err(errors);
                new
            })
        });
        cx.module.set_global_body(global, new);
    }
    for (what, n) in counted {
        cx.count(what, n);
    }
    outcome
}

/// Checks that a pass over dataflow blocks changed nothing else in a function with the bodies
/// `before` and `after`; the error describes the first change.
pub(crate) fn kept(m: &Module, before: ExprId, after: ExprId) -> Result<Vec<VarId>, String> {
    let mut outputs = Vec::new();
    let mut seen = relax_ir::IdSet::new();
    let mut open = vec![(before, after)];
    while let Some((old, new)) = open.pop() {
        if old == new || !seen.insert(new) {
            continue;
        }
        if let (&Expr::Dataflow { block: b, body: x }, &Expr::Dataflow { block: c, body: y }) =
            (&m.exprs[old], &m.exprs[new])
        {
            let (b, c) = (&m.blocks[b], &m.blocks[c]);
            if b.outputs != c.outputs {
                let list = |vars: &[VarId]| {
                    let names = vars.iter().map(|v| format!("%{}", m.vars[*v].name));
                    names.collect::<Vec<_>>().join(", ")
                };
                let (was, is) = (list(&b.outputs), list(&c.outputs));
                return Err(format!(
                    "{was} left a dataflow block, and now {is} leaves it"
                ));
            }
            outputs.extend(&c.outputs);
            open.push((x, y));
            continue;
        }
        let parts = |e: ExprId| {
            let mut parts = Vec::new();
            m.for_each_child(e, |c| parts.push(c));
            parts
        };
        let (x, y) = (parts(old), parts(new));
        let same = std::mem::discriminant(&m.exprs[old]) == std::mem::discriminant(&m.exprs[new]);
        if !same || x.len() != y.len() || x.is_empty() {
            return Err("something outside of the dataflow blocks is not what it was".into());
        }
        open.extend(x.into_iter().zip(y));
    }
    Ok(outputs)
}

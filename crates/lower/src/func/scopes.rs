//! Scopes: the scopes that a node opens are emitted after it, from an explicit stack.

use relax_ir::{Expr, ExprId};

use super::{FnLower, Result};
use crate::lir::{BlockId, Reg, Term};

/// The continuation after the nodes of a scope.
pub(super) enum Then {
    /// The function ends with the scope's value.
    Return,
    /// The value is that of a `let` or dataflow node.
    Node(ExprId),
    /// The value is bound to the variable of the next binding of a dataflow block.
    Dataflow(ExprId, usize),
    /// The value is handed to the block after a branching node; then its next branch follows.
    Branch(ExprId, usize),
}

/// A scope that is being emitted.
pub(super) struct Frame {
    pub scope: relax_ir::ScopeId,
    pub next: usize,
    pub root: ExprId,
    pub tail: bool,
    pub then: Then,
}

/// A branching node whose branches are being emitted.
pub(super) struct Branching {
    /// The block in which the branches join, unless they end the function.
    pub join: Option<BlockId>,
    /// Block, scope and value of each branch.
    pub branches: Vec<(BlockId, relax_ir::ScopeId, ExprId)>,
}

impl FnLower<'_, '_> {
    /// Emits a node that opens scopes, up to the first of them.
    pub(super) fn open(&mut self, e: ExprId, tail: bool) -> Result<()> {
        let m = self.m();
        match &m.exprs[e] {
            Expr::Let { var, value, body } => {
                if !matches!(m.exprs[*value], Expr::Func(f) if self.lw.fused_kernel(f).is_none()) {
                    let r = self.value(*value)?;
                    self.bind(*var, r);
                }
                let scope = self.info.opened[&e][0];
                self.frames.push(Frame {
                    scope,
                    next: 0,
                    root: *body,
                    tail,
                    then: Then::Node(e),
                });
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.value(*cond)?;
                let scopes = self.info.opened[&e].clone();
                let (yes, no) = (self.block(Vec::new()), self.block(Vec::new()));
                self.end(Term::If {
                    cond,
                    then: yes,
                    otherwise: no,
                });
                let branches = vec![(yes, scopes[0], *then), (no, scopes[1], *otherwise)];
                self.branches(e, branches, tail);
            }
            Expr::Match { value, clauses, .. } => {
                let src = self.value(*value)?;
                let scopes = self.info.opened[&e].clone();
                let blocks = self.decide(e, src, clauses)?;
                let branches = (blocks.into_iter().zip(scopes).zip(clauses.iter()))
                    .map(|((block, scope), clause)| (block, scope, clause.body))
                    .collect();
                self.branches(e, branches, tail);
            }
            Expr::Dataflow { block, .. } => {
                let bindings = &m.blocks[*block].bindings;
                let Some(b) = bindings.first() else {
                    // Passes may have removed all of it.
                    let Expr::Dataflow { body, .. } = m.exprs[e] else {
                        unreachable!("a dataflow node")
                    };
                    let r = self.value(body)?;
                    self.nodes.insert(e, r);
                    return self.checks(e, r);
                };
                let r = self.value(b.value)?;
                self.dataflow_bound(e, 0, r, tail);
            }
            _ => {}
        }
        Ok(())
    }

    /// Emits scopes until none is left.
    pub(super) fn walk(&mut self) -> Result<()> {
        while let Some(frame) = self.frames.last_mut() {
            let (scope, root, tail) = (frame.scope, frame.root, frame.tail);
            let node = self
                .info
                .nodes
                .get(&scope)
                .and_then(|n| n.get(frame.next))
                .copied();
            frame.next += 1;
            match node {
                Some(e) => {
                    // A value with checks must return to this function first.
                    let tail = tail && e == root && !self.checked(e);
                    if tail && self.tail_call(e)? {
                        self.end_frame();
                    } else {
                        self.node(e, tail)?;
                    }
                }
                None => {
                    let r = self.value(root)?;
                    if tail {
                        self.end(Term::Return(r));
                        self.end_frame();
                    } else {
                        let frame = self.frames.pop().expect("looked at above");
                        self.finished(frame.then, r)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The last frame, in tail position, has ended the function: so have the frames around it whose
    /// value it is, up to a branching node with a branch still to be emitted.
    pub(super) fn end_frame(&mut self) {
        while let Some(frame) = self.frames.pop() {
            match frame.then {
                Then::Return => return,
                Then::Node(_) | Then::Dataflow(..) => {}
                Then::Branch(e, k) => {
                    if self.start_branch(e, k + 1, true) {
                        return;
                    }
                }
            }
        }
    }

    /// A scope in another position has the value `r`.
    pub(super) fn finished(&mut self, then: Then, r: Reg) -> Result<()> {
        match then {
            Then::Return => unreachable!("the body of a function is in tail position"),
            Then::Node(e) => {
                self.nodes.insert(e, r);
                self.checks(e, r)?;
            }
            Then::Dataflow(e, k) => self.dataflow_bound(e, k, r, false),
            Then::Branch(e, k) => {
                let join = self.branching[&e].join.expect("not in tail position");
                self.end(Term::Jump(join, vec![r]));
                if !self.start_branch(e, k + 1, false) {
                    self.cur = join;
                    let value = self.f.blocks[join].params[0];
                    self.nodes.insert(e, value);
                    self.checks(e, value)?;
                }
            }
        }
        Ok(())
    }

    /// Starts branch `k` of a branching node; `false` when there is none.
    pub(super) fn start_branch(&mut self, e: ExprId, k: usize, tail: bool) -> bool {
        let Some(&(block, scope, root)) = self.branching[&e].branches.get(k) else {
            return false;
        };
        self.cur = block;
        self.frames.push(Frame {
            scope,
            next: 0,
            root,
            tail,
            then: Then::Branch(e, k),
        });
        true
    }

    /// Sets up the branches of a node and starts the first. Clause bodies of a `match` have blocks
    /// already; others get fresh ones.
    pub(super) fn branches(
        &mut self,
        e: ExprId,
        branches: Vec<(BlockId, relax_ir::ScopeId, ExprId)>,
        tail: bool,
    ) {
        let join = (!tail).then(|| {
            let r = self.reg();
            self.note_form(self.type_of(e), r);
            self.block(vec![r])
        });
        self.branching.insert(e, Branching { join, branches });
        self.start_branch(e, 0, tail);
    }

    /// Binding `k` of a dataflow block has its value; continues with the next, or with the body.
    pub(super) fn dataflow_bound(&mut self, e: ExprId, k: usize, r: Reg, tail: bool) {
        let m = self.m();
        let Expr::Dataflow { block, body } = m.exprs[e] else {
            unreachable!("a dataflow node")
        };
        let bindings = &m.blocks[block].bindings;
        self.bind(bindings[k].var, r);
        let scope = self.info.opened[&e][k];
        let (root, then, tail) = match bindings.get(k + 1) {
            Some(next) => (next.value, Then::Dataflow(e, k + 1), false),
            None => (body, Then::Node(e), tail || self.is_tail(e)),
        };
        self.frames.push(Frame {
            scope,
            next: 0,
            root,
            tail,
            then,
        });
    }

    /// Returns whether a node is the value of a frame in tail position.
    pub(super) fn is_tail(&self, e: ExprId) -> bool {
        self.frames.last().is_some_and(|f| f.tail && f.root == e) && !self.checked(e)
    }
}

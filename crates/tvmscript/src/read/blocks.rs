//! The ends of blocks: dataflow blocks, branches and nested functions become expressions.

use relax_base::{Span, Symbol};
use relax_ir::{Binding, Block, Expr, ExprId, TypeId, Var, VarId, VarStyle};

use super::Reader;
use super::control::{Branch, Frame, Kind, Step};
use super::value::Val;
use crate::ast::StmtKind;
use crate::codes;

impl Reader<'_> {
    pub(super) fn chain(&mut self, steps: &[Step], mut body: ExprId) -> ExprId {
        for step in steps.iter().rev() {
            body = match *step {
                Step::Bind(var, value) => {
                    let span = self.m.vars[var].span;
                    self.m.add(Expr::Let { var, value, body }, span)
                }
                Step::Flow(block) => {
                    let span = self.m.blocks[block].span;
                    self.m.add(Expr::Dataflow { block, body }, span)
                }
            };
        }
        body
    }

    /// Ends a block.
    pub(super) fn close(&mut self, frame: Frame, frames: &mut Vec<Frame>) {
        match frame.kind {
            Kind::Function(_) => {
                let span = frame.span;
                // The name was bound before the parameters were.
                let (function, name) = self.close_function(frame);
                let func = self.m.funcs.push(function);
                let value = self.m.add(Expr::Func(func), span);
                self.bind_step(name, None, value, span, frames);
            }
            Kind::Flow(outputs) => {
                self.close_flow(frame.steps, outputs, frame.span, frame.mark, frames)
            }
            Kind::Then(cond) => {
                let branch = self.branch(frame.steps, frame.span);
                self.unbind(frame.mark);
                let next = self.ast.stmts.get(frame.end as usize).copied();
                let inside = frames.last().is_some_and(|f| frame.end < f.end);
                match next {
                    Some(next) if inside && next.kind == StmtKind::Else => {
                        let mut own =
                            Frame::new(Kind::Else(cond, branch), &next, self.hidden.len());
                        own.span = frame.span;
                        own.at = Some(frame.end);
                        frames.push(own);
                    }
                    _ => {
                        let message =
                            "an `if` of Relax has an `else`: its value is what both branches bind";
                        self.error(codes::STRUCTURE, frame.span, message);
                    }
                }
            }
            Kind::Else(cond, then) => {
                let branch = self.branch(frame.steps, frame.span);
                self.unbind(frame.mark);
                let (Some(a), Some(b)) = (then, branch) else {
                    return;
                };
                if a.name != b.name {
                    let message = format!(
                        "the branches end by binding `{}` and `{}`: they must bind the same name",
                        a.name, b.name
                    );
                    self.error(codes::STRUCTURE, frame.span, message);
                }
                let value = Expr::If {
                    cond,
                    then: a.value,
                    otherwise: b.value,
                };
                let value = self.m.add(value, frame.span);
                let ty = if a.ty == b.ty { a.ty } else { None };
                self.bind_step(b.name, ty, value, frame.span, frames);
                let bound = frames.last().and_then(|f| f.steps.last());
                if let (true, Some(&Step::Bind(var, _))) = (a.scalar && b.scalar, bound) {
                    self.mark_scalar(var);
                }
            }
        }
    }

    pub(super) fn bind_step(
        &mut self,
        name: Symbol,
        ty: Option<TypeId>,
        value: ExprId,
        span: Span,
        frames: &mut [Frame],
    ) {
        // A nested function refers to itself by the variable that was created for it.
        let own = match (&self.m.exprs[value], self.names.get(&name)) {
            (Expr::Func(_), Some(Val::Expr(e))) => match self.m.exprs[*e] {
                Expr::Var(v) if self.m.vars[v].span == span => Some(v),
                _ => None,
            },
            _ => None,
        };
        let var = own.unwrap_or_else(|| {
            self.m.vars.push(Var {
                name,
                ty,
                span,
                style: VarStyle::Binding,
            })
        });
        if let Some(frame) = frames.last_mut() {
            frame.steps.push(Step::Bind(var, value));
        }
        let e = self.m.add(Expr::Var(var), span);
        self.bind(name, Val::Expr(e));
    }

    pub(super) fn close_flow(
        &mut self,
        steps: Vec<Step>,
        outputs: Option<Vec<VarId>>,
        span: Span,
        mark: usize,
        frames: &mut [Frame],
    ) {
        let mut bindings = Vec::with_capacity(steps.len());
        for step in steps {
            if let Step::Bind(var, value) = step {
                bindings.push(Binding { var, value });
            }
        }
        let outputs = outputs.unwrap_or_default();
        self.unbind(mark);
        for &v in &outputs {
            let name = self.m.vars[v].name;
            let e = self.m.add(Expr::Var(v), self.m.vars[v].span);
            self.bind(name, Val::Expr(e));
        }
        let block = self.m.blocks.push(Block {
            bindings,
            outputs,
            span,
        });
        if let Some(frame) = frames.last_mut() {
            frame.steps.push(Step::Flow(block));
        }
    }

    /// Returns the value of a branch: that of its last binding.
    pub(super) fn branch(&mut self, mut steps: Vec<Step>, span: Span) -> Option<Branch> {
        match steps.pop() {
            Some(Step::Bind(var, value)) if self.m.vars[var].style == VarStyle::Binding => {
                let (name, ty) = (self.m.vars[var].name, self.m.vars[var].ty);
                let marks = self.m.var_attrs.get(&var);
                let scalar = marks.is_some_and(|a| a.get("scalar").is_some());
                let value = self.chain(&steps, value);
                Some(Branch {
                    name,
                    ty,
                    value,
                    scalar,
                })
            }
            Some(Step::Flow(_)) => {
                self.keep("a branch that ends in a dataflow block", span);
                None
            }
            _ => {
                if !self.damaged && self.keep.is_none() {
                    self.error(
                        codes::STRUCTURE,
                        span,
                        "a branch ends by binding the name that is its value",
                    );
                }
                None
            }
        }
    }
}

//! Control flow: the next expression to run, and the continuations that wait for its value.

use relax_ir::{Clause, Expr, ExprId, PatId, Pattern, VarId};
use rustc_hash::FxHashMap;

use super::{Frame, Machine, State};
use crate::passes::partial_eval::value::{Known, Value};

/// The result of matching a value against a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Yes,
    No,
    Unknown,
}

impl Machine<'_, '_> {
    pub(super) fn eval(&mut self, e: ExprId) -> State {
        match &self.edit.m.exprs[e] {
            &Expr::Let { var, value, body } => {
                self.frames.push(Frame::Let { var, body });
                match self.edit.m.exprs[value] {
                    Expr::Func(f) => self.function(value, f, Some(var)),
                    _ => State::Eval(value),
                }
            }
            &Expr::Func(f) => self.function(e, f, None),
            &Expr::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.atom(cond);
                if let Known::Tensor(t) = self.known(cond) {
                    return State::Eval(if t.get_i64(0) != 0 { then } else { otherwise });
                }
                let (cond, mark) = (self.name(cond), self.open());
                self.frames.push(Frame::Then {
                    node: e,
                    cond,
                    mark,
                });
                State::Eval(then)
            }
            Expr::Match { value, clauses, .. } => {
                let (value, clauses) = (*value, clauses.clone());
                let value = self.atom(value);
                for clause in &clauses {
                    let mut bound = Vec::new();
                    match self.matches(clause.pattern, value, &mut bound) {
                        Match::Yes => {
                            self.local().vars.extend(bound);
                            return State::Eval(clause.body);
                        }
                        Match::No => {}
                        Match::Unknown => break,
                    }
                }
                let value = self.name(value);
                self.clause(e, value, Vec::with_capacity(clauses.len()))
            }
            &Expr::Call { callee, args, .. } => {
                let args = self.edit.m.list(args).to_vec();
                self.call(e, callee, &args)
            }
            _ => State::Done(self.atom(e)),
        }
    }

    /// Begins a list of bindings that runs only under a condition, or at another time.
    pub(super) fn open(&mut self) -> usize {
        self.lists.push(Vec::new());
        self.store.mark()
    }

    pub(super) fn resume(&mut self, frame: Frame, value: Value) -> State {
        match frame {
            Frame::Let { var, body } => {
                self.insert(var, value);
                State::Eval(body)
            }
            Frame::Then { node, cond, mark } => {
                let then = self.close(value);
                self.store.rewind(mark);
                let mark = self.open();
                let frame = Frame::Else {
                    node,
                    cond,
                    then,
                    mark,
                };
                self.frames.push(frame);
                let Expr::If { otherwise, .. } = self.edit.m.exprs[node] else {
                    unreachable!("the frame is of an `if`")
                };
                State::Eval(otherwise)
            }
            Frame::Else {
                node,
                cond,
                then,
                mark,
            } => {
                let otherwise = self.close(value);
                self.store.rewind(mark);
                self.store.invalidate();
                let span = self.edit.m.span(node);
                let new = Expr::If {
                    cond,
                    then,
                    otherwise,
                };
                let new = self.edit.m.add(new, span);
                State::Done(self.unknown(new, node))
            }
            Frame::Clause {
                node,
                value: scrutinee,
                mut done,
                pattern,
                mark,
            } => {
                let body = self.close(value);
                self.store.rewind(mark);
                done.push(Clause { pattern, body });
                self.clause(node, scrutinee, done)
            }
            Frame::Body {
                node,
                mut function,
                closure,
                name,
                fuel,
                mark,
            } => {
                function.body = self.close(value);
                self.store.rewind(mark);
                self.locals.pop();
                self.refuel(closure.func, fuel);
                let func = self.edit.m.funcs.push(*function);
                let span = self.edit.m.span(node);
                let new = self.edit.m.add(Expr::Func(func), span);
                self.item((name.0, new));
                State::Done(self.slot(Known::Closure(closure), name.1))
            }
            Frame::Call { func, fuel } => {
                self.locals.pop();
                self.refuel(func, fuel);
                State::Done(value)
            }
        }
    }

    /// Continues with the next clause of a `match` that is decided at run time, or its end.
    fn clause(&mut self, node: ExprId, value: ExprId, done: Vec<Clause>) -> State {
        let Expr::Match {
            clauses, complete, ..
        } = &self.edit.m.exprs[node]
        else {
            unreachable!("the frame is of a `match`")
        };
        let Some(&clause) = clauses.get(done.len()) else {
            let complete = *complete;
            self.store.invalidate();
            let span = self.edit.m.span(node);
            let new = Expr::Match {
                value,
                clauses: done.into(),
                complete,
            };
            let new = self.edit.m.add(new, span);
            return State::Done(self.unknown(new, node));
        };
        let mark = self.open();
        let mut vars = FxHashMap::default();
        for old in self.edit.m.pattern_vars(clause.pattern) {
            let (var, name) = self.fresh(old);
            vars.insert(old, var);
            let value = self.slot(Known::Nothing, name);
            self.insert(old, value);
        }
        let pattern = self.edit.m.rename_pattern(clause.pattern, &vars);
        self.frames.push(Frame::Clause {
            node,
            value,
            done,
            pattern,
            mark,
        });
        State::Eval(clause.body)
    }

    /// Returns whether a value matches a pattern, and the values of the pattern's variables.
    fn matches(&self, pattern: PatId, value: Value, bound: &mut Vec<(VarId, Value)>) -> Match {
        let mut stack = vec![(pattern, value)];
        let mut found = Match::Yes;
        while let Some((pattern, value)) = stack.pop() {
            match (&self.edit.m.patterns[pattern], self.known(value)) {
                (Pattern::Wildcard, _) => {}
                (Pattern::Var(v), _) => bound.push((*v, value)),
                (Pattern::Ctor(c, args), Known::Data(ctor, fields)) => {
                    if c != ctor {
                        return Match::No;
                    }
                    stack.extend(args.iter().copied().zip(fields.iter().copied()).rev());
                }
                (Pattern::Tuple(args), Known::Tuple(fields)) => {
                    stack.extend(args.iter().copied().zip(fields.iter().copied()).rev());
                }
                _ => found = Match::Unknown,
            }
        }
        found
    }
}

//! Purity: which expressions can be dropped or moved because their evaluation has no effects.
//!
//! Follows TVM's rules: functions that are passed as values (parameters, fields, cells) may have
//! any effect when called; the effects of operators are in their definitions.

use rayon::prelude::*;
use relax_base::SideTable;
use relax_infer::Typing;
use relax_ir::{Expr, ExprId, GlobalId, IdTable, Module, Type, TypeId, VarId};
use relax_ops::Lowering;

use crate::util::called_op;

/// The purity of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pure {
    /// Whether evaluating it has no side effects.
    eval: bool,
    /// For functions: whether calling it has no side effects.
    call: bool,
}

impl Default for Pure {
    fn default() -> Pure {
        Pure {
            eval: true,
            call: true,
        }
    }
}

/// The pure functions of a module: evaluating a call of one has no side effects. Programs
/// (`prim_func`) write to memory, and nothing is known about globals that did not exist: these are
/// not pure.
#[derive(Clone, Debug)]
pub(crate) struct Effects {
    pure: SideTable<GlobalId, bool>,
    /// Functions that may create reference cells, if only for their own use: a call of one could be
    /// dropped, but typing considers it an effect.
    cells: SideTable<GlobalId, bool>,
}

impl Effects {
    /// Computes an optimistic fixpoint: functions are assumed to be pure until something in them is
    /// not; each iteration can only find more impure ones, so it terminates. Functions are analysed
    /// in parallel, based on the previous iteration.
    pub fn of(m: &Module, typing: &Typing) -> Effects {
        let [mut pure, mut cells] = [(); 2].map(|()| SideTable::with_default(false));
        let bodies = m.global_bodies();
        for &(global, _) in &bodies {
            pure.set(global, true);
            cells.set(
                global,
                m.global_func(global).is_some_and(|f| !typing.pure[f]),
            );
        }
        let mut this = Effects { pure, cells };
        loop {
            let impure = |&(global, body): &(GlobalId, ExprId)| {
                let found = this.pure[global].then(|| Purity::of(m, typing, &this, body))?;
                (!(found.exprs[body].eval && found.exprs[body].call)).then_some(global)
            };
            let found: Vec<GlobalId> = bodies.par_iter().filter_map(impure).collect();
            if found.is_empty() {
                return this;
            }
            for global in found {
                this.pure.set(global, false);
            }
        }
    }

    /// Returns whether every callee that is pure here is pure in `other`, and none makes cells only
    /// there: it may be used in its place.
    pub fn within(&self, other: &Effects, m: &Module) -> bool {
        let holds = |g| (!self.pure[g] || other.pure[g]) && (self.cells[g] || !other.cells[g]);
        m.globals.ids().all(holds)
    }
}

/// The pure expressions of a function.
#[derive(Debug)]
pub(crate) struct Purity {
    exprs: IdTable<ExprId, Pure>,
    vars: IdTable<VarId, Pure>,
    /// Whether evaluating it creates a reference cell, which has an identity, or reads a tensor
    /// whose memory is freed.
    fresh: IdTable<ExprId, bool>,
    /// For functions: whether calling it may create reference cells, if only for its own use.
    cells: IdTable<ExprId, bool>,
    var_cells: IdTable<VarId, bool>,
    /// Variables of tensors in blocks of memory: these have their value only up to a certain point.
    placed: IdTable<VarId, bool>,
}

impl Purity {
    /// Computes the purity of everything under the body of a function.
    pub fn of(m: &Module, typing: &Typing, effects: &Effects, body: ExprId) -> Purity {
        let mut this = Purity {
            exprs: IdTable::default(),
            vars: IdTable::default(),
            fresh: IdTable::default(),
            cells: IdTable::default(),
            var_cells: IdTable::default(),
            placed: IdTable::default(),
        };
        let order = m.post_order([body]);
        this.find_placed(m, &order);
        // Functions that come from elsewhere may have any effect; closures that are bound here are
        // assumed to be pure at first, as functions are.
        for &e in &order {
            if let Expr::Var(v) = m.exprs[e] {
                let call = first_order(m, typing.vars[v]);
                this.vars.set(v, Pure { eval: true, call });
            }
        }
        for &e in &order {
            if let Expr::Let { var, .. } = m.exprs[e] {
                this.vars.set(var, Pure::default());
            }
        }
        loop {
            for &e in &order {
                this.expr(m, typing, effects, e);
            }
            let mut changed = false;
            for &e in &order {
                let Expr::Let { var, value, .. } = m.exprs[e] else {
                    continue;
                };
                let found = (this.exprs[value].call, this.cells[value]);
                if (this.vars[var].call, this.var_cells[var]) != found {
                    this.vars.entry(var).call = found.0;
                    this.var_cells.set(var, found.1);
                    changed = true;
                }
            }
            if !changed {
                return this;
            }
        }
    }

    /// Returns whether evaluating an expression has no side effects.
    pub fn eval(&self, e: ExprId) -> bool {
        self.exprs[e].eval
    }

    /// Returns whether calling the function that an expression gives has no side effects.
    pub fn call(&self, e: ExprId) -> bool {
        self.exprs[e].call
    }

    /// Returns whether an expression is a call of a function that may create reference cells, if
    /// only for its own use.
    pub fn makes_cells(&self, m: &Module, e: ExprId) -> bool {
        matches!(m.exprs[e], Expr::Call { callee, .. } if self.cells[callee])
    }

    /// Returns whether an expression may be evaluated elsewhere, or more than once.
    pub fn movable(&self, e: ExprId) -> bool {
        self.eval(e) && !self.fresh[e]
    }

    /// Finds the results of calls that write into memory, variables that are ended, and their
    /// aliases.
    fn find_placed(&mut self, m: &Module, order: &[ExprId]) {
        let is = |e, lowering| called_op(m, e).is_some_and(|d| d.hooks.lowering == lowering);
        let writes = |e| is(e, Lowering::CallTirInplace);
        let mut any = false;
        for &e in order {
            let ends = is(e, Lowering::Kill);
            any |= ends || writes(e);
            if ends {
                m.for_each_child(e, |c| {
                    if let Expr::Var(v) = m.exprs[c] {
                        self.placed.set(v, true);
                    }
                });
            }
        }
        if !any {
            return;
        }
        // Outer bindings come after inner ones.
        for &e in order.iter().rev() {
            if let Expr::Let { var, value, .. } = m.exprs[e]
                && (writes(value) || self.is_alias(m, value))
            {
                self.placed.set(var, true);
            }
        }
    }

    /// Returns whether a value may be a tensor in a block of memory: operators give new ones,
    /// functions and branches perhaps what they read.
    fn is_alias(&self, m: &Module, value: ExprId) -> bool {
        let placed = |e: &ExprId| matches!(m.exprs[*e], Expr::Var(v) if self.placed[v]);
        match m.exprs[value] {
            Expr::Var(_) => placed(&value),
            Expr::Call { .. } if called_op(m, value).is_some() => false,
            Expr::Func(_) => false,
            _ => m.post_order([value]).iter().any(placed),
        }
    }

    fn expr(&mut self, m: &Module, typing: &Typing, effects: &Effects, e: ExprId) {
        let cells = match &m.exprs[e] {
            Expr::Var(v) => self.var_cells[*v],
            Expr::Global(g) => effects.cells[*g],
            Expr::Func(f) => !typing.pure[*f],
            Expr::Let { body, .. } | Expr::Dataflow { body, .. } => self.cells[*body],
            Expr::If {
                then, otherwise, ..
            } => self.cells[*then] || self.cells[*otherwise],
            Expr::Match { clauses, .. } => clauses.iter().any(|c| self.cells[c.body]),
            _ => false,
        };
        self.cells.set(e, cells);
        let mut fresh = match m.exprs[e] {
            Expr::RefNew(_) => true,
            Expr::Var(v) => self.placed[v],
            _ => self.makes_cells(m, e),
        };
        if !matches!(m.exprs[e], Expr::Func(_)) {
            m.for_each_child(e, |c| fresh |= self.fresh[c]);
        }
        self.fresh.set(e, fresh);
        let mut eval = true;
        m.for_each_child(e, |c| eval &= self.exprs[c].eval);
        let pure = match &m.exprs[e] {
            Expr::Var(v) => Pure {
                eval: true,
                call: self.vars[*v].call,
            },
            Expr::Global(g) => Pure {
                eval: true,
                call: effects.pure[*g],
            },
            Expr::Op(op) => {
                let call = match relax_ops::registry().get(*op) {
                    Some(def) => def.effects == relax_ops::Effects::Pure,
                    None => true,
                };
                Pure { eval: true, call }
            }
            Expr::Extern(_) => Pure {
                eval: true,
                call: false,
            },
            Expr::Func(f) => {
                let body = self.exprs[m.funcs[*f].body];
                Pure {
                    eval: true,
                    call: body.eval && body.call,
                }
            }
            Expr::Let { body, .. } | Expr::Dataflow { body, .. } => Pure {
                eval,
                call: self.exprs[*body].call,
            },
            Expr::Call { callee, .. } => {
                let call = self.exprs[*callee].call;
                let plain = first_order(m, typing.exprs[e]);
                Pure {
                    eval: eval && call,
                    call: plain || call,
                }
            }
            Expr::If {
                then, otherwise, ..
            } => {
                let call = self.exprs[*then].call && self.exprs[*otherwise].call;
                Pure { eval, call }
            }
            Expr::Match { clauses, .. } => Pure {
                eval,
                call: clauses.iter().all(|c| self.exprs[c.body].call),
            },
            Expr::Proj { .. } | Expr::MatchShape { .. } | Expr::MatchCast { .. } => Pure {
                eval,
                call: first_order(m, typing.exprs[e]),
            },
            Expr::RefRead(_) => Pure {
                eval: false,
                call: first_order(m, typing.exprs[e]),
            },
            Expr::RefWrite(..) => Pure {
                eval: false,
                call: true,
            },
            Expr::RefNew(_)
            | Expr::Tuple(_)
            | Expr::Const(_)
            | Expr::Ctor(_)
            | Expr::Shape(_)
            | Expr::Error => Pure { eval, call: true },
        };
        // A run-time check is an effect: it may abort the program.
        let eval =
            pure.eval && !matches!(m.exprs[e], Expr::MatchShape { .. } | Expr::MatchCast { .. });
        self.exprs.set(e, Pure { eval, ..pure });
    }
}

/// Returns whether a type is not that of a function, nor unknown because of an error.
fn first_order(m: &Module, t: TypeId) -> bool {
    !matches!(m.types[t], Type::Func(_) | Type::Error)
}

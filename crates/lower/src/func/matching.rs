//! `match` as a decision tree.
//!
//! The standard matrix algorithm (Maranget, "Compiling Pattern Matching to Good Decision Trees",
//! 2008), choosing columns from the left: rows are clauses, columns the parts of the value that are
//! still to be tested. No part is tested twice on any path through the tree.

use relax_ir::{Clause, CtorId, ExprId, PatId, Pattern, VarId};

use super::{FnLower, Result};
use crate::lir::{BlockId, Inst, Reg, Term};

/// A part of the matched value: in a register, or a field of another part that is read when it is
/// needed.
#[derive(Clone)]
enum Part {
    Reg(Reg),
    Field(Reg, u32),
}

#[derive(Clone)]
struct Row {
    /// The patterns still to be matched, a column each; `None` is a wildcard.
    patterns: Vec<Option<PatId>>,
    /// Variables bound so far.
    bound: Vec<(VarId, Part)>,
    clause: usize,
}

struct Task {
    block: BlockId,
    parts: Vec<Part>,
    rows: Vec<Row>,
}

impl FnLower<'_, '_> {
    /// Emits the decision tree of a `match` from the current block on. Returns the block of each
    /// clause's body, whose parameters are the clause's variables (bound here).
    pub(super) fn decide(
        &mut self,
        e: ExprId,
        src: Reg,
        clauses: &[Clause],
    ) -> Result<Vec<BlockId>> {
        let m = self.m();
        let mut blocks = Vec::with_capacity(clauses.len());
        let mut vars = Vec::with_capacity(clauses.len());
        for c in clauses {
            let names = m.pattern_vars(c.pattern);
            let params: Vec<Reg> = names.iter().map(|_| self.reg()).collect();
            for (&v, &r) in names.iter().zip(&params) {
                self.bind(v, r);
            }
            blocks.push(self.block(params));
            vars.push(names);
        }
        let rows = (clauses.iter().enumerate())
            .map(|(clause, c)| Row {
                patterns: vec![Some(c.pattern)],
                bound: Vec::new(),
                clause,
            })
            .collect();
        let mut work = vec![Task {
            block: self.cur,
            parts: vec![Part::Reg(src)],
            rows,
        }];
        while let Some(task) = work.pop() {
            self.cur = task.block;
            self.decide_step(e, task, &blocks, &vars, &mut work);
        }
        Ok(blocks)
    }

    fn part(&mut self, part: &mut Part) -> Reg {
        if let Part::Field(src, index) = *part {
            let dst = self.reg();
            self.emit(Inst::Field { dst, src, index });
            *part = Part::Reg(dst);
        }
        match part {
            Part::Reg(r) => *r,
            Part::Field(..) => unreachable!("read above"),
        }
    }

    fn decide_step(
        &mut self,
        e: ExprId,
        mut task: Task,
        blocks: &[BlockId],
        vars: &[Vec<VarId>],
        work: &mut Vec<Task>,
    ) {
        let m = self.m();
        // Variables and wildcards match without a test.
        for row in &mut task.rows {
            for (k, p) in row.patterns.iter_mut().enumerate() {
                match p.map(|p| &m.patterns[p]) {
                    Some(Pattern::Wildcard) => *p = None,
                    Some(Pattern::Var(v)) => {
                        row.bound.push((*v, task.parts[k].clone()));
                        *p = None;
                    }
                    _ => {}
                }
            }
        }
        let Some(first) = task.rows.first() else {
            let place = self.place(e);
            return self.end(Term::NoMatch(place));
        };
        let Some(column) = first.patterns.iter().position(Option::is_some) else {
            let row = task.rows.swap_remove(0);
            let mut args = Vec::new();
            for v in &vars[row.clause] {
                let found = row.bound.iter().find(|b| b.0 == *v);
                let mut part = found
                    .expect("every variable of the clause is bound")
                    .1
                    .clone();
                args.push(self.part(&mut part));
            }
            return self.end(Term::Jump(blocks[row.clause], args));
        };
        let mut part = task.parts[column].clone();
        let src = self.part(&mut part);
        // Bindings of the part itself may use the register from here on.
        task.parts[column] = part.clone();
        let pattern = first.patterns[column].expect("chosen so");
        match &m.patterns[pattern] {
            Pattern::Tuple(fields) => {
                let n = fields.len();
                let rows = task
                    .rows
                    .into_iter()
                    .map(|row| split(m, row, column, n))
                    .collect();
                let parts = replace(&task.parts, column, src, n);
                work.push(Task {
                    block: task.block,
                    parts,
                    rows,
                });
                // The same block continues: nothing else may be emitted to it in between.
                self.cur = task.block;
            }
            Pattern::Ctor(ctor, _) => {
                let adt = m.ctors[*ctor].adt;
                let mut seen: Vec<CtorId> = Vec::new();
                for row in &task.rows {
                    if let Some(Pattern::Ctor(c, _)) = row.patterns[column].map(|p| &m.patterns[p])
                        && !seen.contains(c)
                    {
                        seen.push(*c);
                    }
                }
                let all = m.adts[adt].ctors.len() == seen.len();
                let mut cases = Vec::with_capacity(seen.len());
                for &c in &seen {
                    let n = m.ctors[c].fields.len();
                    let rows: Vec<Row> = (task.rows.iter())
                        .filter(|row| match row.patterns[column].map(|p| &m.patterns[p]) {
                            Some(Pattern::Ctor(other, _)) => *other == c,
                            _ => true,
                        })
                        .map(|row| split(m, row.clone(), column, n))
                        .collect();
                    let block = self.block(Vec::new());
                    cases.push((m.ctors[c].tag, block));
                    work.push(Task {
                        block,
                        parts: replace(&task.parts, column, src, n),
                        rows,
                    });
                }
                let default = match cases.pop_if(|_| all) {
                    // The last constructor needs no test when all are covered.
                    Some((_, block)) => block,
                    None => {
                        let block = self.block(Vec::new());
                        let rest = (task.rows.into_iter())
                            .filter(|row| row.patterns[column].is_none())
                            .collect();
                        work.push(Task {
                            block,
                            parts: task.parts,
                            rows: rest,
                        });
                        block
                    }
                };
                let term = if cases.is_empty() {
                    Term::Jump(default, Vec::new())
                } else {
                    Term::Switch {
                        src,
                        cases,
                        default,
                    }
                };
                self.f.blocks[task.block].term = term;
            }
            Pattern::Wildcard | Pattern::Var(_) => unreachable!("taken out above"),
        }
    }
}

/// Returns the row with a column replaced by the `n` sub-patterns of its pattern.
fn split(m: &relax_ir::Module, mut row: Row, column: usize, n: usize) -> Row {
    let subs: Vec<Option<PatId>> = match row.patterns[column].map(|p| &m.patterns[p]) {
        Some(Pattern::Tuple(subs) | Pattern::Ctor(_, subs)) => {
            subs.iter().copied().map(Some).collect()
        }
        _ => vec![None; n],
    };
    row.patterns.splice(column..=column, subs);
    row
}

/// Returns the parts with one replaced by its `n` fields.
fn replace(parts: &[Part], column: usize, src: Reg, n: usize) -> Vec<Part> {
    let mut parts = parts.to_vec();
    parts.splice(column..=column, (0..n as u32).map(|i| Part::Field(src, i)));
    parts
}

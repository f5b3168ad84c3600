//! Match coverage: the values that no clause handles, and the clauses that no value reaches.
//!
//! The matrix algorithm of L. Maranget, "Warnings for pattern matching" (2007): a clause is useful
//! when some value matches it and none of the clauses before it. The wildcard is useful after all
//! clauses exactly when the match is not exhaustive; the witnesses are reported as patterns.
//!
//! Enumerating all missing patterns takes time that grows fast with columns and clauses. Beyond
//! [`BUDGET`], it is only decided whether there are any ([`decide`]).
//!
//! Invariant: keeps its own stack, and its work is bounded by [`BUDGET`] and [`DECISION`], since
//! usefulness is NP-complete. A match that even these do not decide is an error: none is accepted
//! that leaves values out.

use relax_base::{Diagnostic, Span};
use relax_ir::{CtorId, Expr, ExprId, PatId, Pattern};
use rustc_hash::FxHashMap;

use crate::codes;
use crate::solver::Solver;
use decide::Decision;

mod decide;

/// The number of rows that may be visited for one match.
const BUDGET: u64 = 500_000;
/// The additional number for each question whether a pattern is missing.
const DECISION: u64 = 20_000_000;
/// The number of missing patterns that are reported.
const SHOWN: usize = 5;
/// The maximum number of clauses that are suggested.
const ADDED: usize = 40;

/// One column of a row: a pattern, or anything.
type Cell = Option<PatId>;

/// The head of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Head {
    Ctor(CtorId),
    Tuple(usize),
}

/// A step in the description of a missing value, applied from the inside out.
#[derive(Clone, Debug)]
enum Built {
    /// The first column is this constructor of so many fields.
    Head(Head, usize),
    /// The first column is anything.
    Any,
}

/// A set of missing values: a pattern as text, composed of texts.
struct Task {
    rows: Vec<Vec<Cell>>,
    row: Vec<Cell>,
    path: Vec<Built>,
}

/// The rows by the head of their first column: only those with that head, or with a wildcard, are
/// relevant to it.
#[derive(Default)]
struct Split {
    asked: FxHashMap<Head, Vec<usize>>,
    anything: Vec<usize>,
    first: Option<Head>,
}

impl Split {
    fn add(&mut self, row: usize, head: Option<Head>) {
        match head {
            Some(head) => self.asked.entry(head).or_default().push(row),
            None => self.anything.push(row),
        }
        self.first = self.first.or(head);
    }

    /// Returns the rows that a head can belong to, in their order.
    fn rows<'a>(&self, all: &'a [Vec<Cell>], head: Head) -> impl Iterator<Item = &'a Vec<Cell>> {
        let mut rows = self.asked.get(&head).cloned().unwrap_or_default();
        rows.extend(&self.anything);
        rows.sort_unstable();
        rows.into_iter().map(|i| &all[i])
    }
}

impl Solver<'_> {
    /// Reports missing patterns of a match, and unreachable clauses.
    pub fn check_coverage(&mut self, e: ExprId) {
        let m = self.m;
        let Expr::Match {
            clauses, complete, ..
        } = &m.exprs[e]
        else {
            return;
        };
        if self.bad_matches.contains(&e) {
            return;
        }
        let (mut budget, mut decisions) = (BUDGET, DECISION);
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        let mut split = Split::default();
        let mut covered_at = None;
        for c in clauses {
            let row = vec![Some(c.pattern)];
            let head = self.head_of(row[0]);
            let useful = covered_at.is_none() && {
                let before = match head {
                    Some(head) => &split.rows(&rows, head).cloned().collect(),
                    None => &rows,
                };
                let found = self.missing(before, row.clone(), 1, &mut budget);
                match budget {
                    // If undecided, the clause is assumed to be reachable.
                    0 => self.decided(before, Some(c.pattern), &mut decisions) != Decision::Covered,
                    _ => !found.is_empty(),
                }
            };
            if !useful {
                let mut d = Diagnostic::warning(
                    codes::UNREACHABLE,
                    self.pattern_place(c.pattern, e),
                    "this clause is never reached: the clauses before it take every value",
                );
                if let Some(at) = covered_at {
                    let first: PatId = at;
                    d = d.label(self.pattern_place(first, e), "this one takes them all");
                }
                self.report(d);
            } else {
                split.add(rows.len(), head);
                rows.push(row);
                if head.is_none() {
                    covered_at = Some(c.pattern);
                }
            }
        }
        if !complete {
            return;
        }
        let mut missing = self.missing(&rows, vec![None], ADDED + 1, &mut budget);
        let mut more = missing.len() > SHOWN;
        if budget == 0 {
            match self.decided(&rows, None, &mut DECISION.clone()) {
                Decision::Covered => return,
                Decision::Missing(one) => (missing, more) = (vec![one], true),
                Decision::Unknown => return self.undecided(e),
            }
        }
        if missing.is_empty() {
            return;
        }
        let shown: Vec<String> = (missing.iter().take(SHOWN))
            .map(|p| format!("`{p}`"))
            .collect();
        let mut list = shown.join(", ");
        if more {
            list.push_str(" and more");
        }
        let s = if missing.len() == 1 && !more {
            "case"
        } else {
            "cases"
        };
        let message = match clauses.len() {
            0 => "the match has no clauses, so it handles no case".to_string(),
            _ => format!("the match does not handle the {s} {list}"),
        };
        let mut d = Diagnostic::error(codes::MISSING, self.place(e), message)
            .note("add clauses for them, or `_ => …`; `match?` is for matches that may fail");
        if budget > 0 {
            d = self.suggest_clauses(d, e, &missing);
        }
        if let Some(first) = clauses.first()
            && let Pattern::Ctor(c, _) = m.patterns[first.pattern]
        {
            let adt = &m.adts[m.ctors[c].adt];
            if !adt.span.is_none() {
                d = d.label(adt.span, format!("`{}` is defined here", adt.name));
            }
        }
        self.report(d);
    }

    /// Returns whether some value matches a pattern (any value, without one) and none of the rows.
    fn decided(&self, rows: &[Vec<Cell>], row: Option<PatId>, budget: &mut u64) -> Decision {
        let rows: Vec<PatId> = rows.iter().filter_map(|r| r[0]).collect();
        decide::decide(self.m, &rows, row, budget)
    }

    fn undecided(&mut self, e: ExprId) {
        let d = Diagnostic::error(
            codes::COVERAGE,
            self.place(e),
            "whether this match handles every case takes too long to decide",
        )
        .note("make it smaller, add `_ => …`, or use `match?`, which is for matches that may fail");
        self.report(d);
    }

    /// Suggests clauses for all missing patterns, before the existing ones: no value matches both.
    fn suggest_clauses(&self, d: Diagnostic, e: ExprId, missing: &[String]) -> Diagnostic {
        let m = self.m;
        let Expr::Match { clauses, .. } = &m.exprs[e] else {
            return d;
        };
        let whole = m.spans[e];
        let place = match clauses.first() {
            Some(first) => m.pattern_spans[first.pattern].at_start(),
            // Before the brace that closes the match.
            None => Span::new(whole.end.saturating_sub(1), whole.end.saturating_sub(1)),
        };
        if missing.len() > ADDED
            || place.is_none()
            || place.start < whole.start
            || place.end > whole.end
        {
            return d;
        }
        let clauses: String = missing.iter().map(|p| format!("{p} => (), ")).collect();
        d.suggest("add the missing clauses", place, clauses)
    }

    fn head_of(&self, p: Cell) -> Option<Head> {
        match &self.m.patterns[p?] {
            Pattern::Wildcard | Pattern::Var(_) => None,
            Pattern::Ctor(c, _) => Some(Head::Ctor(*c)),
            Pattern::Tuple(parts) => Some(Head::Tuple(parts.len())),
        }
    }

    fn arity(&self, head: Head) -> usize {
        match head {
            Head::Ctor(c) => self.m.ctors[c].fields.len(),
            Head::Tuple(n) => n,
        }
    }

    /// Returns the fields of a row's first column under a head, followed by the other columns;
    /// `None` when the first column is something else.
    fn specialise(&self, row: &[Cell], head: Head) -> Option<Vec<Cell>> {
        let n = self.arity(head);
        let mut out: Vec<Cell> = Vec::with_capacity(n + row.len() - 1);
        match row[0].map(|p| &self.m.patterns[p]) {
            None | Some(Pattern::Wildcard | Pattern::Var(_)) => {
                out.resize(n, None);
            }
            Some(Pattern::Ctor(_, parts) | Pattern::Tuple(parts)) => {
                if self.head_of(row[0]) != Some(head) {
                    return None;
                }
                out.extend(parts.iter().map(|&p| Some(p)).take(n));
                // A wrong number of fields was reported; missing ones count as wildcards.
                out.resize(n, None);
            }
        }
        out.extend_from_slice(&row[1..]);
        Some(out)
    }

    /// Returns up to `limit` values that match `row` and none of `rows`, as patterns.
    fn missing(
        &self,
        rows: &[Vec<Cell>],
        row: Vec<Cell>,
        limit: usize,
        budget: &mut u64,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let mut work = vec![Task {
            rows: rows.to_vec(),
            row,
            path: Vec::new(),
        }];
        while let Some(task) = work.pop() {
            let cost = 1 + task.rows.len() as u64;
            if *budget <= cost {
                *budget = 0;
                return Vec::new();
            }
            *budget -= cost;
            if task.row.is_empty() {
                if task.rows.is_empty() {
                    found.push(self.spell(&task.path));
                    if found.len() == limit {
                        break;
                    }
                }
                continue;
            }
            let mut split = Split::default();
            for (i, r) in task.rows.iter().enumerate() {
                split.add(i, self.head_of(r[0]));
            }
            if let Some(head) = self.head_of(task.row[0]) {
                work.extend(self.under(&task, &split, head));
                continue;
            }
            let all: Vec<Head> = match &split.first {
                None => Vec::new(),
                Some(Head::Tuple(n)) => vec![Head::Tuple(*n)],
                Some(Head::Ctor(c)) => (self.m.adts[self.m.ctors[*c].adt].ctors.iter())
                    .map(|&c| Head::Ctor(c))
                    .collect(),
            };
            if all.is_empty() {
                // No row tests this column.
                let rest = |r: &Vec<Cell>| r[1..].to_vec();
                let mut path = task.path.clone();
                path.push(Built::Any);
                work.push(Task {
                    rows: task.rows.iter().map(rest).collect(),
                    row: task.row[1..].to_vec(),
                    path,
                });
                continue;
            }
            // In reverse, so that the first constructor is visited first.
            for head in all.into_iter().rev() {
                work.extend(self.under(&task, &split, head));
            }
        }
        found
    }

    fn under(&self, task: &Task, split: &Split, head: Head) -> Option<Task> {
        let row = self.specialise(&task.row, head)?;
        let rows = (split.rows(&task.rows, head))
            .filter_map(|r| self.specialise(r, head))
            .collect();
        let mut path = task.path.clone();
        path.push(Built::Head(head, self.arity(head)));
        Some(Task { rows, row, path })
    }

    /// Returns the pattern of a path: columns are described left to right, fields before what
    /// follows.
    fn spell(&self, path: &[Built]) -> String {
        let mut stack: Vec<String> = Vec::new();
        for step in path.iter().rev() {
            match step {
                Built::Any => stack.push("_".into()),
                Built::Head(head, n) => {
                    // The fields of this head were pushed just before, the first one last.
                    let at = stack.len().saturating_sub(*n);
                    let mut parts = stack.split_off(at);
                    parts.reverse();
                    let text = parts.join(", ");
                    stack.push(match head {
                        Head::Ctor(c) if *n == 0 => self.m.ctors[*c].name.to_string(),
                        Head::Ctor(c) => format!("{}({text})", self.m.ctors[*c].name),
                        Head::Tuple(1) => format!("({text},)"),
                        Head::Tuple(_) => format!("({text})"),
                    });
                }
            }
        }
        stack.pop().unwrap_or_else(|| "_".into())
    }
}

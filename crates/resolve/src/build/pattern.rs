//! Resolution of match clauses and patterns.

use relax_base::{Diagnostic, Symbol};
use relax_ir::{Clause, CtorId, Expr, PatId, Pattern, VarStyle};
use relax_syntax::ast::{self, PatKind};
use rustc_hash::FxHashMap;

use super::Resolver;
use super::expr::Task;
use crate::codes;

/// A step of the traversal of a pattern.
enum Step {
    Look(ast::PatId),
    Finish(ast::PatId, usize),
}

impl Resolver<'_> {
    pub(crate) fn clause(&mut self, c: ast::ClauseId) {
        let clause = self.ast.clauses[c];
        let mark = self.scopes.enter();
        let pattern = self.pattern(clause.pat);
        self.clause_patterns.push(pattern);
        self.tasks.push(Task::Leave(mark));
        self.tasks.push(Task::Expr(clause.body));
    }

    pub(crate) fn finish_match(
        &mut self,
        clauses: ast::List<ast::ClauseId>,
        complete: bool,
        base: usize,
    ) -> Expr {
        let n = clauses.len();
        let patterns = self
            .clause_patterns
            .split_off(self.clause_patterns.len() - n);
        let bodies = &self.values[base + 1..base + 1 + n];
        let clauses = (patterns.into_iter().zip(bodies))
            .map(|(pattern, &body)| Clause { pattern, body })
            .collect();
        Expr::Match {
            value: self.values[base],
            clauses,
            complete,
        }
    }

    /// Resolves a pattern and brings its variables into scope.
    fn pattern(&mut self, p: ast::PatId) -> PatId {
        let ast = self.ast;
        let mut bound: FxHashMap<Symbol, relax_base::Span> = FxHashMap::default();
        let mut steps = vec![Step::Look(p)];
        let mut done: Vec<PatId> = Vec::new();
        while let Some(step) = steps.pop() {
            let (p, base) = match step {
                Step::Look(p) => {
                    let items = match ast.pats[p].kind {
                        PatKind::Ctor { args, .. } => args,
                        PatKind::Tuple { items, .. } => items,
                        _ => ast::List::EMPTY,
                    };
                    steps.push(Step::Finish(p, done.len()));
                    steps.extend(ast.list(items).rev().map(Step::Look));
                    continue;
                }
                Step::Finish(p, base) => (p, base),
            };
            let ast::Pat { kind, span } = ast.pats[p];
            let mistakes = self.mistakes;
            let pattern = match kind {
                PatKind::Error | PatKind::Wildcard => Pattern::Wildcard,
                PatKind::Var(binder) => {
                    let b = ast.binders[binder];
                    if let Some(first) = bound.insert(b.name, b.span) {
                        let message = format!("`%{}` stands twice in this pattern", b.name);
                        self.duplicate(b.span, first, &message);
                    }
                    Pattern::Var(self.bind_var(binder, VarStyle::Param))
                }
                PatKind::Ctor { name, args, .. } => {
                    self.ctor_pattern(name, args.len(), span, &done[base..])
                }
                PatKind::Tuple { .. } => Pattern::Tuple(done[base..].into()),
            };
            done.truncate(base);
            let id = self.module.patterns.push(pattern);
            let ctor = matches!(kind, PatKind::Ctor { .. });
            if kind == PatKind::Error || ctor && self.mistakes > mistakes {
                self.module.damage.patterns.insert(id);
            }
            let place = self.at(span);
            if !place.is_none() {
                self.module.pattern_spans.set(id, place);
            }
            done.push(id);
        }
        done.pop().expect("the walk leaves one pattern")
    }

    fn ctor_pattern(
        &mut self,
        name: Symbol,
        given: usize,
        span: relax_base::Span,
        fields: &[PatId],
    ) -> Pattern {
        let Some(ctor) = self.ctor_named(name) else {
            if self.first_report('a', name) {
                let names = self.module.ctors.values().map(|c| c.name.as_str());
                let near = self.near(name, names);
                let place = relax_base::Span::new(
                    span.start,
                    (span.start + name.as_str().len() as u32).min(span.end),
                );
                let message = format!("there is no constructor `{name}`");
                let d = Diagnostic::error(codes::PATTERN, place, message);
                let d = match near {
                    Some(near) => d.suggest(format!("did you mean `{near}`?"), place, near),
                    None => d.suggest(
                        format!("a variable is written `%{name}`"),
                        place,
                        format!("%{name}"),
                    ),
                };
                self.error(d);
            }
            return Pattern::Tuple(fields.into());
        };
        let wanted = self.ctor_arity(ctor);
        if wanted != given {
            let d = Diagnostic::error(
                codes::PATTERN,
                span,
                format!(
                    "`{name}` has {}, the pattern gives {given}",
                    count(wanted, "field")
                ),
            );
            let place = self.module.ctors[ctor].span;
            let d = if place.is_none() {
                d
            } else {
                d.label(place, "defined here")
            };
            self.error(d);
            return Pattern::Tuple(fields.into());
        }
        Pattern::Ctor(ctor, fields.into())
    }

    /// Returns the constructor of this name, from the module or the prelude.
    pub(crate) fn ctor_named(&mut self, name: Symbol) -> Option<CtorId> {
        let found = self.ctors.get(&name).copied();
        found.or_else(|| self.prelude_ctor(name))
    }

    /// Returns the number of fields of a constructor.
    pub(crate) fn ctor_arity(&self, ctor: CtorId) -> usize {
        self.ctor_fields[ctor.0 as usize] as usize
    }
}

/// Formats a count: `1 field`, `2 fields`.
pub(crate) fn count(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

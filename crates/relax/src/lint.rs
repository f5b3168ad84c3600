//! Lints: code that is valid but probably not intended, such as unused bindings, statements without
//! effect, and parameters shadowed before they are read; and the comments that suppress them.
//!
//! Only side-effect-free code is reported: a call with effects is made for its effects.

use relax_base::{Code, Diagnostic, Diagnostics, SourceFile, Span, Symbol, explain};
use relax_ir::{Expr, ExprId, GlobalKind, Module};
use relax_ops::{Effects, registry};
use relax_resolve::names::{Name, NameKind};
use relax_syntax::ast::{Ast, ItemKind, StmtId, StmtKind};
use rustc_hash::{FxHashMap, FxHashSet};

use relax_infer::Typing;

/// An unused binding.
const UNUSED: Code = Code(920);
/// A statement without effect.
const NO_EFFECT: Code = Code(921);
/// A parameter that is shadowed by a binding of the same name before it was read.
const HIDDEN: Code = Code(922);

/// Returns whether a code marks unnecessary code, which could be removed.
pub fn is_unnecessary(code: Code) -> bool {
    matches!(code, UNUSED | NO_EFFECT | HIDDEN)
}

/// Lints a text without errors, given as its syntax tree with all names and the module it was
/// resolved to. If the module holds only the signatures of some functions, `whole` is false, and
/// calls may have any effect.
pub fn lint(
    ast: &Ast,
    names: &[Name],
    module: &Module,
    typing: &Typing,
    whole: bool,
) -> Diagnostics {
    let used = names.iter().filter(|n| !n.binds).filter_map(|n| n.binding);
    let programs = (ast.items.iter())
        .filter(|i| matches!(i.kind, ItemKind::PrimFunc(_) | ItemKind::Op(_)))
        .map(|i| i.span);
    let mut linter = Linter {
        ast,
        names,
        used: used.collect(),
        programs: programs.collect(),
        at: None,
        purity: Purity {
            module,
            typing,
            whole,
            known: FxHashMap::default(),
        },
        out: Diagnostics::new(),
    };
    for s in ast.stmts.ids() {
        linter.statement(s);
    }
    linter.parameters();
    linter.out.sort();
    linter.out
}

struct Linter<'a> {
    ast: &'a Ast,
    names: &'a [Name],
    /// Binding sites of the names that are used.
    used: FxHashSet<Span>,
    /// Spans of tensor programs and user-defined operators, in order; other rules apply there.
    programs: Vec<Span>,
    /// Expressions by span, computed on first use.
    at: Option<FxHashMap<Span, ExprId>>,
    purity: Purity<'a>,
    out: Diagnostics,
}

/// Returns whether the name marks an intentionally unused binding.
fn is_silent(name: Symbol) -> bool {
    name.as_str().is_empty() || name.as_str().starts_with('_')
}

impl Linter<'_> {
    fn in_program(&self, place: Span) -> bool {
        let before = self.programs.partition_point(|s| s.start <= place.start);
        self.programs[..before]
            .last()
            .is_some_and(|s| place.end <= s.end)
    }

    fn statement(&mut self, s: StmtId) {
        let ast = self.ast;
        match ast.stmts[s].kind {
            StmtKind::Let { binder, value } | StmtKind::Bind { binder, value } => {
                let b = ast.binders[binder];
                let place = Span::new(
                    b.span.start,
                    b.span.start + 1 + b.name.as_str().len() as u32,
                );
                let unused = !is_silent(b.name) && !self.is_used(b.span);
                if unused && self.is_pure_at(ast.exprs[value].span) {
                    let under = format!("%_{}", b.name);
                    let title = format!("`{under}` says that this is meant");
                    let d = unused_binding(place, b.name.as_str()).suggest(title, place, under);
                    self.out.push(d);
                }
            }
            StmtKind::Graph { index, .. } => {
                let name = index.to_string();
                let start = ast.stmts[s].span.start;
                let place = Span::new(start, start + 1 + name.len() as u32);
                if !self.is_used(place) {
                    let d = unused_binding(place, &name);
                    let why = "a graph binding that nothing refers to is not part of the program";
                    self.out.push(d.note(why));
                }
            }
            StmtKind::Expr(value) => {
                let place = ast.exprs[value].span;
                if !self.in_program(place) && self.is_pure_at(place) {
                    self.out.push(idle(place));
                }
            }
            _ => {}
        }
    }

    fn is_used(&self, binding: Span) -> bool {
        self.used.contains(&binding) || self.in_program(binding)
    }

    /// Reports parameters that another binding in the same function shadows before they are read.
    fn parameters(&mut self) {
        let ast = self.ast;
        // The bindings of each name, in source order.
        let mut bound: FxHashMap<Symbol, Vec<Span>> = FxHashMap::default();
        let locals = |n: &&Name| n.binds && n.kind == NameKind::Local;
        for n in self.names.iter().filter(locals) {
            bound.entry(n.text).or_default().push(n.span);
        }
        for f in ast.functions.values() {
            let body = ast.exprs[f.body].span;
            for p in ast.list(f.params) {
                let p = ast.binders[p];
                if is_silent(p.name) || self.is_used(p.span) {
                    continue;
                }
                let all = bound.get(&p.name).map_or(&[][..], Vec::as_slice);
                let first = all.partition_point(|s| s.start < body.start);
                if let Some(by) = all.get(first).filter(|s| s.end <= body.end) {
                    self.out.push(hidden(p.span, *by, p.name));
                }
            }
        }
    }

    fn is_pure_at(&mut self, place: Span) -> bool {
        let module = self.purity.module;
        let at = self.at.get_or_insert_with(|| {
            let all = module.exprs.ids().map(|e| (module.spans[e], e));
            all.filter(|e| !e.0.is_none()).collect()
        });
        // A span without an expression is a part of one, such as the number after a sign.
        at.get(&place).is_some_and(|&e| self.purity.of(e))
    }
}

fn unused_binding(place: Span, name: &str) -> Diagnostic {
    Diagnostic::warning(UNUSED, place, format!("`%{name}` is never used"))
        .primary("nothing refers to it")
}

fn idle(place: Span) -> Diagnostic {
    Diagnostic::warning(NO_EFFECT, place, "this statement does nothing")
        .primary("its value is not used")
        .note(
            "what a block gives is the expression at its end, without a `;`: bind the value, return it, or \
             leave it out",
        )
}

fn hidden(place: Span, by: Span, name: Symbol) -> Diagnostic {
    let message = format!("the parameter `%{name}` is hidden before it is read");
    Diagnostic::warning(HIDDEN, place, message)
        .primary("never read")
        .label(by, "this is another variable of the same name")
}

/// Memoised purity of expressions.
struct Purity<'a> {
    module: &'a Module,
    typing: &'a Typing,
    whole: bool,
    known: FxHashMap<ExprId, bool>,
}

impl Purity<'_> {
    fn of(&mut self, e: ExprId) -> bool {
        let m = self.module;
        // Each expression is visited twice: before and after its operands.
        let mut left = vec![(e, false)];
        while let Some((e, parts_known)) = left.pop() {
            if !parts_known && self.known.contains_key(&e) {
                continue;
            }
            // A function value is pure: its effects happen when it is called.
            let own = matches!(m.exprs[e], Expr::Func(_)) || self.is_pure_itself(e);
            if !own || matches!(m.exprs[e], Expr::Func(_)) {
                self.known.insert(e, own);
            } else if parts_known {
                let mut pure = true;
                m.for_each_child(e, |part| pure &= self.known.get(&part) == Some(&true));
                self.known.insert(e, pure);
            } else {
                left.push((e, true));
                m.for_each_child(e, |part| left.push((part, false)));
            }
        }
        self.known.get(&e) == Some(&true)
    }

    /// Returns whether an expression is pure if its operands are.
    fn is_pure_itself(&self, e: ExprId) -> bool {
        let m = self.module;
        match &m.exprs[e] {
            Expr::RefWrite(..) | Expr::RefRead(_) | Expr::RefNew(_) | Expr::Error => false,
            Expr::MatchShape { .. } | Expr::MatchCast { .. } => false,
            Expr::Match { complete, .. } => *complete,
            Expr::Call { callee, .. } => match &m.exprs[*callee] {
                Expr::Op(op) => {
                    let def = registry().get(*op);
                    def.is_none_or(|d| d.effects == Effects::Pure)
                }
                Expr::Ctor(_) => true,
                Expr::Global(g) => match m.globals[*g].kind {
                    GlobalKind::Func(f) => self.whole && self.typing.pure[f],
                    GlobalKind::Prim(_) => true,
                },
                Expr::Func(f) => self.typing.pure[*f],
                _ => false,
            },
            _ => true,
        }
    }
}

/// Parses an error code: `RX0301` or `301`.
pub fn code(text: &str) -> Option<Code> {
    let number = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let code = number.parse().ok().map(Code)?;
    explain::explain(code).map(|_| code)
}

/// Returns whether a comment suppresses a diagnostic: `// relax: allow(RX0319)` on the same line,
/// or alone on the line before.
pub fn is_allowed(file: &SourceFile, d: &Diagnostic) -> bool {
    let place = d.span();
    if place.is_none() || place.start < file.start || place.end > file.span().end {
        return false;
    }
    let line = file.line_col(place.start).line;
    let before = line.checked_sub(1).filter(|l| *l > 0).map(|l| file.line(l));
    let alone = before.filter(|l| l.trim_start().starts_with("//"));
    let mut lines = [Some(file.line(line)), alone].into_iter().flatten();
    lines.any(|l| allows(l, d.code))
}

fn allows(line: &str, wanted: Code) -> bool {
    // The slashes may also be inside a string.
    line.match_indices("//").any(|(at, slashes)| {
        let comment = line[at + slashes.len()..].trim_start();
        let rest = comment.strip_prefix("relax:").map(str::trim_start);
        let list = rest.and_then(|r| r.strip_prefix("allow(")?.split(')').next());
        let mut codes = list.unwrap_or_default().split(',');
        codes.any(|c| code(c.trim()) == Some(wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_allow_codes() {
        let wanted = Code(319);
        assert!(allows("  add(%x, %y) // relax: allow(RX0319)", wanted));
        assert!(allows("//relax:allow( RX0301 , RX0319 ) why", wanted));
        assert!(!allows("  add(%x, %y) // relax: allow(RX0301)", wanted));
        assert!(!allows("  relax: allow(RX0319)", wanted));
        assert!(allows("  f(s=\"a//b\") // relax: allow(319)", wanted));
    }
}

//! The stages of a tensor program: its loops, calls of operators on its buffers, and groups of stages
//! that one kernel computes together.
//!
//! A program that has neither calls nor groups is one loop nest. In one that has, each statement is
//! a stage, and its buffers live between stages; a block in braces makes several statements one, and
//! so do names of numbers, which end where their stage does.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::AttrsId;
use relax_loops::{Buf, Kernel, KernelKind, Program, Role, Stage, Stmt, raise_nest};
use relax_ops::stage::{Argument, NoStages, StageCall, bufs, splice};
use relax_ops::{Arity, registry};
use relax_syntax::ast::{self, ExprKind, StmtKind, TypeExprKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Resolver;
use super::pattern::count;
use super::program_cx::{Named, ProgramCx};
use crate::codes;

/// A kernel group of the text: its number among the program's kernels, and the place of its name.
pub(super) type Group = (usize, Span);

/// The stage that is being read.
#[derive(Default)]
struct Open {
    body: Vec<Stmt>,
    /// The length of the undo log at its start.
    mark: usize,
    /// Whether numbers were named in it: it lasts as long as they do.
    named: bool,
}

impl Resolver<'_> {
    /// Resolves the body of a `prim_func`; returns its kernel groups.
    pub(super) fn program_stages(&mut self, cx: &mut ProgramCx, p: &ast::PrimFunc) -> Vec<Group> {
        let ast = self.ast;
        let mut groups = Vec::new();
        let stmts = match ast.exprs[p.body].kind {
            ExprKind::Block { stmts, tail, .. } if self.has_stages(p, stmts) => (stmts, tail),
            _ => {
                let body = self.program_block(cx, p.body, &mut Vec::new(), 0);
                cx.program.stages.push(Stage::Nest(body));
                return groups;
            }
        };
        self.stage_list(cx, stmts, &mut groups, false);
        keep_hints(&mut cx.program);
        groups
    }

    /// Reports the groups that are not what their kernels compute.
    pub(super) fn check_kernels(&mut self, program: &Program, groups: &[Group]) {
        if groups.is_empty() || !relax_loops::verify(program).problems.is_empty() {
            return;
        }
        for &(at, span) in groups {
            let kernel = &program.kernels[at];
            if let Err(why) = relax_loops::select::check(program, kernel) {
                let name = kernel.kind.name();
                let message = format!("these stages are not what the kernel `{name}` computes");
                let d = Diagnostic::error(codes::PROGRAM_KERNEL, span, message).primary(why);
                self.error(d);
            }
        }
    }

    /// Returns whether a body has groups or calls of operators at its top level.
    fn has_stages(&self, p: &ast::PrimFunc, stmts: ast::List<ast::StmtId>) -> bool {
        let ast = self.ast;
        let allocated = ast.list(stmts).filter_map(|s| match ast.stmts[s].kind {
            StmtKind::Alloc(b) => Some(b),
            _ => None,
        });
        let (mut known, mut arrays) = (FxHashSet::default(), FxHashSet::default());
        for b in ast.list(p.params).chain(allocated) {
            let ast::Binder { name, ty, .. } = ast.binders[b];
            known.insert(name);
            if matches!(
                ty.map(|t| ast.types[t].kind),
                Some(TypeExprKind::Apply { .. })
            ) {
                arrays.insert(name);
            }
        }
        let array = |name: Symbol| arrays.contains(&name);
        ast.list(stmts).any(|s| match ast.stmts[s].kind {
            StmtKind::Kernel { .. } => true,
            kind => self.target(kind).is_some_and(|(targets, value)| {
                targets.iter().all(|t| known.contains(&t.0)) && self.operator_call(value, &array)
            }),
        })
    }

    /// Returns the variables to the left of `=`, with their places, and what is to the right:
    /// `%y = e;`, `(%a, %b) = e;`. `None` for other statements, and where a type is given.
    fn target(&self, kind: StmtKind) -> Option<(Vec<(Symbol, Span)>, ast::ExprId)> {
        let ast = self.ast;
        match kind {
            StmtKind::Bind { binder, value } => {
                let b = ast.binders[binder];
                b.ty.is_none().then(|| (vec![(b.name, b.span)], value))
            }
            StmtKind::Store { target, value, .. } => {
                let ExprKind::Tuple(items) = ast.exprs[target].kind else {
                    return None;
                };
                let variable = |e: ast::ExprId| match ast.exprs[e] {
                    ast::Expr {
                        kind: ExprKind::Local(name),
                        span,
                    } => Some((name, span)),
                    _ => None,
                };
                let all: Option<Vec<_>> = ast.list(items).map(variable).collect();
                Some((all?, value))
            }
            _ => None,
        }
    }

    /// Returns whether `%y = name(…);` calls an operator on whole buffers, rather than a function on
    /// numbers. `array` says whether a name is that of a buffer with axes.
    fn operator_call(&self, value: ast::ExprId, array: &dyn Fn(Symbol) -> bool) -> bool {
        let ast = self.ast;
        let ExprKind::Call {
            callee,
            args,
            attrs,
        } = ast.exprs[value].kind
        else {
            return false;
        };
        let whole = |e: ast::ExprId| matches!(ast.exprs[e].kind, ExprKind::Local(n) if array(n));
        let operand = |e: ast::ExprId| match ast.exprs[e].kind {
            ExprKind::Tuple(items) => ast.list(items).any(whole),
            _ => whole(e),
        };
        self.plain_name(callee).is_some() && (!attrs.is_empty() || ast.list(args).any(operand))
    }

    /// Returns the call of an operator that a statement is, and the buffers that it writes, with the
    /// places of their names.
    pub(super) fn call_of_operator(
        &self,
        cx: &ProgramCx,
        kind: StmtKind,
    ) -> Option<(Vec<(Buf, Span)>, ast::ExprId)> {
        let (targets, value) = self.target(kind)?;
        let buffer = |(name, span): &(Symbol, Span)| match cx.locals.get(name) {
            Some(Named::Buf(b)) => Some((*b, *span)),
            _ => None,
        };
        let outs: Vec<(Buf, Span)> = targets.iter().map(buffer).collect::<Option<_>>()?;
        let array = |name| match cx.locals.get(&name) {
            Some(Named::Buf(b)) => !cx.program.bufs[*b].shape.is_empty(),
            _ => false,
        };
        self.operator_call(value, &array).then_some((outs, value))
    }

    fn stage_list(
        &mut self,
        cx: &mut ProgramCx,
        stmts: (ast::List<ast::StmtId>, Option<ast::ExprId>),
        groups: &mut Vec<Group>,
        inside: bool,
    ) {
        let ast = self.ast;
        let mut open = Open {
            mark: cx.undo.len(),
            ..Open::default()
        };
        for s in ast.list(stmts.0) {
            let ast::Stmt { kind, .. } = ast.stmts[s];
            match kind {
                StmtKind::Alloc(binder) => {
                    end_stage(cx, &mut open);
                    self.declare_buffer(cx, binder, Role::Temp, false);
                    open.mark = cx.undo.len();
                }
                StmtKind::Kernel { name, body } if !inside => {
                    end_stage(cx, &mut open);
                    self.kernel_group(cx, name, body, groups);
                }
                _ => match self.call_of_operator(cx, kind) {
                    Some((outs, value)) => {
                        end_stage(cx, &mut open);
                        self.operator_stage(cx, &outs, value);
                    }
                    None => self.next_stmt(cx, s, &mut open),
                },
            }
        }
        end_stage(cx, &mut open);
        if let Some(tail) = stmts.1 {
            // A check or a branch; this reports any other expression.
            let mut out = Vec::new();
            self.program_effect(cx, tail, &mut Vec::new(), 0, &mut out);
            push_stage(cx, out);
        }
    }

    /// Resolves a statement of loops, which is a stage unless a number was named before it.
    fn next_stmt(&mut self, cx: &mut ProgramCx, s: ast::StmtId, open: &mut Open) {
        let before = cx.undo.len();
        self.program_stmt(cx, s, &mut Vec::new(), 0, &mut open.body);
        open.named |= cx.undo.len() > before;
        if !open.named {
            let body = std::mem::take(&mut open.body);
            push_stage(cx, body);
        }
    }

    fn kernel_group(
        &mut self,
        cx: &mut ProgramCx,
        name: ast::ExprId,
        body: ast::ExprId,
        groups: &mut Vec<Group>,
    ) {
        let ast = self.ast;
        let span = ast.exprs[name].span;
        let text = self.plain_name(name).unwrap_or_else(|| Symbol::new(""));
        let kind = KernelKind::named(text.as_str());
        if kind.is_none() {
            let names = || KernelKind::ALL.iter().map(|k| k.name());
            let message = format!("there is no kernel `{text}`");
            let d = Diagnostic::error(codes::PROGRAM_NAME, span, message);
            let d = match self.near(text, names()) {
                Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
                None => d.note(format!(
                    "there are {}",
                    names().collect::<Vec<_>>().join(", ")
                )),
            };
            self.error(d);
        }
        let first = cx.program.stages.len();
        let at = cx.program.kernels.len();
        // Checks of a call in the group are stages before it: the program moves the kernel then.
        cx.program.kernels.push(Kernel {
            kind: kind.unwrap_or(KernelKind::Product),
            stages: first..first,
        });
        let mark = cx.undo.len();
        let errors = self.mistakes;
        if let ExprKind::Block { stmts, tail, .. } = ast.exprs[body].kind {
            self.stage_list(cx, (stmts, tail), groups, true);
        }
        cx.leave(mark);
        let end = cx.program.stages.len();
        let kernel = &mut cx.program.kernels[at];
        kernel.stages.end = end;
        if kernel.stages.start == end && errors == self.mistakes {
            let message = "a kernel group has one stage or more";
            self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
        }
        groups.push((at, span));
    }

    /// Resolves the call of an operator, and appends its stages.
    fn operator_stage(&mut self, cx: &mut ProgramCx, outs: &[(Buf, Span)], call: ast::ExprId) {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[call];
        let ExprKind::Call {
            callee,
            args,
            attrs,
        } = kind
        else {
            return;
        };
        let place = ast.exprs[callee].span;
        let Some(name) = self.plain_name(callee) else {
            return;
        };
        cx.stored.extend(outs.iter().map(|o| o.0));
        let errors = self.mistakes;
        let operands: Vec<Option<Argument>> =
            ast.list(args).map(|a| self.stage_argument(cx, a)).collect();
        let Some(op) = self.op_named(name) else {
            return self.unknown_name(name, place, true);
        };
        let Some(def) = registry().get(op) else {
            let message = format!("`{name}` is an `op` item, whose calls are no stages");
            let d = Diagnostic::error(codes::PROGRAM_FORM, place, message)
                .note("built-in operators are; call it in a function");
            return self.error(d);
        };
        let wanted = def.inputs.len();
        let enough = match def.arity {
            Arity::AtLeast => operands.len() >= wanted,
            Arity::Fixed => operands.len() == wanted,
        };
        if !enough {
            let given = operands.len();
            let names: Vec<&str> = def.inputs.iter().map(|i| i.name).collect();
            let message = format!(
                "`{name}` takes {}, but {given} {} given",
                count(wanted, "argument"),
                if given == 1 { "is" } else { "are" },
            );
            let d = Diagnostic::error(codes::OP_ARITY, span, message);
            self.error(match names.is_empty() {
                true => d,
                false => d.note(format!("its arguments are {}", names.join(", "))),
            });
        }
        // Attributes belong to no node of the module here.
        let places = self.module.attr_spans.len();
        let attrs: AttrsId = self.op_attrs(op, attrs, None, place, name.as_str());
        self.module.attr_spans.truncate(places);
        let operands: Option<Vec<Argument>> = operands.into_iter().collect();
        let Some(args) = operands.filter(|_| errors == self.mistakes) else {
            return;
        };
        for (k, &(out, place)) in outs.iter().enumerate() {
            let twice = outs[..k].iter().any(|o| o.0 == out);
            if twice || bufs(&args).any(|b| *b == out) {
                let how = if twice {
                    "written twice"
                } else {
                    "read and written"
                };
                let shown = cx.program.bufs[out].name;
                let message = format!("`%{shown}` is {how} by the same call");
                let d = Diagnostic::error(
                    codes::PROGRAM_FORM,
                    if twice { place } else { span },
                    message,
                );
                return self.error(d);
            }
        }
        let call = StageCall {
            op,
            args,
            attrs: self.module.attrs(attrs).clone(),
            outs: outs.iter().map(|o| o.0).collect(),
        };
        let at = self.at(span);
        if let Err(why) = splice(&mut cx.program, &call, at) {
            self.error(no_stages(cx, &why, name, place, outs));
        }
    }

    /// Resolves an argument: a buffer, or a tuple of them.
    fn stage_argument(&mut self, cx: &mut ProgramCx, e: ast::ExprId) -> Option<Argument> {
        let ast = self.ast;
        match ast.exprs[e].kind {
            ExprKind::Tuple(items) => {
                let all: Vec<Option<Buf>> = (ast.list(items))
                    .map(|e| self.whole_buffer(cx, e))
                    .collect();
                Some(Argument::Tuple(all.into_iter().collect::<Option<_>>()?))
            }
            _ => self.whole_buffer(cx, e).map(Argument::Buf),
        }
    }

    fn whole_buffer(&mut self, cx: &mut ProgramCx, e: ast::ExprId) -> Option<Buf> {
        let ast::Expr { kind, span } = self.ast.exprs[e];
        if !matches!(kind, ExprKind::Local(_) | ExprKind::Error) {
            let message = "an operator's arguments are buffers here";
            let d = Diagnostic::error(codes::PROGRAM_FORM, span, message)
                .note("store the value in a buffer first: `alloc %c: float32; %c = 2f;`");
            self.error(d);
            return None;
        }
        self.buffer(cx, e).map(|found| found.0)
    }
}

fn end_stage(cx: &mut ProgramCx, open: &mut Open) {
    if open.named {
        cx.leave(open.mark);
        let body = std::mem::take(&mut open.body);
        push_stage(cx, body);
    }
    open.named = false;
    open.mark = cx.undo.len();
}

/// Adds a stage: a computation over indices where the nest spells out one.
fn push_stage(cx: &mut ProgramCx, body: Vec<Stmt>) {
    let stage = match raise_nest(&cx.program, &body) {
        Some(c) => Stage::Compute(c),
        None => Stage::Nest(body),
    };
    cx.program.stages.push(stage);
}

/// Drops the hints that do not hold for all of a program: those about buffers that several stages
/// write, since a kernel may run when its result is used.
fn keep_hints(program: &mut Program) {
    let mut times: FxHashMap<Buf, usize> = FxHashMap::default();
    for buf in program.stages.iter().flat_map(Stage::written) {
        *times.entry(buf).or_default() += 1;
    }
    let once = |b: &Buf| times.get(b).is_none_or(|n| *n == 1);
    program
        .hints
        .retain(|(b, hint)| once(b) && hint.operands().iter().all(once));
}

/// The error for a call that has no stages.
fn no_stages(
    cx: &ProgramCx,
    why: &NoStages,
    name: Symbol,
    callee: Span,
    outs: &[(Buf, Span)],
) -> Diagnostic {
    match why {
        NoStages::Result(own, result) => {
            let names: Vec<String> = (outs.iter())
                .map(|o| format!("%{}", cx.program.bufs[o.0].name))
                .collect();
            let shown = match &names[..] {
                [one] => one.clone(),
                all => format!("({})", all.join(", ")),
            };
            let message = format!("the result of `{name}` is {result}, and `{shown}` is {own}");
            let target = outs.iter().map(|o| o.1).reduce(Span::to).unwrap_or(callee);
            Diagnostic::error(codes::PROGRAM_TYPE, target, message).primary("of another type")
        }
        NoStages::Refused(why) => {
            Diagnostic::error(codes::PROGRAM_TYPE, callee, format!("`{name}`: {why}"))
                .primary("its buffers do not fit")
        }
        NoStages::NoProgram(why) => Diagnostic::error(codes::PROGRAM_FORM, callee, why.to_string())
            .note("a stage is what an operator computes"),
        NoStages::NoTensor | NoStages::Results(..) | NoStages::Extents(_) => {
            let message = format!("a call of `{name}` is no stage: {why}");
            Diagnostic::error(codes::PROGRAM_FORM, callee, message)
        }
    }
}

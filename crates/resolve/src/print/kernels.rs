//! Printing of tensor programs that state their kernels: groups of stages, and calls of operators in
//! them.
//!
//! A stage with a hint is printed as the call of an operator that has these stages and this hint; that
//! is tried out here, and where it does not hold the stages are printed as loops, which mean the same
//! and have no hint.

use std::ops::Range;

use relax_base::Span;
use relax_loops::{
    Buf, Hint, Kernel, Program, Stage, Stmt, extents, in_extents, reads_buffer, same_stages,
    used_temps,
};
use relax_ops::registry;
use relax_ops::stage::{Argument, StageCall, hinted_calls, splice};
use relax_syntax::ast::{self, ExprKind, StmtKind, StoreOp};
use rustc_hash::FxHashSet;

use super::prim::ProgramNames;
use super::{NO, Printer};

/// A call in the place of stages.
struct Shown {
    call: StageCall,
    stages: Range<usize>,
    /// The temporary buffers of the stages, which the text does not name.
    inner: Vec<Buf>,
}

impl Printer<'_> {
    /// Prints the body of a program with kernels.
    pub(super) fn program_kernels(
        &mut self,
        cx: &mut ProgramNames<'_>,
        program: &Program,
        out: &mut Vec<ast::StmtId>,
    ) {
        let site = Site::new(program);
        let (kernels, shown) = site.kernels();
        let inner: FxHashSet<Buf> = shown.iter().flat_map(|s| s.inner.iter().copied()).collect();
        let mut temps = used_temps(program);
        temps.retain(|b| !inner.contains(b));
        let own = |b: Buf, stages: &Range<usize>| site.inside(b, stages);
        for &b in &temps {
            if !kernels.iter().any(|k| own(b, &k.stages)) {
                out.push(self.buffer_alloc(cx, b));
            }
        }
        let mut at = 0;
        let mut shown = shown.into_iter().peekable();
        while at < program.stages.len() {
            let Some(kernel) = kernels.iter().find(|k| k.stages.start == at) else {
                self.one_stage(cx, &program.stages[at], out);
                at += 1;
                continue;
            };
            let mut body = Vec::new();
            for &b in temps.iter().filter(|b| own(**b, &kernel.stages)) {
                body.push(self.buffer_alloc(cx, b));
            }
            while at < kernel.stages.end {
                match shown.next_if(|s| s.stages.start == at) {
                    Some(s) => {
                        body.push(self.stage_call(cx, &s.call));
                        at = s.stages.end;
                    }
                    None => {
                        self.one_stage(cx, &program.stages[at], &mut body);
                        at += 1;
                    }
                }
            }
            let name = self.name(kernel.kind.name());
            let body = self.out.block(body, None, NO);
            out.push(self.out.stmt(StmtKind::Kernel { name, body }, NO));
        }
    }

    /// Prints a stage as one statement, which is one stage when it is read: several are a block, and
    /// so are those that would be joined with others.
    fn one_stage(&mut self, cx: &mut ProgramNames<'_>, stage: &Stage, out: &mut Vec<ast::StmtId>) {
        let mut stmts = Vec::new();
        self.stage_loops(cx, stage, &mut stmts);
        let joined = match stage {
            Stage::Nest(body) => body
                .iter()
                .any(|s| matches!(s, Stmt::Let { .. } | Stmt::Alloc { .. })),
            Stage::Compute(_) => false,
        };
        if stmts.len() == 1 && !joined {
            return out.append(&mut stmts);
        }
        let block = self.out.block(stmts, None, NO);
        out.push(self.out.stmt(StmtKind::Expr(block), NO));
    }

    /// Prints buffers as a tuple.
    fn buffers(&mut self, cx: &mut ProgramNames<'_>, all: &[Buf]) -> ast::ExprId {
        let all: Vec<_> = (all.iter())
            .map(|b| self.out.expr(ExprKind::Local(cx.buf(*b)), NO))
            .collect();
        let all = self.out.make_list(all);
        self.out.expr(ExprKind::Tuple(all), NO)
    }

    fn stage_call(&mut self, cx: &mut ProgramNames<'_>, call: &StageCall) -> ast::StmtId {
        let mut args = Vec::new();
        for a in &call.args {
            args.push(match a {
                Argument::Buf(b) => self.out.expr(ExprKind::Local(cx.buf(*b)), NO),
                Argument::Tuple(all) => self.buffers(cx, all),
            });
        }
        let attrs = self.named_attrs(Some(call.op), &call.attrs);
        let callee = self.name(registry().get(call.op).map_or("", |def| def.name));
        let args = self.out.make_list(args);
        let kind = ExprKind::Call {
            callee,
            args,
            attrs,
        };
        let value = self.out.expr(kind, NO);
        let kind = match call.outs[..] {
            [out] => StmtKind::Bind {
                binder: self.out.binder(cx.buf(out), None, NO),
                value,
            },
            _ => StmtKind::Store {
                target: self.buffers(cx, &call.outs),
                op: StoreOp::Set,
                value,
            },
        };
        self.out.stmt(kind, NO)
    }
}

/// A program, and what its stages are compared with.
struct Site<'p> {
    program: &'p Program,
    simple: Program,
    /// The program with no more stages than the checks before all others.
    bare: Program,
    guards: usize,
}

impl<'p> Site<'p> {
    fn new(program: &'p Program) -> Site<'p> {
        let mut simple = program.clone();
        extents::simplify_indices(&mut simple);
        let mut bare = program.clone();
        let guards = guards(&bare);
        bare.stages.truncate(guards);
        bare.hints.clear();
        bare.kernels.clear();
        Site {
            program,
            simple,
            bare,
            guards,
        }
    }

    /// The kernels that a text can state, and the calls in their groups. Where a stage has a hint that
    /// no call stands for, the text has loops, and these alone may be another kernel's work, or none's.
    fn kernels(&self) -> (Vec<Kernel>, Vec<Shown>) {
        let program = self.program;
        let (mut kernels, mut all) = (Vec::new(), Vec::new());
        for kernel in program.kernels.iter().filter(|k| !k.stages.is_empty()) {
            let mut shown: Vec<Shown> = Vec::new();
            let mut at = kernel.stages.start;
            while at < kernel.stages.end {
                let found = self.shown(at..kernel.stages.end);
                at = found.as_ref().map_or(at + 1, |s| s.stages.end);
                shown.extend(found);
            }
            let mut read = program.clone();
            read.hints.retain(|(b, _)| {
                let writes = |s: &Shown| {
                    program.stages[s.stages.clone()]
                        .iter()
                        .any(|s| s.written().contains(b))
                };
                shown.iter().any(writes)
            });
            if relax_loops::select::check(&read, kernel).is_ok() {
                kernels.push(kernel.clone());
                all.extend(shown);
            }
        }
        (kernels, all)
    }

    /// The call that the first of some stages, and perhaps more of them, can be shown as.
    fn shown(&self, stages: Range<usize>) -> Option<Shown> {
        let hinted = |at: usize| {
            let mut bufs = self.program.stages[at].written();
            bufs.retain(|b| self.program.hint(*b).is_some());
            bufs.into_iter().map(move |b| (at, b))
        };
        stages.clone().flat_map(hinted).find_map(|(last, out)| {
            let own = stages.start..last + 1;
            let calls = hinted_calls(self.program, out).into_iter();
            calls.filter_map(|call| self.fits(call, own.clone())).next()
        })
    }

    /// Returns the call if it is exactly these stages, with their hints.
    fn fits(&self, call: StageCall, stages: Range<usize>) -> Option<Shown> {
        let program = self.program;
        let mut made = self.bare.clone();
        splice(&mut made, &call, Span::NONE).ok()?;
        if guards(&made) != self.guards {
            // It would check what the program does not.
            return None;
        }
        extents::simplify_indices(&mut made);
        let new = self.guards..made.stages.len();
        let same = same_stages(&self.simple, stages.clone(), &made, new)?;
        let hints: Vec<(Buf, Hint)> = (made.hints.iter())
            .map(|(b, hint)| {
                let own = |b: Buf| same.get(&b).copied().unwrap_or(b);
                let mut hint = hint.clone();
                hint.operands_mut().into_iter().for_each(|b| *b = own(*b));
                (own(*b), hint)
            })
            .collect();
        let inner: Vec<Buf> = same.into_values().collect();
        let mut written = program.stages[stages.clone()]
            .iter()
            .flat_map(Stage::written);
        let hinted = written.all(|b| {
            let made = hints.iter().find(|h| h.0 == b).map(|h| &h.1);
            program.hint(b) == made
        });
        let private = inner.iter().all(|b| self.inside(*b, &stages));
        (hinted && private).then_some(Shown {
            call,
            stages,
            inner,
        })
    }

    /// Returns whether a buffer is only used by some stages.
    fn inside(&self, buf: Buf, stages: &Range<usize>) -> bool {
        let program = self.program;
        let uses = |s: &Stage| reads_buffer(s, buf) || s.written().contains(&buf);
        let mut others = program.stages.iter().enumerate();
        !in_extents(program, buf) && others.all(|(k, s)| stages.contains(&k) || !uses(s))
    }
}

/// The number of checks before all other stages.
fn guards(program: &Program) -> usize {
    program.stages.iter().take_while(|s| s.is_guard()).count()
}

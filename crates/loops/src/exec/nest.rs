//! Loop nests, compiled to uniform code once and run.

use relax_base::Id;
use relax_tensor::DType;

use super::Dims;
use super::code::{Ins, Machine};
use super::compile::Compiler;
use super::error::Fault;
use super::memory::{Bufs, Memory};
use super::num::Num;
use super::span::Reg;
use crate::{BinOp, Buf, Ex, Program, Role, Stmt};

/// A pending task: statements, or the end of a construct.
enum Task<'s> {
    Block(std::slice::Iter<'s, Stmt>),
    /// Index, test to patch.
    EndFor(Reg, usize),
    /// The start of the condition, and the jump to patch.
    EndWhile(usize, usize),
    /// Jump to patch, the other side.
    Else(usize, &'s [Stmt]),
    /// Jump to patch.
    End(usize),
}

pub(super) fn run(
    program: &Program,
    body: &[Stmt],
    dims: &Dims,
    bufs: &mut Bufs,
) -> Result<(), Fault> {
    for buf in buffers(body) {
        if program.bufs[buf].role == Role::Local {
            // Until its `alloc` runs it has no elements (or the one of a scalar).
            let rank = program.bufs[buf].shape.len();
            let empty = Memory::fresh(program.bufs[buf].dtype, vec![0; rank]).ok_or_else(|| {
                Fault::Unsupported(format!("buffers of {:?}", program.bufs[buf].dtype))
            })?;
            bufs.of[buf.index()] = Some(empty);
        }
    }
    let mut messages = Vec::new();
    let mut c = Compiler::new(program, bufs, true);
    dims.bind(&mut c);
    compile(program, body, &mut c, &mut messages)?;
    let words = c.allocate(&mut []);
    let segs = std::mem::take(&mut c.segs);
    let mut m = Machine::new(words, 0);
    let result = m.run(&segs[0], bufs);
    result.map_err(|f| match f {
        Fault::Assert(n, shown) => {
            let (message, part) = messages[n as usize];
            Fault::Message(filled(message, &shown), part)
        }
        f => f,
    })
}

/// Returns a message with numbers substituted for each `{}`.
fn filled(message: &str, values: &[i64]) -> String {
    let mut parts = message.split("{}");
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut values = values.iter();
    for part in parts {
        match values.next() {
            Some(v) => text.push_str(&v.to_string()),
            None => text.push_str("{}"),
        }
        text.push_str(part);
    }
    text
}

fn compile<'s>(
    program: &Program,
    body: &'s [Stmt],
    c: &mut Compiler<'_>,
    messages: &mut Vec<(&'s str, u32)>,
) -> Result<(), Fault> {
    let mut work = vec![Task::Block(body.iter())];
    while let Some(task) = work.pop() {
        c.forget();
        match task {
            Task::Block(mut rest) => {
                let Some(stmt) = rest.next() else { continue };
                work.push(Task::Block(rest));
                statement(program, stmt, c, messages, &mut work)?;
            }
            Task::EndFor(i, test) => {
                c.code().push(Ins::ForNext(i, test));
                let end = c.code().len();
                if let Ins::ForTest(_, _, exit) = &mut c.code()[test] {
                    *exit = end;
                }
            }
            Task::EndWhile(top, exit) => {
                c.code().push(Ins::Again(top));
                patch(c, exit);
            }
            Task::Else(jump, otherwise) => {
                let end = c.code().len();
                c.code().push(Ins::Jump(0));
                patch(c, jump);
                work.push(Task::End(end));
                work.push(Task::Block(otherwise.iter()));
            }
            Task::End(jump) => patch(c, jump),
        }
    }
    Ok(())
}

/// Patches a forward jump to end here.
fn patch(c: &mut Compiler<'_>, jump: usize) {
    let here = c.code().len();
    match &mut c.code()[jump] {
        Ins::Jump(to) | Ins::JumpUnless(_, to) => *to = here,
        _ => unreachable!("only forward jumps are patched"),
    }
}

fn statement<'s>(
    program: &Program,
    stmt: &'s Stmt,
    c: &mut Compiler<'_>,
    messages: &mut Vec<(&'s str, u32)>,
    work: &mut Vec<Task<'s>>,
) -> Result<(), Fault> {
    match stmt {
        Stmt::For {
            var,
            extent,
            mark: _,
            body,
        } => {
            let n = c.expr(extent)?;
            let i = c.bind(*var, false, 0);
            c.code().push(Ins::Const(i, 0));
            let test = c.code().len();
            c.code().push(Ins::ForTest(i, n, 0));
            work.push(Task::EndFor(i, test));
            work.push(Task::Block(body.iter()));
        }
        Stmt::While { cond, body } => {
            let top = c.code().len();
            let r = c.expr(cond)?;
            let exit = c.code().len();
            c.code().push(Ins::JumpUnless(r, 0));
            work.push(Task::EndWhile(top, exit));
            work.push(Task::Block(body.iter()));
        }
        Stmt::If {
            cond,
            then,
            otherwise,
        } => {
            let r = c.expr(cond)?;
            let jump = c.code().len();
            c.code().push(Ins::JumpUnless(r, 0));
            if otherwise.is_empty() {
                work.push(Task::End(jump));
            } else {
                work.push(Task::Else(jump, otherwise));
            }
            work.push(Task::Block(then.iter()));
        }
        Stmt::Store { buf, index, value } => {
            c.check_access(*buf, index.len(), value.dtype())?;
            if program.bufs[*buf].role == Role::Input {
                let name = &program.bufs[*buf].name;
                return Err(Fault::Unsupported(format!("a store to the input {name}")));
            }
            let regs = index.iter().map(|i| c.expr(i)).collect::<Result<_, _>>()?;
            let value = c.expr(value)?;
            let place = program.access(*buf, index);
            c.code().push(Ins::Store(*buf, regs, value, place));
        }
        Stmt::Let { var, value } => {
            let num = Num::of(value.dtype())
                .ok_or_else(|| Fault::Unsupported(format!("arithmetic on {:?}", value.dtype())))?;
            let r = c.expr(value)?;
            // A register of its own: `r` may be that of a loop index, which changes.
            let own = c.bind(*var, false, 0);
            c.code().push(Ins::Copy(num, own, r));
        }
        Stmt::Alloc { buf } => {
            let extents = &program.bufs[*buf].shape;
            let regs = extents
                .iter()
                .map(|e| c.expr(e))
                .collect::<Result<_, _>>()?;
            c.code().push(Ins::Alloc(*buf, regs));
        }
        Stmt::Init { over, body } => {
            let mut all: Option<Reg> = None;
            for var in over {
                let i = c.expr(&Ex::var(*var, DType::I64))?;
                let zero = c.constant(DType::I64, 0);
                let first = c.reg(false, 0, false);
                c.code()
                    .push(Ins::Binary(BinOp::Eq, Num::I(64), first, i, zero));
                all = Some(match all {
                    None => first,
                    Some(r) => {
                        let both = c.reg(false, 0, false);
                        c.code()
                            .push(Ins::Binary(BinOp::And, Num::Bool, both, r, first));
                        both
                    }
                });
            }
            if let Some(r) = all {
                let jump = c.code().len();
                c.code().push(Ins::JumpUnless(r, 0));
                work.push(Task::End(jump));
            }
            work.push(Task::Block(body.iter()));
        }
        Stmt::Assert {
            cond,
            message,
            values,
            part,
        } => {
            let r = c.expr(cond)?;
            let shown = values.iter().map(|v| c.expr(v)).collect::<Result<_, _>>()?;
            c.code().push(Ins::Assert(r, messages.len() as u32, shown));
            messages.push((message, *part));
        }
    }
    Ok(())
}

/// Returns the buffers that a nest stores to or allocates, in order of first appearance.
pub(super) fn buffers(body: &[Stmt]) -> Vec<Buf> {
    let mut found = Vec::new();
    let mut seen = rustc_hash::FxHashSet::default();
    for stmt in crate::statements(body) {
        if let Stmt::Store { buf, .. } | Stmt::Alloc { buf } = stmt
            && seen.insert(*buf)
        {
            found.push(*buf);
        }
    }
    found
}

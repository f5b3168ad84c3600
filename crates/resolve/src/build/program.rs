//! `prim_func` items: hand-written tensor programs.
//!
//! Parameters are buffers; those that are written are outputs and come last. The statements become
//! one loop nest, or stages (`program_stages`).

use relax_base::{Diagnostic, Span, Symbol};
use relax_loops::schedule::MOST_LANES;
use relax_loops::{
    Access, BinOp, Buf, Ex, ExKind, Mark, Program, Role, Stmt, Var, VarInfo, statements,
};
use relax_syntax::ast::{self, ExprKind, ForKind, StmtKind, StoreOp};
use relax_tensor::DType;
use rustc_hash::FxHashSet;

use super::Resolver;
use super::program_cx::{Named, ProgramCx};
use crate::codes;

/// The maximum nesting depth of blocks: loop nests own their parts, and walking them recurses.
const DEEPEST: usize = 200;

impl Resolver<'_> {
    /// Resolves a `prim_func`; the program is incomplete after errors.
    pub(crate) fn prim_func(&mut self, p: &ast::PrimFunc, span: Span) -> Program {
        let ast = self.ast;
        let place = self.at(span);
        let mut cx = ProgramCx::new(p.name, place);
        self.accesses.clear();
        let mut params: Vec<(Buf, Span)> = Vec::new();
        let mut seen: Vec<(Symbol, Span)> = Vec::new();
        for b in ast.list(p.params) {
            let binder = ast.binders[b];
            if let Some(&(_, first)) = seen.iter().find(|s| s.0 == binder.name) {
                let message = format!("parameter `%{}` stands twice", binder.name);
                self.duplicate(binder.span, first, &message);
            }
            seen.push((binder.name, binder.span));
            if let Some(buf) = self.declare_buffer(&mut cx, b, Role::Input, true) {
                params.push((buf, binder.span));
            }
        }
        self.check_dims_bound(&cx, span);
        let mistakes = self.mistakes;
        let groups = self.program_stages(&mut cx, p);
        cx.program.accesses = std::mem::take(&mut self.accesses);
        let mut last_output: Option<Span> = None;
        for (buf, place) in params {
            if cx.stored.contains(&buf) {
                cx.program.bufs[buf].role = Role::Output;
                cx.program.outputs.push(buf);
                last_output = Some(place);
                continue;
            }
            cx.program.inputs.push(buf);
            if let Some(output) = last_output {
                let name = cx.program.bufs[buf].name;
                let message = format!("`%{name}` is only read, and stands after an output");
                let d = Diagnostic::error(codes::PROGRAM_FORM, place, message)
                    .label(output, "this one is written")
                    .note("a tensor program takes its inputs first, then its outputs");
                self.error(d);
            }
        }
        if self.mistakes == mistakes {
            self.check_kernels(&cx.program, &groups);
        }
        cx.program
    }

    /// Resolves a block of statements. The recursion is bounded by [`DEEPEST`]; `loops` are the
    /// variables of the enclosing loops.
    pub(super) fn program_block(
        &mut self,
        cx: &mut ProgramCx,
        block: ast::ExprId,
        loops: &mut Vec<Var>,
        depth: usize,
    ) -> Vec<Stmt> {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[block];
        if depth > DEEPEST {
            let message = "blocks nest too deeply in this tensor program";
            self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
            return Vec::new();
        }
        let mark = cx.undo.len();
        let mut out = Vec::new();
        match kind {
            ExprKind::Block { stmts, tail, .. } => {
                for s in ast.list(stmts) {
                    self.program_stmt(cx, s, loops, depth, &mut out);
                }
                if let Some(tail) = tail {
                    self.program_effect(cx, tail, loops, depth, &mut out);
                }
            }
            // An `else if` has no braces.
            _ => self.program_effect(cx, block, loops, depth, &mut out),
        }
        cx.leave(mark);
        out
    }

    pub(super) fn program_stmt(
        &mut self,
        cx: &mut ProgramCx,
        s: ast::StmtId,
        loops: &mut Vec<Var>,
        depth: usize,
        out: &mut Vec<Stmt>,
    ) {
        let ast = self.ast;
        let ast::Stmt { kind, span } = ast.stmts[s];
        match kind {
            StmtKind::Error => {}
            StmtKind::Let { binder, value } => self.program_let(cx, binder, value, out),
            StmtKind::Bind { binder, value } => {
                self.program_bind(cx, (binder, value), ast.stmts[s], out)
            }
            StmtKind::Expr(e) => self.program_effect(cx, e, loops, depth, out),
            StmtKind::For {
                kind,
                loops: headers,
                body,
            } => {
                let mark = cx.undo.len();
                let mut headed = Vec::with_capacity(headers.len());
                let mut good = true;
                if let ForKind::Vectorize(w) = kind
                    && !(1..=MOST_LANES).contains(&w)
                {
                    let message = format!("a vector has 1 to {MOST_LANES} lanes, not {w}");
                    self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
                    good = false;
                }
                // Extents are resolved before the variables come into scope.
                for l in ast.list(headers) {
                    let extent = self.index_expr(cx, ast.loops[l].extent);
                    good &= extent.is_some();
                    headed.push((ast.loops[l].binder, extent.unwrap_or(Ex::idx(0))));
                }
                let outer = loops.len();
                for &(binder, _) in &headed {
                    let name = ast.binders[binder].name;
                    let dtype = DType::I64;
                    let var = cx.program.vars.push(VarInfo { name, dtype });
                    cx.bind(name, Named::Var(var));
                    loops.push(var);
                }
                let mut body = self.program_block(cx, body, loops, depth + 1);
                let n = headed.len();
                for (i, (_, extent)) in headed.into_iter().enumerate().rev() {
                    let mark = match kind {
                        ForKind::Parallel if i == 0 => Mark::Parallel,
                        ForKind::Vectorize(w) if i + 1 == n => Mark::Vectorize(w),
                        ForKind::Unroll if i + 1 == n => Mark::Unroll,
                        _ => Mark::Serial,
                    };
                    let var = loops[outer + i];
                    body = vec![Stmt::For {
                        var,
                        extent,
                        mark,
                        body,
                    }];
                }
                loops.truncate(outer);
                cx.leave(mark);
                if good {
                    out.append(&mut body);
                }
            }
            StmtKind::While { cond, body } => {
                let cond = self.scalar(cx, cond, Some(DType::BOOL));
                let body = self.program_block(cx, body, loops, depth + 1);
                if let Some(cond) = cond {
                    out.push(Stmt::While { cond, body });
                }
            }
            StmtKind::Store { target, .. }
                if matches!(ast.exprs[target].kind, ExprKind::Tuple(_)) =>
            {
                self.misplaced_call(cx, kind, span);
            }
            StmtKind::Store { target, op, value } => {
                if let Some(stmt) = self.program_store(cx, target, op, value) {
                    out.push(stmt);
                }
            }
            StmtKind::Alloc(binder) => {
                if let Some(buf) = self.declare_buffer(cx, binder, Role::Local, false) {
                    out.push(Stmt::Alloc { buf });
                }
            }
            StmtKind::Init(body) => {
                let body = self.program_block(cx, body, loops, depth + 1);
                let mut used = FxHashSet::default();
                index_vars(&body, &mut used);
                let over = loops
                    .iter()
                    .copied()
                    .filter(|v| !used.contains(v))
                    .collect();
                out.push(Stmt::Init { over, body });
            }
            StmtKind::Kernel { name, .. } => {
                let place = ast.exprs[name].span;
                let message = "a kernel group stands in the body of the program itself";
                let d = Diagnostic::error(codes::PROGRAM_FORM, place, message)
                    .note("it consists of stages; loops, branches and other groups hold none");
                self.error(d);
            }
            StmtKind::Graph { .. }
            | StmtKind::FreeVar(_)
            | StmtKind::Dataflow(_)
            | StmtKind::Output(_)
            | StmtKind::Compute { .. } => {
                let message = "this statement does not belong to a tensor program";
                self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
            }
        }
    }

    /// Resolves `%x = …;`: a store to a buffer of one element, or a name for a number.
    fn program_bind(
        &mut self,
        cx: &mut ProgramCx,
        (binder, value): (ast::BinderId, ast::ExprId),
        ast::Stmt { kind, span }: ast::Stmt,
        out: &mut Vec<Stmt>,
    ) {
        let b = &self.ast.binders[binder];
        let Some(buf) = scalar_buffer(cx, b) else {
            if self.call_of_operator(cx, kind).is_some() {
                return self.misplaced_call(cx, kind, span);
            }
            return self.program_let(cx, binder, value, out);
        };
        cx.stored.insert(buf);
        let (place, dtype) = (b.span, cx.program.bufs[buf].dtype);
        if let Some(value) = self.scalar(cx, value, Some(dtype)) {
            self.access(buf, &[], place);
            let index = Vec::new();
            out.push(Stmt::Store { buf, index, value });
        }
    }

    /// Reports a statement that writes whole buffers where none is a stage.
    fn misplaced_call(&mut self, cx: &ProgramCx, kind: StmtKind, span: Span) {
        let message = match self.call_of_operator(cx, kind) {
            Some(_) => {
                "a call of an operator stands in the body itself, or in a kernel group: it is a stage"
            }
            None => "several buffers are written together by the call of an operator alone",
        };
        self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
    }

    fn program_let(
        &mut self,
        cx: &mut ProgramCx,
        binder: ast::BinderId,
        value: ast::ExprId,
        out: &mut Vec<Stmt>,
    ) {
        let b = self.ast.binders[binder];
        let want = match b.ty {
            None => None,
            Some(t) => match self.buffer_type(cx, t, false) {
                Some((shape, dtype)) if shape.is_empty() => Some(dtype),
                Some(_) => {
                    let message = "a name stands for one number here; buffers are made by `alloc`";
                    let span = self.ast.types[t].span;
                    self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
                    return;
                }
                None => return,
            },
        };
        let value = self.scalar(cx, value, want);
        let dtype = match &value {
            Some(value) => value.dtype(),
            None => want.unwrap_or(DType::I64),
        };
        let name = b.name;
        let var = cx.program.vars.push(VarInfo { name, dtype });
        cx.bind(name, Named::Var(var));
        match value {
            Some(value) => out.push(Stmt::Let { var, value }),
            // The name is bound anyway, so that its uses are not reported too.
            None => {
                self.reported.insert(('%', name));
            }
        }
    }

    /// Records the span of an access.
    pub(crate) fn access(&mut self, buf: Buf, index: &[Ex], span: Span) {
        let (index, span) = (index.to_vec(), self.at(span));
        self.accesses.push(Access { buf, index, span });
    }

    fn program_store(
        &mut self,
        cx: &mut ProgramCx,
        target: ast::ExprId,
        op: StoreOp,
        value: ast::ExprId,
    ) -> Option<Stmt> {
        let ast = self.ast;
        let (base, indices) = match ast.exprs[target].kind {
            ExprKind::Index { base, indices } => (base, indices),
            _ => (target, ast::List::EMPTY),
        };
        let place = ast.exprs[target].span;
        let (buf, dtype, rank) = self.buffer(cx, base)?;
        cx.stored.insert(buf);
        if rank != indices.len() {
            let name = cx.program.bufs[buf].name;
            let message = format!("`%{name}` has rank {rank}, {} given", indices.len());
            self.error(Diagnostic::error(codes::PROGRAM_FORM, place, message));
            return None;
        }
        let index: Option<Vec<Ex>> = ast.list(indices).map(|i| self.index_expr(cx, i)).collect();
        let value = self.scalar(cx, value, Some(dtype));
        let (index, value) = (index?, value?);
        self.access(buf, &index, place);
        let old = || Ex::new(ExKind::Load(buf, index.clone()), dtype);
        let value = match op {
            StoreOp::Set => value,
            StoreOp::Add => old().binary(BinOp::Add, &value),
            StoreOp::Mul => old().binary(BinOp::Mul, &value),
        };
        Some(Stmt::Store { buf, index, value })
    }

    /// Resolves an expression statement: `if` or `assert`.
    pub(super) fn program_effect(
        &mut self,
        cx: &mut ProgramCx,
        e: ast::ExprId,
        loops: &mut Vec<Var>,
        depth: usize,
        out: &mut Vec<Stmt>,
    ) {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[e];
        match kind {
            ExprKind::Error => {}
            ExprKind::Block { .. } => {
                let mut body = self.program_block(cx, e, loops, depth + 1);
                out.append(&mut body);
            }
            ExprKind::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.scalar(cx, cond, Some(DType::BOOL));
                let then = self.program_block(cx, then, loops, depth + 1);
                let otherwise = match otherwise {
                    Some(o) => self.program_block(cx, o, loops, depth + 1),
                    None => Vec::new(),
                };
                if let Some(cond) = cond {
                    out.push(Stmt::If {
                        cond,
                        then,
                        otherwise,
                    });
                }
            }
            ExprKind::Call { callee, args, .. }
                if self.plain_name(callee).is_some_and(|n| n == "assert") =>
            {
                let message = ast.nth(args, 1).map(|m| ast.exprs[m].kind);
                let (Some(cond), Some(ExprKind::Str(message))) = (ast.nth(args, 0), message) else {
                    let message = "`assert` takes a condition and a message";
                    self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
                    return;
                };
                let message = message.as_str().to_owned();
                let (wanted, given) = (message.matches("{}").count(), args.len() - 2);
                if wanted != given {
                    let text = format!(
                        "the message has {wanted} places for values (`{{}}`), and {given} are given"
                    );
                    self.error(Diagnostic::error(codes::PROGRAM_FORM, span, text));
                }
                let cond = self.scalar(cx, cond, Some(DType::BOOL));
                let values: Vec<Option<Ex>> = (ast.list(args).skip(2))
                    .map(|v| self.scalar(cx, v, None))
                    .collect();
                if let (Some(cond), Some(values)) = (cond, values.into_iter().collect()) {
                    let part = cx.program.parts.len() as u32;
                    let span = self.at(span);
                    cx.program.parts.push(span);
                    out.push(Stmt::Assert {
                        cond,
                        message,
                        values,
                        part,
                    });
                }
            }
            _ => {
                let message = "the value of this expression is not used";
                let d = Diagnostic::error(codes::PROGRAM_FORM, span, message)
                    .note("statements store elements, name numbers, loop, branch or allocate");
                self.error(d);
            }
        }
    }
}

/// Returns the one-element buffer that `%y = …` stores to; `let %y = …`, or an unbound name,
/// defines a scalar instead.
fn scalar_buffer(cx: &ProgramCx, b: &ast::Binder) -> Option<Buf> {
    match cx.locals.get(&b.name) {
        Some(Named::Buf(buf)) if b.ty.is_none() && cx.program.bufs[*buf].shape.is_empty() => {
            Some(*buf)
        }
        _ => None,
    }
}

/// Collects every variable that the indices of stores depend on.
fn index_vars(body: &[Stmt], out: &mut FxHashSet<Var>) {
    let mut exprs: Vec<&Ex> = Vec::new();
    for s in statements(body) {
        if let Stmt::Store { index, .. } = s {
            exprs.extend(index);
        }
    }
    while let Some(e) = exprs.pop() {
        if let ExKind::Var(v) = e.kind() {
            out.insert(*v);
        }
        exprs.extend(e.children());
    }
}

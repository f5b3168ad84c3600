//! Functions of Relax: bindings, dataflow blocks, branches, nested functions.
//!
//! Statements are processed in the order of the text; open constructs are in a list of frames.
//! Nothing recurses.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{AttrValue, Attrs, BlockId, Expr, ExprId, Function, TypeId, Var, VarId, VarStyle};
use relax_sym::DimVar;
use rustc_hash::FxHashMap;

use super::Reader;
use super::value::{Decorator, Val};
use crate::ast::{List, NodeId, Stmt, StmtKind};
use crate::codes;

/// A step of a block.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Bind(VarId, ExprId),
    Flow(BlockId),
}

/// The properties of a function known from its head.
pub(super) struct Head {
    pub name: Symbol,
    pub params: Vec<VarId>,
    pub ret: Option<TypeId>,
    pub dims: Vec<DimVar>,
    pub attrs: Attrs,
    /// For a nested function, the symbols of the enclosing one, which are restored at its end.
    pub outer: Option<FxHashMap<Symbol, relax_sym::Dim>>,
}

/// A completed branch: its value and its name.
#[derive(Clone, Copy)]
pub(super) struct Branch {
    pub name: Symbol,
    pub ty: Option<TypeId>,
    pub value: ExprId,
    /// Whether it is a number rather than a tensor.
    pub scalar: bool,
}

pub(super) enum Kind {
    Function(Head),
    Flow(Option<Vec<VarId>>),
    Then(ExprId),
    Else(ExprId, Option<Branch>),
}

pub(super) struct Frame {
    pub kind: Kind,
    pub end: u32,
    pub span: Span,
    pub steps: Vec<Step>,
    pub mark: usize,
    pub ret: Option<ExprId>,
    /// The reason why no statement may follow, if so.
    pub closed: Option<&'static str>,
    /// For the second branch of an `if`: its line, which is not a statement of its own.
    pub at: Option<u32>,
}

impl Frame {
    pub fn new(kind: Kind, stmt: &Stmt, mark: usize) -> Frame {
        Frame {
            kind,
            end: stmt.end,
            span: stmt.span,
            steps: Vec::new(),
            mark,
            ret: None,
            closed: None,
            at: None,
        }
    }
}

impl Reader<'_> {
    pub(super) fn function_at(&mut self, at: u32, attrs: Attrs) -> Option<Function> {
        let stmt = self.ast.stmts[at as usize];
        let head = self.head(&stmt, attrs, false)?;
        let mark = self.hidden.len();
        let mut frames = vec![Frame::new(Kind::Function(head), &stmt, mark)];
        self.bind_params(&frames[0]);
        let mut decorator = None;
        let mut i = at + 1;
        loop {
            while frames.last()?.end <= i {
                let frame = frames.pop()?;
                if frames.is_empty() {
                    return Some(self.close_function(frame).0);
                }
                self.close(frame, &mut frames);
            }
            if frames.last()?.at == Some(i) {
                i += 1;
                continue;
            }
            let stmt = self.ast.stmts[i as usize];
            i = self.statement(i, &stmt, &mut frames, &mut decorator);
        }
    }

    /// Reads one statement; returns the index of the next.
    fn statement(
        &mut self,
        i: u32,
        stmt: &Stmt,
        frames: &mut Vec<Frame>,
        decorator: &mut Option<Attrs>,
    ) -> u32 {
        let Some(frame) = frames.last_mut() else {
            return stmt.end;
        };
        if let Some(why) = frame.closed.take()
            && !matches!(stmt.kind, StmtKind::Bad)
        {
            self.error(
                codes::STRUCTURE,
                stmt.span,
                format!("nothing can follow {why}"),
            );
        }
        match stmt.kind {
            StmtKind::Bad | StmtKind::Pass => {}
            StmtKind::Expr(e) => {
                self.eval_from(stmt, 0);
                let val = self.take(e);
                self.effect(val, self.ast.span(e), frames);
            }
            StmtKind::Assign(target, value) => {
                self.eval_from(stmt, target.0 + 1);
                let val = self.take(value);
                self.binding(target, None, val, self.ast.span(value), frames);
            }
            StmtKind::Annotated(target, ty, value) => {
                self.annotated(stmt, (target, ty, value), frames);
            }
            StmtKind::Return(value) => self.return_value(stmt, value, frames),
            StmtKind::Decorator(e) => *decorator = Some(self.nested_decorator(stmt, e)),
            StmtKind::Def { .. } => {
                if self.open_function(stmt, decorator.take(), frames) {
                    return i + 1;
                }
            }
            StmtKind::With(list) => {
                if self.open_flow(stmt, list, frames) {
                    return i + 1;
                }
            }
            StmtKind::If(test) => {
                self.open_branch(stmt, test, frames);
                return i + 1;
            }
            StmtKind::Else => {
                self.error(codes::STRUCTURE, stmt.span, "`else` belongs to no `if`");
            }
            StmtKind::Elif(_) => {
                self.keep("`elif`", stmt.span);
            }
            StmtKind::For(..) | StmtKind::While(_) => {
                let d = Diagnostic::error(
                    codes::STRUCTURE,
                    stmt.span,
                    "a function of Relax has no loops",
                )
                .note("loops stand in tensor programs (`T.prim_func`); functions call themselves");
                self.report(d);
            }
            StmtKind::Assert(..) => {
                let d = Diagnostic::error(
                    codes::STRUCTURE,
                    stmt.span,
                    "a function of Relax has no `assert`",
                )
                .note(
                    "`R.assert_op(condition)` stops the program where the condition does not hold",
                );
                self.report(d);
            }
            StmtKind::Class(_) => {
                self.error(
                    codes::STRUCTURE,
                    stmt.span,
                    "a class has no meaning in a function",
                );
            }
        }
        stmt.end
    }

    /// `target: annotation = value`.
    fn annotated(
        &mut self,
        stmt: &Stmt,
        (target, ty, value): (NodeId, NodeId, Option<NodeId>),
        frames: &mut [Frame],
    ) {
        self.eval_from(stmt, target.0 + 1);
        let (annotation, at) = (self.take(ty), self.ast.span(ty));
        if let (Val::Type(t), true) = (&annotation, self.ast.is_shared(ty)) {
            self.types.insert(ty, *t);
        }
        let scalar = self.scalar_annotation(&annotation);
        let ty = scalar.or_else(|| self.annotation(annotation, at));
        match value {
            Some(value) => {
                let val = self.take(value);
                self.binding(target, ty, val, self.ast.span(value), frames);
                let bound = frames.last().and_then(|f| f.steps.last());
                if let (Some(_), Some(&Step::Bind(var, _))) = (scalar, bound) {
                    self.mark_scalar(var);
                }
            }
            None => {
                self.error(codes::STRUCTURE, stmt.span, "a binding needs a value");
            }
        }
    }

    /// Reads what stands above a nested function.
    fn nested_decorator(&mut self, stmt: &Stmt, e: NodeId) -> Attrs {
        self.eval_from(stmt, 0);
        let val = self.take(e);
        let mut attrs = Attrs::new();
        match val {
            Val::Decorator(Decorator::Relax { private, pure }) => {
                if private {
                    attrs.set("private", AttrValue::Bool(true));
                }
                if !pure {
                    attrs.set("pure", AttrValue::Bool(false));
                }
            }
            Val::Path(p) if p == "R.function" => {}
            _ => {
                self.keep("a nested function that is not Relax", stmt.span);
            }
        }
        attrs
    }

    /// Opens a nested function; `false` where its head is wrong.
    fn open_function(
        &mut self,
        stmt: &Stmt,
        attrs: Option<Attrs>,
        frames: &mut Vec<Frame>,
    ) -> bool {
        let Some(attrs) = attrs else {
            self.error(
                codes::STRUCTURE,
                stmt.span,
                "a nested function stands under `@R.function`",
            );
            return false;
        };
        let Some(head) = self.head(stmt, attrs, true) else {
            return false;
        };
        // A function may call itself.
        let (var, e) = self.m.fresh_var(head.name, None, VarStyle::Binding);
        self.m.vars[var].span = stmt.span;
        self.bind(head.name, Val::Expr(e));
        let frame = Frame::new(Kind::Function(head), stmt, self.hidden.len());
        self.bind_params(&frame);
        frames.push(frame);
        true
    }

    /// Opens a dataflow block; `false` where it is something else.
    fn open_flow(&mut self, stmt: &Stmt, list: List, frames: &mut Vec<Frame>) -> bool {
        self.eval_from(stmt, 0);
        let items = self.ast.list(list).to_vec();
        match (&items[..], items.first().map(|&e| self.take(e))) {
            ([_], Some(Val::Dataflow)) => {
                if matches!(frame_kind(frames), Some(Kind::Flow(_))) {
                    self.error(codes::STRUCTURE, stmt.span, "dataflow blocks do not nest");
                }
                frames.push(Frame::new(Kind::Flow(None), stmt, self.hidden.len()));
                return true;
            }
            (_, Some(Val::Path(_))) => {
                self.error(
                    codes::KIND,
                    stmt.span,
                    "`R.dataflow()` is called to open a block",
                );
            }
            _ => {
                self.keep("a block that is no dataflow block", stmt.span);
            }
        }
        false
    }

    /// Opens the first branch of an `if`.
    fn open_branch(&mut self, stmt: &Stmt, test: NodeId, frames: &mut Vec<Frame>) {
        self.eval_from(stmt, 0);
        let (val, at) = (self.take(test), self.ast.span(test));
        let cond = self
            .value(val, at)
            .unwrap_or_else(|| self.m.add(Expr::Error, at));
        if matches!(frame_kind(frames), Some(Kind::Flow(_))) {
            self.error(
                codes::STRUCTURE,
                stmt.span,
                "a dataflow block has no branches",
            );
        }
        frames.push(Frame::new(Kind::Then(cond), stmt, self.hidden.len()));
    }

    /// A statement that is an expression.
    fn effect(&mut self, val: Val, span: Span, frames: &mut [Frame]) {
        let Some(frame) = frames.last_mut() else {
            return;
        };
        match val {
            Val::FuncAttr(attrs) => match &mut frame.kind {
                Kind::Function(head) => {
                    let private = head.attrs.get("private").is_some();
                    for (name, value) in attrs {
                        if private && name == "global_symbol" {
                            let message = "a private function has no name outside of the module";
                            let d = Diagnostic::error(codes::STRUCTURE, span, message)
                                .note("`global_symbol` is that name");
                            self.diagnostics.push(d);
                        }
                        head.attrs.set(name, value);
                    }
                }
                _ => {
                    self.error(
                        codes::STRUCTURE,
                        span,
                        "attributes of a function stand at its beginning",
                    );
                }
            },
            Val::Output(items) => self.outputs(items, span, frame),
            Val::Bad | Val::Str(_) => {}
            Val::Expr(e) => {
                let var = self.m.vars.push(Var {
                    name: Symbol::new("_"),
                    ty: None,
                    span,
                    style: VarStyle::Effect,
                });
                frame.steps.push(Step::Bind(var, e));
            }
            val @ (Val::Tuple(_)
            | Val::Int(_)
            | Val::Float(_)
            | Val::Bool(_)
            | Val::StrValue(_)) => {
                let value = self.value(val, span);
                if let Some(e) = value {
                    self.effect(Val::Expr(e), span, frames);
                }
            }
            other => self.wrong(&other, span, "a call"),
        }
    }

    fn outputs(&mut self, items: Vec<(Val, Span)>, span: Span, frame: &mut Frame) {
        let Kind::Flow(outputs) = &mut frame.kind else {
            self.error(
                codes::STRUCTURE,
                span,
                "`R.output` stands at the end of a dataflow block",
            );
            return;
        };
        let mut vars = Vec::new();
        for (val, at) in items {
            let var = match &val {
                Val::Expr(e) => match self.m.exprs[*e] {
                    Expr::Var(v) => frame.steps.iter().find_map(|s| match s {
                        Step::Bind(b, _) if *b == v => Some(v),
                        _ => None,
                    }),
                    _ => None,
                },
                _ => None,
            };
            match var {
                Some(v) => vars.push(v),
                None if matches!(val, Val::Bad) => {}
                None => {
                    self.error(
                        codes::STRUCTURE,
                        at,
                        "an output is a name that the block binds",
                    );
                }
            }
        }
        *outputs = Some(vars);
        frame.closed = Some("`R.output`");
    }

    /// Reads `target = value`.
    fn binding(
        &mut self,
        target: NodeId,
        ty: Option<TypeId>,
        val: Val,
        span: Span,
        frames: &mut [Frame],
    ) {
        let at = self.ast.span(target);
        let Some(name) = self.target(target) else {
            self.keep("an assignment to more than a name", at);
            return;
        };
        let Some(frame) = frames.last_mut() else {
            return;
        };
        match val {
            Val::Symbol => {
                if !self.symbols.contains_key(&name) {
                    if let Some(Val::Expr(_)) = self.names.get(&name) {
                        self.keep("a symbol with the name of a variable", at);
                    }
                    self.new_symbol(name, at);
                }
                return;
            }
            Val::Class => return self.bind(name, Val::Class),
            _ => {}
        }
        if name == "R" {
            self.error(codes::BOUND_TWICE, at, "`R` is the language's own name");
        } else if self.symbols.contains_key(&name) || self.type_vars.contains_key(&name) {
            self.keep("a variable with the name of a symbol", at);
        }
        let value = match self.value(val, span) {
            Some(e) => e,
            None => self.m.add(Expr::Error, span),
        };
        let var = self.m.vars.push(Var {
            name,
            ty,
            span: at,
            style: VarStyle::Binding,
        });
        frame.steps.push(Step::Bind(var, value));
        if matches!(self.m.exprs[value], Expr::Tuple(_)) {
            self.tuples.insert(var);
        }
        let e = self.m.add(Expr::Var(var), at);
        self.bind(name, Val::Expr(e));
    }

    fn return_value(&mut self, stmt: &Stmt, value: Option<NodeId>, frames: &mut [Frame]) {
        let Some(frame) = frames.last_mut() else {
            return;
        };
        self.eval_from(stmt, 0);
        let value = match value {
            Some(id) => {
                let (val, at) = (self.take(id), self.ast.span(id));
                let val = if matches!(val, Val::None) {
                    Val::Tuple(Vec::new())
                } else {
                    val
                };
                self.value(val, at)
                    .unwrap_or_else(|| self.m.add(Expr::Error, at))
            }
            None => self.m.tuple(&[], stmt.span),
        };
        match frame.kind {
            Kind::Function(_) => {
                frame.ret = Some(value);
                frame.closed = Some("`return`");
            }
            _ => {
                let d = Diagnostic::error(
                    codes::STRUCTURE,
                    stmt.span,
                    "`return` stands at the end of a function, not in a block",
                )
                .note("both branches of an `if` bind the same name, which is returned behind it");
                self.report(d);
            }
        }
    }
}

fn frame_kind(frames: &[Frame]) -> Option<&Kind> {
    frames.last().map(|f| &f.kind)
}

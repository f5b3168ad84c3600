//! Functions of Relax: bindings, dataflow blocks, branches, nested functions.
//!
//! Statements come in the order of the text; what is open is a list of frames. Nothing recurses.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{
    AttrValue, Attrs, Binding, Block, BlockId, Expr, ExprId, Function, GlobalKind, TypeId, Var,
    VarId, VarStyle,
};
use relax_sym::DimVar;
use rustc_hash::FxHashMap;

use super::Reader;
use super::value::{Decorator, Val};
use crate::ast::{NodeId, Stmt, StmtKind};
use crate::codes;

/// A step of a block.
#[derive(Clone, Copy)]
enum Step {
    Bind(VarId, ExprId),
    Flow(BlockId),
}

/// What is known of a function from its head.
struct Head {
    name: Symbol,
    params: Vec<VarId>,
    ret: Option<TypeId>,
    dims: Vec<DimVar>,
    attrs: Attrs,
    /// Symbols that are the function's own.
    outer: Option<FxHashMap<Symbol, relax_sym::Dim>>,
}

/// A branch that ended: its value and what it is called.
#[derive(Clone, Copy)]
struct Branch {
    name: Symbol,
    ty: Option<TypeId>,
    value: ExprId,
}

enum Kind {
    Function(Head),
    Flow(Option<Vec<VarId>>),
    Then(ExprId),
    Else(ExprId, Option<Branch>),
}

struct Frame {
    kind: Kind,
    end: u32,
    span: Span,
    steps: Vec<Step>,
    mark: usize,
    ret: Option<ExprId>,
    /// Whether nothing may follow.
    closed: Option<&'static str>,
    /// For the second branch of an `if`: its line, which is no statement of its own.
    at: Option<u32>,
}

impl Frame {
    fn new(kind: Kind, stmt: &Stmt, mark: usize) -> Frame {
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
    /// A function of the module.
    pub(super) fn relax_item(
        &mut self,
        item: usize,
        first: u32,
        at: u32,
        private: bool,
        pure: bool,
    ) {
        self.symbols.clear();
        self.keep = None;
        let mut attrs = Attrs::new();
        if private {
            attrs.set("private", AttrValue::Bool(true));
        }
        if !pure {
            attrs.set("pure", AttrValue::Bool(false));
        }
        let errors = self.diagnostics.len();
        let function = self.function_at(at, attrs);
        let kept = self.keep.take();
        let Some(function) = function else { return };
        match kept {
            Some((why, _)) if self.diagnostics.len() == errors => {
                self.keep_function(item, first, at, function, why)
            }
            _ => {
                let func = self.m.funcs.push(function);
                if let Some(g) = self.items[item].global {
                    self.m.globals[g].kind = GlobalKind::Func(func);
                }
            }
        }
    }

    fn function_at(&mut self, at: u32, attrs: Attrs) -> Option<Function> {
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

    /// The signature of a function.
    fn head(&mut self, stmt: &Stmt, attrs: Attrs, nested: bool) -> Option<Head> {
        let StmtKind::Def { name, params, ret } = stmt.kind else {
            return None;
        };
        let outer = nested.then(|| self.symbols.clone());
        self.signature = Some(Vec::new());
        self.eval_from(stmt, 0);
        let mut vars = Vec::new();
        let mut seen: FxHashMap<Symbol, Span> = FxHashMap::default();
        for param in self.ast.func_params(params).to_vec() {
            let name = self.symbol(param.name);
            if let Some(before) = seen.insert(name, param.name) {
                let message = format!("`{name}` is the name of two parameters");
                self.report(
                    Diagnostic::error(codes::BOUND_TWICE, param.name, message)
                        .label(before, "the first one"),
                );
            }
            let mut scalar = None;
            let ty = match param.ty {
                Some(id) => {
                    let (val, at) = (self.take(id), self.ast.span(id));
                    scalar = self.scalar_annotation(&val);
                    scalar.or_else(|| self.annotation(val, at))
                }
                None => {
                    let message = format!("the parameter `{name}` needs its type");
                    let at = param.name.at_end();
                    self.report(
                        Diagnostic::error(codes::ANNOTATION, param.name, message).suggest(
                            "annotate it",
                            at,
                            ": R.Tensor",
                        ),
                    );
                    None
                }
            };
            let var = self.m.vars.push(Var {
                name,
                ty,
                span: param.name,
                style: VarStyle::Param,
            });
            if scalar.is_some() {
                self.mark_scalar(var);
            }
            vars.push(var);
        }
        let ret = ret.and_then(|id| {
            let (val, at) = (self.take(id), self.ast.span(id));
            match val {
                Val::None => Some(self.m.types.unit()),
                val => self.annotation(val, at),
            }
        });
        Some(Head {
            name: self.symbol(name),
            params: vars,
            ret,
            dims: self.signature.take().unwrap_or_default(),
            attrs,
            outer,
        })
    }

    /// Notes that a variable is a number and no tensor.
    fn mark_scalar(&mut self, var: VarId) {
        let mark = Attrs::new().with("scalar", AttrValue::Bool(true));
        self.m.var_attrs.insert(var, mark);
    }

    fn bind_params(&mut self, frame: &Frame) {
        if let Kind::Function(head) = &frame.kind {
            for &v in &head.params {
                let (name, span) = (self.m.vars[v].name, self.m.vars[v].span);
                let e = self.m.add(Expr::Var(v), span);
                self.bind(name, Val::Expr(e));
            }
        }
    }

    /// Reads one statement; where the next one is.
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
                self.eval_from(stmt, target.0 + 1);
                let (annotation, at) = (self.take(ty), self.ast.span(ty));
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
            StmtKind::Return(value) => self.return_value(stmt, value, frames),
            StmtKind::Decorator(e) => {
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
                *decorator = Some(attrs);
            }
            StmtKind::Def { .. } => {
                let Some(attrs) = decorator.take() else {
                    self.error(
                        codes::STRUCTURE,
                        stmt.span,
                        "a nested function stands under `@R.function`",
                    );
                    return stmt.end;
                };
                let Some(head) = self.head(stmt, attrs, true) else {
                    return stmt.end;
                };
                // A function may call itself.
                let (var, e) = self.m.fresh_var(head.name, None, VarStyle::Binding);
                self.m.vars[var].span = stmt.span;
                self.bind(head.name, Val::Expr(e));
                let frame = Frame::new(Kind::Function(head), stmt, self.hidden.len());
                self.bind_params(&frame);
                frames.push(frame);
                return i + 1;
            }
            StmtKind::With(list) => {
                self.eval_from(stmt, 0);
                let items = self.ast.list(list).to_vec();
                match (&items[..], items.first().map(|&e| self.take(e))) {
                    ([_], Some(Val::Dataflow)) => {
                        if matches!(frame_kind(frames), Some(Kind::Flow(_))) {
                            self.error(codes::STRUCTURE, stmt.span, "dataflow blocks do not nest");
                        }
                        frames.push(Frame::new(Kind::Flow(None), stmt, self.hidden.len()));
                        return i + 1;
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
            }
            StmtKind::If(test) => {
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

    /// A statement that is an expression.
    fn effect(&mut self, val: Val, span: Span, frames: &mut [Frame]) {
        let Some(frame) = frames.last_mut() else {
            return;
        };
        match val {
            Val::FuncAttr(attrs) => match &mut frame.kind {
                Kind::Function(head) => {
                    for (name, value) in attrs {
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

    /// `target = value`.
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

    fn chain(&mut self, steps: &[Step], mut body: ExprId) -> ExprId {
        for step in steps.iter().rev() {
            body = match *step {
                Step::Bind(var, value) => {
                    let span = self.m.vars[var].span;
                    self.m.add(Expr::Let { var, value, body }, span)
                }
                Step::Flow(block) => {
                    let span = self.m.blocks[block].span;
                    self.m.add(Expr::Dataflow { block, body }, span)
                }
            };
        }
        body
    }

    fn close_function(&mut self, frame: Frame) -> (Function, Symbol) {
        self.unbind(frame.mark);
        let Kind::Function(head) = frame.kind else {
            unreachable!("the frame of a function is one");
        };
        let body = match frame.ret {
            Some(e) => e,
            None => {
                if !self.damaged {
                    self.error(
                        codes::STRUCTURE,
                        frame.span,
                        "the function does not end with `return`",
                    );
                }
                self.m.add(Expr::Error, frame.span)
            }
        };
        if let Some(outer) = head.outer {
            self.symbols = outer;
        }
        let body = self.chain(&frame.steps, body);
        let function = Function {
            type_params: Vec::new(),
            dims: head.dims,
            params: head.params,
            ret: head.ret,
            constraints: Vec::new(),
            body,
            attrs: head.attrs,
            span: frame.span,
        };
        (function, head.name)
    }

    /// Ends a block.
    fn close(&mut self, frame: Frame, frames: &mut Vec<Frame>) {
        match frame.kind {
            Kind::Function(_) => {
                let span = frame.span;
                // The name was bound before the parameters were.
                let (function, name) = self.close_function(frame);
                let func = self.m.funcs.push(function);
                let value = self.m.add(Expr::Func(func), span);
                self.bind_step(name, None, value, span, frames);
            }
            Kind::Flow(outputs) => {
                self.close_flow(frame.steps, outputs, frame.span, frame.mark, frames)
            }
            Kind::Then(cond) => {
                let branch = self.branch(frame.steps, frame.span);
                self.unbind(frame.mark);
                let next = self.ast.stmts.get(frame.end as usize).copied();
                let inside = frames.last().is_some_and(|f| frame.end < f.end);
                match next {
                    Some(next) if inside && next.kind == StmtKind::Else => {
                        let mut own =
                            Frame::new(Kind::Else(cond, branch), &next, self.hidden.len());
                        own.span = frame.span;
                        own.at = Some(frame.end);
                        frames.push(own);
                    }
                    _ => {
                        let message =
                            "an `if` of Relax has an `else`: its value is what both branches bind";
                        self.error(codes::STRUCTURE, frame.span, message);
                    }
                }
            }
            Kind::Else(cond, then) => {
                let branch = self.branch(frame.steps, frame.span);
                self.unbind(frame.mark);
                let (Some(a), Some(b)) = (then, branch) else {
                    return;
                };
                if a.name != b.name {
                    let message = format!(
                        "the branches end by binding `{}` and `{}`: they must bind the same name",
                        a.name, b.name
                    );
                    self.error(codes::STRUCTURE, frame.span, message);
                }
                let value = Expr::If {
                    cond,
                    then: a.value,
                    otherwise: b.value,
                };
                let value = self.m.add(value, frame.span);
                let ty = if a.ty == b.ty { a.ty } else { None };
                self.bind_step(b.name, ty, value, frame.span, frames);
            }
        }
    }

    fn bind_step(
        &mut self,
        name: Symbol,
        ty: Option<TypeId>,
        value: ExprId,
        span: Span,
        frames: &mut [Frame],
    ) {
        // A nested function refers to itself by the variable that was made for it.
        let own = match (&self.m.exprs[value], self.names.get(&name)) {
            (Expr::Func(_), Some(Val::Expr(e))) => match self.m.exprs[*e] {
                Expr::Var(v) if self.m.vars[v].span == span => Some(v),
                _ => None,
            },
            _ => None,
        };
        let var = own.unwrap_or_else(|| {
            self.m.vars.push(Var {
                name,
                ty,
                span,
                style: VarStyle::Binding,
            })
        });
        if let Some(frame) = frames.last_mut() {
            frame.steps.push(Step::Bind(var, value));
        }
        let e = self.m.add(Expr::Var(var), span);
        self.bind(name, Val::Expr(e));
    }

    fn close_flow(
        &mut self,
        steps: Vec<Step>,
        outputs: Option<Vec<VarId>>,
        span: Span,
        mark: usize,
        frames: &mut [Frame],
    ) {
        let mut bindings = Vec::with_capacity(steps.len());
        for step in steps {
            if let Step::Bind(var, value) = step {
                bindings.push(Binding { var, value });
            }
        }
        let outputs = outputs.unwrap_or_default();
        self.unbind(mark);
        for &v in &outputs {
            let name = self.m.vars[v].name;
            let e = self.m.add(Expr::Var(v), self.m.vars[v].span);
            self.bind(name, Val::Expr(e));
        }
        let block = self.m.blocks.push(Block {
            bindings,
            outputs,
            span,
        });
        if let Some(frame) = frames.last_mut() {
            frame.steps.push(Step::Flow(block));
        }
    }

    /// The value of a branch: what its last binding binds.
    fn branch(&mut self, mut steps: Vec<Step>, span: Span) -> Option<Branch> {
        match steps.pop() {
            Some(Step::Bind(var, value)) if self.m.vars[var].style == VarStyle::Binding => {
                let (name, ty) = (self.m.vars[var].name, self.m.vars[var].ty);
                let value = self.chain(&steps, value);
                Some(Branch { name, ty, value })
            }
            Some(Step::Flow(_)) => {
                self.keep("a branch that ends in a dataflow block", span);
                None
            }
            _ => {
                if !self.damaged && self.keep.is_none() {
                    self.error(
                        codes::STRUCTURE,
                        span,
                        "a branch ends by binding the name that is its value",
                    );
                }
                None
            }
        }
    }
}

fn frame_kind(frames: &[Frame]) -> Option<&Kind> {
    frames.last().map(|f| &f.kind)
}

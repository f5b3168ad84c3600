//! Functions: bindings, blocks, branches, nested functions.

use relax_base::Symbol;
use relax_ir::{AttrValue, Expr, ExprId, FuncId, TypeId, VarId, VarStyle};

use super::attrs::As;
use super::types::Place;
use super::{Printer, Stop};
use crate::strings;

/// The destination of a value.
#[derive(Clone)]
enum Target {
    /// It is returned.
    Return,
    /// It is bound to a name.
    Name(String, Option<TypeId>, Option<VarId>),
}

/// A pending piece of output, the next one last.
enum Task {
    /// A line.
    Line(usize, String),
    /// The computation of a value, and its destination.
    Tail(usize, ExprId, Target),
}

const INDENT: &str = "    ";

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str(INDENT);
    }
}

pub(super) fn line(out: &mut String, depth: usize, text: &str) {
    indent(out, depth);
    out.push_str(text);
    out.push('\n');
}

impl Printer<'_> {
    /// Prints a function of the module.
    pub(super) fn function_item(&mut self, name: Symbol, f: FuncId, out: &mut String) {
        self.names.begin();
        self.symbols.clear();
        self.cls = false;
        let python = super::names::python(name.as_str());
        if python != name.as_str() {
            self.refuse(Stop::NoNamed(format!("the name `@{name}`")));
        }
        let mut head = String::new();
        self.function_head(f, name.as_str(), 1, &mut head);
        let mut body = String::new();
        self.uses = self.m.use_counts([self.m.funcs[f].body]);
        let mut tasks = vec![Task::Tail(2, self.m.funcs[f].body, Target::Return)];
        while let Some(task) = tasks.pop() {
            match task {
                Task::Line(depth, text) => line(&mut body, depth, &text),
                Task::Tail(depth, e, target) => self.tail(depth, e, target, &mut tasks, &mut body),
            }
        }
        out.push_str(&head);
        if self.cls {
            line(out, 2, &format!("cls = {}", self.class));
        }
        for d in std::mem::take(&mut self.symbols) {
            let name = self.names.dim(self.m, d);
            line(out, 2, &format!("{name} = T.int64()"));
        }
        out.push_str(&body);
        out.push('\n');
    }

    /// Prints a function's decorator, signature and attributes.
    fn function_head(&mut self, f: FuncId, name: &str, depth: usize, out: &mut String) {
        let m = self.m;
        let function = &m.funcs[f];
        if !function.type_params.is_empty() {
            self.refuse(Stop::NoForm("a function with type parameters"));
        }
        let flag = |name: &str| function.attrs.get(name).and_then(AttrValue::as_bool);
        let mut flags = Vec::new();
        if flag("pure") == Some(false) {
            flags.push("pure=False");
        }
        if flag("private") == Some(true) && depth == 1 {
            flags.push("private=True");
        }
        line(
            out,
            depth,
            &if flags.is_empty() {
                "@R.function".to_owned()
            } else {
                format!("@R.function({})", flags.join(", "))
            },
        );
        let mut params = Vec::new();
        for &p in &function.params {
            let name = self.names.var(m, p);
            let ty = m.vars[p].ty.or_else(|| self.types.and_then(|t| t.var(p)));
            match self.var_annotation(p, ty, Place::Signature) {
                Some(ty) => params.push(format!("{name}: {ty}")),
                None => {
                    self.refuse(Stop::NoNamed(format!(
                        "the parameter `{name}` without a type"
                    )));
                    params.push(name);
                }
            }
        }
        let ret = function.ret.or_else(|| self.types.and_then(|t| t.ret(f)));
        let number = self.gives_number(f);
        let scalar = ret.filter(|_| number).and_then(|t| {
            let t = self.m.types.as_tensor(t)?;
            let plain = t.shape.dims().is_some_and(<[_]>::is_empty);
            Some(format!("T.{}", t.dtype.known().filter(|_| plain)?))
        });
        let ret = scalar
            .or_else(|| self.annotation(ret, Place::Signature))
            .map_or(String::new(), |t| format!(" -> {t}"));
        line(
            out,
            depth,
            &format!("def {name}({}){ret}:", params.join(", ")),
        );
        let attrs: Vec<_> = (function.attrs.iter())
            .filter(|(n, _)| n != "pure" && n != "private" && n != "gives_number")
            .collect();
        if attrs.is_empty() {
            return;
        }
        let mut text = String::from("R.func_attr({");
        for (i, (name, value)) in attrs.into_iter().enumerate() {
            if i > 0 {
                text.push_str(", ");
            }
            strings::quote(name.as_str(), &mut text);
            text.push_str(": ");
            if let Err(stop) = self.attr(value, As::Name, &mut text) {
                self.refuse(stop);
            }
        }
        text.push_str("})");
        line(out, depth + 1, &text);
    }

    /// Returns whether a value is printed over several lines.
    fn is_block(&self, e: ExprId) -> bool {
        matches!(
            self.m.exprs[e],
            Expr::Let { .. } | Expr::If { .. } | Expr::Dataflow { .. } | Expr::Func(_)
        )
    }

    /// Returns the type of a variable, as it is written or as it was found.
    pub(super) fn var_type(&self, v: VarId) -> Option<TypeId> {
        self.m.vars[v]
            .ty
            .or_else(|| self.types.and_then(|t| t.var(v)))
    }

    /// Prints the computation of a value, up to the next construct that takes several lines.
    fn tail(
        &mut self,
        depth: usize,
        e: ExprId,
        target: Target,
        tasks: &mut Vec<Task>,
        out: &mut String,
    ) {
        let m = self.m;
        let mut e = e;
        loop {
            self.place = m.spans[e];
            match m.exprs[e] {
                Expr::Let { var, value, body } => {
                    if self.is_block(value) {
                        let name = self.names.var(m, var);
                        let ty = self.var_type(var);
                        tasks.push(Task::Tail(depth, body, target));
                        let target = Target::Name(name, ty, Some(var));
                        tasks.push(Task::Tail(depth, value, target));
                        return;
                    }
                    self.binding(depth, var, value, out);
                    e = body;
                }
                Expr::Dataflow { block, body } => {
                    let block = &m.blocks[block];
                    line(out, depth, "with R.dataflow():");
                    let blocked = block.bindings.iter().any(|b| self.is_block(b.value));
                    if blocked {
                        tasks.push(Task::Tail(depth, body, target));
                        let outputs = self.output_line(&block.outputs);
                        tasks.push(Task::Line(depth + 1, outputs));
                        for b in block.bindings.iter().rev() {
                            let name = self.names.var(m, b.var);
                            let ty = self.var_type(b.var);
                            let target = Target::Name(name, ty, Some(b.var));
                            tasks.push(Task::Tail(depth + 1, b.value, target));
                        }
                        return;
                    }
                    for b in &block.bindings {
                        self.place = m.spans[b.value];
                        self.binding(depth + 1, b.var, b.value, out);
                    }
                    let outputs = self.output_line(&block.outputs);
                    line(out, depth + 1, &outputs);
                    e = body;
                }
                Expr::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    let target = self.named(depth, target, e, tasks);
                    let text = self.expr(cond);
                    line(out, depth, &format!("if {text}:"));
                    tasks.push(Task::Tail(depth + 1, otherwise, target.clone()));
                    tasks.push(Task::Line(depth, "else:".to_owned()));
                    tasks.push(Task::Tail(depth + 1, then, target));
                    return;
                }
                Expr::Func(f) => {
                    let target = self.named(depth, target, e, tasks);
                    let Target::Name(name, ..) = target else {
                        return;
                    };
                    self.function_head(f, &name, depth, out);
                    tasks.push(Task::Tail(depth + 1, m.funcs[f].body, Target::Return));
                    return;
                }
                _ => {
                    let text = self.expr(e);
                    match target {
                        Target::Return => line(out, depth, &format!("return {text}")),
                        Target::Name(name, ty, var) => {
                            let ty = match var {
                                _ if self.says_its_type(e) => None,
                                Some(var) => self.var_annotation(var, ty, Place::Body),
                                None => self.annotation(ty, Place::Body),
                            };
                            bound(out, depth, &name, ty, &text);
                        }
                    }
                    return;
                }
            }
        }
    }

    fn output_line(&mut self, outputs: &[VarId]) -> String {
        let names: Vec<String> = outputs.iter().map(|&v| self.names.var(self.m, v)).collect();
        format!("R.output({})", names.join(", "))
    }

    /// Gives a target a name: a returned value is bound first.
    fn named(&mut self, depth: usize, target: Target, e: ExprId, tasks: &mut Vec<Task>) -> Target {
        match target {
            Target::Return => {
                let name = self.names.new_name("gv");
                tasks.push(Task::Line(depth, format!("return {name}")));
                let ty = self.types.and_then(|t| t.expr(e));
                Target::Name(name, ty, None)
            }
            named @ Target::Name(..) => named,
        }
    }

    fn binding(&mut self, depth: usize, var: VarId, value: ExprId, out: &mut String) {
        let m = self.m;
        let text = self.expr(value);
        if self.is_number(value) {
            self.numbers.insert(var);
        }
        if m.vars[var].style == VarStyle::Effect {
            return line(out, depth, &text);
        }
        let name = self.names.var(m, var);
        let ty = self.var_type(var);
        let ty = if m.vars[var].ty.is_none() && self.says_its_type(value) {
            None
        } else {
            self.var_annotation(var, ty, Place::Body)
        };
        bound(out, depth, &name, ty, &text);
    }

    /// Returns the annotation of a variable; one that is a number rather than a tensor is annotated
    /// as such.
    fn var_annotation(&mut self, v: VarId, ty: Option<TypeId>, place: Place) -> Option<String> {
        if self.is_number_var(v)
            && let Some(t) = ty.and_then(|t| self.m.types.as_tensor(t))
            && let (Some([]), Some(d)) = (t.shape.dims(), t.dtype.known())
        {
            return Some(format!("T.{d}"));
        }
        self.annotation(ty, place)
    }

    fn is_number_var(&self, v: VarId) -> bool {
        let marked = self.m.var_attrs.get(&v);
        self.numbers.contains(&v) || marked.is_some_and(|a| a.get("scalar").is_some())
    }

    /// Returns whether a value is a number rather than a tensor.
    fn is_number(&self, e: ExprId) -> bool {
        match &self.m.exprs[e] {
            Expr::Var(v) => self.is_number_var(*v),
            Expr::Call { callee, .. } => match self.m.exprs[*callee] {
                Expr::Op(op) => relax_ops::registry()
                    .get(op)
                    .is_some_and(|d| matches!(d.name, "relax.value" | "relax.condition")),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns whether a function returns a number, by its signature or by its body.
    fn gives_number(&mut self, f: FuncId) -> bool {
        let m = self.m;
        if m.funcs[f].attrs.get("gives_number").is_some() {
            return true;
        }
        let mut e = m.funcs[f].body;
        loop {
            match m.exprs[e] {
                Expr::Let { var, value, body } => {
                    if self.is_number(value) {
                        self.numbers.insert(var);
                    }
                    e = body;
                }
                Expr::Dataflow { block, body } => {
                    for b in &m.blocks[block].bindings {
                        if self.is_number(b.value) {
                            self.numbers.insert(b.var);
                        }
                    }
                    e = body;
                }
                _ => return m.funcs[f].ret.is_none() && self.is_number(e),
            }
        }
    }

    /// Returns whether the text of a value determines its type.
    fn says_its_type(&self, e: ExprId) -> bool {
        let Expr::Call { callee, .. } = self.m.exprs[e] else {
            return false;
        };
        let Expr::Op(op) = self.m.exprs[callee] else {
            return false;
        };
        relax_ops::registry().get(op).is_some_and(|d| {
            use relax_ops::Lowering::{CallDpsPacked, CallTir};
            matches!(d.hooks.lowering, CallTir | CallDpsPacked)
        })
    }
}

fn bound(out: &mut String, depth: usize, name: &str, ty: Option<String>, text: &str) {
    indent(out, depth);
    out.push_str(name);
    if let Some(ty) = ty {
        out.push_str(": ");
        out.push_str(&ty);
    }
    out.push_str(" = ");
    out.push_str(text);
    out.push('\n');
}

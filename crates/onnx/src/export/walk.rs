//! Export of bindings to nodes.
//!
//! Invariant: nothing here recurses over the program's depth.

use std::rc::Rc;

use relax_base::{Diagnostic, Diagnostics, Span};
use relax_ir::{ConstId, Expr, ExprId, FuncId, GlobalId, Module, Type, TypeId, TypeSource, VarId};
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use super::call::Call;
use super::codes;
use super::graph::{Attr, Graph};
use super::table::{self, Write};
use crate::proto::GraphProto;

/// The value of a variable.
#[derive(Clone)]
pub(super) enum Val {
    /// A tensor, by its name in the graph.
    Tensor(String),
    /// A tuple.
    Tuple(Rc<[Val]>),
    /// A shape value.
    Shape(Rc<[Dim]>),
    /// A function, and the name by which it is recursive.
    Function(FuncId, Own),
    /// An error that was reported.
    Failed,
}

/// The name by which a function calls itself.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Own {
    /// A variable.
    Local(VarId),
    /// A global of the module.
    Global(GlobalId),
}

/// The result of an export; the reason for a failure is `None` if it follows from another error.
pub(super) type R<T> = Result<T, Option<String>>;

/// A continuation, waiting for the value of the current expression.
enum Waiting {
    /// Bind the value, and continue with the rest.
    Bind(VarId, ExprId),
    /// The first branch of a conditional.
    Then {
        cond: String,
        otherwise: ExprId,
        whole: ExprId,
    },
    /// The second.
    Else {
        cond: String,
        then: GraphProto,
        value: Val,
        whole: ExprId,
    },
}

pub(super) struct Walk<'m> {
    pub(super) m: &'m Module,
    pub(super) types: &'m dyn TypeSource,
    pub(super) g: Graph<'m>,
    pub(super) vars: FxHashMap<VarId, Val>,
    consts: FxHashMap<ConstId, String>,
    found: Diagnostics,
    /// The number of open loops.
    pub(super) depth: usize,
}

/// Creates the error for a construct without an ONNX form.
pub(super) fn error(place: Span, message: String) -> Diagnostics {
    let mut found = Diagnostics::new();
    found.push(Diagnostic::error(codes::NO_FORM, place, message));
    found
}

/// Exports a function; returns the graph, and its operator set version.
pub(super) fn graph(
    m: &Module,
    entry: GlobalId,
    types: &dyn TypeSource,
) -> Result<(GraphProto, i64), Diagnostics> {
    let global = &m.globals[entry];
    let Some(func) = m.global_func(entry) else {
        return Err(error(
            global.span,
            format!("`@{}` is no function", global.name),
        ));
    };
    let mut w = Walk {
        m,
        types,
        g: Graph::new(m),
        vars: FxHashMap::default(),
        consts: FxHashMap::default(),
        found: Diagnostics::new(),
        depth: 0,
    };
    for &p in &m.funcs[func].params {
        let value = w.parameter(p);
        w.vars.insert(p, value);
    }
    let body = m.funcs[func].body;
    let value = w.body(body, None);
    let ty = m.funcs[func].ret.or_else(|| types.expr(body));
    w.outputs(&value, ty, m.spans[body]);
    if w.found.has_errors() {
        return Err(w.found);
    }
    Ok(w.g.finish(global.name.as_str()))
}

impl Walk<'_> {
    pub(super) fn refuse(&mut self, place: Span, message: String) {
        let d = Diagnostic::error(codes::NO_FORM, place, message);
        self.found.push(d);
    }

    /// Adds the inputs for a parameter.
    pub(super) fn parameter(&mut self, p: VarId) -> Val {
        let (name, span) = (self.m.vars[p].name, self.m.vars[p].span);
        let ty = self.m.vars[p].ty.or_else(|| self.types.var(p));
        self.input(name.as_str(), ty, span)
    }

    /// Adds the input for a parameter, or inputs for the fields of a tuple, which must not be
    /// nested.
    fn input(&mut self, name: &str, ty: Option<TypeId>, span: Span) -> Val {
        let m = self.m;
        match ty.map(|t| &m.types[t]) {
            Some(Type::Tensor(t)) => {
                let input = self.g.input(name, ty);
                if let Some(dims) = t.shape.dims() {
                    self.g.bind_extents(&input, dims);
                }
                Val::Tensor(input)
            }
            Some(Type::Tuple(fields)) if fields.iter().all(|&f| m.types.as_tensor(f).is_some()) => {
                let fields = fields.iter().enumerate();
                let all = fields.map(|(i, &f)| self.input(&format!("{name}.{i}"), Some(f), span));
                Val::Tuple(all.collect::<Vec<_>>().into())
            }
            _ => {
                self.refuse(
                    span,
                    format!("the parameter `%{name}` is no tensor and no tuple of tensors"),
                );
                Val::Failed
            }
        }
    }

    /// Adds the graph's outputs, in order.
    pub(super) fn outputs(&mut self, value: &Val, ty: Option<TypeId>, place: Span) {
        let leaves = ty.map(|t| self.m.types.leaves(t)).unwrap_or_default();
        let mut open = vec![value.clone()];
        let mut count = 0;
        while let Some(value) = open.pop() {
            match value {
                Val::Tensor(name) => {
                    let ty = leaves.get(count).copied();
                    self.g.output(&name, &format!("out{count}"), ty);
                    count += 1;
                }
                Val::Tuple(fields) => open.extend(fields.iter().rev().cloned()),
                Val::Shape(dims) => match self.g.extents(&dims) {
                    Some(name) => {
                        self.g.output(&name, &format!("out{count}"), None);
                        count += 1;
                    }
                    None => self.refuse(place, "a shape value with an unknown extent".into()),
                },
                Val::Function(..) => self.refuse(place, "a function as a result".into()),
                Val::Failed => {}
            }
        }
    }

    /// Writes bindings and their final expression, or only those before the expression `until`.
    pub(super) fn body(&mut self, from: ExprId, until: Option<ExprId>) -> Val {
        let m = self.m;
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut e = from;
        loop {
            if waiting.is_empty() && until == Some(e) {
                return Val::Tuple(Rc::default());
            }
            match m.exprs[e] {
                Expr::Let { var, value, body } if matches!(m.exprs[value], Expr::Func(_)) => {
                    if let Expr::Func(f) = m.exprs[value] {
                        let function = Val::Function(f, Own::Local(var));
                        self.vars.insert(var, function);
                    }
                    e = body;
                    continue;
                }
                Expr::Let { var, value, body } => {
                    waiting.push(Waiting::Bind(var, body));
                    e = value;
                    continue;
                }
                Expr::Dataflow { block, body } => {
                    for b in &m.blocks[block].bindings {
                        let value = self.value(b.value, m.vars[b.var].name.as_str());
                        self.vars.insert(b.var, value);
                    }
                    e = body;
                    continue;
                }
                Expr::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    let cond = match self.atom(cond) {
                        Val::Tensor(name) => name,
                        _ => String::new(),
                    };
                    self.g.open();
                    waiting.push(Waiting::Then {
                        cond,
                        otherwise,
                        whole: e,
                    });
                    e = then;
                    continue;
                }
                _ => {}
            }
            let hint = match waiting.last() {
                Some(Waiting::Bind(var, _)) => m.vars[*var].name.as_str(),
                _ => "result",
            };
            let mut value = match self.called(e) {
                Some(Val::Function(f, own)) => self.function(e, f, own),
                _ => self.value(e, hint),
            };
            loop {
                match waiting.pop() {
                    None => return value,
                    Some(Waiting::Bind(var, body)) => {
                        self.vars.insert(var, value);
                        e = body;
                        break;
                    }
                    Some(Waiting::Then {
                        cond,
                        otherwise,
                        whole,
                    }) => {
                        self.outputs(&value, self.types.expr(whole), m.spans[whole]);
                        let then = self.g.close("then");
                        self.g.open();
                        waiting.push(Waiting::Else {
                            cond,
                            then,
                            value,
                            whole,
                        });
                        e = otherwise;
                        break;
                    }
                    Some(Waiting::Else {
                        cond,
                        then,
                        value: first,
                        whole,
                    }) => {
                        self.outputs(&value, self.types.expr(whole), m.spans[whole]);
                        let otherwise = self.g.close("else");
                        value = self.joined(cond, (then, first), otherwise, whole);
                    }
                }
            }
        }
    }

    /// Adds the node of a conditional whose branches are written.
    fn joined(
        &mut self,
        cond: String,
        (then, first): (GraphProto, Val),
        otherwise: GraphProto,
        whole: ExprId,
    ) -> Val {
        if then.output.len() != otherwise.output.len() {
            self.refuse(self.m.spans[whole], "branches whose results differ".into());
            return Val::Failed;
        }
        let mut names = Vec::new();
        let value = self.renamed(&first, &mut names);
        let attrs = vec![
            ("then_branch", Attr::Graph(then)),
            ("else_branch", Attr::Graph(otherwise)),
        ];
        self.g.node("If", vec![cond], attrs, names);
        value
    }

    /// Renames the parts of a value. The nesting of tuples is bounded by the type checker.
    pub(super) fn renamed(&mut self, value: &Val, names: &mut Vec<String>) -> Val {
        match value {
            Val::Tensor(_) | Val::Shape(_) => {
                let name = self.g.fresh("chosen");
                names.push(name.clone());
                Val::Tensor(name)
            }
            Val::Tuple(fields) => {
                let all = fields.iter().map(|f| self.renamed(f, names));
                Val::Tuple(all.collect::<Vec<_>>().into())
            }
            Val::Function(..) | Val::Failed => Val::Failed,
        }
    }

    /// Returns the callee of a call, if it is a function of the program.
    fn called(&self, e: ExprId) -> Option<Val> {
        let Expr::Call { callee, .. } = self.m.exprs[e] else {
            return None;
        };
        match self.m.exprs[callee] {
            Expr::Var(v) => self.vars.get(&v).cloned(),
            Expr::Global(g) => {
                let func = self.m.global_func(g)?;
                Some(Val::Function(func, Own::Global(g)))
            }
            _ => None,
        }
    }

    /// Writes a variable or a constant.
    pub(super) fn atom(&mut self, e: ExprId) -> Val {
        let m = self.m;
        match &m.exprs[e] {
            Expr::Var(v) => self.vars.get(v).cloned().unwrap_or(Val::Failed),
            Expr::Const(c) => {
                if let Some(name) = self.consts.get(c) {
                    return Val::Tensor(name.clone());
                }
                let hint = match m.const_names.get(c) {
                    Some(name) => name.to_string(),
                    None => format!("constant{}", self.consts.len()),
                };
                let name = self.g.constant(&hint, &m.consts[*c]);
                self.consts.insert(*c, name.clone());
                Val::Tensor(name)
            }
            Expr::Shape(dims) => Val::Shape(dims.to_vec().into()),
            Expr::Tuple(list) => {
                let flat = |e: &ExprId| !matches!(m.exprs[*e], Expr::Tuple(_));
                let list = m.list(*list);
                if !list.iter().all(flat) {
                    return self.failed(e, "a tuple in a tuple that has no name");
                }
                let all: Vec<Val> = list.iter().map(|&e| self.atom(e)).collect();
                Val::Tuple(all.into())
            }
            Expr::Error => Val::Failed,
            Expr::Global(g) => {
                let name = m.globals[*g].name;
                self.failed(e, &format!("the function `@{name}` as a value"))
            }
            Expr::Func(_) => self.failed(e, "a closure"),
            Expr::Ctor(_) | Expr::Match { .. } => self.failed(e, "a data type"),
            Expr::RefNew(_) | Expr::RefRead(_) | Expr::RefWrite(..) => {
                self.failed(e, "a reference")
            }
            _ => self.failed(e, "a value in a value: bindings are written one by one"),
        }
    }

    pub(super) fn failed(&mut self, e: ExprId, what: &str) -> Val {
        self.refuse(self.m.spans[e], format!("ONNX has no form for {what}"));
        Val::Failed
    }

    /// Writes a bound value other than a conditional.
    fn value(&mut self, e: ExprId, hint: &str) -> Val {
        let m = self.m;
        match &m.exprs[e] {
            Expr::Proj { tuple, index } => match self.atom(*tuple) {
                Val::Tuple(fields) => fields.get(*index as usize).cloned().unwrap_or(Val::Failed),
                _ => Val::Failed,
            },
            Expr::MatchCast { value, ty } => {
                let found = self.atom(*value);
                let dims = m.types.as_tensor(*ty).and_then(|t| t.shape.dims());
                if let (Val::Tensor(name), Some(dims)) = (&found, dims) {
                    self.g.bind_extents(name, dims);
                }
                found
            }
            Expr::MatchShape { value, dims } => {
                let found = self.atom(*value);
                if let Val::Tensor(name) = &found {
                    self.g.bind_extents(name, dims);
                }
                found
            }
            Expr::Call {
                callee,
                args,
                attrs,
                ..
            } => {
                let list = m.list(*args);
                let args: Vec<Val> = list.iter().map(|&a| self.atom(a)).collect();
                if args.iter().any(|a| matches!(a, Val::Failed)) {
                    return Val::Failed;
                }
                let types = list.iter().map(|&a| self.types.expr(a)).collect();
                let name = match &m.exprs[*callee] {
                    Expr::Op(op) => match relax_ops::registry().get(*op) {
                        Some(def) => def.name.to_owned(),
                        None => m.user_op(*op).map_or(String::new(), |o| o.name.to_string()),
                    },
                    _ => return self.failed(e, "a call of what is no operator"),
                };
                let Some(entry) = table::find(&name) else {
                    return self.failed(e, &format!("the operator `{name}`"));
                };
                let mut call = Call::new(
                    &mut self.g,
                    (args, types),
                    m.attrs(*attrs),
                    self.types.expr(e),
                    hint,
                );
                let given = match entry {
                    Write::Node(op) => call.plain(op),
                    Write::By(write) => write(&mut call),
                };
                given.unwrap_or_else(|why| {
                    if let Some(why) = why {
                        self.refuse(
                            m.spans[e],
                            format!("ONNX has no form for `{name}` here: {why}"),
                        );
                    }
                    Val::Failed
                })
            }
            _ => self.atom(e),
        }
    }
}

//! Functions of Relax: their headers, and the processing at their ends.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{AttrValue, Attrs, Expr, ExprId, Function, GlobalKind, Var, VarId, VarStyle};
use rustc_hash::FxHashMap;

use super::Reader;
use super::control::{Frame, Head, Kind};
use super::value::Val;
use crate::ast::{List, Stmt, StmtKind};
use crate::codes;

impl Reader<'_> {
    /// Reads a function of the module.
    pub(super) fn relax_item(
        &mut self,
        item: usize,
        first: u32,
        at: u32,
        private: bool,
        pure: bool,
    ) {
        self.symbols.clear();
        self.spelled.clear();
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

    /// Reads the signature of a function.
    pub(super) fn head(&mut self, stmt: &Stmt, mut attrs: Attrs, nested: bool) -> Option<Head> {
        let StmtKind::Def { name, params, ret } = stmt.kind else {
            return None;
        };
        let outer = nested.then(|| self.symbols.clone());
        self.signature = Some(Vec::new());
        self.numbers = self.number_parameters(params);
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
                val => {
                    let scalar = self.scalar_annotation(&val);
                    if scalar.is_some() {
                        attrs.set("gives_number", AttrValue::Bool(true));
                    }
                    scalar.or_else(|| self.annotation(val, at))
                }
            }
        });
        self.numbers.clear();
        self.unbound_in_strings();
        Some(Head {
            name: self.symbol(name),
            params: vars,
            ret,
            dims: self.signature.take().unwrap_or_default(),
            attrs,
            outer,
        })
    }

    /// Collects the parameters that are annotated as numbers: extents of later parameters may refer
    /// to them.
    fn number_parameters(&mut self, params: List) -> FxHashMap<Symbol, (Span, ExprId)> {
        let mut numbers = FxHashMap::default();
        for param in self.ast.func_params(params).to_vec() {
            let Some(ty) = param.ty else { continue };
            let dtype = self.text(self.ast.span(ty)).strip_prefix("T.");
            if dtype.is_some_and(|d| d.parse::<relax_tensor::DType>().is_ok()) {
                let var = self.m.vars.push(Var {
                    name: self.symbol(param.name),
                    ty: None,
                    span: param.name,
                    style: VarStyle::Param,
                });
                let e = self.m.add(Expr::Var(var), param.name);
                numbers.insert(self.symbol(param.name), (param.name, e));
            }
        }
        numbers
    }

    /// Reports names that occur only in expressions in strings.
    fn unbound_in_strings(&mut self) {
        let names = std::mem::take(&mut self.in_strings);
        let unbound = names.into_iter().filter(|(_, (_, alone))| !alone);
        let mut unbound: Vec<(Span, Symbol)> = unbound.map(|(n, (at, _))| (at, n)).collect();
        unbound.sort_unstable_by_key(|(at, _)| at.start);
        for (at, name) in unbound {
            let message = format!("`{name}` is not defined here");
            let d = Diagnostic::error(codes::UNDEFINED, at, message)
                .note("a name that stands alone as an extent is bound to it");
            self.report(d);
        }
    }

    /// Marks a variable as a number rather than a tensor.
    pub(super) fn mark_scalar(&mut self, var: VarId) {
        let mark = Attrs::new().with("scalar", AttrValue::Bool(true));
        self.m.var_attrs.insert(var, mark);
    }

    pub(super) fn bind_params(&mut self, frame: &Frame) {
        if let Kind::Function(head) = &frame.kind {
            for &v in &head.params {
                let (name, span) = (self.m.vars[v].name, self.m.vars[v].span);
                let e = self.m.add(Expr::Var(v), span);
                self.bind(name, Val::Expr(e));
            }
        }
    }

    pub(super) fn close_function(&mut self, frame: Frame) -> (Function, Symbol) {
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
}

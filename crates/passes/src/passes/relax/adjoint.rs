//! `relax-gradient`: generates, beside a function, one that also returns the gradients of its
//! parameters.
//!
//! `@main` stays; `@main_adjoint` computes the same result and then, in reverse mode, the gradients
//! of that scalar with respect to each parameter: `(result, (gradient, …))`. The function must be
//! one dataflow block of differentiable operators, tuples and projections. Values between
//! checkpoints are not recomputed.

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{AttrValue, Expr, ExprId, Global, GlobalKind, Type, TypeId, VarId, VarStyle};
use rustc_hash::FxHashMap;

use super::{fuse, kept};
use crate::build::gradients;
use crate::code::{Bind, Code, Part, Seq};
use crate::edit::Edit;
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-gradient",
    doc: "Relax's gradient: a function beside the entry that also gives the gradients of its parameters.",
    options: &[
        OptionDef {
            name: "entry",
            ty: OptionType::Functions,
            default: "main",
            doc: "the function",
        },
        OptionDef {
            name: "target",
            ty: OptionType::Int,
            default: "0",
            doc: "which field of its result, where that is a tuple",
        },
    ],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let target = cx.options.int("target");
    let mut made = 0;
    for entry in cx.options.functions("entry") {
        let Some(global) = cx.module.global(entry.as_str()) else {
            continue;
        };
        let Some(func) = cx.module.global_func(global) else {
            continue;
        };
        let span = cx.module.funcs[func].span;
        let refused = |why: (Span, String)| {
            let at = if why.0.is_none() { span } else { why.0 };
            (at, why.1)
        };
        let body = cx.module.funcs[func].body;
        let Some(code) = Code::of(cx.module, body) else {
            return Err(cx.unsupported(span, "the function is not in Relax's form"));
        };
        let built = {
            let mut edit = Edit::new(cx.module, &typing);
            Tape::of(&mut edit, &typing, code).and_then(|t| t.function(func, target as usize))
        };
        let function = match built {
            Ok(function) => function,
            Err(why) => {
                let (at, message) = refused(why);
                return Err(cx.unsupported(at, message));
            }
        };
        let m = &mut *cx.module;
        let function = m.funcs.push(function);
        let function = m.copy_func(function);
        let (base, mut i) = (format!("{entry}_adjoint"), 0);
        let mut name = base.clone();
        while fuse::taken(m, &name) {
            i += 1;
            name = format!("{base}{i}");
        }
        m.globals.push(Global {
            name: Symbol::new(&name),
            kind: GlobalKind::Func(function),
            span,
            prelude: false,
        });
        made += 1;
    }
    cx.count("functions made", made);
    Ok(())
}

type Failure = (Span, String);

/// The gradient of a value: an expression for a tensor; for a tuple, the gradients of the fields
/// that have one.
#[derive(Clone)]
enum Adjoint {
    Tensor(ExprId),
    Tuple(Vec<Option<Adjoint>>),
}

struct Tape<'e, 'm> {
    edit: &'e mut Edit<'m>,
    part: Part,
    value: ExprId,
    adjoints: FxHashMap<VarId, Adjoint>,
    /// The variable that each bound node was replaced by.
    bound: FxHashMap<ExprId, ExprId>,
}

impl<'e, 'm> Tape<'e, 'm> {
    fn of(
        edit: &'e mut Edit<'m>,
        _typing: &Typing,
        mut code: Code,
    ) -> Result<Tape<'e, 'm>, Failure> {
        let one =
            code.seqs.len() == 1 && code.seqs[0].parts.len() == 1 && code.seqs[0].parts[0].flow;
        let Seq { parts, value } = code.seqs.swap_remove(0);
        let span = edit.m.span(value);
        let part = parts.into_iter().next().filter(|_| one);
        let part = part.ok_or((
            span,
            "only a function of one dataflow block has a gradient".to_owned(),
        ))?;
        let mut bound = FxHashMap::default();
        for b in &part.binds {
            if let Some(e) = b.expr() {
                let var = edit.m.add(Expr::Var(b.var), b.span);
                let ty = edit.var_ty(b.var);
                edit.set_ty(var, ty);
                if !edit.m.is_leaf(e) {
                    bound.insert(e, var);
                }
            }
        }
        Ok(Tape {
            edit,
            part,
            value,
            adjoints: FxHashMap::default(),
            bound,
        })
    }

    fn function(
        mut self,
        func: relax_ir::FuncId,
        target: usize,
    ) -> Result<relax_ir::Function, Failure> {
        let span = self.edit.m.span(self.value);
        let goal = match self.edit.m.exprs[self.value] {
            Expr::Var(v) => match self
                .part
                .binds
                .iter()
                .find(|b| b.var == v)
                .and_then(Bind::expr)
            {
                Some(e) if matches!(self.edit.m.exprs[e], Expr::Tuple(_)) => self.field(e, target),
                _ => Some(v),
            },
            Expr::Tuple(_) => self.field(self.value, target),
            _ => None,
        };
        let goal = goal.ok_or((span, "what is differentiated has no name".to_owned()))?;
        let ty = self.edit.var_ty(goal);
        let scalar = self.tensor(ty).filter(|(_, dims)| dims.is_empty());
        let Some((dtype, _)) = scalar else {
            return Err((span, "what is differentiated is no scalar".to_owned()));
        };
        let ones = self.filled("ones", dtype, &[]);
        let ones = self.bind(ones, "gv_adjoint");
        self.adjoints.insert(goal, Adjoint::Tensor(ones));
        let binds = self.part.binds.clone();
        let forward = binds.iter().filter(|b| self.bound_before(b)).copied();
        for b in forward.collect::<Vec<_>>().into_iter().rev() {
            self.back(&b)?;
        }
        let mut grads = Vec::new();
        let function = self.edit.m.funcs[func].clone();
        for &p in &function.params {
            let ty = self.edit.var_ty(p);
            let adjoint = self.adjoints.remove(&p);
            let grad = self.whole(ty, adjoint).ok_or((
                span,
                "a parameter is neither tensor nor tuple of tensors".to_owned(),
            ))?;
            let name = format!("{}_adjoint_out", self.edit.m.vars[p].name);
            let named = self.name(grad, ty, &name);
            grads.push(named);
        }
        let grads = self.edit.tuple(&grads, span);
        self.value = self.edit.tuple(&[self.value, grads], span);
        let ret = self.edit.ty(self.value);
        let code = Code {
            seqs: vec![Seq {
                parts: vec![self.part],
                value: self.value,
            }],
        };
        let body = code.body(self.edit.m);
        Ok(relax_ir::Function {
            body,
            ret: Some(ret),
            ..function
        })
    }

    fn bound_before(&self, b: &Bind) -> bool {
        b.expr().is_some()
    }

    fn field(&self, tuple: ExprId, index: usize) -> Option<VarId> {
        let Expr::Tuple(fields) = self.edit.m.exprs[tuple] else {
            return None;
        };
        match self.edit.m.exprs[*self.edit.m.list(fields).get(index)?] {
            Expr::Var(v) => Some(v),
            _ => None,
        }
    }

    fn tensor(&self, ty: TypeId) -> Option<(relax_tensor::DType, Vec<i64>)> {
        let t = self.edit.m.types.as_tensor(ty)?;
        let dims = t.shape.dims()?.iter().map(|d| d.as_const());
        Some((t.dtype.known()?, dims.collect::<Option<_>>()?))
    }

    fn filled(&mut self, op: &'static str, dtype: relax_tensor::DType, dims: &[i64]) -> ExprId {
        let attrs = [
            ("shape", AttrValue::ints(dims)),
            ("dtype", AttrValue::DType(dtype)),
        ];
        self.edit.call(op, &[], &attrs, Span::NONE)
    }

    /// Binds a value to a new variable.
    fn name(&mut self, value: ExprId, ty: TypeId, name: &str) -> ExprId {
        let (var, e) = self
            .edit
            .fresh_var(Symbol::new(name), ty, VarStyle::Binding);
        self.part.binds.push(Bind::plain(var, value, Span::NONE));
        if name.ends_with("_out") {
            self.part.outputs.push(var);
        }
        e
    }

    /// Binds every call and projection of a value; returns the expression that replaces the value.
    fn bind(&mut self, value: ExprId, name: &str) -> ExprId {
        for e in self.edit.m.post_order([value]) {
            if self.bound.contains_key(&e) {
                continue;
            }
            match self.edit.m.exprs[e] {
                Expr::Call { .. } | Expr::Proj { .. } | Expr::Tuple(_) => {}
                _ => continue,
            }
            let bound = &self.bound;
            let node = self
                .edit
                .m
                .map_children(e, |c| bound.get(&c).copied().unwrap_or(c));
            let ty = self.edit.ty(e);
            self.edit.set_ty(node, ty);
            self.edit.retype(node);
            let stand = match self.edit.m.exprs[node] {
                // A nested tuple is used directly, without a binding.
                Expr::Tuple(_) if e != value => node,
                _ => {
                    let ty = self.edit.ty(node);
                    let name = if e == value { name } else { "lv" };
                    self.name(node, ty, name)
                }
            };
            self.bound.insert(e, stand);
        }
        self.bound.get(&value).copied().unwrap_or(value)
    }

    /// Returns the gradient of a value of type `ty` as one expression, with zeros where there is
    /// none.
    fn whole(&mut self, ty: TypeId, adjoint: Option<Adjoint>) -> Option<ExprId> {
        match (self.edit.m.types[ty].clone(), adjoint) {
            (_, Some(Adjoint::Tensor(e))) => Some(e),
            (Type::Tensor(_), _) => {
                let (dtype, dims) = self.tensor(ty)?;
                let zeros = self.filled("zeros", dtype, &dims);
                Some(self.bind(zeros, "lv"))
            }
            (Type::Tuple(types), adjoint) => {
                let mut parts = match adjoint {
                    Some(Adjoint::Tuple(parts)) => parts,
                    _ => vec![None; types.len()],
                };
                let mut fields = Vec::new();
                for (i, &ty) in types.iter().enumerate() {
                    // Only tuples of tensors are supported, no deeper nesting.
                    let part = parts[i].take();
                    if matches!(part, Some(Adjoint::Tuple(_)))
                        || part.is_none() && !matches!(self.edit.m.types[ty], Type::Tensor(_))
                    {
                        return None;
                    }
                    fields.push(self.whole(ty, part)?);
                }
                Some(self.edit.tuple(&fields, Span::NONE))
            }
            _ => None,
        }
    }

    /// Accumulates into the gradient of an expression, which is a variable or a tuple of variables.
    fn add(&mut self, to: ExprId, grad: Adjoint) {
        match self.edit.m.exprs[to] {
            Expr::Var(v) => {
                let old = self.adjoints.remove(&v);
                let name = format!("{}_adjoint", self.edit.m.vars[v].name);
                let sum = match old {
                    Some(old) => self.sum(old, grad, &name),
                    None => grad,
                };
                self.adjoints.insert(v, sum);
            }
            Expr::Tuple(fields) => {
                let fields = self.edit.m.list(fields).to_vec();
                for (i, field) in fields.into_iter().enumerate() {
                    let part = match &mut self.part_of(&grad, i) {
                        Some(part) => part.clone(),
                        None => continue,
                    };
                    if matches!(self.edit.m.exprs[field], Expr::Var(_)) {
                        self.add(field, part);
                    }
                }
            }
            _ => {}
        }
    }

    fn part_of(&mut self, grad: &Adjoint, i: usize) -> Option<Adjoint> {
        match grad {
            Adjoint::Tuple(parts) => parts.get(i).cloned().flatten(),
            Adjoint::Tensor(e) => {
                let (tuple, index) = (*e, i as u32);
                let part = self.edit.m.add(Expr::Proj { tuple, index }, Span::NONE);
                self.edit.retype(part);
                Some(Adjoint::Tensor(self.bind(part, "lv")))
            }
        }
    }

    fn sum(&mut self, a: Adjoint, b: Adjoint, name: &str) -> Adjoint {
        let (x, y) = match (&a, &b) {
            (Adjoint::Tensor(x), Adjoint::Tensor(y)) => (*x, *y),
            _ => {
                let n = [&a, &b].into_iter().map(|a| match a {
                    Adjoint::Tuple(parts) => parts.len(),
                    Adjoint::Tensor(_) => 0,
                });
                let n = n.max().unwrap_or(0);
                let mut parts = Vec::with_capacity(n);
                for i in 0..n {
                    let (x, y) = (self.part_of(&a, i), self.part_of(&b, i));
                    parts.push(match (x, y) {
                        (Some(Adjoint::Tensor(x)), Some(Adjoint::Tensor(y))) => {
                            let sum = self.edit.call("add", &[x, y], &[], Span::NONE);
                            Some(Adjoint::Tensor(self.bind(sum, name)))
                        }
                        (x, y) => x.or(y),
                    });
                }
                return Adjoint::Tuple(parts);
            }
        };
        if matches!(self.edit.m.types[self.edit.ty(x)], Type::Tuple(_)) {
            let Type::Tuple(types) = self.edit.m.types[self.edit.ty(x)].clone() else {
                return a;
            };
            let of = |e| move |this: &mut Self, i: usize| this.part_of(&Adjoint::Tensor(e), i);
            let (first, second) = (of(x), of(y));
            let mut parts = Vec::new();
            for i in 0..types.len() {
                let both = (first(self, i), second(self, i));
                if let (Some(Adjoint::Tensor(x)), Some(Adjoint::Tensor(y))) = both {
                    let sum = self.edit.call("add", &[x, y], &[], Span::NONE);
                    parts.push(Some(Adjoint::Tensor(self.bind(sum, name))));
                }
            }
            return Adjoint::Tuple(parts);
        }
        let sum = self.edit.call("add", &[x, y], &[], Span::NONE);
        Adjoint::Tensor(self.bind(sum, name))
    }

    fn back(&mut self, b: &Bind) -> Result<(), Failure> {
        let (Some(grad), Some(e)) = (self.adjoints.get(&b.var).cloned(), b.expr()) else {
            return Ok(());
        };
        match self.edit.m.exprs[e] {
            Expr::Var(_) | Expr::Tuple(_) => self.add(e, grad),
            Expr::Proj { tuple, index } => {
                let Expr::Var(v) = self.edit.m.exprs[tuple] else {
                    return Err((b.span, "a field of what has no name".to_owned()));
                };
                let fields = match &self.edit.m.types[self.edit.var_ty(v)] {
                    Type::Tuple(fields) => fields.len(),
                    _ => 0,
                };
                let mut parts = vec![None; fields.max(index as usize + 1)];
                parts[index as usize] = Some(grad);
                self.add(tuple, Adjoint::Tuple(parts));
            }
            Expr::Call { args, .. } => {
                let args = self.edit.m.list(args).to_vec();
                if let Some(name) = kept::name(self.edit.m, e) {
                    return Err((b.span, format!("`{name}` has no gradient")));
                }
                let ty = self.edit.var_ty(b.var);
                let whole = self.whole(ty, Some(grad));
                let whole = whole.ok_or((b.span, "extents that are not known".to_owned()))?;
                let whole = self.bind(whole, &format!("{}_adjoint", self.edit.m.vars[b.var].name));
                let grads = gradients(self.edit, e, whole, Span::NONE);
                let none = "an operator that has no gradient";
                let grads = grads.map_err(|_| (b.span, none.to_owned()))?;
                for (&arg, grad) in args.iter().zip(grads) {
                    if self.edit.m.is_leaf(arg) && !matches!(self.edit.m.exprs[arg], Expr::Var(_)) {
                        continue;
                    }
                    let name = match self.edit.m.exprs[arg] {
                        Expr::Var(v) => format!("{}_adjoint", self.edit.m.vars[v].name),
                        _ => "lv".to_owned(),
                    };
                    let grad = self.bind(grad, &name);
                    self.add(arg, Adjoint::Tensor(grad));
                }
            }
            Expr::Const(_) | Expr::Shape(_) => {}
            _ => {
                return Err((
                    b.span,
                    "only operators, tuples and fields have gradients".to_owned(),
                ));
            }
        }
        Ok(())
    }
}

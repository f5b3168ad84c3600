//! `relax-to-mixed-precision`: dataflow blocks compute in a narrower float type where operators
//! benefit.
//!
//! Products and convolutions take narrow operands and return `out-dtype`; the operators that follow
//! are narrow if all of their operands are; other operators stay as they are. A value with only
//! narrow users is narrowed once, where it is bound. Outputs keep their types.

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{AttrValue, Expr, ExprId, Memo, Module, Type, TypeId, VarId, VarStyle};
use relax_ops::Precision;
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{Bind, Code, Value, each_typed_code, each_var};
use crate::edit::Edit;
use crate::util::{called_op, has_known_elements, mentions_type_params};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-to-mixed-precision",
    doc: "Relax's to-mixed-precision: dataflow blocks compute in float16 where operators gain by it.",
    options: &[OptionDef {
        name: "out-dtype",
        ty: OptionType::Choice(&["float32", "float16"]),
        default: "float32",
        doc: "the element type of products and convolutions",
    }],
    contract: Contract::TYPED.coarser(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let out = match cx.options.text("out-dtype") {
        "float16" => DType::F16,
        _ => DType::F32,
    };
    let mut narrowed = 0;
    each_typed_code(&mut Edit::new(cx.module, &typing), |edit, func, code| {
        let needs = Needs::of(edit.m, &typing, code);
        let params = edit.m.funcs[func].params.clone();
        let mut rewriter = Rewriter {
            edit,
            typing: &typing,
            needs: &needs,
            out,
            stands: FxHashMap::default(),
            binds: Vec::new(),
            narrowed: 0,
        };
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            if part.flow {
                let outputs: FxHashSet<VarId> = part.outputs.iter().copied().collect();
                part.binds = rewriter.block(&params, std::mem::take(&mut part.binds), &outputs);
            }
        }
        narrowed += rewriter.narrowed;
        rewriter.narrowed > 0
    });
    cx.count("calls narrowed", narrowed);
    Ok(())
}

/// The type that users need a value in: undetermined, the narrow type, or its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Need {
    Unknown,
    Narrow,
    Own,
}

/// The needs of each variable, per tensor.
struct Needs(FxHashMap<VarId, Vec<Need>>);

/// Returns the tensors that a type holds; `None` if it holds anything else.
fn leaves(m: &Module, ty: TypeId) -> Option<Vec<TypeId>> {
    let (mut out, mut open) = (Vec::new(), vec![ty]);
    while let Some(t) = open.pop() {
        match &m.types[t] {
            Type::Tensor(_) => out.push(t),
            Type::Tuple(fields) => open.extend(fields.iter().rev()),
            _ => return None,
        }
    }
    Some(out)
}

fn float(m: &Module, ty: TypeId) -> Option<DType> {
    let dtype = m.types.as_tensor(ty)?.dtype.known()?;
    matches!(dtype, DType::F16 | DType::F32).then_some(dtype)
}

/// Returns the precision policy of a call's operator; `None` if the callee is not an operator.
/// Operands whose element types only callers know stay as they are, and what is beside them.
fn policy(m: &Module, typing: &Typing, e: ExprId) -> Option<Precision> {
    let Expr::Call { args, .. } = m.exprs[e] else {
        return None;
    };
    let known = m.list(args).iter().all(|&a| {
        let ty = match m.exprs[a] {
            Expr::Var(v) => typing.vars[v],
            _ => typing.exprs[a],
        };
        has_known_elements(m, ty)
    });
    called_op(m, e).map(|d| match known && d.hooks.computable() {
        true => d.hooks.precision,
        false => Precision::Full,
    })
}

impl Needs {
    fn of(m: &Module, typing: &Typing, code: &Code) -> Needs {
        let mut needs = Needs(FxHashMap::default());
        for seq in &code.seqs {
            each_var(m, seq.value, |v| {
                needs.add(m, typing, v, &mut |_| Need::Own)
            });
        }
        // Code outside dataflow blocks needs values in their own types.
        for (e, s, p) in code.exprs() {
            if p.is_some_and(|p| !code.seqs[s].parts[p].flow) {
                each_var(m, e, |v| needs.add(m, typing, v, &mut |_| Need::Own));
            }
        }
        for part in code.seqs.iter().rev().flat_map(|s| s.parts.iter().rev()) {
            for b in part.binds.iter().rev().filter(|_| part.flow) {
                needs.binding(m, typing, b);
            }
        }
        needs
    }

    fn add(&mut self, m: &Module, typing: &Typing, v: VarId, need: &mut dyn FnMut(usize) -> Need) {
        let n = leaves(m, typing.vars[v]).map_or(0, |l| l.len());
        let all = self.0.entry(v).or_insert_with(|| vec![Need::Unknown; n]);
        for (i, old) in all.iter_mut().enumerate() {
            *old = (*old).max(need(i));
        }
    }

    fn binding(&mut self, m: &Module, typing: &Typing, b: &Bind) {
        let Some(e) = b.expr() else {
            return;
        };
        let own = self.0.get(&b.var).cloned();
        let policy = policy(m, typing, e);
        match m.exprs[e] {
            Expr::Call { args, .. } if policy.is_some() => {
                let need = match policy {
                    Some(Precision::Narrow) => Need::Narrow,
                    _ => Need::Own,
                };
                for &arg in m.list(args) {
                    each_var(m, arg, |v| self.add(m, typing, v, &mut |_| need));
                }
            }
            Expr::Tuple(fields) => {
                let own = own.unwrap_or_default();
                let mut at = 0;
                for &f in m.list(fields) {
                    let n = match m.exprs[f] {
                        Expr::Var(v) => leaves(m, typing.vars[v]).map_or(0, |l| l.len()),
                        _ => leaves(m, typing.exprs[f]).map_or(0, |l| l.len()),
                    };
                    let from = at;
                    at += n;
                    let need = |i: usize| own.get(from + i).copied().unwrap_or(Need::Unknown);
                    if let Expr::Var(v) = m.exprs[f] {
                        self.add(m, typing, v, &mut |i| need(i));
                    }
                }
            }
            Expr::Proj { tuple, index } => {
                let Expr::Var(v) = m.exprs[tuple] else {
                    return;
                };
                let Type::Tuple(fields) = &m.types[typing.vars[v]] else {
                    return;
                };
                let count = |t: &TypeId| leaves(m, *t).map_or(0, |l| l.len());
                let before: usize = fields.iter().take(index as usize).map(count).sum();
                let own = own.unwrap_or_default();
                self.add(m, typing, v, &mut |i| match i.checked_sub(before) {
                    Some(k) if k < own.len() => own[k],
                    _ => Need::Unknown,
                });
            }
            _ => each_var(m, e, |v| self.add(m, typing, v, &mut |_| Need::Own)),
        }
    }
}

struct Rewriter<'r, 'm> {
    edit: &'r mut Edit<'m>,
    typing: &'r Typing,
    needs: &'r Needs,
    out: DType,
    /// Replacements of variables by their narrowed versions.
    stands: FxHashMap<VarId, VarId>,
    binds: Vec<Bind>,
    narrowed: u64,
}

impl Rewriter<'_, '_> {
    fn block(&mut self, params: &[VarId], old: Vec<Bind>, outputs: &FxHashSet<VarId>) -> Vec<Bind> {
        for &p in params {
            self.narrow_once(p);
        }
        for b in old {
            let new = b
                .expr()
                .map(|e| self.value(&b, e, outputs.contains(&b.var)));
            let value = match new {
                Some(e) => Value::Plain(e),
                None => b.value,
            };
            self.binds.push(Bind { value, ..b });
            if let Some(e) = new {
                let ty = self.edit.ty(e);
                let known = self.edit.typed(e);
                if known && ty != self.typing.vars[b.var] && !outputs.contains(&b.var) {
                    self.edit.set_var_ty(b.var, ty);
                    let named = !mentions_type_params(self.edit.m, ty);
                    self.edit.m.vars[b.var].ty = named.then_some(ty);
                }
            }
            self.narrow_once(b.var);
        }
        // Narrowed versions are local to the block.
        self.stands.clear();
        std::mem::take(&mut self.binds)
    }

    /// Returns a reference to a variable or its replacement.
    fn var(&mut self, v: VarId) -> ExprId {
        let v = self.stands.get(&v).copied().unwrap_or(v);
        let e = self.edit.m.add(Expr::Var(v), Span::NONE);
        let ty = self.edit.var_ty(v);
        self.edit.set_ty(e, ty);
        e
    }

    fn bind(&mut self, value: ExprId) -> ExprId {
        let ty = self.edit.ty(value);
        let (var, e) = self
            .edit
            .fresh_var(Symbol::new("lv"), ty, VarStyle::Binding);
        self.binds.push(Bind::plain(var, value, Span::NONE));
        e
    }

    /// Narrows a variable that only narrow operators use.
    fn narrow_once(&mut self, v: VarId) {
        let Some(needs) = self.needs.0.get(&v) else {
            return;
        };
        let needs = needs.clone();
        let now = self.var(v);
        let types = leaves(self.edit.m, self.edit.ty(now)).unwrap_or_default();
        let to: Vec<Option<DType>> = (types.iter().enumerate())
            .map(|(i, &t)| match needs.get(i) {
                Some(Need::Narrow) => Some(DType::F16),
                _ => float(self.edit.m, t),
            })
            .collect();
        let new = self.cast(now, &to);
        if let Expr::Var(w) = self.edit.m.exprs[new]
            && new != now
        {
            self.stands.insert(v, w);
        } else if new != now {
            let new = self.bind(new);
            if let Expr::Var(w) = self.edit.m.exprs[new] {
                self.stands.insert(v, w);
            }
        }
    }

    /// Casts the tensors of an expression, and binds each cast.
    fn cast(&mut self, e: ExprId, to: &[Option<DType>]) -> ExprId {
        let ty = self.edit.ty(e);
        let types = leaves(self.edit.m, ty).unwrap_or_default();
        let differs = |m: &Module, i: usize| {
            let from = float(m, types[i]);
            from.is_some()
                && to
                    .get(i)
                    .copied()
                    .flatten()
                    .is_some_and(|t| Some(t) != from)
        };
        if types.len() != to.len() || !(0..types.len()).any(|i| differs(self.edit.m, i)) {
            return e;
        }
        let Type::Tuple(fields) = self.edit.m.types[ty].clone() else {
            let to = to[0].expect("it differs");
            let cast = self.edit.cast(e, to, Span::NONE);
            return self.bind(cast);
        };
        let parts: Vec<ExprId> = match self.edit.m.exprs[e] {
            Expr::Tuple(list) => self.edit.m.list(list).to_vec(),
            _ => {
                let field = |i: usize| self.edit.field(e, i as u32, Span::NONE);
                (0..fields.len()).map(field).collect()
            }
        };
        let mut at = 0;
        let mut new = Vec::new();
        for part in parts {
            let part_ty = self.edit.ty(part);
            let n = leaves(self.edit.m, part_ty).map_or(0, |l| l.len());
            // Nested tuples are not converted.
            let flat = matches!(self.edit.m.types[part_ty], Type::Tensor(_));
            new.push(match flat {
                true => self.cast_one(part, to[at]),
                false => part,
            });
            at += n;
        }
        self.edit.tuple(&new, Span::NONE)
    }

    fn cast_one(&mut self, e: ExprId, to: Option<DType>) -> ExprId {
        let from = float(self.edit.m, self.edit.ty(e));
        match (from, to) {
            (Some(from), Some(to)) if from != to => {
                let e = match self.edit.m.exprs[e] {
                    Expr::Proj { .. } => self.bind(e),
                    _ => e,
                };
                let cast = self.edit.cast(e, to, Span::NONE);
                self.bind(cast)
            }
            _ => e,
        }
    }

    /// Casts all tensors of an expression to one type.
    fn all(&mut self, e: ExprId, to: DType) -> ExprId {
        let n = leaves(self.edit.m, self.edit.ty(e)).map_or(0, |l| l.len());
        self.cast(e, &vec![Some(to); n])
    }

    /// Casts an expression back to its original type.
    fn back(&mut self, e: ExprId, ty: TypeId) -> ExprId {
        let to: Vec<Option<DType>> = (leaves(self.edit.m, ty).unwrap_or_default().iter())
            .map(|&t| float(self.edit.m, t))
            .collect();
        self.cast(e, &to)
    }

    /// Rewrites an argument over replaced variables.
    fn arg(&mut self, e: ExprId) -> ExprId {
        match self.edit.m.exprs[e] {
            Expr::Var(v) => self.var(v),
            Expr::Tuple(list) => {
                let fields = self.edit.m.list(list).to_vec();
                let new: Vec<ExprId> = fields
                    .iter()
                    .map(|&f| match self.edit.m.exprs[f] {
                        Expr::Var(v) => self.var(v),
                        _ => f,
                    })
                    .collect();
                self.edit.tuple(&new, Span::NONE)
            }
            _ => e,
        }
    }

    fn value(&mut self, b: &Bind, e: ExprId, output: bool) -> ExprId {
        let before = self.typing.vars[b.var];
        match self.edit.m.exprs[e] {
            Expr::Call { args, .. } => {
                let Some(policy) = policy(self.edit.m, self.typing, e) else {
                    return self.as_before(e);
                };
                let Some(call) = self.edit.op_call(e) else {
                    return self.as_before(e);
                };
                let old = self.edit.m.list(args).to_vec();
                let args: Vec<ExprId> = old.iter().map(|&a| self.arg(a)).collect();
                let mut attrs = self.edit.m.attrs(call.attrs).clone();
                let to = match policy {
                    Precision::Full => {
                        let same = args.iter().zip(&old);
                        let same = same.map(|(&a, &o)| (a, self.typed_before(o)));
                        let same: Vec<(ExprId, TypeId)> = same.collect();
                        let args: Vec<ExprId> =
                            same.into_iter().map(|(a, ty)| self.back(a, ty)).collect();
                        return self.recalled(e, &args, attrs, before);
                    }
                    Precision::Narrow => {
                        if let Some(name) = call.def.hooks.result_dtype {
                            attrs.set(name, AttrValue::DType(self.out));
                        }
                        DType::F16
                    }
                    Precision::Follow if args.iter().all(|&a| self.narrow(a)) => DType::F16,
                    Precision::Follow => DType::F32,
                };
                self.narrowed += u64::from(to == DType::F16);
                let args: Vec<ExprId> = args.into_iter().map(|a| self.all(a, to)).collect();
                let mut new = self.recalled(e, &args, attrs, before);
                let casts = output || policy == Precision::Narrow;
                if casts {
                    let ty = self.edit.ty(new);
                    let types = leaves(self.edit.m, ty).unwrap_or_default();
                    let own = leaves(self.edit.m, before).unwrap_or_default();
                    let wanted: Vec<Option<DType>> = (0..types.len())
                        .map(|i| match output {
                            true => own.get(i).and_then(|&t| float(self.edit.m, t)),
                            false => Some(to),
                        })
                        .collect();
                    let differs = types.iter().zip(&wanted).any(|(&t, w)| {
                        let from = float(self.edit.m, t);
                        from.is_some() && w.is_some() && from != *w
                    });
                    if differs {
                        let named = self.bind(new);
                        new = self.last_cast(named, &wanted);
                    }
                }
                new
            }
            // What holds a function has no tensors that could be cast back one by one.
            Expr::Tuple(_) if leaves(self.edit.m, before).is_none() => self.as_before(e),
            Expr::Tuple(_) => {
                let new = self.arg(e);
                match output {
                    true => self.back(new, before),
                    false => new,
                }
            }
            Expr::Proj { tuple, index } => {
                let tuple = self.arg(tuple);
                let span = self.edit.m.span(e);
                let new = self.edit.m.add(Expr::Proj { tuple, index }, span);
                self.edit.retype(new);
                match output {
                    true => self.back(new, before),
                    false => new,
                }
            }
            _ => self.as_before(e),
        }
    }

    /// Returns the cast of a named value, unbound.
    fn last_cast(&mut self, named: ExprId, to: &[Option<DType>]) -> ExprId {
        let cast = self.cast(named, to);
        match (self.edit.m.exprs[cast].clone(), self.binds.last().copied()) {
            (Expr::Var(v), Some(last)) if last.var == v && cast != named => {
                self.binds.pop();
                last.expr().unwrap_or(cast)
            }
            _ => cast,
        }
    }

    fn recalled(
        &mut self,
        e: ExprId,
        args: &[ExprId],
        attrs: relax_ir::Attrs,
        before: TypeId,
    ) -> ExprId {
        let Expr::Call {
            callee, type_args, ..
        } = self.edit.m.exprs[e]
        else {
            return e;
        };
        let span = self.edit.m.span(e);
        let (args, attrs) = (self.edit.m.make_list(args), self.edit.m.make_attrs(attrs));
        let call = Expr::Call {
            callee,
            args,
            attrs,
            type_args,
        };
        let new = self.edit.m.add(call, span);
        self.edit.set_ty(new, before);
        self.edit.retype(new);
        new
    }

    fn typed_before(&self, e: ExprId) -> TypeId {
        match self.edit.m.exprs[e] {
            Expr::Var(v) => self.typing.vars[v],
            _ => self.typing.exprs[e],
        }
    }

    /// Returns whether an argument is narrow or can become so, as constants can.
    fn narrow(&self, e: ExprId) -> bool {
        match self.edit.m.exprs[e] {
            Expr::Tuple(list) => self.edit.m.list(list).iter().all(|&f| self.narrow(f)),
            Expr::Const(_) => self.edit.constant_value(e).is_some_and(|c| {
                (0..c.len()).all(|i| !c.dtype().is_float() || c.get_f64(i).abs() <= 65504.0)
            }),
            _ => match &self.edit.m.types[self.edit.ty(e)] {
                Type::Tensor(t) => t.dtype.known() == Some(DType::F16),
                _ => true,
            },
        }
    }

    /// Rewrites a value over variables in their original types.
    fn as_before(&mut self, e: ExprId) -> ExprId {
        let mut stands = FxHashMap::default();
        let mut vars = Vec::new();
        each_var(self.edit.m, e, |v| vars.push(v));
        for v in vars {
            let now = self.var(v);
            let old = self.typing.vars[v];
            if self.edit.ty(now) != old {
                let back = self.back(now, old);
                stands.insert(v, back);
            }
        }
        let mut memo = Memo::default();
        self.edit.m.substitute(e, &mut memo, &stands)
    }
}

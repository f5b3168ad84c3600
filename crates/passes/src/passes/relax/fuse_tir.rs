//! `fuse-tir`: a function that is one kernel (`Primitive`) becomes one tensor program.
//!
//! The programs that it calls are strung together; what passes between them is a buffer of the new program. Programs over
//! symbols, in-place ones and functions with tuples stay as they are.

use std::sync::Arc;

use relax_base::{Diagnostics, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, DTy, Expr, ExprId, GlobalId, GlobalKind, Module, Shape, Type, TypeId, VarId,
};
use relax_loops::{Buf, Ex, ExKind, Program, Role, Stage, Stmt, Var, map_expr};
use relax_ops::Lowering;
use rustc_hash::FxHashMap;

use super::{private, unused};
use crate::code::{Code, Value, each_typed_code};
use crate::edit::Edit;
use crate::util::{called_op, has_flag};
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "fuse-tir",
    doc: "Functions that are one kernel become one tensor program.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let m = &mut *cx.module;
    let mut fused: FxHashMap<GlobalId, TypeId> = FxHashMap::default();
    for g in private::called_only(m, |f| has_flag(f, "Primitive")) {
        let f = m.global_func(g).expect("a function");
        let Some(code) = Code::of(m, m.funcs[f].body) else {
            continue;
        };
        let params = m.funcs[f].params.clone();
        let name = m.globals[g].name;
        if let Some((program, out)) = merged(m, &typing, name, &params, &code) {
            m.globals[g].kind = GlobalKind::Prim(Arc::new(program));
            fused.insert(g, out);
        }
    }
    if !fused.is_empty() {
        each_typed_code(&mut Edit::new(m, &typing), |edit, _, code| {
            calls(edit, code, &fused)
        });
        unused::unused_functions(m);
    }
    cx.count("programs made", fused.len() as u64);
    Ok(())
}

/// Calls of functions that are programs now.
fn calls(edit: &mut Edit<'_>, code: &mut Code, fused: &FxHashMap<GlobalId, TypeId>) -> bool {
    let mut changed = false;
    for b in code
        .seqs
        .iter_mut()
        .flat_map(|s| &mut s.parts)
        .flat_map(|p| &mut p.binds)
    {
        let Some(e) = b.expr() else {
            continue;
        };
        let Expr::Call { callee, args, .. } = edit.m.exprs[e] else {
            continue;
        };
        let Expr::Global(g) = edit.m.exprs[callee] else {
            continue;
        };
        let Some((shape, dtype)) = fused.get(&g).and_then(|&out| tensor(edit.m, out)) else {
            continue;
        };
        let args = edit.m.list(args).to_vec();
        let args = edit.tuple(&args, b.span);
        let dims = shape.iter().map(|&d| relax_sym::Dim::from(d)).collect();
        let shape = edit.m.add(Expr::Shape(dims), b.span);
        let attrs = [("dtype", AttrValue::DType(dtype))];
        let call = edit.call("call_tir", &[callee, args, shape], &attrs, b.span);
        b.value = Value::Plain(call);
        changed = true;
    }
    changed
}

fn tensor(m: &Module, ty: TypeId) -> Option<(Vec<i64>, relax_tensor::DType)> {
    let Type::Tensor(t) = &m.types[ty] else {
        return None;
    };
    let (Shape::Dims(dims), DTy::Known(dtype)) = (&t.shape, t.dtype) else {
        return None;
    };
    let dims = dims.iter().map(|d| d.as_const()).collect::<Option<_>>()?;
    Some((dims, dtype))
}

/// A call of a program: the program, its arguments, and the variable of the result.
type Step<'m> = (&'m Program, Vec<VarId>, VarId);

fn step<'m>(m: &'m Module, var: VarId, e: ExprId) -> Option<Step<'m>> {
    if called_op(m, e)?.hooks.lowering != Lowering::CallTir {
        return None;
    }
    let Expr::Call { args, .. } = m.exprs[e] else {
        return None;
    };
    let args = m.list(args);
    let Expr::Global(g) = m.exprs[*args.first()?] else {
        return None;
    };
    let GlobalKind::Prim(program) = &m.globals[g].kind else {
        return None;
    };
    let Expr::Tuple(fields) = m.exprs[*args.get(1)?] else {
        return None;
    };
    let operand = |&f: &ExprId| match m.exprs[f] {
        Expr::Var(v) => Some(v),
        _ => None,
    };
    let operands = m
        .list(fields)
        .iter()
        .map(operand)
        .collect::<Option<Vec<_>>>()?;
    let plain = program.dims.is_empty()
        && program.outputs.len() == 1
        && program.inputs.len() == operands.len();
    plain.then_some((&**program, operands, var))
}

/// The program of a function, and the type of what it gives.
fn merged(
    m: &mut Module,
    typing: &Typing,
    name: Symbol,
    params: &[VarId],
    code: &Code,
) -> Option<(Program, TypeId)> {
    let [seq] = &code.seqs[..] else {
        return None;
    };
    let mut value = seq.value;
    let mut steps = Vec::new();
    let mut names: FxHashMap<VarId, VarId> = FxHashMap::default();
    for b in seq.parts.iter().flat_map(|p| &p.binds) {
        let e = b.expr()?;
        match m.exprs[e] {
            Expr::Var(v) => {
                names.insert(b.var, names.get(&v).copied().unwrap_or(v));
            }
            _ => steps.push(step(m, b.var, e)?),
        }
    }
    if let Expr::Tuple(_) = m.exprs[value] {
        value = seq.value;
    }
    let Expr::Var(out) = m.exprs[value] else {
        return None;
    };
    let out = names.get(&out).copied().unwrap_or(out);
    tensor(m, typing.vars[out])?;
    let mut new = Merge {
        program: Program::new(name),
        of: FxHashMap::default(),
    };
    for &p in params {
        let (shape, dtype) = tensor(m, typing.vars[p])?;
        let shape = shape.into_iter().map(Ex::idx).collect();
        let buf = new.buffer(m.vars[p].name, dtype, shape, Role::Input);
        new.program.inputs.push(buf);
        new.of.insert(p, buf);
    }
    let found = steps.iter().any(|s| s.2 == out);
    for (program, operands, var) in steps.into_iter().filter(|_| found) {
        let role = match var == out {
            true => Role::Output,
            false => Role::Temp,
        };
        let operands: Vec<VarId> = (operands.into_iter())
            .map(|v| names.get(&v).copied().unwrap_or(v))
            .collect();
        new.add(program, &operands, var, role)?;
    }
    let buf = *new.of.get(&out).filter(|_| found)?;
    new.program.outputs.push(buf);
    Some((new.program, typing.vars[out]))
}

struct Merge {
    program: Program,
    of: FxHashMap<VarId, Buf>,
}

impl Merge {
    fn buffer(
        &mut self,
        name: Symbol,
        dtype: relax_tensor::DType,
        shape: Vec<Ex>,
        role: Role,
    ) -> Buf {
        let taken = |p: &Program, n: Symbol| p.bufs.values().any(|b| b.name == n);
        let (mut unique, mut i) = (name, 0);
        while taken(&self.program, unique) {
            i += 1;
            unique = Symbol::new(&format!("{name}_{i}"));
        }
        self.program.bufs.push(relax_loops::Buffer {
            name: unique,
            dtype,
            shape,
            role,
        })
    }

    /// Adds what a program does; `None` where that is more than loops over known extents.
    fn add(&mut self, p: &Program, operands: &[VarId], var: VarId, role: Role) -> Option<()> {
        let mut bufs: FxHashMap<Buf, Buf> = FxHashMap::default();
        for (&input, v) in p.inputs.iter().zip(operands) {
            bufs.insert(input, *self.of.get(v)?);
        }
        for (id, b) in p.bufs.iter() {
            if bufs.contains_key(&id) {
                continue;
            }
            let role = match b.role {
                Role::Output => role,
                other => other,
            };
            let new = self.buffer(b.name, b.dtype, b.shape.clone(), role);
            bufs.insert(id, new);
            if p.outputs.contains(&id) {
                self.of.insert(var, new);
            }
        }
        let mut vars: FxHashMap<Var, Var> = FxHashMap::default();
        for (id, info) in p.vars.iter() {
            vars.insert(id, self.program.vars.push(info.clone()));
        }
        let expr = |e: &Ex| {
            map_expr(e, |x| match x.kind() {
                ExKind::Var(v) => Some(Ex::var(vars[v], x.dtype())),
                ExKind::Load(b, index) => {
                    Some(Ex::new(ExKind::Load(bufs[b], index.clone()), x.dtype()))
                }
                _ => None,
            })
        };
        for stage in &p.stages {
            let mut stage = stage.clone();
            match &mut stage {
                Stage::Compute(c) => {
                    c.out = bufs[&c.out];
                    c.value = expr(&c.value);
                    c.axes.iter_mut().for_each(|v| *v = vars[v]);
                    for (v, extent) in c.reduce.iter_mut().flat_map(|r| &mut r.axes) {
                        (*v, *extent) = (vars[v], expr(extent));
                    }
                }
                Stage::Nest(body) => {
                    let mut open: Vec<&mut Stmt> = body.iter_mut().collect();
                    while let Some(s) = open.pop() {
                        for e in s.exprs_mut() {
                            *e = expr(e);
                        }
                        match s {
                            Stmt::For { var, body, .. } => {
                                *var = vars[var];
                                open.extend(body.iter_mut());
                            }
                            Stmt::While { body, .. } => open.extend(body.iter_mut()),
                            Stmt::If {
                                then, otherwise, ..
                            } => open.extend(then.iter_mut().chain(otherwise.iter_mut())),
                            Stmt::Store { buf, .. } | Stmt::Alloc { buf } => *buf = bufs[buf],
                            Stmt::Let { var, .. } => *var = vars[var],
                            Stmt::Init { over, body } => {
                                over.iter_mut().for_each(|v| *v = vars[v]);
                                open.extend(body.iter_mut());
                            }
                            Stmt::Assert { .. } => return None,
                        }
                    }
                }
            }
            self.program.stages.push(stage);
        }
        Some(())
    }
}

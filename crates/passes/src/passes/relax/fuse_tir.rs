//! `fuse-tir`: lowers a function that is one kernel (`Primitive`) to one tensor program.
//!
//! The programs that it calls are concatenated; intermediate results become buffers of the new
//! program. If all of them have texts, the new one has a text too ([`fuse_text`]), which is its
//! only definition if loops over known extents cannot express it: symbolic programs, several
//! results, programs that modify their arguments.

use std::sync::Arc;

use relax_base::{Diagnostics, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Expr, ExprId, FuncId, GlobalId, GlobalKind, Kept, Module, Shape, Type, TypeId, VarId,
};
use relax_loops::{Buf, Ex, ExKind, Program, Role, Stage, Stmt, Var, map_expr};
use relax_ops::Lowering;
use relax_sym::Dim;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{expand_tuples, fuse_text, kept, private, unused, unused_parameters};
use crate::code::{Code, Value, each_code, each_typed_code};
use crate::edit::Edit;
use crate::util::{called_op, extents_of, has_flag};
use crate::{Contract, PassCx, PassDef, parallel};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "fuse-tir",
    doc: "Functions that are one kernel become one tensor program.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    if cx.module.is_script() {
        if expand_tuples::expand(cx)? > 0 {
            expand_tuples::finish(cx)?;
        }
        if unused_parameters::narrow(cx)? > 0 {
            expand_tuples::finish(cx)?;
        }
    }
    let typing = cx.typing()?;
    let m = &mut *cx.module;
    let open = unknown_results(m, &typing);
    let mut fused: FxHashMap<GlobalId, Fused> = FxHashMap::default();
    let mut functions = Vec::new();
    for g in private::called_only(m, |f| has_flag(f, "Primitive")) {
        let f = m.global_func(g).expect("a function");
        if !open.contains(&g)
            && let Some(code) = Code::of(m, m.funcs[f].body)
        {
            functions.push((g, f, code));
        }
    }
    // Texts are made of what the module says before any function becomes a program.
    let texts: Vec<_> = {
        let m = &*m;
        let parsed = fuse_text::texts(m, functions.iter().map(|f| &f.2));
        let text = |(g, f, code): &(GlobalId, FuncId, Code)| {
            fuse_text::merged(
                m,
                &typing,
                m.globals[*g].name,
                &m.funcs[*f].params,
                code,
                &parsed,
            )
        };
        parallel::mapped(&functions, text)
    };
    for ((g, f, code), text) in functions.into_iter().zip(texts) {
        let params = m.funcs[f].params.clone();
        let (name, span) = (m.globals[g].name, m.globals[g].span);
        let inplace = text.as_ref().map_or(Vec::new(), |t| t.inplace.clone());
        let program = merged(m, &typing, name, &params, &code).filter(|_| inplace.is_empty());
        if text.is_none() && program.is_none() {
            continue;
        }
        let program = program.map(|p| Arc::new(p.0));
        if let (Some(text), Some(script)) = (text, &mut m.script) {
            Arc::make_mut(script).kept.push(Kept {
                name,
                text: text.text.into(),
                symbols: text.symbols,
                why: "a tensor program that was made of others",
                span,
                program: program.clone(),
                inplace: None,
            });
        }
        let text_alone = program.is_none();
        if let Some(program) = program {
            m.globals[g].kind = GlobalKind::Prim(program);
        }
        let new = Fused {
            inplace,
            text_alone,
        };
        fused.insert(g, new);
    }
    if !fused.is_empty() {
        each_typed_code(&mut Edit::new(m, &typing), |edit, _, code| {
            calls(edit, code, &fused)
        });
        let gone = |g: &GlobalId| fused.get(g).is_some_and(|f| f.text_alone);
        let keep = m.globals.ids().filter(|g| !gone(g)).collect();
        m.retain_globals(&keep);
        unused::unused_functions(m);
    }
    cx.count("programs made", fused.len() as u64);
    Ok(())
}

/// A function that has become a program.
struct Fused {
    /// The argument that each result is written to, -1 for new ones; empty if all are new.
    inplace: Vec<i64>,
    /// Whether its text is its only definition.
    text_alone: bool,
}

/// Returns the functions that have a call whose result has unknown extents, or an argument with an
/// unknown shape.
fn unknown_results(m: &mut Module, typing: &Typing) -> FxHashSet<GlobalId> {
    let mut open = FxHashSet::default();
    each_code(m, |m, _, code| {
        for b in code.binds() {
            if let Some(e) = b.expr()
                && let Expr::Call { callee, args, .. } = m.exprs[e]
                && let Expr::Global(g) = m.exprs[callee]
            {
                let shaped = |&a: &ExprId| match m.exprs[a] {
                    Expr::Var(v) => numbers(m, typing.vars[v]).is_some(),
                    _ => true,
                };
                let given = m.list(args).iter().all(shaped);
                if !given || fuse_text::tensors(m, typing.vars[b.var]).is_none() {
                    open.insert(g);
                }
            }
        }
        false
    });
    open
}

/// Returns the numbers that a shape argument expands to, none for other values; `None` if they are
/// unknown.
fn numbers(m: &Module, ty: TypeId) -> Option<Vec<Dim>> {
    match &m.types[ty] {
        Type::Shape(Shape::Dims(dims)) => dims.iter().all(Dim::is_known).then(|| dims.to_vec()),
        Type::Shape(_) => None,
        _ => Some(Vec::new()),
    }
}

/// Rewrites the calls of functions that have become programs.
fn calls(edit: &mut Edit<'_>, code: &mut Code, fused: &FxHashMap<GlobalId, Fused>) -> bool {
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
        let Some(own) = fused.get(&g) else {
            continue;
        };
        let ty = edit.var_ty(b.var);
        let Some(outs) = fuse_text::tensors(edit.m, ty) else {
            continue;
        };
        let args = edit.m.list(args).to_vec();
        let args = arguments(edit, &args, b.span);
        let args = edit.tuple(&args, b.span);
        let callee = match own.text_alone {
            true => {
                let name = edit.m.globals[g].name;
                edit.m.add(Expr::Extern(name), b.span)
            }
            false => callee,
        };
        let call = match own.inplace.is_empty() {
            true => called(edit, own, callee, args, outs, b.span),
            false => {
                let indices = own.inplace.iter().map(|&i| AttrValue::Int(i));
                let indices = [("inplace_indices", AttrValue::array(indices))];
                let given = [("gvar", callee), ("args", args)];
                let name = ("call_tir_inplace", false);
                kept::typed_call(edit.m, name, &given, &indices, &[ty], b.span)
            }
        };
        edit.set_ty(call, ty);
        b.value = Value::Plain(call);
        changed = true;
    }
    changed
}

/// Returns the arguments of a call, with shapes expanded to numbers.
fn arguments(edit: &mut Edit<'_>, args: &[ExprId], span: relax_base::Span) -> Vec<ExprId> {
    let mut all = Vec::with_capacity(args.len());
    for &a in args {
        let dims = match &edit.m.exprs[a] {
            Expr::Shape(dims) => dims.to_vec(),
            Expr::Var(v) => numbers(edit.m, edit.var_ty(*v)).unwrap_or_default(),
            _ => Vec::new(),
        };
        let shape = match edit.m.exprs[a] {
            Expr::Var(v) => matches!(edit.m.types[edit.var_ty(v)], Type::Shape(_)),
            ref e => matches!(e, Expr::Shape(_)),
        };
        if !shape {
            all.push(a);
        }
        for d in dims {
            let value = [("value", AttrValue::dim(d))];
            all.push(edit.call("relax.value", &[], &value, span));
        }
    }
    all
}

/// Creates a call of a program that allocates its results.
fn called(
    edit: &mut Edit<'_>,
    own: &Fused,
    callee: ExprId,
    args: ExprId,
    outs: Vec<(Vec<Dim>, relax_tensor::DType)>,
    span: relax_base::Span,
) -> ExprId {
    let (mut shapes, mut dtypes) = (Vec::new(), Vec::new());
    for (dims, dtype) in outs {
        shapes.push(edit.m.add(Expr::Shape(dims.into()), span));
        dtypes.push(AttrValue::DType(dtype));
    }
    let (shape, dtype) = match (&shapes[..], &dtypes[..]) {
        ([shape], [dtype]) => (*shape, dtype.clone()),
        _ => (edit.tuple(&shapes, span), AttrValue::Array(dtypes.into())),
    };
    let op = match own.text_alone {
        true => "call_dps_packed",
        false => "call_tir",
    };
    edit.call(op, &[callee, args, shape], &[("dtype", dtype)], span)
}

/// A call of a program: the program, its arguments, and the result variable.
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

/// Returns the fused program of a function, and its result type.
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
    let value = seq.value;
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
    let Expr::Var(out) = m.exprs[value] else {
        return None;
    };
    let out = names.get(&out).copied().unwrap_or(out);
    extents_of(m, typing.vars[out])?;
    let mut new = Merge {
        program: Program::new(name),
        of: FxHashMap::default(),
    };
    for &p in params {
        let (shape, dtype) = extents_of(m, typing.vars[p])?;
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

    /// Appends a program; `None` if it is more than loops over known extents.
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

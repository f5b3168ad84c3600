//! A fused group of operators as one tensor program.
//!
//! The operators' programs are strung together over shared buffers; element-wise and injective stages
//! then move into the stage that reads them, where that repeats no work.

use std::fmt::Write as _;

use relax_base::{Diagnostic, Symbol};
use relax_infer::Typing;
use relax_ir::{Expr, ExprId, FuncId, Module, Type, TypeId, dim_to_ex};
use relax_loops::{
    Buf, Builder, Compute, Ex, ExKind, Hint, Program, Reduce, Role, Stage, Stmt, TensorRef, Var,
    drop_unused, extents, map_expr, statements, visit_expr,
};
use relax_ops::registry;
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::{codes, programs};

mod inline;

use inline::inline;

/// The program of a function whose body is operator calls, tuples and projections, and what it is
/// called: the operators' names.
///
/// # Errors
/// An operator in the group has no computation for these types.
pub fn program(
    m: &Module,
    typing: &Typing,
    f: FuncId,
) -> Result<(Program, String), Box<Diagnostic>> {
    let func = &m.funcs[f];
    let mut b = Builder::new("fused");
    // The tensors that each value consists of.
    let mut values: FxHashMap<ExprId, Vec<TensorRef>> = FxHashMap::default();
    let mut vars = FxHashMap::default();
    let mut number = 0;
    // The dimension variables of the types, as extents of the program.
    let mut known = Extents::default();
    for &p in &func.params {
        let infos = programs::flatten(m, typing.vars[p])
            .ok_or_else(|| unknown(m, func.span, typing.vars[p]))?;
        let mut tensors = Vec::new();
        for info in infos {
            tensors.push(b.input(&format!("p{number}"), info.dtype, &info.shape));
            number += 1;
        }
        note(m, typing.vars[p], &tensors, &mut known);
        vars.insert(p, tensors);
    }
    let mut names = Vec::new();
    for e in m.post_order([func.body]) {
        let span = m.span(e);
        let refuse = |what: &str| {
            let text = format!("a fused group cannot hold {what}");
            Box::new(Diagnostic::error(codes::NOT_NATIVE, span, text))
        };
        let tensors = match &m.exprs[e] {
            Expr::Op(_) => continue,
            Expr::Var(v) => vars
                .get(v)
                .cloned()
                .ok_or_else(|| refuse("a variable from outside"))?,
            Expr::Tuple(fields) => m
                .list(*fields)
                .iter()
                .flat_map(|f| values[f].iter().cloned())
                .collect(),
            Expr::Proj { tuple, index } => {
                let before = width(m, typing, *tuple, 0, *index);
                let n = width(m, typing, *tuple, *index, *index + 1);
                values[tuple][before..before + n].to_vec()
            }
            Expr::Const(c) => {
                let t = &m.consts[*c];
                if !t.is_scalar() {
                    return Err(refuse("a constant that is no scalar"));
                }
                let value = if t.dtype().is_float() {
                    Ex::float(t.dtype(), t.get_f64(0))
                } else {
                    Ex::int(t.dtype(), t.get_i64(0))
                };
                vec![b.compute("constant", &[], |_| value)]
            }
            Expr::Call {
                callee,
                args,
                attrs,
                ..
            } => {
                let Expr::Op(op) = m.exprs[*callee] else {
                    return Err(refuse("a call of a function"));
                };
                let Some(def) = registry().get(op) else {
                    return Err(refuse("this operator"));
                };
                let args = m.list(*args);
                let types: Vec<TypeId> = args.iter().map(|&a| type_of(m, typing, a)).collect();
                let consts = args
                    .iter()
                    .map(|&a| match m.exprs[a] {
                        Expr::Const(c) => Some(m.consts[c].clone()),
                        _ => None,
                    })
                    .collect();
                let out = typing.exprs[e];
                let part = programs::op_program(m, def, &types, out, m.attrs(*attrs), consts, span)
                    .map_err(Box::new)?;
                let inputs: Vec<TensorRef> = args
                    .iter()
                    .flat_map(|a| values[a].iter().cloned())
                    .collect();
                names.push(def.name);
                b.program.parts.push(span);
                let given = given(m, out, &part, &known);
                let made = append(&mut b.program, &part, &inputs, given);
                note(m, out, &made, &mut known);
                made
            }
            _ => return Err(refuse("control flow")),
        };
        values.insert(e, tensors);
    }
    let outs = values[&func.body].clone();
    for t in &outs {
        b.output(t);
    }
    let mut program = b.program;
    program.name = Symbol::new(&names.join("+"));
    program.span = func.span;
    if !program.dims.is_empty() {
        let types = func.params.iter().map(|&p| typing.vars[p]);
        extents::share(&mut program, &programs::known_extents(m, types));
    }
    inline(&mut program);
    extents::simplify_indices(&mut program);
    drop_unused(&mut program);
    relax_loops::epilogue::split(&mut program);
    Ok((program, names.join("+")))
}

/// What decides the program of a function: those with the same key have the same one, but for places in text. `None` for
/// what is no group of operators.
pub fn key(m: &Module, typing: &Typing, f: FuncId) -> Option<String> {
    let func = &m.funcs[f];
    let mut out = String::new();
    let mut params = FxHashMap::default();
    for (k, &p) in func.params.iter().enumerate() {
        params.insert(p, k);
        let _ = write!(out, "{} ", typing.vars[p].0);
    }
    let mut numbers: FxHashMap<ExprId, usize> = FxHashMap::default();
    for e in m.post_order([func.body]) {
        let of = |e: &ExprId| numbers.get(e).copied().unwrap_or(usize::MAX);
        let _ = match &m.exprs[e] {
            Expr::Op(op) => write!(out, "op {}", op.0),
            Expr::Var(v) => write!(out, "%{}", params.get(v)?),
            Expr::Tuple(fields) => {
                let fields: Vec<usize> = m.list(*fields).iter().map(of).collect();
                write!(out, "{fields:?}")
            }
            Expr::Proj { tuple, index } => write!(out, "{}.{index}", of(tuple)),
            Expr::Const(c) if m.consts[*c].is_scalar() => {
                write!(out, "{:?} {:?}", m.consts[*c].dtype(), m.consts[*c].bytes())
            }
            Expr::Call {
                callee,
                args,
                attrs,
                ..
            } => {
                let args: Vec<usize> = m.list(*args).iter().map(of).collect();
                let (ty, attrs) = (typing.exprs[e].0, m.attrs(*attrs));
                write!(out, "{}{args:?} {ty} {attrs:?}", of(callee))
            }
            _ => return None,
        };
        out.push(';');
        numbers.insert(e, numbers.len());
    }
    Some(out)
}

fn type_of(m: &Module, typing: &Typing, e: ExprId) -> TypeId {
    match m.exprs[e] {
        Expr::Var(v) => typing.vars[v],
        _ => typing.exprs[e],
    }
}

fn unknown(m: &Module, span: relax_base::Span, ty: TypeId) -> Box<Diagnostic> {
    let text = format!(
        "a fused group cannot be compiled for a parameter of type {}",
        m.show_type(ty)
    );
    Box::new(Diagnostic::error(codes::UNKNOWN_RANK, span, text))
}

/// Number of tensors in the fields `from..to` of a tuple.
fn width(m: &Module, typing: &Typing, tuple: ExprId, from: u32, to: u32) -> usize {
    let Type::Tuple(fields) = &m.types[type_of(m, typing, tuple)] else {
        return 0;
    };
    fields[from as usize..to as usize]
        .iter()
        .map(|&t| programs::flatten(m, t).map_or(0, |v| v.len()))
        .sum()
}

/// What dimensions of types are in a program: variables, and what is computed of them (`(h + 15) // 48`).
type Extents = FxHashMap<Dim, Ex>;

/// Learns dimensions from tensors of a type.
fn note(m: &Module, ty: TypeId, tensors: &[TensorRef], known: &mut Extents) {
    for (dims, t) in programs::dims(m, ty).zip(tensors) {
        for (d, extent) in dims.unwrap_or_default().iter().zip(&t.shape) {
            if d.is_known() && d.as_const().is_none() {
                known.entry(d.clone()).or_insert_with(|| extent.clone());
            }
        }
    }
}

/// Extents of a part's outputs that its inputs do not say, by the type of its result: `newshape=[n, n]` where
/// another operand of the group has the extent `n`.
fn given(m: &Module, ty: TypeId, part: &Program, known: &Extents) -> FxHashMap<Var, Ex> {
    let mut out = FxHashMap::default();
    for (dims, buf) in programs::dims(m, ty).zip(&part.outputs) {
        for (d, extent) in dims.unwrap_or_default().iter().zip(&part.bufs[*buf].shape) {
            let ExKind::Var(v) = extent.kind() else {
                continue;
            };
            let whole = known.get(d).cloned();
            let found = whole.or_else(|| dim_to_ex(d, |v| known.get(&Dim::var(v)).cloned()));
            if let Some(ex) = found {
                out.entry(*v).or_insert(ex);
            }
        }
    }
    out
}

/// Copies the stages of `part` into `program`, reading `inputs`; returns the outputs. `given` are dimension variables
/// of the part that its inputs may not bind.
fn append(
    program: &mut Program,
    part: &Program,
    inputs: &[TensorRef],
    given: FxHashMap<Var, Ex>,
) -> Vec<TensorRef> {
    // Programs that are chained are no parts of a group.
    let number = (program.parts.len() as u32).saturating_sub(1);
    let mut vars: FxHashMap<Var, Ex> = FxHashMap::default();
    // Dimension variables are the inputs' extents.
    for (&buf, t) in part.inputs.iter().zip(inputs) {
        for (e, extent) in part.bufs[buf].shape.iter().zip(&t.shape) {
            if let ExKind::Var(v) = e.kind() {
                vars.entry(*v).or_insert_with(|| extent.clone());
            }
        }
    }
    for (v, extent) in given {
        vars.entry(v).or_insert(extent);
    }
    for (v, info) in part.vars.iter() {
        if vars.contains_key(&v) {
            continue;
        }
        let (new, e) = program.fresh(info.name.as_str(), info.dtype);
        if part.dims.contains(&v) {
            // No input says it (`newshape=[n, 4]`): an extent of the output may.
            program.dims.push(new);
        }
        vars.insert(v, e);
    }
    let mut bufs: FxHashMap<Buf, Buf> = part
        .inputs
        .iter()
        .zip(inputs)
        .map(|(&b, t)| (b, t.buf))
        .collect();
    // Extents may read buffers: ids first, extents afterwards.
    for (b, buffer) in part.bufs.iter() {
        bufs.entry(b).or_insert_with(|| {
            let mut buffer = buffer.clone();
            if buffer.role == Role::Output {
                buffer.role = Role::Temp;
            }
            program.bufs.push(buffer)
        });
    }
    let map = |e: &Ex| -> Ex {
        map_expr(e, |x| match x.kind() {
            ExKind::Var(v) => vars.get(v).cloned(),
            ExKind::Load(b, ix) => Some(Ex::new(ExKind::Load(bufs[b], ix.clone()), x.dtype())),
            _ => None,
        })
    };
    for (b, buffer) in part.bufs.iter() {
        if !part.inputs.contains(&b) {
            program.bufs[bufs[&b]].shape = buffer.shape.iter().map(&map).collect();
        }
    }
    let var = |v: Var| match vars[&v].kind() {
        ExKind::Var(v) => *v,
        _ => unreachable!("only dimension variables stand for extents"),
    };
    for buf in read_by_data(part) {
        program.readers.push((bufs[&buf], number));
    }
    for stage in &part.stages {
        let stage = match stage {
            Stage::Compute(c) => Stage::Compute(Compute {
                out: bufs[&c.out],
                axes: c.axes.iter().map(|&v| var(v)).collect(),
                reduce: c.reduce.as_ref().map(|r| Reduce {
                    axes: r.axes.iter().map(|(v, e)| (var(*v), map(e))).collect(),
                    combiner: r.combiner,
                }),
                value: map(&c.value),
            }),
            Stage::Nest(stmts) => Stage::Nest(
                stmts
                    .iter()
                    .map(|s| statement(s, &map, &var, &bufs, number))
                    .collect(),
            ),
        };
        // Checks of extents come first: nothing is computed in vain, and stages stay side by side.
        if stage.is_guard() {
            let at = program.stages.iter().take_while(|s| s.is_guard()).count();
            program.stages.insert(at, stage);
        } else {
            program.stages.push(stage);
        }
    }
    for (b, hint) in &part.hints {
        program.hints.push((bufs[b], rename(hint, &bufs)));
    }
    part.outputs
        .iter()
        .map(|o| {
            let buffer = &program.bufs[bufs[o]];
            TensorRef {
                buf: bufs[o],
                shape: buffer.shape.clone(),
                dtype: buffer.dtype,
            }
        })
        .collect()
}

/// One program that runs `first` and then `next`, whose input `at` is the only output of `first`. It reads what
/// `first` reads, and then the other inputs of `next` in their order. `None` where the extents of an input of
/// `next` cannot be said beforehand.
pub fn chain(first: &Program, next: &Program, at: usize) -> Option<Program> {
    let [out] = first.outputs[..] else {
        return None;
    };
    let mut program = first.clone();
    program.bufs[out].role = Role::Temp;
    program.outputs.clear();
    let between = TensorRef {
        buf: out,
        shape: program.bufs[out].shape.clone(),
        dtype: program.bufs[out].dtype,
    };
    let mut vars: FxHashMap<Var, Ex> = FxHashMap::default();
    for (e, extent) in next.bufs[next.inputs[at]].shape.iter().zip(&between.shape) {
        if let ExKind::Var(v) = e.kind() {
            vars.entry(*v).or_insert_with(|| extent.clone());
        }
    }
    let mut inputs = Vec::with_capacity(next.inputs.len());
    for (k, &buf) in next.inputs.iter().enumerate() {
        if k == at {
            inputs.push(between.clone());
            continue;
        }
        let mut buffer = next.bufs[buf].clone();
        for e in &mut buffer.shape {
            if let ExKind::Var(v) = e.kind()
                && !vars.contains_key(v)
            {
                let info = next.vars[*v].clone();
                let (new, extent) = program.fresh(info.name.as_str(), info.dtype);
                program.dims.push(new);
                vars.insert(*v, extent);
            }
            let mut said = true;
            visit_expr(e, |x| {
                said &= match x.kind() {
                    ExKind::Var(v) => vars.contains_key(v),
                    ExKind::Load(..) => false,
                    _ => true,
                }
            });
            said.then_some(())?;
            *e = relax_loops::substitute(e, &|v| vars.get(&v).cloned());
        }
        let (shape, dtype) = (buffer.shape.clone(), buffer.dtype);
        let buf = program.bufs.push(buffer);
        program.inputs.push(buf);
        inputs.push(TensorRef { buf, shape, dtype });
    }
    for t in append(&mut program, next, &inputs, FxHashMap::default()) {
        program.bufs[t.buf].role = Role::Output;
        program.outputs.push(t.buf);
    }
    Some(program)
}

/// A statement over other variables and buffers. Statements nest as deep as the operator's own
/// computation writes them.
fn statement(
    s: &Stmt,
    map: &dyn Fn(&Ex) -> Ex,
    var: &dyn Fn(Var) -> Var,
    bufs: &FxHashMap<Buf, Buf>,
    part: u32,
) -> Stmt {
    let block = |b: &[Stmt]| {
        let one = |s| statement(s, map, var, bufs, part);
        b.iter().map(one).collect()
    };
    match s {
        Stmt::For {
            var: v,
            extent,
            mark,
            body,
        } => Stmt::For {
            var: var(*v),
            extent: map(extent),
            mark: *mark,
            body: block(body),
        },
        Stmt::While { cond, body } => Stmt::While {
            cond: map(cond),
            body: block(body),
        },
        Stmt::If {
            cond,
            then,
            otherwise,
        } => Stmt::If {
            cond: map(cond),
            then: block(then),
            otherwise: block(otherwise),
        },
        Stmt::Store { buf, index, value } => Stmt::Store {
            buf: bufs[buf],
            index: index.iter().map(map).collect(),
            value: map(value),
        },
        Stmt::Let { var: v, value } => Stmt::Let {
            var: var(*v),
            value: map(value),
        },
        Stmt::Alloc { buf } => Stmt::Alloc { buf: bufs[buf] },
        Stmt::Init { over, body } => Stmt::Init {
            over: over.iter().map(|&v| var(v)).collect(),
            body: block(body),
        },
        Stmt::Assert {
            cond,
            message,
            values,
            part: _,
        } => Stmt::Assert {
            cond: map(cond),
            message: message.clone(),
            values: values.iter().map(map).collect(),
            part,
        },
    }
}

/// The buffers that a program reads or writes at indices that depend on elements of buffers.
fn read_by_data(program: &Program) -> Vec<Buf> {
    let mut found = Vec::new();
    let has_load = |e: &Ex| {
        let mut any = false;
        visit_expr(e, |x| any |= matches!(x.kind(), ExKind::Load(..)));
        any
    };
    let mut see = |e: &Ex| {
        visit_expr(e, |x| {
            if let ExKind::Load(buf, index) = x.kind()
                && index.iter().any(has_load)
            {
                found.push(*buf);
            }
        });
    };
    for stage in &program.stages {
        match stage {
            Stage::Compute(c) => see(&c.value),
            Stage::Nest(body) => statements(body).flat_map(Stmt::exprs).for_each(&mut see),
        }
    }
    found.extend(program.statements().filter_map(|s| match s {
        Stmt::Store { buf, .. } => Some(*buf),
        _ => None,
    }));
    found.sort();
    found.dedup();
    found
}

fn rename(hint: &Hint, bufs: &FxHashMap<Buf, Buf>) -> Hint {
    let mut hint = hint.clone();
    for buf in hint.operands_mut() {
        *buf = bufs[buf];
    }
    hint
}

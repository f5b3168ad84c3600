//! A fused group of operators as one tensor program.
//!
//! The operators' programs are composed over shared buffers; element-wise and injective stages are
//! then fused into the stages that read them, where that repeats no work.

use std::fmt::Write as _;

use relax_base::{Diagnostic, Symbol};
use relax_infer::Typing;
use relax_ir::{Expr, ExprId, FuncId, Module, Type, TypeId, dim_to_ex};
use relax_loops::compose::append;
use relax_loops::{Builder, Ex, ExKind, Program, TensorRef, Var, extents, settle};
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::{Call, Operator, codes, dims, flatten, known_extents};

/// The program of a function whose body consists of operator calls, tuples and projections, and its
/// label: the operators' names.
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
        let infos =
            flatten(m, typing.vars[p]).ok_or_else(|| unknown(m, func.span, typing.vars[p]))?;
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
            Expr::Call { callee, args, .. } => {
                if !matches!(m.exprs[*callee], Expr::Op(_)) {
                    return Err(refuse("a call of a function"));
                }
                let call = Call::find(m, typing, e, usize::MAX);
                let built_in = |c: &Call<'_>| matches!(c.op, Operator::BuiltIn(_));
                let call = call
                    .filter(built_in)
                    .ok_or_else(|| refuse("this operator"))?;
                let part = call.program().map_err(Box::new)?.program;
                let args = m.list(*args);
                let inputs: Vec<TensorRef> = args
                    .iter()
                    .flat_map(|a| values[a].iter().cloned())
                    .collect();
                names.push(call.op.name());
                b.program.parts.push(call.span);
                let given = given(m, call.out, &part, &known);
                let made = append(&mut b.program, &part, &inputs, given);
                note(m, call.out, &made, &mut known);
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
        extents::share(&mut program, &known_extents(m, types));
    }
    settle(&mut program);
    Ok((program, names.join("+")))
}

/// Returns the key that determines the program of a function: functions with equal keys have equal
/// programs, except for source locations. `None` for functions that are not groups of operators.
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

fn unknown(m: &Module, span: relax_base::Span, ty: TypeId) -> Box<Diagnostic> {
    let text = format!(
        "a fused group cannot be compiled for a parameter of type {}",
        m.show_type(ty)
    );
    Box::new(Diagnostic::error(codes::UNKNOWN_RANK, span, text))
}

/// Number of tensors in the fields `from..to` of a tuple.
fn width(m: &Module, typing: &Typing, tuple: ExprId, from: u32, to: u32) -> usize {
    let Type::Tuple(fields) = &m.types[typing.type_of(m, tuple)] else {
        return 0;
    };
    fields[from as usize..to as usize]
        .iter()
        .map(|&t| flatten(m, t).map_or(0, |v| v.len()))
        .sum()
}

/// The extents of types' dimensions in a program: variables, and expressions of them
/// (`(h + 15) // 48`).
type Extents = FxHashMap<Dim, Ex>;

/// Records dimensions from the tensors of a type.
fn note(m: &Module, ty: TypeId, tensors: &[TensorRef], known: &mut Extents) {
    for (dims, t) in dims(m, ty).zip(tensors) {
        for (d, extent) in dims.unwrap_or_default().iter().zip(&t.shape) {
            if d.is_known() && d.as_const().is_none() {
                known.entry(d.clone()).or_insert_with(|| extent.clone());
            }
        }
    }
}

/// The extents of a part's outputs that its inputs do not determine, by its result type:
/// `newshape=[n, n]` where another operand of the group has the extent `n`.
fn given(m: &Module, ty: TypeId, part: &Program, known: &Extents) -> FxHashMap<Var, Ex> {
    let mut out = FxHashMap::default();
    for (dims, buf) in dims(m, ty).zip(&part.outputs) {
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

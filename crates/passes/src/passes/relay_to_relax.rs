//! `relay-to-relax`: converts a Relay program to Relax's form.
//!
//! Unknown extents (`?`) of parameters become dimension variables, so that type inference tracks
//! them through the program, and functions are normalized (see `normalize`). Operators are the same
//! in both dialects here. Functions over any element type or rank, which Relax does not have, are
//! copied for the types that they are called with, as by `specialize`. Constructs without an
//! equivalent in Relax (references, data types, closures) are kept.

use relax_base::{Diagnostic, Diagnostics, Symbol};
use relax_infer::infer;
use relax_ir::{
    DimInfo, FuncId, Function, GlobalId, GlobalKind, Module, Shape, TensorType, Type, TypeId,
};
use relax_sym::{Dim, DimVar};

use super::normalize::normalize_but;
use super::specialize;
use crate::{Contract, Form, Options, PassCx, PassDef, codes};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relay-to-relax",
    doc: "Relay programs as Relax writes them: symbolic shapes for unknown extents, bindings, dataflow blocks.",
    options: &[],
    contract: Contract::TYPED.gives(&[Form::Relax]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    if specialize::is_open(cx.module, &typing) {
        let most = Options::defaults(&specialize::PASSES[0]).int("max-copies");
        specialize::copies(cx, most as usize)?;
    }
    let mut named = cx.module.clone();
    let count = name_unknowns(&mut named);
    if count > 0 {
        let options = cx.infer_options();
        if infer(&mut named, &options).1.has_errors() {
            // The program relies on unknown extents being equal to each other.
            let message = "unknown extents stay `?`: as variables they would not fit each other";
            let place = relax_base::Span::NONE;
            cx.diagnostics.push(Diagnostic::new(
                relax_base::Severity::Note,
                codes::UNKNOWN_KEPT,
                place,
                message,
            ));
        } else {
            *cx.module = named;
            cx.count("unknown extents named", count);
        }
    }
    // What was another compiler's has to be written as Relax is too, and what was to be one kernel:
    // the compiler that gets the program decides about that.
    normalize_but(cx, |_| false, true)
}

/// Names the unknown extents of the parameters of global functions; returns how many.
fn name_unknowns(m: &mut Module) -> u64 {
    let mut count = 0;
    let globals: Vec<(GlobalId, FuncId)> = (m.globals.iter())
        .filter(|g| !g.1.prelude)
        .filter_map(|(id, g)| match g.kind {
            GlobalKind::Func(f) => Some((id, f)),
            GlobalKind::Prim(_) => None,
        })
        .collect();
    for (global, func) in globals {
        let mut function: Function = m.funcs[func].clone();
        let mut made = Vec::new();
        for &param in &function.params {
            let Some(ty) = m.vars[param].ty else { continue };
            let new = named(m, ty, &function.dims, &mut made);
            if new != ty {
                m.vars[param].ty = Some(new);
            }
        }
        if made.is_empty() {
            continue;
        }
        count += made.len() as u64;
        function.dims.extend(made);
        // The declared result mentions unknown extents; the inferred one is more precise.
        function.ret = function.ret.filter(|&t| !mentions_unknown(m, t));
        m.set_global_func(global, function);
    }
    count
}

fn mentions_unknown(m: &Module, ty: TypeId) -> bool {
    let mut open = vec![ty];
    while let Some(t) = open.pop() {
        if let Type::Tensor(t) = &m.types[t]
            && t.shape.dims().is_some_and(|d| d.iter().any(Dim::is_any))
        {
            return true;
        }
        open.extend(m.types.children(t));
    }
    false
}

/// Returns the type of a parameter with names for its unknown extents: those of a tensor, or of a
/// tuple's tensors.
fn named(m: &mut Module, ty: TypeId, taken: &[DimVar], made: &mut Vec<DimVar>) -> TypeId {
    // Nested tuples are left unchanged: parameters of such types are rare.
    match m.types[ty].clone() {
        Type::Tensor(t) => tensor(m, ty, &t, taken, made),
        Type::Tuple(fields) => {
            let mut new = Vec::new();
            for &f in &fields {
                new.push(match m.types[f].clone() {
                    Type::Tensor(t) => tensor(m, f, &t, taken, made),
                    _ => f,
                });
            }
            m.types.tuple(new)
        }
        _ => ty,
    }
}

fn tensor(
    m: &mut Module,
    ty: TypeId,
    t: &TensorType,
    taken: &[DimVar],
    made: &mut Vec<DimVar>,
) -> TypeId {
    let Some(dims) = t.shape.dims().filter(|d| d.iter().any(Dim::is_any)) else {
        return ty;
    };
    let mut new = Vec::new();
    for d in dims {
        if !d.is_any() {
            new.push(d.clone());
            continue;
        }
        let used = |name: &str| {
            let mut all = taken.iter().chain(made.iter());
            all.any(|v| m.dims[*v].name.as_str() == name)
        };
        let name = ["n", "m", "k"].into_iter().map(String::from);
        let more = (0..).map(|i| format!("n{i}"));
        let name = name
            .chain(more)
            .find(|n| !used(n))
            .expect("there are endless names");
        let span = relax_base::Span::NONE;
        let info = DimInfo {
            name: Symbol::from(name.as_str()),
            span,
        };
        let var = m.dims.push(info);
        made.push(var);
        new.push(Dim::var(var));
    }
    m.types.intern(Type::Tensor(TensorType {
        shape: Shape::Dims(new.into()),
        dtype: t.dtype,
    }))
}

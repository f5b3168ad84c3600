//! `lower-shapes`: symbolic extents are computed once per call, and the types of an entry's
//! parameters are checked at the start of the program.
//!
//! * Equal `shape(…)` values of a function become one node: a value that is computed once, in the
//!   innermost scope that contains all its users. (The RFC keeps the same numbers in a heap of
//!   integers; here they are values of the program, reference-counted like others.)
//! * A parameter of an entry, whose caller was not type-checked, is matched against its type:
//!   `match_cast` fails at run time with the parameter's location and both extents.

use relax_base::Diagnostics;
use relax_ir::{DTy, Expr, ExprId, Function, Memo, Module, Shape, Type, VarStyle};
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

/// The functions whose parameters are checked.
pub(super) const OPTIONS: &[OptionDef] = &[
    OptionDef {
        name: "entry",
        ty: OptionType::Functions,
        default: "main",
        doc: "the functions whose parameters are checked, separated by spaces",
    },
    OptionDef {
        name: "checks",
        ty: OptionType::Bool,
        default: "true",
        doc: "check the parameters of entries",
    },
];

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "lower-shapes",
    doc: "Computes symbolic extents once, and checks the entries' parameters at run time.",
    options: OPTIONS,
    contract: Contract::TYPED,
    run,
}];

pub(super) fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let entries = cx.options.functions("entry");
    let checks = cx.options.flag("checks");
    let m = &mut *cx.module;
    let (mut shared, mut checked) = (0, 0);
    for (global, body) in m.global_bodies() {
        let mut known: FxHashMap<Box<[Dim]>, ExprId> = FxHashMap::default();
        let mut memo = Memo::default();
        let new = m.rewrite(body, &mut memo, |m, new, _| match &m.exprs[new] {
            Expr::Shape(dims) if dims.iter().any(|d| d.as_const().is_none()) => {
                let dims = dims.clone();
                let node = *known.entry(dims).or_insert(new);
                shared += u64::from(node != new);
                node
            }
            _ => new,
        });
        m.set_global_body(global, new);
        let is_entry = entries.contains(&m.globals[global].name) || m.expression == Some(global);
        if checks && is_entry {
            checked += check_params(m, &typing, global);
        }
    }
    cx.count("shapes shared", shared);
    cx.count("parameters checked", checked);
    Ok(())
}

/// Inserts matches of a function's parameters against their types before its body.
fn check_params(m: &mut Module, typing: &relax_infer::Typing, global: relax_ir::GlobalId) -> u64 {
    let func = m.global_func(global).expect("it has a body");
    let function = m.funcs[func].clone();
    let mut values = FxHashMap::default();
    let mut bindings = Vec::new();
    for &p in &function.params {
        let ty = typing.vars[p];
        if (ty.0 as usize) >= m.types.len() {
            continue;
        }
        let Type::Tensor(t) = &m.types[ty] else {
            continue;
        };
        // Type parameters that inference made up have no name.
        let named = |p| function.type_params.contains(p);
        let spoken = match (&t.shape, &t.dtype) {
            (Shape::Param(p), _) | (_, DTy::Param(p)) => named(p),
            _ => true,
        };
        if !spoken {
            continue;
        }
        let says_something = match &t.shape {
            Shape::Dims(_) => true,
            _ => matches!(t.dtype, DTy::Known(_)),
        };
        if !says_something {
            continue;
        }
        let (name, span) = (m.vars[p].name, m.vars[p].span);
        let param = m.add(Expr::Var(p), span);
        let cast = m.add(Expr::MatchCast { value: param, ty }, span);
        let (var, reference) = m.fresh_var(name, None, VarStyle::Binding);
        values.insert(p, reference);
        bindings.push((var, cast));
    }
    let count = bindings.len() as u64;
    let mut body = m.substitute(function.body, &mut Memo::default(), &values);
    for (var, value) in bindings.into_iter().rev() {
        let span = m.span(value);
        body = m.add(Expr::Let { var, value, body }, span);
    }
    m.set_global_func(global, Function { body, ..function });
    count
}

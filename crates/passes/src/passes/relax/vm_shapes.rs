//! `relax-lower-shapes`: what the parameters of functions are is checked when these are called, as TVM's machine does it.
//!
//! A module in whose functions all extents are known gets the calls of TVM's runtime; one with symbols is lowered as
//! `lower-shapes` does it, with casts.

use relax_base::{Diagnostics, Span, Symbol};
use relax_ir::{
    AttrValue, Attrs, DTy, Expr, ExprId, FuncId, Module, Shape, Type, TypeId, VarId, VarStyle,
};
use relax_ops::registry;
use relax_tensor::DType;

use crate::code::{Bind, Part, each_code, fresh};
use crate::passes::lower_shapes;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-lower-shapes",
    doc: "Relax's vm-shape-lower: checks of parameters by TVM's runtime, where all extents are known.",
    options: lower_shapes::OPTIONS,
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let m = &*cx.module;
    let checked = |f: &FuncId| {
        let f = &m.funcs[*f];
        f.dims.is_empty() && f.params.iter().all(|&p| tensor(m, p).is_some())
    };
    let lowered = m.script.is_some()
        && m.globals
            .ids()
            .filter_map(|g| m.global_func(g))
            .all(|f| checked(&f));
    if !lowered {
        return lower_shapes::run(cx);
    }
    let names: Vec<(FuncId, Symbol)> = (m.globals.iter())
        .filter_map(|(id, g)| Some((m.global_func(id)?, g.name)))
        .collect();
    let mut count = 0;
    each_code(cx.module, |m, func, code| {
        let Some((_, name)) = names.iter().find(|n| n.0 == func) else {
            return false;
        };
        let params = m.funcs[func].params.clone();
        if params.is_empty() {
            return false;
        }
        let binds = checks(m, *name, &params);
        count += binds.len() as u64 - 1;
        let part = Part {
            flow: false,
            binds,
            outputs: Vec::new(),
            span: m.funcs[func].span,
        };
        code.seqs[0].parts.insert(0, part);
        true
    });
    cx.count("checks of parameters", count);
    Ok(())
}

/// Element type, extents and rank of a parameter, as far as its annotation says them.
type Known = (Option<DType>, Option<Vec<i64>>, Option<usize>);

fn tensor(m: &Module, p: VarId) -> Option<Known> {
    let Type::Tensor(t) = &m.types[m.vars[p].ty?] else {
        return None;
    };
    if m.var_attrs
        .get(&p)
        .is_some_and(|a| a.get("scalar").is_some())
    {
        return None;
    }
    let dtype = match t.dtype {
        DTy::Known(d) => Some(d),
        _ => None,
    };
    let dims = match &t.shape {
        Shape::Dims(dims) => dims,
        _ => return Some((dtype, None, None)),
    };
    let known: Option<Vec<i64>> = dims.iter().map(|d| d.as_const()).collect();
    let open = dims
        .iter()
        .all(|d| d.as_const().is_none() && d.free_vars().is_empty());
    match known {
        Some(known) => Some((dtype, Some(known), Some(dims.len()))),
        None if open => Some((dtype, None, Some(dims.len()))),
        None => None,
    }
}

fn annotation((dtype, dims, rank): &Known) -> String {
    let mut parts = Vec::new();
    if let Some(dims) = dims {
        let list: Vec<String> = dims.iter().map(i64::to_string).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        parts.push(format!("({}{comma})", list.join(", ")));
    }
    if let Some(dtype) = dtype {
        parts.push(format!("dtype=\"{dtype}\""));
    }
    if let (None, Some(rank)) = (dims, rank) {
        parts.push(format!("ndim={rank}"));
    }
    match parts.is_empty() {
        true => "R.Tensor".to_owned(),
        false => format!("R.Tensor({})", parts.join(", ")),
    }
}

fn checks(m: &mut Module, name: Symbol, params: &[VarId]) -> Vec<Bind> {
    let object = m.types.intern(Type::Object);
    let null = registry()
        .find("relax.null_value")
        .expect("the value that stands for none");
    let callee = m.add(Expr::Op(null), Span::NONE);
    let null = m.call(callee, &[], Span::NONE);
    let (heap, _) = fresh(m, "shape_heap", Some(object));
    let mut binds = vec![Bind::plain(heap, null, Span::NONE)];
    let known: Vec<Known> = params.iter().filter_map(|&p| tensor(m, p)).collect();
    let context = |m: &Module, i: usize| {
        let (p, of) = (m.vars[params[i]].name, annotation(&known[i]));
        format!("ErrorContext(fn={name}, loc=param[{i}], param={p}, annotation={of}) ")
    };
    for (i, k) in known.iter().enumerate() {
        let text = context(m, i);
        let rank = k.2.map_or(-1, |r| r as i64);
        let dtype = k.0.unwrap_or(DType::VOID);
        let arg = m.add(Expr::Var(params[i]), Span::NONE);
        let values = [
            AttrValue::Int(rank),
            AttrValue::DType(dtype),
            tagged("R.str", &text),
        ];
        binds.push(packed(m, "vm.builtin.check_tensor_info", &[arg], &values));
    }
    for (i, k) in known.iter().enumerate() {
        let Some(dims) = &k.1 else {
            continue;
        };
        let text = context(m, i);
        let mut values = vec![AttrValue::Int(dims.len() as i64)];
        for &d in dims {
            values.extend([AttrValue::Int(0), AttrValue::Int(d)]);
        }
        values.push(tagged("R.str", &text));
        let arg = m.add(Expr::Var(params[i]), Span::NONE);
        let heap = m.add(Expr::Var(heap), Span::NONE);
        binds.push(packed(m, "vm.builtin.match_shape", &[arg, heap], &values));
    }
    binds
}

fn tagged(tag: &str, text: &str) -> AttrValue {
    let text = AttrValue::Str(text.into());
    AttrValue::Dict([(Symbol::new(tag), text)].into_iter().collect())
}

/// A call of a function of TVM's runtime for what it checks.
fn packed(m: &mut Module, name: &str, args: &[ExprId], values: &[AttrValue]) -> Bind {
    let value = registry()
        .find("relax.value")
        .expect("values of Relax that are no tensors");
    let mut all = args.to_vec();
    for v in values {
        let callee = m.add(Expr::Op(value), Span::NONE);
        let attrs: Attrs = [(Symbol::new("value"), v.clone())].into_iter().collect();
        all.push(m.call_attrs(callee, &[], attrs, Span::NONE));
    }
    let callee = m.add(Expr::Extern(Symbol::new(name)), Span::NONE);
    let unit: TypeId = m.types.tuple(Vec::new());
    let (args, type_args) = (m.make_list(&all), m.make_type_args(&[unit]));
    let call = Expr::Call {
        callee,
        args,
        attrs: relax_ir::AttrsId::NONE,
        type_args,
    };
    let call = m.add(call, Span::NONE);
    let (var, _) = m.fresh_var("_", Some(unit), VarStyle::Effect);
    Bind::plain(var, call, Span::NONE)
}
